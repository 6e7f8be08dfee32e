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

/// Whether a lease's producer is still there. On the LeaseTable from the grant on, before there is a Lease.
struct Standing {
    wire::CapsuleId capsule;
    std::atomic<bool> producer_lost{false};
};

/// One hold on somebody's capsule: the `owner` of a tensor context.
///
/// Owner: the tensor context; dropping the lease releases it at the daemon, exactly once, without blocking.
/// Threads: any one at a time; state() any.
class Lease {
  public:
    /// Takes over a lease that was granted as `number`.
    Lease(std::shared_ptr<Session> session, std::uint64_t number, std::shared_ptr<Standing> standing, std::string name,
          std::vector<SegmentCache::Use> segments);
    ~Lease();
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;

    /// HURRAY_OK, HURRAY_ERR_PRODUCER_LOST, HURRAY_ERR_CONNECTION_LOST or HURRAY_ERR_FORKED.
    [[nodiscard]] HurrayStatus state() const;
    [[nodiscard]] const std::string& name() const noexcept { return name_; }
    /// The client's own, by which the daemon knows it.
    [[nodiscard]] std::uint64_t number() const noexcept { return number_; }
    [[nodiscard]] const wire::CapsuleId& capsule() const noexcept { return standing_->capsule; }

    /// The HurrayOwnerReleaseFn of attached contexts.
    static void release_owner(void* owner) noexcept { delete static_cast<Lease*>(owner); }

  private:
    std::shared_ptr<Session> session_;
    std::uint64_t number_;
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

  private:
    struct Hash {
        std::size_t operator()(const wire::CapsuleId& id) const noexcept;
    };

    std::mutex mutex_;
    std::unordered_multimap<wire::CapsuleId, std::shared_ptr<Standing>, Hash> leases_;
};

}  // namespace hurray::client
