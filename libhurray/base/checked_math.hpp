#pragma once

#include <concepts>
#include <cstdint>
#include <optional>

/// Arithmetic on numbers that somebody else chose. Nothing here wraps.
namespace hurray {

template <std::integral T>
[[nodiscard]] constexpr std::optional<T> checked_add(T a, T b) noexcept {
    T result{};
    if (__builtin_add_overflow(a, b, &result)) {
        return std::nullopt;
    }
    return result;
}

template <std::integral T>
[[nodiscard]] constexpr std::optional<T> checked_mul(T a, T b) noexcept {
    T result{};
    if (__builtin_mul_overflow(a, b, &result)) {
        return std::nullopt;
    }
    return result;
}

/// `value` rounded up to a multiple of `alignment`, a power of two.
[[nodiscard]] constexpr std::optional<std::uint64_t> checked_align_up(std::uint64_t value,
                                                                      std::uint64_t alignment) noexcept {
    const auto sum = checked_add(value, alignment - 1);
    if (!sum) {
        return std::nullopt;
    }
    return *sum & ~(alignment - 1);
}

/// Whether the `length` bytes at `offset` lie inside `size` bytes.
[[nodiscard]] constexpr bool range_fits(std::uint64_t offset, std::uint64_t length, std::uint64_t size) noexcept {
    return offset <= size && length <= size - offset;
}

}  // namespace hurray
