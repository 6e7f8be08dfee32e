// Publishes a grey picture as "camera/front" until Enter is pressed, and tells of consumers that are done with it.
#include <algorithm>
#include <cstdint>
#include <exception>
#include <hurray/client.hpp>
#include <iostream>

int main() try {
    auto client = hurray::Client::connect();
    auto picture = client.allocate<std::uint8_t>({480, 640, 3});
    std::ranges::fill(picture.elements<std::uint8_t>(), std::uint8_t{128});
    client.publish("camera/front", std::move(picture), {.on_event = [](const hurray::Event& event) {
                       if (event.kind == HURRAY_EVENT_LEASE_RELEASED) {
                           std::cout << "a consumer is done, " << event.remaining << " left" << std::endl;
                       }
                   }});

    std::cout << "camera/front is there; Enter ends it" << std::endl;
    std::cin.get();
} catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
}
