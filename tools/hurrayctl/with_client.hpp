#pragma once

#include <functional>
#include <hurray/client.hpp>

#include "look.hpp"

namespace hurrayctl {

/// Runs a command with a client of the daemon that `look` names, and returns its exit code. What goes wrong at that is told on stderr,
/// and decides the code: it throws no StatusError.
int with_client(const Look& look, const std::function<int(hurray::Client&)>& command);

}  // namespace hurrayctl
