#include "tests/integration/client_test.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "tests/support/sanitized.hpp"

namespace hurray::test {

int rounds(int wanted) { return kIsSanitized ? std::max(wanted / 20, 10) : wanted; }

std::size_t count_open_descriptors() {
    using Iterator = std::filesystem::directory_iterator;
    return static_cast<std::size_t>(std::distance(Iterator("/proc/self/fd"), Iterator())) - 1;  // less the folder's own
}

std::size_t count_mappings() {
    if (kIsSanitized || kIsThreadSanitized) {
        return count_shared_mappings();
    }
    std::ifstream maps("/proc/self/maps");
    std::size_t count = 0;
    for (std::string line; std::getline(maps, line);) {
        ++count;
    }
    return count;
}

std::size_t count_shared_mappings() {
    std::ifstream maps("/proc/self/maps");
    std::size_t count = 0;
    for (std::string line; std::getline(maps, line);) {
        count += line.find("memfd:hurray") != std::string::npos ? 1 : 0;
    }
    return count;
}

std::uint64_t resident_bytes(pid_t pid) {
    std::ifstream statm("/proc/" + std::to_string(pid) + "/statm");
    std::uint64_t total = 0;
    std::uint64_t resident = 0;
    statm >> total >> resident;
    return resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

void cut_off(const std::string& daemons_path) {
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
        const int fd = std::stoi(entry.path().filename());
        sockaddr_un peer{};
        socklen_t length = sizeof peer;
        if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &length) == 0 && peer.sun_family == AF_UNIX &&
            daemons_path + ".new" == peer.sun_path) {  // the name by which it was bound
            ::shutdown(fd, SHUT_RDWR);
        }
    }
}

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
