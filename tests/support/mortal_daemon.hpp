#pragma once

#include <string>

#include "tests/support/daemon_process.hpp"
#include "tests/support/keeper_process.hpp"

namespace hurray::test {

/// A real hurrayd that can be killed and started again while this process has busy threads: a KeeperProcess does it, whose rules are those of
/// this. When it goes, the daemon is ended with SIGTERM.
class MortalDaemon {
  public:
    explicit MortalDaemon(const DaemonProcess::Options& options);

    [[nodiscard]] const std::string& socket_path() const noexcept { return socket_path_; }
    /// `kill -9`, and the start of the next, which serves when this returns.
    void restart();

  private:
    KeeperProcess keeper_;
    std::string socket_path_;
};

}  // namespace hurray::test
