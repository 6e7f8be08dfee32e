#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "libhurray/base/int128.hpp"
#include "libhurray/format/descriptor_error.hpp"
#include "libhurray/format/descriptor_view.hpp"
#include "libhurray/format/sparse_lookup.hpp"

namespace hurray {

/// Which parameters an element has.
struct QuantizedPlace {
    /// The logical index. In a block-paged tensor of several sequences its first component means nothing, and no scheme
    /// that such a tensor may have looks at it.
    std::span<const std::uint64_t> index;
    /// Where the element's token lies in the page pool, for block-paged tensors.
    std::optional<std::uint64_t> page_slot;
};

/// The real number that the code of an element stands for in a quantized tensor.
///
/// Affine schemes subtract the zero point exactly and then do what the format says, one multiplication in float32; NF4
/// multiplies in float32; MXFP is exact. Scale and zero point are read from their buffers as the format lays them out:
/// one value a channel or block, and all scales before all zero points where one buffer has both.
///
/// Fails: as check_quantization()
///        ElementsOverflow      more parameters than 64 bits count
///        BufferTooShort        a parameter buffer doesn't hold the element's parameter
///        InvalidQuantization   a block's scale that the scheme forbids (not finite; 0, or for NF4 below 0; the MXFP codes
///                              00 and FF); NF4 or MXFP in a block-paged tensor, whose blocks the format doesn't number
[[nodiscard]] DescriptorResult<double> dequantize(const DescriptorView& view, BufferBytes buffers,
                                                  const QuantizedPlace& place, UInt128 code) noexcept;

}  // namespace hurray
