#include "libhurray/container/file_writer.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

#include <sys/stat.h>
#include <unistd.h>

#include "libhurray/base/log_line.hpp"
#include "libhurray/base/utf8.hpp"
#include "libhurray/container/crc32c.hpp"
#include "libhurray/container/file_io.hpp"

namespace hurray {
namespace {

constexpr std::size_t kMaxNameLength = std::numeric_limits<std::uint16_t>::max();

/// Of names and keys, which the format keeps alike.
Result<void> check_word(std::string_view word, std::string_view what, const std::set<std::string, std::less<>>& taken) {
    if (word.empty() || word.size() > kMaxNameLength) {
        return fail(Errc::InvalidArgument, std::string(what) + " has " + std::to_string(word.size()) + " bytes; 1 to " +
                                               std::to_string(kMaxNameLength) + " are possible");
    }
    if (!is_utf8(word)) {
        return fail(Errc::InvalidArgument,
                    std::string(what) + " is not UTF-8 from byte " + std::to_string(utf8_prefix(word)) + " on");
    }
    if (taken.contains(word)) {
        return fail(Errc::AlreadyExists, std::string(what) + " " + as_log_value(word) + " is in the file already");
    }
    return {};
}

/// A file is written from its beginning on, and its trailer has to be the end of it.
Result<void> check_place(int fd) {
    struct stat info{};
    if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        return {};  // what is not there to be written to will say so
    }
    if (info.st_size != 0) {
        return fail(Errc::InvalidArgument, "the file has " + std::to_string(info.st_size) +
                                               " bytes already; open it with O_TRUNC, or a new one");
    }
    if (const off_t at = ::lseek(fd, 0, SEEK_CUR); at > 0) {
        return fail(Errc::InvalidArgument,
                    "the file descriptor stands at byte " + std::to_string(at) + ", not at the beginning");
    }
    return {};
}

}  // namespace

Result<std::unique_ptr<FileWriter>> FileWriter::open(UniqueFd fd, const FileWriterOptions& options) {
    const std::uint32_t alignment = options.data_buffer_alignment;
    if (!std::has_single_bit(alignment) || alignment < kMinDataAlignment || alignment > kMaxDataAlignment) {
        return fail(Errc::InvalidArgument, "data_buffer_alignment is " + std::to_string(alignment) +
                                               ", not a power of two from " + std::to_string(kMinDataAlignment) +
                                               " to " + std::to_string(kMaxDataAlignment));
    }
    if (const auto good = check_place(fd.get()); !good) {
        return tl::unexpected(good.error());
    }
    std::unique_ptr<FileWriter> writer(new FileWriter(std::move(fd), options));
    if (const auto written = writer->write_start(); !written) {
        return tl::unexpected(written.error());
    }
    return writer;
}

Result<void> FileWriter::write_start() {
    FileHeader header;
    header.flags = file_flags::kIndexCrc | (options_.sorted_index ? file_flags::kSortedIndex : 0);
    header.data_buffer_alignment = options_.data_buffer_alignment;
    return emit(write_file_header(header));
}

Result<void> FileWriter::check_name(std::string_view name) { return check_word(name, "the name of a tensor", names_); }

Result<void> FileWriter::write_checked(std::string_view name, std::span<const std::uint8_t> descriptor,
                                       BufferBytes buffers) {
    // All memory before the first byte.
    if (entries_.size() == entries_.capacity()) {
        entries_.reserve(std::max<std::size_t>(16, 2 * entries_.size()));
    }
    IndexEntry entry;
    entry.name = *names_.emplace(name).first;
    entry.descriptor_offset = position();
    entry.descriptor_length = static_cast<std::uint32_t>(descriptor.size());
    const std::uint64_t alignment = options_.data_buffer_alignment;
    // Also behind descriptors without data, so that data_offset is a place that a buffer could have.
    Result<void> written = emit(descriptor).and_then([&] { return pad_to(alignment); });
    entry.data_offset = position();
    for (const auto buffer : buffers) {
        written = written.and_then([&] { return pad_to(alignment); }).and_then([&] { return emit(buffer); });
    }
    entry.data_length = position() - entry.data_offset;
    written = written.and_then([&] { return pad_to(8); });
    if (!written) {
        return written;
    }
    entries_.push_back(entry);
    return {};
}

Result<void> FileWriter::add_value(std::string_view key, const Value& value) {
    if (const auto open = check_open(); !open) {
        return open;
    }
    if (const auto good = check_word(key, "the key of a value", keys_); !good) {
        return good;
    }
    if (auto good = check_value(value); !good) {
        return fail_in("the value of " + as_log_value(key), good.error());
    }
    std::vector<std::uint8_t> entry{static_cast<std::uint8_t>(key.size()), static_cast<std::uint8_t>(key.size() >> 8U)};
    entry.insert(entry.end(), key.begin(), key.end());
    append_value(entry, value);
    if (entry.size() > UINT32_MAX - sizeof(std::uint32_t) - values_.size()) {
        return fail(Errc::Limit, "all values together take more than " + std::to_string(UINT32_MAX) + " bytes");
    }
    std::set<std::string, std::less<>> taken{std::string(key)};
    values_.insert(values_.end(), entry.begin(), entry.end());
    keys_.merge(taken);  // allocates nothing, so that both are there or neither
    return {};
}

Result<void> FileWriter::write_end() {
    FileTrailer trailer;
    if (!keys_.empty()) {
        trailer.kv_offset = position();
        trailer.kv_length = static_cast<std::uint32_t>(sizeof(std::uint32_t) + values_.size());
        std::array<std::uint8_t, sizeof(std::uint32_t)> count{};
        store_little_endian(static_cast<std::uint32_t>(keys_.size()), count.data());
        const auto written = emit(count).and_then([&] { return emit(values_); }).and_then([&] { return pad_to(8); });
        if (!written) {
            return written;
        }
    }
    if (options_.sorted_index) {
        std::sort(entries_.begin(), entries_.end(),
                  [](const IndexEntry& a, const IndexEntry& b) { return a.name < b.name; });
    }
    const std::vector<std::uint8_t> index = write_index(entries_);
    trailer.index_offset = position();
    trailer.index_length = index.size();
    trailer.index_crc32c = crc32c(index);
    return emit(index).and_then([&] { return emit(write_file_trailer(trailer)); });
}

}  // namespace hurray
