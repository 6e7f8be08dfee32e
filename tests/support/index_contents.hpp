#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "libhurray/format/byte_writer.hpp"

namespace hurray::test {

/// Buffers of a tensor as bytes, each in memory of its own.
class Contents {
  public:
    /// One more buffer, of little-endian numbers.
    template <class T>
    Contents& add(const std::vector<T>& numbers) {
        std::vector<std::uint8_t> bytes(numbers.size() * sizeof(T));
        ByteWriter out{std::span(bytes)};
        for (const T number : numbers) {
            out.write(number);
        }
        buffers_.push_back(std::move(bytes));
        return *this;
    }

    [[nodiscard]] std::vector<std::uint8_t>& operator[](std::size_t buffer) { return buffers_[buffer]; }
    [[nodiscard]] std::size_t size() const { return buffers_.size(); }
    /// A loan of this object.
    [[nodiscard]] std::vector<std::span<const std::uint8_t>> spans() const {
        return {buffers_.begin(), buffers_.end()};
    }

  private:
    std::vector<std::vector<std::uint8_t>> buffers_;
};

using U64s = std::vector<std::uint64_t>;
using U32s = std::vector<std::uint32_t>;

}  // namespace hurray::test
