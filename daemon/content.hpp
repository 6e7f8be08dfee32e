#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>

#include <boost/flyweight.hpp>
#include <boost/flyweight/hashed_factory.hpp>
#include <boost/flyweight/no_locking.hpp>

#include "daemon/hash.hpp"
#include "proto/wire/messages.hpp"

namespace hurrayd {

struct DescriptorHash {
    [[nodiscard]] std::size_t operator()(const std::string& descriptor) const noexcept {
        return keyed_hash(descriptor);
    }
};
/// Equal ones are kept once: as a rule many capsules have the same shape. Threads: one for all of them.
using SharedDescriptor =
    boost::flyweight<std::string, boost::flyweights::hashed_factory<DescriptorHash>, boost::flyweights::no_locking>;

/// What a capsule consists of: its descriptor, the segments that it lies in, and where in them each buffer is. Never changes.
///
/// Kept tight, since there may be hundreds of thousands of capsules. `Segment` is what the owner knows of a segment; the pointers
/// are loans. Sizes are as the protocol limits them. Threads: one.
template <class Segment>
class Content {
  public:
    using Placement = hurray::wire::Placement;

    Content() = default;
    Content(const std::string& descriptor, std::span<Segment* const> segments, std::span<const Placement> placements)
        : descriptor_(descriptor),
          block_(new std::byte[placements.size_bytes() + segments.size_bytes()]),
          segments_(static_cast<std::uint16_t>(segments.size())),
          placements_(static_cast<std::uint16_t>(placements.size())) {
        put(0, placements.data(), placements.size_bytes());
        put(segments_at(), segments.data(), segments.size_bytes());
    }

    [[nodiscard]] const std::string& descriptor() const noexcept { return descriptor_.get(); }
    /// In the order of those published.
    [[nodiscard]] std::span<Segment* const> segments() const noexcept {
        return {reinterpret_cast<Segment* const*>(block_.get() + segments_at()), segments_};
    }
    /// One for each entry of the descriptor's buffer table.
    [[nodiscard]] std::span<const Placement> placements() const noexcept {
        return {reinterpret_cast<const Placement*>(block_.get()), placements_};
    }

  private:
    // The strictest alignment comes first.
    static_assert(alignof(Placement) >= alignof(Segment*) && sizeof(Placement) % alignof(Segment*) == 0);
    [[nodiscard]] std::size_t segments_at() const noexcept { return placements_ * sizeof(Placement); }
    void put(std::size_t at, const void* bytes, std::size_t size) noexcept {
        if (size != 0) {
            std::memcpy(block_.get() + at, bytes, size);
        }
    }

    SharedDescriptor descriptor_;
    std::unique_ptr<std::byte[]> block_;  ///< placements, then segments
    std::uint16_t segments_ = 0;
    std::uint16_t placements_ = 0;
};

}  // namespace hurrayd
