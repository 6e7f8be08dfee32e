#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "proto/wire/codec.hpp"
#include "tests/support/child.hpp"
#include "tests/support/daemon_process.hpp"
#include "tests/support/raw_peer.hpp"

// The process itself: start, readiness, end, and what it leaves behind.

namespace hurray::test {
namespace {

TEST(DaemonStart, IsReadyWhenItSaysSo) {  // case C7
    DaemonProcess daemon({.arguments = {}, .environment = {}, .descriptor_limit = {}, .before_exec = [] {
                              std::this_thread::sleep_for(std::chrono::seconds(2));
                          }});
    std::vector<RawPeer> clients;  // at once, and none of them has to try twice
    std::vector<std::uint64_t> hellos;
    for (int i = 0; i < 20; ++i) {
        hellos.push_back(clients.emplace_back(daemon.socket_path()).send_hello());
    }
    for (std::size_t i = 0; i < clients.size(); ++i) {
        clients[i].next<wire::HelloReply>(hellos[i]);
        clients[i].call<wire::StatusReply>(wire::StatusRequest{});
    }
}

TEST(DaemonStart, SecondOneIsRefusedAndTheFirstServesOn) {
    DaemonProcess daemon;
    const auto second = daemon.run_another({"--socket", daemon.socket_path()});
    EXPECT_EQ(WEXITSTATUS(second.status), 1);
    EXPECT_NE(second.output.find("another hurrayd serves " + daemon.socket_path()), std::string::npos) << second.output;
    RawPeer::greeted(daemon.socket_path());
}

TEST(DaemonStart, NeverTakesAnotherProgramsLiveSocket) {
    DaemonProcess daemon;
    const TemporaryDirectory directory;
    const std::string path = directory / "theirs.sock";
    for (const int type : {SOCK_STREAM, SOCK_SEQPACKET}) {
        std::filesystem::remove(path);
        const UniqueFd listener(::socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        std::memcpy(address.sun_path, path.data(), path.size());
        ASSERT_EQ(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
        ASSERT_EQ(::listen(listener.get(), 1), 0);
        const auto other = daemon.run_another({"--socket", path});
        EXPECT_EQ(WEXITSTATUS(other.status), 1) << other.output;
        EXPECT_TRUE(std::filesystem::exists(path));
    }
}

TEST(DaemonStart, RefusesAPathThatIsNoSocket) {
    DaemonProcess daemon;
    const TemporaryDirectory directory;
    std::ofstream(directory / "file") << "precious";
    const auto other = daemon.run_another({"--socket", directory / "file"});
    EXPECT_EQ(WEXITSTATUS(other.status), 1);
    EXPECT_TRUE(std::filesystem::is_regular_file(directory / "file"));
}

TEST(DaemonStart, AfterKillNineItStartsAgainByItself) {  // case C5
    DaemonProcess daemon;
    for (int round = 0; round < 20; ++round) {
        RawPeer p = RawPeer::greeted(daemon.socket_path());
        p.publish(make_tensor("t"));
        p.attach(1, "t");
        daemon.end(SIGKILL);
        daemon.start();
    }
    RawPeer::greeted(daemon.socket_path());
}

// Scripts wait until the socket's file is there, and connect.
TEST(DaemonStart, WhoeverSeesItsSocketCanConnect) {
    DaemonProcess daemon;
    for (int round = 0; round < 20; ++round) {
        daemon.end(SIGTERM);
        daemon.start_without_waiting();
        while (!std::filesystem::exists(daemon.socket_path())) {
        }
        RawPeer::greeted(daemon.socket_path());
    }
}

TEST(DaemonStart, StaleSocketIsReplacedInOneStep) {
    DaemonProcess daemon;
    for (int round = 0; round < 20; ++round) {
        daemon.end(SIGKILL);
        struct stat stale{};
        ASSERT_EQ(::lstat(daemon.socket_path().c_str(), &stale), 0);
        daemon.start_without_waiting();
        struct stat now = stale;
        while (now.st_ino == stale.st_ino) {
            ASSERT_EQ(::lstat(daemon.socket_path().c_str(), &now), 0) << "there is a moment without one";
        }
        RawPeer::greeted(daemon.socket_path());
    }
    const auto files = std::filesystem::directory_iterator(std::filesystem::path(daemon.socket_path()).parent_path());
    for (const auto& file : files) {
        EXPECT_FALSE(file.path().native().ends_with(".new")) << file.path() << " is left";
    }
}

TEST(DaemonStart, LongestPathIsServedAndALongerOneIsRefusedByItsLength) {
    const std::size_t directory_bytes = (TemporaryDirectory() / "").size();  // all of them have names of one length
    const DaemonProcess daemon({.arguments = {},
                                .environment = {},
                                .descriptor_limit = {},
                                .socket = std::string(103 - directory_bytes, 's')});
    EXPECT_EQ(daemon.socket_path().size(), 103u);
    RawPeer::greeted(daemon.socket_path());
    const auto refused = daemon.run_another({"--socket", daemon.socket_path() + "s"});
    EXPECT_EQ(WEXITSTATUS(refused.status), 1);
    EXPECT_NE(refused.output.find("has 104 bytes, 1 to 103 are possible: " + daemon.socket_path()), std::string::npos)
        << refused.output;
}

TEST(DaemonStart, APathThatIsTooLongLeavesNothing) {
    const TemporaryDirectory directory;
    const DaemonProcess daemon;
    const auto refused = daemon.run_another({"--socket", directory / "made/" + std::string(150, 's')});
    EXPECT_EQ(WEXITSTATUS(refused.status), 1);
    EXPECT_TRUE(std::filesystem::is_empty(directory / "."));
}

// Where a socket is made before it is moved to its place something else may lie.
TEST(DaemonStart, TakesNobodysFileToMakeItsSocket) {
    const TemporaryDirectory directory;
    const DaemonProcess other({.arguments = {}, .environment = {}, .descriptor_limit = {}, .socket = "x.sock.new"});
    const std::string beside = other.socket_path().substr(0, other.socket_path().size() - 4);
    const auto served = other.run_another({"--socket", beside});
    EXPECT_EQ(WEXITSTATUS(served.status), 1);
    EXPECT_NE(served.output.find("something else serves " + other.socket_path()), std::string::npos) << served.output;
    RawPeer::greeted(other.socket_path());

    std::ofstream(directory / "y.sock.new") << "precious";
    const auto refused = other.run_another({"--socket", directory / "y.sock"});
    EXPECT_EQ(WEXITSTATUS(refused.status), 1);
    EXPECT_TRUE(std::filesystem::is_regular_file(directory / "y.sock.new"));
}

TEST(DaemonStart, VersionsRiseOverItsDeath) {
    DaemonProcess daemon;
    RawPeer before = RawPeer::greeted(daemon.socket_path());
    const auto first = before.publish(make_tensor("t"));
    daemon.end(SIGKILL);
    daemon.start();
    RawPeer after = RawPeer::greeted(daemon.socket_path());
    EXPECT_GT(after.publish(make_tensor("t")).version, first.version);
}

TEST(DaemonEnd, SigtermTellsClientsAndRemovesTheSocket) {  // case C7
    for (const int signal : {SIGTERM, SIGINT}) {
        DaemonProcess daemon;
        RawPeer p = RawPeer::greeted(daemon.socket_path());
        p.publish(make_tensor("t"));
        const int status = daemon.end(signal);
        EXPECT_TRUE(WIFEXITED(status));
        EXPECT_EQ(WEXITSTATUS(status), 0) << daemon.log();
        EXPECT_EQ(daemon.notification_with("STOPPING=1"), "STOPPING=1\nSTATUS=Stopping");
        EXPECT_EQ(p.next<wire::Closing>().error.code, Errc::Closed);
        EXPECT_TRUE(p.at_end());
        EXPECT_FALSE(std::filesystem::exists(daemon.socket_path()));
        daemon.start();
    }
}

TEST(DaemonSocket, AdmitsWhomItsModeSays) {  // case G5
    const mode_t before = ::umask(0);
    DaemonProcess daemon;
    const TemporaryDirectory directory;
    std::ofstream(directory / "hurrayd.toml") << "[socket]\nmode = \"0640\"\n";
    DaemonProcess configured(
        {.arguments = {"--config", directory / "hurrayd.toml"}, .environment = {}, .descriptor_limit = {}});
    ::umask(before);
    struct stat status{};
    ASSERT_EQ(::stat(daemon.socket_path().c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777U, ::geteuid() == 0 ? 0660U : 0600U);
    ASSERT_EQ(::stat(configured.socket_path().c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777U, 0640U);
}

TEST(DaemonOptions, WrongOnesEndWithUsage) {
    DaemonProcess daemon;
    const TemporaryDirectory directory;
    std::ofstream(directory / "bad.toml") << "[log]\n\nlevel = \"loud\"\n";
    const auto bad_file = daemon.run_another({"--config", directory / "bad.toml"});
    EXPECT_EQ(WEXITSTATUS(bad_file.status), 2);
    EXPECT_NE(bad_file.output.find("bad.toml:3: log.level is loud, allowed: debug, info, warning, error"),
              std::string::npos)
        << bad_file.output;
    EXPECT_EQ(WEXITSTATUS(daemon.run_another({"--no-such-option"}).status), 2);
    EXPECT_EQ(WEXITSTATUS(daemon.run_another({"--socket", "relative"}).status), 2);
    const auto help = daemon.run_another({"--help"});
    EXPECT_EQ(WEXITSTATUS(help.status), 0);
    EXPECT_NE(help.output.find("limits.descriptors"), std::string::npos);
    EXPECT_EQ(WEXITSTATUS(daemon.run_another({"--version"}).status), 0);
}

/// A client in a process of its own that leaves in two steps: first it closes its connection, then it dies.
class LeavingClient {
  public:
    explicit LeavingClient(const std::string& path) {
        int ends[2] = {};
        if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
            throw std::runtime_error("socketpair");
        }
        here_ = UniqueFd(ends[0]);
        const UniqueFd there(ends[1]);
        pid_ = ::fork();
        if (pid_ == 0) {
            here_.reset();
            std::optional<RawPeer> peer = RawPeer::greeted(path);
            step(there.get());
            peer.reset();
            step(there.get());
            ::_exit(0);
        }
        await();
    }
    LeavingClient(const LeavingClient&) = delete;
    LeavingClient& operator=(const LeavingClient&) = delete;
    ~LeavingClient() {
        here_.reset();
        if (pid_ > 0) {
            wait_for_end(pid_);
        }
    }

    void close() {
        go_on();
        await();
    }
    void die() {
        go_on();
        wait_for_end(std::exchange(pid_, -1));
    }

  private:
    static void step(int there) {
        char word = 'x';
        if (::write(there, &word, 1) != 1 || ::read(there, &word, 1) != 1) {
            ::_exit(1);
        }
    }
    void go_on() const { ASSERT_EQ(::write(here_.get(), "x", 1), 1); }
    void await() const {
        char word = 0;
        ASSERT_EQ(::read(here_.get(), &word, 1), 1);
    }

    UniqueFd here_;
    pid_t pid_ = -1;
};

// The daemon finds all of it at once, in this order: the dead one's connection closed, a new one, a process dead.
TEST(DaemonClients, OneThatConnectsWhileAnotherDiesIsNotTakenForTheDeadOne) {
    DaemonProcess daemon;
    for (int round = 0; round < 100; ++round) {  // some of them meet it
        LeavingClient leaving(daemon.socket_path());
        daemon.freeze();
        leaving.close();
        RawPeer coming(daemon.socket_path());
        const auto hello = coming.send_hello();
        leaving.die();
        ::kill(daemon.pid(), SIGCONT);
        coming.next<wire::HelloReply>(hello);
        coming.call<wire::StatusReply>(wire::StatusRequest{});
    }
    EXPECT_EQ(daemon.log().find("process died"), std::string::npos) << daemon.log();
}

void make_roomy(const RawPeer& peer) {
    const int most = 1 << 20;  // the kernel makes less of it
    ::setsockopt(peer.socket(), SOL_SOCKET, SO_SNDBUF, &most, sizeof most);
}

/// Sends the same request until no more fits into the socket. Returns how many did.
std::size_t fill(const RawPeer& peer) {
    make_roomy(peer);
    const std::string request = wire::encoded(wire::Request{1, {}, wire::Unwatch{5}});
    std::size_t sent = 0;
    while (::send(peer.socket(), request.data(), request.size(), MSG_DONTWAIT | MSG_NOSIGNAL) > 0) {
        ++sent;
    }
    return sent;
}

TEST(DaemonClients, WhatADeadOneSaidLastCountsThoughPacketsAreReadOneByOne) {              // read_to_end
    DaemonProcess daemon({.arguments = {}, .environment = {}, .descriptor_limit = 1024});  // so few
    RawPeer producer = RawPeer::greeted(daemon.socket_path());
    producer.publish(make_tensor("t"));
    RawPeer measured = RawPeer::greeted(daemon.socket_path());
    daemon.freeze();
    const std::size_t fits = fill(measured);
    measured.close();
    ::kill(daemon.pid(), SIGCONT);

    Child dying([&] {
        RawPeer consumer = RawPeer::greeted(daemon.socket_path());
        consumer.attach(1, "t");
        make_roomy(consumer);
        daemon.freeze();
        for (std::size_t i = 1; i < fits; ++i) {
            consumer.send(wire::Unwatch{5});
        }
        consumer.send(wire::Release{{1}});
    });
    dying.kill();
    ::kill(daemon.pid(), SIGCONT);
    EXPECT_EQ(producer.next<wire::LeaseEvent>().what, wire::LeaseEvent::What::Opened);
    EXPECT_EQ(producer.next<wire::LeaseEvent>().what, wire::LeaseEvent::What::Released);
}

}  // namespace
}  // namespace hurray::test
