#pragma once

#include <string>

#include <sys/types.h>

#include "libhurray/base/unique_fd.hpp"
#include "tests/support/daemon_process.hpp"

namespace hurray::test {

/// A real hurrayd that can be killed and started again while this process has busy threads: a process of its own does it, which was
/// forked before there were any. (A fork beside them may leave the child with an allocator that is locked for ever.)
///
/// Failures are std::runtime_error. Make it before the first thread. Threads: one.
class MortalDaemon {
  public:
    explicit MortalDaemon(const DaemonProcess::Options& options);
    MortalDaemon(const MortalDaemon&) = delete;
    MortalDaemon& operator=(const MortalDaemon&) = delete;
    /// Ends it with SIGTERM.
    ~MortalDaemon();

    [[nodiscard]] const std::string& socket_path() const noexcept { return socket_path_; }
    /// `kill -9`, and the start of the next, which serves when this returns.
    void restart();

  private:
    UniqueFd line_;
    pid_t keeper_ = -1;
    std::string socket_path_;
};

}  // namespace hurray::test
