#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "client/page_map.hpp"
#include "client/shared_memory.hpp"
#include "libhurray/base/result.hpp"
#include "libhurray/base/unique_fd.hpp"
#include "proto/wire/messages.hpp"
#include "proto/wire/segment_check.hpp"

/// A producer's memory: made once, published again and again.
namespace hurray::client {

class SegmentPool;

/// Who may read what is published in some memory. None: as the daemon has it, which an older one has not told.
using AccessRule = std::optional<wire::Access>;

/// A segment that this process publishes, as the daemon knows it: one that it has made, or somebody's own.
struct ProducerSegment {
    wire::Memory kind = wire::Memory::Reusable;
    std::shared_ptr<const WritableSegment> memory;  ///< null: it is somebody's own
    UniqueFd foreign;                               ///< then a duplicate of its descriptor, and
    wire::FoundSegment found;                       ///< what it is
    std::uint64_t number = 0;                       ///< of this file alone, for the whole session
    std::uint64_t reservation = 0;                  ///< ends with the first publish; 0: none
    AccessRule access;                              ///< of all that is ever published in it, if it was made here
    std::uint64_t reserved_in = 0;                  ///< the connection's epoch in which it is reserved; 0: none
    /// The epoch in which a publish that brought it was answered last: in that one, the next ones name it by its number. 0: none.
    std::atomic<std::uint64_t> known_in{0};

    [[nodiscard]] bool is_foreign() const noexcept { return memory == nullptr; }
    [[nodiscard]] std::uint64_t size() const noexcept { return is_foreign() ? found.size : memory->size(); }
    /// A loan.
    [[nodiscard]] int fd() const noexcept { return is_foreign() ? foreign.get() : memory->fd(); }

    // The pool's, under its lock.
    std::optional<PageMap> pages;  ///< of an arena; none: it is one block
    std::size_t blocks = 0;        ///< of somebody's own: one for each capsule in it
    std::uint64_t dirty_end = 0;   ///< nothing from here on was ever handed out, so it is zero
    bool is_idle = false;          ///< waits to be used again
    std::chrono::steady_clock::time_point idle_since;
};

/// A range of a segment: the memory of one allocation, then of the capsule that it becomes, and of every list that shows it
/// in this process. With its last owner it goes back to the pool. Or all of a segment that is somebody's own, for one capsule.
///
/// Threads: any for what is const; the last owner may be on any thread, and never waits there.
class Block {
  public:
    Block(std::shared_ptr<SegmentPool> pool, std::shared_ptr<ProducerSegment> segment, std::uint64_t offset,
          std::uint64_t length, std::uint64_t dirty) noexcept;
    ~Block();
    Block(const Block&) = delete;
    Block& operator=(const Block&) = delete;

    [[nodiscard]] ProducerSegment& segment() const noexcept { return *segment_; }
    /// In the segment; a multiple of 4096.
    [[nodiscard]] std::uint64_t offset() const noexcept { return offset_; }
    [[nodiscard]] std::uint64_t length() const noexcept { return length_; }
    /// Not of what is somebody's own, which is not mapped here.
    [[nodiscard]] std::byte* data() const noexcept { return segment_->memory->data() + offset_; }
    /// So many bytes at its beginning may not be zero: what was written there before.
    [[nodiscard]] std::uint64_t dirty() const noexcept { return dirty_; }

    /// Somebody may go on reading it: nobody may write it any more.
    void spoil() noexcept { is_spoiled_.store(true, std::memory_order_relaxed); }
    /// Its end only books; what is to be unmapped waits for SegmentPool::sweep(). For a thread that others wait for.
    void end_quietly() noexcept { is_quiet_.store(true, std::memory_order_relaxed); }

  private:
    friend class SegmentPool;
    std::shared_ptr<SegmentPool> pool_;
    std::shared_ptr<ProducerSegment> segment_;
    std::uint64_t offset_;
    std::uint64_t length_;
    std::uint64_t dirty_;
    std::atomic<bool> is_spoiled_{false};
    std::atomic<bool> is_quiet_{false};
};

/// How much memory that nobody uses a pool may keep.
struct PoolLimits {
    std::uint64_t bytes = 1ULL << 30;
    std::size_t segments = 256;
    std::chrono::milliseconds age{10'000};

    /// With what $HURRAY_POOL_BYTES and $HURRAY_POOL_SECONDS say.
    /// Fails: InvalidArgument  one of them is no whole number
    [[nodiscard]] static Result<PoolLimits> from_environment();
};

/// What the pool tells the daemon.
class SegmentBooks {
  public:
    /// Asks for room for a segment of `bytes`, and waits for the answer. Returns the connection's epoch in which it is reserved; 0: the
    /// daemon is away, and will count the segment when it is published.
    [[nodiscard]] virtual Result<std::uint64_t> reserve(std::uint64_t reservation, std::uint64_t bytes) = 0;
    /// Never blocks.
    virtual void unreserve(std::uint64_t reservation) noexcept = 0;
    /// Never blocks.
    virtual void forget(std::vector<std::uint64_t> segments) noexcept = 0;

  protected:
    ~SegmentBooks() = default;
};

/// The segments of one session: those in use, and those that wait to be used again.
///
/// **Large blocks**, above kMostArenaBytes, have a segment each, of exactly their pages. One that comes back waits for a block that
/// it fits with less than an eighth to spare; the last to come back is the first to be used, its pages being warm.
///
/// **Small blocks** share *arenas*, of which the first of a rule has 64 KiB and each further one as much as it has already, up to 1 MiB. A block
/// takes whole pages, so no two capsules share one: every first buffer lies at a page boundary, and a page shows nothing
/// of others. Arenas are filled lowest first, so that those made last run empty.
///
/// **Immutable blocks** have a segment each, whatever their size: seals are a file's, not a page's.
///
/// **What is somebody's own** gets a number here while a capsule lies in it, so that none is used twice in a session.
///
/// **What is not used again.** A spoiled block's pages are never handed out any more; nor is immutable memory, nor what the daemon
/// was never told of (an allocation that was never published): it goes at once.
///
/// **How much waits.** At most PoolLimits; what has waited longest goes first. Ages are looked at whenever a block is taken or comes
/// back, and by `expire`, which the session has called now and then: so what nobody uses any more goes within twice its age. When the daemon or the kernel refuses a new segment, everything that waits goes, and it is tried again.
///
/// **Who reads.** A segment has one access rule for life, and is used again under that one alone: whoever has mapped it once sees what is
/// written there later. So each rule that a program uses has arenas and waiting segments of its own.
///
/// Owner: the session, and each block. Threads: any. In a forked child nothing of it is touched; a block that ends there is the
/// parent's still.
class SegmentPool : public std::enable_shared_from_this<SegmentPool> {
  public:
    using Clock = std::chrono::steady_clock;
    static constexpr std::uint64_t kPage = 4096;
    static constexpr std::uint64_t kMostArenaBytes = 64 * 1024;
    static constexpr std::uint64_t kLeastArena = 64 * 1024;
    static constexpr std::uint64_t kLargestArena = PageMap::kMostPages * kPage;

    explicit SegmentPool(const PoolLimits& limits) noexcept;

    /// Who is told; nobody any more once `books` is gone.
    void set_books(std::weak_ptr<SegmentBooks> books);

    /// A block of at least `length` bytes, a multiple of kPage above 0, from what waits or from a new segment, for capsules of that rule.
    /// Fails: OverQuota  the daemon has no room for a new segment; Closed; ConnectionLost; as WritableSegment::create
    [[nodiscard]] Result<std::shared_ptr<Block>> take(std::uint64_t length, const AccessRule& access = {});

    /// A block of exactly `length` bytes in a segment of its own, which WritableSegment::make_immutable() is for.
    /// Fails: as take
    [[nodiscard]] Result<std::shared_ptr<Block>> take_immutable(std::uint64_t length, const AccessRule& access = {});

    /// Somebody's own memory `found`, of which `fd` is a duplicate. The same file while a capsule lies in it is the same segment.
    [[nodiscard]] std::shared_ptr<Block> adopt(UniqueFd fd, const wire::FoundSegment& found);

    /// Nothing waits any more, and what comes back goes at once.
    void close() noexcept;

    /// Lets go what has waited too long. For whoever looks after it now and then; false: there is nothing to look after.
    bool expire() noexcept;

    /// Unmaps what quiet ends have left, and tells the daemon.
    void sweep() noexcept;
    [[nodiscard]] bool needs_sweep();

    struct Totals {
        std::uint64_t segments = 0;  ///< in use and waiting
        std::uint64_t bytes = 0;
        std::uint64_t idle_segments = 0;  ///< waiting, empty arenas included
        std::uint64_t idle_bytes = 0;
        std::uint64_t arenas = 0;
        std::uint64_t arena_bytes = 0;
        std::uint64_t arena_live_bytes = 0;     ///< in blocks that live
        std::uint64_t arena_retired_bytes = 0;  ///< never to be used again
        std::uint64_t made = 0;                 ///< segments, since the beginning
        std::uint64_t reused = 0;               ///< blocks that needed no new segment
    };
    [[nodiscard]] Totals totals();
    [[nodiscard]] const PoolLimits& limits() const noexcept { return limits_; }

    /// For tests: what time it is.
    void set_clock(Clock::time_point (*now)()) noexcept { now_ = now; }

  private:
    friend class Block;
    using Segment = std::shared_ptr<ProducerSegment>;
    using Idle = std::multimap<std::pair<AccessRule, std::uint64_t>, Segment>;  // by rule and size
    using Lock = std::unique_lock<std::mutex>;

    void give_back(Block& block) noexcept;
    [[nodiscard]] Result<Segment> make(std::uint64_t size, const AccessRule& access, wire::Memory kind);
    [[nodiscard]] Result<Segment> reserve_and_make(SegmentBooks& books, std::uint64_t size, const AccessRule& access,
                                                   wire::Memory kind);
    [[nodiscard]] Result<std::shared_ptr<Block>> first_block(const Segment& segment, std::uint64_t length);
    [[nodiscard]] bool drop_idle() noexcept;
    [[nodiscard]] bool in_child() const noexcept;

    // With the lock held.
    [[nodiscard]] std::shared_ptr<Block> take_new(Lock& held, const Segment& segment, std::uint64_t length);
    [[nodiscard]] std::shared_ptr<Block> take_idle(Lock& held, std::uint64_t length, const AccessRule& access);
    [[nodiscard]] std::shared_ptr<Block> take_from(Lock& held, const Segment& arena, std::uint64_t length);
    [[nodiscard]] std::uint64_t next_arena_size(Lock& held, const AccessRule& access) const noexcept;
    void doom(Lock& held, const Segment& segment) noexcept;
    void begin_idle(Lock& held, ProducerSegment& segment) noexcept;
    void end_idle(Lock& held, ProducerSegment& segment) noexcept;
    void trim(Lock& held) noexcept;

    const PoolLimits limits_;
    const std::uint32_t generation_;  ///< of forks
    Clock::time_point (*now_)() = &Clock::now;

    std::mutex mutex_;
    std::weak_ptr<SegmentBooks> books_;
    Idle idle_;                                                 ///< segments of one block that wait
    std::vector<Segment> arenas_;                               ///< oldest first
    std::map<wire::FileIdentity, Segment> foreign_;             ///< somebody's own, with at least one block
    std::vector<Segment> doomed_;                               ///< to be unmapped and forgotten
    Clock::time_point next_expiry_ = Clock::time_point::max();  ///< nothing that waits is over its age before
    bool is_closed_ = false;
    std::uint64_t last_number_ = 0;  ///< of segments and reservations
    Totals totals_;
};

}  // namespace hurray::client
