#pragma once

#include <string>

#include "libhurray/base/unique_fd.hpp"

namespace hurray::test {

/// A descriptor whose last closing waits: a TCP socket that lingers, with data that its peer does not read.
class LingeringSocket {
  public:
    /// std::runtime_error without a loopback network.
    LingeringSocket();
    LingeringSocket(LingeringSocket&&) = default;
    LingeringSocket& operator=(LingeringSocket&&) = delete;
    ~LingeringSocket() { let_go(); }

    [[nodiscard]] int fd() const noexcept { return fd_.get(); }
    /// As /proc/PID/fd shows it, e.g. "socket:[4711]".
    [[nodiscard]] const std::string& link() const noexcept { return link_; }
    /// Closes our descriptor. That waits, unless somebody else has one.
    void close() { fd_.reset(); }
    /// The peer hangs up: nobody waits any more.
    void let_go() { peer_.reset(); }

  private:
    UniqueFd peer_;
    UniqueFd fd_;
    std::string link_;
};

}  // namespace hurray::test
