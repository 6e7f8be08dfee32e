#include "libhurray/format/element_address.hpp"

#include <limits>

#include "libhurray/format/element_format.hpp"
#include "libhurray/format/element_offset.hpp"
#include "libhurray/format/element_type.hpp"

namespace hurray {
namespace {

DescriptorResult<void> check_dense(const DescriptorView& view) {
    const auto refuse = [&](Fault fault) {
        return tl::unexpected(DescriptorError{fault, "layout_tag", 0, static_cast<std::uint64_t>(view.layout.tag), 0});
    };
    if (is_private_tag(static_cast<std::uint8_t>(view.layout.tag))) {
        return refuse(Fault::PrivateLayoutTag);
    }
    switch (view.layout.tag) {
        case LayoutTag::Coo:
        case LayoutTag::Csr:
        case LayoutTag::Csc:
        case LayoutTag::Csf:
        case LayoutTag::BlockPaged:
            return refuse(Fault::LayoutRequiresMultiBuffer);
        case LayoutTag::CompositeHead:
            return refuse(Fault::LayoutIsVirtual);
        default:
            return {};
    }
}

}  // namespace

DescriptorResult<void> check_index(const Shape& shape, std::span<const std::uint64_t> index) noexcept {
    if (index.size() != shape.rank()) {
        return tl::unexpected(DescriptorError{Fault::IndexRankMismatch, "index", 0, index.size(), shape.rank()});
    }
    for (std::size_t k = 0; k < index.size(); ++k) {
        if (shape[k] == kDynamicDim) {
            return tl::unexpected(DescriptorError{Fault::DynamicDimInIndexing, "shape[]", k, 0, 0});
        }
        if (index[k] >= shape[k]) {
            return tl::unexpected(DescriptorError{Fault::IndexOutOfRange, "index[]", k, index[k], shape[k]});
        }
    }
    return {};
}

DescriptorResult<ElementAddress> locate_element(const ElementStorage& storage, std::uint64_t byte_offset, Int128 offset,
                                                std::size_t buffer, std::uint64_t buffer_size) noexcept {
    if (offset > kMaxElementOffset || offset < -kMaxElementOffset) {
        return tl::unexpected(DescriptorError{Fault::AddressOverflow, "index", 0, 0, 0});
    }
    // 2^68 groups of less than 2^29 bytes: fits.
    const Int128 group = floor_divide(offset, storage.group_elements);
    const Int128 byte = static_cast<Int128>(byte_offset) + group * storage.group_bytes;
    if (byte > static_cast<Int128>(UINT64_MAX) || byte < std::numeric_limits<std::int64_t>::min()) {
        return tl::unexpected(DescriptorError{Fault::AddressOverflow, "index", 0, 0, 0});
    }
    if (byte < 0) {
        return tl::unexpected(
            DescriptorError{Fault::ByteAddressNegative, "buffers[]", buffer, static_cast<std::uint64_t>(-byte), 0});
    }
    if (byte >= static_cast<Int128>(buffer_size)) {
        return tl::unexpected(DescriptorError{Fault::ByteAddressOverflow, "buffers[]", buffer,
                                              static_cast<std::uint64_t>(byte), buffer_size});
    }
    const auto lane = static_cast<std::uint32_t>(offset - group * storage.group_elements);
    return ElementAddress{buffer, static_cast<std::uint64_t>(byte), lane * storage.bits, storage};
}

DescriptorResult<ElementAddress> element_address(const DescriptorView& view,
                                                 std::span<const std::uint64_t> index) noexcept {
    if (const auto checked = check_index(view.shape, index); !checked) {
        return tl::unexpected(checked.error());
    }
    if (const auto dense = check_dense(view); !dense) {
        return tl::unexpected(dense.error());
    }
    const auto format = element_format(view);
    if (!format) {
        return tl::unexpected(format.error());
    }
    if (view.buffers.size() == 0) {  // decoding refuses that; a view put together by hand may have none
        return tl::unexpected(DescriptorError{Fault::EmptyBufferTable, "buffer_count", 0, 0, 0});
    }
    const auto offset = element_offset(view.shape, view.layout, index);
    if (!offset) {
        return tl::unexpected(offset.error());
    }
    return locate_element(format->storage, view.byte_offset, *offset, 0, view.buffers[0].byte_size);
}

}  // namespace hurray
