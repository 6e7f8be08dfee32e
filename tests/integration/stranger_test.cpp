// Who somebody is: in other pid namespaces, under a number that was another's, as another user; and who listens. Nothing here has
// threads of its own, since it all forks.
#include <cerrno>
#include <csignal>
#include <cstring>
#include <functional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <sched.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/sched.h>

#include <gtest/gtest.h>

#include <hurray/client.hpp>

#include "tests/integration/client_test.hpp"
#include "tests/support/child.hpp"
#include "tests/support/daemon_process.hpp"
#include "tests/support/other_user.hpp"
#include "tests/support/raw_peer.hpp"

namespace hurray::test {
namespace {

using What = wire::LeaseEvent::What;

/// Exit codes of children: 0 is well.
constexpr int kFailed = 1;
constexpr int kNotAllowed = 77;

/// Runs `body` as the first process of a new pid namespace; its exit code. An exception is printed.
int in_pid_namespace(const std::function<bool()>& body) {
    const pid_t outer = ::fork();
    if (outer == 0) {
        if (::unshare(CLONE_NEWPID) != 0 && ::unshare(CLONE_NEWUSER | CLONE_NEWPID) != 0) {
            ::_exit(kNotAllowed);
        }
        const pid_t first = ::fork();
        if (first != 0) {
            const int status = first < 0 ? -1 : wait_for_end(first);
            ::_exit(WIFEXITED(status) ? WEXITSTATUS(status) : kFailed);
        }
        bool good = false;
        try {
            good = body();
        } catch (const std::exception& failure) {
            std::fprintf(stderr, "in the namespace: %s\n", failure.what());
        }
        ::_exit(good ? 0 : kFailed);
    }
    const int status = wait_for_end(outer);
    return WIFEXITED(status) ? WEXITSTATUS(status) : kFailed;
}

#define SKIP_WITHOUT_NAMESPACES()                                                                    \
    if (in_pid_namespace([] { return true; }) == kNotAllowed) {                                      \
        GTEST_SKIP() << "the kernel lets this user make no pid namespace: " << std::strerror(errno); \
    }

/// Forks a process with exactly that number, which nobody has. 0 in the child; throws if the kernel does not let us.
pid_t fork_as(pid_t number) {
    clone_args arguments{};
    arguments.exit_signal = SIGCHLD;
    arguments.set_tid = reinterpret_cast<std::uintptr_t>(&number);
    arguments.set_tid_size = 1;
    const long made = ::syscall(SYS_clone3, &arguments, sizeof arguments);
    if (made < 0) {
        throw std::runtime_error(std::string("clone3: ") + std::strerror(errno));
    }
    return static_cast<pid_t>(made);
}

class Stranger : public testing::Test {
  protected:
    DaemonProcess daemon;
    RawPeer peer() const { return RawPeer::greeted(daemon.socket_path()); }
};

// ---- Numbers of processes: case C13

// A daemon that judges by numbers, and signals, takes it for dead: it sees another number than the client itself, or none.
TEST_F(Stranger, ConsumerInAnotherPidNamespaceAndOfAnotherUserKeepsItsLease) {  // case C13
    SKIP_WITHOUT_NAMESPACES();
    RawPeer producer = peer();
    const TestTensor tensor = [] {
        TestTensor made = make_tensor("held");
        made.publish.access = wire::Access{wire::kOwnGroup, 0444};
        return made;
    }();
    producer.publish(tensor);
    const bool is_root = ::geteuid() == 0;
    if (is_root) {
        admit_everybody(daemon.socket_path());
    }
    int to_child[2];
    ASSERT_EQ(::pipe(to_child), 0);
    const Child holder([&] {
        ::close(to_child[1]);
        const pid_t middle = ::fork();
        if (middle == 0) {
            _exit(in_pid_namespace([&] {
                if (is_root && ::setuid(kBob) != 0) {
                    return false;
                }
                RawPeer consumer = peer();
                consumer.attach(1, "held");
                char word = 0;
                return ::read(to_child[0], &word, 1) == 0;  // until the end of the test
            }));
        }
    });
    ::close(to_child[0]);
    EXPECT_EQ(producer.next<wire::LeaseEvent>().what, What::Opened);
    for (int i = 0; i < 100; ++i) {  // others come, hold something, and die
        Child other([&] {
            auto* p = new RawPeer(peer());
            p->attach(1, "held");
        });
        EXPECT_EQ(producer.next<wire::LeaseEvent>().what, What::Opened);
        other.kill();
        const auto lost = producer.next<wire::LeaseEvent>();
        EXPECT_EQ(lost.what, What::Lost);
        EXPECT_EQ(lost.remaining, 1u) << "that one stays";
    }
    ::close(to_child[1]);
    EXPECT_EQ(producer.next<wire::LeaseEvent>().what, What::Lost);
}

// The number of a dead process is another's a moment later, which lives.
TEST_F(Stranger, LeaseOfADeadProcessIsLostThoughItsNumberLives) {  // case C13
    SKIP_WITHOUT_NAMESPACES();
    const int code = in_pid_namespace([] {
        DaemonProcess inside;
        RawPeer producer = RawPeer::greeted(inside.socket_path());
        producer.publish(make_tensor("held"));
        constexpr pid_t kNumber = 4711;
        for (int round = 0; round < 20; ++round) {
            const pid_t consumer = fork_as(kNumber);
            if (consumer == 0) {
                auto* p = new RawPeer(RawPeer::greeted(inside.socket_path()));
                p->attach(1, "held");
                ::pause();
            }
            if (producer.next<wire::LeaseEvent>().what != What::Opened) {
                return false;
            }
            ::kill(consumer, SIGKILL);
            ::waitpid(consumer, nullptr, 0);
            const pid_t successor = fork_as(kNumber);  // has nothing to do with the daemon
            if (successor == 0) {
                ::pause();
                ::_exit(0);
            }
            const auto lost = producer.next<wire::LeaseEvent>();
            const bool is_alive = ::kill(kNumber, 0) == 0;
            ::kill(successor, SIGKILL);
            ::waitpid(successor, nullptr, 0);
            if (lost.what != What::Lost || lost.remaining != 0 || !is_alive || producer.try_receive()) {
                return false;
            }
        }
        return true;
    });
    if (code == kFailed && ::geteuid() != 0) {
        GTEST_SKIP() << "the kernel lets this user choose no number of a process";
    }
    EXPECT_EQ(code, 0);
}

TEST_F(Stranger, TwoClientsThatAreBothTheFirstOfTheirNamespaceAreNotMixedUp) {  // case C13
    SKIP_WITHOUT_NAMESPACES();
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    std::vector<pid_t> publishers;
    for (const char* name : {"first", "second"}) {
        const pid_t child = ::fork();
        if (child == 0) {
            ::close(ends[1]);
            ::_exit(in_pid_namespace([&] {
                RawPeer p = peer();
                p.publish(make_tensor(name, 16, name[0]));
                const RawPeer::Attached own = p.attach(1, name);
                char byte = 0;
                const bool is_own =
                    ::getpid() == 1 && ::pread(own.fds.at(0).get(), &byte, 1, 0) == 1 && byte == name[0];
                return ::read(ends[0], &byte, 1) == 0 && is_own;
            }));
        }
        publishers.push_back(child);
    }
    ::close(ends[0]);
    RawPeer looker = peer();
    std::set<std::int32_t> pids;
    for (const char* name : {"first", "second"}) {
        const RawPeer::Attached attached = looker.attach(name[0] == 'f' ? 1 : 2, name);  // waits for it
        char byte = 0;
        ASSERT_EQ(::pread(attached.fds.at(0).get(), &byte, 1, 0), 1);
        EXPECT_EQ(byte, name[0]);
    }
    for (const wire::Info& info : looker.call<wire::ListReply>(wire::List{}).capsules) {
        pids.insert(info.pid);  // as hurrayctl shows them
    }
    EXPECT_EQ(pids.size(), 2u) << "told apart by numbers of the daemon's own namespace";
    EXPECT_FALSE(pids.contains(1));
    ::close(ends[1]);
    for (const pid_t publisher : publishers) {
        const int status = wait_for_end(publisher);
        EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    }
}

// ---- Who may come in, and who listens: case G5

TEST(Trust, SocketAndDirectoryAreNoWiderThanTheyShouldBeWhateverTheUmask) {  // case G5
    const DaemonProcess daemon({.arguments = {},
                                .environment = {},
                                .descriptor_limit = {},
                                .before_exec = [] { ::umask(0); },
                                .socket = "made/hurrayd.sock"});
    const std::string& socket = daemon.socket_path();
    const bool is_system = ::geteuid() == 0;
    struct stat status{};
    ASSERT_EQ(::stat(socket.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 07777U, is_system ? 0660U : 0600U);
    ASSERT_EQ(::stat(socket.substr(0, socket.rfind('/')).c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 07777U, is_system ? 0755U : 0700U);
}

TEST_F(Stranger, AnotherUserOutsideTheGroupIsRefusedBySocketAndLibraryAlike) {  // case G5
    if (::geteuid() != 0) {
        GTEST_SKIP() << "only root can become somebody else";
    }
    ASSERT_EQ(::chmod(daemon.socket_path().substr(0, daemon.socket_path().rfind('/')).c_str(), 0755), 0);
    const AsUser bob(kBob);
    ConnectOptions options;
    options.address = daemon.socket_path();
    std::string message;
    EXPECT_EQ(status_of([&] { Client::connect(options); }, &message), HURRAY_ERR_NOT_PERMITTED);
    EXPECT_NE(message.find("not permitted to connect"), std::string::npos) << message;
}

TEST_F(Stranger, NobodyIsToldToJoinTheGroupOfRoot) {
    if (::geteuid() != 0) {
        GTEST_SKIP() << "only root can become somebody else";
    }
    admit_everybody(daemon.socket_path());
    ASSERT_EQ(::chown(daemon.socket_path().c_str(), 0, 0), 0);
    ASSERT_EQ(::chmod(daemon.socket_path().c_str(), 0660), 0);
    const AsUser bob(kBob);
    ConnectOptions options;
    options.address = daemon.socket_path();
    std::string message;
    EXPECT_EQ(status_of([&] { Client::connect(options); }, &message), HURRAY_ERR_NOT_PERMITTED);
    EXPECT_NE(message.find("`socket.group`"), std::string::npos) << message;
    EXPECT_EQ(message.find("usermod"), std::string::npos) << message;
}

/// Listens where a client looks, as another user, and gives what comes nothing to live on.
class Squatter {
  public:
    explicit Squatter(const std::string& path)
        : listener_(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
        sockaddr_un name{};
        name.sun_family = AF_UNIX;
        std::snprintf(name.sun_path, sizeof name.sun_path, "%s", path.c_str());
        if (::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0 ||
            ::listen(listener_.get(), 16) != 0 || ::chmod(path.c_str(), 0666) != 0) {
            throw std::runtime_error("squat");
        }
    }
    /// How many bytes the one who has come and gone has said; -1: nobody came.
    [[nodiscard]] ssize_t heard() const {
        const UniqueFd peer(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
        char byte = 0;
        return ::recv(peer.get(), &byte, 1, 0);
    }

  private:
    UniqueFd listener_;
};

TEST(Trust, ClientTellsAListenerOfAnotherUserNothing) {  // case G5
    if (::geteuid() != 0) {
        GTEST_SKIP() << "only root can become somebody else";
    }
    const TemporaryDirectory directory;
    ASSERT_EQ(::chmod((directory / ".").c_str(), 0777), 0);
    const std::string path = directory / "hurrayd.sock";
    std::unique_ptr<Squatter> squatter;
    {
        const AsUser bob(kBob);
        squatter = std::make_unique<Squatter>(path);
    }
    ConnectOptions options;
    options.address = path;
    {
        const AsUser alice(kAlice);
        ASSERT_EQ(::access(path.c_str(), F_OK), 0);
        std::string message;
        EXPECT_EQ(status_of([&] { Client::connect(options); }, &message), HURRAY_ERR_NOT_PERMITTED) << message;
        EXPECT_NE(message.find(std::to_string(kBob)), std::string::npos) << message;
    }
    EXPECT_EQ(squatter->heard(), 0);
}

TEST_F(Stranger, PicklesAndAMegabyteOfAnythingEndTheConnectionAndNothingElse) {  // case G5
    std::mt19937 random(5);
    std::string noise(1 << 20, '\0');
    for (char& byte : noise) {
        byte = static_cast<char>(random());
    }
    RawPeer pickler = peer();
    pickler.send_raw(
        "\x80\x04\x95\x1d\x00\x00\x00\x00\x00\x00\x00\x8c\x05posix\x94\x8c\x06system\x94\x93\x94\x8c\x02id\x94\x85\x94R"
        "\x94.");
    EXPECT_EQ(pickler.next<wire::Closing>().error.code, Errc::Protocol);
    EXPECT_TRUE(pickler.at_end());
    const std::string bytes = noise;
    for (std::size_t at = 0; at < bytes.size();) {
        RawPeer noisy = peer();
        const std::size_t size = std::min<std::size_t>(bytes.size() - at, 1 + random() % 65536);
        noisy.send_raw(std::string_view(bytes).substr(at, size));
        at += size;
        EXPECT_NE(describe(noisy.receive().packet), "");
        EXPECT_TRUE(noisy.at_end());
    }
    peer().call<wire::StatusReply>(wire::StatusRequest{});
}

}  // namespace
}  // namespace hurray::test
