#include "client/allocation.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "libhurray/base/checked_math.hpp"

namespace hurray::client {

namespace {

constexpr std::uint64_t kPage = SegmentPool::kPage;

Result<std::uint64_t> too_large() {
    return fail(Errc::NoSpace, "the buffers together have more bytes than 64 bits can count");
}

/// Where each buffer goes, from the block's beginning, and how long that must be.
Result<std::uint64_t> lay_out(std::span<const std::uint64_t> sizes, std::vector<Allocation::Buffer>& buffers) {
    std::uint64_t end = 0;
    for (const std::uint64_t size : sizes) {
        const auto offset = checked_align_up(end, HURRAY_MIN_BUFFER_ALIGNMENT);
        const auto next = offset ? checked_add(*offset, size) : std::nullopt;
        if (!next) {
            return too_large();
        }
        buffers.push_back({*offset, size});
        end = *next;
    }
    const auto length = checked_align_up(end, kPage);
    if (!length) {
        return too_large();
    }
    return *length;
}

void drop_mapping(void*, void* owner) { delete static_cast<std::shared_ptr<const Mapping>*>(owner); }

Error last_c_error(HurrayStatus status) { return Error{static_cast<Errc>(status), hurray_last_error_message()}; }

}  // namespace

std::byte* empty_buffer_address() noexcept {
    alignas(kPage) static std::byte nothing[HURRAY_MIN_BUFFER_ALIGNMENT];
    return nothing;
}

Result<Allocation> Allocation::create(SegmentPool& pool, std::span<const std::uint64_t> sizes, Contents contents,
                                      const AccessRule& access, wire::Memory kind) {
    Allocation made;
    // An immutable one is never memory of before, and is not to be written once it may have been sealed.
    made.contents_ = kind == wire::Memory::Immutable ? Contents::Zeros : contents;
    made.access_ = access;
    made.buffers_.reserve(sizes.size());
    const auto length = lay_out(sizes, made.buffers_);
    if (!length) {
        return fail(length.error());
    }
    if (*length == 0) {
        return made;
    }
    auto block = kind == wire::Memory::Immutable ? pool.take_immutable(*length, access) : pool.take(*length, access);
    if (!block) {
        return fail(std::move(block.error()));
    }
    made.block_ = std::move(*block);
    // Clears what an earlier capsule has left: all of it, or what no buffer covers.
    std::byte* const data = made.block_->data();
    const std::uint64_t dirty = made.block_->dirty();
    std::uint64_t begin = 0;
    for (Buffer& buffer : made.buffers_) {
        if (contents == Contents::Whatever && buffer.size > 0 && begin < dirty) {
            std::memset(data + begin, 0, std::min(buffer.offset, dirty) - begin);
            begin = std::min(buffer.offset + buffer.size, dirty);
        }
        buffer.offset += made.block_->offset();
    }
    if (begin < dirty) {
        std::memset(data + begin, 0, dirty - begin);
    }
    return made;
}

std::byte* Allocation::data(std::size_t index) const noexcept {
    const Buffer& buffer = buffers_[index];
    return buffer.size == 0 ? empty_buffer_address() : block_->segment().memory->data() + buffer.offset;
}

std::shared_ptr<const Mapping> Allocation::mapping() const noexcept {
    return block_ != nullptr ? std::shared_ptr<const Mapping>(block_, block_->segment().memory.get()) : nullptr;
}

bool Allocation::is_writable() const noexcept {
    return block_ == nullptr || block_->segment().kind != wire::Memory::Immutable ||
           !block_->segment().memory->is_immutable();
}

void Allocation::shorten(std::size_t index, std::uint64_t size) noexcept {
    if (contents_ == Contents::Whatever && size < buffers_[index].size) {
        std::memset(data(index) + size, 0, buffers_[index].size - size);
    }
}

Result<BufferListPtr> make_buffer_list(std::span<const BufferRange> ranges) {
    HurrayBufferList* made = nullptr;
    if (const HurrayStatus status = hurray_buffer_list_new(ranges.size(), &made); status != HURRAY_OK) {
        return fail(last_c_error(status));
    }
    BufferListPtr list(made);
    for (const BufferRange& range : ranges) {
        std::unique_ptr<std::shared_ptr<const Mapping>> owner;
        void* data = empty_buffer_address();
        if (range.size > 0) {
            owner = std::make_unique<std::shared_ptr<const Mapping>>(range.mapping);
            data = range.mapping->data() + range.offset;
        }
        HurrayBuffer* buffer = nullptr;
        if (const HurrayStatus status = hurray_buffer_from_ptr(
                data, range.size, range.alignment, HURRAY_DEVICE_CPU, HURRAY_SYNC_PRODUCER_SYNCED, range.memory_class,
                owner != nullptr ? drop_mapping : nullptr, owner.get(), &buffer);
            status != HURRAY_OK) {
            return fail(last_c_error(status));
        }
        static_cast<void>(owner.release());  // the buffer's now
        if (const HurrayStatus status = hurray_buffer_list_push(list.get(), buffer); status != HURRAY_OK) {
            hurray_buffer_destroy(buffer);
            return fail(last_c_error(status));
        }
    }
    return list;
}

}  // namespace hurray::client
