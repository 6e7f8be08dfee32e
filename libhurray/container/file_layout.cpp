#include "libhurray/container/file_layout.hpp"

#include <algorithm>
#include <bit>
#include <string>

#include "libhurray/base/checked_math.hpp"
#include "libhurray/base/log_line.hpp"
#include "libhurray/base/utf8.hpp"
#include "libhurray/container/file_io.hpp"
#include "libhurray/container/part_reader.hpp"
#include "libhurray/format/byte_writer.hpp"

namespace hurray {
namespace {

constexpr std::string_view kFileMagic = "HRRYFILE";
constexpr std::string_view kTrailerMagic = "HRRY";
constexpr std::uint8_t kNewestMajor = 1;

bool all_zero(std::span<const std::uint8_t> bytes) {
    return std::all_of(bytes.begin(), bytes.end(), [](std::uint8_t byte) { return byte == 0; });
}

std::span<const std::uint8_t> as_bytes(std::string_view text) {
    return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

/// `offset` and `length` name a range between header and trailer.
void check_section(PartReader& in, const char* what, std::uint64_t offset, std::uint64_t length,
                   std::uint64_t file_size) {
    if (offset < kFileHeaderSize || !range_fits(offset, length, file_size - kFileTrailerSize)) {
        in.fail(std::string("the ") + what + " is said to be " + std::to_string(length) + " bytes at byte " +
                std::to_string(offset) + ", which is not between header and trailer of a file of " +
                std::to_string(file_size) + " bytes");
    }
}

}  // namespace

Result<FileHeader> read_file_header(std::span<const std::uint8_t> bytes) {
    PartReader in(bytes, 0, "header");
    if (in.text(kFileMagic.size(), "the magic") != kFileMagic) {
        return fail(Errc::InvalidMagic, "the first bytes are not \"HRRYFILE\"");
    }
    FileHeader header;
    header.version_major = in.read<std::uint8_t>("the major version");
    if (header.version_major > kNewestMajor) {
        return fail(Errc::VersionMismatch, "the file's major version is " + std::to_string(header.version_major) +
                                               ", this library knows " + std::to_string(kNewestMajor));
    }
    header.version_minor = in.read<std::uint8_t>("the minor version");
    const bool known = header.version_minor == 0;
    const bool version_padding = all_zero(in.bytes(2, "reserved bytes"));
    in.check(!known || version_padding, "reserved bytes are not zero");
    header.flags = in.read<std::uint32_t>("the flags");
    in.check((header.flags & ~file_flags::kAll) == 0, "file_flags has reserved bits set");
    header.data_buffer_alignment = in.read<std::uint32_t>("data_buffer_alignment");
    in.check(std::has_single_bit(header.data_buffer_alignment) && header.data_buffer_alignment >= kMinDataAlignment &&
                 header.data_buffer_alignment <= kMaxDataAlignment,
             "data_buffer_alignment is " + std::to_string(header.data_buffer_alignment) +
                 ", not a power of two from 4096 to 2097152");
    header.first_descriptor_offset = in.read<std::uint64_t>("first_descriptor_offset");
    in.check(!known || (header.first_descriptor_offset >= kFileHeaderSize && header.first_descriptor_offset % 8 == 0),
             "first_descriptor_offset is " + std::to_string(header.first_descriptor_offset) +
                 ", not a multiple of 8 behind the header");
    header.tensor_count_hint = in.read<std::uint64_t>("tensor_count_hint");
    const bool zero = all_zero(in.bytes(28, "reserved bytes"));
    in.check(!known || zero, "reserved bytes are not zero");
    if (!in.ok()) {
        return fail(in.take_error());
    }
    return header;
}

Result<FileTrailer> read_file_trailer(std::span<const std::uint8_t> bytes, const FileHeader& header,
                                      std::uint64_t file_size) {
    const bool known = header.version_minor == 0;
    if (PartReader magic(bytes.last(kTrailerMagic.size()), file_size - kTrailerMagic.size(), "trailer");
        magic.text(kTrailerMagic.size(), "the magic") != kTrailerMagic) {
        return fail_malformed("the last bytes are not \"HRRY\": the file is cut, or its writer did not finish it");
    }
    PartReader in(bytes, file_size - kFileTrailerSize, "trailer");
    FileTrailer trailer;
    trailer.index_offset = in.read<std::uint64_t>("index_offset");
    trailer.index_length = in.read<std::uint64_t>("index_length");
    check_section(in, "index", trailer.index_offset, trailer.index_length, file_size);
    in.check(!known || trailer.index_offset % 8 == 0, "index_offset is not a multiple of 8");
    trailer.kv_offset = in.read<std::uint64_t>("kv_offset");
    trailer.kv_length = in.read<std::uint32_t>("kv_length");
    if (trailer.kv_offset == 0 || trailer.kv_length == 0) {
        in.check(!known || (trailer.kv_offset == 0 && trailer.kv_length == 0),
                 "of kv_offset and kv_length one alone is 0");
        trailer.kv_offset = 0;
        trailer.kv_length = 0;
    } else {
        check_section(in, "key-value section", trailer.kv_offset, trailer.kv_length, file_size);
        in.check(!known || trailer.kv_offset % 8 == 0, "kv_offset is not a multiple of 8");
    }
    trailer.index_crc32c = in.read<std::uint32_t>("index_crc32c");
    in.check((header.flags & file_flags::kIndexCrc) != 0 || trailer.index_crc32c == 0 || !known,
             "index_crc32c is not 0, but the flags say that there is none");
    const bool zero = all_zero(in.bytes(4, "reserved bytes"));
    in.check(!known || zero, "reserved bytes are not zero");
    if (!in.ok()) {
        return fail(in.take_error());
    }
    return trailer;
}

Result<std::vector<IndexEntry>> read_index(std::span<const std::uint8_t> bytes, const FileHeader& header,
                                           const FileTrailer& trailer) {
    const bool known = header.version_minor == 0;
    PartReader in(bytes, trailer.index_offset, "index");
    const auto count = in.read<std::uint64_t>("the number of entries");
    // Before anything is allocated for them.
    in.check(count <= in.remaining() / (kIndexEntrySize + 1),
             std::to_string(count) + " entries do not fit " + std::to_string(in.remaining()) + " bytes");
    if (!in.ok()) {
        return fail(in.take_error());
    }
    std::vector<IndexEntry> entries;
    entries.reserve(static_cast<std::size_t>(count));
    for (std::uint64_t i = 0; i < count && in.ok(); ++i) {
        IndexEntry entry;
        const auto length = in.read<std::uint16_t>("the length of a name");
        in.check(length > 0, "a name is empty");
        entry.name = in.text(length, "a name");
        in.check(is_utf8(entry.name), "a name is not UTF-8");
        entry.descriptor_offset = in.read<std::uint64_t>("descriptor_offset");
        entry.descriptor_length = in.read<std::uint32_t>("descriptor_length");
        entry.data_offset = in.read<std::uint64_t>("data_offset");
        entry.data_length = in.read<std::uint64_t>("data_length");
        const auto flags = in.read<std::uint32_t>("an entry's flags");
        in.check(!known || flags == 0, "an entry's flags are not 0");
        entries.push_back(entry);
    }
    if (known) {
        in.check_end();
    }
    if (in.ok() && known && (header.flags & file_flags::kSortedIndex) != 0) {
        const auto out_of_order = std::adjacent_find(
            entries.begin(), entries.end(), [](const IndexEntry& a, const IndexEntry& b) { return a.name >= b.name; });
        if (out_of_order != entries.end()) {
            in.fail("the flags say that names are sorted, but " + as_log_value((out_of_order + 1)->name) +
                    " comes behind " + as_log_value(out_of_order->name));
        }
    }
    if (!in.ok()) {
        return fail(in.take_error());
    }
    return entries;
}

std::array<std::uint8_t, kFileHeaderSize> write_file_header(const FileHeader& header) {
    std::array<std::uint8_t, kFileHeaderSize> bytes{};
    ByteWriter out{std::span(bytes)};
    out.bytes(as_bytes(kFileMagic));
    out.write(header.version_major);
    out.write(header.version_minor);
    out.zeros(2);
    out.write(header.flags);
    out.write(header.data_buffer_alignment);
    out.write(header.first_descriptor_offset);
    out.write(header.tensor_count_hint);
    return bytes;
}

std::array<std::uint8_t, kFileTrailerSize> write_file_trailer(const FileTrailer& trailer) {
    std::array<std::uint8_t, kFileTrailerSize> bytes{};
    ByteWriter out{std::span(bytes)};
    out.write(trailer.index_offset);
    out.write(trailer.index_length);
    out.write(trailer.kv_offset);
    out.write(trailer.kv_length);
    out.write(trailer.index_crc32c);
    out.zeros(4);
    out.bytes(as_bytes(kTrailerMagic));
    return bytes;
}

std::vector<std::uint8_t> write_index(std::span<const IndexEntry> entries) {
    std::size_t size = sizeof(std::uint64_t);
    for (const IndexEntry& entry : entries) {
        size += kIndexEntrySize + entry.name.size();
    }
    std::vector<std::uint8_t> bytes(size);
    ByteWriter out{std::span(bytes)};
    out.write(static_cast<std::uint64_t>(entries.size()));
    for (const IndexEntry& entry : entries) {
        out.write(static_cast<std::uint16_t>(entry.name.size()));
        out.bytes(as_bytes(entry.name));
        out.write(entry.descriptor_offset);
        out.write(entry.descriptor_length);
        out.write(entry.data_offset);
        out.write(entry.data_length);
        out.write(std::uint32_t{0});
    }
    return bytes;
}

}  // namespace hurray
