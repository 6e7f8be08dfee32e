#include "proto/wire/parts.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <optional>

#include "proto/wire/codec.hpp"
#include "proto/wire/names.hpp"

namespace hurray::wire {
namespace {

/// The first segment whose number another one before it has.
std::optional<std::size_t> repeated_number(const std::vector<Segment>& segments) {
    const auto not_rising = [](const Segment& a, const Segment& b) { return a.number >= b.number; };
    if (std::adjacent_find(segments.begin(), segments.end(), not_rising) == segments.end()) {
        return std::nullopt;  // the usual case: counted up
    }
    std::array<std::uint64_t, kMaxSegments> numbers{};
    const auto end = std::transform(segments.begin(), segments.end(), numbers.begin(),
                                    [](const Segment& segment) { return segment.number; });
    std::sort(numbers.begin(), end);
    if (std::adjacent_find(numbers.begin(), end) == end) {
        return std::nullopt;
    }
    for (std::size_t i = 1; i < segments.size(); ++i) {
        for (std::size_t before = 0; before < i; ++before) {
            if (segments[before].number == segments[i].number) {
                return i;
            }
        }
    }
    return std::nullopt;
}

Result<Segment> read_segment(std::string_view part, const Path& path) {
    Segment segment;
    std::int32_t memory = 0;
    for (Reader in = reader(part); in.next();) {
        switch (in.tag_and_type()) {
            case varint(pb::Segment::kNumberFieldNumber):
                segment.number = in.get_uint64();
                break;
            case varint(pb::Segment::kCarriesFdFieldNumber):
                segment.carries_fd = read_bool(in);
                break;
            case varint(pb::Segment::kMemoryFieldNumber):
                memory = in.get_int32();
                break;
            case varint(pb::Segment::kSizeFieldNumber):
                segment.size = in.get_uint64();
                break;
            case varint(pb::Segment::kReservationFieldNumber):
                segment.reservation = in.get_uint64();
                break;
            default:
                in.skip();
        }
    }
    if (memory < static_cast<int>(Memory::Reusable) || memory > static_cast<int>(Memory::GpuPool)) {
        return invalid(path.with_tail(".memory"), "memory of kind " + std::to_string(memory) + " is not known");
    }
    segment.memory = static_cast<Memory>(memory);
    if (segment.size == 0) {
        return invalid(path.with_tail(".size"), "a segment of 0 bytes: empty buffers need no segment");
    }
    return segment;
}

Placement read_placement(std::string_view part) {
    Placement placement;
    for (Reader in = reader(part); in.next();) {
        switch (in.tag_and_type()) {
            case varint(pb::Placement::kSegmentFieldNumber):
                placement.segment = in.get_uint32();
                break;
            case varint(pb::Placement::kOffsetFieldNumber):
                placement.offset = in.get_uint64();
                break;
            default:
                in.skip();
        }
    }
    return placement;
}

}  // namespace

Result<Id16> read_id(std::string_view bytes, const Path& path) {
    Id16 id;
    if (bytes.size() != id.bytes.size()) {
        return invalid(path, "an id has 16 bytes, not " + std::to_string(bytes.size()));
    }
    std::memcpy(id.bytes.data(), bytes.data(), id.bytes.size());
    return id;
}

Result<CapsuleId> read_capsule_id(std::string_view part, const Path& path) {
    std::uint32_t uid = 0;
    std::string_view id;
    for (Reader in = reader(part); in.next();) {
        switch (in.tag_and_type()) {
            case varint(pb::CapsuleId::kUidFieldNumber):
                uid = in.get_uint32();
                break;
            case bytes(pb::CapsuleId::kIdFieldNumber):
                id = read_bytes(in);
                break;
            default:
                in.skip();
        }
    }
    return read_id(id, path).map([uid](const Id16& sound) { return CapsuleId{uid, sound}; });
}

Result<LeaseId> read_lease_id(std::string_view part, const Path& path) {
    LeaseId out;
    std::string_view session_hash;
    for (Reader in = reader(part); in.next();) {
        switch (in.tag_and_type()) {
            case varint(pb::LeaseId::kUidFieldNumber):
                out.uid = in.get_uint32();
                break;
            case bytes(pb::LeaseId::kSessionHashFieldNumber):
                session_hash = read_bytes(in);
                break;
            case varint(pb::LeaseId::kLeaseFieldNumber):
                out.lease = in.get_uint64();
                break;
            default:
                in.skip();
        }
    }
    auto hash = read_id(session_hash, path);
    if (!hash) {
        return pass_on(hash);
    }
    out.session_hash = *hash;
    return out;
}

Access read_access(std::string_view part) {
    Access access;
    for (Reader in = reader(part); in.next();) {
        switch (in.tag_and_type()) {
            case varint(pb::Access::kGidFieldNumber):
                access.gid = in.get_uint32();
                break;
            case varint(pb::Access::kModeFieldNumber):
                access.mode = in.get_uint32();
                break;
            default:
                in.skip();
        }
    }
    return access;
}

Result<std::string> read_descriptor(std::string_view bytes, const Path& path) {
    if (bytes.size() > kMaxDescriptorBytes) {
        return over_limit(path, "descriptor_bytes", kMaxDescriptorBytes, bytes.size(), "the descriptor", "bytes");
    }
    return std::string(bytes);
}

Result<std::string> read_optional_name(std::string_view bytes, const Path& path) {
    if (!bytes.empty()) {
        if (auto checked = check_name(bytes, {}); !checked) {
            checked.error().field = path.text();
            return pass_on(checked);
        }
    }
    return std::string(bytes);
}

Result<std::vector<Segment>> read_segments(const Parts& parts, std::string_view path_head) {
    if (parts.size() > kMaxSegments) {
        return over_limit({path_head}, "segments", kMaxSegments, parts.size(), "the capsule", "segments",
                          ": let several buffers share a segment");
    }
    std::vector<Segment> segments;
    segments.reserve(parts.size());
    for (const std::string_view part : parts) {
        auto segment = read_segment(part, {path_head, segments.size()});
        if (!segment) {
            return pass_on(segment);
        }
        segments.push_back(*segment);
    }
    if (const auto repeated = repeated_number(segments)) {
        return invalid(
            {path_head, *repeated, ".number"},
            "segment number " + std::to_string(segments[*repeated].number) + " is used twice in this message");
    }
    return segments;
}

Result<std::vector<Placement>> read_placements(const Parts& parts, std::string_view path_head) {
    if (parts.size() > kMaxBuffers) {
        return over_limit({path_head}, "buffers", kMaxBuffers, parts.size(), "the capsule", "placements");
    }
    std::vector<Placement> placements;
    placements.reserve(parts.size());
    std::transform(parts.begin(), parts.end(), std::back_inserter(placements), read_placement);
    return placements;
}

Result<void> check_fd_count(const std::vector<Segment>& segments, std::size_t fd_count, std::string_view path_head) {
    const auto needed = static_cast<std::size_t>(
        std::count_if(segments.begin(), segments.end(), [](const Segment& segment) { return segment.carries_fd; }));
    if (needed != fd_count && fd_count != kAnyFdCount) {
        return invalid({path_head}, std::to_string(needed) + " segments carry a descriptor, but " +
                                        std::to_string(fd_count) + " descriptors came");
    }
    return {};
}

void put_id(Writer& out, int field, const Id16& value) {
    out.add_bytes(static_cast<protozero::pbf_tag_type>(field), reinterpret_cast<const char*>(value.bytes.data()),
                  value.bytes.size());
}

void put_capsule(Writer& out, int field, const CapsuleId& value) {
    Writer part = part_of(out, field);
    put(part, pb::CapsuleId::kUidFieldNumber, value.uid);
    put_id(part, pb::CapsuleId::kIdFieldNumber, value.id);
}

void put_lease(Writer& out, int field, const LeaseId& lease) {
    Writer part = part_of(out, field);
    put(part, pb::LeaseId::kUidFieldNumber, lease.uid);
    put_id(part, pb::LeaseId::kSessionHashFieldNumber, lease.session_hash);
    put(part, pb::LeaseId::kLeaseFieldNumber, lease.lease);
}

}  // namespace hurray::wire
