#include "daemon/listening_file.hpp"

#include <cerrno>
#include <cstring>
#include <utility>

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

namespace hurrayd {
namespace {

using hurray::Errc;
using hurray::UniqueFd;

sockaddr_un address_of(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    return address;
}

UniqueFd make_socket(int type) { return UniqueFd(::socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)); }

/// Whether somebody listens at `path`. A socket whose listener is gone refuses.
bool is_served(const std::string& path, int type) {
    const UniqueFd probe = make_socket(type);
    const sockaddr_un address = address_of(path);
    return ::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 ||
           (errno != ECONNREFUSED && errno != ENOENT);
}

}  // namespace

hurray::Result<void> ListeningFile::check(const std::string& path, std::string key) {
    constexpr std::size_t kMostBytes = sizeof(sockaddr_un::sun_path) - 1 - kFreshSuffix.size();
    if (path.empty() || path.size() > kMostBytes) {
        return hurray::fail_field(Errc::InvalidArgument, std::move(key),
                                  "the socket's path has " + std::to_string(path.size()) + " bytes, 1 to " +
                                      std::to_string(kMostBytes) + " are possible: " + path);
    }
    return {};
}

hurray::Result<ListeningFile::Made> ListeningFile::make(int type, const SocketPlace& place, int backlog,
                                                        std::string key) {
    if (auto checked = check(place.path, key); !checked) {
        return tl::unexpected(checked.error());
    }
    const std::string& path = place.path;
    const std::string fresh = path + std::string(kFreshSuffix);
    struct stat status{};
    for (const std::string& file : {path, fresh}) {
        if (::lstat(file.c_str(), &status) != 0) {
            continue;
        }
        if (!S_ISSOCK(status.st_mode)) {
            return hurray::fail_field(Errc::InvalidArgument, std::move(key),
                                      "something that is not a socket is at " + file);
        }
        if (is_served(file, type)) {
            return hurray::fail(Errc::AlreadyExists, "something else serves " + file);
        }
        // Left by one that was killed at this very moment.
        if (file == fresh && ::unlink(fresh.c_str()) != 0 && errno != ENOENT) {
            return hurray::fail_call(Errc::Internal, errno, "remove " + fresh);
        }
    }

    Made made;
    made.listener = make_socket(type);
    if (!made.listener) {
        return hurray::fail_call(Errc::Internal, errno, "make a socket");
    }
    const sockaddr_un address = address_of(fresh);
    // On Linux the file gets the mode of the socket less the umask, so nobody can come in before chmod has its way.
    if (::fchmod(made.listener.get(), place.mode) != 0 ||
        ::bind(made.listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
        return hurray::fail_call(Errc::Internal, errno, "bind " + fresh);
    }
    const auto refuse = [&](const std::string& what) {
        const int error = errno;
        ::unlink(fresh.c_str());
        return hurray::fail_call(Errc::Internal, error, what);
    };
    // A hardened service may not change owners at all, so only what has to be changed is.
    if (place.group && (::lstat(fresh.c_str(), &status) != 0 || status.st_gid != *place.group) &&
        ::lchown(fresh.c_str(), static_cast<uid_t>(-1), *place.group) != 0) {
        return refuse("give " + path + " to group " + std::to_string(*place.group));
    }
    if (::chmod(fresh.c_str(), place.mode) != 0 || ::lstat(fresh.c_str(), &status) != 0) {
        return refuse("set the mode of " + path);
    }
    if (::listen(made.listener.get(), backlog) != 0) {
        return refuse("listen at " + path);
    }
    if (::rename(fresh.c_str(), path.c_str()) != 0) {
        return refuse("move " + fresh + " to " + path);
    }
    made.file.path_ = path;
    made.file.device_ = status.st_dev;
    made.file.inode_ = status.st_ino;
    return made;
}

void ListeningFile::remove() {
    struct stat status{};
    if (!path_.empty() && ::lstat(path_.c_str(), &status) == 0 && status.st_dev == device_ && status.st_ino == inode_) {
        ::unlink(path_.c_str());
    }
    path_.clear();
}

}  // namespace hurrayd
