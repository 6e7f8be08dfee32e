#include <algorithm>
#include <string>
#include <variant>
#include <vector>

#include <gmock/gmock.h>

#include "tests/unit/daemon/registry_fixture.hpp"

// What a user and a client may have, what a refusal says, and that whatever was counted is given back.

namespace hurrayd {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

const std::string kOverQuota = error(Errc::OverQuota);

class QuotaTest : public RegistryTest {
  protected:
    using RegistryTest::RegistryTest;

    /// The refusal that the last step sent.
    [[nodiscard]] hurray::Error refusal() const {
        for (const Outgoing& outgoing : last) {
            if (const auto* error = std::get_if<hurray::Error>(&outgoing.packet.message)) {
                return *error;
            }
        }
        ADD_FAILURE() << "nothing was refused";
        return {};
    }
    Words watch(SessionNumber from, std::uint64_t request, std::uint64_t number, const std::string& pattern) {
        registry.watch(from, request, {number, pattern}, out);
        return take();
    }
    Words publish_group(SessionNumber from, const std::vector<std::string>& names) {
        group(from, 50, 1, wire::Group::Action::Begin);
        std::uint8_t capsule = 100;
        for (const std::string& name : names) {
            publish(from, 51, ++capsule, name, 1);
        }
        return group(from, 52, 1, wire::Group::Action::Commit);
    }
    wire::StatusReply status(SessionNumber asker) {
        registry.status(asker, 1, "v", 5, now, out);
        auto reply = std::get<wire::StatusReply>(out.packets.at(0).packet.message);
        out.clear();
        return reply;
    }
    SessionNumber open_as(std::uint32_t uid, const std::string& label) {
        const SessionNumber number{next_session++};
        Identity identity{uid, uid, static_cast<std::int32_t>(number.value), uid == 0,
                          id16(static_cast<std::uint8_t>(number.value))};
        identity.label = label;
        EXPECT_TRUE(registry.open_session(number, identity));
        return number;
    }
};

// ---- How many

struct FewOfAll : QuotaTest {
    FewOfAll() : QuotaTest(Quotas::Limits{.capsules = 3, .names = 2, .leases = 2, .watches = 2}) {}
};

TEST_F(FewOfAll, CapsulesOfAUserUpToItsQuotaWhicheverClientHasThem) {
    const auto a = open(kAlice);
    const auto b = open(kAlice);
    publish(a, 1, 1, "");
    publish(b, 2, 2, "");
    publish(a, 3, 3, "");
    EXPECT_THAT(publish(b, 4, 4, ""), ElementsAre("2:" + kOverQuota + "#4"));
    EXPECT_EQ(refusal().limit_name, "quota.user.capsules");
    EXPECT_EQ(refusal().limit, 3u);
    EXPECT_EQ(refusal().in_use, 3u);
    EXPECT_EQ(refusal().value, 1u);
    EXPECT_EQ(dropped.size(), 1u) << "what came with it is let go";
    EXPECT_EQ(publish(open(kBob), 5, 5, "").size(), 1u);
    EXPECT_EQ(last.size(), 1u) << "another user has a quota of his own";
    withdraw(a, 6, kAlice, 3);
    EXPECT_THAT(publish(b, 7, 4, ""), ElementsAre("2:PublishReply=1004#7"));
}

TEST_F(FewOfAll, StagedAndRetiredCapsulesCountToo) {
    const auto producer = open(kAlice);
    const auto consumer = open(kAlice);
    publish(producer, 1, 1, "a");
    attach(consumer, 2, by_name(1, "a"));
    withdraw(producer, 3, kAlice, 1);
    group(producer, 4, 1, wire::Group::Action::Begin);
    publish(producer, 5, 2, "", 1);
    publish(producer, 6, 3, "", 1);
    EXPECT_THAT(publish(producer, 7, 4, "", 1), ElementsAre("1:" + kOverQuota + "#7"));
    release(consumer, 8, {1});
    EXPECT_THAT(publish(producer, 9, 4, "", 1), ElementsAre("1:PublishReply=0#9"));
}

TEST_F(FewOfAll, NamesCountForWhoeverWasFirst) {
    const auto producer = open(kAlice);
    publish(producer, 1, 1, "a");
    publish(producer, 2, 2, "b");
    EXPECT_THAT(publish(producer, 3, 3, "c"), ElementsAre("1:" + kOverQuota + "#3"));
    EXPECT_EQ(refusal().limit_name, "quota.user.names");
    EXPECT_THAT(publish(producer, 4, 4, "a").back(), "1:PublishReply=1002#4") << "a version more is no name more";
    withdraw(producer, 5, kAlice, 2);
    publish(producer, 6, 5, "c");
    EXPECT_EQ(used(producer, kAlice, "names"), 2u);
}

TEST_F(FewOfAll, CommitThatNeedsTooManyNamesIsRefusedWholeAndMayComeLater) {
    const auto producer = open(kAlice);
    publish(producer, 1, 1, "a");
    EXPECT_THAT(publish_group(producer, {"b", "c"}), ElementsAre("1:" + kOverQuota + "#52"));
    EXPECT_EQ(refusal().field, "group.group");
    EXPECT_EQ(refusal().limit_name, "quota.user.names");
    EXPECT_EQ(refusal().value, 2u);
    EXPECT_EQ(used(producer, kAlice, "names"), 1u);
    withdraw(producer, 2, kAlice, 1);
    EXPECT_THAT(group(producer, 3, 1, wire::Group::Action::Commit), ElementsAre("1:GroupReply=1001,1002#3"));
}

TEST_F(FewOfAll, NameThatWantsSeveralQueuedMembersIsOne) {
    const auto producer = open(kAlice);
    group(producer, 1, 1, wire::Group::Action::Begin);
    for (std::uint8_t capsule = 1; capsule <= 3; ++capsule) {
        publish_with(producer, 2, capsule, "jobs", [](wire::Publish& publish) {
            publish.group = 1;
            publish.once = true;
        });
    }
    EXPECT_THAT(group(producer, 3, 1, wire::Group::Action::Commit), ElementsAre("1:GroupReply=1000,1001,1002#3"));
}

TEST_F(FewOfAll, LeasesOfAUserUpToItsQuotaAlsoOfOthersCapsules) {
    const auto producer = open(kAlice);
    publish(producer, 1, 1, "a", 0, wire::Access{kAlice, 0666});
    const auto b = open(kBob);
    const auto c = open(kBob);
    attach(b, 2, by_name(1, "a"));
    attach(c, 3, by_name(1, "a"));
    EXPECT_THAT(attach(b, 4, by_name(2, "a")), ElementsAre("2:" + kOverQuota + "#4"));
    EXPECT_EQ(refusal().limit_name, "quota.user.leases");
    EXPECT_EQ(attach(b, 5, by_name(1, "a")).size(), 1u) << "said again it is no lease more";
    EXPECT_EQ(attach(producer, 6, by_name(1, "a")).size(), 2u) << "the producer's user has its own quota";
    release(c, 7, {1});
    EXPECT_EQ(attach(b, 8, by_name(2, "a")).size(), 2u);
}

// It waited while there was room, and there is none any more when what it waited for comes.
TEST_F(FewOfAll, AttachThatWaitedIsRefusedIfThereIsNoLeaseLeftForIt) {
    const auto producer = open(kAlice);
    const auto consumer = open(kBob);
    publish(producer, 1, 1, "a", 0, wire::Access{kAlice, 0666});
    attach(consumer, 2, by_name(1, "later"), {});
    attach(consumer, 3, by_name(2, "a"));
    attach(consumer, 4, by_name(3, "a"));
    EXPECT_THAT(publish(producer, 5, 2, "later", 0, wire::Access{kAlice, 0666}),
                ElementsAre("1:PublishReply=1001#5", "2:" + kOverQuota + "#2"));
    EXPECT_EQ(used(consumer, kBob, "waiting"), 0u);
}

TEST_F(FewOfAll, TakeThatIsRefusedLeavesTheJobToTheNext) {
    const auto producer = open(kAlice);
    const auto full = open(kBob);
    const auto other = open(kAlice);
    publish(producer, 1, 1, "a", 0, wire::Access{kAlice, 0666});
    wire::Attach job = by_name(1, "jobs");
    job.take = true;
    attach(full, 2, job, {});
    attach(other, 3, job, {});
    attach(full, 4, by_name(2, "a"));
    attach(full, 5, by_name(3, "a"));
    EXPECT_THAT(publish_with(producer, 6, 2, "jobs",
                             [](wire::Publish& publish) {
                                 publish.once = true;
                                 publish.access = wire::Access{kAlice, 0666};
                             }),
                ElementsAre("1:PublishReply=1001#6", "2:" + kOverQuota + "#2", "1:Opened(2 lease 1 left 1)",
                            "3:AttachReply(2)#3"));
}

TEST_F(FewOfAll, WatchesOfAUserUpToItsQuota) {
    const auto a = open(kAlice);
    const auto b = open(kAlice);
    watch(a, 1, 1, "x/");
    watch(b, 2, 1, "");
    EXPECT_THAT(watch(a, 3, 2, "y/"), ElementsAre("1:" + kOverQuota + "#3"));
    EXPECT_EQ(refusal().limit_name, "quota.user.watches");
    EXPECT_THAT(watch(a, 4, 1, "y/"), ElementsAre(error(Errc::AlreadyExists).insert(0, "1:") + "#4"));
    registry.unwatch(b, 5, {1}, out);
    take();
    EXPECT_EQ(watch(a, 6, 2, "y/").front(), "1:Done#6");
}

struct FewDescriptors : QuotaTest {
    FewDescriptors() : QuotaTest(Quotas::Limits{.descriptors = 2}) {}
};

TEST_F(FewDescriptors, SegmentsOfAUserUpToItsQuotaAndAsManyCapsulesInThemAsItLikes) {
    const auto producer = open(kAlice);
    publish(producer, 1, 1, "");
    publish(producer, 2, 2, "");
    EXPECT_THAT(publish(producer, 3, 3, ""), ElementsAre("1:" + kOverQuota + "#3"));
    EXPECT_EQ(refusal().limit_name, "quota.user.descriptors");
    Publication again = publication(4, "");
    again.request.segments = {{1, false, wire::Memory::Reusable, 4096, 0}};
    again.request.placements = {{0, 0}};
    again.brought.resize(1);
    registry.publish(producer, 4, std::move(again), out);
    EXPECT_THAT(take(), ElementsAre("1:PublishReply=1002#4"));
}

// ---- Of one client

struct FewOfAClient : QuotaTest {
    FewOfAClient()
        : QuotaTest(Quotas::Limits{.client_capsules = 1,
                                   .client_leases = 1,
                                   .client_waiting = 1,
                                   .client_watches = 1,
                                   .client_bytes = 8192}) {}
};

TEST_F(FewOfAClient, OneConnectionIsRefusedAndTheOthersOfItsUserAreNot) {
    const auto a = open(kAlice);
    const auto b = open(kAlice);
    publish(a, 1, 1, "x");
    EXPECT_THAT(publish(a, 2, 2, "y"), ElementsAre("1:" + kOverQuota + "#2"));
    EXPECT_EQ(refusal().limit_name, "quota.client.capsules");
    EXPECT_THAT(refusal().message, HasSubstr("this client has 1 capsules; at most 1 are allowed"));
    EXPECT_EQ(publish(b, 3, 2, "y").size(), 1u);

    attach(a, 4, by_name(1, "x"));
    attach(a, 5, by_name(2, "x"));
    EXPECT_EQ(refusal().limit_name, "quota.client.leases");
    EXPECT_EQ(attach(b, 6, by_name(1, "x")).size(), 2u);

    attach(a, 7, by_name(3, "never"), {});
    attach(a, 8, by_name(4, "never"), {});
    EXPECT_EQ(refusal().limit_name, "quota.client.waiting");
    EXPECT_EQ(attach(b, 9, by_name(4, "never"), {}).size(), 0u);

    watch(a, 10, 1, "");
    watch(a, 11, 2, "");
    EXPECT_EQ(refusal().limit_name, "quota.client.watches");
    EXPECT_EQ(watch(b, 12, 1, "").front(), "2:Done#12");
}

TEST_F(FewOfAClient, ItsMemoryIsWhatItHasReservedAndNotForgotten) {
    const auto a = open(kAlice);
    const auto b = open(kAlice);
    registry.reserve(a, 1, {1, 4096}, now, out);
    take();
    publish(a, 2, 1, "x");
    registry.reserve(a, 3, {2, 4096}, now, out);
    take();
    EXPECT_EQ(refusal().limit_name, "quota.client.bytes");
    EXPECT_EQ(refusal().in_use, 8192u);
    EXPECT_EQ(refusal().field, "reserve.bytes");
    registry.reserve(b, 4, {1, 8192}, now, out);
    EXPECT_THAT(take(), ElementsAre("2:Done#4"));
    registry.forget(a, 5, {{1}}, out);
    take();
    registry.reserve(a, 6, {2, 4096}, now, out);
    EXPECT_THAT(take(), ElementsAre("1:Done#6"));
    EXPECT_EQ(used(a, kAlice, "bytes"), 4096u * 3 + 8192) << "its user has it until the capsule in it has ended";
}

// ---- What a refusal says

struct FewBytes : QuotaTest {
    FewBytes() : QuotaTest(Quotas::Limits{.bytes = 40960, .all_bytes = 65536}) {}
    Words reserve(SessionNumber from, std::uint64_t number, std::uint64_t bytes) {
        registry.reserve(from, 1, {number, bytes}, now, out);
        return take();
    }
};

TEST_F(FewBytes, RefusalNamesTheThreeLargestHoldersOfTheSameUser) {  // case F5
    const auto small = open_as(kAlice, "small");
    const auto large = open_as(kAlice, "large");
    open_as(kAlice, "none");
    const auto anonymous = open_as(kAlice, "");
    const auto middle = open_as(kAlice, "middle");
    const auto bob = open_as(kBob, "bobs");
    reserve(bob, 1, 16384);
    reserve(small, 1, 4096);
    reserve(large, 1, 16384);
    reserve(anonymous, 1, 12288);
    reserve(middle, 1, 8192);
    reserve(middle, 2, 4096);
    EXPECT_EQ(
        refusal().message,
        "user 1001 has 40960 bytes of shared memory, and 4096 more are asked for; at most 40960 are allowed "
        "(quota.user.bytes); of user 1001 the most has \"large\" (pid 2): 16384, then a client (pid 4): 12288, then "
        "\"middle\" (pid 5): 8192");

    // The daemon's budget: what others have is in the sum, and who they are is not told.
    reserve(bob, 2, 16384);
    EXPECT_EQ(refusal().limit_name, "quota.bytes");
    EXPECT_EQ(refusal().in_use, 57344u);
    EXPECT_THAT(refusal().message, HasSubstr("of user 1002 the most has \"bobs\" (pid 6): 16384"));
    EXPECT_THAT(refusal().message, Not(HasSubstr("large")));

    std::vector<std::string> told;
    for (const wire::Holder& holder : status(small).holders) {
        EXPECT_EQ(holder.uid, kAlice);
        if (holder.name == "bytes") {
            told.push_back(holder.client_name + "=" + std::to_string(holder.used));
        }
    }
    EXPECT_THAT(told, ElementsAre("large=16384", "=12288", "middle=8192")) << "the same as in the refusal";
}

TEST_F(FewBytes, RootIsShownTheHoldersOfEachUser) {
    const auto alice = open_as(kAlice, "a");
    const auto bob = open_as(kBob, "b");
    const auto root = open_as(0, "root");
    reserve(alice, 1, 4096);
    reserve(bob, 1, 8192);
    std::vector<std::string> told;
    for (const wire::Holder& holder : status(root).holders) {
        if (holder.name == "bytes") {
            told.push_back(std::to_string(holder.uid) + "=" + std::to_string(holder.used));
        }
    }
    EXPECT_THAT(told, ElementsAre("1001=4096", "1002=8192"));
}

// ---- What it costs

class CostTest : public QuotaTest {
  protected:
    static constexpr std::uint64_t kMost = 40'000;
    CostTest() : QuotaTest(Quotas::Limits{.daemon_bytes = kMost}) {}
    explicit CostTest(const Quotas::Limits& limits, std::optional<std::uint64_t> window = std::nullopt)
        : QuotaTest(limits, window) {}

    /// What the user costs without the connection that asks.
    std::uint64_t cost(SessionNumber asker) { return used(asker, kAlice, "daemon_bytes"); }
};

TEST_F(CostTest, EverythingThatIsKeptCostsAndIsGivenBack) {
    const auto asker = open(kAlice);
    EXPECT_EQ(cost(asker), 0u);
    EXPECT_TRUE(status(asker).holders.empty()) << "whoever asks is left out";
    const auto producer = open(kAlice);
    const auto consumer = open(kAlice);
    std::uint64_t before = cost(asker);
    EXPECT_GT(before, 2 * sizeof(Registry::Totals)) << "two connections";
    const std::uint64_t connections = before;
    const auto grew = [&](const char* what) {
        const std::uint64_t now_it_is = cost(asker);
        EXPECT_GT(now_it_is, before) << what;
        before = now_it_is;
    };
    publish(producer, 1, 1, "name");
    grew("capsule");
    attach(consumer, 2, by_name(1, "name"));
    grew("lease");
    attach(consumer, 3, by_name(2, "never"), {});
    grew("waiting attach");
    watch(consumer, 4, 1, "a/pattern/of/some/length/");
    grew("watch");
    registry.reserve(producer, 5, {1, 4096}, now, out);
    take();
    grew("reservation");
    group(producer, 6, 1, wire::Group::Action::Begin);
    grew("group");
    publish(producer, 7, 2, "staged", 1);
    grew("staged capsule");

    registry.cancel(consumer, {3}, out);
    registry.unwatch(consumer, 8, {1}, out);
    registry.unreserve(producer, 9, {1}, out);
    group(producer, 10, 1, wire::Group::Action::Abort);
    release(consumer, 11, {1});
    withdraw(producer, 12, kAlice, 1);
    registry.forget(producer, 13, {{1, 2}}, out);
    take();
    EXPECT_LT(cost(asker), connections + 500) << "but for the numbers that they have used";
    end(producer);
    end(consumer);
    EXPECT_EQ(cost(asker), 0u);
    end(asker);
    expect_nothing_held();
}

TEST_F(CostTest, WhatIsLargeCostsMore) {
    const auto asker = open(kAlice);
    const auto producer = open(kAlice);
    const std::uint64_t nothing = cost(asker);
    publish(producer, 1, 1, "");
    const std::uint64_t small = cost(asker) - nothing;
    publish_with(producer, 2, 2, "", [](wire::Publish& publish) { publish.descriptor.assign(30'000, 'd'); });
    const std::uint64_t large = cost(asker) - nothing - small;
    EXPECT_GE(large, small + 29'000);
    EXPECT_LE(large, small + 31'000);
}

TEST_F(CostTest, WhatCostsTooMuchIsRefusedWhateverItIsAndOthersGoOn) {
    const auto a = open(kAlice);
    const auto b = open(kAlice);
    attach(a, 1, by_name(1, "never"), {});
    for (std::uint8_t capsule = 1; publish(a, 2, capsule, "") != Words{"1:" + kOverQuota + "#2"}; ++capsule) {
        ASSERT_LT(capsule, 200);
    }
    EXPECT_EQ(refusal().limit_name, "quota.user.daemon_bytes");
    EXPECT_GT(refusal().in_use + refusal().value, kMost);
    EXPECT_THAT(refusal().message, HasSubstr("(pid 1): "));
    const auto reserve = [&](SessionNumber from, std::uint64_t number) {
        registry.reserve(from, 4, {number, 4096}, now, out);
        return take();
    };
    for (std::uint64_t number = 1; reserve(a, number) == Words{"1:Done#4"}; ++number) {  // the smallest thing there is
        ASSERT_LT(number, 1000);
    }
    const Words refused = {"2:" + kOverQuota + "#4"};
    EXPECT_EQ(attach(b, 4, by_name(1, "never"), {}), refused);
    EXPECT_EQ(watch(b, 4, 1, ""), refused);
    EXPECT_EQ(group(b, 4, 1, wire::Group::Action::Begin), refused);
    EXPECT_EQ(reserve(b, 1), refused);
    EXPECT_EQ(attach(b, 4, by_id(1, kAlice, 1)), refused);
    const auto bob = open(kBob);
    EXPECT_EQ(publish(bob, 5, 1, "bobs").size(), 1u);
    EXPECT_EQ(attach(bob, 6, by_name(1, "bobs")).size(), 2u);
}

TEST_F(CostTest, NumbersWithGapsCost) {
    const auto asker = open(kAlice);
    const auto consumer = open(kAlice);
    publish(asker, 1, 1, "a");
    const std::uint64_t before = cost(asker);
    for (std::uint64_t lease = 1; lease <= 50; ++lease) {
        attach(consumer, 2, by_name(2 * lease, "a"));
        release(consumer, 3, {2 * lease});
    }
    const std::uint64_t with_gaps = cost(asker);
    EXPECT_GE(with_gaps, before + 50 * 48);
    for (std::uint64_t lease = 1; lease <= 50; ++lease) {
        attach(consumer, 2, by_name(2 * lease + 1, "a"));
        release(consumer, 3, {2 * lease + 1});
    }
    EXPECT_LT(cost(asker), before + 200) << "without gaps they are one range";
}

TEST_F(CostTest, WhatWaitsToBeReadCosts) {
    const auto asker = open(kAlice);
    const auto reader = open(kAlice);
    const std::uint64_t before = cost(asker);
    registry.note_queued(reader, 10'000);
    EXPECT_EQ(cost(asker), before + 10'000);
    EXPECT_FALSE(registry.is_user_full(reader));
    registry.note_queued(reader, kMost);
    EXPECT_EQ(cost(asker), before + kMost);
    EXPECT_TRUE(registry.is_user_full(reader));
    EXPECT_TRUE(registry.is_user_full(asker)) << "it is the user's";
    registry.note_queued({99}, 5);
    registry.note_queued(reader, 0);
    EXPECT_EQ(cost(asker), before);
    registry.note_queued(reader, 7);
    end(reader);
    EXPECT_EQ(cost(asker), 0u);
}

// It kept them until the snapshot was through, however much that was.
struct LargerCostTest : CostTest {
    LargerCostTest() : CostTest(Quotas::Limits{.daemon_bytes = 10 * kMost}) {}
};
TEST_F(LargerCostTest, EventsThatWaitForASnapshotAreLeftOutWhereTheUserCostsTooMuch) {
    const auto bob = open(kBob);
    const auto watcher = open(kAlice);
    const wire::Access for_all{kBob, 0666};
    const std::string prefix(200, 'n');
    for (std::uint8_t capsule = 1; capsule <= 150; ++capsule) {  // more than one piece of a snapshot
        publish(bob, 1, capsule, prefix + std::to_string(capsule), 0, for_all);
    }
    watch(watcher, 2, 1, "");
    const std::uint64_t before = cost(watcher);
    publish(bob, 3, 151, prefix + "1", 0, for_all);  // a name that was shown
    EXPECT_GE(cost(watcher), before + 2 * 200) << "retired and published";
    registry.note_queued(watcher, 10 * kMost);
    publish(bob, 4, 152, prefix + "1", 0, for_all);
    EXPECT_LE(cost(watcher), before + 2 * 500) << "nothing more is kept";
    registry.note_queued(watcher, 0);
    bool has_gap = false;
    while (registry.has_snapshots(watcher)) {
        registry.continue_snapshots(watcher, out);
        const Words words = take();
        has_gap = has_gap || std::count(words.begin(), words.end(), "2:WatchedGap") != 0;
    }
    EXPECT_TRUE(has_gap);
    EXPECT_FALSE(registry.is_user_full(watcher));
}

// ---- Over the daemon's death

struct FewClaims : QuotaTest {
    FewClaims() : QuotaTest(Quotas::Limits{.leases = 2}, 1000) {}
    SessionNumber resume(std::uint32_t uid) {
        const SessionNumber number{next_session++};
        EXPECT_TRUE(registry.open_session(number, {uid,
                                                   uid,
                                                   static_cast<std::int32_t>(number.value),
                                                   false,
                                                   id16(static_cast<std::uint8_t>(number.value)),
                                                   {},
                                                   true}));
        return number;
    }
};

TEST_F(FewClaims, ClaimsCountAsTheLeasesThatTheyBecome) {
    const auto consumer = resume(kBob);
    const auto producer = resume(kAlice);
    using State = wire::Claims::State;
    const wire::CapsuleId id{kAlice, id16(1)};
    registry.claim(consumer, 1, {{{id, 1, State::Held}, {id, 2, State::Held}, {id, 3, State::Held}}}, out);
    EXPECT_THAT(take(), ElementsAre("1:ClaimsRefused(3)", "1:Done#1"));
    EXPECT_THAT(publish_with(producer, 2, 1, "a",
                             [](wire::Publish& publish) {
                                 publish.version = 500;
                                 publish.access = wire::Access{kAlice, 0666};
                             }),
                ElementsAre("2:PublishReply=500#2"));
    EXPECT_EQ(used(consumer, kBob, "leases"), 2u);
    EXPECT_THAT(attach(consumer, 3, by_name(4, "a")), ElementsAre("1:" + kOverQuota + "#3"));
    end(consumer);
    end(producer);
    registry.close_window(out);
    take();
    expect_nothing_held();
}

// ---- Numbers

// A publish that was refused named it, and its producer gave it up: said again with another file it meant two in one session.
TEST_F(QuotaTest, SegmentThatWasForgottenBeforeItWasKnownIsNotUsedAgain) {
    const auto producer = open(kAlice);
    registry.forget(producer, 1, {{1}}, out);
    take();
    EXPECT_THAT(publish(producer, 2, 1, ""), ElementsAre("1:" + error(Errc::AlreadyExists) + "#2"));
    EXPECT_EQ(publish(producer, 3, 2, "").size(), 1u);
}

}  // namespace
}  // namespace hurrayd
