#pragma once

#if __cplusplus < 202002L
#error "hurray/hurray.hpp needs C++20 (-std=c++20)"
#endif

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hurray.h"

#include <hurray/types.hpp>

/// The C ABI as C++20: handles that destroy themselves, statuses that are exceptions. Header-only; needs libhurray and
/// the standard library, nothing else.
///
/// Rules for the whole header:
///  1. What is destroyed calls the C destroy function once. A moved-from object is empty: it can be destroyed and
///     assigned to, and nothing else.
///  2. A failing call throws StatusError with the status and the library's message. Destructors swallow failures.
///  3. `get()` lends the C handle, `release()` gives it up, the explicit constructor takes one over.
///  4. Threads: as hurray.h, one at a time per object.
namespace hurray {

/// A C function said no. `what()` is the library's message, prefixed with the status.
class StatusError : public std::runtime_error {
  public:
    StatusError(HurrayStatus status, const std::string& message)
        : std::runtime_error(std::string(hurray_status_string(status)) + ": " + message), status_(status) {}

    [[nodiscard]] HurrayStatus status() const noexcept { return status_; }

  private:
    HurrayStatus status_;
};

/// Throws StatusError unless `status` is HURRAY_OK. Call it right after the call that gave the status.
inline void throw_if_failed(HurrayStatus status) {
    if (status != HURRAY_OK) {
        throw StatusError(status, hurray_last_error_message());
    }
}

namespace detail {

/// Calls a C accessor and returns what it wrote.
template <class Value, class Handle>
[[nodiscard]] Value read_value(HurrayStatus (*accessor)(const Handle*, Value*), const Handle* handle) {
    Value value{};
    throw_if_failed(accessor(handle, &value));
    return value;
}

/// Runs a capacity-pattern function twice: for the length, then for the entries.
template <class Entry, class Call>
[[nodiscard]] std::vector<Entry> read_entries(Call call) {
    uintptr_t length = 0;
    if (const HurrayStatus status = call(nullptr, &length); status != HURRAY_ERR_BUFFER_TOO_SMALL) {
        throw_if_failed(status);
    }
    // One entry more than needed: an empty vector's pointer may be null, which is "too small" even for no entries.
    std::vector<Entry> entries(length + 1);
    throw_if_failed(call(entries.data(), &length));
    entries.resize(length);
    return entries;
}

struct DestroyBuffer {
    void operator()(HurrayBuffer* buffer) const noexcept { static_cast<void>(hurray_buffer_destroy(buffer)); }
};
struct DestroyBufferList {
    void operator()(HurrayBufferList* list) const noexcept { static_cast<void>(hurray_buffer_list_destroy(&list)); }
};
struct DestroyDescriptor {
    void operator()(HurrayDescriptor* descriptor) const noexcept {
        static_cast<void>(hurray_descriptor_destroy(descriptor));
    }
};
struct DestroyCompositeSet {
    void operator()(HurrayCompositeSet* set) const noexcept { static_cast<void>(hurray_composite_set_destroy(&set)); }
};
struct DestroyTensorContext {
    void operator()(HurrayTensorContext* context) const noexcept {
        static_cast<void>(hurray_tensor_context_destroy(&context));
    }
};

}  // namespace detail

/// What a buffer is, apart from its address.
struct BufferTraits {
    std::uint32_t alignment = kMinBufferAlignment;
    DeviceTag device = DeviceTag::Cpu;
    SyncMode sync_mode = SyncMode::ProducerSynced;
    MemoryClass memory_class = MemoryClass::Standard;
};

/// A buffer that somebody else owns: valid as long as that Buffer or BufferList.
class BufferRef {
  public:
    explicit BufferRef(HurrayBuffer* buffer) noexcept : buffer_(buffer) {}

    [[nodiscard]] void* data() const { return detail::read_value(hurray_buffer_data_ptr, constant()); }
    [[nodiscard]] std::uint64_t byte_size() const { return detail::read_value(hurray_buffer_byte_size, constant()); }
    [[nodiscard]] std::uint32_t alignment() const { return detail::read_value(hurray_buffer_alignment, constant()); }
    [[nodiscard]] DeviceTag device() const {
        return static_cast<DeviceTag>(detail::read_value(hurray_buffer_device_tag, constant()));
    }
    [[nodiscard]] SyncMode sync_mode() const {
        return static_cast<SyncMode>(detail::read_value(hurray_buffer_sync_mode, constant()));
    }
    [[nodiscard]] MemoryClass memory_class() const {
        return static_cast<MemoryClass>(detail::read_value(hurray_buffer_memory_class, constant()));
    }

    /// The bytes of a buffer in host memory; on other devices the address means nothing here.
    [[nodiscard]] std::span<std::byte> bytes() const {
        return {static_cast<std::byte*>(data()), static_cast<std::size_t>(byte_size())};
    }

    /// Throw (HURRAY_ERR_SYNC_MODE_MISMATCH) if the handoff does not fit what the producer declared.
    void check_producer_synced_handoff() const { throw_if_failed(hurray_buffer_handoff_producer_synced(buffer_)); }
    void check_event_handoff(const HurraySyncEventPayload& payload) const {
        throw_if_failed(hurray_buffer_handoff_event(buffer_, &payload));
    }
    void check_consumer_stream_handoff(const HurraySyncConsumerStreamPayload& payload) const {
        throw_if_failed(hurray_buffer_handoff_consumer_stream(buffer_, &payload));
    }

    [[nodiscard]] HurrayBuffer* get() const noexcept { return buffer_; }

  private:
    [[nodiscard]] const HurrayBuffer* constant() const noexcept { return buffer_; }

    HurrayBuffer* buffer_;
};

/// Owns a buffer handle, and with it the right to let the memory go.
class Buffer {
  public:
    /// Over memory that outlives the buffer: nothing runs at its end.
    Buffer(void* data, std::uint64_t byte_size, const BufferTraits& traits = {})
        : Buffer(data, byte_size, traits, nullptr, nullptr) {}

    /// `release(data, context)` runs once, when the handle is destroyed, by whoever owns it then.
    Buffer(void* data, std::uint64_t byte_size, const BufferTraits& traits, HurrayReleaseCallback release,
           void* context) {
        HurrayBuffer* made = nullptr;
        throw_if_failed(
            hurray_buffer_from_ptr(data, byte_size, traits.alignment, static_cast<std::uint8_t>(traits.device),
                                   static_cast<std::uint8_t>(traits.sync_mode),
                                   static_cast<std::uint8_t>(traits.memory_class), release, context, &made));
        handle_.reset(made);
    }

    /// `release(data)` runs once, when the handle is destroyed, by whoever owns it then, in any thread. It must not
    /// throw.
    Buffer(void* data, std::uint64_t byte_size, const BufferTraits& traits, std::function<void(void*)> release) {
        using Release = std::function<void(void*)>;
        auto kept = std::make_unique<Release>(std::move(release));
        *this = Buffer(
            data, byte_size, traits,
            [](void* bytes, void* context) {
                const std::unique_ptr<Release> taken(static_cast<Release*>(context));
                (*taken)(bytes);
            },
            kept.get());
        static_cast<void>(kept.release());
    }

    explicit Buffer(HurrayBuffer* handle) noexcept : handle_(handle) {}

    /// Lends the buffer for the calls of BufferRef.
    [[nodiscard]] BufferRef ref() const noexcept { return BufferRef(handle_.get()); }
    [[nodiscard]] BufferRef operator*() const noexcept { return ref(); }

    [[nodiscard]] HurrayBuffer* get() const noexcept { return handle_.get(); }
    [[nodiscard]] HurrayBuffer* release() noexcept { return handle_.release(); }

  private:
    std::unique_ptr<HurrayBuffer, detail::DestroyBuffer> handle_;
};

/// Owns buffers in the order of a descriptor's buffer table.
class BufferList {
  public:
    /// `capacity` is a hint.
    explicit BufferList(std::uint64_t capacity = 0) {
        HurrayBufferList* made = nullptr;
        throw_if_failed(hurray_buffer_list_new(capacity, &made));
        handle_.reset(made);
    }
    explicit BufferList(HurrayBufferList* handle) noexcept : handle_(handle) {}

    /// Takes `buffer` over; if that throws, `buffer` still goes, with the argument.
    void push(Buffer buffer) {
        throw_if_failed(hurray_buffer_list_push(handle_.get(), buffer.get()));
        static_cast<void>(buffer.release());
    }

    [[nodiscard]] std::uint64_t size() const {
        return detail::read_value(hurray_buffer_list_len, static_cast<const HurrayBufferList*>(handle_.get()));
    }

    /// Throws (HURRAY_ERR_INDEX_OUT_OF_BOUNDS) past the end.
    [[nodiscard]] BufferRef operator[](std::uint64_t index) const {
        HurrayBuffer* borrowed = nullptr;
        throw_if_failed(hurray_buffer_list_get(handle_.get(), index, &borrowed));
        return BufferRef(borrowed);
    }

    [[nodiscard]] HurrayBufferList* get() const noexcept { return handle_.get(); }
    [[nodiscard]] HurrayBufferList* release() noexcept { return handle_.release(); }

  private:
    std::unique_ptr<HurrayBufferList, detail::DestroyBufferList> handle_;
};

/// A decoded tensor descriptor.
class Descriptor {
  public:
    /// Decodes; throws if the bytes are no descriptor. They may go afterwards.
    explicit Descriptor(std::span<const std::uint8_t> bytes) {
        // A null pointer is an error of its own in C; an empty span is simply too short.
        constexpr std::uint8_t kNothing = 0;
        HurrayDescriptor* made = nullptr;
        throw_if_failed(hurray_descriptor_decode(bytes.empty() ? &kNothing : bytes.data(), bytes.size(), &made));
        handle_.reset(made);
    }
    explicit Descriptor(HurrayDescriptor* handle) noexcept : handle_(handle) {}

    [[nodiscard]] std::uint32_t rank() const { return detail::read_value(hurray_descriptor_rank, get_const()); }
    [[nodiscard]] std::vector<std::uint64_t> shape() const {
        return detail::read_entries<std::uint64_t>([this](std::uint64_t* dims, uintptr_t* rank) {
            return hurray_descriptor_shape(handle_.get(), dims, rank);
        });
    }
    /// In elements. Throws (HURRAY_ERR_UNSUPPORTED) for layouts that have none.
    [[nodiscard]] std::vector<std::int64_t> strides() const {
        return detail::read_entries<std::int64_t>([this](std::int64_t* strides, uintptr_t* rank) {
            return hurray_descriptor_strides(handle_.get(), strides, rank);
        });
    }
    [[nodiscard]] ElementType element_type() const {
        return static_cast<ElementType>(detail::read_value(hurray_descriptor_element_type_tag, get_const()));
    }
    [[nodiscard]] LayoutTag layout() const {
        return static_cast<LayoutTag>(detail::read_value(hurray_descriptor_layout_tag, get_const()));
    }
    /// Of the element with all-zero index, in buffer 0.
    [[nodiscard]] std::uint64_t byte_offset() const {
        return detail::read_value(hurray_descriptor_byte_offset, get_const());
    }
    [[nodiscard]] std::uint32_t buffer_count() const {
        return detail::read_value(hurray_descriptor_buffer_count, get_const());
    }
    /// Throws (HURRAY_ERR_INDEX_OUT_OF_BOUNDS) past the buffer table.
    [[nodiscard]] HurrayBufferEntry buffer_entry(std::uint32_t index) const {
        HurrayBufferEntry entry{};
        throw_if_failed(hurray_descriptor_buffer_entry(handle_.get(), index, &entry));
        return entry;
    }

    /// Throws unless the descriptor also makes sense: see hurray_descriptor_validate.
    void validate() const { throw_if_failed(hurray_descriptor_validate(handle_.get())); }

    /// The canonical bytes.
    [[nodiscard]] std::vector<std::uint8_t> encode() const {
        return detail::read_entries<std::uint8_t>([this](std::uint8_t* bytes, uintptr_t* length) {
            return hurray_descriptor_encode(handle_.get(), bytes, length);
        });
    }

    /// Every field as a JSON object: see hurray_descriptor_to_json.
    [[nodiscard]] std::string to_json() const {
        const std::vector<char> text = detail::read_entries<char>(
            [this](char* out, uintptr_t* length) { return hurray_descriptor_to_json(handle_.get(), out, length); });
        return {text.data(), text.size() - 1};
    }

    [[nodiscard]] HurrayDescriptor* get() const noexcept { return handle_.get(); }
    [[nodiscard]] HurrayDescriptor* release() noexcept { return handle_.release(); }

  private:
    [[nodiscard]] const HurrayDescriptor* get_const() const noexcept { return handle_.get(); }

    std::unique_ptr<HurrayDescriptor, detail::DestroyDescriptor> handle_;
};

/// A composite head and its members, checked while they are put together, depth first: see hurray_composite_set_new.
class CompositeSet {
  public:
    explicit CompositeSet(const Descriptor& head) {
        HurrayCompositeSet* made = nullptr;
        throw_if_failed(hurray_composite_set_new(head.get(), &made));
        handle_.reset(made);
    }
    explicit CompositeSet(HurrayCompositeSet* handle) noexcept : handle_(handle) {}

    /// Throws if `member` does not fit; the set is as before then.
    void add(const Descriptor& member) { throw_if_failed(hurray_composite_set_add(handle_.get(), member.get())); }
    /// Throws unless the set is complete.
    void finish() const { throw_if_failed(hurray_composite_set_finish(handle_.get())); }
    /// Those that were added, nested ones included.
    [[nodiscard]] std::uint64_t member_count() const {
        return detail::read_value(hurray_composite_set_member_count,
                                  static_cast<const HurrayCompositeSet*>(handle_.get()));
    }

    [[nodiscard]] HurrayCompositeSet* get() const noexcept { return handle_.get(); }
    [[nodiscard]] HurrayCompositeSet* release() noexcept { return handle_.release(); }

  private:
    std::unique_ptr<HurrayCompositeSet, detail::DestroyCompositeSet> handle_;
};

/// What a dense tensor in one buffer needs to be described. A plain value; the calls check it.
struct DenseDescriptor {
    ElementType element_type = ElementType::Float32;
    std::vector<std::uint64_t> shape{};   // in elements; empty: a scalar
    std::vector<std::int64_t> strides{};  // in elements; given: strided, whatever `layout` says
    LayoutTag layout = LayoutTag::RowMajor;
    std::uint64_t byte_offset = 0;
    std::uint64_t byte_size = 0;  // of the buffer; 0: what the tensor needs
    BufferTraits buffer{};

    /// The bytes of a descriptor that passes Descriptor::validate().
    [[nodiscard]] std::vector<std::uint8_t> encode() const {
        const HurrayDenseDescriptor dense = as_c();
        return detail::read_entries<std::uint8_t>([&dense](std::uint8_t* bytes, uintptr_t* length) {
            return hurray_descriptor_encode_dense(&dense, bytes, length);
        });
    }

    /// What the buffer has to hold at least; `byte_size` is not looked at.
    [[nodiscard]] std::uint64_t needed_byte_size() const {
        const HurrayDenseDescriptor dense = as_c();
        std::uint64_t size = 0;
        throw_if_failed(hurray_descriptor_dense_byte_size(&dense, &size));
        return size;
    }

    /// The same as the C struct, which refers to this object's vectors.
    [[nodiscard]] HurrayDenseDescriptor as_c() const {
        if (!strides.empty() && strides.size() != shape.size()) {
            throw StatusError(HURRAY_ERR_INVALID_ARGUMENT, "DenseDescriptor: " + std::to_string(strides.size()) +
                                                               " strides for " + std::to_string(shape.size()) +
                                                               " dimensions");
        }
        HurrayDenseDescriptor dense{};
        dense.struct_size = sizeof(dense);
        dense.element_type = static_cast<std::uint8_t>(element_type);
        dense.layout = strides.empty() ? static_cast<std::uint8_t>(layout) : std::uint8_t{HURRAY_LAYOUT_STRIDED};
        dense.device_tag = static_cast<std::uint8_t>(buffer.device);
        dense.sync_mode = static_cast<std::uint8_t>(buffer.sync_mode);
        dense.memory_class = static_cast<std::uint8_t>(buffer.memory_class);
        dense.rank = static_cast<std::uint32_t>(shape.size());
        dense.shape = shape.data();
        dense.strides = strides.empty() ? nullptr : strides.data();
        dense.byte_offset = byte_offset;
        dense.byte_size = byte_size;
        dense.alignment = buffer.alignment;
        return dense;
    }
};

/// An encoded descriptor and what runs when its tensor is let go.
class TensorContext {
  public:
    /// Copies `descriptor` without looking into it. `release(owner)` runs once, when the handle is destroyed; it may be
    /// null.
    explicit TensorContext(std::span<const std::uint8_t> descriptor, void* owner = nullptr,
                           HurrayOwnerReleaseFn release = nullptr) {
        HurrayTensorContext* made = nullptr;
        throw_if_failed(hurray_tensor_context_new(HURRAY_C_ABI_VERSION, descriptor.data(), descriptor.size(), owner,
                                                  release, &made));
        handle_.reset(made);
    }
    explicit TensorContext(HurrayTensorContext* handle) noexcept : handle_(handle) {}

    /// Check it before any other call, if the context comes from elsewhere.
    [[nodiscard]] std::uint32_t abi_version() const {
        return detail::read_value(hurray_tensor_context_abi_version, get_const());
    }
    /// Borrowed from the context.
    [[nodiscard]] std::span<const std::uint8_t> descriptor() const {
        const std::uint8_t* bytes = nullptr;
        std::uint64_t length = 0;
        throw_if_failed(hurray_tensor_context_descriptor(handle_.get(), &bytes, &length));
        return {bytes, static_cast<std::size_t>(length)};
    }
    /// For whoever made it: `release` is the function that it was made with.
    [[nodiscard]] void* owner(HurrayOwnerReleaseFn release) const {
        void* owner = nullptr;
        throw_if_failed(hurray_tensor_context_owner(handle_.get(), release, &owner));
        return owner;
    }

    [[nodiscard]] HurrayTensorContext* get() const noexcept { return handle_.get(); }
    [[nodiscard]] HurrayTensorContext* release() noexcept { return handle_.release(); }

  private:
    [[nodiscard]] const HurrayTensorContext* get_const() const noexcept { return handle_.get(); }

    std::unique_ptr<HurrayTensorContext, detail::DestroyTensorContext> handle_;
};

/// Width of one element in bits; throws for private types.
[[nodiscard]] inline std::uint32_t element_type_bits(ElementType type) {
    std::uint32_t bits = 0;
    throw_if_failed(hurray_element_type_bits(static_cast<std::uint8_t>(type), &bits));
    return bits;
}

/// "float32"; throws for private types.
[[nodiscard]] inline std::string_view element_type_name(ElementType type) {
    const char* name = nullptr;
    throw_if_failed(hurray_element_type_name(static_cast<std::uint8_t>(type), &name));
    return name;
}

/// Throws if no type is called that.
[[nodiscard]] inline ElementType element_type_from_name(const std::string& name) {
    std::uint8_t tag = 0;
    throw_if_failed(hurray_element_type_from_name(name.c_str(), &tag));
    return static_cast<ElementType>(tag);
}

}  // namespace hurray

#include <hurray/files.hpp>
