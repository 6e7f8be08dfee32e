#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "libhurray/base/result.hpp"
#include "libhurray/container/memory_block.hpp"
#include "libhurray/format/descriptor_view.hpp"

namespace hurray {

/// What a reader puts up with. Sizes are in bytes.
struct ReaderLimits {
    std::uint64_t max_descriptor_size = std::uint64_t{16} << 20U;
    std::uint64_t max_index_size = std::uint64_t{64} << 20U;  // of a file's index, and of its key-values
    std::uint64_t max_tensor_size = UINT64_MAX;               // of all buffers of a tensor together
    bool producer_synced_only = false;
};

/// Tensors that come one after the other, whether from a stream or a file.
///
/// next() goes on to a tensor and decodes its descriptor; its buffers are read when they are asked for, or not at all.
/// Memory is allocated for what has come, never for what is only announced. Errors name the tensor, and the byte of the
/// input. Threads: one at a time.
class TensorReader {
  public:
    TensorReader(const TensorReader&) = delete;
    TensorReader& operator=(const TensorReader&) = delete;
    virtual ~TensorReader() = default;

    /// Goes on to the next tensor. False: there is none.
    ///
    /// Fails: what decoding says; InvalidLayout where the input ends too early; Limit; what the system says
    [[nodiscard]] virtual Result<bool> next() = 0;

    /// Null before the first tensor, behind the last one, and where going on has failed.
    [[nodiscard]] const DescriptorView* current() const noexcept { return view_ ? &*view_ : nullptr; }
    /// The encoded descriptor of the current tensor, as it came.
    [[nodiscard]] std::span<const std::uint8_t> descriptor_bytes() const noexcept { return bytes_; }

    /// Fills `out` with the bytes at `offset` of a buffer of the current tensor.
    ///
    /// Fails: InvalidArgument  no such buffer, no current tensor, or (streams) what has passed already
    ///        IndexOutOfBounds `out` reaches past the end of the buffer
    ///        InvalidLayout    the input ends too early
    [[nodiscard]] Result<void> read(std::size_t buffer, std::uint64_t offset, std::span<std::uint8_t> out);

    /// All of a buffer, in memory of its own, with the alignment that the descriptor asks for, but no more than a page
    /// (4096). Throws std::bad_alloc.
    [[nodiscard]] Result<MemoryBlock> read_buffer(std::size_t buffer);

  protected:
    explicit TensorReader(const ReaderLimits& limits) noexcept : limits_(limits) {}

    [[nodiscard]] const ReaderLimits& limits() const noexcept { return limits_; }

    /// `bytes` are all of the next tensor's descriptor. On failure there is no current tensor.
    [[nodiscard]] Result<void> set_current(std::vector<std::uint8_t> bytes);
    void clear_current() noexcept { view_.reset(); }

    /// The checked part of read().
    [[nodiscard]] virtual Result<void> read_checked(std::size_t buffer, std::uint64_t offset,
                                                    std::span<std::uint8_t> out) = 0;
    /// How many bytes of a buffer are certainly there.
    [[nodiscard]] virtual Result<std::uint64_t> bytes_at_hand(std::size_t buffer) = 0;

  private:
    ReaderLimits limits_;
    std::vector<std::uint8_t> bytes_;
    std::optional<DescriptorView> view_;  // of bytes_
};

/// `bytes` grown by what `read` puts into the span that it is given, up to `size`, without ever being more than twice what
/// has come. `read` says how much came.
template <class Bytes, class Read>
[[nodiscard]] Result<void> read_growing(Bytes& bytes, std::uint64_t size, Read read) {
    constexpr std::uint64_t kFirst = 4096;
    while (bytes.size() < size) {
        const std::size_t done = bytes.size();
        const std::uint64_t left = size - done;
        bytes.resize(done + static_cast<std::size_t>(std::min<std::uint64_t>(left, done < kFirst ? kFirst : done)));
        const Result<void> got = read(std::span(bytes).subspan(done));
        if (!got) {
            return got;
        }
    }
    return {};
}

}  // namespace hurray
