// Publishes the tiles of a picture as jobs, each for one worker, and waits until all are done. How many: the argument, or 20.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <hurray/client.hpp>
#include <iostream>
#include <latch>

int main(int argc, char** argv) try {
    const int tiles = argc > 1 ? std::atoi(argv[1]) : 20;
    std::latch ended(tiles);
    std::atomic<int> taken = 0;
    auto client = hurray::Client::connect();
    for (int i = 0; i < tiles; ++i) {
        auto tile = client.allocate<std::uint8_t>({64, 64});
        std::ranges::fill(tile.elements<std::uint8_t>(), static_cast<std::uint8_t>(i));
        client.publish("jobs/tiles", std::move(tile),
                       {.on_event =
                            [&](const hurray::Event& event) {
                                if (event.kind == HURRAY_EVENT_LEASE_TAKEN) {
                                    ++taken;  // some worker has it
                                } else if (event.kind == HURRAY_EVENT_ENDED) {
                                    ended.count_down();  // and is done with it
                                }
                            },
                        .once = true});
    }
    ended.wait();
    // Those that were not taken were given up: three workers in turn died over each.
    std::cout << taken << " of " << tiles << " tiles were taken" << std::endl;
} catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
}
