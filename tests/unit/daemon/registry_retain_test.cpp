#include "tests/unit/daemon/registry_fixture.hpp"

// Publish.retain: how many versions of a name stay attachable.

namespace hurrayd {
namespace {

constexpr std::uint64_t kWindowEnd = 30'000;

class RetainTest : public RegistryTest {
  protected:
    using RegistryTest::RegistryTest;

    Words retain(SessionNumber from, std::uint64_t request, std::uint8_t capsule, const std::string& name,
                 std::uint32_t versions, std::uint64_t group = 0) {
        return publish_with(from, request, capsule, name, [&](wire::Publish& publish) {
            publish.retain = versions;
            publish.group = group;
        });
    }
    static wire::Attach version(std::uint64_t lease, const std::string& name, std::uint64_t number) {
        return {lease, name, wire::Which::Exactly, number};
    }
};

TEST_F(RetainTest, TheLastVersionsStayAttachable) {
    const auto p = open(kAlice);
    const auto c = open(kAlice);
    EXPECT_EQ(retain(p, 1, 1, "a", 2), Words{"1:PublishReply=1000#1"});
    EXPECT_EQ(retain(p, 2, 2, "a", 2), Words{"1:PublishReply=1001#2"});
    EXPECT_EQ(attach(c, 3, version(1, "a", 1000)), (Words{"1:Opened(1 lease 1 left 1)", "2:AttachReply(1)#3"}));
    EXPECT_EQ(attach(c, 4, by_name(2, "a")), (Words{"1:Opened(2 lease 2 left 1)", "2:AttachReply(2)#4"}));
    // The oldest retires, held as it is; the two newest are attachable.
    EXPECT_EQ(retain(p, 5, 3, "a", 2), (Words{"1:Retired(1)", "1:PublishReply=1002#5"}));
    EXPECT_EQ(attach(c, 6, version(3, "a", 1000)), Words{"2:" + error(Errc::NotFound) + "#6"});
    EXPECT_EQ(attach(c, 7, version(4, "a", 1001)), (Words{"1:Opened(2 lease 4 left 2)", "2:AttachReply(2)#7"}));
    EXPECT_EQ(attach(c, 8, by_name(5, "a")), (Words{"1:Opened(3 lease 5 left 1)", "2:AttachReply(3)#8"}));
    EXPECT_EQ(attach(c, 9, {1, "a", wire::Which::Exactly, 1000}), Words{"2:AttachReply(1)#9"});  // said again
    EXPECT_EQ(release(c, 10, {1}), (Words{"1:Released(1 lease 1 left 0)", "1:Ended(1 reusable)", "2:Done#10"}));
}

TEST_F(RetainTest, TheFirstThatIsNewerIsAttached) {
    const auto p = open(kAlice);
    const auto c = open(kAlice);
    for (std::uint8_t i = 1; i <= 3; ++i) {
        retain(p, i, i, "a", 3);
    }
    const auto newer_than = [](std::uint64_t lease, std::uint64_t number, std::uint64_t seen = 0) {
        return wire::Attach{lease, "a", wire::Which::NewerThan, number, seen};
    };
    EXPECT_EQ(attach(c, 4, newer_than(1, 999)).at(1), "2:AttachReply(1)#4");
    EXPECT_EQ(attach(c, 5, newer_than(2, 1000)).at(1), "2:AttachReply(2)#5");
    EXPECT_EQ(attach(c, 6, newer_than(3, 999, 1001)).at(1), "2:AttachReply(2)#6");
    EXPECT_EQ(attach(c, 7, newer_than(4, 1002)), Words{"2:" + error(Errc::NotFound) + "#7"});
}

TEST_F(RetainTest, EachPublishSaysHowManyStay) {
    const auto p = open(kAlice);
    for (std::uint8_t i = 1; i <= 4; ++i) {
        EXPECT_EQ(retain(p, i, i, "a", 4).size(), 1U);
    }
    EXPECT_EQ(retain(p, 5, 5, "a", 2),
              (Words{"1:Retired(1)", "1:Ended(1 reusable)", "1:Retired(2)", "1:Ended(2 reusable)", "1:Retired(3)",
                     "1:Ended(3 reusable)", "1:PublishReply=1004#5"}));
    EXPECT_EQ(publish(p, 6, 6, "a"), (Words{"1:Retired(4)", "1:Ended(4 reusable)", "1:Retired(5)",
                                            "1:Ended(5 reusable)", "1:PublishReply=1005#6"}));
}

TEST_F(RetainTest, WithdrawingTheNewestMakesTheOneBeforeItTheLatest) {
    const auto p = open(kAlice);
    const auto c = open(kAlice);
    retain(p, 1, 1, "a", 2);
    retain(p, 2, 2, "a", 2);
    EXPECT_EQ(withdraw(p, 3, kAlice, 2), (Words{"1:Ended(2 reusable)", "1:Done#3"}));
    EXPECT_EQ(attach(c, 4, by_name(1, "a")), (Words{"1:Opened(1 lease 1 left 1)", "2:AttachReply(1)#4"}));
    // Who has seen the newer one is not taken back.
    wire::Attach seen = by_name(2, "a");
    seen.last_seen = 1001;
    EXPECT_EQ(attach(c, 5, seen), Words{"2:" + error(Errc::NotFound) + "#5"});
    // What was withdrawn does not count.
    EXPECT_EQ(retain(p, 6, 3, "a", 2), Words{"1:PublishReply=1002#6"});
    EXPECT_EQ(attach(c, 7, version(3, "a", 1000)), (Words{"1:Opened(1 lease 3 left 2)", "2:AttachReply(1)#7"}));
}

TEST_F(RetainTest, WatchersAreToldOfEachThatRetires) {
    const auto p = open(kAlice);
    const auto w = open(kAlice);
    for (std::uint8_t i = 1; i <= 3; ++i) {
        retain(p, i, i, "a", 3);
    }
    registry.watch(w, 4, {1, "a"}, out);
    EXPECT_EQ(take(), (Words{"2:Done#4", "2:WatchedPresent(1)", "2:WatchedPresent(2)", "2:WatchedPresent(3)",
                             "2:WatchedSnapshotEnd"}));
    EXPECT_EQ(publish(p, 5, 4, "a"),
              (Words{"1:Retired(1)", "1:Ended(1 reusable)", "1:Retired(2)", "1:Ended(2 reusable)", "1:Retired(3)",
                     "1:Ended(3 reusable)", "1:PublishReply=1003#5", "2:WatchedRetired(1)", "2:WatchedRetired(2)",
                     "2:WatchedRetired(3)", "2:WatchedPublished(4)"}));
}

TEST_F(RetainTest, AProducersEndRetiresItsVersionsAlone) {
    const auto p = open(kAlice);
    const auto q = open(kAlice);
    const auto c = open(kAlice);
    retain(p, 1, 1, "a", 3);
    retain(q, 2, 2, "a", 3);
    retain(p, 3, 3, "a", 3);
    EXPECT_EQ(end(p), Words{});
    EXPECT_EQ(attach(c, 4, by_name(1, "a")), (Words{"2:Opened(2 lease 1 left 1)", "3:AttachReply(2)#4"}));
    EXPECT_EQ(attach(c, 5, version(2, "a", 1000)), Words{"3:" + error(Errc::NotFound) + "#5"});
    end(q);
    end(c);
    expect_nothing_held();
}

TEST_F(RetainTest, AGroupsMembersRetainWhenItIsCommitted) {
    const auto p = open(kAlice);
    const auto c = open(kAlice);
    retain(p, 1, 1, "a", 2);
    group(p, 2, 1, wire::Group::Action::Begin);
    EXPECT_EQ(retain(p, 3, 2, "a", 2, 1), Words{"1:PublishReply=0#3"});
    EXPECT_EQ(retain(p, 4, 3, "b", 1, 1), Words{"1:PublishReply=0#4"});
    EXPECT_EQ(group(p, 5, 1, wire::Group::Action::Commit), Words{"1:GroupReply=1001,1002#5"});
    EXPECT_EQ(attach(c, 6, version(1, "a", 1000)), (Words{"1:Opened(1 lease 1 left 1)", "2:AttachReply(1)#6"}));
}

TEST_F(RetainTest, ThoseWithoutANameRetainNothingAndRetireNothing) {
    const auto p = open(kAlice);
    EXPECT_EQ(retain(p, 1, 1, "", 1), Words{"1:PublishReply=1000#1"});
    EXPECT_EQ(retain(p, 2, 2, "", 1), Words{"1:PublishReply=1001#2"});
    EXPECT_EQ(attach(p, 3, by_id(1, kAlice, 1)), (Words{"1:Opened(1 lease 1 left 1)", "1:AttachReply(1)#3"}));
}

TEST_F(RetainTest, AnotherNumberOfVersionsIsAnotherPublish) {
    const auto p = open(kAlice);
    retain(p, 1, 1, "a", 2);
    EXPECT_EQ(retain(p, 2, 1, "a", 2), Words{"1:PublishReply=1000#2"});
    EXPECT_EQ(retain(p, 3, 1, "a", 3), Words{"1:" + error(Errc::AlreadyExists) + "#3"});
}

class RetainResumeTest : public RetainTest {
  protected:
    RetainResumeTest() : RetainTest(kWindowEnd) {}

    SessionNumber resume(std::uint32_t uid, std::uint8_t id) {
        const SessionNumber number{next_session++};
        EXPECT_TRUE(registry.open_session(number, {uid, uid, 1, uid == 0, id16(id), {}, true}).has_value());
        return number;
    }
    Words offer(SessionNumber from, std::uint64_t request, std::uint8_t capsule, std::uint64_t version,
                std::uint32_t versions) {
        return publish_with(from, request, capsule, "a", [&](wire::Publish& publish) {
            publish.version = version;
            publish.retain = versions;
        });
    }
};

TEST_F(RetainResumeTest, WhatIsRetainedComesBackInAnyOrder) {  // below_known_retired, less `retain`
    const auto p = resume(kAlice, 100);
    const auto c = open(kAlice);
    EXPECT_EQ(offer(p, 1, 3, 502, 3), Words{"1:PublishReply=502#1"});
    EXPECT_EQ(offer(p, 2, 1, 500, 3), Words{"1:PublishReply=500#2"});
    EXPECT_EQ(offer(p, 3, 2, 501, 3), Words{"1:PublishReply=501#3"});
    EXPECT_EQ(attach(c, 4, version(1, "a", 500)), (Words{"1:Opened(1 lease 1 left 1)", "2:AttachReply(1)#4"}));
    EXPECT_EQ(attach(c, 5, version(2, "a", 501)), (Words{"1:Opened(2 lease 2 left 1)", "2:AttachReply(2)#5"}));
    EXPECT_EQ(attach(c, 6, by_name(3, "a")), (Words{"1:Opened(3 lease 3 left 1)", "2:AttachReply(3)#6"}));
    // One below those three is one that they retired.
    EXPECT_EQ(offer(p, 7, 4, 499, 3), Words{"1:PublishReply=499#7"});
    EXPECT_EQ(attach(c, 8, version(4, "a", 499)), Words{"2:" + error(Errc::NotFound) + "#8"});
}

TEST_F(RetainResumeTest, AFreshVersionDisplacesWhatItDoesNotRetain) {  // below_known_retired, less `retain`
    const auto p = resume(kAlice, 100);
    const auto c = open(kAlice);
    EXPECT_EQ(offer(p, 1, 1, 500, 2), Words{"1:PublishReply=500#1"});
    EXPECT_EQ(offer(p, 2, 2, 501, 2), Words{"1:PublishReply=501#2"});
    EXPECT_EQ(retain(p, 3, 3, "a", 2), (Words{"1:Retired(1)", "1:PublishReply=1000#3"}));
    EXPECT_EQ(withdraw(p, 4, kAlice, 3), (Words{"1:Ended(3 reusable)", "1:Done#4"}));
    // It would have been retired by the fresh one, so it does not come back, though only one is left.
    EXPECT_EQ(offer(p, 5, 4, 499, 2), Words{"1:PublishReply=499#5"});
    EXPECT_EQ(attach(c, 6, version(1, "a", 499)), Words{"2:" + error(Errc::NotFound) + "#6"});
    EXPECT_EQ(attach(c, 7, by_name(2, "a")), (Words{"1:Opened(2 lease 2 left 1)", "2:AttachReply(2)#7"}));
}

}  // namespace
}  // namespace hurrayd
