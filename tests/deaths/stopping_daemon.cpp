#include "tests/deaths/stopping_daemon.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <exception>
#include <fstream>
#include <stdexcept>

#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/child.hpp"
#include "tests/support/daemon_process.hpp"
#include "tests/support/temporary_directory.hpp"

namespace hurray::test {
namespace {

constexpr char kAsk = '?';
constexpr char kKill = 'k';

using Environment = std::vector<std::pair<std::string, std::string>>;

/// What the keeper does until the other end of `line` is closed.
class Keeper {
  public:
    Keeper(const std::vector<std::uint64_t>& stops, int line)
        : stops_(stops),
          line_(line),
          daemon_({.arguments = {"--config", config()},
                   .environment = of_life(),
                   .descriptor_limit = {},
                   .binary = HURRAYD_STOPPING_BINARY}) {}

    /// Whether every life has ended as it should.
    bool keep() {
        const std::string& path = daemon_.socket_path();
        bool is_wanted = ::send(line_, path.data(), path.size(), MSG_NOSIGNAL) > 0;
        while (is_wanted) {
            const UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, daemon_.pid(), 0)));
            std::array<pollfd, 2> waiting{{{process.get(), POLLIN, 0}, {line_, POLLIN, 0}}};
            if (::poll(waiting.data(), waiting.size(), -1) < 0) {
                continue;
            }
            if (waiting[0].revents != 0) {
                if (!is_killed(daemon_.wait_end())) {
                    return false;
                }
                ++stopped_;
                next_life();
            } else {
                is_wanted = obey();
            }
        }
        const int status = daemon_.end(SIGTERM);
        return status == 0 || is_killed(status);  // its last words may be the packet that it dies at
    }

  private:
    std::string config() {
        const std::string file = directory_ / "hurrayd.toml";
        std::ofstream(file) << "[resume]\nwindow = 2\n";
        return file;
    }
    [[nodiscard]] Environment of_life() const {
        return {{"HURRAY_STOP_AT", std::to_string(life_ < stops_.size() ? stops_[life_] : 0)}};
    }
    void next_life() {
        ++life_;
        daemon_.start(of_life());
    }
    bool is_killed(int status) const {
        const bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
        if (!killed && status != 0) {
            std::fprintf(stderr, "hurrayd ended with status %x; its log:\n%s\n", static_cast<unsigned>(status),
                         daemon_.log().c_str());
        }
        return killed;
    }
    /// False: there is nobody to obey any more.
    bool obey() {
        char word = 0;
        const ssize_t got = ::recv(line_, &word, sizeof word, 0);
        if (got <= 0) {
            return got < 0 && errno == EINTR;
        }
        if (word == kKill) {
            (void)daemon_.end(SIGKILL);
            next_life();
        }
        const std::array<std::uint64_t, 2> report = {stopped_, static_cast<std::uint64_t>(daemon_.pid())};
        return ::send(line_, report.data(), sizeof report, MSG_NOSIGNAL) > 0;
    }

    const std::vector<std::uint64_t>& stops_;
    const int line_;
    std::size_t life_ = 0;
    std::uint64_t stopped_ = 0;
    TemporaryDirectory directory_;
    DaemonProcess daemon_;
};

}  // namespace

StoppingDaemon::StoppingDaemon(const std::vector<std::uint64_t>& stops) {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) {
        throw std::runtime_error("socketpair");
    }
    line_ = UniqueFd(ends[0]);
    UniqueFd keepers(ends[1]);
    keeper_ = ::fork();
    if (keeper_ == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        line_.reset();
        bool all_well = false;
        try {
            all_well = Keeper(stops, keepers.get()).keep();
        } catch (const std::exception& failure) {
            std::fprintf(stderr, "the keeper of hurrayd: %s\n", failure.what());
        }
        ::_exit(all_well ? 0 : 1);
    }
    keepers.reset();
    std::array<char, 256> path{};
    const ssize_t got = ::recv(line_.get(), path.data(), path.size(), 0);
    if (got <= 0) {
        throw std::runtime_error("hurrayd did not start");
    }
    socket_path_.assign(path.data(), static_cast<std::size_t>(got));
}

StoppingDaemon::Report StoppingDaemon::ask(char what) {
    std::array<std::uint64_t, 2> report{};
    if (::send(line_.get(), &what, 1, MSG_NOSIGNAL) != 1 ||
        ::recv(line_.get(), report.data(), sizeof report, 0) != sizeof report) {
        throw std::runtime_error("the process that keeps hurrayd has ended");
    }
    return {report[0], static_cast<pid_t>(report[1])};
}

void StoppingDaemon::kill() { (void)ask(kKill); }

std::uint64_t StoppingDaemon::stopped() { return ask(kAsk).stopped; }

pid_t StoppingDaemon::pid() { return ask(kAsk).pid; }

bool StoppingDaemon::end() {
    line_.reset();
    return keeper_ < 0 || wait_for_end(std::exchange(keeper_, -1)) == 0;
}

}  // namespace hurray::test
