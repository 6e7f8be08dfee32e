#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "libhurray/base/result.hpp"

namespace hurrayd {

/// What a user may have only so much of.
enum class Quota : std::uint8_t {
    Clients,  ///< connections, greeted or not
    Waiting,  ///< attaches that wait
};
inline constexpr std::size_t kQuotas = 2;

/// As configuration, errors and metrics call it: "quota.user.clients".
[[nodiscard]] std::string_view name_of(Quota quota) noexcept;

/// How much of each thing a user may have, and how often that was too little. Plain values: who counts the use, asks here.
class Quotas {
  public:
    struct Limits {
        std::uint64_t clients = 256;
        std::uint64_t waiting = 1024;
    };
    explicit Quotas(Limits limits) noexcept : limits_{limits.clients, limits.waiting} {}

    /// Whether `uid`, who has `in_use`, may have one more. Fails: OverQuota, naming quota, limit and use.
    [[nodiscard]] hurray::Result<void> admit(Quota quota, std::uint32_t uid, std::uint64_t in_use);

    [[nodiscard]] std::uint64_t limit(Quota quota) const noexcept { return limits_[index(quota)]; }
    /// How many were refused so far.
    [[nodiscard]] std::uint64_t refused(Quota quota) const noexcept { return refused_[index(quota)]; }

  private:
    static constexpr std::size_t index(Quota quota) noexcept { return static_cast<std::size_t>(quota); }

    std::array<std::uint64_t, kQuotas> limits_;
    std::array<std::uint64_t, kQuotas> refused_{};
};

}  // namespace hurrayd
