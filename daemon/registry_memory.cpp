#include <algorithm>
#include <iterator>
#include <utility>

#include "daemon/registry.hpp"
#include "libhurray/base/checked_math.hpp"
#include "proto/wire/access.hpp"

// What producers have brought and reserved: the segments that capsules lie in, and the room for those to come.

namespace hurrayd {
namespace {

using hurray::Errc;
using hurray::Error;

/// Entries of StatusReply.writing: up to 40 bytes each.
constexpr std::size_t kStatusWriting = 300;

std::string segment_path(std::size_t index, const char* part) {
    return "publish.segments[" + std::to_string(index) + "]" + part;
}

/// "segment number 7 is ...", to blame on a part of the segment with that index in its message.
[[gnu::cold]] tl::unexpected<Error> refuse_segment(Errc code, std::size_t index, const char* part,
                                                   const wire::Segment& segment, const std::string& what) {
    return hurray::fail_field(code, segment_path(index, part),
                              "segment number " + std::to_string(segment.number) + " " + what);
}

/// The rest of "was published with ...".
std::string for_one_access(const wire::Access& before, const wire::Access& now) {
    return wire::access_text(before) + ", and is not used with " + wire::access_text(now) +
           ": whoever has mapped it sees what is written there later";
}

}  // namespace

// ---- Reservations ---------------------------------------------------------------------------------------------------

void Registry::reserve(SessionNumber from, std::uint64_t request_id, const wire::Reserve& reserve, std::uint64_t now_ms,
                       Outbox& out) {
    Session& producer = session(from);
    const std::uint32_t uid = producer.identity.uid;
    if (producer.reservations.contains(reserve.reservation)) {
        out.send(from, request_id,
                 Error{Errc::AlreadyExists,
                       "reservation number " + std::to_string(reserve.reservation) + " is in use in this session",
                       "reserve.reservation"});
        return;
    }
    auto admitted = admit(producer, Quota::Reservations);
    if (admitted) {
        admitted = admit(producer, Quota::DaemonBytes, cost_of_reservation());
    }
    if (admitted) {
        admitted = admit_bytes(producer, reserve.bytes, "reserve.bytes");
    }
    if (!admitted) {
        out.send(from, request_id, std::move(admitted.error()));
        return;
    }
    Reservation& made = producer.reservations.try_emplace(reserve.reservation).first->second;
    made.bytes = reserve.bytes;
    made.since_ms = now_ms;
    made.pid = producer.identity.pid;
    writing_[uid].push_back(made);
    Totals& use = count(uid);
    ++use.reservations;
    use.reserved += made.bytes;
    producer.bytes += made.bytes;
    all_bytes_ += made.bytes;
    charge(&producer, uid, cost_of_reservation());
    out.send(from, request_id, wire::Done{});
}

void Registry::unreserve(SessionNumber from, std::uint64_t request_id, const wire::Unreserve& unreserve, Outbox& out) {
    Session& producer = session(from);
    if (const auto known = producer.reservations.find(unreserve.reservation); known != producer.reservations.end()) {
        end_reservation(producer, known);
    }
    out.send(from, request_id, wire::Done{});
}

void Registry::end_reservation(Session& session, std::unordered_map<std::uint64_t, Reservation>::iterator reservation) {
    Totals& use = count(session.identity.uid);
    --use.reservations;
    use.reserved -= reservation->second.bytes;
    session.bytes -= reservation->second.bytes;
    all_bytes_ -= reservation->second.bytes;
    discharge(&session, session.identity.uid, cost_of_reservation());
    session.reservations.erase(reservation);
    if (const auto list = writing_.find(session.identity.uid); list->second.empty()) {
        writing_.erase(list);
    }
}

void Registry::list_writing(std::uint32_t uid, std::uint64_t now_ms, wire::StatusReply& reply) const {
    const auto list = writing_.find(uid);
    if (list == writing_.end()) {
        return;
    }
    for (const Reservation& reservation : list->second) {
        if (reply.writing.size() == kStatusWriting) {
            return;
        }
        reply.writing.push_back({uid, reservation.pid, reservation.bytes, now_ms - reservation.since_ms});
    }
}

// ---- Segments -------------------------------------------------------------------------------------------------------

/// Whether a publish may mention its segments as it does. Changes nothing.
hurray::Result<void> Registry::check_segments(Session& producer, const Publication& publication,
                                              const wire::Access& access) {
    const auto& segments = publication.request.segments;
    std::vector<wire::FileIdentity> files;
    std::vector<std::uint64_t> reservations;
    files.reserve(segments.size());
    std::uint64_t fresh_bytes = 0;
    std::uint64_t fresh_files = 0;
    std::uint64_t reserved_bytes = 0;
    for (std::size_t i = 0; i < segments.size(); ++i) {
        const wire::Segment& segment = segments[i];
        const BroughtSegment& brought = publication.brought[i];
        const bool is_brought = brought.number != SegmentNumber{};
        if (const auto known = producer.segments.find(segment.number); known != producer.segments.end()) {
            const Segment& before = *known->second;
            if (is_brought && brought.file != before.file) {
                return refuse_segment(Errc::AlreadyExists, i, ".number", segment, "means another file in this session");
            }
            if (segment.memory != before.memory) {
                return refuse_segment(Errc::InvalidArgument, i, ".memory", segment,
                                      "was published as memory of kind " +
                                          std::to_string(static_cast<int>(before.memory)) + ", not " +
                                          std::to_string(static_cast<int>(segment.memory)));
            }
            if (segment.size != before.size) {
                return refuse_segment(
                    Errc::InvalidArgument, i, ".size", segment,
                    "has " + std::to_string(before.size) + " bytes, not " + std::to_string(segment.size));
            }
            if (access != before.access) {
                return refuse_segment(Errc::InvalidArgument, i, "", segment,
                                      "was published with " + for_one_access(before.access, access));
            }
            files.push_back(before.file);
            continue;
        }
        if (producer.forgotten.contains(segment.number)) {
            return refuse_segment(Errc::AlreadyExists, i, ".number", segment,
                                  "was forgotten in this session, and is not used again");
        }
        if (!is_brought) {
            return refuse_segment(Errc::NotFound, i, ".number", segment,
                                  "is not known in this session: its first mention brings its descriptor");
        }
        if (const auto file = files_.find(brought.file); file != files_.end()) {
            const File& before = file->second;
            if (before.uid != producer.identity.uid) {
                return refuse_segment(Errc::InvalidArgument, i, "", segment,
                                      "is a file that another user has published");
            }
            if (before.access != access) {
                return refuse_segment(Errc::InvalidArgument, i, "", segment,
                                      "is a file that was published with " + for_one_access(before.access, access));
            }
        }
        files.push_back(brought.file);
        if (unknown_segment(brought, segment) != nullptr) {
            continue;
        }
        ++fresh_files;
        const auto bytes = hurray::checked_add(fresh_bytes, segment.size);
        fresh_bytes = bytes.value_or(UINT64_MAX);  // more than any file system has; no quota admits it
        if (segment.reservation != 0) {
            const auto reservation = producer.reservations.find(segment.reservation);
            if (reservation == producer.reservations.end()) {
                return hurray::fail_field(
                    Errc::NotFound, segment_path(i, ".reservation"),
                    "there is no reservation number " + std::to_string(segment.reservation) + " in this session");
            }
            if (std::find(reservations.begin(), reservations.end(), segment.reservation) != reservations.end()) {
                return hurray::fail_field(
                    Errc::InvalidArgument, segment_path(i, ".reservation"),
                    "reservation number " + std::to_string(segment.reservation) + " is of another segment already");
            }
            reservations.push_back(segment.reservation);
            reserved_bytes += reservation->second.bytes;
        }
    }
    if (auto distinct = wire::check_distinct(files, "publish"); !distinct) {
        return distinct;
    }
    if (fresh_files == 0) {
        return {};
    }
    auto admitted = admit(producer, Quota::Descriptors, fresh_files);
    if (admitted && fresh_bytes > reserved_bytes) {
        admitted = admit_bytes(producer, fresh_bytes - reserved_bytes, "publish.segments");
    }
    return admitted;
}

/// A segment that is mentioned for the first time. No capsule lies in it yet.
Registry::Segment& Registry::add_segment(Session& producer, const wire::Segment& said, const BroughtSegment& brought,
                                         const wire::Access& access) {
    const std::uint32_t uid = producer.identity.uid;
    Segment& fresh = segments_.try_emplace(brought.number.value).first->second;
    fresh.number = brought.number;
    fresh.uid = uid;
    fresh.memory = said.memory;
    fresh.size = said.size;
    fresh.file = brought.file;
    fresh.access = access;
    File& file = files_.try_emplace(fresh.file, File{uid, access, 0}).first->second;
    ++file.segments;
    producer.segments.emplace(said.number, &fresh);
    Totals& use = count(uid);
    use.bytes += fresh.size;
    ++use.descriptors;
    producer.bytes += fresh.size;
    all_bytes_ += fresh.size;
    charge(&producer, uid, cost_of_segment());
    if (said.reservation != 0) {
        end_reservation(producer, producer.reservations.find(said.reservation));
    }
    return fresh;
}

/// What is kept of that file for capsules alone, since their producer has gone or was of a life before: it is the same memory. Null: nothing, or
/// it is not said to be the same.
Registry::Segment* Registry::unknown_segment(const BroughtSegment& brought, const wire::Segment& said) {
    const auto file = files_.find(brought.file);
    Segment* const kept = file != files_.end() ? file->second.unknown : nullptr;
    const bool is_same =
        kept != nullptr && kept->memory == said.memory && kept->size == said.size && said.reservation == 0;
    return is_same ? kept : nullptr;
}

/// The session may mention it by its own number from now on. Its user has had it all the time.
void Registry::know_segment(Session& session, std::uint64_t number, Segment& segment, File& file) {
    segment.is_known = true;
    file.unknown = file.unknown == &segment ? nullptr : file.unknown;
    session.segments.emplace(number, &segment);
    session.bytes += segment.size;
    session.kept_bytes += cost_of_segment();
}

/// Books what check_segments() has found good, for a capsule that lies in it.
std::vector<Registry::Segment*> Registry::take_segments(Session& producer, const Publication& publication,
                                                        const wire::Access& access, Outbox& out) {
    std::vector<Segment*> taken;
    taken.reserve(publication.brought.size());
    for (std::size_t i = 0; i < publication.brought.size(); ++i) {
        const wire::Segment& said = publication.request.segments[i];
        const BroughtSegment& brought = publication.brought[i];
        const auto known = producer.segments.find(said.number);
        Segment* segment = known != producer.segments.end() ? known->second : unknown_segment(brought, said);
        if (segment != nullptr && known == producer.segments.end()) {
            know_segment(producer, said.number, *segment, files_.at(segment->file));
        }
        if (segment == nullptr) {
            segment = &add_segment(producer, said, brought, access);
        } else if (brought.number != SegmentNumber{}) {
            out.dropped.push_back(brought.number);  // the same file again
        }
        ++segment->capsules;
        taken.push_back(segment);
    }
    return taken;
}

bool Registry::Capsule::is_immutable() const noexcept {
    return std::ranges::all_of(content.segments(),
                               [](const Segment* segment) { return segment->memory == wire::Memory::Immutable; });
}

bool Registry::Capsule::is_unsealed() const noexcept {
    return std::ranges::any_of(content.segments(),
                               [](const Segment* segment) { return segment->memory == wire::Memory::Dmabuf; });
}

/// Whether `capsule` lies in memory of a kind that `attach` is content with.
hurray::Result<void> Registry::check_memory(const Capsule& capsule, const wire::Attach& attach) {
    if (attach.immutable_only && !capsule.is_immutable()) {
        return hurray::fail_field(Errc::Unsupported, "attach.immutable_only",
                                  "the memory of version " + std::to_string(capsule.version) +
                                      " is not immutable: its producer may write to it once nobody holds it");
    }
    if (!attach.allow_unsealed && capsule.is_unsealed()) {
        return hurray::fail_field(Errc::Unsupported, "attach.allow_unsealed",
                                  "version " + std::to_string(capsule.version) +
                                      " lies in a dma-buf, which has no seals, so others may write to it while it is "
                                      "read: allow unsealed memory to attach it");
    }
    return {};
}

/// Whether its producer may write to its memory again, now that nobody holds it.
bool Registry::is_reusable(const Capsule& capsule) noexcept {
    return !capsule.lost_lease && (capsule.content.segments().empty() || !capsule.is_immutable());
}

void Registry::forget(SessionNumber from, std::uint64_t request_id, const wire::Forget& forget, Outbox& out) {
    Session& producer = session(from);
    for (const std::uint64_t number : forget.segments) {
        if (const auto known = producer.segments.find(number); known != producer.segments.end()) {
            forget_segment(producer, known, out);
        }
        book_forgotten(producer, number);  // also one of a publish that waits, was refused, or never sent
    }
    out.send(from, request_id, wire::Done{});
}

void Registry::forget_segment(Session& session, std::map<std::uint64_t, Segment*>::iterator segment, Outbox& out) {
    Segment& forgotten = *segment->second;
    session.segments.erase(segment);
    session.bytes -= forgotten.size;
    session.kept_bytes -= cost_of_segment();  // its user's until the last capsule in it has ended
    forgotten.is_known = false;
    files_.at(forgotten.file).unknown = &forgotten;
    drop_if_unused(forgotten, out);
}

void Registry::drop_if_unused(Segment& segment, Outbox& out) {
    if (segment.is_known || segment.capsules != 0) {
        return;
    }
    const std::uint32_t uid = segment.uid;
    Totals& use = count(uid);
    use.bytes -= segment.size;
    --use.descriptors;
    all_bytes_ -= segment.size;
    discharge(nullptr, uid, cost_of_segment());
    const auto file = files_.find(segment.file);
    file->second.unknown = file->second.unknown == &segment ? nullptr : file->second.unknown;
    if (--file->second.segments == 0) {
        files_.erase(file);
    }
    out.dropped.push_back(segment.number);
    segments_.erase(std::uint64_t{segment.number.value});  // a copy: the key must outlive the entry
    forget_if_zero(uid);
}

}  // namespace hurrayd
