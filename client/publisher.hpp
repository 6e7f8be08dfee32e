#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "hurray_client.h"

#include "client/allocation.hpp"
#include "client/connection.hpp"
#include "client/segment_pool.hpp"
#include "libhurray/base/result.hpp"
#include "proto/wire/messages.hpp"

namespace hurray::client {

/// What a producer wants to be told of one capsule.
struct PublishTerms {
    std::string name;          ///< empty: by id only
    AccessRule access;         ///< none: as the allocation's, or as the daemon has it
    std::uint64_t group = 0;   ///< 0: none, it is there at once
    std::uint32_t retain = 1;  ///< versions of the name that stay attachable, this one included
    bool once = false;         ///< to be taken, by one
    std::optional<std::uint64_t> linger_ms =
        {};  ///< it outlives this client, by so many milliseconds at most; 0: without an end
    bool tell_opened = false;
    std::optional<std::uint64_t> timeout_ms = 0;  ///< for how long to wait while the daemon is away; absent: for ever
    HurrayEventFn on_event = nullptr;
    void* context = nullptr;
};

/// The capsules that this session has published and that have not ended, and who holds them.
///
/// A lease is booked by `opened` alone, and what closes one that is not booked is passed over, so the user is told of each end
/// exactly once, whatever is said twice.
///
/// Threads: any. Events come from whichever thread reads the connection.
class Publisher {
  public:
    /// Memory of capsules that have ended goes back to `pool`.
    explicit Publisher(std::shared_ptr<SegmentPool> pool) noexcept : pool_(std::move(pool)) {}

    struct Published {
        wire::CapsuleId capsule;
        std::uint64_t version = 0;  ///< 0: staged in its group
        std::uint64_t byte_size = 0;
        AccessRule access;
        std::size_t leases = 0;  ///< open ones
        bool retired = false;
        bool immutable = false;  ///< nobody can change a byte of it any more
        bool unsealed = false;   ///< it lies in a dma-buf
        bool once = false;       ///< it is to be taken, or was
        bool lingering = false;  ///< it outlives this client
    };

    /// Checks the descriptor against the allocation, and publishes. On success the memory belongs to the capsule.
    /// Fails: InvalidLayout and others  the descriptor; InvalidArgument  it does not fit the allocation, or that was made for another
    /// access; what the daemon says.
    /// While the daemon is away it waits as the terms say. A publish that was sent when the daemon died is sent again, under the same id. If the connection
    /// ends before the answer, `allocation.maybe_published` is set, and its memory is never used again.
    /// One that is to be immutable is made so just before it is sent: after what the daemon refuses it may be published again, but not
    /// be written. InvalidArgument, with the allocation as it was: something else in this machine can write to it.
    [[nodiscard]] Result<Published> publish(Connection& connection, std::span<const std::uint8_t> descriptor,
                                            Allocation& allocation, const PublishTerms& terms);

    /// Memory that the caller has made, and where the buffers lie in it (see ForeignMemory::take).
    struct Foreign {
        std::span<const std::int32_t> fds;
        const std::vector<wire::Placement>* placements = nullptr;
    };
    /// The same with such memory. Fails: as ForeignMemory::take, too.
    [[nodiscard]] Result<Published> publish(Connection& connection, std::span<const std::uint8_t> descriptor,
                                            const Foreign& foreign, const PublishTerms& terms);

    struct ToPublish {
        std::span<const std::uint8_t> descriptor;
        Allocation* allocation = nullptr;  ///< either this
        const PublishTerms* terms = nullptr;
        const Foreign* foreign = nullptr;  ///< or this
    };
    /// The same for each of `items`, sending many at a time. What became of each is told to `done`, on this thread and without a
    /// lock; the daemon takes them in their order.
    void publish_many(Connection& connection, std::span<const ToPublish> items,
                      const std::function<void(std::size_t, Result<Published>&&)>& done);

    /// A number for publications that are to be there all at once. Fails: what the daemon says.
    [[nodiscard]] Result<std::uint64_t> begin_group(Connection& connection);
    /// Makes all of a group visible, or none of it. A refused commit leaves the group as it is.
    /// Fails: NotFound  no such group; AlreadyExists  a member's name is another user's by now. If the connection ends or is
    /// closed before the answer, the group may have been committed. Then its members are withdrawn when the daemon is back, or closed.
    [[nodiscard]] Result<void> commit_group(Connection& connection, std::uint64_t group);
    /// Lets go of all of a group: each member ends.
    [[nodiscard]] Result<void> abort_group(Connection& connection, std::uint64_t group);

    /// A capsule of this session that has not ended. Fails: NotFound.
    [[nodiscard]] Result<Published> find(const wire::CapsuleId& capsule);

    void on_lease(const wire::LeaseEvent& event, std::vector<Notice>& notices);
    void on_retired(const wire::Retired& event);
    /// `epoch` is the connection's on which it came.
    void on_ended(const wire::Ended& event, std::uint64_t epoch, std::vector<Notice>& notices);
    void on_window_closed(const wire::WindowClosed& event, std::vector<Notice>& notices);
    /// Offers all that can be to the daemon of a new connection; what is refused has ended, and what was staged. Fails: as calls do.
    [[nodiscard]] Result<void> offer_again(Connection& connection, std::vector<Notice>& notices);
    void on_connection_lost(std::vector<Notice>& notices);
    /// The daemon has ended this session: so have its capsules, but for those that linger, which can be offered again.
    void on_cut_off(std::vector<Notice>& notices);

    /// Those that have not been retired, as far as is known, and end with this client: also what is to linger, but is still staged.
    [[nodiscard]] std::vector<wire::CapsuleId> to_withdraw();
    /// Withdraws a capsule of this user. One of this session's own is withdrawn while the daemon is away, too: it will be offered again as
    /// retired; but of one that lingers this fails, since the daemon may have it until then. Fails: what the daemon says; ConnectionLost.
    [[nodiscard]] Result<void> withdraw(Connection& connection, const wire::CapsuleId& capsule);
    /// Forgets all of them, without telling anybody; their memory goes back to its pool here.
    void clear();
    /// How many there are, and their bytes.
    [[nodiscard]] std::pair<std::size_t, std::uint64_t> totals();

  private:
    class Publishing;
    class Offering;
    /// What a capsule lies in. Each keeps its memory.
    using Blocks = std::vector<std::shared_ptr<Block>>;
    struct Capsule {
        wire::CapsuleId id;
        PublishTerms terms;
        bool answered = false;      ///< its publish was
        std::uint64_t version = 0;  ///< 0: not answered, or staged
        std::uint64_t byte_size = 0;
        bool retired = false;
        Blocks blocks;              ///< none if it has no byte
        wire::Publish message;      ///< to offer it again
        std::uint64_t sent_in = 0;  ///< the epoch in which its publish was first sent
        std::set<wire::LeaseId> open;
        bool lost_some = false;             ///< of those that were open
        std::set<wire::LeaseId> confirmed;  ///< of them, those that the parts of WindowClosed have named so far
        wire::LeaseId taken_by{};           ///< its `lease` 0: nobody took it
    };
    struct Hash {
        std::size_t operator()(const wire::Id16& id) const noexcept;
    };

    using Capsules = std::unordered_map<wire::Id16, Capsule, Hash>;

    [[nodiscard]] Result<wire::Id16> random_id();
    [[nodiscard]] Result<Published> publish(Connection& connection, const ToPublish& what);
    bool set_retired(const wire::CapsuleId& capsule, bool retired);
    bool lingers(const wire::CapsuleId& capsule);
    static void close(Capsule& capsule, const wire::LeaseId& lease, std::vector<Notice>& notices);
    static void close_all(Capsule& capsule, std::vector<Notice>& notices);
    void tell_refused(const Offering& offering, const Error& why, std::vector<Notice>& notices);
    void end_refused(const wire::Id16& id, std::vector<Notice>& notices);
    void end_all(bool but_lingering, std::vector<Notice>& notices);
    void end(Capsule&& capsule, bool reusable, std::vector<Notice>& notices);

    const std::shared_ptr<SegmentPool> pool_;
    std::mutex mutex_;
    Capsules capsules_;
    /// Open groups: what is staged in them, in the order in which the daemon has answered, which is that of its versions.
    std::map<std::uint64_t, std::vector<wire::Id16>> groups_;
    std::uint64_t last_group_ = 0;
    std::array<wire::Id16, 16> random_{};  ///< 256 bytes: what getrandom gives without being interrupted
    std::size_t random_left_ = 0;
};

}  // namespace hurray::client
