#include "libhurray/format/find_element.hpp"

#include <algorithm>

#include "libhurray/format/element_format.hpp"

namespace hurray {
namespace {

/// Whether there are as many buffers as the table says.
DescriptorResult<void> check_buffers(const DescriptorView& view, BufferBytes buffers) {
    if (buffers.size() != view.buffers.size()) {
        return tl::unexpected(
            DescriptorError{Fault::BufferCountMismatch, "buffers", 0, buffers.size(), view.buffers.size()});
    }
    if (buffers.empty()) {  // decoding refuses that; a view put together by hand may have none
        return tl::unexpected(DescriptorError{Fault::EmptyBufferTable, "buffer_count", 0, 0, 0});
    }
    return {};
}

/// The address of value `offset` of buffer 0, of a layout that counts its values from the start of the buffer.
DescriptorResult<ElementAddress> locate_value(const DescriptorView& view, BufferBytes buffers, Int128 offset) {
    if (view.byte_offset != 0) {
        return tl::unexpected(DescriptorError{Fault::InvalidLayout, "byte_offset", 0, view.byte_offset, 0});
    }
    const auto format = element_format(view);
    if (!format) {
        return tl::unexpected(format.error());
    }
    const auto size = std::min<std::uint64_t>(view.buffers[0].byte_size, buffers[0].size());
    return locate_element(format->storage, 0, offset, 0, size);
}

bool is_sparse(LayoutTag tag) {
    return tag == LayoutTag::Coo || tag == LayoutTag::Csr || tag == LayoutTag::Csc || tag == LayoutTag::Csf;
}

DescriptorResult<std::optional<ElementAddress>> find_sparse(const DescriptorView& view, BufferBytes buffers,
                                                            std::span<const std::uint64_t> index) {
    const auto position = find_stored_value(view, buffers, index);
    if (!position) {
        return tl::unexpected(position.error());
    }
    if (!*position) {
        return std::nullopt;
    }
    const auto address = locate_value(view, buffers, static_cast<Int128>(**position));
    if (!address) {
        return tl::unexpected(address.error());
    }
    return *address;
}

DescriptorResult<std::optional<ElementAddress>> find_dense(const DescriptorView& view, BufferBytes buffers,
                                                           std::span<const std::uint64_t> index) {
    const auto address = element_address(view, index);
    if (!address) {
        return tl::unexpected(address.error());
    }
    if (address->byte >= buffers[0].size()) {
        return tl::unexpected(
            DescriptorError{Fault::ByteAddressOverflow, "buffers[]", 0, address->byte, buffers[0].size()});
    }
    return *address;
}

}  // namespace

DescriptorResult<std::optional<ElementAddress>> find_element(const DescriptorView& view, BufferBytes buffers,
                                                             std::span<const std::uint64_t> index) noexcept {
    if (const auto checked = check_index(view.shape, index); !checked) {
        return tl::unexpected(checked.error());
    }
    if (view.layout.tag == LayoutTag::CompositeHead) {
        return tl::unexpected(element_address(view, index).error());
    }
    if (const auto checked = check_buffers(view, buffers); !checked) {
        return tl::unexpected(checked.error());
    }
    if (is_sparse(view.layout.tag)) {
        return find_sparse(view, buffers, index);
    }
    if (view.layout.tag != LayoutTag::BlockPaged) {
        return find_dense(view, buffers, index);
    }
    const auto paged = paged_index(view, index);
    if (!paged) {
        return tl::unexpected(paged.error());
    }
    const auto element = find_paged_element(view, buffers, *paged);
    if (!element) {
        return tl::unexpected(element.error());
    }
    return element->address;
}

DescriptorResult<PagedElement> find_paged_element(const DescriptorView& view, BufferBytes buffers,
                                                  const PagedIndex& index) noexcept {
    if (const auto checked = check_buffers(view, buffers); !checked) {
        return tl::unexpected(checked.error());
    }
    const auto position = find_paged_position(view, buffers, index);
    if (!position) {
        return tl::unexpected(position.error());
    }
    const auto address = locate_value(view, buffers, position->offset);
    if (!address) {
        return tl::unexpected(address.error());
    }
    return PagedElement{*address, position->slot};
}

}  // namespace hurray
