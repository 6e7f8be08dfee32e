#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "libhurray/base/log_line.hpp"

/// Structured lines: `event=… key=value key="value with spaces"` on stderr, or fields in the systemd journal. What peers wrote
/// goes through here only as a value, with everything but printable ASCII escaped, so that no peer can forge a line or reach
/// a terminal. No line holds what a capsule is called, or what is in it.
///
/// Nothing is logged for each request. A line for which there is no room is dropped and counted: nobody who stops reading the
/// log can stop the daemon.
namespace hurrayd {

class Journal;

namespace log {

enum class Level { Debug, Info, Warning, Error };

using Field = hurray::LogField;

/// Writes lines from `level` upwards. Before the first call: from Info on.
void set_level(Level level);
[[nodiscard]] bool is_enabled(Level level);

/// Where lines go from now on: into `journal` (a loan until the next call), or to stderr if it is null.
void use_journal(Journal* journal);

void write(Level level, std::string_view event, std::span<const Field> fields);
inline void write(Level level, std::string_view event, std::initializer_list<Field> fields) {
    write(level, event, std::span(fields.begin(), fields.size()));
}

inline void debug(std::string_view event, std::initializer_list<Field> fields) { write(Level::Debug, event, fields); }
inline void info(std::string_view event, std::initializer_list<Field> fields) { write(Level::Info, event, fields); }
inline void warning(std::string_view event, std::initializer_list<Field> fields) {
    write(Level::Warning, event, fields);
}
inline void error(std::string_view event, std::initializer_list<Field> fields) { write(Level::Error, event, fields); }

/// Lines that were dropped since the start, because there was no room for them.
[[nodiscard]] std::uint64_t dropped() noexcept;

using hurray::write_or_drop;

/// `text` as a value of a line: as it is if that is unambiguous, else quoted and escaped.
[[nodiscard]] inline std::string as_value(std::string_view text) { return hurray::as_log_value(text); }

}  // namespace log
}  // namespace hurrayd
