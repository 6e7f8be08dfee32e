#pragma once

#include <utility>

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
    /// Gives our descriptor up, so that whoever takes it has the last one.
    [[nodiscard]] UniqueFd take() { return std::move(fd_); }
    /// Closes our descriptor. That waits, unless somebody else has one.
    void close() { fd_.reset(); }
    /// The peer hangs up: nobody waits any more.
    void let_go() { peer_.reset(); }

  private:
    UniqueFd peer_;
    UniqueFd fd_;
};

}  // namespace hurray::test
