#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <hurray/client.hpp>

#include "tests/deaths/stopping_daemon.hpp"

namespace hurray::test {

/// Long enough for any machine: a watchdog, not an expectation.
inline constexpr std::chrono::seconds kPatience{60};

/// One performance of an exchange: clients of a daemon that may die at any packet, and the account of what each of them did, saw and
/// was told. What is not as it must be is a std::runtime_error, from here or from `finish`.
///
/// What must be, whenever the daemon dies, while all clients live:
///  1. Each call has the result that it has without a death; only the calls of which the library says that they are not repeated may fail
///     with CONNECTION_LOST, and are made again by `insist`.
///  2. A capsule's leases are told opened once each and closed once each, and `remaining` agrees; ENDED is told once, last. A view that was let go
///     of is told released. Told lost is only what was granted and never reached its consumer: at most as many as wait when the daemon dies.
///  3. What is held does not change.
///  4. What was published once is taken by one, and told so once.
///  5. Versions of a name rise, for who publishes and for who attaches.
///  6. In the end the daemon has nothing left.
///
/// Threads: any, but for `finish`.
class Play {
  public:
    explicit Play(StoppingDaemon& daemon) : daemon_(daemon) {}

    [[nodiscard]] StoppingDaemon& daemon() noexcept { return daemon_; }
    /// A client, which stays until the end.
    Client& connect();

    /// Elements that go into memory that is shared with others, and that have a segment of their own.
    static constexpr std::uint64_t kSmall = 1000;
    static constexpr std::uint64_t kLarge = 40'000;

    /// Publishes uint32 elements, all of them one number that no other capsule has.
    CapsuleInfo publish(Client& client, const std::string& name, PublishOptions options = {},
                        std::uint64_t elements = kSmall);
    /// The same of several at a time.
    void publish_many(Client& client, const std::vector<std::string>& names);
    void withdraw(Client& client, const CapsuleInfo& info) {
        insist([&] { client.withdraw(info.capsule); });
    }

    /// Attaches and looks at it. Held until `release`, or the end.
    CapsuleInfo attach(Client& client, const std::string& name, AttachOptions options = {});
    void attach_many(Client& client, const std::vector<std::string>& names);
    /// Takes what comes next.
    CapsuleInfo take(Client& client, const std::string& name);
    /// Everything that was published once was taken, by one.
    void require_all_taken();
    /// Lets go of the view of that capsule that was had first.
    void release(const CapsuleInfo& info);
    void release_all();

    /// Up to so many leases are nobody's view here, however they end: of peers that speak the protocol by hand, or given back unseen.
    void expect_strangers(std::uint64_t leases) { strangers_ += leases; }

    /// Does it until it does not fail with CONNECTION_LOST.
    static void insist(const std::function<void()>& act);
    /// Waits for something, polling; `what` is said when the watchdog barks.
    static void wait_until(const std::string& what, const std::function<bool()>& is_so);
    /// What the daemon counts under that name.
    [[nodiscard]] static std::uint64_t used(const Client& client, const std::string& name);
    static void require(bool is_so, const std::string& what);

    /// Ends all that is still there, and holds the accounts against each other.
    void finish();

  private:
    /// A capsule as its producer knows it.
    struct Account {
        std::uint32_t stamp = 0;
        std::string name;
        bool once = false;
        Client* producer = nullptr;
        std::optional<CapsuleId> capsule;  ///< once it is published
        std::uint64_t version = 0;
        std::uint64_t opened = 0;
        std::uint64_t released = 0;
        std::uint64_t lost = 0;
        std::uint64_t taken = 0;
        std::uint64_t ended = 0;
    };
    struct View {
        Tensor tensor;
        std::uint32_t stamp;
    };
    class Asking;

    Account& open_account(Client& client, const std::string& name);
    [[nodiscard]] EventFunction events_of(Account& account);
    void note(Account& account, const Event& event);
    void note_published(Account& account, const CapsuleInfo& info);
    [[nodiscard]] static Allocation filled(Client& client, std::uint64_t elements, std::uint32_t stamp);
    void note_view(const Client& client, Tensor&& tensor, bool is_latest);
    void complain(const std::string& what);
    void drop(View&& view);
    void end_capsules();
    void check_accounts();
    void check_nothing_is_left();

    StoppingDaemon& daemon_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<std::string> complaints_;
    std::deque<Client> clients_;
    std::deque<Account> accounts_;
    std::map<std::string, std::uint64_t> published_;                           ///< the last version of each name
    std::map<std::pair<const Client*, std::string>, std::uint64_t> attached_;  ///< the highest
    std::map<CapsuleId, std::uint64_t> views_;                                 ///< that were had of it
    std::map<CapsuleId, std::uint32_t> stamps_seen_;
    std::deque<View> held_;
    std::uint64_t asking_ = 0;  ///< attaches that have not returned
    std::uint64_t most_asking_ = 0;
    std::uint64_t strangers_ = 0;
};

/// What a watcher believes, of what it was told. Twice told, or told of what it can't know, is a complaint.
class Watched {
  public:
    [[nodiscard]] EventFunction sink();
    /// Waits until it believes that exactly these are there, as (name, version).
    void wait_for(const std::set<std::pair<std::string, std::uint64_t>>& believed);

  private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::map<CapsuleId, std::pair<std::string, std::uint64_t>> shown_;
    std::set<CapsuleId> ever_shown_;
    std::string complaint_;
};

}  // namespace hurray::test
