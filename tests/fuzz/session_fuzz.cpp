// A whole daemon but for its event loop: sessions of several users that publish, reserve, forget, attach, watch, leave and send
// rubbish, read or don't read, through real sockets and with real memfds. An input is a script: each byte or few are one step.
//
// After each step the registry must agree with itself (check_consistency), the table of segments with the registry, and the
// descriptors of this process with both. And each peer is a client that checks what it is sent: every packet decodes, answers
// belong to a request of its own, each lease of a capsule is opened once and ended once with the right number remaining, a capsule ends
// once, when nobody holds it. At the end everybody leaves, what lingers is withdrawn, and nothing is left.

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "daemon/dispatcher.hpp"
#include "daemon/hash.hpp"
#include "daemon/metrics.hpp"
#include "daemon/outbound.hpp"
#include "daemon/registry.hpp"
#include "daemon/segments.hpp"
#include "libhurray/base/check.hpp"
#include "proto/wire/codec.hpp"
#include "tests/fuzz/fuzz_input.hpp"
#include "tests/fuzz/fuzz_target.hpp"
#include "tests/support/test_tensor.hpp"

namespace {

using hurray::Errc;
using hurray::UniqueFd;
using hurrayd::SessionNumber;
namespace wire = hurray::wire;

constexpr std::uint64_t kFirstVersion = 1000;
constexpr std::size_t kPeers = 6;
constexpr std::size_t kMostSteps = 256;
constexpr std::array<std::uint32_t, 4> kUsers = {1001, 1001, 1002, 0};
constexpr std::uint32_t kMostUid = 1002;
constexpr std::array<std::uint32_t, 4> kGroups = {50, 51, 1002, wire::kOwnGroup};
constexpr std::array<std::uint32_t, 8> kModes = {0600, 0640, 0660, 0644, 0666, 0604, 0060, 0};
constexpr std::array<const char*, 8> kNames = {"a", "a/x", "a/y", "b", "", "c/d/e", "a//b", "\xff"};
constexpr std::array<const char*, 6> kPatterns = {"", "a/", "a", "c/d/", "b/", "a/x"};

// ---- The script -----------------------------------------------------------------------------------------------------

class Script : public hurray::fuzz::FuzzInput {
  public:
    using FuzzInput::FuzzInput;

    std::string bytes(std::size_t most) {
        const auto taken = take(most);
        return {taken.begin(), taken.end()};
    }
};

constexpr std::size_t kSorts = 9;
constexpr std::size_t kImmutableSort = 8;

/// In which groups users are, beside those with their own numbers.
std::vector<std::uint32_t> groups_of(std::uint32_t uid) {
    return uid == 1001 ? std::vector<std::uint32_t>{50} : std::vector<std::uint32_t>{51, 50};
}

/// What peers of a user send in place of memory, made once. A file is of one user: that of another may not be published.
const UniqueFd& descriptor(std::size_t kind, std::uint32_t uid) {
    const auto make_all = [] {
        std::array<UniqueFd, kSorts> made;
        made[0] = hurray::test::make_memfd({.size = 4096});
        made[1] = hurray::test::make_memfd({.size = 4096});
        made[2] = hurray::test::make_memfd({.size = 8192});
        made[3] = hurray::test::make_memfd({.size = 4096, .seals = 0});
        made[4] = hurray::test::make_memfd({.size = 4096, .reserve = false});
        made[5] = UniqueFd(::eventfd(0, EFD_CLOEXEC));
        made[6] = UniqueFd(::open("/dev/null", O_RDWR | O_CLOEXEC));
        made[7] = UniqueFd(::open("/", O_PATH | O_CLOEXEC));
        made[kImmutableSort] =
            hurray::test::make_memfd({.size = 4096, .seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL});
        return made;
    };
    static const std::array<std::array<UniqueFd, kSorts>, 3> kDescriptors = {make_all(), make_all(), make_all()};
    return kDescriptors.at(kMostUid - std::max(uid, kMostUid - 2)).at(kind % kSorts);
}

const std::string& tensor_of(std::uint64_t elements) {
    static const std::array<std::string, 3> kDescriptors = {
        hurray::test::make_descriptor(0), hurray::test::make_descriptor(16), hurray::test::make_descriptor(2048)};
    return kDescriptors.at(elements % kDescriptors.size());
}

wire::Id16 id16(std::uint8_t number) {
    wire::Id16 id;
    id.bytes[15] = number;
    return id;
}

// ---- A client that believes nothing ---------------------------------------------------------------------------------

/// What a client can know from its packets alone, checked.
class Witness {
  public:
    /// Capsules of which somebody claims to hold leases: what their producers are told rests on that word, and proves nothing.
    using Claimed = std::set<wire::CapsuleId>;
    explicit Witness(const Claimed& claimed) noexcept : claimed_(claimed) {}

    /// Who it is.
    void is(std::uint32_t uid) {
        self_ = {uid, uid, 0, uid == 0, {}, groups_of(uid)};
        self_.groups.push_back(uid);
        std::sort(self_.groups.begin(), self_.groups.end());
    }
    void will_send(std::uint64_t request_id) { requests_.insert(request_id); }
    /// It keeps segments from now on.
    void keeps_segments() { kept_.emplace(); }
    void publishes(std::uint64_t request_id, const wire::Publish& publish) {
        publishing_[request_id] = {publish.capsule, !publish.segments.empty() && wire::is_immutable(publish.segments)};
    }
    void attaches(std::uint64_t request_id, const wire::Attach& attach) { attaching_[request_id] = attach; }
    void drops(std::uint64_t request_id, const std::vector<std::uint64_t>& segments) {
        if (kept_) {
            dropping_[request_id] = segments;
        }
    }

    void see(const wire::Packet& packet) {
        HURRAY_CHECK(!closing_);  // the last words are the last
        if (packet.request_id != 0) {
            const auto request = requests_.find(packet.request_id);
            HURRAY_CHECK(request != requests_.end());
            requests_.erase(request);
            if (const auto* grant = std::get_if<wire::AttachReply>(&packet.message)) {
                see_segments(*grant);
                const wire::Attach& asked = attaching_.at(packet.request_id);
                HURRAY_CHECK(!asked.immutable_only || wire::is_immutable(grant->segments));
                HURRAY_CHECK(may_read(grant->capsule, grant->access));
                HURRAY_CHECK(asked.allow_unsealed || !wire::is_unsealed(grant->segments));
            }
            if (std::holds_alternative<wire::PublishReply>(packet.message)) {
                const auto& [capsule, immutable] = publishing_.at(packet.request_id);
                capsules_[{self_.uid, capsule}].immutable = immutable;
            }
            if (const auto* page = std::get_if<wire::ListReply>(&packet.message)) {
                see_page(*page);
            }
            if (auto dropped = dropping_.extract(packet.request_id); !dropped.empty()) {
                for (const std::uint64_t segment : dropped.mapped()) {
                    if (const auto kept = kept_->find(segment); kept != kept_->end()) {
                        kept_->erase(kept);  // once: it may have come again meanwhile
                    }
                }
            }
            return;
        }
        std::visit([this](const auto& event) { see_event(event); }, packet.message);
    }

  private:
    struct Capsule {
        std::set<wire::LeaseId> open;
        std::set<wire::LeaseId> ended;
        bool lost = false;
        bool retired = false;
        bool taken = false;
        bool immutable = false;
    };

    bool may_read(const wire::CapsuleId& capsule, const wire::Access& access) const {
        return hurrayd::permits(self_, capsule.uid, access, hurrayd::Right::Read);
    }
    void see_page(const wire::ListReply& page) {
        const wire::Info* before = nullptr;
        for (const wire::Info& info : page.capsules) {
            HURRAY_CHECK(may_read(info.capsule, info.access));
            HURRAY_CHECK(before == nullptr ||
                         std::pair(before->name, before->version) < std::pair(info.name, info.version));
            before = &info;
        }
    }
    /// A descriptor is left out only if it came before, and was neither dropped nor is it gone. Who keeps nothing gets all.
    void see_segments(const wire::AttachReply& grant) {
        for (const wire::Segment& segment : grant.segments) {
            HURRAY_CHECK(segment.carries_fd || (kept_ && kept_->contains(segment.number)));
            if (kept_ && segment.carries_fd) {
                kept_->insert(segment.number);
            }
        }
    }
    void see_event(const wire::SegmentsGone& gone) {
        HURRAY_CHECK(kept_.has_value());
        for (const std::uint64_t segment : gone.segments) {
            kept_->erase(segment);
        }
    }
    void see_event(const wire::LeaseEvent& event) {
        if (claimed_.contains(event.capsule)) {
            return;
        }
        Capsule& capsule = capsules_[event.capsule];
        if (event.what == wire::LeaseEvent::What::Opened) {
            HURRAY_CHECK(!capsule.ended.contains(event.lease));
            HURRAY_CHECK(capsule.open.insert(event.lease).second);
        } else if (event.what == wire::LeaseEvent::What::Taken) {
            HURRAY_CHECK(capsule.open.contains(event.lease));
            HURRAY_CHECK(!std::exchange(capsule.taken, true));  // by one, once
        } else {
            HURRAY_CHECK(event.what == wire::LeaseEvent::What::Released || event.what == wire::LeaseEvent::What::Lost);
            HURRAY_CHECK(capsule.open.erase(event.lease) == 1);
            HURRAY_CHECK(capsule.ended.insert(event.lease).second);
            capsule.lost = capsule.lost || event.what == wire::LeaseEvent::What::Lost;
        }
        HURRAY_CHECK(event.remaining == capsule.open.size());
    }
    void see_event(const wire::Ended& event) {
        const Capsule& capsule = capsules_[event.capsule];
        HURRAY_CHECK(capsule.open.empty() || claimed_.contains(event.capsule));
        HURRAY_CHECK(event.reusable == (!capsule.lost && !capsule.immutable) || claimed_.contains(event.capsule));
        capsules_.erase(event.capsule);  // its id may be published anew
    }
    void see_event(const wire::Retired& event) { HURRAY_CHECK(!std::exchange(capsules_[event.capsule].retired, true)); }
    void see_event(const wire::Watched&) {}
    void see_event(const wire::ProducerLost&) {}
    void see_event(const wire::WindowClosed& event) {
        const Capsule& capsule = capsules_[event.capsule];
        HURRAY_CHECK(claimed_.contains(event.capsule) || event.open.size() == capsule.open.size());
    }
    void see_event(const wire::ClaimsRefused&) {}
    void see_event(const wire::Closing&) { closing_ = true; }
    template <class Reply>
    void see_event(const Reply&) {}  // without a request: decode_packet has refused it

    std::optional<std::multiset<std::uint64_t>> kept_;
    std::map<std::uint64_t, std::vector<std::uint64_t>> dropping_;  ///< by request
    std::multiset<std::uint64_t> requests_;                         ///< without a reply so far
    hurrayd::Identity self_;
    std::map<wire::CapsuleId, Capsule> capsules_;
    const Claimed& claimed_;
    std::map<std::uint64_t, std::pair<wire::Id16, bool>>
        publishing_;                                   ///< by request: capsule, and whether it is immutable
    std::map<std::uint64_t, wire::Attach> attaching_;  ///< by request
    bool closing_ = false;
};

// ---- The daemon and its peers ---------------------------------------------------------------------------------------

class World : private hurrayd::Outbound::Listener {
  public:
    World() : base_descriptors_(open_descriptors()) {}

    void run(Script& script) {
        for (std::size_t step = 0; step < kMostSteps && !script.is_over(); ++step) {
            take_step(script);
            settle();
            check();
        }
        for (auto& peer : peers_) {
            if (peer) {
                read(*peer, SIZE_MAX);
                leave(*peer);
                settle();
                check();
            }
        }
        registry_.close_window(out_);
        settle();
        withdraw_what_lingers();
        settle();
        check();
        HURRAY_CHECK(registry_.totals() == hurrayd::Registry::Totals{});
        HURRAY_CHECK(segments_.size() == 0);
        HURRAY_CHECK(open_descriptors() == base_descriptors_);
    }

  private:
    struct Peer {
        explicit Peer(const Witness::Claimed& claimed) : witness(claimed) {}

        hurrayd::Dispatcher::Peer daemons;  ///< what the daemon knows of it
        wire::Id16 session;
        UniqueFd daemon_end;
        UniqueFd own_end;
        Witness witness;
        std::uint64_t next_request = 1;
        std::uint64_t next_lease = 1;
        bool wants_room = false;
    };

    void withdraw_what_lingers() {
        const SessionNumber root{UINT64_MAX};
        HURRAY_CHECK(registry_.open_session(root, {0, 0, 0, true, id16(255)}).has_value());
        registry_.list(root, 1, {}, now_ms_, out_);
        const wire::Packet packet = out_.packets.at(0).packet;  // all of it: ids are few
        out_.clear();
        for (const wire::Info& info : std::get<wire::ListReply>(packet.message).capsules) {
            HURRAY_CHECK(info.lingering && info.producer_gone);
            registry_.withdraw(root, 2, {info.capsule}, out_);
            outbound_.deliver(out_);
        }
        registry_.end_session(root, now_ms_, out_);
        outbound_.deliver(out_);
    }

    static std::uint64_t open_descriptors() {
        const auto count = hurrayd::count_open_descriptors();
        HURRAY_CHECK(count.has_value());
        return *count;
    }

    // ---- Steps ----

    void take_step(Script& script) {
        const std::uint8_t step = script.byte();
        const std::size_t what = step % 19U;
        auto& slot = peers_.at(script.below(kPeers));
        if (!slot) {
            connect(slot, script);
            return;
        }
        Peer& peer = *slot;
        switch (what) {
            case 0:
                send_raw(peer, script);
                return;
            case 1:
            case 2:
                return publish(peer, script);
            case 3:
            case 4:
            case 5:
                return attach(peer, script);
            case 6: {
                wire::Release release;
                for (std::size_t count = script.below(4); count-- > 0;) {
                    release.leases.push_back(script.byte() % 32U);
                }
                if (step / 19U % 2 != 0 && !release.leases.empty()) {
                    return send(peer, wire::Confirm{release.leases.front()}, script);
                }
                return send(peer, release, script);
            }
            case 7:
                return send(peer, wire::Cancel{peer.next_request - script.byte() % 16U}, script);
            case 8:
                return send(peer, wire::Withdraw{capsule(script)}, script);
            case 9: {
                wire::List list;
                list.pattern = script.one_of(kPatterns);
                list.limit = script.byte() % 4U;
                list.with_descriptor = script.byte() % 2 != 0;
                if (script.byte() % 2 != 0) {
                    list.cursor = script.bytes(12);
                }
                return send(peer, std::move(list), script);
            }
            case 10:
                return send(peer, wire::Watch{script.byte() % 4U, script.one_of(kPatterns)}, script);
            case 11:
                return send(peer, wire::Unwatch{script.byte() % 4U}, script);
            case 12:
                return step / 19U % 4 == 3 ? manage_memory(peer, script) : send(peer, wire::StatusRequest{}, script);
            case 13:
                return read(peer, 1U + script.byte());
            case 14:
                return leave(peer);
            case 16:
            case 17: {
                const std::uint8_t how = script.byte();
                return send(peer, wire::Group{how % 4U, static_cast<wire::Group::Action>(1 + how / 4 % 3)}, script);
            }
            case 18:
                return claim(peer, script);
            default:
                return pass_time(script);
        }
    }

    void connect(std::unique_ptr<Peer>& slot, Script& script) {
        std::array<int, 2> ends{};
        HURRAY_CHECK(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) == 0);
        slot = std::make_unique<Peer>(claimed_);
        slot->daemon_end = UniqueFd(ends[0]);
        slot->own_end = UniqueFd(ends[1]);
        const std::uint8_t how = script.byte();
        if (how % 2 != 0) {  // full after a few packets
            const int size = 1;
            ::setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
        }
        const std::uint32_t uid = kUsers.at(how / 2U % kUsers.size());
        slot->daemons = {{next_session_++}, {uid, uid, 1, groups_of(uid)}, false, {}};
        slot->witness.is(uid);
        outbound_.add(slot->daemons.number, ends[0]);
        slot->session = id16(static_cast<std::uint8_t>(slot->daemons.number.value));
        if (how / 64 == 0) {  // an id that somebody has already; one that somebody had, no honest client takes
            for (const auto& other : peers_) {
                if (other && other != slot && other->daemons.credentials.uid == uid) {
                    slot->session = other->session;
                }
            }
        }
        if (how / 8 % 8 != 0) {
            std::optional<wire::Id16> last_instance;
            if (how / 8 % 8 < 4) {
                last_instance = id16(how / 8 % 2 == 0 ? 1 : 2);  // of this life or of another one
            }
            send(*slot, wire::Hello{1, 1, "fuzz", slot->session, last_instance, how / 4 % 2 != 0, how / 8 % 2 != 0},
                 script);
        }
    }

    void manage_memory(Peer& peer, Script& script) {
        const std::uint8_t what = script.byte();
        switch (what % 5) {
            case 0:
                return send(peer, wire::Reserve{what / 4U % 8, script.byte() * 1024ULL}, script);
            case 1:
                return send(peer, wire::Unreserve{what / 4U % 8}, script);
            case 2: {
                wire::Drop drop;
                for (std::size_t count = what / 4U % 4; count-- > 0;) {
                    drop.segments.push_back(script.byte() % 64U);
                }
                return send(peer, std::move(drop), script);
            }
            default: {
                wire::Forget forget;
                for (std::size_t count = what / 4U % 4; count-- > 0;) {
                    forget.segments.push_back(script.byte());
                }
                return send(peer, std::move(forget), script);
            }
        }
    }

    void publish(Peer& peer, Script& script) {
        wire::Publish publish;
        const std::uint8_t which = script.byte();
        publish.capsule = id16(which % 16);
        publish.name = script.one_of(kNames);
        const std::uint8_t kind = script.byte();
        publish.descriptor = tensor_of(kind % 4 == 0 ? 0 : kind % 8 == 1 ? 2 : 1);
        publish.placements = {{0, 0}};
        publish.group = kind < 128 ? 0 : 1 + kind % 2U;
        if (kind % 4 == 3) {
            const std::uint8_t access = script.byte();
            publish.access = {kGroups.at(access % kGroups.size()), kModes.at(access / 4U % kModes.size())};
        }
        if (kind >= 96 && kind < 128) {  // offered again
            publish.version = kFirstVersion - 16 + script.byte() % 20U;
            publish.retired = kind % 3 == 0;
        }
        const std::uint8_t sort_of_life = script.byte();
        publish.once = sort_of_life % 2 != 0;
        publish.retain = publish.once ? 1 : 1U + sort_of_life / 2U % 4U;
        if (publish.once && publish.version != 0 && sort_of_life / 8U % 4 == 0) {
            publish.taken_by = {kUsers.at(0), hurrayd::session_hash(id16(sort_of_life / 32U)), 1U + sort_of_life / 64U};
        }
        if (sort_of_life / 16U % 4 == 1) {
            publish.linger_ms = sort_of_life / 64U % 2 == 0 ? 0 : 500;
            // Whoever adopts it has not seen its leases open.
            claimed_.insert({peer.daemons.credentials.uid, publish.capsule});
        }
        std::vector<std::size_t> kinds;
        if (kind % 4 != 0) {
            std::size_t sort = kind % 8 == 1 ? 2 : kind / 8U % 16 < 8 ? kind / 8U % 2 : kind / 8U % 8;
            // Mostly of one number for each file, so that it is known already; now and then without its descriptor.
            const bool is_brought = which / 16U != 15;
            auto memory = wire::Memory::Reusable;
            if (which / 16U == 9) {
                sort = kImmutableSort;
                memory = wire::Memory::Immutable;
            } else if (which / 16U == 11) {  // what it is not
                memory = kind / 64U % 2 == 0 ? wire::Memory::Immutable : wire::Memory::Dmabuf;
            }
            const std::uint64_t number = which / 16U % 2 == 0 ? kind : sort;
            const std::uint64_t reservation = which / 16U % 4 == 2 ? kind / 4U % 8 : 0;
            publish.segments = {{number, is_brought, memory, sort == 2 ? 8192U : 4096U, reservation}};
            if (is_brought) {
                kinds.push_back(sort);
            }
        }
        send(peer, std::move(publish), script, kinds);
    }

    void attach(Peer& peer, Script& script) {
        wire::Attach attach;
        const std::uint8_t how = script.byte();
        attach.lease = how % 8 == 0 ? script.byte() % 32U : peer.next_lease++;
        if (how / 8 % 4 == 0) {
            attach.what = capsule(script);
        } else {
            attach.what = std::string(script.one_of(kNames));
        }
        attach.immutable_only = how >= 128 && attach.lease % 2 == 0;
        attach.allow_unsealed = how >= 128;
        attach.which = std::array{wire::Which::Latest, wire::Which::Latest, wire::Which::Exactly,
                                  wire::Which::NewerThan}[how / 32 % 4];
        if (attach.which != wire::Which::Latest) {
            attach.version = kFirstVersion + script.byte() % 16U;
        }
        std::optional<std::uint64_t> timeout_ms;
        const std::uint8_t time = script.byte();
        if (time % 4 != 0) {
            timeout_ms = time % 4 == 1 ? 0U : time;
        }
        attach.take = attach.which == wire::Which::Latest && time / 4U % 2 != 0;
        send(peer, std::move(attach), script, {}, timeout_ms);
    }

    void claim(Peer& peer, Script& script) {
        wire::Claims claims;
        const std::uint8_t how = script.byte();
        for (std::size_t count = 1U + how % 3; count-- > 0;) {
            const wire::CapsuleId of = capsule(script);
            claims.claims.push_back(
                {of, 1U + script.byte() % 32U, static_cast<wire::Claims::State>(1 + script.byte() % 3)});
        }
        return how / 4 % 16 == 0 ? send(peer, wire::ResumeDone{}, script) : send(peer, std::move(claims), script);
    }

    wire::CapsuleId capsule(Script& script) {
        const std::uint8_t which = script.byte();
        return {kUsers.at(which / 16U % kUsers.size()), id16(which % 16)};
    }

    void send_raw(Peer& peer, Script& script) {
        std::vector<std::size_t> kinds;
        for (std::size_t count = script.below(4); count-- > 0;) {
            kinds.push_back(script.byte());
        }
        const std::size_t most = script.byte();
        deliver(peer, script.bytes(most), kinds, script.byte());
    }

    /// Encodes a request, and spoils it now and then.
    void send(Peer& peer, wire::RequestMessage message, Script& script, std::vector<std::size_t> kinds = {},
              std::optional<std::uint64_t> timeout_ms = {}) {
        std::string bytes = wire::encoded(wire::Request{peer.next_request++, timeout_ms, std::move(message)});
        const std::uint8_t spoil = script.byte();
        switch (spoil) {
            case 255:
                bytes.at(script.byte() % bytes.size()) = static_cast<char>(script.byte());
                break;
            case 254:
                bytes.resize(1 + script.byte() % bytes.size());
                break;
            case 253:
                kinds.push_back(script.byte());
                break;
            case 252:
                kinds.clear();
                break;
            case 251:
                bytes.append(script.bytes(16));
                break;
            default:
                break;
        }
        deliver(peer, bytes, kinds, spoil >= 248 && spoil <= 250 ? spoil - 247 : 0);
    }

    /// What the server does with a packet.
    void deliver(Peer& peer, const std::string& bytes, const std::vector<std::size_t>& kinds, int flags) {
        if (bytes.empty()) {
            return;  // that would be the end
        }
        wire::Received received;
        received.kind = wire::Received::Kind::Packet;
        received.size = bytes.size();
        received.truncated = flags == 1;
        received.fds_missing = flags == 2;
        for (const std::size_t kind : kinds) {
            received.fds.emplace_back(
                ::fcntl(descriptor(kind, peer.daemons.credentials.uid).get(), F_DUPFD_CLOEXEC, 0));
        }
        const auto packet = std::as_bytes(std::span(bytes));
        const auto decoded =
            wire::decode_request(packet, received.fds_missing ? wire::kAnyFdCount : received.fds.size());
        if (const auto* hello = decoded ? std::get_if<wire::Hello>(&decoded->message) : nullptr;
            hello != nullptr && !peer.daemons.greeted) {
            // Clients roll their ids. One that takes the id of a session that has ended names leases that were named before, and
            // what producers are told of them would prove nothing.
            if (ended_sessions_.contains({peer.daemons.credentials.uid, hello->session})) {
                return;
            }
            peer.session = hello->session;
        }
        peer.witness.will_send(decoded ? decoded->request_id : decoded.error().request_id);

        const SessionNumber number = peer.daemons.number;
        outbound_.spoke(number);
        const bool was_greeted = peer.daemons.greeted;
        if (const auto* publish = decoded ? std::get_if<wire::Publish>(&decoded->message) : nullptr) {
            peer.witness.publishes(decoded->request_id, *publish);
        }
        if (const auto* attach = decoded ? std::get_if<wire::Attach>(&decoded->message) : nullptr) {
            peer.witness.attaches(decoded->request_id, *attach);
        }
        if (const auto* drop = decoded ? std::get_if<wire::Drop>(&decoded->message) : nullptr) {
            peer.witness.drops(decoded->request_id, drop->segments);
        }
        if (const auto* claims = decoded ? std::get_if<wire::Claims>(&decoded->message) : nullptr) {
            for (const wire::Claims::Claim& claim : claims->claims) {
                claimed_.insert(claim.capsule);
            }
        }
        const bool is_over = !dispatcher_.handle(peer.daemons, packet, received, now_ms_, out_).has_value();
        received.fds.clear();
        if (!was_greeted && peer.daemons.greeted && peer.daemons.keeps_segments) {
            outbound_.keep_segments(number);
            peer.witness.keeps_segments();
        }
        if (!was_greeted && peer.daemons.greeted && peer.daemons.takes_bundles) {
            outbound_.take_bundles(number);
        }
        outbound_.deliver(out_);
        if (is_over) {
            broken_.push_back(number);
        }
    }

    /// Reads up to `most` packets. Of what the daemon's end held when it closed, everything.
    void read(Peer& peer, std::size_t most) {
        static std::vector<std::byte> buffer(wire::kMaxPacketBytes);
        for (std::size_t i = 0; i < most; ++i) {
            auto received = wire::receive_packet(peer.own_end.get(), buffer);
            HURRAY_CHECK(received.has_value());
            if (received->kind != wire::Received::Kind::Packet) {
                return;
            }
            HURRAY_CHECK(!received->truncated && !received->fds_missing);
            const auto bytes = std::span(buffer).first(received->size);
            const auto packet = wire::decode_packet(bytes, received->fds.size());
            HURRAY_CHECK(packet.has_value());
            peer.witness.see(*packet);
            const auto more = wire::more_in(bytes);
            HURRAY_CHECK(more.has_value() && (more->empty() || peer.daemons.takes_bundles));
            for (const std::string_view each : *more) {
                const auto other = wire::decode_packet(std::as_bytes(std::span(each)), 0);
                HURRAY_CHECK(other.has_value());
                peer.witness.see(*other);
            }
        }
    }

    void leave(Peer& peer) { end_session(peer.daemons.number); }

    void pass_time(Script& script) {
        now_ms_ += script.byte();
        registry_.expire(now_ms_, out_);
        outbound_.deliver(out_);
        outbound_.retry_refused();
        outbound_.tell_gone();
        outbound_.cut_stalled(std::chrono::steady_clock::time_point(std::chrono::milliseconds(now_ms_)));
    }

    // ---- What the event loop does ----

    void want_writable(SessionNumber session) override {
        if (Peer* peer = find(session)) {
            peer->wants_room = true;
        }
    }
    void broken(SessionNumber session, std::string_view) override { broken_.push_back(session); }
    void keeps(SessionNumber session, std::size_t bytes) override { registry_.note_queued(session, bytes); }
    void unheard(const wire::CapsuleId& capsule) override { registry_.note_unheard(capsule); }
    [[nodiscard]] bool is_user_full(SessionNumber session) const override { return registry_.is_user_full(session); }

    Peer* find(SessionNumber number) {
        for (auto& peer : peers_) {
            if (peer && peer->daemons.number == number) {
                return peer.get();
            }
        }
        return nullptr;
    }

    void end_session(SessionNumber number) {
        const auto found = std::find_if(peers_.begin(), peers_.end(),
                                        [number](const auto& peer) { return peer && peer->daemons.number == number; });
        if (found == peers_.end()) {
            return;
        }
        const std::unique_ptr<Peer> peer = std::move(*found);
        ended_sessions_.emplace(peer->daemons.credentials.uid, peer->session);
        outbound_.remove(number);
        peer->daemon_end.reset();
        if (peer->daemons.greeted) {
            registry_.end_session(number, now_ms_, out_);
            outbound_.deliver(out_);
            while (registry_.has_endings()) {
                registry_.continue_endings(out_);
                outbound_.deliver(out_);
            }
        }
        read(*peer, SIZE_MAX);  // what it was sent before is sound too
    }

    void settle() {
        for (int turn = 0; turn < 4; ++turn) {
            for (std::size_t i = 0; i < peers_.size(); ++i) {
                if (!peers_.at(i)) {
                    continue;
                }
                Peer& peer = *peers_.at(i);
                const SessionNumber number = peer.daemons.number;
                pollfd room{peer.daemon_end.get(), POLLOUT, 0};
                if (peer.wants_room && ::poll(&room, 1, 0) == 1) {
                    peer.wants_room = false;
                    outbound_.writable(number);
                }
                if (peer.daemons.greeted && registry_.has_snapshots(number) && outbound_.idle(number)) {
                    registry_.continue_snapshots(number, out_);
                    outbound_.deliver(out_);
                }
            }
            registry_.continue_announcements(out_);
            registry_.continue_window_rest(out_);
            outbound_.deliver(out_);
            while (!broken_.empty()) {
                const SessionNumber number = broken_.back();
                broken_.pop_back();
                end_session(number);
            }
        }
    }

    void check() {
        registry_.check_consistency();
        HURRAY_CHECK(out_.packets.empty() && out_.dropped.empty());
        const std::uint64_t stored = registry_.totals().descriptors;
        HURRAY_CHECK(segments_.size() >= stored);
        HURRAY_CHECK(segments_.size() == stored || outbound_.queued().packets != 0);
        const auto peers =
            std::count_if(peers_.begin(), peers_.end(), [](const auto& peer) { return peer != nullptr; });
        HURRAY_CHECK(open_descriptors() ==
                     base_descriptors_ + 2 * static_cast<std::uint64_t>(peers) + segments_.size());
    }

    std::uint64_t base_descriptors_;
    hurrayd::Closer closer_{[](std::uint64_t) {}};
    hurrayd::SegmentTable segments_{closer_};
    hurrayd::DescriptorBudget budget_{segments_, closer_};
    hurrayd::Registry registry_{kFirstVersion,
                                {.capsules = 48,
                                 .names = 12,
                                 .leases = 48,
                                 .watches = 12,
                                 .bytes = 256 * 1024,
                                 .daemon_bytes = 256 * 1024,
                                 .client_capsules = 40,
                                 .client_leases = 40,
                                 .all_bytes = 512 * 1024},
                                hurrayd::Registry::kDefaultMode,
                                1000};
    hurrayd::Outbound outbound_{segments_,
                                *this,
                                {.packets = 24,
                                 .bytes = 64 * 1024,
                                 .patience = std::chrono::milliseconds(300),
                                 .most_bytes = 256 * 1024,
                                 .unread_fds = 256}};
    hurrayd::Dispatcher dispatcher_{registry_, segments_, budget_, id16(1), 0};
    hurrayd::Outbox out_;
    Witness::Claimed claimed_;
    std::array<std::unique_ptr<Peer>, kPeers> peers_;
    std::vector<SessionNumber> broken_;
    std::set<std::pair<std::uint32_t, wire::Id16>> ended_sessions_;
    std::uint64_t next_session_ = 1;
    std::uint64_t now_ms_ = 1;
};

}  // namespace

// Quotas limit what peers make the daemon keep, however long the script is.
const hurray::fuzz::MemoryLimit hurray::fuzz::kMemoryLimit = {std::size_t{4} << 20, 0, 0};

void hurray::fuzz::run_input(std::span<const std::uint8_t> input) {
    (void)descriptor(0, 0);  // before descriptors are counted
    Script script(input);
    World world;
    world.run(script);
}
