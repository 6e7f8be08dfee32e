#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
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

/// Which buffer the scales are in, and which the zero points; nothing if the scheme, or this use of it, has none.
[[nodiscard]] std::optional<std::uint32_t> scale_buffer(const Quantization& quantization) noexcept;
[[nodiscard]] std::optional<std::uint32_t> zero_point_buffer(const Quantization& quantization) noexcept;

/// The bytes of a quantization section, without memory of their own.
class EncodedQuantization {
  public:
    [[nodiscard]] std::span<const std::uint8_t> bytes() const noexcept { return {bytes_.data(), size_}; }

  private:
    friend DescriptorResult<EncodedQuantization> encode_quantization(const Quantization& quantization) noexcept;

    std::array<std::uint8_t, 24> bytes_{};
    std::size_t size_ = 0;
};

/// Puts the fields together that the scheme has; `scheme_version` is written as it is, `symmetric` as the flag and as a
/// zero-point index of FFFFFFFF, whatever that field holds.
///
/// Fails: as parse_quantization(), for fields that the scheme does not allow
[[nodiscard]] DescriptorResult<EncodedQuantization> encode_quantization(const Quantization& quantization) noexcept;

/// How many bytes the section of a scheme has.
[[nodiscard]] std::size_t quantization_length(QuantizationScheme scheme) noexcept;

/// Takes the bytes of a quantization section apart. Decoding keeps them as they are, for every layout but block-paged.
/// Bytes past the scheme's own length are ignored.
[[nodiscard]] DescriptorResult<Quantization> parse_quantization(std::span<const std::uint8_t> bytes) noexcept;

}  // namespace hurray
