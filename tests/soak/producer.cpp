#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>
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

/// What a producer was told of its capsules, and whether that can be.
class Account {
  public:
    Account(const Part& part, Tally& tally) : part_(part), tally_(tally) {}

    /// Who takes the events of one capsule.
    EventFunction open() {
        const std::lock_guard lock(mutex_);
        ++open_;
        return [this, book = std::make_shared<Book>()](const Event& event) {
            const std::lock_guard held(mutex_);
            write(*book, event);
        };
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
    /// The client is closed: of what is still open nothing more is heard.
    void forget_all() {
        const std::lock_guard lock(mutex_);
        open_ = 0;
    }

  private:
    struct Book {
        std::uint64_t opened = 0;
        std::uint64_t released = 0;
        std::uint64_t lost = 0;
        bool ended = false;
    };

    void write(Book& book, const Event& event) {
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
            case HURRAY_EVENT_ENDED:
                book.ended = true;
                ++tally_.ended;
                --open_;
                changed_.notify_all();
                if (book.opened != book.released + book.lost) {
                    fail_run(part_, "a capsule ended with " + std::to_string(book.opened) + " leases opened, " +
                                        std::to_string(book.released) + " released and " + std::to_string(book.lost) +
                                        " lost");
                }
                if (event.reusable != (book.lost == 0)) {
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
        while (done_ < part_.rounds) {
            wait_for_consumers();
            if (one_in(random_, 12) && part_.rounds - done_ >= 4) {
                one_in(random_, 2) ? publish_group() : publish_many();
            } else {
                publish_one();
            }
            if (one_in(random_, 12)) {
                withdraw(random_slot());
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
        ConnectOptions options;
        options.address = part_.socket;
        options.client_name = "soak producer " + std::to_string(part_.index);
        options.dispatch_by_caller = by_caller_;
        client_.emplace(Client::connect(std::move(options)));
    }

    /// Either in order, or with everything published and views of it held.
    void reconnect() {
        if (one_in(random_, 2)) {
            end_all();
            client_.reset();
        } else {
            if (one_in(random_, 2)) {
                client_->close();
            }
            client_.reset();
            account_.forget_all();
            slots_.fill(std::nullopt);
            ++tally_.closed;
        }
        connect();
    }

    void end_all() {
        for (std::uint32_t slot = 0; slot < kSlots; ++slot) {
            withdraw(slot);
        }
        account_.wait_until_all_ended(*client_, by_caller_);
    }

    void wait_for_consumers() {
        do {
            if (by_caller_) {
                while (client_->dispatch()) {
                }
            }
            if (tally_.published <= tally_.viewed + kAhead) {
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

    void publish_group() {
        Group group = client_->begin_group();
        const std::uint32_t first = random_slot();
        const auto members = static_cast<std::uint32_t>(2 + random_() % 3);
        std::vector<Record> records;
        for (std::uint32_t i = 0; i < members; ++i) {
            const std::uint32_t slot = (first + i) % kSlots;
            Offer offer = prepare(slot, group.number());
            offer.record.capsule =
                client_->publish(offer.one.name, std::move(offer.one.allocation), offer.one.options).capsule;
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
        options.on_event = account_.open();
        options.tell_opened = true;
        options.group = group;
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
            client_->withdraw(*slots_[slot]);
            slots_[slot].reset();
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
