#include "subprocess.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <system_error>

namespace hurrayctl {
namespace {

[[noreturn]] void fail(const char* what) { throw std::system_error(errno, std::generic_category(), what); }

/// The environment of the child as execvpe wants it; built before fork, since afterwards nothing may allocate.
struct Environment {
    std::vector<std::string> entries;
    std::vector<char*> pointers;

    explicit Environment(const std::vector<std::pair<std::string, std::string>>& changes) {
        for (char** entry = environ; *entry != nullptr; ++entry) {
            const std::string text = *entry;
            const std::string key = text.substr(0, text.find('='));
            const bool replaced =
                std::any_of(changes.begin(), changes.end(), [&](const auto& change) { return change.first == key; });
            if (!replaced) {
                entries.push_back(text);
            }
        }
        for (const auto& [key, value] : changes) {
            entries.push_back(key + "=" + value);
        }
        for (std::string& entry : entries) {
            pointers.push_back(entry.data());
        }
        pointers.push_back(nullptr);
    }
};

/// In the child: everything between fork and exec. Only async-signal-safe calls.
[[noreturn]] void become(const Launch& launch, char* const* arguments, char* const* environment, const sigset_t& mask,
                         pid_t parent, int report_fd) {
    if (launch.set_apart) {
        // A session of its own: what the terminal sends to its foreground group passes by.
        setsid();
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) {
            _exit(1);  // we came too late to be told of its death
        }
        const int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
        if (null_fd >= 0) {
            dup2(null_fd, STDIN_FILENO);
        }
        dup2(STDERR_FILENO, STDOUT_FILENO);
    }
    sigprocmask(SIG_SETMASK, &mask, nullptr);
    execvpe(launch.file.c_str(), arguments, environment);
    const int error = errno;
    [[maybe_unused]] const ssize_t written = write(report_fd, &error, sizeof error);
    _exit(127);
}

}  // namespace

SignalQueue::SignalQueue() {
    // Ignored by an ancestor, SIGCHLD would let the kernel reap our children before we see their status.
    signal(SIGCHLD, SIG_DFL);
    sigset_t ours;
    sigemptyset(&ours);
    for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGCHLD}) {
        sigaddset(&ours, number);
    }
    fd_ = signalfd(-1, &ours, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd_ < 0) {
        fail("signalfd");
    }
    sigprocmask(SIG_BLOCK, &ours, &old_mask_);
}

SignalQueue::~SignalQueue() {
    // The mask stays as it is: a signal that waits in the queue must not end us between here and exit.
    close(fd_);
}

std::optional<SignalQueue::Signal> SignalQueue::wait(std::optional<std::chrono::milliseconds> timeout, int other_fd) {
    pollfd waited[2] = {{fd_, POLLIN, 0}, {other_fd, POLLIN, 0}};
    const int limit = timeout ? static_cast<int>(std::max<std::int64_t>(timeout->count(), 0)) : -1;
    if (poll(waited, 2, limit) < 0 && errno != EINTR) {
        fail("poll");
    }
    signalfd_siginfo info;
    const ssize_t size = read(fd_, &info, sizeof info);
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) {
        return std::nullopt;
    }
    if (size != static_cast<ssize_t>(sizeof info)) {
        fail("read from signalfd");
    }
    return Signal{static_cast<int>(info.ssi_signo), info.ssi_code == SI_KERNEL};
}

Subprocess::Subprocess(const Launch& launch, const SignalQueue& signals) {
    std::vector<std::string> texts = launch.arguments;
    std::vector<char*> arguments;
    for (std::string& text : texts) {
        arguments.push_back(text.data());
    }
    arguments.push_back(nullptr);
    Environment environment(launch.environment);

    // exec closes the pipe; an errno in it means that exec failed.
    int report[2];
    if (pipe2(report, O_CLOEXEC) != 0) {
        fail("pipe2");
    }
    const pid_t parent = getpid();
    pid_ = fork();
    if (pid_ == 0) {
        become(launch, arguments.data(), environment.pointers.data(), signals.old_mask(), parent, report[1]);
    }
    const int fork_error = errno;
    close(report[1]);
    if (pid_ < 0) {
        close(report[0]);
        throw std::system_error(fork_error, std::generic_category(), "fork");
    }
    int error = 0;
    ssize_t size = 0;
    do {
        size = read(report[0], &error, sizeof error);
    } while (size < 0 && errno == EINTR);
    close(report[0]);
    if (size > 0) {
        waitpid(pid_, nullptr, 0);
        throw std::system_error(error, std::generic_category(), launch.file);
    }
}

Subprocess::~Subprocess() {
    if (!status_) {
        kill(pid_, SIGKILL);
        waitpid(pid_, nullptr, 0);
    }
}

std::optional<int> Subprocess::poll() {
    int status = 0;
    if (!status_ && waitpid(pid_, &status, WNOHANG) == pid_) {
        status_ = status;
    }
    return status_;
}

void Subprocess::signal(int number) {
    if (!status_) {
        kill(pid_, number);
    }
}

int Subprocess::end(SignalQueue& signals, std::chrono::milliseconds patience) {
    signal(SIGTERM);
    const auto deadline = std::chrono::steady_clock::now() + patience;
    while (!poll()) {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
        if (left.count() <= 0) {
            signal(SIGKILL);
            int status = 0;
            while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
            }
            status_ = status;
            break;
        }
        signals.wait(left);
    }
    return *status_;
}

int exit_code(int wait_status) {
    return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

std::string describe(int wait_status) {
    if (WIFSIGNALED(wait_status)) {
        const int number = WTERMSIG(wait_status);
        return "signal " + std::to_string(number) + " (" + strsignal(number) + ")";
    }
    return "exit code " + std::to_string(WEXITSTATUS(wait_status));
}

}  // namespace hurrayctl
