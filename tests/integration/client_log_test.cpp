#include <array>
#include <csignal>
#include <cstdlib>
#include <string>

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "tests/integration/client_test.hpp"

// $HURRAY_LOG: what the client library says on stderr, and that it says nothing otherwise.

namespace hurray::test {
namespace {

class ClientLog : public ClientTest {
  protected:
    ~ClientLog() override { ::unsetenv("HURRAY_LOG"); }

    /// What is written to stderr while a client connects, fails, publishes, attaches, and is told of the daemon's end.
    std::string say(const char* level) {
        if (level != nullptr) {
            ::setenv("HURRAY_LOG", level, 1);
        } else {
            ::unsetenv("HURRAY_LOG");
        }
        testing::internal::CaptureStderr();
        {
            Client client = connect();
            publish(client, "a", 4, 0);
            EXPECT_EQ(status_of([&] { (void)client.attach("b", {.timeout = 0ms}); }), HURRAY_ERR_NOT_FOUND);
            EXPECT_EQ(status_of([&] { (void)client.attach("b//", {.timeout = 0ms}); }), HURRAY_ERR_INVALID_ARGUMENT);
            (void)client.attach("a");
            client.close();
        }
        {
            Client client = connect_once();
            daemon_.end(SIGKILL);
            EXPECT_EQ(status_of([&] { (void)client.attach("a"); }), HURRAY_ERR_CONNECTION_LOST);
            daemon_.start();
        }
        return testing::internal::GetCapturedStderr();
    }

    static std::size_t count(const std::string& text, const std::string& what) {
        std::size_t found = 0;
        for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; ++at) {
            ++found;
        }
        return found;
    }
};

TEST_F(ClientLog, IsSilentUnlessItIsAskedFor) {
    EXPECT_EQ(say(nullptr), "");
    EXPECT_EQ(say(""), "");
    EXPECT_EQ(say("off"), "");
}

TEST_F(ClientLog, LevelsSayMoreAndMore) {
    const std::string error = say("error");
    EXPECT_EQ(count(error, "level=error lib=hurray-client pid=" + std::to_string(::getpid()) +
                               " event=connection_ended status=HURRAY_ERR_CONNECTION_LOST"),
              1u)
        << error;
    EXPECT_EQ(count(error, "\n"), 1u) << error;

    const std::string warning = say("warning");
    EXPECT_EQ(count(warning, "level=error"), 1u) << warning;
    EXPECT_EQ(count(warning, "level=warning"), 2u) << warning;
    EXPECT_EQ(count(warning, "event=call_failed call=hurray_client_attach status=HURRAY_ERR_INVALID_ARGUMENT message="),
              1u);
    EXPECT_EQ(count(warning, "event=call_failed call=hurray_client_attach status=HURRAY_ERR_CONNECTION_LOST message="),
              1u);
    EXPECT_EQ(count(warning, "\n"), 3u) << warning;

    const std::string info = say("info");
    EXPECT_EQ(count(info, "event=connected daemon_uid=" + std::to_string(::geteuid()) + " daemon_pid="), 2u) << info;
    EXPECT_EQ(count(info, "event=closed open_leases=0"), 2u) << info;
    EXPECT_EQ(count(info, "level=debug"), 0u);

    const std::string debug = say("debug");
    EXPECT_EQ(count(debug, "event=tried path=" + daemon_.socket_path() + " result=connected"), 2u) << debug;
    EXPECT_EQ(count(debug, "event=answered request=publish id="), 1u);
    EXPECT_EQ(count(debug, "status=HURRAY_ERR_NOT_FOUND"), 2u) << "the answer, and the call that fails with it";
    EXPECT_GE(count(debug, "event=answered request=attach id="), 2u) << debug;
}

// case C8
TEST_F(ClientLog, ConnectingInVainIsToldOnceHoweverOftenItIsTried) {
    ::setenv("HURRAY_LOG", "info", 1);
    testing::internal::CaptureStderr();
    ConnectOptions options;
    options.address = daemon_.socket_path() + "-absent";
    options.timeout = 300ms;
    EXPECT_EQ(status_of([&] { (void)Client::connect(std::move(options)); }), HURRAY_ERR_DAEMON_UNAVAILABLE);
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_EQ(count(said, "\n"), 1u) << said;
    EXPECT_EQ(count(said, "event=call_failed call=hurray_client_connect status=HURRAY_ERR_DAEMON_UNAVAILABLE"), 1u)
        << said;
}

TEST_F(ClientLog, LevelThatDoesNotExistIsTold) {
    EXPECT_EQ(count(say("loud\n"), "hurray: HURRAY_LOG is \"loud\\x0a\", allowed: off, error, warning, info, debug\n"),
              2u)
        << "by each client that connects, and nothing else";
}

TEST_F(ClientLog, StderrThatNobodyReadsStopsNoProgram) {
    std::array<int, 2> ends{};
    ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
    const UniqueFd reader(ends[0]);
    const UniqueFd writer(ends[1]);
    const UniqueFd before(::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3));
    ::setenv("HURRAY_LOG", "debug", 1);
    ASSERT_EQ(::dup2(writer.get(), STDERR_FILENO), STDERR_FILENO);
    {
        Client client = connect();
        for (int i = 0; i < 2000; ++i) {  // two lines each: more than a pipe takes
            (void)status_of([&] { (void)client.attach("b", {.timeout = 0ms}); });
        }
    }
    ::dup2(before.get(), STDERR_FILENO);
    int unread = 0;
    ASSERT_EQ(::ioctl(reader.get(), FIONREAD, &unread), 0);
    EXPECT_GT(unread, 32 * 1024);
}

}  // namespace
}  // namespace hurray::test
