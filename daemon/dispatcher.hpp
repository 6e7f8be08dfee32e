#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "daemon/descriptor_budget.hpp"
#include "daemon/outbox.hpp"
#include "daemon/registry.hpp"
#include "daemon/segments.hpp"
#include "daemon/types.hpp"
#include "libhurray/base/result.hpp"
#include "proto/wire/codec.hpp"
#include "proto/wire/packet_socket.hpp"

namespace hurrayd {

/// What the kernel says about the process at the other end.
struct PeerCredentials {
    std::uint32_t uid = 0;
    std::uint32_t gid = 0;
    std::int32_t pid = 0;
    std::vector<std::uint32_t> groups = {};  ///< the supplementary ones
};

/// One packet -> one call of the registry. Checks whatever a packet brings before the registry hears of it.
///
/// Threads: one.
class Dispatcher {
  public:
    /// What the dispatcher knows of a connection.
    struct Peer {
        SessionNumber number;
        PeerCredentials credentials;
        bool greeted = false;         ///< its Hello was accepted: the registry knows it
        std::string label;            ///< what it calls itself; for logs
        bool keeps_segments = false;  ///< as its Hello said
        bool takes_bundles = false;   ///< so too
    };

    Dispatcher(Registry& registry, SegmentTable& segments, const DescriptorBudget& budget,
               const hurray::wire::Id16& instance, std::uint64_t started_ms) noexcept
        : registry_(registry), segments_(segments), budget_(budget), instance_(instance), started_ms_(started_ms) {}

    /// Does what the packet says and writes the answers into `out`. Descriptors that are kept are taken out of `received`; the
    /// others stay there, to be closed where that can't keep anybody waiting.
    ///
    /// Fails: whatever makes the connection unusable; `out` holds the last words. To be delivered, then cut.
    [[nodiscard]] hurray::Result<void> handle(Peer& peer, std::span<const std::byte> packet,
                                              hurray::wire::Received& received, std::uint64_t now_ms, Outbox& out);

    /// Requests that could be read, since the start, by their place in wire::RequestMessage.
    using Requests = std::array<std::uint64_t, std::variant_size_v<hurray::wire::RequestMessage>>;
    [[nodiscard]] const Requests& requests() const noexcept { return requests_; }

  private:
    [[nodiscard]] hurray::Result<void> greet(Peer& peer, const hurray::wire::Request& request, std::uint64_t now_ms,
                                             Outbox& out);
    static void drop(const Peer& peer, std::uint64_t request_id, const hurray::wire::Drop& drop, Outbox& out);
    void publish(const Peer& peer, std::uint64_t request_id, hurray::wire::Publish& publish,
                 hurray::wire::Received& received, Outbox& out);

    Registry& registry_;
    SegmentTable& segments_;
    const DescriptorBudget& budget_;
    hurray::wire::Id16 instance_;
    std::uint64_t started_ms_;
    Requests requests_{};
};

}  // namespace hurrayd
