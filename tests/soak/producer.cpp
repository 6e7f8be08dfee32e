#include <array>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "tests/soak/account.hpp"
#include "tests/soak/actor.hpp"
#include "tests/soak/stamp.hpp"

namespace hurray::soak {
namespace {

using namespace std::chrono_literals;

/// How far producers may be ahead of consumers: a round without a view proves little.
constexpr std::uint64_t kAhead = 64;
/// How many jobs of a producer may be without a taker, or at work.
constexpr std::size_t kMostJobs = 16;
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
        record.bytes = random_size(random_, part_.max_bytes);
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
