// Waits for the composite "weights", attaches its members, all of one commit, and adds up their elements.
#include <chrono>
#include <cstdint>
#include <exception>
#include <hurray/client.hpp>
#include <iostream>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace std::chrono_literals;

/// Head and members of one commit; nothing if it was replaced meanwhile.
std::optional<std::vector<hurray::Tensor>> attach_weights(hurray::Client& client) {
    std::vector<hurray::Tensor> parts;
    parts.push_back(client.attach("weights", {.timeout = 5s}));
    const hurray::Descriptor head(parts[0].info().descriptor);
    hurray::CompositeSet set(head);
    std::vector<hurray::AttachItem> members;
    for (std::uint32_t i = 0; i < head.composite_head().member_count; ++i) {
        // Versions of one group follow each other, in the order in which its members were published.
        members.push_back({"weights/" + std::to_string(i), {.version = parts[0].info().version + 1 + i}});
    }
    try {
        for (hurray::Tensor& member : client.attach_many(members)) {
            set.add(hurray::Descriptor(member.info().descriptor));
            parts.push_back(std::move(member));
        }
    } catch (const hurray::StatusError& error) {
        if (error.status() == HURRAY_ERR_NOT_FOUND) {
            return std::nullopt;
        }
        throw;
    }
    set.finish();
    return parts;
}

}  // namespace

int main() try {
    auto client = hurray::Client::connect();
    auto parts = attach_weights(client);
    while (!parts) {
        parts = attach_weights(client);
    }
    float sum = 0;
    for (std::size_t i = 1; i < parts->size(); ++i) {
        const auto elements = (*parts)[i].elements<float>();
        sum = std::accumulate(elements.begin(), elements.end(), sum);
    }
    std::cout << "weights: " << parts->size() - 1 << " members, sum " << sum << '\n';
} catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
}
