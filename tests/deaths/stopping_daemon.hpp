#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <sys/types.h>

#include "tests/support/keeper_process.hpp"

namespace hurray::test {

/// hurrayd, which dies at packets that are chosen beforehand and is started again each time, by a KeeperProcess, whose rules are those of
/// this. Its resume window lasts two seconds, so that clients come back in time on a busy machine.
class StoppingDaemon {
  public:
    /// Life i dies at its packet stops[i] (see stopping.cpp); where that is 0, and in later lives, at none.
    explicit StoppingDaemon(const std::vector<std::uint64_t>& stops);

    [[nodiscard]] const std::string& socket_path() const noexcept { return socket_path_; }
    /// `kill -9`. The next life serves when this returns.
    void kill();
    /// How many lives have ended at their packet.
    [[nodiscard]] std::uint64_t stopped();
    /// Of the present life.
    [[nodiscard]] pid_t pid();
    /// Ends it with SIGTERM. False: it did not end well, or had died in a way that nobody wanted; its log is printed.
    bool end() { return keeper_.end(); }

  private:
    struct Report {
        std::uint64_t stopped;
        pid_t pid;
    };
    Report ask(char what);

    KeeperProcess keeper_;
    std::string socket_path_;
};

}  // namespace hurray::test
