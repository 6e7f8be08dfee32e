#pragma once

#include <optional>
#include <string>
#include <vector>

#include "daemon/store/recovery.hpp"
#include "libhurray/base/result.hpp"
#include "libhurray/base/unique_fd.hpp"

namespace hurrayd {

/// A listening socket that the service manager made, and keeps: clients that come while no daemon runs wait in it.
struct ActivatedListener {
    hurray::UniqueFd socket;  ///< close-on-exec, non-blocking
    std::string path;         ///< where it listens; an abstract address begins with '@'
};

/// What the service manager hands over at the start.
struct Activation {
    std::optional<ActivatedListener> listener;
    std::vector<store::HandedOver> stored;  ///< from its descriptor store
};

/// Takes what was handed over (sd_listen_fds(3): LISTEN_FDS, LISTEN_FDNAMES, LISTEN_PID), if anything was. The variables are removed
/// from the environment, so a second call finds nothing. Threads: before there is a second one.
///
/// Fails: InvalidArgument  beside what was stored there is more than one thing, or something that is not a listening SOCK_SEQPACKET
///                         Unix socket; the message names it, and what its unit has to say instead
[[nodiscard]] hurray::Result<Activation> take_activation();

}  // namespace hurrayd
