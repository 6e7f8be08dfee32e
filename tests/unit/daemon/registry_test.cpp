#include "daemon/registry.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "tests/unit/daemon/registry_fixture.hpp"

// The rules of the registry, one a test. Those that a part of it has by itself are in the test of that name.

namespace hurrayd {
namespace {

// ---- Sessions

TEST_F(RegistryTest, SessionIdOfALivingConnectionIsRefused) {
    open(kAlice);
    const auto again = registry.open_session({9}, {kAlice, kAlice, 1, false, id16(1)});
    ASSERT_FALSE(again.has_value());
    EXPECT_EQ(again.error().code, Errc::AlreadyExists);
}

TEST_F(RegistryTest, SessionIdMayBeUsedAgainAfterItsEndAndByAnotherUser) {
    const auto first = open(kAlice);
    EXPECT_TRUE(registry.open_session({9}, {kBob, kBob, 1, false, id16(1)}).has_value());
    end(first);
    EXPECT_TRUE(registry.open_session({10}, {kAlice, kAlice, 1, false, id16(1)}).has_value());
}

// ---- Publish and versions

TEST_F(RegistryTest, VersionsRiseByOneOverAllNames) {
    const auto p = open(kAlice);
    EXPECT_EQ(publish(p, 1, 1, "a"), (Words{"1:PublishReply=1000#1"}));
    EXPECT_EQ(publish(p, 2, 2, "b"), (Words{"1:PublishReply=1001#2"}));
    EXPECT_EQ(publish(p, 3, 3, ""), (Words{"1:PublishReply=1002#3"}));
}

TEST_F(RegistryTest, SamePublishAgainHasTheSameAnswerAndDropsTheNewSegments) {
    const auto p = open(kAlice);
    publish(p, 1, 1, "a");
    EXPECT_EQ(publish(p, 2, 1, "a"), (Words{"1:PublishReply=1000#2"}));
    EXPECT_EQ(dropped, (std::vector<SegmentNumber>{{2}}));
    EXPECT_EQ(registry.totals().capsules, 1u);
}

TEST_F(RegistryTest, AnotherContentUnderAKnownIdIsRefused) {
    const auto p = open(kAlice);
    publish(p, 1, 1, "a");
    EXPECT_EQ(publish(p, 2, 1, "b"), (Words{"1:" + error(Errc::AlreadyExists) + "#2"}));
    EXPECT_EQ(dropped, (std::vector<SegmentNumber>{{2}}));
}

TEST_F(RegistryTest, KnownIdFromAnotherSessionOfTheUserIsRefused) {
    publish(open(kAlice), 1, 1, "a");
    EXPECT_EQ(publish(open(kAlice), 2, 1, "a"), (Words{"2:" + error(Errc::AlreadyExists) + "#2"}));
}

TEST_F(RegistryTest, TwoUsersMayUseTheSameCapsuleId) {
    publish(open(kAlice), 1, 1, "a");
    EXPECT_EQ(publish(open(kBob), 1, 1, "b"), (Words{"2:PublishReply=1001#1"}));
}

TEST_F(RegistryTest, ReplacedCapsuleRetiresBeforeItsSuccessorIsAnswered) {
    const auto old_producer = open(kAlice);
    const auto p = open(kAlice);
    publish(old_producer, 1, 1, "a");
    EXPECT_EQ(publish(p, 2, 2, "a"), (Words{"1:Retired(1)", "1:Ended(1 reusable)", "2:PublishReply=1001#2"}));
    EXPECT_EQ(last.at(2).after, 0u) << "the answer waits for both";
}

TEST_F(RegistryTest, ReplacedCapsuleThatIsHeldEndsWithItsLastLease) {
    const auto p = open(kAlice);
    const auto c = open(kAlice);
    publish(p, 1, 1, "a");
    attach(c, 1, by_name(1, "a"));
    attach(c, 2, by_name(2, "a"));
    EXPECT_EQ(publish(p, 2, 2, "a"), (Words{"1:Retired(1)", "1:PublishReply=1001#2"}));
    EXPECT_EQ(release(c, 3, {1}), (Words{"1:Released(1 lease 1 left 1)", "2:Done#3"}));
    EXPECT_EQ(release(c, 4, {2}), (Words{"1:Released(1 lease 2 left 0)", "1:Ended(1 reusable)", "2:Done#4"}));
}

TEST_F(RegistryTest, NameBelongsToItsFirstUserWhileAVersionLives) {
    const auto alice = open(kAlice);
    const auto bob = open(kBob);
    publish(alice, 1, 1, "a");
    EXPECT_EQ(publish(bob, 1, 1, "a"), (Words{"2:" + error(Errc::AlreadyExists) + "#1"}));
    attach(alice, 2, by_name(1, "a"));
    withdraw(alice, 3, kAlice, 1);
    EXPECT_EQ(publish(bob, 2, 1, "a"), (Words{"2:" + error(Errc::AlreadyExists) + "#2"})) << "a retired one lives too";
    release(alice, 4, {1});
    EXPECT_EQ(publish(bob, 3, 1, "a"), (Words{"2:PublishReply=1001#3"}));
}

TEST_F(RegistryTest, RootMayReplaceAnybodysName) {
    const auto alice = open(kAlice);
    const auto root = open(0);
    publish(alice, 1, 1, "a");
    EXPECT_EQ(publish(root, 1, 2, "a"), (Words{"1:Retired(1)", "1:Ended(1 reusable)", "2:PublishReply=1001#1"}));
    EXPECT_EQ(attach(alice, 2, by_name(1, "a")), (Words{"1:" + error(Errc::NotFound) + "#2"}));
}

// It can't see root's capsule, yet the name stays its own.
TEST_F(RegistryTest, OwnerTakesItsNameBackFromRoot) {
    const auto alice = open(kAlice);
    const auto root = open(0);
    const auto bob = open(kBob);
    publish(alice, 1, 1, "n");
    publish(root, 1, 2, "n");
    EXPECT_EQ(publish(bob, 1, 3, "n"), (Words{"3:" + error(Errc::AlreadyExists) + "#1"}));
    EXPECT_EQ(publish(alice, 3, 4, "n"), (Words{"2:Retired(2)", "2:Ended(2 reusable)", "1:PublishReply=1002#3"}));
}

TEST_F(RegistryTest, CapsulesWithoutANameDoNotReplaceEachOther) {
    const auto p = open(kAlice);
    publish(p, 1, 1, "");
    publish(p, 2, 2, "");
    EXPECT_EQ(attach(p, 3, by_id(1, kAlice, 1)), (Words{"1:Opened(1 lease 1 left 1)", "1:AttachReply(1)#3"}));
    EXPECT_EQ(attach(p, 4, by_id(2, kAlice, 2)), (Words{"1:Opened(2 lease 2 left 1)", "1:AttachReply(2)#4"}));
    EXPECT_EQ(registry.totals().names, 0u);
}

// ---- Attach

TEST_F(RegistryTest, ProducerIsToldOfTheLeaseBeforeTheConsumerIsGrantedIt) {
    const auto p = open(kAlice);
    const auto c = open(kAlice);
    publish(p, 1, 1, "a");
    EXPECT_EQ(attach(c, 7, by_name(3, "a")), (Words{"1:Opened(1 lease 3 left 1)", "2:AttachReply(1)#7"}));
    EXPECT_EQ(last.at(1).after, 0u) << "the grant waits for it";
    const auto& opened = std::get<wire::LeaseEvent>(last.at(0).packet.message);
    EXPECT_EQ(opened.lease.uid, kAlice);
    EXPECT_EQ(opened.lease.session_hash, session_hash(id16(2)));
    EXPECT_NE(opened.lease.session_hash, id16(2)) << "the id itself is nobody else's business";
}

TEST_F(RegistryTest, GrantCarriesAllThatWasPublishedUnderTheDaemonsNumbers) {
    const auto p = open(kAlice);
    Publication big = publication(1, "a");
    big.request.segments = {{50, true, wire::Memory::Reusable, 4096, 0}, {51, true, wire::Memory::Reusable, 8192, 0}};
    big.request.placements = {{1, 64}, {0, 0}};
    big.brought = {{{7}, {1, 1}}, {{8}, {1, 2}}};
    registry.publish(p, 1, std::move(big), out);
    take();
    attach(p, 2, by_name(1, "a"));
    const auto& reply = std::get<wire::AttachReply>(last.at(1).packet.message);
    EXPECT_EQ(reply.name, "a");
    EXPECT_EQ(reply.version, 1000u);
    EXPECT_EQ(reply.descriptor, "descriptor");
    EXPECT_EQ(reply.segments, (std::vector<wire::Segment>{{7, true, wire::Memory::Reusable, 4096, 0},
                                                          {8, true, wire::Memory::Reusable, 8192, 0}}));
    EXPECT_EQ(reply.placements, (std::vector<wire::Placement>{{1, 64}, {0, 0}}));
    EXPECT_EQ(reply.access, (wire::Access{kAlice, 0600}));
}

TEST_F(RegistryTest, SameAttachAgainHasTheSameAnswerAndOpensNothing) {
    const auto p = open(kAlice);
    publish(p, 1, 1, "a");
    attach(p, 2, by_name(1, "a"));
    EXPECT_EQ(attach(p, 3, by_name(1, "a")), (Words{"1:AttachReply(1)#3"}));
    EXPECT_EQ(registry.totals().leases, 1u);
}

// The first grant may be held back because its producer does not read; the repeated one came at once, before OPENED.
TEST_F(RegistryTest, SameAttachAgainIsAnsweredBehindWhatItsProducerIsTold) {
    const auto p = open(kAlice);
    const auto c = open(kAlice);
    publish(p, 1, 1, "a");
    attach(c, 1, by_name(1, "a"));
    attach(c, 2, by_name(1, "a"));
    EXPECT_EQ(last.at(0).behind, p);
    end(p);
    EXPECT_EQ(attach(c, 3, by_name(1, "a")), (Words{"2:AttachReply(1)#3"}));
    EXPECT_EQ(last.at(0).behind, SessionNumber{});
}

TEST_F(RegistryTest, SameAttachAfterTheCapsuleRetiredHasTheSameAnswer) {
    const auto p = open(kAlice);
    publish(p, 1, 1, "a");
    attach(p, 2, by_name(1, "a"));
    publish(p, 3, 2, "a");
    EXPECT_EQ(attach(p, 4, by_name(1, "a")), (Words{"1:AttachReply(1)#4"}));
}

TEST_F(RegistryTest, LeaseNumberIsNeverUsedTwice) {
    const auto p = open(kAlice);
    publish(p, 1, 1, "a");
    publish(p, 2, 2, "b");
    attach(p, 3, by_name(1, "a"));
    EXPECT_EQ(attach(p, 4, by_name(1, "b")), (Words{"1:" + error(Errc::InvalidArgument) + "#4"}));
    release(p, 5, {1});
    EXPECT_EQ(attach(p, 6, by_name(1, "a")), (Words{"1:" + error(Errc::InvalidArgument) + "#6"}));
}

TEST_F(RegistryTest, LeaseNumberOfAWaitingAttachIsInUse) {
    const auto p = open(kAlice);
    attach(p, 1, by_name(1, "a"), std::nullopt);
    EXPECT_EQ(attach(p, 2, by_name(1, "b"), std::nullopt), (Words{"1:" + error(Errc::InvalidArgument) + "#2"}));
}

TEST_F(RegistryTest, RequestIdOfAWaitingAttachIsInUse) {
    const auto p = open(kAlice);
    attach(p, 1, by_name(1, "a"), std::nullopt);
    EXPECT_EQ(attach(p, 1, by_name(2, "b"), std::nullopt), (Words{"1:" + error(Errc::InvalidArgument) + "#1"}));
    EXPECT_EQ(registry.totals().waiting, 1u);
}

TEST_F(RegistryTest, LeaseNumberOfAFailedAttachMayBeTriedAgain) {
    const auto p = open(kAlice);
    attach(p, 1, by_name(1, "a"));
    publish(p, 2, 1, "a");
    EXPECT_EQ(attach(p, 3, by_name(1, "a")), (Words{"1:Opened(1 lease 1 left 1)", "1:AttachReply(1)#3"}));
}

TEST_F(RegistryTest, CapsuleDoesNotExistForOtherUsers) {
    const auto alice = open(kAlice);
    const auto bob = open(kBob);
    publish(alice, 1, 1, "a");
    EXPECT_EQ(attach(bob, 1, by_name(1, "a")), (Words{"2:" + error(Errc::NotFound) + "#1"}));
    const auto forbidden = std::get<hurray::Error>(last.at(0).packet.message);
    withdraw(alice, 2, kAlice, 1);
    attach(bob, 2, by_name(1, "a"));
    const auto absent = std::get<hurray::Error>(last.at(0).packet.message);
    EXPECT_EQ(forbidden.message, absent.message) << "not even the text tells";
    EXPECT_EQ(attach(bob, 3, by_id(1, kAlice, 1)), (Words{"2:" + error(Errc::NotFound) + "#3"}));
    EXPECT_EQ(withdraw(bob, 4, kAlice, 1), (Words{"2:" + error(Errc::NotFound) + "#4"}));
}

TEST_F(RegistryTest, RootSeesEverything) {
    const auto alice = open(kAlice);
    const auto root = open(0);
    publish(alice, 1, 1, "a");
    EXPECT_EQ(attach(root, 1, by_name(1, "a")), (Words{"1:Opened(1 lease 1 left 1)", "2:AttachReply(1)#1"}));
}

TEST_F(RegistryTest, WithTimeoutZeroNothingIsNotFoundAtOnce) {
    EXPECT_EQ(attach(open(kAlice), 1, by_name(1, "a"), 0), (Words{"1:" + error(Errc::NotFound) + "#1"}));
    EXPECT_EQ(registry.totals().waiting, 0u);
}

TEST_F(RegistryTest, WaitingAttachIsServedRightAfterThePublishIsAnswered) {
    const auto p = open(kAlice);
    const auto c1 = open(kAlice);
    const auto c2 = open(kAlice);
    EXPECT_EQ(attach(c1, 5, by_name(1, "a"), std::nullopt), Words{});
    EXPECT_EQ(attach(c2, 6, by_id(1, kAlice, 1), std::nullopt), Words{});
    EXPECT_EQ(attach(c2, 7, by_name(2, "a"), std::nullopt), Words{});
    EXPECT_EQ(publish(p, 1, 1, "a"), (Words{"1:PublishReply=1000#1", "1:Opened(1 lease 1 left 1)", "2:AttachReply(1)#5",
                                            "1:Opened(1 lease 2 left 2)", "3:AttachReply(1)#7",
                                            "1:Opened(1 lease 1 left 3)", "3:AttachReply(1)#6"}));
    EXPECT_EQ(registry.totals().waiting, 0u);
    EXPECT_EQ(registry.totals().leases, 3u);
}

TEST_F(RegistryTest, WaitingAttachOfAnotherUserGoesOnWaiting) {
    const auto alice = open(kAlice);
    const auto bob = open(kBob);
    attach(bob, 5, by_name(1, "a"), 100);
    EXPECT_EQ(publish(alice, 1, 1, "a"), (Words{"1:PublishReply=1000#1"}));
    registry.expire(100, out);
    EXPECT_EQ(take(), (Words{"2:" + error(Errc::TimedOut) + "#5"}));
}

TEST_F(RegistryTest, WaitingAttachTimesOutAtItsDeadlineAndNotBefore) {
    const auto c = open(kAlice);
    now = 1000;
    attach(c, 1, by_name(1, "a"), 50);
    attach(c, 2, by_name(2, "b"), 20);
    EXPECT_EQ(registry.next_deadline_ms(), 1020u);
    registry.expire(1019, out);
    EXPECT_EQ(take(), Words{});
    registry.expire(1020, out);
    EXPECT_EQ(take(), (Words{"1:" + error(Errc::TimedOut) + "#2"}));
    EXPECT_EQ(registry.next_deadline_ms(), 1050u);
    registry.expire(5000, out);
    EXPECT_EQ(take(), (Words{"1:" + error(Errc::TimedOut) + "#1"}));
    EXPECT_EQ(registry.next_deadline_ms(), std::nullopt);
}

TEST_F(RegistryTest, TimeoutBeyondTheEndOfTimeIsForEver) {
    now = 1000;
    EXPECT_EQ(attach(open(kAlice), 1, by_name(1, "a"), ~0ULL), Words{});
    EXPECT_EQ(registry.next_deadline_ms(), std::nullopt);
}

TEST_F(RegistryTest, CancelledAttachIsAnsweredClosed) {
    const auto c = open(kAlice);
    attach(c, 1, by_name(1, "a"), 50);
    registry.cancel(c, {1}, out);
    EXPECT_EQ(take(), (Words{"1:" + error(Errc::Closed) + "#1"}));
    EXPECT_EQ(registry.next_deadline_ms(), std::nullopt);
    EXPECT_EQ(publish(c, 2, 1, "a"), (Words{"1:PublishReply=1000#2"}));
}

TEST_F(RegistryTest, CancelOfWhatDoesNotWaitSaysNothing) {
    const auto c = open(kAlice);
    publish(c, 1, 1, "a");
    attach(c, 2, by_name(1, "a"));
    registry.cancel(c, {2}, out);
    registry.cancel(c, {77}, out);
    EXPECT_EQ(take(), Words{});
}

TEST_F(RegistryTest, LatestIsTheAttachableVersion) {
    const auto p = open(kAlice);
    publish(p, 1, 1, "a");
    publish(p, 2, 2, "a");
    EXPECT_EQ(attach(p, 3, by_name(1, "a")), (Words{"1:Opened(2 lease 1 left 1)", "1:AttachReply(2)#3"}));
}

TEST_F(RegistryTest, NothingOlderThanTheLastSeenVersionIsGranted) {
    const auto p = open(kAlice);
    publish(p, 1, 1, "a");
    wire::Attach what = by_name(1, "a");
    what.last_seen = 1001;
    EXPECT_EQ(attach(p, 2, what, std::nullopt), Words{});
    EXPECT_EQ(publish(p, 3, 2, "a"), (Words{"1:Retired(1)", "1:Ended(1 reusable)", "1:PublishReply=1001#3",
                                            "1:Opened(2 lease 1 left 1)", "1:AttachReply(2)#2"}));
}

TEST_F(RegistryTest, NewerThanWaitsForTheNextVersion) {
    const auto p = open(kAlice);
    publish(p, 1, 1, "a");
    wire::Attach what = by_name(1, "a");
    what.which = wire::Which::NewerThan;
    what.version = 999;
    EXPECT_EQ(attach(p, 2, what), (Words{"1:Opened(1 lease 1 left 1)", "1:AttachReply(1)#2"}));
    what.lease = 2;
    what.version = 1000;
    EXPECT_EQ(attach(p, 3, what), (Words{"1:" + error(Errc::NotFound) + "#3"}));
    attach(p, 4, what, std::nullopt);
    EXPECT_EQ(publish(p, 5, 2, "a"),
              (Words{"1:Retired(1)", "1:PublishReply=1001#5", "1:Opened(2 lease 2 left 1)", "1:AttachReply(2)#4"}));
}

TEST_F(RegistryTest, ExactVersionIsGrantedWhileItIsAttachable) {
    const auto p = open(kAlice);
    publish(p, 1, 1, "a");
    wire::Attach what = by_name(1, "a");
    what.which = wire::Which::Exactly;
    what.version = 1000;
    EXPECT_EQ(attach(p, 2, what), (Words{"1:Opened(1 lease 1 left 1)", "1:AttachReply(1)#2"}));
    publish(p, 3, 2, "a");
    what.lease = 2;
    EXPECT_EQ(attach(p, 4, what, std::nullopt), (Words{"1:" + error(Errc::NotFound) + "#4"})) << "it can't come again";
}

TEST_F(RegistryTest, ExactVersionToComeIsWaitedFor) {
    const auto p = open(kAlice);
    wire::Attach what = by_name(1, "a");
    what.which = wire::Which::Exactly;
    what.version = 1001;
    EXPECT_EQ(attach(p, 1, what, std::nullopt), Words{});
    publish(p, 2, 1, "a");
    EXPECT_EQ(publish(p, 3, 2, "a"), (Words{"1:Retired(1)", "1:Ended(1 reusable)", "1:PublishReply=1001#3",
                                            "1:Opened(2 lease 1 left 1)", "1:AttachReply(2)#1"}));
}

TEST_F(RegistryTest, ExactVersionThatWentToAnotherNameCanNotComeAnyMore) {
    const auto p = open(kAlice);
    wire::Attach what = by_name(1, "a");
    what.which = wire::Which::Exactly;
    what.version = 1000;
    attach(p, 1, what, std::nullopt);
    EXPECT_EQ(publish(p, 2, 1, "b"), (Words{"1:PublishReply=1000#2", "1:" + error(Errc::NotFound) + "#1"}));
    EXPECT_EQ(registry.totals().waiting, 0u);
}

// It waited for ever for a capsule that was there.
TEST_F(RegistryTest, WaitingAttachByIdIsNotFoundOnceTheCapsuleCameWithAnotherVersion) {
    const auto p = open(kAlice);
    const auto bob = open(kBob);
    wire::Attach newer = by_id(1, kAlice, 1);
    newer.which = wire::Which::NewerThan;
    newer.version = 5000;
    wire::Attach seen = by_id(2, kAlice, 1);
    seen.last_seen = 5000;
    EXPECT_EQ(attach(p, 1, newer, std::nullopt), Words{});
    EXPECT_EQ(attach(p, 2, seen, std::nullopt), Words{});
    EXPECT_EQ(attach(bob, 1, newer, std::nullopt), Words{});
    EXPECT_EQ(publish(p, 3, 1, ""), (Words{"1:PublishReply=1000#3", "1:" + error(Errc::NotFound) + "#1",
                                           "1:" + error(Errc::NotFound) + "#2"}));
    EXPECT_EQ(registry.totals().waiting, 1u) << "to another user the capsule does not exist";
}

TEST_F(RegistryTest, RetiredCapsuleIsNotFoundByItsId) {
    const auto p = open(kAlice);
    publish(p, 1, 1, "a");
    attach(p, 2, by_name(1, "a"));
    withdraw(p, 3, kAlice, 1);
    EXPECT_EQ(attach(p, 4, by_id(2, kAlice, 1), std::nullopt), (Words{"1:" + error(Errc::NotFound) + "#4"}));
}

// ---- Release and withdraw

TEST_F(RegistryTest, ReleaseIsAcknowledgedOnceItIsSentOn) {
    const auto p1 = open(kAlice);
    const auto p2 = open(kAlice);
    const auto c = open(kAlice);
    publish(p1, 1, 1, "a");
    publish(p2, 1, 2, "b");
    attach(c, 1, by_name(1, "a"));
    attach(c, 2, by_name(2, "b"));
    EXPECT_EQ(release(c, 3, {1, 2}),
              (Words{"1:Released(1 lease 1 left 0)", "2:Released(2 lease 2 left 0)", "3:Done#3"}));
    EXPECT_EQ(last.at(2).after, 0u) << "after both";
    EXPECT_EQ(last.at(1).after, 1u) << "but one producer never waits for another";
}

TEST_F(RegistryTest, ReleaseOfAnUnknownLeaseIsDone) {
    EXPECT_EQ(release(open(kAlice), 1, {5, 5, 6}), (Words{"1:Done#1"}));
}

TEST_F(RegistryTest, ReleaseSaidTwiceIsReportedOnce) {
    const auto p = open(kAlice);
    publish(p, 1, 1, "a");
    attach(p, 2, by_name(1, "a"));
    EXPECT_EQ(release(p, 3, {1, 1}), (Words{"1:Released(1 lease 1 left 0)", "1:Done#3"}));
    EXPECT_EQ(release(p, 4, {1}), (Words{"1:Done#4"}));
}

TEST_F(RegistryTest, OwnWithdrawIsNotReportedAsRetired) {
    const auto p = open(kAlice);
    publish(p, 1, 1, "a");
    EXPECT_EQ(withdraw(p, 2, kAlice, 1), (Words{"1:Ended(1 reusable)", "1:Done#2"}));
    EXPECT_EQ(withdraw(p, 3, kAlice, 1), (Words{"1:" + error(Errc::NotFound) + "#3"}));
}

TEST_F(RegistryTest, WithdrawByAnotherSessionIsReportedAsRetired) {
    const auto p = open(kAlice);
    const auto root = open(0);
    publish(p, 1, 1, "a");
    attach(p, 2, by_name(1, "a"));
    EXPECT_EQ(withdraw(root, 2, kAlice, 1), (Words{"1:Retired(1)", "2:Done#2"}));
    EXPECT_EQ(withdraw(root, 3, kAlice, 1), (Words{"2:Done#3"})) << "said again";
    EXPECT_EQ(release(p, 4, {1}), (Words{"1:Released(1 lease 1 left 0)", "1:Ended(1 reusable)", "1:Done#4"}));
}

// ---- The end of sessions

TEST_F(RegistryTest, LeasesOfAnEndedSessionAreLostExactlyOnce) {  // case C1
    const auto p = open(kAlice);
    const auto c = open(kAlice);
    publish(p, 1, 1, "a");
    attach(c, 1, by_name(1, "a"));
    attach(c, 2, by_name(2, "a"));
    EXPECT_EQ(end(c), (Words{"1:Lost(1 lease 1 left 1)", "1:Lost(1 lease 2 left 0)"}));
    EXPECT_EQ(withdraw(p, 2, kAlice, 1), (Words{"1:Ended(1)", "1:Done#2"})) << "never reusable after a loss";
}

TEST_F(RegistryTest, OneLostLeaseAmongReleasedOnesForbidsReuse) {
    const auto p = open(kAlice);
    const auto c1 = open(kAlice);
    const auto c2 = open(kAlice);
    publish(p, 1, 1, "a");
    attach(c1, 1, by_name(1, "a"));
    attach(c2, 1, by_name(1, "a"));
    withdraw(p, 2, kAlice, 1);
    end(c1);
    EXPECT_EQ(release(c2, 2, {1}), (Words{"1:Released(1 lease 1 left 0)", "1:Ended(1)", "3:Done#2"}));
}

TEST_F(RegistryTest, HoldersAreToldOnceThatTheProducerIsLost) {
    const auto p = open(kAlice);
    const auto c1 = open(kAlice);
    const auto c2 = open(kAlice);
    publish(p, 1, 1, "a");
    attach(c1, 1, by_name(1, "a"));
    attach(c2, 1, by_name(1, "a"));
    attach(c1, 2, by_name(2, "a"));
    EXPECT_EQ(end(p), (Words{"2:ProducerLost(1)", "3:ProducerLost(1)"}));
    EXPECT_EQ(attach(c1, 3, by_name(3, "a")), (Words{"2:" + error(Errc::NotFound) + "#3"}));
    EXPECT_EQ(release(c1, 4, {1, 2}), (Words{"2:Done#4"})) << "nobody is left to tell";
    EXPECT_TRUE(dropped.empty());
    EXPECT_EQ(end(c2), Words{});
    EXPECT_EQ(dropped, (std::vector<SegmentNumber>{{1}}));
    EXPECT_EQ(registry.totals().capsules, 0u);
}

TEST_F(RegistryTest, HoldersOfARetiredCapsuleAreToldToo) {
    const auto p = open(kAlice);
    const auto c = open(kAlice);
    publish(p, 1, 1, "a");
    attach(c, 1, by_name(1, "a"));
    withdraw(p, 2, kAlice, 1);
    EXPECT_EQ(end(p), (Words{"2:ProducerLost(1)"}));
}

TEST_F(RegistryTest, UnusedCapsulesOfAnEndedSessionVanishWithIt) {
    const auto p = open(kAlice);
    publish(p, 1, 1, "a");
    publish(p, 2, 2, "");
    EXPECT_EQ(end(p), Words{});
    EXPECT_EQ(dropped, (std::vector<SegmentNumber>{{1}, {2}}));
    expect_nothing_held();
}

TEST_F(RegistryTest, WaitingAttachesAndWatchesOfAnEndedSessionVanish) {
    const auto c = open(kAlice);
    attach(c, 1, by_name(1, "a"), 50);
    attach(c, 2, by_id(2, kAlice, 1), std::nullopt);
    registry.watch(c, 3, {1, ""}, out);
    take();
    EXPECT_EQ(end(c), Words{});
    EXPECT_EQ(registry.next_deadline_ms(), std::nullopt);
    EXPECT_EQ(publish(open(kAlice), 1, 1, "a"), (Words{"2:PublishReply=1000#1"}));
}

TEST_F(RegistryTest, SessionThatHoldsItsOwnCapsuleEndsCleanly) {
    const auto p = open(kAlice);
    publish(p, 1, 1, "a");
    attach(p, 2, by_name(1, "a"));
    EXPECT_EQ(end(p), Words{});
    EXPECT_EQ(dropped, (std::vector<SegmentNumber>{{1}}));
    expect_nothing_held();
}

// ---- List

TEST_F(RegistryTest, ListIsOrderedByNameAndVersionAndShowsRetiredOnesWhileLeased) {
    const auto p = open(kAlice);
    publish(p, 1, 1, "m/b");
    publish(p, 2, 2, "m/a");
    attach(p, 3, by_name(1, "m/a"));
    publish(p, 4, 3, "m/a");
    publish(p, 5, 4, "n");
    wire::ListReply page;
    list(p, {"m/", "", 0, true}, page);
    ASSERT_EQ(page.capsules.size(), 3u);
    EXPECT_EQ(page.cursor, "");
    EXPECT_EQ(page.capsules[0].version, 1001u);
    EXPECT_TRUE(page.capsules[0].retired);
    EXPECT_EQ(page.capsules[0].leases, 1u);
    EXPECT_EQ(page.capsules[1].version, 1002u);
    EXPECT_FALSE(page.capsules[1].retired);
    EXPECT_EQ(page.capsules[1].bytes, 100u);
    EXPECT_EQ(page.capsules[1].pid, 1);
    EXPECT_EQ(page.capsules[1].descriptor, "descriptor");
    EXPECT_EQ(page.capsules[2].name, "m/b");
    list(p, {"n", "", 0, false}, page);
    ASSERT_EQ(page.capsules.size(), 1u);
    EXPECT_EQ(page.capsules[0].descriptor, "");
}

TEST_F(RegistryTest, ListShowsNobodyElsesCapsules) {
    const auto alice = open(kAlice);
    const auto bob = open(kBob);
    publish(alice, 1, 1, "a");
    wire::ListReply page;
    list(bob, {}, page);
    EXPECT_TRUE(page.capsules.empty());
    list(open(0), {}, page);
    EXPECT_EQ(page.capsules.size(), 1u);
}

TEST_F(RegistryTest, PagesFitAPacketAndTogetherShowEverythingOnce) {
    const auto p = open(kAlice);
    std::set<std::string> published;
    for (int i = 0; i < 255; ++i) {
        const std::string name = i % 5 == 0 ? "" : "n/" + std::to_string(i % 100);
        Publication big = publication(static_cast<std::uint8_t>(i), name);
        big.request.descriptor = std::string(1 + static_cast<std::size_t>(i) * 97 % 32000, 'x');
        registry.publish(p, 1, std::move(big), out);
        take();
        attach(p, 2, by_id(static_cast<std::uint64_t>(i) + 1, kAlice, static_cast<std::uint8_t>(i)));
    }
    for (const bool with_descriptor : {false, true}) {
        for (const std::uint32_t limit : {0u, 1u, 7u}) {
            wire::List request{"", "", limit, with_descriptor};
            std::vector<std::pair<std::string, std::uint64_t>> seen;
            do {
                wire::ListReply page;
                list(p, request, page);
                std::size_t bytes = page.cursor.size();
                for (const auto& info : page.capsules) {
                    seen.emplace_back(info.name, info.version);
                    bytes += info.name.size() + info.descriptor.size() + 40;
                }
                EXPECT_LT(bytes, wire::kMaxPacketBytes);
                EXPECT_LE(page.capsules.size(), limit == 0 ? 1000u : limit);
                request.cursor = page.cursor;
            } while (!request.cursor.empty());
            EXPECT_EQ(seen.size(), 255u);
            EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end()));
        }
    }
}

TEST_F(RegistryTest, ForeignCursorIsRefused) {
    wire::ListReply page;
    EXPECT_EQ(list(open(kAlice), {"", "x", 0, false}, page), (Words{"1:" + error(Errc::InvalidArgument) + "#1"}));
}

TEST_F(RegistryTest, CursorOfAVanishedCapsuleStillWorks) {
    const auto p = open(kAlice);
    publish(p, 1, 1, "a");
    publish(p, 2, 2, "b");
    wire::ListReply page;
    list(p, {"", "", 1, false}, page);
    withdraw(p, 3, kAlice, 1);
    list(p, {"", page.cursor, 1, false}, page);
    ASSERT_EQ(page.capsules.size(), 1u);
    EXPECT_EQ(page.capsules[0].name, "b");
}

// ---- Status

TEST_F(RegistryTest, StatusCountsWhatEachUserHolds) {
    const auto alice = open(kAlice);
    const auto bob = open(kBob);
    const auto root = open(0);
    publish(alice, 1, 1, "a");
    publish(alice, 2, 2, "");
    attach(alice, 3, by_name(1, "a"));
    attach(alice, 4, by_name(2, "b"), std::nullopt);
    attach(root, 5, by_name(1, "a"));
    registry.watch(alice, 6, {1, ""}, out);
    take();
    const std::map<std::string, std::uint64_t> expected = {{"clients", 1},  {"capsules", 2},   {"names", 1},
                                                           {"bytes", 8192}, {"leases", 1},     {"waiting", 1},
                                                           {"watches", 1},  {"descriptors", 2}};
    for (const auto& [name, value] : expected) {
        EXPECT_EQ(used(alice, kAlice, name), name == "clients" ? 0u : value) << "without the asker: " << name;
        EXPECT_EQ(used(root, kAlice, name), value) << name;
        EXPECT_EQ(used(bob, kAlice, name), 0u) << "nobody else's: " << name;
    }
    EXPECT_EQ(used(root, 0, "leases"), 1u);
    EXPECT_EQ(used(bob, kBob, "clients"), 0u);
    EXPECT_EQ(used(root, kBob, "clients"), 1u);
    const auto other_bob = open(kBob);
    EXPECT_EQ(used(bob, kBob, "clients"), 1u);
    end(other_bob);
    end(alice);
    end(bob);
    EXPECT_EQ(used(root, kAlice, "clients"), 0u);
    EXPECT_EQ(used(root, kAlice, "capsules"), 1u) << "root holds one still";
    end(root);
    expect_nothing_held();
}

TEST_F(RegistryTest, StatusShowsWhatAUserMayHave) {
    const auto alice = open(kAlice);
    registry.status(alice, 1, "v", 5, now, out);
    const std::map<std::string, std::uint64_t> limits = {
        {"clients", 256},  {"capsules", 1'000'000}, {"names", 1'000'000},     {"leases", 1'000'000},
        {"waiting", 1024}, {"watches", 4096},       {"reservations", 16'384}, {"daemon_bytes", 1 << 30}};
    for (const auto& use : std::get<wire::StatusReply>(out.packets.at(0).packet.message).uses) {
        const auto limit = limits.find(use.name);
        EXPECT_EQ(use.limit, limit != limits.end() ? limit->second : 0u) << use.name;
    }
}

// ---- Quotas

TEST_F(RegistryTest, AttachesOfAUserWaitUpToItsQuota) {
    Registry small(kFirstVersion, {.clients = 10, .waiting = 2});
    const auto open_in = [&](std::uint64_t number, std::uint32_t uid) {
        const auto n = static_cast<std::uint8_t>(number);
        ASSERT_TRUE(small.open_session({number}, {uid, uid, 1, false, id16(n)}));
    };
    open_in(1, kAlice);
    open_in(2, kAlice);
    open_in(3, kBob);
    const auto attach_in = [&](std::uint64_t session, std::uint64_t lease) {
        small.attach({session}, 100 + lease, by_name(lease, "x"), std::nullopt, 0, out);
    };
    attach_in(1, 1);
    attach_in(2, 1);
    EXPECT_EQ(take(), Words{});
    attach_in(1, 2);
    const auto* refused = std::get_if<hurray::Error>(&out.packets.at(0).packet.message);
    ASSERT_NE(refused, nullptr);
    EXPECT_EQ(refused->code, Errc::OverQuota);
    EXPECT_EQ(refused->limit_name, "quota.user.waiting");
    EXPECT_EQ(refused->limit, 2u);
    EXPECT_EQ(refused->in_use, 2u);
    EXPECT_EQ(refused->message,
              "user 1001 has 2 waiting attaches; at most 2 are allowed (quota.user.waiting); of user 1001 the most has "
              "a client "
              "(pid 1): 1, then a client (pid 1): 1");
    out.clear();
    EXPECT_EQ(small.quotas().refused(Quota::Waiting), 1u);
    EXPECT_EQ(small.quotas().refused(Quota::Clients), 0u);
    attach_in(3, 1);
    EXPECT_EQ(take(), Words{}) << "another user has its own";
    small.cancel({2}, {101}, out);
    take();
    attach_in(1, 2);
    EXPECT_EQ(take(), Words{}) << "the number was not used up, and there is room again";
    small.attach({1}, 200, by_name(9, "y"), 0, 0, out);
    EXPECT_EQ(take(), (Words{"1:Error-32#200"})) << "who does not wait needs none";
}

// ---- The end of a session with much in it

class BigEnding : public RegistryTest {
  protected:
    /// Up to `things` of a consumer: leases of "a".
    SessionNumber holder_of(std::uint64_t leases, std::uint32_t uid = kAlice) {
        const SessionNumber holder = open(uid);
        for (std::uint64_t lease = 1; lease <= leases; ++lease) {
            attach(holder, lease, by_name(lease, "a"));
        }
        return holder;
    }
    /// The size of each piece that goes out.
    std::vector<std::size_t> pieces(SessionNumber ended) {
        std::vector<std::size_t> sizes;
        registry.end_session(ended, now, out);
        sizes.push_back(take().size());
        while (registry.has_endings()) {
            registry.continue_endings(out);
            sizes.push_back(take().size());
        }
        return sizes;
    }
};

TEST_F(BigEnding, LeasesAreLostPieceByPiece) {
    const auto producer = open(kAlice);
    publish(producer, 1, 1, "a");
    EXPECT_EQ(pieces(holder_of(600)), (std::vector<std::size_t>{256, 256, 88}));
    EXPECT_EQ(registry.totals().leases, 0u);
    end(producer);
    expect_nothing_held();
}

TEST_F(BigEnding, HoldersOfALostProducerAreToldPieceByPieceOnceEach) {
    const auto producer = open(kAlice);
    publish(producer, 1, 1, "a");
    publish(producer, 1, 2, "b");
    const auto many = holder_of(600);
    const auto one = open(kAlice);
    attach(one, 1, by_name(1, "a"));
    attach(one, 2, by_name(2, "b"));
    registry.end_session(producer, now, out);
    Words told = take();
    while (registry.has_endings()) {
        EXPECT_EQ(attach(one, 9, by_name(3, "a")), (Words{"3:Error-32#9"}))
            << "nothing of it can be attached meanwhile";
        wire::ListReply page;
        list(one, {}, page);
        for (const wire::Info& info : page.capsules) {
            EXPECT_TRUE(info.retired);
        }
        registry.continue_endings(out);
        const Words more = take();
        told.insert(told.end(), more.begin(), more.end());
    }
    EXPECT_EQ(told, (Words{"2:ProducerLost(1)", "3:ProducerLost(1)", "3:ProducerLost(2)"}));
    end(many);
    end(one);
    expect_nothing_held();
}

TEST_F(BigEnding, WhoTakesANameOverMeanwhileTellsNobodyWhoIsGone) {
    const auto producer = open(kAlice);
    for (std::uint8_t capsule = 1; capsule != 0; ++capsule) {
        publish(producer, capsule, capsule, "n/" + std::to_string(capsule));
    }
    publish(producer, 1, 0, "last");
    const auto successor = open(kAlice);
    const auto id = registry.totals().capsules;
    EXPECT_EQ(id, 256u);
    const auto holder = open(kAlice);
    attach(holder, 1, by_name(1, "n/1"));
    attach(holder, 2, by_name(2, "last"));
    registry.end_session(producer, now, out);
    take();
    ASSERT_TRUE(registry.has_endings());
    Publication next = publication(1, "last");
    next.request.capsule.bytes[0] = 1;
    registry.publish(successor, 7, std::move(next), out);
    EXPECT_EQ(take(), (Words{"2:PublishReply=1256#7"}));
    registry.continue_endings(out);
    EXPECT_EQ(take(), (Words{"3:ProducerLost(0)"}));
    registry.continue_endings(out);  // what is left is its segments
    EXPECT_EQ(take(), Words{});
    EXPECT_FALSE(registry.has_endings());
    end(successor);
    end(holder);
    expect_nothing_held();
}

TEST_F(BigEnding, ItsSessionIdIsInUseUntilAllIsTold) {
    const auto producer = open(kAlice);
    publish(producer, 1, 1, "a");
    const auto holder = holder_of(300);
    registry.end_session(holder, now, out);
    take();
    const Identity again{kAlice, kAlice, 1, false, id16(static_cast<std::uint8_t>(holder.value))};
    EXPECT_EQ(registry.open_session({77}, again).error().code, Errc::AlreadyExists);
    EXPECT_EQ(registry.totals().clients, 1u);
    registry.continue_endings(out);
    take();
    EXPECT_TRUE(registry.open_session({77}, again));
}

TEST_F(BigEnding, SeveralAtATimeTakeTurnsInOrder) {
    const auto producer = open(kAlice);
    publish(producer, 1, 1, "a");
    const auto first = holder_of(300);
    const auto second = holder_of(300);
    registry.end_session(first, now, out);
    registry.end_session(second, now, out);
    EXPECT_EQ(take().size(), 256u) << "the second waits for the first";
    registry.continue_endings(out);
    EXPECT_EQ(take().size(), 256u);
    EXPECT_TRUE(registry.has_endings());
    registry.continue_endings(out);
    EXPECT_EQ(take().size(), 88u);
    EXPECT_FALSE(registry.has_endings());
    end(producer);
    expect_nothing_held();
}

TEST(SessionHash, IsTheFirstHalfOfSha256) {
    wire::Id16 id;  // sha256 of 16 zero bytes: 374708fff7719dd5979ec875d56cd228...
    const std::array<std::uint8_t, 8> head = {0x37, 0x47, 0x08, 0xff, 0xf7, 0x71, 0x9d, 0xd5};
    const auto hash = session_hash(id);
    EXPECT_TRUE(std::equal(head.begin(), head.end(), hash.bytes.begin()));
}

}  // namespace
}  // namespace hurrayd
