#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "daemon/asio.hpp"
#include "daemon/dispatcher.hpp"
#include "daemon/token_bucket.hpp"
#include "daemon/types.hpp"
#include "libhurray/base/result.hpp"
#include "libhurray/base/unique_fd.hpp"
#include "proto/wire/packet_socket.hpp"

namespace hurrayd {

/// One connection: waits until its socket is readable or writable, and reads packets in bounded
/// bursts, each with one system call, so that a busy peer leaves room for the others. Whoever says more than its rate allows is read later: what
/// it sends stays in its socket, and when that is full it waits.
///
/// Owned by the server, and kept alive by its pending handlers; after `close` these do nothing. Threads: one.
class Session : public std::enable_shared_from_this<Session> {
  public:
    /// The server, seen from here.
    class Owner {
      public:
        /// One packet came. The session may be closed afterwards.
        virtual void on_packet(Session& session, std::span<const std::byte> packet,
                               hurray::wire::Received& received) = 0;
        /// That was the last one for now: what these packets set off goes out.
        virtual void on_burst_end() = 0;
        virtual void on_writable(Session& session) = 0;
        /// How many packets may be received with their descriptors; 0: none, and one without.
        virtual std::size_t room_for_packets(const Session& session) = 0;
        /// The client has used up its rate: it is read again when there is something of it.
        virtual void on_throttled(const Session& session) = 0;
        /// Descriptors that nobody looks at any more.
        virtual void on_unused(const Session& session, std::vector<hurray::UniqueFd> fds) = 0;
        /// Nothing comes any more: the peer's queue is read to its end.
        virtual void on_end(Session& session, std::string_view reason) = 0;
        /// With which packets are read, for all sessions: what it holds is gone with the next read.
        virtual hurray::wire::BurstReader& reader() noexcept = 0;
        /// Where a packet is read into that is read without descriptors.
        virtual std::span<std::byte> packet_buffer() noexcept = 0;

      protected:
        ~Owner() = default;
    };

    /// `pidfd` may be empty: then only the socket tells that the peer has died. It is kept open, for whoever watches it, until `close`.
    Session(asio::io_context& io, Owner& owner, hurray::UniqueFd socket, hurray::UniqueFd pidfd, Dispatcher::Peer peer,
            const RequestRate& rate);

    void start() { wait_readable(); }
    /// The process has died: what it had sent is read, then the session is over, which it may be afterwards.
    void process_died();
    void want_writable();
    /// Reads nothing more, beyond the burst that it has, until `resume` was called as often; and after that not as much at a time.
    void pause() noexcept {
        ++pauses_;
        burst_ = 1;
    }
    void resume();
    /// Gives the socket up. No call to the owner comes after it.
    [[nodiscard]] hurray::UniqueFd close();
    /// Whether its client is gone for good: it has closed its end, or is dead. Before `close`.
    [[nodiscard]] bool has_left();

    [[nodiscard]] SessionNumber number() const noexcept { return peer_.number; }
    [[nodiscard]] Dispatcher::Peer& peer() noexcept { return peer_; }
    [[nodiscard]] const Dispatcher::Peer& peer() const noexcept { return peer_; }
    [[nodiscard]] std::uint32_t user() const noexcept { return peer_.credentials.uid; }
    [[nodiscard]] int socket() { return socket_.native_handle(); }
    [[nodiscard]] int pidfd() const noexcept { return pidfd_.get(); }

  private:
    enum class Read { More, Empty, Paused, Throttled, Over };

    void wait_readable();
    /// Reads what the dead process has left, then the session is over.
    void read_last();
    /// Up to `left` packets, and takes them off. Ends early, though there is more, if they cost much.
    Read read(std::size_t& left);
    Read read_once(std::size_t& left);
    Read throttle();
    Read read_without_fds();
    Read handle(std::span<hurray::wire::Received> burst, std::span<std::byte> lone);

    Owner& owner_;
    Waitable socket_;
    hurray::UniqueFd pidfd_;
    Dispatcher::Peer peer_;
    TokenBucket tokens_;
    asio::steady_timer next_token_;
    std::size_t burst_;  ///< packets that are read in one system call
    std::size_t pauses_ = 0;
    /// Packets that are still read from a dead peer. Its socket held some hundreds at most; more come only from a forked child that
    /// goes on sending, and that is nobody whom we serve.
    std::size_t last_packets_ = 4096;
    bool dead_ = false;  ///< the process, that is
    bool closed_ = false;
};

/// Who is at the other end of `socket`, and in which groups, as of the moment when it connected. Fails: ConnectionLost.
[[nodiscard]] hurray::Result<PeerCredentials> peer_credentials(int socket);

/// A pidfd of the process at the other end; empty where the kernel has none to give, with errno.
[[nodiscard]] hurray::UniqueFd peer_pidfd(int socket) noexcept;

}  // namespace hurrayd
