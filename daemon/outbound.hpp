#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <boost/container/deque.hpp>

#include "daemon/outbox.hpp"
#include "daemon/segments.hpp"
#include "daemon/types.hpp"
#include "proto/wire/messages.hpp"
#include "proto/wire/packet_buffer.hpp"
#include "proto/wire/packet_socket.hpp"

namespace hurrayd {

/// Sends what was written to an Outbox, to all sessions, in the order that it asks for.
///
/// "Sent" means in the kernel's socket. A packet goes straight there if it can. It is queued if the socket is full, if the
/// session has packets queued before it, or if one that it must follow is still queued for another session. So when a
/// producer does not read, a grant that must come after its `opened` waits, and nothing else does:
///
/// Packets to one session that stand apart in the outbox go to it in one system call where nothing forbids it: of a burst of attaches,
/// first every `opened` to the producer, then every grant to the consumer. So of what goes to *different* sessions only that keeps
/// its order for which the outbox asks (`after`, `behind`); nobody can tell what else was written first, or whether what he is sent was
/// set off by one packet of a burst or by the next. Whatever the outbox asks for holds from packet to packet, whichever burst they
/// came in: a run takes a packet forward over others only if all that it must follow is in its socket, or is before it in that run.
///
/// 1. Packets to one session keep their order, with one exception: grants (AttachReply) and plain acknowledgements (Done)
///    that wait for another session step aside, and later packets pass them; so do grants whose descriptors may not be
///    sent yet. The order of neither matters to a client, and a consumer must not be held up as a whole by one producer
///    that sleeps. But news of the loss of a producer (ProducerLost) stays behind such grants, which may be of its capsules.
/// 2. Nobody waits for a session that is gone or broken. What the outbox has for that case is sent in place of what waited for it (`unheard`).
/// 3. Who reads nothing is cut, `patience` after it went over its limits or others began to wait for it; at once where its user costs
///    too much. Who reads is not, nor who has read all that it was sent: what a session is kept from by another one is not charged to it. While grants wait since all have too many
///    descriptors unread, others wait for those who have them: whoever has the most goes first.
///
/// Threads: one. Time comes in with `cut_stalled` alone.
class Outbound {
  public:
    struct Limits {
        /// What may be queued for a session that has no room: about as many events as a client gets in a second of the
        /// busiest traffic, and as many bytes as its socket would hold twenty times.
        std::size_t packets = 4096;
        std::size_t bytes = 4 * 1024 * 1024;
        /// How long a session may stay over these, or keep others waiting, and read nothing. One step can set off more
        /// than the limits (a client of many leases dies), and nobody can have read any of that before it is over.
        std::chrono::milliseconds patience{2000};
        std::size_t most_bytes = 64 * 1024 * 1024;  ///< no patience beyond it
        /// Descriptors that a session may have unread, so that one that does not read leaves the others some of what the
        /// kernel allows the daemon's user. At least as many as one packet carries.
        std::size_t unread_fds = 256;
        /// Segments that are remembered as sent to a session that keeps them. Of those beyond it is told that they are gone, so that it
        /// keeps none of which it would never hear again; their descriptors are sent again.
        std::size_t kept_segments = 4096;
        /// Descriptors that all of them may have unread together: what the kernel allows is a limit for all processes of
        /// the daemon's user.
        std::size_t all_unread_fds = SIZE_MAX;
    };

    /// Who owns the sockets. None of these may call back into Outbound.
    class Listener {
      public:
        /// Call `writable` once the socket is so.
        virtual void want_writable(SessionNumber session) = 0;
        /// Nothing more is sent to that session: it does not read, or its socket failed. End it, later.
        virtual void broken(SessionNumber session, std::string_view reason) = 0;
        /// So many bytes are kept here for that session from now on.
        virtual void keeps(SessionNumber session, std::size_t bytes) = 0;
        /// What is said of that capsule in place of an acknowledgement was sent, or will be (Outgoing::unheard).
        virtual void unheard(const hurray::wire::CapsuleId& capsule) = 0;
        /// Whether its user already costs as much as it may: then there is no patience with it.
        [[nodiscard]] virtual bool is_user_full(SessionNumber session) const = 0;

      protected:
        ~Listener() = default;
    };

    Outbound(SegmentTable& segments, Listener& listener, Limits limits) noexcept
        : segments_(segments), listener_(listener), limits_(limits) {}
    Outbound(SegmentTable& segments, Listener& listener) noexcept : Outbound(segments, listener, Limits{}) {}

    /// `socket` is non-blocking, and a loan until `remove`.
    void add(SessionNumber session, int socket);
    /// Forgets what is queued for it. Packets that waited for it are sent.
    void remove(SessionNumber session);

    /// The session keeps the segments that it is sent: from now on no grant brings it the same descriptor twice.
    void keep_segments(SessionNumber session);
    /// The session understands packets that bring others (wire::Packet::more): what goes to it in one run comes in few of them, which costs
    /// it, and wakes it, once.
    void take_bundles(SessionNumber session);
    /// Tells those that keep segments which of them have gone. To be called now and then while `has_gone`: they matter to
    /// nobody at once, and many fit a packet.
    void tell_gone();
    [[nodiscard]] bool has_gone() const noexcept { return !with_gone_.empty(); }

    /// Sends or queues everything in `out`, then drops the segments that it names, and empties it.
    void deliver(Outbox& out);

    /// The socket may have room again.
    void writable(SessionNumber session);
    /// The session has spoken, so it may have read: grants that wait for too many unread descriptors are tried again.
    void spoke(SessionNumber session);
    /// As `spoke`, for all of them. To be called now and then while `has_refused`.
    void retry_refused();
    [[nodiscard]] bool has_refused() const noexcept { return refused_ != 0; }

    /// Cuts who has read nothing for `patience` though it should have (rule 3). To be called a few times in that while
    /// `has_owing`; the time counts from the first call that finds a session so.
    void cut_stalled(std::chrono::steady_clock::time_point now);
    [[nodiscard]] bool has_owing() const noexcept { return !owing_.empty() || crowded_; }

    /// Whether all that was written to it is in its socket; nothing if it is gone or broken, so that it never may be.
    [[nodiscard]] std::optional<bool> has_sent_all(SessionNumber session) const noexcept;
    /// Whether nothing is queued for it.
    [[nodiscard]] bool idle(SessionNumber session) const noexcept;

    /// What waits for its turn, over all sessions. Costs a look at each.
    struct Queued {
        std::uint64_t packets = 0;
        std::uint64_t bytes = 0;
    };
    [[nodiscard]] Queued queued() const noexcept;

  private:
    /// The `number`th packet in a session's own order.
    struct Place {
        SessionNumber session;
        std::uint64_t number = 0;  ///< 0: sent, or not to be waited for
    };
    struct Entry {
        std::string bytes;
        std::vector<SegmentNumber> segments;  ///< held
        std::vector<Place> after;
        std::string unheard;  ///< what is sent instead if one of those never is; empty: nothing
        hurray::wire::CapsuleId unheard_of{};
        bool in_turn = false;  ///< it goes behind grants that step aside before it
    };
    struct Peer {
        int socket = -1;
        bool broken = false;
        bool full = false;                     ///< the socket had no room when last tried
        bool asked_for_room = false;           ///< `writable` will be called
        bool refused = false;                  ///< too many descriptors are unread: grants that carry some stay aside
        boost::container::deque<Entry> queue;  // takes no memory while it is empty, which it nearly always is
        std::vector<Entry> aside;
        std::uint64_t placed = 0;  ///< packets that got a place in the order
        std::uint64_t sent = 0;    ///< of those, sent, or stepped aside after all
        std::size_t bytes = 0;     ///< in `queue`
        std::size_t aside_bytes = 0;
        std::size_t unread_fds = 0;  ///< at most; 0 is known by asking the kernel
        int unread_bytes = 0;        ///< when last looked at by cut_hoarder()
        bool takes_bundles = false;
        bool keeps_segments = false;
        std::unordered_set<std::uint64_t> kept;  ///< sent to it, and neither dropped by it nor gone
        std::set<std::uint64_t> gone;            ///< what it is still to be told
        std::chrono::steady_clock::time_point hoards_since;
        std::set<SessionNumber> dependents;  ///< have packets that wait for this session's
        std::optional<std::chrono::steady_clock::time_point> stalled_since;  ///< owing, and has read nothing since
        int stalled_bytes = 0;                                               ///< unread then
    };

    [[nodiscard]] bool is_sent(const Place& place) const noexcept;
    [[nodiscard]] bool is_past_sending(const Outbox& out, std::size_t index) const noexcept;
    void note_unheard(Outbox& out, std::size_t index);
    [[nodiscard]] bool may_go(const Entry& entry) const noexcept;
    [[nodiscard]] std::vector<Place> unsent_before(const Outbox& out, std::size_t index) const;
    void place(Outbox& out, std::size_t index, std::size_t end);
    void note_gone_out(const Outgoing& outgoing, Peer& peer);
    [[nodiscard]] bool has_peer(SessionNumber session) const noexcept;
    [[nodiscard]] bool may_join(const Outbox& out, std::size_t index) const;
    bool send_run(Peer& peer, Outbox& out, std::size_t first, std::size_t end);
    void pack(const Peer& peer, const Outgoing& outgoing, std::size_t index, std::size_t first_fd);
    static void carry_all(const Peer& peer, hurray::wire::Packet& packet) noexcept;
    static void leave_out_kept(const Peer& peer, hurray::wire::Packet& packet, std::span<const std::uint64_t> before);
    void note_sent(SessionNumber session, Peer& peer, SegmentNumber segment);
    void forget_kept(SessionNumber session, SegmentNumber segment);
    void let_go(SegmentNumber segment, bool is_one_of_many = false);
    void tell_kept(SessionNumber session, const Peer& peer);
    hurray::wire::Sent send(SessionNumber session, Peer& peer, std::string_view bytes,
                            const std::vector<hurray::wire::Segment>* carried, const std::vector<SegmentNumber>& held);
    void enqueue(Peer& peer, const Outgoing& outgoing, std::vector<Place> after, bool aside);
    static void put_aside(Peer& peer, Entry entry);
    static void step_aside(Peer& peer);
    [[nodiscard]] static bool has_grant_aside(const Peer& peer) noexcept;
    void add_unsent(std::vector<Place>& after, const Place& place, SessionNumber to) const;
    [[nodiscard]] bool is_over(const Peer& peer) const noexcept;
    [[nodiscard]] bool may_carry(Peer& peer, std::size_t count) noexcept;
    [[nodiscard]] bool fits_all(std::size_t count) noexcept;
    [[nodiscard]] bool has_room_for_aside(Peer& peer) noexcept;
    void forget_unread(Peer& peer) noexcept;
    void note_read(Peer& peer) noexcept;
    void cut_hoarder(std::chrono::steady_clock::time_point now);
    void break_off_all(const std::vector<Place>& places);
    void wait_for(SessionNumber session, const std::vector<Place>& after);
    void flush(SessionNumber session);
    void flush_all();
    void clear(Peer& peer);
    void tell_unheard(SessionNumber session, const Peer& peer);
    void mark_broken(SessionNumber session, Peer& peer);
    void break_off(SessionNumber session, Peer& peer, std::string_view reason);
    void wake_dependents(Peer& peer);
    void set_refused(Peer& peer, bool refused) noexcept;

    SegmentTable& segments_;
    Listener& listener_;
    Limits limits_;
    std::unordered_map<std::uint64_t, Peer> peers_;
    std::size_t refused_ = 0;
    std::size_t unread_fds_ = 0;  ///< of all peers
    std::chrono::steady_clock::time_point hoarders_seen_;
    bool crowded_ = false;  ///< too many are unread: looked at, and not to be looked at again before the next retry
    std::set<SessionNumber> owing_;  ///< over their limits, or waited for; some of them no longer
    std::set<SessionNumber> with_gone_;
    // Reused from call to call.
    hurray::wire::PacketBuffer encoded_;
    std::vector<Place> places_;    ///< of the packets that are being delivered
    std::vector<bool> is_placed_;  ///< of these: sent, queued or passed over
    /// A packet of a run, and in which of `bundles_` it goes.
    struct RunPart {
        std::size_t index;
        std::size_t bundle;
        std::size_t fds;
    };
    std::vector<RunPart> run_;
    /// What goes out as one packet: one, or several of which the first may bring descriptors. Where its bytes and descriptors are.
    struct Bundle {
        std::size_t begin;
        std::size_t end;
        std::size_t first_fd;
        std::size_t fds;
        bool is_closed;  ///< has to come alone
    };
    std::vector<Bundle> bundles_;
    std::vector<int> run_fds_;
    std::vector<std::uint64_t> run_segments_;
    std::vector<SessionNumber> to_flush_;
};

}  // namespace hurrayd
