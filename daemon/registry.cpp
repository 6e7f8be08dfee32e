#include "daemon/registry.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <utility>

#include <boost/container/small_vector.hpp>

#include "libhurray/base/check.hpp"
#include "libhurray/base/checked_math.hpp"
#include "proto/wire/access.hpp"
#include "proto/wire/names.hpp"

namespace hurrayd {
namespace {

using hurray::Errc;
using hurray::Error;
using What = wire::Watched::What;

/// What one Info takes in a packet beside its name and descriptor, at most: every field with its tag and longest varint.
constexpr std::size_t kInfoOverhead = 128;
/// What a page may hold so that the packet around it fits, cursor included.
constexpr std::size_t kPageBytes = wire::kMaxPacketBytes - 1024;
/// Capsules that one List looks at: bounds the time that it keeps everybody else waiting (about a millisecond).
constexpr std::size_t kListBudget = 4096;
/// Packets of a snapshot at a time: fewer than a socket takes, so that a watcher that reads is never cut as slow.
constexpr std::size_t kSnapshotPackets = 128;
/// Changes kept back during a snapshot. More: GAP, and the watcher may look again.
constexpr std::size_t kMaxKeptBack = 1024;
/// Leases, capsules and watches of sessions that have ended that are dealt with at a time: each may set off a packet, so this
/// keeps everybody else waiting for about half a millisecond.
constexpr std::size_t kEndingPiece = 256;
/// What watchers are told at a time after a commit: each may be a packet, as above.
constexpr std::size_t kAnnouncementPiece = 256;
/// Users that fit a StatusReply beside what is being written and who holds most (24,000 bytes): 15 uses of up to 36 bytes each.
constexpr std::size_t kStatusUsers = 75;

[[gnu::cold]] Error refusal(Errc code, std::string field, std::string message) {
    return {code, std::move(message), std::move(field)};
}

std::string encode_cursor(std::string_view name, std::uint64_t version) {
    std::string cursor(8, '\0');
    for (std::size_t i = 0; i < 8; ++i) {
        cursor[i] = static_cast<char>(version >> (8 * i));
    }
    return cursor.append(name);
}

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

bool decode_cursor(std::string_view cursor, std::string_view& name, std::uint64_t& version) {
    if (cursor.size() < 8 || cursor.size() > 8 + wire::kMaxNameBytes) {
        return false;
    }
    version = 0;
    for (std::size_t i = 0; i < 8; ++i) {
        version |= static_cast<std::uint64_t>(static_cast<unsigned char>(cursor[i])) << (8 * i);
    }
    name = cursor.substr(8);
    return true;
}

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
            return;
        }
        const std::uint32_t uid = ended.identity.uid;
        discharge(nullptr, uid, ended.own_bytes);
        session_ids_.erase({uid, ended.identity.session});
        sessions_.erase(endings_.front().value);
        endings_.pop_front();
        forget_if_zero(uid);
    }
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
        tell_watchers(1, out);
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
    std::size_t events = 0;
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
        events = make_visible(capsule, publication.request.name, out);
        out.send_after(first, from, request_id, wire::PublishReply{capsule.version});
        await_answer(producer, capsule, out);
        serve_waiters(capsule, out);
    }
    tell_watchers(std::min(std::max<std::size_t>(events, 2), kAnnouncementPiece), out);
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

/// Gives it its version and makes it live. Returns how much there is to tell watchers.
std::size_t Registry::make_visible(Capsule& capsule, const std::string& name, Outbox& out) {
    put_on_shelf(capsule, name, next_version_++);
    return make_live(capsule, out);
}

/// Gives it its name and its version.
void Registry::put_on_shelf(Capsule& capsule, const std::string& text, std::uint64_t version) {
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
    note_back(name->first);
    capsule.name = name;
    capsule.version = version;
    ++history_.published;
    name->second.versions.insert(capsule);
    shelves_.add(capsule);
}

/// It can be attached, or taken, from now on. Who published the versions that it displaces is told, and what there is to tell watchers
/// is announced: that many events are returned.
std::size_t Registry::make_live(Capsule& capsule, Outbox& out) {
    Name& name = capsule.name->second;
    add_live(capsule);
    store(capsule, out);  // new_before_old
    std::size_t events = 1;
    if (!capsule.once && !capsule.name->first.empty()) {
        events += retire_surplus(name, out);
    }
    note_name(capsule, out);
    announce(What::Published, capsule);
    return events;
}

/// Retires the oldest versions of a name, down to as many as its newest one retains. Returns how many it were.
std::size_t Registry::retire_surplus(Name& name, Outbox& out) {
    const std::uint32_t retain = static_cast<const Capsule&>(*name.live.rbegin()).retain;
    std::size_t retired = 0;
    for (; name.live_size > retain; ++retired) {
        Capsule& old = static_cast<Capsule&>(*name.live.begin());
        retire(old, out);
        announce(What::Retired, old);
        if (Session* told = live_producer(old)) {
            out.send(told->number, 0, wire::Retired{old.id});
        }
        end_if_unused(old, out);
    }
    return retired;
}

void Registry::retire(Capsule& capsule, Outbox& out) {
    capsule.retired = true;
    stop_expiry(capsule);
    unstore(capsule, out);
    if (capsule.is_live()) {
        remove_live(capsule);
    }
}

/// Among those of its name that can be attached, or taken.
void Registry::add_live(Capsule& capsule) {
    Name& name = capsule.name->second;
    name.live.insert(capsule);
    ++name.live_size;
    if (capsule.once) {
        ++count(capsule.id.uid).queued;
    }
}

void Registry::remove_live(Capsule& capsule) {
    Name& name = capsule.name->second;
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
    drop_taken(capsule.id, out);
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
    shelves_.remove(capsule);
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

// ---- Attach ---------------------------------------------------------------------------------------------------------

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

/// What a name has for an attach, as far as `viewer` sees it: the version asked for, the first that is newer, or the newest; of a queue
/// the oldest.
Registry::Capsule* Registry::find_live(const Session& viewer, Names::value_type& entry, const wire::Attach& attach) {
    Name& name = entry.second;
    const auto first_good = [&](auto at, auto end) -> Capsule* {
        for (; at != end; ++at) {
            if (auto& capsule = static_cast<Capsule&>(*at); is_attachable(capsule) && sees(viewer, capsule)) {
                return &capsule;
            }
        }
        return nullptr;
    };
    if (attach.which == wire::Which::Exactly && !name.once) {
        const auto version = name.live.find(attach.version);
        return version != name.live.end() ? first_good(version, std::next(version)) : nullptr;
    }
    if (name.once) {
        // What was queued by who is ending is nobody's, and out of the way of the next who asks: there may be any number.
        while (!name.live.empty() && !is_kept(static_cast<const Capsule&>(*name.live.begin()))) {
            remove_live(static_cast<Capsule&>(*name.live.begin()));
        }
        if (name.live.empty()) {
            return nullptr;
        }
        if (Capsule* const oldest = first_good(name.live.begin(), std::next(name.live.begin()))) {
            return oldest;
        }
        // Any number may be before the viewer's that he may not see. What he may is apart, so it neither takes nor tells how many.
        auto view = shelves_.view(viewer.identity, {entry.first, 0});
        for (const Capsule* each = view.next(); each != nullptr && each->name->first == entry.first;
             each = view.next()) {
            if (is_attachable(*each) && sees(viewer, *each)) {
                return &capsules_.at(each->id);
            }
        }
        return nullptr;
    }
    if (attach.which == wire::Which::NewerThan) {
        const std::uint64_t seen = std::max(attach.version, attach.last_seen == 0 ? 0 : attach.last_seen - 1);
        return first_good(name.live.upper_bound(seen), name.live.end());
    }
    return first_good(name.live.rbegin(), name.live.rend());
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

void Registry::expire(std::uint64_t now_ms, Outbox& out) {
    if (window_end_ms_ && std::min(*window_end_ms_, window_may_end_ms()) <= now_ms) {
        close_window(out);
    }
    expire_lingering(now_ms, out);
    while (!deadlines_.empty() && deadlines_.begin()->first <= now_ms) {
        Waiter& waiter = *deadlines_.begin()->second;
        out.send(waiter.session->number, waiter.request_id,
                 refusal(Errc::TimedOut, {}, absence_of(waiter.attach) + " came in time"));
        remove_waiter(waiter);
    }
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

// ---- Release, withdraw ----------------------------------------------------------------------------------------------

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
    tell_watchers(1, out);
}

// ---- List, watch, status --------------------------------------------------------------------------------------------

template <class Visit>
std::optional<std::pair<std::string, std::uint64_t>> Registry::visit_from(std::string_view pattern,
                                                                          std::string_view name, std::uint64_t version,
                                                                          const Session& viewer, std::size_t budget,
                                                                          Visit&& visit) const {
    using Place = Shelves<Capsule>::Place;
    auto view =
        shelves_.view(viewer.identity, std::max(Place{pattern, 0}, Place{name, version}));  // versions are above 0
    std::optional<std::pair<std::string, std::uint64_t>> seen;
    for (const Capsule* capsule = view.next(); capsule != nullptr && wire::matches(pattern, capsule->name->first);
         capsule = view.next()) {
        if (budget-- == 0 || (sees(viewer, *capsule) && !visit(capsule->name->first, *capsule))) {
            return seen;
        }
        seen.emplace(capsule->place());
    }
    return std::nullopt;
}

void Registry::list(SessionNumber from, std::uint64_t request_id, const wire::List& list, std::uint64_t now_ms,
                    Outbox& out) const {
    std::string_view name;
    std::uint64_t version = 0;
    if (!list.cursor.empty() && !decode_cursor(list.cursor, name, version)) {
        out.send(from, request_id, refusal(Errc::InvalidArgument, "list.cursor", "not a cursor of a page before"));
        return;
    }
    wire::ListReply page;
    std::size_t bytes = 0;
    const auto stopped = visit_from(
        list.pattern, name, version, session(from), kListBudget, [&](const std::string& text, const Capsule& capsule) {
            const std::string& descriptor = capsule.content.descriptor();
            const std::size_t more = kInfoOverhead + text.size() + (list.with_descriptor ? descriptor.size() : 0);
            if (bytes + more > kPageBytes || (list.limit != 0 && page.capsules.size() >= list.limit)) {
                return false;
            }
            bytes += more;
            wire::Info& info = page.capsules.emplace_back();
            info.capsule = capsule.id;
            info.name = text;
            info.version = capsule.version;
            info.bytes = capsule.buffer_bytes;
            info.leases = capsule.open_leases;
            info.access = capsule.access;
            info.retired = capsule.retired || !is_kept(capsule);
            info.lingering = lingers(capsule);
            info.producer_gone = info.lingering && live_producer(capsule) == nullptr;
            if (capsule.lingering && capsule.lingering->expiry) {
                const std::uint64_t due_ms = (*capsule.lingering->expiry)->first;
                info.expires_ms = due_ms > now_ms ? due_ms - now_ms : 1;
            }
            info.once = capsule.once;
            info.immutable = capsule.is_immutable();
            info.unsealed = capsule.is_unsealed();
            info.pid = capsule.pid;
            if (list.with_descriptor) {
                info.descriptor = descriptor;
            }
            return true;
        });
    if (stopped) {
        page.cursor = encode_cursor(stopped->first, stopped->second);
    }
    out.send(from, request_id, std::move(page));
}

void Registry::watch(SessionNumber from, std::uint64_t request_id, const wire::Watch& watch, Outbox& out) {
    Session& watcher = session(from);
    if (watcher.watches.contains(watch.watch)) {
        out.send(from, request_id,
                 refusal(Errc::AlreadyExists, "watch.watch",
                         "watch number " + std::to_string(watch.watch) + " is in use in this session"));
        return;
    }
    const std::uint64_t cost = cost_of_watch(watch.pattern);
    auto admitted = admit(watcher, Quota::Watches);
    if (admitted) {
        admitted = admit(watcher, Quota::DaemonBytes, cost);
    }
    if (!admitted) {
        out.send(from, request_id, std::move(admitted.error()));
        return;
    }
    charge(&watcher, watcher.identity.uid, cost);
    Watch& added = watcher.watches[watch.watch];
    added.number = watch.watch;
    added.pattern = watch.pattern;
    added.session = &watcher;
    watches_[watch.pattern].push_back(added);
    ++watcher.snapshots;
    ++count(watcher.identity.uid).watches;
    out.send(from, request_id, wire::Done{});
    continue_snapshots(from, out);
}

bool Registry::has_snapshots(SessionNumber number) const noexcept {
    const auto found = sessions_.find(number.value);
    return found != sessions_.end() && found->second.snapshots != 0;
}

void Registry::continue_snapshots(SessionNumber number, Outbox& out) {
    // A snapshot shows what is. Changes that are still to be told belong before what it shows next.
    if (has_announcements()) {
        return;
    }
    Session& watcher = session(number);
    std::size_t budget = kSnapshotPackets;
    for (auto& [watch_number, watch] : watcher.watches) {
        if (budget == 0 || (watch.in_snapshot && !continue_snapshot(watch, budget, out))) {
            return;
        }
    }
}

/// Writes up to `budget` packets. True: the snapshot is complete.
bool Registry::continue_snapshot(Watch& watch, std::size_t& budget, Outbox& out) {
    Session& watcher = *watch.session;
    const auto stopped =
        visit_from(watch.pattern, watch.shown_name, watch.shown_version, watcher, kListBudget,
                   [&](const std::string& name, const Capsule& capsule) {
                       if (budget == 0) {
                           return false;
                       }
                       if (!capsule.retired) {
                           --budget;
                           out.send(watcher.number, 0,
                                    wire::Watched{watch.number, What::Present, capsule.id, name, capsule.version});
                       }
                       return true;
                   });
    if (stopped) {
        watch.shown_name = stopped->first;
        watch.shown_version = stopped->second;
        return false;
    }
    if (budget == 0) {
        // All is shown; the end and what was kept back come with the next piece. Nothing may be added to the snapshot now.
        watch.shown_name.assign(wire::kMaxNameBytes + 1, '\xff');
        return false;
    }
    watch.in_snapshot = false;
    --watcher.snapshots;
    if (is_window_open() && watcher.identity.resumes) {
        owed_ends_.push_back(watch);
    } else {
        out.send(watcher.number, 0, wire::Watched{watch.number, What::SnapshotEnd, {}, {}, 0});
    }
    for (wire::Watched& event : watch.kept_back) {
        out.send(watcher.number, 0, std::move(event));
    }
    if (watch.gap) {
        out.send(watcher.number, 0, wire::Watched{watch.number, What::Gap, {}, {}, 0});
    }
    watch.kept_back = {};
    discharge(&watcher, watcher.identity.uid, std::exchange(watch.kept_back_bytes, 0));
    watch.gap = false;
    budget = 0;
    return true;
}

void Registry::unwatch(SessionNumber from, std::uint64_t request_id, const wire::Unwatch& unwatch, Outbox& out) {
    Session& watcher = session(from);
    if (const auto watch = watcher.watches.find(unwatch.watch); watch != watcher.watches.end()) {
        remove_watch(watcher, watch);
    }
    out.send(from, request_id, wire::Done{});
}

void Registry::remove_watch(Session& watcher, std::map<std::uint64_t, Watch>::iterator watch) {
    if (watch->second.in_snapshot) {
        --watcher.snapshots;
    }
    watch->second.with_pattern.unlink();
    if (const auto list = watches_.find(watch->second.pattern); list->second.empty()) {
        watches_.erase(list);
    }
    --count(watcher.identity.uid).watches;
    discharge(&watcher, watcher.identity.uid, cost_of_watch(watch->second.pattern) + watch->second.kept_back_bytes);
    watcher.watches.erase(watch);
}

/// Puts an event of `capsule` behind those that watchers are still to be told.
void Registry::announce(What what, const Capsule& capsule) {
    if (!watches_.empty()) {
        announcements_.push_back({{0, what, capsule.id, capsule.name->first, capsule.version}, capsule.access});
    }
}

/// Tells the next `events` of what is announced: as many as this step may have added, so that they don't pile up.
void Registry::tell_watchers(std::size_t events, Outbox& out) {
    for (; events != 0 && has_announcements(); --events) {
        tell_next(out);
    }
}

void Registry::continue_announcements(Outbox& out) {
    for (std::size_t told = 0; told < kAnnouncementPiece && has_announcements();) {
        told += 1 + tell_next(out);
    }
}

/// Tells the next event to whoever watches for it. Returns how many that are.
std::size_t Registry::tell_next(Outbox& out) {
    const Announcement next = std::move(announcements_.front());
    announcements_.pop_front();
    const wire::Watched& event = next.event;
    std::size_t told = 0;
    const auto tell = [&](std::string_view pattern) {
        const auto list = watches_.find(std::string(pattern));
        if (list == watches_.end()) {
            return;
        }
        for (Watch& watch : list->second) {
            if (permits(watch.session->identity, event.capsule.uid, next.access, Right::Read)) {
                tell_watch(watch, {watch.number, event.what, event.capsule, event.name, event.version}, out);
                ++told;
            }
        }
    };
    const std::string_view name = event.name;
    tell({});
    for (std::size_t slash = name.find('/'); slash != std::string_view::npos; slash = name.find('/', slash + 1)) {
        tell(name.substr(0, slash + 1));
    }
    if (!name.empty()) {
        tell(name);
    }
    return told;
}

void Registry::tell_watch(Watch& watch, wire::Watched event, Outbox& out) {
    if (!watch.in_snapshot) {
        out.send(watch.session->number, 0, std::move(event));
        return;
    }
    if (std::pair(std::string_view(event.name), event.version) >
        std::pair(std::string_view(watch.shown_name), watch.shown_version)) {
        return;
    }
    if (watch.kept_back.size() >= kMaxKeptBack || is_user_full(watch.session->number)) {
        watch.gap = true;
        return;
    }
    const std::uint64_t cost = cost_of(event);
    charge(watch.session, watch.session->identity.uid, cost);
    watch.kept_back_bytes += cost;
    watch.kept_back.push_back(std::move(event));
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
