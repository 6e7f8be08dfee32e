// The hand-over through hurrayd.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/handover.hpp"
#include "bench/private_daemon.hpp"
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
    std::exit(0);  // not _exit: a profile may have to be written
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
