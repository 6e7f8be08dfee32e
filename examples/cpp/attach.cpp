// Waits for "camera/front" and adds up its bytes, which stay where the producer put them.
#include <chrono>
#include <cstdint>
#include <exception>
#include <hurray/client.hpp>
#include <iostream>
#include <numeric>

int main() try {
    using namespace std::chrono_literals;
    auto client = hurray::Client::connect();
    const auto picture = client.attach("camera/front", {.timeout = 5s});

    const auto pixels = picture.elements<std::uint8_t>();
    std::cout << picture.name() << ": " << pixels.size() << " bytes, sum "
              << std::accumulate(pixels.begin(), pixels.end(), std::uint64_t{0}) << '\n';
}  // here the producer is told that we are done
catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
}
