#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "tests/support/child.hpp"
#include "tests/support/daemon_process.hpp"
#include "tests/support/raw_peer.hpp"
#include "tests/support/sanitized.hpp"

// The daemon under a service manager: the socket that is handed over, and what is said in return. The manager is played by
// DaemonProcess; AgreesWithSystemdsOwnTool keeps it honest.

namespace hurray::test {
namespace {

using namespace std::chrono_literals;

UniqueFd listen_at(const std::string& path, int type = SOCK_SEQPACKET, bool listens = true) {
    UniqueFd listener(::socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.data(), path.size());
    if (::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
        (listens && ::listen(listener.get(), SOMAXCONN) != 0)) {
        throw std::runtime_error("listen at " + path);
    }
    return listener;
}

/// Fills the queue of a service manager's socket, as one that does not read has it. Ends with the manager's socket full.
void fill(const std::string& notify_path) {
    const UniqueFd sender(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, notify_path.data(), notify_path.size());
    while (::sendto(sender.get(), "X", 1, 0, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 1) {
    }
    ASSERT_EQ(errno, EAGAIN);
}

DaemonProcess::Options with(DaemonProcess::Options base, const std::function<void(DaemonProcess::Options&)>& change) {
    change(base);
    return base;
}

const DaemonProcess::Options kPlain{.arguments = {}, .environment = {}, .descriptor_limit = {}};

TEST(SocketActivation, ServesWhoCameBeforeTheDaemon) {
    const TemporaryDirectory directory;
    const std::string path = directory / "made-by-the-manager.sock";
    const UniqueFd listener = listen_at(path);
    RawPeer early(path);
    const std::uint64_t hello = early.send_hello();  // nobody is there yet to read it

    DaemonProcess daemon(with(kPlain, [&](auto& o) { o.handed_over = {{listener.get(), "hurrayd.socket"}}; }));
    early.next<wire::HelloReply>(hello);
    early.publish(make_tensor("t"));
    RawPeer::greeted(path).attach(1, "t");

    EXPECT_NE(daemon.log().find("serving socket=" + path + " made_by=\"service manager\""), std::string::npos)
        << daemon.log();
    // Its own place stays empty, and it says so.
    EXPECT_FALSE(std::filesystem::exists(daemon.socket_path()));
    EXPECT_NE(daemon.log().find("socket_path_unused configured=" + daemon.socket_path()), std::string::npos)
        << daemon.log();
}

TEST(SocketActivation, ClientsThatComeBetweenTwoDaemonsAreServedByTheNext) {
    const TemporaryDirectory directory;
    const std::string path = directory / "hurrayd.sock";
    const UniqueFd listener = listen_at(path);
    struct stat before{};
    ASSERT_EQ(::stat(path.c_str(), &before), 0);
    DaemonProcess daemon(with(kPlain, [&](auto& o) { o.handed_over = {{listener.get(), "hurrayd.socket"}}; }));
    for (const int signal : {SIGTERM, SIGKILL, SIGTERM, SIGKILL}) {
        daemon.end(signal);
        RawPeer between(path);
        const std::uint64_t hello = between.send_hello();
        daemon.start();
        between.next<wire::HelloReply>(hello);
    }
    struct stat after{};
    ASSERT_EQ(::stat(path.c_str(), &after), 0);
    EXPECT_EQ(before.st_ino, after.st_ino);
}

TEST(SocketActivation, WhatIsNoListeningSeqpacketSocketIsRefusedByName) {
    const TemporaryDirectory directory;
    const UniqueFd stream = listen_at(directory / "stream", SOCK_STREAM);
    const UniqueFd datagram = listen_at(directory / "datagram", SOCK_DGRAM, false);
    const UniqueFd silent = listen_at(directory / "silent", SOCK_SEQPACKET, false);
    const UniqueFd good = listen_at(directory / "good");
    const UniqueFd tcp(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const UniqueFd file(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    const std::string needs = "; hurrayd needs one ListenSequentialPacket=PATH";
    struct Case {
        std::vector<std::pair<int, std::string>> handed_over;
        std::string reason;
    };
    for (const Case& each :
         {Case{{{stream.get(), "a.socket"}},
               "as a.socket (" + directory.path() + "/stream) is a stream socket" + needs},
          Case{{{datagram.get(), "b.socket"}}, "as b.socket (" + directory.path() + "/datagram) is a datagram socket"},
          Case{{{silent.get(), "c.socket"}}, "/silent) is not listening (Accept= must be no)" + needs},
          Case{{{tcp.get(), "d.socket"}}, "as d.socket is not a Unix socket" + needs},
          Case{{{file.get(), "e.socket"}}, "as e.socket is not a socket" + needs},
          Case{{{good.get(), "f.socket"}, {stream.get(), "g.socket"}},
               "handed over 2 sockets (f.socket, g.socket), hurrayd takes 1"}}) {
        DaemonProcess daemon(with(kPlain, [&](auto& o) {
            o.handed_over = each.handed_over;
            o.waits_for_ready = false;
        }));
        EXPECT_EQ(WEXITSTATUS(daemon.wait_end()), 1);
        EXPECT_NE(daemon.log().find(each.reason), std::string::npos) << each.reason << "\n" << daemon.log();
    }
}

TEST(SocketActivation, WhatIsMeantForAnotherProcessIsLeftAlone) {
    const TemporaryDirectory directory;
    const UniqueFd listener = listen_at(directory / "theirs.sock");
    DaemonProcess daemon(with(kPlain, [&](auto& o) {
        o.handed_over = {{listener.get(), "hurrayd.socket"}};
        o.is_addressed = false;
    }));
    RawPeer::greeted(daemon.socket_path());
    EXPECT_NE(daemon.log().find("made_by=hurrayd"), std::string::npos) << daemon.log();
}

TEST(SocketActivation, AgreesWithSystemdsOwnTool) {
    constexpr const char* kTool = "/usr/bin/systemd-socket-activate";
    if (::access(kTool, X_OK) != 0) {
        GTEST_SKIP() << kTool << " is not installed (Debian: systemd)";
    }
    const TemporaryDirectory directory;
    const std::string path = directory / "hurrayd.sock";
    const std::string socket = "--listen=" + path;
    const std::string runtime = "--setenv=XDG_RUNTIME_DIR=" + directory.path();
    const char* daemon = std::getenv("HURRAYD") != nullptr ? std::getenv("HURRAYD") : HURRAYD_BINARY;
    std::array<int, 2> ends{};
    ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
    const UniqueFd said(ends[0]);
    UniqueFd says(ends[1]);
    const pid_t pid = ::fork();
    ASSERT_GE(pid, 0);
    if (pid == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        ::dup2(says.get(), STDERR_FILENO);
        ::execl(kTool, kTool, "--seqpacket", socket.c_str(), runtime.c_str(), daemon, "--config", "/dev/null",
                static_cast<char*>(nullptr));
        ::_exit(127);
    }
    says.reset();
    const auto read_until = [&](const std::string& text) {  // or the end
        std::string all;
        std::array<char, 512> piece{};
        for (ssize_t got = 1; got > 0 && all.find(text) == std::string::npos;) {
            got = ::read(said.get(), piece.data(), piece.size());
            all.append(piece.data(), got > 0 ? static_cast<std::size_t>(got) : 0);
        }
        return all;
    };
    const std::string listening = read_until("Listening on " + path);
    ASSERT_NE(listening.find("Listening on"), std::string::npos) << listening;
    {
        RawPeer first = RawPeer::greeted(path);  // whose coming starts the daemon
        first.publish(make_tensor("t"));
        RawPeer::greeted(path).attach(1, "t");
    }
    ::kill(pid, SIGTERM);
    const int status = wait_for_end(pid);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << read_until("no such text");
    EXPECT_TRUE(std::filesystem::exists(path));
}

TEST(ServiceStatus, TellsWhatIsHeld) {
    DaemonProcess daemon;
    RawPeer producer = RawPeer::greeted(daemon.socket_path());
    producer.publish(make_tensor("a"));
    producer.publish(make_tensor("b", 16));
    {
        RawPeer consumer = RawPeer::greeted(daemon.socket_path());
        consumer.attach(7, "a");
        consumer.send(wire::Attach{.lease = 8, .what = std::string("later")}, {}, std::nullopt);
        daemon.notification_with("STATUS=clients 2, capsules 2, names 2, leases 1, waiting 1, memory 8.0 KiB\n");
    }
    daemon.notification_with("STATUS=clients 1, capsules 2, names 2, leases 0, waiting 0, memory 8.0 KiB\n");
    {
        RawPeer gone = std::move(producer);
    }
    daemon.notification_with("STATUS=clients 0, capsules 0, names 0, leases 0, waiting 0, memory 0 B\n");
}

TEST(ServiceStatus, ReadyComesWithTheFirstOne) {
    DaemonProcess daemon(with(kPlain, [](auto& o) { o.waits_for_ready = false; }));
    EXPECT_EQ(daemon.next_notification(),
              "READY=1\nSTATUS=clients 0, capsules 0, names 0, leases 0, waiting 0, memory 0 B\n");
}

TEST(ServiceStatus, ReadyIsNotSaidByOneThatCannotServe) {
    const TemporaryDirectory directory;
    const UniqueFd stream = listen_at(directory / "stream", SOCK_STREAM);
    DaemonProcess daemon(with(kPlain, [&](auto& o) {
        o.handed_over = {{stream.get(), "hurrayd.socket"}};
        o.waits_for_ready = false;
    }));
    EXPECT_EQ(WEXITSTATUS(daemon.wait_end()), 1) << daemon.log();
    fill(daemon.notify_path());
    EXPECT_EQ(daemon.next_notification(), "X");  // nothing was there before
}

TEST(ServiceStatus, ReadyIsSaidAgainToAManagerThatHadNoRoom) {
    const TemporaryDirectory directory;
    const std::string path = directory / "hurrayd.sock";
    const UniqueFd listener = listen_at(path);
    DaemonProcess daemon(with(kPlain, [&](auto& o) {
        o.handed_over = {{listener.get(), "hurrayd.socket"}};
        o.waits_for_ready = false;
        o.arguments = {"--config", "/no/such/file"};
    }));
    EXPECT_EQ(WEXITSTATUS(daemon.wait_end()), 2);  // so that its notify socket is there, and full before the next start
    fill(daemon.notify_path());
    DaemonProcess full(with(kPlain, [&](auto& o) {
        o.handed_over = {{listener.get(), "hurrayd.socket"}};
        o.waits_for_ready = false;
        o.environment = {{"NOTIFY_SOCKET", daemon.notify_path()}};
    }));
    RawPeer::greeted(path);  // it serves, and nobody has taken its READY=1
    daemon.notification_with("READY=1\n");
}

TEST(ServiceStatus, AManagerThatDoesNotReadDisturbsNobody) {
    DaemonProcess daemon(with(kPlain, [](auto& o) { o.watchdog = 2ms; }));
    fill(daemon.notify_path());
    for (int i = 0; i < 50; ++i) {
        RawPeer p = RawPeer::greeted(daemon.socket_path());
        p.publish(make_tensor("t"));
    }
    daemon.notification_with("WATCHDOG=1");
}

TEST(Watchdog, GetsSignsOfLifeAllAlong) {  // case C7
    DaemonProcess daemon(with(kPlain, [](auto& o) { o.watchdog = 20ms; }));
    for (int i = 0; i < 20; ++i) {
        daemon.notification_with("WATCHDOG=1");
    }
}

// sd_notify makes a socket for each message: a daemon that was merely full would have been killed as hung.
TEST(Watchdog, GetsSignsOfLifeFromADaemonWithoutADescriptorLeft) {
    if (kIsSanitized) {
        GTEST_SKIP() << kNoDescriptorsLeftNote;
    }
    DaemonProcess daemon(with(kPlain, [](auto& o) { o.watchdog = 20ms; }));
    const rlimit none{3, 3};  // what is open stays, and nothing more can be opened
    ASSERT_EQ(::prlimit(daemon.pid(), RLIMIT_NOFILE, &none, nullptr), 0);
    fill(daemon.notify_path());  // what comes behind this was sent after it
    while (daemon.next_notification() != "X") {
    }
    for (int i = 0; i < 20; ++i) {
        daemon.notification_with("WATCHDOG=1");
    }
}

TEST(Watchdog, OfAnotherProcessIsLeftAlone) {
    DaemonProcess daemon(with(kPlain, [](auto& o) {
        o.watchdog = 2us;
        o.is_addressed = false;
    }));
    for (int i = 0; i < 20; ++i) {
        RawPeer::greeted(daemon.socket_path());
    }
    daemon.end(SIGTERM);
    for (std::string said; said.find("STOPPING=1") == std::string::npos; said = daemon.next_notification()) {
        EXPECT_EQ(said.find("WATCHDOG"), std::string::npos) << said;
    }
}

}  // namespace
}  // namespace hurray::test
