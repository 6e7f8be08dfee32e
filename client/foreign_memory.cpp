#include "client/foreign_memory.hpp"

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include <fcntl.h>

#include "libhurray/base/unique_fd.hpp"
#include "proto/wire/segment_check.hpp"

namespace hurray::client {

namespace {

/// Buffer i at the beginning of segment i.
Result<std::vector<wire::Placement>> one_each(std::size_t fds, std::size_t buffers) {
    if (fds != buffers) {
        return fail_field(Errc::InvalidArgument, "placements",
                          "is null, so that each buffer begins a descriptor of its own, but there are " +
                              std::to_string(fds) + " descriptors for " + std::to_string(buffers) + " buffers");
    }
    std::vector<wire::Placement> placements(buffers);
    for (std::size_t i = 0; i < buffers; ++i) {
        placements[i].segment = static_cast<std::uint32_t>(i);
    }
    return placements;
}

Result<UniqueFd> duplicate(int fd) {
    UniqueFd duplicated(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
    if (!duplicated) {
        const int os_error = errno;
        return fail_os(Errc::Limit, os_error,
                       std::string("cannot duplicate a descriptor: ") + std::strerror(os_error) +
                           " (the limit on open descriptors is RLIMIT_NOFILE)");
    }
    return duplicated;
}

}  // namespace

Result<ForeignMemory> ForeignMemory::take(SegmentPool& pool, std::span<const std::int32_t> fds,
                                          const std::vector<wire::Placement>* placements, const BufferTable& table) {
    if (fds.size() > wire::kMaxSegments) {
        return fail(Error{.code = Errc::Limit,
                          .message = "are " + std::to_string(fds.size()) + " descriptors; a capsule has up to " +
                                     std::to_string(wire::kMaxSegments) + ": several buffers may lie in one",
                          .field = "fds",
                          .limit_name = "segments",
                          .limit = wire::kMaxSegments,
                          .value = fds.size()});
    }
    ForeignMemory memory;
    if (placements != nullptr) {
        memory.placements = *placements;
    } else {
        auto made = one_each(fds.size(), table.size());
        if (!made) {
            return fail(std::move(made.error()));
        }
        memory.placements = std::move(*made);
    }

    std::vector<wire::FoundSegment> found;
    std::vector<wire::Segment> segments;
    std::vector<wire::FileIdentity> files;
    for (std::size_t i = 0; i < fds.size(); ++i) {
        auto segment = wire::find_segment(fds[i], {"fds", i});
        if (!segment) {
            return fail(std::move(segment.error()));
        }
        segments.push_back({.memory = segment->memory, .size = segment->size});
        files.push_back(segment->file);
        found.push_back(*segment);
    }
    if (auto distinct = wire::check_distinct(files, "publish"); !distinct) {
        return fail(std::move(distinct.error()));
    }
    std::vector<wire::BufferExtent> extents;
    for (std::size_t i = 0; i < table.size(); ++i) {
        extents.push_back({table[i].byte_size, table[i].alignment});
    }
    if (auto placed = wire::check_placements(segments, memory.placements, extents, "publish"); !placed) {
        return fail(std::move(placed.error()));
    }
    for (std::size_t i = 0; i < fds.size(); ++i) {
        auto duplicated = duplicate(fds[i]);
        if (!duplicated) {
            return fail(std::move(duplicated.error()));
        }
        memory.blocks.push_back(pool.adopt(std::move(*duplicated), found[i]));
    }
    return memory;
}

}  // namespace hurray::client
