#include <optional>

#include "tests/unit/daemon/registry_fixture.hpp"

// Capsules that outlive their producers, within one life of the daemon. Over its death: registry_store_test.cpp.

namespace hurrayd {
namespace {

constexpr std::uint64_t kWindowEnd = 30'000;

class LingerTest : public RegistryTest {
  protected:
    using RegistryTest::RegistryTest;

    /// A publication of one segment; capsules of the same number have the same file, whoever brings it.
    template <class More>
    Words lingering(SessionNumber from, std::uint64_t request, std::uint8_t capsule, const std::string& name,
                    std::uint64_t linger_ms, More&& more) {
        return publish_with(from, request, capsule, name, [&](wire::Publish& publish) {
            publish.linger_ms = linger_ms;
            more(publish);
        });
    }
    Words lingering(SessionNumber from, std::uint64_t request, std::uint8_t capsule, const std::string& name,
                    std::uint64_t linger_ms = 0) {
        return lingering(from, request, capsule, name, linger_ms, [](wire::Publish&) {});
    }
    /// The same, offered again.
    Words offer(SessionNumber from, std::uint64_t request, std::uint8_t capsule, const std::string& name,
                std::uint64_t version, std::uint64_t linger_ms = 0, bool retired = false) {
        return lingering(from, request, capsule, name, linger_ms, [&](wire::Publish& publish) {
            publish.version = version;
            publish.retired = retired;
        });
    }
    Words expire(std::uint64_t at) {
        now = at;
        registry.expire(now, out);
        return take();
    }
    Words watch(SessionNumber from, const std::string& pattern) {
        registry.watch(from, 90, {1, pattern}, out);
        return take();
    }
    wire::Info only(SessionNumber viewer) {
        wire::ListReply reply;
        list(viewer, {}, reply);
        return reply.capsules.size() == 1 ? reply.capsules.front() : wire::Info{};
    }
};

TEST_F(LingerTest, StaysWhenItsProducerLeavesAndNobodyIsTold) {
    const auto p = open(kAlice);
    const auto c = open(kAlice);
    watch(c, "");
    lingering(p, 1, 1, "a");
    EXPECT_FALSE(only(c).producer_gone);
    EXPECT_EQ(attach(c, 2, by_name(1, "a")), (Words{"1:Opened(1 lease 1 left 1)", "2:AttachReply(1)#2"}));
    EXPECT_EQ(end(p), Words{});  // neither ProducerLost to the holder, nor WatchedProducerLost
    EXPECT_EQ(attach(c, 3, by_name(2, "a")), Words{"2:AttachReply(1)#3"});
    EXPECT_EQ(attach(c, 4, by_id(3, kAlice, 1)), Words{"2:AttachReply(1)#4"});
    const wire::Info info = only(c);
    EXPECT_TRUE(info.lingering && info.producer_gone && !info.retired);
    EXPECT_EQ(info.leases, 3U);
    EXPECT_EQ(info.expires_ms, 0U);
    EXPECT_EQ(release(c, 5, {1, 2, 3}), Words{"2:Done#5"});
    EXPECT_FALSE(only(c).retired);
}

TEST_F(LingerTest, CanBeAttachedWhileItsProducersSessionIsStillBeingEnded) {
    const auto p = open(kAlice);
    const auto c = open(kAlice);
    lingering(p, 1, 1, "a");
    for (std::uint8_t i = 0; i < 3; ++i) {  // so much that it ends piece by piece
        for (std::uint64_t lease = 1; lease <= 200; ++lease) {
            publish(c, 1, static_cast<std::uint8_t>(10 + i), "b" + std::to_string(i));
            attach(p, lease, by_name(i * 200U + lease, "b" + std::to_string(i)));
        }
    }
    registry.end_session(p, now, out);
    take();
    ASSERT_TRUE(registry.has_endings());
    EXPECT_EQ(attach(c, 7, by_name(1, "a")), Words{"2:AttachReply(1)#7"});
}

TEST_F(LingerTest, WhoMayWriteItWithdrawsIt) {
    const auto p = open(kAlice);
    const auto c = open(kAlice);
    const auto stranger = open(kBob);
    lingering(p, 1, 1, "a", 0, [](wire::Publish& publish) { publish.access = {kAlice, 0644}; });
    end(p);
    EXPECT_EQ(withdraw(stranger, 2, kAlice, 1), Words{"3:" + error(Errc::NotPermitted) + "#2"});
    EXPECT_EQ(attach(stranger, 3, by_name(1, "a")), Words{"3:AttachReply(1)#3"});
    EXPECT_EQ(withdraw(c, 4, kAlice, 1), Words{"2:Done#4"});
    EXPECT_EQ(attach(c, 5, by_name(1, "a")), Words{"2:" + error(Errc::NotFound) + "#5"});
    EXPECT_EQ(dropped, std::vector<SegmentNumber>{});  // somebody reads it
    EXPECT_EQ(release(stranger, 6, {1}), Words{"3:Done#6"});
    EXPECT_EQ(dropped, std::vector<SegmentNumber>{{1}});
    end(c);
    end(stranger);
    expect_nothing_held();
}

TEST_F(LingerTest, IsReplacedByTheNextVersion) {
    const auto p = open(kAlice);
    lingering(p, 1, 1, "a");
    end(p);
    const auto next = open(kAlice);
    EXPECT_EQ(publish(next, 1, 2, "a"), Words{"2:PublishReply=1001#1"});
    EXPECT_EQ(dropped, std::vector<SegmentNumber>{{1}});
    end(next);
    expect_nothing_held();
}

TEST_F(LingerTest, KeepsItsNameForItsOwner) {
    const auto p = open(kAlice);
    lingering(p, 1, 1, "a");
    end(p);
    const auto stranger = open(kBob);
    EXPECT_EQ(publish(stranger, 1, 2, "a"), Words{"2:" + error(Errc::AlreadyExists) + "#1"});
}

TEST_F(LingerTest, ExpiresItsTimeAfterTheProducersEnd) {
    const auto p = open(kAlice);
    const auto c = open(kAlice);
    watch(c, "a");
    lingering(p, 1, 1, "a", 500);
    take();
    now = 10'000;
    EXPECT_EQ(registry.next_deadline_ms(), std::nullopt);  // not while its producer is there
    end(p);
    EXPECT_EQ(registry.next_deadline_ms(), 10'500U);
    now = 10'400;
    EXPECT_EQ(only(c).expires_ms, 100U);
    EXPECT_EQ(expire(10'499), Words{});
    attach(c, 2, by_name(1, "a"));
    EXPECT_EQ(expire(10'500), Words{"2:WatchedRetired(1)"});
    EXPECT_EQ(registry.next_deadline_ms(), std::nullopt);
    EXPECT_EQ(attach(c, 3, by_name(2, "a")), Words{"2:" + error(Errc::NotFound) + "#3"});
    EXPECT_TRUE(only(c).retired);
    EXPECT_EQ(release(c, 4, {1}), Words{"2:Done#4"});
    EXPECT_EQ(dropped, std::vector<SegmentNumber>{{1}});
}

TEST_F(LingerTest, ATimeBeyondTheEndOfTimeIsNoLimit) {
    const auto p = open(kAlice);
    lingering(p, 1, 1, "a", UINT64_MAX);
    now = 1;
    end(p);
    EXPECT_EQ(registry.next_deadline_ms(), std::nullopt);
}

TEST_F(LingerTest, ManyExpirePieceByPiece) {
    constexpr std::size_t kMany = 600;
    const auto p = open(kAlice);
    for (std::size_t i = 0; i < kMany; ++i) {
        Publication each = publication(0, "n" + std::to_string(i));
        each.request.capsule.bytes[0] = static_cast<std::uint8_t>(i % 256);
        each.request.capsule.bytes[1] = static_cast<std::uint8_t>(i / 256 + 1);
        each.request.linger_ms = 100;
        registry.publish(p, i + 1, std::move(each), out);
    }
    take();
    end(p);
    std::size_t pieces = 0;
    for (; registry.next_deadline_ms() == 100U; ++pieces) {
        expire(100);
    }
    EXPECT_EQ(pieces, 3U);
    expect_nothing_held();
}

TEST_F(LingerTest, ALaterSessionThatOffersItAgainAdoptsIt) {  // adopt_lingering
    const auto p = open(kAlice);
    const auto c = open(kAlice);
    lingering(p, 1, 1, "a", 500);
    attach(c, 2, by_name(1, "a"));
    end(p);
    attach(c, 3, by_name(2, "a"));
    const auto next = open(kAlice);
    // The list of its leases follows at once: of those that it knows, the others are over.
    EXPECT_EQ(offer(next, 4, 1, "a", 1000, 500), (Words{"3:PublishReply=1000#4", "3:WindowClosed(1 1 2)"}));
    EXPECT_EQ(offer(next, 4, 1, "a", 1000, 500), Words{"3:PublishReply=1000#4"});  // now it is a repetition
    EXPECT_EQ(registry.next_deadline_ms(), std::nullopt);
    EXPECT_EQ(used(next, kAlice, "descriptors"), 1U);
    EXPECT_EQ(release(c, 5, {1}), (Words{"3:Released(1 lease 1 left 1)", "2:Done#5"}));
    EXPECT_EQ(withdraw(next, 6, kAlice, 1), Words{"3:Done#6"});
    EXPECT_EQ(release(c, 7, {2}), (Words{"3:Released(1 lease 2 left 0)", "3:Ended(1 reusable)", "2:Done#7"}));
    end(next);
    end(c);
    expect_nothing_held();
}

TEST_F(LingerTest, AnUnansweredPublishThatIsSaidAgainAdoptsItToo) {
    const auto p = open(kAlice);
    lingering(p, 1, 1, "a");
    end(p);
    const auto next = open(kAlice);
    EXPECT_EQ(lingering(next, 1, 1, "a"), (Words{"2:PublishReply=1000#1", "2:WindowClosed(1)"}));
    EXPECT_EQ(lingering(next, 2, 1, "a"), Words{"2:PublishReply=1000#2"});  // now it is a repetition
}

TEST_F(LingerTest, AdoptedSegmentsMayBeMentionedByNumber) {
    const auto p = open(kAlice);
    lingering(p, 1, 1, "a");
    end(p);
    const auto next = open(kAlice);
    offer(next, 1, 1, "a", 1000);
    Publication again = publication(2, "b");
    again.request.segments = {{1, false, wire::Memory::Reusable, 4096, 0}};
    again.request.placements = {{0, 0}};
    again.brought = {{}};
    registry.publish(next, 2, std::move(again), out);
    EXPECT_EQ(take(), Words{"2:PublishReply=1001#2"});
    EXPECT_EQ(dropped, std::vector<SegmentNumber>{{2}});  // the descriptor that the offer brought
}

TEST_F(LingerTest, AFileThatAnotherSessionHasTooIsKeptUnderBothNumbers) {
    const auto p = open(kAlice);
    const auto other = open(kAlice);
    lingering(p, 1, 1, "a");
    Publication same = publication(2, "b");
    same.request.segments = {{9, true, wire::Memory::Reusable, 4096, 0}};
    same.request.placements = {{0, 0}};
    same.brought = {brought(1)};
    registry.publish(other, 1, std::move(same), out);
    take();
    end(p);
    const auto next = open(kAlice);
    EXPECT_EQ(offer(next, 2, 1, "a", 1000).front(), "3:PublishReply=1000#2");
    EXPECT_EQ(withdraw(next, 3, kAlice, 1), (Words{"3:Ended(1 reusable)", "3:Done#3"}));
    end(next);
    end(other);
    expect_nothing_held();
}

TEST_F(LingerTest, OnlyTheSameInAllIsAdopted) {
    const auto p = open(kAlice);
    lingering(p, 1, 1, "a", 500);
    end(p);
    const auto next = open(kAlice);
    const auto refused = [&](auto&& change) {
        const Words words = lingering(next, 2, 1, "a", 500, change);
        EXPECT_EQ(words, Words{"2:" + error(Errc::AlreadyExists) + "#2"});
    };
    refused([](wire::Publish& publish) { publish.name = "b"; });
    refused([](wire::Publish& publish) { publish.version = 999; });
    refused([](wire::Publish& publish) { publish.descriptor = "other"; });
    refused([](wire::Publish& publish) { publish.linger_ms = 501; });
    refused([](wire::Publish& publish) { publish.linger_ms.reset(); });
    refused([](wire::Publish& publish) { publish.retain = 2; });
    refused([](wire::Publish& publish) { publish.once = true; });
    refused([](wire::Publish& publish) { publish.access = {kAlice, 0644}; });
    refused([](wire::Publish& publish) { publish.segments[0].size = 8192; });
    refused([](wire::Publish& publish) { publish.segments[0].memory = wire::Memory::Immutable; });
    refused([](wire::Publish& publish) { publish.placements[0].offset = 64; });
    Publication other_file = publication(1, "a");
    other_file.request.linger_ms = 500;
    other_file.request.segments = {{1, true, wire::Memory::Reusable, 4096, 0}};
    other_file.request.placements = {{0, 0}};
    other_file.brought = {brought(77)};
    registry.publish(next, 3, std::move(other_file), out);
    EXPECT_EQ(take(), Words{"2:" + error(Errc::AlreadyExists) + "#3"});
    EXPECT_TRUE(only(next).producer_gone);
    EXPECT_EQ(used(next, kAlice, "descriptors"), 1U);
    EXPECT_EQ(offer(next, 4, 1, "a", 1000, 500).front(), "2:PublishReply=1000#4");
}

TEST_F(LingerTest, AnotherUserHasAnotherCapsuleOfThatId) {
    const auto p = open(kAlice);
    lingering(p, 1, 1, "a");
    end(p);
    const auto stranger = open(kBob);
    EXPECT_EQ(offer(stranger, 1, 1, "b", 1000), Words{"2:" + error(Errc::Closed) + "#1"});
}

TEST_F(LingerTest, OneWhoseProducerIsThereIsNotAdopted) {  // known_reoffer_refused
    const auto p = open(kAlice);
    const auto other = open(kAlice);
    lingering(p, 1, 1, "a");
    EXPECT_EQ(offer(other, 2, 1, "a", 1000), Words{"2:" + error(Errc::AlreadyExists) + "#2"});
}

TEST_F(LingerTest, WhoComesBackLearnsThatItWasReplaced) {  // tell_retired
    const auto p = open(kAlice);
    const auto c = open(kAlice);
    lingering(p, 1, 1, "a");
    attach(c, 2, by_name(1, "a"));
    end(p);
    publish(c, 3, 2, "a");
    const auto next = open(kAlice);
    EXPECT_EQ(offer(next, 4, 1, "a", 1000), (Words{"3:PublishReply=1000#4", "3:Retired(1)", "3:WindowClosed(1 1)"}));
    EXPECT_EQ(release(c, 5, {1}), (Words{"3:Released(1 lease 1 left 0)", "3:Ended(1 reusable)", "2:Done#5"}));
}

TEST_F(LingerTest, WhoWithdrewItWhileAwaySaysSoWhenItComesBack) {  // reoffer_says_retired
    const auto p = open(kAlice);
    lingering(p, 1, 1, "a");
    end(p);
    const auto next = open(kAlice);
    EXPECT_EQ(offer(next, 2, 1, "a", 1000, 0, true),
              (Words{"2:PublishReply=1000#2", "2:WindowClosed(1)", "2:Ended(1 reusable)"}));
    end(next);
    expect_nothing_held();
}

TEST_F(LingerTest, WhatEndedMeanwhileIsNotTakenBack) {
    const auto p = open(kAlice);
    lingering(p, 1, 1, "a", 500);
    end(p);
    expire(500);
    const auto next = open(kAlice);
    EXPECT_EQ(offer(next, 2, 1, "a", 1000, 500), Words{"2:" + error(Errc::Closed) + "#2"});
}

TEST_F(LingerTest, StagedOnesGoWithTheirSession) {
    const auto p = open(kAlice);
    group(p, 1, 1, wire::Group::Action::Begin);
    lingering(p, 2, 1, "a", 0, [](wire::Publish& publish) { publish.group = 1; });
    end(p);
    expect_nothing_held();
}

TEST_F(LingerTest, MembersOfACommittedGroupStay) {
    const auto p = open(kAlice);
    const auto c = open(kAlice);
    group(p, 1, 1, wire::Group::Action::Begin);
    lingering(p, 2, 1, "a", 0, [](wire::Publish& publish) { publish.group = 1; });
    group(p, 3, 1, wire::Group::Action::Commit);
    end(p);
    EXPECT_EQ(attach(c, 4, by_name(1, "a")), Words{"2:AttachReply(1)#4"});
}

TEST_F(LingerTest, AQueueIsWorkedOffWithoutItsProducer) {
    const auto p = open(kAlice);
    const auto c = open(kAlice);
    const auto once = [](wire::Publish& publish) { publish.once = true; };
    lingering(p, 1, 1, "q", 0, once);
    lingering(p, 2, 2, "q", 0, once);
    const auto take_one = [&](std::uint64_t request, std::uint64_t lease) {
        wire::Attach what = by_name(lease, "q");
        what.take = true;
        return attach(c, request, what);
    };
    EXPECT_EQ(take_one(3, 1), (Words{"1:Opened(1 lease 1 left 1)", "2:AttachReply(1)#3"}));
    end(p);
    registry.confirm(c, 4, {1}, out);  // confirm_needs_producer: but for what lingers
    EXPECT_EQ(take(), Words{"2:Done#4"});
    EXPECT_EQ(take_one(5, 2), Words{"2:AttachReply(2)#5"});
    EXPECT_EQ(release(c, 6, {2}), Words{"2:Done#6"});  // put back
    EXPECT_EQ(take_one(7, 3), Words{"2:AttachReply(2)#7"});
    registry.confirm(c, 8, {3}, out);
    EXPECT_EQ(take(), Words{"2:Done#8"});
    const auto next = open(kAlice);
    EXPECT_EQ(lingering(next, 9, 2, "q", 0, once),
              (Words{"3:PublishReply=1001#9", "3:Taken(2 lease 3 left 1)", "3:WindowClosed(2 3)"}));
    end(next);
    end(c);
    expect_nothing_held();
}

class LingeringQueueTest : public LingerTest {
  protected:
    using LingerTest::LingerTest;
    Words queue(SessionNumber from, std::uint64_t request, std::uint8_t capsule) {
        return lingering(from, request, capsule, "q", 0, [](wire::Publish& publish) { publish.once = true; });
    }
    Words take_one(SessionNumber from, std::uint64_t request, std::uint64_t lease,
                   std::optional<std::uint64_t> timeout = 0) {
        wire::Attach what = by_name(lease, "q");
        what.take = true;
        return attach(from, request, what, timeout);
    }
    Words confirm(SessionNumber from, std::uint64_t request, std::uint64_t lease) {
        registry.confirm(from, request, {lease}, out);
        return take();
    }
};

TEST_F(LingeringQueueTest,
       WhatACutOffProducerQueuedEndsAndNobodyTakesIt) {  // cut_off_once_ends, confirm_needs_producer
    const auto p = open(kAlice);
    const auto c = open(kAlice);
    const auto w = open(kAlice);
    watch(w, "q");
    queue(p, 1, 1);
    queue(p, 2, 2);
    queue(p, 3, 3);
    lingering(p, 4, 4, "attached");
    take_one(c, 5, 1);
    confirm(c, 6, 1);
    take_one(c, 7, 2);
    // Taken, granted, queued.
    EXPECT_EQ(cut_off(p), (Words{"2:ProducerLost(2)", "3:WatchedProducerLost(2)", "3:WatchedProducerLost(3)"}));
    EXPECT_EQ(confirm(c, 8, 2), Words{"2:" + error(Errc::ProducerLost) + "#8"});
    EXPECT_EQ(take_one(c, 9, 3), Words{"2:" + error(Errc::NotFound) + "#9"});
    EXPECT_EQ(only(c).name, "");  // of two
    EXPECT_EQ(attach(c, 10, by_name(4, "attached")), Words{"2:AttachReply(4)#10"});
    // It is told what it may not have heard of.
    const auto next = open(kAlice);
    EXPECT_EQ(queue(next, 11, 1),
              (Words{"4:PublishReply=1000#11", "4:Taken(1 lease 1 left 1)", "4:WindowClosed(1 1)"}));
    EXPECT_EQ(release(c, 12, {1, 4}), (Words{"4:Released(1 lease 1 left 0)", "4:Ended(1 reusable)", "2:Done#12"}));
    EXPECT_EQ(withdraw(c, 13, kAlice, 4), Words{"2:Done#13"});
    for (const auto session : {c, w, next}) {
        end(session);
    }
    expect_nothing_held();
}

TEST_F(LingeringQueueTest, NobodyTakesItWhileACutOffSessionIsStillBeingEnded) {  // cut_off_once_ends
    const auto p = open(kAlice);
    const auto c = open(kAlice);
    queue(p, 1, 1);
    queue(p, 2, 2);
    take_one(c, 3, 1);
    publish(c, 4, 10, "b");
    for (std::uint64_t lease = 1; lease <= 600; ++lease) {  // so much that it ends piece by piece
        attach(p, lease, by_name(lease, "b"));
    }
    registry.end_session(p, now, out, true);
    take();
    ASSERT_TRUE(registry.has_endings());
    EXPECT_EQ(confirm(c, 5, 1), Words{"2:" + error(Errc::ProducerLost) + "#5"});
    EXPECT_EQ(take_one(c, 6, 2), Words{"2:" + error(Errc::NotFound) + "#6"});
    while (registry.has_endings()) {
        registry.continue_endings(out);
    }
    take();
    end(c);
    expect_nothing_held();
}

// ---- In the resume window -------------------------------------------------------------------------------------------

TEST_F(LingeringQueueTest, OneThatIsWithdrawnWhileItIsGrantedMayBeConfirmedThoughItsProducerHasGone) {
    const auto p = open(kAlice);
    const auto c = open(kAlice);
    queue(p, 1, 1);
    end(p);
    EXPECT_EQ(take_one(c, 2, 1), Words{"2:AttachReply(1)#2"});
    EXPECT_EQ(withdraw(open(kAlice), 3, kAlice, 1), Words{"3:Done#3"});
    EXPECT_EQ(confirm(c, 4, 1), Words{"2:Done#4"});
    EXPECT_EQ(confirm(c, 5, 1), Words{"2:Done#5"});
    EXPECT_EQ(release(c, 6, {1}), Words{"2:Done#6"});
    EXPECT_EQ(registry.totals().capsules, 0U);
}

TEST_F(LingeringQueueTest, AConfirmThatWasAnsweredWithItsProducersLossStaysSo) {
    const auto p = open(kAlice);
    const auto c = open(kAlice);
    queue(p, 1, 1);
    take_one(c, 2, 1);
    EXPECT_EQ(confirm(c, 3, 1), (Words{"1:Taken(1 lease 1 left 1)", "2:Done#3"}));
    ASSERT_NE(last.back().unheard, nullptr);
    registry.note_unheard(last.back().unheard->capsule);  // the producer was cut off with TAKEN in its queue
    registry.check_consistency();
    EXPECT_EQ(confirm(c, 4, 1), Words{"2:" + error(Errc::ProducerLost) + "#4"});
    EXPECT_EQ(cut_off(p), Words{"2:ProducerLost(1)"});
    EXPECT_EQ(confirm(c, 5, 1), Words{"2:" + error(Errc::ProducerLost) + "#5"});
    // It comes back before the lease ends. The capsule is not told as taken: it has ended, and its work is published again.
    const auto again = open(kAlice);
    EXPECT_EQ(publish_with(again, 6, 1, "q",
                           [](wire::Publish& publish) {
                               publish.once = true;
                               publish.linger_ms = 0;
                               publish.version = kFirstVersion;
                           }),
              Words{"3:" + error(Errc::AlreadyExists) + "#6"});
    EXPECT_EQ(release(c, 7, {1}), Words{"2:Done#7"});
    EXPECT_EQ(registry.totals().capsules, 0U);
}

TEST_F(LingeringQueueTest, WhatEndsWithItsProducerIsNotAdoptedWhileThatIsEnded) {
    const auto p = open(kAlice);
    for (std::uint32_t i = 0; i < 600; ++i) {
        Publication each = publication(static_cast<std::uint8_t>(i), "filler/" + std::to_string(i));
        each.request.capsule.bytes[14] = static_cast<std::uint8_t>(1 + (i >> 8U));
        registry.publish(p, i + 10, std::move(each), out);
        out.clear();
    }
    queue(p, 1, 7);
    const auto c = open(kAlice);
    registry.end_session(p, now, out, true);
    out.clear();
    ASSERT_TRUE(registry.has_endings());
    wire::Attach to_take = by_name(1, "q");
    to_take.take = true;
    registry.attach(c, 2, to_take, 0, now, out);
    out.clear();
    const auto q = open(kAlice);
    registry.publish(
        q, 3,
        [&] {
            Publication again = publication(7, "q");
            again.request.segments = {{7, true, wire::Memory::Reusable, 4096, 0}};
            again.request.placements = {{0, 0}};
            again.request.once = true;
            again.request.linger_ms = 0;
            again.brought = {brought(7)};
            again.buffer_bytes = 100;
            return again;
        }(),
        out);
    EXPECT_EQ(text(out.packets.at(0).packet), error(Errc::AlreadyExists) + "#3");
    while (registry.has_endings()) {
        registry.continue_endings(out);
    }
    take();
    EXPECT_EQ(registry.totals().capsules, 0U);
}

class LingerResumeTest : public LingerTest {
  protected:
    LingerResumeTest() : LingerTest(kWindowEnd) {}

    SessionNumber resume(std::uint32_t uid, std::uint8_t id) {
        const SessionNumber number{next_session++};
        EXPECT_TRUE(registry.open_session(number, {uid, uid, 1, uid == 0, id16(id), {}, true}).has_value());
        return number;
    }
    Words claim(SessionNumber from, std::uint64_t request, std::uint8_t capsule, std::uint64_t lease,
                wire::Claims::State state) {
        registry.claim(from, request, {{{{kAlice, id16(capsule)}, lease, state}}}, out);
        return take();
    }
};

TEST_F(LingerResumeTest, OneThatCameBackAndLostItsProducerAgainTellsNobody) {
    const auto p = resume(kAlice, 100);
    offer(p, 1, 1, "a", 500);
    end(p);
    const auto c = resume(kAlice, 101);
    EXPECT_EQ(claim(c, 2, 1, 7, wire::Claims::State::Held), Words{"2:Done#2"});  // and no ProducerLost
    EXPECT_EQ(attach(c, 3, by_name(8, "a")), Words{"2:AttachReply(1)#3"});
}

TEST_F(LingerResumeTest, AReleaseBeforeItsProducerIsBackIsKeptLikeAClaim) {
    const auto p = resume(kAlice, 100);
    offer(p, 1, 1, "a", 500);
    end(p);
    const auto c = resume(kAlice, 101);
    EXPECT_EQ(claim(c, 2, 1, 7, wire::Claims::State::Released), Words{});
    const auto next = resume(kAlice, 102);
    EXPECT_EQ(offer(next, 3, 1, "a", 500), (Words{"3:PublishReply=500#3", "3:Released(1 lease 7 left 0)", "2:Done#2"}));
    EXPECT_EQ(expire(kWindowEnd), Words{"3:WindowClosed(1)"});  // of before: the window's end brings the list
}

}  // namespace
}  // namespace hurrayd
