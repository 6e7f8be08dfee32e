#include "daemon/outbound.hpp"

#include <array>
#include <chrono>
#include <cstdio>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "proto/wire/codec.hpp"

// The order of what is sent, on real sockets without a loop: a test says itself when a socket has room again.

namespace hurrayd {
namespace {

namespace wire = hurray::wire;
using hurray::UniqueFd;

class OutboundTest : public testing::Test, protected Outbound::Listener {
  protected:
    Closer closer{[](std::uint64_t) {}};
    SegmentTable segments{closer};
    Outbound outbound{segments, *this};
    std::chrono::steady_clock::time_point now;  ///< of the test alone
    Outbox out;
    std::vector<std::uint64_t> wanted_writable;
    std::vector<std::pair<std::uint64_t, std::string>> broken_sessions;

    void want_writable(SessionNumber session) override { wanted_writable.push_back(session.value); }
    void broken(SessionNumber session, std::string_view reason) override {
        broken_sessions.emplace_back(session.value, reason);
    }
    void keeps(SessionNumber session, std::size_t bytes) override { kept_bytes[session.value] = bytes; }
    [[nodiscard]] bool is_user_full(SessionNumber session) const override { return full_users.contains(session.value); }
    void unheard(const wire::CapsuleId& capsule) override {
        EXPECT_EQ(capsule.uid, 7U);
        ++told_unheard;
    }
    int told_unheard = 0;
    std::map<std::uint64_t, std::size_t> kept_bytes;
    std::set<std::uint64_t> full_users;

    struct Ends {
        UniqueFd daemon;
        UniqueFd peer;
    };
    std::array<Ends, 4> ends;

    SessionNumber add(std::size_t n) {
        std::array<int, 2> pair{};
        EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair.data()), 0);
        ends.at(n) = {UniqueFd(pair[0]), UniqueFd(pair[1])};
        outbound.add({n}, pair[0]);
        return {n};
    }

    /// The request ids that have arrived at a peer, in order.
    std::vector<std::uint64_t> arrived(SessionNumber session) {
        std::vector<std::uint64_t> ids;
        std::array<std::byte, wire::kMaxPacketBytes> buffer;
        for (;;) {
            auto received = wire::receive_packet(ends.at(session.value).peer.get(), buffer);
            if (!received || received->kind != wire::Received::Kind::Packet) {
                return ids;
            }
            const auto packet = wire::decode_packet(std::span(buffer).first(received->size), received->fds.size());
            EXPECT_TRUE(packet.has_value());
            ids.push_back(packet->request_id);
            last_fds = std::move(received->fds);
        }
    }

    void send(SessionNumber to, std::uint64_t id) {
        out.send(to, id, wire::PublishReply{id});
        outbound.deliver(out);
    }

    /// Fills a session's socket, with packets numbered from 1000; their number.
    std::uint64_t fill(SessionNumber session) {
        std::uint64_t id = 1000;
        while (outbound.idle(session)) {
            send(session, id++);
        }
        wanted_writable.clear();
        return id - 1000;
    }
    /// The patience goes by.
    void wait() {
        outbound.cut_stalled(now);
        now += std::chrono::seconds(2);
        outbound.cut_stalled(now);
    }
    using Broken = std::vector<std::pair<std::uint64_t, std::string>>;

    /// Reads what is there, tells that there is room, and reads what came then: only ids below 1000.
    std::vector<std::uint64_t> drain(SessionNumber session) {
        std::vector<std::uint64_t> ids = arrived(session);
        outbound.writable(session);
        for (const std::uint64_t id : arrived(session)) {
            ids.push_back(id);
        }
        std::erase_if(ids, [](std::uint64_t id) { return id >= 1000; });
        return ids;
    }

    std::vector<UniqueFd> last_fds;
};

using Ids = std::vector<std::uint64_t>;

TEST_F(OutboundTest, SendsAtOnceWhatCanBeSent) {
    const auto a = add(1);
    out.send(a, 1, wire::Done{});
    out.send(a, 2, wire::Done{});
    outbound.deliver(out);
    EXPECT_TRUE(out.packets.empty());
    EXPECT_TRUE(outbound.idle(a));
    EXPECT_EQ(arrived(a), (Ids{1, 2}));
}

/// What a burst of attaches sets off: of each, first the producer is told, then the consumer is granted.
void put_attaches(Outbox& out, SessionNumber producer, SessionNumber consumer, std::uint64_t count,
                  const std::vector<SegmentNumber>& segments) {
    for (std::uint64_t id = 1; id <= count; ++id) {
        const std::size_t opened = out.packets.size();
        out.send(producer, id, wire::PublishReply{});
        wire::AttachReply grant;
        for (const SegmentNumber segment : segments) {
            grant.segments.push_back({segment.value, true, wire::Memory::Reusable, 4096, 0});
        }
        out.send_after(opened, consumer, id, std::move(grant));
    }
}

TEST_F(OutboundTest, WhatABurstSetsOffArrivesInOrderAtEach) {
    const auto producer = add(1);
    const auto consumer = add(2);
    const auto other = add(3);
    put_attaches(out, producer, consumer, 40, {});
    out.send(other, 41, wire::Done{});
    put_attaches(out, other, consumer, 2, {});
    outbound.deliver(out);
    Ids expected;
    for (std::uint64_t id = 1; id <= 40; ++id) {
        expected.push_back(id);
    }
    EXPECT_EQ(arrived(producer), expected);
    EXPECT_EQ(arrived(other), (Ids{41, 1, 2}));
    expected.insert(expected.end(), {1, 2});
    EXPECT_EQ(arrived(consumer), expected);
}

// The run of a consumer must not carry a grant past the news of it that has no room.
TEST_F(OutboundTest, NoGrantOfABurstPassesWhatItMustFollow) {
    const auto producer = add(1);
    const auto consumer = add(2);
    const auto other = add(3);
    fill(producer);
    put_attaches(out, other, consumer, 2, {});
    put_attaches(out, producer, consumer, 3, {});
    put_attaches(out, other, consumer, 2, {});
    outbound.deliver(out);
    EXPECT_EQ(arrived(other), (Ids{1, 2, 1, 2}));
    EXPECT_EQ(arrived(consumer), (Ids{1, 2, 1, 2}));  // those of the other one
    EXPECT_EQ(drain(producer), (Ids{1, 2, 3}));
    EXPECT_EQ(arrived(consumer), (Ids{1, 2, 3}));
}

// Nor a packet that comes behind all that another session was sent, of which some is still before it in the outbox.
TEST_F(OutboundTest, WhatComesBehindAnotherSessionIsNotCarriedForward) {
    const auto producer = add(1);
    const auto consumer = add(2);
    const auto filled = fill(producer);
    for (std::uint64_t read = 0; read + 1 < filled; ++read) {  // room for a few
        std::array<std::byte, wire::kMaxPacketBytes> buffer;
        (void)wire::receive_packet(ends.at(1).peer.get(), buffer);
    }
    outbound.writable(producer);
    (void)arrived(producer);
    fill(producer);
    out.send(consumer, 1, wire::Done{});
    out.send(producer, 2, wire::PublishReply{});
    out.send_behind(producer, consumer, 3, wire::PublishReply{});
    out.send(consumer, 4, wire::PublishReply{});
    outbound.deliver(out);
    EXPECT_EQ(arrived(consumer), (Ids{1}));
    EXPECT_EQ(drain(producer), (Ids{2}));
    EXPECT_EQ(arrived(consumer), (Ids{3, 4}));
}

// "The job is yours" must not go out if its producer, who never heard of it, is cut off and may give it to somebody else.
TEST_F(OutboundTest, AcknowledgementOfWhatIsNeverHeardIsReplaced) {
    const auto confirm = [this](SessionNumber producer, SessionNumber taker, std::uint64_t id) {
        const std::size_t told = out.packets.size();
        out.send(producer, id, wire::PublishReply{});
        out.send_after(told, taker, id, wire::Done{});
        out.or_if_unheard(hurray::Error{hurray::Errc::ProducerLost, "unheard"}, {7, {}});
    };
    const auto answers = [this](SessionNumber taker) {  // whether each is the acknowledgement
        std::vector<std::pair<std::uint64_t, bool>> answers;
        std::array<std::byte, wire::kMaxPacketBytes> buffer;
        for (;;) {
            const auto received = wire::receive_packet(ends.at(taker.value).peer.get(), buffer);
            if (!received || received->kind != wire::Received::Kind::Packet) {
                return answers;
            }
            const auto packet = wire::decode_packet(std::span(buffer).first(received->size), 0);
            answers.emplace_back(packet->request_id, std::holds_alternative<wire::Done>(packet->message));
        }
    };
    using Answers = std::vector<std::pair<std::uint64_t, bool>>;
    const auto producer = add(1);
    const auto taker = add(2);
    confirm(producer, taker, 1);
    outbound.deliver(out);
    EXPECT_EQ(answers(taker), (Answers{{1, true}}));

    // In time: it reads after all.
    (void)arrived(producer);
    fill(producer);
    confirm(producer, taker, 2);
    confirm(producer, taker, 3);
    outbound.deliver(out);
    EXPECT_EQ(answers(taker), Answers{});
    EXPECT_EQ(drain(producer), (Ids{2, 3}));
    EXPECT_EQ(answers(taker), (Answers{{2, true}, {3, true}}));

    // It never does. What comes after the cut and before its end is not heard either.
    fill(producer);
    confirm(producer, taker, 4);
    outbound.deliver(out);
    wait();
    EXPECT_EQ(broken_sessions, (Broken{{1, "holds others up"}}));
    EXPECT_EQ(answers(taker), (Answers{{4, false}}));
    confirm(producer, taker, 5);
    confirm(producer, taker, 6);
    out.send_behind(producer, taker, 7, wire::Done{});
    out.or_if_unheard(hurray::Error{hurray::Errc::ProducerLost, "unheard"}, {7, {}});
    outbound.deliver(out);
    EXPECT_EQ(answers(taker), (Answers{{5, false}, {6, false}, {7, false}}));
    EXPECT_EQ(told_unheard, 4);

    // It leaves: with what is in its socket, which counts as heard, and without what is not.
    const auto other = add(3);
    confirm(other, taker, 8);
    outbound.deliver(out);
    fill(other);
    confirm(other, taker, 9);
    outbound.deliver(out);
    outbound.remove(other);
    EXPECT_EQ(answers(taker), (Answers{{8, true}, {9, false}}));
    EXPECT_EQ(told_unheard, 5);
}

TEST_F(OutboundTest, ABurstBringsWhoKeepsSegmentsEachDescriptorOnce) {
    const auto producer = add(1);
    const auto consumer = add(2);
    outbound.keep_segments(consumer);
    const SegmentNumber segment = segments.add(UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC)), 4096);
    put_attaches(out, producer, consumer, 5, {segment});
    // In the middle it says that it unmaps it: what comes before has been sent as if it had not.
    out.forgotten.push_back({6, consumer, segment});
    outbound.deliver(out);
    std::vector<std::size_t> fds;
    std::array<std::byte, wire::kMaxPacketBytes> buffer;
    for (auto received = wire::receive_packet(ends.at(2).peer.get(), buffer);
         received && received->kind == wire::Received::Kind::Packet;
         received = wire::receive_packet(ends.at(2).peer.get(), buffer)) {
        fds.push_back(received->fds.size());
    }
    EXPECT_EQ(fds, (std::vector<std::size_t>{1, 0, 0, 1, 0}));
    out.dropped.push_back(segment);
    outbound.deliver(out);
    EXPECT_EQ(segments.size(), 0u);
}

TEST_F(OutboundTest, QueuesWhatTheSocketHasNoRoomForAndKeepsTheOrder) {
    const auto a = add(1);
    fill(a);
    send(a, 1);
    send(a, 2);
    EXPECT_FALSE(outbound.idle(a));
    EXPECT_EQ(drain(a), (Ids{1, 2}));
    EXPECT_TRUE(outbound.idle(a));
}

TEST_F(OutboundTest, RunThatTheSocketTakesOnlyInPartKeepsItsOrder) {
    // The last of each step may find no room. How many do, is the kernel's: so steps of all lengths.
    const auto a = add(1);
    for (std::uint64_t length = 2; length <= 20; ++length) {
        Ids expected;
        while (outbound.idle(a)) {
            for (std::uint64_t i = 0; i < length; ++i) {
                expected.push_back(expected.size() + 1);
                out.send(a, expected.back(), wire::PublishReply{1});
            }
            outbound.deliver(out);
        }
        Ids got = arrived(a);
        outbound.writable(a);
        for (const std::uint64_t id : arrived(a)) {
            got.push_back(id);
        }
        EXPECT_EQ(got, expected);
        EXPECT_TRUE(outbound.idle(a));
    }
}

TEST_F(OutboundTest, AsksOnceForRoom) {
    const auto a = add(1);
    while (outbound.idle(a)) {
        send(a, 1000);
    }
    send(a, 1);
    EXPECT_EQ(wanted_writable, (Ids{1}));
}

TEST_F(OutboundTest, GrantWaitsUntilItsProducerHasBeenTold) {
    const auto producer = add(1);
    const auto consumer = add(2);
    fill(producer);
    out.send(producer, 1, wire::PublishReply{});
    out.send_after(0, consumer, 2, wire::AttachReply{});
    outbound.deliver(out);
    EXPECT_EQ(arrived(consumer), Ids{});
    EXPECT_EQ(drain(producer), (Ids{1}));
    EXPECT_EQ(arrived(consumer), (Ids{2}));
    EXPECT_TRUE(outbound.idle(consumer));
}

TEST_F(OutboundTest, WaitingGrantLetsLaterPacketsPass) {
    const auto producer = add(1);
    const auto consumer = add(2);
    fill(producer);
    out.send(producer, 1, wire::PublishReply{});
    out.send_after(0, consumer, 2, wire::AttachReply{});
    outbound.deliver(out);
    send(consumer, 3);
    EXPECT_EQ(arrived(consumer), (Ids{3}));
    drain(producer);
    EXPECT_EQ(arrived(consumer), (Ids{2}));
}

TEST_F(OutboundTest, WaitingAnswerOfAPublishLetsNothingPass) {
    const auto old_producer = add(1);
    const auto producer = add(2);
    fill(old_producer);
    out.send(old_producer, 1, wire::Retired{});
    out.packets.back().packet.request_id = 0;
    out.send_after(0, producer, 2, wire::PublishReply{});
    outbound.deliver(out);
    send(producer, 3);  // such as: a lease on the new capsule was opened
    EXPECT_EQ(arrived(producer), Ids{});
    drain(old_producer);
    EXPECT_EQ(arrived(producer), (Ids{2, 3}));
}

TEST_F(OutboundTest, ReleaseIsAcknowledgedAfterAllProducersAndTheyDoNotWaitForEachOther) {
    const auto p1 = add(1);
    const auto p2 = add(2);
    const auto consumer = add(3);
    fill(p1);
    out.send(p1, 1, wire::PublishReply{});
    out.send(p2, 2, wire::PublishReply{});
    out.send_after(0, consumer, 3, wire::Done{});
    outbound.deliver(out);
    EXPECT_EQ(arrived(p2), (Ids{2}));
    EXPECT_EQ(arrived(consumer), Ids{});
    drain(p1);
    EXPECT_EQ(arrived(consumer), (Ids{3}));
}

TEST_F(OutboundTest, NobodyWaitsForASessionThatIsGone) {
    const auto producer = add(1);
    const auto consumer = add(2);
    fill(producer);
    out.send(producer, 1, wire::PublishReply{});
    out.send_after(0, consumer, 2, wire::AttachReply{});
    outbound.deliver(out);
    outbound.remove(producer);
    EXPECT_EQ(arrived(consumer), (Ids{2}));
    out.send(producer, 3, wire::PublishReply{});
    out.send_after(0, consumer, 4, wire::Done{});
    outbound.deliver(out);
    EXPECT_EQ(arrived(consumer), (Ids{4}));
}

TEST_F(OutboundTest, PeerThatLeftIsNotToldToTheListenerAndHoldsNobodyUp) {
    const auto producer = add(1);
    const auto consumer = add(2);
    fill(producer);
    out.send(producer, 1, wire::PublishReply{});
    out.send_after(0, consumer, 2, wire::AttachReply{});
    outbound.deliver(out);
    ends[1].peer.reset();
    outbound.writable(producer);
    EXPECT_EQ(arrived(consumer), (Ids{2}));
    EXPECT_TRUE(broken_sessions.empty()) << "what it had sent may still be read";
}

TEST_F(OutboundTest, SlowReaderIsBrokenOffAfterAWhileAndItsSegmentsAreLetGo) {
    const auto reader = add(1);
    const auto other = add(2);
    const SegmentNumber segment = segments.add(UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC)), 4096);
    wire::AttachReply grant;
    grant.segments = {{segment.value, true, wire::Memory::Reusable, 4096, 0}};
    for (int i = 0; i < 5000; ++i) {
        out.send(reader, 5, grant);
        outbound.deliver(out);
    }
    wait();
    EXPECT_EQ(broken_sessions, (Broken{{1, "slow reader"}}));
    EXPECT_FALSE(outbound.has_refused());
    out.dropped.push_back(segment);
    outbound.deliver(out);
    EXPECT_EQ(segments.size(), 0u);
    send(other, 1);
    EXPECT_EQ(arrived(other), (Ids{1}));
}

// A client of many leases died, and its reading producer was cut for what that one step sent it.
TEST_F(OutboundTest, ReaderIsNotCutForWhatOneStepSetOff) {
    const auto reader = add(1);
    for (std::uint64_t id = 1; id <= 10'000; ++id) {
        out.send(reader, id, wire::PublishReply{id});
    }
    outbound.deliver(out);
    EXPECT_TRUE(outbound.has_owing());
    std::uint64_t last = 0;
    while (last < 10'000) {
        const Ids ids = arrived(reader);
        ASSERT_FALSE(ids.empty());
        for (const std::uint64_t id : ids) {
            ASSERT_EQ(id, ++last);
        }
        outbound.cut_stalled(now += std::chrono::seconds(1));
        outbound.writable(reader);
    }
    EXPECT_EQ(broken_sessions, Broken{});
    outbound.cut_stalled(now);
    EXPECT_FALSE(outbound.has_owing());
}

// The kernel says "writable" at three quarters read; one packet read in the patience is enough to be spared.
TEST_F(OutboundTest, WhoReadsALittleIsNotCut) {
    const auto reader = add(1);
    for (std::uint64_t id = 1; id <= 5000; ++id) {
        out.send(reader, id, wire::PublishReply{id});
    }
    outbound.deliver(out);
    std::array<std::byte, wire::kMaxPacketBytes> buffer;
    for (int i = 0; i < 10; ++i) {
        ASSERT_TRUE(wire::receive_packet(ends[1].peer.get(), buffer).has_value());
        wait();
        ASSERT_EQ(broken_sessions, Broken{});
    }
    wait();
    wait();
    EXPECT_EQ(broken_sessions, (Broken{{1, "slow reader"}}));
}

TEST_F(OutboundTest, WhoKeepsOthersWaitingAndReadsNothingIsCut) {
    const auto producer = add(1);
    const auto consumer = add(2);
    fill(producer);
    wait();
    EXPECT_EQ(broken_sessions, Broken{}) << "nobody waits for it";
    out.send(producer, 1, wire::PublishReply{});
    out.send_after(0, consumer, 2, wire::AttachReply{});
    outbound.deliver(out);
    outbound.cut_stalled(now);
    outbound.cut_stalled(now + std::chrono::milliseconds(1999));
    EXPECT_EQ(broken_sessions, Broken{});
    outbound.cut_stalled(now + std::chrono::milliseconds(2000));
    EXPECT_EQ(broken_sessions, (Broken{{1, "holds others up"}}));
    EXPECT_EQ(arrived(consumer), (Ids{2}));
}

TEST_F(OutboundTest, NobodyIsCutForAConsumerThatIsGone) {
    const auto producer = add(1);
    const auto consumer = add(2);
    fill(producer);
    out.send(producer, 1, wire::PublishReply{});
    out.send_after(0, consumer, 2, wire::AttachReply{});
    outbound.deliver(out);
    outbound.remove(consumer);
    wait();
    EXPECT_EQ(broken_sessions, Broken{});
    EXPECT_FALSE(outbound.has_owing());
}

// B took over the name of A, which was stopped. B's answer waited for A for ever, and when enough was queued behind it, it
// was B that was cut.
TEST_F(OutboundTest, WhoWaitsForAnotherIsNotChargedForIt) {
    const auto a = add(1);
    const auto b = add(2);
    const auto c = add(3);
    fill(a);
    out.send(a, 1, wire::Retired{});
    out.packets.back().packet.request_id = 0;
    out.send_after(0, b, 2, wire::PublishReply{});
    out.send(b, 3, wire::PublishReply{});
    out.send_after(2, c, 4, wire::AttachReply{});  // C waits for B, which waits for A
    for (std::uint64_t id = 1000; id < 7000; ++id) {
        out.send(b, id, wire::PublishReply{});
    }
    outbound.deliver(out);
    wait();
    EXPECT_EQ(broken_sessions, (Broken{{1, "holds others up"}}));
    EXPECT_EQ(arrived(c), (Ids{4}));
    const Ids ids = drain(b);
    EXPECT_EQ(ids, (Ids{2, 3}));
}

TEST_F(OutboundTest, WhatWaitsForAnotherIsBoundedToo) {
    Outbound small(segments, *this, {.most_bytes = 100'000});
    const auto a = add(1);
    const auto b = add(2);
    small.add(a, ends[1].daemon.get());
    small.add(b, ends[2].daemon.get());
    while (small.idle(a)) {
        out.send(a, 1, wire::PublishReply{});
        small.deliver(out);
    }
    for (std::uint64_t id = 1; id <= 20'000 && broken_sessions.empty(); ++id) {
        const std::size_t first = out.packets.size();
        out.send(a, 1, wire::Done{});
        out.send_after(first, b, id, wire::AttachReply{});
        small.deliver(out);
    }
    // Whoever asked for it all is cut, and not whom it waits for, who may just be busy.
    EXPECT_EQ(broken_sessions, (Broken{{2, "asks more than is read by whom it waits for"}}));
    broken_sessions.clear();

    // What it did not ask for is not charged to it.
    const auto c = add(3);
    small.add(c, ends[3].daemon.get());
    std::size_t first = out.packets.size();
    out.send(a, 1, wire::Done{});
    out.send_after(first, c, 2, wire::PublishReply{});
    for (std::uint64_t id = 1; id <= 20'000 && broken_sessions.empty(); ++id) {
        out.send(c, 0, wire::Retired{});
        small.deliver(out);
    }
    EXPECT_EQ(broken_sessions, (Broken{{1, "holds others up"}}));
}

TEST_F(OutboundTest, PacketBehindAnotherSessionWaitsForAllThatItWasSent) {
    const auto producer = add(1);
    const auto consumer = add(2);
    fill(producer);
    out.send_behind(producer, consumer, 1, wire::AttachReply{});
    outbound.deliver(out);
    EXPECT_EQ(arrived(consumer), Ids{});
    drain(producer);
    EXPECT_EQ(arrived(consumer), (Ids{1}));
    out.send_behind(producer, consumer, 2, wire::AttachReply{});
    outbound.deliver(out);
    EXPECT_EQ(arrived(consumer), (Ids{2}));
}

// Descriptors that nobody receives count against the daemon's user, so one client that does not read could use up what
// there is for all.
TEST_F(OutboundTest, UnreadDescriptorsAreBoundedForEachSessionAndLetOtherPacketsPass) {
    const auto reader = add(1);
    wire::AttachReply grant;
    std::vector<SegmentNumber> kept;
    for (int i = 0; i < 100; ++i) {
        kept.push_back(segments.add(UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC)), 4096));
        grant.segments.push_back({kept.back().value, true, wire::Memory::Reusable, 4096, 0});
    }
    for (std::uint64_t id = 1; id <= 4; ++id) {
        out.send(reader, id, grant);
    }
    out.send(reader, 5, wire::PublishReply{});
    outbound.deliver(out);
    EXPECT_TRUE(outbound.has_refused());
    outbound.spoke(reader);  // which is no sign that it has read
    EXPECT_EQ(arrived(reader), (Ids{1, 2, 5}));
    outbound.spoke(reader);
    EXPECT_EQ(arrived(reader), (Ids{3, 4}));
    EXPECT_FALSE(outbound.has_refused());
    EXPECT_TRUE(outbound.idle(reader));
    out.dropped = kept;
    outbound.deliver(out);
    EXPECT_EQ(segments.size(), 0u);
}

// Two of them could keep the kernel's limit for the daemon's user, and everybody's grants with it.
class CrowdedOutboundTest : public OutboundTest {
  protected:
    CrowdedOutboundTest() {
        for (const std::uint64_t n : {1, 2, 3}) {
            outbound_.add({n}, open(n));
        }
    }
    int open(std::size_t n) {
        std::array<int, 2> pair{};
        EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair.data()), 0);
        ends.at(n) = {UniqueFd(pair[0]), UniqueFd(pair[1])};
        return pair[0];
    }
    void grant(SessionNumber to, std::uint64_t id) {
        wire::AttachReply reply;
        reply.segments = {{segment.value, true, wire::Memory::Reusable, 4096, 0}};
        out.send(to, id, std::move(reply));
        outbound_.deliver(out);
    }
    void wait_and_retry() {
        outbound_.cut_stalled(now);
        now += std::chrono::seconds(2);
        outbound_.retry_refused();
        outbound_.cut_stalled(now);
    }
    Outbound outbound_{segments, *this, {.unread_fds = 256, .all_unread_fds = 10}};
    SegmentNumber segment = segments.add(UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC)), 4096);
};

TEST_F(CrowdedOutboundTest, UnreadDescriptorsAreBoundedOverAllSessions) {
    for (std::uint64_t id = 1; id <= 10; ++id) {
        grant({1 + id % 2}, id);
    }
    grant({3}, 11);
    EXPECT_TRUE(outbound_.has_refused());
    EXPECT_EQ(arrived({3}), Ids{});
    EXPECT_EQ(arrived({1}), (Ids{2, 4, 6, 8, 10}));
    outbound_.retry_refused();
    EXPECT_EQ(arrived({3}), (Ids{11})) << "somebody has read, though not the one that waits";
    EXPECT_FALSE(outbound_.has_refused());
}

TEST_F(CrowdedOutboundTest, WhoHasReadIsNotCountedEvenIfNobodyLooked) {
    for (std::uint64_t id = 1; id <= 100; ++id) {
        grant({1}, id);
        EXPECT_EQ(arrived({1}), (Ids{id}));
    }
    EXPECT_FALSE(outbound_.has_refused());
}

TEST_F(CrowdedOutboundTest, WhoeverHasTheMostUnreadIsCutWhenOthersWaitForIt) {
    for (std::uint64_t id = 1; id <= 7; ++id) {
        grant({1}, id);
    }
    for (std::uint64_t id = 8; id <= 10; ++id) {
        grant({2}, id);
    }
    wait_and_retry();
    EXPECT_EQ(broken_sessions, Broken{}) << "nobody waits";
    grant({3}, 11);
    EXPECT_TRUE(outbound_.has_owing());
    wait_and_retry();
    EXPECT_EQ(broken_sessions, (Broken{{1, "leaves descriptors unread for which others wait"}}));
    outbound_.remove({1});
    outbound_.retry_refused();
    EXPECT_EQ(arrived({3}), (Ids{11}));
    wait_and_retry();
    EXPECT_EQ(broken_sessions.size(), 1U);
    EXPECT_FALSE(outbound_.has_owing());
}

TEST_F(CrowdedOutboundTest, WhoReadsIsNotCutForWhatItHasStillUnread) {
    for (std::uint64_t id = 1; id <= 10; ++id) {
        grant({1}, id);
    }
    grant({3}, 11);
    outbound_.cut_stalled(now);
    for (int i = 0; i < 5; ++i) {
        now += std::chrono::seconds(2);
        std::array<std::byte, 4096> buffer;
        ASSERT_TRUE(wire::receive_packet(ends.at(1).peer.get(), buffer));
        outbound_.cut_stalled(now);
    }
    EXPECT_EQ(broken_sessions, Broken{});
}

// It had read all that it was sent, and was cut for what others kept from it.
TEST_F(CrowdedOutboundTest, WhoHasReadAllIsNotCutForWhatIsKeptFromIt) {
    Outbound strict(segments, *this, {.packets = 5, .unread_fds = 256, .all_unread_fds = 10});
    for (const std::uint64_t n : {1, 3}) {
        strict.add({n}, ends.at(n).daemon.get());
    }
    const auto grant_to = [&](SessionNumber to, std::uint64_t id) {
        wire::AttachReply reply;
        reply.segments = {{segment.value, true, wire::Memory::Reusable, 4096, 0}};
        out.send(to, id, std::move(reply));
        strict.deliver(out);
    };
    for (std::uint64_t id = 1; id <= 10; ++id) {
        grant_to({1}, id);
    }
    for (std::uint64_t id = 11; id <= 20; ++id) {
        grant_to({3}, id);
    }
    EXPECT_TRUE(strict.has_refused());
    EXPECT_EQ(arrived({3}), Ids{});
    strict.cut_stalled(now);
    now += std::chrono::seconds(2);
    strict.retry_refused();
    strict.cut_stalled(now);
    EXPECT_EQ(broken_sessions, (Broken{{1, "leaves descriptors unread for which others wait"}}));
    strict.remove({1});
    strict.retry_refused();
    EXPECT_EQ(arrived({3}), (Ids{11, 12, 13, 14, 15, 16, 17, 18, 19, 20}));
}

// Its user had memory left for it to fill, or did not.
TEST_F(OutboundTest, WithAUserThatCostsTooMuchThereIsNoPatience) {
    Outbound strict(segments, *this, {.packets = 5});
    const auto reader = add(1);
    strict.add(reader, ends[1].daemon.get());
    const auto send_one = [&] {
        out.send(reader, 1, wire::PublishReply{});
        strict.deliver(out);
    };
    while (strict.idle(reader)) {
        send_one();
    }
    full_users = {1};
    for (int i = 0; i < 4; ++i) {
        send_one();
    }
    EXPECT_EQ(broken_sessions, Broken{}) << "as much as that everybody may have";
    send_one();
    EXPECT_EQ(broken_sessions, (Broken{{1, "slow reader"}}));
    EXPECT_EQ(kept_bytes[1], 0u);
}

TEST_F(OutboundTest, TellsWhatItKeepsForEach) {
    const auto a = add(1);
    fill(a);
    const std::size_t one = kept_bytes[1];
    EXPECT_GT(one, 0u);
    send(a, 2);
    EXPECT_GT(kept_bytes[1], one);
    EXPECT_FALSE(kept_bytes.contains(2));
    drain(a);
    EXPECT_TRUE(outbound.idle(a));
    EXPECT_EQ(kept_bytes[1], 0u);
}

TEST_F(CrowdedOutboundTest, AGrantOfMoreThanAllMayHaveGoesAlone) {
    wire::AttachReply reply;
    for (int i = 0; i < 20; ++i) {
        const SegmentNumber each = segments.add(UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC)), 4096);
        reply.segments.push_back({each.value, true, wire::Memory::Reusable, 4096, 0});
    }
    out.send({1}, 1, std::move(reply));
    outbound_.deliver(out);
    EXPECT_EQ(arrived({1}), (Ids{1}));
    EXPECT_EQ(last_fds.size(), 20U);
}

TEST_F(OutboundTest, QueuedDescriptorsOutliveTheirCapsule) {
    const auto a = add(1);
    fill(a);
    const SegmentNumber segment = segments.add(UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC)), 4096);
    wire::AttachReply grant;
    grant.segments = {{segment.value, true, wire::Memory::Reusable, 4096, 0}};
    out.send(a, 1, grant);
    out.dropped.push_back(segment);
    outbound.deliver(out);
    EXPECT_EQ(segments.size(), 1u);
    EXPECT_EQ(drain(a), (Ids{1}));
    EXPECT_EQ(last_fds.size(), 1u);
    EXPECT_EQ(segments.size(), 0u);
}

// ---- Several packets in one ----

/// A session that understands that.
class BundlingOutboundTest : public OutboundTest {
  protected:
    const SessionNumber reader = add(1);
    void SetUp() override { outbound.take_bundles(reader); }

    /// The request ids that have arrived, those that came in one together.
    std::vector<std::vector<std::uint64_t>> bundles(SessionNumber session) {
        std::vector<std::vector<std::uint64_t>> all;
        std::array<std::byte, wire::kMaxPacketBytes> buffer;
        for (;;) {
            auto received = wire::receive_packet(ends.at(session.value).peer.get(), buffer);
            if (!received || received->kind != wire::Received::Kind::Packet) {
                return all;
            }
            const auto bytes = std::span(buffer).first(received->size);
            all.push_back({wire::decode_packet(bytes, received->fds.size())->request_id});
            const auto more = wire::more_in(bytes);
            for (const std::string_view each : more.value()) {
                all.back().push_back(wire::decode_packet(std::as_bytes(std::span(each)), 0)->request_id);
            }
        }
    }
    using Bundles = std::vector<std::vector<std::uint64_t>>;
};

TEST_F(BundlingOutboundTest, WhatGoesToItTogetherComesInOne) {
    const auto other = add(2);
    for (const SessionNumber to : {reader, other}) {
        out.send(to, 1, wire::PublishReply{});
        out.send(to, 2, wire::Done{});
    }
    out.send(reader, 3, wire::Done{});
    outbound.deliver(out);
    EXPECT_EQ(bundles(reader), (Bundles{{1, 2, 3}}));
    EXPECT_EQ(bundles(other), (Bundles{{1}, {2}})) << "it did not ask for that";
    send(reader, 4);
    EXPECT_EQ(bundles(reader), (Bundles{{4}}));
}

TEST_F(BundlingOutboundTest, TheAnswerToHelloComesAlone) {
    out.send(reader, 1, wire::HelloReply{1, {}, {}, 0});
    out.send(reader, 2, wire::Done{});
    out.send(reader, 3, wire::Done{});
    outbound.deliver(out);
    EXPECT_EQ(bundles(reader), (Bundles{{1}, {2, 3}}));
}

TEST_F(BundlingOutboundTest, DescriptorsBelongToTheFirstOfABundle) {
    const SegmentNumber segment = segments.add(UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC)), 4096);
    wire::AttachReply grant;
    grant.segments = {{segment.value, true, wire::Memory::Reusable, 4096, 0}};
    out.send(reader, 1, wire::Done{});
    out.send(reader, 2, grant);
    out.send(reader, 3, wire::Done{});
    out.send(reader, 4, grant);
    outbound.deliver(out);
    EXPECT_EQ(bundles(reader), (Bundles{{1}, {2, 3}, {4}}));
}

TEST_F(BundlingOutboundTest, ABundleIsNoLongerThanASocketTakesSoon) {
    const std::vector<std::uint64_t> numbers(700, UINT64_MAX);  // of ten bytes each
    for (int i = 0; i < 5; ++i) {
        out.send(reader, 0, wire::SegmentsGone{numbers});
    }
    outbound.deliver(out);
    EXPECT_EQ(bundles(reader), (Bundles{{0, 0}, {0, 0}, {0}}));
}

TEST_F(BundlingOutboundTest, WhatASocketDoesNotTakeComesLaterAndOnce) {
    const std::uint64_t before = fill(reader);
    for (std::uint64_t id = 1; id <= 3; ++id) {
        out.send(reader, id, wire::Done{});
    }
    outbound.deliver(out);
    EXPECT_EQ(drain(reader), (std::vector<std::uint64_t>{1, 2, 3})) << "behind " << before;
    out.send(reader, 4, wire::Done{});
    out.send(reader, 5, wire::Done{});
    outbound.deliver(out);
    EXPECT_EQ(bundles(reader), (Bundles{{4, 5}}));
}

/// A session that keeps segments, and one segment that is in use.
class KeepingOutboundTest : public OutboundTest {
  protected:
    const SessionNumber keeper = add(1);
    const SegmentNumber segment = segments.add(UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC)), 4096);

    void SetUp() override { outbound.keep_segments(keeper); }

    void grant(SessionNumber to, std::uint64_t id) {
        wire::AttachReply reply;
        reply.segments = {{segment.value, true, wire::Memory::Reusable, 4096, 0}};
        out.send(to, id, std::move(reply));
        outbound.deliver(out);
    }
    /// How many descriptors the packet `id` brought, which is the only one that has arrived.
    std::size_t fds_of(SessionNumber session, std::uint64_t id) {
        EXPECT_EQ(arrived(session), Ids{id});
        return last_fds.size();
    }
    void end_segment() {
        out.dropped.push_back(segment);
        outbound.deliver(out);
    }
};

TEST_F(KeepingOutboundTest, IsSentEachDescriptorOnce) {
    grant(keeper, 1);
    EXPECT_EQ(fds_of(keeper, 1), 1u);
    grant(keeper, 2);
    EXPECT_EQ(fds_of(keeper, 2), 0u);
}

TEST_F(KeepingOutboundTest, OthersAreSentAllOfThemEachTime) {
    const auto other = add(2);
    grant(keeper, 1);
    for (const std::uint64_t id : {2, 3}) {
        grant(other, id);
        EXPECT_EQ(fds_of(other, id), 1u);
    }
}

TEST_F(KeepingOutboundTest, IsSentWhatItHasDroppedAgain) {
    grant(keeper, 1);
    EXPECT_EQ(fds_of(keeper, 1), 1u);
    out.forgotten.push_back({0, keeper, segment});
    out.send(keeper, 2, wire::Done{});
    outbound.deliver(out);
    EXPECT_EQ(fds_of(keeper, 2), 0u);
    grant(keeper, 3);
    EXPECT_EQ(fds_of(keeper, 3), 1u);
    grant(keeper, 4);
    EXPECT_EQ(fds_of(keeper, 4), 0u);
}

TEST_F(KeepingOutboundTest, GrantThatOthersMayOvertakeHasItsDescriptors) {
    const auto producer = add(2);
    fill(producer);
    wire::AttachReply reply;
    reply.segments = {{segment.value, true, wire::Memory::Reusable, 4096, 0}};
    out.send(producer, 1, wire::PublishReply{});
    out.send_after(0, keeper, 2, reply);  // steps aside until the producer has read
    outbound.deliver(out);
    EXPECT_EQ(arrived(keeper), Ids{});
    grant(keeper, 3);
    EXPECT_EQ(fds_of(keeper, 3), 1u);
    drain(producer);
    EXPECT_EQ(fds_of(keeper, 2), 1u);
    grant(keeper, 4);
    EXPECT_EQ(fds_of(keeper, 4), 0u);
}

TEST_F(KeepingOutboundTest, IsToldOnceOfWhatHasGone) {
    grant(keeper, 1);
    EXPECT_EQ(fds_of(keeper, 1), 1u);
    EXPECT_FALSE(outbound.has_gone());
    end_segment();
    EXPECT_TRUE(outbound.has_gone());
    outbound.tell_gone();
    EXPECT_FALSE(outbound.has_gone());
    EXPECT_EQ(arrived(keeper), Ids{0});
    outbound.tell_gone();
    EXPECT_EQ(arrived(keeper), Ids{});
}

TEST_F(KeepingOutboundTest, IsNotToldOfWhatItHasDroppedOrNeverHad) {
    grant(keeper, 1);
    EXPECT_EQ(fds_of(keeper, 1), 1u);
    out.forgotten.push_back({0, keeper, segment});
    out.forgotten.push_back({0, keeper, SegmentNumber{99}});
    outbound.deliver(out);
    end_segment();
    EXPECT_FALSE(outbound.has_gone());
}

// It kept them, and was never told of their end, since the daemon did not remember that it had them.
TEST_F(KeepingOutboundTest, IsToldAtOnceNotToKeepWhatIsNotRemembered) {
    const auto forgetful_keeper = add(2);
    Outbound forgetful(segments, *this, {.kept_segments = 1});
    forgetful.add(forgetful_keeper, ends[2].daemon.get());
    forgetful.keep_segments(forgetful_keeper);
    const SegmentNumber first = segments.add(UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC)), 4096);
    const auto grant_of = [&](SegmentNumber which, std::uint64_t id) {
        wire::AttachReply reply;
        reply.segments = {{which.value, true, wire::Memory::Reusable, 4096, 0}};
        out.send(forgetful_keeper, id, std::move(reply));
        forgetful.deliver(out);
        return fds_of(forgetful_keeper, id);
    };
    EXPECT_EQ(grant_of(first, 1), 1u);
    EXPECT_FALSE(forgetful.has_gone());
    EXPECT_EQ(grant_of(segment, 2), 1u);
    EXPECT_EQ(grant_of(segment, 3), 1u) << "it is not remembered";
    EXPECT_TRUE(forgetful.has_gone());
    forgetful.tell_gone();
    EXPECT_EQ(arrived(forgetful_keeper), Ids{0});
    EXPECT_EQ(grant_of(first, 4), 0u);

    // There is room again: what it now is remembered to have it may keep, though it was to be told otherwise.
    EXPECT_EQ(grant_of(segment, 5), 1u);
    out.forgotten.push_back({0, forgetful_keeper, first});
    forgetful.deliver(out);
    EXPECT_EQ(grant_of(segment, 6), 1u);
    forgetful.tell_gone();
    EXPECT_EQ(arrived(forgetful_keeper), Ids{});
    EXPECT_EQ(grant_of(segment, 7), 0u);
}

TEST_F(KeepingOutboundTest, NobodyIsToldOnceTheSessionHasEnded) {
    grant(keeper, 1);
    outbound.remove(keeper);
    end_segment();
    EXPECT_FALSE(outbound.has_gone());
}

TEST_F(OutboundTest, PacketOverTheUsersDescriptorsInFlightIsTriedAgain) {
    if (::geteuid() == 0) {
        GTEST_SKIP() << "root is exempt from the limit on descriptors in flight";
    }
    rlimit before{};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
    const rlimit low{64, before.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
    const auto a = add(1);
    const auto b = add(2);
    const SegmentNumber segment = segments.add(UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC)), 4096);
    wire::AttachReply grant;
    grant.segments = {{segment.value, true, wire::Memory::Reusable, 4096, 0}};
    for (int i = 0; i < 200 && !outbound.has_refused(); ++i) {
        out.send(a, 7, grant);
        outbound.deliver(out);
    }
    EXPECT_TRUE(outbound.has_refused());
    send(a, 2);
    send(b, 1);
    EXPECT_EQ(arrived(b), (Ids{1})) << "who needs no descriptor is not concerned";
    EXPECT_EQ(arrived(a).back(), 2u) << "what has no descriptor passes";
    // The kernel counts for the whole user, and other tests of that user may have descriptors on their way just now.
    const auto watchdog = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (outbound.has_refused() && std::chrono::steady_clock::now() < watchdog) {
        outbound.spoke(a);
        std::this_thread::yield();
    }
    EXPECT_FALSE(outbound.has_refused());
    EXPECT_EQ(arrived(a), (Ids{7}));
    ::setrlimit(RLIMIT_NOFILE, &before);
}

}  // namespace
}  // namespace hurrayd
