#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "daemon/registry.hpp"
#include "libhurray/base/check.hpp"
#include "libhurray/base/checked_math.hpp"

// What is kept over the daemon's death, where there is a place to keep it: the journal and the descriptor store. Here is said what is to
// be kept, and what is known at the start; how it is kept is daemon/store/'s. Each function that follows a rule of the protocol's chapter
// "Over the daemon's death" says which.

namespace hurrayd {
namespace {

using hurray::Errc;
using hurray::Error;

/// Ids that are remembered of one user's capsules that ended before their publishers had the answer. That is rare; of more the oldest is
/// forgotten.
constexpr std::size_t kMostLeft = 16'384;
/// Takes that are remembered of capsules that have ended, for producers that come back. Beyond it the oldest is forgotten.
constexpr std::size_t kMostEndedTakes = 4096;
/// Capsules that are remembered to have ended in the first window. Beyond it, who was cut off offers in vain.
constexpr std::size_t kMostEnded = 65'536;

}  // namespace

// ---- Into the store and out of it -----------------------------------------------------------------------------------

/// Whether it may linger: it itself and each file of its that is not in the store yet take a place there.
hurray::Result<void> Registry::admit_store(const Session& producer, const Publication& publication) {
    if (!keeps_ || !publication.request.linger_ms) {
        return {};
    }
    std::uint64_t more = 1;
    for (std::size_t i = 0; i < publication.brought.size(); ++i) {
        const auto known = producer.segments.find(publication.request.segments[i].number);
        const wire::FileIdentity& identity =
            known != producer.segments.end() ? known->second->file : publication.brought[i].file;
        const auto file = files_.find(identity);
        more += file == files_.end() || file->second.to_store == 0 ? 1 : 0;
    }
    const std::uint32_t uid = producer.identity.uid;
    auto admitted = quotas_.admit(Quota::Stored, uid, count(uid).stored, more);
    if (admitted) {
        admitted = quotas_.admit(Quota::AllStored, uid, all_stored_, more);
    }
    if (!admitted) {
        admitted.error().field = "publish.linger_ms";
    }
    return admitted;
}

/// Counts what admit_store() has found good.
void Registry::charge_store(Capsule& capsule) {
    std::uint64_t more = 1;
    for (const Segment* segment : capsule.content.segments()) {
        more += files_.at(segment->file).to_store++ == 0 ? 1 : 0;
    }
    capsule.lingering->is_to_store = true;
    count(capsule.id.uid).stored += more;
    all_stored_ += more;
}

/// meta_last.
void Registry::store(Capsule& capsule, Outbox& out, std::uint64_t group) {
    if (!capsule.lingering || !capsule.lingering->is_to_store || capsule.lingering->is_stored) {
        return;
    }
    const Content<Segment>& content = capsule.content;
    wire::Publish offer;
    offer.capsule = capsule.id.id;
    offer.name = capsule.name->first;
    offer.descriptor = content.descriptor();
    offer.placements.assign(content.placements().begin(), content.placements().end());
    offer.access = capsule.access;
    offer.version = capsule.version;
    offer.retain = capsule.retain;
    offer.once = capsule.once;
    offer.linger_ms = capsule.lingering->linger_ms;
    for (const Segment* segment : content.segments()) {
        File& file = files_.at(segment->file);
        if (file.stored_as == keep::StoredSegment{}) {
            file.stored_as = {++last_stored_.value};
            out.kept.emplace_back(keep::StoreSegment{file.stored_as, segment->number});
        }
        offer.segments.push_back({file.stored_as.value, true, segment->memory, segment->size, 0});
    }
    out.kept.emplace_back(keep::StoreCapsule{capsule.id.uid, std::move(offer), group});
    capsule.lingering->is_stored = true;
    capsule.lingering->group = group;
}

/// Metadata first: half removed means that it does not exist.
void Registry::unstore(Capsule& capsule, Outbox& out) {
    if (!capsule.lingering || !capsule.lingering->is_to_store) {
        return;
    }
    Lingering& lingering = *capsule.lingering;
    if (lingering.is_stored) {
        if (lingering.is_answered) {
            out.kept.emplace_back(keep::Gone{capsule.id});
        } else {  // unanswered_leaves_id
            leave_id(capsule.id, capsule.version);
            out.kept.emplace_back(keep::Left{capsule.id, capsule.version});
        }
        out.kept.emplace_back(keep::RemoveCapsule{capsule.id});
    }
    std::uint64_t less = 1;
    for (const Segment* segment : capsule.content.segments()) {
        File& file = files_.at(segment->file);
        if (--file.to_store == 0) {
            ++less;
            if (file.stored_as != keep::StoredSegment{}) {
                out.kept.emplace_back(keep::RemoveSegment{std::exchange(file.stored_as, {})});
            }
        }
    }
    lingering.is_to_store = false;
    lingering.is_stored = false;
    lingering.group = 0;
    count(capsule.id.uid).stored -= less;
    all_stored_ -= less;
}

// ---- Notes ----------------------------------------------------------------------------------------------------------

keep::Name Registry::note_of(Names::const_iterator name) const {
    const auto& [text, known] = *name;
    const auto& newest = static_cast<const Capsule&>(*known.versions.rbegin());
    keep::Name note{text, known.owner, newest.id.uid, newest.version, 0, known.once != 0};
    if (!text.empty()) {
        note.floor = displaced_below(known);
    }
    if (const auto before = names_of_before_.find(text); before != names_of_before_.end()) {
        if (before->second.noted.version > note.version) {
            note.version = before->second.noted.version;
            note.publisher = before->second.noted.publisher;
        }
        note.floor = std::max(note.floor, before->second.noted.floor);
    }
    return note;
}

/// journal_first: a version was given out, or has come back.
void Registry::note_name(const Capsule& capsule, Outbox& out) const {
    if (keeps_) {
        out.kept.emplace_back(note_of(capsule.name));
    }
}

void Registry::note_expiry(const Capsule& capsule, Outbox& out) const {
    const Lingering& lingering = *capsule.lingering;
    if (lingering.is_stored) {
        out.kept.emplace_back(keep::Expires{capsule.id, lingering.expiry ? (*lingering.expiry)->first : 0});
    }
}

void Registry::leave_id(const wire::CapsuleId& capsule, std::uint64_t version) {
    drop_left(capsule);
    left_.emplace(capsule, Left{version, ++last_left_});
    auto& of_user = left_of_[capsule.uid];
    of_user.emplace(last_left_, capsule.id);
    if (of_user.size() > kMostLeft) {
        drop_left({capsule.uid, of_user.begin()->second});
    }
}

bool Registry::drop_left(const wire::CapsuleId& capsule) {
    const auto left = left_.find(capsule);
    if (left == left_.end()) {
        return false;
    }
    const auto of_user = left_of_.find(capsule.uid);
    of_user->second.erase(left->second.number);
    if (of_user->second.empty()) {
        left_of_.erase(of_user);
    }
    left_.erase(left);
    return true;
}

/// journal_taken: before it leaves the store.
void Registry::note_taken(const Capsule& capsule, Outbox& out) {
    if (keeps_ && capsule.lingering) {
        const keep::Taken taken{capsule.id, *capsule.taken_by, capsule.version};
        taken_.insert_or_assign(capsule.id, taken);
        out.kept.emplace_back(taken);
    }
}

void Registry::drop_taken(const wire::CapsuleId& capsule, Outbox& out) {
    if (taken_.erase(capsule) != 0) {
        out.kept.emplace_back(keep::TakenDropped{capsule});
    }
}

/// Who published it may never have heard what became of it, and offer it again: it is not had twice.
void Registry::note_ended(const Capsule& capsule, Outbox& out) {
    if (taken_.contains(capsule.id)) {
        taken_order_.push_back(capsule.id);
        if (taken_order_.size() > kMostEndedTakes) {
            if (!capsules_.contains(taken_order_.front())) {  // else it was offered again, and ends once more
                drop_taken(taken_order_.front(), out);
            }
            taken_order_.pop_front();
        }
    }
    if (!capsule.lingering || !is_window_open() || has_journal_) {  // journal_taken, store_decides
        return;
    }
    if (ended_.size() < kMostEnded) {
        ended_.insert(capsule.id);
    } else {
        has_ended_more_ = true;
    }
}

/// A publish of what is stored is answered. Whether that is sent shows later.
void Registry::await_answer(const Session& producer, const Capsule& capsule, Outbox& out) const {
    if (capsule.lingering && capsule.lingering->is_stored && !capsule.lingering->is_answered) {
        out.answering.push_back({producer.number, capsule.id});
    }
}

void Registry::note_answered(const wire::CapsuleId& id, Outbox& out) {
    const auto known = capsules_.find(id);
    Lingering* const lingering = known != capsules_.end() ? known->second.lingering.get() : nullptr;
    const bool is_fresh = lingering != nullptr && lingering->is_stored && !lingering->is_answered;
    const bool was_left = drop_left(id);
    if (is_fresh) {
        lingering->is_answered = true;
    }
    if (is_fresh || was_left) {
        out.kept.emplace_back(keep::Answered{id});
    }
}

void Registry::write_notes(std::vector<keep::Note>& notes) const {
    notes.emplace_back(keep::LastVersion{next_version_ - 1});
    for (auto name = names_.begin(); name != names_.end(); ++name) {
        notes.emplace_back(note_of(name));
    }
    for (const auto& [text, before] : names_of_before_) {
        if (!before.is_back) {
            notes.emplace_back(before.noted);
        }
    }
    for (const auto& [id, taken] : taken_) {
        notes.emplace_back(taken);
    }
    for (const auto& [id, left] : left_) {
        notes.emplace_back(keep::Left{id, left.version});
    }
    std::set<std::uint64_t> groups;
    for (const auto& [id, capsule] : capsules_) {
        if (!capsule.lingering || !capsule.lingering->is_stored) {
            continue;
        }
        if (capsule.lingering->group != 0 && groups.insert(capsule.lingering->group).second) {
            notes.emplace_back(keep::Committed{capsule.lingering->group});
        }
        if (capsule.lingering->is_answered) {
            notes.emplace_back(keep::Answered{id});
        }
        if (capsule.lingering->expiry) {
            notes.emplace_back(keep::Expires{id, (*capsule.lingering->expiry)->first});
        }
    }
}

// ---- The start ------------------------------------------------------------------------------------------------------

void Registry::recover(Recovery before, std::uint64_t now_ms, Outbox& out) {
    HURRAY_CHECK(sessions_.empty() && capsules_.empty());
    keeps_ = true;
    has_journal_ = before.has_journal;
    last_stored_ = before.last_segment;
    least_window_end_ms_ = now_ms + kLeastWindowMs;
    store::JournalState& journal = before.journal;
    next_version_ = std::max(next_version_, journal.last_version + 1);
    for (auto& [id, taken] : journal.taken) {
        taken_.emplace(id, taken);
    }
    for (const auto& [id, version] : journal.left) {
        leave_id(id, version);
    }
    if (is_window_open()) {
        for (auto& [text, noted] : journal.names) {
            names_of_before_.emplace(text, NameOfBefore{std::move(noted)});
        }
        names_missing_ = names_of_before_.size();
    }
    std::sort(before.capsules.begin(), before.capsules.end(), [](const auto& a, const auto& b) {
        return a.publication.request.version < b.publication.request.version;
    });
    std::vector<const Publication*> refused;
    std::vector<wire::CapsuleId> back;
    for (Recovery::Capsule& capsule : before.capsules) {
        const wire::CapsuleId id{capsule.uid, capsule.publication.request.capsule};
        next_version_ = std::max(next_version_, capsule.publication.request.version + 1);
        // all_of_a_group. (Without a journal nobody knows what was committed, and what is there counts.)
        const bool is_of_half_a_group =
            capsule.group != 0 && has_journal_ && !journal.committed.contains(capsule.group);
        const bool has_ended = journal.gone.contains(id) && !taken_.contains(id);
        if (is_of_half_a_group || has_ended || !bring_back(capsule, journal)) {
            out.kept.emplace_back(keep::RemoveCapsule{id});
            refused.push_back(&capsule.publication);
        } else {
            back.push_back(id);
        }
    }
    // Not before all of them count as stored: what is retired here takes no segment out of the store that another one lies in.
    for (const wire::CapsuleId& id : back) {
        take_up(capsules_.at(id), journal, now_ms, out);
    }
    first_version_ = next_version_;
    std::set<SegmentNumber> of_nobody;
    for (const Publication* publication : refused) {
        for (std::size_t i = 0; i < publication->brought.size(); ++i) {
            const SegmentNumber number = publication->brought[i].number;
            if (!segments_.contains(number.value) && of_nobody.insert(number).second) {
                out.dropped.push_back(number);
                out.kept.emplace_back(keep::RemoveSegment{{publication->request.segments[i].number}});
            }
        }
    }
    for (auto capsule = capsules_.begin(); capsule != capsules_.end();) {
        Capsule& each = (capsule++)->second;  // it may end
        end_if_unused(each, out);
    }
    if (!is_window_open()) {
        std::size_t budget = SIZE_MAX;
        continue_store_window_close(budget, out);
    }
}

/// Puts a capsule that is stored on the books, under its name. False: it contradicts another one, and stays away.
bool Registry::bring_back(const Recovery::Capsule& before, const store::JournalState& journal) {
    const wire::Publish& offer = before.publication.request;
    const wire::CapsuleId id{before.uid, offer.capsule};
    const wire::Access access = *offer.access;
    const auto same_name = names_.find(offer.name);
    const bool is_of_other_kind =
        same_name != names_.end() && !offer.name.empty() && (same_name->second.once != 0) != offer.once;
    const bool is_twice =
        capsules_.contains(id) || (same_name != names_.end() &&
                                   same_name->second.versions.find(offer.version) != same_name->second.versions.end());
    const auto is_foreign = [&](const BroughtSegment& brought) {
        const auto file = files_.find(brought.file);
        return file != files_.end() && (file->second.uid != id.uid || file->second.access != access);
    };
    const auto& files = before.publication.brought;
    if (is_twice || is_of_other_kind || std::any_of(files.begin(), files.end(), is_foreign)) {
        return false;
    }
    Capsule& capsule = capsules_.try_emplace(id).first->second;
    capsule.id = id;
    capsule.access = access;
    capsule.buffer_bytes = before.publication.buffer_bytes;
    std::vector<Segment*> segments;
    for (std::size_t i = 0; i < files.size(); ++i) {
        const auto [entry, fresh] = segments_.try_emplace(files[i].number.value);
        Segment& segment = entry->second;
        if (fresh) {
            segment.number = files[i].number;
            segment.uid = id.uid;
            segment.memory = offer.segments[i].memory;
            segment.size = offer.segments[i].size;
            segment.file = files[i].file;
            segment.access = access;
            segment.is_known = false;
            File& file = files_.try_emplace(segment.file, File{id.uid, access}).first->second;
            file.unknown = &segment;
            file.stored_as = {offer.segments[i].number};
            ++file.segments;
            Totals& use = count(id.uid);
            use.bytes += segment.size;
            ++use.descriptors;
            all_bytes_ += segment.size;
            charge(nullptr, id.uid, cost_of_segment());
        }
        ++segment.capsules;
        segments.push_back(&segment);
    }
    ++count(id.uid).capsules;
    capsule.content = {offer.descriptor, segments, offer.placements};
    capsule.retain = offer.retain;
    capsule.once = offer.once;
    capsule.lingering = std::make_unique<Lingering>();
    capsule.lingering->linger_ms = *offer.linger_ms;
    charge(nullptr, id.uid, cost_of(capsule));
    charge_store(capsule);
    capsule.lingering->is_stored = true;
    capsule.lingering->group = before.group;
    capsule.lingering->is_answered = journal.answered.contains(id);
    if (is_window_open()) {
        capsules_of_before_.push_back(id);
        capsule.of_before = true;
    }
    put_under_name(capsule, offer.name, offer.version);
    capsule.name->second.is_of_before = true;
    return true;
}

/// Makes a capsule that was brought back what it was: live, or taken.
void Registry::take_up(Capsule& capsule, const store::JournalState& journal, std::uint64_t now_ms, Outbox& out) {
    if (const auto taken = taken_.find(capsule.id); taken != taken_.end()) {
        capsule.taken_by = std::make_unique<const wire::LeaseId>(taken->second.lease);
        held_.add(capsule);
        retire(capsule, out);
        return;
    }
    make_live(capsule, out);
    const auto expires = journal.expires.find(capsule.id);
    if (expires == journal.expires.end() || capsule.lingering->linger_ms == 0) {
        leave_lingering(capsule, now_ms, out);  // its producer died with the daemon
    } else {
        capsule.lingering->expiry = expiries_.emplace(expires->second, &capsule);  // which is noted
    }
}

// ---- The window -----------------------------------------------------------------------------------------------------

/// The name of before, if it is not back and `producer` is not who may decide about it.
const Registry::NameOfBefore* Registry::foreign_before(const Session& producer, const std::string& name) const {
    const auto before = names_of_before_.find(name);
    const bool is_missing =
        is_window_open() && !name.empty() && before != names_of_before_.end() && !before->second.is_back;
    return is_missing && before->second.noted.owner != producer.identity.uid && !producer.identity.is_root
               ? &before->second
               : nullptr;
}

/// Of what can't wait. Of who published the last version it and what is older may come back. (version 0: it is new.)
hurray::Result<void> Registry::check_name_of_before(const Session& producer, const std::string& name,
                                                    std::uint64_t version) const {
    const NameOfBefore* const before = foreign_before(producer, name);
    const bool is_of_last = before != nullptr && version != 0 && version <= before->noted.version &&
                            before->noted.publisher == producer.identity.uid;
    if (before == nullptr || is_of_last) {
        return {};
    }
    return hurray::fail_field(
        Errc::AlreadyExists, "publish.name",
        "the name \"" + name + "\" belongs to another user, who may come back until the resume window ends");
}

/// foreign_waits: keeps a publish for the window's end. What it brought counts whether room was reserved for it or not, since that room
/// may be given back meanwhile.
void Registry::wait_for_window(Session& producer, std::uint64_t request_id, Publication publication, Outbox& out) {
    Pending pending{producer.number, request_id, std::move(publication)};
    const auto& brought = pending.publication.brought;
    for (std::size_t i = 0; i < brought.size(); ++i) {
        if (brought[i].number != SegmentNumber{}) {
            ++pending.descriptors;
            pending.bytes = hurray::checked_add(pending.bytes, pending.publication.request.segments[i].size)
                                .value_or(UINT64_MAX);  // more than any file system has; no quota admits it
        }
    }
    pending.cost = cost_of(pending);
    auto admitted = admit(producer, Quota::Waiting);
    if (admitted) {
        admitted = admit(producer, Quota::DaemonBytes, pending.cost);
    }
    if (admitted && pending.descriptors != 0) {
        admitted = admit(producer, Quota::Descriptors, pending.descriptors);
    }
    if (admitted && pending.descriptors != 0) {
        admitted = admit_bytes(producer, pending.bytes, "publish.segments");
    }
    if (!admitted) {
        refuse_publish(producer, request_id, pending.publication, std::move(admitted.error()), out);
        return;
    }
    count_pending(producer, pending);
    pending_.push_back(std::move(pending));
}

void Registry::count_pending(Session& producer, const Pending& pending) {
    const std::uint32_t uid = producer.identity.uid;
    Totals& use = count(uid);
    ++use.waiting;
    use.descriptors += pending.descriptors;
    use.bytes += pending.bytes;
    all_bytes_ += pending.bytes;
    ++producer.pending;
    producer.bytes += pending.bytes;
    charge(&producer, uid, pending.cost);
}

void Registry::discount_pending(Session& producer, const Pending& pending) {
    const std::uint32_t uid = producer.identity.uid;
    Totals& use = count(uid);
    --use.waiting;
    use.descriptors -= pending.descriptors;
    use.bytes -= pending.bytes;
    all_bytes_ -= pending.bytes;
    --producer.pending;
    producer.bytes -= pending.bytes;
    discharge(&producer, uid, pending.cost);
}

/// Lets go of those publishes of `producer` that wait and are meant. Returns their requests, which have no answer.
std::vector<std::uint64_t> Registry::drop_pending(Session& producer,
                                                  const std::function<bool(const Pending&)>& is_meant, Outbox& out) {
    std::vector<std::uint64_t> requests;
    std::erase_if(pending_, [&](const Pending& pending) {
        if (pending.from != producer.number || !is_meant(pending)) {
            return false;
        }
        requests.push_back(pending.request_id);
        drop_brought(pending.publication, out);
        discount_pending(producer, pending);
        return true;
    });
    return requests;
}

/// The same at the publisher's wish. Whether there are any.
bool Registry::cancel_pending(Session& producer, const std::function<bool(const Pending&)>& is_meant, Outbox& out) {
    const auto requests = drop_pending(producer, is_meant, out);
    for (const std::uint64_t request : requests) {
        out.send(producer.number, request, Error{Errc::Closed, "cancelled"});
    }
    return !requests.empty();
}

void Registry::note_back(const std::string& name, std::uint64_t version) {
    const auto before = names_of_before_.find(name);
    if (name.empty() || before == names_of_before_.end()) {
        return;
    }
    before->second.is_back = true;
    if (version >= before->second.noted.version && !std::exchange(before->second.is_last_back, true)) {
        --names_missing_;
    }
}

void Registry::resume_done(SessionNumber from, std::uint64_t request_id, Outbox& out) {
    Session& done = session(from);
    resuming_ -= std::exchange(done.is_resuming, false) ? 1 : 0;
    out.send(from, request_id, wire::Done{});
}

/// When it need not last longer, as far as is known: what has no name is not known by name, and claims wait for something.
std::uint64_t Registry::window_may_end_ms() const noexcept {
    const bool is_all_back = has_journal_ && names_missing_ == 0 && resuming_ == 0 && claims_.empty();
    return is_all_back ? least_window_end_ms_ : UINT64_MAX;
}

/// A publish whose capsule was stored, and ended before the publisher had its answer: it is not new.
void Registry::answer_left(Session& producer, std::uint64_t request_id, Publication publication, Outbox& out) {
    const wire::CapsuleId id{producer.identity.uid, publication.request.capsule};
    const std::uint64_t version = left_.at(id).version;
    if (!is_window_open()) {
        drop_brought(publication, out);
        out.send(producer.number, request_id, wire::PublishReply{version});
        out.send(producer.number, 0, wire::Ended{id, false});
        out.answering.push_back({producer.number, id});
        return;
    }
    // Others may still claim it.
    const std::uint64_t digest = digest_of(publication.request);
    publication.request.version = version;
    publication.request.retired = true;
    offer_again(producer, request_id, std::move(publication), out);
    if (const auto back = capsules_.find(id); back != capsules_.end()) {
        back->second.digest = digest;  // as this session says it, so it may say it again
        out.answering.push_back({producer.number, id});
    }
}

/// An offer, after the window, of what was taken and has ended meanwhile: its producer hears of that.
void Registry::answer_taken(Session& producer, std::uint64_t request_id, const Publication& publication, Outbox& out) {
    const keep::Taken& taken = taken_.at({producer.identity.uid, publication.request.capsule});
    drop_brought(publication, out);
    out.send(producer.number, request_id, wire::PublishReply{taken.version});
    out.send(producer.number, 0, wire::LeaseEvent{taken.capsule, taken.lease, wire::LeaseEvent::What::Taken, 0});
    out.send(producer.number, 0, wire::WindowClosed{taken.capsule, {}, false});
    out.send(producer.number, 0, wire::Ended{taken.capsule, false});
}

/// True: nothing of it is left to be done.
bool Registry::continue_store_window_close(std::size_t& budget, Outbox& out) {
    for (; !names_of_before_.empty(); --budget) {
        if (budget == 0) {
            return false;
        }
        const auto name = names_of_before_.begin();
        if (!name->second.is_back) {
            out.kept.emplace_back(keep::NameEnded{name->first});
        }
        names_of_before_.erase(name);
    }
    names_missing_ = 0;
    // Who has taken something and is not back counts as dead. What is held is noted until its lease ends.
    for (auto taken = taken_.begin(); taken != taken_.end();) {
        const auto known = capsules_.find(taken->first);
        const bool is_held = known != capsules_.end() && known->second.open_leases != 0;
        const wire::CapsuleId id = (taken++)->first;
        if (!is_held) {
            drop_taken(id, out);
        }
    }
    // foreign_waits
    for (; !pending_.empty(); --budget) {
        if (budget == 0) {
            return false;
        }
        Pending next = std::move(pending_.front());
        pending_.pop_front();
        discount_pending(session(next.from), next);
        publish(next.from, next.request_id, std::move(next.publication), out);
    }
    return true;
}

}  // namespace hurrayd
