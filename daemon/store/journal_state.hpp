#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "daemon/store/keeping.hpp"
#include "proto/wire/messages.hpp"

namespace hurrayd::store {

namespace wire = hurray::wire;

/// What the notes of a journal amount to, one after the other.
struct JournalState {
    std::uint64_t last_version = 0;
    std::map<std::string, keep::Name> names;
    std::map<wire::CapsuleId, keep::Taken> taken;
    std::set<wire::CapsuleId> answered;
    std::map<wire::CapsuleId, std::uint64_t> expires;  ///< on the monotonic clock, in milliseconds
    std::map<wire::CapsuleId, std::uint64_t> left;     ///< the versions that they had
    std::set<std::uint64_t> committed;                 ///< groups
    std::set<wire::CapsuleId> gone;  ///< have ended, or can't be had any more; they may be in the store all the same

    void apply(const keep::Note& note);
};

}  // namespace hurrayd::store
