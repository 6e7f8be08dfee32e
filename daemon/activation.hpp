#pragma once

#include <optional>
#include <string>

#include "libhurray/base/result.hpp"
#include "libhurray/base/unique_fd.hpp"

namespace hurrayd {

/// A listening socket that the service manager made, and keeps: clients that come while no daemon runs wait in it.
struct ActivatedListener {
    hurray::UniqueFd socket;  ///< close-on-exec, non-blocking
    std::string path;         ///< where it listens; an abstract address begins with '@'
};

/// Takes the socket that was handed over (sd_listen_fds(3): LISTEN_FDS, LISTEN_PID), or nothing if none was. The variables
/// are removed from the environment, so a second call finds nothing. Threads: before there is a second one.
///
/// Fails: InvalidArgument  more than one was handed over, or something that is not a listening SOCK_SEQPACKET Unix socket;
///                         the message names it, and what its unit has to say instead
[[nodiscard]] hurray::Result<std::optional<ActivatedListener>> take_activated_listener();

}  // namespace hurrayd
