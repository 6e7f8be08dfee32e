#include "daemon/outbound.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <utility>
#include <variant>

#include "libhurray/base/check.hpp"
#include "proto/wire/codec.hpp"

namespace hurrayd {
namespace {

namespace wire = hurray::wire;

const std::vector<wire::Segment>* carried_segments(const wire::Packet& packet) noexcept {
    const auto* reply = std::get_if<wire::AttachReply>(&packet.message);
    return reply != nullptr ? &reply->segments : nullptr;
}

bool may_step_aside(const wire::Packet& packet) noexcept {
    return std::holds_alternative<wire::AttachReply>(packet.message) ||
           std::holds_alternative<wire::Done>(packet.message);
}

}  // namespace

void Outbound::add(SessionNumber session, int socket) {
    const auto [peer, fresh] = peers_.try_emplace(session.value);
    HURRAY_CHECK(fresh);
    peer->second.socket = socket;
}

void Outbound::remove(SessionNumber session) {
    const auto found = peers_.find(session.value);
    if (found == peers_.end()) {
        return;
    }
    clear(found->second);
    wake_dependents(found->second);
    peers_.erase(found);
    flush_all();
}

bool Outbound::idle(SessionNumber session) const noexcept {
    const auto found = peers_.find(session.value);
    return found != peers_.end() && found->second.queue.empty() && found->second.aside.empty();
}

bool Outbound::is_sent(const Place& place) const noexcept {
    const auto found = peers_.find(place.session.value);
    return found == peers_.end() || found->second.broken || found->second.sent >= place.number;
}

bool Outbound::may_go(const Entry& entry) const noexcept {
    return std::all_of(entry.after.begin(), entry.after.end(), [this](const Place& place) { return is_sent(place); });
}

void Outbound::deliver(Outbox& out) {
    places_.assign(out.packets.size(), Place{});
    for (std::size_t i = 0; i < out.packets.size(); ++i) {
        const Outgoing& outgoing = out.packets[i];
        const auto found = peers_.find(outgoing.to.value);
        if (found == peers_.end() || found->second.broken) {
            continue;
        }
        Peer& peer = found->second;

        std::vector<Place> after;
        for (std::size_t before = outgoing.after; before < i; ++before) {
            const Place& place = places_[before];
            if (place.number != 0 && place.session != outgoing.to && !is_sent(place)) {
                after.push_back(place);
            }
        }
        if (!after.empty() && may_step_aside(outgoing.packet)) {
            enqueue(outgoing.to, peer, outgoing.packet, std::move(after), true);
            continue;
        }
        if (after.empty() && peer.queue.empty()) {
            wire::encode(outgoing.packet, encoded_);
            const wire::Sent sent = send(outgoing.to, peer, encoded_, carried_segments(outgoing.packet), {});
            if (sent == wire::Sent::Done) {
                ++peer.placed;
                ++peer.sent;
                continue;
            }
            if (peer.broken) {
                continue;
            }
        }
        enqueue(outgoing.to, peer, outgoing.packet, std::move(after), false);
        places_[i] = {outgoing.to, peer.placed};
    }
    for (const SegmentNumber segment : out.dropped) {
        segments_.drop(segment);
    }
    out.clear();
    flush_all();  // a session that broke may have been waited for
}

void Outbound::enqueue(SessionNumber session, Peer& peer, const wire::Packet& packet, std::vector<Place> after,
                       bool aside) {
    wire::encode(packet, encoded_);
    // What stepped aside waits for another session's reading, not for this one's.
    if (peer.queue.size() >= limits_.packets || peer.bytes + encoded_.size() > limits_.bytes) {
        const auto now = std::chrono::steady_clock::now();
        peer.over_since = peer.over_since.value_or(now);
        if (now - *peer.over_since > limits_.patience || peer.bytes + encoded_.size() > limits_.most_bytes) {
            break_off(session, peer, "slow reader");
            return;
        }
    }
    Entry entry;
    entry.bytes = encoded_;
    if (const auto* carried = carried_segments(packet)) {
        for (const wire::Segment& segment : *carried) {
            if (segment.carries_fd) {
                segments_.hold({segment.number});
                entry.segments.push_back({segment.number});
            }
        }
    }
    wait_for(session, after);
    entry.after = std::move(after);
    peer.bytes += entry.bytes.size();
    if (aside) {
        peer.aside.push_back(std::move(entry));
    } else {
        peer.queue.push_back(std::move(entry));
        ++peer.placed;
    }
}

void Outbound::wait_for(SessionNumber session, const std::vector<Place>& after) {
    for (const Place& place : after) {
        const auto found = peers_.find(place.session.value);
        if (found == peers_.end() || is_sent(place)) {
            continue;
        }
        auto& dependents = found->second.dependents;
        if (std::find(dependents.begin(), dependents.end(), session) == dependents.end()) {
            dependents.push_back(session);
        }
    }
}

/// On anything but Done the packet is still to be sent, or the peer is broken. The carried segments are either those of a
/// message, or those that an entry holds.
wire::Sent Outbound::send(SessionNumber session, Peer& peer, std::string_view bytes,
                          const std::vector<wire::Segment>* carried, const std::vector<SegmentNumber>& held) {
    std::array<int, wire::kMaxPacketFds> fds;  // NOLINT(cppcoreguidelines-pro-type-member-init): counted below
    std::size_t count = 0;
    if (carried != nullptr) {
        for (const wire::Segment& segment : *carried) {
            if (segment.carries_fd) {
                fds.at(count++) = segments_.fd({segment.number});
            }
        }
    }
    for (const SegmentNumber segment : held) {
        fds.at(count++) = segments_.fd(segment);
    }
    const auto sent = wire::send_packet(peer.socket, std::as_bytes(std::span(bytes)), std::span(fds.data(), count));
    if (!sent) {
        break_off(session, peer, sent.error().message);
        return wire::Sent::Gone;
    }
    switch (*sent) {
        case wire::Sent::Done:
            break;
        case wire::Sent::WouldBlock:
            if (!peer.waits_for_room) {
                peer.waits_for_room = true;
                listener_.want_writable(session);
            }
            break;
        case wire::Sent::TooManyInFlight:
            set_refused(peer, true);
            break;
        case wire::Sent::Gone:
            // Not the end of the session: what the peer had sent before it left is still to be read.
            clear(peer);
            peer.broken = true;
            wake_dependents(peer);
            break;
    }
    return *sent;
}

void Outbound::writable(SessionNumber session) {
    if (const auto found = peers_.find(session.value); found != peers_.end()) {
        found->second.waits_for_room = false;
        to_flush_.push_back(session);
        flush_all();
    }
}

void Outbound::spoke(SessionNumber session) {
    if (refused_ == 0) {
        return;
    }
    if (const auto found = peers_.find(session.value); found != peers_.end() && found->second.refused) {
        set_refused(found->second, false);
        to_flush_.push_back(session);
        flush_all();
    }
}

void Outbound::retry_refused() {
    for (auto& [number, peer] : peers_) {
        if (peer.refused) {
            set_refused(peer, false);
            to_flush_.push_back({number});
        }
    }
    flush_all();
}

void Outbound::flush_all() {
    while (!to_flush_.empty()) {
        const SessionNumber session = to_flush_.back();
        to_flush_.pop_back();
        flush(session);
    }
}

void Outbound::flush(SessionNumber session) {
    const auto found = peers_.find(session.value);
    if (found == peers_.end() || found->second.broken) {
        return;
    }
    Peer& peer = found->second;
    // What stepped aside takes its place in the order now.
    for (auto entry = peer.aside.begin(); entry != peer.aside.end();) {
        if (may_go(*entry)) {
            peer.queue.push_back(std::move(*entry));
            ++peer.placed;
            entry = peer.aside.erase(entry);
        } else {
            wait_for(session, entry->after);
            ++entry;
        }
    }
    bool progress = false;
    while (!peer.queue.empty() && !peer.waits_for_room && !peer.refused) {
        Entry& head = peer.queue.front();
        if (!may_go(head)) {
            wait_for(session, head.after);
            break;
        }
        if (send(session, peer, head.bytes, nullptr, head.segments) != wire::Sent::Done) {
            break;  // `head` may be gone
        }
        ++peer.sent;
        progress = true;
        peer.bytes -= head.bytes.size();
        for (const SegmentNumber segment : head.segments) {
            segments_.drop(segment);
        }
        peer.queue.pop_front();
    }
    if (progress) {
        peer.over_since.reset();
        wake_dependents(peer);
    }
}

void Outbound::wake_dependents(Peer& peer) {
    to_flush_.insert(to_flush_.end(), peer.dependents.begin(), peer.dependents.end());
    peer.dependents.clear();
}

void Outbound::clear(Peer& peer) {
    for (const auto& entry : peer.queue) {
        for (const SegmentNumber segment : entry.segments) {
            segments_.drop(segment);
        }
    }
    for (const auto& entry : peer.aside) {
        for (const SegmentNumber segment : entry.segments) {
            segments_.drop(segment);
        }
    }
    peer.queue.clear();
    peer.aside.clear();
    peer.bytes = 0;
    set_refused(peer, false);
}

void Outbound::break_off(SessionNumber session, Peer& peer, std::string_view reason) {
    clear(peer);
    peer.broken = true;
    wake_dependents(peer);
    listener_.broken(session, reason);
}

void Outbound::set_refused(Peer& peer, bool refused) noexcept {
    if (peer.refused != refused) {
        peer.refused = refused;
        refused ? ++refused_ : --refused_;
    }
}

}  // namespace hurrayd
