// How close does a hand-over through hurrayd come to what the kernel alone costs for it?
//
// For each size, blocks of rounds through hurrayd and through the floor take turns, so that whatever disturbs the machine
// disturbs both. A lower ratio would come from fewer system calls or less work between them, in the daemon or in the client.
//
// Producer and daemon are on one processor, the consumer on another of its own. With all on one processor it is the scheduler's
// chance which of two woken processes runs first, so that the same work takes once 12 and once 18 microseconds, and ratios swing
// with it; with each where the scheduler likes, processes wander. So placed, nobody has to wait for another one's turn where the
// time is taken: what the daemon sends to the consumer runs at once, and producer and daemon alternate anyway.
//
// A second pass, with the same rounds, counts what both sides ask of the kernel (bench/system_calls.hpp says how). It is not timed.
#include "bench/handover.hpp"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "bench/placement.hpp"
#include "bench/private_daemon.hpp"
#include "bench/progress.hpp"
#include "bench/samples.hpp"

namespace {

constexpr const char* kUsage =
    "usage: handover_bench [--rounds N] [--sizes BYTES[,BYTES...]] [--placement apart|together|free]\n"
    "Starts a private hurrayd through hurrayctl unless $HURRAY_SOCKET is set.\n"
    "  --rounds N     rounds a size, of each side (default: 400, and 40 from 1 GiB); a tenth of them, and 20 at most,\n"
    "                 are done again to count system calls and page faults, for the first and the last size\n"
    "  --sizes ...    default: 4096,131072,67108864,1073741824\n"
    "  --placement P  apart: producer and daemon on one processor, the consumer on another (default)\n"
    "                 together: all on one, as on a machine that has no second\n"
    "                 free: where the scheduler likes\n";

struct Options {
    int rounds = 0;  // 0: by size
    bench::Placement placement = bench::Placement::Apart;
    std::vector<std::uint64_t> sizes = {4096, 128U << 10, 64U << 20, 1U << 30};
    int counts = -1;  // the descriptor of the counts, in the pass that counts
};

[[noreturn]] void usage(int code) {
    std::fputs(kUsage, code == 0 ? stdout : stderr);
    std::exit(code);
}

template <class T>
T number(std::string_view text) {
    T value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || value <= 0) {
        usage(2);
    }
    return value;
}

Options parse(int argc, char** argv) {
    Options options;
    for (int i = 1; i < argc; ++i) {
        const std::string_view argument = argv[i];
        if (argument == "--help") {
            usage(0);
        }
        if (i + 1 == argc) {
            usage(2);
        }
        const std::string_view value = argv[++i];
        if (argument == "--rounds") {
            options.rounds = number<int>(value);
        } else if (argument == "--sizes") {
            options.sizes.clear();
            for (std::string_view rest = value; !rest.empty();) {
                const auto comma = std::min(rest.find(','), rest.size());
                options.sizes.push_back(number<std::uint64_t>(rest.substr(0, comma)));
                rest.remove_prefix(std::min(comma + 1, rest.size()));
            }
        } else if (argument == "--placement") {
            const auto placement = bench::placement_from(value);
            if (!placement) {
                usage(2);
            }
            options.placement = *placement;
        } else if (argument == "--count-into") {  // from count_in_another_run()
            options.counts = number<int>(value);
        } else {
            usage(2);
        }
    }
    return options;
}

int rounds_for(const Options& options, std::uint64_t size) {
    if (options.rounds > 0) {
        return options.rounds;
    }
    return size >= (1U << 30) ? 40 : 400;
}

/// Places this process and the daemon, and returns the consumer's processor; negative: not placed.
int place(bench::Placement& placement) {
    const bench::Processors processors = bench::usable_processors();
    if (placement == bench::Placement::Apart && processors.second < 0) {
        std::fputs(
            "handover_bench: only one processor may be used, so all processes share it: as --placement together\n",
            stderr);
        placement = bench::Placement::Together;
    }
    if (placement == bench::Placement::Free) {
        return -1;
    }
    if (!bench::put(0, processors.first)) {
        std::perror("handover_bench: placing the producer");
        std::exit(1);
    }
    if (!bench::put(bench::daemon_pid(std::getenv("HURRAY_SOCKET")), processors.first)) {
        std::perror("handover_bench: the daemon stays where it is, since it can't be placed");
    }
    return placement == bench::Placement::Apart ? processors.second : processors.first;
}

void print_row(const char* what, std::uint64_t size, const std::vector<std::uint64_t>& ours,
               const std::vector<std::uint64_t>& floor) {
    const auto a = bench::quantiles(ours);
    const auto b = bench::quantiles(floor);
    const auto us = [](std::uint64_t ns) { return static_cast<double>(ns) / 1000.0; };
    std::printf("| %-24s | %7s | %6zu | %8.1f | %8.1f | %9.1f | %9.1f | %5.2f |\n", what,
                bench::human_size(size).c_str(), ours.size(), us(a.p50), us(a.p99), us(b.p50), us(b.p99),
                static_cast<double>(a.p50) / static_cast<double>(b.p50));
    std::fflush(stdout);
}

/// Calls `block(n)` for blocks of rounds, and shows how far it is. As many a block as there is memory for, at every size.
template <class Block>
void in_blocks(const char* what, std::uint64_t size, int rounds, Block&& block) {
    constexpr int kBlock = 4;
    bench::Progress progress;
    for (int done = 0; done < rounds;) {
        const int next = std::min(kBlock, rounds - done);
        block(next);
        done += next;
        progress.show(std::string("handover: ") + what + " " + bench::human_size(size) + ", " + std::to_string(done) +
                      " of " + std::to_string(rounds) + " rounds");
    }
}

void measure(const Options& options, int consumer_processor) {
    std::printf("%s; %s\n\n", bench::machine().c_str(), bench::to_string(options.placement));
    std::printf("Microseconds; ratio = p50 through hurrayd / p50 of the floor.\n\n");
    std::printf("| %-24s | %7s | %6s | %8s | %8s | %9s | %9s | %5s |\n", "", "size", "rounds", "p50", "p99",
                "floor p50", "floor p99", "ratio");
    std::printf(
        "|--------------------------|---------|--------|----------|----------|-----------|-----------|-------|\n");
    bench::Floor floor(consumer_processor);
    bench::Brokered brokered(consumer_processor);
    for (const std::uint64_t size : options.sizes) {
        bench::HandoverSamples ours;
        bench::HandoverSamples theirs;
        in_blocks("timing", size, rounds_for(options, size), [&](int rounds) {
            floor.run(size, rounds, theirs);
            brokered.run(size, rounds, ours);
        });
        print_row("publish to view", size, ours.publish_to_view, theirs.publish_to_view);
        print_row("publish to release", size, ours.publish_to_release, theirs.publish_to_release);
        print_row("attach, kept", size, ours.attach, theirs.attach);
        print_row("publish to view, kept", size, ours.again_to_view, theirs.again_to_view);
        print_row("publish to release, kept", size, ours.again_to_release, theirs.again_to_release);
    }
}

void print_counts(std::uint64_t size, int rounds, const bench::StepCounts& ours, const bench::StepCounts& floor) {
    static constexpr const char* kStepNames[] = {"publish", "attach, kept", "publish, kept"};
    static constexpr const char* kSideNames[] = {"producer", "consumer", "daemon"};
    const auto a_round = [&](std::uint64_t count) { return static_cast<double>(count) / rounds; };
    for (std::size_t step = 0; step < bench::kSteps; ++step) {
        for (std::size_t side = 0; side < std::size(kSideNames); ++side) {
            const bench::Activity& a = ours.of(static_cast<bench::Step>(step))[side];
            const bench::Activity& b = floor.of(static_cast<bench::Step>(step))[side];
            std::printf("| %-13s | %7s | %-8s | %5.1f | %5.1f | %6.1f | %12.1f | %s | %s |\n", kStepNames[step],
                        bench::human_size(size).c_str(), kSideNames[side], a_round(a.total()), a_round(b.total()),
                        a_round(a.faults), a_round(b.faults), a.list(rounds).c_str(), b.list(rounds).c_str());
        }
    }
    std::fflush(stdout);
}

/// The pass that counts, once this program is counted. All on one processor, as it was started: who runs beside whom makes no difference
/// to what has to be called, but to how often somebody finds out that there is nothing left to do. The least and the greatest size do.
void count(const Options& options) {
    const bench::CallCounts counts(options.counts);
    std::printf("\nSystem calls and page faults a round, counted in a run of its own, on one processor.\n\n");
    std::printf("| %-13s | %7s | %-8s | %5s | %5s | %6s | %12s | %s | %s |\n", "", "size", "process", "calls", "floor",
                "faults", "floor faults", "which", "floor");
    std::printf("|---------------|---------|----------|-------|-------|--------|--------------|-------|-------|\n");
    bench::Floor floor(-1);
    bench::Brokered brokered(-1);
    std::vector<std::uint64_t> sizes = {options.sizes.front(), options.sizes.back()};
    sizes.resize(sizes.front() == sizes.back() ? 1 : 2);
    for (const std::uint64_t size : sizes) {
        const int rounds = std::clamp(rounds_for(options, size) / 10, 1, 20);
        bench::StepCounts ours(counts);
        bench::StepCounts theirs(counts);
        bench::HandoverSamples untimed;
        in_blocks("counting", size, rounds, [&](int block) {
            floor.run(size, block, untimed, &theirs);
            brokered.run(size, block, untimed, &ours);
        });
        print_counts(size, rounds, ours, theirs);
    }
}

/// Runs this program once more, counted from here; with a daemon of its own, which is counted too.
void count_in_another_run(char** argv) {
    bench::CallCounts counts;
    std::vector<std::string> words = {bench::program_beside("handover_bench")};
    for (char** argument = argv + 1; *argument != nullptr; ++argument) {
        words.emplace_back(*argument);
    }
    words.emplace_back("--count-into");
    words.push_back(std::to_string(counts.descriptor()));
    const int status = counts.run(std::move(words));
    if (status < 0) {
        std::printf("\nSystem calls were not counted, since ptrace is not permitted here: %s\n", std::strerror(errno));
    } else if (status != 0) {
        std::exit(status);
    }
}

}  // namespace

int main(int argc, char** argv) {
    Options options = parse(argc, argv);
    bench::ensure_private_daemon(argv);
    if (options.counts >= 0) {
        count(options);
        return 0;
    }
    const int consumer_processor = place(options.placement);
    measure(options, consumer_processor);
    count_in_another_run(argv);
    return 0;
}
