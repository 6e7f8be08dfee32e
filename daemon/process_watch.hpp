#pragma once

#include <functional>

#include "daemon/asio.hpp"
#include "daemon/types.hpp"
#include "libhurray/base/unique_fd.hpp"

namespace hurrayd {

/// Tells which clients' processes have died. The event loop waits on one set of pidfds instead of on each, so watching a process
/// costs a single system call, and a client that comes and goes no more than that.
///
/// Threads: the one that runs `io`.
class ProcessWatch {
  public:
    /// `on_death` is called once for each death, from `io`; it may end sessions, and come for one that has ended.
    /// Throws boost::system::system_error when the system has no descriptor or memory for it.
    ProcessWatch(asio::io_context& io, std::function<void(SessionNumber)> on_death);

    /// Until `pidfd` is closed, which no duplicate may outlive. Throws boost::system::system_error when the system refuses.
    void add(int pidfd, SessionNumber session);

    /// No call comes any more, and `io` has nothing to do here.
    void stop();

  private:
    void wait();
    void tell();

    Waitable set_;
    std::function<void(SessionNumber)> on_death_;
};

}  // namespace hurrayd
