#pragma once

#include <concepts>
#include <initializer_list>
#include <string>
#include <string_view>

/// Structured lines on stderr: `event key=value key="value with spaces"`. What peers wrote goes through here only as a
/// value, with everything but printable ASCII escaped, so that no peer can forge a line or reach a terminal.
///
/// Nothing is logged for each request. A line for which stderr has no room is dropped: nobody who stops reading the log can
/// stop the daemon.
namespace hurrayd::log {

enum class Level { Debug, Info, Warning, Error };

struct Field {
    Field(std::string_view name, std::string_view text) : key(name), value(text) {}
    Field(std::string_view name, const char* text) : key(name), value(text) {}
    Field(std::string_view name, const std::string& text) : key(name), value(text) {}
    Field(std::string_view name, std::integral auto number) : key(name), value(std::to_string(number)) {}
    std::string_view key;
    std::string value;
};

/// Writes lines from `level` upwards. Before the first call: from Info on.
void set_level(Level level);

void write(Level level, std::string_view event, std::initializer_list<Field> fields);

inline void debug(std::string_view event, std::initializer_list<Field> fields) { write(Level::Debug, event, fields); }
inline void info(std::string_view event, std::initializer_list<Field> fields) { write(Level::Info, event, fields); }
inline void warning(std::string_view event, std::initializer_list<Field> fields) {
    write(Level::Warning, event, fields);
}
inline void error(std::string_view event, std::initializer_list<Field> fields) { write(Level::Error, event, fields); }

/// Writes `line` to `fd` if that is possible without waiting; only the first 4096 bytes, for which a pipe has room or not
/// as a whole. `fd` may be shared with other programs, so its O_NONBLOCK is left alone.
bool write_or_drop(int fd, std::string_view line) noexcept;

/// `text` as a value of a line: as it is if that is unambiguous, else quoted and escaped.
[[nodiscard]] std::string as_value(std::string_view text);

}  // namespace hurrayd::log
