#pragma once

#include <exception>
#include <new>
#include <stdexcept>
#include <type_traits>

#include "hurray.h"

#include "libhurray/abi/last_error.hpp"

namespace hurray::abi {

/// The one place where C++ exceptions end. Runs `body` and returns its status; `function` is named in the message.
///
/// `body` writes outputs last, and only on success, so that an exception leaves them untouched.
template <class Body>
[[nodiscard]] HurrayStatus guard(const char* function, Body&& body) noexcept {
    static_assert(std::is_same_v<std::invoke_result_t<Body>, HurrayStatus>);
    try {
        return body();
    } catch (const std::bad_alloc&) {
        return fail(HURRAY_ERR_INTERNAL, function, "out of memory");
    } catch (const std::length_error&) {  // asked for more than any memory holds
        return fail(HURRAY_ERR_INTERNAL, function, "out of memory");
    } catch (const std::exception& exception) {
        return fail(HURRAY_ERR_INTERNAL_PANIC, function, exception.what());
    } catch (...) {
        return fail(HURRAY_ERR_INTERNAL_PANIC, function, "an exception of unknown type");
    }
}

}  // namespace hurray::abi
