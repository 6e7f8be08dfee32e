#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include <poll.h>
#include <unistd.h>

/// What the log lines of the daemon and of the client library have in common: `event=… key=value …`.
namespace hurray {

/// `text` as a value of a line: as it is if that is unambiguous, else quoted, with everything but printable ASCII escaped. So
/// nobody whose words are logged can forge a line or reach a terminal.
[[nodiscard]] inline std::string as_log_value(std::string_view text) {
    const auto is_plain = [](char c) { return c > ' ' && c < '\x7f' && c != '"' && c != '\\' && c != '='; };
    if (!text.empty() && std::all_of(text.begin(), text.end(), is_plain)) {
        return std::string(text);
    }
    constexpr std::array<char, 17> kDigits{"0123456789abcdef"};
    std::string quoted = "\"";
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if (c == '"' || c == '\\') {
            quoted += '\\';
            quoted += c;
        } else if (byte >= 0x20 && byte < 0x7f) {
            quoted += c;
        } else {
            quoted += "\\x";
            quoted += kDigits[byte >> 4];
            quoted += kDigits[byte & 15];
        }
    }
    return quoted += '"';
}

/// One `key=value`. The key is a loan.
struct LogField {
    LogField(std::string_view name, std::string_view text) : key(name), value(text) {}
    LogField(std::string_view name, const char* text) : key(name), value(text) {}
    LogField(std::string_view name, const std::string& text) : key(name), value(text) {}
    LogField(std::string_view name, std::integral auto number) : key(name), value(std::to_string(number)) {}
    std::string_view key;
    std::string value;
};

/// `event=… key=value …`, without an end of the line.
[[nodiscard]] inline std::string log_line(std::string_view event, std::span<const LogField> fields) {
    std::string line = "event=";
    line += event;
    for (const LogField& field : fields) {
        line += ' ';
        line += field.key;
        line += '=';
        line += as_log_value(field.value);
    }
    return line;
}

/// Writes `line` to `fd` if that is possible without waiting; only the first 4096 bytes, for which a pipe has room or not
/// as a whole. `fd` may be shared with other programs, so its O_NONBLOCK is left alone.
inline bool write_or_drop(int fd, std::string_view line) noexcept {
    constexpr std::size_t kMostBytes = 4096;  // PIPE_BUF
    pollfd room{fd, POLLOUT, 0};
    if (::poll(&room, 1, 0) != 1 || (room.revents & POLLOUT) == 0) {
        return false;
    }
    const std::size_t size = std::min(line.size(), kMostBytes);
    return ::write(fd, line.data(), size) == static_cast<ssize_t>(size);
}

}  // namespace hurray
