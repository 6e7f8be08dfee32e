#include "libhurray/format/element_value.hpp"

#include <algorithm>
#include <limits>

namespace hurray {
namespace {

using Kind = ElementFormat::Kind;

constexpr UInt128 kLowestScale = 0x01;
constexpr UInt128 kHighestScale = 0xFE;

double integer_value(UInt128 code, std::uint32_t bits, bool is_signed) {
    const bool negative = is_signed && ((code >> (bits - 1)) & 1) != 0;
    FloatNumber number;
    number.negative = negative;
    number.significand = negative ? (~code + 1) & low_bits(bits) : code;
    return to_double(number);
}

double scale_value(const FloatFormat& format, UInt128 code) {
    if (code < kLowestScale || code > kHighestScale) {
        return std::numeric_limits<double>::quiet_NaN();
    }
    return to_double(decode_float(format, code));
}

/// How far `value` is from 0, as an integer; up to `limit`.
UInt128 integer_magnitude(const FloatNumber& value, UInt128 limit) {
    if (value.kind == FloatNumber::Kind::Infinite) {
        return limit;
    }
    if (value.exponent < 0) {
        return std::min(limit, round_shift_right(value.significand, static_cast<std::uint64_t>(-value.exponent)));
    }
    if (value.significand == 0) {
        return 0;
    }
    const bool too_large = value.exponent + bit_length(value.significand) > 128;
    return too_large ? limit : std::min(limit, value.significand << value.exponent);
}

std::optional<UInt128> integer_code(double value, std::uint32_t bits, bool is_signed) {
    const FloatNumber number = decode_double(value);
    if (number.kind == FloatNumber::Kind::Nan) {
        return std::nullopt;
    }
    if (!number.negative) {
        return integer_magnitude(number, low_bits(is_signed ? bits - 1 : bits));
    }
    const UInt128 lowest = is_signed ? UInt128{1} << (bits - 1) : UInt128{0};
    return (~integer_magnitude(number, lowest) + 1) & low_bits(bits);
}

std::optional<UInt128> scale_code(const FloatFormat& format, double value) {
    const auto code = encode_float(format, decode_double(value));
    return code ? std::optional(std::clamp(*code, kLowestScale, kHighestScale)) : std::nullopt;
}

std::optional<UInt128> complex_code(const FloatFormat& format, const ElementValue& value) {
    const auto real = encode_float(format, decode_double(value.real));
    const auto imaginary = encode_float(format, decode_double(value.imaginary));
    if (!real || !imaginary) {
        return std::nullopt;
    }
    return *real | *imaginary << format.bits();
}

}  // namespace

std::optional<ElementValue> to_value(const ElementFormat& format, UInt128 code) noexcept {
    const std::uint32_t bits = format.storage.bits;
    switch (format.kind) {
        case Kind::SignedInteger:
        case Kind::UnsignedInteger:
            return ElementValue{integer_value(code, bits, format.kind == Kind::SignedInteger)};
        case Kind::Float:
            return ElementValue{to_double(decode_float(format.number, code))};
        case Kind::Scale:
            return ElementValue{scale_value(format.number, code)};
        case Kind::Complex:
            return ElementValue{to_double(decode_float(format.number, code)),
                                to_double(decode_float(format.number, code >> format.number.bits()))};
        case Kind::Opaque:
            break;
    }
    return std::nullopt;
}

std::optional<UInt128> to_code(const ElementFormat& format, const ElementValue& value) noexcept {
    const std::uint32_t bits = format.storage.bits;
    if (format.kind == Kind::Complex) {
        return complex_code(format.number, value);
    }
    if (value.imaginary != 0) {
        return std::nullopt;
    }
    switch (format.kind) {
        case Kind::SignedInteger:
            return integer_code(value.real, bits, true);
        case Kind::UnsignedInteger:
            return bits == 1 ? UInt128{value.real != 0} : integer_code(value.real, bits, false);
        case Kind::Float:
            return encode_float(format.number, decode_double(value.real));
        case Kind::Scale:
            return scale_code(format.number, value.real);
        case Kind::Complex:
        case Kind::Opaque:
            break;
    }
    return std::nullopt;
}

}  // namespace hurray
