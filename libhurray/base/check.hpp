#pragma once

#include <cstdio>
#include <cstdlib>

/// For our own bugs only: never on anything that a peer can influence.
///
/// `HURRAY_CHECK` is always on; `HURRAY_DCHECK` only in builds without NDEBUG.
namespace hurray::detail {

[[noreturn]] inline void check_failed(const char* condition, const char* file, int line) noexcept {
    std::fprintf(stderr, "%s:%d: HURRAY_CHECK failed: %s\n", file, line, condition);
    std::abort();
}

}  // namespace hurray::detail

// NOLINTNEXTLINE(cppcoreguidelines-macro-usage): file, line and the text of the condition
#define HURRAY_CHECK(condition) \
    ((condition) ? static_cast<void>(0) : ::hurray::detail::check_failed(#condition, __FILE__, __LINE__))

#ifdef NDEBUG
#define HURRAY_DCHECK(condition) static_cast<void>(sizeof(!(condition)))
#else
#define HURRAY_DCHECK(condition) HURRAY_CHECK(condition)
#endif
