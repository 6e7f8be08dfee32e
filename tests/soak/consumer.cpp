#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/soak/actor.hpp"
#include "tests/soak/stamp.hpp"

namespace hurray::soak {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kMostHeld = 12;

class Consumer {
  public:
    explicit Consumer(const Part& part)
        : part_(part), random_(random_of(part)), ledger_(Ledger::open(part.ledger_fd)), tally_(ledger_.tally()) {}

    void run() {
        connect();
        while (!tally_.stop) {
            for (Tensor& tensor : attach_something()) {
                const Record& record = check_new(tensor);
                ++ledger_.tally_of(page_).viewed;
                if (one_in(random_, 3)) {
                    held_.push_back({std::move(tensor), &record});
                }
            }
            while (held_.size() > kMostHeld) {
                let_one_go();
            }
            if (one_in(random_, 4)) {
                let_one_go();
            }
            if (by_caller_) {
                client_->dispatch();
            }
            if (is_away_) {
                std::this_thread::sleep_for(1ms);
            }
            if (one_in(random_, 300)) {
                connect();  // what is held outlives its client
            }
        }
        client_.reset();
        while (!held_.empty()) {
            let_one_go();
        }
    }

  private:
    struct Held {
        Tensor tensor;
        const Record* record;
    };

    void connect() {
        client_.reset();
        by_caller_ = one_in(random_, 2);
        client_.emplace(connect_as(part_, by_caller_));
        newest_.clear();
    }

    /// What was there of what it asked for: by name, by id, or several names at a time.
    std::vector<Tensor> attach_something() {
        page_ = random_() % ledger_.pages();
        std::vector<Tensor> tensors;
        is_away_ = false;
        try {
            switch (random_() % 8) {
                case 0:
                case 1:
                    attach_by_id(tensors);
                    break;
                case 2:
                    attach_some_names(tensors);
                    break;
                default:
                    attach_by_name(tensors);
            }
        } catch (const StatusError& error) {
            is_away_ = is_away(part_, error);
            if (error.status() != HURRAY_ERR_NOT_FOUND && error.status() != HURRAY_ERR_TIMED_OUT && !is_away_) {
                throw;
            }
        }
        return tensors;
    }

    void attach_by_name(std::vector<Tensor>& tensors) {
        const auto slot = static_cast<std::uint32_t>(random_() % kNamedSlots);
        std::uint64_t& newest = newest_[{page_, slot}];
        AttachOptions options;
        options.populate = one_in(random_, 8) ? Populate::Yes : Populate::Auto;
        if (one_in(random_, 8)) {
            options.timeout = 3ms;
            options.newer_than = newest;
        }
        tensors.push_back(client_->attach(slot_name(page_, slot), options));
        const std::uint64_t version = tensors.back().info().version;
        if (version <= options.newer_than) {
            fail_run(part_,
                     "version " + std::to_string(version) + " is not newer than " + std::to_string(options.newer_than));
        }
        if (version < newest) {
            fail_run(part_,
                     "version " + std::to_string(version) + " came as the latest, after " + std::to_string(newest));
        }
        newest = version;
    }

    void attach_by_id(std::vector<Tensor>& tensors) {
        const std::size_t written = ledger_.size(page_);
        if (written == 0) {
            return;
        }
        const Record& recent = ledger_.at(page_, written - 1 - random_() % std::min<std::size_t>(written, 16));
        if (recent.slot == kQueueSlot) {
            return;
        }
        if (ledger_.is_left(page_)) {
            attach_left(recent, tensors);
            return;
        }
        tensors.push_back(client_->attach(recent.capsule));
        if (tensors.back().info().capsule != recent.capsule) {
            fail_run(part_, "another capsule came than was asked for");
        }
    }

    /// What lingers: whether it is there is known.
    void attach_left(const Record& left, std::vector<Tensor>& tensors) {
        const Fate before = Ledger::fate_of(left);
        if (before == Fate::Sent) {
            return;  // and its id is not known
        }
        try {
            tensors.push_back(client_->attach(left.capsule));
        } catch (const StatusError& error) {
            if (error.status() == HURRAY_ERR_NOT_FOUND && before == Fate::Kept && Ledger::fate_of(left) == Fate::Kept &&
                !left.is_brief) {
                fail_run(part_, "a capsule of '" + slot_name(page_, left.slot) +
                                    "' that lingers is not there: " + error.what());
            }
            throw;
        }
        if (before >= Fate::Ended) {
            fail_run(part_, "a capsule of '" + slot_name(page_, left.slot) + "' that lingered is there again");
        }
        if (ledger_.find_stamped(page_, tensors.back().buffer()) != &left) {
            fail_run(part_, "another capsule came than the one that lingers");
        }
    }

    void attach_some_names(std::vector<Tensor>& tensors) {
        std::vector<std::string> names(2 + random_() % 3);
        for (std::string& name : names) {
            name = slot_name(page_, static_cast<std::uint32_t>(random_() % kNamedSlots));
        }
        tensors = client_->attach_many(names);
        for (std::size_t i = 0; i < names.size(); ++i) {
            if (tensors.size() != names.size() || tensors[i].name() != names[i]) {
                fail_run(part_, "of several names that were asked for, not these came");
            }
        }
    }

    const Record& check_new(const Tensor& tensor) {
        const Record* const record = ledger_.is_left(page_) ? ledger_.find_stamped(page_, tensor.buffer())
                                                            : ledger_.find(page_, tensor.info().capsule);
        if (record == nullptr) {
            fail_run(part_, "a capsule under the name '" + tensor.name() + "' that nobody has published");
        }
        if (tensor.name() != slot_name(page_, record->slot)) {
            fail_run(part_, "a capsule of slot " + std::to_string(record->slot) + " came under the name '" +
                                tensor.name() + "'");
        }
        if (record->mode != 0 && (!tensor.info().access || tensor.info().access->mode != record->mode)) {
            fail_run(part_, "a capsule of mode " + std::to_string(record->mode) + " has another one");
        }
        check(tensor, *record, "new");
        return *record;
    }

    void check(const Tensor& tensor, const Record& record, const char* when) {
        const std::span<const std::byte> bytes = tensor.buffer();
        if (bytes.size() != record.bytes) {
            fail_run(part_, std::string(when) + " view: " + std::to_string(bytes.size()) + " bytes of " +
                                std::to_string(record.bytes));
        }
        if (const auto wrong = find_wrong_stamp(bytes, record.stamp)) {
            fail_run(part_, std::string(when) + " view of '" + tensor.name() + "', version " +
                                std::to_string(tensor.info().version) + ": " + *wrong);
        }
        if (bytes.empty()) {
            return;
        }
        if (const auto at = find_nonzero(rest_of_page(bytes))) {
            fail_run(part_, std::string(when) + " view: byte " + std::to_string(*at) + " behind " +
                                std::to_string(bytes.size()) + " is not zero");
        }
    }

    void let_one_go() {
        if (held_.empty()) {
            return;
        }
        std::swap(held_[random_() % held_.size()], held_.back());
        check(held_.back().tensor, *held_.back().record, "held");
        held_.pop_back();
        ++tally_.viewed_again;
    }

    const Part& part_;
    Random random_;
    Ledger ledger_;
    Tally& tally_;
    std::optional<Client> client_;
    bool by_caller_ = false;
    bool is_away_ = false;  // the daemon, as the last attach found it
    std::vector<Held> held_;
    std::map<std::pair<std::size_t, std::uint32_t>, std::uint64_t> newest_;  // that this client was given
    std::size_t page_ = 0;                                                   // whose capsules it asked for last
};

}  // namespace

void run_consumer(const Part& part) { Consumer(part).run(); }

}  // namespace hurray::soak
