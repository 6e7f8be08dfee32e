#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include "tests/soak/actor.hpp"

namespace hurray::soak {
namespace {

using namespace std::chrono_literals;

/// What a watcher believes, of what it was told.
class Belief {
  public:
    Belief(const Part& part, Tally& tally) : part_(part), tally_(tally) {}

    void note(const Event& event) {
        const std::lock_guard lock(mutex_);
        ++tally_.watched;
        const std::string what = "'" + std::string(event.name) + "', version " + std::to_string(event.version);
        switch (event.kind) {
            case HURRAY_EVENT_PRESENT:
            case HURRAY_EVENT_PUBLISHED:
                if (!shown_.insert(event.capsule).second) {
                    fail_run(part_, what + " is told published a second time");
                }
                there_[event.capsule] = what;
                break;
            case HURRAY_EVENT_RETIRED:
            case HURRAY_EVENT_PRODUCER_LOST:
                if (there_.erase(event.capsule) == 0) {
                    fail_run(part_, what + " is told gone, and was not there");
                }
                break;
            case HURRAY_EVENT_GAP:
                if (!part_.is_mortal) {
                    fail_run(part_, "a gap, and the daemon was there all the time");
                }
                break;
            case HURRAY_EVENT_SNAPSHOT_END:
                break;
            default:
                fail_run(part_, "an event of kind " + std::to_string(event.kind));
        }
        changed_.notify_all();
    }

    void wait_until_nothing_is_there() {
        std::unique_lock lock(mutex_);
        if (!changed_.wait_for(lock, 2min, [this] { return there_.empty(); })) {
            fail_run(part_, std::to_string(there_.size()) +
                                " capsules are there for ever, as it believes, among them " + there_.begin()->second);
        }
    }

  private:
    const Part& part_;
    Tally& tally_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::set<CapsuleId> shown_;
    std::map<CapsuleId, std::string> there_;
};

}  // namespace

void run_watcher(const Part& part) {
    Ledger ledger = Ledger::open(part.ledger_fd);
    Belief belief(part, ledger.tally());
    Client client = connect_as(part, false);
    std::optional<Watch> watch;
    while (!watch) {
        try {
            watch.emplace(client.watch(kPrefix, [&](const Event& event) { belief.note(event); }));
        } catch (const StatusError& error) {
            if (!is_away(part, error)) {
                throw;
            }
            std::this_thread::sleep_for(1ms);
        }
    }
    while (!ledger.tally().stop) {
        std::this_thread::sleep_for(10ms);
    }
    belief.wait_until_nothing_is_there();
}

}  // namespace hurray::soak
