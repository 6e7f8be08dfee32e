// Publishes the tiles of a picture as jobs, each for one worker, and waits until all are done. A tile whose worker has died over it is
// published again. How many tiles: the argument, or 20.
#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <exception>
#include <hurray/client.hpp>
#include <iostream>
#include <mutex>
#include <vector>

/// Jobs that have ended, as the client's thread tells.
class Ended {
  public:
    struct Job {
        int tile;
        bool done;
    };

    void tell(Job job) {
        const std::lock_guard lock(mutex_);
        jobs_.push_back(job);
        came_.notify_one();
    }

    Job wait() {
        std::unique_lock lock(mutex_);
        came_.wait(lock, [&] { return !jobs_.empty(); });
        const Job job = jobs_.front();
        jobs_.pop_front();
        return job;
    }

  private:
    std::mutex mutex_;
    std::condition_variable came_;
    std::deque<Job> jobs_;
};

void publish(hurray::Client& client, int number, Ended& ended) {
    auto tile = client.allocate<std::uint8_t>({64, 64});
    std::ranges::fill(tile.elements<std::uint8_t>(), static_cast<std::uint8_t>(number));
    client.publish("jobs/tiles", std::move(tile),
                   {.on_event =
                        [&ended, number, done = false](const hurray::Event& event) mutable {
                            if (event.kind == HURRAY_EVENT_ENDED) {
                                ended.tell({number, done});
                            } else {  // a worker has taken it, has released it (it is done then), or is lost
                                done = event.kind == HURRAY_EVENT_LEASE_RELEASED;
                            }
                        },
                    .once = true,
                    .timeout = hurray::kForever});
}

int main(int argc, char** argv) try {
    constexpr int kMostAttempts = 3;  // whatever kills its workers again and again is at fault itself
    const int tiles = argc > 1 ? std::atoi(argv[1]) : 20;
    Ended ended;
    auto client = hurray::Client::connect();
    for (int i = 0; i < tiles; ++i) {
        publish(client, i, ended);
    }
    std::vector<int> attempts(static_cast<std::size_t>(tiles), 1);
    int done = 0;
    for (int open = tiles; open > 0;) {
        const auto job = ended.wait();
        int& attempt = attempts[static_cast<std::size_t>(job.tile)];
        if (!job.done && attempt < kMostAttempts) {
            std::cout << "tile " << job.tile << " again: its worker died" << std::endl;
            ++attempt;
            publish(client, job.tile, ended);
            continue;
        }
        done += job.done ? 1 : 0;
        --open;
    }
    std::cout << done << " of " << tiles << " tiles are done" << std::endl;
} catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
}
