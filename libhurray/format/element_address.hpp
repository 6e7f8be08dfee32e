#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "libhurray/base/int128.hpp"
#include "libhurray/format/descriptor_error.hpp"
#include "libhurray/format/descriptor_view.hpp"
#include "libhurray/format/element_storage.hpp"

/// From the logical index of an element to its place in memory.
///
/// Offsets are added up in 128 bits, so that a large stride up and a large stride down cancel exactly; only the address
/// that comes out has to fit 64. Threads: any; nothing here allocates.
namespace hurray {

/// Where an element is.
struct ElementAddress {
    std::size_t buffer = 0;  // position in the buffer table
    std::uint64_t byte = 0;  // first byte of the element, or of the group of bytes that it shares
    std::uint32_t bit = 0;   // its lowest bit in them, bit 0 the lowest of the first byte; up to 18, for 6-bit elements
    ElementStorage storage;  // its width, and the size of the group

    friend bool operator==(const ElementAddress& a, const ElementAddress& b) noexcept {
        return a.buffer == b.buffer && a.byte == b.byte && a.bit == b.bit;
    }
};

/// The address of the element at `index`, one component a dimension, in a tensor with a dense layout (row-major,
/// column-major, strided, tiled, Morton, Hilbert).
///
/// Fails, in this order:
///        IndexRankMismatch          not one component a dimension
///        DynamicDimInIndexing, IndexOutOfRange  by dimension
///        LayoutRequiresMultiBuffer  a sparse or paged layout: see find_element()
///        LayoutIsVirtual, PrivateLayoutTag
///        InvalidLayout              layout fields and shape contradict each other
///        IndexArithmeticOverflow    Morton or Hilbert offsets of more than 64 bits
///        AddressOverflow            64 bits don't hold the address
///        ByteAddressOverflow        the first byte is outside the buffer that the table describes
[[nodiscard]] DescriptorResult<ElementAddress> element_address(const DescriptorView& view,
                                                               std::span<const std::uint64_t> index) noexcept;

/// Its steps, for those who look elements up in other ways.

/// One component a dimension, each below its size.
[[nodiscard]] DescriptorResult<void> check_index(const Shape& shape, std::span<const std::uint64_t> index) noexcept;

/// The address of the element `offset` elements after the one at `byte_offset` of `buffer`, which has `buffer_size`
/// bytes. Fails: AddressOverflow, ByteAddressOverflow
[[nodiscard]] DescriptorResult<ElementAddress> locate_element(const ElementStorage& storage, std::uint64_t byte_offset,
                                                              Int128 offset, std::size_t buffer,
                                                              std::uint64_t buffer_size) noexcept;

}  // namespace hurray
