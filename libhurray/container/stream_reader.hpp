#pragma once

#include <memory>
#include <optional>

#include "libhurray/base/unique_fd.hpp"
#include "libhurray/container/tensor_reader.hpp"

namespace hurray {

/// Tensors in a plain stream: descriptor, the bytes of each buffer, the next descriptor. No padding, no names, no index.
///
/// Never reads further than the tensor that was asked for, so that whoever has the descriptor too can go on behind it.
/// Buffers can be read front to back only; what is left of a tensor is passed over by next(). After a failure that leaves
/// the place in the stream unknown, every call fails in the same way.
class StreamReader final : public TensorReader {
  public:
    StreamReader(UniqueFd fd, const ReaderLimits& limits) noexcept : TensorReader(limits), fd_(std::move(fd)) {}

    [[nodiscard]] Result<bool> next() override;

  private:
    [[nodiscard]] Result<void> read_checked(std::size_t buffer, std::uint64_t offset,
                                            std::span<std::uint8_t> out) override;
    [[nodiscard]] Result<std::uint64_t> bytes_at_hand(std::size_t buffer) override;

    [[nodiscard]] Result<bool> read_tensor();
    [[nodiscard]] Result<void> take(std::span<std::uint8_t> out, const char* what);
    /// Passes over what lies before `offset` of `buffer`.
    [[nodiscard]] Result<void> skip_to(std::size_t buffer, std::uint64_t offset);
    [[nodiscard]] std::string where() const;

    UniqueFd fd_;
    std::uint64_t position_ = 0;  // in the stream
    std::uint64_t tensors_ = 0;   // begun
    std::uint64_t tensor_begin_ = 0;
    std::size_t buffer_ = 0;  // the next byte of the stream is at this offset of this buffer
    std::uint64_t buffer_offset_ = 0;
    std::optional<Error> broken_;
};

}  // namespace hurray
