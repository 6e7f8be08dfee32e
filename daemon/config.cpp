#include "daemon/config.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>
#include <variant>

#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <unistd.h>

#include <toml++/toml.h>

#include "libhurray/base/unique_fd.hpp"

namespace hurrayd {
namespace {

using hurray::Errc;

/// With fewer nothing could be published: 253 are kept free.
constexpr std::uint64_t kLeastDescriptors = 300;

/// A whole number written in octal: 0o660.
struct Octal {
    std::int64_t value = 0;
};

/// A value as it was written.
using Value = std::variant<std::string, std::int64_t, Octal>;

/// What has been said so far. What nobody said keeps its default, which may depend on the rest.
struct Draft {
    std::optional<std::string> path;
    std::optional<mode_t> mode;
    std::optional<std::string> group;
    std::optional<std::string> metrics_path;
    std::optional<mode_t> metrics_mode;
    std::optional<std::string> metrics_group;
    log::Level log_level = log::Level::Info;
    std::uint64_t descriptors = 0;
    ServerLimits limits;
    std::optional<std::uint64_t> store_max;
};

bool read_path(std::optional<std::string>& path, const Value& value) {
    const auto* text = std::get_if<std::string>(&value);
    if (text == nullptr || text->empty() || text->front() != '/' || text->find('\0') != std::string::npos) {
        return false;
    }
    path = *text;
    return true;
}

bool read_mode(std::optional<mode_t>& read, const Value& value) {
    std::int64_t mode = -1;
    if (const auto* text = std::get_if<std::string>(&value)) {
        const auto [end, failed] = std::from_chars(text->data(), text->data() + text->size(), mode, 8);
        if (failed != std::errc{} || end != text->data() + text->size()) {
            return false;
        }
    } else if (const auto* octal = std::get_if<Octal>(&value)) {
        mode = octal->value;
    } else {
        return false;  // 660 is not what was meant
    }
    if (mode < 0 || mode > 0777) {
        return false;
    }
    read = static_cast<mode_t>(mode);
    return true;
}

bool read_group(std::optional<std::string>& group, const Value& value) {
    const auto* text = std::get_if<std::string>(&value);
    if (text == nullptr || (!text->empty() && ::getgrnam(text->c_str()) == nullptr)) {
        return false;
    }
    group = *text;
    return true;
}

bool set_path(Draft& draft, const Value& value) { return read_path(draft.path, value); }
bool set_mode(Draft& draft, const Value& value) { return read_mode(draft.mode, value); }
bool set_group(Draft& draft, const Value& value) { return read_group(draft.group, value); }
bool set_metrics_mode(Draft& draft, const Value& value) { return read_mode(draft.metrics_mode, value); }
bool set_metrics_group(Draft& draft, const Value& value) { return read_group(draft.metrics_group, value); }

bool set_metrics_path(Draft& draft, const Value& value) {
    if (const auto* text = std::get_if<std::string>(&value); text != nullptr && text->empty()) {
        draft.metrics_path.emplace();
        return true;
    }
    return read_path(draft.metrics_path, value);
}

bool set_log_level(Draft& draft, const Value& value) {
    constexpr std::array<std::pair<std::string_view, log::Level>, 4> kLevels = {{{"debug", log::Level::Debug},
                                                                                 {"info", log::Level::Info},
                                                                                 {"warning", log::Level::Warning},
                                                                                 {"error", log::Level::Error}}};
    const auto* text = std::get_if<std::string>(&value);
    for (const auto& [name, level] : kLevels) {
        if (text != nullptr && *text == name) {
            draft.log_level = level;
            return true;
        }
    }
    return false;
}

constexpr std::int64_t kLeastBytes = 4096;
constexpr std::uint64_t kLeastDaemonBytes = 65536;
constexpr std::int64_t kLongestWindow = 3600;
constexpr std::uint64_t kMostOfAnything = 1'000'000'000;

/// A count from `least` to a thousand million.
std::optional<std::uint64_t> read_count(const Value& value, std::uint64_t least) {
    const auto* octal = std::get_if<Octal>(&value);
    const auto* plain = std::get_if<std::int64_t>(&value);
    const std::int64_t number = octal != nullptr ? octal->value : plain != nullptr ? *plain : -1;
    const auto count = static_cast<std::uint64_t>(number);
    return number >= 0 && count >= least && count <= kMostOfAnything ? std::optional(count) : std::nullopt;
}

bool set_default_mode(Draft& draft, const Value& value) {
    std::optional<mode_t> mode;
    if (!read_mode(mode, value) || (*mode & ~hurray::wire::kAccessBits) != 0) {
        return false;
    }
    draft.limits.default_mode = *mode;
    return true;
}

bool set_count(std::uint64_t& into, const Value& value, std::uint64_t least) {
    const auto count = read_count(value, least);
    into = count.value_or(into);
    return count.has_value();
}

bool set_descriptors(Draft& draft, const Value& value) {
    if (read_count(value, 0) == 0U) {
        draft.descriptors = 0;
        return true;
    }
    return set_count(draft.descriptors, value, kLeastDescriptors);
}

using Limits = Quotas::Limits;

/// A quota of so many things, of which everybody has some.
template <std::uint64_t Limits::* quota>
bool set_quota(Draft& draft, const Value& value) {
    return set_count(draft.limits.quotas.*quota, value, 1);
}

/// One that there may be none of: 0.
template <std::uint64_t Limits::* quota>
bool set_optional_quota(Draft& draft, const Value& value) {
    return set_count(draft.limits.quotas.*quota, value, 0);
}

/// A number of bytes; 0: no limit. Less than a page holds nothing.
bool set_bytes(std::uint64_t& into, const Value& value) {
    const auto* plain = std::get_if<std::int64_t>(&value);
    if (plain == nullptr || *plain < 0 || (*plain != 0 && *plain < kLeastBytes)) {
        return false;
    }
    into = static_cast<std::uint64_t>(*plain);
    return true;
}

template <std::uint64_t Limits::* quota>
bool set_byte_quota(Draft& draft, const Value& value) {
    return set_bytes(draft.limits.quotas.*quota, value);
}

/// What hurrayd spends on a client that does nothing is more than a page, so a quota of it begins at 64 KiB.
template <std::uint64_t Limits::* quota>
bool set_daemon_byte_quota(Draft& draft, const Value& value) {
    std::uint64_t bytes = 0;
    if (!set_bytes(bytes, value) || (bytes != 0 && bytes < kLeastDaemonBytes)) {
        return false;
    }
    draft.limits.quotas.*quota = bytes;
    return true;
}

bool set_request_rate(Draft& draft, const Value& value) {
    return set_count(draft.limits.requests.per_second, value, 0);
}

bool set_request_burst(Draft& draft, const Value& value) { return set_count(draft.limits.requests.burst, value, 1); }

bool set_unread_descriptors(Draft& draft, const Value& value) {
    return set_count(draft.limits.unread_descriptors, value, hurray::wire::kMaxPacketFds);
}

bool set_resume_window(Draft& draft, const Value& value) {
    const auto* seconds = std::get_if<std::int64_t>(&value);
    if (seconds == nullptr || *seconds < 0 || *seconds > kLongestWindow) {
        return false;
    }
    draft.limits.resume_window = std::chrono::seconds(*seconds);
    return true;
}

bool set_store_max(Draft& draft, const Value& value) {
    draft.store_max = read_count(value, 0);
    return draft.store_max.has_value();
}

struct Key {
    std::string_view name;
    std::string_view default_text;
    std::string_view unit;
    std::string_view meaning;
    std::string_view allowed;
    bool (*set)(Draft&, const Value&);
};

constexpr auto kKeys = std::to_array<Key>({
    {"socket.path", "/run/hurray/hurrayd.sock for the system's daemon, else $XDG_RUNTIME_DIR/hurray/hurrayd.sock",
     "path", "where clients connect", "an absolute path without NUL", set_path},
    {"socket.mode", "\"0660\" for the system's daemon, else \"0600\"", "octal",
     "permissions of the socket: who may connect", "an octal mode up to \"0777\", or 0o777", set_mode},
    {"socket.group", "\"hurray\" for the system's daemon if there is such a group, else \"\"", "group",
     "group of the socket; \"\": leave it", "the name of a group of this system, or \"\"", set_group},
    {"metrics.path", "socket.path with -metrics.sock for .sock", "path",
     "where metrics are to be had (HTTP over a Unix socket); \"\": nowhere", "an absolute path without NUL, or \"\"",
     set_metrics_path},
    {"metrics.mode", "\"0600\"", "octal", "permissions of that socket: who may read them",
     "an octal mode up to \"0777\", or 0o777", set_metrics_mode},
    {"metrics.group", "\"\"", "group", "group of that socket; \"\": leave it",
     "the name of a group of this system, or \"\"", set_metrics_group},
    {"access.default_mode", "\"0600\"", "octal",
     "of a capsule whose publisher names none: who may attach it (read), replace and withdraw it (write)",
     "an octal mode up to \"0666\" of read and write bits, or 0o666", set_default_mode},
    {"log.level", "\"info\"", "", "least important lines that are written", "debug, info, warning, error",
     set_log_level},
    {"limits.descriptors", "0", "count", "most file descriptors to have open; 0: all that the system allows",
     "0, or 300 to 1000000000", set_descriptors},
    {"quota.user.clients", "256", "count", "most connections of a user", "1 to 1000000000",
     set_quota<&Limits::clients>},
    {"quota.user.capsules", "1000000", "count", "most capsules of a user", "1 to 1000000000",
     set_quota<&Limits::capsules>},
    {"quota.user.names", "1000000", "count", "most names that a user was the first to publish under", "1 to 1000000000",
     set_quota<&Limits::names>},
    {"quota.user.leases", "1000000", "count", "most leases of a user", "1 to 1000000000", set_quota<&Limits::leases>},
    {"quota.user.waiting", "1024", "count", "most attaches and publishes of a user that wait", "1 to 1000000000",
     set_quota<&Limits::waiting>},
    {"quota.user.watches", "4096", "count", "most watches of a user", "1 to 1000000000", set_quota<&Limits::watches>},
    {"quota.user.reservations", "16384", "count", "most segments of a user that are reserved and not published yet",
     "1 to 1000000000", set_quota<&Limits::reservations>},
    {"quota.user.descriptors", "0", "count", "most segments of a user that a descriptor is kept of; 0: no limit",
     "0 to 1000000000", set_optional_quota<&Limits::descriptors>},
    {"quota.user.stored", "4096", "count",
     "most descriptors of a user in the service manager's store, for what lingers over a restart; 0: no limit",
     "0 to 1000000000", set_optional_quota<&Limits::stored>},
    {"quota.user.bytes", "0", "bytes", "most shared memory of a user, reserved or kept; 0: no limit",
     "0, or 4096 or more", set_byte_quota<&Limits::bytes>},
    {"quota.user.daemon_bytes", "1073741824", "bytes",
     "most memory that hurrayd itself spends on a user: on capsules, names, leases, packets that wait; 0: no limit",
     "0, or 65536 or more", set_daemon_byte_quota<&Limits::daemon_bytes>},
    {"quota.client.capsules", "0", "count", "the same as quota.user.capsules, of one connection; 0: only its user's",
     "0 to 1000000000", set_optional_quota<&Limits::client_capsules>},
    {"quota.client.leases", "0", "count", "as quota.user.leases, of one connection", "0 to 1000000000",
     set_optional_quota<&Limits::client_leases>},
    {"quota.client.waiting", "0", "count", "as quota.user.waiting, of one connection", "0 to 1000000000",
     set_optional_quota<&Limits::client_waiting>},
    {"quota.client.watches", "0", "count", "as quota.user.watches, of one connection", "0 to 1000000000",
     set_optional_quota<&Limits::client_watches>},
    {"quota.client.bytes", "0", "bytes", "as quota.user.bytes, of one connection", "0, or 4096 or more",
     set_byte_quota<&Limits::client_bytes>},
    {"quota.client.daemon_bytes", "0", "bytes", "as quota.user.daemon_bytes, of one connection", "0, or 65536 or more",
     set_daemon_byte_quota<&Limits::client_daemon_bytes>},
    {"quota.client.request_rate", "0", "per second",
     "requests of one connection that are read in a second; what comes beyond waits in its socket; 0: no limit",
     "0 to 1000000000", set_request_rate},
    {"quota.client.request_burst", "1024", "count", "requests of one connection that are read at once for all that",
     "1 to 1000000000", set_request_burst},
    {"quota.bytes", "0", "bytes", "most shared memory of all users together, reserved or kept; 0: no limit",
     "0, or 4096 or more", set_byte_quota<&Limits::all_bytes>},
    {"quota.user.unread_descriptors", "256", "count",
     "most file descriptors that a client may have been sent and not read", "253 to 1000000000",
     set_unread_descriptors},
    {"resume.window", "30", "seconds",
     "for how long after a start clients bring back what the hurrayd before knew; 0: not at all", "0 to 3600",
     set_resume_window},
    {"store.max", "$FDSTORE, else 0", "count",
     "how many descriptors the service manager keeps for hurrayd: its FileDescriptorStoreMax=; up to 2: what lingers "
     "ends "
     "with hurrayd",
     "0 to 1000000000", set_store_max},
});

std::string show(const Value& value) {
    if (const auto* text = std::get_if<std::string>(&value)) {
        return log::as_value(*text);
    }
    if (const auto* octal = std::get_if<Octal>(&value)) {
        std::array<char, 24> digits{};
        const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), octal->value, 8).ptr;
        return "0o" + std::string(digits.data(), end);
    }
    return std::to_string(std::get<std::int64_t>(value));
}

tl::unexpected<hurray::Error> refuse(std::string_view where, std::string_view key, const std::string& what) {
    return hurray::fail_field(Errc::InvalidArgument, std::string(key), std::string(where) + ": " + what);
}

hurray::Result<void> refuse_unknown(std::string_view where, std::string_view name) {
    std::string known;
    for (const Key& key : kKeys) {
        known += known.empty() ? "" : ", ";
        known += key.name;
    }
    return refuse(where, name, "there is no key " + log::as_value(name) + ", allowed: " + known);
}

hurray::Result<void> set(Draft& draft, std::string_view where, std::string_view name, const Value& value) {
    for (const Key& key : kKeys) {
        if (key.name == name) {
            if (!key.set(draft, value)) {
                return refuse(where, name,
                              std::string(name) + " is " + show(value) + ", allowed: " + std::string(key.allowed));
            }
            return {};
        }
    }
    return refuse_unknown(where, name);
}

hurray::Result<void> read_table(Draft& draft, const std::string& file, const toml::table& table,
                                const std::string& prefix) {
    for (const auto& [key, node] : table) {
        const std::string name = prefix + std::string(key.str());
        const std::string where = file + ":" + std::to_string(key.source().begin.line);
        if (const toml::table* inner = node.as_table()) {
            const bool known = std::any_of(kKeys.begin(), kKeys.end(),
                                           [&](const Key& each) { return each.name.starts_with(name + "."); });
            if (!known) {
                return refuse_unknown(where, name);  // also if nothing is in it
            }
            if (auto read = read_table(draft, file, *inner, name + "."); !read) {
                return read;
            }
            continue;
        }
        Value value;
        if (const auto text = node.value_exact<std::string>()) {
            value = *text;
        } else if (const auto* number = node.as_integer()) {
            if (number->flags() == toml::value_flags::format_as_octal) {
                value = Octal{number->get()};
            } else {
                value = number->get();
            }
        } else {
            return refuse(where, name, name + " must be a string or a whole number");
        }
        if (auto done = set(draft, where, name, value); !done) {
            return done;
        }
    }
    return {};
}

hurray::Result<void> read_file(Draft& draft, const std::string& file) {
    // Read here, since the library takes a directory for an empty file.
    std::string text;
    const hurray::UniqueFd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
    std::array<char, 4096> piece{};
    ssize_t got = fd ? 1 : -1;
    while (fd && (got = ::read(fd.get(), piece.data(), piece.size())) > 0) {
        text.append(piece.data(), static_cast<std::size_t>(got));
    }
    if (got < 0) {
        return refuse(file, {}, std::string("can't be read: ") + std::strerror(errno));
    }
    try {
        return read_table(draft, file, toml::parse(text, file), "");
    } catch (const toml::parse_error& failure) {
        const auto line = failure.source().begin.line;
        return refuse(line != 0 ? file + ":" + std::to_string(line) : file, {}, std::string(failure.description()));
    }
}

/// What the service manager says. Nonsense is none.
std::optional<std::uint64_t> store_max_of(const Environment& environment) {
    if (!environment.fd_store) {
        return std::nullopt;
    }
    const std::string& text = *environment.fd_store;
    std::uint64_t count = 0;
    const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), count);
    return failed == std::errc{} && end == text.data() + text.size() ? std::min(count, kMostOfAnything) : 0;
}

}  // namespace

Environment Environment::current() {
    Environment environment;
    const uid_t uid = ::geteuid();
    const passwd* user = uid == 0 ? nullptr : ::getpwuid(uid);
    environment.is_system = uid == 0 || (user != nullptr && std::string_view(user->pw_name) == "hurray");
    if (const char* directory = std::getenv("XDG_RUNTIME_DIR"); directory != nullptr && *directory != '\0') {
        environment.runtime_dir = directory;
    }
    if (const char* socket = std::getenv("HURRAY_SOCKET"); socket != nullptr && *socket != '\0') {
        environment.socket = socket;
    }
    if (const char* count = std::getenv("FDSTORE"); count != nullptr && *count != '\0') {
        environment.fd_store = count;
    }
    return environment;
}

std::string metrics_path_beside(std::string_view socket_path) {
    constexpr std::string_view kEnding = ".sock";
    if (socket_path.ends_with(kEnding)) {
        socket_path.remove_suffix(kEnding.size());
    }
    return std::string(socket_path) + "-metrics.sock";
}

hurray::Result<Config> load_config(const CommandLine& line, const Environment& environment) {
    Draft draft;
    if (line.config_file || ::access(kDefaultConfigFile, F_OK) == 0) {
        if (auto read = read_file(draft, line.config_file.value_or(kDefaultConfigFile)); !read) {
            return tl::unexpected(read.error());
        }
    }
    struct Spoken {
        const char* where;
        const char* key;
        const std::optional<std::string>& value;
    };
    for (const Spoken& spoken :
         {Spoken{"environment HURRAY_SOCKET", "socket.path", environment.socket},
          Spoken{"--socket", "socket.path", line.socket}, Spoken{"--log-level", "log.level", line.log_level}}) {
        if (spoken.value) {
            if (auto done = set(draft, spoken.where, spoken.key, *spoken.value); !done) {
                return tl::unexpected(done.error());
            }
        }
    }

    Config config;
    config.log_level = draft.log_level;
    config.descriptors = draft.descriptors;
    config.limits = draft.limits;
    // No more than the service manager says, if it says anything.
    const auto said = store_max_of(environment);
    config.store_max = std::min(draft.store_max.value_or(said.value_or(0)), said.value_or(kMostOfAnything));
    if (draft.path) {
        config.socket.path = *draft.path;
    } else if (environment.is_system) {
        config.socket.path = "/run/hurray/hurrayd.sock";
    } else if (environment.runtime_dir) {
        config.socket.path = *environment.runtime_dir + "/hurray/hurrayd.sock";
    } else {
        return hurray::fail_field(Errc::InvalidArgument, "socket.path",
                                  "XDG_RUNTIME_DIR is not set, so there is no default for socket.path: use --socket");
    }
    const bool is_users_own =
        !environment.is_system ||
        (environment.runtime_dir && config.socket.path.starts_with(*environment.runtime_dir + "/"));
    config.socket.mode = draft.mode.value_or(is_users_own ? 0600 : 0660);
    config.socket.directory_mode = is_users_own ? 0700 : 0755;
    const std::string group = draft.group.value_or(is_users_own ? "" : "hurray");
    if (const struct group* known = group.empty() ? nullptr : ::getgrnam(group.c_str())) {
        config.socket.group = known->gr_gid;
    }
    config.metrics.path = draft.metrics_path.value_or(metrics_path_beside(config.socket.path));
    config.metrics.is_explicit = draft.metrics_path.has_value();
    config.metrics.mode = draft.metrics_mode.value_or(0600);
    const std::string metrics_group = draft.metrics_group.value_or("");
    if (const struct group* known = metrics_group.empty() ? nullptr : ::getgrnam(metrics_group.c_str())) {
        config.metrics.group = known->gr_gid;
    }
    return config;
}

std::string describe_keys() {
    std::string text;
    for (const Key& key : kKeys) {
        text += "  ";
        text += key.name;
        if (!key.unit.empty()) {
            text += " (";
            text += key.unit;
            text += ")";
        }
        text += "\n      ";
        text += key.meaning;
        text += "\n      allowed: ";
        text += key.allowed;
        text += "\n      default: ";
        text += key.default_text;
        text += "\n";
    }
    return text;
}

}  // namespace hurrayd
