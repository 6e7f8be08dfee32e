#include "client/event.hpp"

#include <algorithm>

namespace hurray::client {

HurrayCapsuleId to_c(const wire::CapsuleId& id) noexcept {
    HurrayCapsuleId out{};
    out.uid = id.uid;
    std::copy(id.id.bytes.begin(), id.id.bytes.end(), out.id);
    return out;
}

wire::CapsuleId from_c(const HurrayCapsuleId& id) noexcept {
    wire::CapsuleId out;
    out.uid = id.uid;
    std::copy(std::begin(id.id), std::end(id.id), out.id.bytes.begin());
    return out;
}

void EventRecord::tell(HurrayEventFn callback, void* context) const {
    HurrayEvent event{};
    event.struct_size = sizeof event;
    event.kind = static_cast<std::uint32_t>(kind);
    event.flags = flags;
    event.status = status;
    event.capsule = to_c(capsule);
    event.version = version;
    event.remaining = remaining;
    event.name = name.c_str();
    callback(&event, context);
}

}  // namespace hurray::client
