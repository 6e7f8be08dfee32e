#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>

#include "libhurray/format/little_endian.hpp"

namespace hurray {

/// Puts fields one after the other into a range that is large enough, or only counts them.
class ByteWriter {
  public:
    /// Counts.
    constexpr ByteWriter() noexcept = default;
    /// Writes. The caller has counted: what follows fits into `out`.
    constexpr explicit ByteWriter(std::span<std::uint8_t> out) noexcept : out_(out.data()) {}

    template <std::integral T>
    constexpr void write(T value) noexcept {
        if (out_ != nullptr) {
            store_little_endian(value, out_ + position_);
        }
        position_ += sizeof(T);
    }

    constexpr void bytes(std::span<const std::uint8_t> run) noexcept {
        if (out_ != nullptr) {
            std::copy(run.begin(), run.end(), out_ + position_);
        }
        position_ += run.size();
    }

    /// Reserved bytes.
    constexpr void zeros(std::size_t count) noexcept {
        if (out_ != nullptr) {
            std::fill_n(out_ + position_, count, std::uint8_t{0});
        }
        position_ += count;
    }

    [[nodiscard]] constexpr std::size_t position() const noexcept { return position_; }

  private:
    std::uint8_t* out_ = nullptr;
    std::size_t position_ = 0;
};

}  // namespace hurray
