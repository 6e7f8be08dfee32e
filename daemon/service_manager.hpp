#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/asio.hpp"
#include "daemon/notify_socket.hpp"

namespace hurrayd {

/// Tells whoever started this process how it goes, in systemd's protocol (sd_notify(3)): that clients are served, a status
/// line, signs of life for its watchdog, that it stops. Where NOTIFY_SOCKET is not set, every call does nothing.
///
/// Nothing here waits for the service manager: what it has no room for is said again later. Nor does anything take a
/// descriptor after the construction, so a daemon that has none left is not taken for dead.
///
/// Owner: main. Threads: the one that runs the loop.
class ServiceManager {
  public:
    using Status = std::function<std::string()>;

    /// Reads WATCHDOG_USEC and WATCHDOG_PID. `status` makes the status line, without a line break. `socket` is a loan for life.
    ServiceManager(asio::io_context& io, const NotifySocket& socket, Status status);

    /// To be called when clients can connect. READY=1 goes out from the loop, thus when they are served; from then on
    /// WATCHDOG=1 does too, at half the time after which the service manager would call this process hung.
    void ready();

    /// Something happened that the status may tell of. It is made and sent a second later, if it has changed then. Cheap.
    void touch();

    /// The last word; after it the loop is not kept running from here.
    void stopping();

  private:
    void report();
    void schedule(std::chrono::milliseconds when);
    void feed_watchdog();
    [[nodiscard]] bool send(std::string_view lines) const noexcept;

    asio::io_context& io_;
    const NotifySocket& socket_;
    Status status_;
    std::optional<std::chrono::microseconds> watchdog_;
    asio::steady_timer report_timer_;
    asio::steady_timer watchdog_timer_;
    bool scheduled_ = false;
    bool is_ready_ = false;
    bool said_ready_ = false;
    std::string said_status_;
};

}  // namespace hurrayd
