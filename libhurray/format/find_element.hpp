#pragma once

#include <optional>
#include <span>

#include "libhurray/format/element_address.hpp"
#include "libhurray/format/paged_lookup.hpp"
#include "libhurray/format/sparse_lookup.hpp"

namespace hurray {

/// Where the element at `index` is, in a tensor of any layout that has elements; nothing if a sparse layout doesn't store
/// it, and so it is zero.
///
/// `buffers` are the bytes of the tensor's buffers, as many as its table has. The address lies inside both the buffer that
/// the table describes and the bytes given. A dense layout needs none of their contents.
///
/// Fails: as element_address(), find_stored_value() and, for block-paged tensors, paged_index() and
///        find_paged_position(); InvalidLayout for a sparse or paged tensor with a byte offset
[[nodiscard]] DescriptorResult<std::optional<ElementAddress>> find_element(
    const DescriptorView& view, BufferBytes buffers, std::span<const std::uint64_t> index) noexcept;

/// An element of a block-paged tensor.
struct PagedElement {
    ElementAddress address;
    std::uint64_t slot = 0;  // as in PagedPosition
};

/// The same for block-paged tensors of any number of sequences; their elements are always stored.
[[nodiscard]] DescriptorResult<PagedElement> find_paged_element(const DescriptorView& view, BufferBytes buffers,
                                                                const PagedIndex& index) noexcept;

}  // namespace hurray
