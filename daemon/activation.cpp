#include "daemon/activation.hpp"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <systemd/sd-daemon.h>

namespace hurrayd {
namespace {

using hurray::Errc;
using hurray::UniqueFd;

using Handed = store::HandedOver;

/// Everything that was handed over has an owner from here on, whatever it is.
hurray::Result<std::vector<Handed>> take_all() {
    char** names = nullptr;
    const int count = ::sd_listen_fds_with_names(1, &names);
    if (count < 0) {
        return hurray::fail_os(
            Errc::InvalidArgument, -count,
            std::string("what LISTEN_FDS and LISTEN_PID say can't be used: ") + std::strerror(-count));
    }
    std::vector<Handed> all;
    for (int i = 0; i < count; ++i) {
        all.push_back({UniqueFd(SD_LISTEN_FDS_START + i), names[i]});
        std::free(names[i]);
    }
    std::free(names);
    return all;
}

int socket_option(int socket, int option) {
    int value = -1;
    socklen_t size = sizeof value;
    return ::getsockopt(socket, SOL_SOCKET, option, &value, &size) == 0 ? value : -1;
}

/// What it is instead of a listening SOCK_SEQPACKET Unix socket; null if it is one.
const char* what_is_wrong(int fd) {
    const int type = socket_option(fd, SO_TYPE);
    if (type < 0) {
        return "not a socket";
    }
    if (socket_option(fd, SO_DOMAIN) != AF_UNIX) {
        return "not a Unix socket";
    }
    if (type != SOCK_SEQPACKET) {
        return type == SOCK_STREAM ? "a stream socket" : "a datagram socket";
    }
    if (socket_option(fd, SO_ACCEPTCONN) != 1) {
        return "not listening (Accept= must be no)";
    }
    return nullptr;
}

std::string path_of(int socket) {
    sockaddr_un address{};
    socklen_t size = sizeof address;
    if (::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0 || address.sun_family != AF_UNIX ||
        size <= offsetof(sockaddr_un, sun_path)) {
        return {};
    }
    std::string path(address.sun_path, size - offsetof(sockaddr_un, sun_path));
    if (path.front() == '\0') {
        path.front() = '@';
        return path;
    }
    return path.c_str();  // a path comes with its terminating NUL
}

}  // namespace

hurray::Result<Activation> take_activation() {
    auto all = take_all();
    if (!all) {
        return tl::unexpected(all.error());
    }
    Activation taken;
    const auto stored = std::stable_partition(all->begin(), all->end(),
                                              [](const Handed& each) { return !store::is_stored_name(each.name); });
    std::move(stored, all->end(), std::back_inserter(taken.stored));
    all->erase(stored, all->end());
    if (all->empty()) {
        return taken;
    }
    if (all->size() != 1) {
        std::string names;
        for (const Handed& handed : *all) {
            names += (names.empty() ? "" : ", ") + handed.name;
        }
        return hurray::fail_field(Errc::InvalidArgument, "LISTEN_FDS",
                                  "the service manager handed over " + std::to_string(all->size()) + " sockets (" +
                                      names + "), hurrayd takes 1");
    }
    Handed& only = all->front();
    ActivatedListener listener{std::move(only.fd), {}};
    listener.path = path_of(listener.socket.get());
    if (const char* wrong = what_is_wrong(listener.socket.get())) {
        return hurray::fail_field(Errc::InvalidArgument, "LISTEN_FDS",
                                  "what the service manager handed over as " + only.name +
                                      (listener.path.empty() ? "" : " (" + listener.path + ")") + " is " + wrong +
                                      "; hurrayd needs one ListenSequentialPacket=PATH");
    }
    // systemd makes it blocking unless its unit says NonBlocking=yes; we accept until nobody is left.
    const int flags = ::fcntl(listener.socket.get(), F_GETFL);
    if (flags < 0 || ::fcntl(listener.socket.get(), F_SETFL, flags | O_NONBLOCK) != 0) {
        return hurray::fail_call(Errc::Internal, errno, "fcntl O_NONBLOCK");
    }
    taken.listener = std::move(listener);
    return taken;
}

}  // namespace hurrayd
