#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include <hurray/types.hpp>

#include "libhurray/format/byte_reader.hpp"
#include "libhurray/format/little_endian.hpp"

namespace hurray {

/// Sizes of the dimensions, in elements, dimension 0 first. A loan of the encoded bytes.
///
/// A size of kDynamicDim is not known yet; nothing that needs sizes may be computed before it is replaced.
class Shape {
  public:
    constexpr Shape() noexcept = default;
    constexpr explicit Shape(PackedArray<std::uint64_t> dims) noexcept : dims_(dims) {}

    [[nodiscard]] constexpr std::size_t rank() const noexcept { return dims_.size(); }
    /// `dimension` is below rank().
    [[nodiscard]] constexpr std::uint64_t operator[](std::size_t dimension) const noexcept { return dims_[dimension]; }
    [[nodiscard]] constexpr PackedArray<std::uint64_t> dims() const noexcept { return dims_; }

    /// The first dimension whose size is not known, if there is one.
    [[nodiscard]] std::optional<std::size_t> first_dynamic_dimension() const noexcept;

    /// A dimension is 0, so that there are no elements, whatever the other sizes are.
    [[nodiscard]] bool is_empty() const noexcept;

    /// 1 for a scalar. Nothing if a size is dynamic or the product does not fit 64 bits.
    [[nodiscard]] std::optional<std::uint64_t> element_count() const noexcept;

  private:
    PackedArray<std::uint64_t> dims_;
};

/// Reads the rank and then the sizes.
[[nodiscard]] Shape read_shape(ByteReader& in) noexcept;

}  // namespace hurray
