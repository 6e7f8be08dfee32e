#include "libhurray/format/element_type.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

namespace hurray {
namespace {

constexpr std::array kElementTypes{
    ElementTypeInfo{ElementType::Float16, "float16", 16},
    ElementTypeInfo{ElementType::BFloat16, "bfloat16", 16},
    ElementTypeInfo{ElementType::Float32, "float32", 32},
    ElementTypeInfo{ElementType::Float64, "float64", 64},
    ElementTypeInfo{ElementType::Int8, "int8", 8},
    ElementTypeInfo{ElementType::UInt8, "uint8", 8},
    ElementTypeInfo{ElementType::Int16, "int16", 16},
    ElementTypeInfo{ElementType::UInt16, "uint16", 16},
    ElementTypeInfo{ElementType::Int32, "int32", 32},
    ElementTypeInfo{ElementType::UInt32, "uint32", 32},
    ElementTypeInfo{ElementType::Int64, "int64", 64},
    ElementTypeInfo{ElementType::UInt64, "uint64", 64},
    ElementTypeInfo{ElementType::Bool, "bool", 1},
    ElementTypeInfo{ElementType::Float8E4M3, "float8_e4m3", 8},
    ElementTypeInfo{ElementType::Float8E5M2, "float8_e5m2", 8},
    ElementTypeInfo{ElementType::Float8E8M0, "float8_e8m0", 8},
    ElementTypeInfo{ElementType::Float4E2M1, "float4_e2m1", 4},
    ElementTypeInfo{ElementType::Float6E2M3, "float6_e2m3", 6},
    ElementTypeInfo{ElementType::Float6E3M2, "float6_e3m2", 6},
    ElementTypeInfo{ElementType::Float128, "float128", 128},
    ElementTypeInfo{ElementType::Int4, "int4", 4},
    ElementTypeInfo{ElementType::UInt4, "uint4", 4},
    ElementTypeInfo{ElementType::Int2, "int2", 2},
    ElementTypeInfo{ElementType::UInt2, "uint2", 2},
    ElementTypeInfo{ElementType::Complex64, "complex64", 64},
    ElementTypeInfo{ElementType::Complex128, "complex128", 128},
};

constexpr std::uint8_t kNoType = 0xFF;

/// Where each tag is in kElementTypes.
constexpr auto kPositions = [] {
    std::array<std::uint8_t, 256> positions{};
    positions.fill(kNoType);
    for (std::size_t i = 0; i < kElementTypes.size(); ++i) {
        positions[static_cast<std::uint8_t>(kElementTypes[i].type)] = static_cast<std::uint8_t>(i);
    }
    return positions;
}();

template <class Predicate>
const ElementTypeInfo* find(Predicate predicate) noexcept {
    const auto found = std::find_if(kElementTypes.begin(), kElementTypes.end(), predicate);
    return found == kElementTypes.end() ? nullptr : &*found;
}

}  // namespace

const ElementTypeInfo* find_element_type(ElementType type) noexcept {
    const std::uint8_t position = kPositions[static_cast<std::uint8_t>(type)];
    return position == kNoType ? nullptr : &kElementTypes[position];
}

const ElementTypeInfo* find_element_type(std::string_view name) noexcept {
    return find([name](const ElementTypeInfo& info) { return info.name == name; });
}

std::optional<Fault> check_element_type_tag(std::uint8_t tag) noexcept {
    if (kPositions[tag] != kNoType) [[likely]] {
        return std::nullopt;
    }
    if (tag == 0x00 || tag == 0xFF) {
        return Fault::InvalidTypeTag;
    }
    // 47 lies inside the assigned range and is reserved all the same.
    if (tag == 0x47 || (tag >= 0x80 && tag <= 0xEF)) {
        return Fault::ReservedTypeTag;
    }
    return is_private_tag(tag) ? std::nullopt : std::optional(Fault::UnknownTypeTag);
}

}  // namespace hurray
