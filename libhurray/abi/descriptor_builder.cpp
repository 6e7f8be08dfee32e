#include <algorithm>
#include <bit>
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hurray.h"

#include "libhurray/abi/capacity.hpp"
#include "libhurray/abi/descriptor_handle.hpp"
#include "libhurray/abi/guard.hpp"
#include "libhurray/abi/handle.hpp"
#include "libhurray/format/descriptor_value.hpp"
#include "libhurray/format/element_type.hpp"
#include "libhurray/format/owned_descriptor.hpp"
#include "libhurray/format/quantization.hpp"

using namespace hurray::abi;

/// The value lies in a block of its own, so that a checking build keeps only this pointer after the handle's end.
struct HurrayDescriptorBuilder {
    std::unique_ptr<hurray::DescriptorValue> value;
};

namespace {

HurrayStatus fail_argument(const char* function, std::string_view what) {
    return fail(HURRAY_ERR_INVALID_ARGUMENT, function, what);
}

/// Runs `body(value)` if there is a builder.
template <class Body>
HurrayStatus edit(const char* function, HurrayDescriptorBuilder* builder, Body body) {
    return guard(function, [&]() -> HurrayStatus {
        if (builder == nullptr) {
            return fail_null(function, "builder");
        }
        return body(*builder->value);
    });
}

template <class Payload>
HurrayStatus set_layout(const char* function, HurrayDescriptorBuilder* builder, hurray::LayoutTag tag,
                        Payload payload) {
    return edit(function, builder, [&](hurray::DescriptorValue& value) {
        value.layout = {tag, std::move(payload)};
        return HURRAY_OK;
    });
}

/// `count` entries at `array`, which may be null for none.
template <class T>
std::vector<T> copy(const T* array, std::size_t count) {
    return count == 0 ? std::vector<T>() : std::vector<T>(array, array + count);
}

/// Sets a layout with one array of an entry a dimension; `make` turns the array into the payload.
template <class T, class Make>
HurrayStatus set_array_layout(const char* function, HurrayDescriptorBuilder* builder, hurray::LayoutTag tag,
                              const char* name, const T* array, Make make) {
    return edit(function, builder, [&](hurray::DescriptorValue& value) -> HurrayStatus {
        const std::size_t rank = value.shape.size();
        if (array == nullptr && rank > 0) {
            return fail_null(function, name);
        }
        value.layout = {tag, make(copy(array, rank))};
        return HURRAY_OK;
    });
}

bool all_zero(const uint8_t* bytes, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
        if (bytes[i] != 0) {
            return false;
        }
    }
    return true;
}

/// The strides that one order of a level has.
HurrayStatus take_strides(const char* function, const char* name, uint8_t layout, const int64_t* strides,
                          std::size_t rank, std::vector<int64_t>& out) {
    const bool strided = layout == HURRAY_LAYOUT_STRIDED;
    if (strided && strides == nullptr && rank > 0) {
        return fail_null(function, name);
    }
    if (!strided && strides != nullptr) {
        return fail_argument(function, std::string(name) + " are given, but that order is not HURRAY_LAYOUT_STRIDED");
    }
    out = copy(strides, strided ? rank : 0);
    return HURRAY_OK;
}

HurrayStatus take_level(const char* function, const HurrayTiledLevel& level, std::size_t rank,
                        hurray::TiledLevelValue& out) {
    if (!all_zero(level.reserved, sizeof(level.reserved))) {
        return fail_argument(function, "level.reserved is not 0");
    }
    if (level.tile_shape == nullptr && rank > 0) {
        return fail_null(function, "level.tile_shape");
    }
    out.tile_shape = copy(level.tile_shape, rank);
    out.outer = static_cast<hurray::LayoutTag>(level.outer_layout);
    out.inner = static_cast<hurray::LayoutTag>(level.inner_layout);
    const HurrayStatus status =
        take_strides(function, "level.outer_strides", level.outer_layout, level.outer_strides, rank, out.outer_strides);
    return status != HURRAY_OK ? status
                               : take_strides(function, "level.inner_strides", level.inner_layout, level.inner_strides,
                                              rank, out.inner_strides);
}

/// Flags of the C structs, which a descriptor would silently take for 1.
HurrayStatus check_flags(const char* function, std::initializer_list<std::pair<const char*, uint8_t>> flags) {
    for (const auto& [name, flag] : flags) {
        if (flag > 1) {
            return fail_argument(function, std::string(name) + " is " + std::to_string(flag) + ", neither 0 nor 1");
        }
    }
    return HURRAY_OK;
}

}  // namespace

HurrayStatus hurray_descriptor_builder_new(uint8_t element_type, const uint64_t* shape, uint32_t rank,
                                           HurrayDescriptorBuilder** out) {
    return guard(__func__, [&, function = __func__]() -> HurrayStatus {
        if (shape == nullptr && rank > 0) {
            return fail_null(function, "shape");
        }
        if (out == nullptr) {
            return fail_null(function, "out");
        }
        if (rank > HURRAY_MAX_RANK) {
            return fail(function,
                        hurray::DescriptorError{hurray::Fault::RankExceedsMaximum, "rank", 0, rank, HURRAY_MAX_RANK});
        }
        auto value = std::make_unique<hurray::DescriptorValue>();
        value->element_type = static_cast<hurray::ElementType>(element_type);
        value->shape = copy(shape, rank);
        *out = make_handle<HurrayDescriptorBuilder>(std::move(value));
        return HURRAY_OK;
    });
}

HurrayStatus hurray_descriptor_builder_from_descriptor(const HurrayDescriptor* descriptor,
                                                       HurrayDescriptorBuilder** out) {
    return guard(__func__, [&, function = __func__]() -> HurrayStatus {
        if (descriptor == nullptr) {
            return fail_null(function, "descriptor");
        }
        if (out == nullptr) {
            return fail_null(function, "out");
        }
        auto value = std::make_unique<hurray::DescriptorValue>(hurray::DescriptorValue::of(view_of(*descriptor)));
        *out = make_handle<HurrayDescriptorBuilder>(std::move(value));
        return HURRAY_OK;
    });
}

HurrayStatus hurray_descriptor_builder_destroy(HurrayDescriptorBuilder** builder) {
    if (builder == nullptr) {
        return fail_null(__func__, "builder");
    }
    if (*builder == nullptr) {
        return HURRAY_OK;
    }
    if (!claim_handle(*builder)) {
        return fail(HURRAY_ERR_INTERNAL, __func__, "this builder is not alive: it was destroyed before");
    }
    const OwnedHandle<HurrayDescriptorBuilder> owned(std::exchange(*builder, nullptr));
    return HURRAY_OK;
}

HurrayStatus hurray_descriptor_builder_set_byte_offset(HurrayDescriptorBuilder* builder, uint64_t byte_offset) {
    return edit(__func__, builder, [&](hurray::DescriptorValue& value) {
        value.byte_offset = byte_offset;
        return HURRAY_OK;
    });
}

// ---- Layouts -------------------------------------------------------------------------------------------------------

HurrayStatus hurray_descriptor_builder_set_row_major(HurrayDescriptorBuilder* builder) {
    return set_layout(__func__, builder, hurray::LayoutTag::RowMajor, std::monostate());
}

HurrayStatus hurray_descriptor_builder_set_column_major(HurrayDescriptorBuilder* builder) {
    return set_layout(__func__, builder, hurray::LayoutTag::ColumnMajor, std::monostate());
}

HurrayStatus hurray_descriptor_builder_set_strided(HurrayDescriptorBuilder* builder, const int64_t* strides) {
    return set_array_layout(__func__, builder, hurray::LayoutTag::Strided, "strides", strides,
                            [](std::vector<int64_t> entries) { return hurray::StridedValue{std::move(entries)}; });
}

HurrayStatus hurray_descriptor_builder_set_tiled(HurrayDescriptorBuilder* builder, const HurrayTiledLevel* levels,
                                                 uint32_t level_count) {
    return edit(__func__, builder, [&, function = __func__](hurray::DescriptorValue& value) -> HurrayStatus {
        if (levels == nullptr) {
            return fail_null(function, "levels");
        }
        if (level_count == 0 || level_count > HURRAY_MAX_TILED_LEVELS) {
            return fail_argument(function, "level_count is " + std::to_string(level_count) + ", not 1 to " +
                                               std::to_string(HURRAY_MAX_TILED_LEVELS));
        }
        hurray::TiledValue tiled;
        tiled.levels.resize(level_count);
        for (uint32_t i = 0; i < level_count; ++i) {
            const HurrayStatus status = take_level(function, levels[i], value.shape.size(), tiled.levels[i]);
            if (status != HURRAY_OK) {
                return status;
            }
        }
        value.layout = {hurray::LayoutTag::Tiled, std::move(tiled)};
        return HURRAY_OK;
    });
}

HurrayStatus hurray_descriptor_builder_set_morton(HurrayDescriptorBuilder* builder, const uint32_t* bits) {
    return set_array_layout(__func__, builder, hurray::LayoutTag::Morton, "bits", bits,
                            [](std::vector<uint32_t> entries) { return hurray::MortonValue{std::move(entries)}; });
}

HurrayStatus hurray_descriptor_builder_set_hilbert(HurrayDescriptorBuilder* builder, uint32_t order, uint32_t rank) {
    return set_layout(__func__, builder, hurray::LayoutTag::Hilbert, hurray::HilbertLayout{order, rank});
}

HurrayStatus hurray_descriptor_builder_set_coo(HurrayDescriptorBuilder* builder, uint64_t nnz, uint8_t is_sorted) {
    return edit(__func__, builder, [&, function = __func__](hurray::DescriptorValue& value) {
        const HurrayStatus status = check_flags(function, {{"is_sorted", is_sorted}});
        if (status == HURRAY_OK) {
            value.layout = {hurray::LayoutTag::Coo, hurray::CooLayout{nnz, is_sorted == 1}};
        }
        return status;
    });
}

HurrayStatus hurray_descriptor_builder_set_csr(HurrayDescriptorBuilder* builder, uint64_t nnz) {
    return set_layout(__func__, builder, hurray::LayoutTag::Csr, hurray::CompressedLayout{nnz});
}

HurrayStatus hurray_descriptor_builder_set_csc(HurrayDescriptorBuilder* builder, uint64_t nnz) {
    return set_layout(__func__, builder, hurray::LayoutTag::Csc, hurray::CompressedLayout{nnz});
}

HurrayStatus hurray_descriptor_builder_set_csf(HurrayDescriptorBuilder* builder, uint64_t nnz,
                                               const uint32_t* mode_order) {
    return set_array_layout(__func__, builder, hurray::LayoutTag::Csf, "mode_order", mode_order,
                            [nnz](std::vector<uint32_t> entries) { return hurray::CsfValue{nnz, std::move(entries)}; });
}

HurrayStatus hurray_descriptor_builder_set_block_paged(HurrayDescriptorBuilder* builder,
                                                       const HurrayBlockPaged* block_paged) {
    return edit(__func__, builder, [&, function = __func__](hurray::DescriptorValue& value) -> HurrayStatus {
        if (block_paged == nullptr) {
            return fail_null(function, "block_paged");
        }
        if (!all_zero(block_paged->reserved, sizeof(block_paged->reserved))) {
            return fail_argument(function, "block_paged.reserved is not 0");
        }
        if (const HurrayStatus status = check_flags(function, {{"block_paged.index_type", block_paged->index_type}});
            status != HURRAY_OK) {
            return status;
        }
        hurray::BlockPagedLayout pages;
        pages.page_size = block_paged->page_size;
        pages.num_pages = block_paged->num_pages;
        pages.paged_axis = block_paged->paged_axis;
        pages.num_seqs = block_paged->num_seqs;
        pages.kv_role = block_paged->kv_role;
        if (block_paged->layer_index != HURRAY_NO_LAYER) {
            pages.layer_index = block_paged->layer_index;
        }
        pages.wide_index = block_paged->index_type == 1;
        value.layout = {hurray::LayoutTag::BlockPaged, pages};
        return HURRAY_OK;
    });
}

HurrayStatus hurray_descriptor_builder_set_composite_head(HurrayDescriptorBuilder* builder,
                                                          const HurrayCompositeHead* head) {
    return edit(__func__, builder, [&, function = __func__](hurray::DescriptorValue& value) -> HurrayStatus {
        if (head == nullptr) {
            return fail_null(function, "head");
        }
        if (!all_zero(head->reserved, sizeof(head->reserved))) {
            return fail_argument(function, "head.reserved is not 0");
        }
        value.layout = {hurray::LayoutTag::CompositeHead,
                        hurray::CompositeHeadLayout{static_cast<hurray::CompositionRule>(head->composition_rule),
                                                    head->combine_op, head->member_count}};
        return HURRAY_OK;
    });
}

HurrayStatus hurray_descriptor_builder_set_private_layout(HurrayDescriptorBuilder* builder, uint8_t layout_tag,
                                                          uint64_t id, const uint8_t* data, uintptr_t len) {
    return edit(__func__, builder, [&, function = __func__](hurray::DescriptorValue& value) -> HurrayStatus {
        if (data == nullptr && len > 0) {
            return fail_null(function, "data");
        }
        if (!hurray::is_private_tag(layout_tag)) {
            return fail_argument(function,
                                 "layout_tag is " + std::to_string(layout_tag) + ", not one of 240 to 254 (F0 to FE)");
        }
        value.layout = {static_cast<hurray::LayoutTag>(layout_tag), hurray::PrivateValue{id, copy(data, len)}};
        return HURRAY_OK;
    });
}

// ---- Buffers -------------------------------------------------------------------------------------------------------

HurrayStatus hurray_descriptor_builder_add_buffer(HurrayDescriptorBuilder* builder, const HurrayBufferEntry* entry) {
    return edit(__func__, builder, [&, function = __func__](hurray::DescriptorValue& value) -> HurrayStatus {
        if (entry == nullptr) {
            return fail_null(function, "entry");
        }
        if (entry->reserved != 0) {
            return fail_argument(function, "entry.reserved is not 0");
        }
        value.buffers.push_back({entry->byte_size, entry->alignment, static_cast<hurray::DeviceTag>(entry->device_tag),
                                 static_cast<hurray::SyncMode>(entry->sync_mode),
                                 static_cast<hurray::MemoryClass>(entry->memory_class)});
        return HURRAY_OK;
    });
}

HurrayStatus hurray_descriptor_builder_clear_buffers(HurrayDescriptorBuilder* builder) {
    return edit(__func__, builder, [](hurray::DescriptorValue& value) {
        value.buffers.clear();
        return HURRAY_OK;
    });
}

// ---- Sections ------------------------------------------------------------------------------------------------------

HurrayStatus hurray_descriptor_builder_set_quantization(HurrayDescriptorBuilder* builder,
                                                        const HurrayQuantization* quantization) {
    return edit(__func__, builder, [&, function = __func__](hurray::DescriptorValue& value) -> HurrayStatus {
        if (quantization == nullptr) {
            value.quantization.reset();
            return HURRAY_OK;
        }
        if (const HurrayStatus status = check_flags(function, {{"quantization.symmetric", quantization->symmetric}});
            status != HURRAY_OK) {
            return status;
        }
        hurray::Quantization q;
        q.scheme = static_cast<hurray::QuantizationScheme>(quantization->scheme);
        q.scheme_version = quantization->scheme_version;
        q.symmetric = quantization->symmetric == 1;
        q.axis = quantization->axis;
        q.block_size = quantization->block_size;
        q.scale_buffer_index = quantization->scale_buffer_index;
        q.zero_point_buffer_index = quantization->zero_point_buffer_index;
        q.scale_type_tag = quantization->scale_type_tag;
        q.scale = quantization->scale;
        q.zero_point = quantization->zero_point;
        const auto encoded = hurray::encode_quantization(q);
        if (!encoded) {
            return fail(function, encoded.error());
        }
        value.quantization.emplace(encoded->bytes().begin(), encoded->bytes().end());
        return HURRAY_OK;
    });
}

HurrayStatus hurray_descriptor_builder_set_quantization_bytes(HurrayDescriptorBuilder* builder, const uint8_t* bytes,
                                                              uintptr_t len) {
    return edit(__func__, builder, [&, function = __func__](hurray::DescriptorValue& value) -> HurrayStatus {
        if (bytes == nullptr && len > 0) {
            return fail_null(function, "bytes");
        }
        value.quantization = bytes == nullptr ? std::nullopt : std::optional(copy(bytes, len));
        return HURRAY_OK;
    });
}

HurrayStatus hurray_descriptor_builder_set_shard(HurrayDescriptorBuilder* builder, const uint64_t* parent_shape,
                                                 const uint64_t* offset) {
    return edit(__func__, builder, [&, function = __func__](hurray::DescriptorValue& value) -> HurrayStatus {
        const std::size_t rank = value.shape.size();
        if (parent_shape == nullptr && offset != nullptr) {
            return fail_null(function, "parent_shape");
        }
        if (parent_shape == nullptr) {
            value.shard.reset();
            return HURRAY_OK;
        }
        if (offset == nullptr && rank > 0) {
            return fail_null(function, "offset");
        }
        value.shard = hurray::ShardValue{copy(parent_shape, rank), copy(offset, rank)};
        return HURRAY_OK;
    });
}

HurrayStatus hurray_descriptor_builder_set_statistics(HurrayDescriptorBuilder* builder,
                                                      const HurrayStatistics* statistics) {
    return edit(__func__, builder, [&, function = __func__](hurray::DescriptorValue& value) -> HurrayStatus {
        if (statistics == nullptr) {
            value.statistics.reset();
            return HURRAY_OK;
        }
        if (const HurrayStatus status = check_flags(
                function, {{"statistics.has_nan", statistics->has_nan}, {"statistics.has_inf", statistics->has_inf}});
            status != HURRAY_OK) {
            return status;
        }
        const auto bits = [](double number) { return std::bit_cast<std::uint64_t>(number); };
        value.statistics = hurray::Statistics{statistics->computed_mask,
                                              statistics->nnz,
                                              bits(statistics->sparsity_ratio),
                                              bits(statistics->value_min),
                                              bits(statistics->value_max),
                                              bits(statistics->value_abs_max),
                                              bits(statistics->value_mean),
                                              bits(statistics->value_stddev),
                                              statistics->nm_n,
                                              statistics->nm_m,
                                              statistics->has_nan == 1,
                                              statistics->has_inf == 1};
        return HURRAY_OK;
    });
}

HurrayStatus hurray_descriptor_builder_set_extension_type(HurrayDescriptorBuilder* builder,
                                                          const HurrayExtensionType* type) {
    return edit(__func__, builder, [&, function = __func__](hurray::DescriptorValue& value) -> HurrayStatus {
        if (type == nullptr) {
            value.extension_type.reset();
            return HURRAY_OK;
        }
        if (const HurrayStatus status = check_flags(function, {{"type.is_float", type->is_float},
                                                               {"type.is_signed", type->is_signed},
                                                               {"type.has_nan", type->has_nan},
                                                               {"type.has_inf", type->has_inf}});
            status != HURRAY_OK) {
            return status;
        }
        hurray::ExtensionType extension;
        extension.bit_width = type->bit_width;
        extension.packing_factor = type->packing_factor;
        extension.is_float = type->is_float == 1;
        extension.is_signed = type->is_signed == 1;
        extension.sign_bits = type->sign_bits;
        extension.exponent_bits = type->exponent_bits;
        extension.mantissa_bits = type->mantissa_bits;
        extension.exponent_bias = type->exponent_bias;
        extension.has_nan = type->has_nan == 1;
        extension.has_inf = type->has_inf == 1;
        value.extension_type = extension;
        return HURRAY_OK;
    });
}

HurrayStatus hurray_descriptor_builder_set_composite_member(HurrayDescriptorBuilder* builder, const uint8_t* role) {
    return edit(__func__, builder, [&](hurray::DescriptorValue& value) {
        value.composite_member = role == nullptr ? std::nullopt : std::optional(static_cast<hurray::MemberRole>(*role));
        return HURRAY_OK;
    });
}

// ---- The result ----------------------------------------------------------------------------------------------------

HurrayStatus hurray_descriptor_builder_encode(const HurrayDescriptorBuilder* builder, uint8_t* out_bytes,
                                              uintptr_t* inout_len) {
    return guard(__func__, [&, function = __func__]() -> HurrayStatus {
        if (builder == nullptr) {
            return fail_null(function, "builder");
        }
        if (inout_len == nullptr) {
            return fail_null(function, "inout_len");
        }
        const auto bytes = builder->value->encode();
        if (!bytes) {
            return fail(function, bytes.error());
        }
        const HurrayStatus status = take_capacity(function, "out_bytes", out_bytes, bytes->size(), *inout_len);
        if (status == HURRAY_OK) {
            std::copy(bytes->begin(), bytes->end(), out_bytes);
        }
        return status;
    });
}

HurrayStatus hurray_descriptor_builder_build(const HurrayDescriptorBuilder* builder, HurrayDescriptor** out) {
    return guard(__func__, [&, function = __func__]() -> HurrayStatus {
        if (builder == nullptr) {
            return fail_null(function, "builder");
        }
        if (out == nullptr) {
            return fail_null(function, "out");
        }
        const auto bytes = builder->value->encode();
        if (!bytes) {
            return fail(function, bytes.error());
        }
        auto decoded = hurray::OwnedDescriptor::decode(*bytes);
        if (!decoded) {
            return fail(function, decoded.error());
        }
        *out = make_descriptor(*std::move(decoded));
        return HURRAY_OK;
    });
}
