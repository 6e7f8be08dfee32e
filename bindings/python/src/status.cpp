#include "status.hpp"

#include <nanobind/stl/string.h>

namespace hurray_python {

void raise_status(HurrayStatus status, const std::string& message) {
    const nb::object error = nb::module_::import_("hurray._errors").attr("from_status")(status, message);
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());
    throw nb::python_error();
}

void raise_status(HurrayStatus status) {
    if (PyErr_Occurred() != nullptr) {
        throw nb::python_error();
    }
    std::string message = hurray_last_error_message();
    if (message.empty()) {
        message = hurray_status_string(status);
    }
    raise_status(status, message);
}

}  // namespace hurray_python
