#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "libhurray/base/result.hpp"
#include "libhurray/base/unique_fd.hpp"

/// What becomes of connections in a forked child.
///
/// A child that held its parent's socket would keep a dead parent's leases alive, and close-on-exec does not act on fork.
/// So a `pthread_atfork` handler closes the descriptors of every guarded object in the child, and the generation tells
/// everything else that it was born in another process.
namespace hurray::client {

/// Grows by one in each forked child. Threads: any. Never blocks.
[[nodiscard]] std::uint32_t fork_generation() noexcept;

/// What every call of a forked child fails with.
[[nodiscard]] Error forked();

/// Closes descriptors in a forked child (-1: none), for an object that owns them: its last member, so that it stands on the books only
/// while they are open.
///
/// Threads: construction and destruction on any thread.
class ForkGuard {
  public:
    explicit ForkGuard(const std::array<int, 3>& fds);
    ~ForkGuard();
    ForkGuard(const ForkGuard&) = delete;
    ForkGuard& operator=(const ForkGuard&) = delete;

    /// Whether this process is a child of the one that made the object. Nothing but memory of its own may be touched then:
    /// locks may have been held by threads that do not exist here.
    [[nodiscard]] bool in_child() const noexcept { return generation_ != fork_generation(); }

  private:
    friend struct ForkGuardRegistry;
    friend class UnforkedFd;

    std::array<int, 3> fds_;
    std::uint32_t generation_;
    ForkGuard* previous_ = nullptr;
    ForkGuard* next_ = nullptr;
};

/// A descriptor that no forked child has, whenever the fork comes: while one is made or closed, and is not on the books, no thread forks.
///
/// In a child it owns nothing. Threads: one at a time.
class UnforkedFd {
  public:
    UnforkedFd() noexcept = default;
    /// What `make` returns, which must not fork.
    explicit UnforkedFd(const std::function<UniqueFd()>& make);
    UnforkedFd(UnforkedFd&&) noexcept = default;
    UnforkedFd& operator=(UnforkedFd&& other) noexcept {
        reset();
        fd_ = std::move(other.fd_);
        guard_ = std::move(other.guard_);
        return *this;
    }
    UnforkedFd(const UnforkedFd&) = delete;
    UnforkedFd& operator=(const UnforkedFd&) = delete;
    ~UnforkedFd() { reset(); }

    [[nodiscard]] int get() const noexcept { return fd_.get(); }
    [[nodiscard]] explicit operator bool() const noexcept { return static_cast<bool>(fd_); }
    void reset() noexcept;

  private:
    UniqueFd fd_;
    std::unique_ptr<ForkGuard> guard_;
};

}  // namespace hurray::client
