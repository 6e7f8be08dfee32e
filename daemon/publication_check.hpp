#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "libhurray/base/result.hpp"
#include "proto/wire/messages.hpp"
#include "proto/wire/segment_check.hpp"

namespace hurrayd {

/// What is known of a publish once all that it brings has been checked.
struct CheckedPublish {
    /// For each segment, in their order; of one that came without its descriptor nothing.
    std::vector<hurray::wire::FileIdentity> files;
    /// Of the non-empty buffers together.
    std::uint64_t buffer_bytes = 0;
};

/// Checks the descriptor, the placements, and each of `fds`: one for each segment that carries one, in their order.
///
/// Fails: as check_descriptor, check_placements and check_segment do, naming the field
[[nodiscard]] hurray::Result<CheckedPublish> check_publish(const hurray::wire::Publish& publish,
                                                           std::span<const int> fds);

/// Checks that the memfds that a publish brings, which check_publish() has found good, were made by its publisher, `uid`: whoever was granted a
/// tensor has the descriptor, and could publish it in its owner's place. Root may publish anybody's; who exported a dma-buf says nothing.
/// Fails: NotPermitted, naming the segment and whose it is
[[nodiscard]] hurray::Result<void> check_makers(const hurray::wire::Publish& publish, std::span<const int> fds,
                                                std::uint32_t uid);

}  // namespace hurrayd
