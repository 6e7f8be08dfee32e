#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "daemon/registry.hpp"
#include "tests/unit/daemon/registry_fixture.hpp"

// What watchers are shown, and told.

namespace hurrayd {
namespace {

class RegistryWatch : public RegistryTest {
  protected:
    /// Of each watch that was told something in the last step: what.
    [[nodiscard]] std::multimap<std::uint64_t, std::string> told() const {
        std::multimap<std::uint64_t, std::string> events;
        for (const Outgoing& outgoing : last) {
            if (const auto* event = std::get_if<wire::Watched>(&outgoing.packet.message)) {
                events.emplace(event->watch, text(outgoing.packet));
            }
        }
        return events;
    }
    /// `count` watches of one session, numbered from 1.
    SessionNumber watch_often(std::uint64_t count, const std::string& pattern) {
        const auto watcher = open(kAlice);
        for (std::uint64_t number = 1; number <= count; ++number) {
            registry.watch(watcher, number, {number, pattern}, out);
        }
        take();
        return watcher;
    }
};

TEST_F(RegistryWatch, WatchShowsWhatIsPresentThenWhatChanges) {
    const auto p = open(kAlice);
    const auto w = open(kAlice);
    publish(p, 1, 1, "m/a");
    publish(p, 2, 2, "n");
    registry.watch(w, 9, {4, "m/"}, out);
    EXPECT_EQ(take(), (Words{"2:Done#9", "2:WatchedPresent(1)", "2:WatchedSnapshotEnd"}));
    EXPECT_FALSE(registry.has_snapshots(w));
    EXPECT_EQ(publish(p, 3, 3, "m/a"), (Words{"1:Retired(1)", "1:Ended(1 reusable)", "1:PublishReply=1002#3",
                                              "2:WatchedRetired(1)", "2:WatchedPublished(3)"}));
    EXPECT_EQ(last.at(4).after, 4u) << "a slow watcher keeps nobody waiting";
    EXPECT_EQ(withdraw(p, 4, kAlice, 2), (Words{"1:Ended(2 reusable)", "1:Done#4"}));
    EXPECT_EQ(end(p), (Words{"2:WatchedProducerLost(3)"}));
}

TEST_F(RegistryWatch, WatchMatchesNamesPrefixesAndEverything) {
    const auto p = open(kAlice);
    for (const auto& [number, pattern] : std::map<std::uint64_t, std::string>{
             {1, ""}, {2, "m/"}, {3, "m/x/"}, {4, "m/x/y"}, {5, "m/x"}, {6, "m"}, {7, "m/x/y/"}}) {
        registry.watch(p, number, {number, pattern}, out);
    }
    take();
    publish(p, 10, 1, "m/x/y");
    std::vector<std::uint64_t> told;
    for (const Outgoing& outgoing : last) {
        if (const auto* event = std::get_if<wire::Watched>(&outgoing.packet.message)) {
            told.push_back(event->watch);
        }
    }
    EXPECT_EQ(told, (std::vector<std::uint64_t>{1, 2, 3, 4}));
}

TEST_F(RegistryWatch, WatchTellsNothingOfOtherUsersCapsules) {
    const auto alice = open(kAlice);
    const auto bob = open(kBob);
    publish(alice, 1, 1, "a");
    registry.watch(bob, 1, {1, ""}, out);
    EXPECT_EQ(take(), (Words{"2:Done#1", "2:WatchedSnapshotEnd"}));
    EXPECT_EQ(publish(alice, 2, 2, "a"), (Words{"1:Retired(1)", "1:Ended(1 reusable)", "1:PublishReply=1001#2"}));
}

TEST_F(RegistryWatch, UnwatchEndsTheEvents) {
    const auto p = open(kAlice);
    registry.watch(p, 1, {1, ""}, out);
    registry.unwatch(p, 2, {1}, out);
    registry.unwatch(p, 3, {1}, out);
    EXPECT_EQ(take(), (Words{"1:Done#1", "1:WatchedSnapshotEnd", "1:Done#2", "1:Done#3"}));
    EXPECT_EQ(publish(p, 4, 1, "a"), (Words{"1:PublishReply=1000#4"}));
}

TEST_F(RegistryWatch, WatchNumberInUseIsRefused) {
    const auto p = open(kAlice);
    registry.watch(p, 1, {1, ""}, out);
    take();
    registry.watch(p, 2, {1, "a"}, out);
    EXPECT_EQ(take(), (Words{"1:" + error(Errc::AlreadyExists) + "#2"}));
}

TEST_F(RegistryWatch, LongSnapshotComesInPiecesAndChangesFollowItsEnd) {
    const auto p = open(kAlice);
    const auto w = open(kAlice);
    for (std::uint8_t i = 0; i < 200; ++i) {
        publish(p, 1, i, "n/" + std::to_string(100 + i));
    }
    registry.watch(w, 9, {4, "n/"}, out);
    Words words = take();
    EXPECT_EQ(words.size(), 129u);
    EXPECT_TRUE(registry.has_snapshots(w));
    // One that was shown goes, one that was not shown yet goes, one more comes behind, one more before.
    withdraw(p, 2, kAlice, 0);
    withdraw(p, 2, kAlice, 199);
    publish(p, 3, 201, "n/999");
    EXPECT_EQ(publish(p, 3, 202, "n/000"), (Words{"1:PublishReply=1201#3"})) << "kept back until the snapshot's end";
    registry.continue_snapshots(w, out);
    words = take();
    ASSERT_EQ(words.size(), 75u);
    EXPECT_EQ(words[71], "2:WatchedPresent(201)");
    EXPECT_EQ(words[72], "2:WatchedSnapshotEnd");
    EXPECT_EQ(words[73], "2:WatchedRetired(0)");
    EXPECT_EQ(words[74], "2:WatchedPublished(202)");
    EXPECT_FALSE(registry.has_snapshots(w));
}

TEST_F(RegistryWatch, SnapshotOfExactlyOnePieceEndsWithTheNext) {
    const auto p = open(kAlice);
    for (std::uint8_t i = 0; i < 128; ++i) {
        publish(p, 1, i, "n/" + std::to_string(100 + i));
    }
    registry.watch(p, 9, {4, ""}, out);
    EXPECT_EQ(take().size(), 129u);
    EXPECT_TRUE(registry.has_snapshots(p));
    EXPECT_EQ(publish(p, 3, 201, "zzz"), (Words{"1:PublishReply=1128#3"}));
    registry.continue_snapshots(p, out);
    EXPECT_EQ(take(), (Words{"1:WatchedSnapshotEnd", "1:WatchedPublished(201)"}));
}

// ---- More watches than can be told in one step

TEST_F(RegistryWatch, OneEventOfManyWatchesIsToldPieceByPieceToEachOnce) {
    const auto p = open(kAlice);
    watch_often(1000, "n");
    publish(p, 1, 1, "n");
    EXPECT_TRUE(registry.has_announcements());
    std::multimap<std::uint64_t, std::string> all = told();
    EXPECT_LE(all.size(), 128U);
    while (registry.has_announcements()) {
        registry.continue_announcements(out);
        take();
        const auto more = told();
        EXPECT_LE(more.size(), 128U);
        all.insert(more.begin(), more.end());
    }
    ASSERT_EQ(all.size(), 1000U);
    std::uint64_t expected = 0;
    for (const auto& [number, event] : all) {
        EXPECT_EQ(number, ++expected);
        EXPECT_EQ(event, "WatchedPublished(1)");
    }
}

TEST_F(RegistryWatch, WatchesThatEndOrBeginWhileAnEventIsToldChangeNothingForOthers) {
    const auto p = open(kAlice);
    const auto watcher = watch_often(400, "");
    const auto other = watch_often(100, "m/");
    publish(p, 1, 1, "m/a");
    std::multimap<std::uint64_t, std::string> all = told();
    const std::uint64_t reached = all.rbegin()->first;
    ASSERT_LT(reached, 300U);
    registry.unwatch(watcher, 2, {reached}, out);      // told last
    registry.unwatch(watcher, 3, {reached + 1}, out);  // told next
    registry.unwatch(watcher, 4, {400}, out);
    registry.watch(watcher, 5, {500, "m/"}, out);
    take();
    end(other);
    all.merge(told());
    while (registry.has_announcements()) {
        registry.continue_announcements(out);
        take();
        all.merge(told());
    }
    EXPECT_EQ(all.size(), 398U);
    EXPECT_EQ(all.count(reached + 1), 0U);
    EXPECT_EQ(all.count(500), 0U) << "it is shown what is";
    registry.continue_snapshots(watcher, out);
    EXPECT_EQ(take(), (Words{"2:WatchedPresent(1)", "2:WatchedSnapshotEnd"}));
}

TEST_F(RegistryWatch, EachWatchIsToldWhatFollowsInOrderThoughTheFirstIsNotToldToAllYet) {
    const auto p = open(kAlice);
    watch_often(300, "n");
    std::map<std::uint64_t, std::string> heard;
    const auto hear = [&] {
        for (const auto& [number, event] : told()) {
            heard[number] += event + " ";
        }
    };
    publish(p, 1, 1, "n");
    hear();
    publish(p, 2, 2, "n");
    hear();
    withdraw(p, 3, kAlice, 2);
    hear();
    while (registry.has_announcements()) {
        registry.continue_announcements(out);
        take();
        hear();
    }
    ASSERT_EQ(heard.size(), 300U);
    for (const auto& [number, events] : heard) {
        EXPECT_EQ(events, "WatchedPublished(1) WatchedRetired(1) WatchedPublished(2) WatchedRetired(2) ") << number;
    }
}

TEST_F(RegistryWatch, WhatNobodyWatchesWaitsForNothing) {
    const auto p = open(kAlice);
    watch_often(1000, "n");
    publish(p, 1, 1, "n");
    ASSERT_TRUE(registry.has_announcements());
    const std::uint64_t before = registry.announced();
    publish(p, 2, 2, "m");
    EXPECT_EQ(registry.announced(), before);
    publish(p, 3, 3, "n");
    EXPECT_EQ(registry.announced(), before + 2);
}

TEST_F(RegistryWatch, AnEndingSessionLeavesNoMoreToTellThanAPiece) {
    const auto p = open(kAlice);
    watch_often(400, "");
    for (std::uint64_t i = 0; i < 1000; ++i) {
        Publication of_many = publication(static_cast<std::uint8_t>(i), "n/" + std::to_string(i));
        of_many.request.capsule.bytes[0] = static_cast<std::uint8_t>(i >> 8U);
        registry.publish(p, i + 1, std::move(of_many), out);
        while (registry.has_announcements()) {
            registry.continue_announcements(out);
        }
        out.clear();
    }
    const std::uint64_t before = registry.announced();
    registry.end_session(p, now, out);
    std::uint64_t events = 0;
    for (bool first = true; first || registry.has_endings() || registry.has_announcements(); first = false) {
        if (!first) {
            registry.continue_announcements(out);
            registry.continue_endings(out);
        }
        EXPECT_LE((registry.announced() - before) - events / 400, 258U) << "of those that are begun";
        events += out.packets.size();
        out.clear();
    }
    EXPECT_EQ(events, 400'000U);
}

}  // namespace
}  // namespace hurrayd
