#include "tests/support/raw_peer.hpp"

#include <array>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "proto/wire/codec.hpp"
#include "proto/wire/packet_socket.hpp"

namespace hurray::test {
namespace {

[[noreturn]] void fail_with(const std::string& what) { throw std::runtime_error(what + ": " + std::strerror(errno)); }

}  // namespace

void wait_readable(int fd, std::chrono::milliseconds watchdog) {
    pollfd waiting{fd, POLLIN, 0};
    for (;;) {
        const int ready = ::poll(&waiting, 1, static_cast<int>(watchdog.count()));
        if (ready > 0) {
            return;
        }
        if (ready == 0) {
            throw std::runtime_error("nothing came: the watchdog ended the wait");
        }
        if (errno != EINTR) {
            fail_with("poll");
        }
    }
}

std::string describe(const wire::Packet& packet) {
    struct Visitor {
        std::string operator()(const Error& e) {
            return "Error " + std::to_string(static_cast<int>(e.code)) + " " + e.field + ": " + e.message;
        }
        std::string operator()(const wire::Done&) { return "Done"; }
        std::string operator()(const wire::HelloReply&) { return "HelloReply"; }
        std::string operator()(const wire::PublishReply&) { return "PublishReply"; }
        std::string operator()(const wire::AttachReply&) { return "AttachReply"; }
        std::string operator()(const wire::ListReply&) { return "ListReply"; }
        std::string operator()(const wire::StatusReply&) { return "StatusReply"; }
        std::string operator()(const wire::GroupReply&) { return "GroupReply"; }
        std::string operator()(const wire::LeaseEvent& e) {
            return "LeaseEvent " + std::to_string(static_cast<int>(e.what));
        }
        std::string operator()(const wire::Ended&) { return "Ended"; }
        std::string operator()(const wire::Retired&) { return "Retired"; }
        std::string operator()(const wire::Watched& e) { return "Watched " + std::to_string(static_cast<int>(e.what)); }
        std::string operator()(const wire::ProducerLost&) { return "ProducerLost"; }
        std::string operator()(const wire::SegmentsGone&) { return "SegmentsGone"; }
        std::string operator()(const wire::WindowClosed&) { return "WindowClosed"; }
        std::string operator()(const wire::ClaimsRefused&) { return "ClaimsRefused"; }
        std::string operator()(const wire::Closing& c) {
            return "Closing " + std::to_string(static_cast<int>(c.error.code)) + ": " + c.error.message;
        }
    };
    return std::visit(Visitor{}, packet.message) + " of request " + std::to_string(packet.request_id);
}

RawPeer::RawPeer(const std::string& path)
    : socket_(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)), user_(::geteuid()) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof address.sun_path) {
        throw std::runtime_error("path too long: " + path);
    }
    std::memcpy(address.sun_path, path.data(), path.size());
    if (::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
        fail_with("connect " + path);
    }
}

RawPeer RawPeer::greeted(const std::string& path, wire::Id16 session) {
    RawPeer peer(path);
    const auto id = peer.send_hello(session);
    peer.next<wire::HelloReply>(id);
    return peer;
}

std::uint64_t RawPeer::send_hello(wire::Id16 session, std::uint32_t version_min, std::uint32_t version_max) {
    return send(wire::Hello{version_min, version_max, "raw peer", session, {}});
}

std::uint64_t RawPeer::send(wire::RequestMessage message, std::initializer_list<int> fds,
                            std::optional<std::uint64_t> timeout_ms) {
    return send(std::move(message), std::span(fds.begin(), fds.size()), timeout_ms);
}

std::uint64_t RawPeer::send(wire::RequestMessage message, std::span<const int> fds,
                            std::optional<std::uint64_t> timeout_ms) {
    if (::geteuid() == 0 && user_ != 0) {
        for (const int fd : fds) {
            (void)::fchown(fd, user_, static_cast<gid_t>(-1));  // not everything that a test sends can be given away
        }
    }
    const std::uint64_t id = next_request_++;
    std::string bytes = wire::encoded(wire::Request{id, timeout_ms, std::move(message)});
    send_raw(bytes, fds);
    return id;
}

void RawPeer::send_raw(std::string_view bytes, std::span<const int> fds) {
    const auto sent = wire::send_packet(socket_.get(), std::as_bytes(std::span(bytes)), fds);
    if (!sent || *sent != wire::Sent::Done) {
        throw std::runtime_error("send: " + (sent ? "not done" : sent.error().message));
    }
}

Incoming RawPeer::receive() {
    for (;;) {
        wait_readable(socket_.get());
        if (auto incoming = try_receive()) {
            return std::move(*incoming);
        }
    }
}

std::optional<Incoming> RawPeer::try_receive() {
    std::vector<std::byte> buffer(wire::kMaxPacketBytes);
    for (;;) {
        pollfd waiting{socket_.get(), POLLIN, 0};
        if (::poll(&waiting, 1, 0) == 0) {
            return std::nullopt;
        }
        auto received = wire::receive_packet(socket_.get(), buffer);
        if (!received) {
            throw std::runtime_error(received.error().message);
        }
        using Kind = wire::Received::Kind;
        switch (received->kind) {
            case Kind::WouldBlock:
                return std::nullopt;
            case Kind::Interrupted:
            case Kind::Reset:
                continue;
            case Kind::End:
                throw std::runtime_error("the daemon closed the connection");
            case Kind::Packet:
                break;
        }
        if (received->fds_missing) {
            throw std::runtime_error("descriptors were cut off");
        }
        auto packet = wire::decode_packet(std::span(buffer).first(received->size), received->fds.size());
        if (!packet) {
            throw std::runtime_error("bad packet: " + packet.error().message);
        }
        return Incoming{std::move(*packet), std::move(received->fds)};
    }
}

bool RawPeer::at_end() {
    std::array<std::byte, 16> buffer;
    for (;;) {
        wait_readable(socket_.get());
        const auto received = wire::receive_packet(socket_.get(), buffer);
        if (!received) {
            return false;
        }
        switch (received->kind) {
            case wire::Received::Kind::End:
                return true;
            case wire::Received::Kind::Packet:
                return false;
            default:
                break;
        }
    }
}

wire::PublishReply RawPeer::publish(const TestTensor& tensor) {
    const std::uint64_t id = tensor.fd ? send(tensor.publish, {tensor.fd.get()}) : send(tensor.publish);
    return next<wire::PublishReply>(id);
}

RawPeer::Attached RawPeer::attach(std::uint64_t lease, const std::string& name) {
    const std::uint64_t id = send(wire::Attach{lease, name, wire::Which::Latest, 0, 0});
    for (;;) {
        Incoming incoming = receive();
        if (incoming.packet.request_id == 0) {
            events.push_back(std::move(incoming));
            continue;
        }
        std::vector<UniqueFd> fds = std::move(incoming.fds);
        return {take<wire::AttachReply>(std::move(incoming), id), std::move(fds)};
    }
}

}  // namespace hurray::test
