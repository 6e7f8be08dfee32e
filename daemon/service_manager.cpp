#include "daemon/service_manager.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

#include <systemd/sd-daemon.h>

namespace hurrayd {
namespace {

/// Between two status lines at least.
constexpr std::chrono::milliseconds kStatusPause{1000};
/// When what the service manager had no room for is said again.
constexpr std::chrono::milliseconds kRetryPause{100};

}  // namespace

ServiceManager::ServiceManager(asio::io_context& io, const NotifySocket& socket, Status status)
    : io_(io), socket_(socket), status_(std::move(status)), report_timer_(io), watchdog_timer_(io) {
    std::uint64_t microseconds = 0;
    if (socket_.is_there() && ::sd_watchdog_enabled(0, &microseconds) > 0) {
        watchdog_ = std::chrono::microseconds(microseconds);
    }
}

void ServiceManager::ready() {
    is_ready_ = true;
    if (socket_.is_there()) {
        asio::post(io_, [this] {
            if (is_ready_) {
                report();
                feed_watchdog();
            }
        });
    }
}

void ServiceManager::touch() {
    if (socket_.is_there() && is_ready_ && !scheduled_) {
        schedule(kStatusPause);
    }
}

void ServiceManager::stopping() {
    is_ready_ = false;
    report_timer_.cancel();
    watchdog_timer_.cancel();
    (void)send("STOPPING=1\nSTATUS=Stopping");
}

void ServiceManager::schedule(std::chrono::milliseconds when) {
    scheduled_ = true;
    report_timer_.expires_after(when);
    report_timer_.async_wait([this](const boost::system::error_code& failed) {
        scheduled_ = false;
        if (!failed && is_ready_) {
            report();
        }
    });
}

void ServiceManager::report() {
    std::string status = status_();
    std::string lines;
    if (!said_ready_) {
        lines += "READY=1\n";
    }
    if (status != said_status_) {
        lines += "STATUS=" + status + "\n";
    }
    if (lines.empty()) {
        return;
    }
    if (!send(lines)) {
        if (!scheduled_) {
            schedule(kRetryPause);
        }
        return;
    }
    said_ready_ = true;
    said_status_ = std::move(status);
}

/// From the loop and nowhere else: a loop that stands still is what the watchdog is for.
void ServiceManager::feed_watchdog() {
    if (!watchdog_) {
        return;
    }
    const std::chrono::microseconds half = *watchdog_ / 2;
    watchdog_timer_.expires_after(send("WATCHDOG=1") ? half : std::min<std::chrono::microseconds>(half, kRetryPause));
    watchdog_timer_.async_wait([this](const boost::system::error_code& failed) {
        if (!failed && is_ready_) {
            feed_watchdog();
        }
    });
}

/// Whether it needs no saying again: a service manager that is gone does not come to hear it either.
bool ServiceManager::send(std::string_view lines) const noexcept {
    return socket_.send(lines) != NotifySocket::Sent::NoRoom;
}

}  // namespace hurrayd
