#pragma once

#include <cstdint>
#include <optional>

#include <hurray/types.hpp>

#include "libhurray/format/descriptor_error.hpp"
#include "libhurray/format/descriptor_view.hpp"
#include "libhurray/format/element_storage.hpp"
#include "libhurray/format/float_format.hpp"

namespace hurray {

/// What the bits of an element are.
struct ElementFormat {
    enum class Kind : std::uint8_t {
        SignedInteger,    // two's complement
        UnsignedInteger,  // of 1 bit: bool
        Float,
        Scale,    // float8_e8m0: a power of two, without codes 00 and FF
        Complex,  // two floats, the real part first
        Opaque,   // a private type of which nothing but the width is known
    };

    ElementStorage storage;
    Kind kind = Kind::Opaque;
    FloatFormat number = kFloat32Format;  // Float, Scale, and each part of Complex
};

/// Nothing for a tag that names no type, private tags included.
[[nodiscard]] std::optional<ElementFormat> element_format(ElementType type) noexcept;

/// That of a private type as far as its extension descriptor settles it. Integers of up to 128 bits, and floats of up to
/// 128 whose bits are accounted for: with both NaN and infinity they follow IEEE 754, with neither every code is finite,
/// and with one of the two nothing says which codes they are.
///
/// Fails: InvalidExtensionType  a width that has no storage
[[nodiscard]] DescriptorResult<ElementFormat> element_format(const ExtensionType& type) noexcept;

/// Of a tensor's elements, private or not. Fails as above.
[[nodiscard]] DescriptorResult<ElementFormat> element_format(const DescriptorView& view) noexcept;

}  // namespace hurray
