#include "tests/soak/account.hpp"

#include <chrono>
#include <string>
#include <utility>

namespace hurray::soak {
namespace {

using namespace std::chrono_literals;

/// After so many lost deliveries a job is left to nobody.
constexpr std::uint64_t kMostDeliveries = 3;

}  // namespace

EventFunction Account::open(bool is_job) {
    const std::lock_guard lock(mutex_);
    ++open_;
    open_jobs_ += is_job ? 1 : 0;
    return [this, is_job, book = std::make_shared<Book>()](const Event& event) {
        const std::lock_guard held(mutex_);
        write(*book, is_job, event);
    };
}

void Account::close_one() {
    const std::lock_guard lock(mutex_);
    --open_;
}

std::size_t Account::open_jobs() {
    const std::lock_guard lock(mutex_);
    return open_jobs_;
}

void Account::allow_untaken(const CapsuleId& job) {
    const std::lock_guard lock(mutex_);
    withdrawn_.insert(job);
}

void Account::wait_until_all_ended(Client& client, bool by_caller) {
    const auto gives_up = std::chrono::steady_clock::now() + 2min;
    std::unique_lock lock(mutex_);
    while (open_ > 0) {
        if (by_caller) {
            lock.unlock();
            client.dispatch(10ms);
            lock.lock();
        } else {
            changed_.wait_for(lock, 10ms);
        }
        if (std::chrono::steady_clock::now() > gives_up) {
            fail_run(part_, std::to_string(open_) + " capsules have not ended in two minutes");
        }
    }
}

void Account::expect_the_end() {
    const std::lock_guard lock(mutex_);
    is_closing_ = true;
}

void Account::forget_all() {
    const std::lock_guard lock(mutex_);
    open_ = 0;
    open_jobs_ = 0;
    is_closing_ = false;
}

void Account::write(Book& book, bool is_job, const Event& event) {
    if (book.ended) {
        fail_run(part_, "an event of kind " + std::to_string(event.kind) + " after the capsule had ended");
    }
    switch (event.kind) {
        case HURRAY_EVENT_LEASE_OPENED:
            ++book.opened;
            ++tally_.opened;
            break;
        case HURRAY_EVENT_LEASE_RELEASED:
            ++book.released;
            ++tally_.released;
            break;
        case HURRAY_EVENT_LEASE_LOST:
            ++book.lost;
            ++tally_.lost;
            break;
        case HURRAY_EVENT_LEASE_TAKEN:
            if (!is_job || std::exchange(book.taken, true)) {
                fail_run(part_, is_job ? "a job is told taken a second time" : "what is no job is told taken");
            }
            ++tally_.told_taken;
            break;
        case HURRAY_EVENT_ENDED:
            book.ended = true;
            ++tally_.ended;
            --open_;
            open_jobs_ -= is_job ? 1 : 0;
            changed_.notify_all();
            if (is_job && !book.taken && withdrawn_.erase(event.capsule) == 0 && book.lost < kMostDeliveries &&
                !is_closing_) {
                fail_run(part_,
                         "a job ended that nobody has taken, after " + std::to_string(book.lost) + " leases were lost");
            }
            if (book.opened != book.released + book.lost) {
                fail_run(part_, "a capsule ended with " + std::to_string(book.opened) + " leases opened, " +
                                    std::to_string(book.released) + " released and " + std::to_string(book.lost) +
                                    " lost");
            }
            // What was published to a daemon that died is not used again, whatever became of its leases.
            if (event.reusable ? book.lost != 0 : book.lost == 0 && !part_.is_mortal) {
                fail_run(part_, "a capsule with " + std::to_string(book.lost) + " lost leases ended as " +
                                    (event.reusable ? "reusable" : "not reusable"));
            }
            return;
        default:
            fail_run(part_, "an event of kind " + std::to_string(event.kind) + " for a capsule");
    }
    if (book.opened < book.released + book.lost || event.remaining != book.opened - book.released - book.lost) {
        fail_run(part_, "after an event of kind " + std::to_string(event.kind) + " " + std::to_string(event.remaining) +
                            " leases are said to remain of " + std::to_string(book.opened) + " opened, " +
                            std::to_string(book.released) + " released and " + std::to_string(book.lost) + " lost");
    }
}

}  // namespace hurray::soak
