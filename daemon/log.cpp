#include "daemon/log.hpp"

#include <atomic>
#include <memory>
#include <mutex>

#include <unistd.h>

#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>

#include "daemon/journal.hpp"

namespace hurrayd::log {
namespace {

std::atomic<std::uint64_t> dropped_lines{0};
Journal* the_journal = nullptr;

class StderrSink final : public spdlog::sinks::base_sink<std::mutex> {
  protected:
    void sink_it_(const spdlog::details::log_msg& message) override {
        spdlog::memory_buf_t line;
        formatter_->format(message, line);
        if (!write_or_drop(STDERR_FILENO, {line.data(), line.size()})) {
            ++dropped_lines;
        }
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

}  // namespace

void set_level(Level level) { logger().set_level(to_spdlog(level)); }

bool is_enabled(Level level) { return logger().should_log(to_spdlog(level)); }

void use_journal(Journal* journal) { the_journal = journal; }

std::uint64_t dropped() noexcept { return dropped_lines; }

void write(Level level, std::string_view event, std::span<const Field> fields) {
    if (!is_enabled(level)) {
        return;
    }
    const std::string line = hurray::log_line(event, fields);
    if (the_journal != nullptr) {
        switch (the_journal->send(level, line, event, fields)) {
            case Journal::Sent::Done:
                return;
            case Journal::Sent::NoRoom:
                ++dropped_lines;
                return;
            case Journal::Sent::NobodyThere:
                break;  // stderr leads to the same journal, once that is there again
        }
    }
    logger().log(to_spdlog(level), spdlog::string_view_t(line.data(), line.size()));
}

}  // namespace hurrayd::log
