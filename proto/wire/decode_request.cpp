#include <algorithm>
#include <optional>
#include <utility>

#include "proto/wire/access.hpp"
#include "proto/wire/codec.hpp"
#include "proto/wire/names.hpp"
#include "proto/wire/parts.hpp"
#include "proto/wire/text.hpp"

namespace hurray::wire {
namespace {

Result<RequestMessage> read_hello(std::string_view message) {
    Hello out;
    std::string_view client_name;
    std::string_view session;
    std::string_view last_instance;
    for (Reader in = reader(message); in.next();) {
        switch (in.tag_and_type()) {
            case varint(pb::Hello::kVersionMinFieldNumber):
                out.version_min = in.get_uint32();
                break;
            case varint(pb::Hello::kVersionMaxFieldNumber):
                out.version_max = in.get_uint32();
                break;
            case bytes(pb::Hello::kClientNameFieldNumber):
                client_name = read_bytes(in);
                break;
            case bytes(pb::Hello::kSessionFieldNumber):
                session = read_bytes(in);
                break;
            case bytes(pb::Hello::kLastInstanceFieldNumber):
                last_instance = read_bytes(in);
                break;
            case varint(pb::Hello::kKeepsSegmentsFieldNumber):
                out.keeps_segments = read_bool(in);
                break;
            case varint(pb::Hello::kTakesBundlesFieldNumber):
                out.takes_bundles = read_bool(in);
                break;
            default:
                in.skip();
        }
    }
    if (out.version_min == 0) {
        return invalid({"hello.version_min"}, "versions of the protocol start at 1, not 0");
    }
    if (out.version_max < out.version_min) {
        return invalid({"hello.version_max"}, "version_max " + std::to_string(out.version_max) +
                                                  " is below version_min " + std::to_string(out.version_min));
    }
    if (client_name.size() > kMaxClientNameBytes) {
        return over_limit({"hello.client_name"}, "client_name_bytes", kMaxClientNameBytes, client_name.size(),
                          "the client's name", "bytes");
    }
    if (auto checked = check_text(client_name, "the client's name", "hello.client_name"); !checked) {
        return pass_on(checked);
    }
    auto id = read_id(session, {"hello.session"});
    if (!id) {
        return pass_on(id);
    }
    if (!last_instance.empty()) {
        auto instance = read_id(last_instance, {"hello.last_instance"});
        if (!instance) {
            return pass_on(instance);
        }
        out.last_instance = *instance;
    }
    out.client_name = client_name;
    out.session = *id;
    return out;
}

/// What goes with the version of a capsule that a former life of the daemon had.
Result<void> check_offered_again(const Publish& publish) {
    if (publish.version > kMaxVersion) {
        return invalid({"publish.version"}, "version " + std::to_string(publish.version) + " is above " +
                                                std::to_string(kMaxVersion) + ", the highest there may be");
    }
    if (publish.version != 0 && publish.group != 0) {
        return invalid({"publish.group"}, "a capsule that is offered again was visible before, and is in no group");
    }
    if (publish.version == 0 && publish.retired) {
        return invalid({"publish.retired"}, "only a capsule that is offered again, with its version, can be retired");
    }
    if (publish.taken_by.lease != 0 && (publish.version == 0 || !publish.once)) {
        return invalid({"publish.taken_by"},
                       "only a capsule that was published once and is offered again, with its version, can be taken");
    }
    return {};
}

/// How many versions of its name can be attached: 0 stands for 1.
Result<void> set_retain(Publish& publish, std::uint64_t retain) {
    if (retain > kMaxRetain) {
        Error error{Errc::Limit,
                    "retain is " + std::to_string(retain) + "; at most " + std::to_string(kMaxRetain) + " are allowed",
                    "publish.retain"};
        error.limit_name = "retained_versions";
        error.limit = kMaxRetain;
        error.value = retain;
        return fail(std::move(error));
    }
    if (retain > 1 && publish.once) {
        return invalid({"publish.retain"},
                       "a capsule that is published once replaces no other, so nothing is retained");
    }
    publish.retain = retain != 0 ? static_cast<std::uint32_t>(retain) : 1;
    return {};
}

Result<RequestMessage> read_publish(std::string_view message, std::size_t fd_count) {
    constexpr std::string_view kSegments = "publish.segments";
    std::string_view capsule;
    std::string_view name;
    std::string_view descriptor;
    Parts segment_parts;
    Parts placement_parts;
    std::optional<std::string_view> taken_by;
    std::uint64_t retain = 0;
    Publish out;
    for (Reader in = reader(message); in.next();) {
        switch (in.tag_and_type()) {
            case bytes(pb::Publish::kCapsuleFieldNumber):
                capsule = read_bytes(in);
                break;
            case bytes(pb::Publish::kNameFieldNumber):
                name = read_bytes(in);
                break;
            case bytes(pb::Publish::kDescriptorFieldNumber):
                descriptor = read_bytes(in);
                break;
            case bytes(pb::Publish::kSegmentsFieldNumber):
                segment_parts.push_back(read_bytes(in));
                break;
            case bytes(pb::Publish::kPlacementsFieldNumber):
                placement_parts.push_back(read_bytes(in));
                break;
            case bytes(pb::Publish::kAccessFieldNumber):
                out.access = read_access(read_bytes(in));
                break;
            case varint(pb::Publish::kRetainFieldNumber):
                retain = in.get_uint64();
                break;
            case varint(pb::Publish::kOnceFieldNumber):
                out.once = read_bool(in);
                break;
            case varint(pb::Publish::kLingerMsFieldNumber):
                out.linger_ms = in.get_uint64();
                break;
            case varint(pb::Publish::kGroupFieldNumber):
                out.group = in.get_uint64();
                break;
            case varint(pb::Publish::kVersionFieldNumber):
                out.version = in.get_uint64();
                break;
            case varint(pb::Publish::kRetiredFieldNumber):
                out.retired = read_bool(in);
                break;
            case bytes(pb::Publish::kTakenByFieldNumber):
                taken_by = read_bytes(in);
                break;
            default:
                in.skip();
        }
    }
    auto id = read_id(capsule, {"publish.capsule"});
    if (!id) {
        return pass_on(id);
    }
    out.capsule = *id;
    auto checked_name = read_optional_name(name, {"publish.name"});
    if (!checked_name) {
        return pass_on(checked_name);
    }
    out.name = std::move(*checked_name);
    if (auto checked = set_retain(out, retain); !checked) {
        return pass_on(checked);
    }
    if (out.access) {
        if (auto checked = check_mode(out.access->mode, "publish.access.mode"); !checked) {
            return pass_on(checked);
        }
    }
    if (taken_by) {
        auto lease = read_lease_id(*taken_by, {"publish.taken_by.session_hash"});
        if (!lease) {
            return pass_on(lease);
        }
        if (lease->lease == 0) {
            return invalid({"publish.taken_by.lease"}, "lease numbers start at 1, not 0");
        }
        out.taken_by = *lease;
    }
    if (auto checked = check_offered_again(out); !checked) {
        return pass_on(checked);
    }
    auto checked_descriptor = read_descriptor(descriptor, {"publish.descriptor"});
    if (!checked_descriptor) {
        return pass_on(checked_descriptor);
    }
    out.descriptor = std::move(*checked_descriptor);
    auto segments = read_segments(segment_parts, kSegments);
    if (!segments) {
        return pass_on(segments);
    }
    out.segments = std::move(*segments);
    for (std::size_t i = 0; i < out.segments.size(); ++i) {
        if (out.segments[i].memory > Memory::Dmabuf) {  // of GPUs
            return not_yet({kSegments, i, ".memory"});
        }
        if (out.version != 0 && !out.segments[i].carries_fd) {
            return invalid({kSegments, i, ".carries_fd"},
                           "a capsule that is offered again brings the descriptor of each of its segments");
        }
    }
    if (auto checked = check_fd_count(out.segments, fd_count, kSegments); !checked) {
        return pass_on(checked);
    }
    auto placements = read_placements(placement_parts, "publish.placements");
    if (!placements) {
        return pass_on(placements);
    }
    out.placements = std::move(*placements);
    return out;
}

Result<RequestMessage> read_attach(std::string_view message) {
    Attach out;
    std::optional<std::string_view> name;
    std::optional<std::string_view> capsule;
    std::uint64_t version = 0;
    std::uint64_t newer_than = 0;
    for (Reader in = reader(message); in.next();) {
        switch (in.tag_and_type()) {
            case varint(pb::Attach::kLeaseFieldNumber):
                out.lease = in.get_uint64();
                break;
            case bytes(pb::Attach::kNameFieldNumber):
                name = read_bytes(in);
                capsule.reset();
                break;
            case bytes(pb::Attach::kCapsuleFieldNumber):
                capsule = read_bytes(in);
                name.reset();
                break;
            case varint(pb::Attach::kVersionFieldNumber):
                version = in.get_uint64();
                break;
            case varint(pb::Attach::kNewerThanFieldNumber):
                newer_than = in.get_uint64();
                break;
            case varint(pb::Attach::kLastSeenFieldNumber):
                out.last_seen = in.get_uint64();
                break;
            case varint(pb::Attach::kImmutableOnlyFieldNumber):
                out.immutable_only = read_bool(in);
                break;
            case varint(pb::Attach::kAllowUnsealedFieldNumber):
                out.allow_unsealed = read_bool(in);
                break;
            case varint(pb::Attach::kTakeFieldNumber):
                out.take = read_bool(in);
                break;
            default:
                in.skip();
        }
    }
    if (out.lease == 0) {
        return invalid({"attach.lease"}, "lease numbers start at 1, not 0");
    }
    if (name) {
        if (auto checked = check_name(*name, "attach.name"); !checked) {
            return pass_on(checked);
        }
        out.what = std::string(*name);
    } else if (capsule) {
        auto id = read_capsule_id(*capsule, {"attach.capsule.id"});
        if (!id) {
            return pass_on(id);
        }
        out.what = *id;
    } else {
        return invalid({"attach"}, "neither name nor capsule says what to attach");
    }
    if (version != 0 && newer_than != 0) {
        return invalid({"attach.newer_than"}, "version " + std::to_string(version) + " and newer_than " +
                                                  std::to_string(newer_than) + " are both given: at most one may be");
    }
    if (version != 0) {
        out.which = Which::Exactly;
        out.version = version;
    } else if (newer_than != 0) {
        out.which = Which::NewerThan;
        out.version = newer_than;
    }
    if (out.take && (out.which != Which::Latest || out.last_seen != 0)) {
        return invalid({"attach.take"},
                       "what is taken is the oldest there is: version, newer_than and last_seen must be 0");
    }
    return out;
}

Result<RequestMessage> read_release(std::string_view message) {
    auto leases = read_numbers(message, pb::Release::kLeaseFieldNumber);
    if (leases.empty()) {
        return invalid({"release.lease"}, "no lease is named");
    }
    if (leases.size() > kMaxReleaseLeases) {
        return over_limit({"release.lease"}, "release_leases", kMaxReleaseLeases, leases.size(), "the release",
                          "leases");
    }
    const auto zero = std::find(leases.begin(), leases.end(), 0U);
    if (zero != leases.end()) {
        return invalid({"release.lease", static_cast<std::size_t>(zero - leases.begin())},
                       "lease numbers start at 1, not 0");
    }
    return Release{std::move(leases)};
}

Result<RequestMessage> read_cancel(std::string_view message) {
    Cancel out;
    for (Reader in = reader(message); in.next();) {
        if (in.tag_and_type() == varint(pb::Cancel::kRequestIdFieldNumber)) {
            out.request_id = in.get_uint64();
        } else {
            in.skip();
        }
    }
    if (out.request_id == 0) {
        return invalid({"cancel.request_id"}, "request ids start at 1, not 0");
    }
    return out;
}

Result<RequestMessage> read_withdraw(std::string_view message) {
    std::string_view capsule;
    for (Reader in = reader(message); in.next();) {
        if (in.tag_and_type() == bytes(pb::Withdraw::kCapsuleFieldNumber)) {
            capsule = read_bytes(in);
        } else {
            in.skip();
        }
    }
    auto id = read_capsule_id(capsule, {"withdraw.capsule.id"});
    if (!id) {
        return pass_on(id);
    }
    return Withdraw{*id};
}

Result<RequestMessage> read_list(std::string_view message) {
    List out;
    std::string_view pattern;
    std::string_view cursor;
    for (Reader in = reader(message); in.next();) {
        switch (in.tag_and_type()) {
            case bytes(pb::List::kPatternFieldNumber):
                pattern = read_bytes(in);
                break;
            case bytes(pb::List::kCursorFieldNumber):
                cursor = read_bytes(in);
                break;
            case varint(pb::List::kLimitFieldNumber):
                out.limit = in.get_uint32();
                break;
            case varint(pb::List::kWithDescriptorFieldNumber):
                out.with_descriptor = read_bool(in);
                break;
            default:
                in.skip();
        }
    }
    if (auto checked = check_pattern(pattern, "list.pattern"); !checked) {
        return pass_on(checked);
    }
    if (cursor.size() > kMaxCursorBytes) {
        return over_limit({"list.cursor"}, "cursor_bytes", kMaxCursorBytes, cursor.size(), "the cursor", "bytes");
    }
    out.pattern = pattern;
    out.cursor = cursor;
    return out;
}

Result<RequestMessage> read_watch(std::string_view message) {
    Watch out;
    std::string_view pattern;
    for (Reader in = reader(message); in.next();) {
        switch (in.tag_and_type()) {
            case varint(pb::Watch::kWatchFieldNumber):
                out.watch = in.get_uint64();
                break;
            case bytes(pb::Watch::kPatternFieldNumber):
                pattern = read_bytes(in);
                break;
            default:
                in.skip();
        }
    }
    if (out.watch == 0) {
        return invalid({"watch.watch"}, "watch numbers start at 1, not 0");
    }
    if (auto checked = check_pattern(pattern, "watch.pattern"); !checked) {
        return pass_on(checked);
    }
    out.pattern = pattern;
    return out;
}

Result<RequestMessage> read_unwatch(std::string_view message) {
    Unwatch out;
    for (Reader in = reader(message); in.next();) {
        if (in.tag_and_type() == varint(pb::Unwatch::kWatchFieldNumber)) {
            out.watch = in.get_uint64();
        } else {
            in.skip();
        }
    }
    if (out.watch == 0) {
        return invalid({"unwatch.watch"}, "watch numbers start at 1, not 0");
    }
    return out;
}

Result<RequestMessage> read_reserve(std::string_view message) {
    Reserve out;
    for (Reader in = reader(message); in.next();) {
        switch (in.tag_and_type()) {
            case varint(pb::Reserve::kReservationFieldNumber):
                out.reservation = in.get_uint64();
                break;
            case varint(pb::Reserve::kBytesFieldNumber):
                out.bytes = in.get_uint64();
                break;
            default:
                in.skip();
        }
    }
    if (out.reservation == 0) {
        return invalid({"reserve.reservation"}, "reservation numbers start at 1, not 0");
    }
    if (out.bytes == 0) {
        return invalid({"reserve.bytes"}, "a reservation of 0 bytes: nothing needs none");
    }
    if (out.bytes > kMaxFileBytes) {
        return invalid({"reserve.bytes"}, "a reservation of " + std::to_string(out.bytes) +
                                              " bytes: a file has at most " + std::to_string(kMaxFileBytes));
    }
    return out;
}

Result<RequestMessage> read_unreserve(std::string_view message) {
    Unreserve out;
    for (Reader in = reader(message); in.next();) {
        if (in.tag_and_type() == varint(pb::Unreserve::kReservationFieldNumber)) {
            out.reservation = in.get_uint64();
        } else {
            in.skip();
        }
    }
    if (out.reservation == 0) {
        return invalid({"unreserve.reservation"}, "reservation numbers start at 1, not 0");
    }
    return out;
}

/// Forget and Drop: one segment at least, and no more than surely fit a packet.
Result<void> check_segment_count(const std::vector<std::uint64_t>& segments, const Path& path,
                                 std::string_view limit_name, std::string_view thing) {
    if (segments.empty()) {
        return invalid(path, "no segment is named");
    }
    if (segments.size() > kMaxSegmentNumbers) {
        return over_limit(path, limit_name, kMaxSegmentNumbers, segments.size(), thing, "segments");
    }
    return {};
}

Result<RequestMessage> read_forget(std::string_view message) {
    auto segments = read_numbers(message, pb::Forget::kSegmentFieldNumber);
    if (auto checked = check_segment_count(segments, {"forget.segment"}, "forget_segments", "the forget"); !checked) {
        return pass_on(checked);
    }
    return Forget{std::move(segments)};
}

Result<RequestMessage> read_drop(std::string_view message) {
    auto segments = read_numbers(message, pb::Drop::kSegmentFieldNumber);
    if (auto checked = check_segment_count(segments, {"drop.segment"}, "drop_segments", "the drop"); !checked) {
        return pass_on(checked);
    }
    return Drop{std::move(segments)};
}

Result<RequestMessage> read_group(std::string_view message) {
    Group out;
    std::int32_t action = 0;
    for (Reader in = reader(message); in.next();) {
        switch (in.tag_and_type()) {
            case varint(pb::Group::kGroupFieldNumber):
                out.group = in.get_uint64();
                break;
            case varint(pb::Group::kActionFieldNumber):
                action = in.get_int32();
                break;
            default:
                in.skip();
        }
    }
    if (out.group == 0) {
        return invalid({"group.group"}, "group numbers start at 1, not 0");
    }
    if (action < static_cast<int>(Group::Action::Begin) || action > static_cast<int>(Group::Action::Abort)) {
        return invalid({"group.action"}, "action " + std::to_string(action) +
                                             " is not known: 1 begins a group, 2 commits and 3 aborts it");
    }
    out.action = static_cast<Group::Action>(action);
    return out;
}

Result<RequestMessage> read_confirm(std::string_view message) {
    Confirm out;
    for (Reader in = reader(message); in.next();) {
        if (in.tag_and_type() == varint(pb::Confirm::kLeaseFieldNumber)) {
            out.lease = in.get_uint64();
        } else {
            in.skip();
        }
    }
    if (out.lease == 0) {
        return invalid({"confirm.lease"}, "lease numbers start at 1, not 0");
    }
    return out;
}

Result<RequestMessage> read_claims(std::string_view message) {
    Claims out;
    constexpr std::size_t kLeastBytes = 28;  // of one with an honest capsule id
    out.claims.reserve(std::min(message.size() / kLeastBytes, kMaxClaims));
    for (Reader in = reader(message); in.next();) {
        if (in.tag_and_type() != bytes(pb::Claims::kClaimFieldNumber)) {
            in.skip();
            continue;
        }
        const std::size_t index = out.claims.size();
        if (index == kMaxClaims) {
            return invalid({"claims.claim"},
                           "more than " + std::to_string(kMaxClaims) + " claims, the most there may be");
        }
        constexpr std::string_view kClaim = "claims.claim";
        Claims::Claim& claim = out.claims.emplace_back();
        std::string_view capsule;
        std::int32_t state = 0;
        for (Reader part = reader(read_bytes(in)); part.next();) {
            switch (part.tag_and_type()) {
                case bytes(pb::Claims::Claim::kCapsuleFieldNumber):
                    capsule = read_bytes(part);
                    break;
                case varint(pb::Claims::Claim::kLeaseFieldNumber):
                    claim.lease = part.get_uint64();
                    break;
                case varint(pb::Claims::Claim::kStateFieldNumber):
                    state = part.get_int32();
                    break;
                default:
                    part.skip();
            }
        }
        auto id = read_capsule_id(capsule, {kClaim, index, ".capsule.id"});
        if (!id) {
            return pass_on(id);
        }
        claim.capsule = *id;
        if (claim.lease == 0) {
            return invalid({kClaim, index, ".lease"}, "lease numbers start at 1, not 0");
        }
        if (state < static_cast<int>(Claims::State::Held) || state > static_cast<int>(Claims::State::Confirmed)) {
            return invalid({kClaim, index, ".state"},
                           "state " + std::to_string(state) + " is not known: 1 is held, 2 released, 3 confirmed");
        }
        claim.state = static_cast<Claims::State>(state);
    }
    if (out.claims.empty()) {
        return invalid({"claims.claim"}, "no lease is named");
    }
    return out;
}

/// What a request is called in paths; empty: no message that this version knows.
std::string_view name_of(std::uint32_t message) {
    switch (message) {
        case pb::Request::kHelloFieldNumber:
            return "hello";
        case pb::Request::kPublishFieldNumber:
            return "publish";
        case pb::Request::kAttachFieldNumber:
            return "attach";
        case pb::Request::kReleaseFieldNumber:
            return "release";
        case pb::Request::kCancelFieldNumber:
            return "cancel";
        case pb::Request::kWithdrawFieldNumber:
            return "withdraw";
        case pb::Request::kListFieldNumber:
            return "list";
        case pb::Request::kWatchFieldNumber:
            return "watch";
        case pb::Request::kUnwatchFieldNumber:
            return "unwatch";
        case pb::Request::kStatusFieldNumber:
            return "status";
        case pb::Request::kReserveFieldNumber:
            return "reserve";
        case pb::Request::kUnreserveFieldNumber:
            return "unreserve";
        case pb::Request::kForgetFieldNumber:
            return "forget";
        case pb::Request::kDropFieldNumber:
            return "drop";
        case pb::Request::kConfirmFieldNumber:
            return "confirm";
        case pb::Request::kGroupFieldNumber:
            return "group";
        case pb::Request::kClaimsFieldNumber:
            return "claims";
        case pb::Request::kResumeDoneFieldNumber:
            return "resume_done";
        default:
            return {};
    }
}

/// A request's own fields, and its message still as bytes.
struct Envelope {
    std::uint64_t request_id = 0;
    std::optional<std::uint64_t> timeout_ms;
    std::uint32_t message = 0;  ///< the number of its last message, of those that are known if there is one
    std::string_view name;      ///< what that is called; empty: it is not known
    std::string_view body;
};

Envelope read_envelope(std::span<const std::byte> packet) {
    constexpr std::uint32_t kFirstMessage = pb::Request::kHelloFieldNumber;  // numbers below are the envelope's own
    Envelope out;
    Reader in(reinterpret_cast<const char*>(packet.data()), packet.size());
    while (in.next()) {
        switch (in.tag_and_type()) {
            case varint(pb::Request::kRequestIdFieldNumber):
                out.request_id = in.get_uint64();
                continue;
            case varint(pb::Request::kTimeoutMsFieldNumber):
                out.timeout_ms = in.get_uint64();
                continue;
            default:
                break;
        }
        const std::uint32_t number = in.tag();
        if (number < kFirstMessage || in.wire_type() != protozero::pbf_wire_type::length_delimited) {
            in.skip();
            continue;
        }
        const std::string_view body = read_bytes(in);
        const std::string_view name = name_of(number);
        if (!name.empty() || out.name.empty()) {
            out.message = number;
            out.name = name;
            out.body = body;
        }
    }
    return out;
}

Result<RequestMessage> read_message(const Envelope& in, std::size_t fd_count) {
    if (in.message == 0) {
        return fail(Errc::Protocol, "the request has no message");
    }
    if (in.name.empty()) {
        return fail(Errc::Unsupported,
                    "the request's message has the number " + std::to_string(in.message) + ", which is not known here");
    }
    if (in.message == pb::Request::kPublishFieldNumber) {
        return read_publish(in.body, fd_count);
    }
    if (fd_count != 0 && fd_count != kAnyFdCount) {
        return invalid({in.name},
                       std::string(in.name) + " carries no descriptors, but " + std::to_string(fd_count) + " came");
    }
    switch (in.message) {
        case pb::Request::kHelloFieldNumber:
            return read_hello(in.body);
        case pb::Request::kAttachFieldNumber:
            return read_attach(in.body);
        case pb::Request::kReleaseFieldNumber:
            return read_release(in.body);
        case pb::Request::kCancelFieldNumber:
            return read_cancel(in.body);
        case pb::Request::kWithdrawFieldNumber:
            return read_withdraw(in.body);
        case pb::Request::kListFieldNumber:
            return read_list(in.body);
        case pb::Request::kWatchFieldNumber:
            return read_watch(in.body);
        case pb::Request::kUnwatchFieldNumber:
            return read_unwatch(in.body);
        case pb::Request::kStatusFieldNumber:
            return StatusRequest{};
        case pb::Request::kReserveFieldNumber:
            return read_reserve(in.body);
        case pb::Request::kUnreserveFieldNumber:
            return read_unreserve(in.body);
        case pb::Request::kForgetFieldNumber:
            return read_forget(in.body);
        case pb::Request::kDropFieldNumber:
            return read_drop(in.body);
        case pb::Request::kConfirmFieldNumber:
            return read_confirm(in.body);
        case pb::Request::kGroupFieldNumber:
            return read_group(in.body);
        case pb::Request::kClaimsFieldNumber:
            return read_claims(in.body);
        case pb::Request::kResumeDoneFieldNumber:
            return ResumeDone{};
        default:
            return not_yet({in.name});
    }
}

}  // namespace

tl::expected<Request, Refusal> decode_request(std::span<const std::byte> packet, std::size_t fd_count) {
    try {
        const Envelope in = read_envelope(packet);
        if (in.request_id == 0) {
            return tl::unexpected(Refusal{0, {Errc::Protocol, "request ids start at 1, not 0", "request_id"}});
        }
        auto message = read_message(in, fd_count);
        if (!message) {
            return tl::unexpected(Refusal{in.request_id, std::move(message.error())});
        }
        return Request{in.request_id, in.timeout_ms, std::move(*message)};
    } catch (const protozero::exception&) {
        return tl::unexpected(Refusal{0, {Errc::Protocol, "the packet is no Request of hurray.broker.v1"}});
    }
}

}  // namespace hurray::wire
