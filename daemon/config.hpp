#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/log.hpp"
#include "daemon/metrics_server.hpp"
#include "daemon/server.hpp"
#include "libhurray/base/result.hpp"

namespace hurrayd {

/// What the daemon runs with. Read once, at the start.
struct Config {
    SocketOptions socket;
    MetricsOptions metrics;
    log::Level log_level = log::Level::Info;
    /// Most descriptors to have open; 0: as many as the system lets us.
    std::uint64_t descriptors = 0;
    ServerLimits limits;
    /// Descriptors that the service manager keeps for this daemon; 0: none.
    std::uint64_t store_max = 0;
};

inline constexpr const char* kDefaultConfigFile = "/etc/hurray/hurrayd.toml";

/// What the environment has to say.
struct Environment {
    bool is_system = false;  ///< run by root or by the user hurray
    std::optional<std::string> runtime_dir;
    std::optional<std::string> socket;
    std::optional<std::string> fd_store = {};  ///< how many descriptors the service manager keeps, as it says

    [[nodiscard]] static Environment current();
};

/// What the command line has to say.
struct CommandLine {
    std::optional<std::string> config_file;
    std::optional<std::string> socket;
    std::optional<std::string> log_level;
};

/// Where metrics are to be had if nothing else is said: /run/hurray/hurrayd-metrics.sock for /run/hurray/hurrayd.sock.
/// hurrayctl follows the same rule.
[[nodiscard]] std::string metrics_path_beside(std::string_view socket_path);

/// Puts the configuration together: defaults < file < environment < command line. Without `config_file` the default file
/// is read if it is there.
///
/// Fails: InvalidArgument  the message names file, line and key, what is there, and what is allowed
[[nodiscard]] hurray::Result<Config> load_config(const CommandLine& line, const Environment& environment);

/// The table of keys, as --help prints it.
[[nodiscard]] std::string describe_keys();

}  // namespace hurrayd
