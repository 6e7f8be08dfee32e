#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <span>

#include "libhurray/base/checked_math.hpp"

namespace hurray {

/// Aligned host memory that can grow; goes with `free`.
class MemoryBlock {
  public:
    /// `alignment` is a power of two from 64 on. Throws std::bad_alloc.
    explicit MemoryBlock(std::size_t alignment) noexcept : alignment_(alignment) {}

    /// At least `size` bytes, those that were there unchanged. Throws std::bad_alloc.
    void grow(std::uint64_t size) {
        // aligned_alloc wants whole multiples; never nothing, so that an empty block has an address too.
        const auto needed = checked_align_up(size == 0 ? 1 : size, alignment_);
        void* const fresh = needed && *needed <= PTRDIFF_MAX
                                ? std::aligned_alloc(alignment_, static_cast<std::size_t>(*needed))
                                : nullptr;
        if (fresh == nullptr) {
            throw std::bad_alloc();
        }
        if (size_ > 0) {
            std::memcpy(fresh, bytes_.get(), size_);
        }
        bytes_.reset(static_cast<std::uint8_t*>(fresh));
        size_ = static_cast<std::size_t>(size);
    }

    [[nodiscard]] std::span<std::uint8_t> bytes() const noexcept { return {bytes_.get(), size_}; }
    [[nodiscard]] std::size_t alignment() const noexcept { return alignment_; }
    /// For `free`.
    [[nodiscard]] std::uint8_t* release() noexcept { return bytes_.release(); }

  private:
    struct Free {
        void operator()(std::uint8_t* bytes) const noexcept { std::free(bytes); }
    };

    std::size_t alignment_;
    std::size_t size_ = 0;
    std::unique_ptr<std::uint8_t, Free> bytes_;
};

}  // namespace hurray
