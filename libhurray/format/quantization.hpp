#pragma once

#include <cstdint>
#include <span>

#include "libhurray/format/descriptor_error.hpp"

namespace hurray {

enum class QuantizationScheme : std::uint8_t { PerTensor = 1, PerChannel = 2, PerBlock = 3, Nf4 = 4, Mxfp = 5 };

/// A quantization descriptor taken apart. Fields that a scheme does not have are 0.
struct Quantization {
    QuantizationScheme scheme = QuantizationScheme::PerTensor;
    std::uint8_t scheme_version = 1;
    bool symmetric = false;
    std::uint32_t axis = 0;
    std::uint32_t block_size = 0;
    std::uint32_t scale_buffer_index = 0;
    std::uint32_t zero_point_buffer_index = 0;
    std::uint8_t scale_type_tag = 0;
    float scale = 0;
    std::int32_t zero_point = 0;
};

/// Takes the bytes of a quantization section apart. Decoding keeps them as they are, for every layout but block-paged.
/// Bytes past the scheme's own length are ignored.
[[nodiscard]] DescriptorResult<Quantization> parse_quantization(std::span<const std::uint8_t> bytes) noexcept;

}  // namespace hurray
