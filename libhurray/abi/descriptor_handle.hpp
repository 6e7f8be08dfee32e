#pragma once

#include <memory>

#include "hurray.h"

#include "libhurray/abi/handle.hpp"
#include "libhurray/format/descriptor_reader.hpp"

/// The decoded descriptor lies in a block of its own, so that a checking build keeps only this pointer after the
/// handle's end.
struct HurrayDescriptor {
    std::unique_ptr<const hurray::OwnedDescriptor> owned;
};

namespace hurray::abi {

[[nodiscard]] inline const DescriptorView& view_of(const HurrayDescriptor& descriptor) noexcept {
    return descriptor.owned->view();
}

}  // namespace hurray::abi
