#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>

#include "tests/soak/ledger.hpp"

namespace hurray::soak {

using Random = std::mt19937_64;

/// Names and nameless places that a producer publishes under; a leaver has the names only.
inline constexpr std::uint32_t kNamedSlots = 8;
inline constexpr std::uint32_t kSlots = 12;
/// Stands for a producer's queue, of what is published once.
inline constexpr std::uint32_t kQueueSlot = kSlots;

/// All names of a run begin so.
inline constexpr const char* kPrefix = "soak/";

/// The name of a slot of who has that page of the ledger; empty for the nameless ones.
[[nodiscard]] std::string slot_name(std::size_t page, std::uint32_t slot);

/// Nothing, a byte, ... up to `most`, each power of two as often as another.
[[nodiscard]] std::uint64_t random_size(Random& random, std::uint64_t most);

/// What a process of the run is and what it is to do.
struct Part {
    std::string role;
    std::size_t index = 0;   ///< of those that publish: their page of the ledger, too
    std::uint64_t life = 0;  ///< how many had this place before
    std::uint64_t seed = 0;
    std::uint64_t rounds = 0;
    std::uint64_t max_bytes = 0;
    std::string socket;
    int ledger_fd = -1;
    bool is_mortal = false;  ///< the daemon may die at any moment, and come back
};

[[nodiscard]] Random random_of(const Part& part);
[[nodiscard]] inline bool one_in(Random& random, std::uint64_t n) { return random() % n == 0; }

/// Something is not as it must be: says so and ends the process, with which the whole run fails.
[[noreturn]] void fail_run(const Part& part, const std::string& why);

/// A client of the run's daemon. One that is mortal is waited for.
[[nodiscard]] Client connect_as(const Part& part, bool dispatch_by_caller);

/// Whether a call failed since the daemon is away, and that may be.
[[nodiscard]] inline bool is_away(const Part& part, const StatusError& error) {
    return part.is_mortal && error.status() == HURRAY_ERR_CONNECTION_LOST;
}

/// Publishes `part.rounds` capsules of random sizes and access, in names and without, alone and in groups; replaces and withdraws them, closes
/// its client and connects again. Publishes jobs, too, which are taken by one each. Holds every event against what it knows, and ends once
/// all its capsules have.
void run_producer(const Part& part);

/// Publishes capsules that linger, replaces and withdraws them, and leaves; or is killed, and the next one comes. Whoever comes takes
/// stock: what the ledger says is there has to be, and nothing else. At the end it withdraws all.
void run_leaver(const Part& part);

/// Attaches whatever there is, checks it, holds some views for a while and checks them again, until the ledger says stop.
void run_consumer(const Part& part);

/// Takes jobs, checks each, and that nobody else had it, until the ledger says stop.
void run_taker(const Part& part);

/// Watches all names, and checks that what it is told fits together: nothing twice, nothing gone that was not there, and at last nothing
/// that is there.
void run_watcher(const Part& part);

}  // namespace hurray::soak
