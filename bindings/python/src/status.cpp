#include "status.hpp"

#include <nanobind/stl/string.h>

#include <string_view>

namespace hurray_python {

nb::object make_error(HurrayStatus status, const std::string& message) {
    const nb::module_ errors = nb::module_::import_("hurray._errors");
    const nb::object type = errors.attr("BY_STATUS").attr("get")(status, errors.attr("Error"));
    nb::object error = type.attr("__new__")(type, message);
    error.attr("args") = nb::make_tuple(message);
    error.attr("message") = message;
    error.attr("status") = status;
    return error;
}

void raise_status(HurrayStatus status, const std::string& message) {
    const nb::object error = make_error(status, message);
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());
    throw nb::python_error();
}

void raise_status(HurrayStatus status) {
    if (PyErr_Occurred() != nullptr) {
        throw nb::python_error();
    }
    if (status == HURRAY_ERR_INTERRUPTED && gate::closed()) {
        raise_shutting_down();  // by at_exit(), not by a signal
    }
    std::string_view message = hurray_last_error_message();
    // The C function that said no is nothing that a user of this package has called.
    if (const auto colon = message.find(": ");
        message.starts_with("hurray_") && colon != message.npos && message.find(' ') == colon + 1) {
        message.remove_prefix(colon + 2);
    }
    raise_status(status, std::string(message.empty() ? hurray_status_string(status) : message));
}

}  // namespace hurray_python
