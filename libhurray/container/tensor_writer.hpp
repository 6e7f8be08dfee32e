#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libhurray/base/result.hpp"
#include "libhurray/base/unique_fd.hpp"
#include "libhurray/format/descriptor_view.hpp"

namespace hurray {

/// The bytes of each buffer of a tensor, in the order of its table.
using BufferBytes = std::span<const std::span<const std::uint8_t>>;

/// Tensors that go into a stream or a file, one after the other, in one pass.
///
/// Everything is checked before the first byte of a tensor is written, so a refusal changes nothing. When writing itself
/// fails, the output ends anywhere, and every later call fails in the same way. Threads: one at a time.
class TensorWriter {
  public:
    TensorWriter(const TensorWriter&) = delete;
    TensorWriter& operator=(const TensorWriter&) = delete;
    virtual ~TensorWriter() = default;

    /// Writes the canonical descriptor and the buffers. `name` is empty exactly where the output has no names.
    ///
    /// A composite head is followed by its members, and those by nothing that is not theirs, as many as it counts.
    ///
    /// Fails: InvalidArgument  the name; not as many buffers, or not as many bytes, as the descriptor says
    ///        AlreadyExists    the name is taken
    ///        InvalidSyncMode  a buffer is not producer-synced: what somebody has to wait for can't be kept
    ///        Internal         (SubpavingNestingTooDeep) a ninth composite head inside the others
    ///        Limit            the descriptor does not fit 32 bits
    ///        Closed           finish() was called; nobody reads the pipe any more
    [[nodiscard]] Result<void> write(std::string_view name, const DescriptorView& view, BufferBytes buffers);

    /// Writes what comes last; nothing can be written after that.
    ///
    /// Fails: InvalidArgument  a composite head still lacks members
    [[nodiscard]] Result<void> finish();

  protected:
    explicit TensorWriter(UniqueFd fd) noexcept : fd_(std::move(fd)) {}

    /// Whether a name is fit for the output.
    [[nodiscard]] virtual Result<void> check_name(std::string_view name) = 0;
    virtual Result<void> write_checked(std::string_view name, std::span<const std::uint8_t> descriptor,
                                       BufferBytes buffers) = 0;
    virtual Result<void> write_end() = 0;

    [[nodiscard]] Result<void> check_open() const;
    [[nodiscard]] Result<void> emit(std::span<const std::uint8_t> bytes);
    /// Zeros up to a multiple of `alignment`, a power of two.
    [[nodiscard]] Result<void> pad_to(std::uint64_t alignment);
    /// Of the next byte, counted from where the output began.
    [[nodiscard]] std::uint64_t position() const noexcept { return position_; }
    [[nodiscard]] int fd() const noexcept { return fd_.get(); }

  private:
    UniqueFd fd_;
    std::uint64_t position_ = 0;
    std::vector<std::uint32_t> open_heads_;  // how many members each composite head still lacks, the outermost first
    bool finished_ = false;
    std::optional<Error> broken_;
};

/// The plain stream: descriptor, buffers, the next descriptor.
class StreamWriter final : public TensorWriter {
  public:
    explicit StreamWriter(UniqueFd fd) noexcept : TensorWriter(std::move(fd)) {}

  private:
    [[nodiscard]] Result<void> check_name(std::string_view name) override;
    Result<void> write_checked(std::string_view name, std::span<const std::uint8_t> descriptor,
                               BufferBytes buffers) override;
    Result<void> write_end() override;
};

}  // namespace hurray
