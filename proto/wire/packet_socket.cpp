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

/// What lending as many takes.
constexpr std::size_t kMostLent = CMSG_SPACE(kMaxPacketFds * sizeof(int));

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
        owners.reserve(owners.size() + count_);
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

/// What a read that gave nothing means.
Result<Received> not_received(int error) {
    Received received;
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

/// What came in `message`, but for its descriptors.
void describe_packet(const msghdr& message, std::size_t size, Received& received) noexcept {
    // An empty packet is forbidden and looks like the end.
    received.kind = size == 0 ? Received::Kind::End : Received::Kind::Packet;
    received.size = size;
    received.truncated = (message.msg_flags & MSG_TRUNC) != 0;
    received.fds_missing = (message.msg_flags & MSG_CTRUNC) != 0;
    received.is_left = false;
}

/// Reads into `buffer` with the control part that `message` has. What came there is the caller's, also on failure nothing.
Result<Received> receive(int socket, std::span<std::byte> buffer, msghdr& message, int flags) {
    HURRAY_CHECK(!buffer.empty());  // a read of 0 bytes would pass for the end

    iovec part{buffer.data(), buffer.size()};
    message.msg_iov = &part;
    message.msg_iovlen = 1;

    const ssize_t size = ::recvmsg(socket, &message, flags);
    message.msg_iov = nullptr;
    message.msg_iovlen = 0;
    if (size < 0) {
        message.msg_controllen = 0;
        return not_received(errno);
    }
    Received received;
    describe_packet(message, static_cast<std::size_t>(size), received);
    return received;
}

/// Writes a control part with loans of `fds` into `room`, which is large enough.
void lend(msghdr& message, std::span<const int> fds, std::span<std::byte> room) noexcept {
    message.msg_control = room.data();
    message.msg_controllen = CMSG_SPACE(fds.size_bytes());
    std::memset(room.data(), 0, message.msg_controllen);
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(header), fds.data(), fds.size_bytes());
}

tl::unexpected<Error> too_many_fds(std::size_t count) {
    return fail(Error{.code = Errc::Limit,
                      .message = "a packet carries at most " + std::to_string(kMaxPacketFds) + " descriptors, not " +
                                 std::to_string(count),
                      .limit_name = "packet_fds",
                      .limit = kMaxPacketFds,
                      .value = count});
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

/// Where each packet's control part begins: they are written by the kernel as cmsghdr.
constexpr std::size_t kControlStride = (kControlBytes + alignof(cmsghdr) - 1) / alignof(cmsghdr) * alignof(cmsghdr);
static_assert(alignof(cmsghdr) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__);

BurstReader::BurstReader(std::size_t capacity)
    : packets_(new std::byte[capacity * kMaxPacketBytes]),  // not zeroed
      control_(new std::byte[capacity * kControlStride]),
      parts_(capacity),
      messages_(capacity),
      received_(capacity) {
    for (std::size_t i = 0; i < capacity; ++i) {
        parts_[i] = {packets_.get() + i * kMaxPacketBytes, kMaxPacketBytes};
        messages_[i].msg_hdr.msg_iov = &parts_[i];
        messages_[i].msg_hdr.msg_iovlen = 1;
        messages_[i].msg_hdr.msg_control = control_.get() + i * kControlStride;
    }
}

BurstReader::~BurstReader() = default;

std::span<std::byte> BurstReader::bytes(std::size_t index) noexcept {
    return {packets_.get() + index * kMaxPacketBytes, received_[index].size};
}

Result<std::span<Received>> BurstReader::read(int socket, std::size_t most) {
    HURRAY_CHECK(most > 0 && most <= capacity());
    for (std::size_t i = 0; i < most; ++i) {
        messages_[i].msg_hdr.msg_controllen = kControlBytes;
        messages_[i].msg_hdr.msg_flags = 0;
    }
    std::size_t count = 1;
    if (most == 1) {
        const ssize_t size = ::recvmsg(socket, &messages_[0].msg_hdr, MSG_CMSG_CLOEXEC);
        count = size < 0 ? 0 : 1;
        messages_[0].msg_len = static_cast<unsigned>(size);
    } else {
        // It waits for no second one, also where the socket would.
        const int read = ::recvmmsg(socket, messages_.data(), static_cast<unsigned>(most),
                                    MSG_CMSG_CLOEXEC | MSG_WAITFORONE, nullptr);
        count = read < 0 ? 0 : static_cast<std::size_t>(read);
    }
    if (count == 0) {
        auto none = not_received(errno);
        if (!none) {
            return tl::unexpected(std::move(none.error()));
        }
        received_[0] = std::move(*none);
        return std::span(received_).first(1);
    }
    // Descriptors that nobody owns yet are closed should there be no memory to go on with.
    struct Unowned {
        std::span<mmsghdr> messages;
        ~Unowned() {
            for (mmsghdr& message : messages) {
                FdHolder closed;
                closed.take_from(message.msg_hdr);
            }
        }
    } unowned{std::span(messages_).first(count)};
    std::size_t entries = 0;
    bool ended = false;
    while (!unowned.messages.empty()) {
        mmsghdr& message = unowned.messages.front();
        if (!ended) {
            Received& received = received_[entries++];
            received.fds.clear();
            describe_packet(message.msg_hdr, message.msg_len, received);
            ended = received.kind == Received::Kind::End;
        }
        if (message.msg_hdr.msg_controllen == 0) {
            unowned.messages = unowned.messages.subspan(1);
            continue;
        }
        FdHolder fds;
        fds.take_from(message.msg_hdr);
        unowned.messages = unowned.messages.subspan(1);
        fds.give_to(received_[entries - 1].fds);
    }
    return std::span(received_).first(entries);
}

Result<Sent> send_packet(int socket, std::span<const std::byte> packet, std::span<const int> fds) {
    HURRAY_CHECK(!packet.empty());  // the peer would take it for the end
    if (fds.size() > kMaxPacketFds) {
        return too_many_fds(fds.size());
    }

    alignas(cmsghdr) std::array<std::byte, kMostLent> control;
    // sendmsg() takes what it sends by a pointer to non-const, and leaves it as it is.
    iovec part{const_cast<std::byte*>(packet.data()), packet.size()};  // NOLINT(cppcoreguidelines-pro-type-const-cast)
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    if (!fds.empty()) {
        lend(message, fds, control);
    }

    while (::sendmsg(socket, &message, MSG_NOSIGNAL) < 0) {  // SOCK_SEQPACKET: all of it or nothing
        if (const int error = errno; error != EINTR) {
            return not_sent(socket, packet.size(), error);
        }
    }
    return Sent::Done;
}

Result<SentRun> send_packets(int socket, std::span<const Parcel> packets) {
    // As much as most runs need: a descriptor for each packet. What does not fit goes with the next call.
    alignas(cmsghdr) std::array<std::byte, kMostLent + kMaxRun * CMSG_SPACE(sizeof(int))> control;
    std::array<iovec, kMaxRun> parts;       // NOLINT(cppcoreguidelines-pro-type-member-init): filled below
    std::array<mmsghdr, kMaxRun> messages;  // NOLINT(cppcoreguidelines-pro-type-member-init): filled below
    SentRun run;
    while (run.count < packets.size()) {
        std::size_t length = 0;
        for (std::size_t lent = 0; length < kMaxRun && run.count + length < packets.size(); ++length) {
            const Parcel& packet = packets[run.count + length];
            HURRAY_CHECK(!packet.bytes.empty());
            if (packet.fds.size() > kMaxPacketFds) {
                break;
            }
            const std::size_t needed = packet.fds.empty() ? 0 : CMSG_SPACE(packet.fds.size_bytes());
            if (lent + needed > control.size()) {
                break;
            }
            parts.at(length) = {
                const_cast<std::byte*>(packet.bytes.data()),  // NOLINT(cppcoreguidelines-pro-type-const-cast)
                packet.bytes.size()};
            messages.at(length) = {};
            messages.at(length).msg_hdr.msg_iov = &parts.at(length);
            messages.at(length).msg_hdr.msg_iovlen = 1;
            if (needed != 0) {
                lend(messages.at(length).msg_hdr, packet.fds, std::span(control).subspan(lent, needed));
                lent += needed;
            }
        }
        if (length == 0) {
            return too_many_fds(packets[run.count].fds.size());
        }
        // It tells of an error only if nothing was sent before that, so a shortened run is tried on.
        const int sent = ::sendmmsg(socket, messages.data(), static_cast<unsigned>(length), MSG_NOSIGNAL);
        if (sent > 0) {
            run.count += static_cast<std::size_t>(sent);
        } else if (const int error = errno; error != EINTR) {
            const auto what = not_sent(socket, packets[run.count].bytes.size(), error);
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
