#pragma once

#include <string>
#include <string_view>

#include "libhurray/base/result.hpp"

/// What may be a name, a pattern, a text: the protocol's rules for bytes that people read.
///
/// Threads: every function may run on any thread.
namespace hurray::wire {

/// UTF-8 without control characters. Bad bytes are named by their number, never shown.
[[nodiscard]] Result<void> check_text(std::string_view text, std::string_view thing, std::string_view field);

/// `text` with '?' for each byte that is not UTF-8 and for each control character: fit for a person's
/// terminal, whoever wrote it.
[[nodiscard]] std::string printable(std::string_view text);

/// Whether `name` may name a capsule. Fails: InvalidArgument, naming `field` and the rule; Limit for more than 255
/// bytes.
[[nodiscard]] Result<void> check_name(std::string_view name, std::string_view field);

/// Whether `pattern` is a name, a prefix that ends in '/', or empty.
[[nodiscard]] Result<void> check_pattern(std::string_view pattern, std::string_view field);

/// Whether `name` matches a checked `pattern`: equal to it, or below the prefix, or the pattern is empty.
[[nodiscard]] bool matches(std::string_view pattern, std::string_view name) noexcept;

}  // namespace hurray::wire
