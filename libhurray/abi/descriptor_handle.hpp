#pragma once

#include <utility>

#include "hurray.h"

#include "libhurray/abi/handle.hpp"
#include "libhurray/format/owned_descriptor.hpp"

#ifdef HURRAY_HANDLE_CHECKS

/// The decoded descriptor lies in a block of its own, so that after the handle's end a checking build keeps only this
/// pointer.
struct HurrayDescriptor {
    hurray::OwnedDescriptor owned;
};

#endif
// Without the checks a handle is the block of the decoded descriptor itself: one allocation for all of it.

namespace hurray::abi {

#ifdef HURRAY_HANDLE_CHECKS

[[nodiscard]] inline HurrayDescriptor* make_descriptor(OwnedDescriptor owned) {
    return make_handle<HurrayDescriptor>(std::move(owned));
}

[[nodiscard]] inline const DescriptorView& view_of(const HurrayDescriptor& descriptor) noexcept {
    return descriptor.owned.view();
}

/// False if the handle is not alive.
[[nodiscard]] inline bool destroy_descriptor(HurrayDescriptor* descriptor) noexcept {
    if (!claim_handle(descriptor)) {
        return false;
    }
    const OwnedHandle<HurrayDescriptor> owned(descriptor);
    return true;
}

#else

[[nodiscard]] inline HurrayDescriptor* make_descriptor(OwnedDescriptor owned) noexcept {
    return reinterpret_cast<HurrayDescriptor*>(const_cast<OwnedDescriptor::Block*>(owned.release()));
}

[[nodiscard]] inline const DescriptorView& view_of(const HurrayDescriptor& descriptor) noexcept {
    return reinterpret_cast<const OwnedDescriptor::Block*>(&descriptor)->view;
}

[[nodiscard]] inline bool destroy_descriptor(HurrayDescriptor* descriptor) noexcept {
    const OwnedDescriptor owned(reinterpret_cast<const OwnedDescriptor::Block*>(descriptor));
    return true;
}

#endif

}  // namespace hurray::abi
