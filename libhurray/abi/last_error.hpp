#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "hurray.h"

#include "libhurray/base/result.hpp"
#include "libhurray/format/descriptor_error.hpp"

/// The thread's last message, and the ways in which this library's functions fail.
///
/// Each fail function sets the message and returns the status, so that a caller writes `return fail(...)`.
namespace hurray::abi {

/// Copies what fits; never allocates.
void set_last_error(std::string_view message) noexcept;

/// "`function`: `what`".
[[nodiscard]] HurrayStatus fail(HurrayStatus status, const char* function, std::string_view what) noexcept;

/// A required pointer is null.
[[nodiscard]] HurrayStatus fail_null(const char* function, const char* argument) noexcept;

/// Whether a required argument is there, and its name.
struct Required {
    bool is_there;
    const char* argument;
};
/// As fail_null for the first that is not there; HURRAY_OK if all are.
[[nodiscard]] HurrayStatus require(const char* function, std::initializer_list<Required> arguments) noexcept;

/// An array of `capacity` entries is too short for `needed`, or null.
[[nodiscard]] HurrayStatus fail_too_small(const char* function, const char* array, std::uint64_t capacity,
                                          std::uint64_t needed) noexcept;

/// A descriptor, or the arguments for one, are wrong. May throw std::bad_alloc: call inside guard().
[[nodiscard]] HurrayStatus fail(const char* function, const DescriptorError& error);

/// A layer below said no.
[[nodiscard]] inline HurrayStatus fail(const char* function, const Error& error) noexcept {
    return fail(static_cast<HurrayStatus>(error.code), function, error.message);
}

}  // namespace hurray::abi
