#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "hurray_client.h"

#include "client/connection.hpp"
#include "client/event.hpp"
#include "libhurray/base/result.hpp"
#include "proto/wire/messages.hpp"

namespace hurray::client {

/// The watches of one session.
///
/// Events wait until their callback has run. Of one watch at most `kMostUntold` do, with what its snapshot shows `kMostOfSnapshot`; what
/// comes beyond is dropped, and the user is told of it by one GAP. SNAPSHOT_END comes in any case.
///
/// Threads: any. Events come from whichever thread reads the connection.
class Watcher {
  public:
    static constexpr std::size_t kMostUntold = 32'768;
    static constexpr std::size_t kMostOfSnapshot = 1'000'000;
    /// Capsules that a watch remembers, to compare them after the daemon was away. If there are more, GAP alone tells of it.
    static constexpr std::size_t kMostShown = 16'384;

    /// Returns the watch's number. Fails: InvalidArgument (pattern); what the daemon says.
    [[nodiscard]] Result<std::uint64_t> watch(Connection& connection, std::string pattern, HurrayEventFn callback,
                                              void* context);

    /// Ends a watch and waits until its callback does not run any more, unless the caller is that callback.
    /// Fails: NotFound; Forked.
    [[nodiscard]] Result<void> unwatch(Connection& connection, std::uint64_t watch);

    void on_watched(wire::Watched&& event, std::vector<Notice>& notices);

    /// Watches anew, in another connection. What its snapshot brings is compared with what was told before: the user is told the
    /// differences, and by one GAP that versions may have come and gone meanwhile. Fails: as calls do.
    [[nodiscard]] Result<void> watch_again(Connection& connection, std::vector<Notice>& notices);

    /// Silences all of them, without waiting. Returns their numbers.
    [[nodiscard]] std::vector<std::uint64_t> cancel_all();

  private:
    /// One watch, shared with its notices.
    struct Watch {
        /// A capsule that can be attached, as far as the user was told.
        struct Shown {
            std::string name;
            std::uint64_t version = 0;
            bool is_back = true;  ///< while comparing: it is here in this connection too
        };

        std::string pattern;
        HurrayEventFn callback = nullptr;
        void* context = nullptr;
        std::atomic<bool> is_answered{false};  ///< the daemon has taken it on
        // Of the thread that reads, and of the one that reconnects while nothing is read:
        std::map<wire::CapsuleId, Shown> shown;
        bool knows_all = true;           ///< false: too many were shown to remember them all
        bool is_comparing = false;       ///< with what was shown in an earlier connection, until SNAPSHOT_END
        bool has_told_snapshot = false;  ///< SNAPSHOT_END was told
        std::mutex mutex;
        std::condition_variable idle;
        bool cancelled = false;
        bool gap = false;         ///< a GAP is waiting to be told: until then all is dropped
        std::size_t untold = 0;   ///< events that wait for the callback
        std::thread::id running;  ///< the thread inside the callback, if any
    };

    static void tell(const std::shared_ptr<Watch>& watch, EventRecord record, std::vector<Notice>& notices);
    static void note(const std::shared_ptr<Watch>& watch, wire::Watched&& event, std::vector<Notice>& notices);
    static void end_comparison(const std::shared_ptr<Watch>& watch, std::vector<Notice>& notices);
    /// No callback of it runs any more, unless this is called from it.
    static void silence(Watch& watch);

    std::mutex mutex_;
    std::uint64_t last_watch_ = 0;
    std::unordered_map<std::uint64_t, std::shared_ptr<Watch>> watches_;
};

}  // namespace hurray::client
