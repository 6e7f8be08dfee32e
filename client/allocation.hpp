#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "hurray.h"

#include "client/shared_memory.hpp"

namespace hurray::client {

/// The writable buffers of one capsule to be, all in one segment of their own.
///
/// Threads: one at a time.
class Allocation {
  public:
    struct Buffer {
        std::uint64_t offset = 0;  ///< in the segment; of no meaning if size is 0
        std::uint64_t size = 0;
    };

    /// Lays the buffers out, the first at a multiple of 4096, the others of 64, and makes the segment. Where all are empty
    /// there is none. Fails: as WritableSegment::create; NoSpace for sizes that no machine has.
    [[nodiscard]] static Result<Allocation> create(std::span<const std::uint64_t> sizes);

    /// Null if every buffer is empty.
    [[nodiscard]] const std::shared_ptr<const WritableSegment>& segment() const noexcept { return segment_; }
    [[nodiscard]] const std::vector<Buffer>& buffers() const noexcept { return buffers_; }
    /// Never null. `index` is below buffers().size().
    [[nodiscard]] std::byte* data(std::size_t index) const noexcept;

    /// A publish of it was sent and never answered: somebody may read it, so it can't be published again.
    bool maybe_published = false;

  private:
    std::shared_ptr<const WritableSegment> segment_;
    std::vector<Buffer> buffers_;
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
