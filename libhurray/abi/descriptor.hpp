#pragma once

#include <memory>
#include <utility>

#include "hurray.h"

#include "libhurray/abi/handle.hpp"
#include "libhurray/format/descriptor_reader.hpp"

/// The decoded descriptor lies in a block of its own, so that a checking build keeps only this pointer after the
/// handle's end.
struct HurrayDescriptor {
    std::unique_ptr<const hurray::OwnedDescriptor> owned;

    [[nodiscard]] const hurray::DescriptorView& view() const noexcept { return owned->view(); }
};

namespace hurray::abi {

/// Hands `descriptor` out.
[[nodiscard]] inline HurrayDescriptor* make_descriptor(OwnedDescriptor descriptor) {
    return make_handle<HurrayDescriptor>(std::make_unique<const OwnedDescriptor>(std::move(descriptor)));
}

}  // namespace hurray::abi
