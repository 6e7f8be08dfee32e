#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "libhurray/base/int128.hpp"

namespace hurray {

/// How elements of one width lie in memory: `group_elements` of them share `group_bytes` bytes, from a whole byte on.
///
/// 1-, 2- and 4-bit elements share a byte, four 6-bit ones share three, all others have bytes of their own. The group is
/// one little-endian number with the first element in its lowest bits.
struct ElementStorage {
    std::uint32_t bits = 8;
    std::uint32_t group_elements = 1;
    std::uint32_t group_bytes = 1;

    /// The bytes of `count` elements in a row, whole groups. Nothing if 64 bits don't hold it.
    [[nodiscard]] std::optional<std::uint64_t> size_of(std::uint64_t count) const noexcept;
};

/// Nothing for a width that has no storage: 0, 3, 5, 7, and what is above 8 and no multiple of 8.
[[nodiscard]] std::optional<ElementStorage> element_storage(std::uint32_t bits) noexcept;

/// Widest element whose code fits an integer.
inline constexpr std::uint32_t kMaxCodeBits = 128;

/// The code of an element of up to kMaxCodeBits: its bits as a number. `group` holds storage.group_bytes bytes; `bit` is
/// the element's lowest bit in them, as in ElementAddress.
[[nodiscard]] UInt128 load_element(const ElementStorage& storage, std::span<const std::uint8_t> group,
                                   std::uint32_t bit) noexcept;

/// Replaces that element and leaves its neighbours in the group as they are. Bits of `code` above the width are ignored.
void store_element(const ElementStorage& storage, std::span<std::uint8_t> group, std::uint32_t bit,
                   UInt128 code) noexcept;

}  // namespace hurray
