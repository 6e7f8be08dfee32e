#pragma once

#include <cstdint>
#include <span>

namespace hurray {

/// CRC-32C of `bytes`: the Castagnoli polynomial, reflected, begun with and finally exclusive-ored with ones.
[[nodiscard]] std::uint32_t crc32c(std::span<const std::uint8_t> bytes) noexcept;

}  // namespace hurray
