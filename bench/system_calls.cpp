#include "bench/system_calls.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/samples.hpp"

namespace bench {

namespace {

constexpr std::size_t kProcesses = 32;

[[noreturn]] void die(const char* what) {
    std::perror(what);
    std::exit(1);
}

std::string name_of(std::size_t call) {
    static const std::map<std::size_t, const char*> kNames = {
#define HURRAY_CALL(name) {SYS_##name, #name}
        HURRAY_CALL(sendmsg),      HURRAY_CALL(recvmsg),       HURRAY_CALL(sendmmsg),     HURRAY_CALL(recvmmsg),
        HURRAY_CALL(sendto),       HURRAY_CALL(recvfrom),      HURRAY_CALL(epoll_ctl),    HURRAY_CALL(epoll_pwait),
        HURRAY_CALL(ppoll),        HURRAY_CALL(read),          HURRAY_CALL(write),        HURRAY_CALL(close),
        HURRAY_CALL(fcntl),        HURRAY_CALL(ioctl),         HURRAY_CALL(fstat),        HURRAY_CALL(mmap),
        HURRAY_CALL(munmap),       HURRAY_CALL(madvise),       HURRAY_CALL(memfd_create), HURRAY_CALL(ftruncate),
        HURRAY_CALL(fallocate),    HURRAY_CALL(futex),         HURRAY_CALL(sched_yield),  HURRAY_CALL(timerfd_settime),
        HURRAY_CALL(rt_sigaction), HURRAY_CALL(getsockopt),    HURRAY_CALL(setsockopt),   HURRAY_CALL(mprotect),
        HURRAY_CALL(brk),          HURRAY_CALL(clock_gettime), HURRAY_CALL(newfstatat),
#ifdef SYS_epoll_wait
        HURRAY_CALL(epoll_wait),   HURRAY_CALL(poll),
#endif
#undef HURRAY_CALL
    };
    const auto found = kNames.find(call);
    return found == kNames.end() ? std::string("call ").append(std::to_string(call)) : found->second;
}

/// Which process a thread belongs to.
pid_t process_of(pid_t thread) {
    char line[256];
    pid_t process = thread;
    std::FILE* file = std::fopen(("/proc/" + std::to_string(thread) + "/status").c_str(), "re");
    while (file != nullptr && std::fgets(line, sizeof line, file) != nullptr) {
        if (std::sscanf(line, "Tgid: %d", &process) == 1) {
            break;
        }
    }
    if (file != nullptr) {
        std::fclose(file);
    }
    return process;
}

/// Starts a program that waits to be traced. `go` is where to write a byte once it is; closing it ends the program.
pid_t start_waiting(std::vector<std::string>& words, int& go) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) {
        die("pipe2");
    }
    std::vector<char*> arguments;
    for (std::string& word : words) {
        arguments.push_back(word.data());
    }
    arguments.push_back(nullptr);
    std::fflush(stdout);
    const pid_t child = ::fork();
    if (child < 0) {
        die("fork");
    }
    if (child == 0) {
        char byte = 0;
        ::close(ends[1]);
        if (::read(ends[0], &byte, 1) == 1) {
            ::unsetenv("HURRAY_SOCKET");
            ::execv(arguments[0], arguments.data());
            std::perror(arguments[0]);
        }
        ::_exit(127);
    }
    ::close(ends[0]);
    go = ends[1];
    return child;
}

}  // namespace

std::uint64_t Activity::total() const noexcept {
    std::uint64_t sum = 0;
    for (const std::uint64_t count : calls) {
        sum += count;
    }
    return sum;
}

std::string Activity::list(int rounds) const {
    std::vector<std::pair<std::uint64_t, std::size_t>> made;
    for (std::size_t call = 0; call < calls.size(); ++call) {
        if (calls[call] != 0) {
            made.emplace_back(calls[call], call);
        }
    }
    std::ranges::stable_sort(made, [](const auto& a, const auto& b) { return a.first > b.first; });
    std::string text;
    for (const auto& [count, call] : made) {
        char number[32];
        std::snprintf(number, sizeof number, " %.3g", static_cast<double>(count) / rounds);
        text.append(text.empty() ? "" : ", ").append(name_of(call)).append(number);
    }
    return text;
}

Activity& Activity::operator+=(const Activity& other) noexcept {
    for (std::size_t call = 0; call < calls.size(); ++call) {
        calls[call] += other.calls[call];
    }
    faults += other.faults;
    return *this;
}

Activity& Activity::operator-=(const Activity& other) noexcept {
    for (std::size_t call = 0; call < calls.size(); ++call) {
        calls[call] -= other.calls[call];
    }
    faults -= other.faults;
    return *this;
}

struct CallCounts::Process {
    std::atomic<pid_t> process{0};
    std::array<std::atomic<std::uint64_t>, kSystemCalls> calls{};
};

struct CallCounts::Table {
    std::atomic<std::uint64_t> all{0};
    std::array<Process, kProcesses> processes{};
};

CallCounts::CallCounts() : descriptor_(::memfd_create("call counts", 0)) {  // inherited by who is counted
    if (descriptor_ < 0 || ::ftruncate(descriptor_, sizeof(Table)) != 0) {
        die("memfd_create");
    }
    map();
}

CallCounts::CallCounts(int descriptor) : descriptor_(descriptor) { map(); }

CallCounts::~CallCounts() {
    ::munmap(table_, sizeof(Table));
    ::close(descriptor_);
}

void CallCounts::map() {
    // Populated, so that looking at the counts is no page fault.
    void* memory = ::mmap(nullptr, sizeof(Table), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, descriptor_, 0);
    if (memory == MAP_FAILED) {
        die("the counts");
    }
    table_ = static_cast<Table*>(memory);  // all zeros, which is how a fresh one begins
}

CallCounts::Process& CallCounts::row_of(pid_t process) const {
    for (Process& row : table_->processes) {
        pid_t nobody = 0;
        if (row.process == process || row.process.compare_exchange_strong(nobody, process)) {
            return row;
        }
    }
    std::fprintf(stderr, "more than %zu processes to be counted\n", kProcesses);
    std::exit(1);
}

int CallCounts::run(std::vector<std::string> words) {
    int go = -1;
    const pid_t program = start_waiting(words, go);
    constexpr long kOptions =
        PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL;
    if (::ptrace(PTRACE_SEIZE, program, nullptr, kOptions) != 0 || ::ptrace(PTRACE_INTERRUPT, program, 0, 0) != 0) {
        const int error = errno;
        ::close(go);
        ::waitpid(program, nullptr, 0);
        errno = error;
        return -1;
    }
    std::map<pid_t, Process*> rows;  // by thread
    int result = -1;
    for (;;) {
        int status = 0;
        const pid_t thread = ::waitpid(-1, &status, __WALL);
        if (thread < 0) {
            if (errno == EINTR) {
                continue;
            }
            return result;  // nobody is left
        }
        if (WIFEXITED(status) || WIFSIGNALED(status)) {
            if (thread == program) {
                result = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
            }
            rows.erase(thread);
            continue;
        }
        if (go >= 0 && thread == program) {  // it has stopped before it was let go: from now on it is counted
            static_cast<void>(::write(go, "", 1) == 1);
            ::close(std::exchange(go, -1));
        }
        int signal = 0;
        if (WSTOPSIG(status) == (SIGTRAP | 0x80)) {
            __ptrace_syscall_info info{};
            const long length = ::ptrace(PTRACE_GET_SYSCALL_INFO, thread, sizeof info, &info);
            if (length > 0 && info.op == PTRACE_SYSCALL_INFO_ENTRY) {
                Process*& row = rows[thread];
                if (row == nullptr) {
                    row = &row_of(process_of(thread));
                }
                ++row->calls[std::min<std::size_t>(info.entry.nr, kSystemCalls - 1)];
                ++table_->all;
            }
        } else if (status >> 16 == PTRACE_EVENT_STOP && WSTOPSIG(status) != SIGTRAP) {
            ::ptrace(PTRACE_LISTEN, thread, 0, 0);  // stopped by a signal: it stays so
            continue;
        } else if (status >> 16 == 0) {
            signal = WSTOPSIG(status);
        }
        ::ptrace(PTRACE_SYSCALL, thread, 0, signal);  // fails if it was killed meanwhile; then its end comes next
    }
}

Activity CallCounts::calls_of(pid_t process) const noexcept {
    Activity activity;
    for (const Process& row : table_->processes) {
        if (row.process == process) {
            std::ranges::copy(row.calls, activity.calls.begin());
        }
    }
    return activity;
}

void CallCounts::wait_until_quiet() const noexcept {
    constexpr std::uint64_t kQuietNs = 2'000'000;
    std::uint64_t seen = table_->all;
    for (std::uint64_t since = now_ns(); now_ns() - since < kQuietNs;) {
        if (const std::uint64_t now = table_->all; now != seen) {
            seen = now;
            since = now_ns();
        }
    }
}

std::uint64_t faults_of(pid_t process) {
    char text[512] = {};
    const int file = ::open(("/proc/" + std::to_string(process) + "/stat").c_str(), O_RDONLY | O_CLOEXEC);
    const ssize_t length = file < 0 ? -1 : ::read(file, text, sizeof text - 1);
    ::close(file);
    // The second field is a name, in parentheses; the tenth counts the faults.
    const char* after_name = length <= 0 ? nullptr : std::strrchr(text, ')');
    unsigned long long faults = 0;
    if (after_name == nullptr || std::sscanf(after_name + 1, " %*c %*d %*d %*d %*d %*d %*u %llu", &faults) != 1) {
        die("/proc/PID/stat");
    }
    return faults;
}

}  // namespace bench
