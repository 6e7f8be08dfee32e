#include "daemon/metrics.hpp"

#include <array>
#include <charconv>

#include <dirent.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "daemon/version.hpp"
#include "libhurray/base/errc_name.hpp"

namespace hurrayd {
namespace {

using hurray::Errc;
using enum Exposition::Type;

/// What the daemon answers with in an ordinary life: there from the start, at 0, so that a rise from nothing shows in a rate.
constexpr std::array kExpectedErrors = {Errc::NotFound,        Errc::AlreadyExists, Errc::TimedOut, Errc::NotPermitted,
                                        Errc::OverQuota,       Errc::Limit,         Errc::Protocol, Errc::Unsupported,
                                        Errc::InvalidArgument, Errc::Closed};
constexpr auto kExpectedLimits = std::to_array<std::string_view>(
    {"limits.descriptors",     "quota.user.clients",        "quota.user.capsules",  "quota.user.names",
     "quota.user.leases",      "quota.user.waiting",        "quota.user.watches",   "quota.user.reservations",
     "quota.user.descriptors", "quota.user.stored",         "quota.user.bytes",     "quota.user.daemon_bytes",
     "quota.client.capsules",  "quota.client.leases",       "quota.client.waiting", "quota.client.watches",
     "quota.client.bytes",     "quota.client.daemon_bytes", "quota.bytes",          "store.max",
     "packet_bytes",           "descriptor_bytes",          "group_members",        "open_groups",
     "retained_versions"});

void append_number(std::string& text, auto number) {
    std::array<char, 32> digits{};
    text.append(digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr);
}

void append_escaped(std::string& text, std::string_view value, bool quotes_too) {
    for (const char c : value) {
        if (c == '\\' || (c == '"' && quotes_too)) {
            text += '\\';
            text += c;
        } else if (c == '\n') {
            text += "\\n";
        } else {
            text += c;
        }
    }
}

}  // namespace

void Traffic::count(const hurray::Error& error) {
    ++errors[error.code];
    if (!error.limit_name.empty()) {
        ++limits_reached[error.limit_name];
    }
}

// ---- The format -----------------------------------------------------------------------------------------------------

void Exposition::metric(std::string_view name, Type type, std::string_view help) {
    name_ = name;
    text_.append("# HELP ").append(name) += ' ';
    append_escaped(text_, help, false);
    text_.append("\n# TYPE ").append(name).append(type == Counter ? " counter\n" : " gauge\n");
}

void Exposition::begin_sample(Labels labels) {
    text_ += name_;
    char before = '{';
    for (const auto& [name, value] : labels) {
        text_ += std::exchange(before, ',');
        text_.append(name) += "=\"";
        append_escaped(text_, value, true);
        text_ += '"';
    }
    text_ += labels.size() != 0 ? "} " : " ";
}

void Exposition::sample(std::uint64_t value, Labels labels) {
    begin_sample(labels);
    append_number(text_, value);
    text_ += '\n';
}

void Exposition::sample(double value) {
    begin_sample({});
    append_number(text_, value);
    text_ += '\n';
}

// ---- What is told ---------------------------------------------------------------------------------------------------

std::string expose(const Metrics& metrics) {
    Exposition out;
    const auto one = [&out](std::string_view name, Exposition::Type type, std::string_view help, auto value) {
        out.metric(name, type, help);
        out.sample(value);
    };
    const Registry::Totals& totals = metrics.totals;
    const Registry::History& history = metrics.history;
    const Traffic& traffic = metrics.traffic;

    out.metric("hurray_build_info", Gauge, "Always 1; the labels say what runs.");
    out.sample(std::uint64_t{1},
               {{"version", kVersion}, {"protocol_version", std::to_string(wire::kProtocolVersionMax)}});
    one("hurray_start_time_seconds", Gauge, "When this hurrayd started, in seconds since 1970.", metrics.start_time);
    one("hurray_resume_window_seconds", Gauge,
        "How long clients of the hurrayd before may still bring back what they had, at most; 0: no more.",
        metrics.window_left);

    one("hurray_clients", Gauge, "Clients that have said Hello.", totals.clients);
    one("hurray_connections", Gauge, "Open connections, with those that have not said Hello yet.", metrics.connections);
    one("hurray_capsules", Gauge, "Capsules, retired ones that are still held included.", totals.capsules);
    one("hurray_staged_capsules", Gauge, "Of them, those in groups that have not been committed.", totals.staged);
    one("hurray_queued_capsules", Gauge, "Of the capsules, those that wait to be taken.", totals.queued);
    one("hurray_names", Gauge, "Names with a living version.", totals.names);
    one("hurray_segment_bytes", Gauge, "Size of the shared memory segments that are kept for producers and capsules.",
        totals.bytes);
    one("hurray_reserved_bytes", Gauge, "Size of the segments that are reserved and not published yet.",
        totals.reserved);
    one("hurray_reservations", Gauge, "Segments that are reserved and not published yet.", totals.reservations);
    one("hurray_leases", Gauge, "Leases that are open.", totals.leases);
    one("hurray_waiting_attaches", Gauge,
        "Attaches that wait for a capsule to come, and publishes that wait for the resume window to end.",
        totals.waiting);
    one("hurray_watches", Gauge, "Watches of names.", totals.watches);
    one("hurray_stored_descriptors", Gauge, "File descriptors in the service manager's store, of what lingers.",
        totals.stored);
    one("hurray_segment_descriptors", Gauge, "File descriptors of segments that are kept for producers and capsules.",
        totals.descriptors);
    one("hurray_kept_bytes", Gauge, "Memory that hurrayd spends on clients and all that it keeps for them.",
        totals.kept_bytes + totals.queued_bytes);
    one("hurray_queued_packets", Gauge, "Packets that wait until clients have read earlier ones.",
        metrics.queued_packets);
    one("hurray_queued_bytes", Gauge, "Bytes of the packets that wait.", metrics.queued_bytes);
    if (metrics.open_descriptors) {
        one("hurray_open_descriptors", Gauge, "File descriptors that hurrayd has open.", *metrics.open_descriptors);
    }
    one("hurray_max_descriptors", Gauge, "Most file descriptors that hurrayd may have open.", metrics.max_descriptors);

    out.metric("hurray_requests_total", Counter, "Requests, by kind; those that could not be read are errors alone.");
    for (std::size_t i = 0; i < metrics.requests.size(); ++i) {
        out.sample(metrics.requests[i], {{"request", wire::kRequestNames[i]}});
    }
    std::map<Errc, std::uint64_t> errors = traffic.errors;
    for (const Errc code : kExpectedErrors) {
        errors.try_emplace(code);
    }
    out.metric("hurray_errors_total", Counter, "Requests and connections that were refused, by status.");
    for (const auto& [code, count] : errors) {
        out.sample(count, {{"status", hurray::errc_name(code)}});
    }
    std::map<std::string_view, std::uint64_t> limits(traffic.limits_reached.begin(), traffic.limits_reached.end());
    for (const std::string_view limit : kExpectedLimits) {
        limits.try_emplace(limit);
    }
    out.metric("hurray_limit_refusals_total", Counter,
               "Of the errors, those because of a limit or quota, by its name.");
    for (const auto& [limit, count] : limits) {
        out.sample(count, {{"limit", limit}});
    }

    one("hurray_connections_accepted_total", Counter, "Connections that were taken.", traffic.accepted);
    one("hurray_connections_turned_away_total", Counter, "Connections that were refused for want of room.",
        traffic.turned_away);
    out.metric("hurray_connections_ended_total", Counter,
               "Connections that ended: left by the client or its death, or cut by hurrayd for a fault.");
    out.sample(traffic.left, {{"how", "left"}});
    out.sample(traffic.cut, {{"how", "cut"}});

    one("hurray_throttled_total", Counter, "Times that a client's requests waited for quota.client.request_rate.",
        traffic.throttled);

    one("hurray_capsules_published_total", Counter, "Capsules that were published.", history.published);
    one("hurray_leases_opened_total", Counter, "Leases that were opened.", history.leases_opened);
    out.metric("hurray_leases_ended_total", Counter,
               "Leases that ended: released by the client, or lost with its connection.");
    out.sample(history.leases_released, {{"how", "released"}});
    out.sample(history.leases_lost, {{"how", "lost"}});
    out.metric("hurray_takes_total", Counter,
               "Takes that were granted: confirmed, or put back since they ended without a confirm.");
    out.sample(history.taken, {{"how", "confirmed"}});
    out.sample(history.put_back, {{"how", "put_back"}});

    one("hurray_log_lines_suppressed_total", Counter, "Log lines about clients beyond what each user may cause.",
        metrics.log_lines_suppressed);
    one("hurray_log_lines_dropped_total", Counter, "Log lines for which the log had no room.",
        metrics.log_lines_dropped);
    return out.take();
}

std::optional<std::uint64_t> count_open_descriptors() {
    // Since Linux 6.2 the directory's size is their number, for which no descriptor is needed and no time.
    struct stat status{};
    if (::stat("/proc/self/fd", &status) != 0) {
        return std::nullopt;
    }
    if (status.st_size > 0) {
        return static_cast<std::uint64_t>(status.st_size);
    }
    DIR* const directory = ::opendir("/proc/self/fd");
    if (directory == nullptr) {
        return std::nullopt;
    }
    std::uint64_t entries = 0;
    while (::readdir(directory) != nullptr) {
        ++entries;
    }
    ::closedir(directory);
    return entries - 3;  // ".", ".." and the descriptor of the directory itself
}

std::uint64_t max_open_descriptors() {
    rlimit limit{};
    (void)::getrlimit(RLIMIT_NOFILE, &limit);
    return limit.rlim_cur;
}

}  // namespace hurrayd
