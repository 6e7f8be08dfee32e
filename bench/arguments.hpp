#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

namespace bench {

/// Reads arguments of the form `--name N`, N above 0, into what is known. `--help` prints `usage` and ends the process with 0; what is
/// not known, or no such number, with 2.
void read_counts(int argc, char** argv, std::span<const std::pair<std::string_view, std::uint64_t*>> known,
                 const char* usage);

}  // namespace bench
