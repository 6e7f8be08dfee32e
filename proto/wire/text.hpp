#pragma once

#include <string>
#include <string_view>

#include "libhurray/base/result.hpp"

/// Text that somebody else wrote. For the codec's own files.
namespace hurray::wire {

/// Whether `text` is UTF-8 without control characters. Bad bytes are named by their number, never shown.
///
/// Fails: InvalidArgument, naming `field` and calling the text `thing`
[[nodiscard]] Result<void> check_text(std::string_view text, std::string_view thing, std::string_view field);

/// `text` with '?' for each byte that is not UTF-8 and for each control character: fit for a protobuf string and a
/// person's terminal, whoever wrote it.
[[nodiscard]] std::string printable(std::string_view text);

}  // namespace hurray::wire
