#include "tests/model/who_reads.hpp"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "libhurray/base/check.hpp"

namespace hurray::model {
namespace {

using Packet = WhoReads::Packet;

constexpr Packet kRelease = 0x10;  // of as many leases as the lower bits say
constexpr Packet kClaims = 0x18;   // that so many were released
constexpr Packet kReply = 0x20;    // to the request in the lower bits
constexpr Packet kEvent = 0x40;    // its number in the lower bits
constexpr Packet kAway = 0x7D;     // notices of that
constexpr Packet kBack = 0x7E;
constexpr Packet kEnd = 0x7F;  // of the stream, and the notice of that

constexpr Packet request_of(std::size_t caller, std::uint8_t number) {
    return static_cast<Packet>(1 + caller * 4 + number);
}
static_assert(request_of(WhoReads::kResumer, WhoReads::kMostResumerCalls) <= kRelease);
constexpr std::size_t caller_of(Packet request) { return (request - 1U) / 4U; }
constexpr bool is_release(Packet request) { return request >= kRelease && request < kClaims; }
constexpr bool is_claims(Packet request) { return request >= kClaims; }
constexpr std::uint8_t leases_of(Packet request) { return request & 0x07; }

// What poll and epoll report.
constexpr std::uint8_t kIn = 1;
constexpr std::uint8_t kOut = 2;
constexpr std::uint8_t kKick = 4;
constexpr std::uint8_t kWake = 8;
constexpr std::uint8_t kSignal = 16;

/// Packets that the pump reads at a time, kBurst; three show what one and many do.
constexpr std::uint8_t kBurst = 3;

}  // namespace

std::string_view name_of(Rule rule) {
    constexpr std::array<std::string_view, static_cast<std::size_t>(Rule::kCount)> names = {"OneReads",
                                                                                            "ReaderHandsOver",
                                                                                            "AskerHandsOver",
                                                                                            "AskerDoesNotCount",
                                                                                            "SleepersAreMarked",
                                                                                            "FinishWakesTheCaller",
                                                                                            "BurstIsHandledToItsEnd",
                                                                                            "FailKicksTheReader",
                                                                                            "BlockedSendKicksTheReader",
                                                                                            "BlockedSendIsWatched",
                                                                                            "LastWaiterOpensInterest",
                                                                                            "PumpOpensInterest",
                                                                                            "PollFdKeepsInterest",
                                                                                            "PollFdSeesTheMark",
                                                                                            "NoticeWakesThePump",
                                                                                            "NoticeWakesTheTeller",
                                                                                            "EndFailsCalls",
                                                                                            "EndWakesThePump",
                                                                                            "EndWakesSleepers",
                                                                                            "CloseWakesThePump",
                                                                                            "DispatchLeavesTheMark",
                                                                                            "DispatchTellsTheEndLast",
                                                                                            "StopWakesThePump",
                                                                                            "StopWakesTheTeller",
                                                                                            "AbandonedGrantGoesBack",
                                                                                            "ReleaseWakesThePump",
                                                                                            "PumpSendsReleases",
                                                                                            "FlushSendsReleases",
                                                                                            "StopSendsReleases",
                                                                                            "LossFailsCalls",
                                                                                            "LossKeepsReleases",
                                                                                            "LossWakesTheResumer",
                                                                                            "LostRefusesTheResumer",
                                                                                            "BackLetsTheResumerCall",
                                                                                            "RepeatedLossIsNotTold",
                                                                                            "BackIsToldOnceItIsSo",
                                                                                            "LossKeepsClaims",
                                                                                            "StopWaitsForTheLoss",
                                                                                            "BackOpensInterest",
                                                                                            "BackSendsReleases",
                                                                                            "BackWakesSleepers"};
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
        if (s.end || s.life == Life::Away || (!s.pump_sleeps && !program_looks)) {
            return;
        }
        s.interest = 0;
        if (s.waiters == 0) {
            s.interest = s.outgoing.empty() || !keeps(Rule::BlockedSendIsWatched) ? kIn : kIn | kOut;
        }
    }

    void hand_over() {
        const auto sleeper = std::find_if(s.calls.begin(), s.calls.end(),
                                          [&](Packet request) { return s.callers[caller_of(request)].sleeping; });
        if (sleeper != s.calls.end()) {
            ++s.callers[caller_of(*sleeper)].turn;
        }
    }

    void finish(Packet request) {
        Caller& caller = s.callers[caller_of(request)];
        if (--caller.unanswered == 0 && keeps(Rule::FinishWakesTheCaller)) {
            ++caller.turn;
        }
    }

    void fail_calls() {
        while (!s.calls.empty()) {
            finish(s.calls.pop());
        }
        if (s.reading && keeps(Rule::FailKicksTheReader)) {
            s.kick_set = true;
        }
    }

    void wake_pump() {
        const bool is_seen = s.pump_sleeps || (s.poll_fd_is_out && keeps(Rule::PollFdSeesTheMark));
        if (!s.wake_set && is_seen && (!s.pump_reads || s.end || s.closed)) {
            s.wake_set = true;
        }
    }

    void wake_sleepers() {
        for (Caller& caller : s.callers) {
            caller.sleeper_woken |= caller.at == At::Away;
        }
    }

    void queue_notice(Packet notice) {
        s.notices.push(notice);
        if (has_teller()) {
            if (keeps(Rule::NoticeWakesTheTeller)) {
                notify(s.teller);
            }
        } else if (keeps(Rule::NoticeWakesThePump)) {
            wake_pump();
        }
    }

    /// notify_one of a condition variable in which only that thread waits.
    static void notify(At& waiting) {
        if (waiting == At::Idle) {
            waiting = At::Notified;
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
        if (keeps(Rule::FlushSendsReleases)) {
            flush_releases();
        }
        update_interest();
    }

    void flush_releases() {
        if (s.releases > 0 && s.outgoing.empty() && !s.end && s.life == Life::Up) {
            const std::uint8_t count = std::exchange(s.releases, std::uint8_t{0});
            send(static_cast<Packet>(kRelease + count));
            s.unacked = static_cast<std::uint8_t>(s.unacked + count);
        }
    }

    void release() {
        --s.releases_to_come;
        if (s.end) {
            return;
        }
        ++s.releases;
        if (s.has_pump && s.unacked != 0) {
            if (keeps(Rule::ReleaseWakesThePump)) {
                wake_pump();
            }
        } else {
            flush_releases();
        }
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
        if (s.life == Life::Away && keeps(Rule::LossWakesTheResumer)) {
            notify(s.resumer);
        }
    }

    /// read_packets up to where the lock is taken again.
    void receive(std::uint8_t most) {
        s.burst.clear();
        while (s.burst.size < most && !s.incoming.empty()) {
            s.burst.push(s.incoming.pop());
        }
        if (s.burst.size < most && !s.peer_is_there) {
            s.burst.push(kEnd);
        }
    }

    /// read_packets from there on, as far as the next packet. Where the reader is then, if it is not done with this one.
    std::optional<At> handle_next() {
        if (s.burst.empty()) {
            return std::nullopt;  // there was none
        }
        const Packet packet = s.burst.pop();
        if (packet == kEnd) {
            return lose();
        }
        if (packet >= kEvent) {
            queue_notice(packet);
        } else {
            handle_reply(packet & static_cast<Packet>(~kReply));
        }
        return std::nullopt;
    }

    [[nodiscard]] bool has_more_to_handle() const { return !s.burst.empty() && !s.end && s.life != Life::Away; }

    void handle_reply(Packet request) {
        if (is_release(request) || is_claims(request)) {
            std::uint8_t& unanswered = is_claims(request) ? s.claimed : s.unacked;
            unanswered = static_cast<std::uint8_t>(unanswered - leases_of(request));
            flush_releases();
            return;
        }
        ++s.grants;
        if (s.calls.remove(request)) {
            ++s.callers[caller_of(request)].granted;
            finish(request);
        } else if (s.abandoned.remove(request) && keeps(Rule::AbandonedGrantGoesBack)) {
            ++s.returned;
        }
    }

    /// The first half. Where the reader is then.
    std::optional<At> lose() {
        if (s.end || s.life == Life::Away) {
            return std::nullopt;
        }
        if (!situation_.reconnects || s.closed || s.stop_resumer) {
            begin_end();
            return At::Ending;
        }
        if (s.resumer == At::Gone) {
            s.resumer = At::Notified;  // it starts
        }
        s.was_up = s.life == Life::Up;
        s.life = Life::Away;
        s.interest = 0;
        s.in_epoll = false;
        s.outgoing.clear();
        s.abandoned.clear();
        if (keeps(Rule::LossKeepsReleases)) {
            s.releases = static_cast<std::uint8_t>(s.releases + s.unacked + s.claimed);
        }
        s.unacked = s.claimed = 0;
        return At::Losing;
    }

    /// The second half.
    void lost() {
        if (std::exchange(s.was_up, false) || !keeps(Rule::RepeatedLossIsNotTold)) {
            queue_notice(kAway);
        }
        for (const Packet request : s.calls) {
            s.callers[caller_of(request)].is_lost = true;
        }
        if (keeps(Rule::LossFailsCalls)) {
            fail_calls();
        }
        s.is_lost = true;
        if (keeps(Rule::LossWakesTheResumer)) {
            notify(s.resumer);
        }
    }

    /// end, the first half.
    void begin_end() {
        s.end = true;
        s.outgoing.clear();
        s.releases = 0;
        s.in_epoll = false;
    }

    /// The second half.
    void end() {
        if (situation_.end_is_told) {
            queue_notice(kEnd);
        }
        s.end_is_booked = true;
        if (keeps(Rule::EndFailsCalls)) {
            fail_calls();
        }
        if (keeps(Rule::EndWakesSleepers)) {
            wake_sleepers();
        }
        if (keeps(Rule::EndWakesThePump)) {
            wake_pump();
        }
        notify(s.resumer);
    }

    void close_calls() {
        s.closed = true;
        for (const Packet request : s.calls) {
            abandon(request);
        }
        fail_calls();
        wake_sleepers();
        if (s.life == Life::Away) {
            s.kick_set = true;
            notify(s.resumer);
        }
        if (keeps(Rule::CloseWakesThePump)) {
            wake_pump();
        }
    }

    void stop_reconnecting() {
        s.stop_resumer = true;
        notify(s.resumer);
        s.kick_set |= s.life != Life::Up;
    }

    void stop_background_pump() {
        s.stop_pump = true;
        if (keeps(Rule::StopWakesTheTeller)) {
            notify(s.teller);
        }
        if (keeps(Rule::StopWakesThePump)) {
            wake_pump();
        }
    }

    void lose_pump() {
        s.has_pump = false;
        if (keeps(Rule::StopSendsReleases)) {
            flush_releases();
        }
    }

    // ---- A caller ----

    /// why_no_calls.
    [[nodiscard]] bool takes_calls_of(std::size_t index) const {
        if (s.closed || s.end) {
            return false;
        }
        if (index != kResumer) {
            return s.life == Life::Up;
        }
        return s.life == Life::Resuming ? keeps(Rule::BackLetsTheResumerCall) : !keeps(Rule::LostRefusesTheResumer);
    }

    /// call_many.
    void call(std::size_t index) {
        Caller& caller = s.callers[index];
        if (!takes_calls_of(index)) {
            caller.is_lost = !s.closed && !s.end;
            leave(index);
            return;
        }
        flush_releases();
        // As many as there is room for, but at least one. What is not sent is taken back, and not asked again here.
        const std::uint8_t batch = index == kResumer ? 1 : situation_.batch;
        const std::uint8_t first = caller.number;
        caller.number = static_cast<std::uint8_t>(first + batch);
        ++s.waiters;
        for (std::uint8_t i = 0; i < batch && (i == 0 || (s.outgoing.empty() && is_writable())); ++i) {
            const Packet request = request_of(index, static_cast<std::uint8_t>(first + i));
            s.calls.push(request);
            ++caller.unanswered;
            update_interest();
            send(request);
        }
        wait_for(index);
    }

    void wait_for(std::size_t index) {
        Caller& caller = s.callers[index];
        if (caller.unanswered == 0) {
            unregister(index);
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
        if (caller.unanswered == 0) {
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
        if ((ready & kIn) != 0 && caller.unanswered != 0) {
            caller.at = At::Receiving;
        } else {
            read_on(index);
        }
    }

    void caller_handles(std::size_t index) {
        if (const auto at = handle_next()) {
            s.callers[index].at = *at;
        } else {
            caller_handled(index);
        }
    }

    void caller_handled(std::size_t index) {
        Caller& caller = s.callers[index];
        if (has_more_to_handle() && (caller.unanswered != 0 || keeps(Rule::BurstIsHandledToItsEnd))) {
            caller.at = At::Handling;
        } else {
            s.burst.clear();
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
        if (caller.unanswered == 0) {
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
        if (keeps(Rule::AskerDoesNotCount)) {
            ++s.waiters;
        }
        update_interest();
        if (!stop) {
            wait_for(index);
            return;
        }
        for (const Packet request : s.calls) {
            if (caller_of(request) == index) {
                abandon(request);
            }
        }
        s.callers[index].is_lost = false;  // it asks no more
        unregister(index);
        leave(index);
    }

    /// ~Registration
    void unregister(std::size_t index) {
        const List calls = s.calls;
        for (const Packet request : calls) {
            if (caller_of(request) == index) {
                s.calls.remove(request);
            }
        }
        --s.waiters;
        if (keeps(Rule::LastWaiterOpensInterest)) {
            update_interest();
        }
    }

    /// call_many returns, with what was granted. A call that was lost is made again when the daemon is back.
    void leave(std::size_t index) {
        Caller& caller = s.callers[index];
        s.owned = static_cast<std::uint8_t>(s.owned + caller.granted);
        if (index == kResumer && caller.granted == 0) {
            s.back_has_failed = true;
            caller = {.at = At::Gone};
            return;
        }
        const bool again = caller.is_lost;
        Caller next;
        next.number = caller.number;
        next.calls_to_come = static_cast<std::uint8_t>(caller.calls_to_come - (again ? 0 : 1));
        caller = next;
        if (again) {
            wait_up(index);
        } else if (caller.calls_to_come == 0) {
            caller.at = At::Gone;
        }
    }

    void wait_up(std::size_t index) {
        Caller& caller = s.callers[index];
        caller.sleeper_woken = false;
        caller.at = s.closed || s.end ? At::Gone : s.life == Life::Up ? At::Calling : At::Away;
    }

    // ---- The pump ----

    /// pump, as far as epoll_wait.
    void pump() {
        if (keeps(Rule::PumpSendsReleases)) {
            flush_releases();
        }
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
        if ((ready & (kIn | kOut)) != 0 && s.waiters == 0 && (!s.reading || !keeps(Rule::OneReads)) && !s.end &&
            s.life != Life::Away) {
            begin_to_read(true);
            flush();
            s.pump = At::Receiving;
        } else {
            pumped(is_signalled);
        }
    }

    void pump_handles() {
        if (const auto at = handle_next()) {
            s.pump = *at;
        } else {
            pump_handled();
        }
    }

    void pump_handled() {
        if (has_more_to_handle()) {
            s.pump = At::Handling;
        } else {
            s.burst.clear();
            stop_reading();
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

    void begin_dispatch(bool is_timed) {
        s.dispatch_looked = false;
        s.dispatch_is_timed = is_timed;
        s.dispatch_last_look = situation_.pump == Pump::Polls && !is_timed;
        dispatch_on();
    }

    /// dispatch, from the top of its loop; again after each notice.
    void dispatch_on() {
        if (!s.notices.empty()) {
            s.pump_notice = s.notices.pop();
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

    [[nodiscard]] bool knows_of_the_end() const {
        return s.end && (s.end_is_booked || !keeps(Rule::DispatchTellsTheEndLast));
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
        s.told_out_of_order |= s.told_end;
        switch (notice) {
            case kEnd:
                s.told_end = true;
                break;
            case kAway:
                s.told_out_of_order |= s.told_away;
                s.told_away = true;
                break;
            case kBack:
                s.told_out_of_order |= !s.told_away;
                s.told_away = false;
                break;
            default:
                s.told_out_of_order |= (notice & ~kEvent) != s.told;
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

    // ---- The resumer ----

    /// run_resumer, where it looks whether there is something to do.
    void resumer_woken() {
        if (s.end) {
            s.resumer = At::Gone;
        } else if (s.is_lost && !s.reading) {
            s.is_lost = false;
            s.resumer = At::Reaching;
        } else if (s.stop_resumer && (keeps(Rule::StopWaitsForTheLoss) ? s.life != Life::Away : !s.is_lost)) {
            s.resumer = At::Gone;
        } else {
            s.resumer = At::Idle;
        }
    }

    void give_up() {
        begin_end();
        s.resumer = At::Ending;
    }

    /// The daemon is there again, and has answered: resume, as far as on_back.
    void resume() {
        s.two_read |= s.reading;
        s.peer_is_there = true;
        s.incoming.clear();
        s.in_epoll = true;
        s.kick_set = false;
        s.life = Life::Resuming;
        s.back_has_failed = false;
        s.resumer = At::Resuming;
        if (situation_.releases == 0) {
            bring_back();
        }
    }

    void take_releases() {
        s.in_resumers_hands = std::exchange(s.releases, std::uint8_t{0});
        s.resumer = At::Claiming;
    }

    void claim_released() {
        const std::uint8_t count = std::exchange(s.in_resumers_hands, std::uint8_t{0});
        if (s.end || s.life == Life::Away) {
            s.releases = static_cast<std::uint8_t>(s.releases + (keeps(Rule::LossKeepsClaims) ? count : 0));
        } else if (count > 0) {
            s.claimed = count;
            send(static_cast<Packet>(kClaims + count));
        }
        bring_back();
    }

    /// on_back, from there on.
    void bring_back() {
        s.resumer = At::Bringing;
        if (situation_.resumer_calls > 0) {
            s.callers[kResumer] = {.at = At::Calling, .calls_to_come = situation_.resumer_calls};
        }
    }

    /// resume, after on_back.
    void resumed() {
        const bool is_back = !s.end && s.life != Life::Away && !s.back_has_failed;
        if (is_back || !keeps(Rule::BackIsToldOnceItIsSo)) {
            queue_notice(kBack);
        }
        if (s.end || s.life == Life::Away) {
            resumer_woken();
            return;
        }
        if (s.back_has_failed) {
            give_up();
            return;
        }
        s.life = Life::Up;
        if (keeps(Rule::BackWakesSleepers)) {
            wake_sleepers();
        }
        if (keeps(Rule::BackSendsReleases)) {
            flush_releases();
        }
        if (keeps(Rule::BackOpensInterest)) {
            update_interest();
            wake_pump();
        }
        resumer_woken();
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
    for (std::size_t i = 0; i < kMostCallers; ++i) {
        if (i < situation_.callers) {
            state.callers[i].calls_to_come = situation_.calls;
        } else {
            state.callers[i].at = At::Gone;
        }
    }
    state.callers[kResumer].at = At::Gone;
    state.releases_to_come = situation_.releases;
    state.departures = situation_.departures;
    state.closer_is_there = situation_.is_closed;
    state.destroyer_is_there = situation_.is_destroyed;
    state.signals = situation_.signals;
    state.timed_dispatches = situation_.timed_dispatches;
    if (situation_.pump == Pump::Background) {
        state.has_pump = true;
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
    static constexpr std::array<std::array<std::string_view, 14>, kMostCallers + 1> kSays = {{
        {"caller 0: call", "caller 0: poll returns", "caller 0: a signal ends poll", "caller 0: goes on after poll",
         "caller 0: sem_wait returns", "caller 0: a signal ends sem_wait", "caller 0: goes on after sem_wait",
         "caller 0: interrupted_ says stop", "caller 0: interrupted_ says go on", "caller 0: receives",
         "caller 0: handles what it received", "caller 0: says that the daemon is away",
         "caller 0: says that the end was read", "caller 0: wait_up returns"},
        {"caller 1: call", "caller 1: poll returns", "caller 1: a signal ends poll", "caller 1: goes on after poll",
         "caller 1: sem_wait returns", "caller 1: a signal ends sem_wait", "caller 1: goes on after sem_wait",
         "caller 1: interrupted_ says stop", "caller 1: interrupted_ says go on", "caller 1: receives",
         "caller 1: handles what it received", "caller 1: says that the daemon is away",
         "caller 1: says that the end was read", "caller 1: wait_up returns"},
        {"caller 2: call", "caller 2: poll returns", "caller 2: a signal ends poll", "caller 2: goes on after poll",
         "caller 2: sem_wait returns", "caller 2: a signal ends sem_wait", "caller 2: goes on after sem_wait",
         "caller 2: interrupted_ says stop", "caller 2: interrupted_ says go on", "caller 2: receives",
         "caller 2: handles what it received", "caller 2: says that the daemon is away",
         "caller 2: says that the end was read", "caller 2: wait_up returns"},
        {"resumer: call",
         "resumer: poll returns",
         {},
         "resumer: goes on after poll",
         "resumer: sem_wait returns",
         {},
         "resumer: goes on after sem_wait",
         {},
         {},
         "resumer: receives",
         "resumer: handles what it received",
         "resumer: says that the daemon is away",
         "resumer: says that the end was read",
         {}},
    }};
    for (std::size_t i = 0; i < state.callers.size(); ++i) {
        const Caller& caller = state.callers[i];
        const auto& says = kSays[i];
        const bool may_be_signalled = state.signals > 0 && i != kResumer;
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
                } else if (may_be_signalled) {
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
                } else if (may_be_signalled) {
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
                    next.receive(next.s.callers[i].unanswered);
                    next.s.callers[i].at = At::Handling;
                });
                break;
            case At::Handling:
                step(says[10], [i](Step& next) { next.caller_handles(i); });
                break;
            case At::Losing:
                step(says[11], [i](Step& next) {
                    next.lost();
                    next.caller_handled(i);
                });
                break;
            case At::Ending:
                step(says[12], [i](Step& next) {
                    next.end();
                    next.caller_handled(i);
                });
                break;
            case At::Away:
                if (caller.sleeper_woken) {
                    step(says[13], [i](Step& next) { next.wait_up(i); });
                }
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
                next.receive(kBurst);
                next.s.pump = At::Handling;
            });
            break;
        case At::Handling:
            step("pump: handles what it received", [](Step& next) { next.pump_handles(); });
            break;
        case At::Losing:
            step("pump: says that the daemon is away", [](Step& next) {
                next.lost();
                next.pump_handled();
            });
            break;
        case At::Ending:
            step("pump: says that the end was read", [](Step& next) {
                next.end();
                next.pump_handled();
            });
            break;
        case At::Asking:
            step("program: interrupted_ says stop", [](Step& next) { next.leave_dispatch(At::Outside); });
            step("program: interrupted_ says go on", [](Step& next) { next.dispatch_pumped(); });
            break;
        case At::Telling:
            if (callback_may_end) {
                step("program: a callback returns", [](Step& next) {
                    next.tell(std::exchange(next.s.pump_notice, Packet{0}));
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
            next.tell(std::exchange(next.s.teller_notice, Packet{0}));
            next.tell_on();
        });
    }

    // ---- The resumer ----
    switch (state.resumer) {
        case At::Notified:
            step("resumer: woken", [](Step& next) { next.resumer_woken(); });
            break;
        case At::Reaching:
            step("resumer: reaches a daemon", [](Step& next) { next.resume(); });
            if (state.closed || state.stop_resumer || situation_.may_give_up) {
                step("resumer: gives up", [](Step& next) { next.give_up(); });
            }
            break;
        case At::Resuming:
            step("resumer: takes what was released", [](Step& next) { next.take_releases(); });
            break;
        case At::Claiming:
            step("resumer: claims what was released", [](Step& next) { next.claim_released(); });
            break;
        case At::Bringing:
            if (state.callers[kResumer].at == At::Gone) {
                step("resumer: goes on after on_back", [](Step& next) { next.resumed(); });
            }
            break;
        case At::Ending:
            step("resumer: says that this is the end", [](Step& next) {
                next.end();
                next.s.resumer = At::Gone;
            });
            break;
        default:
            break;
    }

    // ---- Others on this side ----
    if (state.releases_to_come > 0) {
        step("somebody releases", [](Step& next) { next.release(); });
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
    const bool is_going = situation_.is_destroyed && !state.destroyer_is_there;
    if (is_going && situation_.reconnects && !state.stop_resumer) {
        step("the client is destroyed: stop the resumer", [](Step& next) { next.stop_reconnecting(); });
    }
    if (is_going && state.stop_resumer == situation_.reconnects && state.resumer == At::Gone && !state.stop_pump) {
        step("the client is destroyed: stop the pump", [](Step& next) { next.stop_background_pump(); });
    }
    if (state.stop_pump && state.has_pump && state.pump == At::Gone && state.teller == At::Gone) {
        step("the client is destroyed: its threads have ended", [](Step& next) { next.lose_pump(); });
    }

    // ---- The peer ----
    if (!state.peer_is_there) {
        return;
    }
    if (!state.sent.empty()) {
        step("peer: takes a request", [](Step& next) {
            const Packet request = next.s.sent.pop();
            next.s.taken.push(request);
            if (is_release(request) || is_claims(request)) {
                next.s.released = static_cast<std::uint8_t>(next.s.released + leases_of(request));
            }
        });
    }
    for (const Packet request : state.taken) {
        if ((situation_.one_is_unanswered && request == request_of(0, 0)) ||
            (!situation_.acknowledges && (is_release(request) || is_claims(request)))) {
            continue;
        }
        step("peer: answers a request", [request](Step& next) {
            next.s.taken.remove(request);
            next.s.incoming.push(kReply | request);
        });
    }
    if (state.events_sent < situation_.events) {
        step("peer: sends an event", [](Step& next) {
            next.s.incoming.push(static_cast<Packet>(kEvent + next.s.events_sent));
            ++next.s.events_sent;
        });
    }
    if (state.departures > 0) {
        step("peer: leaves", [](Step& next) {
            next.s.peer_is_there = false;
            --next.s.departures;
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
    for (std::size_t i = 0; i < state.callers.size(); ++i) {
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
    if (state.waiters != waiting || state.reading != (waiting > 0) || (waiting == 0) != state.calls.empty()) {
        return "the books do not say who calls";
    }
    const bool sends_all = state.end || (state.releases == 0 && state.released >= situation_.releases);
    if (state.life != Life::Up && !state.end) {
        return "the connection neither comes back nor ends";
    }
    if (state.end && situation_.reconnects && !state.closed && !situation_.may_give_up) {
        return "the connection ends for no reason";
    }
    if (situation_.is_destroyed) {
        return state.pump != At::Gone || state.teller != At::Gone || state.resumer != At::Gone
                   ? std::optional<std::string>("the client's threads do not end")
               : !sends_all && state.peer_is_there ? std::optional<std::string>("nobody sends what was released")
                                                   : std::nullopt;
    }
    if (state.closed && situation_.pump != Pump::Background && state.pump == At::Gone) {
        return std::nullopt;  // it was told so, and cares for nothing more
    }
    if (!state.end && (!state.incoming.empty() || !state.peer_is_there ||
                       (state.unacked + state.claimed != 0 && situation_.acknowledges))) {
        return "nobody reads what has come";
    }
    if (!state.end && !state.outgoing.empty()) {
        return "nobody sends what is to be sent";
    }
    if (!sends_all) {
        return "nobody sends what was released";
    }
    if (!state.notices.empty() || state.told != state.events_sent ||
        state.told_end != (state.end && situation_.end_is_told)) {
        return "nobody tells what has happened";
    }
    if (situation_.pump != Pump::Background && (state.closed || state.end) && state.pump != At::Gone) {
        return "the program is not told that the client was closed or lost its connection";
    }
    if (!state.end && state.told_away) {
        return "the client comes back, and does not say so";
    }
    if (state.grants != state.owned + state.returned) {
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
        text += "caller " + number(i) + ": at " + number(caller.at) + " unanswered " + number(caller.unanswered) +
                " turn " + number(caller.turn) + " sleeping " + number(caller.sleeping) + "; ";
    }
    return text + "pump at " + number(state.pump) + ", teller at " + number(state.teller) + ", resumer at " +
           number(state.resumer) + "; waiters " + number(state.waiters) + " reading " + number(state.reading) +
           " closed " + number(state.closed) + " end " + number(state.end) + " life " + number(state.life) + " wake " +
           number(state.wake_set) + " kick " + number(state.kick_set) + " interest " + number(state.interest) +
           " pump sleeps " + number(state.pump_sleeps) + " releases " + number(state.releases) + " unacked " +
           number(state.unacked) + " granted " + number(state.grants) + " owned " + number(state.owned) +
           "; incoming " + list(state.incoming) + " notices " + list(state.notices) + " outgoing " +
           list(state.outgoing) + " calls " + list(state.calls);
}

}  // namespace hurray::model
