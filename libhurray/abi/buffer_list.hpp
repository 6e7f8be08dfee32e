#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "hurray.h"

/// Owns its buffers; a slot is null once its buffer is destroyed.
struct HurrayBufferList {
    std::vector<HurrayBuffer*> buffers;
};

namespace hurray::abi {

using BufferSpans = std::vector<std::span<const std::uint8_t>>;

/// The bytes of all buffers, for functions that read them. Fails (HURRAY_ERR_UNSUPPORTED) if the host can't read one: only
/// CPU memory, pinned and unified memory are within its reach. Call inside guard().
[[nodiscard]] HurrayStatus readable_bytes(const char* function, const HurrayBufferList& list, BufferSpans& out);

}  // namespace hurray::abi
