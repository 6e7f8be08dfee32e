#include "client/address.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include <grp.h>
#include <poll.h>
#include <pwd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "client/log.hpp"

namespace hurray::client {

namespace {

constexpr const char* kSystemSocket = "/run/hurray/hurrayd.sock";
constexpr const char* kSystemUser = "hurray";
/// Between two tries: short enough to meet a daemon that is just starting, long enough to cost nothing.
constexpr std::chrono::milliseconds kFirstRetry{1};
constexpr std::chrono::milliseconds kLongestRetry{25};

std::optional<uid_t> uid_of_user(const char* name) {
    std::vector<char> buffer(16 * 1024);
    passwd entry{};
    passwd* found = nullptr;
    if (::getpwnam_r(name, &entry, buffer.data(), buffer.size(), &found) != 0 || found == nullptr) {
        return std::nullopt;
    }
    return found->pw_uid;
}

std::optional<uid_t> uid_from_environment() {
    const char* text = std::getenv("HURRAY_DAEMON_UID");
    if (text == nullptr || *text == '\0') {
        return std::nullopt;
    }
    char* end = nullptr;
    const unsigned long value = std::strtoul(text, &end, 10);
    if (*end != '\0' || value > UINT_MAX) {
        return std::nullopt;
    }
    return static_cast<uid_t>(value);
}

std::optional<uid_t> overflow_uid() {
    std::ifstream file("/proc/sys/kernel/overflowuid");
    uid_t uid = 0;
    if (file >> uid) {
        return uid;
    }
    return std::nullopt;
}

Result<void> check_listener(int socket, const std::string& path, bool is_explicit) {
    ucred peer{};
    socklen_t length = sizeof peer;
    if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) {
        return fail_os(Errc::Protocol, errno, "cannot tell who listens on " + path);
    }
    const bool trusted = peer.uid == 0 || peer.uid == ::geteuid() || uid_of_user(kSystemUser) == peer.uid ||
                         (is_explicit && (uid_from_environment() == peer.uid || overflow_uid() == peer.uid));
    if (!trusted) {
        return fail(Errc::NotPermitted, "the daemon on " + path + " belongs to user " + std::to_string(peer.uid) +
                                            ", which is neither root, nor this user, nor `hurray`: not trusted (set "
                                            "HURRAY_DAEMON_UID to trust it)");
    }
    return {};
}

std::string name_of_user(uid_t uid) {
    std::vector<char> buffer(16 * 1024);
    passwd entry{};
    passwd* found = nullptr;
    if (::getpwuid_r(uid, &entry, buffer.data(), buffer.size(), &found) != 0 || found == nullptr) {
        return std::to_string(uid);
    }
    return found->pw_name;
}

std::string name_of_group(gid_t gid) {
    std::vector<char> buffer(16 * 1024);
    group entry{};
    group* found = nullptr;
    if (::getgrgid_r(gid, &entry, buffer.data(), buffer.size(), &found) != 0 || found == nullptr) {
        return std::to_string(gid);
    }
    return found->gr_name;
}

/// Why a socket may not be opened, and what its user can do about it.
std::string not_permitted(const std::string& path) {
    const std::string begin = "not permitted to connect to hurrayd on " + path + ": ";
    struct stat socket{};
    if (::stat(path.c_str(), &socket) != 0) {
        return begin + "its folder may not be entered. The host's daemon admits root and the group `hurray`";
    }
    // Not "`" + name: gcc 12 has a false alarm there (-Wrestrict) when it optimises.
    const std::string owner = std::string("`").append(name_of_user(socket.st_uid)).append("`");
    if ((socket.st_mode & S_IWGRP) == 0) {
        return begin + "it belongs to the user " + owner +
               " and admits nobody else. Start a daemon of your own: `hurrayd`, or `hurrayctl run -- COMMAND`";
    }
    if (socket.st_gid == 0) {  // which is root's: nobody should join that
        return begin + "it admits the user " + owner +
               " and root's group. To let others in, name a group for its socket " +
               "(`socket.group` in the daemon's configuration), or start a daemon of your own: `hurrayd`, or " +
               "`hurrayctl run -- COMMAND`";
    }
    const std::string group = name_of_group(socket.st_gid);
    return begin + "it admits the user " + owner + " and the group `" + group +
           "`. To join that, run `sudo usermod -aG " + group + " $USER` and log in again";
}

/// What stands at a path where nobody listens, if it is no socket; else empty.
std::string no_socket(const std::string& path) {
    struct stat found{};
    if (::stat(path.c_str(), &found) != 0 || S_ISSOCK(found.st_mode)) {
        return {};
    }
    return S_ISDIR(found.st_mode) ? "a folder" : S_ISREG(found.st_mode) ? "a regular file" : "something else";
}

enum class Attempt { Connected, Absent, Refused, Full };

struct Tried {
    Attempt attempt;
    UnforkedFd socket = {};
};

/// One try at one path. Absent: no such file; Refused: nobody listens; Full: too many are waiting already.
Result<Tried> try_path(const std::string& path) {
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    if (path.size() >= sizeof name.sun_path) {
        Error error{Errc::InvalidArgument, "the socket's path \"" + path + "\" has " + std::to_string(path.size()) +
                                               " bytes; at most " + std::to_string(sizeof name.sun_path - 1) +
                                               " are possible"};
        error.field = "address";
        return fail(std::move(error));
    }
    std::memcpy(name.sun_path, path.data(), path.size());
    UnforkedFd socket([] { return UniqueFd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)); });
    if (!socket) {
        return fail_call(Errc::Limit, errno, "cannot make a socket");
    }
    int result = 0;
    do {
        result = ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name);
    } while (result != 0 && errno == EINTR);
    if (result == 0) {
        return Tried{Attempt::Connected, std::move(socket)};
    }
    switch (errno) {
        case ENOENT:
        case ENOTDIR:
            return Tried{Attempt::Absent};
        case ECONNREFUSED:
        case EACCES:
        case EPERM: {
            const int error = errno;
            if (const std::string kind = no_socket(path); !kind.empty()) {
                return fail_os(
                    Errc::DaemonUnavailable, error,
                    "there is no socket of hurrayd at " + path + ", but " + kind + ": is the address right?");
            }
            if (error == ECONNREFUSED) {
                return Tried{Attempt::Refused};
            }
            return fail_os(Errc::NotPermitted, error, not_permitted(path));
        }
        case EAGAIN:
            return Tried{Attempt::Full};
        case EPROTOTYPE:
            return fail_os(Errc::Protocol, errno,
                           "what listens on " + path + " is no hurrayd: a socket of another type");
        default:
            return fail_os(Errc::DaemonUnavailable, errno,
                           "cannot connect to hurrayd on " + path + ": " + std::strerror(errno));
    }
}

void log_attempt(const std::string& path, const Result<Tried>& tried) {
    if (!log::is_enabled(log::Level::Debug)) {
        return;
    }
    constexpr std::array<const char*, 4> kAttempts = {"connected", "absent", "refused", "full"};
    log::write(log::Level::Debug, "tried",
               {{"path", path},
                {"result", tried ? kAttempts.at(static_cast<std::size_t>(tried->attempt)) : tried.error().message}});
}

tl::unexpected<Error> unavailable(const Address& address, Attempt last) {
    if (last == Attempt::Full) {
        return fail(Errc::TimedOut, "hurrayd listens on " + address.paths.back() + ", but takes no connection");
    }
    std::string tried;
    for (const auto& path : address.paths) {
        tried += (tried.empty() ? "" : ", ") + path;
    }
    const std::string why = last == Attempt::Refused ? "nobody listens there any more" : "no socket there";
    return fail(Errc::DaemonUnavailable, "hurrayd is not running (tried " + tried + ": " + why +
                                             "). Start `hurrayd`, or run your program under `hurrayctl run --`; "
                                             "HURRAY_SOCKET names another socket");
}

}  // namespace

int poll_timeout(Deadline deadline) {
    if (!deadline) {
        return -1;
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*deadline - Clock::now()).count();
    return static_cast<int>(std::clamp<std::int64_t>(left, 0, INT_MAX));
}

Address find_address(std::string_view argument) {
    if (!argument.empty()) {
        return {{std::string(argument)}, true};
    }
    if (const char* socket = std::getenv("HURRAY_SOCKET"); socket != nullptr && *socket != '\0') {
        return {{socket}, true};
    }
    Address address;
    if (const char* runtime = std::getenv("XDG_RUNTIME_DIR"); runtime != nullptr && *runtime != '\0') {
        address.paths.push_back(std::string(runtime) + "/hurray/hurrayd.sock");
    }
    address.paths.emplace_back(kSystemSocket);
    return address;
}

Result<UnforkedFd> connect_socket(const Address& address, Deadline deadline, const Interrupted& interrupted) {
    auto pause = kFirstRetry;
    for (;;) {
        Attempt last = Attempt::Absent;
        for (const auto& path : address.paths) {
            auto tried = try_path(path);
            log_attempt(path, tried);
            if (!tried) {
                return fail(std::move(tried.error()));
            }
            if (tried->attempt == Attempt::Connected) {
                if (auto checked = check_listener(tried->socket.get(), path, address.is_explicit); !checked) {
                    return fail(std::move(checked.error()));
                }
                return std::move(tried->socket);
            }
            last = tried->attempt;
            if (last != Attempt::Absent) {
                break;
            }
        }
        const auto now = Clock::now();
        if (deadline && now >= *deadline) {
            return unavailable(address, last);
        }
        // Nothing tells when a socket appears, so this is the one place that has to look again.
        const auto until = deadline ? std::min(*deadline, now + pause) : now + pause;
        (void)::poll(nullptr, 0, poll_timeout(until));
        if (interrupted && interrupted()) {
            return fail(Errc::Interrupted, "connecting was interrupted");
        }
        pause = std::min(pause * 2, kLongestRetry);
    }
}

}  // namespace hurray::client
