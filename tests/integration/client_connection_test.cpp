// What a client's Connection promises to those in it at once, where the C interface alone can't bring them there in a given order.
#include <atomic>
#include <chrono>
#include <csignal>
#include <fstream>
#include <future>
#include <memory>
#include <semaphore>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

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
    void on_away(const Error& /*reason*/, bool /*was_up*/, std::vector<Notice>& /*notices*/) override {}
    Result<void> on_back(bool /*is_same_life*/, std::vector<Notice>& /*notices*/,
                         std::vector<Notice>& /*once_up*/) override {
        return {};
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

/// A connection to a daemon that is going to die, and a thread in a call on it that only that can end.
class ClientConnection : public testing::Test {
  protected:
    void SetUp() override {
        auto opened = Connection::open({{daemon_.socket_path()}, true}, Clock::now() + 60s,
                                       {"test", Clock::now() + 60s, false}, {});
        ASSERT_TRUE(opened) << opened.error().message;
        connection_ = std::move(*opened);
        connection_->set_sink(&sink_);
        caller_ = std::thread([this] {
            const wire::Attach attach{connection_->next_lease_number(), "never", wire::Which::Latest, 0, 0};
            Connection::CallOptions options;
            options.timeout_ms = 600'000;
            const auto reply = connection_->call(attach, options);
            ASSERT_FALSE(reply);
            EXPECT_EQ(reply.error().code, Errc::ConnectionLost);
        });
    }
    void TearDown() override {
        if (caller_.joinable()) {
            caller_.join();
        }
    }

    test::DaemonProcess daemon_;
    SlowSink sink_;
    std::unique_ptr<Connection> connection_;
    std::thread caller_;
};

/// Waits until that thread of this process sleeps in a system call, or has ended.
void wait_until_asleep(pid_t thread) {
    const std::string path = "/proc/self/task/" + std::to_string(thread) + "/stat";
    for (std::string stat; stat.find(") S ") == std::string::npos;) {
        std::ifstream file(path);
        if (!std::getline(file, stat)) {
            return;
        }
    }
}

TEST_F(ClientConnection, DispatchFailsOnlyOnceTheEndWasToldThoughAnotherThreadIsStillBookingIt) {
    daemon_.end(SIGKILL);
    sink_.entered.get_future().wait();  // it can only be the caller who has read the end

    const auto early = connection_->dispatch(Clock::now());
    ASSERT_TRUE(early) << "it failed before anything was told: " << early.error().message;
    EXPECT_EQ(*early, 0U);

    sink_.go_on.set_value();
    caller_.join();
    const auto told = connection_->dispatch(Clock::now());
    ASSERT_TRUE(told) << told.error().message;
    EXPECT_EQ(*told, 1U);
    EXPECT_EQ(sink_.told, 1);
    const auto over = connection_->dispatch(Clock::now());
    ASSERT_FALSE(over);
    EXPECT_EQ(over.error().code, Errc::ConnectionLost);
}

TEST_F(ClientConnection, DescriptorSaysThatTheConnectionHasEndedAlsoAfterTheDispatchThatToldOfIt) {
    std::promise<pid_t> in_dispatch;
    std::thread dispatcher([&] {
        in_dispatch.set_value(static_cast<pid_t>(::syscall(SYS_gettid)));
        const auto told = connection_->dispatch(Clock::now() + 60s);
        ASSERT_TRUE(told) << told.error().message;
        EXPECT_EQ(*told, 1U);
    });
    const pid_t thread = in_dispatch.get_future().get();
    daemon_.end(SIGKILL);
    sink_.entered.get_future().wait();
    wait_until_asleep(thread);  // so it is the caller's news that wakes it
    sink_.go_on.set_value();
    caller_.join();
    dispatcher.join();
    pollfd ready{connection_->poll_fd(), POLLIN, 0};
    EXPECT_EQ(::poll(&ready, 1, 0), 1) << "who only polls waits for ever";
    EXPECT_FALSE(connection_->dispatch(Clock::now()));
}

/// Where a daemon that is back dies again.
enum class DiesAgain : std::uint8_t { BeforeACall, AfterTheLastCall };

/// Brings back what there is with one call, and keeps the first daemon that is back waiting until that has gone away again.
class LateSink final : public EventSink {
  public:
    LateSink(Connection& connection, DiesAgain when) : connection_(connection), when_(when) {}

    void on_event(wire::PacketMessage&& /*event*/, std::vector<Notice>& /*notices*/) override {}
    void on_late_grant(const wire::AttachReply& /*grant*/, std::vector<UniqueFd>&& /*fds*/, bool /*missing*/) override {
    }
    void on_away(const Error& /*reason*/, bool was_up, std::vector<Notice>& notices) override {
        if (was_up) {
            notices.push_back(tell("away"));
        }
        away.release();
    }
    Result<void> on_back(bool /*is_same_life*/, std::vector<Notice>& /*notices*/,
                         std::vector<Notice>& once_up) override {
        once_up.push_back(tell("back"));
        if (std::exchange(is_first_, false)) {
            auto done = when_ == DiesAgain::AfterTheLastCall ? resume() : Result<void>();
            back.release();
            gone_again.acquire();
            if (when_ == DiesAgain::AfterTheLastCall) {
                return done;
            }
        }
        return resume();
    }
    void on_end(const Error& /*reason*/, std::vector<Notice>& /*notices*/) override {}

    std::binary_semaphore away{0};
    std::binary_semaphore back{0};
    std::binary_semaphore gone_again{0};
    std::counting_semaphore<4> told_back{0};
    std::vector<std::string> told;  ///< to be read when nobody tells any more
    std::atomic<int> refusals = 0;

  private:
    Notice tell(const char* what) {
        return [this, what] {
            told.emplace_back(what);
            if (told.back() == "back") {
                told_back.release();
            }
            return true;
        };
    }
    Result<void> resume() {
        const auto reply = connection_.call(wire::ResumeDone{}, {});
        refusals += reply ? 0 : 1;
        return reply ? Result<void>() : fail(reply.error());
    }

    Connection& connection_;
    const DiesAgain when_;
    bool is_first_ = true;
};

class ClientConnectionResume : public testing::Test {
  protected:
    void SetUp() override {
        auto opened = Connection::open({{daemon_.socket_path()}, true}, Clock::now() + 60s,
                                       {"test", Clock::now() + 60s, true}, {});
        ASSERT_TRUE(opened) << opened.error().message;
        connection_ = std::move(*opened);
    }
    void begin(EventSink& sink) {
        connection_->set_sink(&sink);
        ASSERT_TRUE(connection_->start_background_pump());
    }
    void stop() {
        connection_->stop_reconnecting();
        connection_->stop_background_pump();
    }

    test::DaemonProcess daemon_;
    std::unique_ptr<Connection> connection_;
};

TEST_F(ClientConnectionResume, WhatInsistsIsAskedAfterACloseAndNothingElseIs) {
    connection_->close_calls();
    const auto asked = connection_->call(wire::Confirm{1}, {});
    ASSERT_FALSE(asked);
    EXPECT_EQ(asked.error().code, Errc::Closed);
    Connection::Insistent insistent(*connection_);
    Connection::CallOptions options;
    options.insistent = &insistent;
    const auto confirmed = connection_->call(wire::Confirm{1}, options);
    ASSERT_FALSE(confirmed);
    EXPECT_EQ(confirmed.error().code, Errc::NotFound) << "the daemon's word: it knows of no such lease";
}

class ClientConnectionLostAgain : public ClientConnectionResume, public testing::WithParamInterface<DiesAgain> {};

TEST_P(ClientConnectionLostAgain, ADaemonThatDiesWhileTheResumerIsAtItIsReachedAgainAndToldAsAwayOnce) {
    LateSink sink(*connection_, GetParam());
    begin(sink);
    daemon_.end(SIGKILL);
    sink.away.acquire();
    daemon_.start();
    sink.back.acquire();
    daemon_.end(SIGKILL);
    sink.away.acquire();
    sink.gone_again.release();
    if (GetParam() == DiesAgain::BeforeACall) {
        while (sink.refusals == 0) {
            std::this_thread::yield();  // the connection's: that socket brings no answer any more
        }
    }
    daemon_.start();
    EXPECT_TRUE(connection_->wait_up(Clock::now() + 60s));
    sink.told_back.acquire();
    stop();
    EXPECT_EQ(sink.told, (std::vector<std::string>{"away", "back"}));
}

INSTANTIATE_TEST_SUITE_P(Dies, ClientConnectionLostAgain,
                         testing::Values(DiesAgain::BeforeACall, DiesAgain::AfterTheLastCall), [](const auto& when) {
                             return when.param == DiesAgain::BeforeACall ? "BeforeACall" : "AfterTheLastCall";
                         });

/// Takes its time to book that the daemon is away.
class SlowlyAwaySink final : public EventSink {
  public:
    void on_event(wire::PacketMessage&& /*event*/, std::vector<Notice>& /*notices*/) override {}
    void on_late_grant(const wire::AttachReply& /*grant*/, std::vector<UniqueFd>&& /*fds*/, bool /*missing*/) override {
    }
    void on_away(const Error& /*reason*/, bool /*was_up*/, std::vector<Notice>& /*notices*/) override {
        entered.release();
        go_on.acquire();
    }
    Result<void> on_back(bool /*is_same_life*/, std::vector<Notice>& /*notices*/,
                         std::vector<Notice>& /*once_up*/) override {
        return {};
    }
    void on_end(const Error& /*reason*/, std::vector<Notice>& /*notices*/) override {}

    std::binary_semaphore entered{0};
    std::binary_semaphore go_on{0};
};

TEST_F(ClientConnectionResume, AConnectionWhoseClientGoesWhileItsLossIsBookedEnds) {
    SlowlyAwaySink sink;
    begin(sink);
    daemon_.end(SIGKILL);
    sink.entered.acquire();
    connection_->close_calls();
    std::promise<pid_t> stops;
    std::thread stopper([&] {
        stops.set_value(static_cast<pid_t>(::syscall(SYS_gettid)));
        connection_->stop_reconnecting();
    });
    wait_until_asleep(stops.get_future().get());
    sink.go_on.release();
    stopper.join();
    connection_->stop_background_pump();
    EXPECT_TRUE(connection_->has_ended()) << "whatever outlives the client waits for ever to send its releases";
}

}  // namespace
}  // namespace hurray::client
