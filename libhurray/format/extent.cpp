#include "libhurray/format/extent.hpp"

#include <cstddef>
#include <optional>

#include "libhurray/base/check.hpp"
#include "libhurray/base/checked_math.hpp"
#include "libhurray/format/element_range.hpp"

namespace hurray {
namespace {

DescriptorError overflow() { return {Fault::ElementsOverflow, "shape", 0, 0, 0}; }

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
    const auto range = dense_element_range(shape, layout);
    if (!range) {
        return tl::unexpected(range.error());
    }
    const Packing packing = packing_of(bits);
    const auto below = to_size(-floor_divide(range->lowest, packing.elements) * packing.bytes);
    const auto above = to_size((floor_divide(range->highest, packing.elements) + 1) * packing.bytes);
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
