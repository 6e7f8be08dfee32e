#include "daemon/outbound.hpp"

#include <array>
#include <cstdio>
#include <optional>
#include <string>
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
    SegmentTable segments;
    Outbound outbound{segments, *this};
    Outbox out;
    std::vector<std::uint64_t> wanted_writable;
    std::vector<std::pair<std::uint64_t, std::string>> broken_sessions;

    void want_writable(SessionNumber session) override { wanted_writable.push_back(session.value); }
    void broken(SessionNumber session, std::string_view reason) override {
        broken_sessions.emplace_back(session.value, reason);
    }

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

TEST_F(OutboundTest, QueuesWhatTheSocketHasNoRoomForAndKeepsTheOrder) {
    const auto a = add(1);
    fill(a);
    send(a, 1);
    send(a, 2);
    EXPECT_FALSE(outbound.idle(a));
    EXPECT_EQ(drain(a), (Ids{1, 2}));
    EXPECT_TRUE(outbound.idle(a));
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

TEST_F(OutboundTest, SlowReaderIsBrokenOffAtTheLimitAndItsSegmentsAreLetGo) {
    const auto reader = add(1);
    const auto other = add(2);
    const SegmentNumber segment = segments.add(UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC)));
    wire::AttachReply grant;
    grant.segments = {{segment.value, true, wire::Memory::Reusable, 4096, 0}};
    for (int i = 0; i < 10'000 && broken_sessions.empty(); ++i) {
        out.send(reader, 5, grant);
        outbound.deliver(out);
    }
    ASSERT_EQ(broken_sessions.size(), 1u);
    EXPECT_EQ(broken_sessions[0], (std::pair<std::uint64_t, std::string>{1, "slow reader"}));
    out.dropped.push_back(segment);
    outbound.deliver(out);
    EXPECT_EQ(segments.size(), 0u);
    send(other, 1);
    EXPECT_EQ(arrived(other), (Ids{1}));
}

TEST_F(OutboundTest, QueuedDescriptorsOutliveTheirCapsule) {
    const auto a = add(1);
    fill(a);
    const SegmentNumber segment = segments.add(UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC)));
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
    const SegmentNumber segment = segments.add(UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC)));
    wire::AttachReply grant;
    grant.segments = {{segment.value, true, wire::Memory::Reusable, 4096, 0}};
    for (int i = 0; i < 200 && !outbound.has_refused(); ++i) {
        out.send(a, 7, grant);
        outbound.deliver(out);
    }
    EXPECT_TRUE(outbound.has_refused());
    send(b, 1);
    EXPECT_EQ(arrived(b), (Ids{1})) << "who needs no descriptor is not concerned";
    arrived(a);
    outbound.spoke(a);
    EXPECT_FALSE(outbound.has_refused());
    EXPECT_EQ(arrived(a), (Ids{7}));
    ::setrlimit(RLIMIT_NOFILE, &before);
}

}  // namespace
}  // namespace hurrayd
