#pragma once

#include <string_view>

namespace hurrayd {

/// What --version prints and StatusReply says. HURRAY_VERSION comes from the build.
inline constexpr std::string_view kVersion = HURRAY_VERSION;

}  // namespace hurrayd
