// Owners of the C API's handles.
#pragma once

#include <memory>

#include "hurray.h"
#include "hurray_client.h"

namespace hurray_python {

struct DestroyBufferList {
    void operator()(HurrayBufferList* list) const noexcept { hurray_buffer_list_destroy(&list); }
};
struct DestroyContext {
    void operator()(HurrayTensorContext* context) const noexcept { hurray_tensor_context_destroy(&context); }
};
struct DestroyAllocation {
    void operator()(HurrayAllocation* allocation) const noexcept { hurray_allocation_destroy(&allocation); }
};
struct DestroyDescriptor {
    void operator()(HurrayDescriptor* descriptor) const noexcept { hurray_descriptor_destroy(descriptor); }
};

using BufferList = std::unique_ptr<HurrayBufferList, DestroyBufferList>;
using Context = std::unique_ptr<HurrayTensorContext, DestroyContext>;
using AllocationHandle = std::unique_ptr<HurrayAllocation, DestroyAllocation>;
using Descriptor = std::unique_ptr<HurrayDescriptor, DestroyDescriptor>;

}  // namespace hurray_python
