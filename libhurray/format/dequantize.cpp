#include "libhurray/format/dequantize.hpp"

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>

#include "libhurray/base/checked_math.hpp"
#include "libhurray/format/element_value.hpp"
#include "libhurray/format/quantization.hpp"
#include "libhurray/format/validate.hpp"

namespace hurray {
namespace {

constexpr std::uint64_t kZeroPointBytes = 4;
constexpr int kScaleBias = 127;  // of float8_e8m0

constexpr std::array<std::uint32_t, 16> kNf4Levels{
    0xBF800000, 0xBF3239B1, 0xBF066B30, 0xBECA32A0, 0xBE91A24D, 0xBE3D353F, 0xBDBA7871, 0x00000000,
    0x3DA2FAFF, 0x3E24CAE3, 0x3E7C04DD, 0x3EAD033A, 0x3EE1A4B8, 0x3F1007AB, 0x3F3913B3, 0x3F800000,
};

tl::unexpected<DescriptorError> refuse(Fault fault, const char* field, std::uint64_t value, std::uint64_t limit = 0,
                                       std::uint64_t index = 0) {
    return tl::unexpected(DescriptorError{fault, field, index, value, limit});
}

bool has_parameters(QuantizationScheme scheme) { return scheme != QuantizationScheme::PerTensor; }

/// Whether the format says which parameters an element of the page pool has.
DescriptorResult<void> check_paged(const Quantization& q) {
    const bool by_slot = q.scheme == QuantizationScheme::PerBlock;
    const bool by_channel = q.scheme == QuantizationScheme::PerChannel && q.axis != 0;
    if (by_slot || by_channel || !has_parameters(q.scheme)) {
        return {};
    }
    return refuse(Fault::InvalidQuantization, "quantization.scheme_tag", static_cast<std::uint64_t>(q.scheme));
}

// ---- Where the parameters of an element are ------------------------------------------------------------------------

/// Parameters are numbered; the element has number `own` of `total`.
struct ParameterNumber {
    std::uint64_t own = 0;
    std::uint64_t total = 0;
};

DescriptorResult<ParameterNumber> block_number(const Shape& shape, const Quantization& q,
                                               std::span<const std::uint64_t> index) {
    const std::uint64_t blocks = shape[q.axis] / q.block_size + (shape[q.axis] % q.block_size != 0 ? 1 : 0);
    std::optional<std::uint64_t> total = blocks;
    std::optional<std::uint64_t> line = 0;  // the other dimensions, flattened
    for (std::size_t k = 0; k < shape.rank(); ++k) {
        if (k == q.axis) {
            continue;
        }
        total = total ? checked_mul(*total, shape[k]) : total;
        const auto before = line ? checked_mul(*line, shape[k]) : line;
        line = before ? checked_add(*before, index[k]) : before;
    }
    // As many blocks as 64 bits count: then so it is with each one's number.
    if (!total || !line) {
        return refuse(Fault::ElementsOverflow, "shape", 0);
    }
    return ParameterNumber{*line * blocks + index[q.axis] / q.block_size, *total};
}

DescriptorResult<ParameterNumber> slot_number(const BlockPagedLayout& layout, std::uint64_t slot) {
    const auto total = checked_mul(layout.num_pages, std::uint64_t{layout.page_size});
    if (!total) {
        return refuse(Fault::ElementsOverflow, "layout.num_pages", 0);
    }
    return ParameterNumber{slot, *total};
}

DescriptorResult<ParameterNumber> parameter_number(const DescriptorView& view, const Quantization& q,
                                                   const QuantizedPlace& place) {
    if (q.scheme == QuantizationScheme::PerChannel) {
        return ParameterNumber{place.index[q.axis], view.shape[q.axis]};
    }
    if (place.page_slot) {
        return slot_number(*view.layout.as<BlockPagedLayout>(), *place.page_slot);
    }
    return block_number(view.shape, q, place.index);
}

/// The bytes of parameter `number` of those that begin at `first` of a buffer and have `size` bytes each.
DescriptorResult<UInt128> load_parameter(BufferBytes buffers, std::uint32_t buffer, const char* field,
                                         std::uint64_t first, std::uint64_t number, std::uint64_t size) {
    if (buffer >= buffers.size()) {
        return refuse(Fault::QuantizationBufferIndexOutOfRange, field, buffer, buffers.size());
    }
    const std::span<const std::uint8_t> bytes = buffers[buffer];
    const auto relative = checked_mul(number, size);
    const auto begin = relative ? checked_add(first, *relative) : std::nullopt;
    if (!begin || !range_fits(*begin, size, bytes.size())) {
        const auto end = begin ? checked_add(*begin, size) : std::nullopt;
        return refuse(Fault::BufferTooShort, "buffers[]", bytes.size(), end.value_or(UINT64_MAX), buffer);
    }
    const auto width = static_cast<std::uint32_t>(8 * size);
    return load_element(*element_storage(width), bytes.subspan(*begin), 0);
}

// ---- The schemes ---------------------------------------------------------------------------------------------------

struct Affine {
    float scale = 0;
    std::int32_t zero_point = 0;
};

float affine_value(const Affine& affine, std::int64_t stored) {
    const auto difference = static_cast<float>(stored - affine.zero_point);
    return affine.scale * difference;
}

struct ScaleType {
    FloatFormat format;
    std::uint64_t bytes;
};

ScaleType scale_type(std::uint8_t tag) {
    switch (static_cast<ElementType>(tag)) {
        case ElementType::Float16:
            return {kFloat16Format, 2};
        case ElementType::BFloat16:
            return {kBFloat16Format, 2};
        default:
            return {kFloat32Format, 4};
    }
}

DescriptorResult<float> load_scale(BufferBytes buffers, const Quantization& q, const ScaleType& type,
                                   std::uint64_t number) {
    const auto code =
        load_parameter(buffers, q.scale_buffer_index, "quantization.scale_buffer_index", 0, number, type.bytes);
    if (!code) {
        return tl::unexpected(code.error());
    }
    const auto scale = static_cast<float>(to_double(decode_float(type.format, *code)));
    const bool forbidden = (q.scheme == QuantizationScheme::PerBlock && (!std::isfinite(scale) || scale == 0)) ||
                           (q.scheme == QuantizationScheme::Nf4 && (!std::isfinite(scale) || scale < 0));
    if (forbidden) {
        return refuse(Fault::InvalidQuantization, "scales[]", static_cast<std::uint64_t>(*code), 0, number);
    }
    return scale;
}

/// Scale and zero point of per-channel and per-block quantization.
DescriptorResult<Affine> load_affine(BufferBytes buffers, const Quantization& q, const ParameterNumber& number) {
    const ScaleType type = scale_type(q.scale_type_tag);
    const auto scale = load_scale(buffers, q, type, number.own);
    if (!scale) {
        return tl::unexpected(scale.error());
    }
    const auto buffer = zero_point_buffer(q);
    if (!buffer) {
        return Affine{*scale, 0};
    }
    // One buffer for both has the scales first.
    const bool shared = *buffer == q.scale_buffer_index;
    const auto first = shared ? checked_mul(number.total, type.bytes) : std::optional<std::uint64_t>{0};
    if (!first) {
        return refuse(Fault::ElementsOverflow, "shape", 0);
    }
    const auto zero_point =
        load_parameter(buffers, *buffer, "quantization.zero_point_buffer_index", *first, number.own, kZeroPointBytes);
    if (!zero_point) {
        return tl::unexpected(zero_point.error());
    }
    return Affine{*scale, static_cast<std::int32_t>(static_cast<std::uint32_t>(*zero_point))};
}

DescriptorResult<double> mxfp_value(BufferBytes buffers, const Quantization& q, std::uint64_t block, double stored) {
    const auto code = load_parameter(buffers, q.scale_buffer_index, "quantization.scale_buffer_index", 0, block, 1);
    if (!code) {
        return tl::unexpected(code.error());
    }
    if (*code == 0x00 || *code == 0xFF) {
        return refuse(Fault::InvalidQuantization, "scales[]", static_cast<std::uint64_t>(*code), 0, block);
    }
    return std::ldexp(stored, static_cast<int>(*code) - kScaleBias);
}

}  // namespace

DescriptorResult<double> dequantize(const DescriptorView& view, BufferBytes buffers, const QuantizedPlace& place,
                                    UInt128 code) noexcept {
    const auto q = parse_quantization(view.quantization.value_or(std::span<const std::uint8_t>{}));
    if (!q) {
        return tl::unexpected(q.error());
    }
    if (const auto fits = check_quantization(view); !fits) {
        return tl::unexpected(fits.error());
    }
    if (const auto fits = place.page_slot ? check_paged(*q) : DescriptorResult<void>{}; !fits) {
        return tl::unexpected(fits.error());
    }
    // Exact: no storage type has more than 32 bits.
    const double stored = to_value(*element_format(view.element_type), code)->real;
    if (q->scheme == QuantizationScheme::PerTensor) {
        return affine_value({q->scale, q->zero_point}, static_cast<std::int64_t>(stored));
    }
    const auto number = parameter_number(view, *q, place);
    if (!number) {
        return tl::unexpected(number.error());
    }
    if (q->scheme == QuantizationScheme::Mxfp) {
        return mxfp_value(buffers, *q, number->own, stored);
    }
    if (q->scheme == QuantizationScheme::Nf4) {
        const auto scale = load_scale(buffers, *q, {kFloat32Format, 4}, number->own);
        if (!scale) {
            return tl::unexpected(scale.error());
        }
        return *scale * std::bit_cast<float>(kNf4Levels[static_cast<std::size_t>(stored)]);
    }
    const auto affine = load_affine(buffers, *q, *number);
    if (!affine) {
        return tl::unexpected(affine.error());
    }
    return affine_value(*affine, static_cast<std::int64_t>(stored));
}

}  // namespace hurray
