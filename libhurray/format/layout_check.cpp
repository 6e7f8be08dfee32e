#include <cstddef>

#include "libhurray/format/rule.hpp"
#include "libhurray/format/validate.hpp"

namespace hurray {
namespace {

Check layout_rule(bool condition, const char* field, std::uint64_t value, std::uint64_t index = 0) {
    return require(condition, Fault::InvalidLayout, field, value, 0, index);
}

Check check_morton(const MortonLayout& layout, const Shape& shape) {
    for (std::size_t k = 0; k < shape.rank(); ++k) {
        const std::uint32_t bits = layout.bits[k];
        const bool fits = shape[k] == kDynamicDim || bits >= 64 || shape[k] <= std::uint64_t{1} << bits;
        if (!fits) {
            return layout_rule(false, "shape[]", shape[k], k);
        }
    }
    return {};
}

Check check_block_paged(const BlockPagedLayout& layout, const Shape& shape) {
    return layout_rule(shape.rank() == 3, "rank", shape.rank())
        .and_then([&] { return layout_rule(layout.paged_axis == 0, "layout.paged_axis", layout.paged_axis); })
        .and_then([&] { return layout_rule(layout.page_size >= 1, "layout.page_size", layout.page_size); });
}

Check check_composite_head(const CompositeHeadLayout& layout, const Shape& shape) {
    const auto dynamic = shape.first_dynamic_dimension();
    if (layout.rule == CompositionRule::Group || !dynamic) {
        return {};
    }
    return layout_rule(false, "shape[]", shape[*dynamic], *dynamic);
}

Check check_hilbert(const HilbertLayout& layout, const Shape& shape) {
    if (layout.rank != shape.rank()) {
        return layout_rule(false, "layout.hilbert_rank", layout.rank);
    }
    if (layout.order > 63) {
        return layout_rule(false, "layout.hilbert_order", layout.order);
    }
    for (std::size_t k = 0; k < shape.rank(); ++k) {
        if (shape[k] != kDynamicDim && shape[k] != std::uint64_t{1} << layout.order) {
            return layout_rule(false, "shape[]", shape[k], k);
        }
    }
    return {};
}

}  // namespace

Check check_layout_against_shape(const DescriptorView& view) noexcept {
    const Shape& shape = view.shape;
    switch (view.layout.tag) {
        case LayoutTag::Strided:
        case LayoutTag::Coo:
            return layout_rule(shape.rank() >= 1, "rank", shape.rank());
        case LayoutTag::Csr:
        case LayoutTag::Csc:
            return layout_rule(shape.rank() == 2, "rank", shape.rank());
        case LayoutTag::Csf:
            return layout_rule(shape.rank() >= 3, "rank", shape.rank());
        case LayoutTag::Morton:
            return check_morton(*view.layout.as<MortonLayout>(), shape);
        case LayoutTag::BlockPaged:
            return check_block_paged(*view.layout.as<BlockPagedLayout>(), shape);
        case LayoutTag::CompositeHead:
            return check_composite_head(*view.layout.as<CompositeHeadLayout>(), shape);
        case LayoutTag::Hilbert:
            return check_hilbert(*view.layout.as<HilbertLayout>(), shape);
        case LayoutTag::RowMajor:
        case LayoutTag::ColumnMajor:
        case LayoutTag::Tiled:  // decoding wants a rank and reads as many sizes
            break;
    }
    return {};
}

}  // namespace hurray
