// Linked into a hurrayd of its own (hurrayd_stopping), this makes each packet a possible last one: the process kills itself, as `kill -9`
// would, at the packet whose number $HURRAY_STOP_AT says. Packets that it reads from clients and those that it sends to them are counted together,
// from 1. One that was to be read has been, and nobody has looked at it; one that was to be sent is not. So all that others can see
// of a death lies between two numbers. Without the variable, or with 0, it never stops.
//
// These functions stand in place of the C library's, or the sanitizer's, which they call: the daemon's own code knows nothing of it.
#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdlib>

#include <dlfcn.h>
#include <sys/socket.h>
#include <unistd.h>

namespace {

std::uint64_t stop_at() {
    static const std::uint64_t at = [] {
        const char* const text = std::getenv("HURRAY_STOP_AT");
        const std::uint64_t number = text != nullptr ? std::strtoull(text, nullptr, 10) : 0;
        return number != 0 ? number : UINT64_MAX;
    }();
    return at;
}

std::atomic<std::uint64_t> passed{0};

[[noreturn]] void stop() {
    ::kill(::getpid(), SIGKILL);
    for (;;) {
        ::pause();
    }
}

/// Not the service manager's socket, nor that of the metrics.
bool is_clients(int socket) {
    int type = 0;
    socklen_t size = sizeof type;
    return ::getsockopt(socket, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_SEQPACKET;
}

/// How many of `wanted` packets may be sent. At least one, or there is no return.
unsigned most_to_send(unsigned wanted) {
    const std::uint64_t left = stop_at() - 1 - passed;
    if (left == 0) {
        stop();
    }
    return static_cast<unsigned>(std::min<std::uint64_t>(wanted, left));
}

/// How many of `wanted` packets may be read at a time: the one to stop at is read alone, so that all before it have been dealt with.
unsigned most_to_read(unsigned wanted) {
    const std::uint64_t left = stop_at() - 1 - passed;
    return static_cast<unsigned>(std::clamp<std::uint64_t>(left, 1, wanted));
}

void count(std::uint64_t packets) {
    if ((passed += packets) >= stop_at()) {
        stop();
    }
}

template <typename Function>
Function next(const char* name) {
    return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

[[gnu::visibility("default")]] ssize_t sendmsg(int socket, const msghdr* message, int flags) {
    static const auto real = next<decltype(&::sendmsg)>("sendmsg");
    if (!is_clients(socket)) {
        return real(socket, message, flags);
    }
    (void)most_to_send(1);
    const ssize_t size = real(socket, message, flags);
    count(size > 0 ? 1 : 0);
    return size;
}

[[gnu::visibility("default")]] int sendmmsg(int socket, mmsghdr* messages, unsigned length, int flags) {
    static const auto real = next<decltype(&::sendmmsg)>("sendmmsg");
    if (!is_clients(socket)) {
        return real(socket, messages, length, flags);
    }
    const int sent = real(socket, messages, most_to_send(length), flags);
    count(sent > 0 ? static_cast<std::uint64_t>(sent) : 0);
    return sent;
}

[[gnu::visibility("default")]] ssize_t recvmsg(int socket, msghdr* message, int flags) {
    static const auto real = next<decltype(&::recvmsg)>("recvmsg");
    const ssize_t size = real(socket, message, flags);
    if (size > 0 && (flags & MSG_PEEK) == 0 && is_clients(socket)) {
        count(1);
    }
    return size;
}

[[gnu::visibility("default")]] int recvmmsg(int socket, mmsghdr* messages, unsigned length, int flags,
                                            timespec* timeout) {
    static const auto real = next<decltype(&::recvmmsg)>("recvmmsg");
    if (!is_clients(socket)) {
        return real(socket, messages, length, flags, timeout);
    }
    const int read = real(socket, messages, most_to_read(length), flags, timeout);
    for (int i = 0; i < read; ++i) {
        count(messages[i].msg_len > 0 ? 1 : 0);  // of no bytes: the connection's end
    }
    return read;
}

}  // extern "C"
