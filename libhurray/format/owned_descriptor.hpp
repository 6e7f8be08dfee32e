#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "libhurray/format/descriptor_error.hpp"
#include "libhurray/format/descriptor_view.hpp"

namespace hurray {

/// A decoded descriptor with the bytes that it refers to, all in one block of memory.
class OwnedDescriptor {
  public:
    /// What is allocated: this, and the bytes behind it.
    struct Block {
        DescriptorView view;
    };

    /// As decode_descriptor(), on a copy of the bytes: `bytes` may change or go afterwards. Throws std::bad_alloc.
    [[nodiscard]] static DescriptorResult<OwnedDescriptor> decode(std::span<const std::uint8_t> bytes);

    /// Takes over what release() gave.
    explicit OwnedDescriptor(const Block* block) noexcept : block_(block) {}

    /// Lives as long as the block. Not after release() or a move.
    [[nodiscard]] const DescriptorView& view() const noexcept { return block_->view; }

    /// Gives the block up, to be put into another one of these: a C handle is such a block.
    [[nodiscard]] const Block* release() noexcept { return block_.release(); }

  private:
    struct Free {
        void operator()(const Block* block) const noexcept;
    };
    std::unique_ptr<const Block, Free> block_;
};

}  // namespace hurray
