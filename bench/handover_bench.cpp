// How close does a hand-over through hurrayd come to what the kernel alone costs for it?
//
// Three processes on one processor (the most repeatable; --spread lets the scheduler choose). For each size, blocks of rounds
// through hurrayd and through the floor take turns, so that whatever disturbs the machine disturbs both. A lower ratio would
// come from fewer system calls or less work between them, in the daemon or in the client.
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
        view_next();
        baton.take();
    }
    hurray_client_destroy(&client);
    ::_exit(0);
}

}  // namespace

struct Brokered::State {
    HurrayClient* client = nullptr;
    pid_t consumer = -1;
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

    /// Publishes it, once the consumer waits; returns when it began.
    std::uint64_t publish(HurrayAllocation* allocation, std::uint64_t size) {
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
        const std::uint64_t start = now_ns();
        must(hurray_client_publish(client, kName, descriptor, length, &allocation, &options, &published), "publish");
        return start;
    }
};

Brokered::Brokered() : times_(make_shared_times()), state_(new State) {
    state_->consumer = ::fork();
    if (state_->consumer == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        baton_.close_writing_end();
        consume(times_, baton_);
    }
    baton_.close_reading_end();
    ::setenv("HURRAY_POOL_BYTES", "17179869184", 0);  // a block of the largest, so that all sizes are used again
    state_->client = connect(true);
}

Brokered::~Brokered() {
    state_->publish(state_->allocate(4096, kStop), 4096);
    ::waitpid(state_->consumer, nullptr, 0);
    hurray_client_destroy(&state_->client);
    delete state_;
}

void Brokered::run(std::uint64_t size, int rounds, HandoverSamples& samples) {
    std::vector<HurrayAllocation*> allocations;
    for (int round = 0; round < rounds + kUncounted; ++round) {
        allocations.push_back(state_->allocate(size, kGoOn));
    }
    settle();
    HandoverSamples uncounted;
    int round = 0;
    for (HurrayAllocation* fresh : allocations) {
        HandoverSamples& counted = round++ < kUncounted ? uncounted : samples;
        const auto publish = [&](HurrayAllocation* allocation, std::vector<std::uint64_t>& to_view,
                                 std::vector<std::uint64_t>& to_release) {
            const int released = state_->released;
            const std::uint64_t start = state_->publish(allocation, size);
            state_->wait_until(state_->released, released + 1);
            const std::uint64_t end = now_ns();
            to_view.push_back(times_.viewed - start);
            to_release.push_back(end - start);
            baton_.pass();
        };
        const auto withdraw = [&] {
            const int ended = state_->ended;
            must(hurray_client_withdraw(state_->client, &state_->published.capsule), "withdraw");
            state_->wait_until(state_->ended, ended + 1);
        };
        publish(fresh, counted.publish_to_view, counted.publish_to_release);
        const int before = state_->released;
        state_->wait_until(state_->released, before + 1);
        counted.attach.push_back(times_.attached);
        withdraw();
        publish(state_->allocate(size, kGoOn), counted.again_to_view, counted.again_to_release);
        withdraw();
    }
    // What the client has kept goes with it, so that the next block's memory is fresh.
    hurray_client_destroy(&state_->client);
    state_->client = connect(true);
}

}  // namespace bench

namespace {

struct Options {
    int rounds = 0;  // 0: by size
    bool spread = false;
    std::vector<std::uint64_t> sizes = {4096, 64U << 20, 1U << 30};
};

[[noreturn]] void usage(int code) {
    std::fputs(
        "usage: handover_bench [--rounds N] [--sizes BYTES[,BYTES...]] [--spread]\n"
        "Starts a private hurrayd through hurrayctl unless $HURRAY_SOCKET is set.\n"
        "  --rounds N  rounds a size, of each side (default: 400, and 40 from 1 GiB)\n"
        "  --spread    let the scheduler place the processes, instead of one processor for all\n",
        code == 0 ? stdout : stderr);
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
        } else if (argument == "--spread") {
            options.spread = true;
        } else if (argument == "--rounds" && i + 1 < argc) {
            options.rounds = number<int>(argv[++i]);
        } else if (argument == "--sizes" && i + 1 < argc) {
            options.sizes.clear();
            for (std::string_view rest = argv[++i]; !rest.empty();) {
                const auto comma = std::min(rest.find(','), rest.size());
                options.sizes.push_back(number<std::uint64_t>(rest.substr(0, comma)));
                rest.remove_prefix(std::min(comma + 1, rest.size()));
            }
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

/// Runs this program again under a private daemon, which then is on the same processor.
[[noreturn]] void run_under_private_daemon(char** argv) {
    char self[4096];
    const ssize_t length = ::readlink("/proc/self/exe", self, sizeof self - 1);
    self[std::max<ssize_t>(length, 0)] = '\0';
    const std::string program = self;
    const std::string control = program.substr(0, program.rfind('/') + 1) + "hurrayctl";
    std::vector<char*> arguments = {const_cast<char*>(control.c_str()), const_cast<char*>("run"),
                                    const_cast<char*>("--"), const_cast<char*>(program.c_str())};
    for (char** argument = argv + 1; *argument != nullptr; ++argument) {
        arguments.push_back(*argument);
    }
    arguments.push_back(nullptr);
    ::execv(control.c_str(), arguments.data());
    std::perror(control.c_str());
    std::exit(1);
}

void print_row(const char* what, std::uint64_t size, const std::vector<std::uint64_t>& ours,
               const std::vector<std::uint64_t>& floor) {
    const auto a = bench::quantiles(ours);
    const auto b = bench::quantiles(floor);
    const auto us = [](std::uint64_t ns) { return static_cast<double>(ns) / 1000.0; };
    std::printf("| %-22s | %7s | %6zu | %8.1f | %8.1f | %8.1f | %8.1f | %8.1f | %8.1f | %5.2f |\n", what,
                bench::human_size(size).c_str(), ours.size(), us(a.p50), us(a.p99), us(a.p999), us(b.p50), us(b.p99),
                us(b.p999), static_cast<double>(a.p50) / static_cast<double>(b.p50));
    std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
    const Options options = parse(argc, argv);
    if (!options.spread) {
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(0, &one);
        ::sched_setaffinity(0, sizeof one, &one);
    }
    if (const char* socket = std::getenv("HURRAY_SOCKET"); socket == nullptr || *socket == '\0') {
        run_under_private_daemon(argv);
    }
    std::printf("%s; %s\n\n", bench::machine().c_str(),
                options.spread ? "processes where the scheduler likes" : "all processes on one processor");
    std::printf("Microseconds; ratio = p50 through hurrayd / p50 of the floor.\n\n");
    std::printf("| %-22s | %7s | %6s | %8s | %8s | %8s | %8s | %8s | %8s | %5s |\n", "", "size", "rounds", "p50", "p99",
                "p99.9", "floor50", "floor99", "fl99.9", "ratio");
    std::printf("|%s|\n",
                "------------------------|---------|--------|----------|----------|----------|----------|----------|"
                "----------|-------");
    constexpr int kBlock = 4;  // rounds before the other side's turn: as many as there is memory for, at every size
    bench::Floor floor;
    bench::Brokered brokered;
    for (const std::uint64_t size : options.sizes) {
        const int rounds = rounds_for(options, size);
        bench::HandoverSamples ours;
        bench::HandoverSamples theirs;
        for (int done = 0; done < rounds;) {
            const int block = std::min(kBlock, rounds - done);
            floor.run(size, block, theirs);
            brokered.run(size, block, ours);
            done += block;
            std::fprintf(stderr, "\r%s: %d of %d rounds ", bench::human_size(size).c_str(), done, rounds);
        }
        std::fprintf(stderr, "\r                                        \r");
        print_row("publish to view", size, ours.publish_to_view, theirs.publish_to_view);
        print_row("publish to release", size, ours.publish_to_release, theirs.publish_to_release);
        print_row("attach, kept", size, ours.attach, theirs.attach);
        print_row("publish to view, kept", size, ours.again_to_view, theirs.again_to_view);
        print_row("... to release, kept", size, ours.again_to_release, theirs.again_to_release);
    }
    return 0;
}
