#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "libhurray/format/little_endian.hpp"

namespace hurray::fuzz {

/// An input that is read front to back, as a script of steps or as numbers. Past its end there are zeros.
class FuzzInput {
  public:
    explicit FuzzInput(std::span<const std::uint8_t> bytes) : rest_(bytes) {}

    [[nodiscard]] bool is_over() const { return rest_.empty(); }

    /// At most `count` bytes, fewer at the end.
    std::span<const std::uint8_t> take(std::uint64_t count) {
        const auto taken = rest_.first(std::min<std::uint64_t>(count, rest_.size()));
        rest_ = rest_.subspan(taken.size());
        return taken;
    }

    template <class T = std::uint64_t>
    T number() {
        std::uint8_t raw[sizeof(T)] = {};
        const auto taken = take(sizeof(raw));
        std::copy(taken.begin(), taken.end(), raw);
        return load_little_endian<T>(raw);
    }
    std::uint8_t byte() { return number<std::uint8_t>(); }

    /// By one byte of the input, so `limit` is 256 at most.
    std::size_t below(std::size_t limit) { return byte() % limit; }
    template <class T, std::size_t N>
    const T& one_of(const std::array<T, N>& choices) {
        return choices.at(below(N));
    }

  private:
    std::span<const std::uint8_t> rest_;
};

}  // namespace hurray::fuzz
