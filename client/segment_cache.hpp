#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "client/shared_memory.hpp"
#include "libhurray/base/result.hpp"
#include "libhurray/base/unique_fd.hpp"
#include "proto/wire/messages.hpp"

namespace hurray::client {

class Connection;

/// One segment of another process, as it was granted: mapped by whoever first needs it, and then for good.
///
/// Threads: any.
class SharedSegment {
  public:
    SharedSegment(const wire::Segment& said, UniqueFd fd) : said_(said), fd_(std::move(fd)) {}

    /// The first call checks the descriptor and maps it; it is closed then.
    /// Fails: Protocol (what came is not what was said), Limit (mappings or address space of this process)
    [[nodiscard]] Result<std::shared_ptr<const Mapping>> map(Populate populate);

    [[nodiscard]] std::uint64_t number() const noexcept { return said_.number; }
    [[nodiscard]] std::uint64_t size() const noexcept { return said_.size; }
    [[nodiscard]] wire::Memory memory() const noexcept { return said_.memory; }
    [[nodiscard]] bool is_mapped() const noexcept { return is_mapped_; }

  private:
    const wire::Segment said_;
    std::mutex mutex_;
    UniqueFd fd_;
    std::shared_ptr<const Mapping> mapping_;
    bool is_populated_ = false;  ///< asked for once, which is enough while it stays mapped
    std::atomic<bool> is_mapped_{false};
};

/// The segments that hurrayd has sent to this session, by its numbers. A grant that names one of them brings no descriptor; so each
/// is kept, also when no lease needs it, until
///
/// 1. hurrayd says that it is gone;
/// 2. or more lie idle than `Limits` allow: then the one that was used longest ago is dropped. hurrayd is told, and the mapping
///    stays until it has answered: a grant that names it may be on its way.
///
/// What is to be told collects here and goes out with `settle`, which whoever has changed something calls once it holds no lock.
/// A descriptor that did not come, since this process had none free, is dropped in the same way.
///
/// Threads: any.
class SegmentCache {
  public:
    /// Of what lies idle: it costs address space and page tables here. The memory is its producer's.
    struct Limits {
        std::size_t segments = 1024;
        std::uint64_t bytes = 16ULL << 30;
    };

    SegmentCache() : SegmentCache(Limits{}) {}
    explicit SegmentCache(Limits limits) : limits_(limits) {}
    SegmentCache(const SegmentCache&) = delete;
    SegmentCache& operator=(const SegmentCache&) = delete;
    ~SegmentCache() = default;

  private:
    struct Entry;

  public:
    /// Keeps one segment from being dropped. To be gone before the cache is.
    class Use {
      public:
        Use(SegmentCache& cache, std::shared_ptr<Entry> entry) noexcept : cache_(&cache), entry_(std::move(entry)) {}
        Use(Use&& other) noexcept = default;
        Use& operator=(Use&&) = delete;
        Use(const Use&) = delete;
        Use& operator=(const Use&) = delete;
        ~Use() {
            if (entry_ != nullptr) {
                cache_->release(std::move(entry_));
            }
        }
        [[nodiscard]] SharedSegment& segment() const noexcept;
        /// For a forked child, where the cache belongs to the parent: nothing is told to it.
        void detach() noexcept { entry_.reset(); }

      private:
        SegmentCache* cache_;
        std::shared_ptr<Entry> entry_;
    };

    /// Books what a grant brought, on the thread that read it and before any later packet is looked at. `fds` are its descriptors,
    /// of no use if `fds_missing`.
    /// Fails: Limit (a descriptor did not come, now or earlier), Protocol (it names a segment that never came)
    [[nodiscard]] Result<std::vector<Use>> take(const wire::AttachReply& grant, std::vector<UniqueFd>& fds,
                                                bool fds_missing);

    /// Drops all that lies idle, to make room for other mappings; settle() has to follow. False: nothing did.
    [[nodiscard]] bool drop_idle();

    /// Tells hurrayd what is dropped. Call without any lock of the connection. Never blocks.
    void settle(Connection& connection) noexcept;

    /// hurrayd says that these are gone, or that nothing more comes at all. Returns what was kept of them: letting go of it unmaps,
    /// which takes its time.
    [[nodiscard]] std::vector<std::shared_ptr<void>> gone(const std::vector<std::uint64_t>& numbers);
    [[nodiscard]] std::vector<std::shared_ptr<void>> clear();

    /// What is mapped at this moment, in use or idle.
    struct Kept {
        std::size_t segments = 0;
        std::uint64_t bytes = 0;
        std::size_t idle_segments = 0;
        std::uint64_t idle_bytes = 0;
    };
    [[nodiscard]] Kept kept() const;
    [[nodiscard]] const Limits& limits() const noexcept { return limits_; }

  private:
    struct Entry {
        Entry(const wire::Segment& said, UniqueFd fd) : segment(said, std::move(fd)) {}
        SharedSegment segment;
        std::size_t uses = 0;
        bool is_live = true;  ///< in live_: hurrayd counts on it
        std::optional<std::list<Entry*>::iterator> idle;
    };

    using Held = std::lock_guard<std::mutex>;
    [[nodiscard]] std::shared_ptr<Entry> find(const Held& held, std::uint64_t number) const;
    void release(std::shared_ptr<Entry> entry) noexcept;
    void drop(const Held& held, Entry& entry);
    void miss(const Held& held, std::uint64_t number);
    void leave_idle(const Held& held, Entry& entry) noexcept;
    void answered(const std::vector<std::uint64_t>& numbers);

    const Limits limits_;
    mutable std::mutex mutex_;
    std::unordered_map<std::uint64_t, std::shared_ptr<Entry>> live_;
    std::list<Entry*> idle_;  ///< the one used longest ago first
    std::uint64_t idle_bytes_ = 0;
    /// Dropped and not yet answered, once for each time; null: its descriptor never came.
    std::unordered_multimap<std::uint64_t, std::shared_ptr<Entry>> dropping_;
    std::vector<std::uint64_t> untold_;  ///< of those, what hurrayd is still to be told
    std::atomic<bool> has_untold_{false};
};

}  // namespace hurray::client
