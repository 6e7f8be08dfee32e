#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "hurray.h"

#include "client/segment_pool.hpp"
#include "client/shared_memory.hpp"

namespace hurray::client {

/// The writable buffers of one capsule to be, all in one block of memory.
///
/// Threads: one at a time.
class Allocation {
  public:
    struct Buffer {
        std::uint64_t offset = 0;  ///< in the segment; of no meaning if size is 0
        std::uint64_t size = 0;
    };
    /// What the buffers hold at first.
    enum class Contents : std::uint8_t {
        Zeros,
        Whatever  ///< zeros, or what this session published in that memory before
    };

    /// Lays the buffers out, the first at a multiple of 4096, the others of 64, and takes a block for them. Where all are
    /// empty there is none. `kind` is Reusable or Immutable. What lies between the buffers and behind them is zero in any case: consumers can see it.
    /// Fails: as SegmentPool::take; NoSpace for sizes that no machine has.
    [[nodiscard]] static Result<Allocation> create(SegmentPool& pool, std::span<const std::uint64_t> sizes,
                                                   Contents contents, const AccessRule& access = {},
                                                   wire::Memory kind = wire::Memory::Reusable);

    /// Who will be able to read it.
    [[nodiscard]] const AccessRule& access() const noexcept { return access_; }

    /// Null if every buffer is empty.
    [[nodiscard]] const std::shared_ptr<Block>& block() const noexcept { return block_; }
    [[nodiscard]] const std::vector<Buffer>& buffers() const noexcept { return buffers_; }
    /// Never null. `index` is below buffers().size().
    [[nodiscard]] std::byte* data(std::size_t index) const noexcept;
    /// The memory of all of them, which keeps the block; null if there is none.
    [[nodiscard]] std::shared_ptr<const Mapping> mapping() const noexcept;

    /// Whether it may be written still: not once it was made immutable.
    [[nodiscard]] bool is_writable() const noexcept;

    /// Of a buffer only its first `size` bytes will be published: what is behind them must not be left over from before.
    void shorten(std::size_t index, std::uint64_t size) noexcept;

    /// A publish of it was sent and never answered: somebody may read it, so it can't be published again.
    bool maybe_published = false;
    /// A publish of it is under way.
    bool is_on_its_way = false;

  private:
    std::shared_ptr<Block> block_;
    std::vector<Buffer> buffers_;
    Contents contents_ = Contents::Zeros;
    AccessRule access_;
};

/// A pointer for buffers that have no byte.
[[nodiscard]] std::byte* empty_buffer_address() noexcept;

/// One CPU buffer to be made. `mapping` may be null if it is empty.
struct BufferRange {
    std::shared_ptr<const Mapping> mapping;
    std::uint64_t offset = 0;
    std::uint64_t size = 0;
    std::uint32_t alignment = HURRAY_MIN_BUFFER_ALIGNMENT;
    std::uint8_t memory_class = HURRAY_MEMORY_STANDARD;
};
struct BufferListDeleter {
    void operator()(HurrayBufferList* list) const noexcept { hurray_buffer_list_destroy(&list); }
};
using BufferListPtr = std::unique_ptr<HurrayBufferList, BufferListDeleter>;
/// A list of such buffers, each of which keeps its mapping. Fails: whatever libhurray says.
[[nodiscard]] Result<BufferListPtr> make_buffer_list(std::span<const BufferRange> ranges);

}  // namespace hurray::client
