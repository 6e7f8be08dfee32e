#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "tests/soak/actor.hpp"
#include "tests/soak/stamp.hpp"

namespace hurray::soak {
namespace {

using namespace std::chrono_literals;

/// How far producers may be ahead of consumers: a round without a view proves little.
constexpr std::uint64_t kAhead = 64;
/// How many jobs of a producer may be without a taker, or at work.
constexpr std::size_t kMostJobs = 16;
/// After so many lost deliveries a job is left to nobody.
constexpr std::uint64_t kMostDeliveries = 3;

/// What a producer was told of its capsules, and whether that can be.
class Account {
  public:
    Account(const Part& part, Tally& tally) : part_(part), tally_(tally) {}

    /// Who takes the events of one capsule that is going to be published; `is_job`: once.
    EventFunction open(bool is_job = false) {
        const std::lock_guard lock(mutex_);
        ++open_;
        open_jobs_ += is_job ? 1 : 0;
        return [this, is_job, book = std::make_shared<Book>()](const Event& event) {
            const std::lock_guard held(mutex_);
            write(*book, is_job, event);
        };
    }
    /// One of them was not published after all.
    void close_one() {
        const std::lock_guard lock(mutex_);
        --open_;
    }
    /// Jobs that have not ended.
    std::size_t open_jobs() {
        const std::lock_guard lock(mutex_);
        return open_jobs_;
    }
    /// It is going to be withdrawn, so it may end without a taker.
    void allow_untaken(const CapsuleId& job) {
        const std::lock_guard lock(mutex_);
        withdrawn_.insert(job);
    }
    void wait_until_all_ended(Client& client, bool by_caller) {
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
    /// The client is going to be closed, and ends all that is open.
    void expect_the_end() {
        const std::lock_guard lock(mutex_);
        is_closing_ = true;
    }
    /// It is closed: of what is still open nothing more is heard.
    void forget_all() {
        const std::lock_guard lock(mutex_);
        open_ = 0;
        open_jobs_ = 0;
        is_closing_ = false;
    }

  private:
    struct Book {
        std::uint64_t opened = 0;
        std::uint64_t released = 0;
        std::uint64_t lost = 0;
        bool taken = false;
        bool ended = false;
    };

    void write(Book& book, bool is_job, const Event& event) {
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
                    fail_run(part_, "a job ended that nobody has taken, after " + std::to_string(book.lost) +
                                        " leases were lost");
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
            fail_run(part_, "after an event of kind " + std::to_string(event.kind) + " " +
                                std::to_string(event.remaining) + " leases are said to remain of " +
                                std::to_string(book.opened) + " opened, " + std::to_string(book.released) +
                                " released and " + std::to_string(book.lost) + " lost");
        }
    }

    const Part& part_;
    Tally& tally_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::size_t open_ = 0;
    std::size_t open_jobs_ = 0;
    std::set<CapsuleId> withdrawn_;  ///< jobs
    bool is_closing_ = false;
};

class Producer {
  public:
    explicit Producer(const Part& part)
        : part_(part),
          random_(random_of(part)),
          ledger_(Ledger::open(part.ledger_fd)),
          tally_(ledger_.tally()),
          account_(part, tally_) {}

    void run() {
        connect();
        while (done_ < part_.rounds && !tally_.enough) {
            wait_for_consumers();
            if (one_in(random_, 12) && part_.rounds - done_ >= 4) {
                one_in(random_, 2) ? publish_group() : publish_many();
            } else {
                publish_one();
            }
            if (one_in(random_, 12)) {
                withdraw(random_slot());
            }
            if (one_in(random_, 6) && account_.open_jobs() < kMostJobs) {
                publish_job();
            }
            if (one_in(random_, 150)) {
                reconnect();
            }
        }
        end_all();
        client_.reset();
    }

  private:
    void connect() {
        by_caller_ = one_in(random_, 2);
        client_.emplace(connect_as(part_, by_caller_));
    }

    /// Either in order, or with everything published and views of it held.
    void reconnect() {
        if (one_in(random_, 2)) {
            end_all();
            client_.reset();
        } else {
            account_.expect_the_end();
            if (one_in(random_, 2)) {
                client_->close();
            }
            client_.reset();
            account_.forget_all();
            slots_.fill(std::nullopt);
            last_job_.reset();
            ++tally_.closed;
        }
        connect();
    }

    void end_all() {
        for (std::uint32_t slot = 0; slot < kSlots; ++slot) {
            withdraw(slot);
        }
        withdraw_last_job();
        account_.wait_until_all_ended(*client_, by_caller_);
    }

    void wait_for_consumers() {
        do {
            if (by_caller_) {
                while (client_->dispatch()) {
                }
            }
            if (tally_.published <= tally_.viewed + kAhead || tally_.enough) {
                return;
            }
            std::this_thread::sleep_for(100us);
        } while (true);
    }

    std::uint32_t random_slot() { return static_cast<std::uint32_t>(random_() % kSlots); }

    /// Nothing, a byte, ... up to the largest, each power of two as often as another.
    std::uint64_t random_size() {
        if (one_in(random_, 32)) {
            return 0;
        }
        std::uint64_t powers = 1;
        while ((part_.max_bytes >> powers) > 0) {
            ++powers;
        }
        const std::uint64_t below = std::uint64_t{1} << (1 + random_() % powers);
        return 1 + random_() % std::min(below, part_.max_bytes);
    }

    void publish_one() {
        const std::uint32_t slot = random_slot();
        if (slot >= kNamedSlots || one_in(random_, 8)) {
            withdraw(slot);  // else it is replaced
        }
        Offer offer = prepare(slot, 0);
        offer.record.capsule =
            client_->publish(offer.one.name, std::move(offer.one.allocation), offer.one.options).capsule;
        ledger_.append(part_.index, offer.record);
        slots_[slot] = offer.record.capsule;
        ++tally_.published;
        ++done_;
    }

    /// Some at a time, each for itself.
    void publish_many() {
        std::vector<Record> records;
        std::vector<Publication> publications;
        const std::uint32_t first = random_slot();
        const auto members = static_cast<std::uint32_t>(2 + random_() % 3);
        for (std::uint32_t i = 0; i < members; ++i) {
            const std::uint32_t slot = (first + i) % kSlots;
            if (slot >= kNamedSlots) {
                withdraw(slot);
            }
            Offer offer = prepare(slot, 0);
            records.push_back(offer.record);
            publications.push_back(std::move(offer.one));
        }
        client_->publish_many(publications);
        for (std::uint32_t i = 0; i < members; ++i) {
            records[i].capsule = publications[i].info.capsule;
            ledger_.append(part_.index, records[i]);
            slots_[records[i].slot] = records[i].capsule;
        }
        tally_.published += members;
        done_ += members;
    }

    /// To be taken by one. Now and then the one before is withdrawn, if nobody has it yet.
    void publish_job() {
        if (one_in(random_, 8)) {
            withdraw_last_job();
        }
        Offer offer = prepare(kQueueSlot, 0);
        offer.record.capsule =
            client_->publish(offer.one.name, std::move(offer.one.allocation), std::move(offer.one.options)).capsule;
        ledger_.append(part_.index, offer.record);
        last_job_ = offer.record.capsule;
        ++tally_.jobs;
    }

    void withdraw_last_job() {
        if (last_job_) {
            account_.allow_untaken(*last_job_);
            withdraw(*last_job_);
            last_job_.reset();
        }
    }

    /// Everybody sees all of it, or, if it is aborted or the daemon dies, nothing.
    void publish_group() {
        try {
            publish_whole_group();
        } catch (const StatusError& error) {
            if (!is_away(part_, error) && !(part_.is_mortal && error.status() == HURRAY_ERR_NOT_FOUND)) {
                throw;
            }
        }
    }

    void publish_whole_group() {
        Group group = client_->begin_group();
        const std::uint32_t first = random_slot();
        const auto members = static_cast<std::uint32_t>(2 + random_() % 3);
        std::vector<Record> records;
        for (std::uint32_t i = 0; i < members; ++i) {
            const std::uint32_t slot = (first + i) % kSlots;
            Offer offer = prepare(slot, group.number());
            try {
                offer.record.capsule =
                    client_->publish(offer.one.name, std::move(offer.one.allocation), offer.one.options).capsule;
            } catch (const StatusError&) {
                account_.close_one();
                throw;
            }
            records.push_back(offer.record);
        }
        if (one_in(random_, 4)) {
            group.abort();
            tally_.aborted += members;
            return;
        }
        for (const Record& record : records) {
            if (record.slot >= kNamedSlots) {
                withdraw(record.slot);
            }
            ledger_.append(part_.index, record);
        }
        group.commit();
        for (const Record& record : records) {
            slots_[record.slot] = record.capsule;
        }
        tally_.published += members;
        done_ += members;
    }

    /// What is going to be published, all but its capsule's id.
    struct Offer {
        Record record;
        Publication one;
    };

    Offer prepare(std::uint32_t slot, std::uint64_t group) {
        static constexpr std::array<std::uint32_t, 4> kModes = {0600, 0640, 0644, 0666};
        Record record;
        record.slot = slot;
        record.bytes = random_size();
        record.stamp = random_();
        record.mode = one_in(random_, 2) ? 0 : kModes[random_() % kModes.size()];
        Allocation allocation = allocate(record.bytes, record.mode);
        write_stamp(allocation.buffer(), record.stamp);
        PublishOptions options;
        options.once = slot == kQueueSlot;
        options.on_event = account_.open(options.once);
        options.tell_opened = true;
        options.group = group;
        options.timeout = part_.is_mortal ? 1min : 0min;
        return {record, {slot_name(part_.index, slot), std::move(allocation), std::move(options)}};
    }

    Allocation allocate(std::uint64_t bytes, std::uint32_t mode) {
        AllocateOptions options;
        options.contents = one_in(random_, 2) ? Contents::Zeros : Contents::Whatever;
        if (mode != 0) {
            options.access = Access{HURRAY_GID_OWN, mode};
        }
        Allocation allocation = client_->allocate<std::uint8_t>({bytes}, options);
        if (one_in(random_, 16)) {  // given back unpublished, written
            write_stamp(allocation.buffer(), random_());
            allocation = client_->allocate<std::uint8_t>({bytes}, options);
        }
        const std::span<const std::byte> buffer = allocation.buffer();
        if (options.contents == Contents::Zeros) {
            if (const auto at = find_nonzero(buffer)) {
                fail_run(part_, "byte " + std::to_string(*at) + " of " + std::to_string(bytes) +
                                    " that were allocated as zeros is not zero");
            }
        }
        return allocation;
    }

    void withdraw(std::uint32_t slot) {
        if (slots_[slot]) {
            withdraw(*slots_[slot]);
            slots_[slot].reset();
        }
    }

    void withdraw(const CapsuleId& capsule) {
        try {
            client_->withdraw(capsule);
        } catch (const StatusError& error) {
            if (!is_away(part_, error) && error.status() != HURRAY_ERR_NOT_FOUND) {  // it has ended
                throw;
            }
        }
    }

    const Part& part_;
    Random random_;
    Ledger ledger_;
    Tally& tally_;
    Account account_;
    std::optional<Client> client_;
    bool by_caller_ = false;
    std::array<std::optional<CapsuleId>, kSlots> slots_;
    std::optional<CapsuleId> last_job_;
    std::uint64_t done_ = 0;
};

}  // namespace

void run_producer(const Part& part) {
    if (part.index % 2 == 1) {
        ::setenv("HURRAY_POOL_BYTES", "4194304", 1);  // so that memory is given up as well
    }
    Producer(part).run();
}

}  // namespace hurray::soak
