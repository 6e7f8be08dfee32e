#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

/// A model of who reads the socket: client/connection.cpp and connection_resume.cpp, without the packets' contents.
///
/// A step is what a thread does from one place where others can come in between to the next: from taking the connection's lock
/// until giving it up, or one system call without the lock. What happens inside the lock is written here as there, in functions of
/// the same names; where a thread can be in between is its `At`:
///
///   at (caller)     where in client/connection.cpp
///   Calling         before call_many()
///   Polling         read_until_done: in poll(); Polled: out of it, before the lock
///   Receiving       read_packets: before reader_.read(); Handling: with the burst, before the lock and the next packet of it
///   Losing, Ending  lose(), end(): between the first half and the second, where on_away() and on_end() run
///   Sleeping        wait_for: in sem_wait(); Woken: out of it, before the lock
///   Asking          wait_for: in interrupted_()
///   Away            wait_up: in poll()
///
///   at (pump)       of run_background_pump() or of a program that polls the descriptor and calls dispatch()
///   Waiting         pump: in epoll_wait(); Waited: out of it, before the lock
///   Telling         run_notices: in a notice
///   Outside         the program's own poll() of the descriptor, or between two dispatch()
///
///   at (teller)     run_teller(): Idle: in untold_.wait(); Notified: woken; Telling: in a notice
///   at (resumer)    run_resumer(): Idle: in lost_.wait(); Notified: woken; Reaching: reach_daemon(); Ending: as above
///   Resuming        resume(): in on_back(), before take_releases(); Claiming: before claim_released();
///                   Bringing: at its calls, where it is a caller like others, kResumer, and after them, before the lock
///
/// The peer is the daemon: it takes requests, answers them in any order, sends events, goes away and comes back. Not modelled: running
/// out of memory, forks, requests whose reply nobody waits for, a client that is outlived by its leases.
namespace hurray::model {

/// The rules that make it work, each of which can be left out, to see that it is needed.
enum class Rule : std::uint8_t {
    OneReads,           ///< nobody begins to read while somebody does
    ReaderHandsOver,    ///< ~ReaderTurn: hand_over
    AskerHandsOver,     ///< wait_for: whoever leaves its wait to ask interrupted_ passes on a turn that came just then
    AskerDoesNotCount,  ///< wait_for: whoever asks interrupted_ is no waiter meanwhile
    SleepersAreMarked,  ///< wait_for: Wait::sleeping, set before the lock is given up
    FinishWakesTheCaller,       ///< finish: sem_post
    BurstIsHandledToItsEnd,     ///< read_packets: also when the reader has its own replies
    FailKicksTheReader,         ///< fail_calls: kick_, since the reader sleeps in poll
    BlockedSendKicksTheReader,  ///< send: kick_, so that the reader polls for writability too
    BlockedSendIsWatched,       ///< update_interest: EPOLLOUT while something is to be written
    LastWaiterOpensInterest,    ///< ~Registration: update_interest
    PumpOpensInterest,          ///< pump: update_interest before it sleeps
    PollFdKeepsInterest,        ///< update_interest: also while only the program itself polls the descriptor
    PollFdSeesTheMark,          ///< wake_pump: also while only the program itself polls the descriptor
    NoticeWakesThePump,         ///< queue_notices: wake_pump
    NoticeWakesTheTeller,       ///< queue_notices: untold_
    EndFailsCalls,              ///< end: fail_calls
    EndWakesThePump,            ///< end: wake_pump
    EndWakesSleepers,           ///< end: wake_sleepers
    CloseWakesThePump,          ///< close_calls: wake_pump
    DispatchLeavesTheMark,      ///< dispatch: what it leaves to be done marks the descriptor again
    DispatchTellsTheEndLast,    ///< dispatch: ConnectionLost only once on_end's notices are queued
    StopWakesThePump,           ///< stop_background_pump: wake_pump
    StopWakesTheTeller,         ///< stop_background_pump: untold_
    AbandonedGrantGoesBack,     ///< handle_reply: a late grant is released
    ReleaseWakesThePump,        ///< release: wake_pump, if it was not sent at once
    PumpSendsReleases,          ///< pump: flush_releases before it sleeps
    FlushSendsReleases,         ///< flush: flush_releases, which had to wait for what was before them
    StopSendsReleases,          ///< lose_pump: flush_releases
    LossFailsCalls,             ///< lose: fail_calls
    LossKeepsReleases,          ///< lose: those that were not acknowledged are to be sent again
    LossWakesTheResumer,        ///< lose, ~ReaderTurn: lost_
    LostRefusesTheResumer,      ///< why_no_calls: also the resumer's, once the connection is lost again
    BackLetsTheResumerCall,     ///< why_no_calls: its calls go through before others' do
    RepeatedLossIsNotTold,      ///< lose: on_away is told who may tell of it
    BackIsToldOnceItIsSo,       ///< resume: not if the connection was lost again meanwhile
    LossKeepsClaims,            ///< claim_released: what can't be claimed any more is claimed the next time
    StopWaitsForTheLoss,        ///< run_resumer: for what lose() is about to say
    BackOpensInterest,          ///< resume: update_interest, wake_pump
    BackSendsReleases,          ///< resume: flush_releases
    BackWakesSleepers,          ///< resume: wake_sleepers
    kCount
};
[[nodiscard]] std::string_view name_of(Rule rule);

/// Who pumps.
enum class Pump : std::uint8_t {
    Background,  ///< threads of the client's: one pumps, one tells
    Polls,       ///< the program: it polls the descriptor and calls dispatch with timeout 0 once it is readable
    Dispatches   ///< the program: it is in dispatch, without an end
};

/// What may happen. Everything that may happens at any moment, or, where it says "may", also not at all.
struct Situation {
    std::string_view name;
    Pump pump = Pump::Background;
    std::uint8_t callers = 2;
    std::uint8_t calls = 1;  ///< of each
    std::uint8_t events = 0;
    std::uint8_t batch = 1;  ///< requests of each call
    std::uint8_t releases = 0;
    std::uint8_t send_room = 8;         ///< requests that the socket takes before the peer has taken any
    std::uint8_t signals = 0;           ///< that may interrupt a wait, at most
    std::uint8_t timed_dispatches = 0;  ///< Polls: how often the program calls dispatch with a timeout instead, at most
    bool interrupted_waits =
        false;                    ///< interrupted_ comes back only when all other callers are done and all events told
    bool callbacks_wait = false;  ///< and so do callbacks, for the callers
    bool is_closed = false;       ///< some thread closes the client
    bool is_destroyed = false;    ///< after the callers have gone: close, stop_reconnecting, stop_background_pump
    std::uint8_t departures = 0;  ///< how often the peer leaves, at most
    bool reconnects = false;      ///< and it comes back
    std::uint8_t resumer_calls = 0;  ///< in on_back(), at most kMostResumerCalls
    bool one_is_unanswered = false;  ///< the first call of caller 0
    bool may_give_up = false;        ///< or does not come back for too long
    bool acknowledges = true;        ///< the peer answers releases
    bool end_is_told = true;         ///< on_end has notices
};

class WhoReads {
  public:
    static constexpr std::size_t kMostCallers = 3;
    static constexpr std::size_t kResumer = kMostCallers;  ///< as a caller, the last one
    static constexpr std::uint8_t kMostResumerCalls = 2;
    static constexpr std::size_t kMostPackets = 8;

    enum class At : std::uint8_t {
        Gone,
        // Callers
        Calling,
        Polling,
        Polled,
        Sleeping,
        Woken,
        Asking,
        Away,
        // Whoever reads
        Receiving,
        Handling,
        Losing,
        Ending,
        // The pump
        Outside,
        Waiting,
        Waited,
        Telling,
        // The teller and the resumer
        Idle,
        Notified,
        Reaching,
        Resuming,
        Claiming,
        Bringing
    };
    enum class Life : std::uint8_t { Up, Away, Resuming };
    using Packet = std::uint8_t;

    /// A queue or list, whose unused places are zero.
    struct List {
        std::array<Packet, kMostPackets> items{};
        std::uint8_t size = 0;
        [[nodiscard]] bool empty() const { return size == 0; }
        [[nodiscard]] const Packet* begin() const { return items.data(); }
        [[nodiscard]] const Packet* end() const { return items.data() + size; }
        void push(Packet packet);
        Packet pop();
        bool remove(Packet packet);
        void clear() { *this = {}; }
        friend bool operator==(const List&, const List&) = default;
    };
    struct Caller {
        At at = At::Calling;
        std::uint8_t calls_to_come = 0;  ///< with the one that goes on
        std::uint8_t number = 0;         ///< of its next request
        std::uint8_t unanswered = 0;     ///< Wait::unanswered
        std::uint8_t granted = 0;        ///< calls with a reply
        std::uint8_t turn = 0;           ///< the semaphore
        bool sleeping = false;
        bool is_lost = false;
        bool sleeper_woken = false;  ///< the eventfd of wait_up
        bool polls_out = false;
        std::uint8_t ready = 0;  ///< what poll said
        friend bool operator==(const Caller&, const Caller&) = default;
    };
    struct State {
        std::array<Caller, kMostCallers + 1> callers{};
        // The pump: whose thread it is depends on the situation.
        At pump = At::Gone;
        std::uint8_t pump_ready = 0;
        Packet pump_notice = 0;
        bool dispatch_looked = false;
        bool dispatch_told = false;
        bool dispatch_last_look = false;
        bool dispatch_is_timed = false;
        std::uint8_t timed_dispatches = 0;
        At teller = At::Gone;
        Packet teller_notice = 0;
        At resumer = At::Gone;
        std::uint8_t in_resumers_hands = 0;  ///< releases, between take_releases and claim_released
        bool back_has_failed = false;        ///< on_back()
        bool closer_is_there = false;
        bool destroyer_is_there = false;
        std::uint8_t signals = 0;
        std::uint8_t releases_to_come = 0;
        // The peer and the socket
        bool peer_is_there = true;
        std::uint8_t departures = 0;
        std::uint8_t events_sent = 0;
        List sent;      ///< requests that the peer has not taken
        List taken;     ///< that it has not answered
        List incoming;  ///< packets for this side
        std::uint8_t grants = 0;
        std::uint8_t owned = 0;
        std::uint8_t returned = 0;
        std::uint8_t released = 0;
        // The connection's members
        List calls;  ///< requests
        std::uint8_t waiters = 0;
        bool reading = false;
        bool pump_reads = false;
        bool closed = false;
        bool end = false;
        bool end_is_booked = false;
        Life life = Life::Up;
        bool is_lost = false;
        bool was_up = false;  ///< of lose(), between its halves
        bool stop_resumer = false;
        bool in_epoll = true;
        bool has_pump = false;
        bool stop_pump = false;
        List burst;  ///< reader_
        List outgoing;
        List abandoned;
        List notices;
        std::uint8_t releases = 0;
        std::uint8_t unacked = 0;
        std::uint8_t claimed = 0;
        bool wake_set = false;
        bool kick_set = false;
        bool pump_sleeps = false;
        bool poll_fd_is_out = false;
        std::uint8_t interest = 0;
        // What the program was told
        std::uint8_t told = 0;
        bool told_away = false;  ///< and not yet that it is back
        bool told_end = false;
        // What must not be
        bool told_out_of_order = false;
        bool two_read = false;
        friend bool operator==(const State&, const State&) = default;
    };

    explicit WhoReads(const Situation& situation, std::optional<Rule> left_out = std::nullopt)
        : situation_(situation), left_out_(left_out) {}

    using Visit = std::function<void(const State&, std::string_view what)>;
    [[nodiscard]] State first() const;
    void for_each_step(const State& state, const Visit& visit) const;
    [[nodiscard]] std::optional<std::string> wrong(const State& state) const;
    [[nodiscard]] std::optional<std::string> wrong_at_rest(const State& state) const;
    [[nodiscard]] std::string describe(const State& state) const;

  private:
    class Step;
    [[nodiscard]] bool keeps(Rule rule) const { return left_out_ != rule; }

    Situation situation_;
    std::optional<Rule> left_out_;
};

}  // namespace hurray::model
