#pragma once

#include <optional>

#include "libhurray/format/element_format.hpp"

namespace hurray {

/// An element as numbers to look at. Every type of up to 53 significant bits fits exactly; others are rounded.
struct ElementValue {
    double real = 0;
    double imaginary = 0;  // of complex types; 0 for all others

    friend bool operator==(const ElementValue&, const ElementValue&) = default;
};

/// The value of a code, rounded to the nearest double, ties to even. The codes that float8_e8m0 forbids are NaN.
/// Nothing for Opaque.
[[nodiscard]] std::optional<ElementValue> to_value(const ElementFormat& format, UInt128 code) noexcept;

/// The code nearest to a value; between two equally near ones the even code.
///
/// Out of range: infinity, or the nearest number of a type that has no infinity (integers, bool, float8_e4m3, the 4- and
/// 6-bit floats; float8_e8m0, which has no zero, starts at 2^-126). Bool is 1 for everything but 0, NaN included.
///
/// Nothing for NaN in other types that have none, an imaginary part other than 0 in a type that is not complex, and
/// Opaque.
[[nodiscard]] std::optional<UInt128> to_code(const ElementFormat& format, const ElementValue& value) noexcept;

}  // namespace hurray
