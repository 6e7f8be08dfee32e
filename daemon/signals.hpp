#pragma once

#include <functional>
#include <memory>

#include "daemon/asio.hpp"
#include "libhurray/base/result.hpp"

namespace hurrayd {

/// Waits for the first SIGTERM or SIGINT, calls `on_signal` on the loop, and then no longer keeps the loop running. The
/// second one ends the process the hard way.
///
/// A signalfd, since Asio's own signal_set makes a pipe and a handler for all threads. Owner: main.
class Signals {
  public:
    /// Blocks both signals for the calling thread and those it starts. Fails: Internal, with errno.
    [[nodiscard]] static hurray::Result<std::unique_ptr<Signals>> wait(asio::io_context& io,
                                                                       std::function<void(int)> on_signal);

  private:
    Signals(asio::io_context& io, int fd) : fd_(io, fd) {}
    Waitable fd_;
};

}  // namespace hurrayd
