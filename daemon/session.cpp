#include "daemon/session.hpp"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sys/socket.h>

#ifndef SO_PEERGROUPS
#define SO_PEERGROUPS 59  // Linux 4.13
#endif
#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77  // Linux 6.5; absent from the headers of Debian 12
#endif

namespace hurrayd {
namespace {

using hurray::wire::Received;

/// Packets of one peer before the others have their turn.
constexpr std::size_t kBatch = 16;
/// Most peers wait for each answer, and a second look that finds nothing costs a system call in which others wait. So after
/// this many wakes with one packet each, a peer's queue is looked at once a wake; what is left there wakes us again.
constexpr std::size_t kLoneWakes = 4;
/// Every so many wakes it is looked at until it is empty all the same: the peer may have begun to send more at a time.
constexpr std::size_t kLookAgain = 16;
/// Packets that are read from a dead peer. Its socket held a few hundred at most; more come only from a forked child that
/// goes on sending, and that is nobody whom we serve.
constexpr std::size_t kLastPackets = 4096;
/// Supplementary groups that are asked for at first: more than most users are in.
constexpr std::size_t kUsualGroups = 32;
/// How long the end of a dead peer waits until descriptors that it sent are closed, so that what it sent after them counts.
constexpr std::chrono::seconds kLastPatience{2};

/// The supplementary groups of the process at the other end. None where the kernel doesn't tell (before Linux 4.13): whoever is in fewer
/// groups may do less.
std::vector<std::uint32_t> peer_groups(int socket) {
    static_assert(sizeof(gid_t) == sizeof(std::uint32_t));
    std::vector<std::uint32_t> groups(kUsualGroups);
    for (;;) {
        auto size = static_cast<socklen_t>(groups.size() * sizeof(gid_t));
        const bool fits = ::getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, groups.data(), &size) == 0;
        if (!fits && errno != ERANGE) {
            return {};
        }
        // Filled, or what there would have to be room for. They are those of the connection, so that changes no more.
        groups.resize(size / sizeof(gid_t));
        if (fits) {
            return groups;
        }
    }
}

}  // namespace

Session::Session(asio::io_context& io, Owner& owner, hurray::UniqueFd socket, hurray::UniqueFd pidfd,
                 Dispatcher::Peer peer)
    : owner_(owner), socket_(io, socket.get()), pidfd_(io), peer_(std::move(peer)) {
    (void)socket.release();
    if (pidfd) {
        boost::system::error_code failed;
        pidfd_.assign(pidfd.get(), failed);
        if (!failed) {
            (void)pidfd.release();
        }
    }
}

void Session::start() {
    wait_readable();
    if (pidfd_.is_open()) {
        wait_death();
    }
}

hurray::UniqueFd Session::close() {
    closed_ = true;
    boost::system::error_code ignored;
    pidfd_.close(ignored);
    return hurray::UniqueFd(socket_.release());
}

void Session::resume() {
    paused_ = false;
    if (dead_) {
        read_last();
    } else {
        wait_readable();
    }
}

void Session::wait_readable() {
    socket_.async_wait(Waitable::wait_read, [self = shared_from_this()](const boost::system::error_code& failed) {
        if (failed || self->closed_) {
            return;
        }
        const Read read_until = self->read_batch();
        if (read_until != Read::Over && read_until != Read::Paused) {
            self->wait_readable();
        }
    });
}

void Session::wait_death() {
    pidfd_.async_wait(Waitable::wait_read, [self = shared_from_this()](const boost::system::error_code& failed) {
        if (failed || self->closed_) {
            return;
        }
        self->dead_ = true;
        self->read_last();
    });
}

void Session::read_last() {
    // A forked child may hold the socket open for ever. What the dead process had sent still counts.
    switch (read(kLastPackets)) {
        case Read::More:
        case Read::Empty:
            owner_.on_end(*this, "process died", {});
            break;
        case Read::Paused: {
            // Until what it sent is closed, but not for as long as it likes.
            const auto patience = std::make_shared<asio::steady_timer>(socket_.get_executor(), kLastPatience);
            patience->async_wait([self = shared_from_this(), patience](const boost::system::error_code& failed) {
                if (!failed && !self->closed_) {
                    self->owner_.on_end(*self, "process died", {});
                }
            });
            break;
        }
        case Read::Over:
            break;
    }
}

void Session::want_writable() {
    socket_.async_wait(Waitable::wait_write, [self = shared_from_this()](const boost::system::error_code& failed) {
        if (!failed && !self->closed_) {
            self->owner_.on_writable(*self);
        }
    });
}

Session::Read Session::read_batch() {
    if (lone_wakes_ >= kLoneWakes && ++wakes_ % kLookAgain != 0) {
        return read(1);
    }
    const std::uint64_t before = packets_;
    const Read read_until = read(kBatch);
    lone_wakes_ = packets_ - before == 1 ? lone_wakes_ + 1 : 0;
    return read_until;
}

Session::Read Session::read(std::size_t most) {
    for (std::size_t i = 0; i < most; ++i) {
        if (paused_) {
            return Read::Paused;
        }
        const std::span<std::byte> buffer = owner_.packet_buffer();
        auto received = owner_.has_room_for_fds(*this)
                            ? hurray::wire::receive_packet(socket_.native_handle(), buffer)
                            : hurray::wire::receive_packet_without_fds(socket_.native_handle(), buffer);
        if (!received) {
            owner_.on_end(*this, received.error().message, {});
            return Read::Over;
        }
        switch (received->kind) {
            case Received::Kind::Packet:
                ++packets_;
                owner_.on_packet(*this, buffer.first(received->size), *received);
                if (closed_) {
                    return Read::Over;
                }
                break;
            case Received::Kind::WouldBlock:
                return Read::Empty;
            case Received::Kind::Interrupted:
            case Received::Kind::Reset:  // what the peer had sent before it left comes next
                break;
            case Received::Kind::End:
                owner_.on_end(*this, "closed", std::move(received->fds));
                return Read::Over;
        }
    }
    return paused_ ? Read::Paused : Read::More;
}

hurray::Result<PeerCredentials> peer_credentials(int socket) {
    ucred credentials{};
    socklen_t size = sizeof credentials;
    if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) {
        const int error = errno;
        return hurray::fail_os(hurray::Errc::ConnectionLost, error,
                               std::string("SO_PEERCRED: ") + std::strerror(error));
    }
    return PeerCredentials{credentials.uid, credentials.gid, credentials.pid, peer_groups(socket)};
}

hurray::UniqueFd peer_pidfd(int socket) noexcept {
    int pidfd = -1;
    socklen_t size = sizeof pidfd;
    if (::getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &size) != 0) {
        return {};
    }
    return hurray::UniqueFd(pidfd);
}

}  // namespace hurrayd
