#pragma once

#include <cstdint>
#include <span>

/// The two space-filling curves, as functions of coordinates alone.
namespace hurray {

/// Bit b of coordinate d becomes bit b*r + d of the result, r being the number of coordinates. Every bit set has to land
/// below 64.
[[nodiscard]] std::uint64_t morton_code(std::span<const std::uint64_t> coordinates) noexcept;

/// Distance along the Hilbert curve (Skilling's mapping) that fills a cube of 2^order a side, `order` at least 1. There
/// are at least two coordinates, below 2^order; order times their number is up to 64. Uses `coordinates` as its working
/// memory.
[[nodiscard]] std::uint64_t hilbert_code(std::span<std::uint64_t> coordinates, std::uint32_t order) noexcept;

}  // namespace hurray
