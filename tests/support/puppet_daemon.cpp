#include "tests/support/puppet_daemon.hpp"

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <utility>

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "proto/wire/codec.hpp"
#include "tests/support/test_tensor.hpp"

namespace hurray::test {

PuppetDaemon::PuppetDaemon(Play play, std::function<void()> before_welcome)
    : play_(std::move(play)),
      before_welcome_(std::move(before_welcome)),
      listener_(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path().copy(address.sun_path, sizeof address.sun_path - 1);
    if (::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
        ::listen(listener_.get(), 1) != 0) {
        throw std::runtime_error(path() + ": " + std::strerror(errno));
    }
    thread_ = std::thread([this] {
        while (live()) {
        }
    });
}

wire::AttachReply PuppetDaemon::grant() {
    wire::AttachReply grant;
    grant.capsule = {static_cast<std::uint32_t>(::geteuid()), fresh_id()};
    grant.name = "jobs";
    grant.version = 1;
    grant.descriptor = make_descriptor(0);
    grant.placements = {{0, 0}};
    return grant;
}

/// False: its client has gone.
bool PuppetDaemon::live() {
    const UniqueFd peer(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    const wire::Id16 instance = fresh_id();
    std::vector<std::byte> buffer(wire::kMaxPacketBytes);
    for (;;) {
        const ssize_t size = ::recv(peer.get(), buffer.data(), buffer.size(), 0);
        if (size <= 0) {
            return false;
        }
        const auto request = wire::decode_request(std::span(buffer).first(static_cast<std::size_t>(size)), 0);
        if (!request.has_value()) {
            throw std::runtime_error(request.error().error.message);
        }
        requests.push_back(*request);
        const bool is_hello = std::holds_alternative<wire::Hello>(request->message);
        if (is_hello && before_welcome_) {
            before_welcome_();
        }
        Answers answers = is_hello ? Answers{wire::HelloReply{1, instance, {}, 0}} : play_(*request);
        if (answers.empty()) {
            return true;
        }
        for (std::size_t i = 0; i < answers.size(); ++i) {  // events first
            const std::uint64_t id = i + 1 == answers.size() ? request->request_id : 0;
            const std::string bytes = wire::encoded(wire::Packet{id, std::move(answers[i])});
            // A client that closes does not wait for the answer to its last release, nor read what came before (ECONNRESET).
            if (::send(peer.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0 && errno != EPIPE &&
                errno != ECONNRESET) {
                throw std::runtime_error(std::string("send: ") + std::strerror(errno));
            }
        }
    }
}

}  // namespace hurray::test
