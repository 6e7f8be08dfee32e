#pragma once

#include "hurray.h"

#include "libhurray/abi/last_error.hpp"

namespace hurray::abi {

/// The body of an accessor: checks both pointers, then writes what `get` reads from the handle. `get` does not fail.
template <class Handle, class Value, class Get>
[[nodiscard]] HurrayStatus read_field(const char* function, const char* handle_name, const Handle* handle, Value* out,
                                      Get get) noexcept {
    if (handle == nullptr) {
        return fail_null(function, handle_name);
    }
    if (out == nullptr) {
        return fail_null(function, "out");
    }
    *out = get(*handle);
    return HURRAY_OK;
}

}  // namespace hurray::abi
