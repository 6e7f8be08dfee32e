#include <hurray/client.hpp>
#include <hurray/hurray.hpp>
#include <iostream>

int main() {
    const hurray::DenseDescriptor dense{.element_type = hurray::ElementType::Float32, .shape = {2, 3}};
    std::cout << "abi " << hurray_c_abi_version() << ", descriptor " << dense.encode().size() << " bytes, connect ";
    try {
        const auto client = hurray::Client::connect({.address = "/nonexistent/hurrayd.sock"});
        std::cout << "went well\n";
    } catch (const hurray::StatusError& error) {
        std::cout << hurray_status_string(error.status()) << '\n';
    }
    return 0;
}
