#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "daemon/store/keeping.hpp"
#include "daemon/types.hpp"
#include "proto/wire/messages.hpp"

namespace hurrayd {

/// What an acknowledgement becomes if what it must follow is never heard of: of a capsule.
struct Unheard {
    hurray::wire::PacketMessage message;
    hurray::wire::CapsuleId capsule;
};

/// One packet to one session.
struct Outgoing {
    SessionNumber to;
    hurray::wire::Packet packet;
    /// May be sent only once the packets of this outbox from index `after` up to this one are in their sockets. Its own
    /// index: it waits for none. What goes to one session keeps its order anyway.
    std::size_t after = 0;
    /// May be sent only once all that was written to this session before is in its socket. 0: it waits for none.
    SessionNumber behind{};
    /// Of an acknowledgement (Done): sent in its place if one that it must follow can't be sent any more, since its receiver has gone or is
    /// cut off; then Outbound's owner is told, too. Null: it is sent all the same.
    std::unique_ptr<Unheard> unheard = nullptr;
};

/// What one packet (or one end of a session, one deadline) sets off, in the protocol's order; or what several do that one session
/// sent in a burst, one behind the other.
///
/// Packets that carry segments carry the descriptors of those with `carries_fd`, all of them as far as the registry is concerned:
/// Outbound leaves out what the session has. Their numbers are SegmentNumbers.
struct Outbox {
    /// What is to be kept over the daemon's death before any of these packets is sent.
    std::vector<keep::Step> kept;
    std::vector<Outgoing> packets;
    /// To whom the answer to the publish of what was put into the store goes. Once that is sent, the registry is to hear of it
    /// (note_answered).
    struct Answering {
        SessionNumber publisher;
        hurray::wire::CapsuleId capsule;
    };
    std::vector<Answering> answering;
    /// Segments that no capsule uses any more. To be let go after the packets were sent or queued.
    std::vector<SegmentNumber> dropped;
    /// A segment that a session which keeps them says it unmaps: packets from index `from` on bring it its descriptor again.
    struct Forgotten {
        std::size_t from = 0;
        SessionNumber session;
        SegmentNumber segment;
    };
    std::vector<Forgotten> forgotten;

    /// An answer or event that waits for nothing else.
    void send(SessionNumber to, std::uint64_t request_id, hurray::wire::PacketMessage message) {
        send_after(packets.size(), to, request_id, std::move(message));
    }
    /// One that comes after the packets from index `after` on.
    void send_after(std::size_t after, SessionNumber to, std::uint64_t request_id,
                    hurray::wire::PacketMessage message) {
        packets.push_back({to, {request_id, std::move(message)}, after});
    }
    /// One that comes after everything that `other` was sent so far, now or in earlier steps.
    void send_behind(SessionNumber other, SessionNumber to, std::uint64_t request_id,
                     hurray::wire::PacketMessage message) {
        packets.push_back({to, {request_id, std::move(message)}, packets.size(), other});
    }
    /// What is sent in place of the last packet, about which capsule; see Outgoing::unheard.
    void or_if_unheard(hurray::wire::PacketMessage message, const hurray::wire::CapsuleId& capsule) {
        packets.back().unheard = std::make_unique<Unheard>(Unheard{std::move(message), capsule});
    }
    void clear() noexcept {
        kept.clear();
        packets.clear();
        answering.clear();
        dropped.clear();
        forgotten.clear();
    }
};

}  // namespace hurrayd
