#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <hurray/client.hpp>

#include "tests/support/daemon_process.hpp"

namespace hurray::test {

using namespace std::chrono_literals;

/// Long enough for any machine: a watchdog, not an expectation.
inline constexpr auto kWatchdog = 60s;

/// Collects events from whichever thread tells them, and waits for them.
class EventLog {
  public:
    EventFunction sink() {
        return [this](const Event& event) {
            const std::lock_guard lock(mutex_);
            events_.push_back({event, std::string(event.name)});
            changed_.notify_all();
        };
    }

    /// Waits until `count` events of `kind` were told; false if the watchdog barks.
    bool wait_for(std::uint32_t kind, std::size_t count = 1) {
        std::unique_lock lock(mutex_);
        return changed_.wait_for(lock, kWatchdog, [&] { return count_locked(kind) >= count; });
    }

    std::size_t count(std::uint32_t kind) {
        const std::lock_guard lock(mutex_);
        return count_locked(kind);
    }

    struct Entry {
        Event event;
        std::string name;
    };
    std::vector<Entry> all() {
        const std::lock_guard lock(mutex_);
        return events_;
    }
    std::vector<std::uint32_t> kinds() {
        std::vector<std::uint32_t> kinds;
        for (const Entry& entry : all()) {
            kinds.push_back(entry.event.kind);
        }
        return kinds;
    }

  private:
    std::size_t count_locked(std::uint32_t kind) const {
        std::size_t count = 0;
        for (const Entry& entry : events_) {
            count += entry.event.kind == kind ? 1U : 0U;
        }
        return count;
    }

    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<Entry> events_;
};

/// Runs `act` and returns the status that it fails with, HURRAY_OK if it does not.
inline HurrayStatus status_of(const std::function<void()>& act, std::string* message = nullptr) {
    try {
        act();
        return HURRAY_OK;
    } catch (const StatusError& error) {
        if (message != nullptr) {
            *message = error.what();
        }
        return error.status();
    }
}

/// A real hurrayd on a socket of its own, and clients of it.
class ClientTest : public ::testing::Test {
  protected:
    Client connect(bool dispatch_by_caller = false) {
        ConnectOptions options;
        options.address = daemon_.socket();
        options.dispatch_by_caller = dispatch_by_caller;
        return Client::connect(std::move(options));
    }

    /// Publishes `count` uint32 of `first`, `first + 1`, ... under `name`.
    static CapsuleInfo publish(Client& client, const std::string& name, std::uint64_t count, std::uint32_t first,
                               PublishOptions options = {}) {
        Allocation allocation = client.allocate<std::uint32_t>({count});
        std::uint32_t value = first;
        for (std::uint32_t& element : allocation.elements<std::uint32_t>()) {
            element = value++;
        }
        return client.publish(name, std::move(allocation), std::move(options));
    }

    /// What the daemon counts under `name` for all users it tells of.
    static std::uint64_t used(const Client& client, const std::string& name);

    DaemonProcess daemon_;
};

}  // namespace hurray::test
