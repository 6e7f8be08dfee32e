#include <algorithm>
#include <string>
#include <vector>

#include "hurray.h"

#include "libhurray/abi/buffer_list.hpp"
#include "libhurray/abi/descriptor_handle.hpp"
#include "libhurray/abi/guard.hpp"
#include "libhurray/abi/index_argument.hpp"
#include "libhurray/format/composite_lookup.hpp"
#include "libhurray/format/element_format.hpp"
#include "libhurray/format/extent.hpp"
#include "libhurray/format/find_element.hpp"

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

/// What buffer `index` has to hold, which is in the table.
DescriptorResult<uint64_t> least_buffer_size(const DescriptorView& view, std::size_t index) {
    const auto format = hurray::element_format(view);
    if (!format) {
        return tl::unexpected(format.error());
    }
    const hurray::LayoutTag tag = view.layout.tag;
    const bool linear = tag == hurray::LayoutTag::RowMajor || tag == hurray::LayoutTag::ColumnMajor ||
                        tag == hurray::LayoutTag::Strided;
    if (!linear || index > 0) {
        return tl::unexpected(
            hurray::DescriptorError{hurray::Fault::NotSupportedYet, "layout_tag", 0, static_cast<uint64_t>(tag), 0});
    }
    return hurray::dense_extent(view.shape, view.layout, format->storage.bits).and_then([&](hurray::ByteExtent extent) {
        return hurray::needed_byte_size(view.byte_offset, extent);
    });
}

}  // namespace

HurrayStatus hurray_descriptor_element_bits(const HurrayDescriptor* descriptor, uint32_t* out) {
    return guard(__func__, [&, function = __func__]() -> HurrayStatus {
        if (descriptor == nullptr) {
            return fail_null(function, "descriptor");
        }
        if (out == nullptr) {
            return fail_null(function, "out");
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
        if (descriptor == nullptr) {
            return fail_null(function, "descriptor");
        }
        if (out == nullptr) {
            return fail_null(function, "out");
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
        if (descriptor == nullptr) {
            return fail_null(function, "descriptor");
        }
        if (argument.is_null()) {
            return fail_null(function, "index");
        }
        if (out == nullptr) {
            return fail_null(function, "out");
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
        if (descriptor == nullptr) {
            return fail_null(function, "descriptor");
        }
        if (buffers == nullptr) {
            return fail_null(function, "buffers");
        }
        if (argument.is_null()) {
            return fail_null(function, "index");
        }
        if (out == nullptr) {
            return fail_null(function, "out");
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
        if (descriptor == nullptr) {
            return fail_null(function, "descriptor");
        }
        if (buffers == nullptr) {
            return fail_null(function, "buffers");
        }
        if (index == nullptr) {
            return fail_null(function, "index");
        }
        if (out == nullptr) {
            return fail_null(function, "out");
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
        if (argument.is_null()) {
            return fail_null(function, "index");
        }
        if (out_member == nullptr) {
            return fail_null(function, "out_member");
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
