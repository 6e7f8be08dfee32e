#include <atomic>
#include <chrono>
#include <filesystem>
#include <future>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "daemon/closer.hpp"
#include "proto/wire/packet_socket.hpp"
#include "tests/support/lingering_socket.hpp"
#include "tests/support/test_tensor.hpp"

namespace hurrayd {
namespace {

using hurray::UniqueFd;
using hurray::test::LingeringSocket;

constexpr std::uint32_t kAlice = 1000;
constexpr std::uint32_t kBob = 1001;

/// A descriptor, told by the end of its pipe whether it is closed.
struct Probe {
    UniqueFd reader;
    UniqueFd writer;
    Probe() {
        int ends[2];
        if (::pipe2(ends, O_CLOEXEC) != 0) {
            throw std::runtime_error("pipe2");
        }
        reader = UniqueFd(ends[0]);
        writer = UniqueFd(ends[1]);
    }
    std::vector<UniqueFd> hand_over() {
        std::vector<UniqueFd> fds;
        fds.push_back(std::move(writer));
        return fds;
    }
    /// Waits for it.
    void wait_closed() const {
        char byte = 0;
        EXPECT_EQ(::read(reader.get(), &byte, 1), 0);
    }
};

std::vector<UniqueFd> hand_over(LingeringSocket& socket) {
    std::vector<UniqueFd> fds;
    fds.push_back(socket.take());
    return fds;
}

void wait_until_none_is_pending(const Closer& closer) {
    for (int i = 0; i < 30'000 && closer.pending() != 0; ++i) {
        ::usleep(1000);
    }
    EXPECT_EQ(closer.pending(), 0U);
}

TEST(CloserTest, ClosesAndSaysSo) {
    std::promise<std::uint64_t> finished;
    Closer closer([&](std::uint64_t ticket) { finished.set_value(ticket); });
    Probe probe;
    closer.close(kAlice, probe.hand_over(), 7);
    EXPECT_EQ(finished.get_future().get(), 7U);
    probe.wait_closed();
    EXPECT_EQ(closer.pending(), 0U);
    EXPECT_EQ(closer.pending_of(kAlice), 0U);
}

TEST(CloserTest, WhatCantBeClosedHoldsUpItsOwnSenderAlone) {
    Closer closer([](std::uint64_t) {});
    LingeringSocket stuck;
    closer.close(kAlice, hand_over(stuck), 1);
    Probe behind;
    closer.close(kAlice, behind.hand_over(), 2);
    Probe elsewhere;
    closer.close(kBob, elsewhere.hand_over(), 3);
    elsewhere.wait_closed();
    EXPECT_EQ(closer.pending_of(kAlice), 2U);
    stuck.let_go();
    behind.wait_closed();
    wait_until_none_is_pending(closer);
}

TEST(CloserTest, SmallMemoryIsNotClosedHereIfItIsOneOfMany) {
    Closer closer([](std::uint64_t) {});
    LingeringSocket stuck;
    closer.close_memory(stuck.take(), 4096, true);  // here it would wait for ever
    EXPECT_EQ(closer.pending(), 1U);
    stuck.let_go();
    wait_until_none_is_pending(closer);
}

TEST(CloserTest, ItsEndWaitsForNobodyWhoCantBeClosed) {
    LingeringSocket stuck;
    {
        Closer closer([](std::uint64_t) {});
        closer.close(kAlice, hand_over(stuck), 1);
    }
    stuck.let_go();
}

TEST(CloserTest, AThreadThatEndedForLackOfWorkComesBack) {
    Closer closer([](std::uint64_t) {});
    for (const int pause_ms : {0, 1100}) {
        std::this_thread::sleep_for(std::chrono::milliseconds(pause_ms));
        Probe probe;
        closer.close(kAlice, probe.hand_over(), 1);
        probe.wait_closed();
    }
}

TEST(CloserTest, LargeMemoryIsClosedElsewhereSmallOnTheSpot) {
    Closer closer([](std::uint64_t) {});
    UniqueFd small = hurray::test::make_memfd({.size = 4096});
    const int number = small.get();
    closer.close_memory(std::move(small), 4096);
    EXPECT_EQ(::fcntl(number, F_GETFD), -1);
    Probe probe;  // its size is what the closer is told
    closer.close_memory(std::move(probe.writer), 64 << 20);
    probe.wait_closed();
    wait_until_none_is_pending(closer);
}

class CloserSocketTest : public testing::Test {
  protected:
    CloserSocketTest() {
        int ends[2];
        if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
            throw std::runtime_error("socketpair");
        }
        ours = UniqueFd(ends[0]);
        theirs = UniqueFd(ends[1]);
    }
    void send(std::string_view bytes, std::span<const int> fds) {
        ASSERT_TRUE(hurray::wire::send_packet(theirs.get(), std::as_bytes(std::span(bytes)), fds));
    }
    Closer closer{[](std::uint64_t) {}};
    UniqueFd ours;
    UniqueFd theirs;
};

TEST_F(CloserSocketTest, AConnectionWithoutDescriptorsInItsQueueIsClosedOnTheSpot) {
    send("said and never read", {});
    send("this neither", {});
    const int number = ours.get();
    closer.close_socket(kAlice, std::move(ours));
    EXPECT_EQ(::fcntl(number, F_GETFD), -1);
    EXPECT_EQ(closer.pending(), 0U);
}

TEST_F(CloserSocketTest, DescriptorsInTheQueueOfAConnectionKeepNobodyWaiting) {
    LingeringSocket stuck;
    const int loan = stuck.fd();
    send("first", {});
    send("second", std::span(&loan, 1));
    stuck.close();
    closer.close_socket(kAlice, std::move(ours));
    EXPECT_EQ(closer.pending_of(kAlice), 1U);
    stuck.let_go();
    wait_until_none_is_pending(closer);
}

// An empty packet looks like the end of a connection, and hid what came behind it.
TEST_F(CloserSocketTest, DescriptorsBehindEmptyPacketsKeepNobodyWaiting) {
    LingeringSocket stuck;
    const int loan = stuck.fd();
    ASSERT_EQ(::send(theirs.get(), nullptr, 0, 0), 0);
    ASSERT_EQ(::send(theirs.get(), nullptr, 0, 0), 0);
    send("x", std::span(&loan, 1));
    stuck.close();
    theirs.reset();
    closer.close_socket(kAlice, std::move(ours));
    EXPECT_EQ(closer.pending_of(kAlice), 1U);
    stuck.let_go();
    wait_until_none_is_pending(closer);
}

TEST_F(CloserSocketTest, APacketIsReadAwayWithItsDescriptorsAndTheNextOneStays) {
    Probe probe;
    const int loan = probe.writer.get();
    send("away", std::span(&loan, 1));
    probe.writer.reset();
    send("next", {});
    closer.read_away(kAlice, UniqueFd(::fcntl(ours.get(), F_DUPFD_CLOEXEC, 0)), 1);
    probe.wait_closed();
    std::array<std::byte, 16> buffer;
    const auto received = hurray::wire::receive_packet(ours.get(), buffer);
    ASSERT_TRUE(received);
    EXPECT_EQ(received->size, 4U);
}

}  // namespace
}  // namespace hurrayd
