// hurray/client.hpp against the daemon that `hurrayctl run` started for this program.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <hurray/client.hpp>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace std::chrono_literals;

/// Events as callbacks tell them, for a test that waits for one. The watchdog of the test ends a hang.
class Events {
  public:
    hurray::EventFunction callback() {
        return [this](const hurray::Event& event) {
            const std::lock_guard lock(mutex_);
            seen_.push_back({event.kind, event.remaining, std::string(event.name)});
            changed_.notify_all();
        };
    }

    struct Seen {
        std::uint32_t kind;
        std::uint64_t remaining;
        std::string name;
    };

    Seen wait_for(std::uint32_t kind) {
        std::unique_lock lock(mutex_);
        for (;;) {
            const auto found =
                std::find_if(seen_.begin(), seen_.end(), [&](const Seen& seen) { return seen.kind == kind; });
            if (found != seen_.end()) {
                return *found;
            }
            changed_.wait(lock);
        }
    }

  private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<Seen> seen_;
};

template <typename Call>
HurrayStatus status_of(Call&& call) {
    try {
        call();
    } catch (const hurray::StatusError& error) {
        return error.status();
    }
    return HURRAY_OK;
}

hurray::Allocation filled(hurray::Client& client) {
    auto allocation = client.allocate<std::int32_t>({2, 3});
    const auto elements = allocation.elements<std::int32_t>();
    for (std::size_t i = 0; i < elements.size(); ++i) {
        elements[i] = static_cast<std::int32_t>(i) + 1;
    }
    return allocation;
}

TEST(ClientHpp, WhatIsPublishedIsAttachedWithItsShapeAndElements) {
    auto producer = hurray::Client::connect();
    auto consumer = hurray::Client::connect();
    const hurray::CapsuleInfo published = producer.publish("hpp/elements", filled(producer));

    const hurray::Tensor tensor = consumer.attach("hpp/elements");
    EXPECT_EQ(tensor.name(), "hpp/elements");
    EXPECT_EQ(tensor.info().capsule, published.capsule);
    EXPECT_EQ(tensor.info().version, published.version);
    EXPECT_EQ(tensor.element_type(), hurray::ElementType::Int32);
    EXPECT_EQ(tensor.shape(), (std::vector<std::uint64_t>{2, 3}));
    const auto elements = tensor.elements<std::int32_t>();
    EXPECT_EQ(std::vector(elements.begin(), elements.end()), (std::vector<std::int32_t>{1, 2, 3, 4, 5, 6}));
    EXPECT_EQ(tensor.state(), HURRAY_OK);
}

TEST(ClientHpp, ElementsOfAnotherTypeAreRefused) {
    auto client = hurray::Client::connect();
    const hurray::Allocation allocation = filled(client);
    EXPECT_EQ(status_of([&] { allocation.elements<float>(); }), HURRAY_ERR_INVALID_TYPE);
    client.publish("hpp/type", filled(client));
    const hurray::Tensor tensor = client.attach("hpp/type");
    EXPECT_EQ(status_of([&] { tensor.elements<std::uint32_t>(); }), HURRAY_ERR_INVALID_TYPE);
    EXPECT_EQ(status_of([&] { tensor.buffer(1); }), HURRAY_ERR_INDEX_OUT_OF_BOUNDS);
}

TEST(ClientHpp, ElementsThatAreNotInRowMajorOrderAreRefused) {
    auto client = hurray::Client::connect();
    hurray::DenseDescriptor dense;
    dense.element_type = hurray::ElementType::Float32;
    dense.shape = {2, 3};
    dense.layout = hurray::LayoutTag::ColumnMajor;
    auto allocation = client.allocate(dense);
    EXPECT_EQ(status_of([&] { allocation.elements<float>(); }), HURRAY_ERR_UNSUPPORTED);
    client.publish("hpp/column-major", std::move(allocation));
    const hurray::Tensor tensor = client.attach("hpp/column-major");
    EXPECT_EQ(status_of([&] { tensor.elements<float>(); }), HURRAY_ERR_UNSUPPORTED);
    EXPECT_EQ(tensor.buffer().size(), 24U);
    EXPECT_EQ(tensor.descriptor().strides(), (std::vector<std::int64_t>{1, 2}));
}

TEST(ClientHpp, AnEmptyTensorHasNoElements) {
    auto client = hurray::Client::connect();
    client.publish("hpp/empty", client.allocate<double>({4, 0}));
    const hurray::Tensor tensor = client.attach("hpp/empty");
    EXPECT_TRUE(tensor.elements<double>().empty());
    EXPECT_EQ(tensor.shape(), (std::vector<std::uint64_t>{4, 0}));
}

TEST(ClientHpp, AFailedPublishLeavesTheAllocationWithItsOwner) {
    auto client = hurray::Client::connect();
    auto allocation = filled(client);
    EXPECT_EQ(status_of([&] { client.publish("hpp//bad", std::move(allocation)); }), HURRAY_ERR_INVALID_ARGUMENT);
    EXPECT_EQ(allocation.elements<std::int32_t>()[0], 1);
    client.publish("hpp/good", std::move(allocation));
    EXPECT_EQ(allocation.buffer_count(), 0U);
}

TEST(ClientHpp, ProducersAreToldOfLeasesAndOfTheEnd) {
    Events events;
    auto client = hurray::Client::connect();
    const hurray::CapsuleInfo published =
        client.publish("hpp/events", filled(client), {.on_event = events.callback(), .tell_opened = true});
    {
        hurray::Tensor tensor = client.attach(published.capsule);
        EXPECT_EQ(events.wait_for(HURRAY_EVENT_LEASE_OPENED).remaining, 1U);
    }
    EXPECT_EQ(events.wait_for(HURRAY_EVENT_LEASE_RELEASED).remaining, 0U);
    client.withdraw(published.capsule);
    events.wait_for(HURRAY_EVENT_ENDED);
    EXPECT_EQ(status_of([&] { client.attach("hpp/events"); }), HURRAY_ERR_NOT_FOUND);
}

TEST(ClientHpp, ACallbackIsKeptUntilTheEndAndNoLonger) {
    Events events;
    auto client = hurray::Client::connect();
    auto token = std::make_shared<int>(0);
    const std::weak_ptr<int> kept = token;
    const auto published =
        client.publish("hpp/callback", filled(client), {.on_event = [token](const hurray::Event&) {}});
    token.reset();
    EXPECT_FALSE(kept.expired());
    client.withdraw(published.capsule);
    // Whether the end was told by now is not to be seen from here; with the client its callbacks go at the latest.
    {
        const hurray::Client gone = std::move(client);
    }
    EXPECT_TRUE(kept.expired());
}

TEST(ClientHpp, ATensorOutlivesItsClient) {
    auto client = std::make_unique<hurray::Client>(hurray::Client::connect());
    client->publish("hpp/outlives", filled(*client));
    const hurray::Tensor tensor = client->attach("hpp/outlives");
    client.reset();
    EXPECT_EQ(tensor.elements<std::int32_t>()[5], 6);
}

TEST(ClientHpp, AWatchTellsWhatIsThereAndWhatChanges) {
    Events events;
    auto client = hurray::Client::connect();
    client.publish("hpp-watch/first", filled(client));
    const hurray::Watch watch = client.watch("hpp-watch/", events.callback());
    EXPECT_EQ(events.wait_for(HURRAY_EVENT_PRESENT).name, "hpp-watch/first");
    events.wait_for(HURRAY_EVENT_SNAPSHOT_END);
    client.publish("hpp-watch/second", filled(client));
    EXPECT_EQ(events.wait_for(HURRAY_EVENT_PUBLISHED).name, "hpp-watch/second");
}

TEST(ClientHpp, AWatchMayEndItselfAndOutliveItsClient) {
    Events events;
    auto client = std::make_unique<hurray::Client>(hurray::Client::connect());
    std::mutex mutex;
    std::unique_ptr<hurray::Watch> own;
    const auto record = events.callback();
    {
        // The callback waits here until the Watch is where it looks for it.
        const std::lock_guard lock(mutex);
        own = std::make_unique<hurray::Watch>(client->watch("hpp-none/", [&](const hurray::Event& event) {
            const std::lock_guard inner(mutex);
            own.reset();
            record(event);
        }));
    }
    events.wait_for(HURRAY_EVENT_SNAPSHOT_END);
    const hurray::Watch other = client->watch("hpp-none/", [](const hurray::Event&) {});
    client.reset();
}

TEST(ClientHpp, ListVisitsAndStopsAndPassesExceptionsOn) {
    auto client = hurray::Client::connect();
    client.publish("hpp-list/a", filled(client));
    client.publish("hpp-list/b", filled(client));
    EXPECT_EQ(client.list("hpp-list/").size(), 2U);
    int visits = 0;
    client.for_each("hpp-list/", [&](const hurray::CapsuleInfo&) {
        ++visits;
        return false;
    });
    EXPECT_EQ(visits, 1);
    EXPECT_THROW(client.for_each("hpp-list/", [](const hurray::CapsuleInfo&) { throw std::out_of_range("mine"); }),
                 std::out_of_range);
}

TEST(ClientHpp, CopiesOfOrdinaryMemoryCanBePublished) {
    auto client = hurray::Client::connect();
    const std::vector<double> values = {1, 2, 3};
    client.publish_copy<double>("hpp/copy", {3}, values);
    const hurray::Tensor tensor = client.attach("hpp/copy");
    const auto elements = tensor.elements<double>();
    EXPECT_EQ(std::vector(elements.begin(), elements.end()), values);
    EXPECT_EQ(status_of([&] { client.publish_copy<double>("hpp/copy", {4}, values); }), HURRAY_ERR_INVALID_LAYOUT);
}

TEST(ClientHpp, EventsCanBeDispatchedByTheCaller) {
    auto client = hurray::Client::connect({.dispatch_by_caller = true});
    EXPECT_GE(client.poll_fd(), 0);
    EXPECT_FALSE(client.dispatch());
    bool ended = false;
    const auto published = client.publish("hpp/dispatch", filled(client), {.on_event = [&](const hurray::Event& event) {
                                              ended = ended || event.kind == HURRAY_EVENT_ENDED;
                                          }});
    client.withdraw(published.capsule);
    while (!ended) {
        EXPECT_TRUE(client.dispatch(hurray::kForever));
    }
}

TEST(ClientHpp, AClosedClientSaysSoAndAMovedFromOneToo) {
    auto client = hurray::Client::connect();
    client.close();
    client.close();
    EXPECT_EQ(status_of([&] { client.attach("hpp/x"); }), HURRAY_ERR_CLOSED);
    hurray::Client other = std::move(client);
    EXPECT_EQ(status_of([&] { client.attach("hpp/x"); }), HURRAY_ERR_INVALID_ARGUMENT);
}

TEST(ClientHpp, AWaitThatRunsOutSaysSo) {
    auto client = hurray::Client::connect();
    EXPECT_EQ(status_of([&] { client.attach("hpp/never"); }), HURRAY_ERR_NOT_FOUND);
    EXPECT_EQ(status_of([&] { client.attach("hpp/never", {.timeout = 10ms}); }), HURRAY_ERR_TIMED_OUT);
}

TEST(ClientHpp, TheStatusIsJson) {
    const std::string status = hurray::Client::connect().status();
    EXPECT_EQ(status.front(), '{');
    EXPECT_EQ(status.back(), '}');
}

}  // namespace
