// Takes tiles from "jobs/tiles", oldest first, until none has come for a second. Start as many of these as you like: each tile goes to one
// of them, and if that one is killed before it has it, to another.
#include <chrono>
#include <cstdint>
#include <exception>
#include <hurray/client.hpp>
#include <iostream>
#include <numeric>

int main() try {
    using namespace std::chrono_literals;
    auto client = hurray::Client::connect();
    for (;;) {
        const auto tile = client.take("jobs/tiles", {.timeout = 1s});
        const auto pixels = tile.elements<std::uint8_t>();
        std::cout << "tile " << int{pixels[0]} << ": sum "
                  << std::accumulate(pixels.begin(), pixels.end(), std::uint64_t{0}) << std::endl;
    }  // here the producer is told that it is done
} catch (const hurray::StatusError& error) {
    if (error.status() == HURRAY_ERR_TIMED_OUT) {
        return 0;  // nothing is left to do
    }
    std::cerr << error.what() << '\n';
    return 1;
} catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
}
