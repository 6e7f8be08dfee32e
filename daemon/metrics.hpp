#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "daemon/dispatcher.hpp"
#include "daemon/registry.hpp"
#include "libhurray/base/result.hpp"

namespace hurrayd {

/// What has happened since the start at the edge of the daemon. Plain numbers, counted up where it happens.
struct Traffic {
    std::map<hurray::Errc, std::uint64_t> errors;                      ///< answered with an Error, or cut with one
    std::map<std::string, std::uint64_t, std::less<>> limits_reached;  ///< of those, by the limit that they name

    std::uint64_t accepted = 0;     ///< connections
    std::uint64_t turned_away = 0;  ///< told at once that there is no room
    std::uint64_t left = 0;         ///< connections that the client ended, or its death
    std::uint64_t cut = 0;          ///< by the daemon, for a fault of the client's
    std::uint64_t throttled = 0;    ///< times that a client had to wait until more of its requests were read

    void count(const hurray::Error& error);
};

/// The daemon between two steps, as much as is told about it.
struct Metrics {
    Registry::Totals totals;
    Registry::History history;
    const Dispatcher::Requests& requests;
    const Traffic& traffic;
    std::uint64_t connections = 0;  ///< greeted or not
    std::uint64_t queued_packets = 0;
    std::uint64_t queued_bytes = 0;
    std::uint64_t log_lines_suppressed = 0;
    std::uint64_t log_lines_dropped = 0;
    std::optional<std::uint64_t> open_descriptors;  ///< empty where the kernel does not tell
    std::uint64_t max_descriptors = 0;
    double start_time = 0;   ///< seconds since 1970
    double window_left = 0;  ///< of the resume window, seconds
};

/// Writes metrics in Prometheus' text format, version 0.0.4.
class Exposition {
  public:
    enum class Type { Gauge, Counter };
    using Labels = std::initializer_list<std::pair<std::string_view, std::string_view>>;

    /// Begins a metric; its samples come next. A counter's name ends in `_total`.
    void metric(std::string_view name, Type type, std::string_view help);
    void sample(std::uint64_t value, Labels labels = {});
    void sample(double value);
    [[nodiscard]] std::string take() { return std::move(text_); }

  private:
    void begin_sample(Labels labels);
    std::string text_;
    std::string name_;
};

/// All of it as text. No label says who a user is or what a capsule is called: the numbers are of all users together.
[[nodiscard]] std::string expose(const Metrics& metrics);

/// How many descriptors this process has open; empty if that can't be found out.
[[nodiscard]] std::optional<std::uint64_t> count_open_descriptors();

/// The process's soft limit on descriptors.
[[nodiscard]] std::uint64_t max_open_descriptors();

}  // namespace hurrayd
