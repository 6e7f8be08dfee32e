#include "tests/integration/client_test.hpp"

#include <nlohmann/json.hpp>

namespace hurray::test {

std::uint64_t ClientTest::used(const Client& client, const std::string& name) {
    std::uint64_t sum = 0;
    const auto status = nlohmann::json::parse(client.status());
    for (const auto& use : status.at("uses")) {
        if (use.at("name") == name) {
            sum += use.at("used").get<std::uint64_t>();
        }
    }
    return sum;
}

}  // namespace hurray::test
