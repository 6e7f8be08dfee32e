#pragma once

#include <cstdint>
#include <span>

#include "libhurray/base/int128.hpp"
#include "libhurray/format/descriptor_error.hpp"
#include "libhurray/format/layout.hpp"
#include "libhurray/format/shape.hpp"

namespace hurray {

/// Beyond it, in either direction, no element has an address: 2^64 bytes of one bit each are 2^67 elements.
inline constexpr Int128 kMaxElementOffset = Int128{1} << 68;

/// How many elements after the one with all-zero index the one at `index` lies, in a dense layout; negative strides make
/// it negative. The index is checked: see check_index(). Within plus and minus kMaxElementOffset.
///
/// Fails: InvalidLayout            Morton bits or Hilbert order don't fit the shape
///        IndexArithmeticOverflow  Morton or Hilbert offsets of more than 64 bits
///        AddressOverflow          an offset past kMaxElementOffset
[[nodiscard]] DescriptorResult<Int128> element_offset(const Shape& shape, const Layout& layout,
                                                      std::span<const std::uint64_t> index) noexcept;

}  // namespace hurray
