#include <algorithm>
#include <string>
#include <vector>

#include "hurray.h"

#include "libhurray/abi/buffer_list.hpp"
#include "libhurray/abi/descriptor_handle.hpp"
#include "libhurray/abi/guard.hpp"
#include "libhurray/abi/index_argument.hpp"
#include "libhurray/base/checked_math.hpp"
#include "libhurray/format/composite_lookup.hpp"
#include "libhurray/format/element_format.hpp"
#include "libhurray/format/find_element.hpp"
#include "libhurray/format/quantization.hpp"
#include "libhurray/format/required_buffers.hpp"
#include "libhurray/format/validate.hpp"

using namespace hurray::abi;

namespace {

using hurray::DescriptorResult;
using hurray::DescriptorView;

HurrayElementAddress to_c(const hurray::ElementAddress& address) {
    HurrayElementAddress result{};
    result.byte_offset = address.byte;
    result.buffer_index = static_cast<uint32_t>(address.buffer);
    result.byte_count = address.storage.group_bytes;
    result.bit_offset = address.bit;
    result.bit_count = address.storage.bits;
    result.stored = 1;
    return result;
}

/// What a parameter buffer of the quantization has to hold: scales, zero points, or both.
DescriptorResult<uint64_t> parameter_buffer_size(const DescriptorView& view, uint32_t index) {
    const auto refuse = [](hurray::Fault fault, const char* field, uint64_t value, uint64_t limit) {
        return tl::unexpected(hurray::DescriptorError{fault, field, 0, value, limit});
    };
    if (!view.quantization) {
        return refuse(hurray::Fault::BufferCountMismatch, "buffer_count", view.buffers.size(), index);
    }
    if (const auto fits = hurray::check_quantization(view); !fits) {
        return tl::unexpected(fits.error());
    }
    const auto quantization = hurray::parse_quantization(*view.quantization);
    const auto sizes = hurray::required_parameter_sizes(view, *quantization);
    if (!sizes) {
        return tl::unexpected(sizes.error());
    }
    if (!*sizes) {
        return refuse(hurray::Fault::InvalidQuantization, "quantization.scheme_tag",
                      static_cast<uint64_t>(quantization->scheme), 0);
    }
    const bool has_scales = hurray::scale_buffer(*quantization) == index;
    const bool has_zero_points = hurray::zero_point_buffer(*quantization) == index;
    if (!has_scales && !has_zero_points) {
        return refuse(hurray::Fault::BufferCountMismatch, "buffer_count", view.buffers.size(), index);
    }
    const auto sum =
        hurray::checked_add(has_scales ? (*sizes)->scales : 0, has_zero_points ? (*sizes)->zero_points : 0);
    if (!sum) {
        return refuse(hurray::Fault::ElementsOverflow, "shape", 0, 0);
    }
    return *sum;
}

/// What buffer `index` has to hold, which is in the table.
DescriptorResult<uint64_t> least_buffer_size(const DescriptorView& view, uint32_t index) {
    const auto own = hurray::layout_buffer_count(view.layout, view.shape.rank());
    if (!own) {
        return tl::unexpected(hurray::DescriptorError{hurray::Fault::PrivateLayoutTag, "layout_tag", 0,
                                                      static_cast<uint64_t>(view.layout.tag), 0});
    }
    return index < *own ? hurray::required_buffer_size(view, index) : parameter_buffer_size(view, index);
}

}  // namespace

HurrayStatus hurray_descriptor_element_bits(const HurrayDescriptor* descriptor, uint32_t* out) {
    return guard(__func__, [&, function = __func__]() -> HurrayStatus {
        if (const HurrayStatus status =
                require(function, {{descriptor != nullptr, "descriptor"}, {out != nullptr, "out"}});
            status != HURRAY_OK) {
            return status;
        }
        const auto format = hurray::element_format(view_of(*descriptor));
        if (!format) {
            return fail(function, format.error());
        }
        *out = format->storage.bits;
        return HURRAY_OK;
    });
}

HurrayStatus hurray_descriptor_buffer_size(const HurrayDescriptor* descriptor, uint32_t index, uint64_t* out) {
    return guard(__func__, [&, function = __func__]() -> HurrayStatus {
        if (const HurrayStatus status =
                require(function, {{descriptor != nullptr, "descriptor"}, {out != nullptr, "out"}});
            status != HURRAY_OK) {
            return status;
        }
        const DescriptorView& view = view_of(*descriptor);
        if (index >= view.buffers.size()) {
            return fail(HURRAY_ERR_INDEX_OUT_OF_BOUNDS, function,
                        "index is " + std::to_string(index) + ", the descriptor has " +
                            std::to_string(view.buffers.size()) + " buffers");
        }
        const auto size = least_buffer_size(view, index);
        if (!size) {
            return fail(function, size.error());
        }
        *out = *size;
        return HURRAY_OK;
    });
}

HurrayStatus hurray_descriptor_element_address(const HurrayDescriptor* descriptor, const uint64_t* index,
                                               uintptr_t index_len, HurrayElementAddress* out) {
    return guard(__func__, [&, function = __func__]() -> HurrayStatus {
        const IndexArgument argument{index, index_len};
        if (const HurrayStatus status = require(
                function,
                {{descriptor != nullptr, "descriptor"}, {!argument.is_null(), "index"}, {out != nullptr, "out"}});
            status != HURRAY_OK) {
            return status;
        }
        const auto address = hurray::element_address(view_of(*descriptor), argument.span());
        if (!address) {
            return fail(function, address.error());
        }
        *out = to_c(*address);
        return HURRAY_OK;
    });
}

HurrayStatus hurray_descriptor_find_element(const HurrayDescriptor* descriptor, const HurrayBufferList* buffers,
                                            const uint64_t* index, uintptr_t index_len, HurrayElementAddress* out) {
    return guard(__func__, [&, function = __func__]() -> HurrayStatus {
        const IndexArgument argument{index, index_len};
        if (const HurrayStatus status = require(function, {{descriptor != nullptr, "descriptor"},
                                                           {buffers != nullptr, "buffers"},
                                                           {!argument.is_null(), "index"},
                                                           {out != nullptr, "out"}});
            status != HURRAY_OK) {
            return status;
        }
        BufferSpans spans;
        if (const HurrayStatus status = readable_bytes(function, *buffers, spans); status != HURRAY_OK) {
            return status;
        }
        const auto found = hurray::find_element(view_of(*descriptor), spans, argument.span());
        if (!found) {
            return fail(function, found.error());
        }
        *out = *found ? to_c(**found) : HurrayElementAddress{};
        return HURRAY_OK;
    });
}

HurrayStatus hurray_descriptor_find_paged_element(const HurrayDescriptor* descriptor, const HurrayBufferList* buffers,
                                                  const HurrayPagedIndex* index, HurrayElementAddress* out) {
    return guard(__func__, [&, function = __func__]() -> HurrayStatus {
        if (const HurrayStatus status = require(function, {{descriptor != nullptr, "descriptor"},
                                                           {buffers != nullptr, "buffers"},
                                                           {index != nullptr, "index"},
                                                           {out != nullptr, "out"}});
            status != HURRAY_OK) {
            return status;
        }
        BufferSpans spans;
        if (const HurrayStatus status = readable_bytes(function, *buffers, spans); status != HURRAY_OK) {
            return status;
        }
        const auto found = hurray::find_paged_element(view_of(*descriptor), spans, to_paged_index(*index));
        if (!found) {
            return fail(function, found.error());
        }
        *out = to_c(found->address);
        return HURRAY_OK;
    });
}

HurrayStatus hurray_descriptor_find_member(const HurrayDescriptor* head, const HurrayDescriptor* const* members,
                                           uint32_t member_count, const uint64_t* index, uintptr_t index_len,
                                           uint32_t before, uint32_t* out_member, uint64_t* out_index) {
    return guard(__func__, [&, function = __func__]() -> HurrayStatus {
        const IndexArgument argument{index, index_len};
        if (head == nullptr) {
            return fail_null(function, "head");
        }
        if (members == nullptr && member_count > 0) {
            return fail_null(function, "members");
        }
        if (const HurrayStatus status =
                require(function, {{!argument.is_null(), "index"}, {out_member != nullptr, "out_member"}});
            status != HURRAY_OK) {
            return status;
        }
        if (out_index == nullptr && index_len > 0) {
            return fail_null(function, "out_index");
        }
        std::vector<const DescriptorView*> views;
        for (uint32_t i = 0; i < member_count; ++i) {
            if (members[i] == nullptr) {
                return fail_null(function, "members[]");
            }
            views.push_back(&view_of(*members[i]));
        }
        const auto found = hurray::find_member(view_of(*head), views, argument.span(), before);
        if (!found) {
            return fail(function, found.error());
        }
        if (*found) {
            std::copy_n((*found)->index.begin(), index_len, out_index);
        }
        *out_member = *found ? static_cast<uint32_t>((*found)->member) : HURRAY_NO_MEMBER;
        return HURRAY_OK;
    });
}
