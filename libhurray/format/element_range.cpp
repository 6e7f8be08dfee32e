#include "libhurray/format/element_range.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>

namespace hurray {
namespace {

/// No buffer holds more elements than this, of any type: 2^64 bytes of one bit each are 2^67. Numbers below it leave
/// room in 128 bits for the product with the largest element width or with a stride.
constexpr Int128 kMaxElements = Int128{1} << 68;

using Range = std::optional<ElementRange>;

bool in_bounds(const ElementRange& range) { return range.lowest >= -kMaxElements && range.highest <= kMaxElements; }

/// The first `count` elements.
Range leading(std::optional<Int128> count) { return count ? Range({0, *count - 1}) : std::nullopt; }

using Sizes = PackedArray<std::uint64_t>;

/// The product of `size_of(k)` for all dimensions; nothing above kMaxElements. No factor is 0.
template <class SizeOf>
std::optional<Int128> product(std::size_t rank, SizeOf size_of) {
    Int128 result = 1;
    for (std::size_t k = 0; k < rank; ++k) {
        if (__builtin_mul_overflow(result, static_cast<Int128>(size_of(k)), &result) || result > kMaxElements) {
            return std::nullopt;
        }
    }
    return result;
}

std::optional<Int128> product(const Sizes& sizes) {
    return product(sizes.size(), [&](std::size_t k) { return sizes[k]; });
}

/// Where `strides[k]` times an index up to `size_of(k) - 1` leads, added up over the dimensions.
template <class SizeOf>
Range strided(const PackedArray<std::int64_t>& strides, SizeOf size_of) {
    ElementRange range;
    for (std::size_t k = 0; k < strides.size(); ++k) {
        // At most 2^63 times 2^64 - 2: fits.
        const Int128 reach = Int128{strides[k]} * static_cast<Int128>(size_of(k) - 1);
        Int128& end = reach < 0 ? range.lowest : range.highest;
        if (__builtin_add_overflow(end, reach, &end) || !in_bounds(range)) {
            return std::nullopt;
        }
    }
    return range;
}

Range strided(const PackedArray<std::int64_t>& strides, const Sizes& sizes) {
    return strided(strides, [&](std::size_t k) { return sizes[k]; });
}

/// The tiles of level `number` and what is inside them. `extent` is what this level is cut out of.
Range tiled(const TiledLayout& layout, std::size_t number, const Sizes& extent) {
    const TiledLevel level = layout.level(number);
    const auto grid_of = [&](std::size_t k) { return (extent[k] - 1) / level.tile_shape[k] + 1; };

    const auto tile_size = product(level.tile_shape);
    const Range tiles = level.outer == LayoutTag::Strided ? strided(level.outer_strides, grid_of)
                                                          : leading(product(layout.rank, grid_of));
    Range inside;
    if (level.inner == LayoutTag::Tiled) {
        inside = tiled(layout, number + 1, level.tile_shape);
    } else if (level.inner == LayoutTag::Strided) {
        inside = strided(level.inner_strides, level.tile_shape);
    } else {
        inside = leading(tile_size);
    }
    ElementRange range;
    if (!tile_size || !tiles || !inside ||  //
        __builtin_mul_overflow(tiles->lowest, *tile_size, &range.lowest) ||
        __builtin_mul_overflow(tiles->highest, *tile_size, &range.highest)) {
        return std::nullopt;
    }
    range.lowest = std::max(range.lowest, -2 * kMaxElements) + inside->lowest;
    range.highest = std::min(range.highest, 2 * kMaxElements) + inside->highest;
    return in_bounds(range) ? Range(range) : std::nullopt;
}

/// Up to the code in which every bit that the layout places is set. With equal bit counts these are 2^(sum of the bits)
/// elements, which the format states; with others the placement leaves gaps, and that number would be too small.
Range morton(const MortonLayout& layout) {
    const std::size_t rank = layout.bits.size();
    Int128 highest = 0;
    for (std::size_t k = 0; k < rank; ++k) {
        // Bit b goes to position b * rank + k; past 68 of them nothing is in bounds anyway.
        for (std::size_t b = 0; b < std::min<std::uint32_t>(layout.bits[k], 69); ++b) {
            const std::size_t position = b * rank + k;
            if (position >= 68) {
                return std::nullopt;
            }
            highest |= Int128{1} << position;
        }
    }
    return ElementRange{0, highest};
}

Range hilbert(const HilbertLayout& layout) {
    const std::uint64_t bits = std::uint64_t{layout.order} * layout.rank;
    return bits <= 68 ? leading(Int128{1} << bits) : std::nullopt;
}

Range stored_range(const Shape& shape, const Layout& layout) {
    if (const auto* payload = layout.as<StridedLayout>()) {
        return strided(payload->strides, shape.dims());
    }
    if (const auto* payload = layout.as<TiledLayout>()) {
        return tiled(*payload, 0, shape.dims());
    }
    if (const auto* payload = layout.as<MortonLayout>()) {
        return morton(*payload);
    }
    if (const auto* payload = layout.as<HilbertLayout>()) {
        return hilbert(*payload);
    }
    return leading(product(shape.dims()));
}

}  // namespace

DescriptorResult<ElementRange> dense_element_range(const Shape& shape, const Layout& layout) noexcept {
    const Range range = stored_range(shape, layout);
    if (!range) {
        return tl::unexpected(DescriptorError{Fault::ElementsOverflow, "shape", 0, 0, 0});
    }
    return *range;
}

}  // namespace hurray
