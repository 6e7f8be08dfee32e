#include <chrono>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "tests/soak/actor.hpp"
#include "tests/soak/stamp.hpp"

namespace hurray::soak {
namespace {

using namespace std::chrono_literals;

class Taker {
  public:
    explicit Taker(const Part& part)
        : part_(part), random_(random_of(part)), ledger_(Ledger::open(part.ledger_fd)), tally_(ledger_.tally()) {}

    void run() {
        std::optional<Client> client;
        client.emplace(connect_as(part_, false));
        std::vector<Tensor> at_work;
        while (!tally_.stop) {
            const std::size_t page = random_() % ledger_.pages();
            if (auto job = take_from(*client, page)) {
                check(page, *job);
                at_work.push_back(std::move(*job));
            }
            while (at_work.size() > random_() % 4) {
                at_work.erase(at_work.begin());
            }
            if (one_in(random_, 100)) {
                client.reset();
                client.emplace(connect_as(part_, false));
            }
        }
    }

  private:
    std::optional<Tensor> take_from(Client& client, std::size_t page) {
        AttachOptions options;
        options.timeout = one_in(random_, 4) ? 0ms : 5ms;
        try {
            return client.take(slot_name(page, kQueueSlot), options);
        } catch (const StatusError& error) {
            if (is_away(part_, error)) {
                ++tally_.takes_failed;
                std::this_thread::sleep_for(1ms);
            } else if (error.status() != HURRAY_ERR_NOT_FOUND && error.status() != HURRAY_ERR_TIMED_OUT) {
                throw;
            }
            return std::nullopt;
        }
    }

    void check(std::size_t page, const Tensor& job) {
        const Record* const record =
            ledger_.is_left(page) ? ledger_.find_stamped(page, job.buffer()) : ledger_.find(page, job.info().capsule);
        if (record == nullptr || record->slot != kQueueSlot) {
            fail_run(part_, "a job that nobody has published");
        }
        if (ledger_.note_taken(*record) != 0) {
            fail_run(part_, "a job that somebody else has, too");
        }
        if (job.buffer().size() != record->bytes) {
            fail_run(part_, "a job of " + std::to_string(job.buffer().size()) + " bytes, not " +
                                std::to_string(record->bytes));
        }
        if (const auto wrong = find_wrong_stamp(job.buffer(), record->stamp)) {
            fail_run(part_, "a job: " + *wrong);
        }
        ++ledger_.tally_of(page).taken;
    }

    const Part& part_;
    Random random_;
    Ledger ledger_;
    Tally& tally_;
};

}  // namespace

void run_taker(const Part& part) { Taker(part).run(); }

}  // namespace hurray::soak
