#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include <sys/socket.h>
#include <sys/uio.h>

#include "libhurray/base/result.hpp"
#include "libhurray/base/unique_fd.hpp"

/// Packets in, packets out, on a SOCK_SEQPACKET Unix socket, each with the descriptors that belong to it.
namespace hurray::wire {

/// What came out of the socket.
struct Received {
    enum class Kind : std::uint8_t {
        Packet,
        WouldBlock,   ///< nothing there (non-blocking sockets)
        Interrupted,  ///< a signal came first (blocking sockets)
        Reset,        ///< the peer left with unread data in its queue: read on, what it had sent is still there
        End,          ///< the peer's queue is read to its end; nothing comes any more
    };
    Kind kind = Kind::WouldBlock;
    std::size_t size = 0;       ///< bytes in the caller's buffer
    bool truncated = false;     ///< the packet was longer than the buffer
    bool fds_missing = false;   ///< descriptors were cut off (MSG_CTRUNC): nothing that came with it is to be used
    bool is_left = false;       ///< the packet is still in the queue, with its descriptors
    std::vector<UniqueFd> fds;  ///< already close-on-exec; owned from the moment they exist
};

/// Reads one packet into `buffer`, which is not empty. ECONNRESET is `Reset`, not an error. An empty packet is `End`, with
/// the descriptors that came with it.
/// Fails: ConnectionLost, with errno, for whatever else the kernel says.
[[nodiscard]] Result<Received> receive_packet(int socket, std::span<std::byte> buffer);

/// The same where there is no room for descriptors: none is installed. A packet that carries some is only looked at; it has
/// `fds_missing`, and `is_left` in the queue until somebody reads it away, which may take as long as closing its descriptors.
[[nodiscard]] Result<Received> receive_packet_without_fds(int socket, std::span<std::byte> buffer);

/// Reads several packets in one system call: what is there, and no more than fits.
///
/// Each packet has room of its own for the longest there is and for the most descriptors, so whether something was cut off is
/// said of each by itself. The kernel installs the descriptors of all of them before the first can be looked at: who reads
/// `most` needs free ones for that many packets. Memory is touched as far as it is used.
class BurstReader {
  public:
    /// `capacity`: the most packets of one read, above 0.
    explicit BurstReader(std::size_t capacity);
    ~BurstReader();
    BurstReader(const BurstReader&) = delete;
    BurstReader& operator=(const BurstReader&) = delete;

    /// Up to `most` packets, from 1 to capacity(), of a socket from which nobody else reads. If there is none, one entry says why,
    /// as receive_packet does; a signal does not end it once something was read. `End` is the last entry, with the descriptors of
    /// whatever came behind it. Valid until the next read.
    /// Fails: as receive_packet.
    [[nodiscard]] Result<std::span<Received>> read(int socket, std::size_t most);
    /// The bytes of entry `index`. Valid until the next read.
    [[nodiscard]] std::span<std::byte> bytes(std::size_t index) noexcept;

    [[nodiscard]] std::size_t capacity() const noexcept { return received_.size(); }

  private:
    const std::unique_ptr<std::byte[]> packets_;
    const std::unique_ptr<std::byte[]> control_;
    std::vector<iovec> parts_;
    std::vector<mmsghdr> messages_;
    std::vector<Received> received_;
};

enum class Sent : std::uint8_t {
    Done,
    WouldBlock,       ///< the peer's queue is full: wait for writability and send the same again
    TooManyInFlight,  ///< ETOOMANYREFS: this user has too many descriptors unread; send the same again later
    Gone,             ///< EPIPE, ECONNRESET: the peer left. What it had sent may still be read
};

/// Sends `packet` with loans of `fds`, without SIGPIPE and without waiting on non-blocking sockets. An interrupted call is
/// repeated. An empty packet is a bug of the caller's.
/// Fails: Limit           EMSGSIZE; more than kMaxPacketFds descriptors
///        ConnectionLost  whatever else the kernel says, with errno
/// On failure nothing was sent.
[[nodiscard]] Result<Sent> send_packet(int socket, std::span<const std::byte> packet, std::span<const int> fds);

/// How far a run of packets came.
struct SentRun {
    std::size_t count = 0;   ///< packets that are in the socket
    Sent what = Sent::Done;  ///< what became of the next one; Done: there is none
};

/// One of several packets, with loans of its descriptors.
struct Parcel {
    std::span<const std::byte> bytes;
    std::span<const int> fds = {};
};

/// Sends one packet after the other, up to kMaxRun in one system call where the kernel allows it; otherwise as send_packet.
inline constexpr std::size_t kMaxRun = 64;
[[nodiscard]] Result<SentRun> send_packets(int socket, std::span<const Parcel> packets);

}  // namespace hurray::wire
