#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "hurray_client.h"

#include "client/connection.hpp"
#include "libhurray/base/result.hpp"
#include "proto/wire/messages.hpp"

namespace hurray::client {

/// The watches of one session.
///
/// Events wait until their callback has run. Of one watch at most `kMostUntold` do; what comes beyond is dropped, and the user
/// is told of it by one GAP.
///
/// Threads: any. Events come from whichever thread reads the connection.
class Watcher {
  public:
    static constexpr std::size_t kMostUntold = 4096;

    /// Returns the watch's number. Fails: InvalidArgument (pattern); what the daemon says.
    [[nodiscard]] Result<std::uint64_t> watch(Connection& connection, std::string pattern, HurrayEventFn callback,
                                              void* context);

    /// Ends a watch and waits until its callback does not run any more, unless the caller is that callback.
    /// Fails: NotFound; Forked.
    [[nodiscard]] Result<void> unwatch(Connection& connection, std::uint64_t watch);

    void on_watched(wire::Watched&& event, std::vector<Notice>& notices);

    /// Silences all of them, without waiting. Returns their numbers.
    [[nodiscard]] std::vector<std::uint64_t> cancel_all();

  private:
    /// One watch, shared with its notices.
    struct Watch {
        HurrayEventFn callback = nullptr;
        void* context = nullptr;
        std::mutex mutex;
        std::condition_variable idle;
        bool cancelled = false;
        bool gap = false;         ///< a GAP is waiting to be told: until then all is dropped
        std::size_t untold = 0;   ///< events that wait for the callback
        std::thread::id running;  ///< the thread inside the callback, if any
    };

    /// No callback of it runs any more, unless this is called from it.
    static void silence(Watch& watch);

    std::mutex mutex_;
    std::uint64_t last_watch_ = 0;
    std::unordered_map<std::uint64_t, std::shared_ptr<Watch>> watches_;
};

}  // namespace hurray::client
