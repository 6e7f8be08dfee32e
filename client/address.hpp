#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "client/fork_guard.hpp"
#include "libhurray/base/result.hpp"

/// Where the daemon is, and whether what is there may be trusted.
namespace hurray::client {

using Clock = std::chrono::steady_clock;
/// Absent: for ever.
using Deadline = std::optional<Clock::time_point>;

/// Asked when a signal interrupts a wait; true ends it.
using Interrupted = std::function<bool()>;

struct Address {
    std::vector<std::string> paths;  ///< tried in this order; only a missing socket moves on to the next
    bool is_explicit = false;        ///< the user named it, so it may belong to a daemon outside of this user namespace
};

/// The argument, else $HURRAY_SOCKET, else the user's own daemon, else the system's.
[[nodiscard]] Address find_address(std::string_view argument);

/// Connects a non-blocking SOCK_SEQPACKET socket and checks who listens: root, this user, or the user `hurray`; for an explicit
/// address also the user in $HURRAY_DAEMON_UID and the overflow user of a user namespace. While nobody listens it tries again
/// until `deadline`, at least once. No forked child has it.
///
/// Threads: any.   Blocks: until `deadline`.
/// Fails: DaemonUnavailable  no socket, or nobody listens
///        NotPermitted       the socket may not be opened, or its owner is not trusted
///        Protocol           the socket is of another type
///        InvalidArgument    a path is too long
///        TimedOut           somebody listens, but takes no connection
///        Interrupted
[[nodiscard]] Result<UnforkedFd> connect_socket(const Address& address, Deadline deadline,
                                                const Interrupted& interrupted);

/// Milliseconds for poll(2): what is left until `deadline`, rounded up; -1 for ever.
[[nodiscard]] int poll_timeout(Deadline deadline);

}  // namespace hurray::client
