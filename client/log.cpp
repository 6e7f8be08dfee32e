#include "client/log.hpp"

#include <array>
#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <span>
#include <string>

#include <unistd.h>

namespace hurray::client::log {
namespace {

constexpr std::array<std::string_view, 5> kNames = {"off", "error", "warning", "info", "debug"};

/// As the daemon's: 2026-01-31T23:59:59.999+00:00.
std::string time_now() {
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME, &now);
    tm utc{};
    ::gmtime_r(&now.tv_sec, &utc);
    std::array<char, 32> text{};
    const std::size_t size = std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S.", &utc);
    const std::string thousandths = std::to_string(1000 + now.tv_nsec / 1'000'000);
    return std::string(text.data(), size) + thousandths.substr(1) + "+00:00";
}

}  // namespace

void read_environment() noexcept {
    // Not for a program that runs with more rights than its caller.
    const char* const wanted = ::secure_getenv("HURRAY_LOG");
    Level level = Level::Off;
    bool known = wanted == nullptr || *wanted == '\0';
    for (std::size_t i = 0; i < kNames.size() && !known; ++i) {
        if (kNames[i] == wanted) {
            level = static_cast<Level>(i);
            known = true;
        }
    }
    detail::level.store(level, std::memory_order_relaxed);
    if (!known) {
        try {
            (void)write_or_drop(STDERR_FILENO, "hurray: HURRAY_LOG is " + as_log_value(wanted) +
                                                   ", allowed: off, error, warning, info, debug\n");
        } catch (const std::exception&) {  // no memory for it
        }
    }
}

void write(Level level, std::string_view event, std::initializer_list<Field> fields) noexcept {
    if (!is_enabled(level)) {
        return;
    }
    const int error = errno;
    try {
        std::string line = time_now();
        line += " level=";
        line += kNames[static_cast<std::size_t>(level)];
        line += " lib=hurray-client pid=" + std::to_string(::getpid()) + ' ';
        line += log_line(event, std::span(fields.begin(), fields.size()));
        line += '\n';
        (void)write_or_drop(STDERR_FILENO, line);
    } catch (const std::exception&) {  // no memory for it
    }
    errno = error;
}

}  // namespace hurray::client::log
