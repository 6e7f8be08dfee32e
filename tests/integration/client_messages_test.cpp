// What somebody reads who does something wrong for the first time: each message names the thing and says what to do.
#include <csignal>
#include <cstring>
#include <fstream>
#include <thread>

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <gmock/gmock.h>

#include "libhurray/base/unique_fd.hpp"
#include "proto/wire/codec.hpp"
#include "proto/wire/packet_socket.hpp"
#include "tests/integration/client_test.hpp"
#include "tests/support/temporary_directory.hpp"

namespace hurray::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// What a call fails with.
struct Refusal {
    HurrayStatus status = HURRAY_OK;
    std::string reason;
};

template <class Call>
Refusal refusal_of(Call&& call) {
    try {
        call();
        return {};
    } catch (const StatusError& error) {
        return {error.status(), std::string(error.reason())};
    }
}

void expect_refusal(const Refusal& refusal, HurrayStatus status, const ::testing::Matcher<std::string>& reason) {
    EXPECT_EQ(refusal.status, status) << refusal.reason;
    EXPECT_THAT(refusal.reason, reason);
    EXPECT_THAT(refusal.reason, Not(HasSubstr("hurray_client_")));
}

// ---- Connecting -----------------------------------------------------------------------------------------------------

class ConnectMessages : public ::testing::Test {
  protected:
    static Refusal connect(const std::string& path) {
        ConnectOptions options;
        options.address = path;
        return refusal_of([&] { Client::connect(std::move(options)); });
    }

    static UniqueFd listen(const std::string& path) {
        UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
        sockaddr_un name{};
        name.sun_family = AF_UNIX;
        path.copy(name.sun_path, sizeof name.sun_path - 1);
        EXPECT_EQ(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name), 0);
        EXPECT_EQ(::listen(socket.get(), 8), 0);
        return socket;
    }

    TemporaryDirectory directory_;
    std::string path_ = directory_ / "hurrayd.sock";
};

TEST_F(ConnectMessages, DaemonThatIsNotRunningNamesThePathAndHowToStartOne) {
    expect_refusal(connect(path_), HURRAY_ERR_DAEMON_UNAVAILABLE,
                   AllOf(HasSubstr("hurrayd is not running"), HasSubstr(path_), HasSubstr("no socket there"),
                         HasSubstr("Start `hurrayd`"), HasSubstr("hurrayctl run --"), HasSubstr("HURRAY_SOCKET")));
}

TEST_F(ConnectMessages, DaemonThatLeftItsSocketBehindIsNotRunning) {
    listen(path_).reset();
    expect_refusal(connect(path_), HURRAY_ERR_DAEMON_UNAVAILABLE,
                   AllOf(HasSubstr("hurrayd is not running"), HasSubstr("nobody listens there any more")));
}

TEST_F(ConnectMessages, PathThatIsNoSocketSaysWhatIsThere) {
    std::ofstream(path_) << "not a socket\n";
    expect_refusal(connect(path_), HURRAY_ERR_DAEMON_UNAVAILABLE,
                   AllOf(HasSubstr("no socket of hurrayd at " + path_), HasSubstr("a regular file"),
                         HasSubstr("is the address right?")));
    expect_refusal(connect("/"), HURRAY_ERR_DAEMON_UNAVAILABLE, HasSubstr("a folder"));
    expect_refusal(connect("/dev/null"), HURRAY_ERR_DAEMON_UNAVAILABLE, HasSubstr("no socket of hurrayd at /dev/null"));
}

TEST_F(ConnectMessages, SocketOfAGroupThatOneIsNotInNamesTheGroupToJoin) {
    if (::geteuid() == 0) {
        GTEST_SKIP() << "root is never refused";
    }
    const UniqueFd listener = listen(path_);
    ASSERT_EQ(::chmod(path_.c_str(), 0060), 0);  // its owner is not its group's member, as far as the kernel looks
    expect_refusal(connect(path_), HURRAY_ERR_NOT_PERMITTED,
                   AllOf(HasSubstr("not permitted to connect to hurrayd on " + path_), HasSubstr("and the group `"),
                         HasSubstr("sudo usermod -aG "), HasSubstr("log in again")));
}

TEST_F(ConnectMessages, SocketOfAnotherUserSaysThatItAdmitsNobodyElse) {
    if (::geteuid() == 0) {
        GTEST_SKIP() << "root is never refused";
    }
    const UniqueFd listener = listen(path_);
    ASSERT_EQ(::chmod(path_.c_str(), 0), 0);
    expect_refusal(connect(path_), HURRAY_ERR_NOT_PERMITTED,
                   AllOf(HasSubstr("admits nobody else"), HasSubstr("hurrayctl run"), Not(HasSubstr("usermod"))));
}

TEST_F(ConnectMessages, FolderThatMayNotBeEnteredNamesTheGroupOfTheHostsDaemon) {
    if (::geteuid() == 0) {
        GTEST_SKIP() << "root is never refused";
    }
    const std::string folder = directory_ / "closed";
    ASSERT_EQ(::mkdir(folder.c_str(), 0), 0);
    expect_refusal(connect(folder + "/hurrayd.sock"), HURRAY_ERR_NOT_PERMITTED,
                   AllOf(HasSubstr("folder may not be entered"), HasSubstr("the group `hurray`")));
}

/// Answers the first packet of the first connection with `packet`.
std::thread answer_once(const UniqueFd& listener, wire::Packet packet) {
    return std::thread([fd = listener.get(), packet = std::move(packet)] {
        const UniqueFd peer(::accept4(fd, nullptr, nullptr, SOCK_CLOEXEC));
        std::vector<std::byte> buffer(wire::kMaxPacketBytes);
        EXPECT_TRUE(wire::receive_packet(peer.get(), buffer));
        std::string bytes = wire::encoded(packet);
        EXPECT_TRUE(wire::send_packet(peer.get(), std::as_bytes(std::span(bytes)), {}));
    });
}

TEST_F(ConnectMessages, DaemonOfOtherVersionsNamesBothRanges) {
    const UniqueFd listener = listen(path_);
    std::thread daemon = answer_once(
        listener, {1, Error{Errc::Protocol, "this hurrayd speaks versions 2 to 3 of the protocol, the client 1 to 1"}});
    expect_refusal(connect(path_), HURRAY_ERR_PROTOCOL, AllOf(HasSubstr("2 to 3"), HasSubstr("the client 1 to 1")));
    daemon.join();
}

TEST_F(ConnectMessages, DaemonThatIsFullSaysWhichLimitWasReached) {
    const UniqueFd listener = listen(path_);
    Error full{Errc::OverQuota, "user 1000 has 256 clients; at most 256 are allowed"};
    full.limit_name = "quota.user.clients";
    std::thread daemon = answer_once(listener, {0, wire::Closing{full}});
    expect_refusal(connect(path_), HURRAY_ERR_OVER_QUOTA, HasSubstr("256 clients; at most 256"));
    daemon.join();
}

TEST_F(ConnectMessages, ListenerThatIsNoDaemonIsCalledThat) {
    const UniqueFd listener = listen(path_);
    std::thread other([&] {
        const UniqueFd peer(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
        [[maybe_unused]] const auto sent = ::send(peer.get(), "HTTP/1.1 400 Bad Request\r\n", 26, MSG_NOSIGNAL);
    });
    expect_refusal(connect(path_), HURRAY_ERR_PROTOCOL, HasSubstr("no hurrayd"));
    other.join();
}

// ---- Names, versions, options ---------------------------------------------------------------------------------------

class Messages : public ClientTest {};

TEST_F(Messages, NameThatLooksLikeAPatternIsToldSo) {
    Client client = connect();
    const auto attach = [&](const char* name) { return refusal_of([&] { client.attach(name); }); };
    expect_refusal(attach("camera/"), HURRAY_ERR_INVALID_ARGUMENT,
                   AllOf(HasSubstr("\"camera/\""), HasSubstr("ends in \"/\", as only patterns do")));
    expect_refusal(attach("/camera"), HURRAY_ERR_INVALID_ARGUMENT, HasSubstr("\"/camera\" begins with \"/\""));
    expect_refusal(attach("a//b"), HURRAY_ERR_INVALID_ARGUMENT, HasSubstr("an empty segment at position 2"));
    expect_refusal(attach("a/../b"), HURRAY_ERR_INVALID_ARGUMENT,
                   AllOf(HasSubstr("is no path"), HasSubstr("\"..\" at position 2")));
    expect_refusal(attach(""), HURRAY_ERR_INVALID_ARGUMENT, HasSubstr("empty"));
    expect_refusal(attach(std::string(256, 'n').c_str()), HURRAY_ERR_LIMIT, AllOf(HasSubstr("256"), HasSubstr("255")));
}

TEST_F(Messages, WhatIsNotThereIsNamedWithTheVersionAskedFor) {
    Client client = connect();
    expect_refusal(refusal_of([&] { client.attach("absent"); }), HURRAY_ERR_NOT_FOUND,
                   HasSubstr("nothing under the name \"absent\""));
    expect_refusal(refusal_of([&] { client.attach("absent", {.timeout = 1ms}); }), HURRAY_ERR_TIMED_OUT,
                   HasSubstr("nothing under the name \"absent\" came in time"));
    const CapsuleInfo info = publish(client, "there", 1, 1);
    const std::string version = std::to_string(info.version);
    expect_refusal(refusal_of([&] { client.attach("there", {.newer_than = info.version}); }), HURRAY_ERR_NOT_FOUND,
                   HasSubstr("no version above " + version + " under the name \"there\""));
    expect_refusal(refusal_of([&] { client.attach("there", {.timeout = 1ms, .newer_than = info.version}); }),
                   HURRAY_ERR_TIMED_OUT, HasSubstr("no version above " + version + " under the name \"there\" came"));
    expect_refusal(refusal_of([&] { client.attach("there", {.version = info.version - 1}); }), HURRAY_ERR_NOT_FOUND,
                   HasSubstr("no version " + std::to_string(info.version - 1) + " under the name \"there\""));
    expect_refusal(refusal_of([&] { client.attach("there", {.version = 7, .newer_than = 6}); }),
                   HURRAY_ERR_INVALID_ARGUMENT, AllOf(HasSubstr("version 7 and newer_than 6"), HasSubstr("exactly")));
    expect_refusal(refusal_of([&] { client.withdraw({}); }), HURRAY_ERR_NOT_FOUND, HasSubstr("no such capsule"));
}

TEST_F(Messages, FlagsAreRefusedByTheirNames) {
    Client client = connect();
    HurrayBufferList* list = nullptr;
    HurrayTensorContext* context = nullptr;
    HurrayAttachOptions attach{};
    attach.struct_size = sizeof attach;
    attach.name = "x";
    attach.flags = 1U << 20;
    EXPECT_EQ(hurray_client_attach(client.handle(), &attach, &list, &context, nullptr), HURRAY_ERR_INVALID_ARGUMENT);
    EXPECT_THAT(hurray_last_error_message(), HasSubstr("0x100000 is no flag of this function"));

    const std::uint64_t size = 4;
    HurrayAllocation* allocation = nullptr;
    ASSERT_EQ(hurray_client_allocate(client.handle(), &size, 1, nullptr, &allocation), HURRAY_OK);
    const std::uint8_t byte = 0;
    HurrayPublishOptions publish{};
    publish.struct_size = sizeof publish;
    for (const std::int64_t linger_ms : {1, -1}) {
        publish.flags = linger_ms < 0 ? HURRAY_PUBLISH_LINGER : 0U;
        publish.linger_ms = linger_ms;
        EXPECT_EQ(hurray_client_publish(client.handle(), "x", &byte, 1, &allocation, &publish, nullptr),
                  HURRAY_ERR_INVALID_ARGUMENT);
        EXPECT_THAT(hurray_last_error_message(),
                    HasSubstr(linger_ms < 0 ? "is -1; 0 lets it linger" : "is 1, which has no meaning without"));
    }
    publish.linger_ms = 0;
    publish.flags = HURRAY_PUBLISH_ONCE;
    publish.retain = 2;
    EXPECT_EQ(hurray_client_publish(client.handle(), "x", &byte, 1, &allocation, &publish, nullptr),
              HURRAY_ERR_INVALID_ARGUMENT);
    EXPECT_THAT(hurray_last_error_message(), HasSubstr("ONCE replaces nothing"));
    EXPECT_EQ(hurray_allocation_destroy(&allocation), HURRAY_OK);
}

// ---- Types, memory, objects that are over ---------------------------------------------------------------------------

TEST_F(Messages, ElementsOfAnotherTypeNameBothTypes) {
    Client client = connect();
    publish(client, "typed", 3, 1);
    const Tensor tensor = client.attach("typed");
    expect_refusal(refusal_of([&] { tensor.elements<float>(); }), HURRAY_ERR_INVALID_TYPE,
                   HasSubstr("are uint32, not float32"));
}

TEST_F(Messages, ElementTypeThatWasForgottenIsToldSo) {
    HurrayDenseDescriptor dense{};
    dense.struct_size = sizeof dense;
    std::uint8_t bytes[256];
    uintptr_t length = sizeof bytes;
    EXPECT_EQ(hurray_descriptor_encode_dense(&dense, bytes, &length), HURRAY_ERR_INVALID_TYPE);
    EXPECT_THAT(hurray_last_error_message(), AllOf(HasSubstr("element_type is 0"), HasSubstr("HURRAY_TYPE_")));
}

TEST_F(Messages, OrdinaryMemoryIsToldTheTwoWays) {
    Client client = connect();
    BufferList buffers;
    const std::uint8_t byte = 0;
    EXPECT_EQ(hurray_client_publish_list(client.handle(), "x", &byte, 1, buffers.get(), nullptr, nullptr),
              HURRAY_ERR_INVALID_ARGUMENT);
    EXPECT_THAT(hurray_last_error_message(), AllOf(HasSubstr("hurray_client_allocate"), HasSubstr("COPY")));
}

TEST_F(Messages, ReleasedOrMovedTensorIsToldSo) {
    Client client = connect();
    publish(client, "over", 3, 1);
    Tensor released = client.attach("over");
    released.release();
    Tensor moved = client.attach("over");
    const Tensor owner = std::move(moved);
    for (const Tensor* over : {&released, &moved}) {
        const auto matches = HasSubstr("the tensor was released or moved from");
        expect_refusal(refusal_of([&] { over->elements<std::uint32_t>(); }), HURRAY_ERR_INVALID_ARGUMENT, matches);
        expect_refusal(refusal_of([&] { over->buffer(); }), HURRAY_ERR_INVALID_ARGUMENT, matches);
        expect_refusal(refusal_of([&] { over->descriptor(); }), HURRAY_ERR_INVALID_ARGUMENT, matches);
        expect_refusal(refusal_of([&] { over->shape(); }), HURRAY_ERR_INVALID_ARGUMENT, matches);
        expect_refusal(refusal_of([&] { over->state(); }), HURRAY_ERR_INVALID_ARGUMENT, matches);
    }
    EXPECT_EQ(owner.elements<std::uint32_t>()[2], 3U);
}

TEST_F(Messages, PublishedOrMovedAllocationIsToldSo) {
    Client client = connect();
    Allocation published = client.allocate<float>({1});
    client.publish("taken", std::move(published));
    Allocation moved = client.allocate<float>({1});
    const Allocation owner = std::move(moved);
    for (Allocation* over : {&published, &moved}) {
        const auto matches = HasSubstr("the allocation was published or moved from");
        expect_refusal(refusal_of([&] { over->elements<float>(); }), HURRAY_ERR_INVALID_ARGUMENT, matches);
        expect_refusal(refusal_of([&] { over->buffer(); }), HURRAY_ERR_INVALID_ARGUMENT, matches);
        expect_refusal(refusal_of([&] { client.publish("taken", std::move(*over)); }), HURRAY_ERR_INVALID_ARGUMENT,
                       matches);
        expect_refusal(refusal_of([&] { client.publish("taken", owner.descriptor(), std::move(*over)); }),
                       HURRAY_ERR_INVALID_ARGUMENT, matches);
    }
}

TEST_F(Messages, MovedClientIsToldSoByEveryCall) {
    Client moved = connect();
    Client client = std::move(moved);
    Allocation allocation = client.allocate<float>({1});
    const std::function<void()> calls[] = {
        [&] { moved.close(); },
        [&] { moved.poll_fd(); },
        [&] { moved.dispatch(); },
        [&] { static_cast<void>(moved.status()); },
        [&] { moved.allocate<float>({1}); },
        [&] { moved.publish("x", std::move(allocation)); },
        [&] { moved.withdraw({}); },
        [&] { moved.attach("x"); },
        [&] { moved.list(); },
        [&] { static_cast<void>(moved.watch("", [](const Event&) {})); },
    };
    for (const auto& call : calls) {
        expect_refusal(refusal_of(call), HURRAY_ERR_INVALID_ARGUMENT, HasSubstr("the client was moved from"));
    }
    EXPECT_NO_THROW(client.publish("x", std::move(allocation))) << "it was not taken by the call that failed";
}

TEST_F(Messages, DaemonThatEndsSaysSoToWhoeverWaits) {
    Client client = connect_once();
    daemon_.end(SIGTERM);
    Refusal refusal;
    while (refusal.status == HURRAY_OK) {
        refusal = refusal_of([&] { client.list(); });
    }
    expect_refusal(refusal, HURRAY_ERR_CONNECTION_LOST, HasSubstr("hurrayd ended the connection: hurrayd ends"));
}

}  // namespace
}  // namespace hurray::test
