// Does a request take longer when the daemon has much to look after? And what does a capsule that nobody asks for cost it?
//
// Two daemons run side by side. One stays as small as it can be; the other gets more capsules and more clients step by step. A
// prober attaches capsules at random, and publishes, at both in turn, in blocks, so that whatever disturbs the machine disturbs
// both; the ratio of the two is what to look at. The capsules belong to a crowd: a process a daemon, whose clients are connected and
// silent. The prober has mapped before what it attaches, and all its pages: the first touch of a page takes as long with whatever daemon, and
// of many capsules most are on pages that it has not seen. It has a processor of its own if there is one, as in bench/handover. A ratio above 1 would come from caches
// that the greater tables no longer fit, and is lowered by making capsules smaller, or lookups fewer.
//
// Memory is the daemon's resident memory that it shares with nobody (Pss), taken while capsules are only added: the difference, over
// their number. What the kernel keeps for a descriptor that the daemon holds is not in it.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/arguments.hpp"
#include "bench/placement.hpp"
#include "bench/private_daemon.hpp"
#include "bench/progress.hpp"
#include "bench/samples.hpp"
#include "hurray/client.hpp"

namespace {

constexpr std::uint64_t kSmallest = 10;  // capsules, and clients
constexpr std::uint64_t kTensorBytes = 256;
constexpr std::uint64_t kOwnSegmentBytes = (64U << 10) + 1;  // the least that does not go to an arena

struct Options {
    std::uint64_t rounds = 2000;
    std::uint64_t largest_capsules = 100'000;
    std::uint64_t largest_clients = 1000;
    std::uint64_t own_segments = 4000;
};

constexpr const char* kUsage =
    "usage: scale_bench [--rounds N] [--capsules N] [--clients N] [--own-segments N]\n"
    "Starts two daemons of its own.\n"
    "  --rounds N        rounds a row, at each of the two (default: 2000)\n"
    "  --capsules N      the most capsules (default: 100000)\n"
    "  --clients N       the most clients (default: 1000)\n"
    "  --own-segments N  capsules with a segment of their own, for their memory alone (default: 4000)\n";

Options parse(int argc, char** argv) {
    Options options;
    const std::pair<std::string_view, std::uint64_t*> known[] = {{"--rounds", &options.rounds},
                                                                 {"--capsules", &options.largest_capsules},
                                                                 {"--clients", &options.largest_clients},
                                                                 {"--own-segments", &options.own_segments}};
    bench::read_counts(argc, argv, known, kUsage);
    return options;
}

std::string name_of(std::uint64_t number) {
    char name[32];
    std::snprintf(name, sizeof name, "scale/%08llu", static_cast<unsigned long long>(number));
    return name;
}

/// Waits for the daemon, should it have been started just now.
hurray::Client connect_to(const std::string& address, bool dispatch_by_caller) {
    return hurray::Client::connect(
        {.address = address, .timeout = std::chrono::seconds(10), .dispatch_by_caller = dispatch_by_caller});
}

/// Everybody who has something at one daemon, in a process of their own: `capsules` of one client, and clients that are
/// connected and silent.
class Crowd {
  public:
    explicit Crowd(std::string address) {
        int commands[2];
        int answers[2];
        if (::pipe2(commands, O_CLOEXEC) != 0 || ::pipe2(answers, O_CLOEXEC) != 0) {
            std::perror("pipe2");
            std::exit(1);
        }
        process_ = ::fork();
        if (process_ == 0) {
            ::prctl(PR_SET_PDEATHSIG, SIGKILL);
            ::close(commands[1]);
            ::close(answers[0]);
            try {
                serve(address, commands[0], answers[1]);
            } catch (const std::exception& error) {
                std::fprintf(stderr, "scale_bench: %s: %s\n", address.c_str(), error.what());
            }
            ::_exit(1);
        }
        ::close(commands[0]);
        ::close(answers[1]);
        to_ = commands[1];
        from_ = answers[0];
    }
    ~Crowd() {
        ::close(to_);
        ::close(from_);
        ::kill(process_, SIGKILL);
        ::waitpid(process_, nullptr, 0);
    }
    Crowd(const Crowd&) = delete;
    Crowd& operator=(const Crowd&) = delete;

    /// Until there are so many. Fewer clients than before leave; there are never fewer capsules.
    void be(std::uint64_t capsules, std::uint64_t clients) { say({capsules, clients, 0}); }
    /// Adds capsules, which have a segment each.
    void add_own_segments(std::uint64_t count) { say({0, 0, count}); }

  private:
    struct Command {
        std::uint64_t capsules = 0;
        std::uint64_t clients = 0;
        std::uint64_t own_segments = 0;
    };

    void say(const Command& command) const {
        char done = 0;
        if (::write(to_, &command, sizeof command) != sizeof command || ::read(from_, &done, 1) != 1) {
            std::exit(1);  // it has said why
        }
    }

    [[noreturn]] static void serve(const std::string& address, int commands, int answers) {
        hurray::Client producer = connect_to(address, false);
        std::vector<hurray::Client> silent;
        std::uint64_t published = 0;
        for (Command command; ::read(commands, &command, sizeof command) == sizeof command;) {
            for (; published < command.capsules; ++published) {
                producer.publish(name_of(published), producer.allocate<std::uint8_t>({kTensorBytes}));
            }
            for (std::uint64_t i = 0; i < command.own_segments; ++i) {
                producer.publish("own/" + name_of(i), producer.allocate<std::uint8_t>({kOwnSegmentBytes}));
            }
            // The producer and the prober are two of them.
            while (command.clients > 0 && silent.size() + 2 > command.clients && !silent.empty()) {
                silent.pop_back();
            }
            while (silent.size() + 2 < command.clients) {
                silent.push_back(connect_to(address, true));
            }
            static_cast<void>(::write(answers, "", 1) == 1);
        }
        ::_exit(0);
    }

    pid_t process_ = -1;
    int to_ = -1;
    int from_ = -1;
};

struct Samples {
    std::vector<std::uint64_t> attach;
    std::vector<std::uint64_t> publish;
};

/// One of the two daemons, its crowd, and the client that asks it.
class Side {
  public:
    void connect() { prober_.emplace(connect_to(daemon_.address(), true)); }

    void grow(std::uint64_t capsules, std::uint64_t clients) {
        capsules_ = capsules;
        crowd_.be(capsules, clients);
    }
    Crowd& crowd() { return crowd_; }
    [[nodiscard]] pid_t daemon() const { return daemon_.process(); }

    /// Maps all memory that capsules lie in, with its pages.
    void look_around() {
        constexpr std::uint64_t kSmallPart = 100;  // there are more in each segment
        for (std::uint64_t number = 0; number < capsules_; number += kSmallPart) {
            (void)prober_->attach(name_of(number), {.populate = hurray::Populate::Yes});
        }
    }

    /// Attaches a capsule, reads a byte of it and lets go of it; then publishes one, which replaces the one before.
    void round(std::mt19937_64& random, Samples* samples) {
        const std::string name = name_of(random() % capsules_);
        const std::uint64_t start = bench::now_ns();
        {
            const auto tensor = prober_->attach(name, {.populate = hurray::Populate::Yes});
            [[maybe_unused]] const volatile std::byte first = tensor.buffer()[0];
            const std::uint64_t attached = bench::now_ns();
            if (samples != nullptr) {
                samples->attach.push_back(attached - start);
            }
        }
        auto allocation = prober_->allocate<std::uint8_t>({kTensorBytes}, {.contents = hurray::Contents::Whatever});
        const std::uint64_t allocated = bench::now_ns();
        prober_->publish("scale/prober", std::move(allocation));
        if (samples != nullptr) {
            samples->publish.push_back(bench::now_ns() - allocated);
        }
        while (prober_->dispatch()) {
        }
    }

  private:
    bench::PrivateDaemon daemon_{"[quota.user]\nclients = 1000000\n"};
    Crowd crowd_{daemon_.address()};
    std::optional<hurray::Client> prober_;
    std::uint64_t capsules_ = 0;
};

/// Resident memory, what is shared divided by who shares it.
std::uint64_t memory_of(pid_t process) {
    std::ifstream file("/proc/" + std::to_string(process) + "/smaps_rollup");
    for (std::string line; std::getline(file, line);) {
        if (unsigned long long kib = 0; std::sscanf(line.c_str(), "Pss: %llu", &kib) == 1) {
            return kib * 1024;
        }
    }
    std::fprintf(stderr, "scale_bench: /proc/%d/smaps_rollup tells no Pss\n", process);
    std::exit(1);
}

void print_row(const char* what, std::uint64_t capsules, std::uint64_t clients, const std::vector<std::uint64_t>& large,
               const std::vector<std::uint64_t>& small) {
    const auto a = bench::quantiles(large);
    const auto b = bench::quantiles(small);
    const auto us = [](std::uint64_t ns) { return static_cast<double>(ns) / 1000.0; };
    std::printf("| %-7s | %8llu | %7llu | %6zu | %8.1f | %8.1f | %12.1f | %12.1f | %5.2f |\n", what,
                static_cast<unsigned long long>(capsules), static_cast<unsigned long long>(clients), large.size(),
                us(a.p50), us(a.p99), us(b.p50), us(b.p99), static_cast<double>(a.p50) / static_cast<double>(b.p50));
    std::fflush(stdout);
}

/// 10, and up to `largest` what lies between in steps of a thousand or a hundred: "10, 10,000, 100,000".
std::vector<std::uint64_t> steps(std::uint64_t middle, std::uint64_t largest) {
    std::vector<std::uint64_t> found = {kSmallest};
    for (const std::uint64_t step : {middle, largest}) {
        if (step > found.back() && step <= largest) {
            found.push_back(step);
        }
    }
    return found;
}

struct MemoryRow {
    const char* what;
    std::uint64_t count;
    std::uint64_t bytes;
};

}  // namespace

int main(int argc, char** argv) try {
    const Options options = parse(argc, argv);
    rlimit descriptors{};
    ::getrlimit(RLIMIT_NOFILE, &descriptors);
    descriptors.rlim_cur = descriptors.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &descriptors);

    const bench::Processors processors = bench::usable_processors();
    if (processors.second >= 0) {
        static_cast<void>(bench::put(0, processors.first));  // the crowds, which are started now
    }
    Side small;
    Side large;
    bench::put_apart({small.daemon(), large.daemon()}, processors);
    small.connect();
    large.connect();
    small.grow(kSmallest, kSmallest);

    std::printf("%s; %s\n\n", bench::machine().c_str(),
                processors.second >= 0 ? "daemons and crowds on one processor, who asks them on another"
                                       : bench::to_string(bench::Placement::Together));
    std::printf("Microseconds; ratio = p50 / p50 of the small daemon (%llu capsules, %llu clients), asked in turn.\n\n",
                static_cast<unsigned long long>(kSmallest), static_cast<unsigned long long>(kSmallest));
    std::printf("| %-7s | %8s | %7s | %6s | %8s | %8s | %12s | %12s | %5s |\n", "", "capsules", "clients", "rounds",
                "p50", "p99", "smallest p50", "smallest p99", "ratio");
    std::printf(
        "|---------|----------|---------|--------|----------|----------|--------------|--------------|-------|\n");
    std::vector<MemoryRow> memory;
    std::mt19937_64 random(1);
    std::uint64_t before = 0;
    for (const std::uint64_t capsules : steps(10'000, options.largest_capsules)) {
        const std::uint64_t held = memory_of(large.daemon());
        {
            bench::Progress progress;
            progress.show("scale: publishing up to " + std::to_string(capsules) + " capsules");
            for (std::uint64_t some = std::min(before + 1000, capsules); some < capsules; some += 1000) {
                large.grow(some, kSmallest);
                progress.show("scale: " + std::to_string(some) + " of " + std::to_string(capsules) + " capsules");
            }
            large.grow(capsules, kSmallest);
        }
        if (before != 0) {
            memory.push_back({"capsule in an arena", capsules - before, memory_of(large.daemon()) - held});
        }
        before = capsules;
        for (const std::uint64_t clients : steps(100, options.largest_clients)) {
            large.grow(capsules, clients);
            constexpr std::uint64_t kBlock = 20;
            Samples ours;
            Samples theirs;
            bench::Progress progress;
            large.look_around();
            for (std::uint64_t warm = 0; warm < std::min<std::uint64_t>(options.rounds, 200); ++warm) {
                small.round(random, nullptr);
                large.round(random, nullptr);
            }
            for (std::uint64_t done = 0; done < options.rounds; done += kBlock) {
                const std::uint64_t block = std::min(kBlock, options.rounds - done);
                for (std::uint64_t i = 0; i < block; ++i) {
                    small.round(random, &theirs);
                }
                for (std::uint64_t i = 0; i < block; ++i) {
                    large.round(random, &ours);
                }
                progress.show("scale: " + std::to_string(capsules) + " capsules, " + std::to_string(clients) +
                              " clients, " + std::to_string(done) + " of " + std::to_string(options.rounds) +
                              " rounds");
            }
            print_row("attach", capsules, clients, ours.attach, theirs.attach);
            print_row("publish", capsules, clients, ours.publish, theirs.publish);
        }
    }
    {
        bench::Progress progress;
        progress.show("scale: capsules with segments of their own");
        const std::uint64_t held = memory_of(large.daemon());
        large.crowd().add_own_segments(options.own_segments);
        memory.push_back({"capsule with its own segment", options.own_segments, memory_of(large.daemon()) - held});
    }
    std::printf("\nThe daemon's memory.\n\n| %-28s | %8s | %10s |\n", "", "how many", "bytes each");
    std::printf("|------------------------------|----------|------------|\n");
    for (const MemoryRow& row : memory) {
        std::printf("| %-28s | %8llu | %10.0f |\n", row.what, static_cast<unsigned long long>(row.count),
                    static_cast<double>(row.bytes) / static_cast<double>(row.count));
    }
    return 0;
} catch (const std::exception& error) {
    std::fprintf(stderr, "scale_bench: %s\n", error.what());
    return 1;
}
