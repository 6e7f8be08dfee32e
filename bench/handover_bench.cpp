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

#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/placement.hpp"
#include "bench/private_daemon.hpp"
#include "bench/progress.hpp"
#include "bench/samples.hpp"
#include "hurray_client.h"

namespace bench {

namespace {

constexpr const char* kName = "bench/handover";
constexpr unsigned char kGoOn = 1;
constexpr unsigned char kStop = 2;

void must(HurrayStatus status, const char* what) {
    if (status != HURRAY_OK) {
        std::fprintf(stderr, "handover_bench: %s: %s: %s\n", what, hurray_status_string(status),
                     hurray_last_error_message());
        std::exit(1);
    }
}

HurrayClient* connect(bool dispatch_by_caller) {
    HurrayConnectOptions options{};
    options.struct_size = sizeof options;
    options.flags = dispatch_by_caller ? HURRAY_CONNECT_DISPATCH_BY_CALLER : 0;
    HurrayClient* client = nullptr;
    must(hurray_client_connect(&options, &client), "connect");
    return client;
}

struct View {
    unsigned char first = 0;
    std::uint64_t version = 0;
};

/// Attaches, reads a byte, notes in `when` how long after `since` that was, and lets go.
View view(HurrayClient* client, const HurrayAttachOptions& options, std::atomic<std::uint64_t>& when,
          std::uint64_t since) {
    HurrayBufferList* buffers = nullptr;
    HurrayTensorContext* context = nullptr;
    HurrayCapsuleInfo info{};
    info.struct_size = sizeof info;
    must(hurray_client_attach(client, &options, &buffers, &context, &info), "attach");
    HurrayBuffer* buffer = nullptr;
    void* data = nullptr;
    hurray_buffer_list_get(buffers, 0, &buffer);
    hurray_buffer_data_ptr(buffer, &data);
    touch(data);
    when = now_ns() - since;
    const View seen{*static_cast<const unsigned char*>(data), info.version};
    hurray_buffer_list_destroy(&buffers);
    hurray_tensor_context_destroy(&context);
    return seen;
}

[[noreturn]] void consume(SharedTimes& times, const Baton& baton) {
    HurrayClient* client = connect(true);
    std::uint64_t last = 0;
    const auto view_next = [&] {
        HurrayAttachOptions next{};
        next.struct_size = sizeof next;
        next.name = kName;
        next.newer_than = last;
        next.timeout_ms = -1;
        const View seen = view(client, next, times.viewed, 0);
        last = seen.version;
        return seen.first != kStop;
    };
    while (view_next()) {
        baton.take();
        HurrayAttachOptions again{};
        again.struct_size = sizeof again;
        again.name = kName;
        view(client, again, times.attached, now_ns());
        baton.take();
        view_next();
        baton.take();
    }
    hurray_client_destroy(&client);
    ::_exit(0);
}

}  // namespace

struct Brokered::State {
    HurrayClient* client = nullptr;
    Processes processes;
    int released = 0;
    int ended = 0;
    HurrayCapsuleInfo published{};

    static void on_event(const HurrayEvent* event, void* context) {
        auto& state = *static_cast<State*>(context);
        state.released += event->kind == HURRAY_EVENT_LEASE_RELEASED ? 1 : 0;
        state.ended += event->kind == HURRAY_EVENT_ENDED ? 1 : 0;
    }

    /// Until `count`, which the callback changes, is `target`.
    void wait_until(const int& count, int target) const {
        while (count < target) {
            must(hurray_client_dispatch(client, -1), "dispatch");
        }
    }

    /// Until the daemon says that the consumer waits.
    void wait_for_consumer() const {
        for (;;) {
            char text[16 * 1024];
            std::uint64_t length = sizeof text;
            must(hurray_client_status_json(client, text, &length), "status");
            const std::string_view json(text, length);
            const auto waiting = json.find("\"waiting\"");
            if (waiting != std::string_view::npos && json.substr(waiting).find("\"used\":1") < 64) {
                return;
            }
            ::sched_yield();
        }
    }

    /// Memory with its first byte written: fresh, or of a capsule that has ended.
    HurrayAllocation* allocate(std::uint64_t size, unsigned char first) const {
        HurrayAllocateOptions options{};
        options.struct_size = sizeof options;
        options.flags = HURRAY_ALLOCATE_UNINITIALIZED;
        HurrayAllocation* allocation = nullptr;
        must(hurray_client_allocate(client, &size, 1, &options, &allocation), "allocate");
        void* data = nullptr;
        hurray_allocation_data(allocation, 0, &data);
        *static_cast<unsigned char*>(data) = first;
        return allocation;
    }

    /// Publishes it, once the consumer waits; returns when it began. Calls `begin` before that.
    template <class Begin>
    std::uint64_t publish(HurrayAllocation* allocation, std::uint64_t size, Begin&& begin) {
        HurrayDenseDescriptor dense{};
        dense.struct_size = sizeof dense;
        dense.element_type = HURRAY_TYPE_UINT8;
        dense.rank = 1;
        dense.shape = &size;
        unsigned char descriptor[256];
        std::uintptr_t length = sizeof descriptor;
        must(hurray_descriptor_encode_dense(&dense, descriptor, &length), "descriptor");
        HurrayPublishOptions options{};
        options.struct_size = sizeof options;
        options.on_event = on_event;
        options.context = this;
        published.struct_size = sizeof published;
        wait_for_consumer();
        begin();
        const std::uint64_t start = now_ns();
        must(hurray_client_publish(client, kName, descriptor, length, &allocation, &options, &published), "publish");
        return start;
    }
};

Brokered::Brokered(int consumer_processor) : times_(make_shared_times()), state_(new State) {
    state_->processes = {::getpid(), ::fork(), daemon_pid(std::getenv("HURRAY_SOCKET"))};
    if (state_->processes.consumer == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        baton_.close_writing_end();
        place_consumer(consumer_processor);
        consume(times_, baton_);
    }
    baton_.close_reading_end();
    ::setenv("HURRAY_POOL_BYTES", "17179869184", 0);  // a block of the largest, so that all sizes are used again
    state_->client = connect(true);
}

Brokered::~Brokered() {
    state_->publish(state_->allocate(4096, kStop), 4096, [] {});
    ::waitpid(state_->processes.consumer, nullptr, 0);
    hurray_client_destroy(&state_->client);
    delete state_;
}

void Brokered::run(std::uint64_t size, int rounds, HandoverSamples& samples, StepCounts* counts) {
    std::vector<HurrayAllocation*> allocations;
    for (int round = 0; round < rounds + kUncounted; ++round) {
        allocations.push_back(state_->allocate(size, kGoOn));
    }
    settle();
    HandoverSamples uncounted;
    int round = 0;
    for (HurrayAllocation* fresh : allocations) {
        const bool counts_now = round++ >= kUncounted;
        HandoverSamples& counted = counts_now ? samples : uncounted;
        const auto begin = [&] {
            if (counts != nullptr && counts_now) {
                counts->begin(state_->processes);
            }
        };
        const auto end_step = [&](Step step) {
            if (counts != nullptr && counts_now) {
                counts->end(state_->processes, step);
            }
        };
        const auto publish = [&](HurrayAllocation* allocation, Step step, std::vector<std::uint64_t>& to_view,
                                 std::vector<std::uint64_t>& to_release) {
            const int released = state_->released;
            const std::uint64_t start = state_->publish(allocation, size, begin);
            state_->wait_until(state_->released, released + 1);
            const std::uint64_t end = now_ns();
            to_view.push_back(times_.viewed - start);
            to_release.push_back(end - start);
            end_step(step);
        };
        const auto withdraw = [&] {
            const int ended = state_->ended;
            must(hurray_client_withdraw(state_->client, &state_->published.capsule), "withdraw");
            state_->wait_until(state_->ended, ended + 1);
        };
        publish(fresh, Step::Publish, counted.publish_to_view, counted.publish_to_release);
        const int before = state_->released;
        begin();
        baton_.pass();
        state_->wait_until(state_->released, before + 1);
        counted.attach.push_back(times_.attached);
        end_step(Step::Attach);
        baton_.pass();
        withdraw();
        publish(state_->allocate(size, kGoOn), Step::Again, counted.again_to_view, counted.again_to_release);
        baton_.pass();
        withdraw();
    }
    // What the client has kept goes with it, so that the next block's memory is fresh.
    hurray_client_destroy(&state_->client);
    state_->client = connect(true);
}

}  // namespace bench

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
