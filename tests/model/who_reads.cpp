#include "tests/model/who_reads.hpp"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "libhurray/base/check.hpp"

namespace hurray::model {
namespace {

using Packet = WhoReads::Packet;

constexpr Packet kNothing = 0;  // would block
constexpr Packet kPost = 0x10;
constexpr Packet kReply = 0x20;  // to the request in the lower bits
constexpr Packet kEvent = 0x40;  // its number in the lower bits
constexpr Packet kEnd = 0x7F;    // of the stream, and the notice of that

constexpr Packet request_of(std::size_t caller, std::uint8_t number) {
    return static_cast<Packet>(1 + caller * 4 + number);
}

// What poll and epoll report.
constexpr std::uint8_t kIn = 1;
constexpr std::uint8_t kOut = 2;
constexpr std::uint8_t kKick = 4;
constexpr std::uint8_t kWake = 8;
constexpr std::uint8_t kSignal = 16;

/// Packets that the pump reads before it looks up, kPumpBatch; two show what one and many do.
constexpr std::uint8_t kPumpBatch = 2;

}  // namespace

std::string_view name_of(Rule rule) {
    constexpr std::array<std::string_view, static_cast<std::size_t>(Rule::kCount)> names = {"OneReads",
                                                                                            "ReaderHandsOver",
                                                                                            "AskerHandsOver",
                                                                                            "AskerDoesNotCount",
                                                                                            "SleepersAreMarked",
                                                                                            "FinishWakesTheCaller",
                                                                                            "FailKicksTheReader",
                                                                                            "BlockedSendKicksTheReader",
                                                                                            "BlockedSendIsWatched",
                                                                                            "LastWaiterOpensInterest",
                                                                                            "PumpOpensInterest",
                                                                                            "PollFdKeepsInterest",
                                                                                            "NoticeWakesThePump",
                                                                                            "NoticeWakesTheTeller",
                                                                                            "EndFailsCalls",
                                                                                            "EndWakesThePump",
                                                                                            "CloseWakesThePump",
                                                                                            "DispatchLeavesTheMark",
                                                                                            "DispatchTellsTheEndLast",
                                                                                            "StopWakesThePump",
                                                                                            "StopWakesTheTeller",
                                                                                            "AbandonedGrantGoesBack",
                                                                                            "GrantMeanwhileGoesBack"};
    return names[static_cast<std::size_t>(rule)];
}

void WhoReads::List::push(Packet packet) {
    HURRAY_CHECK(size < kMostPackets);
    items[size++] = packet;
}

Packet WhoReads::List::pop() {
    const Packet first = items[0];
    remove(first);
    return first;
}

bool WhoReads::List::remove(Packet packet) {
    const auto found = std::find(items.begin(), items.begin() + size, packet);
    if (found == items.begin() + size) {
        return false;
    }
    std::move(found + 1, items.begin() + size, found);
    items[--size] = 0;
    return true;
}

/// One step: a state that becomes the next one.
class WhoReads::Step {
  public:
    Step(const WhoReads& model, const State& before) : s(before), model_(model), situation_(model.situation_) {}

    State s;

    // ---- What the kernel knows ----

    [[nodiscard]] bool is_writable() const { return !s.peer_is_there || s.sent.size < situation_.send_room; }
    [[nodiscard]] bool is_readable() const { return !s.incoming.empty() || !s.peer_is_there; }
    [[nodiscard]] std::uint8_t poll(bool polls_out) const {
        return static_cast<std::uint8_t>((is_readable() ? kIn : 0) | (polls_out && is_writable() ? kOut : 0) |
                                         (s.kick_set ? kKick : 0));
    }
    /// A peer that is gone is reported whether anybody asked for it or not.
    [[nodiscard]] std::uint8_t epoll() const {
        const bool in = s.in_epoll && (((s.interest & kIn) != 0 && is_readable()) || !s.peer_is_there);
        const bool out = s.in_epoll && (s.interest & kOut) != 0 && is_writable();
        return static_cast<std::uint8_t>((s.wake_set ? kWake : 0) | (in ? kIn : 0) | (out ? kOut : 0));
    }

    // ---- Connection, with the lock ----

    [[nodiscard]] bool has_teller() const { return situation_.pump == Pump::Background; }

    void update_interest() {
        const bool program_looks = s.poll_fd_is_out && keeps(Rule::PollFdKeepsInterest);
        if (s.end || (!s.pump_sleeps && !program_looks)) {
            return;
        }
        s.interest = 0;
        if (s.waiters == 0) {
            s.interest = s.outgoing.empty() || !keeps(Rule::BlockedSendIsWatched) ? kIn : kIn | kOut;
        }
    }

    void hand_over() {
        const auto sleeper =
            std::find_if(s.calls.begin(), s.calls.end(), [&](Packet caller) { return s.callers[caller].sleeping; });
        if (sleeper != s.calls.end()) {
            ++s.callers[*sleeper].turn;
        }
    }

    void finish(Caller& caller, Result result) {
        caller.result = result;
        if (keeps(Rule::FinishWakesTheCaller)) {
            ++caller.turn;
        }
    }

    void fail_calls(Result reason) {
        for (const Packet caller : s.calls) {
            finish(s.callers[caller], reason);
        }
        s.calls.clear();
        if (s.reading && keeps(Rule::FailKicksTheReader)) {
            s.kick_set = true;
        }
    }

    void wake_pump() {
        if (!s.wake_set && (!s.pump_reads || s.end || s.closed)) {
            s.wake_set = true;
        }
    }

    void queue_notice(Packet notice) {
        s.notices.push(notice);
        if (has_teller()) {
            if (keeps(Rule::NoticeWakesTheTeller)) {
                notify_teller();
            }
        } else if (keeps(Rule::NoticeWakesThePump)) {
            wake_pump();
        }
    }

    void notify_teller() {
        if (s.teller == At::Idle) {
            s.teller = At::Notified;
        }
    }

    void send(Packet request) {
        if (s.outgoing.empty() && is_writable()) {
            deliver(request);
            return;
        }
        s.outgoing.push(request);
        if (s.reading && keeps(Rule::BlockedSendKicksTheReader)) {
            s.kick_set = true;
        }
        update_interest();
    }

    void flush() {
        while (!s.outgoing.empty()) {
            if (!is_writable()) {
                return;
            }
            deliver(s.outgoing.pop());
        }
        update_interest();
    }

    void abandon(Packet request) {
        if (!s.outgoing.remove(request)) {
            s.abandoned.push(request);
        }
    }

    void begin_to_read(bool is_pump) {
        s.two_read |= s.reading;
        s.reading = true;
        s.pump_reads = is_pump;
    }

    void stop_reading() {
        s.reading = false;
        s.pump_reads = false;
        if (keeps(Rule::ReaderHandsOver)) {
            hand_over();
        }
    }

    /// read_packet up to where the lock is taken again.
    Packet receive() { return !s.incoming.empty() ? s.incoming.pop() : s.peer_is_there ? kNothing : kEnd; }

    /// handle, handle_event, handle_reply and the first half of end. False: the second half is to come.
    bool handle(Packet packet) {
        if (packet == kEnd) {
            if (!s.end) {
                s.end = true;
                s.outgoing.clear();
                s.in_epoll = false;
                return false;
            }
        } else if (packet >= kEvent) {
            queue_notice(packet);
        } else if (packet != kNothing) {
            handle_reply(packet & static_cast<Packet>(~kReply));
        }
        return true;
    }

    void handle_reply(Packet request) {
        for (const Packet index : s.calls) {
            Caller& caller = s.callers[index];
            if (request_of(index, caller.number) == request) {
                s.calls.remove(index);
                finish(caller, Result::Reply);
                return;
            }
        }
        if (s.abandoned.remove(request) && keeps(Rule::AbandonedGrantGoesBack)) {
            ++s.returned;
        }
    }

    /// The second half of end.
    void end() {
        if (situation_.end_is_told) {
            queue_notice(kEnd);
        }
        s.end_is_booked = true;
        if (keeps(Rule::EndFailsCalls)) {
            fail_calls(Result::Lost);
        }
        if (keeps(Rule::EndWakesThePump)) {
            wake_pump();
        }
    }

    void close_calls() {
        s.closed = true;
        for (const Packet caller : s.calls) {
            abandon(request_of(caller, s.callers[caller].number));
        }
        fail_calls(Result::Closed);
        if (keeps(Rule::CloseWakesThePump)) {
            wake_pump();
        }
    }

    void stop_background_pump() {
        s.stop_pump = true;
        if (keeps(Rule::StopWakesTheTeller)) {
            notify_teller();
        }
        if (keeps(Rule::StopWakesThePump)) {
            wake_pump();
        }
    }

    // ---- A caller ----

    void call(std::size_t index) {
        Caller& caller = s.callers[index];
        if (s.closed || s.end) {
            caller.result = s.closed ? Result::Closed : Result::Lost;
            leave(index);
            return;
        }
        s.calls.push(static_cast<Packet>(index));
        ++s.waiters;
        update_interest();
        send(request_of(index, caller.number));
        wait_for(index);
    }

    void wait_for(std::size_t index) {
        Caller& caller = s.callers[index];
        if (caller.result != Result::None) {
            unregister(index);
            if (caller.result == Result::Reply) {
                ++s.owned;
            }
            leave(index);
        } else if (!s.reading || !keeps(Rule::OneReads)) {
            begin_to_read(false);
            read_on(index);
        } else {
            caller.sleeping = keeps(Rule::SleepersAreMarked);
            caller.at = At::Sleeping;
        }
    }

    /// read_until_done, from the top of its loop.
    void read_on(std::size_t index) {
        Caller& caller = s.callers[index];
        if (caller.result != Result::None) {
            stop_reading();
            wait_for(index);
            return;
        }
        caller.polls_out = !s.outgoing.empty();
        caller.at = At::Polling;
    }

    void polled(std::size_t index) {
        Caller& caller = s.callers[index];
        const std::uint8_t ready = std::exchange(caller.ready, std::uint8_t{0});
        caller.polls_out = false;
        if ((ready & kSignal) != 0) {
            stop_reading();
            signalled(index);
            return;
        }
        if ((ready & kKick) != 0) {
            s.kick_set = false;
        }
        if ((ready & kOut) != 0) {
            flush();
        }
        if ((ready & kIn) != 0 && caller.result == Result::None && !s.end) {
            caller.at = At::Receiving;
        } else {
            read_on(index);
        }
    }

    void woken(std::size_t index) {
        Caller& caller = s.callers[index];
        const std::uint8_t ready = std::exchange(caller.ready, std::uint8_t{0});
        caller.sleeping = false;
        (ready & kSignal) != 0 ? signalled(index) : wait_for(index);
    }

    void signalled(std::size_t index) {
        Caller& caller = s.callers[index];
        if (caller.result != Result::None) {
            wait_for(index);
            return;
        }
        if (keeps(Rule::AskerDoesNotCount)) {
            --s.waiters;
        }
        if (!s.reading && keeps(Rule::AskerHandsOver)) {
            hand_over();
        }
        update_interest();
        caller.at = At::Asking;
    }

    void asked(std::size_t index, bool stop) {
        Caller& caller = s.callers[index];
        if (keeps(Rule::AskerDoesNotCount)) {
            ++s.waiters;
        }
        update_interest();
        if (!stop) {
            wait_for(index);
            return;
        }
        if (caller.result == Result::None) {
            abandon(request_of(index, caller.number));
        } else if (caller.result == Result::Reply && keeps(Rule::GrantMeanwhileGoesBack)) {
            ++s.returned;
        }
        unregister(index);
        leave(index);
    }

    /// ~Registration
    void unregister(std::size_t index) {
        s.calls.remove(static_cast<Packet>(index));
        --s.waiters;
        if (keeps(Rule::LastWaiterOpensInterest)) {
            update_interest();
        }
    }

    /// Its call has returned: the next one, if there is one, is another Call.
    void leave(std::size_t index) {
        Caller& caller = s.callers[index];
        const auto next = static_cast<std::uint8_t>(caller.number + 1);
        caller = {};
        caller.number = next;
        caller.at = next < situation_.calls ? At::Calling : At::Gone;
    }

    // ---- The pump ----

    /// pump, as far as epoll_wait.
    void pump() {
        s.pump_sleeps = true;
        if (keeps(Rule::PumpOpensInterest)) {
            update_interest();
        }
        s.pump = At::Waiting;
    }

    /// pump, from epoll_wait on.
    void waited() {
        const std::uint8_t ready = std::exchange(s.pump_ready, std::uint8_t{0});
        s.pump_sleeps = false;
        s.wake_set = false;
        const bool is_signalled = (ready & kSignal) != 0;
        if (!is_signalled && ready != 0 && s.waiters == 0 && (!s.reading || !keeps(Rule::OneReads)) && !s.end) {
            begin_to_read(true);
            flush();
            s.pump_batch = kPumpBatch;
            pump_reads();
        } else {
            pumped(is_signalled);
        }
    }

    void pump_reads() {
        if (s.pump_batch > 0 && !s.end) {
            --s.pump_batch;
            s.pump = At::Receiving;
        } else {
            stop_reading();
            s.pump_batch = 0;
            pumped(false);
        }
    }

    void pumped(bool is_signalled) {
        if (situation_.pump == Pump::Background) {
            pump_on();
        } else if (is_signalled) {
            s.pump = At::Asking;
        } else {
            dispatch_pumped();
        }
    }

    /// run_background_pump, from the top of its loop.
    void pump_on() { s.stop_pump ? static_cast<void>(s.pump = At::Gone) : pump(); }

    [[nodiscard]] bool knows_of_the_end() const {
        return s.end && (s.end_is_booked || !keeps(Rule::DispatchTellsTheEndLast));
    }

    void begin_dispatch(bool is_timed) {
        s.dispatch_looked = false;
        s.dispatch_is_timed = is_timed;
        s.dispatch_last_look = situation_.pump == Pump::Polls && !is_timed;
        dispatch_on();
    }

    /// dispatch, from the top of its loop; again after each notice.
    void dispatch_on() {
        if (!s.notices.empty()) {
            s.pump_packet = s.notices.pop();
            s.pump = At::Telling;
        } else if (s.dispatch_told) {
            leave_dispatch(At::Outside);
        } else if (knows_of_the_end() || (s.closed && s.dispatch_looked)) {
            leave_dispatch(At::Gone);
        } else {
            s.dispatch_last_look |= s.closed;
            s.dispatch_looked = true;
            pump();
        }
    }

    void dispatch_pumped() {
        if (s.dispatch_last_look && s.notices.empty() && !knows_of_the_end() && !s.closed) {
            leave_dispatch(At::Outside);
        } else {
            dispatch_on();
        }
    }

    void leave_dispatch(At to) {
        s.dispatch_told = s.dispatch_looked = s.dispatch_last_look = s.dispatch_is_timed = false;
        if (keeps(Rule::DispatchLeavesTheMark) && (!s.notices.empty() || s.end || s.closed)) {
            wake_pump();
        }
        s.pump = to;
    }

    // ---- Telling ----

    void tell(Packet notice) {
        if (notice == kEnd) {
            s.told_end = true;
        } else {
            s.told_out_of_order |= s.told_end || (notice & ~kEvent) != s.told;
            ++s.told;
        }
    }

    /// run_teller: after each notice, and when it was woken.
    void tell_on() {
        if (!s.notices.empty()) {
            s.teller_notice = s.notices.pop();
            s.teller = At::Telling;
        } else {
            s.teller = s.stop_pump ? At::Gone : At::Idle;
        }
    }

  private:
    void deliver(Packet request) {
        if (s.peer_is_there) {
            s.sent.push(request);
        }
    }
    [[nodiscard]] bool keeps(Rule rule) const { return model_.keeps(rule); }

    const WhoReads& model_;
    const Situation& situation_;
};

WhoReads::State WhoReads::first() const {
    static_assert(std::has_unique_object_representations_v<State>);
    State state;
    for (std::size_t i = situation_.callers; i < kMostCallers; ++i) {
        state.callers[i].at = At::Gone;
    }
    state.poster_is_there = situation_.posts > 0;
    state.closer_is_there = situation_.is_closed;
    state.destroyer_is_there = situation_.is_destroyed;
    state.signals = situation_.signals;
    state.timed_dispatches = situation_.timed_dispatches;
    state.interest = 0;
    if (situation_.pump == Pump::Background) {
        state.teller = At::Idle;
        Step step(*this, state);
        step.pump_on();
        return step.s;
    }
    state.pump = At::Outside;
    if (situation_.pump == Pump::Polls) {
        state.poll_fd_is_out = true;
        Step step(*this, state);
        step.update_interest();
        return step.s;
    }
    return state;
}

void WhoReads::for_each_step(const State& state, const Visit& visit) const {
    const auto step = [&](std::string_view what, auto&& change) {
        Step next(*this, state);
        change(next);
        visit(next.s, what);
    };
    const Step now(*this, state);
    const auto callers_are_gone = [&](std::size_t but) {
        for (std::size_t i = 0; i < kMostCallers; ++i) {
            if (i != but && state.callers[i].at != At::Gone) {
                return false;
            }
        }
        return true;
    };
    const auto may_come_back = [&](std::size_t caller) {
        return !situation_.interrupted_waits || (callers_are_gone(caller) && state.incoming.empty() &&
                                                 state.notices.empty() && state.told == state.events_sent);
    };
    const bool callback_may_end = !situation_.callbacks_wait || callers_are_gone(kMostCallers);

    // ---- Callers ----
    static constexpr std::array<std::array<std::string_view, 11>, kMostCallers> kSays = {{
        {"caller 0: call", "caller 0: poll returns", "caller 0: a signal ends poll", "caller 0: goes on after poll",
         "caller 0: sem_wait returns", "caller 0: a signal ends sem_wait", "caller 0: goes on after sem_wait",
         "caller 0: interrupted_ says stop", "caller 0: interrupted_ says go on", "caller 0: receives",
         "caller 0: handles what it received"},
        {"caller 1: call", "caller 1: poll returns", "caller 1: a signal ends poll", "caller 1: goes on after poll",
         "caller 1: sem_wait returns", "caller 1: a signal ends sem_wait", "caller 1: goes on after sem_wait",
         "caller 1: interrupted_ says stop", "caller 1: interrupted_ says go on", "caller 1: receives",
         "caller 1: handles what it received"},
        {"caller 2: call", "caller 2: poll returns", "caller 2: a signal ends poll", "caller 2: goes on after poll",
         "caller 2: sem_wait returns", "caller 2: a signal ends sem_wait", "caller 2: goes on after sem_wait",
         "caller 2: interrupted_ says stop", "caller 2: interrupted_ says go on", "caller 2: receives",
         "caller 2: handles what it received"},
    }};
    for (std::size_t i = 0; i < kMostCallers; ++i) {
        const Caller& caller = state.callers[i];
        const auto& says = kSays[i];
        const auto be = [i](At at, std::uint8_t ready) {
            return [i, at, ready](Step& next) {
                next.s.callers[i].at = at;
                next.s.callers[i].ready = ready;
            };
        };
        const auto be_signalled = [&](At at) {
            return [i, at](Step& next) {
                next.s.callers[i].at = at;
                next.s.callers[i].ready = kSignal;
                --next.s.signals;
            };
        };
        switch (caller.at) {
            case At::Calling:
                step(says[0], [i](Step& next) { next.call(i); });
                break;
            case At::Polling:
                if (const std::uint8_t ready = now.poll(caller.polls_out); ready != 0) {
                    step(says[1], be(At::Polled, ready));
                } else if (state.signals > 0) {
                    step(says[2], be_signalled(At::Polled));
                }
                break;
            case At::Polled:
                step(says[3], [i](Step& next) { next.polled(i); });
                break;
            case At::Sleeping:
                if (caller.turn > 0) {
                    step(says[4], [i](Step& next) {
                        --next.s.callers[i].turn;
                        next.s.callers[i].at = At::Woken;
                    });
                } else if (state.signals > 0) {
                    step(says[5], be_signalled(At::Woken));
                }
                break;
            case At::Woken:
                step(says[6], [i](Step& next) { next.woken(i); });
                break;
            case At::Asking:
                if (may_come_back(i)) {
                    step(says[7], [i](Step& next) { next.asked(i, true); });
                    step(says[8], [i](Step& next) { next.asked(i, false); });
                }
                break;
            case At::Receiving:
                step(says[9], [i](Step& next) {
                    next.s.callers[i].packet = next.receive();
                    next.s.callers[i].at = At::Handling;
                });
                break;
            case At::Handling:
                step(says[10], [i](Step& next) {
                    next.handle(std::exchange(next.s.callers[i].packet, kNothing))
                        ? next.read_on(i)
                        : static_cast<void>(next.s.callers[i].at = At::Ending);
                });
                break;
            case At::Ending:
                step("the caller that read the end says so", [i](Step& next) {
                    next.end();
                    next.read_on(i);
                });
                break;
            default:
                break;
        }
    }

    // ---- The pump ----
    switch (state.pump) {
        case At::Outside:
            if (situation_.pump == Pump::Dispatches) {
                step("program: dispatch, for ever", [](Step& next) { next.begin_dispatch(false); });
                break;
            }
            if (now.epoll() != 0) {
                step("program: the descriptor is readable, dispatch", [](Step& next) { next.begin_dispatch(false); });
            }
            if (state.timed_dispatches > 0) {
                step("program: dispatch, with a timeout", [](Step& next) {
                    --next.s.timed_dispatches;
                    next.begin_dispatch(true);
                });
            }
            break;
        case At::Waiting: {
            const std::uint8_t ready = now.epoll();
            const auto wait_ends = [&](std::uint8_t how) {
                return [how](Step& next) {
                    next.s.pump_ready = how;
                    next.s.pump = At::Waited;
                };
            };
            if (ready != 0 || state.dispatch_last_look) {
                step("pump: epoll_wait returns", wait_ends(ready));
            } else if (state.signals > 0 && situation_.pump != Pump::Background) {
                step("pump: a signal ends epoll_wait", [&](Step& next) {
                    wait_ends(kSignal)(next);
                    --next.s.signals;
                });
            }
            if (ready == 0 && state.dispatch_is_timed && !state.dispatch_last_look) {
                step("pump: epoll_wait times out", [&](Step& next) {
                    wait_ends(0)(next);
                    next.s.dispatch_last_look = true;  // as the next turn of the loop finds
                });
            }
            break;
        }
        case At::Waited:
            step("pump: goes on after epoll_wait", [](Step& next) { next.waited(); });
            break;
        case At::Receiving:
            step("pump: receives", [](Step& next) {
                next.s.pump_packet = next.receive();
                next.s.pump = At::Handling;
            });
            break;
        case At::Handling:
            step("pump: handles what it received", [](Step& next) {
                const Packet packet = std::exchange(next.s.pump_packet, kNothing);
                if (packet == kNothing) {
                    next.s.pump_batch = 0;
                }
                next.handle(packet) ? next.pump_reads() : static_cast<void>(next.s.pump = At::Ending);
            });
            break;
        case At::Ending:
            step("pump: says that the end was read", [](Step& next) {
                next.end();
                next.pump_reads();
            });
            break;
        case At::Asking:
            step("program: interrupted_ says stop", [](Step& next) { next.leave_dispatch(At::Outside); });
            step("program: interrupted_ says go on", [](Step& next) { next.dispatch_pumped(); });
            break;
        case At::Telling:
            if (callback_may_end) {
                step("program: a callback returns", [](Step& next) {
                    next.tell(std::exchange(next.s.pump_packet, kNothing));
                    next.s.dispatch_told = true;
                    next.dispatch_on();
                });
            }
            break;
        default:
            break;
    }

    // ---- The teller ----
    if (state.teller == At::Notified) {
        step("teller: woken", [](Step& next) { next.tell_on(); });
    } else if (state.teller == At::Telling && callback_may_end) {
        step("teller: a callback returns", [](Step& next) {
            next.tell(std::exchange(next.s.teller_notice, kNothing));
            next.tell_on();
        });
    }

    // ---- Others on this side ----
    if (state.poster_is_there) {
        step("somebody posts", [](Step& next) {
            next.s.poster_is_there = false;
            if (!next.s.end) {
                next.send(kPost);
            }
        });
    }
    if (state.closer_is_there) {
        step("somebody closes", [](Step& next) {
            next.s.closer_is_there = false;
            next.close_calls();
        });
    }
    if (state.destroyer_is_there && callers_are_gone(kMostCallers)) {
        step("the client is destroyed: close", [](Step& next) {
            next.s.destroyer_is_there = false;
            next.close_calls();
        });
    }
    if (situation_.is_destroyed && !state.destroyer_is_there && !state.stop_pump) {
        step("the client is destroyed: stop the pump", [](Step& next) { next.stop_background_pump(); });
    }

    // ---- The peer ----
    if (!state.peer_is_there) {
        return;
    }
    if (!state.sent.empty()) {
        step("peer: takes a request", [](Step& next) { next.s.taken.push(next.s.sent.pop()); });
    }
    for (const Packet request : state.taken) {
        if (situation_.one_is_unanswered && request == request_of(0, 0)) {
            continue;
        }
        step("peer: answers a request", [request](Step& next) {
            next.s.taken.remove(request);
            next.s.incoming.push(kReply | request);
            if (request != kPost) {
                ++next.s.grants;
            }
        });
    }
    if (state.events_sent < situation_.events) {
        step("peer: sends an event", [](Step& next) {
            next.s.incoming.push(static_cast<Packet>(kEvent + next.s.events_sent));
            ++next.s.events_sent;
        });
    }
    if (situation_.peer_may_leave) {
        step("peer: leaves", [](Step& next) {
            next.s.peer_is_there = false;
            next.s.sent.clear();
            next.s.taken.clear();
        });
    }
}

std::optional<std::string> WhoReads::wrong(const State& state) const {
    if (state.two_read) {
        return "two threads read";
    }
    if (state.told_out_of_order) {
        return "events are told out of order, or twice";
    }
    return std::nullopt;
}

std::optional<std::string> WhoReads::wrong_at_rest(const State& state) const {
    std::uint8_t waiting = 0;
    for (std::size_t i = 0; i < kMostCallers; ++i) {
        const Caller& caller = state.callers[i];
        if (caller.at == At::Gone) {
            continue;
        }
        const bool may_wait = situation_.one_is_unanswered && i == 0 && !state.closed && !state.end;
        if (!may_wait || caller.at != At::Polling) {
            return "a caller waits for ever";
        }
        ++waiting;
    }
    if (state.waiters != waiting || state.reading != (waiting > 0) || state.calls.size != waiting) {
        return "the books do not say who calls";
    }
    if (situation_.is_destroyed) {
        return state.pump != At::Gone || state.teller != At::Gone
                   ? std::optional<std::string>("the client's threads do not end")
                   : std::nullopt;
    }
    if (state.closed && situation_.pump != Pump::Background && state.pump == At::Gone) {
        return std::nullopt;  // it was told so, and cares for nothing more
    }
    if (!state.end && (!state.incoming.empty() || !state.peer_is_there)) {
        return "nobody reads what has come";
    }
    if (!state.end && !state.outgoing.empty()) {
        return "nobody sends what is to be sent";
    }
    if (!state.notices.empty() || state.told != state.events_sent ||
        state.told_end != (state.end && situation_.end_is_told)) {
        return "nobody tells what has happened";
    }
    if (situation_.pump != Pump::Background && (state.closed || state.end) && state.pump != At::Gone) {
        return "the program is not told that the client was closed or lost its connection";
    }
    if (state.grants != state.owned + state.returned && state.peer_is_there) {
        return "what was granted belongs to nobody";
    }
    return std::nullopt;
}

std::string WhoReads::describe(const State& state) const {
    const auto number = [](auto value) { return std::to_string(static_cast<unsigned>(value)); };
    const auto list = [&](const List& packets) {
        std::string text = "[";
        for (const Packet packet : packets) {
            text += (text.size() > 1 ? " " : "") + number(packet);
        }
        return text + "]";
    };
    std::string text;
    for (std::size_t i = 0; i < situation_.callers; ++i) {
        const Caller& caller = state.callers[i];
        text += "caller " + number(i) + ": at " + number(caller.at) + " result " + number(caller.result) + " turn " +
                number(caller.turn) + " sleeping " + number(caller.sleeping) + "; ";
    }
    return text + "pump at " + number(state.pump) + ", teller at " + number(state.teller) + "; waiters " +
           number(state.waiters) + " reading " + number(state.reading) + " closed " + number(state.closed) + " end " +
           number(state.end) + " wake " + number(state.wake_set) + " kick " + number(state.kick_set) + " interest " +
           number(state.interest) + " pump sleeps " + number(state.pump_sleeps) + "; incoming " + list(state.incoming) +
           " notices " + list(state.notices) + " outgoing " + list(state.outgoing) + " calls " + list(state.calls);
}

}  // namespace hurray::model
