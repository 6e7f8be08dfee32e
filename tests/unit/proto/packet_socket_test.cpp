#include "proto/wire/packet_socket.hpp"

#include <array>
#include <csignal>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "proto/wire/messages.hpp"
#include "tests/unit/proto/wire_test_support.hpp"

namespace hurray::wire {
namespace {

class PacketSocketTest : public DescriptorTest {
  protected:
    void SetUp() override { connect(SOCK_NONBLOCK); }
    void TearDown() override {
        ours.reset();
        theirs.reset();
    }

    void connect(int flags) {
        std::array<int, 2> ends{};
        ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | flags, 0, ends.data()), 0);
        ours.reset(ends[0]);
        theirs.reset(ends[1]);
    }

    /// One packet out of our end, or why there is none.
    Received receive() {
        auto received = receive_packet(ours.get(), buffer);
        if (!received) {
            ADD_FAILURE() << received.error().message;
            return {};
        }
        return std::move(*received);
    }

    /// Sends from their end.
    Sent send(std::string_view text, std::span<const int> fds = {}) {
        const auto sent = send_packet(theirs.get(), as_bytes(text), fds);
        if (!sent) {
            ADD_FAILURE() << sent.error().message;
            return Sent::Gone;
        }
        return *sent;
    }

    [[nodiscard]] std::string text(const Received& received) const {
        return {reinterpret_cast<const char*>(buffer.data()), received.size};
    }

    UniqueFd ours;
    UniqueFd theirs;
    std::vector<std::byte> buffer = std::vector<std::byte>(kMaxPacketBytes);
};

std::vector<UniqueFd> memfds_of_rising_size(std::size_t count) {
    std::vector<UniqueFd> fds;
    for (std::size_t i = 0; i < count; ++i) {
        fds.push_back(make_memfd(i + 1, 0, Sparse::Yes));
    }
    return fds;
}

std::vector<int> loans(const std::vector<UniqueFd>& fds) {
    std::vector<int> result;
    for (const UniqueFd& fd : fds) {
        result.push_back(fd.get());
    }
    return result;
}

off_t size_of(const UniqueFd& fd) {
    struct stat status{};
    return ::fstat(fd.get(), &status) == 0 ? status.st_size : -1;
}

TEST_F(PacketSocketTest, APacketArrivesWholeWithItsDescriptorsInOrder) {
    const auto fds = memfds_of_rising_size(3);
    ASSERT_EQ(send("one", loans(fds)), Sent::Done);

    const Received received = receive();
    EXPECT_EQ(received.kind, Received::Kind::Packet);
    EXPECT_EQ(text(received), "one");
    EXPECT_FALSE(received.truncated);
    EXPECT_FALSE(received.fds_missing);
    ASSERT_EQ(received.fds.size(), 3U);
    for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(size_of(received.fds[i]), static_cast<off_t>(i + 1));
    }
}

TEST_F(PacketSocketTest, TwoPacketsBackToBackStayTwoAndKeepTheirOwnDescriptors) {
    const auto fds = memfds_of_rising_size(2);
    ASSERT_EQ(send("first", std::array{fds[1].get()}), Sent::Done);
    ASSERT_EQ(send("second"), Sent::Done);

    const Received first = receive();
    EXPECT_EQ(text(first), "first");
    ASSERT_EQ(first.fds.size(), 1U);
    EXPECT_EQ(size_of(first.fds[0]), 2);
    const Received second = receive();
    EXPECT_EQ(text(second), "second");
    EXPECT_TRUE(second.fds.empty());
}

TEST_F(PacketSocketTest, ReceivedDescriptorsAreCloseOnExec) {
    const UniqueFd fd = make_memfd(1, 0);
    ASSERT_EQ(send("x", std::array{fd.get()}), Sent::Done);

    const Received received = receive();
    ASSERT_EQ(received.fds.size(), 1U);
    EXPECT_EQ(::fcntl(received.fds[0].get(), F_GETFD), FD_CLOEXEC);
}

TEST_F(PacketSocketTest, APacketCarries253DescriptorsInOrder) {
    const auto fds = memfds_of_rising_size(kMaxPacketFds);
    ASSERT_EQ(send("many", loans(fds)), Sent::Done);

    const Received received = receive();
    EXPECT_FALSE(received.fds_missing);
    ASSERT_EQ(received.fds.size(), kMaxPacketFds);
    for (std::size_t i = 0; i < kMaxPacketFds; ++i) {
        EXPECT_EQ(size_of(received.fds[i]), static_cast<off_t>(i + 1));
    }
}

TEST_F(PacketSocketTest, CredentialsInThePacketCostNoDescriptor) {
    const int on = 1;
    ASSERT_EQ(::setsockopt(ours.get(), SOL_SOCKET, SO_PASSCRED, &on, sizeof on), 0);
    const auto fds = memfds_of_rising_size(kMaxPacketFds);
    ASSERT_EQ(send("many", loans(fds)), Sent::Done);

    const Received received = receive();
    EXPECT_FALSE(received.fds_missing);
    EXPECT_EQ(received.fds.size(), kMaxPacketFds);
}

TEST_F(PacketSocketTest, A254thDescriptorIsALimitAndNothingIsSent) {
    const UniqueFd fd = make_memfd(1, 0);
    const std::vector<int> fds(kMaxPacketFds + 1, fd.get());

    const auto sent = send_packet(theirs.get(), as_bytes("many"), fds);
    ASSERT_FALSE(sent);
    expect_error(sent.error(), Errc::Limit, "", "at most 253 descriptors, not 254");
    EXPECT_EQ(sent.error().limit_name, "packet_fds");
    EXPECT_EQ(sent.error().limit, 253U);
    EXPECT_EQ(sent.error().value, 254U);
    EXPECT_EQ(receive().kind, Received::Kind::WouldBlock);
}

TEST_F(PacketSocketTest, AnEmptyQueueIsWouldBlock) { EXPECT_EQ(receive().kind, Received::Kind::WouldBlock); }

TEST_F(PacketSocketTest, AClosedPeerIsTheEndAfterItsLastPacket) {
    ASSERT_EQ(send("last"), Sent::Done);
    theirs.reset();

    const Received last = receive();
    EXPECT_EQ(last.kind, Received::Kind::Packet);
    EXPECT_EQ(text(last), "last");
    EXPECT_EQ(receive().kind, Received::Kind::End);
    EXPECT_EQ(receive().kind, Received::Kind::End);
}

TEST_F(PacketSocketTest, APeerThatLeavesWithUnreadDataGivesResetThenItsPacketsThenTheEnd) {
    const UniqueFd fd = make_memfd(7, 0);
    ASSERT_EQ(*send_packet(ours.get(), as_bytes("never read"), {}), Sent::Done);
    ASSERT_EQ(send("a"), Sent::Done);
    ASSERT_EQ(send("b", std::array{fd.get()}), Sent::Done);
    theirs.reset();

    EXPECT_EQ(receive().kind, Received::Kind::Reset);
    EXPECT_EQ(text(receive()), "a");
    const Received b = receive();
    EXPECT_EQ(text(b), "b");
    ASSERT_EQ(b.fds.size(), 1U);
    EXPECT_EQ(size_of(b.fds[0]), 7);
    EXPECT_EQ(receive().kind, Received::Kind::End);
}

TEST_F(PacketSocketTest, AKilledPeerGivesResetThenItsPacketsThenTheEnd) {
    connect(0);  // blocking: the child's first packet says that it has sent all
    ASSERT_EQ(*send_packet(ours.get(), as_bytes("never read"), {}), Sent::Done);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        ours.reset();
        for (const std::string_view text : {"ready", "a", "b"}) {
            if (!send_packet(theirs.get(), as_bytes(text), {})) {
                ::_exit(1);
            }
        }
        ::raise(SIGKILL);
    }
    theirs.reset();
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));

    EXPECT_EQ(receive().kind, Received::Kind::Reset);
    EXPECT_EQ(text(receive()), "ready");
    EXPECT_EQ(text(receive()), "a");
    EXPECT_EQ(text(receive()), "b");
    EXPECT_EQ(receive().kind, Received::Kind::End);
}

TEST_F(PacketSocketTest, ALongPacketIsMarkedTruncatedAndItsDescriptorsAreOwned) {
    const UniqueFd fd = make_memfd(1, 0);
    ASSERT_EQ(send(std::string(kMaxPacketBytes + 1, 'x'), std::array{fd.get()}), Sent::Done);
    ASSERT_EQ(send("next"), Sent::Done);

    {
        const Received received = receive();
        EXPECT_EQ(received.kind, Received::Kind::Packet);
        EXPECT_TRUE(received.truncated);
        EXPECT_EQ(received.size, kMaxPacketBytes);
        EXPECT_EQ(received.fds.size(), 1U);
    }
    EXPECT_EQ(text(receive()), "next");
}

TEST_F(PacketSocketTest, APacketOfExactlyTheBuffersSizeIsNotTruncated) {
    ASSERT_EQ(send(std::string(kMaxPacketBytes, 'x')), Sent::Done);

    const Received received = receive();
    EXPECT_FALSE(received.truncated);
    EXPECT_EQ(received.size, kMaxPacketBytes);
}

/// Lowers this process's limit of descriptors so that exactly `count` more can be opened.
class FewDescriptorsLeft {
  public:
    explicit FewDescriptorsLeft(rlim_t count) {
        EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &before_), 0);
        // Numbers are given out from the lowest: once `count` are taken, the highest of them is the limit.
        std::vector<UniqueFd> taken;
        for (rlim_t i = 0; i < count; ++i) {
            taken.push_back(owned(::fcntl(0, F_DUPFD_CLOEXEC, 0), "dup"));
        }
        rlimit low = before_;
        low.rlim_cur = static_cast<rlim_t>(taken.back().get()) + 1;
        EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
    }
    FewDescriptorsLeft(const FewDescriptorsLeft&) = delete;
    FewDescriptorsLeft& operator=(const FewDescriptorsLeft&) = delete;
    ~FewDescriptorsLeft() { EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before_), 0); }

  private:
    rlimit before_{};
};

TEST_F(PacketSocketTest, DescriptorsThatTheProcessLimitCutOffAreSaidToBeMissing) {
    const auto fds = memfds_of_rising_size(5);
    ASSERT_EQ(send("five", loans(fds)), Sent::Done);
    ASSERT_EQ(send("five again", loans(fds)), Sent::Done);

    {
        const FewDescriptorsLeft few(2);
        const Received received = receive();
        EXPECT_EQ(received.kind, Received::Kind::Packet);
        EXPECT_EQ(text(received), "five");
        EXPECT_TRUE(received.fds_missing);
        EXPECT_EQ(received.fds.size(), 2U);
    }
    const Received again = receive();
    EXPECT_FALSE(again.fds_missing);
    EXPECT_EQ(again.fds.size(), 5U);
}

TEST_F(PacketSocketTest, WithoutRoomForDescriptorsAPacketThatHasNoneIsReadAsEver) {
    ASSERT_EQ(send("plain"), Sent::Done);
    const auto received = receive_packet_without_fds(ours.get(), buffer);
    ASSERT_TRUE(received);
    EXPECT_EQ(text(*received), "plain");
    EXPECT_FALSE(received->fds_missing);
    EXPECT_FALSE(received->is_left);
    EXPECT_EQ(receive().kind, Received::Kind::WouldBlock);
}

TEST_F(PacketSocketTest, WithoutRoomForDescriptorsAPacketThatHasSomeIsOnlyLookedAt) {
    const auto fds = memfds_of_rising_size(3);
    ASSERT_EQ(send("laden", loans(fds)), Sent::Done);
    const std::size_t before = open_descriptors();
    const auto looked = receive_packet_without_fds(ours.get(), buffer);
    ASSERT_TRUE(looked);
    EXPECT_EQ(text(*looked), "laden");
    EXPECT_TRUE(looked->fds_missing);
    EXPECT_TRUE(looked->is_left);
    EXPECT_EQ(open_descriptors(), before);
    EXPECT_EQ(receive().fds.size(), 3U) << "all of it is still there";
}

TEST_F(PacketSocketTest, AnEmptyPacketIsTheEndWithItsDescriptors) {
    const UniqueFd fd = make_memfd(1, 0);
    const std::size_t before = open_descriptors();
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
    msghdr message{};
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    const int loan = fd.get();
    std::memcpy(CMSG_DATA(header), &loan, sizeof loan);
    ASSERT_EQ(::sendmsg(theirs.get(), &message, 0), 0);

    {
        const Received received = receive();
        EXPECT_EQ(received.kind, Received::Kind::End);
        EXPECT_EQ(received.fds.size(), 1U);
    }
    EXPECT_EQ(open_descriptors(), before);
}

TEST_F(PacketSocketTest, AFullQueueIsWouldBlockAndLosesNothing) {
    int sent = 0;
    while (send(std::to_string(sent)) == Sent::Done) {
        ++sent;
    }
    EXPECT_GT(sent, 0);
    EXPECT_EQ(send(std::to_string(sent)), Sent::WouldBlock);

    for (int i = 0; i < sent; ++i) {
        ASSERT_EQ(text(receive()), std::to_string(i));
    }
    EXPECT_EQ(receive().kind, Received::Kind::WouldBlock);
    EXPECT_EQ(send("again"), Sent::Done);
}

/// Sends them from their end, in one run.
SentRun send_run(int socket, const std::vector<std::string>& texts) {
    std::vector<Parcel> packets;
    for (const std::string& text : texts) {
        packets.push_back({as_bytes(text)});
    }
    const auto run = send_packets(socket, packets);
    EXPECT_TRUE(run) << run.error().message;
    return run.value_or(SentRun{});
}

TEST_F(PacketSocketTest, ARunOfPacketsArrivesAsThatManyPacketsInOrder) {
    const SentRun run = send_run(theirs.get(), {"a", "bb", "ccc"});
    EXPECT_EQ(run.count, 3U);
    EXPECT_EQ(run.what, Sent::Done);
    for (const char* expected : {"a", "bb", "ccc"}) {
        EXPECT_EQ(text(receive()), expected);
    }
    EXPECT_EQ(receive().kind, Received::Kind::WouldBlock);
}

TEST_F(PacketSocketTest, ARunThatTheQueueHasNoRoomForSaysHowFarItCame) {
    const std::vector<std::string> three = {"a", "b", "c"};
    std::size_t sent = 0;
    SentRun run;
    do {
        run = send_run(theirs.get(), three);
        sent += run.count;
    } while (run.count == three.size());
    EXPECT_EQ(run.what, Sent::WouldBlock);
    for (std::size_t i = 0; i < sent; ++i) {
        ASSERT_EQ(text(receive()), three[i % three.size()]);
    }
    EXPECT_EQ(receive().kind, Received::Kind::WouldBlock);
}

TEST_F(PacketSocketTest, ARunToAPeerThatLeftIsGone) {
    ours.reset();
    const SentRun run = send_run(theirs.get(), {"a", "b"});
    EXPECT_EQ(run.count, 0U);
    EXPECT_EQ(run.what, Sent::Gone);
}

TEST_F(PacketSocketTest, ARunLendsEachPacketItsOwnDescriptors) {
    const auto fds = memfds_of_rising_size(253);
    const auto all = loans(fds);
    std::vector<std::string> texts;
    for (int i = 0; i < 200; ++i) {
        texts.push_back(std::to_string(i));
    }
    std::vector<Parcel> packets;
    for (std::size_t i = 0; i < texts.size(); ++i) {
        packets.push_back({as_bytes(texts[i]), std::span(all).subspan(i, i % 50 == 7 ? 3 : i % 2)});
    }
    packets[150].fds = all;  // as many as there can be, in a run of others
    std::size_t sent = 0;
    while (sent < packets.size()) {
        const auto run = send_packets(theirs.get(), std::span(packets).subspan(sent));
        ASSERT_TRUE(run) << run.error().message;
        ASSERT_GT(run->count, 0U);
        for (std::size_t i = sent; i < sent + run->count; ++i) {
            const Received received = receive();
            ASSERT_EQ(text(received), texts[i]);
            ASSERT_EQ(received.fds.size(), packets[i].fds.size());
            for (std::size_t fd = 0; fd < received.fds.size(); ++fd) {
                ASSERT_EQ(size_of(received.fds[fd]), size_of(fds[i == 150 ? fd : i + fd]));
            }
        }
        sent += run->count;
    }
    const std::vector<int> too_many(254, all[0]);
    const std::array<Parcel, 2> wrong = {Parcel{as_bytes("fine")}, Parcel{as_bytes("wrong"), too_many}};
    const auto run = send_packets(theirs.get(), wrong);
    ASSERT_FALSE(run);
    expect_error(run.error(), Errc::Limit, "", "at most 253 descriptors, not 254");
}

TEST_F(PacketSocketTest, ABurstIsEachPacketWithItsOwnDescriptors) {
    const std::size_t before = open_descriptors();
    {
        const auto fds = memfds_of_rising_size(3);
        const auto all = loans(fds);
        BurstReader reader(4);
        for (const std::size_t most : {4U, 2U, 1U}) {
            ASSERT_EQ(send("none"), Sent::Done);
            ASSERT_EQ(send("two", std::span(all).first(2)), Sent::Done);
            ASSERT_EQ(send(std::string(kMaxPacketBytes, 'x')), Sent::Done);
            ASSERT_EQ(send(std::string(kMaxPacketBytes + 1, 'x'), std::span(all).last(1)), Sent::Done);
            std::vector<std::string> seen;
            std::vector<std::size_t> counts;
            std::vector<bool> truncated;
            for (;;) {
                auto burst = reader.read(ours.get(), most);
                ASSERT_TRUE(burst);
                ASSERT_LE(burst->size(), most);
                if (burst->front().kind == Received::Kind::WouldBlock) {
                    ASSERT_EQ(burst->size(), 1U);
                    break;
                }
                for (std::size_t i = 0; i < burst->size(); ++i) {
                    const auto bytes = reader.bytes(i);
                    seen.emplace_back(reinterpret_cast<const char*>(bytes.data()),
                                      std::min<std::size_t>(bytes.size(), 4));
                    counts.push_back((*burst)[i].fds.size());
                    truncated.push_back((*burst)[i].truncated);
                    EXPECT_FALSE((*burst)[i].fds_missing);
                    (*burst)[i].fds.clear();
                }
            }
            EXPECT_EQ(seen, (std::vector<std::string>{"none", "two", "xxxx", "xxxx"}));
            EXPECT_EQ(counts, (std::vector<std::size_t>{0, 2, 0, 1}));
            EXPECT_EQ(truncated, (std::vector<bool>{false, false, false, true}));
        }
    }
    EXPECT_EQ(open_descriptors(), before);
}

TEST_F(PacketSocketTest, ABurstSaysOfEachPacketWhetherDescriptorsAreMissing) {
    const auto fds = memfds_of_rising_size(2);
    ASSERT_EQ(send("first", loans(fds)), Sent::Done);
    ASSERT_EQ(send("second", loans(fds)), Sent::Done);
    ASSERT_EQ(send("third"), Sent::Done);
    BurstReader reader(3);
    {
        const FewDescriptorsLeft few(3);
        const auto burst = reader.read(ours.get(), 3);
        ASSERT_TRUE(burst);
        ASSERT_EQ(burst->size(), 3U);
        EXPECT_FALSE((*burst)[0].fds_missing);
        EXPECT_EQ((*burst)[0].fds.size(), 2U);
        EXPECT_TRUE((*burst)[1].fds_missing);
        EXPECT_FALSE((*burst)[2].fds_missing);
    }
}

TEST_F(PacketSocketTest, TheEndIsTheLastOfABurst) {
    ASSERT_EQ(send("last"), Sent::Done);
    theirs.reset();
    BurstReader reader(8);
    const auto burst = reader.read(ours.get(), 8);
    ASSERT_TRUE(burst);
    ASSERT_EQ(burst->size(), 2U);
    EXPECT_EQ((*burst)[0].kind, Received::Kind::Packet);
    EXPECT_EQ((*burst)[1].kind, Received::Kind::End);
}

TEST_F(PacketSocketTest, WhatComesBehindAnEmptyPacketIsOwnedByTheEnd) {
    const auto fds = memfds_of_rising_size(2);
    msghdr empty{};
    ASSERT_EQ(::sendmsg(theirs.get(), &empty, 0), 0);
    ASSERT_EQ(send("behind", loans(fds)), Sent::Done);
    BurstReader reader(8);
    const auto burst = reader.read(ours.get(), 8);
    ASSERT_TRUE(burst);
    ASSERT_EQ(burst->size(), 1U);
    EXPECT_EQ(burst->front().kind, Received::Kind::End);
    EXPECT_EQ(burst->front().fds.size(), 2U);
}

TEST_F(PacketSocketTest, SendingToAPeerThatLeftIsGoneAndRaisesNoSignal) {
    ASSERT_EQ(send("still here"), Sent::Done);
    theirs.reset();

    const auto sent = send_packet(ours.get(), as_bytes("x"), {});
    ASSERT_TRUE(sent);
    EXPECT_EQ(*sent, Sent::Gone);
    EXPECT_EQ(text(receive()), "still here");
    EXPECT_EQ(receive().kind, Received::Kind::End);
}

TEST_F(PacketSocketTest, ATooLongPacketIsALimitThatSaysWhatTheSocketTakes) {
    const std::string huge(1 << 20, 'x');
    const auto sent = send_packet(theirs.get(), as_bytes(huge), {});
    ASSERT_FALSE(sent);
    expect_error(sent.error(), Errc::Limit, "", "a packet of 1048576 bytes is too long");
    EXPECT_EQ(sent.error().os_error, EMSGSIZE);
    EXPECT_EQ(sent.error().limit_name, "packet_bytes");
    EXPECT_EQ(sent.error().value, huge.size());
    EXPECT_EQ(receive().kind, Received::Kind::WouldBlock);

    // It is the limit: one byte more is too long, and that many are not.
    const auto over = send_packet(theirs.get(), as_bytes(huge).first(sent.error().limit + 1), {});
    ASSERT_FALSE(over);
    EXPECT_EQ(over.error().os_error, EMSGSIZE);
    const auto largest = send_packet(theirs.get(), as_bytes(huge).first(sent.error().limit), {});
    ASSERT_TRUE(largest);
    EXPECT_EQ(*largest, Sent::Done);
}

TEST_F(PacketSocketTest, ASignalBeforeAPacketIsInterrupted) {
    connect(0);  // blocking
    struct sigaction quiet{};
    quiet.sa_handler = [](int) {};  // no SA_RESTART
    struct sigaction before{};
    ASSERT_EQ(::sigaction(SIGALRM, &quiet, &before), 0);
    // Again and again: the first may come before the read has begun.
    const itimerval ticks{{0, 10'000}, {0, 10'000}};
    ASSERT_EQ(::setitimer(ITIMER_REAL, &ticks, nullptr), 0);

    EXPECT_EQ(receive().kind, Received::Kind::Interrupted);

    const itimerval none{};
    ASSERT_EQ(::setitimer(ITIMER_REAL, &none, nullptr), 0);
    ASSERT_EQ(::sigaction(SIGALRM, &before, nullptr), 0);
}

TEST_F(PacketSocketTest, WhateverElseTheKernelSaysIsConnectionLostWithErrno) {
    const UniqueFd no_socket = make_memfd(1, 0);

    const auto received = receive_packet(no_socket.get(), buffer);
    ASSERT_FALSE(received);
    expect_error(received.error(), Errc::ConnectionLost, "", "receive a packet: ");
    EXPECT_EQ(received.error().os_error, ENOTSOCK);
    const auto sent = send_packet(no_socket.get(), as_bytes("x"), {});
    ASSERT_FALSE(sent);
    expect_error(sent.error(), Errc::ConnectionLost, "", "send a packet: ");
    EXPECT_EQ(sent.error().os_error, ENOTSOCK);
}

TEST_F(PacketSocketTest, TooManyDescriptorsInFlightWaitUntilThePeerHasRead) {
    const UniqueFd fd = make_memfd(1, 0);
    const std::vector<int> fds(50, fd.get());
    // A process of its own: the limit is the sender's, and root has none.
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        const rlimit low{64, 64};
        if (::setrlimit(RLIMIT_NOFILE, &low) != 0 || (::geteuid() == 0 && ::setresuid(65534, 65534, 65534) != 0)) {
            ::_exit(10);
        }
        auto sent = send_packet(theirs.get(), as_bytes("x"), fds);
        for (int i = 0; i < 10 && sent && *sent == Sent::Done; ++i) {
            sent = send_packet(theirs.get(), as_bytes("x"), fds);
        }
        if (!sent || *sent != Sent::TooManyInFlight) {
            ::_exit(11);
        }
        for (auto received = receive_packet(ours.get(), buffer);
             received && received->kind == Received::Kind::Packet;) {
            received = receive_packet(ours.get(), buffer);
        }
        sent = send_packet(theirs.get(), as_bytes("x"), fds);
        ::_exit(sent && *sent == Sent::Done ? 0 : 12);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 0) << "10: no such user; 11: never too many; 12: still too many";
}

}  // namespace
}  // namespace hurray::wire
