#pragma once

#include <cstddef>
#include <utility>

#include "hurray.h"

#include "libhurray/abi/last_error.hpp"

namespace hurray::abi {

/// The capacity pattern: writes the needed length, and says whether the array holds it.
[[nodiscard]] inline HurrayStatus take_capacity(const char* function, const char* name, const void* array,
                                                std::size_t needed, uintptr_t& inout_length) noexcept {
    const uintptr_t capacity = std::exchange(inout_length, needed);
    if (array == nullptr || capacity < needed) {
        return fail_too_small(function, name, capacity, needed);
    }
    return HURRAY_OK;
}

}  // namespace hurray::abi
