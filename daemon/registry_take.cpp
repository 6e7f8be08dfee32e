#include <utility>

#include "daemon/registry.hpp"
#include "libhurray/base/check.hpp"

// Capsules that are published once: queued behind their name, granted to one taker at a time, and taken by its confirm.
//
//            publish            grant             confirm               lease ends
//   ────────────────▶ queued ──────────▶ granted ──────────▶ taken ──────────────────▶ ended
//                        ▲                  │               (retired)
//                        └──────────────────┘ lease ends before the confirm; the third time it ends
//
// Queued: live. Granted: neither live nor retired; its one lease has a `grant`. Each function that follows a rule of the protocol's
// chapters "Taking" and "Over the daemon's death" says which.

namespace hurrayd {
namespace {

using hurray::Errc;
using hurray::Error;
using State = wire::Claims::State;
using What = wire::LeaseEvent::What;

/// A capsule that was granted so often and never confirmed is left to nobody: it may be what kills them.
constexpr std::uint8_t kMaxDeliveries = 3;

}  // namespace

/// Under one name lives either what is attached, or what is taken.
hurray::Result<void> Registry::check_kind(Names::const_iterator known, bool once, const char* field) const {
    if (known == names_.end() || known->first.empty() || known->second.once == once) {
        return {};
    }
    const std::string& name = known->first;
    return hurray::fail_field(
        Errc::AlreadyExists, field,
        once
            ? "the name \"" + name +
                  "\" has versions that are attached: what is published once needs another name while one of them lives"
            : "the name \"" + name +
                  "\" is a queue of capsules that were published once: what is attached needs another name while one "
                  "of them lives");
}

Error Registry::refuse_kind(const wire::Attach& attach) {
    return {Errc::Unsupported,
            attach.take ? "what is there was not published once: it is attached, not taken"
                        : "what is there was published once: it is taken, by one, and not attached",
            "attach.take"};
}

/// Nobody else can take its capsule from now on.
void Registry::mark_granted(Lease& lease, std::uint64_t request_id) {
    Capsule& capsule = *lease.capsule;
    remove_live(capsule);
    lease.grant = request_id;
    lease.holder->grants.emplace(request_id, &lease);
}

/// A lease ends that was not confirmed. That is a delivery, unless its taker had given up and gave back what came too late. The last one
/// is reported as lost, however it ends. Returns how.
What Registry::end_grant(Lease& lease, What what) {
    Capsule& capsule = *lease.capsule;
    const bool was_cancelled = lease.holder->grants.erase(lease.grant) == 0;
    lease.grant = 0;
    ++history_.put_back;
    if (was_cancelled && what == What::Released) {
        return what;
    }
    return ++capsule.deliveries >= kMaxDeliveries ? What::Lost : what;
}

/// put_back, three_deliveries: to its place in the queue, which is by version and so in front of what came after it.
void Registry::put_back(Capsule& capsule, Outbox& out) {
    if (capsule.retired) {  // withdrawn, or its producer is gone
        end_if_unused(capsule, out);
        return;
    }
    if (capsule.deliveries >= kMaxDeliveries) {
        retire(capsule, out);
        refuse_waiters(capsule, out);
        announce(wire::Watched::What::Retired, capsule);
        end_if_unused(capsule, out);
        return;
    }
    held_.remove(capsule);
    add_live(capsule);
    if (is_kept(capsule)) {
        serve_waiters(capsule, out);
    }
}

/// Tells its producer, and makes the capsule its lease's alone.
void Registry::mark_taken(Lease& lease, Outbox& out) {
    Capsule& capsule = *lease.capsule;
    if (lease.grant != 0) {
        lease.holder->grants.erase(std::exchange(lease.grant, 0));
    }
    capsule.taken_by = std::make_unique<const wire::LeaseId>(lease_id(*lease.holder, lease.number));
    ++history_.taken;
    if (const Session* told = live_producer(capsule)) {
        out.send(told->number, 0, wire::LeaseEvent{capsule.id, *capsule.taken_by, What::Taken, capsule.open_leases});
    }
    note_taken(capsule, out);
    if (!capsule.retired) {
        retire(capsule, out);
        announce(wire::Watched::What::Retired, capsule);
    }
}

void Registry::confirm(SessionNumber from, std::uint64_t request_id, const wire::Confirm& confirm, Outbox& out) {
    Session& taker = session(from);
    const auto held = taker.leases.find(confirm.lease);
    if (held == taker.leases.end()) {
        out.send(
            from, request_id,
            Error{Errc::NotFound, "this session holds no lease " + std::to_string(confirm.lease), "confirm.lease"});
        return;
    }
    Lease& lease = held->second;
    const Session* const producer = live_producer(*lease.capsule);
    if (!lease.capsule->once) {  // confirm_needs_takeable
        out.send(
            from, request_id,
            Error{Errc::InvalidArgument, "lease " + std::to_string(confirm.lease) + " is of no take", "confirm.lease"});
        return;
    }
    const Error gone{Errc::ProducerLost, "the producer of what was granted is gone", "confirm.lease"};
    // A producer that is cut off before it hears of it may publish the same work again.
    const auto refuse_if_unheard = [&] {
        if (!(keeps_ && lease.capsule->lingering)) {
            out.or_if_unheard(gone, lease.capsule->id);
        }
    };
    if (lease.grant == 0 && lease.capsule->taken_by == nullptr) {  // note_unheard()
        out.send(from, request_id, gone);
        return;
    }
    if (lease.grant == 0) {  // said again; the answer must not overtake TAKEN
        out.send_behind(producer != nullptr ? producer->number : SessionNumber{}, from, request_id, wire::Done{});
        refuse_if_unheard();
        return;
    }
    const std::size_t first = out.packets.size();
    if (!is_confirmable(*lease.capsule)) {  // confirm_needs_producer
        close_lease(lease, What::Lost, out);
        out.send_after(first, from, request_id, gone);
        return;
    }
    mark_taken(lease, out);
    out.send_after(first, from, request_id, wire::Done{});  // tell_then_answer
    refuse_if_unheard();
    refuse_waiters(*lease.capsule, out);
    continue_announcements(out);
}

void Registry::note_unheard(const wire::CapsuleId& id) {
    const auto known = capsules_.find(id);
    if (known == capsules_.end()) {
        return;
    }
    Capsule& capsule = known->second;
    capsule.taken_by = nullptr;
    if (capsule.lingering) {  // else its producer could come back and hear of it after all
        forgo_lingering(capsule);
    }
}

// ---- Over the daemon's death ----------------------------------------------------------------------------------------

/// Of what is taken, the one lease that took it.
bool Registry::may_hold(const Session& consumer, std::uint64_t number, const Capsule& capsule) {
    return !capsule.once || capsule.is_taken_by(lease_id(consumer, number));
}

/// confirm_repeated. Also of a session that was cut off in this life: its confirm may have reached the life before.
Registry::Claimed Registry::claim_confirmed(Session& consumer, const wire::CapsuleId& id, std::uint64_t number,
                                            Outbox& out) {
    if (const auto held = consumer.leases.find(number); held != consumer.leases.end()) {
        Lease& lease = held->second;
        Capsule& capsule = *lease.capsule;
        if (capsule.id != id || !capsule.once) {
            return Claimed::Refused;
        }
        if (lease.grant != 0 && !is_confirmable(capsule)) {
            close_lease(lease, What::Lost, out);
            return Claimed::Refused;
        }
        if (lease.grant != 0) {
            mark_taken(lease, out);
            refuse_waiters(capsule, out);
        }
        return Claimed::Done;
    }
    if (consumer.waiting_leases.contains(number)) {
        return Claimed::Refused;
    }
    if (const auto taken = taken_.find(id);
        taken != taken_.end() && !capsules_.contains(id) && taken->second.lease == lease_id(consumer, number)) {
        // The journal has it: it is this lease's, whatever became of the answer.
        if (is_window_open() && consumer.identity.resumes && !consumer.claimed.contains(number)) {
            book_leases(consumer, number, true);
            keep_claim(consumer, id, number, {consumer.number}, out);  // its producer may come back
        }
        return Claimed::Done;
    }
    const bool is_of_before = consumer.identity.resumes || consumer.identity.was_cut_off;
    if (!is_window_open() || !is_of_before || consumer.claimed.contains(number)) {
        return Claimed::Refused;
    }
    if (!admit_claim(consumer)) {
        return Claimed::Refused;
    }
    book_leases(consumer, number, true);
    if (const auto known = capsules_.find(id);
        known != capsules_.end() && known->second.staged == nullptr && sees(consumer, known->second)) {
        return confirm_claimed(consumer, number, known->second, out) ? Claimed::Done : Claimed::Refused;
    }
    keep_claim(consumer, id, number, {consumer.number, State::Confirmed, last_answer_ + 1}, out);
    return Claimed::Kept;
}

/// Accepted of the lease that the producer was told of, and of a capsule of before of which it was told of none: since takes wait in the
/// window (take_waits), nobody else has it.
bool Registry::confirm_claimed(Session& consumer, std::uint64_t number, Capsule& capsule, Outbox& out) {
    const bool was_told = capsule.once && capsule.is_taken_by(lease_id(consumer, number));  // confirm_after_cutoff
    const bool is_free = capsule.once && capsule.taken_by == nullptr && capsule.of_before && is_attachable(capsule);
    if (!was_told && !is_free) {
        return false;
    }
    mark_taken(open_claimed(consumer, number, capsule, out), out);
    refuse_waiters(capsule, out);
    return true;
}

/// take_waits, take_waits_owner: until the window ends, somebody may come back who has taken it. What is behind it in its queue waits too.
bool Registry::is_held_back(const Capsule& capsule) const noexcept {
    const auto& [name, queue] = *capsule.name;
    return is_window_open() && (capsule.of_before || (!name.empty() && queue.is_of_before));
}

/// A take that came in the window, which is over.
void Registry::serve_take(Waiter& waiter, Outbox& out) {
    const Found found = find(*waiter.session, waiter.attach);
    if (found.state != Found::State::Here) {
        return;  // it goes on waiting
    }
    Session& consumer = *waiter.session;
    const std::uint64_t request_id = waiter.request_id;
    const std::uint64_t lease = waiter.attach.lease;
    auto checked = check_memory(*found.capsule, waiter.attach);
    remove_waiter(waiter);
    if (checked) {
        checked = admit_lease(consumer, true);
    }
    if (checked) {
        grant(consumer, request_id, lease, *found.capsule, out);
    } else {
        out.send(consumer.number, request_id, std::move(checked.error()));
    }
}

}  // namespace hurrayd
