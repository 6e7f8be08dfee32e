#include "libhurray/abi/buffer.hpp"

#include "libhurray/abi/accessor.hpp"
#include "libhurray/abi/guard.hpp"
#include "libhurray/abi/handle.hpp"

namespace {

using hurray::BufferEntry;
using hurray::DeviceTag;
using hurray::MemoryClass;
using hurray::SyncMode;
using namespace hurray::abi;

constexpr hurray::BufferFieldNames kArguments{"alignment", "device_tag", "sync_mode", "memory_class"};

HurrayStatus mismatch(const char* function, const char* what) {
    return fail(HURRAY_ERR_SYNC_MODE_MISMATCH, function, what);
}

}  // namespace

namespace hurray::abi {

HurrayStatus destroy_buffer(const char* function, HurrayBuffer* buffer) noexcept {
    return guard(function, [&]() -> HurrayStatus {
        if (!claim_handle(buffer)) {
            return fail(HURRAY_ERR_INTERNAL, function, "this buffer is not alive: it was destroyed before");
        }
        const OwnedHandle<HurrayBuffer> owned(buffer);
        if (owned->release != nullptr) {
            owned->release(owned->data, owned->release_context);
        }
        return HURRAY_OK;
    });
}

}  // namespace hurray::abi

HurrayStatus hurray_buffer_from_ptr(void* data, uint64_t byte_size, uint32_t alignment, uint8_t device_tag,
                                    uint8_t sync_mode, uint8_t memory_class, HurrayReleaseCallback release,
                                    void* release_context, HurrayBuffer** out) {
    return guard(__func__, [&, function = __func__]() -> HurrayStatus {
        if (data == nullptr) {
            return fail_null(function, "data");
        }
        if (out == nullptr) {
            return fail_null(function, "out");
        }
        const BufferEntry entry{byte_size, alignment, static_cast<DeviceTag>(device_tag),
                                static_cast<SyncMode>(sync_mode), static_cast<MemoryClass>(memory_class)};
        if (const auto error = hurray::check_buffer_entry(entry, kArguments)) {
            return fail(function, *error);
        }
        *out = make_handle<HurrayBuffer>(data, entry, release, release_context);
        return HURRAY_OK;
    });
}

HurrayStatus hurray_buffer_destroy(HurrayBuffer* buffer) {
    return buffer == nullptr ? fail_null(__func__, "buffer") : destroy_buffer(__func__, buffer);
}

HurrayStatus hurray_buffer_data_ptr(const HurrayBuffer* buffer, void** out) {
    return read_field(__func__, "buffer", buffer, out, [](const HurrayBuffer& b) { return b.data; });
}

HurrayStatus hurray_buffer_byte_size(const HurrayBuffer* buffer, uint64_t* out) {
    return read_field(__func__, "buffer", buffer, out, [](const HurrayBuffer& b) { return b.entry.byte_size; });
}

HurrayStatus hurray_buffer_alignment(const HurrayBuffer* buffer, uint32_t* out) {
    return read_field(__func__, "buffer", buffer, out, [](const HurrayBuffer& b) { return b.entry.alignment; });
}

HurrayStatus hurray_buffer_device_tag(const HurrayBuffer* buffer, uint8_t* out) {
    return read_field(__func__, "buffer", buffer, out,
                      [](const HurrayBuffer& b) { return static_cast<uint8_t>(b.entry.device); });
}

HurrayStatus hurray_buffer_sync_mode(const HurrayBuffer* buffer, uint8_t* out) {
    return read_field(__func__, "buffer", buffer, out,
                      [](const HurrayBuffer& b) { return static_cast<uint8_t>(b.entry.sync_mode); });
}

HurrayStatus hurray_buffer_memory_class(const HurrayBuffer* buffer, uint8_t* out) {
    return read_field(__func__, "buffer", buffer, out,
                      [](const HurrayBuffer& b) { return static_cast<uint8_t>(b.entry.memory_class); });
}

HurrayStatus hurray_buffer_handoff_producer_synced(const HurrayBuffer* buffer) {
    if (buffer == nullptr) {
        return fail_null(__func__, "buffer");
    }
    if (buffer->entry.sync_mode != SyncMode::ProducerSynced) {
        return mismatch(__func__, "the buffer's sync mode is not producer-synced");
    }
    return HURRAY_OK;
}

HurrayStatus hurray_buffer_handoff_event(const HurrayBuffer* buffer, const HurraySyncEventPayload* payload) {
    if (buffer == nullptr) {
        return fail_null(__func__, "buffer");
    }
    if (payload == nullptr) {
        return fail_null(__func__, "payload");
    }
    if (buffer->entry.sync_mode != SyncMode::Event) {
        return mismatch(__func__, "the buffer's sync mode is not event");
    }
    if (payload->sync_handle == nullptr) {
        return mismatch(__func__, "payload.sync_handle is null");
    }
    if (payload->event_release_fn == nullptr) {
        return mismatch(__func__, "payload.event_release_fn is null");
    }
    if (static_cast<DeviceTag>(payload->sync_handle_device_tag) != buffer->entry.device) {
        return mismatch(__func__, "payload.sync_handle_device_tag is not the buffer's device tag");
    }
    return HURRAY_OK;
}

HurrayStatus hurray_buffer_handoff_consumer_stream(const HurrayBuffer* buffer,
                                                   const HurraySyncConsumerStreamPayload* payload) {
    if (buffer == nullptr) {
        return fail_null(__func__, "buffer");
    }
    if (payload == nullptr) {
        return fail_null(__func__, "payload");
    }
    if (buffer->entry.sync_mode != SyncMode::ConsumerStream) {
        return mismatch(__func__, "the buffer's sync mode is not consumer-stream");
    }
    if (payload->consumer_stream == nullptr) {
        return mismatch(__func__, "payload.consumer_stream is null");
    }
    if (static_cast<DeviceTag>(payload->consumer_stream_device_tag) != buffer->entry.device) {
        return mismatch(__func__, "payload.consumer_stream_device_tag is not the buffer's device tag");
    }
    return HURRAY_OK;
}
