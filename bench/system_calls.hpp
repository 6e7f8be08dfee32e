#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <sys/types.h>

/// Counting what processes ask of the kernel: system calls and page faults.
///
/// System calls are counted by ptrace, from a process above those that are counted. That needs no right and no file system that
/// a container might lack, as perf_event's tracepoints do, and it sees every call, also those that a C library makes by itself and that
/// wrappers around its functions would miss. It makes each call many times slower: nothing may be timed meanwhile. Calls that
/// are answered without entering the kernel, such as reading the clock, are none. Page faults are the kernel's own count (minor ones;
/// nothing here is on a disk).
namespace bench {

inline constexpr std::size_t kSystemCalls = 512;  // numbers beyond are counted as the last

/// What one process did.
struct Activity {
    std::array<std::uint64_t, kSystemCalls> calls{};
    std::uint64_t faults = 0;

    [[nodiscard]] std::uint64_t total() const noexcept;
    /// "sendmsg 3, recvmsg 4.5": calls divided by `rounds`, the most frequent first.
    [[nodiscard]] std::string list(int rounds) const;
    Activity& operator+=(const Activity& other) noexcept;
    Activity& operator-=(const Activity& other) noexcept;
};

/// The counts, in memory that who counts and who is counted share.
class CallCounts {
  public:
    /// New ones.
    CallCounts();
    /// Those of an ancestor, whose `descriptor` was inherited.
    explicit CallCounts(int descriptor);
    ~CallCounts();
    CallCounts(const CallCounts&) = delete;
    CallCounts& operator=(const CallCounts&) = delete;

    [[nodiscard]] int descriptor() const noexcept { return descriptor_; }

    /// Runs a program, without $HURRAY_SOCKET, and counts the calls of it and of all that it starts until none is left. Returns its exit
    /// status; -1 where the kernel does not permit that, with errno.
    [[nodiscard]] int run(std::vector<std::string> words);

    /// For the counted: what `process` has called so far. Makes no system call, and leaves the faults at 0.
    [[nodiscard]] Activity calls_of(pid_t process) const noexcept;
    /// For the counted: until nobody has called anything for 2 ms, so that everybody sleeps. Makes no system call.
    void wait_until_quiet() const noexcept;

  private:
    struct Process;
    struct Table;
    void map();
    Process& row_of(pid_t process) const;

    int descriptor_ = -1;
    Table* table_ = nullptr;
};

/// Minor page faults of a process since its start.
[[nodiscard]] std::uint64_t faults_of(pid_t process);

}  // namespace bench
