#include <algorithm>
#include <iterator>

#include "daemon/registry.hpp"
#include "libhurray/base/check.hpp"

// All that the registry knows twice, compared. Apart from registry.cpp since it runs in tests only.

namespace hurrayd {

void Registry::check_consistency() const {
    if (has_endings() || has_window_rest()) {
        return;  // half taken apart
    }
    std::map<std::uint32_t, Totals> uses;
    std::uint64_t leases = 0;
    std::size_t staged = 0;
    std::size_t with_deadline = 0;
    std::size_t exact = 0;
    std::size_t resuming = 0;
    std::size_t known_segments = 0;
    std::size_t reservations = 0;
    std::uint64_t all_bytes = 0;

    /// Of one session, by its number: the publishes that wait.
    struct Waiting {
        std::size_t publishes = 0;
        std::uint64_t bytes = 0;
        std::uint64_t cost = 0;
    };
    std::unordered_map<std::uint64_t, Waiting> pending_of;
    for (const Pending& pending : pending_) {
        Waiting& waiting = pending_of[pending.from.value];
        ++waiting.publishes;
        waiting.bytes += pending.bytes;
        waiting.cost += pending.cost;
        Totals& use = uses[session(pending.from).identity.uid];
        ++use.waiting;
        use.descriptors += pending.descriptors;
        use.bytes += pending.bytes;
        all_bytes += pending.bytes;
    }

    HURRAY_CHECK(session_ids_.size() == sessions_.size());
    for (const auto& [number, session] : sessions_) {
        HURRAY_CHECK(session.number.value == number);
        const auto& groups = session.identity.groups;
        HURRAY_CHECK(std::is_sorted(groups.begin(), groups.end()));
        HURRAY_CHECK(std::binary_search(groups.begin(), groups.end(), session.identity.gid));
        const auto by_id = session_ids_.find({session.identity.uid, session.identity.session});
        HURRAY_CHECK(by_id != session_ids_.end() && by_id->second == &session);
        Totals& use = uses[session.identity.uid];
        ++use.clients;
        HURRAY_CHECK(session.in_user.is_linked() && sessions_of_.contains(session.identity.uid));
        HURRAY_CHECK(session.own_bytes == cost_of(session));
        HURRAY_CHECK(session.used_leases.size() <= kMostRanges && session.forgotten.size() <= kMostRanges);
        const Waiting& waiting = pending_of[number];
        HURRAY_CHECK(session.pending == waiting.publishes);
        std::uint64_t cost = session.own_bytes + waiting.cost;
        std::uint64_t bytes = waiting.bytes;
        std::uint64_t capsules = 0;
        use.queued_bytes += session.queued_bytes;

        use.leases += session.leases.size();
        leases += session.leases.size();
        HURRAY_CHECK(session.lease_order.size() == session.leases.size());
        for (const auto& [lease_number, lease] : session.leases) {
            HURRAY_CHECK(lease.number == lease_number && lease.holder == &session);
            HURRAY_CHECK(session.used_leases.contains(lease_number));
            HURRAY_CHECK(sees(session, *lease.capsule));
            HURRAY_CHECK(lease.in_session.is_linked());
            cost += cost_of_lease(lease.capsule->once);
            HURRAY_CHECK(lease.in_capsule.is_linked() ==
                         (lease.capsule->producer != nullptr || lease.capsule->lingering != nullptr));
            // Nobody is granted what has no producer, but for what lingers.
            HURRAY_CHECK(lease.is_told || lease.capsule->lingering != nullptr || lease.capsule->retired);
            HURRAY_CHECK(lease.grant == 0 || (lease.capsule->once && !lease.capsule->is_live()));
            const bool is_taken = lease.grant == 0 && lease.capsule->taken_by != nullptr;  // null: see note_unheard()
            HURRAY_CHECK(!is_taken || lease.capsule->is_taken_by(lease_id(session, lease_number)));
            HURRAY_CHECK(!lease.capsule->once || lease.grant != 0 || lease.capsule->retired);
        }
        for (const auto& [request_id, lease] : session.grants) {
            HURRAY_CHECK(lease->holder == &session && lease->grant == request_id);
        }

        for (const auto& [lease_number, capsule] : session.claimed) {
            const auto claims = claims_.find(capsule);
            HURRAY_CHECK(claims != claims_.end() && claims->second.contains(lease_id(session, lease_number)));
            HURRAY_CHECK(session.used_leases.contains(lease_number) && !session.leases.contains(lease_number));
            cost += cost_of_claim();
        }

        use.waiting += session.waiting.size();
        resuming += session.is_resuming ? 1 : 0;
        HURRAY_CHECK(session.waiting_order.size() == session.waiting.size());
        HURRAY_CHECK(session.waiting_leases.size() == session.waiting.size());
        for (const auto& [request_id, waiter] : session.waiting) {
            HURRAY_CHECK(waiter.request_id == request_id && waiter.session == &session);
            HURRAY_CHECK(session.waiting_leases.contains(waiter.attach.lease));
            cost += cost_of(waiter.attach);
            HURRAY_CHECK(waiter.in_target.is_linked());
            with_deadline += waiter.deadline.has_value() ? 1 : 0;
            exact += waiter.exact.has_value() ? 1 : 0;
            HURRAY_CHECK(!waiter.deadline || (*waiter.deadline)->second == &waiter);
            HURRAY_CHECK(waiter.exact.has_value() == (waiter.attach.which == wire::Which::Exactly));
            // Nothing that is there now would do for it: it would have been granted.
            const Found::State state = const_cast<Registry*>(this)->find(session, waiter.attach).state;
            // A version that an offer has passed over is refused when the window ends.
            HURRAY_CHECK(state == Found::State::MayCome ||
                         (state == Found::State::Never && waiter.exact.has_value() && is_window_open()));
            HURRAY_CHECK(waiter.of_window.is_linked() == (waiter.attach.take && is_window_open()));
        }

        use.watches += session.watches.size();
        std::size_t snapshots = 0;
        for (const auto& [watch_number, watch] : session.watches) {
            HURRAY_CHECK(watch.number == watch_number && watch.session == &session && watch.with_pattern.is_linked());
            HURRAY_CHECK(watch.in_snapshot || (watch.kept_back.empty() && !watch.gap));
            snapshots += watch.in_snapshot ? 1 : 0;
            std::uint64_t kept_back = 0;
            for (const wire::Watched& event : watch.kept_back) {
                kept_back += cost_of(event);
            }
            HURRAY_CHECK(watch.kept_back_bytes == kept_back);
            cost += cost_of_watch(watch.pattern) + kept_back;
        }
        HURRAY_CHECK(session.snapshots == snapshots);
        for (const Capsule& capsule : session.capsules) {
            HURRAY_CHECK(capsule.producer == &session && capsule.staged == nullptr);
            ++capsules;
            cost += cost_of(capsule);
        }

        HURRAY_CHECK(session.groups.size() <= wire::kMaxOpenGroups);
        for (const auto& [group_number, group] : session.groups) {
            HURRAY_CHECK(group.number == group_number && group.size <= wire::kMaxGroupMembers);
            HURRAY_CHECK(group.members.size() == group.size);
            std::size_t named = 0;
            std::size_t queued = 0;
            for (const Capsule& member : group.members) {
                HURRAY_CHECK(member.producer == &session && member.staged != nullptr && member.staged->group == &group);
                const std::string& name = member.staged->wanted_name;
                ++capsules;
                cost += cost_of(member) + cost_of_staging(name);
                named += name.empty() || member.once ? 0 : 1;
                queued += name.empty() || !member.once ? 0 : 1;
                HURRAY_CHECK(name.empty() || (member.once ? group.queues.contains(name) : group.names.contains(name)));
            }
            for (const auto& [name, members] : group.queues) {
                HURRAY_CHECK(members != 0);
                queued -= members;
            }
            HURRAY_CHECK(queued == 0);
            HURRAY_CHECK(group.names.size() == named);
            staged += group.size;
            cost += cost_of_group();
        }
        for (const auto& [segment_number, segment] : session.segments) {
            HURRAY_CHECK(segment->is_known && segment->uid == session.identity.uid);
            HURRAY_CHECK(!session.forgotten.contains(segment_number));
            bytes += segment->size;
            cost += cost_of_segment();
        }
        known_segments += session.segments.size();
        use.reservations += session.reservations.size();
        reservations += session.reservations.size();
        for (const auto& [reservation_number, reservation] : session.reservations) {
            HURRAY_CHECK(reservation.in_user.is_linked() && reservation.bytes != 0);
            use.reserved += reservation.bytes;
            all_bytes += reservation.bytes;
            bytes += reservation.bytes;
            cost += cost_of_reservation();
        }
        HURRAY_CHECK(session.kept_bytes == cost && session.bytes == bytes && session.capsules_size == capsules);
        // Of these its user's bill is made up below.
        use.kept_bytes += cost - session.claimed.size() * cost_of_claim() - session.segments.size() * cost_of_segment();
    }
    std::size_t listed = 0;
    for (const auto& [uid, list] : sessions_of_) {
        HURRAY_CHECK(!list.empty());
        listed += list.size();
    }
    HURRAY_CHECK(listed == sessions_.size());
    for (const auto& [uid, list] : writing_) {
        HURRAY_CHECK(!list.empty());
        reservations -= list.size();
    }
    HURRAY_CHECK(reservations == 0);
    HURRAY_CHECK(deadlines_.size() == with_deadline && exact_waiters_.size() == exact);
    HURRAY_CHECK(resuming_ == resuming);

    HURRAY_CHECK(live_.size() + held_.size() + staged == capsules_.size());
    std::size_t places = 0;
    std::uint64_t held = 0;
    std::size_t expiring = 0;
    std::uint64_t all_stored = 0;
    std::map<wire::FileIdentity, std::size_t> to_store;
    std::unordered_map<std::uint64_t, std::uint64_t> capsules_in;
    for (const auto& [id, capsule] : capsules_) {
        HURRAY_CHECK(capsule.id == id && capsule.version < next_version_);
        Totals& use = uses[id.uid];
        ++use.capsules;
        use.kept_bytes += capsule.producer == nullptr ? cost_of(capsule) : 0;
        for (const Segment* segment : capsule.content.segments()) {
            HURRAY_CHECK(segment->uid == id.uid && segment->access == capsule.access);
            ++capsules_in[segment->number.value];
        }
        HURRAY_CHECK(capsule.once || capsule.taken_by == nullptr);
        const Lingering none;
        const Lingering& lingering = capsule.lingering ? *capsule.lingering : none;
        HURRAY_CHECK(lingering.is_to_store == (keeps_ && capsule.lingering && !capsule.retired));
        HURRAY_CHECK(lingering.is_stored == (lingering.is_to_store && capsule.staged == nullptr));
        HURRAY_CHECK(lingering.group == 0 || lingering.is_stored);
        if (lingering.is_to_store) {
            ++use.stored;
            ++all_stored;
            for (const Segment* segment : capsule.content.segments()) {
                ++to_store[segment->file];
            }
        }
        if (capsule.staged != nullptr) {
            ++use.staged;
            HURRAY_CHECK(capsule.version == 0 && capsule.open_leases == 0 && !capsule.retired && !capsule.is_live());
            continue;
        }
        const auto places_of = (capsule.is_live() ? live_ : held_).places_of(capsule);
        HURRAY_CHECK(places_of.has_value());
        places += *places_of;
        const auto version = capsule.name->second.versions.find(capsule.version);
        HURRAY_CHECK(version != capsule.name->second.versions.end() && &*version == &capsule);
        // Whose producer is lost has told its holders, and has no list of them any more, but for what was to linger.
        const bool has_list = capsule.producer != nullptr || capsule.lingering;
        HURRAY_CHECK(capsule.leases.size() == (has_list ? capsule.open_leases : 0));
        HURRAY_CHECK(!lingering.expiry ||
                     (lingers(capsule) && capsule.producer == nullptr && (*lingering.expiry)->second == &capsule));
        expiring += lingering.expiry ? 1 : 0;
        held += capsule.open_leases;
        HURRAY_CHECK(!capsule.of_before || is_window_open());
        HURRAY_CHECK(!capsule.retired || capsule.open_leases != 0 || capsule.of_before);  // else it has ended
        HURRAY_CHECK(capsule.producer != nullptr || capsule.retired || lingers(capsule));
        // What is published once has one lease at most; while it is granted it is neither live nor retired.
        const bool is_granted = capsule.once && !capsule.retired && capsule.open_leases != 0;
        HURRAY_CHECK(capsule.is_live() == (!capsule.retired && !is_granted));
        HURRAY_CHECK(!capsule.once || capsule.open_leases <= 1);
        HURRAY_CHECK(capsule.name->first.empty() || capsule.name->second.once == capsule.once);
        use.queued += capsule.once && capsule.is_live() ? 1 : 0;
    }
    HURRAY_CHECK(held == leases && places == live_.places() + held_.places() && expiring == expiries_.size());

    std::map<wire::FileIdentity, std::size_t> segments_of;
    for (const auto& [number, segment] : segments_) {
        const auto file = files_.find(segment.file);
        HURRAY_CHECK(file != files_.end() && file->second.uid == segment.uid);
        HURRAY_CHECK(file->second.access == segment.access);
        ++segments_of[segment.file];
        HURRAY_CHECK(segment.number.value == number && segment.size != 0);
        HURRAY_CHECK(segment.is_known || segment.capsules != 0);  // else it has gone
        HURRAY_CHECK(segment.capsules == capsules_in[number]);
        known_segments -= segment.is_known ? 1 : 0;
        Totals& use = uses[segment.uid];
        use.bytes += segment.size;
        ++use.descriptors;
        use.kept_bytes += cost_of_segment();
        all_bytes += segment.size;
    }
    HURRAY_CHECK(segments_of.size() == files_.size());
    for (const auto& [identity, file] : files_) {
        HURRAY_CHECK(file.to_store == to_store[identity]);
        HURRAY_CHECK(file.unknown == nullptr || (!file.unknown->is_known && file.unknown->file == identity));
        HURRAY_CHECK(file.to_store != 0 || file.stored_as == keep::StoredSegment{});
        uses[file.uid].stored += file.to_store != 0 ? 1 : 0;
        all_stored += file.to_store != 0 ? 1 : 0;
    }
    HURRAY_CHECK(all_stored == all_stored_);
    for (const auto& [file, count] : segments_of) {
        HURRAY_CHECK(files_.at(file).segments == count);
    }
    HURRAY_CHECK(known_segments == 0 && capsules_in.size() <= segments_.size());
    HURRAY_CHECK(all_bytes == all_bytes_);

    std::size_t versions = 0;
    for (const auto& [text, name] : names_) {
        HURRAY_CHECK(!name.versions.empty() && name.live.size() == name.live_size);
        versions += name.versions.size();
        HURRAY_CHECK(name.once || text.empty() || name.live_size <= wire::kMaxRetain);
        if (!text.empty()) {
            ++uses[name.owner].names;
            uses[name.owner].kept_bytes += cost_of_name(text);
        }
    }
    HURRAY_CHECK(versions == live_.size() + held_.size());
    HURRAY_CHECK(is_window_open() || (names_of_before_.empty() && names_missing_ == 0 && pending_.empty()));
    std::size_t missing = 0;
    for (const auto& [text, before] : names_of_before_) {
        missing += before.is_last_back ? 0 : 1;
    }
    HURRAY_CHECK(missing == names_missing_);
    HURRAY_CHECK(keeps_ || (taken_.empty() && left_.empty() && all_stored_ == 0));

    HURRAY_CHECK(is_window_open() || (claims_.empty() && answers_.empty() && retired_below_.empty() &&
                                      known_names_.empty() && takes_of_window_.empty()));
    std::unordered_map<std::uint64_t, std::size_t> awaited;
    for (const auto& [id, claims] : claims_) {
        HURRAY_CHECK(!claims.empty());
        for (const auto& [lease, claim] : claims) {
            ++uses[lease.uid].claims;
            uses[lease.uid].kept_bytes += cost_of_claim();
            const auto claimer = sessions_.find(claim.session.value);
            HURRAY_CHECK(claim.state == wire::Claims::State::Released ||
                         claimer != sessions_.end());  // what was held goes with its session
            HURRAY_CHECK(claimer == sessions_.end() || claimer->second.claimed.at(lease.lease) == id);
            if (claim.state != wire::Claims::State::Held) {
                ++awaited[claim.answer];
            }
        }
    }
    HURRAY_CHECK(awaited.size() == answers_.size());
    for (const auto& [number, answer] : answers_) {
        HURRAY_CHECK(answer.left == awaited[number]);
    }

    // Who has nothing is not on the books.
    for (const auto& [uid, use] : uses_) {
        HURRAY_CHECK(use != Totals{});
    }
    HURRAY_CHECK(uses == uses_);
    HURRAY_CHECK(cost_ == totals().kept_bytes + totals().queued_bytes);
    HURRAY_CHECK(history_.leases_opened == history_.leases_released + history_.leases_lost + leases);
}

}  // namespace hurrayd
