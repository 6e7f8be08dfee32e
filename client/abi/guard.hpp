#pragma once

#include <exception>
#include <new>
#include <string>
#include <utility>

#include "hurray.h"

#include "client/log.hpp"
#include "libhurray/base/errc_name.hpp"
#include "libhurray/base/result.hpp"

namespace hurray::client::abi {

/// What a program reckons with when it makes the call.
[[nodiscard]] constexpr bool is_ordinary(HurrayStatus status) noexcept {
    return status == HURRAY_ERR_NOT_FOUND || status == HURRAY_ERR_TIMED_OUT || status == HURRAY_ERR_WOULD_BLOCK ||
           status == HURRAY_ERR_CLOSED || status == HURRAY_ERR_INTERRUPTED;
}

[[nodiscard]] inline HurrayStatus report(HurrayStatus status, const char* function,
                                         const std::string& message) noexcept {
    try {
        if (const auto level = is_ordinary(status) ? log::Level::Debug : log::Level::Warning; log::is_enabled(level)) {
            log::write(level, "call_failed",
                       {{"call", function}, {"status", errc_name(static_cast<Errc>(status))}, {"message", message}});
        }
        hurray_last_error_set((std::string(function) + ": " + message).c_str());
    } catch (const std::bad_alloc&) {
        hurray_last_error_set("out of memory");
    }
    return status;
}

/// The message, with the field in front unless it says what it is about itself.
[[nodiscard]] inline std::string sentence_of(const Error& error) {
    const bool lacks_subject = error.message.starts_with("is ") || error.message.starts_with("has ");
    const bool names_field = !lacks_subject && error.message.find(error.field) != std::string::npos;
    return error.field.empty() || names_field ? error.message : error.field + ": " + error.message;
}

/// The one place where C++ exceptions and Results end: runs `body`, a Result<void>, and returns its status. The thread's last
/// message then names `function` and what went wrong.
///
/// `body` writes outputs last, and only on success, so that a failure leaves them untouched.
template <class Body>
[[nodiscard]] HurrayStatus guard(const char* function, Body&& body) noexcept {
    try {
        Result<void> result = std::forward<Body>(body)();
        if (result) {
            return HURRAY_OK;
        }
        const Error& error = result.error();
        return report(static_cast<HurrayStatus>(error.code), function, sentence_of(error));
    } catch (const std::bad_alloc&) {
        return report(HURRAY_ERR_INTERNAL, function, "out of memory");
    } catch (const std::exception& exception) {
        return report(HURRAY_ERR_INTERNAL_PANIC, function, exception.what());
    } catch (...) {
        return report(HURRAY_ERR_INTERNAL_PANIC, function, "an exception of unknown type");
    }
}

/// For required pointers: `return missing("options->name");`
[[nodiscard]] inline tl::unexpected<Error> missing(const char* argument) {
    return fail(Errc::NullPointer, std::string(argument) + " is null");
}

}  // namespace hurray::client::abi
