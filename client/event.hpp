#pragma once

#include <cstdint>
#include <string>

#include "hurray_client.h"

#include "proto/wire/messages.hpp"

namespace hurray::client {

[[nodiscard]] HurrayCapsuleId to_c(const wire::CapsuleId& id) noexcept;
[[nodiscard]] wire::CapsuleId from_c(const HurrayCapsuleId& id) noexcept;

/// A HurrayEvent that owns what it points to, for the time between the event and its callback.
struct EventRecord {
    HurrayEventKind kind = HURRAY_EVENT_CONNECTION;
    std::uint32_t flags = 0;
    HurrayStatus status = HURRAY_OK;
    wire::CapsuleId capsule = {};
    std::uint64_t version = 0;
    std::uint64_t remaining = 0;
    std::string name = {};

    void tell(HurrayEventFn callback, void* context) const;
};

}  // namespace hurray::client
