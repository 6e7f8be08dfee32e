#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "daemon/notify_socket.hpp"
#include "daemon/segments.hpp"
#include "daemon/store/descriptor_store.hpp"
#include "daemon/store/keeping.hpp"
#include "daemon/store/recovery.hpp"
#include "libhurray/base/result.hpp"
#include "libhurray/base/unique_fd.hpp"

namespace hurrayd::store {

/// Keeps over the daemon's death what the registry says: writes its notes to the journal, and puts into the service manager's store
/// what lingers.
///
/// **The journal** is one memfd, appended to, given to nobody. When most of what it holds is out of date, the next generation takes its place: it
/// is written in full, stored, and appended to from then on; then the old one is removed. So whenever this process dies, the store has a
/// journal with everything that anybody has been told of.
///
/// Owner: Server. Threads: one. Blocks: as DescriptorStore.
class Keeper {
  public:
    /// All notes that say what is known now; what a journal begins with.
    using AllNotes = std::function<void(std::vector<keep::Note>& notes)>;

    /// Descriptors of the store that are not for segments and capsules: a journal, and the next one while it takes over.
    static constexpr std::uint64_t kOwnEntries = 2;

    /// `segments` are those that steps speak of, a loan for life, like `manager`.
    Keeper(const NotifySocket& manager, const SegmentTable& segments, AllNotes all_notes)
        : store_(manager), segments_(segments), all_notes_(std::move(all_notes)) {}

    /// Begins this life's journal, and removes what is not needed of what was found. To be called once, when the registry knows all that
    /// was, and before anybody is told anything. Fails: Internal  no memfd to be had
    [[nodiscard]] hurray::Result<void> begin(const Found& found);

    /// Whether notes wait for memory: keep({}) tries again.
    [[nodiscard]] bool is_behind() const noexcept { return is_behind_; }

    /// Does each of `steps`, in their order. What they say is kept when this returns; notes for which the system has no memory, as soon as it
    /// has some again.
    void keep(std::span<const keep::Step> steps);

  private:
    [[nodiscard]] hurray::Result<void> start_journal(std::uint64_t generation);
    void append();
    void caught_up();
    void compact_if_due();

    DescriptorStore store_;
    const SegmentTable& segments_;
    AllNotes all_notes_;
    hurray::UniqueFd journal_;
    std::uint64_t generation_ = 0;
    std::uint64_t size_ = 0;        ///< of the journal
    std::uint64_t first_size_ = 0;  ///< that it had when it was begun
    std::string unwritten_;         ///< notes that are to be appended
    bool is_behind_ = false;        ///< some of them could not be
};

}  // namespace hurrayd::store
