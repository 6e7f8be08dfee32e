#pragma once

#include <cstddef>
#include <cstdint>

#include "libhurray/format/byte_reader.hpp"
#include "libhurray/format/byte_writer.hpp"
#include "libhurray/format/little_endian.hpp"
#include "libhurray/format/shape.hpp"

/// The optional sections of a descriptor, but for quantization, whose bytes decoding keeps as they are.
namespace hurray {

/// The tensor is a box of a larger one.
struct Shard {
    PackedArray<std::uint64_t> parent_shape;
    PackedArray<std::uint64_t> offset;
};

/// Hints about the values. A number is meaningless where its mask bit is clear, but kept.
struct Statistics {
    static constexpr std::uint32_t kNnz = 1U << 0;
    static constexpr std::uint32_t kSparsityRatio = 1U << 1;
    static constexpr std::uint32_t kRange = 1U << 2;
    static constexpr std::uint32_t kMoments = 1U << 3;
    static constexpr std::uint32_t kNmSparsity = 1U << 4;
    static constexpr std::uint32_t kSpecialValues = 1U << 5;

    std::uint32_t computed_mask = 0;
    std::uint64_t nnz = 0;
    // Bit patterns, so that a NaN keeps its payload.
    std::uint64_t sparsity_ratio_bits = 0;
    std::uint64_t value_min_bits = 0;
    std::uint64_t value_max_bits = 0;
    std::uint64_t value_abs_max_bits = 0;
    std::uint64_t value_mean_bits = 0;
    std::uint64_t value_stddev_bits = 0;
    std::uint8_t nm_n = 0;
    std::uint8_t nm_m = 0;
    bool has_nan = false;
    bool has_inf = false;
};

/// What a private element type is.
struct ExtensionType {
    std::uint32_t bit_width = 0;
    std::uint8_t packing_factor = 0;
    bool is_float = false;
    bool is_signed = false;
    std::uint8_t sign_bits = 0;
    std::uint8_t exponent_bits = 0;
    std::uint8_t mantissa_bits = 0;
    std::uint32_t exponent_bias = 0;
    bool has_nan = false;
    bool has_inf = false;
};

enum class MemberRole : std::uint8_t { Correction = 0, Base = 1 };

/// Sizes of the sections that have a fixed one, in bytes.
inline constexpr std::size_t kStatisticsSize = 72;
inline constexpr std::size_t kExtensionTypeSize = 20;
inline constexpr std::size_t kCompositeMemberSize = 16;

/// Each reads its section and checks it in the format's order.
[[nodiscard]] Shard read_shard(ByteReader& in, const Shape& shape) noexcept;
[[nodiscard]] Statistics read_statistics(ByteReader& in) noexcept;
[[nodiscard]] ExtensionType read_extension_type(ByteReader& in) noexcept;
[[nodiscard]] MemberRole read_composite_member(ByteReader& in) noexcept;

void write_shard(ByteWriter& out, const Shard& shard) noexcept;
void write_statistics(ByteWriter& out, const Statistics& statistics) noexcept;
void write_extension_type(ByteWriter& out, const ExtensionType& type) noexcept;
void write_composite_member(ByteWriter& out, MemberRole role) noexcept;

}  // namespace hurray
