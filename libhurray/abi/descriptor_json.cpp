#include <algorithm>
#include <string>

#include "libhurray/abi/capacity.hpp"
#include "libhurray/abi/descriptor_handle.hpp"
#include "libhurray/abi/guard.hpp"
#include "libhurray/format/descriptor_json.hpp"

using namespace hurray::abi;

HurrayStatus hurray_descriptor_to_json(const HurrayDescriptor* descriptor, char* out_text, uintptr_t* inout_len) {
    return guard(__func__, [&, function = __func__]() -> HurrayStatus {
        if (descriptor == nullptr) {
            return fail_null(function, "descriptor");
        }
        if (inout_len == nullptr) {
            return fail_null(function, "inout_len");
        }
        const std::string text = hurray::descriptor_to_json(view_of(*descriptor));
        const HurrayStatus status = take_capacity(function, "out_text", out_text, text.size() + 1, *inout_len);
        if (status == HURRAY_OK) {
            std::copy_n(text.c_str(), text.size() + 1, out_text);
        }
        return status;
    });
}
