#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>

#include "hurray_client.h"

#include "libhurray/base/result.hpp"

namespace hurray::client::abi {

/// Whether a caller's info struct, which may be null, says how long it is. Its oldest form is as long as up to `flags`.
[[nodiscard]] inline Result<void> check_info_out(const HurrayCapsuleInfo* out) {
    if (out != nullptr && out->struct_size < offsetof(HurrayCapsuleInfo, capsule)) {
        return fail_field(Errc::InvalidArgument, "info->struct_size",
                          "is " + std::to_string(out->struct_size) + "; set it to the size of the struct");
    }
    return {};
}

/// HURRAY_CAPSULE_* of the memory that a capsule lies in.
[[nodiscard]] constexpr std::uint32_t memory_flags(bool immutable, bool unsealed) noexcept {
    return (immutable ? HURRAY_CAPSULE_IMMUTABLE : 0U) | (unsealed ? HURRAY_CAPSULE_UNSEALED : 0U);
}

/// Writes as much of `info` as the caller's struct has room for; what it has beyond becomes zero.
inline void write_info(HurrayCapsuleInfo info, HurrayCapsuleInfo* out) noexcept {
    if (out == nullptr) {
        return;
    }
    const std::size_t size = out->struct_size;
    info.struct_size = static_cast<std::uint32_t>(size);
    auto* bytes = reinterpret_cast<unsigned char*>(out);
    std::memcpy(bytes, &info, std::min(size, sizeof info));
    if (size > sizeof info) {
        std::memset(bytes + sizeof info, 0, size - sizeof info);
    }
}

}  // namespace hurray::client::abi
