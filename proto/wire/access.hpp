#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "libhurray/base/result.hpp"
#include "proto/wire/messages.hpp"

/// Who may do what with a capsule: a group and a mode, as of a file.
///
/// Threads: every function may run on any thread.
namespace hurray::wire {

/// Whether `mode` says only what can be granted: reading (attach, list, watch) and writing (replace, withdraw).
/// Fails: InvalidArgument, naming `field`
[[nodiscard]] Result<void> check_mode(std::uint32_t mode, std::string_view field);

/// "0640".
[[nodiscard]] std::string mode_text(std::uint32_t mode);

/// "group 44 and mode 0640", or "the publisher's group and mode 0640".
[[nodiscard]] std::string access_text(const Access& access);

}  // namespace hurray::wire
