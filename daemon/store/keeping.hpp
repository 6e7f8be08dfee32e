#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "daemon/types.hpp"
#include "proto/wire/messages.hpp"

/// What the registry wants to have kept over the daemon's death, in its own words: notes for the journal, and what enters and leaves the
/// descriptor store. See store.proto for what each note is for.
namespace hurrayd::keep {

namespace wire = hurray::wire;

/// A segment's name in the store, for all lives of the daemon: "s-7". None is 0.
struct StoredSegment {
    std::uint64_t value = 0;
    friend auto operator<=>(const StoredSegment&, const StoredSegment&) = default;
};

// ---- Notes ----------------------------------------------------------------------------------------------------------

struct Name {
    std::string name;
    std::uint32_t owner = 0;
    std::uint32_t publisher = 0;
    std::uint64_t version = 0;
    std::uint64_t floor = 0;
    bool once = false;
    friend bool operator==(const Name&, const Name&) = default;
};
struct NameEnded {
    std::string name;
    friend bool operator==(const NameEnded&, const NameEnded&) = default;
};
struct LastVersion {
    std::uint64_t version = 0;
    friend bool operator==(const LastVersion&, const LastVersion&) = default;
};
struct Taken {
    wire::CapsuleId capsule;
    wire::LeaseId lease;
    std::uint64_t version = 0;
    friend bool operator==(const Taken&, const Taken&) = default;
};
struct TakenDropped {
    wire::CapsuleId capsule;
    friend bool operator==(const TakenDropped&, const TakenDropped&) = default;
};
struct Answered {
    wire::CapsuleId capsule;
    friend bool operator==(const Answered&, const Answered&) = default;
};
struct Expires {
    wire::CapsuleId capsule;
    std::uint64_t at_ms = 0;
    friend bool operator==(const Expires&, const Expires&) = default;
};
struct Gone {
    wire::CapsuleId capsule;
    friend bool operator==(const Gone&, const Gone&) = default;
};
struct Left {
    wire::CapsuleId capsule;
    std::uint64_t version = 0;
    friend bool operator==(const Left&, const Left&) = default;
};
struct Committed {
    std::uint64_t group = 0;
    friend bool operator==(const Committed&, const Committed&) = default;
};
using Note = std::variant<Name, NameEnded, LastVersion, Taken, TakenDropped, Answered, Expires, Gone, Left, Committed>;

// ---- The store ------------------------------------------------------------------------------------------------------

struct StoreSegment {
    StoredSegment as;
    SegmentNumber segment;
};
/// Its segments are stored before it.
struct StoreCapsule {
    std::uint32_t uid = 0;
    wire::Publish offer;      ///< as it would be offered again; its segments have the store's numbers
    std::uint64_t group = 0;  ///< with which it counts, once that is Committed; 0: by itself
};
struct RemoveCapsule {
    wire::CapsuleId capsule;
};
struct RemoveSegment {
    StoredSegment segment;
};

/// One thing to be done, in the order in which they are said, before any packet of the same step is sent.
using Step = std::variant<Note, StoreSegment, StoreCapsule, RemoveCapsule, RemoveSegment>;

}  // namespace hurrayd::keep
