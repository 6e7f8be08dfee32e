#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <sys/types.h>

#include "daemon/asio.hpp"
#include "daemon/closer.hpp"
#include "daemon/descriptor_budget.hpp"
#include "daemon/dispatcher.hpp"
#include "daemon/listening_file.hpp"
#include "daemon/metrics.hpp"
#include "daemon/notify_socket.hpp"
#include "daemon/outbound.hpp"
#include "daemon/peer_log.hpp"
#include "daemon/process_watch.hpp"
#include "daemon/quota.hpp"
#include "daemon/registry.hpp"
#include "daemon/segments.hpp"
#include "daemon/session.hpp"
#include "daemon/store/keeper.hpp"
#include "daemon/store/recovery.hpp"
#include "libhurray/base/result.hpp"
#include "libhurray/base/unique_fd.hpp"

namespace hurrayd {

/// Where clients come in.
struct SocketOptions : SocketPlace {
    mode_t directory_mode = 0700;  ///< of the socket's directory, should it have to be made
};

/// How much of itself the server gives, and what its clients give each other if they don't say.
struct ServerLimits {
    Quotas::Limits quotas;
    RequestRate requests;  ///< of each client
    /// Descriptors that a client may have unread.
    std::uint64_t unread_descriptors = 256;
    /// Of a capsule that is published without one.
    std::uint32_t default_mode = Registry::kDefaultMode;
    /// For how long clients of a former life may bring back what it knew; 0: they may not.
    std::chrono::seconds resume_window{30};
};

/// Where what lingers is kept over the daemon's death: with a service manager that has a store for this process.
struct Keeping {
    const NotifySocket& manager;                 ///< a loan for the server's life
    std::vector<store::HandedOver> from_before;  ///< what it has kept
};

/// Listens, accepts, owns the sessions and everything that they share; turns what comes in into calls of the dispatcher, and
/// ends sessions. While it lives nobody else serves its socket.
///
/// Threads: the one that runs `io`.
class Server final : private Session::Owner, private Outbound::Listener {
  public:
    /// Clients can connect from here on; they are served while `io` runs.
    ///
    /// A stale socket of a daemon that died is replaced; a live one never is.
    /// Fails: AlreadyExists    another hurrayd, or something else, serves that path
    ///        InvalidArgument  the path is too long, or something that is not a socket is there
    ///        Internal         the system refuses, with errno
    [[nodiscard]] static hurray::Result<std::unique_ptr<Server>> open(asio::io_context& io,
                                                                      const SocketOptions& options,
                                                                      const ServerLimits& limits = {},
                                                                      std::optional<Keeping> keeping = std::nullopt);

    /// The same on a socket that listens already, non-blocking, and is somebody else's: its file is never removed.
    /// Fails: Internal  the system refuses, with errno
    [[nodiscard]] static hurray::Result<std::unique_ptr<Server>> adopt(asio::io_context& io, hurray::UniqueFd listener,
                                                                       const ServerLimits& limits = {},
                                                                       std::optional<Keeping> keeping = std::nullopt);
    ~Server();

    /// Has `call` called after each step that may have changed what is held. It must do little: each burst of packets is a step.
    void on_step(std::function<void()> call) { on_step_ = std::move(call); }

    /// Tells every client, closes every connection, removes the socket. `io` runs out of work.
    void stop();

    /// What is held at this moment.
    struct Held {
        Registry::Totals totals;
        std::size_t sessions = 0;  ///< greeted or not
        std::size_t segments = 0;
        friend bool operator==(const Held&, const Held&) = default;
    };
    [[nodiscard]] Held held() const noexcept;

    /// What is told about the daemon, of this moment. A loan of what counts on.
    [[nodiscard]] Metrics metrics() const;

  private:
    struct Endpoint {
        hurray::UniqueFd lock;  ///< none: the file is not ours
        hurray::UniqueFd listener;
        ListeningFile file;
    };
    [[nodiscard]] static hurray::Result<Endpoint> open_endpoint(const SocketOptions& options);

    [[nodiscard]] static hurray::Result<std::unique_ptr<Server>> serve(asio::io_context& io, Endpoint endpoint,
                                                                       const ServerLimits& limits,
                                                                       std::optional<Keeping> keeping);

    Server(asio::io_context& io, Endpoint endpoint, const ServerLimits& limits, const hurray::wire::Id16& instance,
           std::size_t handed_over);

    [[nodiscard]] hurray::Result<void> start_keeping(Keeping keeping);
    void keep();
    void note_answers();

    void on_packet(Session& session, std::span<const std::byte> packet, hurray::wire::Received& received) override;
    void on_writable(Session& session) override;
    void on_burst_end() override;
    std::size_t room_for_packets(const Session& session) override;
    void on_throttled(const Session& session) override;
    void on_unused(const Session& session, std::vector<hurray::UniqueFd> fds) override;
    void on_end(Session& session, std::string_view reason) override;
    hurray::wire::BurstReader& reader() noexcept override { return reader_; }
    std::span<std::byte> packet_buffer() noexcept override { return packet_buffer_; }
    void want_writable(SessionNumber session) override;
    void broken(SessionNumber session, std::string_view reason) override;
    void keeps(SessionNumber session, std::size_t bytes) override { registry_.note_queued(session, bytes); }
    void unheard(const wire::CapsuleId& capsule) override { registry_.note_unheard(capsule); }
    [[nodiscard]] bool is_user_full(SessionNumber session) const override { return registry_.is_user_full(session); }

    void wait_accept();
    void accept_batch();
    void admit(hurray::UniqueFd socket);
    void on_death(SessionNumber number);
    void turn_away();
    void refuse_client(std::uint32_t user, hurray::UniqueFd socket, hurray::Error error);
    void close_unused(Session& session, hurray::wire::Received& received);
    void resume(SessionNumber number);
    void end_session(SessionNumber number, std::string_view reason, bool is_fault);
    void end_broken();
    void finish_step();
    void pump_snapshots();
    void post_rest();
    void arm_deadline();
    void arm_retry();
    void arm_stalled();
    void arm_gone();
    [[nodiscard]] bool has_too_much() const noexcept;
    void arm_give_back();
    void arm_hello();
    void cut_ungreeted();
    void deliver();
    void note_refusal(SessionNumber session, const hurray::Error& error);

    asio::io_context& io_;
    Endpoint endpoint_;
    Waitable listener_;
    hurray::UniqueFd spare_;  ///< closed when no descriptor is left, so that a client can be told so
    asio::steady_timer accept_pause_;
    asio::steady_timer deadline_;
    std::optional<std::uint64_t> armed_deadline_ms_;
    asio::steady_timer retry_;
    bool retry_armed_ = false;
    asio::steady_timer stalled_;
    bool stalled_armed_ = false;
    asio::steady_timer gone_;
    bool gone_armed_ = false;
    asio::steady_timer give_back_;
    bool give_back_armed_ = false;
    std::uint64_t most_cost_ = 0;  ///< the registry's, since memory was given back to the system
    /// Who came and when, in that order; those who have greeted or left are dropped when their time is over.
    std::deque<std::pair<std::chrono::steady_clock::time_point, SessionNumber>> ungreeted_;
    asio::steady_timer hello_;
    bool hello_armed_ = false;
    ProcessWatch processes_;
    const RequestRate requests_;
    PeerLog peer_log_;
    Traffic traffic_;
    const double start_time_;  ///< seconds since 1970

    Closer closer_;
    SegmentTable segments_;
    DescriptorBudget budget_;
    Registry registry_;
    Outbound outbound_;
    Dispatcher dispatcher_;
    Outbox outbox_;                          // reused; empty between steps
    std::unique_ptr<store::Keeper> keeper_;  ///< none: what lingers goes with this process
    std::unordered_map<std::uint64_t, std::vector<wire::CapsuleId>>
        answering_;  ///< of publishers whose answers are still queued
    hurray::wire::BurstReader reader_;
    std::unordered_map<std::uint64_t, std::shared_ptr<Session>> sessions_;
    std::unordered_map<std::uint32_t, std::uint64_t> connections_;  ///< of each user
    std::uint64_t next_session_ = 1;
    std::vector<std::pair<SessionNumber, std::string>> broken_;  ///< to be ended when this step is done
    std::set<SessionNumber> snapshotting_;
    std::set<SessionNumber> telling_;  ///< paused, until what they set off is told to all who watch for it
    bool pump_posted_ = false;
    bool rest_posted_ = false;
    std::function<void()> on_step_;
    bool stopped_ = false;
    bool told_no_pidfd_ = false;
    std::array<std::byte, hurray::wire::kMaxPacketBytes> packet_buffer_;
};

}  // namespace hurrayd
