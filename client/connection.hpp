#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "client/address.hpp"
#include "client/fork_guard.hpp"
#include "libhurray/base/result.hpp"
#include "libhurray/base/unique_fd.hpp"
#include "proto/wire/messages.hpp"
#include "proto/wire/packet_buffer.hpp"
#include "proto/wire/packet_socket.hpp"

namespace hurray::client {

/// What an event leaves to be done without a lock: mostly a callback of the user's. Returns whether it told the user
/// something; one that only lets something go returns false.
using Notice = std::function<bool()>;

/// Who books what the daemon says without having been asked.
class EventSink {
  public:
    /// Books `event` and appends what is to be done about it. Called in the order of the events by whichever thread reads,
    /// without a lock of the connection.
    virtual void on_event(wire::PacketMessage&& event, std::vector<Notice>& notices) = 0;
    /// A grant came whose caller had given up. Its lease is on its way back. Called as on_event is.
    virtual void on_late_grant(const wire::AttachReply& grant, std::vector<UniqueFd>&& fds, bool fds_missing) = 0;
    /// The daemon is away, and the connection tries to reach one again: on_back or on_end comes. Not `was_up`: it has gone again before
    /// all was brought back. Called as on_event is.
    virtual void on_away(const Error& reason, bool was_up, std::vector<Notice>& notices) = 0;
    /// There is a daemon again. In the same life everything that hung on the connection is over; in another one it can be brought
    /// back. Called on the thread that reconnects, whose calls and claims go through meanwhile; nobody else's do. What it puts into
    /// `once_up` is told only if others' do from then on, not if that daemon has gone meanwhile. Fails: as its calls and claims do.
    [[nodiscard]] virtual Result<void> on_back(bool is_same_life, std::vector<Notice>& notices,
                                               std::vector<Notice>& once_up) = 0;
    /// The connection has ended; no event comes after this. Called once.
    virtual void on_end(const Error& reason, std::vector<Notice>& notices) = 0;

  protected:
    ~EventSink() = default;
};

/// One conversation with the daemon: requests and their replies, events, releases.
///
/// **Who reads the socket.** The thread that waits for a reply reads the socket itself and hands on what belongs to others, so
/// a request costs no hop between threads. If several wait, one reads and the others sleep until their reply is there or it
/// is their turn to read. Only while nobody waits the *pump* reads: a background thread, or the user in dispatch(). At most
/// one thread reads at a time (`reading_`), which keeps the order of events. What events leave to be told is queued, and told
/// in that order by dispatch(), or by a second background thread, the *teller*.
///
/// The pump sleeps in an epoll over the socket and an eventfd (`wake_`) that is set while notices are queued and somebody sleeps
/// there, or may: the program, once it has asked for `poll_fd`. If somebody waits
/// for a reply meanwhile, the socket is out of that epoll, so that the pump is not woken for what is not its own; a waiter that
/// reads an event wakes the pump for it. A reader sleeps in a poll over the socket and another eventfd (`kick_`), with which
/// others tell it that its call has been ended or that there is something to be written.
///
/// **Releases.** The first one goes out at once. While one is without its answer, those that follow collect, and the pump is woken to
/// send them all in one packet: so many in a row cost a few packets, and the last waits for a thread to wake, never for the
/// daemon or for other traffic. Whoever sends a request meanwhile sends them before it. Where the user is the pump, which
/// may not come for long, each goes out at once. What the socket has no room for is sent by the next who reads or writes.
///
/// **The daemon's death.** When the socket ends, every waiting call fails with ConnectionLost, and each later one while the daemon is *away*. A
/// thread of its own, the *resumer*, tries to reach one again, with growing pauses. Once one answers, the new socket takes the old one's
/// place (and number), the resumer brings back what hung on the old one (EventSink::on_back), and only then others' calls go
/// through again. Each connection made so is an *epoch*. Whoever prepares a request for one epoch (a segment's number in place of its descriptor)
/// says so in the call, which fails with ConnectionLost in another.
///
/// **End.** Where it does not reconnect, or has tried for too long, every waiting call fails, and each later one, with ConnectionLost.
/// The daemon is told by a shutdown of the socket, which may stay open for as long as the client's views.
///
/// **No memory.** A packet whose handling runs out of memory is lost, and with it somebody's reply or a lease's fate. Nothing that
/// rests on having seen every packet would be true any more. So that is the connection's end, whichever thread it happens on.
/// The program goes on, its views stay.
///
/// Owner: a Session. In a forked child it must not be destroyed: its locks and its thread belong to the parent.
/// Threads: any, at any time, except for dispatch(): one at a time, and not beside a background pump.
class Connection final {
  public:
    struct Greeting {
        std::string client_name;
        Deadline answer_deadline;  ///< for the daemon's answer, once somebody takes the connection
        bool reconnects = true;
        std::optional<std::chrono::milliseconds> reconnect_time =
            {};  ///< for how long it tries each time; absent: for ever
    };

    /// Connects, says Hello with a fresh session and reads the answer.
    /// Fails: as connect_socket does; Protocol; TimedOut; Interrupted; whatever the daemon refuses with.
    [[nodiscard]] static Result<std::unique_ptr<Connection>> open(const Address& address, Deadline deadline,
                                                                  const Greeting& greeting, Interrupted interrupted);

    ~Connection() = default;
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;

    /// Sets who books the events; null: nobody, they are dropped. No thread may be inside a call or the pump.
    void set_sink(EventSink* sink);

    struct Wait;

    struct Reply {
        wire::PacketMessage message;
        std::vector<UniqueFd> fds;
    };

    /// What is asked again of each life of the daemon, until one answers, and before that life is told that all has been said. It stands for all
    /// its calls, one after the other, by one thread; wait_up() says when the next may be made.
    class Insistent {
      public:
        explicit Insistent(Connection& connection);
        ~Insistent();
        Insistent(const Insistent&) = delete;
        Insistent& operator=(const Insistent&) = delete;

      private:
        friend class Connection;
        Connection& connection_;
        std::uint64_t asked_in_ = 0;  ///< the epoch; 0: not yet
    };

    struct CallOptions {
        std::span<const int> fds = {};                           ///< loans, sent with the request
        std::optional<std::uint64_t> timeout_ms = std::nullopt;  ///< the daemon's: Request.timeout_ms
        bool interruptible = true;
        std::uint64_t lease = 0;         ///< of an attach: released if it is granted after the caller gave up
        std::uint64_t epoch = 0;         ///< the one that it is meant for; 0: any
        Insistent* insistent = nullptr;  ///< of one that is asked again and again
        /// Runs on the reading thread, before any later packet is looked at, under the connection's lock: it may book
        /// something, not call back here. Of a grant it may take the descriptors; if they are missing the call fails anyway.
        std::function<void(const wire::PacketMessage&, std::vector<UniqueFd>& fds, bool fds_missing)> on_reply = {};
    };

    /// A request, and its reply once that is there.
    class Call {
      public:
        Call() = default;
        Call(wire::RequestMessage asked, CallOptions how) : message(std::move(asked)), options(std::move(how)) {}
        Call(const Call&) = delete;
        Call& operator=(const Call&) = delete;
        ~Call() = default;

        wire::RequestMessage message;
        CallOptions options;
        /// Fails: whatever Error the daemon answers; Limit, if it was not sent; and as call_many does. Absent: not sent.
        std::optional<Result<Reply>> result;
        /// Its reply came without its descriptors, since this process had too few free.
        bool lacks_descriptors = false;
        /// It is on its way, or was; what became of it is not known if it fails with ConnectionLost.
        bool was_sent = false;
        /// It failed with ConnectionLost since the daemon went away, is away, or was (CallOptions::epoch): wait_up(), and ask again.
        bool is_lost = false;
        /// It was not sent, since too many descriptors of this user are on their way to other processes. A moment later it may be.
        [[nodiscard]] bool is_held_up() const noexcept;

      private:
        friend class Connection;
        std::uint64_t request_id_ = 0;
        Wait* wait_ = nullptr;  ///< while it has no result
        std::optional<Clock::time_point> sent_at_;
    };

    /// What one failure means for the others of a batch.
    enum class OnRefusal : std::uint8_t {
        GoOn,
        CancelOthers  ///< those that may wait are cancelled: each is granted all the same, or answered Closed
    };
    /// The most requests that are sent at a time.
    static constexpr std::size_t kMostCalls = 128;

    /// Sends requests, as few system calls as it takes, and waits for all their replies. At least the first one is sent. Of the
    /// others, up to kMostCalls in all, as many as the socket has room for: so whatever waits in a queue waits in the kernel's, and a
    /// daemon that is as busy sending as this end is can't make the two wait for each other. What was not sent has no result
    /// then: call again with it.
    ///
    /// Throws std::bad_alloc only where nothing was sent. Returns the first one that the daemon refused, if any was; in time, not in the order of `calls`.
    /// Fails: Interrupted: those without a reply are cancelled, a lease that one is granted all the same is released, and those that
    /// were answered before keep their results. Otherwise what has failed is in the calls.
    [[nodiscard]] Result<const Call*> call_many(std::span<Call* const> calls, OnRefusal on_refusal);

    /// Sends `message` and waits for its reply. Not for an attach, which may have been granted when this fails.
    /// Fails: whatever Error the daemon answers; ConnectionLost; Closed; Forked; Interrupted: the request is cancelled.
    [[nodiscard]] Result<Reply> call(wire::RequestMessage message, const CallOptions& options);

    /// Sends a request whose reply nobody waits for. Never blocks; does nothing once the connection has ended, or while the daemon is
    /// away: then what hangs on the connection is brought back without what this would have ended. While that is being done, it is sent
    /// afterwards. `answered` runs on the thread that reads the reply, without a lock of the connection; not if none comes.
    void post(wire::RequestMessage message, std::function<void()> answered = {}) noexcept;

    /// A number for a lease, never given twice.
    [[nodiscard]] std::uint64_t next_lease_number() noexcept { return ++last_lease_; }
    /// A granted lease has found its owner, who keeps the connection alive until release().
    void lease_opened() noexcept;
    /// It is over, and the daemon is told nothing of it: that does not know it.
    void lease_lost() noexcept;
    struct Released {
        std::uint64_t lease = 0;
        wire::CapsuleId capsule;
    };
    /// Gives a lease back. Never blocks. See "Releases".
    void release(const Released& released) noexcept;

    /// `said`, in numbers: what the daemon that answered last would make of it. None: it has not told.
    [[nodiscard]] std::optional<wire::Access> access_of(std::optional<wire::Access> said) const;

    /// The connection that stands, or stood last: 1, then 2, ...
    [[nodiscard]] std::uint64_t epoch() const noexcept { return epoch_; }
    enum class Until : std::uint8_t {
        Up,
        InsistentMayAsk  ///< up, or being brought back and about to be said all of: for who has an Insistent
    };
    /// Waits until the daemon is back, if it is away. Fails: ConnectionLost (the end, or `deadline`), Closed, Interrupted.
    [[nodiscard]] Result<void> wait_up(Deadline deadline, Until until = Until::Up);

    /// The resumer's: waits until each Insistent that asked a former life has asked this one, but not for ever.
    void await_insistent();
    /// Whether there is a daemon; false: it is away, or the connection has ended.
    [[nodiscard]] bool is_up() const;

    // For EventSink::on_back:
    /// The leases that were given back and not acknowledged; from now on they are the caller's business.
    [[nodiscard]] std::vector<Released> take_releases();
    /// Claims them as released, and waits for no answer: until it comes they are among those of take_releases().
    void claim_released(std::vector<Released> released);

    /// Ends every waiting call, and each later one, with Closed; waiting requests are cancelled at the daemon. Leases and
    /// post() go on. So do calls with an Insistent while the daemon is there: what they are about was granted before, and can't be taken
    /// back. If the daemon does not answer one for seconds, the connection ends. Never blocks.
    void close_calls();

    /// Something to be done now and then by the thread that tells, without a lock: `period` after each `call_for_chore`, and again as long as
    /// it returns true. To be said before there is such a thread.
    void set_chore(std::chrono::milliseconds period, std::function<bool()> chore);
    void call_for_chore() noexcept;

    /// Starts a thread that pumps, and one that tells: so the socket is read also while a callback of the user's takes its time.
    /// Fails: Limit (threads of this process or user).
    [[nodiscard]] Result<void> start_background_pump();
    /// Ends both and waits for them, if there are any.
    void stop_background_pump();
    /// From now on the daemon's death is the end. Waits for the resumer, if there is one.
    void stop_reconnecting();
    /// For when the client object goes: lets a pump of its own serve the connection until its last lease is released and all
    /// is sent. That pump holds `owner`, which owns this connection. Notices that are queued are dropped. Call without a pump.
    void outlive_client(std::shared_ptr<void> owner);

    /// Descriptor to poll: dispatch() has something to do, or to say. It stays readable once the client was closed or the
    /// connection has ended. A loan.
    [[nodiscard]] int poll_fd();

    /// Does the pump's work on this thread until the user was told something, or `deadline`. Returns how many notices told
    /// something. Fails: Interrupted; Closed, by close_calls() meanwhile; ConnectionLost, once nothing is left to tell; Forked.
    [[nodiscard]] Result<std::size_t> dispatch(Deadline deadline);

    /// Whom the daemon takes this client for: the effective user when it connected.
    [[nodiscard]] std::uint32_t uid() const noexcept { return uid_; }
    /// Whether the connection still stands.
    [[nodiscard]] bool has_ended() const;
    [[nodiscard]] std::size_t open_leases() const;
    [[nodiscard]] bool in_child() const noexcept { return fork_guard_.in_child(); }

  private:
    class Registration;
    class ReaderTurn;
    class DispatchStay;
    enum class State : std::uint8_t {
        Up,
        Away,     ///< the socket is of no use
        Resuming  ///< it is for the resumer alone
    };
    enum class WhichCalls : std::uint8_t { All, ButInsistent };
    struct Sleeper;
    struct Outgoing {
        std::uint64_t request_id;
        std::string bytes;
        std::vector<UniqueFd> fds;
    };
    struct Posted {
        wire::RequestMessage message;
        std::function<void()> answered;
    };
    using Lock = std::unique_lock<std::mutex>;

    Connection(const Address& address, const Greeting& greeting, UnforkedFd socket, UniqueFd epoll, UniqueFd wake,
               UniqueFd kick, Interrupted interrupted);

    /// A socket over which the daemon has answered our Hello.
    struct Greeted {
        UnforkedFd socket;
        wire::HelloReply reply;
    };
    [[nodiscard]] static Result<wire::HelloReply> greet(int socket, const wire::Hello& hello, Deadline deadline,
                                                        const Interrupted& interrupted, int kick);
    [[nodiscard]] wire::Hello hello() const;

    // With the mutex held.
    [[nodiscard]] Result<void> send(Lock& held, const wire::Request& request, std::span<const int> fds);
    [[nodiscard]] Result<void> send_encoded(Lock& held, std::uint64_t request_id, std::span<const int> fds);
    [[nodiscard]] Result<void> check_size(std::size_t size) const;
    [[nodiscard]] std::size_t send_first(Lock& held, std::span<Call* const> calls);
    void post_now(Lock& held, Posted posted);
    void flush(Lock& held);
    void flush_releases(Lock& held);
    void update_interest(Lock& held);
    void hand_over(Lock& held);
    void finish(Lock& held, Call& call, Result<Reply> result);
    void cancel_others(Lock& held, const Wait& wait);
    void fail_calls(Lock& held, const Error& reason, WhichCalls which = WhichCalls::All);
    void wake_pump(Lock& held) noexcept;
    void lose_pump(Lock& held) noexcept;
    void queue_notices(Lock& held, std::vector<Notice>&& notices);
    void abandon(Lock& held, Call& call, std::uint64_t lease);
    [[nodiscard]] bool outlived_and_idle(Lock& held) const;
    [[nodiscard]] std::optional<Error> why_no_calls(Lock& held, std::uint64_t epoch, const Insistent* insistent) const;
    [[nodiscard]] bool start_resumer(Lock& held) noexcept;
    void wake_sleepers(Lock& held) noexcept;

    // With the mutex held, given up in between.
    [[nodiscard]] Result<void> wait_for(Lock& lock, Wait& wait, std::span<Call* const> calls);
    [[nodiscard]] bool read_until_done(Lock& lock, const Wait& wait, bool looks_up);
    void read_packets(Lock& lock, std::size_t most);
    void handle(Lock& lock, std::span<const std::byte> bytes, wire::Received& received);
    void handle_one(Lock& lock, std::span<const std::byte> bytes, wire::Received& received);
    void break_off(Lock& lock, const std::string& why);
    void handle_event(Lock& lock, wire::PacketMessage&& event);
    void handle_reply(Lock& lock, wire::Packet&& packet, std::vector<UniqueFd>&& fds, bool fds_missing);
    void lose(Lock& lock, Error reason);
    void end(Lock& lock, Error reason);
    void end_out_of_memory(Lock& lock) noexcept;
    [[nodiscard]] bool pump(Lock& lock, Deadline deadline);
    std::size_t run_notices(Lock& lock);
    void run_background_pump();
    void run_teller();
    void run_resumer();
    void reconnect(Lock& lock);
    [[nodiscard]] std::optional<Greeted> reach_daemon(Lock& lock);
    void resume(Lock& lock, Greeted greeted);

    const UnforkedFd socket_;
    const UniqueFd epoll_;
    const UniqueFd wake_;
    const UniqueFd kick_;
    const Interrupted interrupted_;
    const Address address_;
    const Greeting greeting_;
    wire::Id16 session_;
    wire::HelloReply hello_;  ///< the last one
    const std::uint32_t uid_;
    std::atomic<std::uint64_t> last_lease_{0};
    wire::BurstReader reader_;  ///< of whoever reads
    std::thread pump_;
    std::thread teller_;

    mutable std::mutex mutex_;
    EventSink* sink_ = nullptr;
    std::list<Call*> calls_;   ///< without their result, oldest first
    std::size_t waiters_ = 0;  ///< threads that read, or sleep until it is their turn
    bool reading_ = false;     ///< some thread is the reader
    bool pump_reads_ = false;  ///< and it is the pump
    bool closed_ = false;
    Clock::time_point closed_at_;
    std::optional<Error> end_;         ///< set once the socket is of no use any more
    bool end_is_booked_ = false;       ///< and on_end() has been called, its notices are queued
    std::optional<Error> last_words_;  ///< what the daemon said before it cut the connection
    std::uint64_t last_request_ = 1;   ///< that was Hello
    wire::PacketBuffer encoded_;
    std::deque<Outgoing> outgoing_;                                     ///< what the socket did not take at once
    std::vector<Released> releases_;                                    ///< to be sent
    bool has_pump_ = false;                                             ///< a thread that sends them when woken
    std::unordered_map<std::uint64_t, std::vector<Released>> unacked_;  ///< by request
    std::unordered_set<std::uint64_t>
        claimed_;  ///< of those requests, the claims: their answer may take as long as the resume window
    std::size_t unacked_leases_ = 0;                                   ///< of them, but for those that were claimed
    std::unordered_map<std::uint64_t, std::function<void()>> posted_;  ///< by request
    std::vector<Posted> deferred_;                                     ///< to be posted once it is up again
    std::unordered_map<std::uint64_t, std::uint64_t> abandoned_;  ///< request -> lease to release should it be granted
    std::deque<Notice> notices_;
    std::condition_variable untold_;  ///< the teller sleeps in it
    bool has_teller_ = false;         ///< else the pump tells
    std::chrono::milliseconds chore_period_{};
    std::function<bool()> chore_;
    Clock::time_point next_chore_ = Clock::time_point::max();
    bool wake_set_ = false;
    std::uint32_t interest_ = 0;   ///< what the pump's epoll waits for on the socket
    unsigned pumps_asleep_ = 0;    ///< in the epoll: the pump, or threads of the user in dispatch()
    bool poll_fd_is_out_ = false;  ///< the user may be polling the epoll at any time
    std::size_t open_leases_ = 0;
    bool stop_pump_ = false;
    bool outlives_client_ = false;

    std::atomic<std::uint64_t> epoch_{1};
    State state_ = State::Up;
    bool is_lost_ = false;          ///< there is something to do for the resumer
    Clock::time_point lost_since_;  ///< of the outage that goes on
    std::thread resumer_;           ///< from the first loss on
    std::thread::id resumer_id_;
    std::condition_variable lost_;  ///< the resumer sleeps in it
    bool stop_resumer_ = false;
    std::list<Sleeper*> sleepers_;  ///< in wait_up
    std::vector<Insistent*> insistent_;
    bool takes_insistent_ = false;  ///< while it is being brought back: all that they depend on has been said

    ForkGuard fork_guard_;  ///< last: on the books only while epoll_, wake_ and kick_ are open
};

}  // namespace hurray::client
