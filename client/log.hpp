#pragma once

#include <atomic>
#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "libhurray/base/log_line.hpp"

/// What the client library says on stderr, for who looks for a fault: nothing, unless $HURRAY_LOG names a level.
///
/// Lines are `time level=… lib=hurray-client pid=… event=… key=value …`, each in one piece, and dropped where stderr has no
/// room: a log that nobody reads stops no program. Off costs one load of an atomic where something could be said; nothing
/// is put together before.
///
/// Threads: any.
namespace hurray::client::log {

enum class Level : std::uint8_t {
    Off,
    Error,    ///< the connection was lost or ended, or what came from the daemon was not sound
    Warning,  ///< a call failed, or a capsule was not taken back, for a reason that the program may not expect
    Info,     ///< connected, back, and closed
    Debug,    ///< where a daemon is looked for, each request and how it was answered, ordinary failures
};

using Field = LogField;

namespace detail {
inline std::atomic<Level> level{Level::Off};
}

[[nodiscard]] inline bool is_enabled(Level level) noexcept {
    return level <= detail::level.load(std::memory_order_relaxed);
}

/// Takes the level from the environment; called whenever a client connects. A level that does not exist is told of on stderr,
/// and leaves the log off.
void read_environment() noexcept;

/// Writes a line if `level` is enabled. Changes no errno. Ask `is_enabled` first where a field costs something.
void write(Level level, std::string_view event, std::initializer_list<Field> fields) noexcept;

}  // namespace hurray::client::log
