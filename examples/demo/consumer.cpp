// The demo's consumer in C++: attaches NAME, proves that it sees the producer's own bytes, and lets go.
#include <chrono>
#include <exception>
#include <hurray/client.hpp>
#include <iostream>

#include "sharing.h"

int main(int argc, char** argv) try {
    using namespace std::chrono_literals;
    demo_expectation expected;
    if (demo_parse(argc, argv, &expected) != 0) {
        return 2;
    }
    auto client = hurray::Client::connect();
    const auto tensor = client.attach(expected.name, {.timeout = 5s});

    std::cout << "C++ consumer: " << tensor.name() << " is " << hurray::element_type_name(tensor.element_type())
              << " [";
    const char* separator = "";
    for (const std::uint64_t size : tensor.shape()) {
        std::cout << separator << size;
        separator = ", ";
    }
    std::cout << "]" << std::endl;

    const auto bytes = tensor.buffer();
    return demo_verify(&expected, "C++", bytes.data(), bytes.size()) == 0 ? 0 : 1;
} catch (const std::exception& error) {
    std::cerr << "C++ consumer: " << error.what() << '\n';
    return 1;
}
