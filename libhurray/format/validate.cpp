#include "libhurray/format/validate.hpp"

#include <bit>
#include <cstddef>

#include "libhurray/format/element_type.hpp"
#include "libhurray/format/extent.hpp"

namespace hurray {
namespace {

using Check = DescriptorResult<void>;

tl::unexpected<DescriptorError> refuse(Fault fault, const char* field, std::uint64_t value = 0, std::uint64_t limit = 0,
                                       std::uint64_t index = 0) {
    return tl::unexpected(DescriptorError{fault, field, index, value, limit});
}

Check require(bool condition, Fault fault, const char* field, std::uint64_t value = 0, std::uint64_t limit = 0,
              std::uint64_t index = 0) {
    if (condition) {
        return {};
    }
    return refuse(fault, field, value, limit, index);
}

Check layout_rule(bool condition, const char* field, std::uint64_t value, std::uint64_t index = 0) {
    return require(condition, Fault::InvalidLayout, field, value, 0, index);
}

bool is_linear(LayoutTag tag) {
    return tag == LayoutTag::RowMajor || tag == LayoutTag::ColumnMajor || tag == LayoutTag::Strided;
}

// ---- Layout against shape: one function a layout that has such a rule ----------------------------------------------

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

// ---- The other rules -----------------------------------------------------------------------------------------------

/// Decoding takes major version 0 for 1; there is no such format.
Check check_version(const DescriptorView& view) {
    const std::uint8_t major = view.version_major;
    return require(major == 1, Fault::UnsupportedDescriptorVersion, "version_major", major, 1);
}

Check check_devices(const BufferTable& buffers) {
    for (std::size_t i = 0; i < buffers.size(); ++i) {
        const BufferEntry entry = buffers[i];
        if (!device_has_memory_class(entry.device, entry.memory_class)) {
            return refuse(Fault::MemoryClassNotOnDevice, "buffers[].memory_class",
                          static_cast<std::uint64_t>(entry.memory_class), static_cast<std::uint64_t>(entry.device), i);
        }
    }
    return {};
}

Check check_supported(const DescriptorView& view) {
    return require(is_linear(view.layout.tag), Fault::NotSupportedYet, "layout_tag",
                   static_cast<std::uint64_t>(view.layout.tag))
        .and_then([&] { return require(!view.quantization, Fault::NotSupportedYet, "quantization"); });
}

Check check_statistics(const DescriptorView& view) {
    if (!view.statistics) {
        return {};
    }
    const Statistics& s = *view.statistics;
    const auto stddev = std::bit_cast<double>(s.value_stddev_bits);
    if ((s.computed_mask & Statistics::kMoments) != 0 && stddev < 0) {
        return refuse(Fault::InvalidStatistics, "statistics.value_stddev");
    }
    if ((s.computed_mask & Statistics::kNmSparsity) != 0 && s.nm_n > s.nm_m) {
        return refuse(Fault::InvalidStatistics, "statistics.nm_n");
    }
    return {};
}

Check check_extension_type(const DescriptorView& view) {
    if (!view.extension_type) {
        return {};
    }
    const ExtensionType& type = *view.extension_type;
    const auto rule = [](bool condition, const char* field, std::uint64_t value) {
        return require(condition, Fault::InvalidExtensionType, field, value);
    };
    // Widths above 8 that are no whole bytes have no storage size.
    const bool has_size = type.bit_width < 8 || type.bit_width % 8 == 0;
    const Check width = rule(has_size, "extension_type.bit_width", type.bit_width);
    if (type.is_float) {
        return width.and_then([&] { return rule(!type.is_signed, "extension_type.is_signed", 1); }).and_then([&] {
            return rule(type.sign_bits <= 1, "extension_type.sign_bits", type.sign_bits);
        });
    }
    return width.and_then([&] { return rule(type.sign_bits == 0, "extension_type.sign_bits", type.sign_bits); })
        .and_then([&] { return rule(type.exponent_bits == 0, "extension_type.exponent_bits", type.exponent_bits); })
        .and_then([&] { return rule(type.mantissa_bits == 0, "extension_type.mantissa_bits", type.mantissa_bits); })
        .and_then([&] { return rule(type.exponent_bias == 0, "extension_type.exponent_bias", type.exponent_bias); });
}

/// Private types say their width themselves.
std::uint32_t element_bits(const DescriptorView& view) {
    return view.extension_type ? view.extension_type->bit_width : find_element_type(view.element_type)->bits;
}

Check check_scalar(const DescriptorView& view) {
    return layout_rule(view.shape.rank() > 0 || view.layout.tag == LayoutTag::RowMajor, "layout_tag",
                       static_cast<std::uint64_t>(view.layout.tag));
}

Check check_buffer(const DescriptorView& view) {
    if (view.buffers.size() != 1) {
        return refuse(Fault::BufferCountMismatch, "buffer_count", view.buffers.size(), 1);
    }
    const std::uint64_t byte_size = view.buffers[0].byte_size;
    if (view.byte_offset > byte_size) {
        return refuse(Fault::ByteOffsetPastBuffer, "byte_offset", view.byte_offset, byte_size);
    }
    const auto extent = dense_extent(view.shape, view.layout, element_bits(view));
    if (!extent) {
        return tl::unexpected(extent.error());
    }
    const auto needed = needed_byte_size(view.byte_offset, *extent);
    if (!needed) {
        return tl::unexpected(needed.error());
    }
    return require(*needed <= byte_size, Fault::ElementsPastBuffer, "buffers[].byte_size", byte_size, *needed);
}

}  // namespace

Check validate_descriptor(const DescriptorView& view) noexcept {
    return check_version(view)
        .and_then([&] { return check_devices(view.buffers); })
        .and_then(
            [&] { return view.layout.tag == LayoutTag::CompositeHead ? Check{} : check_colocation(view.buffers); })
        .and_then([&] { return check_scalar(view); })
        .and_then([&] { return check_layout_against_shape(view); })
        .and_then([&] { return check_statistics(view); })
        .and_then([&] { return check_extension_type(view); })
        .and_then([&] { return check_supported(view); })
        .and_then([&] { return check_buffer(view); });
}

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
        case LayoutTag::Tiled:
            break;
    }
    return {};
}

Check check_colocation(const BufferTable& buffers) noexcept {
    if (buffers.size() == 0) {
        return refuse(Fault::EmptyBufferList, "buffers");
    }
    const BufferEntry first = buffers[0];
    for (std::size_t i = 1; i < buffers.size(); ++i) {
        const BufferEntry entry = buffers[i];
        if (entry.device != first.device) {
            return refuse(Fault::DeviceTagMismatch, "buffers[].device_tag", static_cast<std::uint64_t>(entry.device),
                          static_cast<std::uint64_t>(first.device), i);
        }
        if (entry.memory_class != first.memory_class) {
            return refuse(Fault::MemoryClassMismatch, "buffers[].memory_class",
                          static_cast<std::uint64_t>(entry.memory_class),
                          static_cast<std::uint64_t>(first.memory_class), i);
        }
    }
    return {};
}

}  // namespace hurray
