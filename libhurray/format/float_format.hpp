#pragma once

#include <cstdint>
#include <optional>

#include "libhurray/base/int128.hpp"

namespace hurray {

/// A binary floating-point format of up to 128 bits: the sign is the top bit, then the exponent, then the mantissa.
///
/// A code with exponent field 0 is a subnormal (or zero), mantissa/2^mantissa_bits times 2^(1 - bias); every other one is
/// (1 + mantissa/2^mantissa_bits) times 2^(exponent - bias), but for the codes that `specials` takes away.
struct FloatFormat {
    enum class Specials : std::uint8_t {
        None,     // every code is a finite number
        NanOnly,  // all bits set below the sign: NaN; no infinity
        Ieee,     // highest exponent: infinity with mantissa 0, NaN with any other
    };

    std::uint32_t sign_bits = 1;      // 0 or 1
    std::uint32_t exponent_bits = 0;  // 1 to 30
    std::uint32_t mantissa_bits = 0;  // 0 to 112
    std::uint32_t bias = 0;
    Specials specials = Specials::Ieee;

    [[nodiscard]] constexpr std::uint32_t bits() const noexcept { return sign_bits + exponent_bits + mantissa_bits; }
};

inline constexpr FloatFormat kFloat16Format{1, 5, 10, 15, FloatFormat::Specials::Ieee};
inline constexpr FloatFormat kBFloat16Format{1, 8, 7, 127, FloatFormat::Specials::Ieee};
inline constexpr FloatFormat kFloat32Format{1, 8, 23, 127, FloatFormat::Specials::Ieee};
inline constexpr FloatFormat kFloat64Format{1, 11, 52, 1023, FloatFormat::Specials::Ieee};
inline constexpr FloatFormat kFloat128Format{1, 15, 112, 16383, FloatFormat::Specials::Ieee};
inline constexpr FloatFormat kFloat8E4M3Format{1, 4, 3, 7, FloatFormat::Specials::NanOnly};
inline constexpr FloatFormat kFloat8E5M2Format{1, 5, 2, 15, FloatFormat::Specials::Ieee};
inline constexpr FloatFormat kFloat8E8M0Format{0, 8, 0, 127, FloatFormat::Specials::None};
inline constexpr FloatFormat kFloat4E2M1Format{1, 2, 1, 1, FloatFormat::Specials::None};
inline constexpr FloatFormat kFloat6E2M3Format{1, 2, 3, 1, FloatFormat::Specials::None};
inline constexpr FloatFormat kFloat6E3M2Format{1, 3, 2, 3, FloatFormat::Specials::None};

/// What a code stands for, without rounding.
struct FloatNumber {
    enum class Kind : std::uint8_t { Finite, Infinite, Nan };

    Kind kind = Kind::Finite;
    bool negative = false;
    UInt128 significand = 0;    // Finite: the number is significand times 2^exponent. Nan: its mantissa, in 112 bits
    std::int64_t exponent = 0;  // Finite only
};

[[nodiscard]] FloatNumber decode_float(const FloatFormat& format, UInt128 code) noexcept;

/// The code nearest to `number`; between two equally near ones, the even code.
///
/// What is too large becomes infinity, or the largest number of its sign where the format has no infinity; a negative
/// number becomes 0 in a format without sign. A NaN keeps its sign and as much of its mantissa as there is room for.
/// Nothing for NaN in a format that has none.
[[nodiscard]] std::optional<UInt128> encode_float(const FloatFormat& format, const FloatNumber& number) noexcept;

/// `magnitude` times 2^-`shift`, rounded to an integer, ties to even.
[[nodiscard]] UInt128 round_shift_right(UInt128 magnitude, std::uint64_t shift) noexcept;

[[nodiscard]] FloatNumber decode_double(double value) noexcept;
[[nodiscard]] double to_double(const FloatNumber& number) noexcept;

}  // namespace hurray
