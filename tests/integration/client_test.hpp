#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
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

/// Collects events from whichever thread tells them, and waits for them. What it hands to a client outlives it.
class EventLog {
  public:
    struct Entry {
        Event event;
        std::string name;
    };

    EventFunction sink() const {
        return [state = state_](const Event& event) {
            const std::lock_guard lock(state->mutex);
            state->entries.push_back({event, std::string(event.name)});
            state->changed.notify_all();
        };
    }

    /// Waits until `count` events of `kind` were told; false if the watchdog barks.
    bool wait_for(std::uint32_t kind, std::size_t count = 1) const {
        std::unique_lock lock(state_->mutex);
        return state_->changed.wait_for(lock, kWatchdog, [&] { return state_->count(kind) >= count; });
    }

    std::size_t count(std::uint32_t kind) const {
        const std::lock_guard lock(state_->mutex);
        return state_->count(kind);
    }
    std::vector<Entry> all() const {
        const std::lock_guard lock(state_->mutex);
        return state_->entries;
    }
    std::vector<std::uint32_t> kinds() const {
        std::vector<std::uint32_t> kinds;
        for (const Entry& entry : all()) {
            kinds.push_back(entry.event.kind);
        }
        return kinds;
    }

  private:
    struct State {
        std::mutex mutex;
        std::condition_variable changed;
        std::vector<Entry> entries;

        std::size_t count(std::uint32_t kind) const {
            return static_cast<std::size_t>(std::count_if(
                entries.begin(), entries.end(), [&](const Entry& entry) { return entry.event.kind == kind; }));
        }
    };
    std::shared_ptr<State> state_ = std::make_shared<State>();
};

/// How often to repeat: `wanted`, or less where each time is dear (sanitizers make a fork cost fifty times as much).
[[nodiscard]] int rounds(int wanted);

/// Open descriptors of this process.
[[nodiscard]] std::size_t count_open_descriptors();

/// Mappings of this process; under a sanitizer, which maps memory as it pleases, only those of shared memory.
[[nodiscard]] std::size_t count_mappings();
/// Those of shared memory alone.
[[nodiscard]] std::size_t count_shared_mappings();

/// Memory that a process has in RAM, in bytes.
[[nodiscard]] std::uint64_t resident_bytes(pid_t pid);

/// Cuts the connections of this process's clients to that daemon, as a bug may: their end of the socket is shut down.
void cut_off(const std::string& daemons_path);

/// What a tensor of 32-bit words begins with: of one that ClientTest::publish has published, its `first`.
[[nodiscard]] inline std::uint32_t first_of(const Tensor& tensor) { return tensor.elements<std::uint32_t>()[0]; }

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
        options.address = daemon_.socket_path();
        options.dispatch_by_caller = dispatch_by_caller;
        return Client::connect(std::move(options));
    }
    /// One for which the daemon's death is the end.
    Client connect_once() {
        ConnectOptions options;
        options.address = daemon_.socket_path();
        options.reconnects = false;
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
