#include "tests/support/bystander.hpp"

#include <array>
#include <stdexcept>

#include <unistd.h>

namespace hurray::test {

void Bystander::check() {
    using What = wire::LeaseEvent::What;
    const auto require = [](bool right, const char* what) {
        if (!right) {
            throw std::runtime_error(std::string("the bystander was disturbed: ") + what);
        }
    };
    const std::uint64_t lease = ++rounds_;
    const std::string name = "bystander/" + std::to_string(rounds_);
    const char fill = static_cast<char>('a' + rounds_ % 26);
    const TestTensor tensor = make_tensor(name, 16, fill);
    const auto published = producer_.publish(tensor);
    const auto attached = consumer_.attach(lease, name);
    require(attached.reply.version == published.version && attached.fds.size() == 1, "another capsule came");
    std::array<char, 64> bytes{};
    require(::pread(attached.fds[0].get(), bytes.data(), bytes.size(), 0) == 64 && bytes.front() == fill &&
                bytes.back() == fill,
            "other bytes came");
    require(producer_.next<wire::LeaseEvent>().what == What::Opened, "the lease was not opened");
    consumer_.call<wire::Done>(wire::Release{{lease}});
    require(producer_.next<wire::LeaseEvent>().what == What::Released, "the lease was not released");
    const auto withdraw = producer_.send(wire::Withdraw{{::getuid(), tensor.publish.capsule}});
    require(producer_.next<wire::Ended>().reusable, "its memory is not its own again");
    producer_.next<wire::Done>(withdraw);
    require(!producer_.try_receive() && !consumer_.try_receive() && consumer_.events.empty(), "something else came");
}

}  // namespace hurray::test
