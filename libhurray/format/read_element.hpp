#pragma once

#include <optional>
#include <span>

#include "libhurray/format/element_value.hpp"
#include "libhurray/format/find_element.hpp"

namespace hurray {

/// The number that the element at `index` is, dequantized if the tensor is quantized; nothing if a sparse layout doesn't
/// store it, and so it is zero.
///
/// `buffers` are the bytes of the tensor's buffers, as many as its table has.
///
/// Fails: as find_element(), and dequantize() for quantized tensors
///        BufferTooShort  the element's last byte is outside its buffer
///        NoElementValue  a private type whose values this library can't tell
[[nodiscard]] DescriptorResult<std::optional<ElementValue>> read_element(const DescriptorView& view,
                                                                         BufferBytes buffers,
                                                                         std::span<const std::uint64_t> index) noexcept;

/// The same for block-paged tensors of any number of sequences; their elements are always stored.
[[nodiscard]] DescriptorResult<ElementValue> read_paged_element(const DescriptorView& view, BufferBytes buffers,
                                                                const PagedIndex& index) noexcept;

}  // namespace hurray
