#pragma once

#include <compare>
#include <cstdint>
#include <string_view>
#include <vector>

#include "libhurray/base/result.hpp"
#include "proto/wire/faults.hpp"
#include "proto/wire/messages.hpp"

/// What a received descriptor of shared memory must be before anybody believes in it. Daemon and client use the same.
namespace hurray::wire {

/// Which file a descriptor is of, whatever its number and however often it was duplicated or opened again.
struct FileIdentity {
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
    friend auto operator<=>(const FileIdentity&, const FileIdentity&) = default;
};

/// Checks that `fd` is what `segment` says, and has exactly `segment.size` bytes. Never maps or reads the memory, and never waits
/// for a file system that somebody else serves.
///
/// Reusable   a memfd with exactly the seals SHRINK, GROW, FUTURE_WRITE and SEAL, whose pages are all reserved
/// Immutable  the same with WRITE in the place of FUTURE_WRITE, or beside it
/// Dmabuf     a dma-buf. It has no seals: whoever has its descriptor may write to it
///
/// F_SEAL_EXEC may come on top. What is true once then stays true: the seals see to it, and a dma-buf can't change its size.
///
/// Fails: Unsupported      memory of a kind that is not built yet
///        InvalidArgument  no memfd, wrong seals, wrong size, sparse; the message says which, and what was found
/// `field` is the segment's path in the message, for the error. Returns which file it is.
[[nodiscard]] Result<FileIdentity> check_segment(int fd, const Segment& segment, const Path& field);

/// What a descriptor of somebody's own memory is.
struct FoundSegment {
    Memory memory = Memory::Reusable;
    std::uint64_t size = 0;
    FileIdentity file;
};

/// Finds out what memory `fd` is, by its seals, and checks it as check_segment() does. Fails: InvalidArgument, with what is missing.
[[nodiscard]] Result<FoundSegment> find_segment(int fd, const Path& field);

/// Checks that no two segments are the same file. Fails: InvalidArgument, naming the second one below `field_prefix`.
[[nodiscard]] Result<void> check_distinct(const std::vector<FileIdentity>& files, std::string_view field_prefix);

/// What a placement needs to know of a buffer table entry.
struct BufferExtent {
    std::uint64_t byte_size = 0;
    std::uint32_t alignment = 1;
};

/// Checks that every non-empty buffer lies inside its segment, at a multiple of its alignment, that no two of them
/// overlap, and that every segment is used. `field_prefix` is "publish" or "attach" for the error. Fails:
/// InvalidArgument, naming the placement, the limit and the value. Nothing wraps, whatever the numbers.
[[nodiscard]] Result<void> check_placements(const std::vector<Segment>& segments,
                                            const std::vector<Placement>& placements,
                                            const std::vector<BufferExtent>& buffers, std::string_view field_prefix);

}  // namespace hurray::wire
