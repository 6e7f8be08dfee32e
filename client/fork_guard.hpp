#pragma once

#include <array>
#include <cstdint>

#include "libhurray/base/result.hpp"

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

/// Closes descriptors in a forked child, for an object that owns them: its last member, so that it stands on the books only
/// while they are open.
///
/// Threads: construction and destruction on any thread.
class ForkGuard {
  public:
    explicit ForkGuard(const std::array<int, 4>& fds);
    ~ForkGuard();
    ForkGuard(const ForkGuard&) = delete;
    ForkGuard& operator=(const ForkGuard&) = delete;

    /// Whether this process is a child of the one that made the object. Nothing but memory of its own may be touched then:
    /// locks may have been held by threads that do not exist here.
    [[nodiscard]] bool in_child() const noexcept { return generation_ != fork_generation(); }

  private:
    friend struct ForkGuardRegistry;

    std::array<int, 4> fds_;
    std::uint32_t generation_;
    ForkGuard* previous_ = nullptr;
    ForkGuard* next_ = nullptr;
};

}  // namespace hurray::client
