#pragma once

#include <string>

#include "look.hpp"

namespace hurrayctl {

/// Prints the daemon's metrics as they are, and nothing if they did not come whole: so the output may go into a file that a
/// collector reads. Returns an exit code of exit_codes.hpp; what goes wrong is told on stderr.
///
/// `path` is the socket; empty: the one beside the daemon's.
int metrics(const Look& look, const std::string& path);

}  // namespace hurrayctl
