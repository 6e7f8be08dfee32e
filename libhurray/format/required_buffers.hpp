#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "libhurray/format/descriptor_error.hpp"
#include "libhurray/format/descriptor_view.hpp"
#include "libhurray/format/quantization.hpp"

/// Which buffers a tensor needs, and how large each has to be at least.
namespace hurray {

/// Width of one element of the tensor; private types say it in their section.
///
/// Fails: UnknownTypeTag        a private type without that section
///        InvalidExtensionType  a width of more than 8 bits that is no whole number of bytes: it has no storage size
[[nodiscard]] DescriptorResult<std::uint32_t> element_bits(const DescriptorView& view) noexcept;

/// How many bytes `count` elements of `bits` bits take, one after the other: whole bytes, and whole groups of three bytes
/// for 6-bit elements. Nothing if that does not fit 64 bits.
[[nodiscard]] std::optional<std::uint64_t> packed_byte_size(std::uint64_t count, std::uint32_t bits) noexcept;

/// How many buffers the layout itself has, those of the quantization not counted; nothing for a private layout, which
/// only its makers know.
[[nodiscard]] std::optional<std::size_t> layout_buffer_count(const Layout& layout, std::size_t rank) noexcept;

/// The least bytes that buffer `index` of the layout holds, `index` being below layout_buffer_count().
///
/// Exact where the descriptor says all: for dense layouts, buffer 0 from its start up to the last element, the byte offset
/// included. What only the content of other buffers says is taken at its least: the block table of a block-paged tensor may
/// be empty, and the inner levels of a CSF tree have as few nodes as `nnz` leaves need.
///
/// Fails: InvalidShape          a dynamic dimension, where the size depends on it
///        ElementsBeforeBuffer  strides that reach below the start of buffer 0
///        ElementsOverflow      a size that does not fit 64 bits
///        and as element_bits()
[[nodiscard]] DescriptorResult<std::uint64_t> required_buffer_size(const DescriptorView& view,
                                                                   std::size_t index) noexcept;

/// What the parameters of a quantization take: scales and zero points, in bytes. 0 for those that the scheme lacks.
/// Both numbers count for one buffer if the scheme names it twice.
struct ParameterSizes {
    std::uint64_t scales = 0;
    std::uint64_t zero_points = 0;
};

/// The exact sizes; nothing where they can't be told: a dynamic dimension that they depend on, and blocks of NF4 or MXFP
/// over pages, for which the format has no count. The axis of `quantization` is below the rank.
///
/// Fails: ElementsOverflow
[[nodiscard]] DescriptorResult<std::optional<ParameterSizes>> required_parameter_sizes(
    const DescriptorView& view, const Quantization& quantization) noexcept;

}  // namespace hurray
