#include <bit>
#include <cstddef>
#include <initializer_list>
#include <span>
#include <string>

#include "hurray.h"

#include "libhurray/abi/accessor.hpp"
#include "libhurray/abi/capacity.hpp"
#include "libhurray/abi/descriptor_handle.hpp"
#include "libhurray/abi/guard.hpp"
#include "libhurray/format/descriptor_view.hpp"
#include "libhurray/format/descriptor_writer.hpp"
#include "libhurray/format/quantization.hpp"

using namespace hurray::abi;

namespace {

HurrayStatus fail_layout(const char* function, const hurray::DescriptorView& view, const char* what) {
    return fail(HURRAY_ERR_UNSUPPORTED, function,
                "layout " + std::to_string(static_cast<unsigned>(view.layout.tag)) + " has no " + what);
}

HurrayStatus fail_section(const char* function, const char* section) {
    return fail(HURRAY_ERR_NOT_FOUND, function, std::string("the descriptor has no ") + section + " section");
}

/// The name of an argument and what came for it.
struct Required {
    const char* name;
    const void* pointer;
};

/// Runs `body(view)` once the pointers are known to be there.
template <class Body>
HurrayStatus with_view(const char* function, const HurrayDescriptor* descriptor,
                       std::initializer_list<Required> outputs, Body body) {
    return guard(function, [&]() -> HurrayStatus {
        if (descriptor == nullptr) {
            return fail_null(function, "descriptor");
        }
        for (const Required& output : outputs) {
            if (output.pointer == nullptr) {
                return fail_null(function, output.name);
            }
        }
        return body(view_of(*descriptor));
    });
}

/// Runs `body(payload)` if the layout is of the kind that has one; `what` is missing otherwise.
template <class Payload, class Body>
HurrayStatus with_layout(const char* function, const HurrayDescriptor* descriptor, const char* what,
                         std::initializer_list<Required> outputs, Body body) {
    return with_view(function, descriptor, outputs, [&](const hurray::DescriptorView& view) -> HurrayStatus {
        const auto* payload = view.layout.as<Payload>();
        return payload == nullptr ? fail_layout(function, view, what) : body(*payload);
    });
}

template <class T>
void copy_out(const hurray::PackedArray<T>& array, T* out) {
    for (std::size_t i = 0; i < array.size(); ++i) {
        out[i] = array[i];
    }
}

/// Hands an array out by the capacity pattern.
template <class T>
HurrayStatus hand_out(const char* function, const char* name, const hurray::PackedArray<T>& array, T* out,
                      uintptr_t& inout_length) {
    const HurrayStatus status = take_capacity(function, name, out, array.size(), inout_length);
    if (status == HURRAY_OK) {
        copy_out(array, out);
    }
    return status;
}

/// Lends bytes: null and 0 if there are none.
void lend(std::span<const std::uint8_t> bytes, const uint8_t** out_data, uintptr_t* out_len) {
    *out_data = bytes.empty() ? nullptr : bytes.data();
    *out_len = bytes.size();
}

/// Runs `body(level)` for one level of a tiled layout.
template <class Body>
HurrayStatus with_level(const char* function, const HurrayDescriptor* descriptor, uint32_t level,
                        std::initializer_list<Required> outputs, Body body) {
    return with_layout<hurray::TiledLayout>(
        function, descriptor, "levels of tiling", outputs, [&](const hurray::TiledLayout& tiled) -> HurrayStatus {
            if (level >= tiled.level_count) {
                return fail(HURRAY_ERR_INDEX_OUT_OF_BOUNDS, function,
                            "level is " + std::to_string(level) + ", the layout has " +
                                std::to_string(tiled.level_count) + " levels");
            }
            return body(tiled.level(level));
        });
}

HurrayStatus tiled_strides(const char* function, const HurrayDescriptor* descriptor, uint32_t level, bool outer,
                           int64_t* out_strides, uintptr_t* inout_rank) {
    return with_level(function, descriptor, level, {{"inout_rank", inout_rank}},
                      [&](const hurray::TiledLevel& tiled) -> HurrayStatus {
                          if ((outer ? tiled.outer : tiled.inner) != hurray::LayoutTag::Strided) {
                              return fail(HURRAY_ERR_UNSUPPORTED, function,
                                          "this order of level " + std::to_string(level) + " is not strided");
                          }
                          return hand_out(function, "out_strides", outer ? tiled.outer_strides : tiled.inner_strides,
                                          out_strides, *inout_rank);
                      });
}

}  // namespace

HurrayStatus hurray_descriptor_version(const HurrayDescriptor* descriptor, uint8_t* out_major, uint8_t* out_minor) {
    return with_view(__func__, descriptor, {{"out_major", out_major}, {"out_minor", out_minor}},
                     [&](const hurray::DescriptorView& view) {
                         *out_major = view.version_major;
                         *out_minor = view.version_minor;
                         return HURRAY_OK;
                     });
}

HurrayStatus hurray_descriptor_sections(const HurrayDescriptor* descriptor, uint32_t* out) {
    return read_field(__func__, "descriptor", descriptor, out,
                      [](const HurrayDescriptor& d) { return hurray::section_flags(view_of(d)); });
}

HurrayStatus hurray_descriptor_tiled_level_count(const HurrayDescriptor* descriptor, uint32_t* out) {
    return with_layout<hurray::TiledLayout>(__func__, descriptor, "levels of tiling", {{"out", out}},
                                            [&](const hurray::TiledLayout& tiled) {
                                                *out = static_cast<uint32_t>(tiled.level_count);
                                                return HURRAY_OK;
                                            });
}

HurrayStatus hurray_descriptor_tiled_order(const HurrayDescriptor* descriptor, uint32_t level, uint8_t* out_outer,
                                           uint8_t* out_inner) {
    return with_level(__func__, descriptor, level, {{"out_outer", out_outer}, {"out_inner", out_inner}},
                      [&](const hurray::TiledLevel& tiled) {
                          *out_outer = static_cast<uint8_t>(tiled.outer);
                          *out_inner = static_cast<uint8_t>(tiled.inner);
                          return HURRAY_OK;
                      });
}

HurrayStatus hurray_descriptor_tiled_shape(const HurrayDescriptor* descriptor, uint32_t level, uint64_t* out_dims,
                                           uintptr_t* inout_rank) {
    return with_level(__func__, descriptor, level, {{"inout_rank", inout_rank}},
                      [&, function = __func__](const hurray::TiledLevel& tiled) {
                          return hand_out(function, "out_dims", tiled.tile_shape, out_dims, *inout_rank);
                      });
}

HurrayStatus hurray_descriptor_tiled_outer_strides(const HurrayDescriptor* descriptor, uint32_t level,
                                                   int64_t* out_strides, uintptr_t* inout_rank) {
    return tiled_strides(__func__, descriptor, level, true, out_strides, inout_rank);
}

HurrayStatus hurray_descriptor_tiled_inner_strides(const HurrayDescriptor* descriptor, uint32_t level,
                                                   int64_t* out_strides, uintptr_t* inout_rank) {
    return tiled_strides(__func__, descriptor, level, false, out_strides, inout_rank);
}

HurrayStatus hurray_descriptor_morton_bits(const HurrayDescriptor* descriptor, uint32_t* out_bits,
                                           uintptr_t* inout_rank) {
    return with_layout<hurray::MortonLayout>(__func__, descriptor, "Morton bits", {{"inout_rank", inout_rank}},
                                             [&, function = __func__](const hurray::MortonLayout& morton) {
                                                 return hand_out(function, "out_bits", morton.bits, out_bits,
                                                                 *inout_rank);
                                             });
}

HurrayStatus hurray_descriptor_hilbert(const HurrayDescriptor* descriptor, uint32_t* out_order, uint32_t* out_rank) {
    return with_layout<hurray::HilbertLayout>(__func__, descriptor, "Hilbert order",
                                              {{"out_order", out_order}, {"out_rank", out_rank}},
                                              [&](const hurray::HilbertLayout& hilbert) {
                                                  *out_order = hilbert.order;
                                                  *out_rank = hilbert.rank;
                                                  return HURRAY_OK;
                                              });
}

HurrayStatus hurray_descriptor_nnz(const HurrayDescriptor* descriptor, uint64_t* out) {
    return with_view(__func__, descriptor, {{"out", out}},
                     [&, function = __func__](const hurray::DescriptorView& view) -> HurrayStatus {
                         const auto nnz = hurray::stored_count(view.layout);
                         if (!nnz) {
                             return fail_layout(function, view, "count of stored elements");
                         }
                         *out = *nnz;
                         return HURRAY_OK;
                     });
}

HurrayStatus hurray_descriptor_coo_is_sorted(const HurrayDescriptor* descriptor, uint8_t* out) {
    return with_layout<hurray::CooLayout>(__func__, descriptor, "order of entries", {{"out", out}},
                                          [&](const hurray::CooLayout& coo) {
                                              *out = coo.is_sorted ? 1 : 0;
                                              return HURRAY_OK;
                                          });
}

HurrayStatus hurray_descriptor_csf_mode_order(const HurrayDescriptor* descriptor, uint32_t* out_modes,
                                              uintptr_t* inout_rank) {
    return with_layout<hurray::CsfLayout>(__func__, descriptor, "mode order", {{"inout_rank", inout_rank}},
                                          [&, function = __func__](const hurray::CsfLayout& csf) {
                                              return hand_out(function, "out_modes", csf.mode_order, out_modes,
                                                              *inout_rank);
                                          });
}

HurrayStatus hurray_descriptor_block_paged(const HurrayDescriptor* descriptor, HurrayBlockPaged* out) {
    return with_layout<hurray::BlockPagedLayout>(__func__, descriptor, "pages", {{"out", out}},
                                                 [&](const hurray::BlockPagedLayout& pages) {
                                                     *out = HurrayBlockPaged{};
                                                     out->num_pages = pages.num_pages;
                                                     out->page_size = pages.page_size;
                                                     out->paged_axis = pages.paged_axis;
                                                     out->num_seqs = pages.num_seqs;
                                                     out->layer_index = pages.layer_index.value_or(HURRAY_NO_LAYER);
                                                     out->kv_role = pages.kv_role;
                                                     out->index_type = pages.wide_index ? 1 : 0;
                                                     return HURRAY_OK;
                                                 });
}

HurrayStatus hurray_descriptor_composite_head(const HurrayDescriptor* descriptor, HurrayCompositeHead* out) {
    return with_layout<hurray::CompositeHeadLayout>(
        __func__, descriptor, "members", {{"out", out}}, [&](const hurray::CompositeHeadLayout& head) {
            *out = HurrayCompositeHead{head.member_count, static_cast<uint8_t>(head.rule), head.combine_op, {0, 0}};
            return HURRAY_OK;
        });
}

HurrayStatus hurray_descriptor_private_layout(const HurrayDescriptor* descriptor, uint64_t* out_id,
                                              const uint8_t** out_data, uintptr_t* out_len) {
    return with_layout<hurray::PrivateLayout>(__func__, descriptor, "private data",
                                              {{"out_id", out_id}, {"out_data", out_data}, {"out_len", out_len}},
                                              [&](const hurray::PrivateLayout& layout) {
                                                  *out_id = layout.id;
                                                  lend(layout.data, out_data, out_len);
                                                  return HURRAY_OK;
                                              });
}

HurrayStatus hurray_descriptor_quantization(const HurrayDescriptor* descriptor, HurrayQuantization* out) {
    return with_view(__func__, descriptor, {{"out", out}},
                     [&, function = __func__](const hurray::DescriptorView& view) -> HurrayStatus {
                         if (!view.quantization) {
                             return fail_section(function, "quantization");
                         }
                         const auto q = hurray::parse_quantization(*view.quantization);
                         if (!q) {
                             return fail(function, q.error());
                         }
                         *out = HurrayQuantization{static_cast<uint8_t>(q->scheme),
                                                   q->scheme_version,
                                                   static_cast<uint8_t>(q->symmetric ? 1 : 0),
                                                   q->scale_type_tag,
                                                   q->axis,
                                                   q->block_size,
                                                   hurray::scale_buffer(*q).value_or(HURRAY_NO_BUFFER),
                                                   hurray::zero_point_buffer(*q).value_or(HURRAY_NO_BUFFER),
                                                   q->scale,
                                                   q->zero_point};
                         return HURRAY_OK;
                     });
}

HurrayStatus hurray_descriptor_quantization_bytes(const HurrayDescriptor* descriptor, const uint8_t** out_data,
                                                  uintptr_t* out_len) {
    return with_view(__func__, descriptor, {{"out_data", out_data}, {"out_len", out_len}},
                     [&, function = __func__](const hurray::DescriptorView& view) -> HurrayStatus {
                         if (!view.quantization) {
                             return fail_section(function, "quantization");
                         }
                         lend(*view.quantization, out_data, out_len);
                         return HURRAY_OK;
                     });
}

HurrayStatus hurray_descriptor_shard(const HurrayDescriptor* descriptor, uint64_t* out_parent_shape,
                                     uint64_t* out_offset, uintptr_t* inout_rank) {
    return with_view(__func__, descriptor, {{"inout_rank", inout_rank}},
                     [&, function = __func__](const hurray::DescriptorView& view) -> HurrayStatus {
                         if (!view.shard) {
                             return fail_section(function, "shard");
                         }
                         const void* const both = out_offset == nullptr ? nullptr : out_parent_shape;
                         const char* const name = out_parent_shape == nullptr ? "out_parent_shape" : "out_offset";
                         const HurrayStatus status =
                             take_capacity(function, name, both, view.shape.rank(), *inout_rank);
                         if (status == HURRAY_OK) {
                             copy_out(view.shard->parent_shape, out_parent_shape);
                             copy_out(view.shard->offset, out_offset);
                         }
                         return status;
                     });
}

HurrayStatus hurray_descriptor_statistics(const HurrayDescriptor* descriptor, HurrayStatistics* out) {
    return with_view(__func__, descriptor, {{"out", out}},
                     [&, function = __func__](const hurray::DescriptorView& view) -> HurrayStatus {
                         if (!view.statistics) {
                             return fail_section(function, "statistics");
                         }
                         const hurray::Statistics& s = *view.statistics;
                         *out = HurrayStatistics{s.nnz,
                                                 std::bit_cast<double>(s.sparsity_ratio_bits),
                                                 std::bit_cast<double>(s.value_min_bits),
                                                 std::bit_cast<double>(s.value_max_bits),
                                                 std::bit_cast<double>(s.value_abs_max_bits),
                                                 std::bit_cast<double>(s.value_mean_bits),
                                                 std::bit_cast<double>(s.value_stddev_bits),
                                                 s.computed_mask,
                                                 s.nm_n,
                                                 s.nm_m,
                                                 static_cast<uint8_t>(s.has_nan ? 1 : 0),
                                                 static_cast<uint8_t>(s.has_inf ? 1 : 0)};
                         return HURRAY_OK;
                     });
}

HurrayStatus hurray_descriptor_extension_type(const HurrayDescriptor* descriptor, HurrayExtensionType* out) {
    return with_view(__func__, descriptor, {{"out", out}},
                     [&, function = __func__](const hurray::DescriptorView& view) -> HurrayStatus {
                         if (!view.extension_type) {
                             return fail_section(function, "extension type");
                         }
                         const hurray::ExtensionType& type = *view.extension_type;
                         *out = HurrayExtensionType{type.bit_width,
                                                    type.exponent_bias,
                                                    type.packing_factor,
                                                    static_cast<uint8_t>(type.is_float ? 1 : 0),
                                                    static_cast<uint8_t>(type.is_signed ? 1 : 0),
                                                    type.sign_bits,
                                                    type.exponent_bits,
                                                    type.mantissa_bits,
                                                    static_cast<uint8_t>(type.has_nan ? 1 : 0),
                                                    static_cast<uint8_t>(type.has_inf ? 1 : 0)};
                         return HURRAY_OK;
                     });
}

HurrayStatus hurray_descriptor_composite_member(const HurrayDescriptor* descriptor, uint8_t* out_role) {
    return with_view(__func__, descriptor, {{"out_role", out_role}},
                     [&, function = __func__](const hurray::DescriptorView& view) -> HurrayStatus {
                         if (!view.composite_member) {
                             return fail_section(function, "composite member");
                         }
                         *out_role = static_cast<uint8_t>(*view.composite_member);
                         return HURRAY_OK;
                     });
}
