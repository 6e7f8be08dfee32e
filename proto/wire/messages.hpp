#pragma once

#include <algorithm>
#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "libhurray/base/result.hpp"

/// What travels between daemon and client, as plain values.
///
/// `codec` turns these into protobuf and back; whatever it hands out has been checked: ids have 16 bytes, names and
/// patterns obey the rules, enums are known values, counts are within the limits. What the fields mean, broker.proto
/// says.
namespace hurray::wire {

/// Versions of the protocol that this code speaks.
inline constexpr std::uint32_t kProtocolVersionMin = 1;
inline constexpr std::uint32_t kProtocolVersionMax = 1;

inline constexpr std::size_t kMaxPacketBytes = 64 * 1024;
/// The kernel's own limit for one packet.
inline constexpr std::size_t kMaxPacketFds = 253;
inline constexpr std::size_t kMaxDescriptorBytes = 32 * 1024;
inline constexpr std::size_t kMaxNameBytes = 255;
inline constexpr std::size_t kMaxClientNameBytes = 64;
/// One descriptor each, so no more than a packet carries. More buffers than that share segments.
inline constexpr std::size_t kMaxSegments = kMaxPacketFds;
inline constexpr std::size_t kMaxBuffers = 255;
inline constexpr std::size_t kMaxCursorBytes = 1024;
/// Leases that one Release may name, and segments that one Forget, Drop or SegmentsGone may: as many as surely fit a packet.
inline constexpr std::size_t kMaxReleaseLeases = 4096;
inline constexpr std::size_t kMaxSegmentNumbers = 4096;
/// Claims of one Claims request, and leases that one WindowClosed names: likewise.
inline constexpr std::size_t kMaxClaims = 1024;
inline constexpr std::size_t kMaxOpenLeases = 1024;
/// The kernel's own limit for the size of a file.
inline constexpr std::uint64_t kMaxFileBytes = INT64_MAX;
/// No capsule's version is above this one, so that there are always higher ones to give.
inline constexpr std::uint64_t kMaxVersion = UINT64_MAX / 2;
/// Capsules of one group: as many as have surely room for their versions in a GroupReply. The commit of so many is one step of
/// the daemon, of about ten milliseconds.
inline constexpr std::size_t kMaxGroupMembers = 4096;
/// Groups that a session may have begun and not ended.
inline constexpr std::size_t kMaxOpenGroups = 64;
/// Versions of a name that can be attached at one time: a publish may retire as many, in one step of the daemon.
inline constexpr std::uint64_t kMaxRetain = 4096;

/// 16 bytes that somebody rolled.
struct Id16 {
    std::array<std::uint8_t, 16> bytes{};
    friend auto operator<=>(const Id16&, const Id16&) = default;
};

struct CapsuleId {
    std::uint32_t uid = 0;
    Id16 id;
    friend auto operator<=>(const CapsuleId&, const CapsuleId&) = default;
};

struct LeaseId {
    std::uint32_t uid = 0;
    Id16 session_hash;
    std::uint64_t lease = 0;
    friend auto operator<=>(const LeaseId&, const LeaseId&) = default;
};

/// Who may do what with a capsule, as of a file. See proto/wire/access.hpp.
struct Access {
    std::uint32_t gid = 0;
    std::uint32_t mode = 0;
    friend auto operator<=>(const Access&, const Access&) = default;
};
/// Of a publish: the group that the publisher had when it connected. The number that no group has.
inline constexpr std::uint32_t kOwnGroup = 0xffff'ffff;
/// The bits of a mode that mean something: read and write, of the user, the group and others.
inline constexpr std::uint32_t kAccessBits = 0666;

enum class Memory : std::uint8_t { Reusable = 1, Immutable = 2, Dmabuf = 3, GpuLegacy = 4, GpuVmm = 5, GpuPool = 6 };

struct Segment {
    std::uint64_t number = 0;
    bool carries_fd = false;
    Memory memory = Memory::Reusable;
    std::uint64_t size = 0;
    std::uint64_t reservation = 0;
    friend bool operator==(const Segment&, const Segment&) = default;
};

/// Whether nobody can ever change a byte of a capsule in these segments; so it is where there is no byte.
[[nodiscard]] inline bool is_immutable(const std::vector<Segment>& segments) noexcept {
    return std::all_of(segments.begin(), segments.end(),
                       [](const Segment& segment) { return segment.memory == Memory::Immutable; });
}

/// Whether some of it is memory that has no seals: whoever has its descriptor may write to it.
[[nodiscard]] inline bool is_unsealed(const std::vector<Segment>& segments) noexcept {
    return std::any_of(segments.begin(), segments.end(),
                       [](const Segment& segment) { return segment.memory == Memory::Dmabuf; });
}

/// Unlike all else here not checked by the codec: whether it counts at all, the descriptor says. See
/// check_placements().
struct Placement {
    std::uint32_t segment = 0;
    std::uint64_t offset = 0;
    friend bool operator==(const Placement&, const Placement&) = default;
};

struct Info {
    CapsuleId capsule;
    std::string name;
    std::uint64_t version = 0;
    std::uint64_t bytes = 0;
    std::uint64_t leases = 0;
    Access access;
    bool retired = false;
    bool lingering = false;
    std::int32_t pid = 0;
    std::string descriptor;
    bool immutable = false;
    bool unsealed = false;
    bool once = false;
    bool producer_gone = false;
    std::uint64_t expires_ms = 0;  ///< 0: it does not
};

struct Use {
    std::string name;
    std::uint32_t uid = 0;
    std::uint64_t used = 0;
    std::uint64_t limit = 0;
};

struct Writing {
    std::uint32_t uid = 0;
    std::int32_t pid = 0;
    std::uint64_t bytes = 0;
    std::uint64_t age_ms = 0;
};

/// A client that has much of something, seen by its own user.
struct Holder {
    std::string name;
    std::uint32_t uid = 0;
    std::int32_t pid = 0;
    std::string client_name;
    std::uint64_t used = 0;
    std::uint64_t limit = 0;
};

// ---- Requests -------------------------------------------------------------------------------------------------------

struct Hello {
    std::uint32_t version_min = 0;
    std::uint32_t version_max = 0;
    std::string client_name;
    Id16 session;
    std::optional<Id16> last_instance;
    bool keeps_segments = false;
    bool takes_bundles = false;
};

struct Publish {
    Id16 capsule;
    std::string name;
    std::string descriptor;
    std::vector<Segment> segments;
    std::vector<Placement> placements;
    std::optional<Access> access;  ///< none: as the daemon has it
    std::uint64_t group = 0;       ///< 0: none
    std::uint64_t version = 0;     ///< of a capsule that a former life of the daemon had; 0: it is new
    std::uint32_t retain = 1;      ///< versions of its name that can be attached, this one included
    bool once = false;             ///< it is not attached but taken, by one
    std::optional<std::uint64_t> linger_ms =
        {};                ///< it outlives its session, by so many milliseconds at most; 0: without an end
    bool retired = false;  ///< of a capsule of a former life
    LeaseId taken_by{};    ///< of such a one that was published `once`: the lease that took it; its `lease` 0: none did
};

/// Which version of a name an attach asks for.
enum class Which : std::uint8_t { Latest, Exactly, NewerThan };

struct Attach {
    std::uint64_t lease = 0;
    std::variant<std::string, CapsuleId> what;
    Which which = Which::Latest;
    std::uint64_t version = 0;  ///< of Exactly and NewerThan: above 0, else it travels as Latest
    std::uint64_t last_seen = 0;
    bool immutable_only = false;
    bool allow_unsealed = false;
    bool take = false;  ///< then `which` is Latest, and nothing was seen
};

struct Release {
    std::vector<std::uint64_t> leases;
};

struct Cancel {
    std::uint64_t request_id = 0;
};

struct Withdraw {
    CapsuleId capsule;
};

struct List {
    std::string pattern;
    std::string cursor;
    std::uint32_t limit = 0;
    bool with_descriptor = false;
};

struct Watch {
    std::uint64_t watch = 0;
    std::string pattern;
};

struct Unwatch {
    std::uint64_t watch = 0;
};

struct StatusRequest {};

struct Group {
    enum class Action : std::uint8_t { Begin = 1, Commit = 2, Abort = 3 };
    std::uint64_t group = 0;
    Action action = Action::Begin;
};

struct Reserve {
    std::uint64_t reservation = 0;
    std::uint64_t bytes = 0;
};

struct Unreserve {
    std::uint64_t reservation = 0;
};

struct Forget {
    std::vector<std::uint64_t> segments;
};

struct Drop {
    std::vector<std::uint64_t> segments;
};

struct Confirm {
    std::uint64_t lease = 0;
};

struct Claims {
    enum class State : std::uint8_t { Held = 1, Released = 2, Confirmed = 3 };
    struct Claim {
        CapsuleId capsule;
        std::uint64_t lease = 0;
        State state = State::Held;
    };
    std::vector<Claim> claims;
};

struct ResumeDone {};

using RequestMessage =
    std::variant<Hello, Publish, Attach, Release, Cancel, Withdraw, List, Watch, Unwatch, StatusRequest, Group, Reserve,
                 Unreserve, Forget, Drop, Confirm, Claims, ResumeDone>;

/// What each is called, for logs and metrics; by its place above.
inline constexpr std::array<const char*, std::variant_size_v<RequestMessage>> kRequestNames = {
    "hello",  "publish", "attach",  "release",   "cancel", "withdraw", "list",    "watch",  "unwatch",
    "status", "group",   "reserve", "unreserve", "forget", "drop",     "confirm", "claims", "resume_done"};

struct Request {
    std::uint64_t request_id = 0;
    std::optional<std::uint64_t> timeout_ms;
    RequestMessage message;
};

// ---- Replies and events ---------------------------------------------------------------------------------------------

struct Done {};

struct Limits {
    std::uint32_t packet_bytes = kMaxPacketBytes;
    std::uint32_t packet_fds = kMaxPacketFds;
    std::uint32_t descriptor_bytes = kMaxDescriptorBytes;
    std::uint32_t unacked_releases = kMaxReleaseLeases;
};

struct HelloReply {
    std::uint32_t version = 0;
    Id16 instance;
    Limits limits;
    std::uint64_t window_left_ms = 0;
    std::optional<Access> default_access = std::nullopt;  ///< none of an older daemon
};

struct PublishReply {
    std::uint64_t version = 0;
};

struct AttachReply {
    CapsuleId capsule;
    std::string name;
    std::uint64_t version = 0;
    std::string descriptor;
    std::vector<Segment> segments;
    std::vector<Placement> placements;
    Access access;
};

struct ListReply {
    std::vector<Info> capsules;
    std::string cursor;
};

struct StatusReply {
    std::vector<Use> uses;
    std::vector<Writing> writing;
    std::string daemon_version;
    std::uint64_t uptime_ms = 0;
    std::vector<Holder> holders;
};

struct GroupReply {
    std::vector<std::uint64_t> versions;
};

struct LeaseEvent {
    enum class What : std::uint8_t { Opened = 1, Released = 2, Lost = 3, Taken = 4 };
    CapsuleId capsule;
    LeaseId lease;
    What what = What::Opened;
    std::uint64_t remaining = 0;
};

struct Ended {
    CapsuleId capsule;
    bool reusable = false;
};

struct Retired {
    CapsuleId capsule;
};

struct Watched {
    enum class What : std::uint8_t {
        Present = 1,
        SnapshotEnd = 2,
        Published = 3,
        Retired = 4,
        ProducerLost = 5,
        Gap = 6
    };
    std::uint64_t watch = 0;
    What what = What::Present;
    CapsuleId capsule;
    std::string name;
    std::uint64_t version = 0;
};

/// Whether an event of that kind may be about no capsule, so that its id may be left out.
constexpr bool may_lack_capsule(Watched::What what) {
    return what == Watched::What::SnapshotEnd || what == Watched::What::Gap;
}

struct ProducerLost {
    CapsuleId capsule;
};

struct SegmentsGone {
    std::vector<std::uint64_t> segments;
};

struct WindowClosed {
    CapsuleId capsule;
    std::vector<LeaseId> open;
    bool more = false;
};

struct ClaimsRefused {
    std::vector<std::uint64_t> leases;
};

/// The last words before the daemon cuts a connection.
struct Closing {
    Error error;
};

using PacketMessage =
    std::variant<Error, Done, HelloReply, PublishReply, AttachReply, ListReply, StatusReply, GroupReply, LeaseEvent,
                 Ended, Retired, Watched, ProducerLost, SegmentsGone, WindowClosed, ClaimsRefused, Closing>;

struct Packet {
    std::uint64_t request_id = 0;  ///< 0: an event
    PacketMessage message;
};

}  // namespace hurray::wire
