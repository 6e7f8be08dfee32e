#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <sys/types.h>

#include "libhurray/base/result.hpp"
#include "libhurray/base/unique_fd.hpp"

namespace hurrayd {

/// Where a socket shall listen, and who may connect.
struct SocketPlace {
    std::string path;
    mode_t mode = 0600;
    std::optional<gid_t> group;
};

/// The file of a Unix socket that listens. It is never seen half made: whoever finds it can connect, with its final mode and
/// group, and a stale one (its listener is gone) is replaced in one step.
class ListeningFile {
  public:
    /// Path of the file while it is made: beside its final place.
    static constexpr std::string_view kFreshSuffix = ".new";

    /// Fails: InvalidArgument  the path is too long for a socket, or empty
    [[nodiscard]] static hurray::Result<void> check(const std::string& path, std::string key);

    struct Made;
    /// Makes a socket of `type` (SOCK_STREAM, SOCK_SEQPACKET), non-blocking, that listens at `place`. `key` names the path in
    /// the configuration, for errors.
    ///
    /// Of two processes that do this at the same path at the same moment neither may have it: a lock is the caller's business.
    /// Fails: AlreadyExists    somebody listens there, or where it is made
    ///        InvalidArgument  as check(), or something that is not a socket is at one of the two
    ///        Internal         the system refuses, with errno
    [[nodiscard]] static hurray::Result<Made> make(int type, const SocketPlace& place, int backlog, std::string key);

    /// None.
    ListeningFile() = default;
    /// Removes the file, unless somebody else's lies there by now.
    void remove();

  private:
    std::string path_;
    dev_t device_ = 0;
    ino_t inode_ = 0;
};

struct ListeningFile::Made {
    hurray::UniqueFd listener;
    ListeningFile file;
};

}  // namespace hurrayd
