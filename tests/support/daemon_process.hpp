#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <sys/types.h>

#include "libhurray/base/unique_fd.hpp"
#include "tests/support/temporary_directory.hpp"

namespace hurray::test {

/// A real hurrayd on a temporary socket: serving when the constructor or `start` returns (it waits for READY=1).
///
/// Failures are std::runtime_error. Threads: one.
class DaemonProcess {
  public:
    struct Options {
        std::vector<std::string> arguments;  ///< beside --socket
        std::vector<std::pair<std::string, std::string>> environment;
        std::optional<std::uint64_t> descriptor_limit;          ///< RLIMIT_NOFILE, soft and hard
        std::optional<std::uint64_t> address_space_limit = {};  ///< RLIMIT_AS, bytes
        std::function<void()> before_exec = {};                 ///< runs in its process, before it is hurrayd
        /// A service manager's: descriptors handed over, in this order and by these names, and a watchdog.
        std::vector<std::pair<int, std::string>> handed_over = {};
        std::optional<std::chrono::microseconds> watchdog = {};
        bool is_addressed = true;     ///< LISTEN_PID and WATCHDOG_PID name the daemon; false: some other process
        bool waits_for_ready = true;  ///< false: starting returns at once
        std::string binary = {};      ///< empty: $HURRAYD, else the one of this build
        std::string socket = "hurrayd.sock";  ///< in a directory of its own
    };
    explicit DaemonProcess(Options options);
    DaemonProcess() : DaemonProcess(Options{}) {}
    DaemonProcess(const DaemonProcess&) = delete;
    DaemonProcess& operator=(const DaemonProcess&) = delete;
    /// Ends it with SIGTERM; prints its log if it did not end well.
    ~DaemonProcess();

    [[nodiscard]] const std::string& socket_path() const noexcept { return socket_path_; }
    /// Where it serves its metrics unless it is told otherwise.
    [[nodiscard]] std::string metrics_path() const { return directory_ / "hurrayd-metrics.sock"; }
    [[nodiscard]] pid_t pid() const noexcept { return pid_; }

    /// Sends `signal` and waits for the end; the status as waitpid gives it.
    int end(int signal);
    /// SIGSTOP: it stands still when this returns, until SIGCONT.
    void freeze() const;
    /// Waits until it ends by itself; the status as waitpid gives it.
    int wait_end();
    /// Starts it again, on the same socket; with another environment, should one be given.
    void start();
    void start(std::vector<std::pair<std::string, std::string>> environment);
    /// The same, and returns at once.
    void start_without_waiting();
    /// The next message to the service manager, e.g. "READY=1\nSTATUS=...\n".
    std::string next_notification();
    /// The next one that contains `text`; those before it are dropped.
    std::string notification_with(const std::string& text);
    /// Where they arrive: a datagram socket that is read by the two above alone.
    [[nodiscard]] std::string notify_path() const { return directory_ / "notify"; }

    /// Open descriptors, /proc/PID/maps, and what it has logged since the first start.
    [[nodiscard]] std::size_t open_descriptors() const;
    [[nodiscard]] std::string maps() const;
    [[nodiscard]] std::string log() const;

    /// Runs a second hurrayd with these arguments until it ends by itself; its exit code and what it wrote.
    struct Finished {
        int status = 0;
        std::string output;
    };
    [[nodiscard]] Finished run_another(const std::vector<std::string>& arguments) const;

  private:
    void play_service_manager() const;
    pid_t spawn(const std::vector<std::string>& arguments, const std::string& log_path) const;

    Options options_;
    TemporaryDirectory directory_;
    std::string socket_path_;
    UniqueFd notifications_;
    pid_t pid_ = -1;
};

}  // namespace hurray::test
