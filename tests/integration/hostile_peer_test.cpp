#include <algorithm>
#include <array>
#include <deque>
#include <span>

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "proto/wire/codec.hpp"
#include "tests/integration/hostile_peer.hpp"
#include "tests/support/daemon_process.hpp"
#include "tests/support/in_process_daemon.hpp"
#include "tests/support/out_of_range.hpp"
#include "tests/support/raw_peer.hpp"
#include "tests/support/sanitized.hpp"

// Peers that say the wrong thing at the wrong time, send garbage, or do not read.

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

namespace hurray::test {
namespace {

TEST_F(HostilePeer, HelloChoosesTheVersion) {
    RawPeer p(daemon.socket_path());
    const auto id = p.send_hello(fresh_id(), 1, 7);
    const auto reply = p.next<wire::HelloReply>(id);
    EXPECT_EQ(reply.version, 1u);
    EXPECT_EQ(reply.limits.packet_bytes, 65536u);
    EXPECT_EQ(reply.limits.packet_fds, 253u);
    EXPECT_EQ(reply.limits.descriptor_bytes, 32768u);
    RawPeer q(daemon.socket_path());
    EXPECT_EQ(q.next<wire::HelloReply>(q.send_hello()).instance, reply.instance) << "one life, one instance";
}

TEST_F(HostilePeer, UnknownVersionsAreRefusedNamingBothRanges) {
    RawPeer p(daemon.socket_path());
    const auto error = p.next<Error>(p.send_hello(fresh_id(), 2, 3));
    EXPECT_EQ(error.code, Errc::Protocol);
    EXPECT_NE(error.message.find("1 to 1"), std::string::npos) << error.message;
    EXPECT_NE(error.message.find("2 to 3"), std::string::npos) << error.message;
    EXPECT_TRUE(p.at_end());
}

TEST_F(HostilePeer, FirstRequestMustBeHello) {
    RawPeer p(daemon.socket_path());
    EXPECT_EQ(p.call<Error>(wire::StatusRequest{}).code, Errc::Protocol);
    EXPECT_TRUE(p.at_end());
}

TEST_F(HostilePeer, SecondHelloEndsTheConnection) {
    RawPeer p = peer();
    const auto id = p.send_hello();
    EXPECT_EQ(p.next<Error>(id).code, Errc::Protocol);
    EXPECT_TRUE(p.at_end());
}

TEST_F(HostilePeer, SessionIdInUseIsRefused) {
    const wire::Id16 session = fresh_id();
    RawPeer first = RawPeer::greeted(daemon.socket_path(), session);
    RawPeer second(daemon.socket_path());
    const auto id = second.send_hello(session);
    EXPECT_EQ(second.next<Error>(id).code, Errc::AlreadyExists);
    EXPECT_TRUE(second.at_end());
    first.call<wire::StatusReply>(wire::StatusRequest{});
}

TEST_F(HostilePeer, GarbageIsAnsweredWithLastWordsAndACut) {  // cases D7, G5
    for (const std::string& garbage : {std::string("x"), std::string("\x80\x04\x95pickle"), std::string(65536, '\xff'),
                                       std::string(3, '\0'), std::string(70'000, 'a')}) {
        RawPeer p = peer();
        p.send_raw(garbage);
        EXPECT_NE(p.next<wire::Closing>().error.code, Errc{});
        EXPECT_TRUE(p.at_end());
    }
}

TEST_F(HostilePeer, DescriptorsNobodyAskedForAreClosed) {  // case D7
    {
        RawPeer p = peer();
        const UniqueFd fd = make_memfd();
        for (int i = 0; i < 10'000; ++i) {
            const auto id = p.send(wire::StatusRequest{}, {fd.get(), fd.get(), fd.get(), fd.get(), fd.get()});
            EXPECT_EQ(p.next<Error>(id).code, Errc::InvalidArgument);
        }
    }
}

TEST_F(HostilePeer, DescriptorsBelongToThePacketThatTheyCameWith) {  // case D7
    RawPeer p = peer();
    const TestTensor first = make_tensor("first");
    const TestTensor second = make_tensor("second");
    // An empty list of descriptors, on a packet that brings none and on one that should bring one.
    p.send_raw(wire::encoded(wire::Request{2, 0, wire::StatusRequest{}}), {});
    p.next<wire::StatusReply>(2);
    p.send_raw(wire::encoded(wire::Request{3, 0, first.publish}), {});
    EXPECT_EQ(p.next<Error>(3).code, Errc::InvalidArgument);
    // Of two packets back to back the descriptor is on the wrong one: neither gets the other's.
    const int loan = second.fd.get();
    p.send_raw(wire::encoded(wire::Request{4, 0, wire::StatusRequest{}}), std::span(&loan, 1));
    p.send_raw(wire::encoded(wire::Request{5, 0, second.publish}), {});
    EXPECT_EQ(p.next<Error>(4).code, Errc::InvalidArgument);
    EXPECT_EQ(p.next<Error>(5).code, Errc::InvalidArgument);
    p.send_raw(wire::encoded(wire::Request{6, 0, wire::List{}}));
    EXPECT_TRUE(p.next<wire::ListReply>(6).capsules.empty());
    // Two publishes back to back, each with its own.
    p.send_raw(wire::encoded(wire::Request{7, 0, first.publish}), std::array{first.fd.get()});
    p.send_raw(wire::encoded(wire::Request{8, 0, second.publish}), std::array{second.fd.get()});
    p.next<wire::PublishReply>(7);
    p.next<wire::PublishReply>(8);
    RawPeer consumer = peer();
    EXPECT_EQ(inode_of(consumer.attach(1, "first").fds.at(0).get()), inode_of(first.fd.get()));
    EXPECT_EQ(inode_of(consumer.attach(2, "second").fds.at(0).get()), inode_of(second.fd.get()));
}

TEST_F(HostilePeer, TooFewOrTooManyDescriptorsAreRefused) {
    {
        RawPeer p = peer();
        const TestTensor tensor = make_tensor("t");
        EXPECT_EQ(p.next<Error>(p.send(tensor.publish)).code, Errc::InvalidArgument);
        EXPECT_EQ(p.next<Error>(p.send(tensor.publish, {tensor.fd.get(), tensor.fd.get()})).code,
                  Errc::InvalidArgument);
        p.publish(tensor);
    }
}

TEST_F(HostilePeer, BuffersOutsideTheirSegmentAreRefused) {  // case G2
    RawPeer p = peer();
    for (const std::uint64_t offset : {4096ULL, 4032ULL + 64, ~0ULL, ~0ULL - 63, 1ULL << 63, 1ULL}) {
        TestTensor tensor = make_tensor("t", 16);
        tensor.publish.placements = {{0, offset}};
        EXPECT_EQ(p.next<Error>(p.send(tensor.publish, {tensor.fd.get()})).code, Errc::InvalidArgument) << offset;
    }
    TestTensor last = make_tensor("t", 16);
    last.publish.placements = {{0, 4096 - 64}};
    p.publish(last);
}

TEST_F(HostilePeer, WhatWrapsOrLiesOutsideIsRefusedAndWhatIsAtTheEdgeIsNot) {  // case G2
    RawPeer p = peer();
    const auto publish = [&](const Placed& placed) {
        TestTensor tensor = make_tensor("t");
        tensor.publish.descriptor = placed.descriptor;
        tensor.publish.placements = placed.placements;
        return p.send(tensor.publish, {tensor.fd.get()});
    };
    for (const Placed& placed : out_of_range()) {
        EXPECT_EQ(p.next<Error>(publish(placed)).code, Errc::InvalidArgument) << placed.what;
    }
    EXPECT_TRUE(p.call<wire::ListReply>(wire::List{}).capsules.empty());
    for (const Placed& placed : just_in_range()) {
        SCOPED_TRACE(placed.what);
        RawPeer other = peer();
        TestTensor tensor = make_tensor("");
        tensor.publish.descriptor = placed.descriptor;
        tensor.publish.placements = placed.placements;
        other.publish(tensor);
    }
    // Where an empty buffer is said to lie means nothing.
    TestTensor empty = make_tensor("t", 0);
    empty.publish.placements = {{0, 4097}};
    p.publish(empty);
}

TEST_F(HostilePeer, BrokenDescriptorsAreRefused) {
    RawPeer p = peer();
    const TestTensor good = make_tensor("t");
    for (std::size_t length = 0; length < good.publish.descriptor.size(); ++length) {
        TestTensor cut = make_tensor("t");
        cut.publish.descriptor.resize(length);
        EXPECT_EQ(p.next<Error>(p.send(cut.publish, {cut.fd.get()})).code, Errc::InvalidArgument) << length;
    }
    TestTensor longer = make_tensor("t");
    longer.publish.descriptor += '\0';
    EXPECT_EQ(p.next<Error>(p.send(longer.publish, {longer.fd.get()})).code, Errc::InvalidArgument);
    TestTensor dynamic = make_tensor("t");
    std::fill_n(dynamic.publish.descriptor.begin() + 20, 8, '\xff');
    const auto error = p.next<Error>(p.send(dynamic.publish, {dynamic.fd.get()}));
    EXPECT_EQ(error.code, Errc::InvalidArgument);
    EXPECT_EQ(error.field, "publish.descriptor.shape[0]");
}

TEST_F(HostilePeer, MemoryThatIsNotBuiltYetIsUnsupported) {
    RawPeer p = peer();
    for (const auto memory : {wire::Memory::GpuLegacy, wire::Memory::GpuVmm, wire::Memory::GpuPool}) {
        TestTensor tensor = make_tensor("t");
        tensor.publish.segments[0].memory = memory;
        EXPECT_EQ(p.next<Error>(p.send(tensor.publish, {tensor.fd.get()})).code, Errc::Unsupported);
    }
}

TEST_F(HostilePeer, WhoDoesNotReadIsCutAndHoldsNobodyUp) {
    RawPeer producer = peer();
    RawPeer sleeper = peer();
    sleeper.call<wire::Done>(wire::Watch{1, ""});
    sleeper.next<wire::Watched>();  // the snapshot's end; from here on it sleeps
    std::uint64_t rounds = 0;
    for (; rounds < 5000; ++rounds) {  // past the limit; each is answered
        producer.publish(make_tensor(""));
    }
    wait_for_log("slow reader");
    // It reads what had reached its socket, then the end.
    std::uint64_t read = 0;
    EXPECT_THROW(for (;; ++read) { sleeper.receive(); }, std::runtime_error);
    EXPECT_GT(read, 0u);
    EXPECT_LT(read, rounds);
}

// One step sends thousands of events to a producer, more than is kept for somebody who does not read.
TEST_F(HostilePeer, ReadingProducerIsNotCutWhenAConsumerOfManyLeasesDies) {
    constexpr std::uint64_t kLeases = 6400;
    RawPeer producer = peer();
    producer.publish(make_tensor("a", 0));
    RawPeer consumer = peer();
    for (std::uint64_t lease = 1; lease <= kLeases; ++lease) {
        consumer.attach(lease, "a");
        producer.next<wire::LeaseEvent>();
    }
    consumer.close();
    for (std::uint64_t left = kLeases; left-- > 0;) {
        const auto event = producer.next<wire::LeaseEvent>();
        ASSERT_EQ(event.what, wire::LeaseEvent::What::Lost);
        ASSERT_EQ(event.remaining, left);
    }
    producer.call<wire::StatusReply>(wire::StatusRequest{});
}

// A stopped producer held up its consumers, and whoever took over its name, for as long as it was stopped.
TEST_F(HostilePeer, StoppedProducerIsCutWhenOthersWaitForIt) {
    RawPeer sleeper = peer();
    sleeper.publish(make_tensor("x", 0));
    RawPeer consumer = peer();
    std::uint64_t lease = 0;
    std::uint64_t stuck = 0;
    while (stuck == 0) {
        const auto id = consumer.send(wire::Attach{++lease, "x", wire::Which::Latest, 0, 0}, {}, 100);
        const auto status = consumer.send(wire::StatusRequest{});
        if (consumer.receive().packet.request_id == status) {
            stuck = id;
        } else {
            consumer.next<wire::StatusReply>(status);
        }
    }
    RawPeer successor = peer();
    successor.publish(make_tensor("x", 0));  // answered once the sleeper is cut
    successor.call<wire::StatusReply>(wire::StatusRequest{});
    consumer.next<wire::AttachReply>(stuck);
    wait_for_log("holds others up");
}

TEST_F(HostilePeer, WhoDoesNotSayHelloIsCut) {
    RawPeer silent(daemon.socket_path());
    EXPECT_EQ(silent.next<wire::Closing>().error.code, Errc::TimedOut);
    EXPECT_TRUE(silent.at_end());
}

// It went on with whatever the failed request had left behind.
TEST_F(HostilePeer, DaemonThatIsOutOfMemoryEndsWithOne) {
    if (kIsSanitized) {
        GTEST_SKIP() << "sanitizers reserve more addresses than any limit";
    }
    DaemonProcess small({.arguments = {}, .environment = {}, .descriptor_limit = {}, .address_space_limit = 64 << 20});
    RawPeer greedy = RawPeer::greeted(small.socket_path());
    try {
        for (std::uint64_t n = 0;; ++n) {  // capsules without memory, far from any quota
            greedy.publish(make_tensor(std::string(200, 'n') + std::to_string(n), 0));
        }
    } catch (const std::runtime_error&) {  // the connection ended
    }
    const int status = small.wait_end();
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 1);
    small.start();
    RawPeer::greeted(small.socket_path());
}

TEST_F(HostilePeer, SleepingProducerDelaysOnlyItsOwnGrants) {
    RawPeer sleeper = peer();
    RawPeer producer = peer();
    RawPeer consumer = peer();
    sleeper.publish(make_tensor("sleepy"));
    producer.publish(make_tensor("awake"));
    // Leases come and go until the sleeper's socket is full and a grant stays away.
    std::uint64_t lease = 0;
    std::optional<std::uint64_t> stuck;
    while (!stuck && lease < 5000) {
        const auto id = consumer.send(wire::Attach{++lease, "sleepy", wire::Which::Latest, 0, 0});
        const auto status = consumer.send(wire::StatusRequest{});
        const Incoming first = consumer.receive();
        if (first.packet.request_id == status) {
            stuck = id;
        } else {
            ASSERT_EQ(first.packet.request_id, id);
            consumer.next<wire::StatusReply>(status);
        }
    }
    ASSERT_TRUE(stuck) << "the sleeper's socket never filled";
    // The consumer's other business goes on.
    consumer.attach(10'000, "awake");
    consumer.call<wire::Done>(wire::Release{{10'000}});
    // A release of the sleeper's capsule waits as well.
    const auto release = consumer.send(wire::Release{{1}});
    const auto status = consumer.send(wire::StatusRequest{});
    consumer.next<wire::StatusReply>(status);
    // The sleeper wakes up, and finds every lease opened before the grant went out.
    for (std::uint64_t opened = 0; opened < lease;) {
        opened += sleeper.next<wire::LeaseEvent>().what == wire::LeaseEvent::What::Opened ? 1 : 0;
    }
    EXPECT_EQ(sleeper.next<wire::LeaseEvent>().what, wire::LeaseEvent::What::Released);
    consumer.next<wire::AttachReply>(*stuck);
    consumer.next<wire::Done>(release);
}

// The same kinds of lies, with sanitizers on the daemon's side.
TEST(HostilePeerInProcess, EveryRequestIsSurvivedWithEveryByteWrong) {
    InProcessDaemon daemon;
    const auto before = daemon.held();
    std::vector<wire::RequestMessage> requests = {wire::Hello{1, 1, "n", fresh_id(), {}},
                                                  make_tensor("t").publish,
                                                  wire::Attach{1, "t", wire::Which::Latest, 0, 0},
                                                  wire::Release{{1, 2}},
                                                  wire::Cancel{1},
                                                  wire::Withdraw{{1, fresh_id()}},
                                                  wire::List{"a/", "", 3, true},
                                                  wire::Watch{1, "a/"},
                                                  wire::Unwatch{1},
                                                  wire::StatusRequest{}};
    for (const auto& request : requests) {
        std::string good = wire::encoded(wire::Request{5, 0, request});
        for (std::size_t i = 0; i < good.size(); ++i) {
            for (const char flip : {'\x01', '\x80', '\xff'}) {
                RawPeer p = RawPeer::greeted(daemon.socket_path());
                std::string bad = good;
                bad[i] = static_cast<char>(bad[i] ^ flip);
                p.send_raw(bad);
            }
        }
    }
    daemon.wait_until([&](const hurrayd::Server::Held& held) { return held == before; });
}

}  // namespace
}  // namespace hurray::test
