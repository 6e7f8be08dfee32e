#include "bench/handover.hpp"

#include <cstdio>
#include <cstdlib>
#include <new>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "bench/placement.hpp"
#include "bench/samples.hpp"

namespace bench {

namespace {

[[noreturn]] void die(const char* what) {
    std::perror(what);
    std::exit(1);
}

}  // namespace

SharedTimes& make_shared_times() {
    void* page = ::mmap(nullptr, sizeof(SharedTimes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) {
        die("mmap");
    }
    return *new (page) SharedTimes;
}

void place_consumer(int processor) {
    if (processor >= 0 && !put(0, processor)) {
        die("placing the consumer");
    }
}

void settle() {
    const std::uint64_t end = now_ns() + 50'000'000;
    while (now_ns() < end) {
    }
}

Baton::Baton() {
    if (::pipe2(ends_, O_CLOEXEC) != 0) {
        die("pipe2");
    }
}

void Baton::pass() const {
    char byte = 0;
    const iovec one{&byte, 1};
    if (::writev(ends_[1], &one, 1) != 1) {
        die("baton");
    }
}

void Baton::take() const {
    char byte = 0;
    const iovec one{&byte, 1};
    if (::readv(ends_[0], &one, 1) != 1) {
        ::_exit(1);  // the producer is gone
    }
}

void Baton::close_reading_end() { ::close(ends_[0]); }
void Baton::close_writing_end() { ::close(ends_[1]); }

void touch(const void* data) { [[maybe_unused]] const volatile char byte = *static_cast<const volatile char*>(data); }

void StepCounts::begin(const Processes& processes) {
    counts_.wait_until_quiet();
    const pid_t all[] = {processes.producer, processes.consumer, processes.broker};
    std::array<std::uint64_t, 3> faults{};
    for (std::size_t i = 0; i < before_.size(); ++i) {
        faults[i] = faults_of(all[i]);
    }
    for (std::size_t i = 0; i < before_.size(); ++i) {
        before_[i] = counts_.calls_of(all[i]);  // last, since asking for the faults takes calls
        before_[i].faults = faults[i];
    }
}

void StepCounts::end(const Processes& processes, Step step) {
    counts_.wait_until_quiet();
    const pid_t all[] = {processes.producer, processes.consumer, processes.broker};
    Sides after;
    for (std::size_t i = 0; i < after.size(); ++i) {
        after[i] = counts_.calls_of(all[i]);
    }
    for (std::size_t i = 0; i < after.size(); ++i) {
        after[i].faults = faults_of(all[i]);
        after[i] -= before_[i];
        after[i].calls[SYS_readv] = after[i].calls[SYS_writev] = 0;  // the baton's
        steps_[static_cast<std::size_t>(step)][i] += after[i];
    }
}

}  // namespace bench
