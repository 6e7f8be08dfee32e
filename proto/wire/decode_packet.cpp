#include <algorithm>
#include <optional>
#include <utility>

#include "proto/wire/codec.hpp"
#include "proto/wire/names.hpp"
#include "proto/wire/parts.hpp"
#include "proto/wire/text.hpp"

// The readers name the rule that was broken; decode_packet() turns whatever they say into Protocol.

namespace hurray::wire {
namespace {

/// What a status means that a newer daemon sent: the request failed, in a way that has no name here.
constexpr Errc kUnknownStatus = Errc::Protocol;

std::optional<Errc> errc_of(std::int32_t status) {
    const bool of_format = status >= static_cast<std::int32_t>(Errc::IndexOutOfBounds) &&
                           status <= static_cast<std::int32_t>(Errc::InvalidMagic);
    const bool of_client =
        status >= static_cast<std::int32_t>(Errc::Interrupted) && status <= static_cast<std::int32_t>(Errc::NotFound);
    if (!of_format && !of_client) {
        return std::nullopt;
    }
    return static_cast<Errc>(status);
}

Result<Error> read_error(std::string_view message, std::string_view path_head) {
    Error out;
    std::int32_t status = 0;
    for (Reader in = reader(message); in.next();) {
        switch (in.tag_and_type()) {
            case varint(pb::Error::kStatusFieldNumber):
                status = in.get_sint32();
                break;
            case bytes(pb::Error::kFieldFieldNumber):
                out.field = printable(read_bytes(in));
                break;
            case bytes(pb::Error::kLimitNameFieldNumber):
                out.limit_name = printable(read_bytes(in));
                break;
            case varint(pb::Error::kLimitFieldNumber):
                out.limit = in.get_uint64();
                break;
            case varint(pb::Error::kInUseFieldNumber):
                out.in_use = in.get_uint64();
                break;
            case varint(pb::Error::kValueFieldNumber):
                out.value = in.get_uint64();
                break;
            case bytes(pb::Error::kMessageFieldNumber):
                out.message = printable(read_bytes(in));
                break;
            default:
                in.skip();
        }
    }
    if (status >= 0) {
        return invalid({path_head, Path::kNone, ".status"}, "status " + std::to_string(status) + " is no failure");
    }
    const auto code = errc_of(status);
    out.code = code.value_or(kUnknownStatus);
    if (!code) {
        out.message = "status " + std::to_string(status) + ", which is not known here: " + out.message;
    }
    return out;
}

Limits read_limits(std::string_view part) {
    Limits out{0, 0, 0, 0};
    for (Reader in = reader(part); in.next();) {
        switch (in.tag_and_type()) {
            case varint(pb::Limits::kPacketBytesFieldNumber):
                out.packet_bytes = in.get_uint32();
                break;
            case varint(pb::Limits::kPacketFdsFieldNumber):
                out.packet_fds = in.get_uint32();
                break;
            case varint(pb::Limits::kDescriptorBytesFieldNumber):
                out.descriptor_bytes = in.get_uint32();
                break;
            case varint(pb::Limits::kUnackedReleasesFieldNumber):
                out.unacked_releases = in.get_uint32();
                break;
            default:
                in.skip();
        }
    }
    return out;
}

Result<PacketMessage> read_hello_reply(std::string_view message) {
    HelloReply out;
    out.limits = read_limits({});
    std::string_view instance;
    for (Reader in = reader(message); in.next();) {
        switch (in.tag_and_type()) {
            case varint(pb::HelloReply::kVersionFieldNumber):
                out.version = in.get_uint32();
                break;
            case bytes(pb::HelloReply::kInstanceFieldNumber):
                instance = read_bytes(in);
                break;
            case bytes(pb::HelloReply::kLimitsFieldNumber):
                out.limits = read_limits(read_bytes(in));
                break;
            case varint(pb::HelloReply::kWindowLeftMsFieldNumber):
                out.window_left_ms = in.get_uint64();
                break;
            case bytes(pb::HelloReply::kDefaultAccessFieldNumber):
                out.default_access = read_access(read_bytes(in));
                break;
            default:
                in.skip();
        }
    }
    auto id = read_id(instance, {"hello.instance"});
    if (!id) {
        return pass_on(id);
    }
    out.instance = *id;
    if (out.limits.packet_bytes == 0 || out.limits.packet_fds == 0 || out.limits.descriptor_bytes == 0 ||
        out.limits.unacked_releases == 0) {
        return invalid({"hello.limits"}, "a limit is 0: nothing could ever be sent");
    }
    return out;
}

Result<PacketMessage> read_publish_reply(std::string_view message) {
    PublishReply out;
    for (Reader in = reader(message); in.next();) {
        if (in.tag_and_type() == varint(pb::PublishReply::kVersionFieldNumber)) {
            out.version = in.get_uint64();
        } else {
            in.skip();
        }
    }
    return out;
}

Result<PacketMessage> read_attach_reply(std::string_view message, std::size_t fd_count) {
    AttachReply out;
    std::string_view capsule;
    std::string_view name;
    std::string_view descriptor;
    Parts segment_parts;
    Parts placement_parts;
    for (Reader in = reader(message); in.next();) {
        switch (in.tag_and_type()) {
            case bytes(pb::AttachReply::kCapsuleFieldNumber):
                capsule = read_bytes(in);
                break;
            case bytes(pb::AttachReply::kNameFieldNumber):
                name = read_bytes(in);
                break;
            case varint(pb::AttachReply::kVersionFieldNumber):
                out.version = in.get_uint64();
                break;
            case bytes(pb::AttachReply::kDescriptorFieldNumber):
                descriptor = read_bytes(in);
                break;
            case bytes(pb::AttachReply::kSegmentsFieldNumber):
                segment_parts.push_back(read_bytes(in));
                break;
            case bytes(pb::AttachReply::kPlacementsFieldNumber):
                placement_parts.push_back(read_bytes(in));
                break;
            case bytes(pb::AttachReply::kAccessFieldNumber):
                out.access = read_access(read_bytes(in));
                break;
            default:
                in.skip();
        }
    }
    auto id = read_capsule_id(capsule, {"attach.capsule.id"});
    if (!id) {
        return pass_on(id);
    }
    out.capsule = *id;
    auto checked_name = read_optional_name(name, {"attach.name"});
    if (!checked_name) {
        return pass_on(checked_name);
    }
    out.name = std::move(*checked_name);
    auto checked_descriptor = read_descriptor(descriptor, {"attach.descriptor"});
    if (!checked_descriptor) {
        return pass_on(checked_descriptor);
    }
    out.descriptor = std::move(*checked_descriptor);
    auto segments = read_segments(segment_parts, "attach.segments");
    if (!segments) {
        return pass_on(segments);
    }
    out.segments = std::move(*segments);
    if (auto checked = check_fd_count(out.segments, fd_count, "attach.segments"); !checked) {
        return pass_on(checked);
    }
    auto placements = read_placements(placement_parts, "attach.placements");
    if (!placements) {
        return pass_on(placements);
    }
    out.placements = std::move(*placements);
    return out;
}

Result<Info> read_info(std::string_view part, std::size_t index) {
    Info out;
    std::string_view capsule;
    std::string_view name;
    std::string_view descriptor;
    for (Reader in = reader(part); in.next();) {
        switch (in.tag_and_type()) {
            case bytes(pb::Info::kCapsuleFieldNumber):
                capsule = read_bytes(in);
                break;
            case bytes(pb::Info::kNameFieldNumber):
                name = read_bytes(in);
                break;
            case varint(pb::Info::kVersionFieldNumber):
                out.version = in.get_uint64();
                break;
            case varint(pb::Info::kBytesFieldNumber):
                out.bytes = in.get_uint64();
                break;
            case varint(pb::Info::kLeasesFieldNumber):
                out.leases = in.get_uint64();
                break;
            case bytes(pb::Info::kAccessFieldNumber):
                out.access = read_access(read_bytes(in));
                break;
            case varint(pb::Info::kRetiredFieldNumber):
                out.retired = read_bool(in);
                break;
            case varint(pb::Info::kLingeringFieldNumber):
                out.lingering = read_bool(in);
                break;
            case varint(pb::Info::kPidFieldNumber):
                out.pid = in.get_int32();
                break;
            case bytes(pb::Info::kDescriptorFieldNumber):
                descriptor = read_bytes(in);
                break;
            case varint(pb::Info::kImmutableFieldNumber):
                out.immutable = read_bool(in);
                break;
            case varint(pb::Info::kUnsealedFieldNumber):
                out.unsealed = read_bool(in);
                break;
            case varint(pb::Info::kOnceFieldNumber):
                out.once = read_bool(in);
                break;
            case varint(pb::Info::kProducerGoneFieldNumber):
                out.producer_gone = read_bool(in);
                break;
            case varint(pb::Info::kExpiresMsFieldNumber):
                out.expires_ms = in.get_uint64();
                break;
            default:
                in.skip();
        }
    }
    const Path path{"list.capsules", index};
    auto id = read_capsule_id(capsule, path.with_tail(".capsule.id"));
    if (!id) {
        return pass_on(id);
    }
    out.capsule = *id;
    auto checked_name = read_optional_name(name, path.with_tail(".name"));
    if (!checked_name) {
        return pass_on(checked_name);
    }
    out.name = std::move(*checked_name);
    auto checked_descriptor = read_descriptor(descriptor, path.with_tail(".descriptor"));
    if (!checked_descriptor) {
        return pass_on(checked_descriptor);
    }
    out.descriptor = std::move(*checked_descriptor);
    return out;
}

Result<PacketMessage> read_list_reply(std::string_view message) {
    ListReply out;
    std::string_view cursor;
    for (Reader in = reader(message); in.next();) {
        switch (in.tag_and_type()) {
            case bytes(pb::ListReply::kCapsulesFieldNumber): {
                auto info = read_info(read_bytes(in), out.capsules.size());
                if (!info) {
                    return pass_on(info);
                }
                out.capsules.push_back(std::move(*info));
                break;
            }
            case bytes(pb::ListReply::kCursorFieldNumber):
                cursor = read_bytes(in);
                break;
            default:
                in.skip();
        }
    }
    if (cursor.size() > kMaxCursorBytes) {
        return over_limit({"list.cursor"}, "cursor_bytes", kMaxCursorBytes, cursor.size(), "the cursor", "bytes");
    }
    out.cursor = cursor;
    return out;
}

Use read_use(std::string_view part) {
    Use out;
    for (Reader in = reader(part); in.next();) {
        switch (in.tag_and_type()) {
            case bytes(pb::Use::kNameFieldNumber):
                out.name = printable(read_bytes(in));
                break;
            case varint(pb::Use::kUidFieldNumber):
                out.uid = in.get_uint32();
                break;
            case varint(pb::Use::kUsedFieldNumber):
                out.used = in.get_uint64();
                break;
            case varint(pb::Use::kLimitFieldNumber):
                out.limit = in.get_uint64();
                break;
            default:
                in.skip();
        }
    }
    return out;
}

Writing read_writing(std::string_view part) {
    Writing out;
    for (Reader in = reader(part); in.next();) {
        switch (in.tag_and_type()) {
            case varint(pb::Writing::kUidFieldNumber):
                out.uid = in.get_uint32();
                break;
            case varint(pb::Writing::kPidFieldNumber):
                out.pid = in.get_int32();
                break;
            case varint(pb::Writing::kBytesFieldNumber):
                out.bytes = in.get_uint64();
                break;
            case varint(pb::Writing::kAgeMsFieldNumber):
                out.age_ms = in.get_uint64();
                break;
            default:
                in.skip();
        }
    }
    return out;
}

Holder read_holder(std::string_view part) {
    Holder out;
    for (Reader in = reader(part); in.next();) {
        switch (in.tag_and_type()) {
            case bytes(pb::Holder::kNameFieldNumber):
                out.name = printable(read_bytes(in));
                break;
            case varint(pb::Holder::kUidFieldNumber):
                out.uid = in.get_uint32();
                break;
            case varint(pb::Holder::kPidFieldNumber):
                out.pid = in.get_int32();
                break;
            case bytes(pb::Holder::kClientNameFieldNumber):
                out.client_name = printable(read_bytes(in));
                break;
            case varint(pb::Holder::kUsedFieldNumber):
                out.used = in.get_uint64();
                break;
            case varint(pb::Holder::kLimitFieldNumber):
                out.limit = in.get_uint64();
                break;
            default:
                in.skip();
        }
    }
    return out;
}

Result<PacketMessage> read_status_reply(std::string_view message) {
    StatusReply out;
    for (Reader in = reader(message); in.next();) {
        switch (in.tag_and_type()) {
            case bytes(pb::StatusReply::kUsesFieldNumber):
                out.uses.push_back(read_use(read_bytes(in)));
                break;
            case bytes(pb::StatusReply::kWritingFieldNumber):
                out.writing.push_back(read_writing(read_bytes(in)));
                break;
            case bytes(pb::StatusReply::kDaemonVersionFieldNumber):
                out.daemon_version = printable(read_bytes(in));
                break;
            case bytes(pb::StatusReply::kHoldersFieldNumber):
                out.holders.push_back(read_holder(read_bytes(in)));
                break;
            case varint(pb::StatusReply::kUptimeMsFieldNumber):
                out.uptime_ms = in.get_uint64();
                break;
            default:
                in.skip();
        }
    }
    return out;
}

Result<PacketMessage> read_group_reply(std::string_view message) {
    GroupReply out;
    for (Reader in = reader(message); in.next();) {
        switch (in.tag_and_type()) {
            case bytes(pb::GroupReply::kVersionsFieldNumber): {  // packed, as proto3 has it
                const auto packed = in.get_packed_uint64();
                out.versions.insert(out.versions.end(), packed.begin(), packed.end());
                break;
            }
            case varint(pb::GroupReply::kVersionsFieldNumber):
                out.versions.push_back(in.get_uint64());
                break;
            default:
                in.skip();
        }
    }
    return out;
}

/// Checks an enum of an event: 0 is never valid, above `last` is for newer clients.
Result<void> check_event_enum(std::int32_t value, int last, std::string_view field) {
    if (value == 0) {
        return invalid({field}, "0 is never valid");
    }
    if (value < 0 || value > last) {
        return fail_field(Errc::Unsupported, std::string(field),
                          "the value " + std::to_string(value) + " is not known here");
    }
    return {};
}

Result<PacketMessage> read_lease_event(std::string_view message) {
    LeaseEvent out;
    std::string_view capsule;
    std::string_view lease_part;
    std::int32_t what = 0;
    for (Reader in = reader(message); in.next();) {
        switch (in.tag_and_type()) {
            case bytes(pb::LeaseEvent::kCapsuleFieldNumber):
                capsule = read_bytes(in);
                break;
            case bytes(pb::LeaseEvent::kLeaseFieldNumber):
                lease_part = read_bytes(in);
                break;
            case varint(pb::LeaseEvent::kWhatFieldNumber):
                what = in.get_int32();
                break;
            case varint(pb::LeaseEvent::kRemainingFieldNumber):
                out.remaining = in.get_uint64();
                break;
            default:
                in.skip();
        }
    }
    if (auto checked = check_event_enum(what, pb::LeaseEvent::What_MAX, "lease.what"); !checked) {
        return pass_on(checked);
    }
    out.what = static_cast<LeaseEvent::What>(what);
    auto id = read_capsule_id(capsule, {"lease.capsule.id"});
    if (!id) {
        return pass_on(id);
    }
    out.capsule = *id;
    auto lease = read_lease_id(lease_part, {"lease.lease.session_hash"});
    if (!lease) {
        return pass_on(lease);
    }
    out.lease = *lease;
    return out;
}

Result<PacketMessage> read_window_closed(std::string_view message) {
    WindowClosed out;
    std::string_view capsule;
    for (Reader in = reader(message); in.next();) {
        switch (in.tag_and_type()) {
            case bytes(pb::WindowClosed::kCapsuleFieldNumber):
                capsule = read_bytes(in);
                break;
            case bytes(pb::WindowClosed::kOpenFieldNumber): {
                auto lease = read_lease_id(read_bytes(in), {"window_closed.open", out.open.size(), ".session_hash"});
                if (!lease) {
                    return pass_on(lease);
                }
                out.open.push_back(*lease);
                break;
            }
            case varint(pb::WindowClosed::kMoreFieldNumber):
                out.more = read_bool(in);
                break;
            default:
                in.skip();
        }
    }
    auto id = read_capsule_id(capsule, {"window_closed.capsule.id"});
    if (!id) {
        return pass_on(id);
    }
    out.capsule = *id;
    return out;
}

Result<PacketMessage> read_ended(std::string_view message) {
    std::string_view capsule;
    bool reusable = false;
    for (Reader in = reader(message); in.next();) {
        switch (in.tag_and_type()) {
            case bytes(pb::Ended::kCapsuleFieldNumber):
                capsule = read_bytes(in);
                break;
            case varint(pb::Ended::kReusableFieldNumber):
                reusable = read_bool(in);
                break;
            default:
                in.skip();
        }
    }
    auto id = read_capsule_id(capsule, {"ended.capsule.id"});
    if (!id) {
        return pass_on(id);
    }
    return Ended{*id, reusable};
}

/// Retired and ProducerLost: a capsule is all they have, in the same field.
template <class Event>
Result<PacketMessage> read_capsule_event(std::string_view message, int field, const Path& path) {
    std::string_view capsule;
    for (Reader in = reader(message); in.next();) {
        if (in.tag_and_type() == bytes(field)) {
            capsule = read_bytes(in);
        } else {
            in.skip();
        }
    }
    auto id = read_capsule_id(capsule, path);
    if (!id) {
        return pass_on(id);
    }
    return Event{*id};
}

Result<PacketMessage> read_watched(std::string_view message) {
    Watched out;
    std::optional<std::string_view> capsule;
    std::string_view name;
    std::int32_t what = 0;
    for (Reader in = reader(message); in.next();) {
        switch (in.tag_and_type()) {
            case varint(pb::Watched::kWatchFieldNumber):
                out.watch = in.get_uint64();
                break;
            case varint(pb::Watched::kWhatFieldNumber):
                what = in.get_int32();
                break;
            case bytes(pb::Watched::kCapsuleFieldNumber):
                capsule = read_bytes(in);
                break;
            case bytes(pb::Watched::kNameFieldNumber):
                name = read_bytes(in);
                break;
            case varint(pb::Watched::kVersionFieldNumber):
                out.version = in.get_uint64();
                break;
            default:
                in.skip();
        }
    }
    if (auto checked = check_event_enum(what, pb::Watched::What_MAX, "watched.what"); !checked) {
        return pass_on(checked);
    }
    out.what = static_cast<Watched::What>(what);
    if (capsule || !may_lack_capsule(out.what)) {
        auto id = read_capsule_id(capsule.value_or(std::string_view()), {"watched.capsule.id"});
        if (!id) {
            return pass_on(id);
        }
        out.capsule = *id;
    }
    auto checked_name = read_optional_name(name, {"watched.name"});
    if (!checked_name) {
        return pass_on(checked_name);
    }
    out.name = std::move(*checked_name);
    return out;
}

enum class Kind : std::uint8_t { Unknown, Reply, Event };

Kind kind_of(std::uint32_t message) {
    switch (message) {
        case pb::Packet::kErrorFieldNumber:
        case pb::Packet::kDoneFieldNumber:
        case pb::Packet::kHelloFieldNumber:
        case pb::Packet::kPublishFieldNumber:
        case pb::Packet::kAttachFieldNumber:
        case pb::Packet::kListFieldNumber:
        case pb::Packet::kStatusFieldNumber:
        case pb::Packet::kGroupFieldNumber:
            return Kind::Reply;
        case pb::Packet::kLeaseFieldNumber:
        case pb::Packet::kEndedFieldNumber:
        case pb::Packet::kWatchedFieldNumber:
        case pb::Packet::kWindowClosedFieldNumber:
        case pb::Packet::kClosingFieldNumber:
        case pb::Packet::kRetiredFieldNumber:
        case pb::Packet::kProducerLostFieldNumber:
        case pb::Packet::kSegmentsGoneFieldNumber:
        case pb::Packet::kClaimsRefusedFieldNumber:
            return Kind::Event;
        default:
            return Kind::Unknown;
    }
}

/// A packet's own field, and its message still as bytes.
struct Envelope {
    std::uint64_t request_id = 0;
    std::uint32_t message = 0;  ///< the number of its last message, of those that are known if there is one
    Kind kind = Kind::Unknown;
    std::string_view body;
};

Envelope read_envelope(std::span<const std::byte> packet) {
    Envelope out;
    Reader in(reinterpret_cast<const char*>(packet.data()), packet.size());
    while (in.next()) {
        if (in.tag_and_type() == varint(pb::Packet::kRequestIdFieldNumber)) {
            out.request_id = in.get_uint64();
            continue;
        }
        if (in.wire_type() != protozero::pbf_wire_type::length_delimited) {
            in.skip();
            continue;
        }
        const std::uint32_t number = in.tag();
        const std::string_view body = read_bytes(in);
        if (number == pb::Packet::kMoreFieldNumber) {
            continue;
        }
        const Kind kind = kind_of(number);
        if (kind != Kind::Unknown || out.kind == Kind::Unknown) {
            out.message = number;
            out.kind = kind;
            out.body = body;
        }
    }
    return out;
}

Result<PacketMessage> read_message(const Envelope& in, std::size_t fd_count) {
    if (in.message == 0) {
        return fail(Errc::Protocol, "the packet has no message");
    }
    if (in.kind == Kind::Unknown) {
        return fail(in.request_id == 0 ? Errc::Unsupported : Errc::Protocol,
                    "the packet's message has the number " + std::to_string(in.message) + ", which is not known here");
    }
    if ((in.kind == Kind::Event) != (in.request_id == 0)) {
        return fail(Errc::Protocol, in.request_id == 0 ? "a reply came without the id of its request"
                                                       : "an event came with the id of a request");
    }
    if (in.message == pb::Packet::kAttachFieldNumber) {
        return read_attach_reply(in.body, fd_count);
    }
    if (fd_count != 0 && fd_count != kAnyFdCount) {
        return fail(Errc::Protocol, std::to_string(fd_count) + " descriptors came with a message that carries none");
    }
    switch (in.message) {
        case pb::Packet::kErrorFieldNumber: {
            auto error = read_error(in.body, "error");
            if (!error) {
                return pass_on(error);
            }
            return PacketMessage(std::move(*error));
        }
        case pb::Packet::kClosingFieldNumber: {
            auto error = read_error(in.body, "closing");
            if (!error) {
                return pass_on(error);
            }
            return Closing{std::move(*error)};
        }
        case pb::Packet::kDoneFieldNumber:
            return Done{};
        case pb::Packet::kHelloFieldNumber:
            return read_hello_reply(in.body);
        case pb::Packet::kPublishFieldNumber:
            return read_publish_reply(in.body);
        case pb::Packet::kListFieldNumber:
            return read_list_reply(in.body);
        case pb::Packet::kStatusFieldNumber:
            return read_status_reply(in.body);
        case pb::Packet::kGroupFieldNumber:
            return read_group_reply(in.body);
        case pb::Packet::kLeaseFieldNumber:
            return read_lease_event(in.body);
        case pb::Packet::kEndedFieldNumber:
            return read_ended(in.body);
        case pb::Packet::kRetiredFieldNumber:
            return read_capsule_event<Retired>(in.body, pb::Retired::kCapsuleFieldNumber, {"retired.capsule.id"});
        case pb::Packet::kWatchedFieldNumber:
            return read_watched(in.body);
        case pb::Packet::kProducerLostFieldNumber:
            return read_capsule_event<ProducerLost>(in.body, pb::ProducerLost::kCapsuleFieldNumber,
                                                    {"producer_lost.capsule.id"});
        case pb::Packet::kSegmentsGoneFieldNumber:
            return SegmentsGone{read_numbers(in.body, pb::SegmentsGone::kSegmentFieldNumber)};
        case pb::Packet::kWindowClosedFieldNumber:
            return read_window_closed(in.body);
        case pb::Packet::kClaimsRefusedFieldNumber:
            return ClaimsRefused{read_numbers(in.body, pb::ClaimsRefused::kLeaseFieldNumber)};
        default:
            return fail(Errc::Protocol, "a reply came that this version never asks for");
    }
}

}  // namespace

Result<Packet> decode_packet(std::span<const std::byte> packet, std::size_t fd_count) {
    try {
        const Envelope in = read_envelope(packet);
        auto message = read_message(in, fd_count);
        if (!message) {
            Error& error = message.error();
            if (error.code != Errc::Unsupported) {
                error.code = Errc::Protocol;
            }
            return pass_on(message);
        }
        return Packet{in.request_id, std::move(*message)};
    } catch (const protozero::exception&) {
        return fail(Errc::Protocol, "what came is no Packet of hurray.broker.v1");
    }
}

Result<std::vector<std::string_view>> more_in(std::span<const std::byte> packet) {
    std::vector<std::string_view> more;
    try {
        for (Reader in(reinterpret_cast<const char*>(packet.data()), packet.size()); in.next();) {
            if (in.tag_and_type() == bytes(pb::Packet::kMoreFieldNumber)) {
                more.push_back(read_bytes(in));
            } else {
                in.skip();
            }
        }
        return more;
    } catch (const protozero::exception&) {
        return fail(Errc::Protocol, "what came is no Packet of hurray.broker.v1");
    }
}

}  // namespace hurray::wire
