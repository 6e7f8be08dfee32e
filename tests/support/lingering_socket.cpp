#include "tests/support/lingering_socket.hpp"

#include <array>
#include <stdexcept>

#include <netinet/in.h>
#include <sys/socket.h>

namespace hurray::test {
namespace {

void require(bool done, const char* what) {
    if (!done) {
        throw std::runtime_error(what);
    }
}

}  // namespace

LingeringSocket::LingeringSocket() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* name = reinterpret_cast<sockaddr*>(&address);
    socklen_t length = sizeof address;
    require(::bind(listener.get(), name, length) == 0 && ::listen(listener.get(), 1) == 0 &&
                ::getsockname(listener.get(), name, &length) == 0 && ::connect(fd_.get(), name, length) == 0,
            "no TCP on the loopback network");
    peer_ = UniqueFd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    require(static_cast<bool>(peer_), "accept");

    // Until neither side has room for more, so that something is always unread.
    const std::array<char, 65536> data{};
    while (::send(fd_.get(), data.data(), data.size(), MSG_DONTWAIT) > 0) {
    }
    const linger forever{1, 24 * 60 * 60};
    require(::setsockopt(fd_.get(), SOL_SOCKET, SO_LINGER, &forever, sizeof forever) == 0, "SO_LINGER");
}

}  // namespace hurray::test
