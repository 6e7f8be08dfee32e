#include "libhurray/format/element_storage.hpp"

#include <cstddef>

#include "libhurray/base/check.hpp"

namespace hurray {
namespace {

UInt128 load_bytes(std::span<const std::uint8_t> bytes) {
    UInt128 value = 0;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        value |= static_cast<UInt128>(bytes[i]) << (8 * i);
    }
    return value;
}

}  // namespace

std::optional<std::uint64_t> ElementStorage::size_of(std::uint64_t count) const noexcept {
    // The count of groups has 64 bits, their size 32: fits.
    const UInt128 groups = (static_cast<UInt128>(count) + group_elements - 1) / group_elements;
    const UInt128 size = groups * group_bytes;
    return size > UINT64_MAX ? std::nullopt : std::optional(static_cast<std::uint64_t>(size));
}

std::optional<ElementStorage> element_storage(std::uint32_t bits) noexcept {
    switch (bits) {
        case 1:
        case 2:
        case 4:
            return ElementStorage{bits, 8 / bits, 1};
        case 6:
            return ElementStorage{bits, 4, 3};
        default:
            break;
    }
    if (bits == 0 || bits % 8 != 0) {
        return std::nullopt;
    }
    return ElementStorage{bits, 1, bits / 8};
}

UInt128 load_element(const ElementStorage& storage, std::span<const std::uint8_t> group, std::uint32_t bit) noexcept {
    HURRAY_DCHECK(storage.bits <= kMaxCodeBits && bit + storage.bits <= 8 * storage.group_bytes);
    return (load_bytes(group.first(storage.group_bytes)) >> bit) & low_bits(storage.bits);
}

void store_element(const ElementStorage& storage, std::span<std::uint8_t> group, std::uint32_t bit,
                   UInt128 code) noexcept {
    HURRAY_DCHECK(storage.bits <= kMaxCodeBits && bit + storage.bits <= 8 * storage.group_bytes);
    const UInt128 mask = low_bits(storage.bits) << bit;
    const UInt128 value = (load_bytes(group.first(storage.group_bytes)) & ~mask) | ((code << bit) & mask);
    for (std::size_t i = 0; i < storage.group_bytes; ++i) {
        group[i] = static_cast<std::uint8_t>(value >> (8 * i));
    }
}

}  // namespace hurray
