#include "client/lease.hpp"

#include <cstring>
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

Lease::Lease(std::shared_ptr<Session> session, std::uint64_t number, std::shared_ptr<Standing> standing,
             std::string name, std::vector<SegmentCache::Use> segments)
    : session_(std::move(session)),
      number_(number),
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
    session_->leases().remove(*standing_);
    connection.release(number_);
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
    return session_->connection().has_ended() ? HURRAY_ERR_CONNECTION_LOST : HURRAY_OK;
}

}  // namespace hurray::client
