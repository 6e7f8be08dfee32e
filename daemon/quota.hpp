#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "libhurray/base/result.hpp"

namespace hurrayd {

/// What there is only so much of: for each user, for each of his clients, or for all users together.
enum class Quota : std::uint8_t {
    Clients,   ///< connections, greeted or not
    Capsules,  ///< staged and retired ones too
    Names,     ///< that he was the first to publish under
    Leases,    ///< claims included
    Waiting,   ///< attaches that wait
    Watches,
    Reservations,    ///< segments announced and not published yet
    Descriptors,     ///< of segments that are kept
    Stored,          ///< descriptors in the service manager's store
    Bytes,           ///< of shared memory, kept and reserved
    DaemonBytes,     ///< what keeping all this costs hurrayd
    ClientCapsules,  ///< published by one connection, and so on
    ClientLeases,
    ClientWaiting,
    ClientWatches,
    ClientBytes,
    ClientDaemonBytes,
    AllBytes,   ///< shared memory of all users together
    AllStored,  ///< likewise
};
inline constexpr std::size_t kQuotas = 19;

/// As configuration, errors and metrics call it: "quota.user.clients".
[[nodiscard]] std::string_view name_of(Quota quota) noexcept;

/// How much of each thing a user may have, and how often that was too little. Plain values: who counts the use, asks here.
class Quotas {
  public:
    /// 0: none. Those of users are beyond what an honest one needs; a client may have as much as its user unless somebody says otherwise.
    struct Limits {
        std::uint64_t clients = 256;
        std::uint64_t capsules = 1'000'000;
        std::uint64_t names = 1'000'000;
        std::uint64_t leases = 1'000'000;
        std::uint64_t waiting = 1024;
        std::uint64_t watches = 4096;
        std::uint64_t reservations = 16384;
        std::uint64_t descriptors = 0;
        std::uint64_t stored = 4096;
        std::uint64_t bytes = 0;
        std::uint64_t daemon_bytes = std::uint64_t{1} << 30;
        std::uint64_t client_capsules = 0;
        std::uint64_t client_leases = 0;
        std::uint64_t client_waiting = 0;
        std::uint64_t client_watches = 0;
        std::uint64_t client_bytes = 0;
        std::uint64_t client_daemon_bytes = 0;
        std::uint64_t all_bytes = 0;
        std::uint64_t all_stored = 0;
    };
    explicit Quotas(const Limits& limits) noexcept;

    /// Whether there may be `more` where there is `in_use`: of what a user has, one of his clients, or all.
    [[nodiscard]] bool fits(Quota quota, std::uint64_t in_use, std::uint64_t more = 1) const noexcept {
        const std::uint64_t most = this->most(quota);
        return in_use <= most && more <= most - in_use;
    }
    /// Counts that it does not fit what user `uid` may have. OverQuota, naming quota, limit and use.
    [[nodiscard, gnu::cold]] tl::unexpected<hurray::Error> refuse(Quota quota, std::uint32_t uid, std::uint64_t in_use,
                                                                  std::uint64_t more);
    /// Both in one.
    [[nodiscard]] hurray::Result<void> admit(Quota quota, std::uint32_t uid, std::uint64_t in_use,
                                             std::uint64_t more = 1) {
        return fits(quota, in_use, more) ? hurray::Result<void>() : refuse(quota, uid, in_use, more);
    }

    /// 0: none.
    [[nodiscard]] std::uint64_t limit(Quota quota) const noexcept { return limits_[index(quota)]; }
    /// How many were refused so far.
    [[nodiscard]] std::uint64_t refused(Quota quota) const noexcept { return refused_[index(quota)]; }

  private:
    /// Without a limit the sums still must not wrap.
    [[nodiscard]] std::uint64_t most(Quota quota) const noexcept {
        return limit(quota) != 0 ? limit(quota) : UINT64_MAX;
    }
    static constexpr std::size_t index(Quota quota) noexcept { return static_cast<std::size_t>(quota); }

    std::array<std::uint64_t, kQuotas> limits_;
    std::array<std::uint64_t, kQuotas> refused_{};
};

}  // namespace hurrayd
