#include "tests/support/child.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <exception>
#include <stdexcept>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hurray::test {

Child::Child(const std::function<void()>& work) {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
        throw std::runtime_error("pipe2");
    }
    const UniqueFd read_end(ends[0]);
    UniqueFd write_end(ends[1]);
    pid_ = ::fork();
    if (pid_ < 0) {
        throw std::runtime_error("fork");
    }
    if (pid_ == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        try {
            work();
        } catch (const std::exception& failure) {
            std::fprintf(stderr, "child: %s\n", failure.what());
            ::_exit(1);
        }
        const char done = 'd';
        (void)!::write(write_end.get(), &done, 1);
        for (;;) {
            ::pause();
        }
    }
    write_end.reset();
    char done = 0;
    if (::read(read_end.get(), &done, 1) != 1) {
        kill();
        throw std::runtime_error("the child failed");
    }
}

void Child::kill() {
    if (pid_ > 0) {
        ::kill(pid_, SIGKILL);
        (void)wait_for_end(pid_);
        pid_ = -1;
    }
}

int wait_for_end(pid_t pid) {
    const UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    if (pidfd) {
        pollfd waiting{pidfd.get(), POLLIN, 0};
        while (::poll(&waiting, 1, 30'000) < 0 && errno == EINTR) {
        }
        if ((waiting.revents & POLLIN) == 0) {
            ::kill(pid, SIGKILL);
        }
    }
    int status = 0;
    while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return status;
}

}  // namespace hurray::test
