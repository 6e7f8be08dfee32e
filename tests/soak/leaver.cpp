#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/soak/account.hpp"
#include "tests/soak/actor.hpp"
#include "tests/soak/stamp.hpp"

namespace hurray::soak {
namespace {

using namespace std::chrono_literals;

/// How many jobs of a leaver may be without a taker.
constexpr std::size_t kMostJobs = 16;

class Leaver {
  public:
    explicit Leaver(const Part& part)
        : part_(part),
          random_(random_of(part)),
          ledger_(Ledger::open(part.ledger_fd)),
          tally_(ledger_.tally_of(part.index)),
          account_(part, tally_) {}

    void run() {
        connect();
        succeed();
        while (!ledger_.tally().enough) {
            switch (random_() % 16) {
                case 0:
                    leave();
                    connect();
                    take_stock();
                    break;
                case 1:
                    take_stock();
                    break;
                case 2:
                case 3:
                    withdraw_some();
                    break;
                case 4:
                case 5:
                case 6:
                    if (jobs() < kMostJobs) {
                        publish(kQueueSlot);
                    }
                    break;
                default:
                    publish(static_cast<std::uint32_t>(random_() % kNamedSlots));
            }
            while (by_caller_ && client_->dispatch()) {
            }
            std::this_thread::sleep_for(1ms);
        }
        take_stock();
        while (!left_.empty()) {
            withdraw(*left_.back());
        }
        account_.wait_until_all_ended(*client_, by_caller_);
        client_.reset();
    }

  private:
    void connect() {
        by_caller_ = one_in(random_, 2);
        client_.emplace(connect_as(part_, by_caller_));
    }

    void leave() {
        account_.expect_the_end();
        if (one_in(random_, 2)) {
            client_->close();
        }
        client_.reset();
        account_.forget_all();
        ++tally_.closed;
    }

    /// Who had this place before may have been killed with requests under way, which the daemon reads when it likes. They are over once
    /// that daemon is.
    void succeed() {
        const std::uint64_t restarts = ledger_.tally().restarts;
        while (part_.life != 0 && ledger_.tally().restarts == restarts && !ledger_.tally().enough) {
            std::this_thread::sleep_for(1ms);
        }
        for (std::size_t i = 0; i < ledger_.size(part_.index); ++i) {
            if (const Record& record = ledger_.at(part_.index, i); Ledger::fate_of(record) < Fate::Ended) {
                left_.push_back(&record);
            }
        }
        take_stock();
    }

    /// Holds what is there against the ledger, and writes there what became of what was under way.
    void take_stock() {
        std::map<CapsuleId, std::string> there = look();
        for (const Record* const record : std::vector(left_)) {
            const Fate fate = Ledger::fate_of(*record);
            if (fate == Fate::Sent) {
                continue;
            }
            if (there.erase(record->capsule) != 0) {
                Ledger::set_fate(*record, Fate::Kept);
            } else if (fate == Fate::Ending) {
                forget(*record, Fate::Ended);
            } else if (may_go(*record)) {
                forget(*record, Fate::Missing);
            } else {
                fail_run(part_, "what lingers as '" + slot_name(part_.index, record->slot) + "' is not there");
            }
        }
        for (const Record* const record : std::vector(left_)) {  // one at most: that publish was the last
            if (Ledger::fate_of(*record) != Fate::Sent) {
                continue;
            }
            const auto found = std::find_if(there.begin(), there.end(), [&](const auto& one) {
                return one.second == slot_name(part_.index, record->slot);
            });
            if (found == there.end()) {
                forget(*record, Fate::Missing);
            } else {
                Ledger::note_kept(*record, found->first);
                there.erase(found);
            }
        }
        if (!there.empty()) {
            fail_run(part_, std::to_string(there.size()) + " capsules linger that should not, one as '" +
                                there.begin()->second + "'");
        }
        ++tally_.stocks;
    }

    /// All that lingers under the names of this place.
    std::map<CapsuleId, std::string> look() {
        for (;;) {
            try {
                std::map<CapsuleId, std::string> there;
                client_->for_each(kPrefix + std::to_string(part_.index) + "/", [&](const CapsuleInfo& info) {
                    if (info.lingering && !info.retired) {
                        there.emplace(info.capsule, info.name);
                    }
                });
                return there;
            } catch (const StatusError& error) {
                wait_if_away(error);
            }
        }
    }

    /// A capsule that nobody has withdrawn or replaced may be gone all the same.
    static bool may_go(const Record& record) { return record.is_brief || record.slot == kQueueSlot; }

    void publish(std::uint32_t slot) {
        Record prepared;
        prepared.slot = slot;
        prepared.bytes = std::max(sizeof prepared.stamp, random_size(random_, part_.max_bytes));
        prepared.stamp = ledger_.next_stamp(part_.index, random_());
        prepared.is_brief = slot != kQueueSlot && one_in(random_, 4);
        Allocation allocation = client_->allocate<std::uint8_t>({prepared.bytes});
        write_stamp(allocation.buffer(), prepared.stamp);
        PublishOptions options;
        options.once = slot == kQueueSlot;
        options.on_event = account_.open(options.once);
        options.tell_opened = true;
        options.timeout = 1min;
        options.linger = prepared.is_brief    ? std::chrono::milliseconds(1 + random_() % 300)
                         : one_in(random_, 2) ? std::chrono::hours(1)
                                              : kForever;
        const Record* const replaced = options.once ? nullptr : find(slot);
        if (replaced != nullptr) {
            Ledger::set_fate(*replaced, Fate::Ending);
        }
        ledger_.append(part_.index, prepared);
        const Record& record = ledger_.at(part_.index, ledger_.size(part_.index) - 1);
        left_.push_back(&record);
        Ledger::note_kept(
            record, client_->publish(slot_name(part_.index, slot), std::move(allocation), std::move(options)).capsule);
        if (replaced != nullptr) {
            forget(*replaced, Fate::Ended);
        }
        ++(slot == kQueueSlot ? tally_.jobs : tally_.published);
    }

    void withdraw_some() {
        if (!left_.empty()) {
            withdraw(*left_[random_() % left_.size()]);
        }
    }

    void withdraw(const Record& record) {
        Ledger::set_fate(record, Fate::Ending);
        account_.allow_untaken(record.capsule);
        bool is_first = true;
        for (;; is_first = false) {
            try {
                client_->withdraw(record.capsule);
                break;
            } catch (const StatusError& error) {
                if (error.status() == HURRAY_ERR_NOT_FOUND) {
                    if (is_first && !may_go(record)) {
                        fail_run(part_, "what lingers as '" + slot_name(part_.index, record.slot) +
                                            "' is not there to be withdrawn");
                    }
                    return forget(record, is_first ? Fate::Missing : Fate::Ended);
                }
                wait_if_away(error);
            }
        }
        forget(record, Fate::Ended);
    }

    void wait_if_away(const StatusError& error) {
        if (!is_away(part_, error)) {
            throw error;
        }
        std::this_thread::sleep_for(1ms);
    }

    void forget(const Record& record, Fate fate) {
        Ledger::set_fate(record, fate);
        std::erase(left_, &record);
    }

    /// What is there in a slot, as the ledger says.
    [[nodiscard]] const Record* find(std::uint32_t slot) const {
        const auto found =
            std::find_if(left_.begin(), left_.end(), [&](const Record* record) { return record->slot == slot; });
        return found == left_.end() ? nullptr : *found;
    }

    [[nodiscard]] std::size_t jobs() const {
        return static_cast<std::size_t>(std::count_if(left_.begin(), left_.end(), [](const Record* record) {
            return record->slot == kQueueSlot && Ledger::times_taken(*record) == 0;
        }));
    }

    const Part& part_;
    Random random_;
    Ledger ledger_;
    Tally& tally_;
    Account account_;
    std::optional<Client> client_;
    bool by_caller_ = false;
    std::vector<const Record*> left_;  // what is not over yet, of all lives of this place
};

}  // namespace

void run_leaver(const Part& part) { Leaver(part).run(); }

}  // namespace hurray::soak
