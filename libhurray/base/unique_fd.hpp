#pragma once

#include <cerrno>
#include <utility>

#include <unistd.h>

namespace hurray {

/// The one owner of a file descriptor; closes it in the destructor.
///
/// An `int fd` in a signature is a loan for the call, a `UniqueFd` by value takes the descriptor over.
/// Threads: one at a time.
class UniqueFd {
  public:
    UniqueFd() noexcept = default;
    explicit UniqueFd(int fd) noexcept : fd_(fd) {}
    UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    UniqueFd& operator=(UniqueFd&& other) noexcept {
        if (this != &other) {
            reset(std::exchange(other.fd_, -1));
        }
        return *this;
    }
    UniqueFd(const UniqueFd&) = delete;
    UniqueFd& operator=(const UniqueFd&) = delete;
    ~UniqueFd() { reset(); }

    [[nodiscard]] int get() const noexcept { return fd_; }
    [[nodiscard]] explicit operator bool() const noexcept { return fd_ >= 0; }

    /// Gives the descriptor up; the caller owns it now.
    [[nodiscard]] int release() noexcept { return std::exchange(fd_, -1); }

    /// Closes what is held and takes `fd`. Keeps errno. `close` is not repeated after EINTR: on Linux the descriptor is
    /// gone by then, and its number may already belong to another thread.
    void reset(int fd = -1) noexcept {
        if (fd_ >= 0) {
            const int saved = errno;
            ::close(fd_);
            errno = saved;
        }
        fd_ = fd;
    }

  private:
    int fd_ = -1;
};

}  // namespace hurray
