#include "proto/wire/packet_socket.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <string>

#include <sys/socket.h>
#include <sys/uio.h>

#include "libhurray/base/check.hpp"
#include "proto/wire/messages.hpp"

namespace hurray::wire {
namespace {

/// Room for the most descriptors that the kernel lets one packet carry, and for credentials, should the socket ask for
/// them: they come first and would push descriptors out.
constexpr std::size_t kControlBytes = CMSG_SPACE(sizeof(ucred)) + CMSG_SPACE(kMaxPacketFds * sizeof(int));

/// Holds received descriptors while memory for their final owners is being found, so that std::bad_alloc closes them.
class FdHolder {
  public:
    FdHolder() noexcept = default;
    FdHolder(const FdHolder&) = delete;
    FdHolder& operator=(const FdHolder&) = delete;
    FdHolder(FdHolder&&) = delete;
    FdHolder& operator=(FdHolder&&) = delete;
    ~FdHolder() {
        for (std::size_t i = 0; i < count_; ++i) {
            UniqueFd closed(fds_[i]);
        }
    }

    void take_from(msghdr& message) noexcept {
        for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr; part = CMSG_NXTHDR(&message, part)) {
            if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) {
                continue;
            }
            const std::size_t bytes = part->cmsg_len - CMSG_LEN(0);
            std::memcpy(fds_.data() + count_, CMSG_DATA(part), bytes);
            count_ += bytes / sizeof(int);
        }
    }

    void give_to(std::vector<UniqueFd>& owners) {
        owners.reserve(count_);
        for (std::size_t i = 0; i < count_; ++i) {
            owners.emplace_back(fds_[i]);
        }
        count_ = 0;
    }

  private:
    std::array<int, kControlBytes / sizeof(int)> fds_{};  // whatever the control buffer holds, fits here
    std::size_t count_ = 0;
};

std::string describe(const char* what, int os_error) { return std::string(what) + ": " + std::strerror(os_error); }

/// Reads into `buffer` with the control part that `message` has. What came there is the caller's, also on failure nothing.
Result<Received> receive(int socket, std::span<std::byte> buffer, msghdr& message, int flags) {
    HURRAY_CHECK(!buffer.empty());  // a read of 0 bytes would pass for the end

    iovec part{buffer.data(), buffer.size()};
    message.msg_iov = &part;
    message.msg_iovlen = 1;

    Received received;
    const ssize_t size = ::recvmsg(socket, &message, flags);
    message.msg_iov = nullptr;
    message.msg_iovlen = 0;
    if (size < 0) {
        message.msg_controllen = 0;
        const int error = errno;
        switch (error) {
            case EAGAIN:
                received.kind = Received::Kind::WouldBlock;
                return received;
            case EINTR:
                received.kind = Received::Kind::Interrupted;
                return received;
            case ECONNRESET:
                received.kind = Received::Kind::Reset;
                return received;
            default:
                return fail_os(Errc::ConnectionLost, error, describe("receive a packet", error));
        }
    }
    // An empty packet is forbidden and looks like the end.
    received.kind = size == 0 ? Received::Kind::End : Received::Kind::Packet;
    received.size = static_cast<std::size_t>(size);
    received.truncated = (message.msg_flags & MSG_TRUNC) != 0;
    received.fds_missing = (message.msg_flags & MSG_CTRUNC) != 0;
    return received;
}

/// The largest packet that this socket's send buffer takes; 0: unknown.
std::uint64_t largest_packet(int socket) noexcept {
    constexpr int kKernelOverhead = 32;  // unix_dgram_sendmsg() keeps that much back
    int send_buffer = 0;
    socklen_t length = sizeof send_buffer;
    if (::getsockopt(socket, SOL_SOCKET, SO_SNDBUF, &send_buffer, &length) != 0 || send_buffer < kKernelOverhead) {
        return 0;
    }
    return static_cast<std::uint64_t>(send_buffer - kKernelOverhead);
}

/// What `error` of a send means for the packet of `size` bytes.
Result<Sent> not_sent(int socket, std::size_t size, int error) {
    switch (error) {
        case EAGAIN:
            return Sent::WouldBlock;
        case ETOOMANYREFS:
            return Sent::TooManyInFlight;
        case EPIPE:
        case ECONNRESET:
            return Sent::Gone;
        case EMSGSIZE: {
            const std::uint64_t largest = largest_packet(socket);
            return fail(Error{.code = Errc::Limit,
                              .message = "a packet of " + std::to_string(size) +
                                         " bytes is too long for the socket, which takes " + std::to_string(largest),
                              .os_error = error,
                              .limit_name = "packet_bytes",
                              .limit = largest,
                              .value = size});
        }
        default:
            return fail_os(Errc::ConnectionLost, error, describe("send a packet", error));
    }
}

}  // namespace

Result<Received> receive_packet(int socket, std::span<std::byte> buffer) {
    alignas(cmsghdr) std::array<std::byte, kControlBytes> control;
    msghdr message{};
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    auto received = receive(socket, buffer, message, MSG_CMSG_CLOEXEC);
    if (received) {
        FdHolder fds;
        fds.take_from(message);
        fds.give_to(received->fds);
    }
    return received;
}

Result<Received> receive_packet_without_fds(int socket, std::span<std::byte> buffer) {
    msghdr message{};
    auto received = receive(socket, buffer, message, MSG_PEEK);
    if (!received || (message.msg_flags & MSG_CTRUNC) != 0) {
        if (received) {
            received->is_left = true;
        }
        return received;
    }
    return receive(socket, buffer, message, 0);  // nobody else reads here: the same packet
}

Result<Sent> send_packet(int socket, std::span<const std::byte> packet, std::span<const int> fds) {
    HURRAY_CHECK(!packet.empty());  // the peer would take it for the end
    if (fds.size() > kMaxPacketFds) {
        return fail(Error{.code = Errc::Limit,
                          .message = "a packet carries at most " + std::to_string(kMaxPacketFds) +
                                     " descriptors, not " + std::to_string(fds.size()),
                          .limit_name = "packet_fds",
                          .limit = kMaxPacketFds,
                          .value = fds.size()});
    }

    alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(kMaxPacketFds * sizeof(int))> control;
    // sendmsg() takes what it sends by a pointer to non-const, and leaves it as it is.
    iovec part{const_cast<std::byte*>(packet.data()), packet.size()};  // NOLINT(cppcoreguidelines-pro-type-const-cast)
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    if (!fds.empty()) {
        message.msg_control = control.data();
        message.msg_controllen = CMSG_SPACE(fds.size_bytes());
        std::memset(control.data(), 0, message.msg_controllen);
        cmsghdr* header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(fds.size_bytes());
        std::memcpy(CMSG_DATA(header), fds.data(), fds.size_bytes());
    }

    while (::sendmsg(socket, &message, MSG_NOSIGNAL) < 0) {  // SOCK_SEQPACKET: all of it or nothing
        if (const int error = errno; error != EINTR) {
            return not_sent(socket, packet.size(), error);
        }
    }
    return Sent::Done;
}

Result<SentRun> send_packets(int socket, std::span<const std::span<const std::byte>> packets) {
    HURRAY_CHECK(packets.size() <= kMaxRun);
    std::array<iovec, kMaxRun> parts;       // NOLINT(cppcoreguidelines-pro-type-member-init): filled below
    std::array<mmsghdr, kMaxRun> messages;  // NOLINT(cppcoreguidelines-pro-type-member-init): filled below
    for (std::size_t i = 0; i < packets.size(); ++i) {
        HURRAY_CHECK(!packets[i].empty());
        parts.at(i) = {const_cast<std::byte*>(packets[i].data()),  // NOLINT(cppcoreguidelines-pro-type-const-cast)
                       packets[i].size()};
        messages.at(i) = {};
        messages.at(i).msg_hdr.msg_iov = &parts.at(i);
        messages.at(i).msg_hdr.msg_iovlen = 1;
    }
    SentRun run;
    while (run.count < packets.size()) {
        // It tells of an error only if nothing was sent before that, so a shortened run is tried on.
        const auto left = static_cast<unsigned>(packets.size() - run.count);
        const int sent = ::sendmmsg(socket, messages.data() + run.count, left, MSG_NOSIGNAL);
        if (sent > 0) {
            run.count += static_cast<std::size_t>(sent);
        } else if (const int error = errno; error != EINTR) {
            const auto what = not_sent(socket, packets[run.count].size(), error);
            if (!what) {
                return tl::unexpected(what.error());
            }
            run.what = *what;
            return run;
        }
    }
    return run;
}

}  // namespace hurray::wire
