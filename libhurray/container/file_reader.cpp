#include "libhurray/container/file_reader.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>

#include <sys/stat.h>

#include "libhurray/base/checked_math.hpp"
#include "libhurray/base/log_line.hpp"
#include "libhurray/container/crc32c.hpp"
#include "libhurray/container/file_io.hpp"
#include "libhurray/container/sorted_order.hpp"
#include "libhurray/format/descriptor_reader.hpp"

namespace hurray {
namespace {

std::string where(const IndexEntry& entry) {
    return "tensor " + as_log_value(entry.name) + ", byte " + std::to_string(entry.descriptor_offset) + " of the file";
}

}  // namespace

Result<std::unique_ptr<FileReader>> FileReader::open(UniqueFd fd, const ReaderLimits& limits) {
    struct stat info{};
    if (::fstat(fd.get(), &info) != 0) {
        return fail_io(errno, "fstat failed");
    }
    if (!S_ISREG(info.st_mode)) {
        return fail(Errc::Unsupported,
                    "this is no regular file, and tensors can't be read in any order from something else");
    }
    std::unique_ptr<FileReader> reader(new FileReader(std::move(fd), static_cast<std::uint64_t>(info.st_size), limits));
    if (const auto read = reader->read_metadata(); !read) {
        return tl::unexpected(read.error());
    }
    return reader;
}

Result<void> FileReader::take(std::uint64_t offset, std::span<std::uint8_t> out) const {
    const auto count = read_fully_at(fd_.get(), offset, out);
    if (!count) {
        return fail_in("byte " + std::to_string(offset) + " of the file", count.error());
    }
    if (*count < out.size()) {
        return fail_malformed("the file ends at byte " + std::to_string(offset + *count) +
                              ": it has become shorter since it was opened");
    }
    return {};
}

Result<std::vector<std::uint8_t>> FileReader::take_section(std::uint64_t offset, std::uint64_t length,
                                                           const char* what) const {
    if (length > limits().max_index_size) {
        return fail(Errc::Limit, std::string("the ") + what + " has " + std::to_string(length) +
                                     " bytes, the maximum is " + std::to_string(limits().max_index_size));
    }
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(length));
    if (const auto got = take(offset, bytes); !got) {
        return tl::unexpected(got.error());
    }
    return bytes;
}

Result<void> FileReader::read_metadata() {
    std::array<std::uint8_t, kFileHeaderSize> head{};
    const auto count = read_fully_at(fd_.get(), 0, head);
    if (!count) {
        return tl::unexpected(count.error());
    }
    auto header = read_file_header(std::span(head).first(*count));
    if (!header) {
        return tl::unexpected(header.error());
    }
    header_ = *header;
    if (size_ < kFileHeaderSize + kFileTrailerSize) {
        return fail_malformed("the file has " + std::to_string(size_) + " bytes, less than header and trailer (" +
                              std::to_string(kFileHeaderSize + kFileTrailerSize) + ")");
    }
    std::array<std::uint8_t, kFileTrailerSize> tail{};
    if (const auto got = take(size_ - kFileTrailerSize, tail); !got) {
        return got;
    }
    const auto trailer = read_file_trailer(tail, header_, size_);
    if (!trailer) {
        return tl::unexpected(trailer.error());
    }
    auto index = take_section(trailer->index_offset, trailer->index_length, "index");
    if (!index) {
        return tl::unexpected(index.error());
    }
    index_ = *std::move(index);
    if ((header_.flags & file_flags::kIndexCrc) != 0) {
        if (const std::uint32_t sum = crc32c(index_); sum != trailer->index_crc32c) {
            return fail_malformed("index, byte " + std::to_string(trailer->index_offset) +
                                  " of the file: its CRC-32C is " + std::to_string(sum) + ", the trailer says " +
                                  std::to_string(trailer->index_crc32c));
        }
    }
    auto entries = read_index(index_, header_, *trailer);
    if (!entries) {
        return tl::unexpected(entries.error());
    }
    entries_ = *std::move(entries);
    const auto name = [this](std::size_t number) { return entries_[number].name; };
    by_name_ = sorted_order(entries_.size(), name);
    if (const auto twice = find_duplicate(by_name_, name)) {
        return fail_malformed("index: the name " + as_log_value(name(*twice)) + " is there twice");
    }
    by_offset_ = sorted_order(entries_.size(), [this](std::size_t i) { return entries_[i].descriptor_offset; });

    if (trailer->kv_offset != 0) {
        auto section = take_section(trailer->kv_offset, trailer->kv_length, "key-value section");
        if (!section) {
            return tl::unexpected(section.error());
        }
        auto values = KeyValues::parse(*std::move(section), trailer->kv_offset, header_.version_minor > 0);
        if (!values) {
            return tl::unexpected(values.error());
        }
        values_ = *std::move(values);
    }
    return {};
}

std::optional<std::size_t> FileReader::find(std::string_view name) const {
    return find_sorted(by_name_, [this](std::size_t number) { return entries_[number].name; }, name);
}

Result<bool> FileReader::next() {
    if (next_ == by_offset_.size()) {
        clear_current();
        return false;
    }
    // A tensor that can't be read is passed, so that whoever goes on gets the next one.
    if (const auto loaded = load(by_offset_[next_++]); !loaded) {
        return tl::unexpected(loaded.error());
    }
    return true;
}

Result<void> FileReader::go_to(std::size_t number) {
    const auto place = [this](std::size_t i) { return std::pair(entries_[i].descriptor_offset, i); };
    const auto at = std::lower_bound(by_offset_.begin(), by_offset_.end(), number,
                                     [&](std::size_t a, std::size_t b) { return place(a) < place(b); });
    next_ = static_cast<std::size_t>(at - by_offset_.begin()) + 1;
    return load(number);
}

Result<void> FileReader::load(std::size_t number) {
    clear_current();
    const IndexEntry& entry = entries_[number];
    const std::uint64_t end = size_ - kFileTrailerSize;
    if (entry.descriptor_offset < kFileHeaderSize || entry.descriptor_offset % 8 != 0 ||
        !range_fits(entry.descriptor_offset, entry.descriptor_length, end)) {
        return fail_malformed(where(entry) + ": its descriptor of " + std::to_string(entry.descriptor_length) +
                              " bytes is not at a multiple of 8 between header and trailer");
    }
    if (entry.descriptor_length > limits().max_descriptor_size) {
        return fail(Errc::Limit, where(entry) + ": descriptor_length is " + std::to_string(entry.descriptor_length) +
                                     ", the maximum is " + std::to_string(limits().max_descriptor_size));
    }
    std::vector<std::uint8_t> bytes(entry.descriptor_length);
    if (const auto got = take(entry.descriptor_offset, bytes); !got) {
        return got;
    }
    const auto own_length = declared_descriptor_length(bytes);
    if (!own_length) {
        return fail_in(where(entry), to_error(own_length.error()));
    }
    if (*own_length != entry.descriptor_length) {
        return fail_malformed(where(entry) + ": the index gives the descriptor " +
                              std::to_string(entry.descriptor_length) + " bytes, the descriptor itself " +
                              std::to_string(*own_length));
    }
    if (const auto good = set_current(std::move(bytes)); !good) {
        return fail_in(where(entry), good.error());
    }
    if (const auto placed = place_buffers(entry); !placed) {
        clear_current();
        return placed;
    }
    number_ = number;
    return {};
}

Result<void> FileReader::place_buffers(const IndexEntry& entry) {
    const BufferTable& buffers = current()->buffers;
    const std::uint64_t end = size_ - kFileTrailerSize;
    buffer_offsets_.clear();
    // An empty file region is nowhere in particular.
    if (buffers.size() > 0 && !range_fits(entry.data_offset, entry.data_length, end)) {
        return fail_malformed(where(entry) + ": its data of " + std::to_string(entry.data_length) + " bytes at byte " +
                              std::to_string(entry.data_offset) + " is not before the trailer");
    }
    const std::uint64_t data_end = entry.data_offset + entry.data_length;
    std::optional<std::uint64_t> position = entry.data_offset;
    for (std::size_t i = 0; i < buffers.size(); ++i) {
        const std::uint64_t size = buffers[i].byte_size;
        if (i > 0) {
            position = checked_align_up(*position, header_.data_buffer_alignment);
        }
        // Where an empty buffer would be does not matter: writers need not pad up to it.
        if (!position || (size > 0 && (*position > data_end || size > data_end - *position))) {
            return fail_malformed(where(entry) + ": buffer " + std::to_string(i) + " of " + std::to_string(size) +
                                  " bytes does not fit its data, " + std::to_string(entry.data_length) +
                                  " bytes at byte " + std::to_string(entry.data_offset));
        }
        buffer_offsets_.push_back(*position);
        *position += size;
    }
    return {};
}

Result<void> FileReader::read_checked(std::size_t buffer, std::uint64_t offset, std::span<std::uint8_t> out) {
    return take(buffer_offsets_[buffer] + offset, out);
}

Result<std::uint64_t> FileReader::bytes_at_hand(std::size_t buffer) { return current()->buffers[buffer].byte_size; }

}  // namespace hurray
