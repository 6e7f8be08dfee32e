#include <algorithm>

#include "tests/unit/daemon/registry_fixture.hpp"

// The resume window, rule by rule. Sessions that say "resumes" were connected to another life of the daemon, in which the
// versions below kFirstVersion were given out.

namespace hurrayd {
namespace {

constexpr std::uint64_t kWindowEnd = 30'000;
using State = wire::Claims::State;

class ResumeTest : public RegistryTest {
  protected:
    ResumeTest() : RegistryTest(kWindowEnd) {}

    /// A session of before, known by `id`.
    SessionNumber resume(std::uint32_t uid, std::uint8_t id) {
        const SessionNumber number{next_session++};
        EXPECT_TRUE(registry.open_session(number, {uid, uid, 1, uid == 0, id16(id), {}, true}).has_value());
        return number;
    }

    Words offer(SessionNumber from, std::uint64_t request, std::uint8_t capsule, const std::string& name,
                std::uint64_t version, bool retired = false) {
        Publication p = publication(capsule, name);
        p.request.segments = {{capsule, true, wire::Memory::Reusable, 4096, 0}};
        p.request.placements = {{0, 0}};
        p.request.version = version;
        p.request.retired = retired;
        p.brought = {brought(capsule)};
        p.buffer_bytes = 100;
        registry.publish(from, request, std::move(p), out);
        return take();
    }

    Words claim(SessionNumber from, std::uint64_t request, std::uint32_t uid, std::uint8_t capsule, std::uint64_t lease,
                State state = State::Held) {
        registry.claim(from, request, {{{{uid, id16(capsule)}, lease, state}}}, out);
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

TEST_F(ResumeTest, TheWindowEndsInTime) {
    EXPECT_EQ(registry.next_deadline_ms(), kWindowEnd);
    EXPECT_EQ(registry.window_left_ms(10'000), 20'000U);
    registry.expire(kWindowEnd - 1, out);
    EXPECT_TRUE(registry.is_window_open());
    EXPECT_EQ(close_window(), Words{});
    EXPECT_FALSE(registry.is_window_open());
    EXPECT_EQ(registry.window_left_ms(kWindowEnd), 0U);
    EXPECT_EQ(registry.next_deadline_ms(), std::nullopt);
}

TEST_F(ResumeTest, ACapsuleComesBackUnderItsVersionAndCanBeAttached) {
    const auto p = resume(kAlice, 100);
    const auto c = open(kAlice);
    EXPECT_EQ(offer(p, 7, 1, "a", 500), Words{"1:PublishReply=500#7"});
    EXPECT_EQ(attach(c, 8, by_name(1, "a")), (Words{"1:Opened(1 lease 1 left 1)", "2:AttachReply(1)#8"}));
    EXPECT_EQ(attach(c, 9, {2, "a", wire::Which::Exactly, 500}),
              (Words{"1:Opened(1 lease 2 left 2)", "2:AttachReply(1)#9"}));
}

TEST_F(ResumeTest, NewVersionsAreAboveAllThatWereOfferedAgain) {
    const auto p = resume(kAlice, 100);
    EXPECT_EQ(offer(p, 1, 1, "a", kFirstVersion + 50), Words{"1:PublishReply=1050#1"});
    EXPECT_EQ(publish(p, 2, 2, "b"), Words{"1:PublishReply=1051#2"});
}

TEST_F(ResumeTest, NobodyRaisesTheVersionsOfAllBeyondWhatCanBeOfferedAgain) {
    // One offer with the highest version that a packet may bring left only higher ones for everybody, which no later life takes back:
    // neither from their producers nor from the store.
    const auto stranger = resume(kBob, 100);
    EXPECT_EQ(offer(stranger, 1, 1, "b", wire::kMaxVersion), Words{"1:" + error(Errc::InvalidArgument) + "#1"});
    EXPECT_EQ(offer(stranger, 2, 1, "b", kFirstVersion + Registry::kMostAhead),
              Words{"1:" + error(Errc::InvalidArgument) + "#2"});
    EXPECT_EQ(std::get<hurray::Error>(last.at(0).packet.message).message,
              "version " + std::to_string(kFirstVersion + Registry::kMostAhead) +
                  " was given out by no life before: this one began at 1000");
    const auto p = open(kAlice);
    EXPECT_EQ(publish(p, 3, 2, "a"), Words{"2:PublishReply=1000#3"});
}

TEST_F(ResumeTest, AWaitForAnAbsentNameIsServedByTheOffer) {
    const auto c = open(kAlice);
    const auto p = resume(kAlice, 100);
    EXPECT_EQ(attach(c, 1, by_name(1, "a"), std::nullopt), Words{});
    EXPECT_EQ(offer(p, 2, 1, "a", 500),
              (Words{"2:PublishReply=500#2", "2:Opened(1 lease 1 left 1)", "1:AttachReply(1)#1"}));
}

TEST_F(ResumeTest, NothingOlderThanWasSeenIsGranted) {  // not_below_seen
    const auto c = open(kAlice);
    const auto p = resume(kAlice, 100);
    wire::Attach seen = by_name(1, "a");
    seen.last_seen = 501;
    EXPECT_EQ(attach(c, 1, seen, std::nullopt), Words{});
    EXPECT_EQ(offer(p, 2, 1, "a", 500), Words{"2:PublishReply=500#2"});
    EXPECT_EQ(offer(p, 3, 2, "a", 501),
              (Words{"2:Retired(1)", "2:PublishReply=501#3", "2:Opened(2 lease 1 left 1)", "1:AttachReply(2)#1"}));
}

TEST_F(ResumeTest, AVersionOfBeforeMayComeUntilTheWindowEnds) {
    const auto c = open(kAlice);
    EXPECT_EQ(attach(c, 1, {1, "a", wire::Which::Exactly, 500}, std::nullopt), Words{});
    EXPECT_EQ(close_window(), Words{"1:" + error(Errc::NotFound) + "#1"});
    EXPECT_EQ(attach(c, 2, {2, "a", wire::Which::Exactly, 501}, std::nullopt),
              Words{"1:" + error(Errc::NotFound) + "#2"});
}

TEST_F(ResumeTest, NobodysWaitForAVersionIsRefutedByAnothersOffer) {
    const auto c = open(kAlice);
    const auto other = resume(kBob, 100);
    EXPECT_EQ(attach(c, 1, {1, "a", wire::Which::Exactly, 500}, std::nullopt), Words{});
    EXPECT_EQ(offer(other, 2, 9, "b", 500), Words{"2:PublishReply=500#2"});
    const auto p = resume(kAlice, 101);
    EXPECT_EQ(offer(p, 3, 1, "a", 500),
              (Words{"3:PublishReply=500#3", "3:Opened(1 lease 1 left 1)", "1:AttachReply(1)#1"}));
}

TEST_F(ResumeTest, ARetiredCapsuleComesBackRetired) {  // reoffer_says_retired, retired_stays
    const auto p = resume(kAlice, 100);
    const auto c = open(kAlice);
    EXPECT_EQ(offer(p, 1, 1, "a", 500, true), Words{"1:PublishReply=500#1"});
    EXPECT_EQ(attach(c, 2, by_name(1, "a")), Words{"2:" + error(Errc::NotFound) + "#2"});
    EXPECT_EQ(close_window(), (Words{"1:WindowClosed(1)", "1:Ended(1 reusable)"}));
}

TEST_F(ResumeTest, BelowTheHighestKnownItComesInRetired) {  // below_known_retired
    const auto p = resume(kAlice, 100);
    EXPECT_EQ(offer(p, 1, 2, "a", 501), Words{"1:PublishReply=501#1"});
    EXPECT_EQ(offer(p, 2, 1, "a", 500), Words{"1:PublishReply=500#2"});
    const auto c = open(kAlice);
    EXPECT_EQ(attach(c, 3, {1, "a", wire::Which::Exactly, 500}), Words{"2:" + error(Errc::NotFound) + "#3"});
    EXPECT_EQ(attach(c, 4, by_name(1, "a")), (Words{"1:Opened(2 lease 1 left 1)", "2:AttachReply(2)#4"}));
}

TEST_F(ResumeTest, BelowAFreshVersionThatIsGoneAlreadyItComesInRetired) {  // below_known_retired
    const auto q = open(kAlice);
    EXPECT_EQ(publish(q, 1, 2, "a"), Words{"1:PublishReply=1000#1"});
    EXPECT_EQ(withdraw(q, 2, kAlice, 2), (Words{"1:Ended(2 reusable)", "1:Done#2"}));
    const auto p = resume(kAlice, 100);
    EXPECT_EQ(offer(p, 3, 1, "a", 500), Words{"2:PublishReply=500#3"});
    EXPECT_EQ(attach(q, 4, by_name(1, "a")), Words{"1:" + error(Errc::NotFound) + "#4"});
}

TEST_F(ResumeTest, WhoeverLeavesManyNamesBehindRetiresNobodysButItsOwn) {  // below_known_retired
    // What has been published and has gone is remembered by name, so many names at most. Beyond, everybody's offers came in retired: a
    // stranger who publishes under enough names in the window, and withdraws, ended what all others had.
    const auto stranger = open(kBob);
    for (std::size_t i = 0; i <= Registry::kMostKnownNames; ++i) {
        registry.publish(stranger, 1, publication(1, std::to_string(i)), out);
        registry.withdraw(stranger, 2, {{kBob, id16(1)}}, out);
        out.clear();
    }
    const auto p = resume(kAlice, 100);
    EXPECT_EQ(offer(p, 3, 2, "a", 500), Words{"2:PublishReply=500#3"});
    EXPECT_EQ(attach(p, 4, by_name(1, "a")), (Words{"2:Opened(2 lease 1 left 1)", "2:AttachReply(2)#4"}));
    const auto q = resume(kBob, 101);
    EXPECT_EQ(offer(q, 5, 3, "b", 500), Words{"3:PublishReply=500#5"});
    EXPECT_EQ(attach(q, 6, by_name(1, "b")), Words{"3:" + error(Errc::NotFound) + "#6"});  // it might be one of those
}

TEST_F(ResumeTest, ANewerOneDisplacesTheOlder) {
    const auto p = resume(kAlice, 100);
    EXPECT_EQ(offer(p, 1, 1, "a", 500), Words{"1:PublishReply=500#1"});
    EXPECT_EQ(offer(p, 2, 2, "a", 501), (Words{"1:Retired(1)", "1:PublishReply=501#2"}));
    EXPECT_EQ(publish(p, 3, 3, "a"), (Words{"1:Retired(2)", "1:PublishReply=1000#3"}));
    // Others may still claim the two, so they have not ended.
    EXPECT_EQ(close_window(),
              (Words{"1:WindowClosed(1)", "1:Ended(1 reusable)", "1:WindowClosed(2)", "1:Ended(2 reusable)"}));
}

TEST_F(ResumeTest, WhatIsHereAlreadyIsRefused) {  // known_reoffer_refused
    const auto p = resume(kAlice, 100);
    const auto q = resume(kAlice, 101);
    EXPECT_EQ(offer(p, 1, 1, "a", 500), Words{"1:PublishReply=500#1"});
    EXPECT_EQ(offer(q, 2, 1, "a", 500), Words{"2:" + error(Errc::AlreadyExists) + "#2"});
    EXPECT_EQ(offer(q, 3, 2, "a", 500), Words{"2:" + error(Errc::AlreadyExists) + "#3"});  // another with its version
    // The same one again by the same session has the same answer.
    EXPECT_EQ(offer(p, 4, 1, "a", 500), Words{"1:PublishReply=500#4"});
    EXPECT_EQ(offer(p, 5, 1, "a", 499), Words{"1:" + error(Errc::AlreadyExists) + "#5"});
    EXPECT_EQ(dropped.size(), 4U);
}

TEST_F(ResumeTest, AForeignNameIsRefused) {
    const auto other = open(kBob);
    EXPECT_EQ(publish(other, 1, 1, "a"), Words{"1:PublishReply=1000#1"});
    const auto p = resume(kAlice, 100);
    EXPECT_EQ(offer(p, 2, 1, "a", 500), Words{"2:" + error(Errc::AlreadyExists) + "#2"});
}

TEST_F(ResumeTest, AfterTheWindowItIsRefused) {
    const auto p = resume(kAlice, 100);
    EXPECT_EQ(close_window(), Words{});
    EXPECT_EQ(offer(p, 1, 1, "a", 500), Words{"1:" + error(Errc::Closed) + "#1"});
    end(p);
    expect_nothing_held();
}

TEST_F(ResumeTest, AClaimIsKeptUntilItsCapsuleIsBack) {  // held_claimed, claims_kept
    const auto c = resume(kAlice, 100);
    const auto p = resume(kAlice, 101);
    EXPECT_EQ(claim(c, 1, kAlice, 1, 17), Words{"1:Done#1"});
    EXPECT_EQ(used(c, kAlice, "claims"), 1U);
    EXPECT_EQ(offer(p, 2, 1, "a", 500, true), Words{"2:PublishReply=500#2"});
    EXPECT_EQ(used(c, kAlice, "claims"), 0U);
    EXPECT_EQ(used(c, kAlice, "leases"), 1U);
    EXPECT_EQ(close_window(), Words{"2:WindowClosed(1 17)"});
    EXPECT_EQ(release(c, 3, {17}), (Words{"2:Released(1 lease 17 left 0)", "2:Ended(1 reusable)", "1:Done#3"}));
}

TEST_F(ResumeTest, AClaimAfterItsCapsuleIsALeaseAtOnce) {
    const auto p = resume(kAlice, 101);
    const auto c = resume(kAlice, 100);
    EXPECT_EQ(offer(p, 1, 1, "a", 500), Words{"1:PublishReply=500#1"});
    EXPECT_EQ(claim(c, 2, kAlice, 1, 17), Words{"2:Done#2"});
    EXPECT_EQ(claim(c, 3, kAlice, 1, 17), Words{"2:Done#3"});  // said again
    EXPECT_EQ(end(c), Words{"1:Lost(1 lease 17 left 0)"});
}

TEST_F(ResumeTest, TheListNamesEveryOpenLeaseClaimedOrNew) {  // list_at_end, list_is_all_open
    const auto p = resume(kAlice, 100);
    const auto c = resume(kAlice, 101);
    EXPECT_EQ(offer(p, 1, 1, "a", 500), Words{"1:PublishReply=500#1"});
    EXPECT_EQ(claim(c, 2, kAlice, 1, 17), Words{"2:Done#2"});
    EXPECT_EQ(attach(c, 3, by_name(18, "a")), (Words{"1:Opened(1 lease 18 left 2)", "2:AttachReply(1)#3"}));
    EXPECT_EQ(close_window(), Words{"1:WindowClosed(1 17 18)"});
}

TEST_F(ResumeTest, ALongListComesInSeveralParts) {
    const auto p = resume(kAlice, 100);
    const auto c = resume(kAlice, 101);
    EXPECT_EQ(offer(p, 1, 1, "a", 500), Words{"1:PublishReply=500#1"});
    for (std::uint64_t lease = 1; lease <= 2 * wire::kMaxOpenLeases + 1; ++lease) {
        claim(c, 2, kAlice, 1, lease);
    }
    close_window();
    ASSERT_EQ(last.size(), 3U);
    std::size_t named = 0;
    for (std::size_t i = 0; i < 3; ++i) {
        const auto& part = std::get<wire::WindowClosed>(last[i].packet.message);
        EXPECT_EQ(part.more, i != 2);
        named += part.open.size();
    }
    EXPECT_EQ(named, 2 * wire::kMaxOpenLeases + 1);
}

TEST_F(ResumeTest, AClaimedNumberIsNotGivenOutAgain) {  // new_counter
    const auto p = resume(kAlice, 100);
    const auto c = resume(kAlice, 101);
    EXPECT_EQ(offer(p, 1, 1, "a", 500), Words{"1:PublishReply=500#1"});
    EXPECT_EQ(claim(c, 2, kAlice, 2, 17), Words{"2:Done#2"});
    EXPECT_EQ(attach(c, 3, by_name(17, "a")), Words{"2:" + error(Errc::InvalidArgument) + "#3"});
    EXPECT_EQ(attach(c, 4, by_name(3, "a")), Words{"2:" + error(Errc::InvalidArgument) + "#4"});
    // A lower one can be claimed still: clients may say them in any order.
    EXPECT_EQ(claim(c, 5, kAlice, 1, 3), Words{"2:Done#5"});
    EXPECT_EQ(attach(c, 6, by_name(18, "a")), (Words{"1:Opened(1 lease 18 left 2)", "2:AttachReply(1)#6"}));
}

TEST_F(ResumeTest, AClaimWhoseCapsuleDoesNotComeBackHasLostItsProducer) {
    const auto c = resume(kAlice, 100);
    EXPECT_EQ(claim(c, 1, kAlice, 1, 17), Words{"1:Done#1"});
    EXPECT_EQ(close_window(), Words{"1:ProducerLost(1)"});
    EXPECT_EQ(release(c, 2, {17}), Words{"1:Done#2"});
    end(c);
    expect_nothing_held();
}

TEST_F(ResumeTest, ALateClaimIsRefused) {
    const auto c = resume(kAlice, 100);
    EXPECT_EQ(close_window(), Words{});
    EXPECT_EQ(claim(c, 1, kAlice, 1, 17), (Words{"1:ClaimsRefused(17)", "1:Done#1"}));
}

TEST_F(ResumeTest, AClaimOfWhoWasNotThereBeforeIsRefused) {
    const auto c = open(kAlice);
    EXPECT_EQ(claim(c, 1, kAlice, 1, 17), (Words{"1:ClaimsRefused(17)", "1:Done#1"}));
}

TEST_F(ResumeTest, OneLeaseIsClaimedForOneCapsule) {
    const auto p = resume(kAlice, 101);
    const auto c = resume(kAlice, 100);
    EXPECT_EQ(offer(p, 1, 1, "a", 500), Words{"1:PublishReply=500#1"});
    EXPECT_EQ(claim(c, 2, kAlice, 1, 17), Words{"2:Done#2"});
    EXPECT_EQ(claim(c, 3, kAlice, 2, 17), (Words{"2:ClaimsRefused(17)", "2:Done#3"}));
    EXPECT_EQ(claim(c, 4, kAlice, 3, 18), Words{"2:Done#4"});
    EXPECT_EQ(claim(c, 5, kAlice, 1, 18), (Words{"2:ClaimsRefused(18)", "2:Done#5"}));
}

TEST_F(ResumeTest, AClaimOfWhatOneMayNotSeeLooksLikeOneOfWhatIsAbsent) {
    const auto p = resume(kAlice, 101);
    const auto c = resume(kBob, 100);
    EXPECT_EQ(offer(p, 1, 1, "a", 500), Words{"1:PublishReply=500#1"});
    EXPECT_EQ(claim(c, 2, kAlice, 1, 17), Words{"2:Done#2"});
    EXPECT_EQ(claim(c, 3, kAlice, 2, 18), Words{"2:Done#3"});
    EXPECT_EQ(offer(p, 4, 2, "b", 400), Words{"1:PublishReply=400#4"});
    EXPECT_EQ(used(c, kBob, "leases"), 0U);
    const Words end = close_window();
    EXPECT_EQ(std::count(end.begin(), end.end(), "2:ProducerLost(1)"), 1);
    EXPECT_EQ(std::count(end.begin(), end.end(), "2:ProducerLost(2)"), 1);
    EXPECT_EQ(std::count(end.begin(), end.end(), "1:WindowClosed(1)"), 1);
}

TEST_F(ResumeTest, AReleaseIsPassedOnOnceItsCapsuleIsBack) {  // release_repeated, closed_then_ack
    const auto c = resume(kAlice, 100);
    const auto p = resume(kAlice, 101);
    EXPECT_EQ(claim(c, 1, kAlice, 1, 17, State::Released), Words{});
    EXPECT_EQ(offer(p, 2, 1, "a", 500), (Words{"2:PublishReply=500#2", "2:Released(1 lease 17 left 0)", "1:Done#1"}));
    EXPECT_EQ(close_window(), Words{"2:WindowClosed(1)"});
}

TEST_F(ResumeTest, OneAnswerForSeveralReleasesComesWithTheLast) {
    const auto c = resume(kAlice, 100);
    const auto p = resume(kAlice, 101);
    const wire::CapsuleId one{kAlice, id16(1)};
    const wire::CapsuleId two{kAlice, id16(2)};
    registry.claim(c, 1, {{{one, 17, State::Released}, {two, 18, State::Released}, {one, 19, State::Held}}}, out);
    EXPECT_EQ(take(), Words{});
    EXPECT_EQ(offer(p, 2, 1, "a", 500), (Words{"2:PublishReply=500#2", "2:Released(1 lease 17 left 0)"}));
    EXPECT_EQ(used(c, kAlice, "leases"), 1U);
    EXPECT_EQ(offer(p, 3, 2, "b", 501), (Words{"2:PublishReply=501#3", "2:Released(2 lease 18 left 0)", "1:Done#1"}));
}

TEST_F(ResumeTest, AReleaseOfWhatIsHereIsPassedOnAtOnce) {
    const auto p = resume(kAlice, 101);
    const auto c = resume(kAlice, 100);
    EXPECT_EQ(offer(p, 1, 1, "a", 500), Words{"1:PublishReply=500#1"});
    EXPECT_EQ(claim(c, 2, kAlice, 1, 17, State::Released), (Words{"1:Released(1 lease 17 left 0)", "2:Done#2"}));
}

TEST_F(ResumeTest, AReleaseThatCantBePassedOnIsAnsweredAtTheWindowsEnd) {  // ack_at_end
    const auto c = resume(kAlice, 100);
    EXPECT_EQ(claim(c, 1, kAlice, 1, 17, State::Released), Words{});
    EXPECT_EQ(close_window(), Words{"1:Done#1"});
}

TEST_F(ResumeTest, AReleaseOfAnUnknownLeaseIsAnsweredOutsideTheWindow) {  // ack_unknown
    const auto c = resume(kAlice, 100);
    EXPECT_EQ(close_window(), Words{});
    EXPECT_EQ(claim(c, 1, kAlice, 1, 17, State::Released), Words{"1:Done#1"});
    EXPECT_EQ(release(c, 2, {18}), Words{"1:Done#2"});
}

TEST_F(ResumeTest, AClaimThatIsReleasedIsPassedOnLikeARelease) {
    const auto c = resume(kAlice, 100);
    const auto p = resume(kAlice, 101);
    EXPECT_EQ(claim(c, 1, kAlice, 1, 17), Words{"1:Done#1"});
    EXPECT_EQ(release(c, 2, {17}), Words{});
    EXPECT_EQ(release(c, 3, {17}), Words{"1:Done#3"});  // said twice: there is nothing more to wait for
    EXPECT_EQ(claim(c, 4, kAlice, 1, 17), (Words{"1:ClaimsRefused(17)", "1:Done#4"}));
    EXPECT_EQ(offer(p, 5, 1, "a", 500), (Words{"2:PublishReply=500#5", "2:Released(1 lease 17 left 0)", "1:Done#2"}));
}

TEST_F(ResumeTest, AReleaseOutlivesItsSessionUntilTheWindowEnds) {
    const auto c = resume(kAlice, 100);
    const auto p = resume(kAlice, 101);
    EXPECT_EQ(claim(c, 1, kAlice, 1, 17, State::Released), Words{});
    EXPECT_EQ(claim(c, 2, kAlice, 1, 18), Words{"1:Done#2"});
    EXPECT_EQ(end(c), Words{});
    EXPECT_EQ(used(p, kAlice, "claims"), 1U);  // what was held went with its session
    EXPECT_EQ(offer(p, 3, 1, "a", 500), (Words{"2:PublishReply=500#3", "2:Released(1 lease 17 left 0)"}));
}

TEST_F(ResumeTest, AReleaseThatIsSaidAgainByTheSessionsNextConnectionIsAnsweredThere) {
    const auto before = resume(kAlice, 100);
    EXPECT_EQ(claim(before, 1, kAlice, 1, 17, State::Released), Words{});
    EXPECT_EQ(end(before), Words{});
    const auto c = resume(kAlice, 100);
    EXPECT_EQ(claim(c, 2, kAlice, 1, 17, State::Released), Words{});
    EXPECT_EQ(close_window(), Words{"2:Done#2"});
    end(c);
    expect_nothing_held();
}

TEST_F(ResumeTest, WhatWasThereBeforeStaysThoughItsProducerLeavesAgain) {  // retired_stays
    const auto p = resume(kAlice, 100);
    const auto c = resume(kAlice, 101);
    EXPECT_EQ(offer(p, 1, 1, "a", 500), Words{"1:PublishReply=500#1"});
    EXPECT_EQ(end(p), Words{});
    const auto again = resume(kAlice, 100);
    EXPECT_EQ(offer(again, 2, 1, "a", 500), Words{"3:" + error(Errc::AlreadyExists) + "#2"});
    EXPECT_EQ(claim(c, 3, kAlice, 1, 17), (Words{"2:ProducerLost(1)", "2:Done#3"}));
    EXPECT_EQ(claim(c, 4, kAlice, 1, 18, State::Released), Words{});  // nobody to be told now
    const Words end = close_window();
    EXPECT_EQ(end, Words{"2:Done#4"});
    EXPECT_EQ(release(c, 5, {17}), Words{"2:Done#5"});
    EXPECT_EQ(registry.totals().capsules, 0U);
}

TEST_F(ResumeTest, OfWhatLingersAReleaseWaitsForAProducerThatLeftAgain) {  // release_kept
    const auto linger = [](wire::Publish& publish) {
        publish.version = 600;
        publish.linger_ms = 0;
    };
    const auto p = resume(kAlice, 100);
    publish_with(p, 1, 1, "a", linger);
    const auto c = resume(kAlice, 101);
    claim(c, 2, kAlice, 1, 7);
    end(p);
    EXPECT_EQ(release(c, 3, {7}), Words{});
    const auto next = resume(kAlice, 100);
    EXPECT_EQ(publish_with(next, 4, 1, "a", linger),
              (Words{"3:PublishReply=600#4", "3:Released(1 lease 7 left 0)", "2:Done#3"}));
    EXPECT_EQ(close_window(), Words{"3:WindowClosed(1)"});
}

TEST_F(ResumeTest, ALostLeaseOfBeforeMakesTheMemoryUnusable) {  // no_reuse_after_lost
    const auto p = resume(kAlice, 100);
    const auto c = resume(kAlice, 101);
    EXPECT_EQ(offer(p, 1, 1, "a", 500, true), Words{"1:PublishReply=500#1"});
    EXPECT_EQ(claim(c, 2, kAlice, 1, 17), Words{"2:Done#2"});
    EXPECT_EQ(end(c), Words{"1:Lost(1 lease 17 left 0)"});
    EXPECT_EQ(close_window(), (Words{"1:WindowClosed(1)", "1:Ended(1)"}));
}

TEST_F(ResumeTest, SegmentsAreCountedAndSharedByWhatIsOfferedAgain) {
    const auto p = resume(kAlice, 100);
    for (const std::uint8_t capsule : {std::uint8_t{1}, std::uint8_t{2}}) {
        Publication offer = publication(capsule, std::string(1, static_cast<char>('a' + capsule)));
        offer.request.segments = {{9, true, wire::Memory::Reusable, 8192, 0}};
        offer.request.placements = {{0, 0}};
        offer.request.version = 500U + capsule;
        offer.brought = {brought(9)};
        registry.publish(p, capsule, std::move(offer), out);
        take();
    }
    EXPECT_EQ(used(p, kAlice, "bytes"), 8192U);
    EXPECT_EQ(used(p, kAlice, "capsules"), 2U);
    end(p);
    close_window();
    expect_nothing_held();
}

TEST_F(ResumeTest, ManyClaimsAndCapsulesAreDealtWithInPieces) {
    const auto p = resume(kAlice, 100);
    const auto c = resume(kAlice, 101);
    for (int i = 0; i < 200; ++i) {
        offer(p, 1, static_cast<std::uint8_t>(i), "n/" + std::to_string(i), 100U + static_cast<unsigned>(i), true);
    }
    for (std::uint64_t lease = 1; lease <= 300; ++lease) {
        claim(c, 2, kBob, 1, lease);
    }
    registry.close_window(out);
    EXPECT_TRUE(registry.has_window_rest());
    EXPECT_LE(out.packets.size(), 600U);
    // Meanwhile the window is over, and what waits for its end may go its way.
    out.clear();
    registry.claim(c, 3, {{{{kAlice, id16(1)}, 400, State::Held}}}, out);
    EXPECT_TRUE(std::holds_alternative<wire::ClaimsRefused>(out.packets.at(0).packet.message));
    while (registry.has_window_rest()) {
        registry.continue_window_rest(out);
    }
    end(c);
    end(p);
    expect_nothing_held();
}

TEST_F(ResumeTest, ManyClaimsOfOneCapsuleAreDealtWithInPiecesWhenItIsBack) {
    // Whoever had claimed it often kept everybody waiting, and flooded its producer, in the one step in which it was offered again.
    const auto p = resume(kAlice, 100);
    const auto c = resume(kBob, 101);
    const auto d = resume(kAlice, 102);
    for (std::uint64_t lease = 1; lease <= 1000; ++lease) {
        registry.claim(c, lease, {{{{kAlice, id16(1)}, lease, State::Released}}}, out);
        registry.claim(d, lease, {{{{kAlice, id16(1)}, lease, State::Held}}}, out);
    }
    take();
    Words all = offer(p, 1, 1, "a", 500);
    EXPECT_TRUE(registry.has_window_rest());
    EXPECT_LE(all.size(), 600U);
    EXPECT_EQ(attach(c, 2000, by_name(2000, "b")), Words{"2:" + error(Errc::NotFound) + "#2000"});
    release(d, 2001, {999});
    const auto add = [&](Words words) { all.insert(all.end(), words.begin(), words.end()); };
    add(close_window());
    EXPECT_EQ(std::count_if(all.begin(), all.end(), [](const auto& word) { return word.starts_with("1:Released"); }),
              1001);
    EXPECT_EQ(std::count_if(all.begin(), all.end(), [](const auto& word) { return word.starts_with("2:Done"); }), 1000);
    EXPECT_EQ(std::count_if(all.begin(), all.end(), [](const auto& word) { return word.starts_with("3:Producer"); }),
              0);
    EXPECT_EQ(registry.totals().leases, 999U);
    EXPECT_EQ(registry.totals().claims, 0U);
}

TEST_F(ResumeTest, WhoResumesIsToldTheSnapshotsEndWithTheWindows) {
    const auto p = resume(kAlice, 100);
    EXPECT_EQ(offer(p, 1, 1, "a", 500), Words{"1:PublishReply=500#1"});
    const auto w = resume(kAlice, 101);
    registry.watch(w, 2, {1, ""}, out);
    registry.watch(w, 3, {2, "b"}, out);
    EXPECT_EQ(take(), (Words{"2:Done#2", "2:WatchedPresent(1)", "2:Done#3"}));
    EXPECT_EQ(offer(p, 4, 2, "b", 501),
              (Words{"1:PublishReply=501#4", "2:WatchedPublished(2)", "2:WatchedPublished(2)"}));
    registry.unwatch(w, 5, {1}, out);
    take();
    EXPECT_EQ(close_window(), (Words{"1:WindowClosed(1)", "1:WindowClosed(2)", "2:WatchedSnapshotEnd"}));
    registry.watch(w, 6, {3, "b"}, out);
    EXPECT_EQ(take(), (Words{"2:Done#6", "2:WatchedPresent(2)", "2:WatchedSnapshotEnd"}));
}

TEST_F(ResumeTest, AChangeAfterTheWindowIsToldAsEver) {
    const auto p = resume(kAlice, 100);
    const auto w = open(kAlice);
    registry.watch(w, 1, {1, ""}, out);
    EXPECT_EQ(take(), (Words{"2:Done#1", "2:WatchedSnapshotEnd"}));
    EXPECT_EQ(offer(p, 2, 1, "a", 500), (Words{"1:PublishReply=500#2", "2:WatchedPublished(1)"}));
    EXPECT_EQ(offer(p, 3, 2, "a", 501),
              (Words{"1:Retired(1)", "1:PublishReply=501#3", "2:WatchedRetired(1)", "2:WatchedPublished(2)"}));
    EXPECT_EQ(offer(p, 4, 3, "a", 400), Words{"1:PublishReply=400#4"});  // retired: nobody has missed it
    close_window();
    EXPECT_EQ(withdraw(p, 5, kAlice, 2), (Words{"1:Ended(2 reusable)", "1:Done#5", "2:WatchedRetired(2)"}));
}

}  // namespace
}  // namespace hurrayd
