#include <cstddef>

#include "libhurray/base/checked_math.hpp"
#include "libhurray/format/required_buffers.hpp"
#include "libhurray/format/rule.hpp"
#include "libhurray/format/validate.hpp"

namespace hurray {
namespace {

constexpr const char* kScaleIndex = "quantization.scale_buffer_index";
constexpr const char* kZeroPointIndex = "quantization.zero_point_buffer_index";
constexpr std::size_t kDataBuffer = 0;

std::uint64_t number(ElementType type) { return static_cast<std::uint64_t>(type); }

/// A storage type and what zero points it holds. Those of 32 bits hold as much of them as the field does.
struct StorageType {
    ElementType type;
    std::int64_t lowest;
    std::int64_t highest;
    bool in_blocks;  // goes with per-block affine as well
};

constexpr StorageType kAffineTypes[] = {
    {ElementType::Int8, INT8_MIN, INT8_MAX, true},
    {ElementType::UInt8, 0, UINT8_MAX, true},
    {ElementType::Int16, INT16_MIN, INT16_MAX, false},
    {ElementType::UInt16, 0, UINT16_MAX, false},
    {ElementType::Int32, INT32_MIN, INT32_MAX, false},
    {ElementType::UInt32, 0, UINT32_MAX, false},
    {ElementType::Int4, -8, 7, true},
    {ElementType::UInt4, 0, 15, true},
    {ElementType::Int2, -2, 1, true},
    {ElementType::UInt2, 0, 3, true},
};

constexpr ElementType kMxfpTypes[] = {
    ElementType::Float8E4M3, ElementType::Float8E5M2, ElementType::Float4E2M1, ElementType::Float6E2M3,
    ElementType::Float6E3M2, ElementType::Int8,       ElementType::Int4,
};

const StorageType* find_affine_type(ElementType type) {
    for (const StorageType& storage : kAffineTypes) {
        if (storage.type == type) {
            return &storage;
        }
    }
    return nullptr;
}

bool stores(QuantizationScheme scheme, ElementType type) {
    switch (scheme) {
        case QuantizationScheme::PerTensor:
        case QuantizationScheme::PerChannel:
            return find_affine_type(type) != nullptr;
        case QuantizationScheme::PerBlock: {
            const StorageType* storage = find_affine_type(type);
            return storage != nullptr && storage->in_blocks;
        }
        case QuantizationScheme::Nf4:
            return type == ElementType::UInt4;
        case QuantizationScheme::Mxfp:
            break;
    }
    for (const ElementType storage : kMxfpTypes) {
        if (storage == type) {
            return true;
        }
    }
    return false;
}

Check check_zero_point(const Quantization& q, ElementType type) {
    const StorageType* storage = find_affine_type(type);
    if (q.scheme != QuantizationScheme::PerTensor || storage == nullptr) {
        return {};
    }
    return require(q.zero_point >= storage->lowest && q.zero_point <= storage->highest, Fault::ZeroPointOutOfRange,
                   "quantization.zero_point", static_cast<std::uint64_t>(std::int64_t{q.zero_point}));
}

/// Blocks against the axis that they divide.
Check check_blocks(const Quantization& q, const Shape& shape) {
    if (q.block_size == 0) {  // a scheme without blocks
        return {};
    }
    const std::uint64_t length = shape[q.axis];
    bool fits = length != kDynamicDim;
    if (q.scheme == QuantizationScheme::Mxfp) {
        fits = fits && length > 0 && length % q.block_size == 0;
    } else {
        fits = fits && (length == 0 || q.block_size <= length);
    }
    return require(fits, Fault::QuantizationShapeMismatch, "quantization.block_size", q.block_size, length);
}

Check check_parameter_buffer(std::optional<std::uint32_t> index, const char* field, const BufferTable& buffers) {
    if (!index) {
        return {};
    }
    if (*index >= buffers.size()) {
        return refuse(Fault::QuantizationBufferIndexOutOfRange, field, *index, buffers.size());
    }
    if (*index == kDataBuffer) {
        return refuse(Fault::QuantizationBufferAliasesData, field, *index, 1);
    }
    const DeviceTag device = buffers[*index].device;
    const DeviceTag data_device = buffers[kDataBuffer].device;
    return require(device == data_device, Fault::DeviceTagMismatch, "buffers[].device_tag",
                   static_cast<std::uint64_t>(device), static_cast<std::uint64_t>(data_device), *index);
}

/// What the format asks of a writer: the scheme's own version and length, and an axis that has a size.
Check check_written_form(std::size_t length, const Quantization& q, const Shape& shape) {
    if (q.scheme_version != 1) {
        return refuse(Fault::UnsupportedSchemeVersion, "quantization.scheme_version", q.scheme_version, 1);
    }
    if (length != quantization_length(q.scheme)) {
        return refuse(Fault::InvalidQuantization, "quantization_length", length);
    }
    if (q.scheme == QuantizationScheme::PerChannel && shape[q.axis] == kDynamicDim) {
        return refuse(Fault::InvalidShape, "shape[]", 0, 0, q.axis);
    }
    return {};
}

Check check_size(const BufferTable& buffers, std::uint32_t index, std::optional<std::uint64_t> needed) {
    if (!needed) {
        return refuse(Fault::ElementsOverflow, "shape");
    }
    const std::uint64_t size = buffers[index].byte_size;
    return require(size == *needed, Fault::ParameterBufferSize, "buffers[].byte_size", size, *needed, index);
}

/// The parameter buffers lie behind those of the layout, and hold the parameters and nothing else.
Check check_parameter_buffers(const DescriptorView& view, const Quantization& q) {
    const auto scales = scale_buffer(q);
    const auto zero_points = zero_point_buffer(q);
    const std::size_t own = layout_buffer_count(view.layout, view.shape.rank()).value_or(1);
    if (scales && *scales < own) {
        return refuse(Fault::QuantizationBufferAliasesData, kScaleIndex, *scales, own);
    }
    if (zero_points && *zero_points < own) {
        return refuse(Fault::QuantizationBufferAliasesData, kZeroPointIndex, *zero_points, own);
    }
    const auto sizes = required_parameter_sizes(view, q);
    if (!sizes) {
        return tl::unexpected(sizes.error());
    }
    if (!*sizes || !scales) {
        return {};
    }
    const ParameterSizes& needed = **sizes;
    if (zero_points && *zero_points != *scales) {
        return check_size(view.buffers, *scales, needed.scales).and_then([&] {
            return check_size(view.buffers, *zero_points, needed.zero_points);
        });
    }
    return check_size(view.buffers, *scales, checked_add(needed.scales, needed.zero_points));
}

}  // namespace

Check check_quantization(const DescriptorView& view) noexcept {
    if (!view.quantization) {
        return {};
    }
    const auto parsed = parse_quantization(*view.quantization);
    if (!parsed) {
        return tl::unexpected(parsed.error());
    }
    const Quantization& q = *parsed;
    const std::size_t rank = view.shape.rank();
    if (!stores(q.scheme, view.element_type)) {
        return refuse(Fault::InvalidStorageTypeForScheme, "type_tag", number(view.element_type),
                      static_cast<std::uint64_t>(q.scheme));
    }
    if (q.scheme != QuantizationScheme::PerTensor && q.axis >= rank) {
        return refuse(Fault::QuantizationAxisOutOfBounds, "quantization.axis", q.axis, rank);
    }
    return check_zero_point(q, view.element_type)
        .and_then([&] { return check_blocks(q, view.shape); })
        .and_then([&] { return check_parameter_buffer(scale_buffer(q), kScaleIndex, view.buffers); })
        .and_then([&] { return check_parameter_buffer(zero_point_buffer(q), kZeroPointIndex, view.buffers); });
}

Check check_quantization_as_written(const DescriptorView& view) noexcept {
    return check_quantization(view).and_then([&]() -> Check {
        if (!view.quantization) {
            return {};
        }
        const Quantization q = *parse_quantization(*view.quantization);
        return check_written_form(view.quantization->size(), q, view.shape).and_then([&] {
            return check_parameter_buffers(view, q);
        });
    });
}

}  // namespace hurray
