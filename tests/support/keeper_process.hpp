#pragma once

#include <functional>
#include <string>
#include <string_view>

#include <sys/types.h>

#include "libhurray/base/unique_fd.hpp"

namespace hurray::test {

/// A process that starts, kills and waits for others on behalf of this one, which may then have threads (a fork beside them may leave the child
/// with an allocator that is locked for ever), and a line to it that carries packets. It dies with this one.
///
/// Failures are std::runtime_error. Make it before the first thread. Threads: one.
class KeeperProcess {
  public:
    /// `keep` runs in the new process, with its end of the line, and is to return when the other end is closed: whether all was well. What it
    /// throws is printed.
    explicit KeeperProcess(const std::function<bool(int line)>& keep);
    KeeperProcess(const KeeperProcess&) = delete;
    KeeperProcess& operator=(const KeeperProcess&) = delete;
    ~KeeperProcess() { (void)end(); }

    void say(std::string_view packet);
    /// Waits for a packet of at most 4096 bytes.
    [[nodiscard]] std::string hear();

    /// Closes the line and waits for the end. False: not all was well. A second call does nothing.
    bool end();

  private:
    UniqueFd line_;
    pid_t pid_ = -1;
};

/// For `keep`. The next packet; empty: there is nobody any more who could say something.
[[nodiscard]] std::string hear_from(int line);
/// False: nobody hears it.
[[nodiscard]] bool say_to(int line, std::string_view packet);

}  // namespace hurray::test
