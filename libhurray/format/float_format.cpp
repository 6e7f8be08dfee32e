#include "libhurray/format/float_format.hpp"

#include <bit>

namespace hurray {
namespace {

using Kind = FloatNumber::Kind;
using Specials = FloatFormat::Specials;

/// The mantissa of the widest format; NaN mantissas are aligned to its top.
constexpr std::uint32_t kWidestMantissa = 112;

UInt128 highest_exponent_field(const FloatFormat& format) { return low_bits(format.exponent_bits); }

UInt128 infinity(const FloatFormat& format) { return highest_exponent_field(format) << format.mantissa_bits; }

/// Without its sign.
UInt128 largest_finite(const FloatFormat& format) {
    switch (format.specials) {
        case Specials::Ieee:
            return infinity(format) - 1;
        case Specials::NanOnly:
            return low_bits(format.exponent_bits + format.mantissa_bits) - 1;
        case Specials::None:
            break;
    }
    return low_bits(format.exponent_bits + format.mantissa_bits);
}

bool is_nan(const FloatFormat& format, UInt128 magnitude) {
    switch (format.specials) {
        case Specials::Ieee:
            return magnitude > infinity(format);
        case Specials::NanOnly:
            return magnitude == low_bits(format.exponent_bits + format.mantissa_bits);
        case Specials::None:
            break;
    }
    return false;
}

std::optional<UInt128> encode_nan(const FloatFormat& format, UInt128 mantissa) {
    if (format.specials == Specials::None) {
        return std::nullopt;
    }
    if (format.specials == Specials::NanOnly) {
        return low_bits(format.exponent_bits + format.mantissa_bits);
    }
    const UInt128 kept = mantissa >> (kWidestMantissa - format.mantissa_bits);
    // What no longer fits must not turn the NaN into an infinity: then it is the quiet one.
    return infinity(format) | (kept != 0 ? kept : UInt128{1} << (format.mantissa_bits - 1));
}

struct Shifted {
    UInt128 floor;
    int rest;  // against half a unit: -1 below (or nothing left over), 0 a tie, 1 above
};

Shifted shift_right(UInt128 magnitude, std::uint64_t shift) {
    if (shift == 0) {
        return {magnitude, -1};
    }
    if (shift > 128) {
        return {0, -1};
    }
    const UInt128 half = UInt128{1} << (shift - 1);
    const UInt128 rest = shift == 128 ? magnitude : magnitude & low_bits(static_cast<std::uint32_t>(shift));
    const UInt128 floor = shift == 128 ? UInt128{0} : magnitude >> shift;
    return {floor, rest == half ? 0 : (rest > half ? 1 : -1)};
}

/// The magnitude's code, which may lie past the largest finite one.
UInt128 round_to_code(const FloatFormat& format, const FloatNumber& number) {
    const std::int64_t leading = number.exponent + bit_length(number.significand) - 1;
    const std::int64_t field = leading + format.bias;  // of a normal number
    if (field > static_cast<std::int64_t>(highest_exponent_field(format))) {
        return largest_finite(format) + 1;
    }
    const bool normal = field >= 1;
    // The lowest mantissa bit stands for 2^unit.
    const std::int64_t unit = (normal ? leading : 1 - std::int64_t{format.bias}) - format.mantissa_bits;
    // A normal number's leading bit is not stored; it is the lowest bit of the exponent field, one too many there.
    const UInt128 base = normal ? static_cast<UInt128>(field - 1) << format.mantissa_bits : UInt128{0};
    if (unit <= number.exponent) {
        return base + (number.significand << (number.exponent - unit));
    }
    const Shifted shifted = shift_right(number.significand, static_cast<std::uint64_t>(unit - number.exponent));
    const UInt128 code = base + shifted.floor;
    const bool up = shifted.rest > 0 || (shifted.rest == 0 && (code & 1) != 0);
    return up ? code + 1 : code;
}

UInt128 encode_finite(const FloatFormat& format, const FloatNumber& number) {
    if (number.significand == 0 || (number.negative && format.sign_bits == 0)) {
        return 0;
    }
    const UInt128 code = round_to_code(format, number);
    if (code <= largest_finite(format)) {
        return code;
    }
    return format.specials == Specials::Ieee ? infinity(format) : largest_finite(format);
}

}  // namespace

FloatNumber decode_float(const FloatFormat& format, UInt128 code) noexcept {
    const std::uint32_t magnitude_bits = format.exponent_bits + format.mantissa_bits;
    const UInt128 magnitude = code & low_bits(magnitude_bits);
    const UInt128 mantissa = code & low_bits(format.mantissa_bits);
    FloatNumber number;
    number.negative = format.sign_bits != 0 && ((code >> magnitude_bits) & 1) != 0;
    if (is_nan(format, magnitude)) {
        number.kind = Kind::Nan;
        number.significand = mantissa << (kWidestMantissa - format.mantissa_bits);
        return number;
    }
    if (format.specials == Specials::Ieee && magnitude == infinity(format)) {
        number.kind = Kind::Infinite;
        return number;
    }
    const auto field = static_cast<std::int64_t>(magnitude >> format.mantissa_bits);
    const std::int64_t lowest = -std::int64_t{format.bias} - format.mantissa_bits;
    number.significand = field == 0 ? mantissa : mantissa | UInt128{1} << format.mantissa_bits;
    number.exponent = lowest + (field == 0 ? 1 : field);
    return number;
}

std::optional<UInt128> encode_float(const FloatFormat& format, const FloatNumber& number) noexcept {
    std::optional<UInt128> magnitude;
    switch (number.kind) {
        case Kind::Nan:
            magnitude = encode_nan(format, number.significand);
            break;
        case Kind::Infinite:
            magnitude = format.specials == Specials::Ieee          ? infinity(format)
                        : number.negative && format.sign_bits == 0 ? UInt128{0}
                                                                   : largest_finite(format);
            break;
        case Kind::Finite:
            magnitude = encode_finite(format, number);
            break;
    }
    if (!magnitude) {
        return std::nullopt;
    }
    const bool minus = number.negative && format.sign_bits != 0;
    return *magnitude | static_cast<UInt128>(minus) << (format.exponent_bits + format.mantissa_bits);
}

UInt128 round_shift_right(UInt128 magnitude, std::uint64_t shift) noexcept {
    const Shifted shifted = shift_right(magnitude, shift);
    const bool up = shifted.rest > 0 || (shifted.rest == 0 && (shifted.floor & 1) != 0);
    return up ? shifted.floor + 1 : shifted.floor;
}

FloatNumber decode_double(double value) noexcept {
    return decode_float(kFloat64Format, std::bit_cast<std::uint64_t>(value));
}

double to_double(const FloatNumber& number) noexcept {
    // float64 has codes for everything, NaN included.
    return std::bit_cast<double>(static_cast<std::uint64_t>(*encode_float(kFloat64Format, number)));
}

}  // namespace hurray
