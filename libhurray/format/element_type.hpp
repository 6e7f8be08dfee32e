#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include <hurray/types.hpp>

#include "libhurray/format/descriptor_error.hpp"

namespace hurray {

/// What the format fixes about one named element type.
struct ElementTypeInfo {
    ElementType type;
    const char* name;  // "float32"; static storage
    std::uint32_t bits;
};

/// Null for a tag that names no type, private tags included.
[[nodiscard]] const ElementTypeInfo* find_element_type(ElementType type) noexcept;
[[nodiscard]] const ElementTypeInfo* find_element_type(std::string_view name) noexcept;

/// F0 to FE: assigned by agreement between peers, in every one-byte tag space.
[[nodiscard]] constexpr bool is_private_tag(std::uint8_t tag) noexcept { return tag >= 0xF0 && tag <= 0xFE; }

/// What decoding has against a tag; nothing for named and private ones.
[[nodiscard]] std::optional<Fault> check_element_type_tag(std::uint8_t tag) noexcept;

}  // namespace hurray
