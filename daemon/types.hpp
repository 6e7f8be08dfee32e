#pragma once

#include <compare>
#include <cstdint>

namespace hurrayd {

/// One connection, for the daemon's life. Never used again for another one.
struct SessionNumber {
    std::uint64_t value = 0;
    friend auto operator<=>(const SessionNumber&, const SessionNumber&) = default;
};

/// One received piece of shared memory: the number that consumers are told. Never used again for another one.
struct SegmentNumber {
    std::uint64_t value = 0;
    friend auto operator<=>(const SegmentNumber&, const SegmentNumber&) = default;
};

}  // namespace hurrayd
