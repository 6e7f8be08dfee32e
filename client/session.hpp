#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "client/connection.hpp"
#include "client/lease.hpp"
#include "client/publisher.hpp"
#include "client/seen_versions.hpp"
#include "client/segment_cache.hpp"
#include "client/segment_pool.hpp"
#include "client/watcher.hpp"

namespace hurray::client {

/// What a program tells the library once, when it connects.
struct SessionOptions {
    std::string address;
    std::string client_name;
    Deadline connect_deadline;
    Deadline answer_deadline;
    bool dispatch_by_caller = false;
    bool reconnects = true;
    std::optional<std::chrono::milliseconds> reconnect_time = {};  ///< for how long each time; absent: for ever
    HurrayEventFn on_event = nullptr;
    HurrayInterruptedFn interrupted = nullptr;
    void* context = nullptr;
};

/// A connection with everything that is booked about it: what a HurrayClient stands for.
///
/// Owner: shared by the client handle and by every lease, so leases outlive the handle. In a forked child it is never
/// destroyed. Threads: any.
class Session final : public EventSink, public SegmentBooks {
  public:
    /// Fails: as Connection::open and PoolLimits::from_environment.
    [[nodiscard]] static Result<std::shared_ptr<Session>> open(const SessionOptions& options);

    [[nodiscard]] Connection& connection() noexcept { return *connection_; }
    [[nodiscard]] LeaseTable& leases() noexcept { return leases_; }
    [[nodiscard]] SeenVersions& seen() noexcept { return seen_; }
    [[nodiscard]] SegmentCache& segments() noexcept { return segments_; }
    [[nodiscard]] SegmentPool& pool() noexcept { return *pool_; }
    [[nodiscard]] Publisher& publisher() noexcept { return publisher_; }
    [[nodiscard]] Watcher& watcher() noexcept { return watcher_; }
    [[nodiscard]] bool dispatch_by_caller() const noexcept { return options_.dispatch_by_caller; }

    /// hurray_client_close.
    void close();
    /// hurray_client_destroy, of the last handle: after this no callback runs. The object lives on with its leases.
    static void retire(std::shared_ptr<Session> session);

    void on_event(wire::PacketMessage&& event, std::vector<Notice>& notices) override;
    void on_late_grant(const wire::AttachReply& grant, std::vector<UniqueFd>&& fds, bool fds_missing) override;
    void on_away(const Error& reason, bool was_up, std::vector<Notice>& notices) override;
    [[nodiscard]] Result<void> on_back(bool is_same_life, std::vector<Notice>& notices,
                                       std::vector<Notice>& once_up) override;
    void on_end(const Error& reason, std::vector<Notice>& notices) override;

    Result<std::uint64_t> reserve(std::uint64_t reservation, std::uint64_t bytes) override;
    void unreserve(std::uint64_t reservation) noexcept override;
    void forget(std::vector<std::uint64_t> segments) noexcept override;

  private:
    Session(const SessionOptions& options, const PoolLimits& pool_limits);

    void tell_connection(HurrayStatus status, std::uint32_t flags, std::vector<Notice>& notices) const;
    void forget_segments(std::vector<Notice>& notices);
    [[nodiscard]] Result<void> claim_leases();
    [[nodiscard]] Result<void> ask_unheard(wire::RequestMessage message);

    SessionOptions options_;
    LeaseTable leases_;
    SeenVersions seen_;
    SegmentCache segments_;
    const std::shared_ptr<SegmentPool> pool_;
    Publisher publisher_;
    Watcher watcher_;
    std::unique_ptr<Connection> connection_;
};

}  // namespace hurray::client
