#include <algorithm>
#include <iterator>
#include <utility>

#include "daemon/refusal.hpp"
#include "daemon/registry.hpp"
#include "libhurray/base/check.hpp"

// The resume window: what clients bring back of the daemon's life before. Each function that follows a rule of the protocol's
// chapter "Over the daemon's death" says which.

namespace hurrayd {
namespace {

using hurray::Errc;
using hurray::Error;
using State = wire::Claims::State;

/// Claims and capsules that are dealt with at a time when the window has ended: each may set off a packet, so this keeps everybody
/// else waiting for about half a millisecond.
constexpr std::size_t kWindowPiece = 256;

}  // namespace

std::uint64_t Registry::window_left_ms(std::uint64_t now_ms) const noexcept {
    return window_end_ms_ && *window_end_ms_ > now_ms ? *window_end_ms_ - now_ms : 0;
}

/// Whether a capsule with that version can't come any more. In the window one of before can.
bool Registry::is_past(std::uint64_t version) const noexcept {
    return version < next_version_ && !(is_window_open() && version < first_version_);
}

/// The version below which what can be attached under a name leaves no room for others; 0: there is room.
std::uint64_t Registry::displaced_below(const Name& name) noexcept {
    const bool is_full =
        !name.once && !name.live.empty() && name.live_size == static_cast<const Capsule&>(*name.live.rbegin()).retain;
    return is_full ? name.live.begin()->version : 0;
}

/// What this user published below it was retired by this life, or would have been. `known`: the name, if something lives under it.
std::uint64_t Registry::retired_below(const std::string& name, Names::const_iterator known, std::uint32_t uid) const {
    const auto noted = retired_below_.find(name);
    const auto known_of_user = known_names_.find(uid);
    const auto before = names_of_before_.find(name);
    return std::max({known_of_user != known_names_.end() ? known_of_user->second.rest_below : 0,
                     noted != retired_below_.end() ? noted->second : 0,
                     before != names_of_before_.end() ? before->second.noted.floor : 0,
                     known != names_.end() && !name.empty() ? displaced_below(known->second) : 0});
}

/// `uid` has published what is retired.
void Registry::note_retired_below(const std::string& name, std::uint32_t uid, std::uint64_t version) {
    if (!is_window_open() || name.empty() || version == 0) {
        return;
    }
    if (const auto known = retired_below_.find(name); known != retired_below_.end()) {
        known->second = std::max(known->second, version);
    } else if (KnownNames& of_user = known_names_[uid]; of_user.names < kMostKnownNames) {
        retired_below_.emplace(name, version);
        ++of_user.names;
    } else {
        of_user.rest_below = std::max(of_user.rest_below, version);
    }
}

/// Whether a life before can have given it out: with a journal it is known up to where they did, and without one they began at the clock.
/// What is left of this one (see answer_left) has its version from here.
hurray::Result<void> Registry::check_version_of_before(const wire::CapsuleId& id, std::uint64_t version) const {
    const std::uint64_t ahead = has_journal_ ? 0 : kMostAhead;
    if (version < first_version_ || version - first_version_ < ahead || left_.contains(id)) {
        return {};
    }
    return hurray::fail_field(Errc::InvalidArgument, "publish.version",
                              "version " + std::to_string(version) +
                                  " was given out by no life before: this one began at " +
                                  std::to_string(first_version_));
}

// ---- Capsules that are offered again --------------------------------------------------------------------------------

void Registry::offer_again(Session& producer, std::uint64_t request_id, Publication publication, Outbox& out) {
    const wire::Publish& offer = publication.request;
    const wire::CapsuleId id{producer.identity.uid, offer.capsule};
    const auto refuse = [&](Error error) { refuse_publish(producer, request_id, publication, std::move(error), out); };

    if (const auto known = capsules_.find(id); known != capsules_.end()) {
        if (is_adoptable(known->second)) {  // adopt_lingering
            adopt(producer, request_id, std::move(publication), known->second, out);
            return;
        }
        if (!is_repeated(producer, offer, known->second)) {
            refuse(refusal(Errc::AlreadyExists, "publish.capsule", "a capsule with this id is here already"));
            return;
        }
        drop_brought(publication, out);
        out.send(producer.number, request_id, wire::PublishReply{known->second.version});
        return;
    }
    if (!is_window_open() && taken_.contains(id)) {
        answer_taken(producer, request_id, publication, out);
        return;
    }
    if (!is_window_open()) {
        refuse(refusal(Errc::Closed, "publish.version",
                       "the resume window is over, so no capsule of a former life is taken any more"));
        return;
    }
    if (auto checked = check_version_of_before(id, offer.version); !checked) {
        refuse(std::move(checked.error()));
        return;
    }
    if (auto checked = check_name_of_before(producer, offer.name, offer.version); !checked) {
        refuse(std::move(checked.error()));
        return;
    }
    const Names::const_iterator name = names_.find(offer.name);
    if (auto checked = check_name(producer, name); !checked) {
        refuse(std::move(checked.error()));
        return;
    }
    const auto access = access_for(producer, offer);
    if (!access) {
        refuse(access.error());
        return;
    }
    if (auto checked = check_kind(name, offer.once, "publish.once"); !checked) {
        refuse(std::move(checked.error()));
        return;
    }
    if (name != names_.end() && name->second.versions.find(offer.version) != name->second.versions.end()) {
        refuse(refusal(Errc::AlreadyExists, "publish.version",
                       "version " + std::to_string(offer.version) + " of that name is here already"));
        return;
    }
    if (auto admitted = admit_capsule(producer, offer, name); !admitted) {
        refuse(std::move(admitted.error()));
        return;
    }
    if (auto checked = check_segments(producer, publication, *access); !checked) {
        refuse(std::move(checked.error()));
        return;
    }

    // What was replaced or withdrawn does not come back, whoever forgot to say so. A queue loses what was taken, and nothing by what is
    // newer. What the journal knows to be taken is (journal_taken), and what lingered and is not in the store has ended (store_decides).
    const auto taken = taken_.find(id);
    const wire::LeaseId said_taken_by = offer.taken_by;
    const wire::LeaseId taken_by = taken != taken_.end() && offer.once ? taken->second.lease : said_taken_by;
    const bool has_ended = ended_.contains(id) || (has_ended_more_ && producer.identity.was_cut_off);
    const bool is_retired = offer.retired || (has_journal_ && offer.linger_ms) || has_ended || taken_by.lease != 0 ||
                            (!offer.once && offer.version < retired_below(offer.name, name, id.uid));
    if (auto admitted = is_retired ? hurray::Result<void>() : admit_store(producer, publication); !admitted) {
        refuse(std::move(admitted.error()));
        return;
    }

    // From here on nothing is refused.
    const std::uint64_t version = offer.version;
    Capsule& capsule = add(producer, publication, *access, out);
    if (taken_by.lease != 0) {
        capsule.taken_by = std::make_unique<const wire::LeaseId>(taken_by);
    }
    if (keeps_ && capsule.lingering && !is_retired) {
        charge_store(capsule);
        capsule.lingering->is_answered = true;  // else it would not be offered
    }
    producer.capsules.push_back(capsule);
    capsules_of_before_.push_back(capsule.id);
    capsule.of_before = true;
    next_version_ = std::max(next_version_, version + 1);
    if (is_retired) {
        refuse_waiters(capsule, out);  // the answer does not wait for theirs
    }
    const std::size_t first = out.packets.size();
    put_under_name(capsule, offer.name, version);
    capsule.name->second.is_of_before = true;
    if (!is_retired) {
        make_live(capsule, out);
    } else {
        capsule.retired = true;
        held_.add(capsule);
        if (!capsule.once && capsule.retain == 1) {
            note_retired_below(capsule.name->first, id.uid, version);
        }
        note_name(capsule, out);
    }
    if (capsule.lingering && capsule.lingering->is_stored) {
        out.kept.emplace_back(keep::Answered{id});
    }
    out.send_after(first, producer.number, request_id, wire::PublishReply{version});
    if (taken_by != said_taken_by) {
        out.send(producer.number, 0,
                 wire::LeaseEvent{id, taken_by, wire::LeaseEvent::What::Taken, capsule.open_leases});
    }
    match_claims(capsule, out);
    if (!is_retired) {
        serve_waiters(capsule, out);
    }
    continue_announcements(out);
}

// ---- Claims ---------------------------------------------------------------------------------------------------------

void Registry::claim(SessionNumber from, std::uint64_t request_id, const wire::Claims& claims, Outbox& out) {
    Session& consumer = session(from);
    const std::size_t first = out.packets.size();
    wire::ClaimsRefused refused;
    std::size_t kept = 0;
    for (const wire::Claims::Claim& claim : claims.claims) {
        const auto settle_claim = claim.state == State::Released    ? &Registry::claim_released
                                  : claim.state == State::Confirmed ? &Registry::claim_confirmed
                                                                    : &Registry::claim_held;
        const Claimed claimed = (this->*settle_claim)(consumer, claim.capsule, claim.lease, out);
        if (claimed == Claimed::Refused) {
            refused.leases.push_back(claim.lease);
        } else if (claimed == Claimed::Kept && claim.state != State::Held) {
            ++kept;
        }
    }
    if (!refused.leases.empty()) {
        out.send(from, 0, std::move(refused));
    }
    answer_releases(consumer, request_id, kept, first, out);
    continue_announcements(out);
}

/// A claim never yields a descriptor, so it reveals nothing. Of a capsule that its session may not see it waits as for an absent one.
Registry::Claimed Registry::claim_held(Session& consumer, const wire::CapsuleId& id, std::uint64_t number,
                                       Outbox& out) {
    if (const auto held = consumer.leases.find(number); held != consumer.leases.end()) {
        return held->second.capsule->id == id ? Claimed::Done : Claimed::Refused;
    }
    if (const auto claimed = consumer.claimed.find(number); claimed != consumer.claimed.end()) {
        const bool is_same =
            claimed->second == id && claims_.at(id).at(lease_id(consumer, number)).state == State::Held;
        return is_same ? Claimed::Kept : Claimed::Refused;
    }
    if (!is_window_open() || !consumer.identity.resumes || consumer.waiting_leases.contains(number)) {
        return Claimed::Refused;
    }
    if (!admit_claim(consumer)) {
        return Claimed::Refused;
    }
    book_leases(consumer, number, true);
    if (const auto known = capsules_.find(id);
        known != capsules_.end() && known->second.staged == nullptr && sees(consumer, known->second)) {
        if (!may_hold(consumer, number, known->second)) {
            return Claimed::Refused;
        }
        open_claimed(consumer, number, known->second, out);
        return Claimed::Done;
    }
    keep_claim(consumer, id, number, {consumer.number}, out);
    return Claimed::Kept;
}

/// Done: its producer was told, or nobody is to be told.
Registry::Claimed Registry::claim_released(Session& consumer, const wire::CapsuleId& id, std::uint64_t number,
                                           Outbox& out) {
    if (const auto held = consumer.leases.find(number); held != consumer.leases.end()) {
        return give_back(held->second, out) ? Claimed::Kept : Claimed::Done;
    }
    if (consumer.claimed.contains(number)) {
        return release_claimed(consumer, number, out) ? Claimed::Kept : Claimed::Done;
    }
    if (!is_window_open() || !consumer.identity.resumes || consumer.waiting_leases.contains(number)) {
        return Claimed::Done;
    }
    book_leases(consumer, number, true);
    if (const auto known = capsules_.find(id); known != capsules_.end() && known->second.staged == nullptr) {
        if (const Session* told = live_producer(known->second)) {
            out.send(told->number, 0,
                     wire::LeaseEvent{id, lease_id(consumer, number), wire::LeaseEvent::What::Released,
                                      known->second.open_leases});
            return Claimed::Done;
        }
    }
    return keep_release(consumer, id, number, out) ? Claimed::Kept : Claimed::Done;
}

/// The lease is an ordinary one from now on. Its producer knows of it since the life that granted it.
Registry::Lease& Registry::open_claimed(Session& consumer, std::uint64_t number, Capsule& capsule, Outbox& out) {
    Lease& lease = book_lease(consumer, number, capsule, true);
    if (!is_kept(capsule) && !capsule.lingering) {  // came back, and left again
        out.send(consumer.number, 0, wire::ProducerLost{capsule.id});
    }
    return lease;
}

void Registry::keep_claim(Session& consumer, const wire::CapsuleId& id, std::uint64_t number, const Claim& claim,
                          Outbox& out) {
    const auto [kept, fresh] = claims_[id].emplace(lease_id(consumer, number), claim);
    if (fresh) {
        ++count(consumer.identity.uid).claims;
        charge(&consumer, consumer.identity.uid, cost_of_claim());
    } else {  // what an earlier connection of this session gave back, and nobody has been told of: now this one speaks for it
        settle(kept->second.answer, out.packets.size(), out);
        kept->second = claim;
        consumer.kept_bytes += cost_of_claim();
    }
    consumer.claimed.emplace(number, id);
}

Registry::Claims::iterator Registry::drop_claim(Claims& claims, Claims::iterator claim) {
    const std::uint32_t uid = claim->first.uid;
    const auto claimer = sessions_.find(claim->second.session.value);
    if (claimer != sessions_.end()) {
        claimer->second.claimed.erase(claim->first.lease);
    }
    discharge(claimer != sessions_.end() ? &claimer->second : nullptr, uid, cost_of_claim());
    const auto next = claims.erase(claim);
    --count(uid).claims;
    forget_if_zero(uid);
    return next;
}

/// For a producer that is not here: it is told when it is, and the answer to the request that is being read waits for that. False: there is
/// no room, and it learns of it when the window ends.
bool Registry::keep_release(Session& consumer, const wire::CapsuleId& id, std::uint64_t number, Outbox& out) {
    if (!admit_claim(consumer)) {
        return false;
    }
    keep_claim(consumer, id, number, {consumer.number, State::Released, last_answer_ + 1}, out);
    return true;
}

/// release_kept: who may come back in the window and adopt its capsule hears that it was released, not that it is lost. True: the answer
/// waits for that.
bool Registry::give_back(Lease& lease, Outbox& out) {
    Session& holder = *lease.holder;
    const std::uint64_t number = lease.number;
    const wire::CapsuleId id = lease.capsule->id;
    const bool is_awaited =
        is_window_open() && lease.is_told && lease.capsule->of_before && is_adoptable(*lease.capsule);
    close_lease(lease, wire::LeaseEvent::What::Released, out);
    return is_awaited && keep_release(holder, id, number, out);
}

/// A claimed lease is given back: its producer is told when its capsule is here. False: nothing is to be waited for, there is no such
/// claim, or it was given back before.
bool Registry::release_claimed(Session& consumer, std::uint64_t number, Outbox& out) {
    const auto claimed = consumer.claimed.find(number);
    if (claimed == consumer.claimed.end()) {
        return false;
    }
    Claim& claim = claims_.at(claimed->second).at(lease_id(consumer, number));
    const bool was_confirmed = claim.state == State::Confirmed;
    if (claim.state == State::Released) {
        return false;
    }
    claim.state = State::Released;
    if (was_confirmed) {
        out.send(consumer.number, 0, wire::ClaimsRefused{{number}});
        if (claim.answer > last_answer_) {
            return false;  // the very request that is being read confirmed it, and waits for it
        }
        settle(claim.answer, out.packets.size(), out);
    }
    claim.answer = last_answer_ + 1;
    return true;
}

/// A capsule has come back, of which there may be any number of claims.
void Registry::match_claims(const Capsule& capsule, Outbox& out) {
    if (!claims_.contains(capsule.id)) {
        return;
    }
    returns_.push_back({capsule.id, {}});
    if (returns_.size() == 1) {
        std::size_t budget = kWindowPiece;
        continue_returns(budget, out);
    }
}

/// True: nothing of it is left to be done.
bool Registry::continue_returns(std::size_t& budget, Outbox& out) {
    for (; !returns_.empty(); returns_.pop_front()) {
        auto& [id, matched_up_to] = returns_.front();
        const auto known = capsules_.find(id);
        const auto found = claims_.find(id);
        if (known == capsules_.end() || found == claims_.end()) {
            continue;
        }
        Claims& claims = found->second;
        for (auto at = claims.upper_bound(matched_up_to); at != claims.end(); --budget) {
            if (budget == 0) {
                return false;
            }
            matched_up_to = at->first;
            at = match_claim(claims, at, known->second, out);
        }
        if (claims.empty()) {
            claims_.erase(found);
        }
    }
    return true;
}

/// Returns the next one.
Registry::Claims::iterator Registry::match_claim(Claims& claims, Claims::iterator at, Capsule& capsule, Outbox& out) {
    const auto [lease, claim] = *at;
    const std::size_t told = out.packets.size();
    if (claim.state == State::Released) {
        const Session* const producer = live_producer(capsule);
        if (producer == nullptr) {
            return std::next(at);  // it left again
        }
        out.send(producer->number, 0,
                 wire::LeaseEvent{capsule.id, lease, wire::LeaseEvent::What::Released, capsule.open_leases});
        at = drop_claim(claims, at);
        settle(claim.answer, told, out);
        return at;
    }
    Session& consumer = session(claim.session);
    if (!sees(consumer, capsule)) {
        return std::next(at);  // for them it is absent
    }
    at = drop_claim(claims, at);
    const bool is_good = claim.state == State::Confirmed ? confirm_claimed(consumer, lease.lease, capsule, out)
                                                         : may_hold(consumer, lease.lease, capsule);
    if (!is_good) {
        out.send(consumer.number, 0, wire::ClaimsRefused{{lease.lease}});
    } else if (claim.state == State::Held) {
        open_claimed(consumer, lease.lease, capsule, out);
    }
    if (claim.state == State::Confirmed) {
        settle(claim.answer, told, out);
    }
    return at;
}

/// The answer to a request that gave leases back, after the packets from index `after` on: now, or once the `kept` ones of them, whose
/// claims wait for `last_answer_ + 1`, are passed on.
void Registry::answer_releases(const Session& consumer, std::uint64_t request_id, std::size_t kept, std::size_t after,
                               Outbox& out) {
    if (kept == 0) {
        out.send_after(after, consumer.number, request_id, wire::Done{});
        return;
    }
    answers_.emplace(++last_answer_, Answer{consumer.number, request_id, kept});
}

/// One release or confirm that `answer` waits for was passed on, or refused.
void Registry::settle(std::uint64_t answer, std::size_t after, Outbox& out) {
    const auto waiting = answers_.find(answer);
    HURRAY_CHECK(waiting != answers_.end());
    if (--waiting->second.left != 0) {
        return;
    }
    const auto asker = sessions_.find(waiting->second.to.value);
    if (asker != sessions_.end() && !asker->second.is_ending) {
        out.send_after(after, asker->second.number, waiting->second.request_id, wire::Done{});
    }
    answers_.erase(waiting);
}

// ---- The window's end -----------------------------------------------------------------------------------------------

void Registry::close_window(Outbox& out) {
    if (!is_window_open()) {
        return;
    }
    window_end_ms_.reset();
    window_rest_ = true;
    retired_below_ = {};
    ended_ = {};
    known_names_.clear();
    continue_window_rest(out);
}

void Registry::continue_window_rest(Outbox& out) {
    std::size_t budget = kWindowPiece;
    if (!continue_returns(budget, out) || !window_rest_) {
        return;
    }
    for (; !claims_.empty(); claims_.erase(claims_.begin())) {
        auto& [id, claims] = *claims_.begin();
        for (auto at = claims.begin(); at != claims.end(); --budget) {
            if (budget == 0) {
                return;
            }
            const std::uint64_t lease = at->first.lease;
            const Claim claim = at->second;
            at = drop_claim(claims, at);
            if (claim.state == State::Held) {
                out.send(claim.session, 0, wire::ProducerLost{id});
                continue;
            }
            if (claim.state == State::Confirmed) {
                out.send(claim.session, 0, wire::ClaimsRefused{{lease}});
            }
            settle(claim.answer, out.packets.size(), out);
        }
    }
    for (; !capsules_of_before_.empty(); --budget) {
        if (budget == 0) {
            return;
        }
        Capsule& capsule = capsules_.at(capsules_of_before_.front());  // it can't have ended before
        capsules_of_before_.pop_front();
        capsule.of_before = false;
        if (live_producer(capsule) != nullptr) {
            tell_window_closed(capsule, out);
        }
        end_if_unused(capsule, out);
    }
    for (; !takes_of_window_.empty(); --budget) {
        if (budget == 0) {
            return;
        }
        Waiter& waiter = takes_of_window_.front();
        takes_of_window_.pop_front();
        serve_take(waiter, out);
    }
    // Whoever waits for exactly a version of before waits in vain.
    for (; !exact_waiters_.empty() && is_past(exact_waiters_.begin()->first); --budget) {
        if (budget == 0) {
            return;
        }
        Waiter& waiter = *exact_waiters_.begin()->second;
        out.send(waiter.session->number, waiter.request_id, refuse_past(waiter.attach));
        remove_waiter(waiter);
    }
    // Whoever compares with what it saw before has now been shown all that has come back.
    if (!owed_ends_.empty() && has_announcements()) {
        return;
    }
    for (; !owed_ends_.empty(); --budget) {
        if (budget == 0) {
            return;
        }
        Watch& watch = owed_ends_.front();
        owed_ends_.pop_front();
        out.send(watch.session->number, 0, wire::Watched{watch.number, wire::Watched::What::SnapshotEnd, {}, {}, 0});
    }
    if (!continue_store_window_close(budget, out)) {
        return;
    }
    window_rest_ = false;
}

void Registry::tell_window_closed(const Capsule& capsule, Outbox& out) {
    wire::WindowClosed list{capsule.id, {}, false};
    for (const Lease& lease : capsule.leases) {
        if (list.open.size() == wire::kMaxOpenLeases) {
            out.send(capsule.producer->number, 0, wire::WindowClosed{capsule.id, std::exchange(list.open, {}), true});
        }
        list.open.push_back(lease_id(*lease.holder, lease.number));
    }
    out.send(capsule.producer->number, 0, std::move(list));
}

}  // namespace hurrayd
