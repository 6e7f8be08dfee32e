#include "daemon/quota.hpp"

#include <string>

namespace hurrayd {
namespace {

enum class Whose : std::uint8_t { User, Client, Everybody };

struct Words {
    std::string_view name;
    std::string_view things;  ///< what there are so many of
    Whose whose = Whose::User;
};

constexpr std::string_view kShared = "bytes of shared memory";
constexpr std::string_view kStored = "descriptors in the service manager's store";
constexpr std::string_view kDaemon = "bytes of hurrayd's own memory";

constexpr std::array<Words, kQuotas> kWords = {{
    {"quota.user.clients", "connections"},
    {"quota.user.capsules", "capsules"},
    {"quota.user.names", "names"},
    {"quota.user.leases", "leases"},
    {"quota.user.waiting", "waiting attaches"},
    {"quota.user.watches", "watches"},
    {"quota.user.reservations", "segments that are reserved and not published"},
    {"quota.user.descriptors", "segments that hurrayd keeps a descriptor of"},
    {"quota.user.stored", kStored},
    {"quota.user.bytes", kShared},
    {"quota.user.daemon_bytes", kDaemon},
    {"quota.client.capsules", "capsules", Whose::Client},
    {"quota.client.leases", "leases", Whose::Client},
    {"quota.client.waiting", "waiting attaches", Whose::Client},
    {"quota.client.watches", "watches", Whose::Client},
    {"quota.client.bytes", kShared, Whose::Client},
    {"quota.client.daemon_bytes", kDaemon, Whose::Client},
    {"quota.bytes", kShared, Whose::Everybody},
    {"store.max", kStored, Whose::Everybody},
}};

std::string has(Whose whose, std::uint32_t uid) {
    switch (whose) {
        case Whose::User:
            return "user " + std::to_string(uid) + " has ";
        case Whose::Client:
            return "this client has ";
        case Whose::Everybody:
            break;
    }
    return "all users together have ";
}

}  // namespace

Quotas::Quotas(const Limits& limits) noexcept
    : limits_{limits.clients,
              limits.capsules,
              limits.names,
              limits.leases,
              limits.waiting,
              limits.watches,
              limits.reservations,
              limits.descriptors,
              limits.stored,
              limits.bytes,
              limits.daemon_bytes,
              limits.client_capsules,
              limits.client_leases,
              limits.client_waiting,
              limits.client_watches,
              limits.client_bytes,
              limits.client_daemon_bytes,
              limits.all_bytes,
              limits.all_stored} {}

std::string_view name_of(Quota quota) noexcept { return kWords[static_cast<std::size_t>(quota)].name; }

tl::unexpected<hurray::Error> Quotas::refuse(Quota quota, std::uint32_t uid, std::uint64_t in_use, std::uint64_t more) {
    ++refused_[index(quota)];
    const Words& words = kWords[index(quota)];
    std::string message = has(words.whose, uid) + std::to_string(in_use) + " " + std::string(words.things);
    message += more == 1 ? "; at most " : ", and " + std::to_string(more) + " more are asked for; at most ";
    message += std::to_string(most(quota)) + " are allowed (" + std::string(words.name) + ")";
    hurray::Error error{hurray::Errc::OverQuota, std::move(message)};
    error.limit_name = words.name;
    error.limit = most(quota);
    error.in_use = in_use;
    error.value = more;
    return hurray::fail(std::move(error));
}

}  // namespace hurrayd
