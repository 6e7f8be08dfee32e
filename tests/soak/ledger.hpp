#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include <hurray/client.hpp>

#include "libhurray/base/unique_fd.hpp"

namespace hurray::soak {

/// What has become of a capsule that lingers, as whoever published it knows. Those who publish may be killed at any moment, so this is
/// written before and after each step.
enum class Fate : std::uint32_t {
    Sent,    ///< perhaps: no answer has come yet
    Kept,    ///< answered: it must be there
    Ending,  ///< its withdrawal or its successor is sent, perhaps
    // It must not be there any more, ever:
    Ended,   ///< withdrawn or replaced
    Missing  ///< it was found gone, and may be: taken, its time over, or never come
};

/// What was published, told beside hurrayd: memory that all processes of a run share, so that a consumer knows from elsewhere what
/// it must see. Each producer appends to its own page of it, and so does each leaver; their pages come after.
struct Record {
    CapsuleId capsule;
    std::uint64_t bytes = 0;
    std::uint64_t stamp = 0;
    std::uint32_t slot = 0;
    std::uint32_t mode = 0;  ///< of its access; 0: it asked for none
    bool is_brief = false;   ///< it lingers for a moment only: once its producer is gone, it may be gone too
    // What is written later, with functions of Ledger:
    std::uint32_t taken = 0;  ///< takers that were given it, if it was published once
    Fate fate = Fate::Sent;   ///< of what lingers
};

/// How often something happened, in the whole run.
struct Tally {
    std::atomic<std::uint64_t> published{0};     ///< rounds: capsules that others could attach
    std::atomic<std::uint64_t> viewed{0};        ///< views that were checked when they were attached
    std::atomic<std::uint64_t> viewed_again{0};  ///< and again after they had been held
    std::atomic<std::uint64_t> aborted{0};       ///< capsules that nobody was to see
    std::atomic<std::uint64_t> closed{0};        ///< clients of publishers that were closed with all still published
    std::atomic<std::uint64_t> opened{0};        ///< events that producers were told
    std::atomic<std::uint64_t> released{0};
    std::atomic<std::uint64_t> lost{0};
    std::atomic<std::uint64_t> ended{0};
    std::atomic<std::uint64_t> jobs{0};          ///< capsules that were published to be taken
    std::atomic<std::uint64_t> told_taken{0};    ///< of them, as their producers were told
    std::atomic<std::uint64_t> taken{0};         ///< and as takers had them
    std::atomic<std::uint64_t> takes_failed{0};  ///< since the daemon was away
    std::atomic<std::uint64_t> watched{0};       ///< events that watchers were told
    std::atomic<std::uint64_t> stocks{0};        ///< that leavers took
    std::atomic<std::uint64_t> restarts{0};      ///< of the daemon: counted while there is none
    std::atomic<bool> enough{false};             ///< producers are to end
    std::atomic<bool> stop{false};               ///< all others are to
};

class Ledger {
  public:
    /// Pages for so many producers and leavers, with room for `records` each. Throws std::system_error.
    static Ledger create(std::size_t producers, std::size_t leavers, std::size_t records);
    /// That one, in a process that has inherited its descriptor.
    static Ledger open(int fd);

    [[nodiscard]] int fd() const noexcept { return fd_.get(); }
    [[nodiscard]] std::size_t pages() const noexcept { return head().producers + head().leavers; }
    /// Whether it is a leaver's: all that is written there lingers.
    [[nodiscard]] bool is_left(std::size_t page) const noexcept { return page >= head().producers; }
    [[nodiscard]] Tally& tally() noexcept { return head().tally; }
    /// Where to count what happens to the capsules of a page: what lingers is counted apart.
    [[nodiscard]] Tally& tally_of(std::size_t page) noexcept { return is_left(page) ? head().left : head().tally; }

    /// Only whose page it is may append.
    void append(std::size_t page, const Record& record);
    [[nodiscard]] std::size_t size(std::size_t page) const noexcept { return count(page).load(); }
    [[nodiscard]] const Record& at(std::size_t page, std::size_t index) const noexcept;

    /// What is written of that capsule of a producer. A consumer may see a capsule before its producer has come to write it
    /// down, so this waits; nothing once a minute has passed.
    [[nodiscard]] const Record* find(std::size_t page, const CapsuleId& capsule) const;

    /// The stamp of the next record of a leaver's page, which tells where that is: a leaver writes before it publishes, when it does not
    /// know the capsule's id, and may not live to learn it. `noise` makes it unlike others.
    [[nodiscard]] std::uint64_t next_stamp(std::size_t page, std::uint64_t noise) const noexcept;
    /// The record with the stamp with which these bytes begin. Null: there is none.
    [[nodiscard]] const Record* find_stamped(std::size_t page, std::span<const std::byte> bytes) const noexcept;

    [[nodiscard]] static std::uint32_t times_taken(const Record& record) noexcept;
    [[nodiscard]] static Fate fate_of(const Record& record) noexcept;
    /// Only whose page it is may do these.
    static void set_fate(const Record& record, Fate fate) noexcept;
    static void note_kept(const Record& record, const CapsuleId& capsule) noexcept;

    /// One taker more has it; how many had it before.
    std::uint32_t note_taken(const Record& record) noexcept;

  private:
    struct Head {
        std::size_t producers;
        std::size_t leavers;
        std::size_t records;
        Tally tally;
        Tally left;
    };
    struct Unmap {
        std::size_t size;
        void operator()(std::byte* memory) const noexcept;
    };

    Ledger(UniqueFd fd, std::size_t size);
    [[nodiscard]] Head& head() const noexcept { return *reinterpret_cast<Head*>(memory_.get()); }
    [[nodiscard]] std::atomic<std::size_t>& count(std::size_t page) const noexcept;
    [[nodiscard]] Record* first_of(std::size_t page) const noexcept;

    UniqueFd fd_;
    std::unique_ptr<std::byte, Unmap> memory_;
};

}  // namespace hurray::soak
