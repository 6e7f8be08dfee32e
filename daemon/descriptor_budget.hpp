#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "daemon/closer.hpp"
#include "daemon/segments.hpp"
#include "libhurray/base/result.hpp"
#include "proto/wire/messages.hpp"

namespace hurrayd {

/// How many file descriptors this process may have, and has.
///
/// The kernel installs a packet's descriptors before anybody can count them, and where the slots end it installs some and
/// drops the rest. So a packet is received with its descriptors only while there are slots for as many as one can carry, and a burst
/// of several while there are twice as many as it can.
/// Clients may come as long as there are any: who attaches brings none.
///
/// Counted, not asked: this is looked at for each packet. Where the count is wrong, since somebody else took the slots, the
/// kernel says so, and the request is refused all the same.
class DescriptorBudget {
  public:
    static constexpr std::uint64_t kKeptFree = hurray::wire::kMaxPacketFds;
    /// Of a client: its socket and the pidfd of its process.
    static constexpr std::uint64_t kOfClient = 2;
    /// Of one user, being closed. Beyond it none are received from that user. (One burst may bring more.)
    static constexpr std::uint64_t kMostUnclosed = 1024;

    /// Takes the process's limit, and what is open now for its own; but for `to_be_segments`, which go to the table of segments later.
    DescriptorBudget(const SegmentTable& segments, const Closer& closer, std::uint64_t to_be_segments = 0);

    void client_came() noexcept { ++clients_; }
    void client_left() noexcept { --clients_; }

    [[nodiscard]] std::uint64_t limit() const noexcept { return limit_; }
    [[nodiscard]] std::uint64_t in_use() const noexcept {
        return own_ + kOfClient * clients_ + segments_.size() + closer_.pending();
    }
    /// How many packets of that user may be received with their descriptors, at a time. More than one: half of what is free, and as
    /// long as little of that user's is being closed.
    [[nodiscard]] std::size_t room_for_packets(std::uint32_t user) const {
        const std::uint64_t used = in_use();
        const std::uint64_t unclosed = closer_.pending() == 0 ? 0 : closer_.pending_of(user);
        if (used + kKeptFree > limit_ || unclosed > kMostUnclosed) {
            return 0;
        }
        const std::uint64_t at_ease = unclosed == 0 ? (limit_ - used) / 2 / kKeptFree : 1;
        return static_cast<std::size_t>(std::max<std::uint64_t>(at_ease, 1));
    }
    [[nodiscard]] bool has_room_for_client() const noexcept { return in_use() + kOfClient <= limit_; }

    /// Why not.
    [[nodiscard]] hurray::Error packet_refusal(std::uint32_t user) const;
    [[nodiscard]] hurray::Error client_refusal() const;

  private:
    const SegmentTable& segments_;
    const Closer& closer_;
    std::uint64_t limit_;
    std::uint64_t own_;
    std::uint64_t clients_ = 0;
};

}  // namespace hurrayd
