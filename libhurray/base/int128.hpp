#pragma once

#include <cstdint>
#include <optional>

/// Integers of 128 bits, in which sums and products of 64-bit numbers are exact.
namespace hurray {

__extension__ using Int128 = __int128;
__extension__ using UInt128 = unsigned __int128;

/// How many bits `value` has up to its highest one; 0 for 0.
[[nodiscard]] constexpr std::uint32_t bit_length(UInt128 value) noexcept {
    std::uint32_t length = 0;
    for (std::uint32_t step = 64; step > 0; step /= 2) {
        if (value >> step != 0) {
            value >>= step;
            length += step;
        }
    }
    return length + static_cast<std::uint32_t>(value);
}

/// The lowest `count` bits set; `count` is up to 128.
[[nodiscard]] constexpr UInt128 low_bits(std::uint32_t count) noexcept {
    return count >= 128 ? ~UInt128{0} : (UInt128{1} << count) - 1;
}

/// Rounded toward minus infinity; `divisor` is above 0.
[[nodiscard]] constexpr Int128 floor_divide(Int128 value, Int128 divisor) noexcept {
    const Int128 quotient = value / divisor;
    return value % divisor < 0 ? quotient - 1 : quotient;
}

[[nodiscard]] constexpr std::optional<Int128> checked_add_wide(Int128 a, Int128 b) noexcept {
    Int128 result = 0;
    return __builtin_add_overflow(a, b, &result) ? std::nullopt : std::optional(result);
}

[[nodiscard]] constexpr std::optional<Int128> checked_mul_wide(Int128 a, Int128 b) noexcept {
    Int128 result = 0;
    return __builtin_mul_overflow(a, b, &result) ? std::nullopt : std::optional(result);
}

}  // namespace hurray
