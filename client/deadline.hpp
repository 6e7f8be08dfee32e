#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "client/address.hpp"

namespace hurray::client {

/// How often who waits for long asks whether it is interrupted, also without a signal: one that comes just before the wait, or to another
/// thread, ends no system call.
inline constexpr std::chrono::milliseconds kInterruptPause{250};

/// When a wait that can be interrupted, and ends with `deadline`, asks for it next.
[[nodiscard]] inline Deadline look_again_before(Deadline deadline) {
    const auto next = Clock::now() + kInterruptPause;
    return deadline && *deadline < next ? deadline : next;
}

/// Beyond this a timeout is as good as for ever (it is 35 years), and adding it to a time does not overflow.
inline constexpr std::uint64_t kForEverMs = 1ULL << 40;

/// When a timeout that began at `begin` is over. Absent: for ever.
[[nodiscard]] inline Deadline deadline_after(Clock::time_point begin, std::optional<std::uint64_t> timeout_ms) {
    if (!timeout_ms || *timeout_ms > kForEverMs) {
        return std::nullopt;
    }
    return begin + std::chrono::milliseconds(*timeout_ms);
}

}  // namespace hurray::client
