#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <random>
#include <set>
#include <thread>

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "daemon/hash.hpp"
#include "tests/support/child.hpp"
#include "tests/support/daemon_process.hpp"
#include "tests/support/raw_peer.hpp"

// A capsule's life between real processes, by peers that speak the protocol by hand.

namespace hurray::test {
namespace {

using What = wire::LeaseEvent::What;

std::uint64_t used(RawPeer& peer, const std::string& name) {
    const auto reply = peer.call<wire::StatusReply>(wire::StatusRequest{});
    for (const auto& use : reply.uses) {
        if (use.uid == ::getuid() && use.name == name) {
            return use.used;
        }
    }
    return 0;
}

void expect_only_clients(RawPeer& peer, std::uint64_t clients) {
    for (const char* name : {"capsules", "names", "bytes", "leases", "waiting", "watches", "descriptors"}) {
        EXPECT_EQ(used(peer, name), 0u) << name;
    }
    EXPECT_EQ(used(peer, "clients"), clients - 1) << "the asker is left out";
}

class DaemonCapsule : public testing::Test {
  protected:
    DaemonProcess daemon;
    RawPeer peer() { return RawPeer::greeted(daemon.socket_path()); }
};

TEST_F(DaemonCapsule, ConsumerGetsTheVeryFileThatWasPublished) {
    RawPeer producer = peer();
    RawPeer consumer = peer();
    const TestTensor tensor = make_tensor("t", 2048, 'x');
    const auto published = producer.publish(tensor);
    auto [reply, fds] = consumer.attach(1, "t");
    EXPECT_EQ(reply.capsule, (wire::CapsuleId{::getuid(), tensor.publish.capsule}));
    EXPECT_EQ(reply.name, "t");
    EXPECT_EQ(reply.version, published.version);
    EXPECT_EQ(reply.descriptor, tensor.publish.descriptor);
    EXPECT_EQ(reply.placements, tensor.publish.placements);
    ASSERT_EQ(reply.segments.size(), 1u);
    EXPECT_EQ(reply.segments[0].size, 8192u);
    ASSERT_EQ(fds.size(), 1u);
    EXPECT_EQ(inode_of(fds[0].get()), inode_of(tensor.fd.get()));
    const auto opened = producer.next<wire::LeaseEvent>();
    EXPECT_EQ(opened.what, What::Opened);
    EXPECT_EQ(opened.remaining, 1u);

    consumer.call<wire::Done>(wire::Release{{1}});
    EXPECT_EQ(producer.next<wire::LeaseEvent>().what, What::Released);
    const auto withdraw = producer.send(wire::Withdraw{reply.capsule});
    EXPECT_TRUE(producer.next<wire::Ended>().reusable);
    producer.next<wire::Done>(withdraw);
    producer.call<wire::Done>(wire::Forget{{tensor.publish.segments[0].number}});
    expect_only_clients(consumer, 2);
}

TEST_F(DaemonCapsule, SegmentThatIsKnownComesWithoutItsDescriptorAndIsTheSameFileForConsumers) {
    RawPeer producer = peer();
    RawPeer consumer = peer();
    const TestTensor first = make_tensor("t", 2048, 'x');
    producer.publish(first);
    auto [first_reply, first_fds] = consumer.attach(1, "t");
    consumer.call<wire::Done>(wire::Release{{1}});
    const std::size_t descriptors = daemon.open_descriptors();

    TestTensor second = make_tensor("t", 2048);
    second.publish.segments = first.publish.segments;
    second.publish.segments[0].carries_fd = false;
    producer.next<wire::LeaseEvent>();
    producer.next<wire::LeaseEvent>();
    const auto publish = producer.send(second.publish);
    producer.next<wire::Retired>();
    EXPECT_TRUE(producer.next<wire::Ended>().reusable);
    producer.next<wire::PublishReply>(publish);
    EXPECT_EQ(daemon.open_descriptors(), descriptors);

    auto [second_reply, second_fds] = consumer.attach(2, "t");
    EXPECT_EQ(second_reply.segments, first_reply.segments);
    ASSERT_EQ(second_fds.size(), 1u);
    EXPECT_EQ(inode_of(second_fds[0].get()), inode_of(first.fd.get()));

    // Forgotten, it lives as long as the capsule, and its number is gone.
    producer.next<wire::LeaseEvent>();
    producer.call<wire::Done>(wire::Forget{{first.publish.segments[0].number}});
    EXPECT_EQ(daemon.open_descriptors(), descriptors);
    TestTensor third = make_tensor("t", 2048);
    third.publish.segments = second.publish.segments;
    EXPECT_EQ(producer.call<Error>(third.publish).code, Errc::AlreadyExists);
    consumer.call<wire::Done>(wire::Release{{2}});
    producer.next<wire::LeaseEvent>();
    const auto withdraw = producer.send(wire::Withdraw{second_reply.capsule});
    EXPECT_TRUE(producer.next<wire::Ended>().reusable);
    producer.next<wire::Done>(withdraw);
    expect_only_clients(consumer, 2);
}

TEST_F(DaemonCapsule, EmptyTensorHasNoSegment) {  // case A6
    RawPeer p = peer();
    p.publish(make_tensor("empty", 0));
    auto [reply, fds] = p.attach(1, "empty");
    EXPECT_TRUE(reply.segments.empty());
    EXPECT_TRUE(fds.empty());
    EXPECT_EQ(used(p, "descriptors"), 0u);
}

TEST_F(DaemonCapsule, TwoHundredAndFiftyThreeSegmentsArriveInOrder) {  // case D4
    RawPeer p = peer();
    // One buffer a capsule is all that can be validated today, so what is tried here is what the socket carries: refused, with
    // a reason, and every descriptor closed again.
    const std::size_t before = daemon.open_descriptors();
    TestTensor tensor = make_tensor("t");
    tensor.publish.segments.clear();
    std::vector<UniqueFd> owned;
    std::vector<int> fds;
    for (std::uint64_t i = 0; i < wire::kMaxPacketFds; ++i) {
        owned.push_back(make_memfd());
        fds.push_back(owned.back().get());
        tensor.publish.segments.push_back({1000 + i, true, wire::Memory::Reusable, 4096, 0});
    }
    const auto id = p.send(tensor.publish, fds);
    EXPECT_EQ(p.next<Error>(id).code, Errc::InvalidArgument);
    EXPECT_EQ(daemon.open_descriptors(), before);
}

TEST_F(DaemonCapsule, WaitingAttachIsGrantedWhenItsNameComes) {
    RawPeer producer = peer();
    RawPeer consumer = peer();
    const auto request = consumer.send(wire::Attach{1, "t", wire::Which::Latest, 0, 0}, {}, 60'000);
    EXPECT_EQ(used(consumer, "waiting"), 1u);
    const TestTensor tensor = make_tensor("t");
    const auto id = producer.send(tensor.publish, {tensor.fd.get()});
    producer.next<wire::PublishReply>(id);
    EXPECT_EQ(producer.next<wire::LeaseEvent>().what, What::Opened);
    Incoming granted = consumer.receive();
    EXPECT_EQ(granted.packet.request_id, request);
    EXPECT_EQ(granted.fds.size(), 1u);
}

TEST_F(DaemonCapsule, WaitEndsAtItsTimeoutNotBefore) {  // case E10
    RawPeer p = peer();
    EXPECT_EQ(p.call<Error>(wire::Attach{1, "absent", wire::Which::Latest, 0, 0}, 0).code, Errc::NotFound);
    for (const std::uint64_t timeout_ms : {1ULL, 120ULL}) {
        const auto begin = std::chrono::steady_clock::now();
        EXPECT_EQ(p.call<Error>(wire::Attach{2, "absent", wire::Which::Latest, 0, 0}, timeout_ms).code, Errc::TimedOut);
        EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(timeout_ms));
    }
    // So long that it is for ever.
    p.send(wire::Attach{3, "absent", wire::Which::Latest, 0, 0}, {}, 1'000'000'000'000'000'000ULL);
    EXPECT_EQ(used(p, "waiting"), 1u);
}

TEST_F(DaemonCapsule, CancelledWaitIsAnsweredClosed) {
    RawPeer p = peer();
    const auto request = p.send(wire::Attach{1, "absent", wire::Which::Latest, 0, 0});
    p.send(wire::Cancel{request});
    EXPECT_EQ(p.next<Error>(request).code, Errc::Closed);
    EXPECT_EQ(used(p, "waiting"), 0u);
}

TEST_F(DaemonCapsule, KilledConsumersLeasesAreReportedLostExactlyOnce) {  // case C1
    constexpr int kRounds = 500;
    std::minstd_rand random(1);
    RawPeer producer = peer();
    const TestTensor tensor = make_tensor("t");
    producer.publish(tensor);
    const pid_t process = daemon.pid();
    const std::size_t descriptors = daemon.open_descriptors();
    const wire::Id16 session = fresh_id();
    for (int round = 0; round < kRounds; ++round) {
        // The same session id each time, 0 to 5 ms after the one before was killed.
        std::this_thread::sleep_for(std::chrono::microseconds(random() % 5000));
        Child consumer([&] {
            auto* p = new RawPeer(RawPeer::greeted(daemon.socket_path(), session));  // open until the end
            for (std::uint64_t lease = 1; lease <= 4; ++lease) {
                p->attach(lease, "t");
            }
        });
        for (std::uint64_t i = 1; i <= 4; ++i) {
            const auto event = producer.next<wire::LeaseEvent>();
            EXPECT_EQ(event.what, What::Opened);
            EXPECT_EQ(event.remaining, i) << "a new consumer starts with none";
            EXPECT_EQ(event.lease.session_hash, hurrayd::session_hash(session));
        }
        consumer.kill();
        std::set<std::uint64_t> lost;
        for (std::uint64_t i = 1; i <= 4; ++i) {
            const auto event = producer.next<wire::LeaseEvent>();
            EXPECT_EQ(event.what, What::Lost);
            EXPECT_EQ(event.remaining, 4 - i);
            lost.insert(event.lease.lease);
        }
        EXPECT_EQ(lost.size(), 4u);
    }
    const auto withdraw = producer.send(wire::Withdraw{{::getuid(), tensor.publish.capsule}});
    EXPECT_FALSE(producer.next<wire::Ended>().reusable);
    producer.next<wire::Done>(withdraw);
    producer.call<wire::Done>(wire::Forget{{tensor.publish.segments[0].number}});
    expect_only_clients(producer, 1);
    EXPECT_EQ(daemon.open_descriptors(), descriptors - 1) << "all but the capsule's";
    EXPECT_EQ(daemon.pid(), process);
}

TEST_F(DaemonCapsule, DeadConsumerIsNoticedThoughItsForkedChildHoldsTheSocket) {
    RawPeer producer = peer();
    producer.publish(make_tensor("t"));
    std::array<int, 2> ends{};
    ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
    const UniqueFd read_end(ends[0]);
    const UniqueFd write_end(ends[1]);  // the grandchild lives until this one closes
    Child consumer([&] {
        auto* p = new RawPeer(RawPeer::greeted(daemon.socket_path()));
        p->attach(1, "t");
        ::close(ends[1]);
        if (::fork() == 0) {
            char nothing = 0;
            (void)!::read(ends[0], &nothing, 1);
            ::_exit(0);
        }
    });
    EXPECT_EQ(producer.next<wire::LeaseEvent>().what, What::Opened);
    if (daemon.log().find("no_peer_pidfd") != std::string::npos) {
        GTEST_SKIP() << "this kernel has no SO_PEERPIDFD";
    }
    ::kill(consumer.pid(), SIGKILL);
    EXPECT_EQ(producer.next<wire::LeaseEvent>().what, What::Lost);
}

TEST_F(DaemonCapsule, WhatADeadPeerHadSentStillCounts) {
    RawPeer producer = peer();
    producer.publish(make_tensor("t"));
    {
        RawPeer consumer = peer();
        consumer.attach(1, "t");
        consumer.send(wire::StatusRequest{});  // an answer that is never read, so the end looks like a reset
        consumer.send(wire::Release{{1}});
    }
    EXPECT_EQ(producer.next<wire::LeaseEvent>().what, What::Opened);
    EXPECT_EQ(producer.next<wire::LeaseEvent>().what, What::Released) << "not lost: it was released before the end";
}

TEST_F(DaemonCapsule, HoldersLearnThatTheProducerWasKilledAndReadOn) {
    RawPeer consumer = peer();
    Child producer([&] {
        auto* p = new RawPeer(peer());
        p->publish(make_tensor("t", 16, 'y'));
    });
    auto [reply, fds] = consumer.attach(1, "t");
    producer.kill();
    EXPECT_EQ(consumer.next<wire::ProducerLost>().capsule, reply.capsule);
    char byte = 0;
    EXPECT_EQ(::pread(fds.at(0).get(), &byte, 1, 0), 1);
    EXPECT_EQ(byte, 'y');
    EXPECT_EQ(consumer.call<Error>(wire::Attach{2, "t", wire::Which::Latest, 0, 0}, 0).code, Errc::NotFound);
    consumer.call<wire::Done>(wire::Release{{1}});
    expect_only_clients(consumer, 1);
}

TEST_F(DaemonCapsule, ReplacementIsToldToTheOldProducerBeforeItIsAnswered) {
    RawPeer old_producer = peer();
    RawPeer producer = peer();
    const TestTensor first = make_tensor("t");
    old_producer.publish(first);
    producer.publish(make_tensor("t"));
    // Answered: so both are in the old producer's socket by now.
    auto retired = old_producer.try_receive();
    auto ended = old_producer.try_receive();
    ASSERT_TRUE(retired && ended);
    EXPECT_EQ(std::get<wire::Retired>(retired->packet.message).capsule.id, first.publish.capsule);
    EXPECT_TRUE(std::get<wire::Ended>(ended->packet.message).reusable);
}

TEST_F(DaemonCapsule, ThousandRoundsLeaveNothingBehind) {
    RawPeer producer = peer();
    RawPeer consumer = peer();
    const std::size_t before = daemon.open_descriptors();
    for (std::uint64_t round = 1; round <= 1000; ++round) {
        const TestTensor tensor = make_tensor("loop");
        const auto id = producer.send(tensor.publish, {tensor.fd.get()});
        if (round > 1) {
            producer.next<wire::Retired>();
            producer.next<wire::Ended>();
        }
        producer.next<wire::PublishReply>(id);
        producer.call<wire::Done>(wire::Forget{{tensor.publish.segments[0].number}});
        consumer.attach(round, "loop");
        producer.next<wire::LeaseEvent>();
        consumer.call<wire::Done>(wire::Release{{round}});
        producer.next<wire::LeaseEvent>();
    }
    EXPECT_EQ(daemon.open_descriptors(), before + 1);
    producer.close();
    RawPeer third = peer();
    while (used(third, "clients") != 1) {
    }
    expect_only_clients(consumer, 2);
}

TEST_F(DaemonCapsule, DaemonNeverMapsASegment) {
    RawPeer p = peer();
    const TestTensor tensor = make_tensor("t", 1 << 20);
    p.publish(tensor);
    p.attach(1, "t");
    EXPECT_EQ(daemon.maps().find("memfd:"), std::string::npos);
}

// Access between users: the registry's unit tests have the rules; here it is seen from a process of another user.
TEST_F(DaemonCapsule, OtherUsersSeeNothing) {
    if (::geteuid() != 0) {
        GTEST_SKIP() << "needs root to become another user";
    }
    DaemonProcess open_daemon({.arguments = {"--config", "/dev/null"}, .environment = {}, .descriptor_limit = {}});
    ASSERT_EQ(::chmod(open_daemon.socket_path().c_str(), 0666), 0);
    const auto slash = open_daemon.socket_path().rfind('/');
    ASSERT_EQ(::chmod(open_daemon.socket_path().substr(0, slash).c_str(), 0755), 0);
    RawPeer owner = RawPeer::greeted(open_daemon.socket_path());
    const TestTensor tensor = make_tensor("t");
    owner.publish(tensor);
    Child stranger([&] {
        if (::setresgid(54321, 54321, 54321) != 0 || ::setresuid(54321, 54321, 54321) != 0) {
            throw std::runtime_error("setresuid");
        }
        RawPeer p = RawPeer::greeted(open_daemon.socket_path());
        if (p.call<Error>(wire::Attach{1, "t", wire::Which::Latest, 0, 0}, 0).code != Errc::NotFound ||
            p.call<Error>(wire::Withdraw{{0, tensor.publish.capsule}}).code != Errc::NotFound ||
            !p.call<wire::ListReply>(wire::List{}).capsules.empty()) {
            throw std::runtime_error("a stranger sees the capsule");
        }
        const TestTensor own = make_tensor("t");
        const auto id = p.send(own.publish, {own.fd.get()});
        if (p.next<Error>(id).code != Errc::AlreadyExists) {
            throw std::runtime_error("a stranger took the name");
        }
    });
    EXPECT_FALSE(owner.try_receive().has_value()) << "and its owner heard nothing";
}

TEST_F(DaemonCapsule, LossOfAProducerIsToldBehindTheGrantsThatWaitForDescriptorsToBeRead) {
    constexpr std::uint64_t kCapsules = 260;  // a few more than may be unread
    RawPeer producer = RawPeer::greeted(daemon.socket_path());
    for (std::uint64_t i = 0; i < kCapsules; ++i) {
        producer.publish(make_tensor(std::to_string(i)));
    }
    RawPeer consumer = RawPeer::greeted(daemon.socket_path());
    for (std::uint64_t i = 0; i < kCapsules; ++i) {
        consumer.send(wire::Attach{i + 1, std::to_string(i)});
    }
    for (std::uint64_t opened = 0; opened < kCapsules; ++opened) {
        producer.next<wire::LeaseEvent>();
    }
    producer.close();
    RawPeer other = RawPeer::greeted(daemon.socket_path());
    const auto is_retired = [](const wire::Info& info) { return info.retired; };
    while (!std::ranges::all_of(other.call<wire::ListReply>(wire::List{}).capsules, is_retired)) {
        std::this_thread::yield();
    }
    std::set<wire::Id16> granted;
    for (std::size_t lost = 0; lost < kCapsules;) {
        const Incoming incoming = consumer.receive();
        if (const auto* grant = std::get_if<wire::AttachReply>(&incoming.packet.message)) {
            granted.insert(grant->capsule.id);
        } else {
            const auto& news = std::get<wire::ProducerLost>(incoming.packet.message);
            EXPECT_TRUE(granted.contains(news.capsule.id));
            ++lost;
        }
    }
    EXPECT_EQ(granted.size(), kCapsules);
}

}  // namespace
}  // namespace hurray::test
