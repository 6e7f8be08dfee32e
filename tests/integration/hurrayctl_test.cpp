// hurrayctl as its users see it: exit codes, JSON, signals, and that `run` leaves nothing behind. Real processes, a real daemon.
//
// Every process that is waited for or signalled here is named by the id that starting it gave.

#include <fcntl.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <pwd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <hurray/client.hpp>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "tests/support/prometheus_text.hpp"

namespace {

using nlohmann::json;
namespace fs = std::filesystem;

const std::string kHurrayctl = HURRAY_BIN_DIR "/hurrayctl";

int exit_code(int status) { return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status); }

std::string read_all(int fd) {
    std::string text;
    std::array<char, 4096> chunk;
    for (;;) {
        const ssize_t size = read(fd, chunk.data(), chunk.size());
        if (size > 0) {
            text.append(chunk.data(), static_cast<std::size_t>(size));
        } else if (size == 0 || errno != EINTR) {  // a pty's end is EIO
            return text;
        }
    }
}

/// A started program, with pipes or a terminal. The destructor closes its stdin, kills it and reaps it.
class Program {
  public:
    enum class Terminal { No, Yes };

    explicit Program(const std::vector<std::string>& arguments, Terminal terminal = Terminal::No) {
        std::vector<std::string> texts = arguments;
        std::vector<char*> pointers;
        for (std::string& text : texts) {
            pointers.push_back(text.data());
        }
        pointers.push_back(nullptr);
        std::array<int, 2> in{-1, -1};
        std::array<int, 2> out{-1, -1};
        std::array<int, 2> err{-1, -1};
        if (terminal == Terminal::Yes) {
            pid_ = forkpty(&out_, nullptr, nullptr, nullptr);
        } else {
            EXPECT_EQ(pipe2(in.data(), O_CLOEXEC), 0);
            EXPECT_EQ(pipe2(out.data(), O_CLOEXEC), 0);
            EXPECT_EQ(pipe2(err.data(), O_CLOEXEC), 0);
            pid_ = fork();
        }
        if (pid_ < 0) {
            throw std::system_error(errno, std::generic_category(), "start a program");  // and never kill(-1)
        }
        if (pid_ == 0) {
            if (terminal == Terminal::No) {
                dup2(in[0], STDIN_FILENO);
                dup2(out[1], STDOUT_FILENO);
                dup2(err[1], STDERR_FILENO);
            }
            execv(pointers[0], pointers.data());
            _exit(99);
        }
        if (terminal == Terminal::No) {
            close(in[0]);
            close(out[1]);
            close(err[1]);
            in_ = in[1];
            out_ = out[0];
            err_ = err[0];
        }
    }

    ~Program() {
        close_input();
        if (!status_) {
            kill(pid_, SIGKILL);
            waitpid(pid_, nullptr, 0);
        }
        for (const int fd : {out_, err_}) {
            if (fd >= 0) {
                close(fd);
            }
        }
    }

    Program(const Program&) = delete;
    Program& operator=(const Program&) = delete;

    pid_t pid() const { return pid_; }
    int terminal_fd() const { return out_; }

    void close_input() {
        if (in_ >= 0) {
            close(std::exchange(in_, -1));
        }
    }

    /// Its next line of stdout, without the end of line.
    std::string read_line() {
        std::string line;
        char character = 0;
        while (read(out_, &character, 1) == 1 && character != '\n') {
            if (character != '\r') {
                line += character;
            }
        }
        return line;
    }

    /// Its code, once it has ended.
    int wait() {
        int status = 0;
        EXPECT_EQ(waitpid(pid_, &status, 0), pid_);
        status_ = status;
        return exit_code(status);
    }

    std::string rest_of_output() { return read_all(out_); }
    std::string errors() { return read_all(err_); }

    /// The processes that it has started and not yet reaped.
    std::vector<pid_t> children() const {
        const std::string id = std::to_string(pid_);
        std::ifstream file("/proc/" + id + "/task/" + id + "/children");
        std::vector<pid_t> found;
        for (pid_t child = 0; file >> child;) {
            found.push_back(child);
        }
        return found;
    }

  private:
    pid_t pid_ = -1;
    int in_ = -1;
    int out_ = -1;
    int err_ = -1;
    std::optional<int> status_;
};

struct Outcome {
    int code = -1;
    std::string output;
    std::string errors;
};

/// Runs hurrayctl to its end. What it prints must fit the pipes.
Outcome hurrayctl(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), kHurrayctl);
    Program program(arguments);
    program.close_input();
    Outcome outcome;
    outcome.output = program.rest_of_output();
    outcome.errors = program.errors();
    outcome.code = program.wait();
    return outcome;
}

std::string command_line(pid_t pid) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/cmdline");
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
}

std::set<std::string> keys(const json& object) {
    std::set<std::string> found;
    for (const auto& [key, value] : object.items()) {
        found.insert(key);
    }
    return found;
}

/// Each test has a runtime directory of its own, so what `run` leaves behind is seen.
class HurrayctlTest : public testing::Test {
  protected:
    HurrayctlTest() {
        std::string pattern = "/tmp/hurrayctl-test-XXXXXX";
        EXPECT_NE(mkdtemp(pattern.data()), nullptr);
        runtime_ = pattern;
        setenv("XDG_RUNTIME_DIR", runtime_.c_str(), 1);
        unsetenv("HURRAY_SOCKET");
    }
    ~HurrayctlTest() override { fs::remove_all(runtime_); }

    std::vector<std::string> left_behind() const {
        std::vector<std::string> names;
        for (const auto& entry : fs::directory_iterator(runtime_)) {
            names.push_back(entry.path().filename());
        }
        return names;
    }

    fs::path runtime_;
};

/// With a daemon of `hurrayctl run`, for as long as the test.
class HurrayctlLookTest : public HurrayctlTest {
  protected:
    // `cat` ends when its stdin does, which is when the test does, whatever happens to it.
    HurrayctlLookTest() : daemon_({kHurrayctl, "run", "--", "/bin/sh", "-c", "echo \"$HURRAY_SOCKET\"; exec cat"}) {
        socket_ = daemon_.read_line();
        EXPECT_NE(socket_, "") << daemon_.errors();
    }
    ~HurrayctlLookTest() override {
        daemon_.close_input();
        EXPECT_EQ(daemon_.wait(), 0);
        EXPECT_EQ(left_behind(), std::vector<std::string>());
    }

    Outcome look(std::vector<std::string> arguments) {
        arguments.insert(arguments.begin(), {"--socket", socket_});
        return hurrayctl(std::move(arguments));
    }

    hurray::Client connect() { return hurray::Client::connect({.address = socket_}); }

    static hurray::CapsuleInfo publish(hurray::Client& client, const std::string& name) {
        auto allocation = client.allocate<float>({2, 3});
        std::ranges::fill(allocation.elements<float>(), 1.5F);
        return client.publish(name, std::move(allocation));
    }

    Program daemon_;
    std::string socket_;
};

// ---- run -----------------------------------------------------------------------------------------------------------

TEST_F(HurrayctlTest, RunReturnsTheCommandsExitCode) {
    EXPECT_EQ(hurrayctl({"run", "--", "/bin/sh", "-c", "exit 5"}).code, 5);
    EXPECT_EQ(hurrayctl({"run", "/bin/true"}).code, 0);
    EXPECT_EQ(left_behind(), std::vector<std::string>());
}

TEST_F(HurrayctlTest, RunFindsAPlaceForItsSocketHoweverLongTheRuntimeDirectoryIs) {
    for (std::size_t bytes = 70; bytes <= 80; ++bytes) {
        const fs::path runtime = runtime_ / std::string(bytes - runtime_.native().size() - 1, 'r');
        fs::create_directory(runtime);
        setenv("XDG_RUNTIME_DIR", runtime.c_str(), 1);
        EXPECT_EQ(hurrayctl({"run", "/bin/true"}).code, 0) << bytes;
    }
}

TEST_F(HurrayctlTest, RunReturns128AndTheSignalThatKilledTheCommand) {
    EXPECT_EQ(hurrayctl({"run", "--", "/bin/sh", "-c", "kill -KILL $$"}).code, 128 + SIGKILL);
    EXPECT_EQ(left_behind(), std::vector<std::string>());
}

TEST_F(HurrayctlTest, RunTellsACommandThatIsNotThereFromOneThatCantBeExecuted) {
    const Outcome missing = hurrayctl({"run", "--", "no-such-command-of-hurray"});
    EXPECT_EQ(missing.code, 127);
    EXPECT_NE(missing.errors.find("no-such-command-of-hurray"), std::string::npos);
    EXPECT_EQ(hurrayctl({"run", "--", "/etc/passwd"}).code, 126);
    EXPECT_EQ(left_behind(), std::vector<std::string>());
}

TEST_F(HurrayctlTest, RunPassesTheCommandsOptionsOnAsTheyAre) {
    const Outcome outcome = hurrayctl({"run", "--", "/bin/echo", "--json", "--", "-h"});
    EXPECT_EQ(outcome.code, 0);
    EXPECT_EQ(outcome.output, "--json -- -h\n");
}

TEST_F(HurrayctlTest, RunsDirectoryIsThisUsersAlone) {
    const Outcome outcome = hurrayctl({"run", "--", "/bin/sh", "-c", "stat -c %a \"$(dirname \"$HURRAY_SOCKET\")\""});
    EXPECT_EQ(outcome.output, "700\n");
}

TEST_F(HurrayctlTest, RunPassesSignalsOnToTheCommand) {
    Program program(
        {kHurrayctl, "run", "--", "/bin/sh", "-c", "trap 'exit 42' TERM; echo ready; while read line; do :; done"});
    ASSERT_EQ(program.read_line(), "ready");
    const std::vector<pid_t> children = program.children();
    EXPECT_EQ(children.size(), 2U);
    kill(program.pid(), SIGTERM);
    EXPECT_EQ(program.wait(), 42);
    for (const pid_t child : children) {
        EXPECT_EQ(kill(child, 0), -1);
        EXPECT_EQ(errno, ESRCH);
    }
    EXPECT_EQ(left_behind(), std::vector<std::string>());
}

TEST_F(HurrayctlTest, CtrlCReachesTheCommandAndNotTheDaemon) {
    int master = -1;
    int slave = -1;
    if (openpty(&master, &slave, nullptr, nullptr, nullptr) != 0) {
        GTEST_SKIP() << "no terminal can be had here (is /dev/pts mounted?): " << std::strerror(errno);
    }
    close(master);
    close(slave);
    const std::string script =
        "trap '" + kHurrayctl + " status >/dev/null && exit 43; exit 44' INT; echo ready; while read line; do :; done";
    Program program({kHurrayctl, "run", "--", "/bin/sh", "-c", script}, Program::Terminal::Yes);
    ASSERT_EQ(program.read_line(), "ready");
    ASSERT_EQ(write(program.terminal_fd(), "\x03", 1), 1);
    EXPECT_EQ(program.wait(), 43);
    EXPECT_EQ(left_behind(), std::vector<std::string>());
}

TEST_F(HurrayctlTest, TheDaemonDoesNotOutliveAKilledHurrayctl) {
    Program program({kHurrayctl, "run", "--", "/bin/sh", "-c", "echo ready; exec cat"});
    ASSERT_EQ(program.read_line(), "ready");
    int daemon_fd = -1;
    for (const pid_t child : program.children()) {
        if (command_line(child).find("hurrayd") != std::string::npos) {
            daemon_fd = static_cast<int>(syscall(SYS_pidfd_open, child, 0));
        }
    }
    ASSERT_GE(daemon_fd, 0);
    kill(program.pid(), SIGKILL);
    EXPECT_EQ(program.wait(), 128 + SIGKILL);
    pollfd ended{daemon_fd, POLLIN, 0};
    EXPECT_EQ(poll(&ended, 1, -1), 1);
    close(daemon_fd);
}

TEST_F(HurrayctlTest, RunReportsADaemonThatDiesAtTheStart) {
    const fs::path folder = runtime_ / "bin";
    fs::create_directory(folder);
    fs::copy_file(kHurrayctl, folder / "hurrayctl");
    std::ofstream(folder / "hurrayd") << "#!/bin/sh\nexit 7\n";
    fs::permissions(folder / "hurrayd", fs::perms::owner_all);
    Program program({folder / "hurrayctl", "run", "--", "/bin/echo", "not to be run"});
    EXPECT_EQ(program.rest_of_output(), "");
    EXPECT_NE(program.errors().find("exit code 7"), std::string::npos);
    EXPECT_EQ(program.wait(), 3);
    EXPECT_EQ(left_behind(), std::vector<std::string>{"bin"});
}

// ---- Exit codes ----------------------------------------------------------------------------------------------------

TEST_F(HurrayctlTest, WrongUsageIsCode2) {
    for (const std::vector<std::string>& arguments :
         std::vector<std::vector<std::string>>{{},
                                               {"frobnicate"},
                                               {"run"},
                                               {"run", "--"},
                                               {"inspect"},
                                               {"inspect", "a/"},
                                               {"list", "--frobnicate"},
                                               {"--socket", "/x", "run", "--", "/bin/true"}}) {
        const Outcome outcome = hurrayctl(arguments);
        EXPECT_EQ(outcome.code, 2) << testing::PrintToString(arguments);
        EXPECT_NE(outcome.errors, "") << testing::PrintToString(arguments);
    }
}

TEST_F(HurrayctlTest, CommandThatIsMistypedIsSuggested) {
    EXPECT_NE(hurrayctl({"lst"}).errors.find("there is no command `lst`; did you mean `list`?"), std::string::npos);
    EXPECT_NE(hurrayctl({"--json", "stats"}).errors.find("did you mean `status`?"), std::string::npos);
    EXPECT_NE(hurrayctl({"insp", "a"}).errors.find("did you mean `inspect`?"), std::string::npos);
    const Outcome outcome = hurrayctl({"frobnicate"});
    EXPECT_NE(outcome.errors.find("there is no command `frobnicate`."), std::string::npos) << outcome.errors;
    EXPECT_EQ(outcome.errors.find("did you mean"), std::string::npos);
    EXPECT_EQ(outcome.code, 2);
}

TEST_F(HurrayctlTest, OptionsMayStandBeforeTheCommandAndAfterIt) {
    const std::string socket = runtime_ / "nobody.sock";
    for (const std::vector<std::string>& arguments :
         std::vector<std::vector<std::string>>{{"--socket", socket, "--json", "list"},
                                               {"--json", "--socket", socket, "status"},
                                               {"list", "--socket", socket, "--json"},
                                               {"--json", "inspect", "--socket", socket, "a"}}) {
        const Outcome outcome = hurrayctl(arguments);
        EXPECT_EQ(outcome.code, 3) << testing::PrintToString(arguments) << outcome.errors;
        EXPECT_NE(outcome.errors.find(socket), std::string::npos) << outcome.errors;
    }
    EXPECT_EQ(hurrayctl({"--json", "run", "--", "/bin/true"}).code, 2);
}

TEST_F(HurrayctlTest, NoDaemonIsCode3AndNamesThePath) {
    const std::string socket = runtime_ / "nobody.sock";
    for (const std::vector<std::string>& command :
         std::vector<std::vector<std::string>>{{"list"}, {"inspect", "a"}, {"status", "--json"}}) {
        std::vector<std::string> arguments{"--socket", socket};
        arguments.insert(arguments.end(), command.begin(), command.end());
        const Outcome outcome = hurrayctl(arguments);
        EXPECT_EQ(outcome.code, 3);
        EXPECT_EQ(outcome.output, "");
        EXPECT_NE(outcome.errors.find(socket), std::string::npos) << outcome.errors;
        EXPECT_NE(outcome.errors.find("hurrayctl run"), std::string::npos) << outcome.errors;
    }
}

TEST_F(HurrayctlLookTest, SocketThatAdmitsAGroupIsCode1AndNamesTheGroupToJoin) {
    if (geteuid() == 0) {
        GTEST_SKIP() << "root is never refused";
    }
    fs::permissions(socket_, fs::perms::group_read | fs::perms::group_write);
    const Outcome outcome = look({"list"});
    fs::permissions(socket_, fs::perms::owner_read | fs::perms::owner_write);
    EXPECT_EQ(outcome.code, 1);
    EXPECT_NE(outcome.errors.find("not permitted to connect to hurrayd on " + socket_), std::string::npos)
        << outcome.errors;
    EXPECT_NE(outcome.errors.find("sudo usermod -aG "), std::string::npos) << outcome.errors;
}

TEST_F(HurrayctlLookTest, InspectOfAnUnknownNameIsCode1) {
    const Outcome outcome = look({"inspect", "nothing/here"});
    EXPECT_EQ(outcome.code, 1);
    EXPECT_NE(outcome.errors.find("nothing/here"), std::string::npos);
}

TEST_F(HurrayctlLookTest, ANameThatCantBeOneIsCode2AndSaysWhyWithoutNamesOfTheCApi) {
    const Outcome outcome = look({"list", "a//b"});
    EXPECT_EQ(outcome.code, 2);
    EXPECT_NE(outcome.errors.find("\"a//b\" has an empty segment at position 2"), std::string::npos) << outcome.errors;
    EXPECT_EQ(outcome.errors.find("hurray_"), std::string::npos) << outcome.errors;
    EXPECT_EQ(outcome.errors.find("HURRAY_"), std::string::npos) << outcome.errors;
}

TEST_F(HurrayctlLookTest, JsonBeforeTheCommandIsJsonToo) {
    EXPECT_EQ(json::parse(look({"--json", "list"}).output), json::array());
    EXPECT_TRUE(json::parse(look({"--json", "status"}).output).is_object());
}

// ---- list, inspect, status -----------------------------------------------------------------------------------------

const std::set<std::string> kInfoKeys = {"capsule",   "name",     "version",   "bytes",         "leases",
                                         "access",    "retired",  "lingering", "pid",           "descriptor",
                                         "immutable", "unsealed", "once",      "producer_gone", "expires_ms"};

TEST_F(HurrayctlLookTest, ListAsJsonHasTheFieldsOfInfo) {
    EXPECT_EQ(json::parse(look({"list", "--json"}).output), json::array());

    hurray::Client client = connect();
    publish(client, "test/a");
    publish(client, "test/b");
    publish(client, "other");
    const Outcome outcome = look({"list", "test/", "--json"});
    ASSERT_EQ(outcome.code, 0) << outcome.errors;
    const json found = json::parse(outcome.output);
    ASSERT_EQ(found.size(), 2U);
    EXPECT_EQ(keys(found[0]), kInfoKeys);
    EXPECT_EQ(found[0]["name"], "test/a");
    EXPECT_EQ(found[1]["name"], "test/b");
    EXPECT_EQ(json::parse(look({"list", "--json"}).output).size(), 3U);
}

TEST_F(HurrayctlLookTest, InspectAsJsonTellsAllOfACapsule) {
    hurray::Client client = connect();
    const hurray::CapsuleInfo published = publish(client, "test/a");
    const hurray::Tensor held = client.attach("test/a");

    const Outcome outcome = look({"inspect", "test/a", "--json"});
    ASSERT_EQ(outcome.code, 0) << outcome.errors;
    const json info = json::parse(outcome.output);
    EXPECT_EQ(keys(info), kInfoKeys);
    EXPECT_EQ(info["capsule"]["uid"], getuid());
    EXPECT_EQ(info["capsule"]["id"].get<std::string>().size(), 32U);
    EXPECT_EQ(info["version"], published.version);
    EXPECT_EQ(info["bytes"], 24);
    EXPECT_EQ(info["leases"], 1);
    EXPECT_EQ(info["retired"], false);
    EXPECT_EQ(info["pid"], getpid());
    EXPECT_EQ(info["descriptor"]["element_type"], "float32");
    EXPECT_EQ(info["descriptor"]["shape"], json({2, 3}));
    EXPECT_EQ(info["descriptor"]["strides"], json({3, 1}));
    EXPECT_EQ(info["descriptor"]["buffers"].size(), 1U);
    EXPECT_EQ(info["descriptor"]["buffers"][0]["byte_size"], 24);
}

TEST_F(HurrayctlLookTest, InspectPrefersWhatCanBeAttachedOverWhatIsOnlyHeld) {
    hurray::Client client = connect();
    publish(client, "test/a");
    const hurray::Tensor held = client.attach("test/a");
    const hurray::CapsuleInfo second = publish(client, "test/a");
    const json info = json::parse(look({"inspect", "test/a", "--json"}).output);
    EXPECT_EQ(info["version"], second.version);
    EXPECT_EQ(info["retired"], false);
}

TEST_F(HurrayctlLookTest, WhatLingersIsShownAsSuchWithWhenItExpires) {
    hurray::Client client = connect();
    {
        hurray::Client producer = connect();
        for (const auto& [name, linger] :
             {std::pair{"test/endless", hurray::kForever}, {"test/brief", std::chrono::milliseconds(3'600'000)}}) {
            hurray::PublishOptions options;
            options.linger = linger;
            producer.publish(name, producer.allocate<float>({2, 3}), std::move(options));
        }
        const json info = json::parse(look({"inspect", "test/brief", "--json"}).output);
        EXPECT_EQ(info["lingering"], true);
        EXPECT_EQ(info["producer_gone"], false);
        EXPECT_NE(look({"list"}).output.find("attachable"), std::string::npos);
        EXPECT_NE(look({"inspect", "test/brief"}).output.find("lingers     yes: it stays when"), std::string::npos);
    }
    while (!client.list("test/endless").at(0).producer_gone || !client.list("test/brief").at(0).producer_gone) {
    }
    const json info = json::parse(look({"inspect", "test/brief", "--json"}).output);
    EXPECT_EQ(info["producer_gone"], true);
    EXPECT_GT(info["expires_ms"], 3'000'000);
    EXPECT_EQ(json::parse(look({"inspect", "test/endless", "--json"}).output)["expires_ms"], 0);
    EXPECT_NE(look({"list"}).output.find("lingering"), std::string::npos);
    const std::string brief = look({"inspect", "test/brief"}).output;
    EXPECT_NE(brief.find("lingers     for another 3"), std::string::npos) << brief;
    EXPECT_NE(brief.find("producer    gone (was pid "), std::string::npos) << brief;
    const std::string endless = look({"inspect", "test/endless"}).output;
    EXPECT_NE(endless.find("lingers     until it is withdrawn or replaced"), std::string::npos) << endless;
}

TEST_F(HurrayctlLookTest, WithdrawEndsWhatLingersThoughItsProgramIsGone) {
    hurray::Client client = connect();
    {
        hurray::Client producer = connect();
        hurray::PublishOptions options;
        options.linger = hurray::kForever;
        producer.publish("test/model", producer.allocate<float>({2, 3}), std::move(options));
    }
    const hurray::Tensor held = client.attach("test/model");
    const Outcome outcome = look({"withdraw", "test/model"});
    EXPECT_EQ(outcome.code, 0) << outcome.errors;
    EXPECT_EQ(outcome.output, "test/model version " + std::to_string(held.info().version) + "\n");
    EXPECT_THROW(client.attach("test/model"), hurray::StatusError);
    EXPECT_EQ(held.elements<float>()[5], 0) << "who holds it goes on reading";

    const Outcome again = look({"withdraw", "test/model"});
    EXPECT_EQ(again.code, 1);
    EXPECT_EQ(again.output, "");
    EXPECT_NE(again.errors.find("nothing to withdraw under test/model"), std::string::npos) << again.errors;
}

TEST_F(HurrayctlLookTest, WithdrawTakesAllVersionsOrTheOneThatIsNamed) {
    hurray::Client client = connect();
    std::vector<std::uint64_t> versions;
    for (int i = 0; i < 3; ++i) {
        hurray::PublishOptions options;
        options.retain = 3;
        versions.push_back(client.publish("test/a", client.allocate<float>({2, 3}), std::move(options)).version);
    }
    publish(client, "test/ab");
    const Outcome one = look({"withdraw", "test/a", "--version", std::to_string(versions[1]), "--json"});
    EXPECT_EQ(one.code, 0) << one.errors;
    EXPECT_EQ(json::parse(one.output), json({{{"name", "test/a"}, {"version", versions[1]}}}));
    EXPECT_EQ(client.list("test/a").size(), 2U);

    const Outcome rest = look({"withdraw", "test/a", "--json"});
    EXPECT_EQ(rest.code, 0) << rest.errors;
    EXPECT_EQ(json::parse(rest.output),
              json({{{"name", "test/a"}, {"version", versions[0]}}, {{"name", "test/a"}, {"version", versions[2]}}}));
    EXPECT_EQ(client.list().size(), 1U) << "test/ab is another name";
}

TEST_F(HurrayctlLookTest, WithdrawOfAPrefixOrOfNothingIsCode2) {
    hurray::Client client = connect();
    publish(client, "test/a");
    for (const auto& arguments : std::vector<std::vector<std::string>>{
             {"withdraw", "test/"}, {"withdraw"}, {"withdraw", "test/a", "--version", "0"}, {"withdraw", ""}}) {
        const Outcome outcome = look(arguments);
        EXPECT_EQ(outcome.code, 2);
        EXPECT_NE(outcome.errors, "");
    }
    EXPECT_EQ(client.list("test/").size(), 1U);
}

TEST_F(HurrayctlLookTest, StatusAsJsonHasTheFieldsOfTheReply) {
    hurray::Client client = connect();
    publish(client, "test/a");
    const Outcome outcome = look({"status", "--json"});
    ASSERT_EQ(outcome.code, 0) << outcome.errors;
    const json status = json::parse(outcome.output);
    EXPECT_TRUE(status["daemon_version"].is_string());
    EXPECT_TRUE(status["uptime_ms"].is_number_unsigned());
    EXPECT_TRUE(status["writing"].is_array());
    ASSERT_FALSE(status["uses"].empty());
    EXPECT_EQ(keys(status["uses"][0]), (std::set<std::string>{"name", "uid", "used", "limit"}));
    ASSERT_FALSE(status["holders"].empty());
    const json& holder = status["holders"][0];
    EXPECT_EQ(keys(holder), (std::set<std::string>{"name", "uid", "pid", "client_name", "used", "limit"}));
    EXPECT_EQ(holder["name"], "capsules");
    EXPECT_EQ(holder["pid"], getpid());
    EXPECT_EQ(holder["used"], 1);
}

TEST_F(HurrayctlLookTest, StatusShowsWhichClientsHaveMost) {
    hurray::Client client = connect();
    publish(client, "test/a");
    const Outcome outcome = look({"status"});
    ASSERT_EQ(outcome.code, 0) << outcome.errors;
    EXPECT_NE(outcome.output.find("MOST OF"), std::string::npos) << outcome.output;
    EXPECT_NE(outcome.output.find("hurrayctl_test"), std::string::npos) << outcome.output;
}

TEST_F(HurrayctlLookTest, MetricsArePrintedAsACollectorReadsThem) {
    hurray::Client client = connect();
    publish(client, "camera/front");
    const Outcome outcome = look({"metrics"});
    EXPECT_EQ(outcome.code, 0) << outcome.errors;
    const auto samples = hurray::test::read_prometheus_text(outcome.output);
    EXPECT_EQ(samples.at("hurray_capsules"), 1);
    EXPECT_EQ(samples.at("hurray_clients"), 1) << "who asks for metrics is no client";
    const std::string beside = socket_.substr(0, socket_.size() - 5) + "-metrics.sock";
    EXPECT_EQ(hurrayctl({"metrics", "--metrics-socket", beside}).code, 0);
}

TEST_F(HurrayctlTest, MetricsThatAreNotThereAreCode3AndNameThePath) {
    const Outcome outcome = hurrayctl({"--socket", runtime_ / "none.sock", "metrics"});
    EXPECT_EQ(outcome.code, 3);
    EXPECT_EQ(outcome.output, "") << "nothing that a collector could read";
    EXPECT_NE(outcome.errors.find((runtime_ / "none-metrics.sock").string()), std::string::npos) << outcome.errors;
}

TEST_F(HurrayctlTest, MetricsOfAnotherUserAreCode1) {
    if (geteuid() == 0) {
        GTEST_SKIP() << "root is never refused";
    }
    const std::string path = runtime_ / "m.sock";
    const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    ASSERT_EQ(bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    ASSERT_EQ(listen(listener, 1), 0);
    ASSERT_EQ(chmod(path.c_str(), 0), 0);
    const Outcome outcome = hurrayctl({"metrics", "--metrics-socket", path});
    close(listener);
    EXPECT_EQ(outcome.code, 1);
    EXPECT_NE(outcome.errors.find("metrics.group"), std::string::npos) << outcome.errors;
}

TEST_F(HurrayctlLookTest, TablesAreForPeopleAndWithoutEscapes) {
    hurray::Client client = connect();
    const hurray::CapsuleInfo published = publish(client, "test/a");
    const Outcome list = look({"list"});
    EXPECT_EQ(list.code, 0) << list.errors;
    // How wide a column is depends on the version, which is long.
    const auto words = [](const std::string& line) {
        std::istringstream text(line);
        return std::vector<std::string>{std::istream_iterator<std::string>(text), {}};
    };
    std::istringstream lines(list.output);
    std::string heading;
    std::string row;
    std::getline(lines, heading);
    std::getline(lines, row);
    const passwd* const known_user = getpwuid(geteuid());
    const std::string user = known_user != nullptr ? known_user->pw_name : std::to_string(geteuid());
    const struct group* const known_group = getgrgid(getegid());
    const std::string group = known_group != nullptr ? known_group->gr_name : std::to_string(getegid());
    EXPECT_EQ(words(heading), (std::vector<std::string>{"NAME", "VERSION", "TYPE", "SHAPE", "BYTES", "LEASES", "OWNER",
                                                        "GROUP", "MODE", "STATE"}));
    EXPECT_EQ(words(row), (std::vector<std::string>{"test/a", std::to_string(published.version), "float32", "2x3", "24",
                                                    "B", "0", user, group, "0600", "attachable"}));
    EXPECT_EQ(heading.find("TYPE"), row.find("float32"));

    const Outcome inspect = look({"inspect", "test/a"});
    EXPECT_EQ(inspect.code, 0) << inspect.errors;
    EXPECT_NE(inspect.output.find("producer    pid " + std::to_string(getpid())), std::string::npos) << inspect.output;

    EXPECT_NE(inspect.output.find("uid " + std::to_string(geteuid()) + "\n"), std::string::npos) << inspect.output;
    EXPECT_NE(inspect.output.find("gid " + std::to_string(getegid()) + "\n"), std::string::npos) << inspect.output;
    EXPECT_NE(inspect.output.find("mode        0600\n"), std::string::npos) << inspect.output;

    const Outcome status = look({"status"});
    EXPECT_EQ(status.code, 0) << status.errors;
    EXPECT_EQ(status.output.substr(0, 8), "hurrayd ");
    for (const Outcome& outcome : {list, inspect, status}) {
        EXPECT_EQ(outcome.output.find('\x1b'), std::string::npos);
    }
}

}  // namespace
