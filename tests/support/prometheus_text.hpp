#pragma once

#include <map>
#include <string>
#include <string_view>

namespace hurray::test {

/// Samples by name and labels as written, such as `hurray_requests_total{request="hello"}`.
using Samples = std::map<std::string, double>;

/// Reads Prometheus' text format, version 0.0.4, and is as strict as its documentation and `promtool check metrics` together:
/// each metric has HELP and TYPE, once, in that order, right before all its samples; names and labels are spelled as they
/// must be; a counter's name ends in _total and no other's does; nothing comes twice; every line ends.
///
/// Throws std::runtime_error that names the line.
[[nodiscard]] Samples read_prometheus_text(std::string_view text);

/// Sends `request` to the Unix stream socket at `path`; everything that comes until its end. Throws std::runtime_error.
[[nodiscard]] std::string ask_http(const std::string& path, std::string_view request);

/// The metrics that are served at `path`, whose head and length have been checked too.
[[nodiscard]] Samples scrape(const std::string& path);

}  // namespace hurray::test
