#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "libhurray/format/descriptor_error.hpp"
#include "libhurray/format/descriptor_view.hpp"

namespace hurray {

/// The bytes of a tensor's buffers, in the order of its buffer table. Only those that hold indices are looked into.
using BufferBytes = std::span<const std::span<const std::uint8_t>>;

/// Where the element at `index` is among the stored values of a COO, CSR, CSC or CSF tensor; nothing if it isn't stored,
/// and so is zero. The index is checked: see check_index().
///
/// Whatever the index buffers hold, only their bytes are read, and the answer, if there is one, is below the layout's
/// count of values. Takes time logarithmic in that count for sorted contents, linear for unsorted COO. What is wrong in
/// the contents is noticed where the lookup comes past it, not everywhere.
///
/// Fails: InvalidLayout        the layout doesn't fit the rank; pointers that decrease or end elsewhere; coordinates
///                             outside the shape or out of order
///        BufferCountMismatch  fewer buffers than the layout has
///        BufferTooShort       an index buffer doesn't hold what it has to
[[nodiscard]] DescriptorResult<std::optional<std::uint64_t>> find_stored_value(
    const DescriptorView& view, BufferBytes buffers, std::span<const std::uint64_t> index) noexcept;

}  // namespace hurray
