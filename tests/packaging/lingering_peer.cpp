// One step of a program that leaves tensors behind, for descriptor_store_test.sh:
//
//   lingering_peer publish NAME VALUE    publishes it to linger, and ends
//   lingering_peer attach NAME           prints the value, once there is one
//   lingering_peer withdraw NAME

#include <chrono>
#include <cstdint>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include <hurray/client.hpp>

int main(int argc, char** argv) try {
    using namespace std::chrono_literals;
    const std::vector<std::string> words(argv + 1, argv + argc);
    if (words.size() < 2) {
        return 2;
    }
    const std::string& name = words[1];
    hurray::ConnectOptions to_connect;
    to_connect.timeout = 30s;
    auto client = hurray::Client::connect(std::move(to_connect));
    if (words[0] == "publish" && words.size() == 3) {
        auto tensor = client.allocate<std::uint32_t>({20'000});
        tensor.elements<std::uint32_t>()[0] = static_cast<std::uint32_t>(std::stoul(words[2]));
        hurray::PublishOptions options;
        options.linger = hurray::kForever;
        client.publish(name, std::move(tensor), std::move(options));
    } else if (words[0] == "attach") {
        hurray::AttachOptions options;
        options.timeout = 30s;
        std::cout << client.attach(name, options).elements<std::uint32_t>()[0] << '\n';
    } else if (words[0] == "withdraw") {
        for (const auto& info : client.list(name)) {
            client.withdraw(info.capsule);
        }
    } else {
        return 2;
    }
    return 0;
} catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
}
