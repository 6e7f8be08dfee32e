#include "tests/deaths/walk.hpp"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "tests/support/sanitized.hpp"

namespace hurray::test {
namespace {

using Stops = std::vector<std::uint64_t>;

constexpr bool kIsSlow = kIsSanitized || kIsThreadSanitized;
/// Each mostly waits for a window to end.
constexpr std::size_t kAtOnce = kIsSlow ? 16 : 64;
constexpr std::uint64_t kStep = kIsSlow ? 6 : 1;
constexpr int kSecondDeaths = kIsSlow ? 3 : 16;
/// A resume and what comes after it in most exchanges.
constexpr std::uint64_t kSecondLife = 40;
constexpr unsigned kWatchdogSeconds = 120;

/// How a performance ended; what its process exits with.
enum Outcome { kPlayed = 0, kFailed = 1, kNotStopped = 2 };

std::string as_text(const Stops& stops) {
    std::string text;
    for (const std::uint64_t stop : stops) {
        text += (text.empty() ? "" : ",") + std::to_string(stop);
    }
    return text;
}

Outcome play(const std::function<void(Play&)>& exchange, const Stops& stops) {
    StoppingDaemon daemon(stops);
    Play play(daemon);
    exchange(play);
    play.finish();
    const std::uint64_t stopped = daemon.stopped();
    if (!daemon.end()) {
        throw std::runtime_error("hurrayd did not end well");
    }
    std::uint64_t wanted = 0;
    for (const std::uint64_t stop : stops) {
        wanted += stop != 0 ? 1 : 0;
    }
    return stopped == wanted ? kPlayed : kNotStopped;
}

class Walk {
  public:
    Walk(const std::function<void(Play&)>& exchange, bool after_a_kill) : exchange_(exchange) {
        if (after_a_kill) {
            prefix_ = {0};
        }
    }

    void go() {
        if (const char* const wanted = std::getenv("HURRAY_STOPS"); wanted != nullptr) {
            Stops stops = prefix_;
            std::istringstream text(wanted);
            for (std::string number; std::getline(text, number, ',');) {
                stops.push_back(std::stoull(number));
            }
            begin(std::move(stops));
            finish();
            return;
        }
        std::random_device random;
        std::uint64_t at = 1 + random() % kStep;
        for (; first_not_reached_ == 0 && !has_failed_; at += kStep) {
            begin({at});
        }
        finish();
        if (has_failed_) {
            return;
        }
        is_walking_ = false;
        EXPECT_GT(first_not_reached_, kStep) << "no packet was walked over";
        std::printf("[  WALKED  ] %llu packets\n", static_cast<unsigned long long>(first_not_reached_ - 1));
        for (int i = 0; i < kSecondDeaths && !has_failed_; ++i) {
            begin({1 + random() % (first_not_reached_ - 1), 1 + random() % kSecondLife});
        }
        finish();
    }

  private:
    void begin(Stops further) {
        Stops stops = prefix_;
        stops.insert(stops.end(), further.begin(), further.end());
        while (running_.size() >= kAtOnce) {
            await_one();
        }
        std::fflush(nullptr);
        const pid_t pid = ::fork();
        if (pid == 0) {
            ::prctl(PR_SET_PDEATHSIG, SIGKILL);
            ::alarm(kWatchdogSeconds);
            Outcome outcome = kFailed;
            try {
                outcome = play(exchange_, stops);
            } catch (const std::exception& failure) {
                std::fprintf(stderr, "stops %s: %s\n", as_text(stops).c_str(), failure.what());
            }
            std::fflush(nullptr);
            ::_exit(outcome);
        }
        ASSERT_GT(pid, 0) << "fork";
        running_.emplace(pid, std::move(stops));
    }

    void await_one() {
        int status = 0;
        const pid_t pid = ::waitpid(-1, &status, 0);
        const auto ended = running_.find(pid);
        if (ended == running_.end()) {
            return;
        }
        const Stops stops = std::move(ended->second);
        running_.erase(ended);
        if (WIFEXITED(status) && WEXITSTATUS(status) == kNotStopped) {
            if (is_walking_) {
                first_not_reached_ =
                    first_not_reached_ == 0 ? stops.back() : std::min(first_not_reached_, stops.back());
            }
        } else if (status != 0) {
            has_failed_ = true;
            ADD_FAILURE() << "with HURRAY_STOPS="
                          << as_text(Stops(stops.begin() + static_cast<std::ptrdiff_t>(prefix_.size()), stops.end()))
                          << (WIFSIGNALED(status) ? ": ended by signal " + std::to_string(WTERMSIG(status)) : "");
        }
    }

    void finish() {
        while (!running_.empty()) {
            await_one();
        }
    }

    const std::function<void(Play&)>& exchange_;
    Stops prefix_;
    std::map<pid_t, Stops> running_;
    bool is_walking_ = true;
    std::uint64_t first_not_reached_ = 0;
    bool has_failed_ = false;
};

}  // namespace

void walk(const std::function<void(Play&)>& exchange, bool after_a_kill) { Walk(exchange, after_a_kill).go(); }

}  // namespace hurray::test
