#include "daemon/notify_socket.hpp"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon/log.hpp"

namespace hurrayd {
namespace {

/// As many as one segment has: one.
constexpr std::size_t kMostFds = 1;
/// Microseconds until a datagram with a descriptor is tried again.
constexpr useconds_t kReadPause = 500;

}  // namespace

NotifySocket::NotifySocket() {
    const char* address = std::getenv("NOTIFY_SOCKET");
    if (address == nullptr || *address == '\0') {
        return;
    }
    address_ = address;
    if ((address_.front() != '/' && address_.front() != '@') || address_.size() >= sizeof(sockaddr_un::sun_path)) {
        log::warning("notify_socket_unusable",
                     {{"address", address_}, {"reason", "neither a path nor an abstract address of a Unix socket"}});
        return;
    }
    socket_ = hurray::UniqueFd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (!socket_) {
        log::warning("notify_socket_unusable", {{"address", address_}, {"reason", std::strerror(errno)}});
    }
}

NotifySocket::Sent NotifySocket::send(std::string_view lines) const noexcept { return send(lines, {}, MSG_DONTWAIT); }

NotifySocket::Sent NotifySocket::send_in_time(std::string_view lines, std::span<const int> fds) const noexcept {
    return send(lines, fds, 0);
}

NotifySocket::Sent NotifySocket::send(std::string_view lines, std::span<const int> fds, int flags) const noexcept {
    if (!socket_ || fds.size() > kMostFds) {
        return Sent::Gone;
    }
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, address_.data(), address_.size());
    if (address_.front() == '@') {
        address.sun_path[0] = '\0';
    }
    iovec bytes{const_cast<char*>(lines.data()), lines.size()};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMostFds)] = {};
    msghdr message{};
    message.msg_name = &address;
    // The length of an abstract address is part of it, and a path needs no NUL behind it.
    message.msg_namelen = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + address_.size());
    message.msg_iov = &bytes;
    message.msg_iovlen = 1;
    if (!fds.empty()) {
        message.msg_control = control;
        message.msg_controllen = CMSG_SPACE(fds.size_bytes());
        cmsghdr* const rights = CMSG_FIRSTHDR(&message);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(fds.size_bytes());
        std::memcpy(CMSG_DATA(rights), fds.data(), fds.size_bytes());
    }
    for (;;) {
        if (::sendmsg(socket_.get(), &message, flags | MSG_NOSIGNAL) >= 0) {
            return Sent::Done;
        }
        if (errno == ETOOMANYREFS && (flags & MSG_DONTWAIT) == 0) {
            ::usleep(kReadPause);  // too many descriptors of this user are on their way, these and others
        } else if (errno != EINTR) {
            return errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM ? Sent::NoRoom : Sent::Gone;
        }
    }
}

}  // namespace hurrayd
