#include "daemon/outbound.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <utility>
#include <variant>

#include <linux/sockios.h>
#include <sys/ioctl.h>

#include "libhurray/base/check.hpp"
#include "proto/wire/codec.hpp"

namespace hurrayd {
namespace {

namespace wire = hurray::wire;

const std::vector<wire::Segment>* carried_segments(const wire::Packet& packet) noexcept {
    const auto* reply = std::get_if<wire::AttachReply>(&packet.message);
    return reply != nullptr ? &reply->segments : nullptr;
}

/// What the peer of `socket` has not read yet, in bytes of the kernel's own counting; 0: it has read everything.
int unread_bytes(int socket) noexcept {
    int bytes = 0;
    return ::ioctl(socket, SIOCOUTQ, &bytes) == 0 ? bytes : 1;
}

/// How far behind a packet others are looked for that go with it: what a burst sets off, a few times over.
constexpr std::size_t kLookAhead = 128;
/// Of several packets in one: a socket that is nearly full has room for it all the same, sooner or later.
constexpr std::size_t kMostBundledBytes = 16 * 1024;
/// Segments that a step lets go and that are closed on the spot, if they are small: it takes some ten microseconds each.
constexpr std::size_t kFewDropped = 16;
/// What is kept of a segment that a session was sent: here, and that the session has it where the segment is.
constexpr std::size_t kKeptSegment = 64;
/// A packet that waits, beside its bytes.
constexpr std::size_t kKeptPacket = 160;
/// The place of a packet that is not sent.
constexpr std::uint64_t kNever = UINT64_MAX;

bool may_step_aside(const wire::Packet& packet) noexcept {
    return std::holds_alternative<wire::AttachReply>(packet.message) ||
           std::holds_alternative<wire::Done>(packet.message);
}

/// Whether it means nothing before the grants that it may speak of: then it does not pass them.
bool is_in_turn(const wire::Packet& packet) noexcept {
    return std::holds_alternative<wire::ProducerLost>(packet.message);
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
    tell_unheard(session, found->second);
    wake_dependents(found->second);
    forget_unread(found->second);
    for (const std::uint64_t segment : found->second.kept) {
        segments_.forgotten_by({segment}, session);
    }
    with_gone_.erase(session);
    peers_.erase(found);
    flush_all();
}

bool Outbound::idle(SessionNumber session) const noexcept {
    const auto found = peers_.find(session.value);
    return found != peers_.end() && found->second.queue.empty() && found->second.aside.empty();
}

std::optional<bool> Outbound::has_sent_all(SessionNumber session) const noexcept {
    return has_peer(session) ? std::optional(idle(session)) : std::nullopt;
}

Outbound::Queued Outbound::queued() const noexcept {
    Queued sum;
    for (const auto& [number, peer] : peers_) {
        sum.packets += peer.queue.size() + peer.aside.size();
        sum.bytes += peer.bytes + peer.aside_bytes;
    }
    return sum;
}

bool Outbound::is_sent(const Place& place) const noexcept {
    const auto found = peers_.find(place.session.value);
    return found == peers_.end() || found->second.broken || found->second.sent >= place.number;
}

/// Whether the packet `index` of `out` was not sent, and never will be.
bool Outbound::is_past_sending(const Outbox& out, std::size_t index) const noexcept {
    const auto found = peers_.find(out.packets[index].to.value);
    if (found != peers_.end() && !found->second.broken) {
        return false;
    }
    return !is_placed_[index] || places_[index].number > (found != peers_.end() ? found->second.sent : 0);
}

/// Puts what is to be sent instead in place of the packet `index`, if one that it must follow is past sending.
void Outbound::note_unheard(Outbox& out, std::size_t index) {
    Outgoing& outgoing = out.packets[index];
    if (outgoing.unheard == nullptr) {
        return;
    }
    bool is_unheard = outgoing.behind.value != 0 && !has_peer(outgoing.behind);
    for (std::size_t before = outgoing.after; before < index && !is_unheard; ++before) {
        is_unheard = out.packets[before].to != outgoing.to && is_past_sending(out, before);
    }
    if (is_unheard) {
        outgoing.packet.message = std::move(outgoing.unheard->message);
        listener_.unheard(outgoing.unheard->capsule);
        outgoing.unheard = nullptr;
    }
}

bool Outbound::may_go(const Entry& entry) const noexcept {
    return std::all_of(entry.after.begin(), entry.after.end(), [this](const Place& place) { return is_sent(place); });
}

void Outbound::deliver(Outbox& out) {
    places_.assign(out.packets.size(), Place{});
    is_placed_.assign(out.packets.size(), false);
    auto forgotten = out.forgotten.begin();
    for (std::size_t i = 0; i < out.packets.size(); ++i) {
        for (; forgotten != out.forgotten.end() && forgotten->from <= i; ++forgotten) {
            forget_kept(forgotten->session, forgotten->segment);
        }
        if (!is_placed_[i]) {
            place(out, i, forgotten != out.forgotten.end() ? forgotten->from : out.packets.size());
            is_placed_[i] = true;
        }
    }
    for (; forgotten != out.forgotten.end(); ++forgotten) {
        forget_kept(forgotten->session, forgotten->segment);
    }
    for (const SegmentNumber segment : out.dropped) {
        let_go(segment, out.dropped.size() > kFewDropped);
    }
    out.clear();
    flush_all();  // a session that broke may have been waited for
}

/// Sends or queues the packet `index`, and whatever can go in a run with it, from before `end`.
void Outbound::place(Outbox& out, std::size_t index, std::size_t end) {
    Outgoing& outgoing = out.packets[index];
    const auto found = peers_.find(outgoing.to.value);
    if (found == peers_.end() || found->second.broken) {
        places_[index] = {outgoing.to, kNever};
        return;
    }
    Peer& peer = found->second;

    note_unheard(out, index);
    std::vector<Place> after = unsent_before(out, index);
    const bool is_behind_grant = is_in_turn(outgoing.packet) && has_grant_aside(peer);
    if (is_behind_grant || (!after.empty() && may_step_aside(outgoing.packet))) {
        enqueue(peer, outgoing, std::move(after), true);
        return;
    }
    if (after.empty() && peer.queue.empty()) {
        if (send_run(peer, out, index, end)) {
            return;
        }
        // What goes now needs no descriptor that went before. What is queued has all of them: it may be overtaken.
        leave_out_kept(peer, outgoing.packet, {});
        wire::encode(outgoing.packet, encoded_);
        const auto* carried = carried_segments(outgoing.packet);
        const wire::Sent sent = send(outgoing.to, peer, encoded_.view(), carried, {});
        if (sent == wire::Sent::Done) {
            note_gone_out(outgoing, peer);
            return;
        }
        carry_all(peer, outgoing.packet);
        if (peer.broken) {
            places_[index] = {outgoing.to, kNever};
            return;
        }
        if (sent == wire::Sent::TooManyInFlight) {
            enqueue(peer, outgoing, {}, true);
            return;
        }
    }
    enqueue(peer, outgoing, std::move(after), false);
    places_[index] = {outgoing.to, peer.broken ? kNever : peer.placed};
}

/// The packet is in its socket.
void Outbound::note_gone_out(const Outgoing& outgoing, Peer& peer) {
    ++peer.placed;
    ++peer.sent;
    if (const auto* carried = carried_segments(outgoing.packet)) {
        for (const wire::Segment& segment : *carried) {
            note_sent(outgoing.to, peer, {segment.number});
        }
    }
}

void Outbound::keep_segments(SessionNumber session) {
    if (const auto found = peers_.find(session.value); found != peers_.end()) {
        found->second.keeps_segments = true;
    }
}

void Outbound::take_bundles(SessionNumber session) {
    if (const auto found = peers_.find(session.value); found != peers_.end()) {
        found->second.takes_bundles = true;
    }
}

void Outbound::carry_all(const Peer& peer, wire::Packet& packet) noexcept {
    auto* reply = peer.keeps_segments ? std::get_if<wire::AttachReply>(&packet.message) : nullptr;
    if (reply != nullptr) {
        for (wire::Segment& segment : reply->segments) {
            segment.carries_fd = true;
        }
    }
}

/// `before`: what goes to it in the same run, and is remembered as sent to it once it is.
void Outbound::leave_out_kept(const Peer& peer, wire::Packet& packet, std::span<const std::uint64_t> before) {
    auto* reply = peer.keeps_segments ? std::get_if<wire::AttachReply>(&packet.message) : nullptr;
    if (reply != nullptr) {
        for (wire::Segment& segment : reply->segments) {
            segment.carries_fd = !peer.kept.contains(segment.number) &&
                                 std::find(before.begin(), before.end(), segment.number) == before.end();
        }
    }
}

/// The descriptor of `segment` is in the peer's socket.
void Outbound::note_sent(SessionNumber session, Peer& peer, SegmentNumber segment) {
    if (!peer.keeps_segments || peer.kept.contains(segment.value)) {
        return;
    }
    if (peer.kept.size() < limits_.kept_segments) {
        peer.kept.insert(segment.value);
        peer.gone.erase(segment.value);
        segments_.sent_to(segment, session);
        tell_kept(session, peer);
    } else {
        peer.gone.insert(segment.value);
        with_gone_.insert(session);
    }
}

/// Puts what is kept for it on its user's bill.
void Outbound::tell_kept(SessionNumber session, const Peer& peer) {
    listener_.keeps(session, peer.bytes + peer.aside_bytes + (peer.queue.size() + peer.aside.size()) * kKeptPacket +
                                 peer.kept.size() * kKeptSegment);
}

void Outbound::forget_kept(SessionNumber session, SegmentNumber segment) {
    const auto found = peers_.find(session.value);
    if (found != peers_.end() && found->second.kept.erase(segment.value) != 0) {
        segments_.forgotten_by(segment, session);
        tell_kept(session, found->second);
    }
}

/// Ends one use of `segment`. If it was the last, those who keep it are to be told.
void Outbound::let_go(SegmentNumber segment, bool is_one_of_many) {
    for (const SessionNumber session : segments_.drop(segment, is_one_of_many)) {
        const auto found = peers_.find(session.value);
        if (found != peers_.end() && found->second.kept.erase(segment.value) != 0) {
            tell_kept(session, found->second);
            if (!found->second.broken) {
                found->second.gone.insert(segment.value);
                with_gone_.insert(session);
            }
        }
    }
}

void Outbound::tell_gone() {
    Outbox out;
    for (const SessionNumber session : std::exchange(with_gone_, {})) {
        if (const auto found = peers_.find(session.value); found != peers_.end()) {
            const std::set<std::uint64_t> gone = std::exchange(found->second.gone, {});
            for (auto first = gone.begin(); first != gone.end();) {
                const auto last = std::ranges::next(first, wire::kMaxSegmentNumbers, gone.end());
                out.send(session, 0, wire::SegmentsGone{{first, last}});
                first = last;
            }
        }
    }
    deliver(out);
}

/// What the packet must wait for: of those before it in `out`, which have their places, and of the one it comes behind.
std::vector<Outbound::Place> Outbound::unsent_before(const Outbox& out, std::size_t index) const {
    const Outgoing& outgoing = out.packets[index];
    std::vector<Place> unsent;
    for (std::size_t before = outgoing.after; before < index; ++before) {
        add_unsent(unsent, places_[before], outgoing.to);
    }
    if (const auto other = peers_.find(outgoing.behind.value); other != peers_.end()) {
        add_unsent(unsent, {outgoing.behind, other->second.placed}, outgoing.to);
    }
    return unsent;
}

/// Whether the packet `index` may go in a run with all that goes to the same peer before it: when what else it must follow is sent.
bool Outbound::may_join(const Outbox& out, std::size_t index) const {
    const Outgoing& outgoing = out.packets[index];
    if (outgoing.behind.value != 0) {
        return false;  // of what goes to that one, some may still be before us
    }
    for (std::size_t before = outgoing.after; before < index; ++before) {
        const SessionNumber to = out.packets[before].to;
        if (to != outgoing.to && ((!is_placed_[before] && has_peer(to)) || !is_sent(places_[before]))) {
            return false;
        }
    }
    return true;
}

bool Outbound::has_peer(SessionNumber session) const noexcept {
    const auto found = peers_.find(session.value);
    return found != peers_.end() && !found->second.broken;
}

/// Sends the packet `first`, which waits for nothing, in one call with those behind it, but before `end`, that go to the same
/// peer and may join. False: it is one alone, or the socket did not take it.
bool Outbound::send_run(Peer& peer, Outbox& out, std::size_t first, std::size_t end) {
    end = std::min(end, first + kLookAhead);
    const auto is_alone = [&] {
        const SessionNumber to = out.packets[first].to;
        return std::none_of(out.packets.begin() + static_cast<std::ptrdiff_t>(first + 1),
                            out.packets.begin() + static_cast<std::ptrdiff_t>(end),
                            [to](const Outgoing& next) { return next.to == to; });
    };
    if (is_alone()) {
        return false;
    }
    run_.clear();
    bundles_.clear();
    run_fds_.clear();
    run_segments_.clear();
    encoded_.clear();
    std::size_t carried_fds = 0;
    for (std::size_t i = first; i < end && run_.size() < wire::kMaxRun; ++i) {
        Outgoing& next = out.packets[i];
        if (next.to != out.packets[first].to) {
            continue;
        }
        if (i != first && (!may_join(out, i) || (is_in_turn(next.packet) && has_grant_aside(peer)))) {
            break;
        }
        note_unheard(out, i);
        leave_out_kept(peer, next.packet, run_segments_);
        const std::size_t first_fd = run_fds_.size();
        if (const auto* carried = carried_segments(next.packet)) {
            for (const wire::Segment& segment : *carried) {
                if (segment.carries_fd) {
                    run_fds_.push_back(segments_.fd({segment.number}));
                    if (peer.keeps_segments && peer.kept.size() + run_segments_.size() < limits_.kept_segments) {
                        run_segments_.push_back(segment.number);
                    }
                }
            }
        }
        const std::size_t count = run_fds_.size() - first_fd;
        const bool is_too_much = carried_fds != 0 && count != 0 &&
                                 (peer.unread_fds + carried_fds + count > limits_.unread_fds ||
                                  unread_fds_ + carried_fds + count > limits_.all_unread_fds);
        if (count != 0 && (is_too_much || peer.refused || !may_carry(peer, carried_fds + count))) {
            carry_all(peer, next.packet);
            break;
        }
        carried_fds += count;
        pack(peer, next, i, first_fd);
    }
    if (run_.size() < 2) {
        for (const RunPart& part : run_) {
            carry_all(peer, out.packets[part.index].packet);
        }
        return false;
    }
    std::array<wire::Parcel, wire::kMaxRun> packets;
    for (std::size_t i = 0; i < bundles_.size(); ++i) {
        const Bundle& bundle = bundles_[i];
        packets.at(i) = {encoded_.bytes().subspan(bundle.begin, bundle.end - bundle.begin),
                         std::span(run_fds_).subspan(bundle.first_fd, bundle.fds)};
    }
    const auto run = wire::send_packets(peer.socket, std::span(packets).first(bundles_.size()));
    const std::size_t sent = run ? run->count : 0;  // what stopped it stops the next one too, and is seen there
    for (std::size_t i = 0; i < run_.size(); ++i) {
        Outgoing& outgoing = out.packets[run_[i].index];
        if (run_[i].bundle < sent) {
            is_placed_[run_[i].index] = true;
            peer.unread_fds += run_[i].fds;
            unread_fds_ += run_[i].fds;
            note_gone_out(outgoing, peer);
        } else {
            carry_all(peer, outgoing.packet);
        }
    }
    return sent != 0;
}

/// Puts it into the run, whose last descriptors are its own, from `first_fd` on: into the last bundle if it may come in that.
void Outbound::pack(const Peer& peer, const Outgoing& outgoing, std::size_t index, std::size_t first_fd) {
    const std::size_t fds = run_fds_.size() - first_fd;
    const bool may_join_bundle = peer.takes_bundles && fds == 0 && !bundles_.empty() && !bundles_.back().is_closed;
    if (may_join_bundle) {
        Bundle& last = bundles_.back();
        wire::append_more(outgoing.packet, encoded_);
        if (encoded_.size() - last.begin <= kMostBundledBytes) {
            last.end = encoded_.size();
            run_.push_back({index, bundles_.size() - 1, fds});
            return;
        }
        encoded_.shrink_to(last.end);
    }
    const std::size_t begin = encoded_.size();
    wire::append(outgoing.packet, encoded_);
    // Whoever has just said Hello reads the answer to that, and nothing else.
    const bool is_hello = std::holds_alternative<wire::HelloReply>(outgoing.packet.message);
    bundles_.push_back({begin, encoded_.size(), first_fd, fds, is_hello});
    run_.push_back({index, bundles_.size() - 1, fds});
}

void Outbound::add_unsent(std::vector<Place>& after, const Place& place, SessionNumber to) const {
    if (place.number != 0 && place.session != to && !is_sent(place)) {
        after.push_back(place);
    }
}

/// Whether more is kept for it than may be, on account of its own not reading.
bool Outbound::is_over(const Peer& peer) const noexcept {
    // What stepped aside waits for another session's reading, unless the descriptors keep it.
    const std::size_t packets = peer.queue.size() + (peer.refused ? peer.aside.size() : 0);
    const std::size_t bytes = peer.bytes + (peer.refused ? peer.aside_bytes : 0);
    return (peer.full || peer.refused) && (packets > limits_.packets || bytes > limits_.bytes);
}

void Outbound::enqueue(Peer& peer, const Outgoing& outgoing, std::vector<Place> after, bool aside) {
    const SessionNumber session = outgoing.to;
    wire::encode(outgoing.packet, encoded_);
    if (peer.bytes + peer.aside_bytes + encoded_.size() > limits_.most_bytes) {
        if (peer.full || peer.refused) {
            break_off(session, peer, "slow reader");
            return;
        }
        if (peer.aside_bytes > peer.bytes) {  // it reads, and has asked for all that itself
            break_off(session, peer, "asks more than is read by whom it waits for");
            return;
        }
        // It reads; whom it waits for does not.
        break_off_all(after);
        if (!peer.queue.empty()) {
            break_off_all(std::vector(peer.queue.front().after));
        }
    }
    Entry entry;
    entry.bytes = encoded_.view();
    entry.in_turn = is_in_turn(outgoing.packet);
    if (const auto* carried = carried_segments(outgoing.packet)) {
        for (const wire::Segment& segment : *carried) {
            if (segment.carries_fd) {
                segments_.hold({segment.number});
                entry.segments.push_back({segment.number});
            }
        }
    }
    if (outgoing.unheard != nullptr && aside) {
        wire::encode({outgoing.packet.request_id, outgoing.unheard->message}, encoded_);
        entry.unheard = encoded_.view();
        entry.unheard_of = outgoing.unheard->capsule;
    }
    wait_for(session, after);
    entry.after = std::move(after);
    if (aside) {
        put_aside(peer, std::move(entry));
    } else {
        peer.bytes += entry.bytes.size();
        peer.queue.push_back(std::move(entry));
        ++peer.placed;
    }
    if (is_over(peer)) {
        owing_.insert(session);
        if (listener_.is_user_full(session)) {
            break_off(session, peer, "slow reader");
            return;
        }
    }
    tell_kept(session, peer);
}

/// Whether a grant waits until descriptors are read.
bool Outbound::has_grant_aside(const Peer& peer) noexcept {
    return peer.refused && std::ranges::any_of(peer.aside, [](const Entry& entry) { return !entry.segments.empty(); });
}

void Outbound::put_aside(Peer& peer, Entry entry) {
    peer.aside_bytes += entry.bytes.size();
    peer.aside.push_back(std::move(entry));
}

void Outbound::wait_for(SessionNumber session, const std::vector<Place>& after) {
    for (const Place& place : after) {
        const auto found = peers_.find(place.session.value);
        if (found == peers_.end() || is_sent(place)) {
            continue;
        }
        found->second.dependents.insert(session);
        owing_.insert(place.session);
    }
}

/// Whether `count` more descriptors may go to it. Only an empty socket tells that it has read what it was sent: that it
/// speaks does not.
bool Outbound::may_carry(Peer& peer, std::size_t count) noexcept {
    if (count != 0 && peer.unread_fds + count > limits_.unread_fds) {
        note_read(peer);
        if (peer.unread_fds != 0) {
            return false;
        }
    }
    return count == 0 || fits_all(count);
}

/// Whether `count` more descriptors may be unread over all sessions. Many that read everything may look as if they did
/// not, until the kernel is asked; which is done once between two retries.
bool Outbound::fits_all(std::size_t count) noexcept {
    const auto fits = [&] { return unread_fds_ == 0 || unread_fds_ + count <= limits_.all_unread_fds; };
    if (!crowded_ && !fits()) {
        for (auto& [number, peer] : peers_) {
            note_read(peer);
        }
        crowded_ = !fits();
    }
    return fits();
}

void Outbound::note_read(Peer& peer) noexcept {
    if (peer.unread_fds != 0 && unread_bytes(peer.socket) == 0) {
        forget_unread(peer);
    }
}

void Outbound::forget_unread(Peer& peer) noexcept {
    unread_fds_ -= peer.unread_fds;
    peer.unread_fds = 0;
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
    if (count != 0 && (peer.refused || !may_carry(peer, count))) {
        set_refused(peer, true);
        return wire::Sent::TooManyInFlight;
    }
    const auto sent = wire::send_packet(peer.socket, std::as_bytes(std::span(bytes)), std::span(fds.data(), count));
    if (!sent) {
        break_off(session, peer, sent.error().message);
        return wire::Sent::Gone;
    }
    switch (*sent) {
        case wire::Sent::Done:
            peer.unread_fds += count;
            unread_fds_ += count;
            break;
        case wire::Sent::WouldBlock:
            peer.full = true;
            if (!peer.asked_for_room) {
                peer.asked_for_room = true;
                listener_.want_writable(session);
            }
            break;
        case wire::Sent::TooManyInFlight:
            set_refused(peer, true);
            break;
        case wire::Sent::Gone:
            // Not the end of the session: what the peer had sent before it left is still to be read.
            mark_broken(session, peer);
            break;
    }
    return *sent;
}

void Outbound::writable(SessionNumber session) {
    if (const auto found = peers_.find(session.value); found != peers_.end()) {
        found->second.full = false;
        found->second.asked_for_room = false;
        to_flush_.push_back(session);
        flush_all();
    }
}

/// Whether the first that waits aside with descriptors may go. Asked before all of them are moved, of which there may be thousands.
bool Outbound::has_room_for_aside(Peer& peer) noexcept {
    const auto first = std::ranges::find_if(peer.aside, [](const Entry& entry) { return !entry.segments.empty(); });
    return first == peer.aside.end() || may_carry(peer, first->segments.size());
}

void Outbound::spoke(SessionNumber session) {
    if (refused_ == 0) {
        return;
    }
    if (const auto found = peers_.find(session.value);
        found != peers_.end() && found->second.refused && has_room_for_aside(found->second)) {
        set_refused(found->second, false);
        to_flush_.push_back(session);
        flush_all();
    }
}

void Outbound::retry_refused() {
    crowded_ = false;
    for (auto& [number, peer] : peers_) {
        if (peer.refused && has_room_for_aside(peer)) {
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

/// The first in its queue, for which nobody waits.
void Outbound::step_aside(Peer& peer) {
    Entry head = std::move(peer.queue.front());
    peer.queue.pop_front();
    ++peer.sent;
    peer.bytes -= head.bytes.size();
    put_aside(peer, std::move(head));
}

void Outbound::flush(SessionNumber session) {
    const auto found = peers_.find(session.value);
    if (found == peers_.end() || found->second.broken) {
        return;
    }
    Peer& peer = found->second;
    // What stepped aside takes its place in the order now.
    std::size_t kept = 0;
    bool is_grant_kept = false;
    for (Entry& entry : peer.aside) {
        const bool due = may_go(entry);
        if (!due) {
            wait_for(session, entry.after);
        }
        const bool has_room = entry.segments.empty() ? !(entry.in_turn && is_grant_kept) : !peer.refused;
        is_grant_kept = is_grant_kept || (!entry.segments.empty() && !(due && has_room));
        if (due && has_room) {
            peer.aside_bytes -= entry.bytes.size();
            peer.bytes += entry.bytes.size();
            peer.queue.push_back(std::move(entry));
            ++peer.placed;
        } else if (&peer.aside[kept++] != &entry) {
            peer.aside[kept - 1] = std::move(entry);
        }
    }
    peer.aside.erase(peer.aside.begin() + static_cast<std::ptrdiff_t>(kept), peer.aside.end());
    bool progress = false;
    while (!peer.queue.empty() && !peer.full) {
        Entry& head = peer.queue.front();
        if (!may_go(head)) {
            wait_for(session, head.after);
            break;
        }
        if (head.in_turn && has_grant_aside(peer)) {
            step_aside(peer);
            continue;
        }
        const wire::Sent sent = send(session, peer, head.bytes, nullptr, head.segments);
        if (sent == wire::Sent::TooManyInFlight) {
            step_aside(peer);  // a grant: what is behind it goes
            continue;
        }
        if (sent != wire::Sent::Done) {
            break;  // `head` may be gone
        }
        ++peer.sent;
        progress = true;
        peer.bytes -= head.bytes.size();
        const std::vector<SegmentNumber> segments = std::move(head.segments);
        peer.queue.pop_front();
        for (const SegmentNumber segment : segments) {
            note_sent(session, peer, segment);
            let_go(segment);
        }
    }
    if (progress) {
        peer.stalled_since.reset();
        tell_kept(session, peer);
        wake_dependents(peer);
    }
    if (is_over(peer)) {
        owing_.insert(session);
    }
}

void Outbound::cut_stalled(std::chrono::steady_clock::time_point now) {
    const std::vector<SessionNumber> owing(owing_.begin(), owing_.end());
    for (const SessionNumber session : owing) {
        const auto found = peers_.find(session.value);
        if (found == peers_.end() || found->second.broken) {
            owing_.erase(session);
            continue;
        }
        Peer& peer = found->second;
        std::erase_if(peer.dependents, [this](SessionNumber dependent) {
            const auto other = peers_.find(dependent.value);
            return other == peers_.end() || other->second.broken;
        });
        const bool over = is_over(peer);
        if (!over && (peer.dependents.empty() || !peer.full)) {
            peer.stalled_since.reset();
            // Waited for, with room: what it has is kept back by another one, who owes instead. That may change.
            if (peer.dependents.empty()) {
                owing_.erase(session);
            }
            continue;
        }
        // Any change is taken for reading: who is sent more and reads nothing has a full socket before long.
        if (const int unread = unread_bytes(peer.socket); !peer.stalled_since || unread != peer.stalled_bytes) {
            peer.stalled_since = now;
            peer.stalled_bytes = unread;
        }
        if (now - *peer.stalled_since < limits_.patience) {
            continue;
        }
        // The kernel calls a socket writable only once three quarters are read, so it is tried: any read makes room.
        peer.full = false;
        set_refused(peer, false);
        flush(session);
        if (!peer.broken && peer.stalled_since && unread_bytes(peer.socket) != 0) {
            break_off(session, peer, over ? "slow reader" : "holds others up");
        }
    }
    cut_hoarder(now);
    flush_all();
}

void Outbound::cut_hoarder(std::chrono::steady_clock::time_point now) {
    crowded_ = crowded_ && refused_ != 0;
    if (!crowded_) {
        return;
    }
    const bool is_new = now - std::exchange(hoarders_seen_, now) > limits_.patience;
    std::pair<SessionNumber, Peer*> most{};
    for (auto& [number, peer] : peers_) {
        note_read(peer);
        if (peer.unread_fds == 0 || peer.broken) {
            continue;
        }
        // Any change is taken for reading: who is sent more and reads nothing has a full socket before long.
        const int unread = unread_bytes(peer.socket);
        if (is_new || unread != peer.unread_bytes) {
            peer.unread_bytes = unread;
            peer.hoards_since = now;
        } else if (now - peer.hoards_since >= limits_.patience &&
                   (most.second == nullptr || peer.unread_fds > most.second->unread_fds)) {
            most = {{number}, &peer};
        }
    }
    if (most.second != nullptr && !fits_all(1)) {
        break_off(most.first, *most.second, "leaves descriptors unread for which others wait");
    }
}

void Outbound::wake_dependents(Peer& peer) {
    to_flush_.insert(to_flush_.end(), peer.dependents.begin(), peer.dependents.end());
    peer.dependents.clear();
}

void Outbound::clear(Peer& peer) {
    auto queue = std::exchange(peer.queue, {});
    const std::vector<Entry> aside = std::exchange(peer.aside, {});
    std::move(aside.begin(), aside.end(), std::back_inserter(queue));
    for (const Entry& entry : queue) {
        for (const SegmentNumber segment : entry.segments) {
            let_go(segment);
        }
    }
    peer.bytes = 0;
    peer.aside_bytes = 0;
    set_refused(peer, false);
}

/// Of what waited for what `peer` won't be sent any more, that goes out which is for this case.
void Outbound::tell_unheard(SessionNumber session, const Peer& peer) {
    const auto is_unheard = [&](const Entry& entry) {
        return !entry.unheard.empty() && std::ranges::any_of(entry.after, [&](const Place& place) {
            return place.session == session && place.number > peer.sent;
        });
    };
    for (const SessionNumber dependent : peer.dependents) {
        const auto found = peers_.find(dependent.value);
        if (found == peers_.end()) {
            continue;
        }
        for (Entry& entry : found->second.aside) {  // in the queue is nothing of the kind that still waits
            if (is_unheard(entry)) {
                found->second.aside_bytes += entry.unheard.size() - entry.bytes.size();
                entry.bytes = std::exchange(entry.unheard, {});
                listener_.unheard(entry.unheard_of);
            }
        }
    }
}

void Outbound::mark_broken(SessionNumber session, Peer& peer) {
    clear(peer);
    peer.broken = true;
    tell_kept(session, peer);
    tell_unheard(session, peer);
    wake_dependents(peer);
}

void Outbound::break_off(SessionNumber session, Peer& peer, std::string_view reason) {
    mark_broken(session, peer);
    listener_.broken(session, reason);
}

void Outbound::break_off_all(const std::vector<Place>& places) {
    for (const Place& place : places) {
        if (!is_sent(place)) {
            break_off(place.session, peers_.at(place.session.value), "holds others up");
        }
    }
}

void Outbound::set_refused(Peer& peer, bool refused) noexcept {
    if (peer.refused != refused) {
        peer.refused = refused;
        refused ? ++refused_ : --refused_;
    }
}

}  // namespace hurrayd
