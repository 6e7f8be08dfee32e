#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "libhurray/format/little_endian.hpp"

namespace hurray {

/// Unsigned numbers of 4 or 8 bytes in a buffer whose producer may be able to write to it still.
///
/// What [] returns is loaded once: the compiler can't load it again after it was checked.
class IndexArray {
  public:
    enum class Width : std::uint8_t { U32 = 4, U64 = 8 };

    constexpr IndexArray() noexcept = default;
    IndexArray(std::span<const std::uint8_t> bytes, Width width) noexcept : bytes_(bytes), width_(width) {}

    /// Whole numbers that the buffer holds.
    [[nodiscard]] std::uint64_t size() const noexcept { return bytes_.size() / static_cast<std::size_t>(width_); }

    /// `position` is below size().
    [[nodiscard]] std::uint64_t operator[](std::uint64_t position) const noexcept {
        const std::uint8_t* const at = bytes_.data() + position * static_cast<std::size_t>(width_);
        std::uint64_t number = width_ == Width::U64 ? load_little_endian<std::uint64_t>(at)
                                                    : std::uint64_t{load_little_endian<std::uint32_t>(at)};
        __asm__ volatile("" : "+r"(number));  // from here on the number has no memory behind it
        return number;
    }

  private:
    std::span<const std::uint8_t> bytes_;
    Width width_ = Width::U64;
};

}  // namespace hurray
