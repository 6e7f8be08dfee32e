// What a client's Connection promises to those in it at once, where the C interface alone can't bring them there in a given order.
#include <chrono>
#include <csignal>
#include <future>
#include <thread>

#include <gtest/gtest.h>

#include "client/connection.hpp"
#include "tests/support/daemon_process.hpp"

namespace hurray::client {
namespace {

using namespace std::chrono_literals;

/// Books nothing but the end, and takes its time for that.
class SlowSink final : public EventSink {
  public:
    void on_event(wire::PacketMessage&& /*event*/, std::vector<Notice>& /*notices*/) override {}
    void on_late_grant(const wire::AttachReply& /*grant*/, std::vector<UniqueFd>&& /*fds*/, bool /*missing*/) override {
    }
    void on_end(const Error& /*reason*/, std::vector<Notice>& notices) override {
        entered.set_value();
        go_on.get_future().wait();
        notices.emplace_back([this] {
            ++told;
            return true;
        });
    }

    std::promise<void> entered;
    std::promise<void> go_on;
    int told = 0;
};

TEST(ClientConnection, DispatchFailsOnlyOnceTheEndWasToldThoughAnotherThreadIsStillBookingIt) {
    test::DaemonProcess daemon;
    SlowSink sink;
    auto opened =
        Connection::open({{daemon.socket_path()}, true}, Clock::now() + 60s, {"test", Clock::now() + 60s}, {});
    ASSERT_TRUE(opened) << opened.error().message;
    Connection& connection = **opened;
    connection.set_sink(&sink);
    std::thread caller([&] {
        wire::Attach attach{connection.next_lease_number(), "never", wire::Which::Latest, 0, 0};
        Connection::CallOptions options;
        options.timeout_ms = 600'000;
        const auto reply = connection.call(std::move(attach), options);
        EXPECT_FALSE(reply);
        EXPECT_EQ(reply.error().code, Errc::ConnectionLost);
    });
    daemon.end(SIGKILL);
    sink.entered.get_future().wait();  // whichever thread has read the end; it can only be that one

    const auto early = connection.dispatch(Clock::now());
    ASSERT_TRUE(early) << "it failed before anything was told: " << early.error().message;
    EXPECT_EQ(*early, 0U);

    sink.go_on.set_value();
    caller.join();
    const auto told = connection.dispatch(Clock::now());
    ASSERT_TRUE(told) << told.error().message;
    EXPECT_EQ(*told, 1U);
    EXPECT_EQ(sink.told, 1);
    const auto over = connection.dispatch(Clock::now());
    ASSERT_FALSE(over);
    EXPECT_EQ(over.error().code, Errc::ConnectionLost);
}

}  // namespace
}  // namespace hurray::client
