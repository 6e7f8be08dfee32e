#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "client/segment_pool.hpp"
#include "libhurray/base/result.hpp"
#include "libhurray/format/buffer_table.hpp"
#include "proto/wire/messages.hpp"

namespace hurray::client {

/// Memory that a caller has made itself, sealed memfds and dma-bufs, on its way to be published.
struct ForeignMemory {
    std::vector<std::shared_ptr<Block>> blocks;  ///< in the order of the descriptors
    std::vector<wire::Placement> placements;     ///< one for each buffer

    /// Finds out what each of `fds` is, checks it as hurrayd will, and duplicates it. Without `placements` buffer i begins fds[i].
    /// Fails: InvalidArgument  a descriptor (field "fds[i]"), its seals, or where a buffer is said to lie; the message says what
    ///                         is missing
    ///        Limit            more descriptors than a capsule has segments, or than this process may open
    [[nodiscard]] static Result<ForeignMemory> take(SegmentPool& pool, std::span<const std::int32_t> fds,
                                                    const std::vector<wire::Placement>* placements,
                                                    const BufferTable& table);
};

}  // namespace hurray::client
