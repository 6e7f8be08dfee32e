#include "tests/support/mortal_daemon.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <exception>
#include <stdexcept>

#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hurray::test {
namespace {

/// What the keeper does until the other end of `line` is closed: at each packet, one death and one birth.
void keep(const DaemonProcess::Options& options, int line) {
    DaemonProcess daemon(options);
    const std::string& path = daemon.socket_path();
    for (;;) {
        if (::send(line, path.data(), path.size(), MSG_NOSIGNAL) < 0) {
            return;
        }
        char word = 0;
        ssize_t got = 0;
        do {
            got = ::recv(line, &word, sizeof word, 0);
        } while (got < 0 && errno == EINTR);
        if (got <= 0) {
            return;
        }
        daemon.end(SIGKILL);
        daemon.start();
    }
}

std::string hear(int line) {
    std::array<char, 4096> text{};
    const ssize_t got = ::recv(line, text.data(), text.size(), 0);
    if (got <= 0) {
        throw std::runtime_error("the process that keeps hurrayd has ended");
    }
    return {text.data(), static_cast<std::size_t>(got)};
}

}  // namespace

MortalDaemon::MortalDaemon(const DaemonProcess::Options& options) {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) {
        throw std::runtime_error("socketpair");
    }
    line_ = UniqueFd(ends[0]);
    UniqueFd keepers(ends[1]);
    keeper_ = ::fork();
    if (keeper_ == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        line_.reset();
        try {
            keep(options, keepers.get());
        } catch (const std::exception& failure) {
            std::fprintf(stderr, "the keeper of hurrayd: %s\n", failure.what());
            ::_exit(1);
        }
        ::_exit(0);
    }
    keepers.reset();
    socket_path_ = hear(line_.get());
}

MortalDaemon::~MortalDaemon() {
    line_.reset();
    ::waitpid(keeper_, nullptr, 0);
}

void MortalDaemon::restart() {
    if (::send(line_.get(), "r", 1, MSG_NOSIGNAL) != 1) {
        throw std::runtime_error("the process that keeps hurrayd has ended");
    }
    (void)hear(line_.get());
}

}  // namespace hurray::test
