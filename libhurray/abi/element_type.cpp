#include "libhurray/format/element_type.hpp"

#include <string>

#include "hurray.h"

#include "libhurray/abi/guard.hpp"

using namespace hurray::abi;

namespace {

/// Finds the type of a tag and hands what `get` takes from it out.
template <class Value, class Get>
HurrayStatus read_type(const char* function, uint8_t type_tag, Value* out, Get get) noexcept {
    return guard(function, [&]() -> HurrayStatus {
        if (out == nullptr) {
            return fail_null(function, "out");
        }
        const auto* info = hurray::find_element_type(static_cast<hurray::ElementType>(type_tag));
        if (info == nullptr) {
            return fail(HURRAY_ERR_INVALID_TYPE, function,
                        "type_tag is " + std::to_string(type_tag) + ", which names no element type");
        }
        *out = get(*info);
        return HURRAY_OK;
    });
}

}  // namespace

HurrayStatus hurray_element_type_bits(uint8_t type_tag, uint32_t* out) {
    return read_type(__func__, type_tag, out, [](const hurray::ElementTypeInfo& info) { return info.bits; });
}

HurrayStatus hurray_element_type_name(uint8_t type_tag, const char** out) {
    return read_type(__func__, type_tag, out, [](const hurray::ElementTypeInfo& info) { return info.name; });
}

HurrayStatus hurray_element_type_from_name(const char* name, uint8_t* out) {
    return guard(__func__, [&, function = __func__]() -> HurrayStatus {
        if (name == nullptr) {
            return fail_null(function, "name");
        }
        if (out == nullptr) {
            return fail_null(function, "out");
        }
        const auto* info = hurray::find_element_type(std::string_view(name));
        if (info == nullptr) {
            return fail(HURRAY_ERR_INVALID_TYPE, function, "no element type is called '" + std::string(name) + "'");
        }
        *out = static_cast<uint8_t>(info->type);
        return HURRAY_OK;
    });
}
