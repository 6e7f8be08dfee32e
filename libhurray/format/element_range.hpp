#pragma once

#include "libhurray/base/int128.hpp"
#include "libhurray/format/descriptor_error.hpp"
#include "libhurray/format/layout.hpp"
#include "libhurray/format/shape.hpp"

namespace hurray {

/// Element offsets of the lowest and the highest element that a dense tensor stores, both relative to the element with
/// all-zero index. Exact: both lie within 2^68 of it.
struct ElementRange {
    Int128 lowest = 0;
    Int128 highest = 0;
};

/// Of a row-major, column-major, strided, tiled, Morton or Hilbert tensor whose sizes are all known and not 0.
///
/// Border tiles count in full, and Morton and Hilbert orders as far as their bits reach, whatever the shape uses of them.
///
/// Fails: ElementsOverflow  further than 2^68 elements away: no buffer reaches so far with elements of any width
[[nodiscard]] DescriptorResult<ElementRange> dense_element_range(const Shape& shape, const Layout& layout) noexcept;

}  // namespace hurray
