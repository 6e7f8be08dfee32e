// From a HurrayStatus to a Python exception, and how a blocking call is made.
#pragma once

#include <nanobind/nanobind.h>

#include <string>
#include <utility>

#include "gate.hpp"
#include "hurray.h"

namespace hurray_python {

namespace nb = nanobind;

/// The exception of the package that stands for `status`, as its __init__ would make it, but without that: no Python code may
/// run here (see hurray/_tensor.py). The GIL is held.
nb::object make_error(HurrayStatus status, const std::string& message);

/// Throws the exception class of the package that stands for `status`, with the thread's last message; or, after an
/// interrupted wait, what the signal handler raised (KeyboardInterrupt). The GIL is held.
[[noreturn]] void raise_status(HurrayStatus status);

/// The same with a message of our own.
[[noreturn]] void raise_status(HurrayStatus status, const std::string& message);

/// Throws what is told once the gate is closed.
[[noreturn]] inline void raise_shutting_down() { raise_status(HURRAY_ERR_CLOSED, "the interpreter is shutting down"); }

/// Returns if `status` is HURRAY_OK.
inline void check(HurrayStatus status) {
    if (status != HURRAY_OK) {
        raise_status(status);
    }
}

/// Runs `call` with the GIL released. `call` touches no Python object.
template <typename Call>
HurrayStatus without_gil(Call&& call) {
    const gate::Pass pass;
    if (!pass) {
        raise_shutting_down();
    }
    const nb::gil_scoped_release released;
    return std::forward<Call>(call)();
}

}  // namespace hurray_python
