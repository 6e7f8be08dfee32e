#include "libhurray/format/element_format.hpp"

#include "libhurray/format/element_type.hpp"

namespace hurray {
namespace {

using Kind = ElementFormat::Kind;

/// Kind, and the format of floats, of a named type.
ElementFormat named(ElementType type, ElementStorage storage) {
    switch (type) {
        case ElementType::Float16:
            return {storage, Kind::Float, kFloat16Format};
        case ElementType::BFloat16:
            return {storage, Kind::Float, kBFloat16Format};
        case ElementType::Float32:
            return {storage, Kind::Float, kFloat32Format};
        case ElementType::Float64:
            return {storage, Kind::Float, kFloat64Format};
        case ElementType::Float128:
            return {storage, Kind::Float, kFloat128Format};
        case ElementType::Float8E4M3:
            return {storage, Kind::Float, kFloat8E4M3Format};
        case ElementType::Float8E5M2:
            return {storage, Kind::Float, kFloat8E5M2Format};
        case ElementType::Float8E8M0:
            return {storage, Kind::Scale, kFloat8E8M0Format};
        case ElementType::Float4E2M1:
            return {storage, Kind::Float, kFloat4E2M1Format};
        case ElementType::Float6E2M3:
            return {storage, Kind::Float, kFloat6E2M3Format};
        case ElementType::Float6E3M2:
            return {storage, Kind::Float, kFloat6E3M2Format};
        case ElementType::Complex64:
            return {storage, Kind::Complex, kFloat32Format};
        case ElementType::Complex128:
            return {storage, Kind::Complex, kFloat64Format};
        case ElementType::Int8:
        case ElementType::Int16:
        case ElementType::Int32:
        case ElementType::Int64:
        case ElementType::Int4:
        case ElementType::Int2:
            return {storage, Kind::SignedInteger};
        case ElementType::UInt8:
        case ElementType::UInt16:
        case ElementType::UInt32:
        case ElementType::UInt64:
        case ElementType::UInt4:
        case ElementType::UInt2:
        case ElementType::Bool:
            return {storage, Kind::UnsignedInteger};
    }
    return {storage, Kind::Opaque};
}

Kind extension_kind(const ExtensionType& type) {
    if (type.bit_width > kMaxCodeBits) {
        return Kind::Opaque;
    }
    if (!type.is_float) {
        return type.is_signed ? Kind::SignedInteger : Kind::UnsignedInteger;
    }
    const std::uint32_t accounted = std::uint32_t{type.sign_bits} + type.exponent_bits + type.mantissa_bits;
    const bool usual = type.sign_bits <= 1 && type.exponent_bits >= 1 && type.exponent_bits <= 30 &&
                       type.mantissa_bits >= 1 && type.mantissa_bits <= 112 && accounted == type.bit_width;
    return usual && type.has_nan == type.has_inf ? Kind::Float : Kind::Opaque;
}

}  // namespace

std::optional<ElementFormat> element_format(ElementType type) noexcept {
    const ElementTypeInfo* const info = find_element_type(type);
    if (info == nullptr) {
        return std::nullopt;
    }
    return named(type, *element_storage(info->bits));
}

DescriptorResult<ElementFormat> element_format(const ExtensionType& type) noexcept {
    const auto storage = element_storage(type.bit_width);
    if (!storage) {
        return tl::unexpected(
            DescriptorError{Fault::InvalidExtensionType, "extension_type.bit_width", 0, type.bit_width, 0});
    }
    ElementFormat format{*storage, extension_kind(type)};
    if (format.kind == Kind::Float) {
        const auto specials = type.has_nan ? FloatFormat::Specials::Ieee : FloatFormat::Specials::None;
        format.number = {type.sign_bits, type.exponent_bits, type.mantissa_bits, type.exponent_bias, specials};
    }
    return format;
}

DescriptorResult<ElementFormat> element_format(const DescriptorView& view) noexcept {
    if (view.extension_type) {
        return element_format(*view.extension_type);
    }
    const auto format = element_format(view.element_type);
    if (!format) {  // decoding refuses such a tag; a view put together by hand may have it
        return tl::unexpected(
            DescriptorError{Fault::UnknownTypeTag, "type_tag", 0, static_cast<std::uint64_t>(view.element_type), 0});
    }
    return *format;
}

}  // namespace hurray
