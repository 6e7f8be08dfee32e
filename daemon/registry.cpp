#include "daemon/registry.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <boost/container/small_vector.hpp>

#include "daemon/refusal.hpp"
#include "libhurray/base/check.hpp"
#include "libhurray/base/checked_math.hpp"
#include "proto/wire/access.hpp"

namespace hurrayd {
namespace {

using hurray::Errc;
using hurray::Error;
using What = wire::Watched::What;

/// Leases, capsules and watches of sessions that have ended that are dealt with at a time: each may set off a packet, so this
/// keeps everybody else waiting for about half a millisecond.
constexpr std::size_t kEndingPiece = 256;
/// Users that fit a StatusReply beside what is being written and who holds most (24,000 bytes): 15 uses of up to 36 bytes each.
constexpr std::size_t kStatusUsers = 75;

}  // namespace

// ---- Sessions -------------------------------------------------------------------------------------------------------

Registry::~Registry() = default;

Registry::Session& Registry::session(SessionNumber number) {
    const auto found = sessions_.find(number.value);
    HURRAY_CHECK(found != sessions_.end());
    return found->second;
}

const Registry::Session& Registry::session(SessionNumber number) const {
    const auto found = sessions_.find(number.value);
    HURRAY_CHECK(found != sessions_.end());
    return found->second;
}

const wire::Id16& Registry::Session::shown_hash() const {
    if (!hash) {
        hash = session_hash(identity.session);
    }
    return *hash;
}

hurray::Result<void> Registry::open_session(SessionNumber number, const Identity& identity) {
    const std::pair key{identity.uid, identity.session};
    if (session_ids_.contains(key)) {
        return hurray::fail_field(Errc::AlreadyExists, "hello.session",
                                  "a connection of this user that lives, or is being ended, has this session id");
    }
    const auto [entry, fresh] = sessions_.try_emplace(number.value);
    HURRAY_CHECK(fresh);
    Session& opened = entry->second;
    opened.number = number;
    opened.identity = identity;
    auto& groups = opened.identity.groups;
    groups.push_back(identity.gid);
    std::sort(groups.begin(), groups.end());
    groups.erase(std::unique(groups.begin(), groups.end()), groups.end());
    opened.is_resuming = identity.resumes && is_window_open();
    resuming_ += opened.is_resuming ? 1 : 0;
    session_ids_.emplace(key, &opened);
    sessions_of_[identity.uid].push_back(opened);
    ++count(identity.uid).clients;
    opened.own_bytes = cost_of(opened);
    charge(&opened, identity.uid, opened.own_bytes);
    return {};
}

void Registry::end_session(SessionNumber number, std::uint64_t now_ms, Outbox& out, bool is_cut_off) {
    Session& ended = session(number);
    ended.is_ending = true;
    ended.ends_queued = is_cut_off && !keeps_;
    ended.ended_ms = now_ms;
    while (!ended.waiting_order.empty()) {
        remove_waiter(ended.waiting_order.front());
    }
    while (!ended.reservations.empty()) {  // at once: others may be refused for want of that room
        end_reservation(ended, ended.reservations.begin());
    }
    resuming_ -= std::exchange(ended.is_resuming, false) ? 1 : 0;
    drop_pending(ended, [](const Pending&) { return true; }, out);
    --count(ended.identity.uid).clients;
    note_queued(number, 0);
    ended.in_user.unlink();
    if (const auto list = sessions_of_.find(ended.identity.uid); list->second.empty()) {
        sessions_of_.erase(list);
    }
    endings_.push_back(number);
    if (endings_.size() == 1) {
        continue_endings(out);
    }
}

void Registry::continue_endings(Outbox& out) {
    std::size_t budget = kEndingPiece;
    while (!endings_.empty()) {
        Session& ended = session(endings_.front());
        if (!continue_ending(ended, budget, out)) {
            break;
        }
        const std::uint32_t uid = ended.identity.uid;
        discharge(nullptr, uid, ended.own_bytes);
        session_ids_.erase({uid, ended.identity.session});
        sessions_.erase(endings_.front().value);
        endings_.pop_front();
        forget_if_zero(uid);
    }
    continue_announcements(out);
}

/// Does up to `budget` things. True: nothing of the session is left.
bool Registry::continue_ending(Session& ended, std::size_t& budget, Outbox& out) {
    // First what it consumes: nobody is told anything about its own leases but the producers, once each.
    for (; !ended.watches.empty(); --budget) {
        if (budget == 0) {
            return false;
        }
        remove_watch(ended, ended.watches.begin());
    }
    for (; !ended.lease_order.empty(); --budget) {
        if (budget == 0) {
            return false;
        }
        close_lease(ended.lease_order.front(), wire::LeaseEvent::What::Lost, out);
    }
    for (; !ended.claimed.empty(); --budget) {
        if (budget == 0) {
            return false;
        }
        const auto [lease, id] = *ended.claimed.begin();
        const auto claims = claims_.find(id);
        const auto claim = claims->second.find(lease_id(ended, lease));
        if (claim->second.state == wire::Claims::State::Released) {
            ended.claimed.erase(ended.claimed.begin());  // what it gave back is passed on all the same
        } else {
            if (claim->second.state == wire::Claims::State::Confirmed) {
                settle(claim->second.answer, out.packets.size(), out);
            }
            drop_claim(claims->second, claim);
            if (claims->second.empty()) {
                claims_.erase(claims);
            }
        }
    }
    for (; !ended.groups.empty(); --budget) {
        Group& group = ended.groups.begin()->second;
        for (; budget != 0 && !group.members.empty(); --budget) {
            end(group.members.front(), out);
        }
        if (budget == 0) {
            return false;
        }
        discharge(&ended, ended.identity.uid, cost_of_group());
        ended.groups.erase(ended.groups.begin());
    }
    for (; !ended.capsules.empty(); --budget) {
        if (announcements_.size() >= kEndingPiece) {
            return false;  // those first
        }
        Capsule& capsule = ended.capsules.front();
        if (ends_with_producer(capsule)) {
            forgo_lingering(capsule);
        }
        if (capsule.lingering) {
            if (budget == 0) {
                return false;
            }
            ended.capsules.pop_front();
            leave_lingering(capsule, ended.ended_ms, out);
            continue;
        }
        for (; budget != 0 && !capsule.leases.empty(); --budget) {
            Session& holder = *capsule.leases.front().holder;
            capsule.leases.pop_front();
            if (holder.told_lost != capsule.version) {
                holder.told_lost = capsule.version;
                out.send(holder.number, 0, wire::ProducerLost{capsule.id});
            }
        }
        if (budget == 0) {
            return false;
        }
        ended.capsules.pop_front();
        capsule.producer = nullptr;
        if (!capsule.retired) {
            retire(capsule, out);
            refuse_waiters(capsule, out);
            announce(What::ProducerLost, capsule);
        }
        end_if_unused(capsule, out);
    }
    for (; !ended.segments.empty(); --budget) {
        if (budget == 0) {
            return false;
        }
        forget_segment(ended, ended.segments.begin(), out);
    }
    return true;
}

bool Registry::sees(const Session& session, const Capsule& capsule) noexcept {
    return permits(session.identity, capsule.id.uid, capsule.access, Right::Read);
}

/// Whether it may replace and withdraw it. What a session has published it can end at any time, by ending itself.
bool Registry::may_write(const Session& session, const Capsule& capsule) noexcept {
    return capsule.producer == &session ||
           (sees(session, capsule) && permits(session.identity, capsule.id.uid, capsule.access, Right::Write));
}

Registry::Session* Registry::live_producer(const Capsule& capsule) noexcept {
    return capsule.producer != nullptr && !capsule.producer->is_ending ? capsule.producer : nullptr;
}

bool Registry::is_attachable(const Capsule& capsule) noexcept { return capsule.is_live() && is_kept(capsule); }

// ---- Publish --------------------------------------------------------------------------------------------------------

/// Whether a name is nobody's, or one that `producer` may publish under.
hurray::Result<void> Registry::check_name(const Session& producer, Names::const_iterator known) const {
    if (known == names_.end() || known->first.empty()) {
        return {};
    }
    const std::string& name = known->first;
    const auto& newest = static_cast<const Capsule&>(*known->second.versions.rbegin());
    const std::uint32_t uid = producer.identity.uid;
    const bool is_taken_back = known->second.owner == uid && newest.id.uid != uid;
    if (is_taken_back || may_write(producer, newest)) {
        return {};
    }
    if (newest.id.uid != uid && !sees(producer, newest)) {
        return hurray::fail_field(Errc::AlreadyExists, "publish.name",
                                  "the name \"" + name + "\" belongs to another user while a version of it lives");
    }
    return hurray::fail_field(Errc::NotPermitted, "publish.name",
                              "the name \"" + name + "\" is held by a capsule of user " +
                                  std::to_string(newest.id.uid) + " with " + wire::access_text(newest.access) +
                                  ", which you may not replace");
}

/// What a publish asks for, put in numbers.
hurray::Result<wire::Access> Registry::access_for(const Session& producer, const wire::Publish& publish) const {
    const Identity& publisher = producer.identity;
    wire::Access access = publish.access.value_or(wire::Access{wire::kOwnGroup, default_mode_});
    if (access.gid == wire::kOwnGroup) {
        access.gid = publisher.gid;
    } else if (!publisher.is_root &&
               !std::binary_search(publisher.groups.begin(), publisher.groups.end(), access.gid)) {
        return hurray::fail_field(Errc::NotPermitted, "publish.access.gid",
                                  "user " + std::to_string(publisher.uid) + " was not in group " +
                                      std::to_string(access.gid) + " when this connection began");
    }
    return access;
}

/// Lets go of the segments that came with a publish which adds none.
void Registry::drop_brought(const Publication& publication, Outbox& out) {
    for (const BroughtSegment& brought : publication.brought) {
        if (brought.number != SegmentNumber{}) {
            out.dropped.push_back(brought.number);
        }
    }
}

void Registry::refuse_publish(const Session& producer, std::uint64_t request_id, const Publication& publication,
                              Error error, Outbox& out) {
    drop_brought(publication, out);
    out.send(producer.number, request_id, std::move(error));
}

/// Tells a publish from another one. Of all that it says, but for who took what it offers again: that may have changed since.
std::uint64_t Registry::digest_of(const wire::Publish& publish) {
    boost::container::small_vector<std::uint64_t, 32> said = {
        keyed_hash(publish.name),
        keyed_hash(publish.descriptor),
        publish.access ? std::uint64_t{publish.access->gid} << 32U | publish.access->mode : UINT64_MAX,
        publish.group,
        publish.version,
        publish.retain,
        (publish.once ? 1U : 0U) | (publish.retired ? 2U : 0U) | (publish.linger_ms ? 4U : 0U),
        publish.linger_ms.value_or(0),
        publish.segments.size()};
    for (const wire::Segment& segment : publish.segments) {
        said.insert(said.end(),
                    {segment.number,
                     std::uint64_t{static_cast<std::uint32_t>(segment.memory)} << 1U | (segment.carries_fd ? 1U : 0U),
                     segment.size, segment.reservation});
    }
    for (const wire::Placement& placement : publish.placements) {
        said.insert(said.end(), {placement.segment, placement.offset});
    }
    return keyed_hash(std::span<const std::uint64_t>(said.data(), said.size()));
}

/// Whether it is what made `capsule`, said once more by the same session.
bool Registry::is_repeated(const Session& producer, const wire::Publish& publish, const Capsule& capsule) {
    return capsule.producer == &producer && capsule.digest == digest_of(publish);
}

void Registry::publish(SessionNumber from, std::uint64_t request_id, Publication publication, Outbox& out) {
    Session& producer = session(from);
    if (publication.request.version != 0) {
        offer_again(producer, request_id, std::move(publication), out);
        return;
    }
    const wire::CapsuleId id{producer.identity.uid, publication.request.capsule};
    const auto refuse = [&](Error error) { refuse_publish(producer, request_id, publication, std::move(error), out); };

    if (const auto known = capsules_.find(id); known != capsules_.end()) {
        if (is_adoptable(known->second)) {
            adopt(producer, request_id, std::move(publication), known->second, out);
            return;
        }
        if (!is_repeated(producer, publication.request, known->second)) {
            refuse(refusal(Errc::AlreadyExists, "publish.capsule", "a capsule with this id was published before"));
            return;
        }
        drop_brought(publication, out);
        out.send(from, request_id, wire::PublishReply{known->second.version});
        await_answer(producer, known->second, out);
        return;
    }
    if (left_.contains(id)) {
        answer_left(producer, request_id, std::move(publication), out);
        return;
    }
    if (publication.request.group == 0 && foreign_before(producer, publication.request.name) != nullptr) {
        wait_for_window(producer, request_id, std::move(publication), out);
        return;
    }
    Group* group = nullptr;
    if (publication.request.group != 0) {
        auto joined = group_for(producer, publication.request);
        if (!joined) {
            refuse(std::move(joined.error()));
            return;
        }
        group = *joined;
    }
    if (auto checked = check_name_of_before(producer, publication.request.name, 0); !checked) {
        refuse(std::move(checked.error()));
        return;
    }
    const Names::const_iterator name = names_.find(publication.request.name);
    if (auto checked = check_name(producer, name); !checked) {
        refuse(std::move(checked.error()));
        return;
    }
    if (auto checked = check_kind(name, publication.request.once, "publish.once"); !checked) {
        refuse(std::move(checked.error()));
        return;
    }
    const auto access = access_for(producer, publication.request);
    if (!access) {
        refuse(access.error());
        return;
    }
    if (auto admitted = admit_capsule(producer, publication.request, name); !admitted) {
        refuse(std::move(admitted.error()));
        return;
    }
    if (auto checked = check_segments(producer, publication, *access); !checked) {
        refuse(std::move(checked.error()));
        return;
    }
    if (auto admitted = admit_store(producer, publication); !admitted) {
        refuse(std::move(admitted.error()));
        return;
    }

    // From here on nothing is refused.
    drop_taken(id, out);  // whoever was: this one is new
    Capsule& capsule = add(producer, publication, *access, out);
    if (keeps_ && capsule.lingering) {
        charge_store(capsule);
    }
    if (group != nullptr) {
        stage(capsule, *group, publication.request.name);
        out.send(from, request_id, wire::PublishReply{0});
    } else {
        producer.capsules.push_back(capsule);
        const std::size_t first = out.packets.size();
        make_visible(capsule, publication.request.name, out);
        out.send_after(first, from, request_id, wire::PublishReply{capsule.version});
        await_answer(producer, capsule, out);
        serve_waiters(capsule, out);
    }
    continue_announcements(out);
}

/// A new capsule on the books, which nobody sees yet.
Registry::Capsule& Registry::add(Session& producer, const Publication& publication, const wire::Access& access,
                                 Outbox& out) {
    const wire::Publish& publish = publication.request;
    const wire::CapsuleId id{producer.identity.uid, publish.capsule};
    Capsule& capsule = capsules_.try_emplace(id).first->second;
    capsule.id = id;
    capsule.access = access;
    capsule.pid = producer.identity.pid;
    capsule.producer = &producer;
    capsule.digest = digest_of(publish);
    capsule.content = {publish.descriptor, take_segments(producer, publication, access, out), publish.placements};
    capsule.retain = publish.retain;
    capsule.once = publish.once;
    if (publish.linger_ms) {
        capsule.lingering = std::make_unique<Lingering>();
        capsule.lingering->linger_ms = *publish.linger_ms;
    }
    if (publish.taken_by.lease != 0) {
        capsule.taken_by = std::make_unique<const wire::LeaseId>(publish.taken_by);
    }
    capsule.buffer_bytes = publication.buffer_bytes;
    ++count(id.uid).capsules;
    ++producer.capsules_size;
    charge(&producer, id.uid, cost_of(capsule));
    return capsule;
}

/// Gives it its version and makes it live.
void Registry::make_visible(Capsule& capsule, const std::string& name, Outbox& out) {
    put_under_name(capsule, name, next_version_++);
    make_live(capsule, out);
}

/// Gives it its name and its version. Then it goes on a shelf: that of what is live, or of what is held.
void Registry::put_under_name(Capsule& capsule, const std::string& text, std::uint64_t version) {
    const auto [name, fresh] = names_.try_emplace(text);
    if (fresh) {
        const auto before = names_of_before_.find(name->first);
        const bool is_of_before = is_window_open() && before != names_of_before_.end() && !name->first.empty();
        name->second.owner = is_of_before ? before->second.noted.owner : capsule.id.uid;
        name->second.is_of_before = is_of_before;
        name->second.once = capsule.once;
        if (!name->first.empty()) {
            ++count(name->second.owner).names;
            charge(nullptr, name->second.owner, cost_of_name(name->first));
        }
    }
    note_back(name->first, version);
    capsule.name = name;
    capsule.version = version;
    ++history_.published;
    name->second.versions.insert(capsule);
}

/// It can be attached, or taken, from now on. Who published the versions that it displaces is told, and what there is to tell watchers
/// is announced.
void Registry::make_live(Capsule& capsule, Outbox& out) {
    Name& name = capsule.name->second;
    add_live(capsule);
    store(capsule, out);  // new_before_old
    if (!capsule.once && !capsule.name->first.empty()) {
        retire_surplus(name, out);
    }
    note_name(capsule, out);
    announce(What::Published, capsule);
}

/// Retires the oldest versions of a name, down to as many as its newest one retains.
void Registry::retire_surplus(Name& name, Outbox& out) {
    const std::uint32_t retain = static_cast<const Capsule&>(*name.live.rbegin()).retain;
    while (name.live_size > retain) {
        Capsule& old = static_cast<Capsule&>(*name.live.begin());
        retire(old, out);
        announce(What::Retired, old);
        if (Session* told = live_producer(old)) {
            out.send(told->number, 0, wire::Retired{old.id});
        }
        end_if_unused(old, out);
    }
}

void Registry::retire(Capsule& capsule, Outbox& out) {
    capsule.retired = true;
    stop_expiry(capsule);
    unstore(capsule, out);
    if (capsule.is_live()) {
        remove_live(capsule);
    }
}

/// Among those that can be attached, or taken.
void Registry::add_live(Capsule& capsule) {
    Name& name = capsule.name->second;
    live_.add(capsule);
    name.live.insert(capsule);
    ++name.live_size;
    if (capsule.once) {
        ++count(capsule.id.uid).queued;
    }
}

void Registry::remove_live(Capsule& capsule) {
    Name& name = capsule.name->second;
    live_.remove(capsule);
    held_.add(capsule);
    note_retired_below(capsule.name->first, capsule.id.uid, displaced_below(name));
    name.live.erase(name.live.iterator_to(capsule));
    --name.live_size;
    if (capsule.once) {
        --count(capsule.id.uid).queued;
    }
}

void Registry::end_if_unused(Capsule& capsule, Outbox& out) {
    if (capsule.retired && capsule.open_leases == 0 && !capsule.of_before) {
        end(capsule, out);
    }
}

/// Forgets a capsule that nobody holds, or that is staged.
void Registry::end(Capsule& capsule, Outbox& out) {
    if (Session* told = live_producer(capsule)) {
        out.send(told->number, 0, wire::Ended{capsule.id, is_reusable(capsule)});
    }
    unstore(capsule, out);  // of one that was staged: else it has been retired
    if (capsule.staged == nullptr) {
        note_ended(capsule, out);
    }
    for (Segment* segment : capsule.content.segments()) {
        --segment->capsules;
        drop_if_unused(*segment, out);
    }

    const std::uint32_t uid = capsule.id.uid;
    --count(uid).capsules;
    if (capsule.producer != nullptr) {
        --capsule.producer->capsules_size;
    }
    discharge(capsule.producer, uid, cost_of(capsule));
    if (capsule.staged != nullptr) {
        unstage(capsule);
        capsules_.erase(wire::CapsuleId{capsule.id});  // a copy: the key must outlive the entry
        forget_if_zero(uid);
        return;
    }
    const auto name = capsule.name;
    held_.remove(capsule);
    name->second.versions.erase(name->second.versions.iterator_to(capsule));
    capsules_.erase(wire::CapsuleId{capsule.id});
    if (name->second.versions.empty()) {
        const std::uint32_t owner = name->second.owner;
        if (!name->first.empty()) {
            --count(owner).names;
            discharge(nullptr, owner, cost_of_name(name->first));
        }
        if (keeps_) {
            out.kept.emplace_back(keep::NameEnded{name->first});
        }
        names_.erase(name);
        forget_if_zero(owner);
    }
    forget_if_zero(uid);
}
void Registry::withdraw(SessionNumber from, std::uint64_t request_id, const wire::Withdraw& withdraw, Outbox& out) {
    Session& asker = session(from);
    const auto is_meant = [&](const Pending& pending) {
        return wire::CapsuleId{asker.identity.uid, pending.publication.request.capsule} == withdraw.capsule;
    };
    const bool has_waited = asker.pending != 0 && cancel_pending(asker, is_meant, out);
    const auto known = capsules_.find(withdraw.capsule);
    if (has_waited && known == capsules_.end()) {
        out.send(from, request_id, wire::Done{});
        return;
    }
    const bool is_own = known != capsules_.end() && known->second.producer == &asker;
    if (known == capsules_.end() || (!is_own && (!sees(asker, known->second) || known->second.staged != nullptr))) {
        out.send(from, request_id, refusal(Errc::NotFound, "withdraw.capsule", "no such capsule"));
        return;
    }
    Capsule& capsule = known->second;
    if (!may_write(asker, capsule)) {
        out.send(from, request_id,
                 refusal(Errc::NotPermitted, "withdraw.capsule",
                         "the capsule of user " + std::to_string(capsule.id.uid) + " with " +
                             wire::access_text(capsule.access) + " is one that you may read and not withdraw"));
        return;
    }
    if (capsule.retired) {
        out.send(from, request_id, wire::Done{});
        return;
    }
    if (capsule.staged == nullptr) {
        refuse_waiters(capsule, out);  // the answer does not wait for theirs
    }
    const std::size_t first = out.packets.size();
    if (capsule.staged != nullptr) {
        end(capsule, out);
        out.send_after(first, from, request_id, wire::Done{});
        return;
    }
    announce(What::Retired, capsule);
    retire(capsule, out);
    if (Session* told = live_producer(capsule); told != nullptr && told != &asker) {
        out.send(told->number, 0, wire::Retired{capsule.id});
    }
    end_if_unused(capsule, out);
    out.send_after(first, from, request_id, wire::Done{});
    continue_announcements(out);
}

// ---- Time, status --------------------------------------------------------------------------------------------------

void Registry::expire(std::uint64_t now_ms, Outbox& out) {
    if (window_end_ms_ && std::min(*window_end_ms_, window_may_end_ms()) <= now_ms) {
        close_window(out);
    }
    expire_lingering(now_ms, out);
    expire_waiters(now_ms, out);
}

std::optional<std::uint64_t> Registry::next_deadline_ms() const noexcept {
    std::optional<std::uint64_t> next = window_end_ms_;
    if (next) {
        next = std::min(*next, window_may_end_ms());
    }
    const auto consider = [&](const auto& due) {
        if (!due.empty()) {
            next = std::min(next.value_or(UINT64_MAX), due.begin()->first);
        }
    };
    consider(deadlines_);
    consider(expiries_);
    return next;
}
void Registry::status(SessionNumber from, std::uint64_t request_id, std::string_view daemon_version,
                      std::uint64_t uptime_ms, std::uint64_t now_ms, Outbox& out) const {
    const Session& from_session = session(from);
    const Identity& asker = from_session.identity;
    wire::StatusReply reply;
    const auto add = [&](std::uint32_t uid, const Totals& use) {
        const std::uint64_t others = use.clients - (uid == asker.uid ? 1 : 0);
        const std::uint64_t asking = uid == asker.uid ? from_session.own_bytes + from_session.queued_bytes : 0;
        const std::array<wire::Use, 15> uses = {
            {{"clients", uid, others, quotas_.limit(Quota::Clients)},
             {"capsules", uid, use.capsules, quotas_.limit(Quota::Capsules)},
             {"staged", uid, use.staged, 0},
             {"queued", uid, use.queued, 0},
             {"names", uid, use.names, quotas_.limit(Quota::Names)},
             {"bytes", uid, use.bytes + use.reserved, quotas_.limit(Quota::Bytes)},
             {"reserved_bytes", uid, use.reserved, 0},
             {"leases", uid, use.leases, quotas_.limit(Quota::Leases)},
             {"claims", uid, use.claims, 0},
             {"waiting", uid, use.waiting, quotas_.limit(Quota::Waiting)},
             {"watches", uid, use.watches, quotas_.limit(Quota::Watches)},
             {"descriptors", uid, use.descriptors, quotas_.limit(Quota::Descriptors)},
             {"stored", uid, use.stored, keeps_ ? quotas_.limit(Quota::Stored) : 0},
             {"reservations", uid, use.reservations, quotas_.limit(Quota::Reservations)},
             {"daemon_bytes", uid, use_of(use, Quota::DaemonBytes) - asking, quotas_.limit(Quota::DaemonBytes)}}};
        reply.uses.insert(reply.uses.end(), uses.begin(), uses.end());
    };
    if (asker.is_root) {
        std::size_t users = 0;
        for (const auto& [uid, use] : uses_) {
            if (users++ == kStatusUsers) {
                break;
            }
            add(uid, use);
        }
        for (const auto& [uid, reservations] : writing_) {
            list_writing(uid, now_ms, reply);
        }
        for (const auto& [uid, sessions] : sessions_of_) {
            list_holders(uid, from_session, reply);
        }
    } else if (const auto own = uses_.find(asker.uid); own != uses_.end()) {
        add(asker.uid, own->second);
        list_writing(asker.uid, now_ms, reply);
        list_holders(asker.uid, from_session, reply);
    }
    reply.daemon_version = daemon_version;
    reply.uptime_ms = uptime_ms;
    out.send(from, request_id, std::move(reply));
}

Registry::Totals Registry::totals() const noexcept {
    Totals sum;
    for (const auto& [uid, use] : uses_) {
        sum.clients += use.clients;
        sum.capsules += use.capsules;
        sum.staged += use.staged;
        sum.queued += use.queued;
        sum.names += use.names;
        sum.bytes += use.bytes;
        sum.reserved = hurray::checked_add(sum.reserved, use.reserved).value_or(UINT64_MAX);
        sum.reservations += use.reservations;
        sum.leases += use.leases;
        sum.claims += use.claims;
        sum.waiting += use.waiting;
        sum.watches += use.watches;
        sum.descriptors += use.descriptors;
        sum.kept_bytes += use.kept_bytes;
        sum.queued_bytes += use.queued_bytes;
        sum.stored += use.stored;
    }
    return sum;
}

void Registry::forget_if_zero(std::uint32_t uid) noexcept {
    if (const auto use = uses_.find(uid); use != uses_.end() && use->second == Totals{}) {
        uses_.erase(use);
    }
}

}  // namespace hurrayd
