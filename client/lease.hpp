#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "hurray.h"

#include "client/segment_cache.hpp"
#include "proto/wire/messages.hpp"

namespace hurray::client {

class Session;

/// What is known of a lease. On the LeaseTable from the grant on, before there is a Lease.
struct Standing {
    std::uint64_t number = 0;
    wire::CapsuleId capsule;
    std::atomic<bool> producer_lost{false};
    std::atomic<bool> is_lost{false};      ///< the daemon does not know of it any more
    std::atomic<bool> is_confirmed{true};  ///< false: of a take, and whoever waits for its confirm speaks for it
};

/// One hold on somebody's capsule: the `owner` of a tensor context.
///
/// Owner: the tensor context; dropping the lease releases it at the daemon, exactly once, without blocking.
/// Threads: any one at a time; state() any.
class Lease {
  public:
    /// Takes over a lease that was granted.
    Lease(std::shared_ptr<Session> session, std::shared_ptr<Standing> standing, std::string name,
          std::vector<SegmentCache::Use> segments);
    ~Lease();
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;

    /// HURRAY_OK, HURRAY_ERR_PRODUCER_LOST, HURRAY_ERR_CONNECTION_LOST or HURRAY_ERR_FORKED.
    [[nodiscard]] HurrayStatus state() const;
    [[nodiscard]] const std::string& name() const noexcept { return name_; }
    [[nodiscard]] Standing& standing() const noexcept { return *standing_; }
    [[nodiscard]] const wire::CapsuleId& capsule() const noexcept { return standing_->capsule; }

    /// The HurrayOwnerReleaseFn of attached contexts.
    static void release_owner(void* owner) noexcept { delete static_cast<Lease*>(owner); }

  private:
    std::shared_ptr<Session> session_;
    std::shared_ptr<Standing> standing_;
    std::string name_;
    std::vector<SegmentCache::Use> segments_;
};

/// The open leases of one session, by capsule, so that news about a capsule reaches them.
///
/// Threads: any.
class LeaseTable {
  public:
    void add(const std::shared_ptr<Standing>& standing);
    void remove(const Standing& standing);
    void producer_lost(const wire::CapsuleId& capsule);
    /// The daemon does not take them for held.
    void lost(const std::vector<std::uint64_t>& leases);
    void all_lost();
    /// Those that are not lost, as claims; without takes that are not confirmed.
    [[nodiscard]] std::vector<wire::Claims::Claim> held();

  private:
    struct Hash {
        std::size_t operator()(const wire::CapsuleId& id) const noexcept;
    };

    std::mutex mutex_;
    std::unordered_multimap<wire::CapsuleId, std::shared_ptr<Standing>, Hash> leases_;
};

}  // namespace hurray::client
