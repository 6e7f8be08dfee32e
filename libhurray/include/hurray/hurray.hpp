#pragma once

#if __cplusplus < 202002L
#error "hurray/hurray.hpp needs C++20 (-std=c++20)"
#endif

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
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

    /// `what()` without the status and without the name of the C function that said no: for people who did not write the
    /// program. Borrowed from this object.
    [[nodiscard]] std::string_view reason() const noexcept {
        std::string_view text = what();
        text.remove_prefix(std::string_view(hurray_status_string(status_)).size() + 2);
        if (const auto colon = text.find(": ");
            colon != text.npos && text.starts_with("hurray_") && text.find(' ') == colon + 1) {
            text.remove_prefix(colon + 2);
        }
        return text;
    }

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
struct DestroyDescriptorBuilder {
    void operator()(HurrayDescriptorBuilder* builder) const noexcept {
        static_cast<void>(hurray_descriptor_builder_destroy(&builder));
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

/// One level of a tiled layout.
struct TileLevel {
    std::vector<std::uint64_t> tile_shape{};    // in elements
    LayoutTag outer = LayoutTag::RowMajor;      // how tiles lie: RowMajor, ColumnMajor or Strided
    LayoutTag inner = LayoutTag::RowMajor;      // how elements lie in a tile: those, or Tiled, the next level
    std::vector<std::int64_t> outer_strides{};  // in tiles; only with a strided outer order
    std::vector<std::int64_t> inner_strides{};  // in elements; only with a strided inner order
};

/// A tensor as a box of a larger one.
struct ShardBox {
    std::vector<std::uint64_t> parent_shape{};
    std::vector<std::uint64_t> offset{};
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

    /// Major and minor version, as stored.
    [[nodiscard]] std::pair<std::uint8_t, std::uint8_t> version() const {
        std::pair<std::uint8_t, std::uint8_t> version;
        throw_if_failed(hurray_descriptor_version(handle_.get(), &version.first, &version.second));
        return version;
    }

    // Fields of one layout. Throw (HURRAY_ERR_UNSUPPORTED) if the descriptor has another one.

    /// The levels of a tiled layout, the outermost first.
    [[nodiscard]] std::vector<TileLevel> tiled_levels() const {
        std::vector<TileLevel> levels(detail::read_value(hurray_descriptor_tiled_level_count, get_const()));
        for (std::uint32_t i = 0; i < levels.size(); ++i) {
            levels[i] = tiled_level(i);
        }
        return levels;
    }
    [[nodiscard]] std::vector<std::uint32_t> morton_bits() const {
        return detail::read_entries<std::uint32_t>([this](std::uint32_t* bits, uintptr_t* rank) {
            return hurray_descriptor_morton_bits(handle_.get(), bits, rank);
        });
    }
    /// Bits of each index, and the rank that the layout states.
    [[nodiscard]] std::pair<std::uint32_t, std::uint32_t> hilbert() const {
        std::pair<std::uint32_t, std::uint32_t> order_and_rank;
        throw_if_failed(hurray_descriptor_hilbert(handle_.get(), &order_and_rank.first, &order_and_rank.second));
        return order_and_rank;
    }
    /// Elements that a sparse layout stores.
    [[nodiscard]] std::uint64_t nnz() const { return detail::read_value(hurray_descriptor_nnz, get_const()); }
    [[nodiscard]] bool coo_is_sorted() const {
        return detail::read_value(hurray_descriptor_coo_is_sorted, get_const()) != 0;
    }
    [[nodiscard]] std::vector<std::uint32_t> csf_mode_order() const {
        return detail::read_entries<std::uint32_t>([this](std::uint32_t* modes, uintptr_t* rank) {
            return hurray_descriptor_csf_mode_order(handle_.get(), modes, rank);
        });
    }
    [[nodiscard]] HurrayBlockPaged block_paged() const {
        return detail::read_value(hurray_descriptor_block_paged, get_const());
    }
    [[nodiscard]] HurrayCompositeHead composite_head() const {
        return detail::read_value(hurray_descriptor_composite_head, get_const());
    }
    /// The bytes are borrowed from the descriptor.
    [[nodiscard]] std::pair<std::uint64_t, std::span<const std::uint8_t>> private_layout() const {
        std::uint64_t id = 0;
        const std::uint8_t* data = nullptr;
        uintptr_t length = 0;
        throw_if_failed(hurray_descriptor_private_layout(handle_.get(), &id, &data, &length));
        return {id, {data, length}};
    }

    // The optional sections; nothing if the descriptor lacks one.

    /// HURRAY_SECTION_* bits.
    [[nodiscard]] std::uint32_t sections() const { return detail::read_value(hurray_descriptor_sections, get_const()); }
    /// Taken apart; throws if the bytes of the section make no sense.
    [[nodiscard]] std::optional<HurrayQuantization> quantization() const {
        return read_section(HURRAY_SECTION_QUANTIZATION, hurray_descriptor_quantization);
    }
    /// As they are, borrowed from the descriptor.
    [[nodiscard]] std::optional<std::span<const std::uint8_t>> quantization_bytes() const {
        if ((sections() & HURRAY_SECTION_QUANTIZATION) == 0) {
            return std::nullopt;
        }
        const std::uint8_t* data = nullptr;
        uintptr_t length = 0;
        throw_if_failed(hurray_descriptor_quantization_bytes(handle_.get(), &data, &length));
        return std::span(data, length);
    }
    [[nodiscard]] std::optional<ShardBox> shard() const {
        if ((sections() & HURRAY_SECTION_SHARD) == 0) {
            return std::nullopt;
        }
        uintptr_t rank = this->rank();
        ShardBox shard{std::vector<std::uint64_t>(rank + 1), std::vector<std::uint64_t>(rank + 1)};  // never null
        throw_if_failed(hurray_descriptor_shard(handle_.get(), shard.parent_shape.data(), shard.offset.data(), &rank));
        shard.parent_shape.resize(rank);
        shard.offset.resize(rank);
        return shard;
    }
    [[nodiscard]] std::optional<HurrayStatistics> statistics() const {
        return read_section(HURRAY_SECTION_STATISTICS, hurray_descriptor_statistics);
    }
    [[nodiscard]] std::optional<HurrayExtensionType> extension_type() const {
        return read_section(HURRAY_SECTION_EXTENSION_TYPE, hurray_descriptor_extension_type);
    }
    /// HURRAY_MEMBER_*.
    [[nodiscard]] std::optional<std::uint8_t> composite_member() const {
        return read_section(HURRAY_SECTION_COMPOSITE_MEMBER, hurray_descriptor_composite_member);
    }

    /// Throws unless the descriptor also makes sense: see hurray_descriptor_validate.
    void validate() const { throw_if_failed(hurray_descriptor_validate(handle_.get())); }
    /// The same by the rules of the broker: see hurray_descriptor_validate_sharing.
    void validate_sharing() const { throw_if_failed(hurray_descriptor_validate_sharing(handle_.get())); }

    /// Width of one element, private types included.
    [[nodiscard]] std::uint32_t element_bits() const {
        return detail::read_value(hurray_descriptor_element_bits, get_const());
    }
    /// What buffer `index` has to hold at least, whatever the buffer table says.
    [[nodiscard]] std::uint64_t buffer_size(std::uint32_t index) const {
        std::uint64_t size = 0;
        throw_if_failed(hurray_descriptor_buffer_size(handle_.get(), index, &size));
        return size;
    }

    /// Of dense layouts; throws for the others, which have to be looked into. `index` has a component a dimension.
    [[nodiscard]] HurrayElementAddress element_address(std::span<const std::uint64_t> index) const {
        HurrayElementAddress address{};
        throw_if_failed(hurray_descriptor_element_address(handle_.get(), index.data(), index.size(), &address));
        return address;
    }
    /// Of every layout; nothing if a sparse one doesn't store the element.
    [[nodiscard]] std::optional<HurrayElementAddress> find_element(const BufferList& buffers,
                                                                   std::span<const std::uint64_t> index) const {
        HurrayElementAddress address{};
        throw_if_failed(
            hurray_descriptor_find_element(handle_.get(), buffers.get(), index.data(), index.size(), &address));
        return address.stored != 0 ? std::optional(address) : std::nullopt;
    }
    /// Of block-paged tensors.
    [[nodiscard]] HurrayElementAddress find_element(const BufferList& buffers, const HurrayPagedIndex& index) const {
        HurrayElementAddress address{};
        throw_if_failed(hurray_descriptor_find_paged_element(handle_.get(), buffers.get(), &index, &address));
        return address;
    }

    /// The element's number, dequantized; nothing if a sparse layout doesn't store it, and so it is zero.
    [[nodiscard]] std::optional<HurrayElementValue> read_element(const BufferList& buffers,
                                                                 std::span<const std::uint64_t> index) const {
        HurrayElementValue value{};
        std::uint8_t stored = 0;
        throw_if_failed(
            hurray_descriptor_read_element(handle_.get(), buffers.get(), index.data(), index.size(), &value, &stored));
        return stored != 0 ? std::optional(value) : std::nullopt;
    }
    /// Of block-paged tensors.
    [[nodiscard]] HurrayElementValue read_element(const BufferList& buffers, const HurrayPagedIndex& index) const {
        HurrayElementValue value{};
        throw_if_failed(hurray_descriptor_read_paged_element(handle_.get(), buffers.get(), &index, &value));
        return value;
    }

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

    template <class Value>
    [[nodiscard]] std::optional<Value> read_section(std::uint32_t section,
                                                    HurrayStatus (*accessor)(const HurrayDescriptor*, Value*)) const {
        if ((sections() & section) == 0) {
            return std::nullopt;
        }
        return detail::read_value(accessor, get_const());
    }

    [[nodiscard]] TileLevel tiled_level(std::uint32_t index) const {
        TileLevel level;
        std::uint8_t outer = 0;
        std::uint8_t inner = 0;
        throw_if_failed(hurray_descriptor_tiled_order(handle_.get(), index, &outer, &inner));
        level.outer = static_cast<LayoutTag>(outer);
        level.inner = static_cast<LayoutTag>(inner);
        level.tile_shape = detail::read_entries<std::uint64_t>([&](std::uint64_t* dims, uintptr_t* rank) {
            return hurray_descriptor_tiled_shape(handle_.get(), index, dims, rank);
        });
        const auto strides = [&](auto accessor) {
            return detail::read_entries<std::int64_t>(
                [&](std::int64_t* entries, uintptr_t* rank) { return accessor(handle_.get(), index, entries, rank); });
        };
        if (level.outer == LayoutTag::Strided) {
            level.outer_strides = strides(hurray_descriptor_tiled_outer_strides);
        }
        if (level.inner == LayoutTag::Strided) {
            level.inner_strides = strides(hurray_descriptor_tiled_inner_strides);
        }
        return level;
    }

    std::unique_ptr<HurrayDescriptor, detail::DestroyDescriptor> handle_;
};

/// An element of a composite, as an element of one of its members.
struct CompositeElement {
    std::uint32_t member = 0;
    std::vector<std::uint64_t> index{};
};

/// The last of the members before number `before` whose box holds the element: see hurray_descriptor_find_member. Nothing
/// if none does. `members` are lent by their Descriptors' get(), in order; `before` is their number to begin with.
[[nodiscard]] inline std::optional<CompositeElement> find_member(const Descriptor& head,
                                                                 std::span<const HurrayDescriptor* const> members,
                                                                 std::span<const std::uint64_t> index,
                                                                 std::uint32_t before) {
    CompositeElement element{HURRAY_NO_MEMBER, std::vector<std::uint64_t>(index.size())};
    throw_if_failed(hurray_descriptor_find_member(head.get(), members.data(),
                                                  static_cast<std::uint32_t>(members.size()), index.data(),
                                                  index.size(), before, &element.member, element.index.data()));
    return element.member == HURRAY_NO_MEMBER ? std::nullopt : std::optional(std::move(element));
}

/// Puts a descriptor of any layout together, with any section: see hurray_descriptor_builder_new. Each setter gives the
/// builder back, so that calls can be chained.
class DescriptorBuilder {
  public:
    /// Row-major until another layout is set, without buffers.
    DescriptorBuilder(ElementType type, std::span<const std::uint64_t> shape) : rank_(shape.size()) {
        HurrayDescriptorBuilder* made = nullptr;
        throw_if_failed(hurray_descriptor_builder_new(static_cast<std::uint8_t>(type), shape.data(),
                                                      static_cast<std::uint32_t>(shape.size()), &made));
        handle_.reset(made);
    }
    DescriptorBuilder(ElementType type, std::initializer_list<std::uint64_t> shape)
        : DescriptorBuilder(type, std::span(shape.begin(), shape.size())) {}
    /// Begins with everything that `descriptor` holds.
    explicit DescriptorBuilder(const Descriptor& descriptor) : rank_(descriptor.rank()) {
        HurrayDescriptorBuilder* made = nullptr;
        throw_if_failed(hurray_descriptor_builder_from_descriptor(descriptor.get(), &made));
        handle_.reset(made);
    }

    DescriptorBuilder& byte_offset(std::uint64_t offset) {
        return done(hurray_descriptor_builder_set_byte_offset(get(), offset));
    }

    DescriptorBuilder& row_major() { return done(hurray_descriptor_builder_set_row_major(get())); }
    DescriptorBuilder& column_major() { return done(hurray_descriptor_builder_set_column_major(get())); }
    /// This and the other arrays have one entry a dimension; throws (HURRAY_ERR_INVALID_ARGUMENT) if not.
    DescriptorBuilder& strided(std::span<const std::int64_t> strides) {
        return done(hurray_descriptor_builder_set_strided(get(), of_rank(strides, "strides")));
    }
    DescriptorBuilder& tiled(const std::vector<TileLevel>& levels) {
        std::vector<HurrayTiledLevel> plain;
        for (const TileLevel& level : levels) {
            const bool outer = level.outer == LayoutTag::Strided || !level.outer_strides.empty();
            const bool inner = level.inner == LayoutTag::Strided || !level.inner_strides.empty();
            HurrayTiledLevel one{};
            one.tile_shape = of_rank<std::uint64_t>(level.tile_shape, "tile_shape");
            one.outer_strides = outer ? of_rank<std::int64_t>(level.outer_strides, "outer_strides") : nullptr;
            one.inner_strides = inner ? of_rank<std::int64_t>(level.inner_strides, "inner_strides") : nullptr;
            one.outer_layout = static_cast<std::uint8_t>(level.outer);
            one.inner_layout = static_cast<std::uint8_t>(level.inner);
            plain.push_back(one);
        }
        plain.emplace_back();  // never null
        return done(
            hurray_descriptor_builder_set_tiled(get(), plain.data(), static_cast<std::uint32_t>(levels.size())));
    }
    DescriptorBuilder& morton(std::span<const std::uint32_t> bits) {
        return done(hurray_descriptor_builder_set_morton(get(), of_rank(bits, "bits")));
    }
    /// `order` bits of each index; as many indices as the tensor has.
    DescriptorBuilder& hilbert(std::uint32_t order) {
        return done(hurray_descriptor_builder_set_hilbert(get(), order, static_cast<std::uint32_t>(rank_)));
    }
    DescriptorBuilder& coo(std::uint64_t nnz, bool is_sorted) {
        return done(hurray_descriptor_builder_set_coo(get(), nnz, is_sorted ? 1 : 0));
    }
    DescriptorBuilder& csr(std::uint64_t nnz) { return done(hurray_descriptor_builder_set_csr(get(), nnz)); }
    DescriptorBuilder& csc(std::uint64_t nnz) { return done(hurray_descriptor_builder_set_csc(get(), nnz)); }
    DescriptorBuilder& csf(std::uint64_t nnz, std::span<const std::uint32_t> mode_order) {
        return done(hurray_descriptor_builder_set_csf(get(), nnz, of_rank(mode_order, "mode_order")));
    }
    DescriptorBuilder& block_paged(const HurrayBlockPaged& pages) {
        return done(hurray_descriptor_builder_set_block_paged(get(), &pages));
    }
    DescriptorBuilder& composite_head(const HurrayCompositeHead& head) {
        return done(hurray_descriptor_builder_set_composite_head(get(), &head));
    }
    DescriptorBuilder& private_layout(std::uint8_t tag, std::uint64_t id, std::span<const std::uint8_t> data) {
        return done(hurray_descriptor_builder_set_private_layout(get(), tag, id, data.data(), data.size()));
    }

    /// Appends to the buffer table.
    DescriptorBuilder& buffer(std::uint64_t byte_size, const BufferTraits& traits = {}) {
        const HurrayBufferEntry entry{byte_size,
                                      traits.alignment,
                                      static_cast<std::uint8_t>(traits.device),
                                      static_cast<std::uint8_t>(traits.sync_mode),
                                      static_cast<std::uint8_t>(traits.memory_class),
                                      0};
        return done(hurray_descriptor_builder_add_buffer(get(), &entry));
    }
    DescriptorBuilder& clear_buffers() { return done(hurray_descriptor_builder_clear_buffers(get())); }

    /// Sections. Nothing removes one again.
    DescriptorBuilder& quantization(const std::optional<HurrayQuantization>& quantization) {
        return done(hurray_descriptor_builder_set_quantization(get(), address(quantization)));
    }
    DescriptorBuilder& quantization_bytes(std::span<const std::uint8_t> bytes) {
        constexpr std::uint8_t kNothing = 0;
        return done(hurray_descriptor_builder_set_quantization_bytes(get(), bytes.empty() ? &kNothing : bytes.data(),
                                                                     bytes.size()));
    }
    DescriptorBuilder& shard(const std::optional<ShardBox>& shard) {
        if (!shard) {
            return done(hurray_descriptor_builder_set_shard(get(), nullptr, nullptr));
        }
        constexpr std::uint64_t kNothing = 0;
        const std::uint64_t* const parent = of_rank<std::uint64_t>(shard->parent_shape, "parent_shape");
        const std::uint64_t* const offset = of_rank<std::uint64_t>(shard->offset, "offset");
        return done(hurray_descriptor_builder_set_shard(get(), rank_ == 0 ? &kNothing : parent, offset));
    }
    DescriptorBuilder& statistics(const std::optional<HurrayStatistics>& statistics) {
        return done(hurray_descriptor_builder_set_statistics(get(), address(statistics)));
    }
    DescriptorBuilder& extension_type(const std::optional<HurrayExtensionType>& type) {
        return done(hurray_descriptor_builder_set_extension_type(get(), address(type)));
    }
    /// HURRAY_MEMBER_*.
    DescriptorBuilder& composite_member(const std::optional<std::uint8_t>& role) {
        return done(hurray_descriptor_builder_set_composite_member(get(), address(role)));
    }

    /// The canonical bytes. Throws what decoding them would.
    [[nodiscard]] std::vector<std::uint8_t> encode() const {
        return detail::read_entries<std::uint8_t>([this](std::uint8_t* bytes, uintptr_t* length) {
            return hurray_descriptor_builder_encode(handle_.get(), bytes, length);
        });
    }
    [[nodiscard]] Descriptor build() const {
        HurrayDescriptor* made = nullptr;
        throw_if_failed(hurray_descriptor_builder_build(handle_.get(), &made));
        return Descriptor(made);
    }

    [[nodiscard]] HurrayDescriptorBuilder* get() const noexcept { return handle_.get(); }

  private:
    DescriptorBuilder& done(HurrayStatus status) {
        throw_if_failed(status);
        return *this;
    }

    template <class Value>
    [[nodiscard]] static const Value* address(const std::optional<Value>& value) noexcept {
        return value ? &*value : nullptr;
    }

    template <class T>
    [[nodiscard]] const T* of_rank(std::span<const T> entries, const char* name) const {
        if (entries.size() != rank_) {
            throw StatusError(HURRAY_ERR_INVALID_ARGUMENT, std::string("DescriptorBuilder: ") + name + " has " +
                                                               std::to_string(entries.size()) + " entries for " +
                                                               std::to_string(rank_) + " dimensions");
        }
        return entries.data();
    }

    std::size_t rank_;
    std::unique_ptr<HurrayDescriptorBuilder, detail::DestroyDescriptorBuilder> handle_;
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

/// The bytes of `count` elements one after the other.
[[nodiscard]] inline std::uint64_t element_storage_size(ElementType type, std::uint64_t count) {
    std::uint64_t size = 0;
    throw_if_failed(hurray_element_storage_size(static_cast<std::uint8_t>(type), count, &size));
    return size;
}

/// Takes an element out of the bytes that it is in, or shares; `bit` as in HurrayElementAddress.
[[nodiscard]] inline HurrayElementCode load_element(ElementType type, std::span<const std::uint8_t> bytes,
                                                    std::uint32_t bit = 0) {
    HurrayElementCode code{};
    throw_if_failed(hurray_element_load(static_cast<std::uint8_t>(type), bytes.data(), bytes.size(), bit, &code));
    return code;
}

/// Puts an element there, and leaves those beside it alone.
inline void store_element(ElementType type, std::span<std::uint8_t> bytes, std::uint32_t bit,
                          const HurrayElementCode& code) {
    throw_if_failed(hurray_element_store(static_cast<std::uint8_t>(type), bytes.data(), bytes.size(), bit, &code));
}

/// The value of a code, rounded to doubles.
[[nodiscard]] inline HurrayElementValue element_value(ElementType type, const HurrayElementCode& code) {
    HurrayElementValue value{};
    throw_if_failed(hurray_element_to_value(static_cast<std::uint8_t>(type), &code, &value));
    return value;
}

/// The code nearest to a value: see hurray_element_from_value. Throws for NaN where the type has none.
[[nodiscard]] inline HurrayElementCode element_code(ElementType type, const HurrayElementValue& value) {
    HurrayElementCode code{};
    throw_if_failed(hurray_element_from_value(static_cast<std::uint8_t>(type), &value, &code));
    return code;
}

}  // namespace hurray

#include <hurray/files.hpp>
