#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "libhurray/format/buffer_table.hpp"
#include "libhurray/format/descriptor_error.hpp"
#include "libhurray/format/descriptor_view.hpp"

namespace hurray {

/// A tensor in one buffer, as its maker knows it.
struct DenseTensor {
    ElementType element_type = ElementType::Float32;
    LayoutTag layout = LayoutTag::RowMajor;  // or ColumnMajor, or Strided
    std::span<const std::uint64_t> shape;    // in elements
    std::span<const std::int64_t> strides;   // in elements; as many as sizes for Strided, none otherwise
    std::uint64_t byte_offset = 0;
    BufferEntry buffer;  // byte_size 0: what the tensor needs
};

/// The encoded descriptor of a dense tensor, without memory of its own.
class DenseEncoding {
  public:
    [[nodiscard]] std::span<const std::uint8_t> bytes() const noexcept { return {bytes_.data(), size_}; }

  private:
    friend DescriptorResult<DenseEncoding> encode_dense(const DenseTensor& tensor) noexcept;

    /// Header, sizes and strides of the highest rank, byte offset, and a table of one buffer.
    static constexpr std::size_t kCapacity = kDescriptorHeaderSize + 2 * 8 * kMaxRank + 8 + 1 + BufferTable::kEntrySize;

    std::array<std::uint8_t, kCapacity> bytes_;
    std::size_t size_ = 0;
};

/// Encodes `tensor`; what comes out passes validate_descriptor() by the rules of sharing.
///
/// Fails: as decoding and validate_descriptor() do for the field concerned; a private element type, whose width nobody
/// knows, is UnknownTypeTag.
[[nodiscard]] DescriptorResult<DenseEncoding> encode_dense(const DenseTensor& tensor) noexcept;

/// What the tensor's buffer has to hold at least. The size and alignment of `tensor.buffer` are not looked at.
[[nodiscard]] DescriptorResult<std::uint64_t> dense_byte_size(const DenseTensor& tensor) noexcept;

}  // namespace hurray
