// Every order in which the threads of a connection can meet, for some small situations; and that each of the rules is needed.
#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/model/explorer.hpp"
#include "tests/model/who_reads.hpp"

namespace hurray::model {
namespace {

std::vector<Situation> situations() {
    return {
        // The small ones first, since mistakes are looked for until one is found.
        {.name = "a call beside events", .callers = 1, .events = 2},
        {.name = "two callers, of whom one is not answered", .callers = 2, .events = 1, .one_is_unanswered = true},
        {.name = "the peer leaves", .callers = 2, .events = 1, .departures = 1},
        {.name = "the client is destroyed", .callers = 1, .events = 2, .is_destroyed = true},
        {.name = "somebody closes, and one is not answered",
         .callers = 2,
         .events = 1,
         .is_closed = true,
         .one_is_unanswered = true},
        {.name = "the socket is full, and one is not answered",
         .callers = 1,
         .releases = 1,
         .send_room = 1,
         .one_is_unanswered = true},
        {.name = "releases in a row, of which none is acknowledged",
         .callers = 1,
         .releases = 3,
         .acknowledges = false},
        {.name = "somebody closes beside a batch that is answered",
         .callers = 1,
         .events = 1,
         .batch = 2,
         .is_closed = true},
        {.name = "the daemon goes away again while the resumer calls",
         .callers = 0,
         .departures = 2,
         .reconnects = true,
         .resumer_calls = 2},
        {.name = "the client is destroyed while the daemon goes away",
         .callers = 0,
         .releases = 1,
         .is_destroyed = true,
         .departures = 1,
         .reconnects = true},
        {.name = "the daemon goes away again while the resumer claims",
         .callers = 0,
         .releases = 2,
         .departures = 2,
         .reconnects = true,
         .resumer_calls = 1},
        {.name = "the daemon goes away for good",
         .callers = 2,
         .departures = 1,
         .reconnects = true,
         .may_give_up = true},
        {.name = "releases in a row", .callers = 1, .releases = 3},
        {.name = "the client is destroyed beside releases", .callers = 1, .releases = 3, .is_destroyed = true},
        {.name = "a batch, another caller and an event in one burst", .callers = 2, .events = 1, .batch = 2},
        {.name = "a program polls and releases while the socket is full",
         .pump = Pump::Polls,
         .callers = 1,
         .releases = 3,
         .send_room = 1},
        {.name = "callbacks use the library", .callers = 2, .events = 2, .callbacks_wait = true},
        {.name = "a program polls", .pump = Pump::Polls, .callers = 1, .events = 2},
        {.name = "a program polls while a caller is not answered",
         .pump = Pump::Polls,
         .callers = 1,
         .events = 2,
         .one_is_unanswered = true},
        {.name = "a program polls, and the socket is full",
         .pump = Pump::Polls,
         .callers = 1,
         .events = 1,
         .releases = 1,
         .send_room = 1},
        {.name = "a program polls, and the peer leaves",
         .pump = Pump::Polls,
         .callers = 2,
         .events = 1,
         .departures = 1},
        {.name = "a program polls, and the peer leaves with nothing to tell",
         .pump = Pump::Polls,
         .callers = 1,
         .events = 1,
         .departures = 1,
         .end_is_told = false},
        {.name = "a program polls, and somebody closes",
         .pump = Pump::Polls,
         .callers = 1,
         .events = 2,
         .is_closed = true},
        {.name = "a program polls, but at times waits in dispatch, and signals come",
         .pump = Pump::Polls,
         .callers = 1,
         .events = 2,
         .signals = 1,
         .timed_dispatches = 1},
        {.name = "a program polls, and its callbacks use the library",
         .pump = Pump::Polls,
         .callers = 2,
         .events = 1,
         .callbacks_wait = true},
        {.name = "a program dispatches, and the peer leaves",
         .pump = Pump::Dispatches,
         .callers = 2,
         .events = 1,
         .departures = 1},
        {.name = "a program dispatches, and somebody closes while the socket is full",
         .pump = Pump::Dispatches,
         .callers = 1,
         .events = 1,
         .releases = 1,
         .send_room = 1,
         .is_closed = true},
        {.name = "a program dispatches, and signals come",
         .pump = Pump::Dispatches,
         .callers = 1,
         .events = 2,
         .signals = 1},
        {.name = "signals, and interrupted_ uses the library",
         .callers = 2,
         .events = 1,
         .signals = 1,
         .interrupted_waits = true},
        {.name = "three callers, signals, and interrupted_ uses the library",
         .callers = 3,
         .signals = 1,
         .interrupted_waits = true},
        {.name = "signals, while somebody closes", .callers = 2, .signals = 2, .is_closed = true},
        {.name = "the socket is full", .callers = 2, .events = 1, .releases = 1, .send_room = 1},
        {.name = "three callers pass the socket on", .callers = 3, .events = 1},
        {.name = "two callers call twice beside events", .calls = 2, .events = 2},
        {.name = "the daemon goes away and comes back", .callers = 2, .events = 1, .departures = 1, .reconnects = true},
        {.name = "the daemon goes away and comes back beside releases",
         .callers = 1,
         .events = 1,
         .releases = 2,
         .departures = 1,
         .reconnects = true},
        {.name = "a caller, and the daemon goes away again while the resumer calls",
         .callers = 1,
         .events = 1,
         .departures = 2,
         .reconnects = true,
         .resumer_calls = 1},
        {.name = "the client is destroyed while the daemon goes away again",
         .callers = 0,
         .releases = 1,
         .is_destroyed = true,
         .departures = 2,
         .reconnects = true,
         .resumer_calls = 1},
        {.name = "somebody closes while the daemon goes away again",
         .callers = 1,
         .is_closed = true,
         .departures = 2,
         .reconnects = true,
         .resumer_calls = 2},
        {.name = "the socket is full while the resumer calls",
         .callers = 1,
         .events = 1,
         .releases = 1,
         .send_room = 1,
         .departures = 1,
         .reconnects = true,
         .resumer_calls = 1},
        {.name = "a program polls while the daemon goes away again",
         .pump = Pump::Polls,
         .callers = 1,
         .events = 1,
         .departures = 2,
         .reconnects = true,
         .resumer_calls = 1},
        {.name = "a program dispatches while the daemon goes away again",
         .pump = Pump::Dispatches,
         .callers = 1,
         .releases = 1,
         .departures = 2,
         .reconnects = true,
         .resumer_calls = 1},
        {.name = "the daemon goes away, and somebody closes",
         .callers = 2,
         .is_closed = true,
         .departures = 1,
         .reconnects = true},
        {.name = "a program polls while the daemon goes away and comes back",
         .pump = Pump::Polls,
         .callers = 1,
         .events = 2,
         .releases = 1,
         .departures = 1,
         .reconnects = true},
    };
}

TEST(WhoReadsTheSocket, NoOrderOfWhatHappensLosesAnythingOrLeavesAnybodyWaiting) {
    std::size_t states = 0;
    for (const Situation& situation : situations()) {
        const Exploration all = explore(WhoReads(situation));
        EXPECT_FALSE(all.mistake) << situation.name << ": " << *all.mistake;
        EXPECT_GT(all.ends, 0U) << situation.name;
        states += all.states;
        std::printf("%8zu states, %8zu steps, %4zu ends: %s\n", all.states, all.steps, all.ends,
                    std::string(situation.name).c_str());
    }
    EXPECT_GT(states, 100'000U) << "hardly anything was looked at";
}

class WithoutRule : public testing::TestWithParam<Rule> {};

TEST_P(WithoutRule, SomethingGoesWrong) {
    for (const Situation& situation : situations()) {
        if (const Exploration all = explore(WhoReads(situation, GetParam())); all.mistake) {
            std::printf("%s: %s", std::string(situation.name).c_str(), all.mistake->c_str());
            return;
        }
    }
    FAIL() << name_of(GetParam()) << " can be left out: either nothing needs it, or no situation here does";
}

INSTANTIATE_TEST_SUITE_P(WhoReadsTheSocket, WithoutRule, testing::ValuesIn([] {
                             std::vector<Rule> rules;
                             for (int i = 0; i < static_cast<int>(Rule::kCount); ++i) {
                                 rules.push_back(static_cast<Rule>(i));
                             }
                             return rules;
                         }()),
                         [](const auto& rule) { return std::string(name_of(rule.param)); });

}  // namespace
}  // namespace hurray::model
