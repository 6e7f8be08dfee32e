#include "daemon/quota.hpp"

#include <string>

namespace hurrayd {
namespace {

struct Words {
    std::string_view name;
    std::string_view things;  ///< what the user has so many of
    bool is_everybodys = false;
};

constexpr std::array<Words, kQuotas> kWords = {{
    {"quota.user.clients", "connections"},
    {"quota.user.waiting", "waiting attaches"},
    {"quota.user.reservations", "segments that are reserved and not published"},
    {"quota.user.stored", "descriptors in the service manager's store"},
    {"quota.user.bytes", "bytes of shared memory"},
    {"quota.bytes", "bytes of shared memory", true},
    {"store.max", "descriptors in the service manager's store", true},
}};

}  // namespace

std::string_view name_of(Quota quota) noexcept { return kWords[static_cast<std::size_t>(quota)].name; }

hurray::Result<void> Quotas::admit(Quota quota, std::uint32_t uid, std::uint64_t in_use, std::uint64_t more) {
    // Without a limit the sums still must not wrap.
    const std::uint64_t most = limit(quota) != 0 ? limit(quota) : UINT64_MAX;
    if (in_use <= most && more <= most - in_use) {
        return {};
    }
    ++refused_[index(quota)];
    const Words& words = kWords[index(quota)];
    std::string message = words.is_everybodys ? "all users together have " : "user " + std::to_string(uid) + " has ";
    message += std::to_string(in_use) + " " + std::string(words.things);
    message += more == 1 ? "; at most " : ", and " + std::to_string(more) + " more are asked for; at most ";
    message += std::to_string(most) + " are allowed (" + std::string(words.name) + ")";
    hurray::Error error{hurray::Errc::OverQuota, std::move(message)};
    error.limit_name = words.name;
    error.limit = most;
    error.in_use = in_use;
    error.value = more;
    return hurray::fail(std::move(error));
}

}  // namespace hurrayd
