#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "libhurray/base/result.hpp"

namespace hurrayd {

/// What there is only so much of, for each user or for all of them together.
enum class Quota : std::uint8_t {
    Clients,       ///< connections, greeted or not
    Waiting,       ///< attaches that wait
    Reservations,  ///< segments announced and not published yet
    Stored,        ///< descriptors in the service manager's store
    Bytes,         ///< of shared memory, kept and reserved
    AllBytes,      ///< the same, of all users together
    AllStored,     ///< likewise
};
inline constexpr std::size_t kQuotas = 7;

/// As configuration, errors and metrics call it: "quota.user.clients".
[[nodiscard]] std::string_view name_of(Quota quota) noexcept;

/// How much of each thing a user may have, and how often that was too little. Plain values: who counts the use, asks here.
class Quotas {
  public:
    struct Limits {
        std::uint64_t clients = 256;
        std::uint64_t waiting = 1024;
        std::uint64_t reservations = 16384;
        std::uint64_t stored = 4096;
        std::uint64_t bytes = 0;       ///< 0: no limit
        std::uint64_t all_bytes = 0;   ///< 0: no limit
        std::uint64_t all_stored = 0;  ///< 0: no limit
    };
    explicit Quotas(Limits limits) noexcept
        : limits_{limits.clients, limits.waiting,   limits.reservations, limits.stored,
                  limits.bytes,   limits.all_bytes, limits.all_stored} {}

    /// Whether `uid` may have `more`, where `in_use` is what it has, or all have. Fails: OverQuota, naming quota, limit and use.
    [[nodiscard]] hurray::Result<void> admit(Quota quota, std::uint32_t uid, std::uint64_t in_use,
                                             std::uint64_t more = 1);

    /// 0: none.
    [[nodiscard]] std::uint64_t limit(Quota quota) const noexcept { return limits_[index(quota)]; }
    /// How many were refused so far.
    [[nodiscard]] std::uint64_t refused(Quota quota) const noexcept { return refused_[index(quota)]; }

  private:
    static constexpr std::size_t index(Quota quota) noexcept { return static_cast<std::size_t>(quota); }

    std::array<std::uint64_t, kQuotas> limits_;
    std::array<std::uint64_t, kQuotas> refused_{};
};

}  // namespace hurrayd
