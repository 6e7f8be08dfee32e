#include "libhurray/format/validate.hpp"

#include <bit>
#include <cstddef>
#include <optional>

#include "libhurray/format/element_type.hpp"
#include "libhurray/format/required_buffers.hpp"
#include "libhurray/format/rule.hpp"

namespace hurray {
namespace {

constexpr std::uint32_t kMinGpuAlignment = 4096;

bool is_private(LayoutTag tag) { return is_private_tag(static_cast<std::uint8_t>(tag)); }

bool is_gpu(DeviceTag device) {
    return device != DeviceTag::Cpu && device != DeviceTag::Hexagon &&
           !is_private_tag(static_cast<std::uint8_t>(device));
}

// ---- The descriptor by itself --------------------------------------------------------------------------------------

/// Decoding takes major version 0 for 1; there is no such format.
Check check_version(const DescriptorView& view) {
    const std::uint8_t major = view.version_major;
    return require(major == 1, Fault::UnsupportedDescriptorVersion, "version_major", major, 1);
}

Check check_booleans(const DescriptorView& view) {
    const OddFlag& odd = view.odd_flag;
    return require(odd.field == nullptr, Fault::InvalidBoolean, odd.field, odd.value);
}

/// What the two sets of rules do not agree about.
Check check_scope(const DescriptorView& view, ValidationRules rules) {
    if (rules == ValidationRules::Format) {
        return require(!is_private(view.layout.tag), Fault::PrivateLayoutTag, "layout_tag",
                       static_cast<std::uint64_t>(view.layout.tag));
    }
    const auto dynamic = view.shape.first_dynamic_dimension();
    return require(!dynamic, Fault::InvalidShape, "shape[]", 0, 0, dynamic.value_or(0));
}

Check check_devices(const BufferTable& buffers, ValidationRules rules) {
    for (std::size_t i = 0; i < buffers.size(); ++i) {
        const BufferEntry entry = buffers[i];
        if (!device_has_memory_class(entry.device, entry.memory_class)) {
            return refuse(Fault::MemoryClassNotOnDevice, "buffers[].memory_class",
                          static_cast<std::uint64_t>(entry.memory_class), static_cast<std::uint64_t>(entry.device), i);
        }
        const bool aligned = entry.byte_size == 0 || entry.alignment >= kMinGpuAlignment;
        if (rules == ValidationRules::Format && is_gpu(entry.device) && !aligned) {
            return refuse(Fault::AlignmentBelowMinimum, "buffers[].alignment", entry.alignment, kMinGpuAlignment, i);
        }
    }
    return {};
}

Check check_devices_go_together(const DescriptorView& view) {
    return view.layout.tag == LayoutTag::CompositeHead ? Check{} : check_colocation(view.buffers);
}

// ---- Layout --------------------------------------------------------------------------------------------------------

Check check_scalar(const DescriptorView& view) {
    const LayoutTag tag = view.layout.tag;
    return require(view.shape.rank() > 0 || tag == LayoutTag::RowMajor || is_private(tag), Fault::InvalidLayout,
                   "layout_tag", static_cast<std::uint64_t>(tag));
}

/// No element is stored twice.
Check check_stored_count(const DescriptorView& view) {
    const auto nnz = stored_count(view.layout);
    const auto elements = view.shape.is_empty() ? std::uint64_t{0} : view.shape.element_count();
    if (!nnz || !elements) {
        return {};
    }
    return require(*nnz <= *elements, Fault::StoredCountExceedsShape, "layout.nnz", *nnz, *elements);
}

Check check_members(const Layout& layout) {
    const auto* head = layout.as<CompositeHeadLayout>();
    if (head == nullptr || head->member_count > 0) {
        return {};
    }
    const bool overlay = head->rule == CompositionRule::Overlay;
    return refuse(overlay ? Fault::CompositeOverlayEmpty : Fault::CompositeHeadEmpty, "layout.member_count");
}

// ---- Sections ------------------------------------------------------------------------------------------------------

Check check_shard(const DescriptorView& view) {
    if (!view.shard) {
        return {};
    }
    if (const auto dynamic = view.shape.first_dynamic_dimension()) {
        return refuse(Fault::InvalidShape, "shape[]", 0, 0, *dynamic);
    }
    // Also what keeps offset and size from adding up to more than 64 bits: decoding lets that pass for such a parent.
    const auto dynamic = Shape(view.shard->parent_shape).first_dynamic_dimension();
    return require(!dynamic, Fault::InvalidShape, "shard.parent_shape[]", 0, 0, dynamic.value_or(0));
}

Check check_statistics(const DescriptorView& view) {
    if (!view.statistics) {
        return {};
    }
    const Statistics& s = *view.statistics;
    const auto nnz = stored_count(view.layout);
    if ((s.computed_mask & Statistics::kNnz) != 0 && nnz && s.nnz != *nnz) {
        return refuse(Fault::StoredCountMismatch, "statistics.nnz", s.nnz, *nnz);
    }
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
    const auto bits = element_bits(view);
    if (!bits) {
        return tl::unexpected(bits.error());
    }
    if (type.is_float) {
        return rule(!type.is_signed, "extension_type.is_signed", 1).and_then([&] {
            return rule(type.sign_bits <= 1, "extension_type.sign_bits", type.sign_bits);
        });
    }
    return rule(type.sign_bits == 0, "extension_type.sign_bits", type.sign_bits)
        .and_then([&] { return rule(type.exponent_bits == 0, "extension_type.exponent_bits", type.exponent_bits); })
        .and_then([&] { return rule(type.mantissa_bits == 0, "extension_type.mantissa_bits", type.mantissa_bits); })
        .and_then([&] { return rule(type.exponent_bias == 0, "extension_type.exponent_bias", type.exponent_bias); });
}

/// Only members of an overlay carry this section; they are boxes of its head, and the base is all of it.
Check check_composite_member(const DescriptorView& view) {
    if (!view.composite_member) {
        return {};
    }
    if (!view.shard) {
        return refuse(Fault::CompositeMemberMissingShard, "composite_member");
    }
    if (*view.composite_member != MemberRole::Base) {
        return {};
    }
    for (std::size_t k = 0; k < view.shape.rank(); ++k) {
        const std::uint64_t offset = view.shard->offset[k];
        const std::uint64_t parent = view.shard->parent_shape[k];
        if (offset != 0) {
            return refuse(Fault::CompositeOverlayBaseNotSpanning, "shard.shard_offset[]", offset, 0, k);
        }
        if (view.shape[k] != parent) {
            return refuse(Fault::CompositeOverlayBaseNotSpanning, "shape[]", view.shape[k], parent, k);
        }
    }
    return {};
}

// ---- Buffers -------------------------------------------------------------------------------------------------------

/// How many buffers the quantization adds. It has been checked.
std::size_t parameter_buffer_count(const DescriptorView& view) {
    if (!view.quantization) {
        return 0;
    }
    const Quantization q = *parse_quantization(*view.quantization);
    const auto scales = scale_buffer(q);
    const auto zero_points = zero_point_buffer(q);
    return (scales ? 1U : 0U) + (zero_points && zero_points != scales ? 1U : 0U);
}

Check check_byte_offset(const DescriptorView& view) {
    const bool dense = layout_buffer_count(view.layout, view.shape.rank()).value_or(1) <= 1;
    if (!dense) {
        return require(view.byte_offset == 0, Fault::ByteOffsetNotZero, "byte_offset", view.byte_offset);
    }
    const std::uint64_t size = view.buffers.size() == 0 ? 0 : view.buffers[0].byte_size;
    return require(view.byte_offset <= size, Fault::ByteOffsetPastBuffer, "byte_offset", view.byte_offset, size);
}

Check check_buffers(const DescriptorView& view) {
    const auto own = layout_buffer_count(view.layout, view.shape.rank());
    if (!own) {
        return check_byte_offset(view);
    }
    const std::size_t count = *own + parameter_buffer_count(view);
    if (view.buffers.size() != count) {
        return refuse(Fault::BufferCountMismatch, "buffer_count", view.buffers.size(), count);
    }
    if (const Check offset = check_byte_offset(view); !offset) {
        return offset;
    }
    for (std::size_t i = 0; i < *own; ++i) {
        const auto needed = required_buffer_size(view, i);
        if (!needed && needed.error().fault == Fault::InvalidShape) {
            continue;  // it depends on a size that is not known yet
        }
        if (!needed) {
            return tl::unexpected(needed.error());
        }
        const std::uint64_t size = view.buffers[i].byte_size;
        if (size < *needed) {
            const Fault fault = *own == 1 ? Fault::ElementsPastBuffer : Fault::BufferBelowLayout;
            return refuse(fault, "buffers[].byte_size", size, *needed, i);
        }
    }
    return {};
}

}  // namespace

Check validate_descriptor(const DescriptorView& view, ValidationRules rules) noexcept {
    return check_version(view)
        .and_then([&] { return check_booleans(view); })
        .and_then([&] { return check_scope(view, rules); })
        .and_then([&] { return check_devices(view.buffers, rules); })
        .and_then([&] { return check_devices_go_together(view); })
        .and_then([&] { return check_scalar(view); })
        .and_then([&] { return check_layout_against_shape(view); })
        .and_then([&] { return check_stored_count(view); })
        .and_then([&] { return check_members(view.layout); })
        .and_then([&] { return check_shard(view); })
        .and_then([&] { return check_statistics(view); })
        .and_then([&] { return check_extension_type(view); })
        .and_then([&] { return check_composite_member(view); })
        .and_then([&] { return check_quantization_as_written(view); })
        .and_then([&] { return check_buffers(view); });
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
