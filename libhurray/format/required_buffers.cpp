#include "libhurray/format/required_buffers.hpp"

#include "libhurray/base/check.hpp"
#include "libhurray/base/checked_math.hpp"
#include "libhurray/format/element_type.hpp"
#include "libhurray/format/extent.hpp"

namespace hurray {
namespace {

using Size = DescriptorResult<std::uint64_t>;

constexpr std::uint64_t kIndexSize = 8;      // of coordinates and pointers in sparse layouts
constexpr std::uint64_t kFloat32Size = 4;    // of scales, but for those that are half as wide
constexpr std::uint64_t kZeroPointSize = 4;  // int32
constexpr std::uint8_t kFloat32Tag = 0x03;

tl::unexpected<DescriptorError> overflow(const char* field) {
    return tl::unexpected(DescriptorError{Fault::ElementsOverflow, field, 0, 0, 0});
}

Size or_overflow(std::optional<std::uint64_t> size, const char* field) {
    if (!size) {
        return overflow(field);
    }
    return *size;
}

std::optional<std::uint64_t> times(std::optional<std::uint64_t> a, std::uint64_t b) {
    return a ? checked_mul(*a, b) : std::nullopt;
}

/// `count` entries of 8 bytes each.
Size index_array(std::optional<std::uint64_t> count, const char* field) {
    return or_overflow(times(count, kIndexSize), field);
}

Size dense_buffer(const DescriptorView& view) {
    return element_bits(view)
        .and_then([&](std::uint32_t bits) { return dense_extent(view.shape, view.layout, bits); })
        .and_then([&](ByteExtent extent) { return needed_byte_size(view.byte_offset, extent); });
}

/// The stored values of a sparse tensor, one after the other.
Size values(const DescriptorView& view, std::uint64_t nnz) {
    return element_bits(view).and_then(
        [&](std::uint32_t bits) { return or_overflow(packed_byte_size(nnz, bits), "layout.nnz"); });
}

Size coo_buffer(const DescriptorView& view, std::size_t index) {
    const std::uint64_t nnz = view.layout.as<CooLayout>()->nnz;
    return index == 0 ? values(view, nnz)
                      : index_array(checked_mul(nnz, std::uint64_t{view.shape.rank()}), "layout.nnz");
}

Size compressed_buffer(const DescriptorView& view, std::size_t index) {
    const std::uint64_t nnz = view.layout.as<CompressedLayout>()->nnz;
    if (index == 0) {
        return values(view, nnz);
    }
    if (index == 1) {
        return index_array(nnz, "layout.nnz");
    }
    const std::size_t axis = view.layout.tag == LayoutTag::Csr ? 0 : 1;
    const std::uint64_t lines = axis < view.shape.rank() ? view.shape[axis] : 0;
    if (lines == kDynamicDim) {
        return tl::unexpected(DescriptorError{Fault::InvalidShape, "shape[]", axis, 0, 0});
    }
    return index_array(lines + 1, "shape");
}

/// The fewest nodes that level `level` of a CSF tree has: nobody has more children than the dimension below is long.
std::uint64_t csf_nodes(const CsfLayout& layout, const Shape& shape, std::size_t level) {
    std::uint64_t nodes = layout.nnz;
    for (std::size_t below = layout.mode_order.size() - 1; below > level && nodes > 0; --below) {
        const std::uint64_t children = shape[layout.mode_order[below]];
        nodes = children == 0 ? nodes : (nodes - 1) / children + 1;
    }
    return nodes;
}

Size csf_buffer(const DescriptorView& view, std::size_t index) {
    const auto& layout = *view.layout.as<CsfLayout>();
    if (index == 0) {
        return values(view, layout.nnz);
    }
    const std::size_t level = (index - 1) / 2;
    if (index % 2 == 0) {
        return index_array(csf_nodes(layout, view.shape, level), "layout.nnz");
    }
    const std::uint64_t parents = level == 0 ? 1 : csf_nodes(layout, view.shape, level - 1);
    return index_array(checked_add(parents, std::uint64_t{1}), "layout.nnz");
}

Size block_paged_buffer(const DescriptorView& view, std::size_t index) {
    const auto& layout = *view.layout.as<BlockPagedLayout>();
    if (index == 1) {
        return std::uint64_t{0};  // any number of sequences may share pages, or have none
    }
    if (index == 2) {
        return (std::uint64_t{layout.num_seqs} + 1) * (layout.wide_index ? 8 : 4);
    }
    auto count = checked_mul(layout.num_pages, std::uint64_t{layout.page_size});
    for (std::size_t k = 1; k < view.shape.rank(); ++k) {
        if (view.shape[k] == kDynamicDim) {
            return tl::unexpected(DescriptorError{Fault::InvalidShape, "shape[]", k, 0, 0});
        }
        if (view.shape[k] == 0) {
            return std::uint64_t{0};
        }
        count = times(count, view.shape[k]);
    }
    const auto bits = element_bits(view);
    if (!bits) {
        return tl::unexpected(bits.error());
    }
    return or_overflow(count ? packed_byte_size(*count, *bits) : std::nullopt, "layout.num_pages");
}

/// How many scales there are.
DescriptorResult<std::optional<std::uint64_t>> parameter_count(const DescriptorView& view, const Quantization& q) {
    using Count = std::optional<std::uint64_t>;
    const auto* pages = view.layout.as<BlockPagedLayout>();
    const std::uint64_t length = view.shape[q.axis];
    if (q.scheme == QuantizationScheme::PerChannel) {
        return length == kDynamicDim ? Count() : Count(length);
    }
    if (pages != nullptr && q.scheme != QuantizationScheme::PerBlock) {
        return Count();
    }
    if (pages != nullptr) {  // one a slot of the pool, read through the same block table
        const auto slots = checked_mul(pages->num_pages, std::uint64_t{pages->page_size});
        return or_overflow(slots, "layout.num_pages").map([](std::uint64_t count) { return Count(count); });
    }
    if (view.shape.first_dynamic_dimension()) {
        return Count();
    }
    if (view.shape.is_empty()) {
        return Count(0);
    }
    Count blocks = (length - 1) / q.block_size + 1;
    for (std::size_t k = 0; k < view.shape.rank(); ++k) {
        blocks = k == q.axis ? blocks : times(blocks, view.shape[k]);
    }
    return or_overflow(blocks, "shape").map([](std::uint64_t count) { return Count(count); });
}

std::uint64_t scale_size(const Quantization& q) {
    switch (q.scheme) {
        case QuantizationScheme::PerBlock:
            return q.scale_type_tag == kFloat32Tag ? kFloat32Size : kFloat32Size / 2;
        case QuantizationScheme::Mxfp:
            return 1;
        default:
            return kFloat32Size;
    }
}

}  // namespace

DescriptorResult<std::uint32_t> element_bits(const DescriptorView& view) noexcept {
    if (const auto* info = find_element_type(view.element_type)) {
        return info->bits;
    }
    if (!view.extension_type) {
        return tl::unexpected(
            DescriptorError{Fault::UnknownTypeTag, "type_tag", 0, static_cast<std::uint64_t>(view.element_type), 0});
    }
    const std::uint32_t width = view.extension_type->bit_width;
    if (width > 8 && width % 8 != 0) {
        return tl::unexpected(DescriptorError{Fault::InvalidExtensionType, "extension_type.bit_width", 0, width, 0});
    }
    return width;
}

std::optional<std::uint64_t> packed_byte_size(std::uint64_t count, std::uint32_t bits) noexcept {
    if (bits >= 8) {
        return checked_mul(count, std::uint64_t{bits / 8});
    }
    if (bits == 6) {
        return checked_mul(count / 4 + (count % 4 != 0 ? 1 : 0), std::uint64_t{3});
    }
    const std::uint64_t in_a_byte = 8 / bits;
    return count / in_a_byte + (count % in_a_byte != 0 ? 1 : 0);
}

std::optional<std::size_t> layout_buffer_count(const Layout& layout, std::size_t rank) noexcept {
    if (is_private_tag(static_cast<std::uint8_t>(layout.tag))) {
        return std::nullopt;
    }
    switch (layout.tag) {
        case LayoutTag::Coo:
            return 2;
        case LayoutTag::Csr:
        case LayoutTag::Csc:
        case LayoutTag::BlockPaged:
            return 3;
        case LayoutTag::Csf:
            return 2 * rank + 1;
        case LayoutTag::CompositeHead:
            return 0;
        default:
            return 1;
    }
}

Size required_buffer_size(const DescriptorView& view, std::size_t index) noexcept {
    HURRAY_DCHECK(index < layout_buffer_count(view.layout, view.shape.rank()).value_or(0));
    switch (view.layout.tag) {
        case LayoutTag::Coo:
            return coo_buffer(view, index);
        case LayoutTag::Csr:
        case LayoutTag::Csc:
            return compressed_buffer(view, index);
        case LayoutTag::Csf:
            return csf_buffer(view, index);
        case LayoutTag::BlockPaged:
            return block_paged_buffer(view, index);
        default:
            return dense_buffer(view);
    }
}

DescriptorResult<std::optional<ParameterSizes>> required_parameter_sizes(const DescriptorView& view,
                                                                         const Quantization& q) noexcept {
    if (q.scheme == QuantizationScheme::PerTensor) {
        return ParameterSizes{};
    }
    const auto count = parameter_count(view, q);
    if (!count) {
        return tl::unexpected(count.error());
    }
    if (!*count) {
        return std::nullopt;
    }
    const bool has_zero_points = zero_point_buffer(q).has_value();
    const auto scales = checked_mul(**count, scale_size(q));
    const auto zero_points = has_zero_points ? checked_mul(**count, kZeroPointSize) : std::uint64_t{0};
    if (!scales || !zero_points) {
        return overflow("shape");
    }
    return ParameterSizes{*scales, *zero_points};
}

}  // namespace hurray
