#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <tl/expected.hpp>

#include "libhurray/base/result.hpp"
#include "proto/wire/messages.hpp"
#include "proto/wire/packet_buffer.hpp"

/// Protobuf bytes <-> messages.hpp. What is wrong with a field is found in the order in which decode_*.cpp look at them.
/// Of a field that is sent twice the last counts, messages within messages too; unknown fields are passed over.
///
/// Threads: every function may run on any thread.
namespace hurray::wire {

/// A request that can't be served, with what its reply needs.
struct Refusal {
    std::uint64_t request_id = 0;  ///< 0: not even that could be read, so nobody can be answered
    Error error;
};

/// As `fd_count`: descriptors were cut off on the way, so their number proves nothing.
inline constexpr std::size_t kAnyFdCount = static_cast<std::size_t>(-1);

/// Reads and checks one request that came with `fd_count` descriptors.
///
/// Fails: Protocol         not a Request at all; request_id 0; no message in it
///        InvalidArgument  a field breaks its rule; too few or too many descriptors came
///        Limit            a name, label, descriptor or list is too long
///        Unsupported      a message that is not known or not built yet; a field that is not built yet and set
/// The error's field is the path of the field in the request, e.g. "publish.segments[3].size". Its message shows
/// nothing that the peer sent but numbers.
[[nodiscard]] tl::expected<Request, Refusal> decode_request(std::span<const std::byte> packet, std::size_t fd_count);

/// Reads and checks one packet from the daemon that came with `fd_count` descriptors.
///
/// What it brings in `more` is not looked at: each is a packet of its own.
///
/// An Error whose status this version does not know comes as Errc::Protocol, with the number in its message.
///
/// Fails: Unsupported  an event that this version does not know, by its message or by its kind: to be passed over
///        Protocol     whatever else is wrong, such as an event with a request_id or a reply without one
[[nodiscard]] Result<Packet> decode_packet(std::span<const std::byte> packet, std::size_t fd_count);

/// The packets that `packet` brings, still encoded, in their order: a loan of its bytes.
///
/// Fails: Protocol  no Packet at all
[[nodiscard]] Result<std::vector<std::string_view>> more_in(std::span<const std::byte> packet);

/// Makes `out` the bytes of `request`. Nothing is checked, the length of the packet neither; of text for people in a Packet,
/// control characters and what is not UTF-8 travel as '?'.
void encode(const Request& request, PacketBuffer& out);
void encode(const Packet& packet, PacketBuffer& out);
/// The same behind what `out` holds already, of a request in its parts.
void append(std::uint64_t request_id, std::optional<std::uint64_t> timeout_ms, const RequestMessage& message,
            PacketBuffer& out);
void append(const Packet& packet, PacketBuffer& out);
/// Adds `packet`, which brings no descriptors, to the one that `out` ends with (Packet.more).
void append_more(const Packet& packet, PacketBuffer& out);
/// The same where it is not done again and again.
[[nodiscard]] std::string encoded(const Request& request);
[[nodiscard]] std::string encoded(const Packet& packet);

}  // namespace hurray::wire
