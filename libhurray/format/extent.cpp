#include "libhurray/format/extent.hpp"

#include <cstddef>
#include <optional>

#include "libhurray/base/check.hpp"
#include "libhurray/base/checked_math.hpp"

namespace hurray {
namespace {

__extension__ using Int128 = __int128;

/// No buffer holds more elements than this, of any type: 2^64 bytes of one bit each are 2^67. Numbers below it leave
/// room in 128 bits for the largest element width.
constexpr Int128 kMaxElements = Int128{1} << 68;

/// Element offsets of the lowest and the highest element, both relative to the one with all-zero index.
struct ElementRange {
    Int128 lowest = 0;
    Int128 highest = 0;
};

DescriptorError overflow() { return {Fault::ElementsOverflow, "shape", 0, 0, 0}; }

std::optional<ElementRange> strided_range(const Shape& shape, const StridedLayout& layout) {
    ElementRange range;
    for (std::size_t k = 0; k < shape.rank(); ++k) {
        // At most 2^63 times 2^64 - 2: fits.
        const Int128 reach = Int128{layout.strides[k]} * static_cast<Int128>(shape[k] - 1);
        Int128& end = reach < 0 ? range.lowest : range.highest;
        if (__builtin_add_overflow(end, reach, &end) || end > kMaxElements || end < -kMaxElements) {
            return std::nullopt;
        }
    }
    return range;
}

Int128 floor_divide(Int128 value, Int128 divisor) {
    const Int128 quotient = value / divisor;
    return value % divisor < 0 ? quotient - 1 : quotient;
}

/// How elements lie in memory: `elements` of them share `bytes` bytes, from a whole byte on.
struct Packing {
    std::uint32_t elements;
    std::uint32_t bytes;
};

Packing packing_of(std::uint32_t bits) {
    if (bits == 6) {
        return {4, 3};
    }
    return bits < 8 ? Packing{8 / bits, 1} : Packing{1, bits / 8};
}

std::optional<std::uint64_t> to_size(Int128 value) {
    if (value > static_cast<Int128>(UINT64_MAX)) {
        return std::nullopt;
    }
    return static_cast<std::uint64_t>(value);
}

}  // namespace

DescriptorResult<ByteExtent> dense_extent(const Shape& shape, const Layout& layout, std::uint32_t bits) noexcept {
    if (const auto dynamic = shape.first_dynamic_dimension()) {
        return tl::unexpected(DescriptorError{Fault::InvalidShape, "shape[]", *dynamic, 0, 0});
    }
    if (shape.is_empty()) {
        return ByteExtent{};
    }
    ElementRange range;
    if (const auto* strided = layout.as<StridedLayout>()) {
        const auto reached = strided_range(shape, *strided);
        if (!reached) {
            return tl::unexpected(overflow());
        }
        range = *reached;
    } else {
        const auto count = shape.element_count();
        if (!count) {
            return tl::unexpected(overflow());
        }
        range.highest = static_cast<Int128>(*count - 1);
    }
    const Packing packing = packing_of(bits);
    const auto below = to_size(-floor_divide(range.lowest, packing.elements) * packing.bytes);
    const auto above = to_size((floor_divide(range.highest, packing.elements) + 1) * packing.bytes);
    if (!below || !above) {
        return tl::unexpected(overflow());
    }
    return ByteExtent{*below, *above};
}

DescriptorResult<std::uint64_t> needed_byte_size(std::uint64_t byte_offset, ByteExtent extent) noexcept {
    if (extent.below > byte_offset) {
        return tl::unexpected(DescriptorError{Fault::ElementsBeforeBuffer, "byte_offset", 0, byte_offset, 0});
    }
    const auto end = checked_add(byte_offset, extent.above);
    if (!end) {
        return tl::unexpected(overflow());
    }
    return *end;
}

DescriptorResult<void> implied_strides(const Shape& shape, LayoutTag order, std::span<std::int64_t> out) noexcept {
    HURRAY_DCHECK(out.size() == shape.rank());
    std::int64_t stride = 1;
    for (std::size_t step = 0; step < out.size(); ++step) {
        const std::size_t k = order == LayoutTag::RowMajor ? out.size() - 1 - step : step;
        out[k] = stride;
        if (step + 1 == out.size()) {
            break;  // no stride depends on the slowest dimension
        }
        if (shape[k] == kDynamicDim) {
            return tl::unexpected(DescriptorError{Fault::InvalidShape, "shape[]", k, 0, 0});
        }
        if (__builtin_mul_overflow(stride, shape[k], &stride)) {
            return tl::unexpected(overflow());
        }
    }
    return {};
}

}  // namespace hurray
