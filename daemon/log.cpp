#include "daemon/log.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <mutex>

#include <poll.h>
#include <unistd.h>

#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>

namespace hurrayd::log {
namespace {

class StderrSink final : public spdlog::sinks::base_sink<std::mutex> {
  protected:
    void sink_it_(const spdlog::details::log_msg& message) override {
        spdlog::memory_buf_t line;
        formatter_->format(message, line);
        (void)write_or_drop(STDERR_FILENO, {line.data(), line.size()});
    }
    void flush_() override {}
};

spdlog::logger& logger() {
    static const std::shared_ptr<spdlog::logger> instance = [] {
        auto made = std::make_shared<spdlog::logger>("hurrayd", std::make_shared<StderrSink>());
        made->set_pattern("%Y-%m-%dT%H:%M:%S.%e%z level=%l %v");
        return made;
    }();
    return *instance;
}

spdlog::level::level_enum to_spdlog(Level level) {
    switch (level) {
        case Level::Debug:
            return spdlog::level::debug;
        case Level::Info:
            return spdlog::level::info;
        case Level::Warning:
            return spdlog::level::warn;
        case Level::Error:
            return spdlog::level::err;
    }
    return spdlog::level::info;
}

bool is_plain(char c) { return c > ' ' && c < '\x7f' && c != '"' && c != '\\' && c != '='; }

}  // namespace

bool write_or_drop(int fd, std::string_view line) noexcept {
    constexpr std::size_t kMostBytes = 4096;  // PIPE_BUF
    pollfd room{fd, POLLOUT, 0};
    if (::poll(&room, 1, 0) != 1 || (room.revents & POLLOUT) == 0) {
        return false;
    }
    const std::size_t size = std::min(line.size(), kMostBytes);
    return ::write(fd, line.data(), size) == static_cast<ssize_t>(size);
}

void set_level(Level level) { logger().set_level(to_spdlog(level)); }

std::string as_value(std::string_view text) {
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

void write(Level level, std::string_view event, std::initializer_list<Field> fields) {
    if (!logger().should_log(to_spdlog(level))) {
        return;
    }
    std::string line = "event=";
    line += event;
    for (const Field& field : fields) {
        line += ' ';
        line += field.key;
        line += '=';
        line += as_value(field.value);
    }
    logger().log(to_spdlog(level), spdlog::string_view_t(line.data(), line.size()));
}

}  // namespace hurrayd::log
