#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "daemon/closer.hpp"
#include "daemon/types.hpp"
#include "libhurray/base/unique_fd.hpp"

namespace hurrayd {

/// The descriptors of shared memory that the daemon keeps, by the number that consumers are told. Never mapped here.
///
/// A segment lives as long as somebody uses it: its capsule, and each queued packet that carries it.
/// Threads: one.
class SegmentTable {
  public:
    /// `closer` closes what is large.
    explicit SegmentTable(Closer& closer) noexcept : closer_(closer) {}

    /// Keeps `fd`, a sealed memfd of `bytes` bytes that has passed every check, with one use.
    [[nodiscard]] SegmentNumber add(hurray::UniqueFd fd, std::uint64_t bytes);
    /// A loan until the last use is dropped. The number must be in use.
    [[nodiscard]] int fd(SegmentNumber number) const;
    void hold(SegmentNumber number);
    /// Ends one use; the last one closes the descriptor: not here and now if it is one of many. Then whoever has been sent it is returned.
    [[nodiscard]] std::vector<SessionNumber> drop(SegmentNumber number, bool is_one_of_many = false);

    /// Notes that `session`, which keeps segments, has been sent the descriptor; and that it has it no more. The latter also of
    /// numbers that are not in use.
    void sent_to(SegmentNumber number, SessionNumber session);
    void forgotten_by(SegmentNumber number, SessionNumber session);
    [[nodiscard]] std::size_t size() const noexcept { return segments_.size(); }

  private:
    struct Segment {
        hurray::UniqueFd fd;
        std::uint64_t bytes = 0;
        std::uint64_t uses = 1;
        std::vector<SessionNumber> holders;
    };
    Closer& closer_;
    std::unordered_map<std::uint64_t, Segment> segments_;
    std::uint64_t next_ = 1;
};

}  // namespace hurrayd
