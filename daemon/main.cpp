#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>

#include "daemon/activation.hpp"
#include "daemon/asio.hpp"
#include "daemon/config.hpp"
#include "daemon/journal.hpp"
#include "daemon/log.hpp"
#include "daemon/metrics.hpp"
#include "daemon/metrics_server.hpp"
#include "daemon/notify_socket.hpp"
#include "daemon/server.hpp"
#include "daemon/service_manager.hpp"
#include "daemon/signals.hpp"
#include "daemon/status_line.hpp"
#include "daemon/version.hpp"

namespace {

constexpr int kExitRefused = 1;
constexpr int kExitUsage = 2;

/// Every client and every large segment costs a descriptor: takes as many as the system lets us, or `cap`.
void raise_descriptor_limit(std::uint64_t cap) {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        return;
    }
    limit.rlim_cur = cap != 0 && cap < limit.rlim_max ? cap : limit.rlim_max;
    (void)::setrlimit(RLIMIT_NOFILE, &limit);
}

/// Where what lingers is kept, if there is such a place: a service manager that keeps up to `store_max` descriptors.
std::optional<hurrayd::Keeping> keep_with(const hurrayd::NotifySocket& manager, std::uint64_t store_max,
                                          std::vector<hurrayd::store::HandedOver> from_before,
                                          hurrayd::ServerLimits& limits) {
    namespace log = hurrayd::log;
    constexpr std::uint64_t kOwn = hurrayd::store::Keeper::kOwnEntries;
    if (manager.is_there() && store_max > kOwn) {
        limits.quotas.all_stored = store_max - kOwn;
        return hurrayd::Keeping{manager, std::move(from_before)};
    }
    if (!from_before.empty()) {
        log::warning("store_unused",
                     {{"store.max", store_max},
                      {"entries", from_before.size()},
                      {"effect", "what a hurrayd before has kept is gone, and nothing outlives this one"}});
    }
    return std::nullopt;
}

int serve(const hurrayd::Config& config) {
    namespace log = hurrayd::log;
    log::set_level(config.log_level);
    std::optional<hurrayd::Journal> journal = hurrayd::Journal::behind(STDERR_FILENO);
    log::use_journal(journal ? &*journal : nullptr);
    raise_descriptor_limit(config.descriptors);
    std::signal(SIGPIPE, SIG_IGN);  // whoever reads our log may leave before us

    auto activation = hurrayd::take_activation();
    if (!activation) {
        log::error("start_failed", {{"reason", activation.error().message}});
        return kExitRefused;
    }
    std::optional<hurrayd::ActivatedListener> handed_over = std::move(activation->listener);
    const std::string path = handed_over ? handed_over->path : config.socket.path;
    if (path != config.socket.path) {
        log::warning("socket_path_unused", {{"configured", config.socket.path}, {"serving", path}});
    }

    hurrayd::asio::io_context io(1);  // one thread: Asio need not lock
    const hurrayd::NotifySocket notify;
    hurrayd::ServerLimits limits = config.limits;
    std::optional<hurrayd::Keeping> keeping =
        keep_with(notify, config.store_max, std::move(activation->stored), limits);
    const std::uint64_t kept = keeping ? config.store_max : 0;
    auto server = handed_over ? hurrayd::Server::adopt(io, std::move(handed_over->socket), limits, std::move(keeping))
                              : hurrayd::Server::open(io, config.socket, limits, std::move(keeping));
    if (!server) {
        log::error("start_failed", {{"reason", server.error().message}});
        return kExitRefused;
    }
    std::unique_ptr<hurrayd::MetricsServer> metrics;
    if (!config.metrics.path.empty()) {
        auto opened = hurrayd::MetricsServer::open(io, config.metrics,
                                                   [&server] { return hurrayd::expose((*server)->metrics()); });
        if (opened) {
            metrics = std::move(*opened);
        } else if (config.metrics.is_explicit) {
            log::error("start_failed", {{"reason", opened.error().message}});
            return kExitRefused;
        } else {
            // Nobody asked for it: no reason not to serve.
            log::warning("no_metrics", {{"reason", opened.error().message}});
        }
    }
    hurrayd::ServiceManager manager(io, notify, [&server] { return hurrayd::status_line((*server)->held()); });
    auto signals = hurrayd::Signals::wait(io, [&server, &metrics, &manager](int signal) {
        log::info("stopping", {{"signal", signal}});
        manager.stopping();
        (*server)->stop();
        if (metrics) {
            metrics->stop();
        }
    });
    if (!signals) {
        log::error("start_failed", {{"reason", signals.error().message}});
        return kExitRefused;
    }
    (*server)->on_step([&manager] { manager.touch(); });
    log::info("serving", {{"socket", path},
                          {"made_by", handed_over ? "service manager" : "hurrayd"},
                          {"metrics", metrics ? config.metrics.path : ""},
                          {"store", kept},
                          {"version", hurrayd::kVersion}});
    manager.ready();
    try {
        io.run();
    } catch (const std::exception& failure) {
        // Most likely out of memory, in the middle of a change. Nothing is taken apart: the state can't be trusted, and the
        // socket that stays is taken over by the next start.
        try {
            log::error("failed", {{"reason", failure.what()}});
        } catch (const std::exception&) {  // not even memory for that
        }
        std::_Exit(kExitRefused);
    }
    log::info("ended", {});
    log::use_journal(nullptr);
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    try {
        CLI::App app{"hurrayd: introduces processes that share tensors to each other, on one host.", "hurrayd"};
        hurrayd::CommandLine line;
        app.add_option("--socket", line.socket, "Where clients connect (over socket.path and $HURRAY_SOCKET)");
        app.add_option(
            "--config", line.config_file,
            std::string("Configuration file in TOML (default: ") + hurrayd::kDefaultConfigFile + ", if it is there)");
        app.add_option("--log-level", line.log_level, "debug, info, warning or error (over log.level)");
        app.set_version_flag("--version", "hurrayd " + std::string(hurrayd::kVersion));
        app.footer(
            "Keys of the configuration file, up to the last dot the table: quota.user.leases is `leases` under "
            "[quota.user].\n" +
            hurrayd::describe_keys() +
            "\nEnvironment: HURRAY_SOCKET (over the file). From a service manager: LISTEN_FDS, LISTEN_PID (a socket\n"
            "that listens already, in place of the configured one), NOTIFY_SOCKET (told when clients are served,\n"
            "and of what is held), WATCHDOG_USEC (how often a sign of life is due), FDSTORE (how many descriptors it\n"
            "keeps, see store.max), LISTEN_FDNAMES.\n"
            "Signals: SIGTERM and SIGINT end it cleanly.\n"
            "Exit codes: 0 ended by a signal, 1 can't serve, 2 wrong usage or configuration.");
        try {
            app.parse(argc, argv);
        } catch (const CLI::ParseError& said) {
            return app.exit(said) == 0 ? 0 : kExitUsage;
        }
        const auto config = hurrayd::load_config(line, hurrayd::Environment::current());
        if (!config) {
            std::cerr << "hurrayd: " << config.error().message << '\n';
            return kExitUsage;
        }
        return serve(*config);
    } catch (const std::exception& failure) {
        std::cerr << "hurrayd: " << failure.what() << '\n';
        return kExitRefused;
    }
}
