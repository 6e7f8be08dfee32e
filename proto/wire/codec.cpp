#include "proto/wire/codec.hpp"

#include <algorithm>
#include <array>
#include <climits>
#include <cstring>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include <google/protobuf/arena.h>
#include <google/protobuf/io/coded_stream.h>

#include "hurray/broker/v1/broker.pb.h"

namespace hurray::wire {
namespace {

namespace pb = broker::v1;

/// Messages live in an arena whose first block is on the stack: enough for whatever has no long lists. An arena, since
/// reuse of one message gains nothing: clearing a oneof throws its message away.
constexpr std::size_t kArenaBlockBytes = 4096;

class MessageArena {
  public:
    MessageArena() : arena_(block_.data(), block_.size()) {}

    template <class Message>
    [[nodiscard]] Message* create() {
        return google::protobuf::Arena::CreateMessage<Message>(&arena_);
    }

  private:
    alignas(16) std::array<char, kArenaBlockBytes> block_;  // not initialised: the arena overwrites it
    google::protobuf::Arena arena_;
};

// ---- Errors ---------------------------------------------------------------------------------------------------------

/// Where a field is, as text only once there is an error to report: "publish.segments", 3, ".size".
struct Path {
    static constexpr std::size_t kNone = SIZE_MAX;

    std::string_view head;
    std::size_t index = kNone;
    std::string_view tail = {};

    [[nodiscard]] Path with_tail(std::string_view new_tail) const { return {head, index, new_tail}; }

    [[nodiscard]] std::string text() const {
        std::string result(head);
        if (index != kNone) {
            result += '[';
            result += std::to_string(index);
            result += ']';
        }
        result += tail;
        return result;
    }
};

tl::unexpected<Error> invalid(const Path& path, std::string message) {
    return fail_field(Errc::InvalidArgument, path.text(), std::move(message));
}

tl::unexpected<Error> not_yet(const Path& path) {
    std::string field = path.text();
    std::string message = field + " is not supported yet";
    return fail_field(Errc::Unsupported, std::move(field), std::move(message));
}

/// "the name has 300 bytes; at most 255 are allowed".
tl::unexpected<Error> over_limit(const Path& path, std::string_view limit_name, std::uint64_t limit,
                                 std::uint64_t value, std::string_view thing, std::string_view unit,
                                 std::string_view hint = {}) {
    std::string message(thing);
    message += " has " + std::to_string(value) + ' ';
    message += unit;
    message += "; at most " + std::to_string(limit) + " are allowed";
    message += hint;
    return fail(Error{.code = Errc::Limit,
                      .message = std::move(message),
                      .field = path.text(),
                      .limit_name = std::string(limit_name),
                      .limit = limit,
                      .value = value});
}

/// Passes a failure on as the failure of another type of result.
template <class T>
tl::unexpected<Error> pass_on(Result<T>& failed) {
    return tl::unexpected<Error>(std::move(failed.error()));
}

// ---- Text -----------------------------------------------------------------------------------------------------------

/// One character of UTF-8, and how many bytes it takes; 0 bytes: not UTF-8.
struct Character {
    char32_t code = 0;
    std::size_t bytes = 0;
};

/// Strict: no overlong forms, no surrogates, nothing above U+10FFFF. `text` is not empty.
Character next_character(std::string_view text) noexcept {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    const unsigned char first = byte(0);
    if (first < 0x80) {
        return {first, 1};
    }
    std::size_t bytes = 0;
    char32_t code = 0;
    char32_t least = 0;
    if ((first & 0xE0U) == 0xC0) {
        bytes = 2;
        code = first & 0x1FU;
        least = 0x80;
    } else if ((first & 0xF0U) == 0xE0) {
        bytes = 3;
        code = first & 0x0FU;
        least = 0x800;
    } else if ((first & 0xF8U) == 0xF0) {
        bytes = 4;
        code = first & 0x07U;
        least = 0x10000;
    } else {
        return {};
    }
    if (text.size() < bytes) {
        return {};
    }
    for (std::size_t i = 1; i < bytes; ++i) {
        if ((byte(i) & 0xC0U) != 0x80) {
            return {};
        }
        code = (code << 6U) | (byte(i) & 0x3FU);
    }
    if (code < least || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) {
        return {};
    }
    return {code, bytes};
}

bool is_control(char32_t code) noexcept { return code < 0x20 || (code >= 0x7F && code <= 0x9F); }

std::string hexadecimal(std::uint32_t value, int digits) {
    constexpr std::string_view kDigits = "0123456789ABCDEF";
    std::string text;
    for (int shift = (digits - 1) * 4; shift >= 0; shift -= 4) {
        text += kDigits[(value >> static_cast<unsigned>(shift)) & 0xFU];
    }
    return text;
}

/// UTF-8 without control characters. Bad bytes are named by their number, never shown.
Result<void> check_text(std::string_view text, std::string_view thing, std::string_view field) {
    for (std::size_t at = 0; at < text.size();) {
        const Character character = next_character(text.substr(at));
        if (character.bytes == 0) {
            return fail_field(Errc::InvalidArgument, std::string(field),
                              std::string(thing) + " is not UTF-8: byte 0x" +
                                  hexadecimal(static_cast<unsigned char>(text[at]), 2) + " at position " +
                                  std::to_string(at));
        }
        if (is_control(character.code)) {
            return fail_field(Errc::InvalidArgument, std::string(field),
                              std::string(thing) + " holds the control character U+" +
                                  hexadecimal(static_cast<std::uint32_t>(character.code), 4) + " at position " +
                                  std::to_string(at));
        }
        at += character.bytes;
    }
    return {};
}

/// `text` with '?' for each byte that is not UTF-8 and for each control character: fit for a protobuf string and a
/// person's terminal, whoever wrote it.
std::string printable(std::string_view text) {
    std::string result;
    result.reserve(text.size());
    while (!text.empty()) {
        const Character character = next_character(text);
        if (character.bytes == 0 || is_control(character.code)) {
            result += '?';
        } else {
            result += text.substr(0, character.bytes);
        }
        text.remove_prefix(std::max<std::size_t>(character.bytes, 1));
    }
    return result;
}

/// Checks the segments between the slashes of `name`, which is not empty.
Result<void> check_parts(std::string_view name, std::string_view field) {
    for (std::size_t begin = 0;;) {
        const std::size_t end = std::min(name.find('/', begin), name.size());
        const std::string_view part = name.substr(begin, end - begin);
        if (part.empty() || part == "." || part == "..") {
            std::string message = "the name \"" + std::string(name) + "\" ";
            if (part.empty()) {
                message += begin == 0             ? "begins with \"/\": it has "
                           : begin == name.size() ? "ends in \"/\", as only patterns do: it has "
                                                  : "has ";
                message += "an empty segment";
            } else {
                message += "is no path: it has a segment \"" + std::string(part) + "\"";
            }
            message += " at position " + std::to_string(begin);
            return fail_field(Errc::InvalidArgument, std::string(field), std::move(message));
        }
        if (end == name.size()) {
            return {};
        }
        begin = end + 1;
    }
}

// ---- Reading: parts -------------------------------------------------------------------------------------------------

Result<Id16> read_id(const std::string& bytes, const Path& path) {
    Id16 id;
    if (bytes.size() != id.bytes.size()) {
        return invalid(path, "an id has 16 bytes, not " + std::to_string(bytes.size()));
    }
    std::memcpy(id.bytes.data(), bytes.data(), id.bytes.size());
    return id;
}

/// `path` is that of the capsule id without its tail.
Result<CapsuleId> read_capsule_id(const pb::CapsuleId& in, const Path& path) {
    auto id = read_id(in.id(), path);
    if (!id) {
        return pass_on(id);
    }
    return CapsuleId{in.uid(), *id};
}

Result<std::string> read_descriptor(std::string* in, const Path& path) {
    if (in->size() > kMaxDescriptorBytes) {
        return over_limit(path, "descriptor_bytes", kMaxDescriptorBytes, in->size(), "the descriptor", "bytes");
    }
    return std::move(*in);
}

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

Result<std::vector<Segment>> read_segments(const google::protobuf::RepeatedPtrField<pb::Segment>& in,
                                           std::string_view head) {
    const auto count = static_cast<std::size_t>(in.size());
    if (count > kMaxSegments) {
        return over_limit({head}, "segments", kMaxSegments, count, "the capsule", "segments",
                          ": let several buffers share a segment");
    }
    std::vector<Segment> segments;
    segments.reserve(count);
    for (const pb::Segment& segment : in) {
        const Path path{head, segments.size()};
        switch (segment.memory()) {
            case pb::REUSABLE:
            case pb::IMMUTABLE:
            case pb::DMABUF:
            case pb::GPU_LEGACY:
            case pb::GPU_VMM:
            case pb::GPU_POOL:
                break;
            default:
                return invalid(
                    path.with_tail(".memory"),
                    "memory of kind " + std::to_string(static_cast<int>(segment.memory())) + " is not known");
        }
        if (segment.size() == 0) {
            return invalid(path.with_tail(".size"), "a segment of 0 bytes: empty buffers need no segment");
        }
        segments.push_back(Segment{.number = segment.number(),
                                   .carries_fd = segment.carries_fd(),
                                   .memory = static_cast<Memory>(segment.memory()),
                                   .size = segment.size(),
                                   .reservation = segment.reservation()});
    }
    if (const auto repeated = repeated_number(segments)) {
        return invalid({head, *repeated, ".number"}, "segment number " + std::to_string(segments[*repeated].number) +
                                                         " is used twice in this message");
    }
    return segments;
}

Result<void> check_fd_count(const std::vector<Segment>& segments, std::size_t fd_count, std::string_view field) {
    const auto needed = static_cast<std::size_t>(
        std::count_if(segments.begin(), segments.end(), [](const Segment& segment) { return segment.carries_fd; }));
    if (needed != fd_count && fd_count != kAnyFdCount) {
        return invalid({field}, std::to_string(needed) + " segments carry a descriptor, but " +
                                    std::to_string(fd_count) + " descriptors came");
    }
    return {};
}

Result<std::vector<Placement>> read_placements(const google::protobuf::RepeatedPtrField<pb::Placement>& in,
                                               std::string_view head) {
    const auto count = static_cast<std::size_t>(in.size());
    if (count > kMaxBuffers) {
        return over_limit({head}, "buffers", kMaxBuffers, count, "the capsule", "placements");
    }
    std::vector<Placement> placements;
    placements.reserve(count);
    for (const pb::Placement& placement : in) {
        placements.push_back(Placement{placement.segment(), placement.offset()});
    }
    return placements;
}

// ---- Reading: requests ----------------------------------------------------------------------------------------------

Result<RequestMessage> read(pb::Hello* in) {
    if (in->version_min() == 0) {
        return invalid({"hello.version_min"}, "versions of the protocol start at 1, not 0");
    }
    if (in->version_max() < in->version_min()) {
        return invalid({"hello.version_max"}, "version_max " + std::to_string(in->version_max()) +
                                                  " is below version_min " + std::to_string(in->version_min()));
    }
    if (in->client_name().size() > kMaxClientNameBytes) {
        return over_limit({"hello.client_name"}, "client_name_bytes", kMaxClientNameBytes, in->client_name().size(),
                          "the client's name", "bytes");
    }
    if (auto checked = check_text(in->client_name(), "the client's name", "hello.client_name"); !checked) {
        return pass_on(checked);
    }
    auto session = read_id(in->session(), {"hello.session"});
    if (!session) {
        return pass_on(session);
    }
    if (!in->last_instance().empty()) {
        return not_yet({"hello.last_instance"});
    }
    return Hello{.version_min = in->version_min(),
                 .version_max = in->version_max(),
                 .client_name = std::move(*in->mutable_client_name()),
                 .session = *session,
                 .last_instance = std::nullopt};
}

/// The first field of `in` that is set and not built yet; empty: none.
std::string_view field_not_yet(const pb::Publish& in) {
    if (in.has_access()) {
        return "publish.access";
    }
    if (in.retain() != 0) {
        return "publish.retain";
    }
    if (in.once()) {
        return "publish.once";
    }
    if (in.has_linger_ms()) {
        return "publish.linger_ms";
    }
    if (in.group() != 0) {
        return "publish.group";
    }
    if (in.version() != 0) {
        return "publish.version";
    }
    if (in.retired()) {
        return "publish.retired";
    }
    if (in.has_taken_by()) {
        return "publish.taken_by";
    }
    return {};
}

Result<RequestMessage> read(pb::Publish* in, std::size_t fd_count) {
    constexpr std::string_view kSegments = "publish.segments";
    auto capsule = read_id(in->capsule(), {"publish.capsule"});
    if (!capsule) {
        return pass_on(capsule);
    }
    if (!in->name().empty()) {
        if (auto checked = check_name(in->name(), "publish.name"); !checked) {
            return pass_on(checked);
        }
    }
    if (const std::string_view field = field_not_yet(*in); !field.empty()) {
        return not_yet({field});
    }
    auto descriptor = read_descriptor(in->mutable_descriptor(), {"publish.descriptor"});
    if (!descriptor) {
        return pass_on(descriptor);
    }
    auto segments = read_segments(in->segments(), kSegments);
    if (!segments) {
        return pass_on(segments);
    }
    for (std::size_t i = 0; i < segments->size(); ++i) {
        if ((*segments)[i].memory != Memory::Reusable) {
            return not_yet({kSegments, i, ".memory"});
        }
        if ((*segments)[i].reservation != 0) {
            return not_yet({kSegments, i, ".reservation"});
        }
    }
    if (auto checked = check_fd_count(*segments, fd_count, kSegments); !checked) {
        return pass_on(checked);
    }
    auto placements = read_placements(in->placements(), "publish.placements");
    if (!placements) {
        return pass_on(placements);
    }
    return Publish{.capsule = *capsule,
                   .name = std::move(*in->mutable_name()),
                   .descriptor = std::move(*descriptor),
                   .segments = std::move(*segments),
                   .placements = std::move(*placements)};
}

Result<RequestMessage> read(pb::Attach* in) {
    Attach out;
    out.lease = in->lease();
    if (out.lease == 0) {
        return invalid({"attach.lease"}, "lease numbers start at 1, not 0");
    }
    switch (in->what_case()) {
        case pb::Attach::kName:
            if (auto checked = check_name(in->name(), "attach.name"); !checked) {
                return pass_on(checked);
            }
            out.what = std::move(*in->mutable_name());
            break;
        case pb::Attach::kCapsule: {
            auto capsule = read_capsule_id(in->capsule(), {"attach.capsule.id"});
            if (!capsule) {
                return pass_on(capsule);
            }
            out.what = *capsule;
            break;
        }
        case pb::Attach::WHAT_NOT_SET:
            return invalid({"attach"}, "neither name nor capsule says what to attach");
    }
    if (in->version() != 0 && in->newer_than() != 0) {
        return invalid({"attach.newer_than"}, "version " + std::to_string(in->version()) + " and newer_than " +
                                                  std::to_string(in->newer_than()) +
                                                  " are both given: at most one may be");
    }
    if (in->version() != 0) {
        out.which = Which::Exactly;
        out.version = in->version();
    } else if (in->newer_than() != 0) {
        out.which = Which::NewerThan;
        out.version = in->newer_than();
    }
    out.last_seen = in->last_seen();
    if (in->immutable_only()) {
        return not_yet({"attach.immutable_only"});
    }
    if (in->allow_unsealed()) {
        return not_yet({"attach.allow_unsealed"});
    }
    if (in->take()) {
        return not_yet({"attach.take"});
    }
    return out;
}

Result<RequestMessage> read(const pb::Release& in) {
    const auto count = static_cast<std::size_t>(in.lease_size());
    if (count == 0) {
        return invalid({"release.lease"}, "no lease is named");
    }
    if (count > kMaxReleaseLeases) {
        return over_limit({"release.lease"}, "release_leases", kMaxReleaseLeases, count, "the release", "leases");
    }
    const auto zero = std::find(in.lease().begin(), in.lease().end(), 0U);
    if (zero != in.lease().end()) {
        return invalid({"release.lease", static_cast<std::size_t>(zero - in.lease().begin())},
                       "lease numbers start at 1, not 0");
    }
    return Release{{in.lease().begin(), in.lease().end()}};
}

Result<RequestMessage> read(const pb::Cancel& in) {
    if (in.request_id() == 0) {
        return invalid({"cancel.request_id"}, "request ids start at 1, not 0");
    }
    return Cancel{in.request_id()};
}

Result<RequestMessage> read(const pb::Withdraw& in) {
    auto capsule = read_capsule_id(in.capsule(), {"withdraw.capsule.id"});
    if (!capsule) {
        return pass_on(capsule);
    }
    return Withdraw{*capsule};
}

Result<RequestMessage> read(pb::List* in) {
    if (auto checked = check_pattern(in->pattern(), "list.pattern"); !checked) {
        return pass_on(checked);
    }
    if (in->cursor().size() > kMaxCursorBytes) {
        return over_limit({"list.cursor"}, "cursor_bytes", kMaxCursorBytes, in->cursor().size(), "the cursor", "bytes");
    }
    return List{.pattern = std::move(*in->mutable_pattern()),
                .cursor = std::move(*in->mutable_cursor()),
                .limit = in->limit(),
                .with_descriptor = in->with_descriptor()};
}

Result<RequestMessage> read(pb::Watch* in) {
    if (in->watch() == 0) {
        return invalid({"watch.watch"}, "watch numbers start at 1, not 0");
    }
    if (auto checked = check_pattern(in->pattern(), "watch.pattern"); !checked) {
        return pass_on(checked);
    }
    return Watch{.watch = in->watch(), .pattern = std::move(*in->mutable_pattern())};
}

Result<RequestMessage> read(const pb::Unwatch& in) {
    if (in.watch() == 0) {
        return invalid({"unwatch.watch"}, "watch numbers start at 1, not 0");
    }
    return Unwatch{in.watch()};
}

/// What a request is called in paths; empty: no message that this version knows.
std::string_view name_of(pb::Request::MessageCase message) {
    switch (message) {
        case pb::Request::kHello:
            return "hello";
        case pb::Request::kPublish:
            return "publish";
        case pb::Request::kAttach:
            return "attach";
        case pb::Request::kRelease:
            return "release";
        case pb::Request::kCancel:
            return "cancel";
        case pb::Request::kWithdraw:
            return "withdraw";
        case pb::Request::kList:
            return "list";
        case pb::Request::kWatch:
            return "watch";
        case pb::Request::kUnwatch:
            return "unwatch";
        case pb::Request::kStatus:
            return "status";
        case pb::Request::kReserve:
            return "reserve";
        case pb::Request::kUnreserve:
            return "unreserve";
        case pb::Request::kForget:
            return "forget";
        case pb::Request::kDrop:
            return "drop";
        case pb::Request::kConfirm:
            return "confirm";
        case pb::Request::kGroup:
            return "group";
        case pb::Request::kClaims:
            return "claims";
        case pb::Request::kResumeDone:
            return "resume_done";
        case pb::Request::MESSAGE_NOT_SET:
            break;
    }
    return {};
}

/// The field number of the message in a packet that was parsed and has none that is known; 0: it has none at all.
std::uint32_t unknown_message(std::span<const std::byte> packet) {
    // Numbers below are the envelope's own; a message travels as a length and its bytes.
    constexpr std::uint32_t kFirstMessage = 10;
    google::protobuf::io::CodedInputStream in(reinterpret_cast<const std::uint8_t*>(packet.data()),
                                              static_cast<int>(packet.size()));
    while (const std::uint32_t tag = in.ReadTag()) {
        const std::uint32_t number = tag >> 3U;
        std::uint64_t ignored = 0;
        std::uint32_t length = 0;
        bool skipped = false;
        switch (tag & 7U) {
            case 0:
                skipped = in.ReadVarint64(&ignored);
                break;
            case 1:
                skipped = in.Skip(8);
                break;
            case 2:
                if (number >= kFirstMessage) {
                    return number;
                }
                skipped = in.ReadVarint32(&length) && length <= INT_MAX && in.Skip(static_cast<int>(length));
                break;
            case 5:
                skipped = in.Skip(4);
                break;
            default:
                break;  // groups: nobody has sent any for twenty years
        }
        if (!skipped) {
            return 0;
        }
    }
    return 0;
}

Result<RequestMessage> read_message(pb::Request* in, std::span<const std::byte> packet, std::size_t fd_count) {
    const auto message_case = in->message_case();
    const std::string_view name = name_of(message_case);
    if (name.empty()) {
        if (const std::uint32_t number = unknown_message(packet); number != 0) {
            return fail(Errc::Unsupported,
                        "the request's message has the number " + std::to_string(number) + ", which is not known here");
        }
        return fail(Errc::Protocol, "the request has no message");
    }
    if (message_case == pb::Request::kPublish) {
        return read(in->mutable_publish(), fd_count);
    }
    if (fd_count != 0 && fd_count != kAnyFdCount) {
        return invalid({name},
                       std::string(name) + " carries no descriptors, but " + std::to_string(fd_count) + " came");
    }
    switch (message_case) {
        case pb::Request::kHello:
            return read(in->mutable_hello());
        case pb::Request::kAttach:
            return read(in->mutable_attach());
        case pb::Request::kRelease:
            return read(in->release());
        case pb::Request::kCancel:
            return read(in->cancel());
        case pb::Request::kWithdraw:
            return read(in->withdraw());
        case pb::Request::kList:
            return read(in->mutable_list());
        case pb::Request::kWatch:
            return read(in->mutable_watch());
        case pb::Request::kUnwatch:
            return read(in->unwatch());
        case pb::Request::kStatus:
            return StatusRequest{};
        default:
            return not_yet({name});
    }
}

// ---- Reading: packets -----------------------------------------------------------------------------------------------
//
// The readers of parts above name the rule that was broken; decode_packet() turns whatever they say into Protocol.

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

Result<Error> read_error(const pb::Error& in, std::string_view head) {
    if (in.status() >= 0) {
        return invalid({head, Path::kNone, ".status"}, "status " + std::to_string(in.status()) + " is no failure");
    }
    const auto code = errc_of(in.status());
    Error out{.code = code.value_or(kUnknownStatus),
              .message = printable(in.message()),
              .field = printable(in.field()),
              .limit_name = printable(in.limit_name()),
              .limit = in.limit(),
              .in_use = in.in_use(),
              .value = in.value()};
    if (!code) {
        out.message = "status " + std::to_string(in.status()) + ", which is not known here: " + out.message;
    }
    return out;
}

Result<PacketMessage> read(const pb::HelloReply& in) {
    auto instance = read_id(in.instance(), {"hello.instance"});
    if (!instance) {
        return pass_on(instance);
    }
    const pb::Limits& limits = in.limits();
    if (limits.packet_bytes() == 0 || limits.packet_fds() == 0 || limits.descriptor_bytes() == 0 ||
        limits.unacked_releases() == 0) {
        return invalid({"hello.limits"}, "a limit is 0: nothing could ever be sent");
    }
    return HelloReply{.version = in.version(),
                      .instance = *instance,
                      .limits = {.packet_bytes = limits.packet_bytes(),
                                 .packet_fds = limits.packet_fds(),
                                 .descriptor_bytes = limits.descriptor_bytes(),
                                 .unacked_releases = limits.unacked_releases()},
                      .window_left_ms = in.window_left_ms()};
}

Access read_access(const pb::Access& in) { return {.gid = in.gid(), .mode = in.mode()}; }

Result<PacketMessage> read(pb::AttachReply* in, std::size_t fd_count) {
    auto capsule = read_capsule_id(in->capsule(), {"attach.capsule.id"});
    if (!capsule) {
        return pass_on(capsule);
    }
    if (!in->name().empty()) {
        if (auto checked = check_name(in->name(), "attach.name"); !checked) {
            return pass_on(checked);
        }
    }
    auto descriptor = read_descriptor(in->mutable_descriptor(), {"attach.descriptor"});
    if (!descriptor) {
        return pass_on(descriptor);
    }
    auto segments = read_segments(in->segments(), "attach.segments");
    if (!segments) {
        return pass_on(segments);
    }
    if (auto checked = check_fd_count(*segments, fd_count, "attach.segments"); !checked) {
        return pass_on(checked);
    }
    auto placements = read_placements(in->placements(), "attach.placements");
    if (!placements) {
        return pass_on(placements);
    }
    return AttachReply{.capsule = *capsule,
                       .name = std::move(*in->mutable_name()),
                       .version = in->version(),
                       .descriptor = std::move(*descriptor),
                       .segments = std::move(*segments),
                       .placements = std::move(*placements),
                       .access = read_access(in->access())};
}

Result<Info> read_info(pb::Info* in, std::size_t index) {
    const Path path{"list.capsules", index};
    auto capsule = read_capsule_id(in->capsule(), path.with_tail(".capsule.id"));
    if (!capsule) {
        return pass_on(capsule);
    }
    if (!in->name().empty()) {
        if (auto checked = check_name(in->name(), {}); !checked) {
            checked.error().field = path.with_tail(".name").text();
            return pass_on(checked);
        }
    }
    auto descriptor = read_descriptor(in->mutable_descriptor(), path.with_tail(".descriptor"));
    if (!descriptor) {
        return pass_on(descriptor);
    }
    return Info{.capsule = *capsule,
                .name = std::move(*in->mutable_name()),
                .version = in->version(),
                .bytes = in->bytes(),
                .leases = in->leases(),
                .access = read_access(in->access()),
                .retired = in->retired(),
                .lingering = in->lingering(),
                .pid = in->pid(),
                .descriptor = std::move(*descriptor)};
}

Result<PacketMessage> read(pb::ListReply* in) {
    if (in->cursor().size() > kMaxCursorBytes) {
        return over_limit({"list.cursor"}, "cursor_bytes", kMaxCursorBytes, in->cursor().size(), "the cursor", "bytes");
    }
    ListReply out;
    out.capsules.reserve(static_cast<std::size_t>(in->capsules_size()));
    for (pb::Info& info : *in->mutable_capsules()) {
        auto checked = read_info(&info, out.capsules.size());
        if (!checked) {
            return pass_on(checked);
        }
        out.capsules.push_back(std::move(*checked));
    }
    out.cursor = std::move(*in->mutable_cursor());
    return out;
}

Result<PacketMessage> read(const pb::StatusReply& in) {
    StatusReply out;
    out.uses.reserve(static_cast<std::size_t>(in.uses_size()));
    for (const pb::Use& use : in.uses()) {
        out.uses.push_back(
            Use{.name = printable(use.name()), .uid = use.uid(), .used = use.used(), .limit = use.limit()});
    }
    out.writing.reserve(static_cast<std::size_t>(in.writing_size()));
    for (const pb::Writing& writing : in.writing()) {
        out.writing.push_back(
            Writing{.uid = writing.uid(), .pid = writing.pid(), .bytes = writing.bytes(), .age_ms = writing.age_ms()});
    }
    out.daemon_version = printable(in.daemon_version());
    out.uptime_ms = in.uptime_ms();
    return out;
}

/// Checks an enum of an event: 0 is never valid, above `last` is for newer clients.
Result<void> check_event_enum(int value, int last, std::string_view field) {
    if (value == 0) {
        return invalid({field}, "0 is never valid");
    }
    if (value < 0 || value > last) {
        return fail_field(Errc::Unsupported, std::string(field),
                          "the value " + std::to_string(value) + " is not known here");
    }
    return {};
}

Result<PacketMessage> read(const pb::LeaseEvent& in) {
    if (auto checked = check_event_enum(in.what(), pb::LeaseEvent::What_MAX, "lease.what"); !checked) {
        return pass_on(checked);
    }
    auto capsule = read_capsule_id(in.capsule(), {"lease.capsule.id"});
    if (!capsule) {
        return pass_on(capsule);
    }
    auto session_hash = read_id(in.lease().session_hash(), {"lease.lease.session_hash"});
    if (!session_hash) {
        return pass_on(session_hash);
    }
    return LeaseEvent{.capsule = *capsule,
                      .lease = {.uid = in.lease().uid(), .session_hash = *session_hash, .lease = in.lease().lease()},
                      .what = static_cast<LeaseEvent::What>(in.what()),
                      .remaining = in.remaining()};
}

Result<PacketMessage> read(const pb::Ended& in) {
    auto capsule = read_capsule_id(in.capsule(), {"ended.capsule.id"});
    if (!capsule) {
        return pass_on(capsule);
    }
    return Ended{*capsule, in.reusable()};
}

Result<PacketMessage> read(const pb::Retired& in) {
    auto capsule = read_capsule_id(in.capsule(), {"retired.capsule.id"});
    if (!capsule) {
        return pass_on(capsule);
    }
    return Retired{*capsule};
}

Result<PacketMessage> read(const pb::ProducerLost& in) {
    auto capsule = read_capsule_id(in.capsule(), {"producer_lost.capsule.id"});
    if (!capsule) {
        return pass_on(capsule);
    }
    return ProducerLost{*capsule};
}

/// Whether an event of that kind may be about no capsule, so that its id may be left out.
bool may_lack_capsule(Watched::What what) { return what == Watched::What::SnapshotEnd || what == Watched::What::Gap; }

Result<PacketMessage> read(pb::Watched* in) {
    if (auto checked = check_event_enum(in->what(), pb::Watched::What_MAX, "watched.what"); !checked) {
        return pass_on(checked);
    }
    Watched out;
    out.watch = in->watch();
    out.what = static_cast<Watched::What>(in->what());
    out.version = in->version();
    if (in->has_capsule() || !may_lack_capsule(out.what)) {
        auto capsule = read_capsule_id(in->capsule(), {"watched.capsule.id"});
        if (!capsule) {
            return pass_on(capsule);
        }
        out.capsule = *capsule;
    }
    if (!in->name().empty()) {
        if (auto checked = check_name(in->name(), "watched.name"); !checked) {
            return pass_on(checked);
        }
        out.name = std::move(*in->mutable_name());
    }
    return out;
}

bool is_event(pb::Packet::MessageCase message) {
    switch (message) {
        case pb::Packet::kLease:
        case pb::Packet::kEnded:
        case pb::Packet::kWatched:
        case pb::Packet::kWindowClosed:
        case pb::Packet::kClosing:
        case pb::Packet::kRetired:
        case pb::Packet::kProducerLost:
            return true;
        default:
            return false;
    }
}

Result<PacketMessage> read_message(pb::Packet* in, std::span<const std::byte> packet, std::size_t fd_count) {
    const auto message_case = in->message_case();
    if (message_case == pb::Packet::MESSAGE_NOT_SET) {
        const std::uint32_t number = unknown_message(packet);
        if (number == 0) {
            return fail(Errc::Protocol, "the packet has no message");
        }
        return fail(in->request_id() == 0 ? Errc::Unsupported : Errc::Protocol,
                    "the packet's message has the number " + std::to_string(number) + ", which is not known here");
    }
    if (is_event(message_case) != (in->request_id() == 0)) {
        return fail(Errc::Protocol, in->request_id() == 0 ? "a reply came without the id of its request"
                                                          : "an event came with the id of a request");
    }
    if (message_case == pb::Packet::kAttach) {
        return read(in->mutable_attach(), fd_count);
    }
    if (fd_count != 0 && fd_count != kAnyFdCount) {
        return fail(Errc::Protocol, std::to_string(fd_count) + " descriptors came with a message that carries none");
    }
    switch (message_case) {
        case pb::Packet::kError: {
            auto error = read_error(in->error(), "error");
            if (!error) {
                return pass_on(error);
            }
            return PacketMessage(std::move(*error));
        }
        case pb::Packet::kClosing: {
            auto error = read_error(in->closing(), "closing");
            if (!error) {
                return pass_on(error);
            }
            return Closing{std::move(*error)};
        }
        case pb::Packet::kDone:
            return Done{};
        case pb::Packet::kHello:
            return read(in->hello());
        case pb::Packet::kPublish:
            return PublishReply{in->publish().version()};
        case pb::Packet::kList:
            return read(in->mutable_list());
        case pb::Packet::kStatus:
            return read(in->status());
        case pb::Packet::kLease:
            return read(in->lease());
        case pb::Packet::kEnded:
            return read(in->ended());
        case pb::Packet::kRetired:
            return read(in->retired());
        case pb::Packet::kWatched:
            return read(in->mutable_watched());
        case pb::Packet::kProducerLost:
            return read(in->producer_lost());
        case pb::Packet::kWindowClosed:
            return not_yet({"window_closed"});
        default:
            return fail(Errc::Protocol, "a reply came that this version never asks for");
    }
}

// ---- Writing --------------------------------------------------------------------------------------------------------

void write(const Id16& in, std::string* out) {
    out->assign(reinterpret_cast<const char*>(in.bytes.data()), in.bytes.size());
}

void write(const CapsuleId& in, pb::CapsuleId* out) {
    out->set_uid(in.uid);
    write(in.id, out->mutable_id());
}

void write(const LeaseId& in, pb::LeaseId* out) {
    out->set_uid(in.uid);
    write(in.session_hash, out->mutable_session_hash());
    out->set_lease(in.lease);
}

void write(const Access& in, pb::Access* out) {
    out->set_gid(in.gid);
    out->set_mode(in.mode);
}

template <class Message>
void write_segments_and_placements(const std::vector<Segment>& segments, const std::vector<Placement>& placements,
                                   Message* out) {
    out->mutable_segments()->Reserve(static_cast<int>(segments.size()));
    for (const Segment& segment : segments) {
        pb::Segment* to = out->add_segments();
        to->set_number(segment.number);
        to->set_carries_fd(segment.carries_fd);
        to->set_memory(static_cast<pb::Memory>(segment.memory));
        to->set_size(segment.size);
        to->set_reservation(segment.reservation);
    }
    out->mutable_placements()->Reserve(static_cast<int>(placements.size()));
    for (const Placement& placement : placements) {
        pb::Placement* to = out->add_placements();
        to->set_segment(placement.segment);
        to->set_offset(placement.offset);
    }
}

void write_message(const Hello& in, pb::Request* request) {
    pb::Hello* out = request->mutable_hello();
    out->set_version_min(in.version_min);
    out->set_version_max(in.version_max);
    out->set_client_name(in.client_name);
    write(in.session, out->mutable_session());
    if (in.last_instance) {
        write(*in.last_instance, out->mutable_last_instance());
    }
}

void write_message(const Publish& in, pb::Request* request) {
    pb::Publish* out = request->mutable_publish();
    write(in.capsule, out->mutable_capsule());
    out->set_name(in.name);
    out->set_descriptor(in.descriptor);
    write_segments_and_placements(in.segments, in.placements, out);
}

void write_message(const Attach& in, pb::Request* request) {
    pb::Attach* out = request->mutable_attach();
    out->set_lease(in.lease);
    if (const auto* name = std::get_if<std::string>(&in.what)) {
        out->set_name(*name);
    } else {
        write(std::get<CapsuleId>(in.what), out->mutable_capsule());
    }
    switch (in.which) {
        case Which::Latest:
            break;
        case Which::Exactly:
            out->set_version(in.version);
            break;
        case Which::NewerThan:
            out->set_newer_than(in.version);
            break;
    }
    out->set_last_seen(in.last_seen);
}

void write_message(const Release& in, pb::Request* request) {
    request->mutable_release()->mutable_lease()->Add(in.leases.begin(), in.leases.end());
}

void write_message(const Cancel& in, pb::Request* request) { request->mutable_cancel()->set_request_id(in.request_id); }

void write_message(const Withdraw& in, pb::Request* request) {
    write(in.capsule, request->mutable_withdraw()->mutable_capsule());
}

void write_message(const List& in, pb::Request* request) {
    pb::List* out = request->mutable_list();
    out->set_pattern(in.pattern);
    out->set_cursor(in.cursor);
    out->set_limit(in.limit);
    out->set_with_descriptor(in.with_descriptor);
}

void write_message(const Watch& in, pb::Request* request) {
    pb::Watch* out = request->mutable_watch();
    out->set_watch(in.watch);
    out->set_pattern(in.pattern);
}

void write_message(const Unwatch& in, pb::Request* request) { request->mutable_unwatch()->set_watch(in.watch); }

void write_message(const StatusRequest& /*in*/, pb::Request* request) { static_cast<void>(request->mutable_status()); }

/// Messages for people may quote anything, and a protobuf string that is not UTF-8 would void the whole packet.
void write(const Error& in, pb::Error* out) {
    out->set_status(static_cast<std::int32_t>(in.code));
    out->set_field(printable(in.field));
    out->set_limit_name(printable(in.limit_name));
    out->set_limit(in.limit);
    out->set_in_use(in.in_use);
    out->set_value(in.value);
    out->set_message(printable(in.message));
}

void write_message(const Error& in, pb::Packet* packet) { write(in, packet->mutable_error()); }

void write_message(const Closing& in, pb::Packet* packet) { write(in.error, packet->mutable_closing()); }

void write_message(const Done& /*in*/, pb::Packet* packet) { static_cast<void>(packet->mutable_done()); }

void write_message(const HelloReply& in, pb::Packet* packet) {
    pb::HelloReply* out = packet->mutable_hello();
    out->set_version(in.version);
    write(in.instance, out->mutable_instance());
    pb::Limits* limits = out->mutable_limits();
    limits->set_packet_bytes(in.limits.packet_bytes);
    limits->set_packet_fds(in.limits.packet_fds);
    limits->set_descriptor_bytes(in.limits.descriptor_bytes);
    limits->set_unacked_releases(in.limits.unacked_releases);
    out->set_window_left_ms(in.window_left_ms);
}

void write_message(const PublishReply& in, pb::Packet* packet) { packet->mutable_publish()->set_version(in.version); }

void write_message(const AttachReply& in, pb::Packet* packet) {
    pb::AttachReply* out = packet->mutable_attach();
    write(in.capsule, out->mutable_capsule());
    out->set_name(in.name);
    out->set_version(in.version);
    out->set_descriptor(in.descriptor);
    write_segments_and_placements(in.segments, in.placements, out);
    write(in.access, out->mutable_access());
}

void write_message(const ListReply& in, pb::Packet* packet) {
    pb::ListReply* out = packet->mutable_list();
    for (const Info& info : in.capsules) {
        pb::Info* to = out->add_capsules();
        write(info.capsule, to->mutable_capsule());
        to->set_name(info.name);
        to->set_version(info.version);
        to->set_bytes(info.bytes);
        to->set_leases(info.leases);
        write(info.access, to->mutable_access());
        to->set_retired(info.retired);
        to->set_lingering(info.lingering);
        to->set_pid(info.pid);
        to->set_descriptor(info.descriptor);
    }
    out->set_cursor(in.cursor);
}

void write_message(const StatusReply& in, pb::Packet* packet) {
    pb::StatusReply* out = packet->mutable_status();
    for (const Use& use : in.uses) {
        pb::Use* to = out->add_uses();
        to->set_name(printable(use.name));
        to->set_uid(use.uid);
        to->set_used(use.used);
        to->set_limit(use.limit);
    }
    for (const Writing& writing : in.writing) {
        pb::Writing* to = out->add_writing();
        to->set_uid(writing.uid);
        to->set_pid(writing.pid);
        to->set_bytes(writing.bytes);
        to->set_age_ms(writing.age_ms);
    }
    out->set_daemon_version(printable(in.daemon_version));
    out->set_uptime_ms(in.uptime_ms);
}

void write_message(const LeaseEvent& in, pb::Packet* packet) {
    pb::LeaseEvent* out = packet->mutable_lease();
    write(in.capsule, out->mutable_capsule());
    write(in.lease, out->mutable_lease());
    out->set_what(static_cast<pb::LeaseEvent::What>(in.what));
    out->set_remaining(in.remaining);
}

void write_message(const Ended& in, pb::Packet* packet) {
    pb::Ended* out = packet->mutable_ended();
    write(in.capsule, out->mutable_capsule());
    out->set_reusable(in.reusable);
}

void write_message(const Retired& in, pb::Packet* packet) {
    write(in.capsule, packet->mutable_retired()->mutable_capsule());
}

void write_message(const Watched& in, pb::Packet* packet) {
    pb::Watched* out = packet->mutable_watched();
    out->set_watch(in.watch);
    out->set_what(static_cast<pb::Watched::What>(in.what));
    if (in.capsule != CapsuleId{} || !may_lack_capsule(in.what)) {
        write(in.capsule, out->mutable_capsule());
    }
    out->set_name(in.name);
    out->set_version(in.version);
}

void write_message(const ProducerLost& in, pb::Packet* packet) {
    write(in.capsule, packet->mutable_producer_lost()->mutable_capsule());
}

template <class Message>
bool parse(std::span<const std::byte> packet, Message* out) {
    return packet.size() <= INT_MAX && out->ParseFromArray(packet.data(), static_cast<int>(packet.size()));
}

}  // namespace

// ---- Public ---------------------------------------------------------------------------------------------------------

tl::expected<Request, Refusal> decode_request(std::span<const std::byte> packet, std::size_t fd_count) {
    MessageArena arena;
    auto* in = arena.create<pb::Request>();
    if (!parse(packet, in)) {
        return tl::unexpected(Refusal{0, {Errc::Protocol, "the packet is no Request of hurray.broker.v1"}});
    }
    if (in->request_id() == 0) {
        return tl::unexpected(Refusal{0, {Errc::Protocol, "request ids start at 1, not 0", "request_id"}});
    }
    auto message = read_message(in, packet, fd_count);
    if (!message) {
        return tl::unexpected(Refusal{in->request_id(), std::move(message.error())});
    }
    Request request;
    request.request_id = in->request_id();
    if (in->has_timeout_ms()) {
        request.timeout_ms = in->timeout_ms();
    }
    request.message = std::move(*message);
    return request;
}

Result<Packet> decode_packet(std::span<const std::byte> packet, std::size_t fd_count) {
    MessageArena arena;
    auto* in = arena.create<pb::Packet>();
    if (!parse(packet, in)) {
        return fail(Errc::Protocol, "what came is no Packet of hurray.broker.v1");
    }
    auto message = read_message(in, packet, fd_count);
    if (!message) {
        Error& error = message.error();
        if (error.code != Errc::Unsupported) {
            error.code = Errc::Protocol;
        }
        return pass_on(message);
    }
    return Packet{in->request_id(), std::move(*message)};
}

void encode(const Request& request, std::string& out) {
    MessageArena arena;
    auto* message = arena.create<pb::Request>();
    message->set_request_id(request.request_id);
    if (request.timeout_ms) {
        message->set_timeout_ms(*request.timeout_ms);
    }
    std::visit([&](const auto& part) { write_message(part, message); }, request.message);
    message->SerializeToString(&out);
}

void encode(const Packet& packet, std::string& out) {
    MessageArena arena;
    auto* message = arena.create<pb::Packet>();
    message->set_request_id(packet.request_id);
    std::visit([&](const auto& part) { write_message(part, message); }, packet.message);
    message->SerializeToString(&out);
}

Result<void> check_name(std::string_view name, std::string_view field) {
    if (name.empty()) {
        return fail_field(Errc::InvalidArgument, std::string(field), "the name is empty");
    }
    if (name.size() > kMaxNameBytes) {
        return over_limit({field}, "name_bytes", kMaxNameBytes, name.size(), "the name", "bytes");
    }
    if (auto checked = check_text(name, "the name", field); !checked) {
        return checked;
    }
    return check_parts(name, field);
}

Result<void> check_pattern(std::string_view pattern, std::string_view field) {
    if (pattern.empty()) {
        return {};
    }
    if (pattern.size() > kMaxNameBytes) {
        return over_limit({field}, "name_bytes", kMaxNameBytes, pattern.size(), "the pattern", "bytes");
    }
    if (pattern == "/") {
        return fail_field(Errc::InvalidArgument, std::string(field),
                          "\"/\" is no prefix of a name: all is the empty pattern");
    }
    if (pattern.ends_with('/')) {
        pattern.remove_suffix(1);
    }
    return check_name(pattern, field);
}

bool matches(std::string_view pattern, std::string_view name) noexcept {
    return pattern.empty() || (pattern.ends_with('/') ? name.starts_with(pattern) : name == pattern);
}

}  // namespace hurray::wire
