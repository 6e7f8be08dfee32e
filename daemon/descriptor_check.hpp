#pragma once

#include <string_view>
#include <vector>

#include "libhurray/base/result.hpp"
#include "proto/wire/segment_check.hpp"

namespace hurrayd {

/// Checks an encoded tensor descriptor strictly (well-formed, sensible by hurray::ValidationRules::Sharing, nothing behind
/// its end, all buffers in CPU memory) and returns its buffer table: what `wire::check_placements` needs.
///
/// Fails: InvalidArgument  a rule of the format is broken
///        Unsupported      another device than the CPU
/// The error's field begins with `field`.
[[nodiscard]] hurray::Result<std::vector<hurray::wire::BufferExtent>> check_descriptor(std::string_view encoded,
                                                                                       std::string_view field);

}  // namespace hurrayd
