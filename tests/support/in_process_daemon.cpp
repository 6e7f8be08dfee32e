#include "tests/support/in_process_daemon.hpp"

#include <chrono>
#include <future>
#include <stdexcept>

#include "daemon/log.hpp"

namespace hurray::test {

InProcessDaemon::InProcessDaemon() : path_(directory_ / "hurrayd.sock") {
    hurrayd::log::set_level(hurrayd::log::Level::Error);
    hurrayd::SocketOptions options;
    options.path = path_;
    auto server = hurrayd::Server::open(io_, options);
    if (!server) {
        throw std::runtime_error(server.error().message);
    }
    server_ = std::move(*server);
    thread_ = std::thread([this] { io_.run(); });
}

InProcessDaemon::~InProcessDaemon() {
    hurrayd::asio::post(io_, [this] { server_->stop(); });
    thread_.join();
}

hurrayd::Server::Held InProcessDaemon::held() {
    std::promise<hurrayd::Server::Held> promise;
    hurrayd::asio::post(io_, [&] { promise.set_value(server_->held()); });
    return promise.get_future().get();
}

void InProcessDaemon::wait_until(const std::function<bool(const hurrayd::Server::Held&)>& is_so) {
    const auto watchdog = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!is_so(held())) {
        if (std::chrono::steady_clock::now() > watchdog) {
            throw std::runtime_error("the daemon did not come to what was waited for");
        }
        std::this_thread::yield();
    }
}

}  // namespace hurray::test
