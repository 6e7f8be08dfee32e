#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "daemon/registry.hpp"

// A registry and what it sends. Packets are written down as short words ("Opened(1)", "AttachReply#7") so that a test shows
// the order of everything that one step sets off, to whom.

namespace hurrayd {

using hurray::Errc;
using Words = std::vector<std::string>;

inline constexpr std::uint64_t kFirstVersion = 1000;
inline constexpr std::uint32_t kAlice = 1001;
inline constexpr std::uint32_t kBob = 1002;

inline wire::Id16 id16(std::uint8_t n) {
    wire::Id16 id;
    id.bytes[15] = n;
    return id;
}

class RegistryTest : public testing::Test {
  protected:
    RegistryTest() = default;
    /// One whose life opens with a resume window.
    explicit RegistryTest(std::uint64_t window_end_ms)
        : registry(kFirstVersion, {}, Registry::kDefaultMode, window_end_ms) {}
    /// One where there is only so much of everything.
    explicit RegistryTest(const Quotas::Limits& quotas, std::optional<std::uint64_t> window_end_ms = std::nullopt)
        : registry(kFirstVersion, quotas, Registry::kDefaultMode, window_end_ms) {}

    Registry registry{kFirstVersion};
    Outbox out;
    std::uint64_t next_session = 1;
    std::uint64_t next_segment = 1;
    std::uint64_t now = 0;

    /// Of a user in the group of the same number, and in `groups`.
    SessionNumber open(std::uint32_t uid, std::vector<std::uint32_t> groups = {}) {
        const SessionNumber number{next_session++};
        const auto opened =
            registry.open_session(number, {uid, uid, static_cast<std::int32_t>(number.value), uid == 0,
                                           id16(static_cast<std::uint8_t>(number.value)), std::move(groups)});
        EXPECT_TRUE(opened.has_value());
        return number;
    }

    static Publication publication(std::uint8_t capsule, const std::string& name) {
        Publication p;
        p.request.capsule = id16(capsule);
        p.request.name = name;
        p.request.descriptor = "descriptor";
        return p;
    }

    /// A file that came with a publish.
    BroughtSegment brought(std::uint64_t inode, std::uint64_t device = 1) {
        return {{next_segment++}, {device, inode}};
    }

    /// Publishes a capsule of one segment with 4096 bytes, whose file and producer's number are the session's and the capsule's own.
    Words publish(SessionNumber from, std::uint64_t request, std::uint8_t capsule, const std::string& name,
                  std::uint64_t group = 0, std::optional<wire::Access> access = {}) {
        Publication p = publication(capsule, name);
        p.request.segments = {{capsule, true, wire::Memory::Reusable, 4096, 0}};
        p.request.placements = {{0, 0}};
        p.request.group = group;
        p.request.access = access;
        p.brought = {brought(capsule, from.value)};
        p.buffer_bytes = 100;
        registry.publish(from, request, std::move(p), out);
        return take();
    }

    /// One whose publish says more than that: `more` is given its request.
    template <class More>
    Words publish_with(SessionNumber from, std::uint64_t request, std::uint8_t capsule, const std::string& name,
                       More&& more) {
        Publication p = publication(capsule, name);
        p.request.segments = {{capsule, true, wire::Memory::Reusable, 4096, 0}};
        p.request.placements = {{0, 0}};
        p.brought = {brought(capsule)};
        p.buffer_bytes = 100;
        more(p.request);
        registry.publish(from, request, std::move(p), out);
        return take();
    }

    Words group(SessionNumber from, std::uint64_t request, std::uint64_t number, wire::Group::Action action) {
        registry.group(from, request, {number, action}, out);
        return take();
    }

    static wire::Attach by_name(std::uint64_t lease, const std::string& name) { return {lease, name}; }
    static wire::Attach by_id(std::uint64_t lease, std::uint32_t uid, std::uint8_t capsule) {
        return {lease, wire::CapsuleId{uid, id16(capsule)}};
    }

    Words attach(SessionNumber from, std::uint64_t request, const wire::Attach& what,
                 std::optional<std::uint64_t> timeout = 0) {
        registry.attach(from, request, what, timeout, now, out);
        return take();
    }
    Words release(SessionNumber from, std::uint64_t request, std::vector<std::uint64_t> leases) {
        registry.release(from, request, {std::move(leases)}, out);
        return take();
    }
    Words end(SessionNumber session) {
        registry.end_session(session, now, out);
        while (registry.has_endings()) {
            registry.continue_endings(out);
        }
        return take();
    }
    /// Ends a session whose client may come back.
    Words cut_off(SessionNumber session) {
        registry.end_session(session, now, out, true);
        while (registry.has_endings()) {
            registry.continue_endings(out);
        }
        return take();
    }
    Words withdraw(SessionNumber from, std::uint64_t request, std::uint32_t uid, std::uint8_t capsule) {
        registry.withdraw(from, request, {{uid, id16(capsule)}}, out);
        return take();
    }
    Words list(SessionNumber from, const wire::List& list, wire::ListReply& reply) {
        registry.list(from, 1, list, now, out);
        if (const auto* page = std::get_if<wire::ListReply>(&out.packets.at(0).packet.message)) {
            reply = *page;
        }
        return take();
    }
    std::uint64_t used(SessionNumber asker, std::uint32_t uid, const std::string& name) {
        registry.status(asker, 1, "v", 5, now, out);
        std::uint64_t result = 0;
        for (const auto& use : std::get<wire::StatusReply>(out.packets.at(0).packet.message).uses) {
            if (use.uid == uid && use.name == name) {
                result = use.used;
            }
        }
        out.clear();
        return result;
    }

    static std::string capsule_text(const wire::CapsuleId& id) { return std::to_string(id.id.bytes[15]); }

    static std::string text(const wire::Packet& packet) {
        struct Visitor {
            std::string operator()(const hurray::Error& e) {
                return "Error" + std::to_string(static_cast<int>(e.code));
            }
            std::string operator()(const wire::Done&) { return "Done"; }
            std::string operator()(const wire::HelloReply&) { return "HelloReply"; }
            std::string operator()(const wire::PublishReply& r) { return "PublishReply=" + std::to_string(r.version); }
            std::string operator()(const wire::AttachReply& r) {
                return "AttachReply(" + capsule_text(r.capsule) + ")";
            }
            std::string operator()(const wire::ListReply&) { return "ListReply"; }
            std::string operator()(const wire::StatusReply&) { return "StatusReply"; }
            std::string operator()(const wire::GroupReply& r) {
                std::string versions;
                for (const std::uint64_t version : r.versions) {
                    versions += (versions.empty() ? "=" : ",") + std::to_string(version);
                }
                return "GroupReply" + versions;
            }
            std::string operator()(const wire::LeaseEvent& e) {
                static const char* const kWhat[] = {"", "Opened", "Released", "Lost", "Taken"};
                return std::string(kWhat[static_cast<int>(e.what)]) + "(" + capsule_text(e.capsule) + " lease " +
                       std::to_string(e.lease.lease) + " left " + std::to_string(e.remaining) + ")";
            }
            std::string operator()(const wire::Ended& e) {
                return "Ended(" + capsule_text(e.capsule) + (e.reusable ? " reusable)" : ")");
            }
            std::string operator()(const wire::Retired& e) { return "Retired(" + capsule_text(e.capsule) + ")"; }
            std::string operator()(const wire::Watched& e) {
                static const char* const kWhat[] = {"",        "Present",      "SnapshotEnd", "Published",
                                                    "Retired", "ProducerLost", "Gap"};
                return std::string("Watched") + kWhat[static_cast<int>(e.what)] +
                       (e.version != 0 ? "(" + capsule_text(e.capsule) + ")" : "");
            }
            std::string operator()(const wire::ProducerLost& e) {
                return "ProducerLost(" + capsule_text(e.capsule) + ")";
            }
            std::string operator()(const wire::SegmentsGone&) { return "SegmentsGone"; }
            std::string operator()(const wire::WindowClosed& e) {
                std::string open;
                for (const wire::LeaseId& lease : e.open) {
                    open += " " + std::to_string(lease.lease);
                }
                return "WindowClosed(" + capsule_text(e.capsule) + open + (e.more ? " more)" : ")");
            }
            std::string operator()(const wire::ClaimsRefused& e) {
                std::string leases;
                for (const std::uint64_t lease : e.leases) {
                    leases += (leases.empty() ? "" : " ") + std::to_string(lease);
                }
                return "ClaimsRefused(" + leases + ")";
            }
            std::string operator()(const wire::Closing&) { return "Closing"; }
        };
        return std::visit(Visitor{}, packet.message) +
               (packet.request_id != 0 ? "#" + std::to_string(packet.request_id) : "");
    }

    static std::string text(const keep::Step& step) {
        struct Visitor {
            std::string operator()(const keep::Name& n) {
                return "name " + n.name + "=" + std::to_string(n.version) +
                       (n.floor != 0 ? " floor " + std::to_string(n.floor) : "");
            }
            std::string operator()(const keep::NameEnded& n) { return "name " + n.name + " ended"; }
            std::string operator()(const keep::LastVersion& n) { return "last " + std::to_string(n.version); }
            std::string operator()(const keep::Taken& n) {
                return "taken " + capsule_text(n.capsule) + " by " + std::to_string(n.lease.lease);
            }
            std::string operator()(const keep::TakenDropped& n) {
                return "taken " + capsule_text(n.capsule) + " dropped";
            }
            std::string operator()(const keep::Answered& n) { return "answered " + capsule_text(n.capsule); }
            std::string operator()(const keep::Expires& n) {
                return "expires " + capsule_text(n.capsule) + " at " + std::to_string(n.at_ms);
            }
            std::string operator()(const keep::Gone& n) { return "gone " + capsule_text(n.capsule); }
            std::string operator()(const keep::Left& n) {
                return "left " + capsule_text(n.capsule) + "=" + std::to_string(n.version);
            }
            std::string operator()(const keep::Committed& n) { return "committed " + std::to_string(n.group); }
            std::string operator()(const keep::Note& n) { return std::visit(*this, n); }
            std::string operator()(const keep::StoreSegment& s) { return "store s-" + std::to_string(s.as.value); }
            std::string operator()(const keep::StoreCapsule& s) {
                return "store c-" + std::to_string(s.offer.capsule.bytes[15]);
            }
            std::string operator()(const keep::RemoveCapsule& s) { return "remove c-" + capsule_text(s.capsule); }
            std::string operator()(const keep::RemoveSegment& s) {
                return "remove s-" + std::to_string(s.segment.value);
            }
        };
        return std::visit(Visitor{}, step);
    }

    /// What the last step sent, as "SESSION:WORD"; `kept` is what it had kept before.
    Words take() {
        registry.check_consistency();
        Words words;
        for (const Outgoing& outgoing : out.packets) {
            words.push_back(std::to_string(outgoing.to.value) + ":" + text(outgoing.packet));
        }
        dropped.insert(dropped.end(), out.dropped.begin(), out.dropped.end());
        kept.clear();
        for (const keep::Step& step : out.kept) {
            kept.push_back(text(step));
        }
        steps = std::move(out.kept);
        answering = std::move(out.answering);
        last = std::move(out.packets);
        out.clear();
        return words;
    }

    std::vector<SegmentNumber> dropped;
    std::vector<Outgoing> last;
    Words kept;
    std::vector<keep::Step> steps;
    std::vector<Outbox::Answering> answering;

    void expect_nothing_held() { EXPECT_EQ(registry.totals(), Registry::Totals{}); }
};

inline std::string error(Errc code) { return "Error" + std::to_string(static_cast<int>(code)); }

}  // namespace hurrayd
