#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <string>

#include "client.hpp"
#include "hurray.h"
#include "status.hpp"
#include "tensor.hpp"

NB_MODULE(_hurray, module) {
    namespace nb = nanobind;
    if (hurray_c_abi_version() != HURRAY_C_ABI_VERSION) {
        const std::string message = "libhurray has C ABI version " + std::to_string(hurray_c_abi_version()) +
                                    ", this package was built for " + std::to_string(HURRAY_C_ABI_VERSION);
        throw nb::import_error(message.c_str());
    }
    // A client or a tensor in a global variable at exit is no leak: at_exit() has ended what matters.
    nb::set_leak_warnings(false);
    module.doc() = "What the package hurray is made of. Import hurray instead.";
    hurray_python::bind_tensor(module);
    hurray_python::bind_client(module);
    module.def("status_string", [](HurrayStatus status) { return std::string(hurray_status_string(status)); });
    module.def("make_error", &hurray_python::make_error);
    module.def("element_type_from_name", [](const std::string& name) {
        std::uint8_t tag = 0;
        return hurray_element_type_from_name(name.c_str(), &tag) == HURRAY_OK ? int{tag} : -1;
    });
}
