#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <variant>

#include "proto/wire/codec.hpp"
#include "proto/wire/fields.hpp"
#include "proto/wire/parts.hpp"
#include "proto/wire/text.hpp"

namespace hurray::wire {
namespace {

using Tag = protozero::pbf_tag_type;

void put_empty(Writer& out, int field) { out.add_bytes(static_cast<Tag>(field), "", 0); }

void put_access(Writer& out, int field, const Access& value) {
    if (value == Access{}) {
        return put_empty(out, field);
    }
    Writer part = part_of(out, field);
    put(part, pb::Access::kGidFieldNumber, value.gid);
    put(part, pb::Access::kModeFieldNumber, value.mode);
}

void put_segments(Writer& out, int field, const std::vector<Segment>& segments) {
    for (const Segment& segment : segments) {
        Writer part = part_of(out, field);
        put(part, pb::Segment::kNumberFieldNumber, segment.number);
        put(part, pb::Segment::kCarriesFdFieldNumber, segment.carries_fd ? 1 : 0);
        put(part, pb::Segment::kMemoryFieldNumber, static_cast<std::uint64_t>(segment.memory));
        put(part, pb::Segment::kSizeFieldNumber, segment.size);
        put(part, pb::Segment::kReservationFieldNumber, segment.reservation);
    }
}

void put_placements(Writer& out, int field, const std::vector<Placement>& placements) {
    for (const Placement& placement : placements) {
        if (placement == Placement{}) {
            put_empty(out, field);
            continue;
        }
        Writer part = part_of(out, field);
        put(part, pb::Placement::kSegmentFieldNumber, placement.segment);
        put(part, pb::Placement::kOffsetFieldNumber, placement.offset);
    }
}

// ---- Requests -------------------------------------------------------------------------------------------------------

void write(const Hello& in, Writer& out) {
    put(out, pb::Hello::kVersionMinFieldNumber, in.version_min);
    put(out, pb::Hello::kVersionMaxFieldNumber, in.version_max);
    put_bytes(out, pb::Hello::kClientNameFieldNumber, in.client_name);
    put_id(out, pb::Hello::kSessionFieldNumber, in.session);
    if (in.last_instance) {
        put_id(out, pb::Hello::kLastInstanceFieldNumber, *in.last_instance);
    }
    put(out, pb::Hello::kKeepsSegmentsFieldNumber, in.keeps_segments ? 1 : 0);
    put(out, pb::Hello::kTakesBundlesFieldNumber, in.takes_bundles ? 1 : 0);
}

void write(const Publish& in, Writer& out) {
    put_id(out, pb::Publish::kCapsuleFieldNumber, in.capsule);
    put_bytes(out, pb::Publish::kNameFieldNumber, in.name);
    put_bytes(out, pb::Publish::kDescriptorFieldNumber, in.descriptor);
    put_segments(out, pb::Publish::kSegmentsFieldNumber, in.segments);
    put_placements(out, pb::Publish::kPlacementsFieldNumber, in.placements);
    if (in.access) {
        put_access(out, pb::Publish::kAccessFieldNumber, *in.access);
    }
    if (in.retain != 1) {
        put(out, pb::Publish::kRetainFieldNumber, in.retain);
    }
    put(out, pb::Publish::kOnceFieldNumber, in.once ? 1 : 0);
    if (in.linger_ms) {
        out.add_uint64(static_cast<Tag>(pb::Publish::kLingerMsFieldNumber), *in.linger_ms);
    }
    put(out, pb::Publish::kGroupFieldNumber, in.group);
    put(out, pb::Publish::kVersionFieldNumber, in.version);
    put(out, pb::Publish::kRetiredFieldNumber, in.retired ? 1 : 0);
    if (in.taken_by.lease != 0) {
        put_lease(out, pb::Publish::kTakenByFieldNumber, in.taken_by);
    }
}

void write(const Attach& in, Writer& out) {
    put(out, pb::Attach::kLeaseFieldNumber, in.lease);
    if (const auto* name = std::get_if<std::string>(&in.what)) {
        out.add_bytes(static_cast<Tag>(pb::Attach::kNameFieldNumber), *name);  // even if it is empty: that it is said
    } else {
        put_capsule(out, pb::Attach::kCapsuleFieldNumber, std::get<CapsuleId>(in.what));
    }
    switch (in.which) {
        case Which::Latest:
            break;
        case Which::Exactly:
            put(out, pb::Attach::kVersionFieldNumber, in.version);
            break;
        case Which::NewerThan:
            put(out, pb::Attach::kNewerThanFieldNumber, in.version);
            break;
    }
    put(out, pb::Attach::kLastSeenFieldNumber, in.last_seen);
    put(out, pb::Attach::kImmutableOnlyFieldNumber, in.immutable_only ? 1 : 0);
    put(out, pb::Attach::kAllowUnsealedFieldNumber, in.allow_unsealed ? 1 : 0);
    put(out, pb::Attach::kTakeFieldNumber, in.take ? 1 : 0);
}

void write(const Release& in, Writer& out) {
    out.add_packed_uint64(static_cast<Tag>(pb::Release::kLeaseFieldNumber), in.leases.begin(), in.leases.end());
}

void write(const Cancel& in, Writer& out) { put(out, pb::Cancel::kRequestIdFieldNumber, in.request_id); }

void write(const Withdraw& in, Writer& out) { put_capsule(out, pb::Withdraw::kCapsuleFieldNumber, in.capsule); }

void write(const List& in, Writer& out) {
    put_bytes(out, pb::List::kPatternFieldNumber, in.pattern);
    put_bytes(out, pb::List::kCursorFieldNumber, in.cursor);
    put(out, pb::List::kLimitFieldNumber, in.limit);
    put(out, pb::List::kWithDescriptorFieldNumber, in.with_descriptor ? 1 : 0);
}

void write(const Watch& in, Writer& out) {
    put(out, pb::Watch::kWatchFieldNumber, in.watch);
    put_bytes(out, pb::Watch::kPatternFieldNumber, in.pattern);
}

void write(const Unwatch& in, Writer& out) { put(out, pb::Unwatch::kWatchFieldNumber, in.watch); }

void write(const StatusRequest& /*in*/, Writer& /*out*/) {}

void write(const Reserve& in, Writer& out) {
    put(out, pb::Reserve::kReservationFieldNumber, in.reservation);
    put(out, pb::Reserve::kBytesFieldNumber, in.bytes);
}

void write(const Unreserve& in, Writer& out) { put(out, pb::Unreserve::kReservationFieldNumber, in.reservation); }

void write(const Forget& in, Writer& out) {
    out.add_packed_uint64(static_cast<Tag>(pb::Forget::kSegmentFieldNumber), in.segments.begin(), in.segments.end());
}

void write(const Drop& in, Writer& out) {
    out.add_packed_uint64(static_cast<Tag>(pb::Drop::kSegmentFieldNumber), in.segments.begin(), in.segments.end());
}

void write(const Group& in, Writer& out) {
    put(out, pb::Group::kGroupFieldNumber, in.group);
    put(out, pb::Group::kActionFieldNumber, static_cast<std::uint64_t>(in.action));
}

void write(const Confirm& in, Writer& out) { put(out, pb::Confirm::kLeaseFieldNumber, in.lease); }

void write(const Claims& in, Writer& out) {
    for (const Claims::Claim& claim : in.claims) {
        Writer part = part_of(out, pb::Claims::kClaimFieldNumber);
        put_capsule(part, pb::Claims::Claim::kCapsuleFieldNumber, claim.capsule);
        put(part, pb::Claims::Claim::kLeaseFieldNumber, claim.lease);
        put(part, pb::Claims::Claim::kStateFieldNumber, static_cast<std::uint64_t>(claim.state));
    }
}

void write(const ResumeDone& /*in*/, Writer& /*out*/) {}

// ---- Packets --------------------------------------------------------------------------------------------------------

/// Messages for people may quote anything; what travels is UTF-8 without control characters.
void write(const Error& in, Writer& out) {
    out.add_sint32(static_cast<Tag>(pb::Error::kStatusFieldNumber), static_cast<std::int32_t>(in.code));
    put_bytes(out, pb::Error::kFieldFieldNumber, printable(in.field));
    put_bytes(out, pb::Error::kLimitNameFieldNumber, printable(in.limit_name));
    put(out, pb::Error::kLimitFieldNumber, in.limit);
    put(out, pb::Error::kInUseFieldNumber, in.in_use);
    put(out, pb::Error::kValueFieldNumber, in.value);
    put_bytes(out, pb::Error::kMessageFieldNumber, printable(in.message));
}

void write(const Closing& in, Writer& out) { write(in.error, out); }

void write(const Done& /*in*/, Writer& /*out*/) {}

void write(const HelloReply& in, Writer& out) {
    put(out, pb::HelloReply::kVersionFieldNumber, in.version);
    put_id(out, pb::HelloReply::kInstanceFieldNumber, in.instance);
    {
        Writer limits = part_of(out, pb::HelloReply::kLimitsFieldNumber);
        put(limits, pb::Limits::kPacketBytesFieldNumber, in.limits.packet_bytes);
        put(limits, pb::Limits::kPacketFdsFieldNumber, in.limits.packet_fds);
        put(limits, pb::Limits::kDescriptorBytesFieldNumber, in.limits.descriptor_bytes);
        put(limits, pb::Limits::kUnackedReleasesFieldNumber, in.limits.unacked_releases);
    }
    put(out, pb::HelloReply::kWindowLeftMsFieldNumber, in.window_left_ms);
    if (in.default_access) {
        put_access(out, pb::HelloReply::kDefaultAccessFieldNumber, *in.default_access);
    }
}

void write(const PublishReply& in, Writer& out) { put(out, pb::PublishReply::kVersionFieldNumber, in.version); }

void write(const AttachReply& in, Writer& out) {
    put_capsule(out, pb::AttachReply::kCapsuleFieldNumber, in.capsule);
    put_bytes(out, pb::AttachReply::kNameFieldNumber, in.name);
    put(out, pb::AttachReply::kVersionFieldNumber, in.version);
    put_bytes(out, pb::AttachReply::kDescriptorFieldNumber, in.descriptor);
    put_segments(out, pb::AttachReply::kSegmentsFieldNumber, in.segments);
    put_placements(out, pb::AttachReply::kPlacementsFieldNumber, in.placements);
    put_access(out, pb::AttachReply::kAccessFieldNumber, in.access);
}

void write(const ListReply& in, Writer& out) {
    for (const Info& info : in.capsules) {
        Writer part = part_of(out, pb::ListReply::kCapsulesFieldNumber);
        put_capsule(part, pb::Info::kCapsuleFieldNumber, info.capsule);
        put_bytes(part, pb::Info::kNameFieldNumber, info.name);
        put(part, pb::Info::kVersionFieldNumber, info.version);
        put(part, pb::Info::kBytesFieldNumber, info.bytes);
        put(part, pb::Info::kLeasesFieldNumber, info.leases);
        put_access(part, pb::Info::kAccessFieldNumber, info.access);
        put(part, pb::Info::kRetiredFieldNumber, info.retired ? 1 : 0);
        put(part, pb::Info::kLingeringFieldNumber, info.lingering ? 1 : 0);
        if (info.pid != 0) {
            part.add_int32(static_cast<Tag>(pb::Info::kPidFieldNumber), info.pid);
        }
        put_bytes(part, pb::Info::kDescriptorFieldNumber, info.descriptor);
        put(part, pb::Info::kImmutableFieldNumber, info.immutable ? 1 : 0);
        put(part, pb::Info::kUnsealedFieldNumber, info.unsealed ? 1 : 0);
        put(part, pb::Info::kOnceFieldNumber, info.once ? 1 : 0);
        put(part, pb::Info::kProducerGoneFieldNumber, info.producer_gone ? 1 : 0);
        put(part, pb::Info::kExpiresMsFieldNumber, info.expires_ms);
    }
    put_bytes(out, pb::ListReply::kCursorFieldNumber, in.cursor);
}

void write(const StatusReply& in, Writer& out) {
    for (const Use& use : in.uses) {
        Writer part = part_of(out, pb::StatusReply::kUsesFieldNumber);
        put_bytes(part, pb::Use::kNameFieldNumber, printable(use.name));
        put(part, pb::Use::kUidFieldNumber, use.uid);
        put(part, pb::Use::kUsedFieldNumber, use.used);
        put(part, pb::Use::kLimitFieldNumber, use.limit);
    }
    for (const Writing& writing : in.writing) {
        Writer part = part_of(out, pb::StatusReply::kWritingFieldNumber);
        put(part, pb::Writing::kUidFieldNumber, writing.uid);
        if (writing.pid != 0) {
            part.add_int32(static_cast<Tag>(pb::Writing::kPidFieldNumber), writing.pid);
        }
        put(part, pb::Writing::kBytesFieldNumber, writing.bytes);
        put(part, pb::Writing::kAgeMsFieldNumber, writing.age_ms);
    }
    put_bytes(out, pb::StatusReply::kDaemonVersionFieldNumber, printable(in.daemon_version));
    put(out, pb::StatusReply::kUptimeMsFieldNumber, in.uptime_ms);
    for (const Holder& holder : in.holders) {
        Writer part = part_of(out, pb::StatusReply::kHoldersFieldNumber);
        put_bytes(part, pb::Holder::kNameFieldNumber, printable(holder.name));
        put(part, pb::Holder::kUidFieldNumber, holder.uid);
        if (holder.pid != 0) {
            part.add_int32(static_cast<Tag>(pb::Holder::kPidFieldNumber), holder.pid);
        }
        put_bytes(part, pb::Holder::kClientNameFieldNumber, printable(holder.client_name));
        put(part, pb::Holder::kUsedFieldNumber, holder.used);
        put(part, pb::Holder::kLimitFieldNumber, holder.limit);
    }
}

void write(const GroupReply& in, Writer& out) {
    if (!in.versions.empty()) {
        out.add_packed_uint64(static_cast<Tag>(pb::GroupReply::kVersionsFieldNumber), in.versions.begin(),
                              in.versions.end());
    }
}

void write(const LeaseEvent& in, Writer& out) {
    put_capsule(out, pb::LeaseEvent::kCapsuleFieldNumber, in.capsule);
    put_lease(out, pb::LeaseEvent::kLeaseFieldNumber, in.lease);
    put(out, pb::LeaseEvent::kWhatFieldNumber, static_cast<std::uint64_t>(in.what));
    put(out, pb::LeaseEvent::kRemainingFieldNumber, in.remaining);
}

void write(const Ended& in, Writer& out) {
    put_capsule(out, pb::Ended::kCapsuleFieldNumber, in.capsule);
    put(out, pb::Ended::kReusableFieldNumber, in.reusable ? 1 : 0);
}

void write(const Retired& in, Writer& out) { put_capsule(out, pb::Retired::kCapsuleFieldNumber, in.capsule); }

void write(const Watched& in, Writer& out) {
    put(out, pb::Watched::kWatchFieldNumber, in.watch);
    put(out, pb::Watched::kWhatFieldNumber, static_cast<std::uint64_t>(in.what));
    if (in.capsule != CapsuleId{} || !may_lack_capsule(in.what)) {
        put_capsule(out, pb::Watched::kCapsuleFieldNumber, in.capsule);
    }
    put_bytes(out, pb::Watched::kNameFieldNumber, in.name);
    put(out, pb::Watched::kVersionFieldNumber, in.version);
}

void write(const ProducerLost& in, Writer& out) { put_capsule(out, pb::ProducerLost::kCapsuleFieldNumber, in.capsule); }

void write(const SegmentsGone& in, Writer& out) {
    out.add_packed_uint64(static_cast<Tag>(pb::SegmentsGone::kSegmentFieldNumber), in.segments.begin(),
                          in.segments.end());
}

void write(const WindowClosed& in, Writer& out) {
    put_capsule(out, pb::WindowClosed::kCapsuleFieldNumber, in.capsule);
    for (const LeaseId& lease : in.open) {
        put_lease(out, pb::WindowClosed::kOpenFieldNumber, lease);
    }
    put(out, pb::WindowClosed::kMoreFieldNumber, in.more ? 1 : 0);
}

void write(const ClaimsRefused& in, Writer& out) {
    out.add_packed_uint64(static_cast<Tag>(pb::ClaimsRefused::kLeaseFieldNumber), in.leases.begin(), in.leases.end());
}

// ---- Envelopes ------------------------------------------------------------------------------------------------------

/// The numbers of the messages, in the order of their variants.
constexpr int kRequestFields[] = {
    pb::Request::kHelloFieldNumber,     pb::Request::kPublishFieldNumber, pb::Request::kAttachFieldNumber,
    pb::Request::kReleaseFieldNumber,   pb::Request::kCancelFieldNumber,  pb::Request::kWithdrawFieldNumber,
    pb::Request::kListFieldNumber,      pb::Request::kWatchFieldNumber,   pb::Request::kUnwatchFieldNumber,
    pb::Request::kStatusFieldNumber,    pb::Request::kGroupFieldNumber,   pb::Request::kReserveFieldNumber,
    pb::Request::kUnreserveFieldNumber, pb::Request::kForgetFieldNumber,  pb::Request::kDropFieldNumber,
    pb::Request::kConfirmFieldNumber,   pb::Request::kClaimsFieldNumber,  pb::Request::kResumeDoneFieldNumber};
constexpr int kPacketFields[] = {
    pb::Packet::kErrorFieldNumber,         pb::Packet::kDoneFieldNumber,         pb::Packet::kHelloFieldNumber,
    pb::Packet::kPublishFieldNumber,       pb::Packet::kAttachFieldNumber,       pb::Packet::kListFieldNumber,
    pb::Packet::kStatusFieldNumber,        pb::Packet::kGroupFieldNumber,        pb::Packet::kLeaseFieldNumber,
    pb::Packet::kEndedFieldNumber,         pb::Packet::kRetiredFieldNumber,      pb::Packet::kWatchedFieldNumber,
    pb::Packet::kProducerLostFieldNumber,  pb::Packet::kSegmentsGoneFieldNumber, pb::Packet::kWindowClosedFieldNumber,
    pb::Packet::kClaimsRefusedFieldNumber, pb::Packet::kClosingFieldNumber};
static_assert(std::size(kRequestFields) == std::variant_size_v<RequestMessage>);
static_assert(std::size(kPacketFields) == std::variant_size_v<PacketMessage>);

/// The message, which is there even if it is empty. `envelope` writes to `out`.
template <class Message>
void put_message(Writer& envelope, int field, const Message& message, const PacketBuffer& out) {
    const std::size_t before = out.size();
    {
        Writer part = part_of(envelope, field);
        std::visit([&](const auto& what) { write(what, part); }, message);
    }
    if (out.size() == before) {
        put_empty(envelope, field);
    }
}

}  // namespace

void append(std::uint64_t request_id, std::optional<std::uint64_t> timeout_ms, const RequestMessage& message,
            PacketBuffer& out) {
    Writer writer(out);
    put(writer, pb::Request::kRequestIdFieldNumber, request_id);
    if (timeout_ms) {
        writer.add_uint64(static_cast<Tag>(pb::Request::kTimeoutMsFieldNumber), *timeout_ms);
    }
    put_message(writer, kRequestFields[message.index()], message, out);
}

void encode(const Request& request, PacketBuffer& out) {
    out.clear();
    append(request.request_id, request.timeout_ms, request.message, out);
}

void append(const Packet& packet, PacketBuffer& out) {
    Writer writer(out);
    put(writer, pb::Packet::kRequestIdFieldNumber, packet.request_id);
    put_message(writer, kPacketFields[packet.message.index()], packet.message, out);
}

void append_more(const Packet& packet, PacketBuffer& out) {
    Writer before(out);
    Writer writer = part_of(before, pb::Packet::kMoreFieldNumber);
    put(writer, pb::Packet::kRequestIdFieldNumber, packet.request_id);
    put_message(writer, kPacketFields[packet.message.index()], packet.message, out);
}

void encode(const Packet& packet, PacketBuffer& out) {
    out.clear();
    append(packet, out);
}

std::string encoded(const Request& request) {
    PacketBuffer buffer;
    encode(request, buffer);
    return std::string(buffer.view());
}

std::string encoded(const Packet& packet) {
    PacketBuffer buffer;
    encode(packet, buffer);
    return std::string(buffer.view());
}

}  // namespace hurray::wire
