#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "libhurray/abi/accessor.hpp"
#include "libhurray/abi/buffer.hpp"
#include "libhurray/abi/buffer_list.hpp"
#include "libhurray/abi/guard.hpp"
#include "libhurray/abi/handle.hpp"

using namespace hurray::abi;

namespace {

/// Reserved up front at most, whatever the hint is; a longer list grows as it is pushed to.
constexpr uint64_t kMaxReserved = 64;

bool host_can_read(const hurray::BufferEntry& entry) {
    return entry.device == hurray::DeviceTag::Cpu || entry.memory_class == hurray::MemoryClass::HostPinned ||
           entry.memory_class == hurray::MemoryClass::Unified;
}

}  // namespace

namespace hurray::abi {

HurrayStatus readable_bytes(const char* function, const HurrayBufferList& list, BufferSpans& out) {
    BufferSpans spans;
    spans.reserve(list.buffers.size());
    for (const HurrayBuffer* const buffer : list.buffers) {
        if (buffer == nullptr) {
            return fail(HURRAY_ERR_INVALID_ARGUMENT, function, "a buffer of the list is destroyed already");
        }
        if (!host_can_read(buffer->entry)) {
            return fail(HURRAY_ERR_UNSUPPORTED, function,
                        "buffers[" + std::to_string(spans.size()) + "] is memory of device " +
                            std::to_string(static_cast<unsigned>(buffer->entry.device)) +
                            ", which the host can't read");
        }
        spans.emplace_back(static_cast<const std::uint8_t*>(buffer->data),
                           static_cast<std::size_t>(buffer->entry.byte_size));
    }
    out = std::move(spans);
    return HURRAY_OK;
}

}  // namespace hurray::abi

HurrayStatus hurray_buffer_list_new(uint64_t capacity, HurrayBufferList** out) {
    return guard(__func__, [&, function = __func__]() -> HurrayStatus {
        if (out == nullptr) {
            return fail_null(function, "out");
        }
        std::vector<HurrayBuffer*> buffers;
        buffers.reserve(std::min(capacity, kMaxReserved));
        *out = make_handle<HurrayBufferList>(std::move(buffers));
        return HURRAY_OK;
    });
}

HurrayStatus hurray_buffer_list_push(HurrayBufferList* list, HurrayBuffer* buffer) {
    return guard(__func__, [&, function = __func__]() -> HurrayStatus {
        if (list == nullptr) {
            return fail_null(function, "list");
        }
        if (buffer == nullptr) {
            return fail_null(function, "buffer");
        }
        list->buffers.push_back(buffer);
        return HURRAY_OK;
    });
}

HurrayStatus hurray_buffer_list_len(const HurrayBufferList* list, uint64_t* out) {
    return read_field(__func__, "list", list, out,
                      [](const HurrayBufferList& l) { return static_cast<uint64_t>(l.buffers.size()); });
}

HurrayStatus hurray_buffer_list_get(const HurrayBufferList* list, uint64_t index, HurrayBuffer** out) {
    return guard(__func__, [&, function = __func__]() -> HurrayStatus {
        if (list == nullptr) {
            return fail_null(function, "list");
        }
        if (out == nullptr) {
            return fail_null(function, "out");
        }
        const std::size_t length = list->buffers.size();
        if (index >= length) {
            return fail(HURRAY_ERR_INDEX_OUT_OF_BOUNDS, function,
                        "index is " + std::to_string(index) + ", the list has " + std::to_string(length) + " buffers");
        }
        *out = list->buffers[index];
        return HURRAY_OK;
    });
}

HurrayStatus hurray_buffer_list_destroy(HurrayBufferList** list) {
    if (list == nullptr) {
        return fail_null(__func__, "list");
    }
    if (*list == nullptr) {
        return HURRAY_OK;
    }
    if (!claim_handle(*list)) {
        return fail(HURRAY_ERR_INTERNAL, __func__, "this list is not alive: it was destroyed before");
    }
    HurrayStatus status = HURRAY_OK;
    {
        const OwnedHandle<HurrayBufferList> owned(*list);
        // By index and size: a callback that looks at the list finds the buffers already destroyed gone.
        for (std::size_t i = 0; i < owned->buffers.size(); ++i) {
            HurrayBuffer* const buffer = std::exchange(owned->buffers[i], nullptr);
            const HurrayStatus destroyed = destroy_buffer(__func__, buffer);
            status = status == HURRAY_OK ? destroyed : status;
        }
    }
    *list = nullptr;
    return status;
}
