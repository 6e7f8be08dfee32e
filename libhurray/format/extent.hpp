#pragma once

#include <cstdint>
#include <span>

#include "libhurray/format/descriptor_error.hpp"
#include "libhurray/format/layout.hpp"
#include "libhurray/format/shape.hpp"

namespace hurray {

/// The bytes that the elements of a dense tensor touch, relative to its byte offset.
///
/// Exact for all sizes and strides: what does not fit 64 bits is an error, never a wrapped number.
struct ByteExtent {
    std::uint64_t below = 0;  // bytes before the byte offset: strides can be negative
    std::uint64_t above = 0;  // bytes from the byte offset on
};

/// The extent of a tensor of any dense layout (see dense_element_range()) whose elements have `bits` bits. Packed elements
/// (below 8 bits) count whole bytes, 6-bit ones whole groups of three bytes. Nothing for an empty tensor.
///
/// Fails: InvalidShape      a dimension is dynamic
///        ElementsOverflow  more bytes than 64 bits count, on either side
[[nodiscard]] DescriptorResult<ByteExtent> dense_extent(const Shape& shape, const Layout& layout,
                                                        std::uint32_t bits) noexcept;

/// What buffer 0 has to hold: the byte offset and the extent above it.
///
/// Fails: ElementsBeforeBuffer  the extent reaches below the start of the buffer
///        ElementsOverflow      the sum does not fit 64 bits
[[nodiscard]] DescriptorResult<std::uint64_t> needed_byte_size(std::uint64_t byte_offset, ByteExtent extent) noexcept;

/// The strides that row-major or column-major order implies, in elements, into `out`, which has rank() entries.
///
/// Fails: InvalidShape      a stride needs a dynamic dimension
///        ElementsOverflow  a stride does not fit 63 bits
[[nodiscard]] DescriptorResult<void> implied_strides(const Shape& shape, LayoutTag order,
                                                     std::span<std::int64_t> out) noexcept;

}  // namespace hurray
