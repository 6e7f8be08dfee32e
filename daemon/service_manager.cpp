#include "daemon/service_manager.hpp"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <sys/socket.h>
#include <sys/un.h>

#include <systemd/sd-daemon.h>

#include "daemon/log.hpp"

namespace hurrayd {
namespace {

/// Between two status lines at least.
constexpr std::chrono::milliseconds kStatusPause{1000};
/// When what the service manager had no room for is said again.
constexpr std::chrono::milliseconds kRetryPause{100};

}  // namespace

// sd_notify itself is not used: it makes a socket for each message, which fails when no descriptor is left, and it waits for
// a service manager that does not read.
ServiceManager::ServiceManager(asio::io_context& io, Status status)
    : io_(io), status_(std::move(status)), report_timer_(io), watchdog_timer_(io) {
    const char* address = std::getenv("NOTIFY_SOCKET");
    if (address == nullptr || *address == '\0') {
        return;
    }
    address_ = address;
    if ((address_.front() != '/' && address_.front() != '@') || address_.size() >= sizeof(sockaddr_un::sun_path)) {
        log::warning("notify_socket_unusable",
                     {{"address", address_}, {"reason", "neither a path nor an abstract address of a Unix socket"}});
        return;
    }
    socket_ = hurray::UniqueFd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket_) {
        log::warning("notify_socket_unusable", {{"address", address_}, {"reason", std::strerror(errno)}});
        return;
    }
    std::uint64_t microseconds = 0;
    if (::sd_watchdog_enabled(0, &microseconds) > 0) {
        watchdog_ = std::chrono::microseconds(microseconds);
    }
}

void ServiceManager::ready() {
    is_ready_ = true;
    if (socket_) {
        asio::post(io_, [this] {
            if (is_ready_) {
                report();
                feed_watchdog();
            }
        });
    }
}

void ServiceManager::touch() {
    if (socket_ && is_ready_ && !scheduled_) {
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
    if (!socket_) {
        return true;
    }
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, address_.data(), address_.size());
    if (address_.front() == '@') {
        address.sun_path[0] = '\0';
    }
    // The length of an abstract address is part of it, and a path needs no NUL behind it.
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + address_.size());
    return ::sendto(socket_.get(), lines.data(), lines.size(), MSG_NOSIGNAL,
                    reinterpret_cast<const sockaddr*>(&address), size) >= 0 ||
           (errno != EAGAIN && errno != ENOBUFS && errno != ENOMEM);
}

}  // namespace hurrayd
