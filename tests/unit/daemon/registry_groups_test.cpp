#include <algorithm>
#include <cstddef>
#include <string>
#include <variant>

#include <gtest/gtest.h>

#include "daemon/registry.hpp"
#include "tests/unit/daemon/registry_fixture.hpp"

// The rules of groups, one a test.

namespace hurrayd {
namespace {

class RegistryGroups : public RegistryTest {
  protected:
    static constexpr auto kBegin = wire::Group::Action::Begin;
    static constexpr auto kCommit = wire::Group::Action::Commit;
    static constexpr auto kAbort = wire::Group::Action::Abort;

    SessionNumber producer = open(kAlice);
    SessionNumber consumer = open(kAlice);

    const hurray::Error& last_error() { return std::get<hurray::Error>(last.at(0).packet.message); }
    Words watch(SessionNumber from, std::uint64_t number, const std::string& pattern) {
        registry.watch(from, number, {number, pattern}, out);
        return take();
    }
    Publication bare(std::uint64_t number, std::uint64_t group) {
        Publication p = publication(0, "n/" + std::to_string(number));
        p.request.capsule.bytes[1] = static_cast<std::uint8_t>(number >> 8U);
        p.request.capsule.bytes[2] = static_cast<std::uint8_t>(number);
        p.request.group = group;
        return p;
    }
    /// Stages `count` members without memory, n/0 and on.
    void fill(SessionNumber from, std::uint64_t number, std::size_t count) {
        group(from, 1, number, kBegin);
        for (std::size_t i = 0; i < count; ++i) {
            registry.publish(from, 2, bare(i, number), out);
        }
        take();
    }
};

// ---- Staged

TEST_F(RegistryGroups, StagedCapsuleIsAnsweredWithVersionZeroAndToldToNobody) {
    watch(consumer, 1, "");
    attach(consumer, 2, by_name(1, "a"), std::nullopt);
    attach(consumer, 3, by_id(2, kAlice, 1), std::nullopt);
    EXPECT_EQ(group(producer, 1, 7, kBegin), (Words{"1:GroupReply#1"}));
    EXPECT_EQ(publish(producer, 2, 1, "a", 7), (Words{"1:PublishReply=0#2"}));
}

TEST_F(RegistryGroups, StagedCapsuleDoesNotExistForAnybodyNotEvenItsProducerOrRoot) {
    const auto root = open(0);
    group(producer, 1, 7, kBegin);
    publish(producer, 2, 1, "a", 7);
    for (const SessionNumber who : {producer, consumer, root}) {
        const std::string to = std::to_string(who.value);
        EXPECT_EQ(attach(who, 3, by_name(1, "a")), (Words{to + ":" + error(Errc::NotFound) + "#3"}));
        EXPECT_EQ(attach(who, 4, by_id(1, kAlice, 1)), (Words{to + ":" + error(Errc::NotFound) + "#4"}));
        wire::ListReply page;
        list(who, {}, page);
        EXPECT_TRUE(page.capsules.empty());
        EXPECT_EQ(watch(who, 5, ""), (Words{to + ":Done#5", to + ":WatchedSnapshotEnd"}));
    }
}

TEST_F(RegistryGroups, StagedCapsulesCountAsTheirUsersFromTheStart) {
    group(producer, 1, 7, kBegin);
    publish(producer, 2, 1, "a", 7);
    publish(producer, 3, 2, "", 7);
    EXPECT_EQ(used(consumer, kAlice, "capsules"), 2u);
    EXPECT_EQ(used(consumer, kAlice, "staged"), 2u);
    EXPECT_EQ(used(consumer, kAlice, "bytes"), 2u * 4096);
    EXPECT_EQ(used(consumer, kAlice, "descriptors"), 2u);
    EXPECT_EQ(used(consumer, kAlice, "names"), 0u) << "a name is taken by the commit";
    EXPECT_EQ(registry.history().published, 0u);
    group(producer, 4, 7, kCommit);
    EXPECT_EQ(used(consumer, kAlice, "capsules"), 2u);
    EXPECT_EQ(used(consumer, kAlice, "staged"), 0u);
    EXPECT_EQ(used(consumer, kAlice, "names"), 1u);
    EXPECT_EQ(registry.history().published, 2u);
}

TEST_F(RegistryGroups, SamePublishWhileStagedHasTheSameAnswer) {
    group(producer, 1, 7, kBegin);
    publish(producer, 2, 1, "a", 7);
    EXPECT_EQ(publish(producer, 3, 1, "a", 7), (Words{"1:PublishReply=0#3"}));
    EXPECT_EQ(dropped, (std::vector<SegmentNumber>{{2}}));
    EXPECT_EQ(group(producer, 4, 7, kCommit), (Words{"1:GroupReply=1000#4"})) << "it is one member";
    EXPECT_EQ(publish(producer, 5, 1, "a", 7), (Words{"1:PublishReply=1000#5"})) << "which has its version now";
}

TEST_F(RegistryGroups, StagedIdIsTakenForAnyOtherPublish) {
    group(producer, 1, 7, kBegin);
    group(producer, 1, 8, kBegin);
    publish(producer, 2, 1, "a", 7);
    EXPECT_EQ(publish(producer, 3, 1, "b", 7), (Words{"1:" + error(Errc::AlreadyExists) + "#3"}));
    EXPECT_EQ(publish(producer, 4, 1, "a", 8), (Words{"1:" + error(Errc::AlreadyExists) + "#4"}));
    EXPECT_EQ(publish(producer, 5, 1, "a"), (Words{"1:" + error(Errc::AlreadyExists) + "#5"}));
    EXPECT_EQ(publish(consumer, 6, 1, "a"), (Words{"2:" + error(Errc::AlreadyExists) + "#6"}));
}

TEST_F(RegistryGroups, PublishIntoAGroupThatIsNotOpenInTheSessionIsNotFound) {
    group(producer, 1, 7, kBegin);
    EXPECT_EQ(publish(producer, 2, 1, "a", 8), (Words{"1:" + error(Errc::NotFound) + "#2"}));
    EXPECT_EQ(last_error().field, "publish.group");
    EXPECT_EQ(publish(consumer, 3, 1, "a", 7), (Words{"2:" + error(Errc::NotFound) + "#3"})) << "another's number";
    EXPECT_EQ(dropped, (std::vector<SegmentNumber>{{1}, {2}}));
    EXPECT_EQ(registry.totals().capsules, 0u);
}

TEST_F(RegistryGroups, ForeignNameIsRefusedAtOnce) {
    const auto bob = open(kBob);
    publish(bob, 1, 1, "b");
    group(producer, 1, 7, kBegin);
    EXPECT_EQ(publish(producer, 2, 1, "b", 7), (Words{"1:" + error(Errc::AlreadyExists) + "#2"}));
    EXPECT_EQ(last_error().field, "publish.name");
    EXPECT_EQ(registry.totals().staged, 0u);
}

TEST_F(RegistryGroups, TwoMembersOfOneNameAreRefused) {
    group(producer, 1, 7, kBegin);
    publish(producer, 2, 1, "a", 7);
    EXPECT_EQ(publish(producer, 3, 2, "a", 7), (Words{"1:" + error(Errc::AlreadyExists) + "#3"}));
    EXPECT_EQ(last_error().message, "group 7 has a member with the name \"a\" already");
    publish(producer, 4, 3, "", 7);
    EXPECT_EQ(publish(producer, 5, 4, "", 7), (Words{"1:PublishReply=0#5"})) << "no name is no name";
    withdraw(producer, 6, kAlice, 1);
    EXPECT_EQ(publish(producer, 7, 2, "a", 7), (Words{"1:PublishReply=0#7"})) << "free again";
}

TEST_F(RegistryGroups, MembersUpToTheLimit) {
    fill(producer, 7, wire::kMaxGroupMembers);
    EXPECT_EQ(publish(producer, 3, 1, "one more", 7), (Words{"1:" + error(Errc::Limit) + "#3"}));
    EXPECT_EQ(last_error().field, "publish.group");
    EXPECT_EQ(last_error().limit_name, "group_members");
    EXPECT_EQ(last_error().limit, 4096u);
    EXPECT_EQ(last_error().value, 4097u);
    EXPECT_EQ(last_error().message, "group 7 has 4096 members; at most 4096 are allowed");
    registry.group(producer, 4, {7, kCommit}, out);
    take();
    EXPECT_EQ(std::get<wire::GroupReply>(last.at(0).packet.message).versions.size(), 4096u);
    end(producer);
    end(consumer);
    expect_nothing_held();
}

TEST_F(RegistryGroups, OpenGroupsUpToTheLimit) {
    for (std::uint64_t number = 1; number <= wire::kMaxOpenGroups; ++number) {
        group(producer, number, number, kBegin);
    }
    EXPECT_EQ(group(producer, 100, 100, kBegin), (Words{"1:" + error(Errc::Limit) + "#100"}));
    EXPECT_EQ(last_error().limit_name, "open_groups");
    EXPECT_EQ(last_error().limit, 64u);
    EXPECT_EQ(group(consumer, 101, 100, kBegin), (Words{"2:GroupReply#101"})) << "each session has its own";
    group(producer, 102, 5, kAbort);
    EXPECT_EQ(group(producer, 103, 100, kBegin), (Words{"1:GroupReply#103"}));
}

TEST_F(RegistryGroups, NameReplacedMeanwhileEndsNoStagedCapsule) {
    group(producer, 1, 7, kBegin);
    publish(producer, 2, 1, "a", 7);
    EXPECT_EQ(publish(producer, 3, 2, "a"), (Words{"1:PublishReply=1000#3"}));
    EXPECT_EQ(publish(consumer, 4, 3, "a"), (Words{"1:Retired(2)", "1:Ended(2 reusable)", "2:PublishReply=1001#4"}));
    EXPECT_EQ(group(producer, 5, 7, kCommit), (Words{"2:Retired(3)", "2:Ended(3 reusable)", "1:GroupReply=1002#5"}));
}

TEST_F(RegistryGroups, WithdrawnStagedCapsuleLeavesItsGroup) {
    group(producer, 1, 7, kBegin);
    publish(producer, 2, 1, "a", 7);
    publish(producer, 3, 2, "b", 7);
    EXPECT_EQ(withdraw(producer, 4, kAlice, 1), (Words{"1:Ended(1 reusable)", "1:Done#4"}));
    EXPECT_TRUE(dropped.empty()) << "the memory stays its producer's until that one forgets it";
    EXPECT_EQ(withdraw(producer, 5, kAlice, 1), (Words{"1:" + error(Errc::NotFound) + "#5"}));
    EXPECT_EQ(group(producer, 6, 7, kCommit), (Words{"1:GroupReply=1000#6"}));
    EXPECT_EQ(attach(consumer, 7, by_name(1, "a")), (Words{"2:" + error(Errc::NotFound) + "#7"}));
}

TEST_F(RegistryGroups, StagedCapsuleIsWithdrawnByItsOwnSessionAlone) {
    const auto root = open(0);
    group(producer, 1, 7, kBegin);
    publish(producer, 2, 1, "a", 7);
    EXPECT_EQ(withdraw(consumer, 3, kAlice, 1), (Words{"2:" + error(Errc::NotFound) + "#3"}));
    EXPECT_EQ(withdraw(root, 4, kAlice, 1), (Words{"3:" + error(Errc::NotFound) + "#4"}));
    EXPECT_EQ(registry.totals().staged, 1u);
}

// ---- Begun and ended

TEST_F(RegistryGroups, NumberOfAnOpenGroupIsInUse) {
    group(producer, 1, 7, kBegin);
    publish(producer, 2, 1, "a", 7);
    EXPECT_EQ(group(producer, 3, 7, kBegin), (Words{"1:" + error(Errc::AlreadyExists) + "#3"}));
    EXPECT_EQ(last_error().field, "group.group");
    EXPECT_EQ(group(producer, 4, 7, kCommit), (Words{"1:GroupReply=1000#4"})) << "as it was";
}

TEST_F(RegistryGroups, GroupThatIsNotOpenCanNotBeEnded) {
    for (const auto action : {kCommit, kAbort}) {
        EXPECT_EQ(group(producer, 1, 7, action), (Words{"1:" + error(Errc::NotFound) + "#1"}));
        EXPECT_EQ(last_error().field, "group.group");
        EXPECT_EQ(last_error().message, "this session has no open group 7");
    }
    group(consumer, 2, 7, kBegin);
    EXPECT_EQ(group(producer, 3, 7, kCommit), (Words{"1:" + error(Errc::NotFound) + "#3"})) << "another's";
}

TEST_F(RegistryGroups, EmptyGroupIsCommitted) {
    group(producer, 1, 7, kBegin);
    EXPECT_EQ(group(producer, 2, 7, kCommit), (Words{"1:GroupReply#2"}));
    EXPECT_EQ(group(producer, 3, 7, kAbort), (Words{"1:" + error(Errc::NotFound) + "#3"})) << "it has ended";
}

TEST_F(RegistryGroups, LastEndOfAGroupSaidAgainHasTheSameAnswer) {
    group(producer, 1, 7, kBegin);
    publish(producer, 2, 1, "a", 7);
    publish(producer, 3, 2, "b", 7);
    group(producer, 4, 7, kCommit);
    publish(producer, 5, 3, "a");  // one of its members has ended since
    EXPECT_EQ(group(producer, 6, 7, kCommit), (Words{"1:GroupReply=1000,1001#6"}));
    EXPECT_EQ(group(producer, 7, 7, kAbort), (Words{"1:" + error(Errc::NotFound) + "#7"})) << "it was committed";
    group(producer, 8, 8, kBegin);
    group(producer, 9, 8, kAbort);
    EXPECT_EQ(group(producer, 10, 8, kAbort), (Words{"1:GroupReply#10"}));
    EXPECT_EQ(group(producer, 11, 7, kCommit), (Words{"1:" + error(Errc::NotFound) + "#11"})) << "not the last";
}

TEST_F(RegistryGroups, NumberMayBeUsedAgainOnceItsGroupHasEnded) {
    group(producer, 1, 7, kBegin);
    publish(producer, 2, 1, "a", 7);
    group(producer, 3, 7, kCommit);
    EXPECT_EQ(group(producer, 4, 7, kBegin), (Words{"1:GroupReply#4"}));
    EXPECT_EQ(group(producer, 5, 7, kCommit), (Words{"1:GroupReply#5"})) << "the new one, which is empty";
}

// ---- Commit

TEST_F(RegistryGroups, VersionsOfACommitAreConsecutiveInTheOrderOfPublishing) {
    group(producer, 1, 7, kBegin);
    publish(producer, 2, 1, "z", 7);
    publish(consumer, 3, 9, "between");
    publish(producer, 4, 2, "a", 7);
    publish(producer, 5, 3, "", 7);
    EXPECT_EQ(group(producer, 6, 7, kCommit), (Words{"1:GroupReply=1001,1002,1003#6"}));
    EXPECT_EQ(attach(consumer, 7, {1, "a", wire::Which::Exactly, 1002}),
              (Words{"1:Opened(2 lease 1 left 1)", "2:AttachReply(2)#7"}));
}

TEST_F(RegistryGroups, CommitTellsRetiredThenAnswersThenGrantsThenTellsWatchers) {
    publish(consumer, 1, 8, "a");
    publish(consumer, 2, 9, "b");
    attach(producer, 3, by_name(1, "b"));
    const auto waiter = open(kAlice);
    attach(waiter, 4, {1, "a", wire::Which::NewerThan, 1000}, std::nullopt);
    attach(waiter, 5, {2, "b", wire::Which::NewerThan, 1001}, std::nullopt);
    attach(waiter, 6, by_id(3, kAlice, 3), std::nullopt);
    const auto watcher = open(kAlice);
    watch(watcher, 7, "");
    group(producer, 8, 7, kBegin);
    publish(producer, 9, 1, "a", 7);
    publish(producer, 10, 2, "b", 7);
    publish(producer, 11, 3, "", 7);
    EXPECT_EQ(
        group(producer, 12, 7, kCommit),
        (Words{"2:Retired(8)", "2:Ended(8 reusable)", "2:Retired(9)", "1:GroupReply=1002,1003,1004#12",
               "1:Opened(1 lease 1 left 1)", "3:AttachReply(1)#4", "1:Opened(2 lease 2 left 1)", "3:AttachReply(2)#5",
               "1:Opened(3 lease 3 left 1)", "3:AttachReply(3)#6", "4:WatchedRetired(8)", "4:WatchedPublished(1)",
               "4:WatchedRetired(9)", "4:WatchedPublished(2)", "4:WatchedPublished(3)"}));
    EXPECT_EQ(last.at(3).after, 0u) << "answered once all who were replaced have been told";
    EXPECT_EQ(last.at(5).after, 4u) << "granted once the producer knows";
}

TEST_F(RegistryGroups, WhoWaitsForAVersionThatGoesToAMemberOfAnotherNameIsAnswered) {
    attach(consumer, 1, {1, "b", wire::Which::Exactly, 1000}, std::nullopt);
    attach(consumer, 2, {2, "b", wire::Which::Exactly, 1001}, std::nullopt);
    group(producer, 3, 7, kBegin);
    publish(producer, 4, 1, "a", 7);
    publish(producer, 5, 2, "b", 7);
    EXPECT_EQ(group(producer, 6, 7, kCommit), (Words{"1:GroupReply=1000,1001#6", "2:" + error(Errc::NotFound) + "#1",
                                                     "1:Opened(2 lease 2 left 1)", "2:AttachReply(2)#2"}));
}

TEST_F(RegistryGroups, CommitIsRefusedAsAWholeIfANameIsAnothersByNow) {
    const auto bob = open(kBob);
    group(producer, 1, 7, kBegin);
    publish(producer, 2, 1, "a", 7);
    publish(producer, 3, 2, "b", 7);
    publish(bob, 4, 1, "b");
    EXPECT_EQ(group(producer, 5, 7, kCommit), (Words{"1:" + error(Errc::AlreadyExists) + "#5"}));
    EXPECT_EQ(last_error().field, "group.group");
    EXPECT_EQ(last_error().message,
              "group 7 has a member with the name \"b\", which belongs to another user by now: nothing of the group is "
              "published");
    EXPECT_EQ(attach(consumer, 6, by_name(1, "a")), (Words{"2:" + error(Errc::NotFound) + "#6"}));
    EXPECT_EQ(registry.totals().staged, 2u) << "the group is as it was";
    EXPECT_EQ(publish(consumer, 7, 5, "c"), (Words{"2:PublishReply=1001#7"})) << "no version is used up";
}

TEST_F(RegistryGroups, RefusedCommitMayBeSaidAgainOnceTheMemberIsGoneOrItsNameIsFree) {
    const auto bob = open(kBob);
    group(producer, 1, 7, kBegin);
    publish(producer, 2, 1, "a", 7);
    publish(producer, 3, 2, "b", 7);
    publish(bob, 4, 1, "b");
    group(producer, 5, 7, kCommit);
    withdraw(bob, 6, kBob, 1);
    EXPECT_EQ(group(producer, 7, 7, kCommit), (Words{"1:GroupReply=1001,1002#7"}));
    group(producer, 8, 8, kBegin);
    publish(producer, 9, 3, "c", 8);
    publish(producer, 10, 4, "d", 8);
    publish(bob, 11, 2, "d");
    group(producer, 12, 8, kCommit);
    withdraw(producer, 13, kAlice, 4);
    EXPECT_EQ(group(producer, 14, 8, kCommit), (Words{"1:GroupReply=1004#14"}));
}

TEST_F(RegistryGroups, RootCommitsUnderAnybodysName) {
    const auto root = open(0);
    publish(producer, 1, 1, "a");
    group(root, 2, 7, kBegin);
    publish(root, 3, 1, "a", 7);
    EXPECT_EQ(group(root, 4, 7, kCommit), (Words{"1:Retired(1)", "1:Ended(1 reusable)", "3:GroupReply=1001#4"}));
}

TEST_F(RegistryGroups, CommittedCapsulesLiveAsAnyOther) {
    group(producer, 1, 7, kBegin);
    publish(producer, 2, 1, "a", 7);
    publish(producer, 3, 2, "b", 7);
    group(producer, 4, 7, kCommit);
    attach(consumer, 5, by_name(1, "a"));
    EXPECT_EQ(withdraw(consumer, 6, kAlice, 2), (Words{"1:Retired(2)", "1:Ended(2 reusable)", "2:Done#6"}));
    EXPECT_EQ(end(producer), (Words{"2:ProducerLost(1)"}));
    EXPECT_EQ(release(consumer, 7, {1}), (Words{"2:Done#7"}));
    end(consumer);
    expect_nothing_held();
}

TEST_F(RegistryGroups, AllOfItLingersOrNothingOfIt) {
    const auto linger = [](wire::Publish& publish) {
        publish.linger_ms = 0;
        publish.group = 7;
    };
    const auto end_with_producer = [](wire::Publish& publish) { publish.group = 7; };
    group(producer, 1, 7, kBegin);
    publish_with(producer, 2, 1, "a", linger);
    EXPECT_EQ(publish_with(producer, 3, 2, "b", end_with_producer), Words{"1:" + error(Errc::InvalidArgument) + "#3"});
    EXPECT_EQ(publish_with(producer, 4, 3, "b", linger), Words{"1:PublishReply=0#4"});
    group(producer, 5, 7, kCommit);
    group(producer, 6, 7, kBegin);
    publish_with(producer, 7, 4, "c", end_with_producer);
    EXPECT_EQ(publish_with(producer, 8, 5, "d", linger), Words{"1:" + error(Errc::InvalidArgument) + "#8"});
    const auto& refused = std::get<hurray::Error>(last.back().packet.message);
    EXPECT_EQ(refused.field, "publish.linger_ms");
    EXPECT_EQ(refused.message,
              "group 7 has members that end with their producer: all of a group linger, or none of it");
}

// ---- What a large commit tells watchers

TEST_F(RegistryGroups, LargeCommitIsVisibleAtOnceAndToldToWatchersPieceByPiece) {
    watch(consumer, 1, "");
    fill(producer, 7, 600);
    registry.group(producer, 3, {7, kCommit}, out);
    ASSERT_TRUE(registry.has_announcements());
    Words told = take();
    EXPECT_LE(told.size(), 257u);
    for (std::uint64_t i = 0; i < 600; ++i) {
        registry.attach(consumer, 4, by_name(i + 1, "n/" + std::to_string(i)), 0, now, out);
        EXPECT_TRUE(std::holds_alternative<wire::AttachReply>(out.packets.back().packet.message)) << i;
    }
    take();
    while (registry.has_announcements()) {
        registry.continue_announcements(out);
        const Words more = take();
        EXPECT_LE(more.size(), 256u);
        told.insert(told.end(), more.begin(), more.end());
    }
    EXPECT_EQ(std::count(told.begin(), told.end(), "2:WatchedPublished(0)"), 600);
}

TEST_F(RegistryGroups, ChangesAreToldInTheOrderInWhichTheyHappened) {
    watch(consumer, 1, "");
    fill(producer, 7, 600);
    registry.group(producer, 3, {7, kCommit}, out);
    take();
    publish(producer, 4, 5, "n/599");  // whose publication is not told yet
    std::uint64_t last_version = 0;
    std::string order;
    const auto look = [&] {
        for (const Outgoing& outgoing : last) {
            if (const auto* event = std::get_if<wire::Watched>(&outgoing.packet.message);
                event != nullptr && event->name == "n/599") {
                order += event->what == wire::Watched::What::Published ? "P" : "R";
                last_version = event->version;
            }
        }
    };
    look();
    while (registry.has_announcements()) {
        registry.continue_announcements(out);
        take();
        look();
    }
    EXPECT_EQ(order, "PRP");
    EXPECT_EQ(last_version, 1600u);
}

TEST_F(RegistryGroups, WatchThatBeginsWhileACommitIsToldIsShownEachCapsuleOnce) {
    watch(consumer, 1, "");
    fill(producer, 7, 600);
    registry.group(producer, 3, {7, kCommit}, out);
    take();
    const auto late = open(kAlice);
    EXPECT_EQ(watch(late, 1, ""), (Words{"3:Done#1"})) << "its snapshot waits";
    std::size_t shown = 0;
    const auto look = [&] {
        for (const std::string& word : take()) {
            shown += word == "3:WatchedPresent(0)" || word == "3:WatchedPublished(0)" ? 1 : 0;
        }
    };
    while (registry.has_announcements()) {
        registry.continue_announcements(out);
        look();
    }
    while (registry.has_snapshots(late)) {
        registry.continue_snapshots(late, out);
        look();
    }
    EXPECT_EQ(shown, 600u);
}

TEST_F(RegistryGroups, WhatIsToBeToldDoesNotPileUpOverManyCommits) {
    watch(consumer, 1, "");
    for (std::uint64_t number = 1; number <= 5; ++number) {
        group(producer, 1, number, kBegin);
        for (std::size_t i = 0; i < 600; ++i) {
            Publication p = bare(i, number);
            p.request.capsule.bytes[0] = static_cast<std::uint8_t>(number);
            registry.publish(producer, 2, std::move(p), out);
        }
        EXPECT_FALSE(registry.has_announcements()) << "staging told what the commit before had left";
        take();
        registry.group(producer, 3, {number, kCommit}, out);
        take();
    }
}

// ---- Abort and the end of the session

TEST_F(RegistryGroups, AbortEndsEachMemberOnceBeforeItIsAnswered) {
    watch(consumer, 1, "");
    group(producer, 2, 7, kBegin);
    publish(producer, 3, 1, "a", 7);
    publish(producer, 4, 2, "", 7);
    EXPECT_EQ(group(producer, 5, 7, kAbort), (Words{"1:Ended(1 reusable)", "1:Ended(2 reusable)", "1:GroupReply#5"}));
    EXPECT_TRUE(dropped.empty()) << "the memory stays its producer's until that one forgets it";
    EXPECT_EQ(registry.totals().capsules, 0u);
    EXPECT_EQ(publish(producer, 6, 1, "a", 7), (Words{"1:" + error(Errc::NotFound) + "#6"})) << "the group is over";
    EXPECT_EQ(publish(producer, 7, 1, "a"), (Words{"1:PublishReply=1000#7", "2:WatchedPublished(1)"}))
        << "the id was never anybody's";
}

TEST_F(RegistryGroups, StagedCapsulesGoWithTheirSessionAndNobodyIsTold) {
    watch(consumer, 1, "");
    group(producer, 2, 7, kBegin);
    publish(producer, 3, 1, "a", 7);
    publish(producer, 4, 2, "b", 7);
    group(producer, 5, 8, kBegin);
    EXPECT_EQ(end(producer), Words{});
    EXPECT_EQ(dropped, (std::vector<SegmentNumber>{{1}, {2}}));
    end(consumer);
    expect_nothing_held();
}

TEST_F(RegistryGroups, ManyStagedCapsulesGoPieceByPiece) {
    fill(producer, 7, 600);
    registry.end_session(producer, now, out);
    EXPECT_TRUE(registry.has_endings());
    EXPECT_EQ(registry.totals().capsules, 600u - 256);
    std::size_t pieces = 1;
    while (registry.has_endings()) {
        registry.continue_endings(out);
        ++pieces;
    }
    EXPECT_EQ(take(), Words{});
    EXPECT_EQ(pieces, 3u);
    end(consumer);
    expect_nothing_held();
}

}  // namespace
}  // namespace hurrayd
