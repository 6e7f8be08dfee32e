#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include <hurray/client.hpp>

#include "libhurray/base/unique_fd.hpp"

namespace hurray::soak {

/// What was published, told beside hurrayd: memory that all processes of a run share, so that a consumer knows from elsewhere what
/// it must see. Each producer appends to its own page of it.
struct Record {
    CapsuleId capsule;
    std::uint64_t bytes = 0;
    std::uint64_t stamp = 0;
    std::uint32_t slot = 0;
    std::uint32_t mode = 0;  ///< of its access; 0: it asked for none
    /// Takers that were given it, if it was published once: the one thing that is written later, by note_taken.
    std::uint32_t taken = 0;
};

/// How often something happened, in the whole run.
struct Tally {
    std::atomic<std::uint64_t> published{0};     ///< rounds: capsules that others could attach
    std::atomic<std::uint64_t> viewed{0};        ///< views that were checked when they were attached
    std::atomic<std::uint64_t> viewed_again{0};  ///< and again after they had been held
    std::atomic<std::uint64_t> aborted{0};       ///< capsules that nobody was to see
    std::atomic<std::uint64_t> closed{0};        ///< clients of producers that were closed with all still published
    std::atomic<std::uint64_t> opened{0};        ///< events that producers were told
    std::atomic<std::uint64_t> released{0};
    std::atomic<std::uint64_t> lost{0};
    std::atomic<std::uint64_t> ended{0};
    std::atomic<std::uint64_t> jobs{0};          ///< capsules that were published to be taken
    std::atomic<std::uint64_t> told_taken{0};    ///< of them, as their producers were told
    std::atomic<std::uint64_t> taken{0};         ///< and as takers had them
    std::atomic<std::uint64_t> takes_failed{0};  ///< since the daemon was away
    std::atomic<std::uint64_t> watched{0};       ///< events that watchers were told
    std::atomic<bool> enough{false};             ///< producers are to end
    std::atomic<bool> stop{false};               ///< all others are to
};

class Ledger {
  public:
    /// Pages for so many producers, with room for `records` each. Throws std::system_error.
    static Ledger create(std::size_t producers, std::size_t records);
    /// That one, in a process that has inherited its descriptor.
    static Ledger open(int fd);

    [[nodiscard]] int fd() const noexcept { return fd_.get(); }
    [[nodiscard]] std::size_t producers() const noexcept { return head().producers; }
    [[nodiscard]] Tally& tally() noexcept { return head().tally; }

    /// Only `producer` itself may append.
    void append(std::size_t producer, const Record& record);
    [[nodiscard]] std::size_t size(std::size_t producer) const noexcept { return count(producer).load(); }
    [[nodiscard]] const Record& at(std::size_t producer, std::size_t index) const noexcept;

    /// What is written of that capsule of `producer`. A consumer may see a capsule before its producer has come to write it
    /// down, so this waits; nothing once a minute has passed.
    [[nodiscard]] const Record* find(std::size_t producer, const CapsuleId& capsule) const;

    /// One taker more has it; how many had it before.
    std::uint32_t note_taken(const Record& record) noexcept;

  private:
    struct Head {
        std::size_t producers;
        std::size_t records;
        Tally tally;
    };
    struct Unmap {
        std::size_t size;
        void operator()(std::byte* memory) const noexcept;
    };

    Ledger(UniqueFd fd, std::size_t size);
    [[nodiscard]] Head& head() const noexcept { return *reinterpret_cast<Head*>(memory_.get()); }
    [[nodiscard]] std::atomic<std::size_t>& count(std::size_t producer) const noexcept;
    [[nodiscard]] Record* page(std::size_t producer) const noexcept;

    UniqueFd fd_;
    std::unique_ptr<std::byte, Unmap> memory_;
};

}  // namespace hurray::soak
