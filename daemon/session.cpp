#include "daemon/session.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include <fcntl.h>
#include <poll.h>
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

/// How long a client that has used up its rate is not looked at, at least.
constexpr std::chrono::milliseconds kLeastThrottle{1};
/// Packets of one peer before the others have their turn.
constexpr std::size_t kBurst = 16;
/// What they may cost together. Whose cost more has fewer read at a time, down to one, until they cost less again.
constexpr std::chrono::microseconds kBurstTime{500};
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

/// Whether no more comes than what is in the queue, which is not much.
bool has_hung_up(int socket) noexcept {
    pollfd peer{socket, POLLRDHUP, 0};
    return ::poll(&peer, 1, 0) > 0;
}

}  // namespace

Session::Session(asio::io_context& io, Owner& owner, hurray::UniqueFd socket, hurray::UniqueFd pidfd,
                 Dispatcher::Peer peer, const RequestRate& rate)
    : owner_(owner),
      socket_(io, socket.get()),
      pidfd_(std::move(pidfd)),
      peer_(std::move(peer)),
      tokens_(rate),
      next_token_(io),
      burst_(kBurst) {
    (void)socket.release();
}

bool Session::has_left() { return dead_ || has_hung_up(socket_.native_handle()); }

hurray::UniqueFd Session::close() {
    closed_ = true;
    pidfd_.reset();
    next_token_.cancel();
    return hurray::UniqueFd(socket_.release());
}

void Session::resume() {
    if (--pauses_ != 0) {
        return;
    }
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
        std::size_t left = kBurst;
        const Read read_until = self->read(left);
        if (read_until == Read::More || read_until == Read::Empty) {
            self->wait_readable();
        }
    });
}

void Session::process_died() {
    dead_ = true;
    read_last();
}

void Session::read_last() {
    // A forked child may hold the socket open for ever. What the dead process had sent still counts.
    std::size_t left = std::min(kBurst, last_packets_);
    last_packets_ -= left;
    const Read read_until = read(left);
    last_packets_ += left;
    switch (read_until) {
        case Read::More:
            if (last_packets_ != 0) {  // after the others' turn
                asio::post(socket_.get_executor(), [self = shared_from_this()] {
                    if (!self->closed_) {
                        self->read_last();
                    }
                });
                break;
            }
            [[fallthrough]];
        case Read::Empty:
        case Read::Throttled:
            owner_.on_end(*this, "process died");
            break;
        case Read::Paused: {
            // Until what it sent is closed, but not for as long as it likes.
            const auto patience = std::make_shared<asio::steady_timer>(socket_.get_executor(), kLastPatience);
            patience->async_wait([self = shared_from_this(), patience](const boost::system::error_code& failed) {
                if (!failed && !self->closed_) {
                    self->owner_.on_end(*self, "process died");
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

Session::Read Session::read(std::size_t& left) {
    const auto begin = std::chrono::steady_clock::now();
    while (left != 0) {
        const std::size_t before = left;
        const Read read_until = read_once(left);
        const auto taken = std::chrono::steady_clock::now() - begin;
        if (taken > kBurstTime) {
            burst_ = std::max<std::size_t>((before - left) / 2, 1);
            return read_until;
        }
        burst_ = std::min(burst_ * 2, kBurst);
        if (read_until != Read::More) {
            return read_until;
        }
    }
    return Read::More;
}

/// Reads up to `left` packets in one system call, and takes them off: how many there is room for at a time is another matter.
Session::Read Session::read_once(std::size_t& left) {
    if (pauses_ != 0) {
        return Read::Paused;
    }
    const bool is_limited = tokens_.is_limited() && !dead_;
    std::size_t most = std::min(left, burst_);
    if (is_limited) {
        const auto now = std::chrono::steady_clock::now();
        most = std::min<std::uint64_t>(most, tokens_.available(now));
        if (most == 0 && !has_hung_up(socket_.native_handle())) {
            return throttle();
        }
        most = std::max<std::size_t>(most, 1);
    }
    const std::size_t room = owner_.room_for_packets(*this);
    if (room == 0) {
        if (is_limited) {
            tokens_.take(1, std::chrono::steady_clock::now());
        }
        --left;
        return read_without_fds();
    }
    const std::size_t wanted = std::min({most, room, owner_.reader().capacity()});
    auto burst = owner_.reader().read(socket_.native_handle(), wanted);
    if (!burst) {
        owner_.on_end(*this, burst.error().message);
        return Read::Over;
    }
    if (is_limited) {
        tokens_.take(burst->size(), std::chrono::steady_clock::now());
    }
    left -= burst->size();
    // Fewer than wanted are all there are, unless the peer left in between.
    const bool is_all = burst->size() < wanted && burst->back().kind == Received::Kind::Packet && !dead_;
    const Read read_until = handle(*burst, {});
    return read_until == Read::More && is_all ? Read::Empty : read_until;
}

/// Reads on when there is a token, and not for one alone where many come in a moment. The death of a dead peer is seen meanwhile.
Session::Read Session::throttle() {
    next_token_.expires_at(std::max(tokens_.next(), std::chrono::steady_clock::now() + kLeastThrottle));
    next_token_.async_wait([self = shared_from_this()](const boost::system::error_code& failed) {
        if (!failed && !self->closed_ && !self->dead_) {
            self->wait_readable();
        }
    });
    owner_.on_throttled(*this);
    return Read::Throttled;
}

/// There is no room for descriptors.
Session::Read Session::read_without_fds() {
    const std::span<std::byte> buffer = owner_.packet_buffer();
    auto received = hurray::wire::receive_packet_without_fds(socket_.native_handle(), buffer);
    if (!received) {
        owner_.on_end(*this, received.error().message);
        return Read::Over;
    }
    return handle(std::span(&*received, 1), buffer);
}

/// `lone`: where the only packet is, if the owner's reader has not read it.
Session::Read Session::handle(std::span<Received> burst, std::span<std::byte> lone) {
    for (std::size_t i = 0; i < burst.size(); ++i) {
        Received& received = burst[i];
        switch (received.kind) {
            case Received::Kind::Packet:
                owner_.on_packet(*this, lone.empty() ? owner_.reader().bytes(i) : lone.first(received.size), received);
                if (closed_) {
                    for (Received& rest : burst.subspan(i + 1)) {
                        owner_.on_unused(*this, std::move(rest.fds));
                    }
                    owner_.on_burst_end();
                    return Read::Over;
                }
                break;
            case Received::Kind::WouldBlock:
                return Read::Empty;
            case Received::Kind::Interrupted:
            case Received::Kind::Reset:  // what the peer had sent before it left comes next
                return Read::More;
            case Received::Kind::End:
                owner_.on_burst_end();
                owner_.on_unused(*this, std::move(received.fds));
                owner_.on_end(*this, "closed");
                return Read::Over;
        }
    }
    owner_.on_burst_end();
    if (closed_) {
        return Read::Over;
    }
    return pauses_ != 0 ? Read::Paused : Read::More;
}

hurray::Result<PeerCredentials> peer_credentials(int socket) {
    ucred credentials{};
    socklen_t size = sizeof credentials;
    if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) {
        return hurray::fail_call(hurray::Errc::ConnectionLost, errno, "SO_PEERCRED");
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
