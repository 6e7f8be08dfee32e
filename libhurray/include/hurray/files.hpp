#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <hurray/hurray.hpp>

/// Streams and files of tensors: see "Streams and files" in hurray.h. The rules of hurray.hpp hold.
namespace hurray {

namespace detail {

struct DestroyReader {
    void operator()(HurrayReader* reader) const noexcept { static_cast<void>(hurray_reader_destroy(&reader)); }
};
struct DestroyWriter {
    void operator()(HurrayWriter* writer) const noexcept { static_cast<void>(hurray_writer_destroy(&writer)); }
};

}  // namespace detail

/// A value that is no array, in the order of HURRAY_VALUE_STRING to HURRAY_VALUE_BYTES.
using PlainValue = std::variant<std::string, std::int64_t, std::uint64_t, double, bool, std::vector<std::uint8_t>>;

/// What a file keeps under a key; an array's elements are all of one kind.
using FileValue = std::variant<std::string, std::int64_t, std::uint64_t, double, bool, std::vector<std::uint8_t>,
                               std::vector<PlainValue>>;

namespace detail {

[[nodiscard]] inline PlainValue plain_from_c(const HurrayValue& value) {
    switch (value.kind) {
        case HURRAY_VALUE_STRING:
            return value.length == 0 ? std::string()
                                     : std::string(reinterpret_cast<const char*>(value.data), value.length);
        case HURRAY_VALUE_INT64:
            return value.int64;
        case HURRAY_VALUE_UINT64:
            return value.uint64;
        case HURRAY_VALUE_FLOAT64:
            return value.float64;
        case HURRAY_VALUE_BOOL:
            return value.boolean != 0;
        default:
            return std::vector<std::uint8_t>(value.data, value.data + value.length);
    }
}

[[nodiscard]] inline FileValue value_from_c(HurrayValue value) {
    if (value.kind != HURRAY_VALUE_ARRAY) {
        return std::visit([](auto&& plain) { return FileValue(std::move(plain)); }, plain_from_c(value));
    }
    std::vector<PlainValue> elements;
    while (value.count > 0) {
        HurrayValue element{};
        throw_if_failed(hurray_value_take_element(&value, &element));
        elements.push_back(plain_from_c(element));
    }
    return elements;
}

/// A loan of `value`.
template <class Plain>
[[nodiscard]] HurrayValue value_to_c(const Plain& value) noexcept {
    HurrayValue c{};
    if constexpr (std::is_same_v<Plain, std::string>) {
        c.kind = HURRAY_VALUE_STRING;
        c.data = reinterpret_cast<const std::uint8_t*>(value.data());
        c.length = value.size();
    } else if constexpr (std::is_same_v<Plain, std::int64_t>) {
        c.kind = HURRAY_VALUE_INT64;
        c.int64 = value;
    } else if constexpr (std::is_same_v<Plain, std::uint64_t>) {
        c.kind = HURRAY_VALUE_UINT64;
        c.uint64 = value;
    } else if constexpr (std::is_same_v<Plain, double>) {
        c.kind = HURRAY_VALUE_FLOAT64;
        c.float64 = value;
    } else if constexpr (std::is_same_v<Plain, bool>) {
        c.kind = HURRAY_VALUE_BOOL;
        c.boolean = value ? 1 : 0;
    } else {
        static_assert(std::is_same_v<Plain, std::vector<std::uint8_t>>);
        c.kind = HURRAY_VALUE_BYTES;
        c.data = value.data();
        c.length = value.size();
    }
    return c;
}

}  // namespace detail

/// What a reader puts up with; 0: the library's own limit.
struct ReaderOptions {
    bool producer_synced_only = false;
    std::uint64_t max_descriptor_size = 0;
    std::uint64_t max_index_size = 0;
    std::uint64_t max_tensor_size = 0;

    [[nodiscard]] HurrayReaderOptions as_c() const noexcept {
        return {sizeof(HurrayReaderOptions),
                static_cast<std::uint8_t>(producer_synced_only ? 1 : 0),
                {},
                max_descriptor_size,
                max_index_size,
                max_tensor_size};
    }
};

/// Reads tensors from a stream or a file.
class Reader {
  public:
    /// From where `fd` stands. It stays the caller's, also below.
    [[nodiscard]] static Reader stream(int fd, const ReaderOptions& options = {}) {
        return open(hurray_reader_open_stream, fd, options);
    }
    /// A `.hrry` file; throws (HURRAY_ERR_UNSUPPORTED) unless `fd` is a regular file.
    [[nodiscard]] static Reader file(int fd, const ReaderOptions& options = {}) {
        return open(hurray_reader_open_file, fd, options);
    }
    explicit Reader(HurrayReader* handle) noexcept : handle_(handle) {}

    /// Goes on to the next tensor; nothing behind the last one. In a file that is the order of the descriptors.
    [[nodiscard]] std::optional<Descriptor> next() {
        HurrayDescriptor* made = nullptr;
        throw_if_failed(hurray_reader_next(handle_.get(), &made));
        return made == nullptr ? std::nullopt : std::optional<Descriptor>(std::in_place, made);
    }

    /// Reads into `out` what is at `offset` of a buffer of the current tensor; of a stream, front to back.
    void read(std::uint32_t buffer, std::uint64_t offset, std::span<std::byte> out) {
        throw_if_failed(hurray_reader_read(handle_.get(), buffer, offset, out.data(), out.size()));
    }
    /// All buffers of the current tensor, in host memory of their own.
    [[nodiscard]] BufferList read_buffers() {
        HurrayBufferList* made = nullptr;
        throw_if_failed(hurray_reader_read_buffers(handle_.get(), &made));
        return BufferList(made);
    }

    // What follows is for files, and throws (HURRAY_ERR_UNSUPPORTED) for streams. Text is borrowed from the reader.

    [[nodiscard]] HurrayFileInfo file_info() const { return detail::read_value(hurray_reader_file_info, get_const()); }
    /// What the index says of a tensor. Throws (HURRAY_ERR_INDEX_OUT_OF_BOUNDS) past the last one.
    [[nodiscard]] HurrayFileEntry entry(std::uint64_t index) const {
        HurrayFileEntry entry{};
        throw_if_failed(hurray_reader_entry(handle_.get(), index, &entry));
        return entry;
    }
    [[nodiscard]] std::string_view name(std::uint64_t index) const {
        const HurrayFileEntry found = entry(index);
        return {found.name, static_cast<std::size_t>(found.name_len)};
    }
    /// The number of the tensor with that name, if there is one.
    [[nodiscard]] std::optional<std::uint64_t> find(std::string_view name) const {
        std::uint64_t index = 0;
        return found(hurray_reader_find(handle_.get(), not_null(name), name.size(), &index)) ? std::optional(index)
                                                                                             : std::nullopt;
    }
    /// Makes a tensor the current one.
    [[nodiscard]] Descriptor go_to(std::uint64_t index) {
        HurrayDescriptor* made = nullptr;
        throw_if_failed(hurray_reader_go_to(handle_.get(), index, &made));
        return Descriptor(made);
    }
    /// Throws (HURRAY_ERR_NOT_FOUND) if there is no tensor of that name.
    [[nodiscard]] Descriptor go_to(std::string_view name) {
        std::uint64_t index = 0;
        throw_if_failed(hurray_reader_find(handle_.get(), not_null(name), name.size(), &index));
        return go_to(index);
    }
    /// The number of the current tensor, if there is one.
    [[nodiscard]] std::optional<std::uint64_t> current() const {
        std::uint64_t index = 0;
        return found(hurray_reader_current(handle_.get(), &index)) ? std::optional(index) : std::nullopt;
    }
    /// Where a buffer of the current tensor begins in the file.
    [[nodiscard]] std::uint64_t buffer_offset(std::uint32_t buffer) const {
        std::uint64_t offset = 0;
        throw_if_failed(hurray_reader_buffer_offset(handle_.get(), buffer, &offset));
        return offset;
    }

    /// Key and value, in the order of the file. Throws (HURRAY_ERR_INDEX_OUT_OF_BOUNDS) past the last one.
    [[nodiscard]] std::pair<std::string_view, FileValue> value(std::uint64_t index) const {
        const char* key = nullptr;
        std::uint64_t key_len = 0;
        HurrayValue value{};
        throw_if_failed(hurray_reader_value(handle_.get(), index, &key, &key_len, &value));
        return {std::string_view(key, static_cast<std::size_t>(key_len)), detail::value_from_c(value)};
    }
    [[nodiscard]] std::optional<FileValue> find_value(std::string_view key) const {
        HurrayValue value{};
        return found(hurray_reader_find_value(handle_.get(), not_null(key), key.size(), &value))
                   ? std::optional(detail::value_from_c(value))
                   : std::nullopt;
    }

    [[nodiscard]] HurrayReader* get() const noexcept { return handle_.get(); }
    [[nodiscard]] HurrayReader* release() noexcept { return handle_.release(); }

  private:
    template <class Open>
    [[nodiscard]] static Reader open(Open open_function, int fd, const ReaderOptions& options) {
        const HurrayReaderOptions c = options.as_c();
        HurrayReader* made = nullptr;
        throw_if_failed(open_function(fd, &c, &made));
        return Reader(made);
    }
    [[nodiscard]] static bool found(HurrayStatus status) {
        if (status != HURRAY_ERR_NOT_FOUND) {
            throw_if_failed(status);
        }
        return status == HURRAY_OK;
    }
    /// An empty text's pointer may be null, which C takes for a mistake.
    [[nodiscard]] static const char* not_null(std::string_view text) noexcept {
        return text.empty() ? "" : text.data();
    }
    [[nodiscard]] const HurrayReader* get_const() const noexcept { return handle_.get(); }

    std::unique_ptr<HurrayReader, detail::DestroyReader> handle_;
};

/// How a file is written.
struct FileOptions {
    std::uint32_t data_buffer_alignment = 4096;
    bool sorted_index = false;
};

/// Writes tensors into a stream or a file.
class Writer {
  public:
    /// The descriptor stays the caller's, also below.
    [[nodiscard]] static Writer stream(int fd) {
        HurrayWriter* made = nullptr;
        throw_if_failed(hurray_writer_open_stream(fd, &made));
        return Writer(made);
    }
    /// A `.hrry` file, which is none without finish().
    [[nodiscard]] static Writer file(int fd, const FileOptions& options = {}) {
        HurrayFileOptions c{};
        c.struct_size = sizeof(c);
        c.data_buffer_alignment = options.data_buffer_alignment;
        c.sorted_index = options.sorted_index ? 1 : 0;
        HurrayWriter* made = nullptr;
        throw_if_failed(hurray_writer_open_file(fd, &c, &made));
        return Writer(made);
    }
    explicit Writer(HurrayWriter* handle) noexcept : handle_(handle) {}

    /// Into a file: a tensor with its name, and the address of each buffer in host memory.
    void write(std::string_view name, const Descriptor& descriptor, std::span<const void* const> buffers) {
        if (buffers.size() != descriptor.buffer_count()) {
            throw StatusError(HURRAY_ERR_INVALID_ARGUMENT, "Writer::write: " + std::to_string(buffers.size()) +
                                                               " buffers are given, the descriptor has " +
                                                               std::to_string(descriptor.buffer_count()));
        }
        throw_if_failed(hurray_writer_write(handle_.get(), name.data(), name.size(), descriptor.get(), buffers.data()));
    }
    void write(std::string_view name, const Descriptor& descriptor, const BufferList& buffers) {
        throw_if_failed(
            hurray_writer_write_list(handle_.get(), name.data(), name.size(), descriptor.get(), buffers.get()));
    }
    /// Into a stream, where tensors have no names.
    void write(const Descriptor& descriptor, std::span<const void* const> buffers) { write({}, descriptor, buffers); }
    void write(const Descriptor& descriptor, const BufferList& buffers) { write({}, descriptor, buffers); }

    /// Into a file: a value, in the order of the calls.
    void add_value(std::string_view key, const FileValue& value) {
        std::visit([&](const auto& plain) { add(key.empty() ? std::string_view("") : key, plain); }, value);
    }

    /// Ends the output.
    void finish() { throw_if_failed(hurray_writer_finish(handle_.get())); }

    [[nodiscard]] HurrayWriter* get() const noexcept { return handle_.get(); }
    [[nodiscard]] HurrayWriter* release() noexcept { return handle_.release(); }

  private:
    template <class Plain>
    void add(std::string_view key, const Plain& value) {
        const HurrayValue c = detail::value_to_c(value);
        throw_if_failed(hurray_writer_add_value(handle_.get(), key.data(), key.size(), &c));
    }
    void add(std::string_view key, const std::vector<PlainValue>& elements) {
        std::vector<HurrayValue> c;
        c.reserve(elements.size() + 1);  // so that data() is not null
        for (const PlainValue& element : elements) {
            c.push_back(std::visit([](const auto& plain) { return detail::value_to_c(plain); }, element));
        }
        throw_if_failed(hurray_writer_add_array(handle_.get(), key.data(), key.size(), c.data(), c.size()));
    }

    std::unique_ptr<HurrayWriter, detail::DestroyWriter> handle_;
};

}  // namespace hurray
