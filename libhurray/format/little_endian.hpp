#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

/// Little-endian numbers at any byte address, on any host.
namespace hurray {

template <std::integral T>
[[nodiscard]] constexpr T load_little_endian(const std::uint8_t* bytes) noexcept {
    if constexpr (std::endian::native == std::endian::little) {
        if (!std::is_constant_evaluated()) {  // gcc 12 does not see by itself that the loop below is one load
            T value;
            std::memcpy(&value, bytes, sizeof(T));
            return value;
        }
    }
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < sizeof(T); ++i) {
        value |= static_cast<std::uint64_t>(bytes[i]) << (8 * i);
    }
    return static_cast<T>(value);
}

template <std::integral T>
constexpr void store_little_endian(T value, std::uint8_t* bytes) noexcept {
    if constexpr (std::endian::native == std::endian::little) {
        if (!std::is_constant_evaluated()) {
            std::memcpy(bytes, &value, sizeof(T));
            return;
        }
    }
    const auto bits = static_cast<std::uint64_t>(static_cast<std::make_unsigned_t<T>>(value));
    for (std::size_t i = 0; i < sizeof(T); ++i) {
        bytes[i] = static_cast<std::uint8_t>(bits >> (8 * i));
    }
}

/// `size()` numbers as they lie in an encoded descriptor: packed, little-endian, not aligned. A loan of those bytes.
template <std::integral T>
class PackedArray {
  public:
    constexpr PackedArray() noexcept = default;
    /// `bytes` holds whole numbers: its length is a multiple of sizeof(T).
    constexpr explicit PackedArray(std::span<const std::uint8_t> bytes) noexcept : bytes_(bytes) {}

    [[nodiscard]] constexpr std::size_t size() const noexcept { return bytes_.size() / sizeof(T); }
    [[nodiscard]] constexpr bool empty() const noexcept { return bytes_.empty(); }
    /// `index` is below size().
    [[nodiscard]] constexpr T operator[](std::size_t index) const noexcept {
        return load_little_endian<T>(bytes_.data() + index * sizeof(T));
    }
    [[nodiscard]] constexpr std::span<const std::uint8_t> bytes() const noexcept { return bytes_; }

  private:
    std::span<const std::uint8_t> bytes_;
};

}  // namespace hurray
