#pragma once

#include <functional>

#include <sys/types.h>

#include "libhurray/base/unique_fd.hpp"

namespace hurray::test {

/// A forked process that does `work`, tells its parent so, and then stays until it is killed. For programs without threads.
class Child {
  public:
    /// Returns once `work` is done; throws if the child ended before (an exception in `work` ends it).
    explicit Child(const std::function<void()>& work);
    Child(const Child&) = delete;
    Child& operator=(const Child&) = delete;
    ~Child() { kill(); }

    [[nodiscard]] pid_t pid() const noexcept { return pid_; }
    /// SIGKILL, and waits for the end. A second call does nothing.
    void kill();

  private:
    pid_t pid_ = -1;
};

/// Waits for the end of a child, SIGKILLs it when a watchdog's 30 s are over; the status as waitpid gives it.
int wait_for_end(pid_t pid);

}  // namespace hurray::test
