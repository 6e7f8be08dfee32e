#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "daemon/publication_check.hpp"
#include "daemon/store/journal_state.hpp"
#include "daemon/store/keeping.hpp"
#include "libhurray/base/unique_fd.hpp"
#include "proto/wire/messages.hpp"

namespace hurrayd::store {

namespace wire = hurray::wire;

/// A descriptor from the service manager's store, and its name there.
struct HandedOver {
    hurray::UniqueFd fd;
    std::string name;
};

/// Whether an entry of the store has a name that this daemon gives, or the one that the manager gives in place of a bad one.
[[nodiscard]] bool is_stored_name(const std::string& name) noexcept;

[[nodiscard]] std::string name_of(const wire::CapsuleId& capsule);
[[nodiscard]] std::string name_of(keep::StoredSegment segment);
[[nodiscard]] std::string name_of_journal(std::uint64_t generation);

/// A capsule of which everything is here: its metadata, and each segment that it lists, as its producer sealed it.
struct WholeCapsule {
    wire::CapsuleId id;
    wire::Publish offer;      ///< its segments have the store's numbers
    CheckedPublish checked;   ///< of them
    std::uint64_t group = 0;  ///< with which it counts; 0: by itself
};

/// What a life before has left.
struct Found {
    bool has_journal = false;
    JournalState journal;
    std::uint64_t last_generation = 0;  ///< of the journals that were there, readable or not
    std::vector<WholeCapsule> capsules;
    std::map<keep::StoredSegment, hurray::UniqueFd> segments;  ///< those that they lie in
    std::string journal_name;  ///< of the one that was read, to be removed once there is a new one; empty: none was
    std::vector<std::string>
        rest;  ///< other journals, and what belongs to no whole capsule, to be removed: metadata first
    keep::StoredSegment last_segment;  ///< the highest number of a segment that was there
};

/// Reads what the service manager has handed over. It is not trusted: what is damaged, or not whole, is logged and counts as not there.
[[nodiscard]] Found find(std::vector<HandedOver> handed_over);

}  // namespace hurrayd::store
