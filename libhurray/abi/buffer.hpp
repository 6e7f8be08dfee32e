#pragma once

#include "hurray.h"

#include "libhurray/format/buffer_table.hpp"

/// One range of memory, and how to let it go. The memory is its maker's until `release` has run.
struct HurrayBuffer {
    void* data;
    hurray::BufferEntry entry;
    HurrayReleaseCallback release;  // may be null
    void* release_context;
};

namespace hurray::abi {

/// The whole of hurray_buffer_destroy, for a buffer that is not null: also what a list does to the buffers it owns.
[[nodiscard]] HurrayStatus destroy_buffer(const char* function, HurrayBuffer* buffer) noexcept;

}  // namespace hurray::abi
