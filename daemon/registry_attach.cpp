#include <algorithm>
#include <utility>
#include <vector>

#include "daemon/refusal.hpp"
#include "daemon/registry.hpp"
#include "libhurray/base/checked_math.hpp"

// Attaches: those that are answered at once, those that wait, and the leases that they get.

namespace hurrayd {
namespace {

using hurray::Errc;
using hurray::Error;

/// What an attach does not find, for people: "nothing under the name \"a\"". Only what was asked for is in it.
std::string absence_of(const wire::Attach& attach) {
    const auto* name = std::get_if<std::string>(&attach.what);
    const std::string under = name != nullptr ? " under the name \"" + *name + "\"" : std::string(" of that capsule");
    switch (attach.which) {
        case wire::Which::Exactly:
            return "no version " + std::to_string(attach.version) + under;
        case wire::Which::NewerThan:
            return "no version above " + std::to_string(attach.version) + under;
        case wire::Which::Latest:
            break;
    }
    return name != nullptr ? "nothing" + under : "no such capsule";
}

}  // namespace

bool Registry::satisfies(const Capsule& capsule, const wire::Attach& attach) noexcept {
    switch (attach.which) {
        case wire::Which::Latest:
            return capsule.version >= attach.last_seen;
        case wire::Which::Exactly:
            return capsule.version == attach.version;
        case wire::Which::NewerThan:
            return capsule.version > attach.version && capsule.version >= attach.last_seen;
    }
    return false;
}

/// What a name has for an attach, as far as `viewer` sees it: the version asked for, the newest, or the first that is newer; of a queue
/// the oldest. Most see the first that comes into question. Whoever does not looks at no other but what he may see: so it neither takes longer
/// for what is hidden, nor tells how much that is.
Registry::Capsule* Registry::find_live(const Session& viewer, Names::value_type& entry, const wire::Attach& attach) {
    Name& name = entry.second;
    const auto is_good = [&](const Capsule& capsule) { return is_kept(capsule) && sees(viewer, capsule); };
    const auto if_good = [&](Versioned& versioned) -> Capsule* {
        auto& capsule = static_cast<Capsule&>(versioned);
        return is_good(capsule) ? &capsule : nullptr;
    };
    if (name.live.empty()) {
        return nullptr;
    }
    if (attach.which == wire::Which::Exactly && !name.once) {
        const auto version = name.live.find(attach.version);
        return version != name.live.end() ? if_good(*version) : nullptr;
    }
    if (attach.which == wire::Which::Latest && !name.once) {
        Capsule* const newest = if_good(*name.live.rbegin());
        return newest != nullptr ? newest : live_.last_under(entry.first, viewer.identity, is_good);
    }
    const std::uint64_t seen =
        name.once ? 0 : std::max(attach.version, attach.last_seen == 0 ? 0 : attach.last_seen - 1);
    const auto next = name.live.upper_bound(seen);
    if (next == name.live.end()) {
        return nullptr;
    }
    if (Capsule* const first = if_good(*next)) {
        return first;
    }
    Shelves<Capsule>::View view;
    live_.show(view, viewer.identity, {entry.first, seen});
    Capsule* found = nullptr;
    std::vector<Capsule*> unkept;
    while (found == nullptr) {
        Capsule* const each = view.next();
        if (each == nullptr || each->name->first != entry.first) {
            break;
        }
        if (is_good(*each)) {
            found = each;
        } else if (name.once && !is_kept(*each)) {
            unkept.push_back(each);
        }
    }
    // What was queued by who is ending is nobody's, and there may be any number of it: it is out of the way of the next who asks.
    for (Capsule* const each : unkept) {
        remove_live(*each);
    }
    return found;
}

Registry::Found Registry::find(const Session& viewer, const wire::Attach& attach) {
    using State = Found::State;
    Capsule* candidate = nullptr;
    const auto* id = std::get_if<wire::CapsuleId>(&attach.what);
    if (id != nullptr) {
        const auto known = capsules_.find(*id);
        if (known != capsules_.end() && known->second.staged == nullptr && sees(viewer, known->second)) {
            candidate = &known->second;
        }
    } else if (const auto known = names_.find(std::get<std::string>(attach.what)); known != names_.end()) {
        candidate = find_live(viewer, *known, attach);
    }
    if (candidate != nullptr) {
        if (candidate->once != attach.take) {
            return {State::OtherKind, nullptr};
        }
        const bool is_here = is_attachable(*candidate) && satisfies(*candidate, attach);
        if (is_here && !(attach.take && is_held_back(*candidate))) {
            return {State::Here, candidate};
        }
        if (id != nullptr && !(attach.take && !candidate->retired && is_kept(*candidate))) {
            // An id has one version for ever: what is not right now never will be, but for what may be put back.
            return {State::Never, nullptr};
        }
    }
    if (attach.which == wire::Which::Exactly && is_past(attach.version)) {
        return {State::Never, nullptr};
    }
    return {State::MayCome, nullptr};
}

void Registry::attach(SessionNumber from, std::uint64_t request_id, const wire::Attach& attach,
                      std::optional<std::uint64_t> timeout_ms, std::uint64_t now_ms, Outbox& out) {
    Session& consumer = session(from);
    if (const auto held = consumer.leases.find(attach.lease); held != consumer.leases.end()) {
        const Capsule& capsule = *held->second.capsule;
        const auto* id = std::get_if<wire::CapsuleId>(&attach.what);
        const bool same =
            (id != nullptr ? *id == capsule.id : std::get<std::string>(attach.what) == capsule.name->first) &&
            satisfies(capsule, attach) && capsule.once == attach.take && check_memory(capsule, attach);
        if (same) {
            // The first grant may be held back until the producer has OPENED; this one must not overtake that either.
            const Session* told = live_producer(capsule);
            out.send_behind(told != nullptr ? told->number : SessionNumber{}, from, request_id, reply_for(capsule));
            return;
        }
    }
    if (consumer.used_leases.contains(attach.lease) || consumer.waiting_leases.contains(attach.lease)) {
        out.send(from, request_id,
                 refusal(Errc::InvalidArgument, "attach.lease",
                         "lease number " + std::to_string(attach.lease) + " was used before in this session"));
        return;
    }
    const Found found = find(consumer, attach);
    if (found.state == Found::State::Here) {
        if (auto checked = check_memory(*found.capsule, attach); !checked) {
            out.send(from, request_id, std::move(checked.error()));
            return;
        }
        if (auto admitted = admit_lease(consumer, attach.take); !admitted) {
            out.send(from, request_id, std::move(admitted.error()));
            return;
        }
        grant(consumer, request_id, attach.lease, *found.capsule, out);
        return;
    }
    if (found.state == Found::State::OtherKind) {
        out.send(from, request_id, refuse_kind(attach));
        return;
    }
    if (found.state == Found::State::Never) {
        const bool by_id = std::holds_alternative<wire::CapsuleId>(attach.what);
        out.send(from, request_id, by_id ? refuse_retired(attach) : refuse_past(attach));
        return;
    }
    if (timeout_ms == 0U) {
        const bool by_id = std::holds_alternative<wire::CapsuleId>(attach.what);
        out.send(from, request_id,
                 refusal(Errc::NotFound, by_id ? "attach.capsule" : "attach.name",
                         "there is " + absence_of(attach) + " to " + (attach.take ? "take" : "attach")));
        return;
    }
    if (consumer.waiting.contains(request_id)) {
        out.send(from, request_id,
                 refusal(Errc::InvalidArgument, "request_id", "a request with this id is waiting already"));
        return;
    }
    auto admitted = admit(consumer, Quota::Waiting);
    if (admitted) {
        admitted = admit(consumer, Quota::DaemonBytes, cost_of(attach));
    }
    if (!admitted) {
        out.send(from, request_id, std::move(admitted.error()));
        return;
    }

    charge(&consumer, consumer.identity.uid, cost_of(attach));
    Waiter& waiter = consumer.waiting[request_id];
    waiter.request_id = request_id;
    waiter.attach = attach;
    waiter.session = &consumer;
    consumer.waiting_order.push_back(waiter);
    consumer.waiting_leases.insert(attach.lease);
    if (const auto* name = std::get_if<std::string>(&attach.what)) {
        waiting_for_name_[*name].push_back(waiter);
    } else {
        waiting_for_id_[std::get<wire::CapsuleId>(attach.what)].push_back(waiter);
    }
    if (timeout_ms) {
        // A time beyond the end of time is no deadline.
        if (const auto deadline = hurray::checked_add(now_ms, *timeout_ms)) {
            waiter.deadline = deadlines_.emplace(*deadline, &waiter);
        }
    }
    if (attach.which == wire::Which::Exactly) {
        waiter.exact = exact_waiters_.emplace(attach.version, &waiter);
    }
    if (attach.take && is_window_open()) {
        takes_of_window_.push_back(waiter);
    }
    ++count(consumer.identity.uid).waiting;
}

Registry::Lease& Registry::book_lease(Session& consumer, std::uint64_t number, Capsule& capsule, bool is_told) {
    Lease& lease = consumer.leases.try_emplace(number).first->second;
    lease.number = number;
    lease.holder = &consumer;
    lease.capsule = &capsule;
    lease.is_told = is_told;
    consumer.lease_order.push_back(lease);
    if (capsule.producer != nullptr || capsule.lingering) {
        capsule.leases.push_back(lease);
    }
    ++capsule.open_leases;
    ++count(consumer.identity.uid).leases;
    charge(&consumer, consumer.identity.uid, cost_of_lease(capsule.once));
    ++history_.leases_opened;
    return lease;
}

void Registry::grant(Session& consumer, std::uint64_t request_id, std::uint64_t number, Capsule& capsule, Outbox& out) {
    const Session* const told = live_producer(capsule);
    book_leases(consumer, number);
    Lease& lease = book_lease(consumer, number, capsule, told != nullptr);
    if (capsule.once) {
        mark_granted(lease, request_id);
    }
    const std::size_t opened = out.packets.size();
    if (told != nullptr) {
        out.send(told->number, 0,
                 wire::LeaseEvent{capsule.id, lease_id(consumer, number), wire::LeaseEvent::What::Opened,
                                  capsule.open_leases});
    }
    out.send_after(opened, consumer.number, request_id, reply_for(capsule));
}

wire::AttachReply Registry::reply_for(const Capsule& capsule) {
    wire::AttachReply reply;
    reply.capsule = capsule.id;
    reply.name = capsule.name->first;
    reply.version = capsule.version;
    reply.descriptor = capsule.content.descriptor();
    reply.segments.reserve(capsule.content.segments().size());
    for (const Segment* segment : capsule.content.segments()) {
        reply.segments.push_back({segment->number.value, true, segment->memory, segment->size, 0});
    }
    reply.placements.assign(capsule.content.placements().begin(), capsule.content.placements().end());
    reply.access = capsule.access;
    return reply;
}

/// Answers the attaches that waited for a capsule that has become visible.
void Registry::serve_waiters(Capsule& capsule, Outbox& out) {
    if (!capsule.name->first.empty()) {
        if (const auto waiters = waiting_for_name_.find(capsule.name->first); waiters != waiting_for_name_.end()) {
            serve_waiters(waiters->second, capsule, out);
        }
    }
    if (const auto waiters = waiting_for_id_.find(capsule.id); waiters != waiting_for_id_.end()) {
        serve_waiters(waiters->second, capsule, out);
    }
    if (capsule.version < first_version_) {
        return;  // its version is its producer's word, and refutes nobody's wait
    }
    // Whoever still waits for exactly this version, under another name or unseen, waits in vain.
    for (auto exact = exact_waiters_.find(capsule.version); exact != exact_waiters_.end();
         exact = exact_waiters_.find(capsule.version)) {
        Waiter& waiter = *exact->second;
        out.send(waiter.session->number, waiter.request_id, refuse_past(waiter.attach));
        remove_waiter(waiter);
    }
}

/// To who asks for a capsule that is here, and is not what can be had.
Error Registry::refuse_retired(const wire::Attach& attach) {
    return refusal(Errc::NotFound, "attach.capsule",
                   attach.take ? "that capsule can't be taken any more" : "that capsule can't be attached any more");
}

/// To who asks for exactly a version that can't come.
Error Registry::refuse_past(const wire::Attach& attach) {
    return refusal(Errc::NotFound, "attach.version", absence_of(attach) + " can come any more");
}

void Registry::serve_waiters(WaiterList& waiters, Capsule& capsule, Outbox& out) {
    // The last removal destroys the list itself, hence the look ahead.
    for (auto next = waiters.begin(); next != waiters.end();) {
        Waiter& waiter = *next;
        ++next;
        const bool last = next == waiters.end();
        if (!sees(*waiter.session, capsule)) {
            // For them it is absent.
        } else if (waiter.attach.take != capsule.once) {
            out.send(waiter.session->number, waiter.request_id, refuse_kind(waiter.attach));
            remove_waiter(waiter);
        } else if (waiter.attach.take && (!capsule.is_live() || is_held_back(capsule))) {
            // Somebody has it already, or may say so until the window ends.
        } else if (satisfies(capsule, waiter.attach)) {
            Session& consumer = *waiter.session;
            const std::uint64_t request_id = waiter.request_id;
            const std::uint64_t lease = waiter.attach.lease;
            auto checked = check_memory(capsule, waiter.attach);
            remove_waiter(waiter);
            if (checked) {
                checked = admit_lease(consumer, capsule.once);
            }
            if (checked) {
                grant(consumer, request_id, lease, capsule, out);
            } else {
                out.send(consumer.number, request_id, std::move(checked.error()));
            }
        } else if (std::holds_alternative<wire::CapsuleId>(waiter.attach.what)) {
            // An id has one version for ever, and this is not the one.
            out.send(waiter.session->number, waiter.request_id,
                     refusal(Errc::NotFound, "attach.capsule", "that capsule's version is not one that was asked for"));
            remove_waiter(waiter);
        }
        if (last) {
            return;
        }
    }
}

/// To those who wait for exactly that capsule, which is retired: it can't come back.
void Registry::refuse_waiters(const Capsule& capsule, Outbox& out) {
    const auto found = waiting_for_id_.find(capsule.id);
    if (found == waiting_for_id_.end()) {
        return;
    }
    WaiterList& waiters = found->second;
    // The last removal destroys the list itself, hence the look ahead.
    for (auto next = waiters.begin(); next != waiters.end();) {
        Waiter& waiter = *next;
        ++next;
        const bool last = next == waiters.end();
        if (sees(*waiter.session, capsule)) {
            out.send(waiter.session->number, waiter.request_id, refuse_retired(waiter.attach));
            remove_waiter(waiter);
        }
        if (last) {
            return;
        }
    }
}

void Registry::remove_waiter(Waiter& waiter) {
    Session& consumer = *waiter.session;
    if (waiter.deadline) {
        deadlines_.erase(*waiter.deadline);
    }
    if (waiter.exact) {
        exact_waiters_.erase(*waiter.exact);
    }
    waiter.in_target.unlink();
    if (const auto* name = std::get_if<std::string>(&waiter.attach.what)) {
        const auto list = waiting_for_name_.find(*name);
        if (list->second.empty()) {
            waiting_for_name_.erase(list);
        }
    } else {
        const auto list = waiting_for_id_.find(std::get<wire::CapsuleId>(waiter.attach.what));
        if (list->second.empty()) {
            waiting_for_id_.erase(list);
        }
    }
    consumer.waiting_leases.erase(waiter.attach.lease);
    --count(consumer.identity.uid).waiting;
    discharge(&consumer, consumer.identity.uid, cost_of(waiter.attach));
    consumer.waiting.erase(std::uint64_t{waiter.request_id});  // a copy: the key must outlive the entry
}

/// Those that have waited as long as they may.
void Registry::expire_waiters(std::uint64_t now_ms, Outbox& out) {
    while (!deadlines_.empty() && deadlines_.begin()->first <= now_ms) {
        Waiter& waiter = *deadlines_.begin()->second;
        out.send(waiter.session->number, waiter.request_id,
                 refusal(Errc::TimedOut, {}, absence_of(waiter.attach) + " came in time"));
        remove_waiter(waiter);
    }
}

void Registry::cancel(SessionNumber from, const wire::Cancel& cancel, Outbox& out) {
    Session& asker = session(from);
    const auto is_meant = [&](const Pending& pending) { return pending.request_id == cancel.request_id; };
    if (asker.pending != 0 && cancel_pending(asker, is_meant, out)) {
        return;
    }
    const auto waiting = asker.waiting.find(cancel.request_id);
    if (waiting == asker.waiting.end()) {
        asker.grants.erase(cancel.request_id);
        return;
    }
    out.send(from, cancel.request_id, refusal(Errc::Closed, {}, "cancelled"));
    remove_waiter(waiting->second);
}

// ---- Leases --------------------------------------------------------------------------------------------------------

void Registry::close_lease(Lease& lease, wire::LeaseEvent::What what, Outbox& out) {
    Session& holder = *lease.holder;
    Capsule& capsule = *lease.capsule;
    const std::uint64_t number = lease.number;
    const bool puts_back = lease.grant != 0;
    if (puts_back) {
        what = end_grant(lease, what);
    }
    --capsule.open_leases;
    if (what == wire::LeaseEvent::What::Lost) {
        capsule.lost_lease = true;
    }
    if (Session* told = live_producer(capsule)) {
        out.send(told->number, 0, wire::LeaseEvent{capsule.id, lease_id(holder, number), what, capsule.open_leases});
    }
    holder.leases.erase(number);
    --count(holder.identity.uid).leases;
    discharge(&holder, holder.identity.uid, cost_of_lease(capsule.once));
    ++(what == wire::LeaseEvent::What::Lost ? history_.leases_lost : history_.leases_released);
    if (puts_back) {
        put_back(capsule, out);
    } else {
        end_if_unused(capsule, out);
    }
}

void Registry::release(SessionNumber from, std::uint64_t request_id, const wire::Release& release, Outbox& out) {
    Session& consumer = session(from);
    const std::size_t first = out.packets.size();
    std::size_t kept = 0;
    for (const std::uint64_t number : release.leases) {
        if (const auto lease = consumer.leases.find(number); lease != consumer.leases.end()) {
            kept += give_back(lease->second, out) ? 1 : 0;
        } else {
            kept += release_claimed(consumer, number, out) ? 1 : 0;
        }
    }
    answer_releases(consumer, request_id, kept, first, out);
    continue_announcements(out);
}

}  // namespace hurrayd
