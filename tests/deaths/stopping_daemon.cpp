#include "tests/deaths/stopping_daemon.hpp"

#include <array>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string_view>
#include <utility>

#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libhurray/base/unique_fd.hpp"
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
        bool is_wanted = say_to(line_, daemon_.socket_path());
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
        const std::string word = hear_from(line_);
        if (word.empty()) {
            return false;
        }
        if (word.front() == kKill) {
            (void)daemon_.end(SIGKILL);
            next_life();
        }
        return say_to(line_, std::to_string(stopped_) + " " + std::to_string(daemon_.pid()));
    }

    const std::vector<std::uint64_t>& stops_;
    const int line_;
    std::size_t life_ = 0;
    std::uint64_t stopped_ = 0;
    TemporaryDirectory directory_;
    DaemonProcess daemon_;
};

}  // namespace

StoppingDaemon::StoppingDaemon(const std::vector<std::uint64_t>& stops)
    : keeper_([&](int line) { return Keeper(stops, line).keep(); }), socket_path_(keeper_.hear()) {}

StoppingDaemon::Report StoppingDaemon::ask(char what) {
    keeper_.say(std::string_view(&what, 1));
    Report report{};
    std::istringstream(keeper_.hear()) >> report.stopped >> report.pid;
    return report;
}

void StoppingDaemon::kill() { (void)ask(kKill); }

std::uint64_t StoppingDaemon::stopped() { return ask(kAsk).stopped; }

pid_t StoppingDaemon::pid() { return ask(kAsk).pid; }

}  // namespace hurray::test
