#include <algorithm>
#include <utility>

#include "daemon/registry.hpp"
#include "libhurray/base/checked_math.hpp"
#include "proto/wire/access.hpp"

// Capsules that outlive their producers.
//
//            publish               producer's session ends               retired: withdrawn, replaced, taken, expired
//   ────────────────▶ with producer ───────────────────▶ without one ───────────────────────────────────────▶ ended
//                          ▲                                 │
//                          └─────────────────────────────────┘ adopted: published or offered again by a later session of its user
//
// Their lists of leases stay, since whoever adopts one is told which are open.

namespace hurrayd {
namespace {

using hurray::Errc;

/// Lingering capsules that expire at a time: each may set off packets, so this keeps everybody else waiting for about half a millisecond.
constexpr std::size_t kExpiryPiece = 256;

}  // namespace

/// Whether it outlives its producer: it was published so, and can be had, by name or once it is put back.
bool Registry::lingers(const Capsule& capsule) noexcept {
    return capsule.lingering != nullptr && !capsule.retired && capsule.staged == nullptr &&
           !ends_with_producer(capsule);
}

/// cut_off_once_ends: its producer may come back after this life, which alone would know that somebody has taken it, and offer it again.
bool Registry::ends_with_producer(const Capsule& capsule) noexcept {
    return capsule.lingering != nullptr && capsule.once && capsule.taken_by == nullptr && capsule.producer != nullptr &&
           capsule.producer->ends_queued;
}

/// Whether who was granted it may have it: its producer hears of it, now or when it comes back. It may be withdrawn meanwhile.
bool Registry::is_confirmable(const Capsule& capsule) noexcept {
    return live_producer(capsule) != nullptr || (capsule.lingering != nullptr && !ends_with_producer(capsule));
}

/// Whether somebody keeps it: its producer, or the daemon in its place.
bool Registry::is_kept(const Capsule& capsule) noexcept {
    return live_producer(capsule) != nullptr || lingers(capsule);
}

/// Whether a session of its user may become its producer. It may be retired and held: then who comes back is told of its leases.
bool Registry::is_adoptable(const Capsule& capsule) noexcept {
    return capsule.lingering != nullptr && capsule.staged == nullptr && live_producer(capsule) == nullptr &&
           !ends_with_producer(capsule);
}

/// Its producer's session is over. Its time counts from then on.
void Registry::leave_lingering(Capsule& capsule, std::uint64_t now_ms, Outbox& out) {
    capsule.producer = nullptr;
    const std::uint64_t linger_ms = capsule.lingering->linger_ms;
    if (lingers(capsule) && linger_ms != 0 && linger_ms <= UINT64_MAX - now_ms) {
        capsule.lingering->expiry = expiries_.emplace(now_ms + linger_ms, &capsule);
        note_expiry(capsule, out);
    }
}

/// It has a producer, and ends with it after all.
void Registry::forgo_lingering(Capsule& capsule) {
    const std::uint64_t before = cost_of(capsule);
    capsule.lingering.reset();
    discharge(capsule.producer, capsule.id.uid, before - cost_of(capsule));
}

void Registry::stop_expiry(Capsule& capsule) noexcept {
    if (capsule.lingering && capsule.lingering->expiry) {
        expiries_.erase(*capsule.lingering->expiry);
        capsule.lingering->expiry.reset();
    }
}

void Registry::expire_lingering(std::uint64_t now_ms, Outbox& out) {
    for (std::size_t i = 0; i < kExpiryPiece && !expiries_.empty() && expiries_.begin()->first <= now_ms; ++i) {
        Capsule& capsule = *expiries_.begin()->second;
        refuse_waiters(capsule, out);
        announce(wire::Watched::What::Retired, capsule);
        retire(capsule, out);
        end_if_unused(capsule, out);
    }
    continue_announcements(out);
}

// ---- Adoption -------------------------------------------------------------------------------------------------------

/// Whether `publication` is what made `capsule`, said by a later session of its user. Changes nothing.
hurray::Result<void> Registry::check_adoption(const Session& producer, const Publication& publication,
                                              const Capsule& capsule) {
    const wire::Publish& now = publication.request;
    const Content<Segment>& before = capsule.content;
    const auto kept_segments = before.segments();
    const auto other = [](std::string field, const std::string& what) {
        return hurray::fail_field(Errc::AlreadyExists, std::move(field),
                                  "the capsule with this id that lingers here has " + what);
    };
    const auto access = now.access ? access_for(producer, now) : capsule.access;
    if (!access) {
        return tl::unexpected(access.error());
    }
    if (now.name != capsule.name->first) {
        return other("publish.name", "another name");
    }
    if (now.version != 0 && now.version != capsule.version) {
        return other("publish.version", "version " + std::to_string(capsule.version));
    }
    if (*access != capsule.access) {
        return other("publish.access", wire::access_text(capsule.access));
    }
    if (now.descriptor != before.descriptor() || !std::ranges::equal(now.placements, before.placements()) ||
        now.once != capsule.once || now.retain != capsule.retain || now.linger_ms != capsule.lingering->linger_ms ||
        now.group != 0) {
        return other("publish.capsule", "another content");
    }
    if (now.segments.size() != kept_segments.size()) {
        return other("publish.segments", std::to_string(kept_segments.size()) + " segments");
    }
    std::uint64_t more_segments = 0;
    std::uint64_t more_bytes = 0;
    for (std::size_t i = 0; i < now.segments.size(); ++i) {
        const wire::Segment& said = now.segments[i];
        const BroughtSegment& brought = publication.brought[i];
        const Segment& kept = *kept_segments[i];
        const std::string field = "publish.segments[" + std::to_string(i) + "]";
        const auto known = producer.segments.find(said.number);
        if (known == producer.segments.end() && brought.number == SegmentNumber{}) {
            return hurray::fail_field(Errc::NotFound, field + ".number",
                                      "segment number " + std::to_string(said.number) +
                                          " is not known in this session: its first mention brings its descriptor");
        }
        if (known == producer.segments.end() && producer.forgotten.contains(said.number)) {
            return hurray::fail_field(Errc::AlreadyExists, field + ".number",
                                      "segment number " + std::to_string(said.number) +
                                          " was forgotten in this session, and is not used again");
        }
        const bool is_known_otherwise = known != producer.segments.end() && known->second->file != kept.file;
        const bool is_brought_otherwise = brought.number != SegmentNumber{} && brought.file != kept.file;
        if (is_known_otherwise || is_brought_otherwise || said.memory != kept.memory || said.size != kept.size) {
            return other(field, "another file there");
        }
        if (known == producer.segments.end() && kept.is_known) {  // see take_back_segments()
            ++more_segments;
            more_bytes = hurray::checked_add(more_bytes, kept.size).value_or(UINT64_MAX);
        }
    }
    if (more_segments == 0) {
        return {};
    }
    auto admitted = admit(producer, Quota::Descriptors, more_segments);
    return admitted ? admit_bytes(producer, more_bytes, "publish.segments") : admitted;
}

/// adopt_lingering: the session becomes the capsule's producer. Consumers see nothing of it.
void Registry::adopt(Session& producer, std::uint64_t request_id, Publication publication, Capsule& capsule,
                     Outbox& out) {
    if (auto checked = check_adoption(producer, publication, capsule); !checked) {
        refuse_publish(producer, request_id, publication, std::move(checked.error()), out);
        return;
    }
    const wire::Publish& offer = publication.request;
    take_back_segments(producer, publication, capsule, out);
    capsule.in_session.unlink();
    if (Session* const ending = capsule.producer) {
        --ending->capsules_size;
        ending->kept_bytes -= cost_of(capsule);
    }
    producer.capsules.push_back(capsule);
    ++producer.capsules_size;
    producer.kept_bytes += cost_of(capsule);  // its user bears it all the time
    capsule.producer = &producer;
    capsule.pid = producer.identity.pid;
    if (capsule.lingering->expiry) {
        stop_expiry(capsule);
        note_expiry(capsule, out);
    }
    capsule.digest = digest_of(offer);  // as this session says it, so it may say it again

    const std::size_t first = out.packets.size();
    const bool was_taken = offer.taken_by.lease != 0 && capsule.is_live();
    if (was_taken) {
        capsule.taken_by = std::make_unique<const wire::LeaseId>(offer.taken_by);
        note_taken(capsule, out);
    }
    if (!capsule.retired && (offer.retired || was_taken)) {
        refuse_waiters(capsule, out);
        announce(wire::Watched::What::Retired, capsule);
        retire(capsule, out);
    }
    out.send_after(first, producer.number, request_id, wire::PublishReply{capsule.version});
    if (offer.version != 0) {
        note_answered(capsule.id, out);  // else it would not be offered
    } else {
        await_answer(producer, capsule, out);
    }
    if (capsule.taken_by != nullptr && *capsule.taken_by != offer.taken_by) {
        out.send(producer.number, 0,
                 wire::LeaseEvent{capsule.id, *capsule.taken_by, wire::LeaseEvent::What::Taken, capsule.open_leases});
    } else if (capsule.retired && !offer.retired && offer.taken_by.lease == 0) {
        out.send(producer.number, 0, wire::Retired{capsule.id});
    }
    match_claims(capsule, out);
    if (!capsule.of_before) {  // else the window's end tells it
        tell_window_closed(capsule, out);
    }
    end_if_unused(capsule, out);
    continue_announcements(out);
}

/// The session may mention the capsule's segments by its own numbers from now on.
void Registry::take_back_segments(Session& producer, const Publication& publication, Capsule& capsule, Outbox& out) {
    const auto segments = capsule.content.segments();
    for (std::size_t i = 0; i < segments.size(); ++i) {
        const wire::Segment& said = publication.request.segments[i];
        const BroughtSegment& brought = publication.brought[i];
        Segment& kept = *segments[i];
        const bool is_known_here = producer.segments.contains(said.number);
        if (!is_known_here && kept.is_known) {  // by another session of this user, which has the file too
            wire::Segment again = said;
            again.reservation = 0;
            add_segment(producer, again, brought, capsule.access);
            continue;
        }
        if (!is_known_here) {
            know_segment(producer, said.number, kept, files_.at(kept.file));
        }
        if (brought.number != SegmentNumber{}) {
            out.dropped.push_back(brought.number);
        }
    }
}

}  // namespace hurrayd
