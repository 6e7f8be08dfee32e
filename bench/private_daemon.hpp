#pragma once

#include <string>

#include <sys/types.h>

namespace bench {

/// Runs this program again, with the same arguments, under a daemon of its own: by hurrayctl, which lies beside it. Returns
/// only where $HURRAY_SOCKET names a daemon already.
void ensure_private_daemon(char** argv);

/// The process at the other end of $HURRAY_SOCKET.
[[nodiscard]] pid_t daemon_pid();

/// The path of the program of that name that lies beside this one.
[[nodiscard]] std::string program_beside(const char* name);

}  // namespace bench
