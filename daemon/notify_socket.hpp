#pragma once

#include <span>
#include <string>
#include <string_view>

#include "libhurray/base/unique_fd.hpp"

namespace hurrayd {

/// Where whoever started this process wants to be told how it goes ($NOTIFY_SOCKET, sd_notify(3)): each message is one datagram of
/// lines, with descriptors or without.
///
/// sd_notify itself is not used: it makes a socket for each message, which fails when no descriptor is left.
/// Owner: main. Threads: any.
class NotifySocket {
  public:
    /// Reads NOTIFY_SOCKET. One that can't be used is logged, and then as if there were none.
    NotifySocket();

    [[nodiscard]] bool is_there() const noexcept { return static_cast<bool>(socket_); }

    /// NoRoom: it does not read. Gone: it is not there any more, or never was, or the kernel refuses for another reason (errno).
    enum class Sent { Done, NoRoom, Gone };
    /// At once, or not.
    [[nodiscard]] Sent send(std::string_view lines) const noexcept;
    /// After waiting until it reads, however long that takes.
    [[nodiscard]] Sent send_in_time(std::string_view lines, std::span<const int> fds) const noexcept;

  private:
    [[nodiscard]] Sent send(std::string_view lines, std::span<const int> fds, int flags) const noexcept;

    hurray::UniqueFd socket_;  ///< none: nobody wants to be told
    std::string address_;      ///< a leading '@' stands for NUL
};

}  // namespace hurrayd
