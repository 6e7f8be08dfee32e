#pragma once

#include <chrono>
#include <deque>
#include <initializer_list>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <sys/types.h>

#include "libhurray/base/unique_fd.hpp"
#include "proto/wire/messages.hpp"
#include "tests/support/test_tensor.hpp"

namespace hurray::test {

/// A packet as it came.
struct Incoming {
    wire::Packet packet;
    std::vector<UniqueFd> fds;
};

/// What the packet is, for messages of tests.
[[nodiscard]] std::string describe(const wire::Packet& packet);

/// A client without a library: speaks the protocol by hand, one packet at a time, and may misbehave.
///
/// Waits for what must come, up to a watchdog's 30 s; every failure is a std::runtime_error. Threads: one.
class RawPeer {
  public:
    /// Connected, not greeted.
    explicit RawPeer(const std::string& path);
    /// Connected and greeted.
    static RawPeer greeted(const std::string& path, wire::Id16 session = fresh_id());

    /// Says Hello. Reply: `receive`.
    std::uint64_t send_hello(wire::Id16 session = fresh_id(), std::uint32_t version_min = 1,
                             std::uint32_t version_max = 1);

    /// Sends a request with the next id, which it returns.
    std::uint64_t send(wire::RequestMessage message, std::span<const int> fds,
                       std::optional<std::uint64_t> timeout_ms = {});
    std::uint64_t send(wire::RequestMessage message, std::initializer_list<int> fds = {},
                       std::optional<std::uint64_t> timeout_ms = {});
    /// Any bytes, with any descriptors.
    void send_raw(std::string_view bytes, std::span<const int> fds = {});

    /// The next packet. Throws at the connection's end.
    Incoming receive();
    /// The next packet if it is there by now.
    std::optional<Incoming> try_receive();
    /// Whether the connection ends next, with nothing before it.
    bool at_end();

    /// The next packet, which is a `T`; with `request_id`, and with that one.
    template <class T>
    T next(std::uint64_t request_id = 0) {
        return take<T>(receive(), request_id);
    }
    /// Sends, and receives its answer, which comes next and is a `T`.
    template <class T>
    T call(wire::RequestMessage message, std::optional<std::uint64_t> timeout_ms = {}) {
        return next<T>(send(std::move(message), {}, timeout_ms));
    }

    /// Publishes; the answer comes next.
    wire::PublishReply publish(const TestTensor& tensor);
    /// Attaches by name, waiting for ever; the grant is the next packet that answers (events before it go to `events`).
    struct Attached {
        wire::AttachReply reply;
        std::vector<UniqueFd> fds;
    };
    Attached attach(std::uint64_t lease, const std::string& name);

    std::deque<Incoming> events;  ///< passed over by `attach`

    [[nodiscard]] int socket() const noexcept { return socket_.get(); }
    /// Hangs up, or stops reading for good with `shutdown`.
    void close() { socket_.reset(); }

  private:
    template <class T>
    T take(Incoming incoming, std::uint64_t request_id) {
        T* wanted = std::get_if<T>(&incoming.packet.message);
        if (wanted == nullptr || incoming.packet.request_id != request_id) {
            throw std::runtime_error("unexpected packet: " + describe(incoming.packet) + ", wanted an answer to " +
                                     std::to_string(request_id));
        }
        return std::move(*wanted);
    }

    UniqueFd socket_;
    uid_t user_;  ///< who has connected, so whose the memory is that it sends
    std::uint64_t next_request_ = 1;
};

/// Waits until `fd` is readable (true), or hung up; throws at the watchdog's end.
void wait_readable(int fd, std::chrono::milliseconds watchdog = std::chrono::seconds(30));

}  // namespace hurray::test
