#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>

#include <hurray/client.hpp>

#include "tests/soak/actor.hpp"

namespace hurray::soak {

/// What a publisher was told of its capsules, and whether that can be. Threads: any.
class Account {
  public:
    Account(const Part& part, Tally& tally) : part_(part), tally_(tally) {}

    /// Who takes the events of one capsule that is going to be published; `is_job`: once.
    EventFunction open(bool is_job = false);
    /// One of them was not published after all.
    void close_one();
    /// Jobs that have not ended.
    std::size_t open_jobs();
    /// It is going to be withdrawn, so it may end without a taker.
    void allow_untaken(const CapsuleId& job);
    /// Fails the run if it takes two minutes.
    void wait_until_all_ended(Client& client, bool by_caller);
    /// The client is going to be closed, and ends all that is open.
    void expect_the_end();
    /// It is closed: of what is still open nothing more is heard.
    void forget_all();

  private:
    struct Book {
        std::uint64_t opened = 0;
        std::uint64_t released = 0;
        std::uint64_t lost = 0;
        bool taken = false;
        bool ended = false;
    };

    void write(Book& book, bool is_job, const Event& event);

    const Part& part_;
    Tally& tally_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::size_t open_ = 0;
    std::size_t open_jobs_ = 0;
    std::set<CapsuleId> withdrawn_;  ///< jobs
    bool is_closing_ = false;
};

}  // namespace hurray::soak
