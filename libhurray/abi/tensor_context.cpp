#include <utility>
#include <vector>

#include "hurray.h"

#include "libhurray/abi/accessor.hpp"
#include "libhurray/abi/guard.hpp"
#include "libhurray/abi/handle.hpp"

using namespace hurray::abi;

struct HurrayTensorContext {
    uint32_t abi_version;  // stays the first field in every version: it is read before anything else is believed
    std::vector<uint8_t> descriptor;
    void* owner;
    HurrayOwnerReleaseFn release;  // may be null
};

HurrayStatus hurray_tensor_context_new(uint32_t abi_version, const uint8_t* descriptor, uint64_t len, void* owner,
                                       HurrayOwnerReleaseFn release, HurrayTensorContext** out) {
    return guard(__func__, [&, function = __func__]() -> HurrayStatus {
        if (out == nullptr) {
            return fail_null(function, "out");
        }
        if (descriptor == nullptr && len != 0) {
            return fail_null(function, "descriptor");
        }
        std::vector<uint8_t> copy;
        if (len != 0) {
            copy.assign(descriptor, descriptor + len);
        }
        *out = make_handle<HurrayTensorContext>(abi_version, std::move(copy), owner, release);
        return HURRAY_OK;
    });
}

HurrayStatus hurray_tensor_context_abi_version(const HurrayTensorContext* context, uint32_t* out) {
    return read_field(__func__, "context", context, out, [](const HurrayTensorContext& c) { return c.abi_version; });
}

HurrayStatus hurray_tensor_context_descriptor(const HurrayTensorContext* context, const uint8_t** out,
                                              uint64_t* out_len) {
    if (context == nullptr) {
        return fail_null(__func__, "context");
    }
    if (out == nullptr) {
        return fail_null(__func__, "out");
    }
    if (out_len == nullptr) {
        return fail_null(__func__, "out_len");
    }
    *out = context->descriptor.empty() ? nullptr : context->descriptor.data();
    *out_len = context->descriptor.size();
    return HURRAY_OK;
}

HurrayStatus hurray_tensor_context_owner(const HurrayTensorContext* context, HurrayOwnerReleaseFn release, void** out) {
    if (context == nullptr) {
        return fail_null(__func__, "context");
    }
    if (out == nullptr) {
        return fail_null(__func__, "out");
    }
    if (context->release != release) {
        return fail(HURRAY_ERR_INVALID_ARGUMENT, __func__, "this context was made with another release function");
    }
    *out = context->owner;
    return HURRAY_OK;
}

HurrayStatus hurray_tensor_context_destroy(HurrayTensorContext** context) {
    return guard(__func__, [&, function = __func__]() -> HurrayStatus {
        if (context == nullptr) {
            return fail_null(function, "context");
        }
        if (*context == nullptr) {
            return HURRAY_OK;
        }
        if (!claim_handle(*context)) {
            return fail(HURRAY_ERR_INTERNAL, function, "this context is not alive: it was destroyed before");
        }
        // Null before the callback, so that a callback which looks at the variable can't use the context again.
        const OwnedHandle<HurrayTensorContext> owned(std::exchange(*context, nullptr));
        if (owned->release != nullptr) {
            owned->release(owned->owner);
        }
        return HURRAY_OK;
    });
}
