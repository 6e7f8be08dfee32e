#include "daemon/quota.hpp"

#include <string>

namespace hurrayd {
namespace {

struct Words {
    std::string_view name;
    std::string_view things;  ///< what the user has so many of
};

constexpr std::array<Words, kQuotas> kWords = {{
    {"quota.user.clients", "connections"},
    {"quota.user.waiting", "waiting attaches"},
}};

}  // namespace

std::string_view name_of(Quota quota) noexcept { return kWords[static_cast<std::size_t>(quota)].name; }

hurray::Result<void> Quotas::admit(Quota quota, std::uint32_t uid, std::uint64_t in_use) {
    const std::uint64_t most = limit(quota);
    if (in_use < most) {
        return {};
    }
    ++refused_[index(quota)];
    const Words& words = kWords[index(quota)];
    hurray::Error error{hurray::Errc::OverQuota, "user " + std::to_string(uid) + " has " + std::to_string(in_use) +
                                                     " " + std::string(words.things) + "; at most " +
                                                     std::to_string(most) + " are allowed (" + std::string(words.name) +
                                                     ")"};
    error.limit_name = words.name;
    error.limit = most;
    error.in_use = in_use;
    error.value = 1;
    return hurray::fail(std::move(error));
}

}  // namespace hurrayd
