#pragma once

#include <string>
#include <vector>

namespace hurrayctl {

/// `hurrayctl run`: a private daemon for the life of one command, as dbus-run-session does it for D-Bus.
///
/// The daemon listens in a new directory that only this user can enter, and which is gone afterwards; the command finds it
/// through HURRAY_SOCKET. SIGINT, SIGTERM, SIGHUP and SIGQUIT are passed on to the command.
///
/// Returns the command's exit code, 128 + the signal that killed it, 126 if it can't be executed, 127 if it does not exist, or
/// kNoDaemon if the daemon did not come up. What goes wrong is told on stderr.
int run(const std::vector<std::string>& command);

}  // namespace hurrayctl
