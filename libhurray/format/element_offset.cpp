#include "libhurray/format/element_offset.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>

#include "libhurray/format/curve.hpp"

namespace hurray {
namespace {

using Coordinates = std::span<const std::uint64_t>;
/// Nothing: past what 128 bits, or kMaxElementOffset, hold.
using Offset = std::optional<Int128>;

constexpr std::uint64_t kMaxCurveBits = 64;

tl::unexpected<DescriptorError> overflow() {
    return tl::unexpected(DescriptorError{Fault::AddressOverflow, "index", 0, 0, 0});
}

tl::unexpected<DescriptorError> invalid(const char* field, std::uint64_t index, std::uint64_t value) {
    return tl::unexpected(DescriptorError{Fault::InvalidLayout, field, index, value, 0});
}

/// base * size + coordinate
Offset horner_step(Offset base, std::uint64_t size, std::uint64_t coordinate) {
    if (!base) {
        return std::nullopt;
    }
    const auto scaled = checked_mul_wide(*base, static_cast<Int128>(size));
    return scaled ? checked_add_wide(*scaled, static_cast<Int128>(coordinate)) : std::nullopt;
}

/// The position of `at` in a box of `sizes`, in row-major or column-major order. Each coordinate is below its size, so
/// that no intermediate result is larger than the last.
template <class Sizes>
Offset position_in_box(LayoutTag order, const Sizes& sizes, Coordinates at) {
    Offset position = 0;
    for (std::size_t step = 0; step < at.size(); ++step) {
        const std::size_t k = order == LayoutTag::RowMajor ? step : at.size() - 1 - step;
        position = horner_step(position, sizes[k], at[k]);
    }
    return position;
}

Offset strided_position(const PackedArray<std::int64_t>& strides, Coordinates at) {
    Offset position = 0;
    for (std::size_t k = 0; k < at.size() && position; ++k) {
        // At most 2^63 times 2^64 - 1: fits.
        position = checked_add_wide(*position, Int128{strides[k]} * static_cast<Int128>(at[k]));
    }
    return position;
}

template <class Sizes>
Offset position(LayoutTag order, const Sizes& sizes, const PackedArray<std::int64_t>& strides, Coordinates at) {
    return order == LayoutTag::Strided ? strided_position(strides, at) : position_in_box(order, sizes, at);
}

/// a * b + c, where b is what a product of sizes came to; 0 times a product that is too large is 0 all the same.
Offset scale_and_add(Int128 a, Offset b, Int128 c) {
    if (a == 0) {
        return c;
    }
    const auto product = b ? checked_mul_wide(a, *b) : std::nullopt;
    return product ? checked_add_wide(*product, c) : std::nullopt;
}

Offset volume(const PackedArray<std::uint64_t>& sizes) {
    Offset product = 1;
    for (std::size_t k = 0; k < sizes.size() && product; ++k) {
        product = checked_mul_wide(*product, static_cast<Int128>(sizes[k]));
    }
    return product;
}

/// Level by level from the outermost: which tile, and where in that tile to go on.
Offset tiled_offset(const Shape& shape, const TiledLayout& layout, Coordinates index) {
    const std::size_t rank = index.size();
    std::array<std::uint64_t, kMaxRank> inside{};  // the index in the tile reached so far
    std::array<std::uint64_t, kMaxRank> extent{};  // of that tile; of the whole tensor at first
    std::copy(index.begin(), index.end(), inside.begin());
    for (std::size_t k = 0; k < rank; ++k) {
        extent[k] = shape[k];
    }
    Offset offset = 0;
    for (std::size_t number = 0; number < layout.level_count && offset; ++number) {
        const TiledLevel level = layout.level(number);
        std::array<std::uint64_t, kMaxRank> tile{};  // which one
        std::array<std::uint64_t, kMaxRank> grid{};  // how many there are
        for (std::size_t k = 0; k < rank; ++k) {
            const std::uint64_t size = level.tile_shape[k];
            tile[k] = inside[k] / size;
            inside[k] %= size;
            grid[k] = extent[k] / size + (extent[k] % size != 0 ? 1 : 0);
            extent[k] = size;
        }
        const auto tile_number = position(level.outer, grid, level.outer_strides, Coordinates(tile).first(rank));
        offset = tile_number ? scale_and_add(*tile_number, volume(level.tile_shape), *offset) : std::nullopt;
        if (level.inner != LayoutTag::Tiled && offset) {
            const auto inner =
                position(level.inner, level.tile_shape, level.inner_strides, Coordinates(inside).first(rank));
            return inner ? checked_add_wide(*offset, *inner) : std::nullopt;
        }
    }
    return std::nullopt;
}

DescriptorResult<Int128> morton_offset(const MortonLayout& layout, Coordinates index) {
    const std::size_t rank = index.size();
    if (layout.bits.size() != rank) {
        return tl::unexpected(
            DescriptorError{Fault::IndexRankMismatch, "layout.morton_bits", 0, layout.bits.size(), rank});
    }
    std::uint64_t total = 0;
    std::uint64_t highest = 0;
    for (std::size_t k = 0; k < rank; ++k) {
        const std::uint64_t bits = layout.bits[k];
        if (bits < 64 && index[k] >> bits != 0) {
            return invalid("layout.morton_bits[]", k, bits);
        }
        total += bits;
        highest = std::max(highest, (bits - 1) * rank + k + 1);
    }
    // A total of 64 bits would make 2^64 elements, which no 64-bit count holds.
    if (total >= kMaxCurveBits || highest > kMaxCurveBits) {
        return tl::unexpected(DescriptorError{Fault::IndexArithmeticOverflow, "layout.morton_bits", 0,
                                              std::max(total, highest), kMaxCurveBits - 1});
    }
    return static_cast<Int128>(morton_code(index));
}

DescriptorResult<Int128> hilbert_offset(const HilbertLayout& layout, Coordinates index) {
    const std::size_t rank = index.size();
    if (layout.rank != rank) {
        return invalid("layout.hilbert_rank", 0, layout.rank);
    }
    if (std::uint64_t{layout.order} * rank > kMaxCurveBits) {
        return tl::unexpected(DescriptorError{Fault::IndexArithmeticOverflow, "layout.hilbert_order", 0,
                                              std::uint64_t{layout.order} * rank, kMaxCurveBits});
    }
    std::array<std::uint64_t, kMaxRank> coordinates{};
    for (std::size_t k = 0; k < rank; ++k) {
        // With two dimensions or more the order is at most 32 here.
        if (index[k] >> layout.order != 0) {
            return invalid("layout.hilbert_order", 0, layout.order);
        }
        coordinates[k] = index[k];
    }
    return static_cast<Int128>(hilbert_code(std::span(coordinates).first(rank), layout.order));
}

DescriptorResult<Int128> in_bounds(Offset offset) {
    if (!offset || *offset > kMaxElementOffset || *offset < -kMaxElementOffset) {
        return overflow();
    }
    return *offset;
}

}  // namespace

DescriptorResult<Int128> element_offset(const Shape& shape, const Layout& layout, Coordinates index) noexcept {
    if (const auto* strided = layout.as<StridedLayout>()) {
        return in_bounds(strided_position(strided->strides, index));
    }
    if (const auto* tiled = layout.as<TiledLayout>()) {
        return in_bounds(tiled_offset(shape, *tiled, index));
    }
    if (const auto* morton = layout.as<MortonLayout>()) {
        return morton_offset(*morton, index);
    }
    if (const auto* hilbert = layout.as<HilbertLayout>()) {
        return hilbert_offset(*hilbert, index);
    }
    return in_bounds(position_in_box(layout.tag, shape, index));
}

}  // namespace hurray
