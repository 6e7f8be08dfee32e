// What does memory cost a producer that publishes again and again: a new segment each time, against one that is used again?
//
// One producer, a daemon, nobody who attaches. Each round allocates a tensor, writes all of it and publishes it under the same
// name, which ends the one before. The two kinds of producer take turns in blocks of rounds, so that whatever disturbs the
// machine disturbs both; the one that may keep nothing differs in $HURRAY_POOL_BYTES alone. A lower time of the pooled one would come from less
// bookkeeping or, in "allocate", from not clearing what is written anyway (the row "not cleared").
//
// Below: how much memory a producer holds for small tensors that come and go around some that stay.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/arguments.hpp"
#include "bench/private_daemon.hpp"
#include "bench/progress.hpp"
#include "bench/samples.hpp"
#include "hurray/client.hpp"

namespace {

struct Options {
    std::uint64_t rounds = 200;
    std::uint64_t largest = 256U << 20;
};

constexpr const char* kUsage =
    "usage: memory_bench [--rounds N] [--largest BYTES]\n"
    "Starts a private hurrayd through hurrayctl unless $HURRAY_SOCKET is set.\n"
    "  --rounds N       rounds a size, of each kind (default: 200, a tenth from 64 MiB)\n"
    "  --largest BYTES  leave larger tensors out (default: 256 MiB)\n";

Options parse(int argc, char** argv) {
    Options options;
    const std::pair<std::string_view, std::uint64_t*> known[] = {{"--rounds", &options.rounds},
                                                                 {"--largest", &options.largest}};
    bench::read_counts(argc, argv, known, kUsage);
    return options;
}

struct Samples {
    std::vector<std::uint64_t> allocate;
    std::vector<std::uint64_t> write;
    std::vector<std::uint64_t> publish;
    std::vector<std::uint64_t> all;
};

/// One kind of producer.
class Producer {
  public:
    Producer(const char* what, const char* pool_bytes, hurray::Contents contents) : what_(what), contents_(contents) {
        ::setenv("HURRAY_POOL_BYTES", pool_bytes, 1);
        client_.emplace(hurray::Client::connect());
        ::unsetenv("HURRAY_POOL_BYTES");
    }

    void round(std::uint64_t size, Samples* samples) {
        const std::uint64_t start = bench::now_ns();
        auto allocation = client_->allocate<std::uint8_t>({size}, {.contents = contents_});
        const std::uint64_t allocated = bench::now_ns();
        std::memset(allocation.buffer().data(), 1, size);
        const std::uint64_t written = bench::now_ns();
        client_->publish(std::string("bench/") + what_, std::move(allocation));
        const std::uint64_t published = bench::now_ns();
        if (samples != nullptr) {
            samples->allocate.push_back(allocated - start);
            samples->write.push_back(written - allocated);
            samples->publish.push_back(published - written);
            samples->all.push_back(published - start);
        }
    }

    [[nodiscard]] const char* what() const { return what_; }

  private:
    const char* what_;
    hurray::Contents contents_;
    std::optional<hurray::Client> client_;
};

/// The first line of a table of rows; `what` says what its second column is.
void print_header(const char* what) {
    std::printf("| %-8s | %-11s | %7s | %6s | %9s | %9s | %5s |\n", "", what, "size", "rounds", "p50", "p99", "ratio");
    std::printf("|----------|-------------|---------|--------|-----------|-----------|-------|\n");
}

void print_row(const char* step, const char* what, std::uint64_t size, const std::vector<std::uint64_t>& samples,
               const std::vector<std::uint64_t>& fresh) {
    const auto ours = bench::quantiles(samples);
    const auto theirs = bench::quantiles(fresh);
    std::printf("| %-8s | %-11s | %7s | %6zu | %9.1f | %9.1f | %5.2f |\n", step, what, bench::human_size(size).c_str(),
                samples.size(), static_cast<double>(ours.p50) / 1000.0, static_cast<double>(ours.p99) / 1000.0,
                static_cast<double>(ours.p50) / static_cast<double>(theirs.p50));
    std::fflush(stdout);
}

/// "key":NUMBER of the client's status.
std::uint64_t count_of(const hurray::Client& client, const std::string& key) {
    const std::string status = client.status();
    const auto at = status.find("\"" + key + "\":");
    return at == std::string::npos ? 0 : std::strtoull(status.c_str() + at + key.size() + 3, nullptr, 10);
}

/// Small tensors of random sizes up to 64 KiB: a hundred of the latest live, and each hundredth for good.
void measure_fragmentation(std::uint64_t rounds) {
    auto client = hurray::Client::connect();
    std::mt19937 random(1);
    std::deque<hurray::CapsuleId> short_lived;
    std::uint64_t most_live = 0;
    std::uint64_t most_held = 0;
    for (std::uint64_t round = 0; round < rounds; ++round) {
        auto tensor = client.allocate<std::uint8_t>({1 + random() % 65536});
        const auto capsule = client.publish("", std::move(tensor)).capsule;
        if (round % 100 != 0) {
            short_lived.push_back(capsule);
        }
        if (short_lived.size() > 100) {
            client.withdraw(short_lived.front());
            short_lived.pop_front();
        }
        if (round % 50 == 0) {
            most_live = std::max(most_live, count_of(client, "arena_live_bytes"));
            most_held = std::max(most_held, count_of(client, "arena_bytes"));
        }
    }
    std::printf(
        "\nSmall tensors, %llu of them, one in a hundred long-lived: at most %.1f MiB held for %.1f MiB in use "
        "(%.2f)\n",
        static_cast<unsigned long long>(rounds), static_cast<double>(most_held) / 1048576.0,
        static_cast<double>(most_live) / 1048576.0, static_cast<double>(most_held) / static_cast<double>(most_live));
}

/// A model of so many small tensors: published, attached and released one by one, and many at once.
void measure_batch(std::uint64_t rounds) {
    constexpr std::size_t kTensors = 300;
    auto producer = hurray::Client::connect();
    auto consumer = hurray::Client::connect();
    std::vector<std::string> names;
    for (std::size_t i = 0; i < kTensors; ++i) {
        names.push_back("bench/batch/" + std::to_string(i));
    }
    const auto tensors = [&] {
        std::vector<hurray::Publication> made;
        for (const std::string& name : names) {
            made.push_back({name, producer.allocate<std::uint8_t>({4096}, {.contents = hurray::Contents::Whatever})});
        }
        return made;
    };
    struct {
        std::vector<std::uint64_t> publish;
        std::vector<std::uint64_t> attach;
    } single, many;
    std::vector<std::uint64_t> release;
    const auto measure = [](std::vector<std::uint64_t>& samples, const auto& what) {
        const std::uint64_t start = bench::now_ns();
        what();
        samples.push_back(bench::now_ns() - start);
    };
    for (std::uint64_t round = 0; round < rounds; ++round) {
        {
            std::vector<hurray::Publication> model = tensors();
            measure(single.publish, [&] {
                for (hurray::Publication& one : model) {
                    producer.publish(one.name, std::move(one.allocation));
                }
            });
            std::vector<hurray::Tensor> attached;
            measure(single.attach, [&] {
                for (const std::string& name : names) {
                    attached.push_back(consumer.attach(name));
                }
            });
        }
        std::vector<hurray::Publication> model = tensors();
        measure(many.publish, [&] { producer.publish_many(model); });
        std::vector<hurray::Tensor> attached;
        measure(many.attach, [&] { attached = consumer.attach_many(names); });
        measure(release, [&] { attached.clear(); });
    }
    std::printf("\n%zu tensors of 4 KiB: microseconds for all of them; ratio = p50 / p50 one by one\n\n", kTensors);
    print_header("how");
    print_row("publish", "one by one", 4096, single.publish, single.publish);
    print_row("publish", "many", 4096, many.publish, single.publish);
    print_row("attach", "one by one", 4096, single.attach, single.attach);
    print_row("attach", "many", 4096, many.attach, single.attach);
    print_row("release", "in a row", 4096, release, release);
}

}  // namespace

int main(int argc, char** argv) try {
    const Options options = parse(argc, argv);
    bench::ensure_private_daemon(argv);
    std::printf("%s\n\nMicroseconds; ratio = p50 / p50 with new memory.\n\n", bench::machine().c_str());
    print_header("memory");
    std::vector<Producer> producers;
    producers.emplace_back("new", "0", hurray::Contents::Zeros);
    producers.emplace_back("pooled", "2147483648", hurray::Contents::Zeros);
    producers.emplace_back("not cleared", "2147483648", hurray::Contents::Whatever);
    for (std::uint64_t size = 4096; size <= options.largest; size *= 16) {
        const std::uint64_t rounds =
            size >= (64U << 20) ? std::max<std::uint64_t>(options.rounds / 10, 1) : options.rounds;
        std::vector<Samples> samples(producers.size());
        std::optional<bench::Progress> progress(std::in_place);
        for (std::uint64_t done = 0; done < rounds; done += 10) {
            for (std::size_t i = 0; i < producers.size(); ++i) {
                if (done == 0) {
                    producers[i].round(size, nullptr);
                    producers[i].round(size, nullptr);  // one is published, one waits
                }
                for (std::uint64_t round = done; round < std::min(done + 10, rounds); ++round) {
                    producers[i].round(size, &samples[i]);
                }
            }
            progress->show("memory: " + bench::human_size(size) + ", " + std::to_string(done) + " of " +
                           std::to_string(rounds) + " rounds");
        }
        progress.reset();
        for (std::size_t i = 0; i < producers.size(); ++i) {
            print_row("allocate", producers[i].what(), size, samples[i].allocate, samples[0].allocate);
            print_row("write", producers[i].what(), size, samples[i].write, samples[0].write);
            print_row("publish", producers[i].what(), size, samples[i].publish, samples[0].publish);
            print_row("all", producers[i].what(), size, samples[i].all, samples[0].all);
        }
    }
    measure_fragmentation(options.rounds * 20);
    measure_batch(options.rounds);
    return 0;
} catch (const std::exception& error) {
    std::fprintf(stderr, "memory_bench: %s\n", error.what());
    return 1;
}
