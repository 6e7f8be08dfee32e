#include "tests/integration/hostile_peer.hpp"

#include <chrono>
#include <csignal>
#include <functional>

#include <sys/wait.h>
#include <unistd.h>

namespace hurray::test {
namespace {

/// For what no packet tells. Gives up at a watchdog's 30 s.
void wait_until(const std::function<bool()>& is_so) {
    const auto watchdog = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!is_so() && std::chrono::steady_clock::now() < watchdog) {
        ::usleep(1000);
    }
}

std::uint64_t sum_of_uses(RawPeer& asker) {
    std::uint64_t sum = 0;
    for (const wire::Use& use : asker.call<wire::StatusReply>(wire::StatusRequest{}).uses) {
        sum += use.used;
    }
    return sum;
}

}  // namespace

void HostilePeer::wait_for_log(std::string_view text) {
    wait_until([&] { return daemon.log().find(text) != std::string::npos; });
    EXPECT_NE(daemon.log().find(text), std::string::npos) << text;
}

void HostilePeer::TearDown() {
    bystander->check();
    bystander.reset();
    wait_until([&] { return sum_of_uses(anchor) == 0; });
    EXPECT_EQ(sum_of_uses(anchor), 0u);
    wait_until([&] { return daemon.open_descriptors() == descriptors_at_start; });
    EXPECT_EQ(daemon.open_descriptors(), descriptors_at_start);
    const int status = daemon.end(SIGTERM);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << daemon.log();
}

}  // namespace hurray::test
