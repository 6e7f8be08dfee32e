#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "daemon/asio.hpp"
#include "daemon/dispatcher.hpp"
#include "daemon/types.hpp"
#include "libhurray/base/result.hpp"
#include "libhurray/base/unique_fd.hpp"
#include "proto/wire/packet_socket.hpp"

namespace hurrayd {

/// One connection: waits until its socket is readable or writable, or its process has died, and reads packets in bounded
/// batches, so that a busy peer leaves room for the others.
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
        virtual void on_writable(Session& session) = 0;
        /// Whether a packet may be received with its descriptors.
        virtual bool has_room_for_fds(const Session& session) = 0;
        /// Nothing comes any more: the peer's queue is read to its end, which may have brought descriptors.
        virtual void on_end(Session& session, std::string_view reason, std::vector<hurray::UniqueFd> fds) = 0;
        /// Where packets are read into, for all sessions: its content is gone with the next packet.
        virtual std::span<std::byte> packet_buffer() noexcept = 0;

      protected:
        ~Owner() = default;
    };

    /// `pidfd` may be empty: then only the socket tells that the peer has died.
    Session(asio::io_context& io, Owner& owner, hurray::UniqueFd socket, hurray::UniqueFd pidfd, Dispatcher::Peer peer);

    void start();
    void want_writable();
    /// Reads nothing more until `resume`.
    void pause() noexcept { paused_ = true; }
    void resume();
    /// Gives the socket up. No call to the owner comes after it.
    [[nodiscard]] hurray::UniqueFd close();

    [[nodiscard]] SessionNumber number() const noexcept { return peer_.number; }
    [[nodiscard]] Dispatcher::Peer& peer() noexcept { return peer_; }
    [[nodiscard]] std::uint32_t user() const noexcept { return peer_.credentials.uid; }
    [[nodiscard]] int socket() { return socket_.native_handle(); }

  private:
    enum class Read { More, Empty, Paused, Over };

    void wait_readable();
    void wait_death();
    /// Reads what the dead process has left, then the session is over.
    void read_last();
    /// What a wake is worth: one packet, or a batch.
    Read read_batch();
    /// Up to `most` packets.
    Read read(std::size_t most);

    Owner& owner_;
    Waitable socket_;
    Waitable pidfd_;
    Dispatcher::Peer peer_;
    std::uint64_t packets_ = 0;   ///< read so far
    std::size_t lone_wakes_ = 0;  ///< wakes in a row that found one packet
    std::size_t wakes_ = 0;       ///< since then
    bool paused_ = false;
    bool dead_ = false;  ///< the process, that is
    bool closed_ = false;
};

/// Who is at the other end of `socket`, and in which groups, as of the moment when it connected. Fails: ConnectionLost.
[[nodiscard]] hurray::Result<PeerCredentials> peer_credentials(int socket);

/// A pidfd of the process at the other end; empty where the kernel has none to give, with errno.
[[nodiscard]] hurray::UniqueFd peer_pidfd(int socket) noexcept;

}  // namespace hurrayd
