#include "client/lease.hpp"

#include <cstring>
#include <unordered_set>
#include <utility>

#include "client/session.hpp"

namespace hurray::client {

std::size_t LeaseTable::Hash::operator()(const wire::CapsuleId& id) const noexcept {
    std::size_t hash = 0;  // the id is random: any part of it is as good as a hash
    std::memcpy(&hash, id.id.bytes.data(), sizeof hash);
    return hash;
}

void LeaseTable::add(const std::shared_ptr<Standing>& standing) {
    const std::lock_guard lock(mutex_);
    leases_.emplace(standing->capsule, standing);
}

void LeaseTable::remove(const Standing& standing) {
    const std::lock_guard lock(mutex_);
    for (auto [it, last] = leases_.equal_range(standing.capsule); it != last; ++it) {
        if (it->second.get() == &standing) {
            leases_.erase(it);
            return;
        }
    }
}

void LeaseTable::producer_lost(const wire::CapsuleId& capsule) {
    const std::lock_guard lock(mutex_);
    for (auto [it, last] = leases_.equal_range(capsule); it != last; ++it) {
        it->second->producer_lost = true;
    }
}

void LeaseTable::lost(const std::vector<std::uint64_t>& leases) {
    const std::unordered_set<std::uint64_t> numbers(leases.begin(), leases.end());
    const std::lock_guard lock(mutex_);
    for (const auto& [capsule, standing] : leases_) {
        if (numbers.contains(standing->number)) {
            standing->is_lost = true;
        }
    }
}

void LeaseTable::all_lost() {
    const std::lock_guard lock(mutex_);
    for (const auto& [capsule, standing] : leases_) {
        standing->is_lost = true;
    }
}

std::vector<wire::Claims::Claim> LeaseTable::held() {
    std::vector<wire::Claims::Claim> claims;
    const std::lock_guard lock(mutex_);
    claims.reserve(leases_.size());
    for (const auto& [capsule, standing] : leases_) {
        if (!standing->is_lost && standing->is_confirmed) {
            claims.push_back({capsule, standing->number, wire::Claims::State::Held});
        }
    }
    return claims;
}

Lease::Lease(std::shared_ptr<Session> session, std::shared_ptr<Standing> standing, std::string name,
             std::vector<SegmentCache::Use> segments)
    : session_(std::move(session)),
      standing_(std::move(standing)),
      name_(std::move(name)),
      segments_(std::move(segments)) {
    session_->connection().lease_opened();
}

Lease::~Lease() {
    // In a forked child the parent's lease goes on, and locks may be held by threads that don't exist here.
    Connection& connection = session_->connection();
    if (connection.in_child()) {
        for (SegmentCache::Use& use : segments_) {
            use.detach();
        }
        return;
    }
    // In this order: whoever looks at the table first, and then at what is being given back, sees it in one of them.
    if (standing_->is_lost) {
        connection.lease_lost();
    } else {
        connection.release({standing_->number, standing_->capsule});
    }
    session_->leases().remove(*standing_);
    segments_.clear();
    session_->segments().settle(connection);
}

HurrayStatus Lease::state() const {
    if (session_->connection().in_child()) {
        return HURRAY_ERR_FORKED;
    }
    if (standing_->producer_lost) {
        return HURRAY_ERR_PRODUCER_LOST;
    }
    return standing_->is_lost || session_->connection().has_ended() ? HURRAY_ERR_CONNECTION_LOST : HURRAY_OK;
}

}  // namespace hurray::client
