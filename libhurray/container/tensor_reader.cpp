#include "libhurray/container/tensor_reader.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "libhurray/base/checked_math.hpp"
#include "libhurray/container/file_io.hpp"
#include "libhurray/format/descriptor_reader.hpp"

namespace hurray {
namespace {

/// More alignment than this would cost more memory than small buffers have bytes.
constexpr std::size_t kPage = 4096;

Result<void> check_sizes(const DescriptorView& view, const ReaderLimits& limits) {
    std::uint64_t total = 0;
    for (std::size_t i = 0; i < view.buffers.size(); ++i) {
        const BufferEntry entry = view.buffers[i];
        if (limits.producer_synced_only && entry.sync_mode != SyncMode::ProducerSynced) {
            return fail(Errc::InvalidSyncMode, "buffers[" + std::to_string(i) + "].sync_mode is " +
                                                   std::to_string(static_cast<unsigned>(entry.sync_mode)) +
                                                   ", and this reader takes only what is producer-synced (0)");
        }
        total = checked_add(total, entry.byte_size).value_or(UINT64_MAX);
    }
    if (total > limits.max_tensor_size) {
        return fail(Errc::Limit, "the buffers have " + std::to_string(total) + " bytes, the maximum is " +
                                     std::to_string(limits.max_tensor_size));
    }
    return {};
}

}  // namespace

Result<void> TensorReader::set_current(std::vector<std::uint8_t> bytes) {
    view_.reset();
    bytes_ = std::move(bytes);
    const auto decoded = decode_descriptor(bytes_);
    if (!decoded) {
        return fail(to_error(decoded.error()));
    }
    if (const auto fits = check_sizes(*decoded, limits_); !fits) {
        return fits;
    }
    view_ = *decoded;
    return {};
}

Result<void> TensorReader::read(std::size_t buffer, std::uint64_t offset, std::span<std::uint8_t> out) {
    if (!view_) {
        return fail(Errc::InvalidArgument, "there is no current tensor");
    }
    const BufferTable& buffers = view_->buffers;
    if (buffer >= buffers.size()) {
        return fail(Errc::IndexOutOfBounds, "there is no buffer " + std::to_string(buffer) + ", the tensor has " +
                                                std::to_string(buffers.size()));
    }
    const std::uint64_t size = buffers[buffer].byte_size;
    if (!range_fits(offset, out.size(), size)) {
        return fail(Errc::IndexOutOfBounds, "buffer " + std::to_string(buffer) + " has " + std::to_string(size) +
                                                " bytes; there are no " + std::to_string(out.size()) + " at byte " +
                                                std::to_string(offset));
    }
    return read_checked(buffer, offset, out);
}

Result<MemoryBlock> TensorReader::read_buffer(std::size_t buffer) {
    if (const auto there = read(buffer, 0, {}); !there) {
        return tl::unexpected(there.error());
    }
    const BufferEntry entry = view_->buffers[buffer];
    MemoryBlock block(std::clamp<std::size_t>(entry.alignment, kMinBufferAlignment, kPage));
    const auto at_hand = bytes_at_hand(buffer);
    if (!at_hand) {
        return tl::unexpected(at_hand.error());
    }
    std::uint64_t done = 0;
    do {
        const std::uint64_t left = entry.byte_size - done;
        block.grow(done + std::min(left, std::max(*at_hand, done)));
        if (const auto got = read(buffer, done, block.bytes().subspan(static_cast<std::size_t>(done))); !got) {
            return tl::unexpected(got.error());
        }
        done = block.bytes().size();
    } while (done < entry.byte_size);
    return block;
}

}  // namespace hurray
