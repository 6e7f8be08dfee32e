#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "proto/wire/messages.hpp"

namespace hurrayd {

namespace wire = hurray::wire;

/// Who a session is, as the kernel and its Hello say.
struct Identity {
    std::uint32_t uid = 0;
    std::uint32_t gid = 0;
    std::int32_t pid = 0;  ///< for people only; 0 in a foreign pid namespace
    bool is_root = false;
    wire::Id16 session;
    /// All that it is in. The registry sorts them and adds `gid`.
    std::vector<std::uint32_t> groups = {};
    /// It was connected to another life of the daemon before, whose leases it may claim.
    bool resumes = false;
    /// It was connected to this life before, and cut off: it may repeat what it confirmed of leases of the life before.
    bool was_cut_off = false;
    /// What it calls itself; for people of its own user.
    std::string label = {};
};

/// What a mode grants, in each of its digits.
enum class Right : std::uint32_t { Read = 4, Write = 2 };

/// Whether `who`, whose groups are sorted, has that right to what `owner` published with `access`. As with a file, the first class that
/// fits decides alone: an owner to whom the mode grants nothing has nothing, though others may have something.
[[nodiscard]] inline bool permits(const Identity& who, std::uint32_t owner, const wire::Access& access, Right right) {
    if (who.is_root) {
        return true;
    }
    const bool is_member = std::binary_search(who.groups.begin(), who.groups.end(), access.gid);
    const unsigned shift = who.uid == owner ? 6 : is_member ? 3 : 0;
    return ((access.mode >> shift) & static_cast<std::uint32_t>(right)) != 0;
}

}  // namespace hurrayd
