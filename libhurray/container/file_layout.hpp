#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "libhurray/base/result.hpp"

/// The parts of a `.hrry` file that are neither descriptors nor data, between bytes and C++.
///
///     0        header, 64 bytes
///              for each tensor: descriptor (at a multiple of 8), padding to `data_buffer_alignment`, buffer 0, padding,
///              buffer 1, ..., padding to a multiple of 8
///              key-values, if there are any (at a multiple of 8)
///              index (at a multiple of 8)
///     size-40  trailer
///
/// All numbers are little-endian. A reader begins at both ends: the header says that it is a file, the trailer where the
/// index is.
namespace hurray {

inline constexpr std::size_t kFileHeaderSize = 64;
inline constexpr std::size_t kFileTrailerSize = 40;
/// Of an index entry without its name.
inline constexpr std::size_t kIndexEntrySize = 34;
inline constexpr std::uint32_t kMinDataAlignment = 4096;
inline constexpr std::uint32_t kMaxDataAlignment = 2097152;

namespace file_flags {
inline constexpr std::uint32_t kKeyValues = 1U << 0;  // readers look at the trailer instead: the flag may be missing
inline constexpr std::uint32_t kSortedIndex = 1U << 1;
inline constexpr std::uint32_t kIndexCrc = 1U << 2;
inline constexpr std::uint32_t kAll = 0x7;
}  // namespace file_flags

struct FileHeader {
    std::uint8_t version_major = 1;
    std::uint8_t version_minor = 0;
    std::uint32_t flags = 0;
    std::uint32_t data_buffer_alignment = kMinDataAlignment;
    std::uint64_t first_descriptor_offset = kFileHeaderSize;
    std::uint64_t tensor_count_hint = UINT64_MAX;  // all ones: unknown
};

struct FileTrailer {
    std::uint64_t index_offset = 0;
    std::uint64_t index_length = 0;
    std::uint64_t kv_offset = 0;  // 0: no key-values
    std::uint32_t kv_length = 0;
    std::uint32_t index_crc32c = 0;
};

/// Where a tensor is. The name is a loan of the index bytes.
struct IndexEntry {
    std::string_view name;
    std::uint64_t descriptor_offset = 0;
    std::uint32_t descriptor_length = 0;
    std::uint64_t data_offset = 0;  // of the first buffer
    std::uint64_t data_length = 0;  // from there to the end of the last one
};

/// Each checks what the part says of itself. Rules that a later minor version may lift (reserved bytes, positions) hold for
/// minor version 0 alone.
///
/// Fails: InvalidMagic, VersionMismatch, InvalidLayout
[[nodiscard]] Result<FileHeader> read_file_header(std::span<const std::uint8_t> bytes);
/// `file_size` is at least header and trailer. Both sections lie between them.
[[nodiscard]] Result<FileTrailer> read_file_trailer(std::span<const std::uint8_t> bytes, const FileHeader& header,
                                                    std::uint64_t file_size);
/// The CRC, where it counts, has been compared before.
[[nodiscard]] Result<std::vector<IndexEntry>> read_index(std::span<const std::uint8_t> bytes, const FileHeader& header,
                                                         const FileTrailer& trailer);

[[nodiscard]] std::array<std::uint8_t, kFileHeaderSize> write_file_header(const FileHeader& header);
[[nodiscard]] std::array<std::uint8_t, kFileTrailerSize> write_file_trailer(const FileTrailer& trailer);
[[nodiscard]] std::vector<std::uint8_t> write_index(std::span<const IndexEntry> entries);

}  // namespace hurray
