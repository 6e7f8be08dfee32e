#include "tests/unit/daemon/registry_fixture.hpp"

// Capsules that are published once: queued, granted, taken. Rule by rule, as in the protocol's chapters "Taking" and "Over the
// daemon's death".

namespace hurrayd {
namespace {

constexpr std::uint64_t kWindowEnd = 30'000;
using State = wire::Claims::State;
using Action = wire::Group::Action;

class TakeTest : public RegistryTest {
  protected:
    using RegistryTest::RegistryTest;

    Words once(SessionNumber from, std::uint64_t request, std::uint8_t capsule, const std::string& name,
               std::uint64_t group = 0) {
        return publish_with(from, request, capsule, name, [&](wire::Publish& publish) {
            publish.once = true;
            publish.group = group;
        });
    }
    static wire::Attach to_take(wire::Attach attach) {
        attach.take = true;
        return attach;
    }
    Words take_from(SessionNumber from, std::uint64_t request, std::uint64_t lease, const std::string& name,
                    std::optional<std::uint64_t> timeout = 0) {
        return attach(from, request, to_take(by_name(lease, name)), timeout);
    }
    Words confirm(SessionNumber from, std::uint64_t request, std::uint64_t lease) {
        registry.confirm(from, request, {lease}, out);
        return take();
    }
    Words cancel(SessionNumber from, std::uint64_t request) {
        registry.cancel(from, {request}, out);
        return take();
    }
};

TEST_F(TakeTest, TheOldestIsTakenFirstByOneAlone) {
    const auto p = open(kAlice);
    const auto a = open(kAlice);
    const auto b = open(kAlice);
    EXPECT_EQ(once(p, 1, 1, "q"), Words{"1:PublishReply=1000#1"});
    EXPECT_EQ(once(p, 2, 2, "q"), Words{"1:PublishReply=1001#2"});  // replaces nothing
    EXPECT_EQ(used(p, kAlice, "queued"), 2U);
    EXPECT_EQ(take_from(a, 3, 1, "q"), (Words{"1:Opened(1 lease 1 left 1)", "2:AttachReply(1)#3"}));
    EXPECT_EQ(take_from(b, 4, 1, "q"), (Words{"1:Opened(2 lease 1 left 1)", "3:AttachReply(2)#4"}));
    EXPECT_EQ(take_from(b, 5, 2, "q"), Words{"3:" + error(Errc::NotFound) + "#5"});
    EXPECT_EQ(used(p, kAlice, "queued"), 0U);
    EXPECT_EQ(take_from(a, 6, 1, "q"), Words{"2:AttachReply(1)#6"});  // said again

    EXPECT_EQ(confirm(a, 7, 1), (Words{"1:Taken(1 lease 1 left 1)", "2:Done#7"}));  // tell_then_answer
    EXPECT_EQ(last.at(1).after, 0U);
    EXPECT_EQ(confirm(a, 8, 1), Words{"2:Done#8"});
    EXPECT_EQ(last.at(0).behind, p);
    EXPECT_EQ(release(a, 9, {1}), (Words{"1:Released(1 lease 1 left 0)", "1:Ended(1 reusable)", "2:Done#9"}));
    EXPECT_EQ(registry.history().taken, 1U);
}

// They end piece by piece, and whoever asks meanwhile must not look through all of them each time.
TEST_F(TakeTest, JobsOfAProducerThatIsEndingAreInNobodysWay) {
    const auto p = open(kAlice);
    const auto other = open(kAlice);
    const auto a = open(kAlice);
    for (std::uint64_t i = 1; i <= 300; ++i) {  // ended first, which takes more than one piece
        registry.watch(p, i, {i, "w"}, out);
        take();
    }
    for (std::uint8_t id = 1; id <= 100; ++id) {
        once(p, 1000 + std::uint64_t{id}, id, "q");
    }
    once(other, 1, 201, "q");
    once(other, 2, 202, "q");
    registry.end_session(p, 0, out);
    take();
    ASSERT_TRUE(registry.has_endings());
    EXPECT_EQ(take_from(a, 3, 1, "q"), (Words{"2:Opened(201 lease 1 left 1)", "3:AttachReply(201)#3"}));
    EXPECT_EQ(used(other, kAlice, "queued"), 1U);  // no more than can be taken
    EXPECT_EQ(take_from(a, 4, 2, "q"), (Words{"2:Opened(202 lease 2 left 1)", "3:AttachReply(202)#4"}));
    EXPECT_EQ(take_from(a, 5, 3, "q"), Words{"3:" + error(Errc::NotFound) + "#5"});
    while (registry.has_endings()) {
        registry.continue_endings(out);
        take();
    }
    EXPECT_EQ(used(other, kAlice, "capsules"), 2U);
    registry.check_consistency();
}

TEST_F(TakeTest, ATakeWaitsAndThoseThatWaitAreServedInTheirOrder) {
    const auto p = open(kAlice);
    const auto a = open(kAlice);
    const auto b = open(kAlice);
    EXPECT_EQ(take_from(a, 1, 1, "q", std::nullopt), Words{});
    EXPECT_EQ(take_from(b, 2, 1, "q", 100), Words{});
    EXPECT_EQ(once(p, 3, 1, "q"), (Words{"1:PublishReply=1000#3", "1:Opened(1 lease 1 left 1)", "2:AttachReply(1)#1"}));
    registry.expire(100, out);
    EXPECT_EQ(take(), Words{"3:" + error(Errc::TimedOut) + "#2"});
    EXPECT_EQ(once(p, 4, 2, "q"), Words{"1:PublishReply=1001#4"});
}

TEST_F(TakeTest, OnlyWhoMayReadItTakesIt) {
    const auto p = open(kAlice);
    const auto stranger = open(kBob);
    EXPECT_EQ(take_from(stranger, 1, 1, "q", std::nullopt), Words{});
    EXPECT_EQ(once(p, 2, 1, "q"), Words{"1:PublishReply=1000#2"});
    EXPECT_EQ(take_from(stranger, 3, 2, "q"), Words{"2:" + error(Errc::NotFound) + "#3"});
    EXPECT_EQ(attach(stranger, 4, by_name(3, "q")), Words{"2:" + error(Errc::NotFound) + "#4"});
    const auto root = open(0);
    EXPECT_EQ(take_from(root, 5, 1, "q"), (Words{"1:Opened(1 lease 1 left 1)", "3:AttachReply(1)#5"}));
}

TEST_F(TakeTest, WhatIsPublishedOnceIsNotAttachedAndNothingElseIsTaken) {
    const auto p = open(kAlice);
    const auto c = open(kAlice);
    EXPECT_EQ(attach(c, 1, by_name(1, "q"), std::nullopt), Words{});
    EXPECT_EQ(take_from(c, 2, 2, "a", std::nullopt), Words{});
    // Who waits learns of it as whoever comes later does.
    EXPECT_EQ(once(p, 3, 1, "q"), (Words{"1:PublishReply=1000#3", "2:" + error(Errc::Unsupported) + "#1"}));
    EXPECT_EQ(publish(p, 4, 2, "a"), (Words{"1:PublishReply=1001#4", "2:" + error(Errc::Unsupported) + "#2"}));
    EXPECT_EQ(attach(c, 5, by_name(3, "q")), Words{"2:" + error(Errc::Unsupported) + "#5"});
    EXPECT_EQ(attach(c, 6, {3, "q", wire::Which::Exactly, 1000}), Words{"2:" + error(Errc::Unsupported) + "#6"});
    EXPECT_EQ(attach(c, 7, by_id(3, kAlice, 1)), Words{"2:" + error(Errc::Unsupported) + "#7"});
    EXPECT_EQ(take_from(c, 8, 3, "a"), Words{"2:" + error(Errc::Unsupported) + "#8"});
    EXPECT_EQ(attach(c, 9, to_take(by_id(3, kAlice, 2))), Words{"2:" + error(Errc::Unsupported) + "#9"});
}

TEST_F(TakeTest, ANameIsOneOrTheOtherWhileItLives) {
    const auto p = open(kAlice);
    const auto c = open(kAlice);
    once(p, 1, 1, "q");
    publish(p, 2, 2, "a");
    EXPECT_EQ(publish(p, 3, 3, "q"), Words{"1:" + error(Errc::AlreadyExists) + "#3"});
    EXPECT_EQ(once(p, 4, 4, "a"), Words{"1:" + error(Errc::AlreadyExists) + "#4"});
    take_from(c, 5, 1, "q");
    confirm(c, 6, 1);
    EXPECT_EQ(publish(p, 7, 5, "q"), Words{"1:" + error(Errc::AlreadyExists) + "#7"});  // somebody holds it still
    release(c, 8, {1});
    EXPECT_EQ(publish(p, 9, 6, "q"), Words{"1:PublishReply=1002#9"});
}

TEST_F(TakeTest, OneWithoutANameIsTakenByItsId) {
    const auto p = open(kAlice);
    const auto c = open(kAlice);
    EXPECT_EQ(once(p, 1, 1, ""), Words{"1:PublishReply=1000#1"});
    EXPECT_EQ(once(p, 2, 2, ""), Words{"1:PublishReply=1001#2"});
    const auto second = to_take(by_id(1, kAlice, 2));
    EXPECT_EQ(attach(c, 3, second), (Words{"1:Opened(2 lease 1 left 1)", "2:AttachReply(2)#3"}));
    // While it is granted another take of it waits: it may be put back.
    EXPECT_EQ(attach(p, 4, second, std::nullopt), Words{});
    EXPECT_EQ(release(c, 5, {1}),
              (Words{"1:Released(2 lease 1 left 0)", "1:Opened(2 lease 1 left 1)", "1:AttachReply(2)#4", "2:Done#5"}));
    EXPECT_EQ(attach(c, 6, to_take(by_id(2, kAlice, 2)), std::nullopt), Words{});
    EXPECT_EQ(confirm(p, 7, 1), (Words{"1:Taken(2 lease 1 left 1)", "1:Done#7", "2:" + error(Errc::NotFound) + "#6"}));
    EXPECT_EQ(attach(c, 8, to_take(by_id(2, kAlice, 2)), std::nullopt), Words{"2:" + error(Errc::NotFound) + "#8"});
}

TEST_F(TakeTest, ATakersEndPutsItBackInFrontOfTheQueue) {  // put_back
    const auto p = open(kAlice);
    const auto a = open(kAlice);
    const auto b = open(kAlice);
    once(p, 1, 1, "q");
    once(p, 2, 2, "q");
    once(p, 3, 3, "q");
    take_from(a, 4, 1, "q");
    take_from(a, 5, 2, "q");
    EXPECT_EQ(end(a), (Words{"1:Lost(1 lease 1 left 0)", "1:Lost(2 lease 2 left 0)"}));
    EXPECT_EQ(take_from(b, 6, 1, "q"), (Words{"1:Opened(1 lease 1 left 1)", "3:AttachReply(1)#6"}));
    EXPECT_EQ(take_from(b, 7, 2, "q"), (Words{"1:Opened(2 lease 2 left 1)", "3:AttachReply(2)#7"}));
    EXPECT_EQ(take_from(b, 8, 3, "q"), (Words{"1:Opened(3 lease 3 left 1)", "3:AttachReply(3)#8"}));
}

TEST_F(TakeTest, WhatIsPutBackGoesToWhoWaits) {  // put_back
    const auto p = open(kAlice);
    const auto a = open(kAlice);
    const auto b = open(kAlice);
    once(p, 1, 1, "q");
    take_from(a, 2, 1, "q");
    EXPECT_EQ(take_from(b, 3, 1, "q", std::nullopt), Words{});
    EXPECT_EQ(end(a), (Words{"1:Lost(1 lease 1 left 0)", "1:Opened(1 lease 1 left 1)", "3:AttachReply(1)#3"}));
    EXPECT_EQ(confirm(b, 4, 1), (Words{"1:Taken(1 lease 1 left 1)", "3:Done#4"}));
    EXPECT_EQ(registry.history().put_back, 1U);
    EXPECT_EQ(release(b, 5, {1}),
              (Words{"1:Released(1 lease 1 left 0)", "1:Ended(1)", "3:Done#5"}));  // a lease was lost
}

TEST_F(TakeTest, AfterThreeDeliveriesItEndsReportedLost) {  // three_deliveries
    const auto p = open(kAlice);
    const auto w = open(kAlice);
    once(p, 1, 1, "q");
    registry.watch(w, 2, {1, "q"}, out);
    EXPECT_EQ(take(), (Words{"2:Done#2", "2:WatchedPresent(1)", "2:WatchedSnapshotEnd"}));
    const auto a = open(kAlice);
    take_from(a, 3, 1, "q");
    EXPECT_EQ(end(a), Words{"1:Lost(1 lease 1 left 0)"});
    const auto b = open(kAlice);
    take_from(b, 4, 1, "q");
    EXPECT_EQ(release(b, 5, {1}), (Words{"1:Released(1 lease 1 left 0)", "4:Done#5"}));  // a refusal counts
    take_from(b, 6, 2, "q");
    EXPECT_EQ(release(b, 7, {2}), (Words{"1:Lost(1 lease 2 left 0)", "1:Ended(1)", "4:Done#7", "2:WatchedRetired(1)"}));
    EXPECT_EQ(take_from(b, 8, 3, "q"), Words{"4:" + error(Errc::NotFound) + "#8"});
}

TEST_F(TakeTest, AReleaseAfterCancelDoesNotCount) {  // put_back
    const auto p = open(kAlice);
    const auto c = open(kAlice);
    once(p, 1, 1, "q");
    for (std::uint64_t i = 0; i < 5; ++i) {
        const std::string lease = std::to_string(1 + i);
        EXPECT_EQ(take_from(c, 10 + i, 1 + i, "q"),
                  (Words{"1:Opened(1 lease " + lease + " left 1)", "2:AttachReply(1)#" + std::to_string(10 + i)}));
        EXPECT_EQ(cancel(c, 10 + i), Words{});
        EXPECT_EQ(release(c, 20 + i, {1 + i}),
                  (Words{"1:Released(1 lease " + lease + " left 0)", "2:Done#" + std::to_string(20 + i)}));
    }
    take_from(c, 30, 30, "q");
    cancel(c, 30);
    EXPECT_EQ(confirm(c, 31, 30), (Words{"1:Taken(1 lease 30 left 1)", "2:Done#31"}));  // it may change its mind
}

TEST_F(TakeTest, ConfirmNeedsALeaseOfATake) {  // confirm_needs_takeable
    const auto p = open(kAlice);
    const auto c = open(kAlice);
    publish(p, 1, 1, "a");
    attach(c, 2, by_name(1, "a"));
    EXPECT_EQ(confirm(c, 3, 1), Words{"2:" + error(Errc::InvalidArgument) + "#3"});
    EXPECT_EQ(confirm(c, 4, 2), Words{"2:" + error(Errc::NotFound) + "#4"});
    once(p, 5, 2, "q");
    take_from(c, 6, 2, "q");
    release(c, 7, {2});
    EXPECT_EQ(confirm(c, 8, 2), Words{"2:" + error(Errc::NotFound) + "#8"});  // it was put back
}

TEST_F(TakeTest, ConfirmOfAProducersThatIsGoneIsRefused) {  // confirm_needs_producer
    const auto p = open(kAlice);
    const auto c = open(kAlice);
    once(p, 1, 1, "q");
    take_from(c, 2, 1, "q");
    EXPECT_EQ(end(p), Words{"2:ProducerLost(1)"});
    EXPECT_EQ(confirm(c, 3, 1), Words{"2:" + error(Errc::ProducerLost) + "#3"});
    EXPECT_EQ(confirm(c, 4, 1), Words{"2:" + error(Errc::NotFound) + "#4"});
    end(c);
    expect_nothing_held();
}

TEST_F(TakeTest, AProducersEndEndsWhatIsQueuedAndLeavesWhatWasTaken) {
    const auto p = open(kAlice);
    const auto c = open(kAlice);
    once(p, 1, 1, "q");
    once(p, 2, 2, "q");
    take_from(c, 3, 1, "q");
    confirm(c, 4, 1);
    EXPECT_EQ(end(p), Words{"2:ProducerLost(1)"});
    EXPECT_EQ(take_from(c, 5, 2, "q"), Words{"2:" + error(Errc::NotFound) + "#5"});
    EXPECT_EQ(confirm(c, 6, 1), Words{"2:Done#6"});
    EXPECT_EQ(used(c, kAlice, "leases"), 1U);
    EXPECT_EQ(release(c, 7, {1}), Words{"2:Done#7"});
    end(c);
    expect_nothing_held();
}

TEST_F(TakeTest, OneSessionMayBeProducerAndTaker) {
    const auto p = open(kAlice);
    once(p, 1, 1, "q");
    once(p, 2, 2, "q");
    take_from(p, 3, 1, "q");
    EXPECT_EQ(take_from(open(kAlice), 4, 1, "q"), (Words{"1:Opened(2 lease 1 left 1)", "2:AttachReply(2)#4"}));
    EXPECT_EQ(end(p), Words{"2:ProducerLost(2)"});
    end(SessionNumber{2});
    expect_nothing_held();
}

TEST_F(TakeTest, AWithdrawnOneIsNotPutBackButMayBeConfirmed) {
    const auto p = open(kAlice);
    const auto c = open(kAlice);
    once(p, 1, 1, "q");
    once(p, 2, 2, "q");
    once(p, 3, 3, "q");
    take_from(c, 4, 1, "q");
    take_from(c, 5, 2, "q");
    EXPECT_EQ(withdraw(p, 6, kAlice, 1), Words{"1:Done#6"});
    EXPECT_EQ(withdraw(p, 7, kAlice, 2), Words{"1:Done#7"});
    EXPECT_EQ(withdraw(p, 8, kAlice, 3), (Words{"1:Ended(3 reusable)", "1:Done#8"}));
    EXPECT_EQ(release(c, 9, {1}), (Words{"1:Released(1 lease 1 left 0)", "1:Ended(1 reusable)", "2:Done#9"}));
    EXPECT_EQ(confirm(c, 10, 2), (Words{"1:Taken(2 lease 2 left 1)", "2:Done#10"}));
    EXPECT_EQ(end(c), (Words{"1:Lost(2 lease 2 left 0)", "1:Ended(2)"}));  // an ordinary end: not delivered again
}

TEST_F(TakeTest, AGroupQueuesAllOfItsMembersAtOnce) {
    const auto p = open(kAlice);
    const auto c = open(kAlice);
    EXPECT_EQ(take_from(c, 1, 1, "q", std::nullopt), Words{});
    group(p, 2, 1, Action::Begin);
    EXPECT_EQ(once(p, 3, 1, "q", 1), Words{"1:PublishReply=0#3"});
    EXPECT_EQ(once(p, 4, 2, "q", 1), Words{"1:PublishReply=0#4"});  // many of one name, since none replaces another
    EXPECT_EQ(publish(p, 5, 3, "q", 1), Words{"1:" + error(Errc::AlreadyExists) + "#5"});
    EXPECT_EQ(used(p, kAlice, "queued"), 0U);
    EXPECT_EQ(group(p, 6, 1, Action::Commit),
              (Words{"1:GroupReply=1000,1001#6", "1:Opened(1 lease 1 left 1)", "2:AttachReply(1)#1"}));
    EXPECT_EQ(take_from(c, 7, 2, "q"), (Words{"1:Opened(2 lease 2 left 1)", "2:AttachReply(2)#7"}));
}

TEST_F(TakeTest, AGroupWhoseNameHasBecomeOfTheOtherKindIsNotCommitted) {
    const auto p = open(kAlice);
    group(p, 1, 1, Action::Begin);
    once(p, 2, 1, "q", 1);
    publish(p, 3, 2, "q");
    EXPECT_EQ(group(p, 4, 1, Action::Commit), Words{"1:" + error(Errc::AlreadyExists) + "#4"});
    EXPECT_EQ(group(p, 5, 1, Action::Abort), (Words{"1:Ended(1 reusable)", "1:GroupReply#5"}));
}

TEST_F(TakeTest, ListAndWatchShowWhatIsQueuedGrantedAndTaken) {
    const auto p = open(kAlice);
    const auto c = open(kAlice);
    const auto w = open(kAlice);
    const auto shown = [&] {
        wire::ListReply reply;
        list(w, {"q", {}, 0, false}, reply);
        std::string words;
        for (const wire::Info& info : reply.capsules) {
            EXPECT_TRUE(info.once);
            words += std::to_string(info.leases) + (info.retired ? " retired; " : "; ");
        }
        return words;
    };
    registry.watch(w, 1, {1, "q"}, out);
    EXPECT_EQ(take(), (Words{"3:Done#1", "3:WatchedSnapshotEnd"}));
    EXPECT_EQ(once(p, 2, 1, "q"), (Words{"1:PublishReply=1000#2", "3:WatchedPublished(1)"}));
    EXPECT_EQ(once(p, 3, 2, "q"), (Words{"1:PublishReply=1001#3", "3:WatchedPublished(2)"}));
    EXPECT_EQ(shown(), "0; 0; ");
    take_from(c, 4, 1, "q");
    EXPECT_EQ(shown(), "1; 0; ");
    EXPECT_EQ(confirm(c, 5, 1), (Words{"1:Taken(1 lease 1 left 1)", "2:Done#5", "3:WatchedRetired(1)"}));
    EXPECT_EQ(shown(), "1 retired; 0; ");
    release(c, 6, {1});
    EXPECT_EQ(shown(), "0; ");
}

TEST_F(TakeTest, TheSamePublishAgainQueuesNothingMore) {
    const auto p = open(kAlice);
    once(p, 1, 1, "q");
    EXPECT_EQ(once(p, 2, 1, "q"), Words{"1:PublishReply=1000#2"});
    EXPECT_EQ(publish(p, 3, 1, "q"), Words{"1:" + error(Errc::AlreadyExists) + "#3"});
    EXPECT_EQ(used(p, kAlice, "queued"), 1U);
}

// ---- Over the daemon's death ----------------------------------------------------------------------------------------

class TakeResumeTest : public TakeTest {
  protected:
    TakeResumeTest() : TakeTest(kWindowEnd) {}

    SessionNumber resume(std::uint32_t uid, std::uint8_t id, bool resumes = true) {
        const SessionNumber number{next_session++};
        EXPECT_TRUE(
            registry.open_session(number, {uid, uid, 1, uid == 0, id16(id), {}, resumes, !resumes}).has_value());
        return number;
    }
    /// What the life before granted to session `id`'s lease.
    static wire::LeaseId lease_of(std::uint32_t uid, std::uint8_t id, std::uint64_t lease) {
        return {uid, session_hash(id16(id)), lease};
    }
    Words offer(SessionNumber from, std::uint64_t request, std::uint8_t capsule, const std::string& name,
                std::uint64_t version, const wire::LeaseId& taken_by = {}) {
        return publish_with(from, request, capsule, name, [&](wire::Publish& publish) {
            publish.once = true;
            publish.version = version;
            publish.taken_by = taken_by;
        });
    }
    Words claim(SessionNumber from, std::uint64_t request, std::uint8_t capsule, std::uint64_t lease, State state) {
        registry.claim(from, request, {{{{kAlice, id16(capsule)}, lease, state}}}, out);
        return take();
    }
    Words close_window() {
        now = kWindowEnd;
        registry.expire(now, out);
        while (registry.has_window_rest()) {
            registry.continue_window_rest(out);
        }
        return take();
    }
};

TEST_F(TakeResumeTest, TakesWaitForTheWindowsEnd) {  // take_waits, take_waits_owner
    const auto p = resume(kAlice, 100);
    const auto a = open(kAlice);
    const auto b = open(kAlice);
    EXPECT_EQ(take_from(a, 1, 1, "q", std::nullopt), Words{});
    EXPECT_EQ(offer(p, 2, 2, "q", 501), Words{"1:PublishReply=501#2"});
    EXPECT_EQ(offer(p, 3, 1, "q", 500), Words{"1:PublishReply=500#3"});  // displaces nothing, and is older
    EXPECT_EQ(once(p, 4, 3, "q"), Words{"1:PublishReply=1000#4"});
    EXPECT_EQ(take_from(b, 5, 1, "q", std::nullopt), Words{});
    EXPECT_EQ(take_from(p, 6, 1, "q", 0), Words{"1:" + error(Errc::NotFound) + "#6"});
    EXPECT_EQ(close_window(), (Words{"1:WindowClosed(2)", "1:WindowClosed(1)", "1:Opened(1 lease 1 left 1)",
                                     "2:AttachReply(1)#1", "1:Opened(2 lease 1 left 1)", "3:AttachReply(2)#5"}));
}

TEST_F(TakeResumeTest, ATakeOfWhatIsNewUnderItsNameDoesNotWait) {
    const auto p = open(kAlice);
    const auto c = open(kAlice);
    EXPECT_EQ(take_from(c, 1, 1, "q", std::nullopt), Words{});
    EXPECT_EQ(once(p, 2, 1, "q"), (Words{"1:PublishReply=1000#2", "1:Opened(1 lease 1 left 1)", "2:AttachReply(1)#1"}));
    EXPECT_EQ(confirm(c, 3, 1), (Words{"1:Taken(1 lease 1 left 1)", "2:Done#3"}));
    EXPECT_EQ(once(p, 4, 2, "q"), Words{"1:PublishReply=1001#4"});
    EXPECT_EQ(take_from(c, 5, 2, "q"), (Words{"1:Opened(2 lease 2 left 1)", "2:AttachReply(2)#5"}));
}

TEST_F(TakeResumeTest, OneWithoutANameThatHasComeBackWaitsAlone) {
    const auto p = resume(kAlice, 100);
    const auto c = open(kAlice);
    EXPECT_EQ(offer(p, 1, 1, "", 500), Words{"1:PublishReply=500#1"});
    EXPECT_EQ(once(p, 2, 2, ""), Words{"1:PublishReply=1000#2"});
    EXPECT_EQ(attach(c, 3, to_take(by_id(1, kAlice, 1)), std::nullopt), Words{});
    EXPECT_EQ(attach(c, 4, to_take(by_id(2, kAlice, 2))), (Words{"1:Opened(2 lease 2 left 1)", "2:AttachReply(2)#4"}));
    EXPECT_EQ(close_window(), (Words{"1:WindowClosed(1)", "1:Opened(1 lease 1 left 1)", "2:AttachReply(1)#3"}));
}

TEST_F(TakeResumeTest, AConfirmIsRepeatedAndTakesWhatIsBack) {  // confirm_repeated
    const auto p = resume(kAlice, 100);
    const auto c = resume(kAlice, 101);
    EXPECT_EQ(offer(p, 1, 1, "q", 500), Words{"1:PublishReply=500#1"});
    EXPECT_EQ(claim(c, 2, 1, 17, State::Confirmed), (Words{"1:Taken(1 lease 17 left 1)", "2:Done#2"}));
    EXPECT_EQ(claim(c, 3, 1, 17, State::Confirmed), Words{"2:Done#3"});
    EXPECT_EQ(close_window(), Words{"1:WindowClosed(1 17)"});
    EXPECT_EQ(take_from(c, 4, 18, "q"), Words{"2:" + error(Errc::NotFound) + "#4"});
    EXPECT_EQ(release(c, 5, {17}), (Words{"1:Released(1 lease 17 left 0)", "1:Ended(1 reusable)", "2:Done#5"}));
}

TEST_F(TakeResumeTest, AConfirmWaitsForItsCapsule) {  // confirm_repeated, claims_kept
    const auto c = resume(kAlice, 101);
    EXPECT_EQ(claim(c, 1, 1, 17, State::Confirmed), Words{});
    EXPECT_EQ(used(c, kAlice, "claims"), 1U);
    const auto p = resume(kAlice, 100);
    EXPECT_EQ(offer(p, 2, 1, "q", 500), (Words{"2:PublishReply=500#2", "2:Taken(1 lease 17 left 1)", "1:Done#1"}));
    EXPECT_EQ(last.at(2).after, 1U);  // tell_then_answer
    EXPECT_EQ(used(c, kAlice, "claims"), 0U);
}

TEST_F(TakeResumeTest, TheTakerThatTheProducerWasToldOfIsAccepted) {  // reoffer_says_taker
    const auto p = resume(kAlice, 100);
    const auto other = resume(kAlice, 102);
    const auto c = resume(kAlice, 101);
    EXPECT_EQ(offer(p, 1, 1, "q", 500, lease_of(kAlice, 101, 17)), Words{"1:PublishReply=500#1"});
    EXPECT_EQ(claim(other, 2, 1, 17, State::Confirmed), (Words{"2:ClaimsRefused(17)", "2:Done#2"}));
    EXPECT_EQ(claim(other, 3, 1, 18, State::Held), (Words{"2:ClaimsRefused(18)", "2:Done#3"}));
    EXPECT_EQ(claim(c, 4, 1, 17, State::Confirmed), (Words{"1:Taken(1 lease 17 left 1)", "3:Done#4"}));
    EXPECT_EQ(close_window(), Words{"1:WindowClosed(1 17)"});
}

TEST_F(TakeResumeTest, WhatWasTakenIsHeldAsAnyLease) {  // reoffer_says_taker, held_claimed
    const auto c = resume(kAlice, 101);
    const auto other = resume(kAlice, 102);
    EXPECT_EQ(claim(c, 1, 1, 17, State::Held), Words{"1:Done#1"});
    EXPECT_EQ(claim(other, 2, 1, 5, State::Held), Words{"2:Done#2"});
    const auto p = resume(kAlice, 100);
    const Words offered = offer(p, 3, 1, "q", 500, lease_of(kAlice, 101, 17));
    EXPECT_EQ(offered, (Words{"3:PublishReply=500#3", "2:ClaimsRefused(5)"}));
    EXPECT_EQ(close_window(), Words{"3:WindowClosed(1 17)"});
    EXPECT_EQ(end(c), (Words{"3:Lost(1 lease 17 left 0)", "3:Ended(1)"}));
}

TEST_F(TakeResumeTest, WhatNobodyTookIsHeldByNobody) {
    const auto p = resume(kAlice, 100);
    const auto c = resume(kAlice, 101);
    EXPECT_EQ(offer(p, 1, 1, "q", 500), Words{"1:PublishReply=500#1"});
    EXPECT_EQ(claim(c, 2, 1, 17, State::Held), (Words{"2:ClaimsRefused(17)", "2:Done#2"}));
    EXPECT_EQ(used(c, kAlice, "queued"), 1U);
}

TEST_F(TakeResumeTest, TheToldTakersConfirmIsAcceptedAfterACutOffToo) {  // confirm_after_cutoff
    const auto p = resume(kAlice, 100);
    const auto c = resume(kAlice, 101);
    EXPECT_EQ(offer(p, 1, 1, "q", 500), Words{"1:PublishReply=500#1"});
    EXPECT_EQ(claim(c, 2, 1, 17, State::Confirmed), (Words{"1:Taken(1 lease 17 left 1)", "2:Done#2"}));
    EXPECT_EQ(end(c), Words{"1:Lost(1 lease 17 left 0)"});  // before it read the answer
    const auto again = resume(kAlice, 101, false);
    const auto other = resume(kAlice, 102, false);
    EXPECT_EQ(claim(other, 3, 1, 17, State::Confirmed), (Words{"4:ClaimsRefused(17)", "4:Done#3"}));
    EXPECT_EQ(claim(again, 4, 1, 17, State::Confirmed), (Words{"1:Taken(1 lease 17 left 1)", "3:Done#4"}));
    EXPECT_EQ(close_window(), Words{"1:WindowClosed(1 17)"});
}

TEST_F(TakeResumeTest, AConfirmThatWaitedIsSaidAgainAfterACutOff) {  // confirm_after_cutoff
    const auto c = resume(kAlice, 101);
    EXPECT_EQ(claim(c, 1, 1, 17, State::Confirmed), Words{});
    EXPECT_EQ(end(c), Words{});
    const auto again = resume(kAlice, 101, false);
    EXPECT_EQ(claim(again, 2, 1, 17, State::Confirmed), Words{});
    const auto p = resume(kAlice, 100);
    EXPECT_EQ(offer(p, 3, 1, "q", 500, lease_of(kAlice, 101, 17)),
              (Words{"3:PublishReply=500#3", "3:Taken(1 lease 17 left 1)", "2:Done#2"}));
}

TEST_F(TakeResumeTest, ConfirmsWithoutACapsuleAreRefusedAtTheWindowsEnd) {  // confirm_refused_at_end
    const auto c = resume(kAlice, 101);
    EXPECT_EQ(claim(c, 1, 1, 17, State::Confirmed), Words{});
    EXPECT_EQ(close_window(), (Words{"1:ClaimsRefused(17)", "1:Done#1"}));
    EXPECT_EQ(claim(c, 2, 1, 18, State::Confirmed), (Words{"1:ClaimsRefused(18)", "1:Done#2"}));
    end(c);
    expect_nothing_held();
}

TEST_F(TakeResumeTest, ASessionThatIsNotOneOfBeforeConfirmsNothing) {
    const auto c = open(kAlice);
    EXPECT_EQ(claim(c, 1, 1, 17, State::Confirmed), (Words{"1:ClaimsRefused(17)", "1:Done#1"}));
}

TEST_F(TakeResumeTest, ATakerThatIsAwayAtTheWindowsEndIsDead) {  // late_taker_is_dead
    const auto p = resume(kAlice, 100);
    EXPECT_EQ(offer(p, 1, 1, "q", 500, lease_of(kAlice, 101, 17)), Words{"1:PublishReply=500#1"});
    EXPECT_EQ(close_window(), (Words{"1:WindowClosed(1)", "1:Ended(1 reusable)"}));
    const auto c = resume(kAlice, 101);
    EXPECT_EQ(claim(c, 2, 1, 17, State::Confirmed), (Words{"2:ClaimsRefused(17)", "2:Done#2"}));
}

TEST_F(TakeResumeTest, ConfirmsOfWhatIsNotTakenAreRefused) {  // confirm_needs_takeable, confirm_needs_producer
    const auto p = resume(kAlice, 100);
    const auto c = resume(kAlice, 101);
    publish_with(p, 1, 1, "a", [](wire::Publish& publish) { publish.version = 500; });
    EXPECT_EQ(claim(c, 2, 1, 17, State::Confirmed), (Words{"2:ClaimsRefused(17)", "2:Done#2"}));
    EXPECT_EQ(once(p, 3, 2, "q"), Words{"1:PublishReply=1000#3"});  // nobody has been granted this one
    EXPECT_EQ(claim(c, 4, 2, 18, State::Confirmed), (Words{"2:ClaimsRefused(18)", "2:Done#4"}));
    EXPECT_EQ(offer(p, 5, 3, "q", 501), Words{"1:PublishReply=501#5"});
    end(p);
    EXPECT_EQ(claim(c, 6, 3, 19, State::Confirmed), (Words{"2:ClaimsRefused(19)", "2:Done#6"}));
}

TEST_F(TakeResumeTest, AConfirmThatWaitsIsGivenUpByARelease) {
    const auto c = resume(kAlice, 101);
    EXPECT_EQ(claim(c, 1, 1, 17, State::Confirmed), Words{});
    EXPECT_EQ(release(c, 2, {17}), (Words{"1:ClaimsRefused(17)", "1:Done#1"}));
    const auto p = resume(kAlice, 100);
    EXPECT_EQ(offer(p, 3, 1, "q", 500), (Words{"2:PublishReply=500#3", "2:Released(1 lease 17 left 0)", "1:Done#2"}));
    EXPECT_EQ(close_window(), Words{"2:WindowClosed(1)"});
    EXPECT_EQ(take_from(c, 4, 18, "q"), (Words{"2:Opened(1 lease 18 left 1)", "1:AttachReply(1)#4"}));
}

TEST_F(TakeResumeTest, OneRequestThatConfirmsAndReleasesIsAnsweredOnce) {
    const auto c = resume(kAlice, 101);
    const wire::CapsuleId capsule{kAlice, id16(1)};
    registry.claim(c, 1, {{{capsule, 17, State::Confirmed}, {capsule, 17, State::Released}}}, out);
    EXPECT_EQ(take(), Words{"1:ClaimsRefused(17)"});
    EXPECT_EQ(close_window(), Words{"1:Done#1"});
}

TEST_F(TakeResumeTest, AnOfferUnderANameOfTheOtherKindIsRefused) {
    const auto p = resume(kAlice, 100);
    EXPECT_EQ(publish(p, 1, 1, "q"), Words{"1:PublishReply=1000#1"});
    EXPECT_EQ(offer(p, 2, 2, "q", 500), Words{"1:" + error(Errc::AlreadyExists) + "#2"});
}

}  // namespace
}  // namespace hurrayd
