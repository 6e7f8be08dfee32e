#pragma once

#include <string_view>

#include "libhurray/base/result.hpp"

/// Names of capsules, and patterns of them.
///
/// Threads: every function may run on any thread.
namespace hurray::wire {

/// Whether `name` may name a capsule. Fails: InvalidArgument, naming `field` and the rule; Limit for more than 255
/// bytes.
[[nodiscard]] Result<void> check_name(std::string_view name, std::string_view field);

/// Whether `pattern` is a name, a prefix that ends in '/', or empty.
[[nodiscard]] Result<void> check_pattern(std::string_view pattern, std::string_view field);

/// Whether `name` matches a checked `pattern`: equal to it, or below the prefix, or the pattern is empty.
[[nodiscard]] bool matches(std::string_view pattern, std::string_view name) noexcept;

}  // namespace hurray::wire
