#include "libhurray/format/descriptor_json.hpp"

#include <array>
#include <bit>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <variant>

#include "libhurray/format/extent.hpp"
#include "libhurray/format/json_writer.hpp"
#include "libhurray/format/quantization.hpp"
#include "libhurray/format/tag_names.hpp"

namespace hurray {
namespace {

std::string hexadecimal(std::span<const std::uint8_t> bytes) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    std::string text;
    text.reserve(2 * bytes.size());
    for (const std::uint8_t byte : bytes) {
        text += kDigits[byte >> 4U];
        text += kDigits[byte & 15U];
    }
    return text;
}

template <class T>
void add_numbers(JsonWriter& json, const char* key, PackedArray<T> numbers) {
    json.key(key).begin_array();
    for (std::size_t i = 0; i < numbers.size(); ++i) {
        json.value(numbers[i]);
    }
    json.end_array();
}

/// Sizes: the dynamic one is null.
void add_sizes(JsonWriter& json, const char* key, PackedArray<std::uint64_t> sizes) {
    json.key(key).begin_array();
    for (std::size_t k = 0; k < sizes.size(); ++k) {
        if (sizes[k] == kDynamicDim) {
            json.null();
        } else {
            json.value(sizes[k]);
        }
    }
    json.end_array();
}

void add_strides(JsonWriter& json, const DescriptorView& view) {
    if (const auto* strided = view.layout.as<StridedLayout>()) {
        add_numbers(json, "strides", strided->strides);
        return;
    }
    if (view.layout.tag != LayoutTag::RowMajor && view.layout.tag != LayoutTag::ColumnMajor) {
        return;
    }
    std::array<std::int64_t, kMaxRank> strides{};
    const auto implied = std::span(strides).first(view.shape.rank());
    json.key("strides");
    if (!implied_strides(view.shape, view.layout.tag, implied)) {
        json.null();
        return;
    }
    json.begin_array();
    for (const std::int64_t stride : implied) {
        json.value(stride);
    }
    json.end_array();
}

// ---- Layouts: one function for each that has fields of its own -----------------------------------------------------

void add_fields(JsonWriter& json, const TiledLayout& layout) {
    json.key("levels").begin_array();
    for (std::size_t i = 0; i < layout.level_count; ++i) {
        const TiledLevel level = layout.level(i);
        json.begin_object();
        add_numbers(json, "tile_shape", level.tile_shape);
        json.member("outer_layout", layout_text(level.outer));
        json.member("inner_layout", layout_text(level.inner));
        if (level.outer == LayoutTag::Strided) {
            add_numbers(json, "outer_strides", level.outer_strides);
        }
        if (level.inner == LayoutTag::Strided) {
            add_numbers(json, "inner_strides", level.inner_strides);
        }
        json.end_object();
    }
    json.end_array();
}

void add_fields(JsonWriter& json, const MortonLayout& layout) { add_numbers(json, "morton_bits", layout.bits); }

void add_fields(JsonWriter& json, const CooLayout& layout) {
    json.member("nnz", layout.nnz);
    json.member("is_sorted", layout.is_sorted);
}

void add_fields(JsonWriter& json, const CompressedLayout& layout) { json.member("nnz", layout.nnz); }

void add_fields(JsonWriter& json, const CsfLayout& layout) {
    json.member("nnz", layout.nnz);
    add_numbers(json, "mode_order", layout.mode_order);
}

void add_fields(JsonWriter& json, const BlockPagedLayout& layout) {
    constexpr std::array<std::string_view, 3> kRoles{"key", "value", "fused"};
    json.member("page_size", layout.page_size);
    json.member("num_pages", layout.num_pages);
    json.member("paged_axis", layout.paged_axis);
    json.member("num_seqs", layout.num_seqs);
    json.member("kv_role", kRoles.at(layout.kv_role));
    json.key("layer_index");
    if (layout.layer_index) {
        json.value(*layout.layer_index);
    } else {
        json.null();
    }
    json.member("block_table_index_type", layout.wide_index ? "uint64" : "uint32");
}

void add_fields(JsonWriter& json, const CompositeHeadLayout& layout) {
    constexpr std::array<std::string_view, 3> kOps{"none", "replace", "add"};
    json.member("composition_rule", composition_rule_text(layout.rule));
    json.member("combine_op", kOps.at(layout.combine_op));
    json.member("member_count", layout.member_count);
}

void add_fields(JsonWriter& json, const HilbertLayout& layout) {
    json.member("hilbert_order", layout.order);
    json.member("hilbert_rank", layout.rank);
}

void add_fields(JsonWriter& json, const PrivateLayout& layout) {
    json.member("extension_layout_id", layout.id);
    json.member("extension_data", hexadecimal(layout.data));
}

void add_layout_fields(JsonWriter& json, const Layout& layout) {
    std::visit(
        [&](const auto& payload) {
            if constexpr (requires { add_fields(json, payload); }) {
                json.key("layout_fields").begin_object();
                add_fields(json, payload);
                json.end_object();
            }
        },
        layout.payload);
}

// ---- Buffers and sections ------------------------------------------------------------------------------------------

void add_buffers(JsonWriter& json, const BufferTable& buffers) {
    json.key("buffers").begin_array();
    for (std::size_t i = 0; i < buffers.size(); ++i) {
        const BufferEntry entry = buffers[i];
        json.begin_object();
        json.member("byte_size", entry.byte_size);
        json.member("alignment", entry.alignment);
        json.member("device", device_text(entry.device));
        json.member("sync_mode", sync_mode_text(entry.sync_mode));
        json.member("memory_class", memory_class_text(entry.memory_class));
        json.end_object();
    }
    json.end_array();
}

void add_buffer_index(JsonWriter& json, const char* key, std::uint32_t index) {
    json.key(key);
    if (index == UINT32_MAX) {
        json.null();
    } else {
        json.value(index);
    }
}

void add_quantization(JsonWriter& json, std::span<const std::uint8_t> bytes) {
    json.key("quantization").begin_object();
    const auto parsed = parse_quantization(bytes);
    if (!parsed) {
        json.member("error", describe(parsed.error()));
        json.member("bytes", hexadecimal(bytes));
        json.end_object();
        return;
    }
    const Quantization& q = *parsed;
    json.member("scheme", quantization_scheme_text(q.scheme));
    json.member("scheme_version", q.scheme_version);
    if (q.scheme == QuantizationScheme::PerTensor) {
        json.member("scale", q.scale);
        json.member("zero_point", q.zero_point);
        json.end_object();
        return;
    }
    const bool affine = q.scheme == QuantizationScheme::PerChannel || q.scheme == QuantizationScheme::PerBlock;
    if (affine) {
        json.member("symmetric", q.symmetric);
    }
    json.member("axis", q.axis);
    if (q.scheme != QuantizationScheme::PerChannel) {
        json.member("block_size", q.block_size);
    }
    add_buffer_index(json, "scale_buffer_index", q.scale_buffer_index);
    if (affine) {
        add_buffer_index(json, "zero_point_buffer_index", q.zero_point_buffer_index);
        json.member("scale_type", element_type_text(static_cast<ElementType>(q.scale_type_tag)));
    }
    json.end_object();
}

void add_shard(JsonWriter& json, const Shard& shard) {
    json.key("shard").begin_object();
    add_sizes(json, "parent_shape", shard.parent_shape);
    add_numbers(json, "shard_offset", shard.offset);
    json.end_object();
}

void add_statistics(JsonWriter& json, const Statistics& s) {
    const auto has = [&](std::uint32_t bit) { return (s.computed_mask & bit) != 0; };
    const auto real = [&](const char* key, std::uint64_t bits) { json.member(key, std::bit_cast<double>(bits)); };
    json.key("statistics").begin_object();
    if (has(Statistics::kNnz)) {
        json.member("nnz", s.nnz);
    }
    if (has(Statistics::kSparsityRatio)) {
        real("sparsity_ratio", s.sparsity_ratio_bits);
    }
    if (has(Statistics::kRange)) {
        real("value_min", s.value_min_bits);
        real("value_max", s.value_max_bits);
        real("value_abs_max", s.value_abs_max_bits);
    }
    if (has(Statistics::kMoments)) {
        real("value_mean", s.value_mean_bits);
        real("value_stddev", s.value_stddev_bits);
    }
    if (has(Statistics::kNmSparsity)) {
        json.member("nm_n", s.nm_n);
        json.member("nm_m", s.nm_m);
    }
    if (has(Statistics::kSpecialValues)) {
        json.member("has_nan", s.has_nan);
        json.member("has_inf", s.has_inf);
    }
    json.end_object();
}

void add_extension_type(JsonWriter& json, const ExtensionType& type) {
    json.key("extension_type").begin_object();
    json.member("bit_width", type.bit_width);
    json.member("packing_factor", type.packing_factor);
    json.member("is_float", type.is_float);
    json.member("is_signed", type.is_signed);
    json.member("sign_bits", type.sign_bits);
    json.member("exponent_bits", type.exponent_bits);
    json.member("mantissa_bits", type.mantissa_bits);
    json.member("exponent_bias", type.exponent_bias);
    json.member("has_nan", type.has_nan);
    json.member("has_inf", type.has_inf);
    json.end_object();
}

}  // namespace

std::string descriptor_to_json(const DescriptorView& view) {
    JsonWriter json;
    json.begin_object();
    json.member("version", std::to_string(view.version_major) + "." + std::to_string(view.version_minor));
    json.member("element_type", element_type_text(view.element_type));
    add_sizes(json, "shape", view.shape.dims());
    json.member("layout", layout_text(view.layout.tag));
    add_strides(json, view);
    add_layout_fields(json, view.layout);
    json.member("byte_offset", view.byte_offset);
    add_buffers(json, view.buffers);
    if (view.quantization) {
        add_quantization(json, *view.quantization);
    }
    if (view.shard) {
        add_shard(json, *view.shard);
    }
    if (view.statistics) {
        add_statistics(json, *view.statistics);
    }
    if (view.extension_type) {
        add_extension_type(json, *view.extension_type);
    }
    if (view.composite_member) {
        json.member("composite_member", member_role_text(*view.composite_member));
    }
    json.end_object();
    return std::move(json).text();
}

}  // namespace hurray
