#pragma once

namespace hurray::test {

/// Whether this is built with the address sanitizer (in the presets with the undefined behaviour sanitizer beside it).
#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kIsSanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
inline constexpr bool kIsSanitized = true;
#else
inline constexpr bool kIsSanitized = false;
#endif
#else
inline constexpr bool kIsSanitized = false;
#endif

/// Whether this is built with the thread sanitizer.
#if defined(__SANITIZE_THREAD__)
inline constexpr bool kIsThreadSanitized = true;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
inline constexpr bool kIsThreadSanitized = true;
#else
inline constexpr bool kIsThreadSanitized = false;
#endif
#else
inline constexpr bool kIsThreadSanitized = false;
#endif

/// Why tests that use up the descriptors of their process are skipped then.
inline constexpr const char* kNoDescriptorsLeftNote =
    "the undefined behaviour sanitizer opens a pipe to look at an object's type, and reports a false one when no "
    "descriptor is left";

/// Why tests that fork while other threads allocate are skipped then.
inline constexpr const char* kNoForkBesideThreadsNote =
    "the address sanitizer of gcc 12 does not take its allocator's locks over a fork: a child may wait for ever for a "
    "lock of a thread that it does not have";

}  // namespace hurray::test
