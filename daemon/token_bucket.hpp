#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace hurrayd {

/// How many requests of a client are read.
struct RequestRate {
    std::uint64_t per_second = 0;  ///< 0: as many as come
    std::uint64_t burst = 1024;    ///< so many at once, when it has been silent before
};

/// What a client may still say: a bucket that holds `burst` tokens, is full at first, and gets `per_second` new ones. Each request takes one.
///
/// Only the time is kept at which it will be full again. Time comes in. Threads: one.
class TokenBucket {
  public:
    using Time = std::chrono::steady_clock::time_point;

    explicit TokenBucket(const RequestRate& rate) noexcept
        : burst_(rate.burst),
          interval_(rate.per_second == 0 ? 0 : kSecond / static_cast<std::int64_t>(rate.per_second)) {}

    [[nodiscard]] bool is_limited() const noexcept { return interval_.count() != 0; }
    /// How many tokens there are. Only where it is limited.
    [[nodiscard]] std::uint64_t available(Time now) const noexcept {
        const auto missing =
            full_at_ <= now ? 0 : (full_at_ - now + interval_ - std::chrono::nanoseconds(1)) / interval_;
        return burst_ - std::min(burst_, static_cast<std::uint64_t>(missing));
    }
    /// Takes that many of those that there are.
    void take(std::uint64_t tokens, Time now) noexcept {
        full_at_ = std::max(full_at_, now) + static_cast<std::int64_t>(tokens) * interval_;
    }
    /// When there will be one, if there is none.
    [[nodiscard]] Time next() const noexcept { return full_at_ - static_cast<std::int64_t>(burst_ - 1) * interval_; }

  private:
    static constexpr std::int64_t kSecond = 1'000'000'000;
    std::uint64_t burst_;
    std::chrono::nanoseconds interval_;  ///< between two tokens
    Time full_at_{};
};

}  // namespace hurrayd
