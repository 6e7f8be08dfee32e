#include "tests/support/keeper_process.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <utility>

#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/child.hpp"

namespace hurray::test {

KeeperProcess::KeeperProcess(const std::function<bool(int line)>& keep) {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) {
        throw std::runtime_error("socketpair");
    }
    line_ = UniqueFd(ends[0]);
    const UniqueFd keepers(ends[1]);
    pid_ = ::fork();
    if (pid_ < 0) {
        throw std::runtime_error("fork");
    }
    if (pid_ == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        line_.reset();
        bool all_well = false;
        try {
            all_well = keep(keepers.get());
        } catch (const std::exception& failure) {
            std::fprintf(stderr, "the keeper of hurrayd: %s\n", failure.what());
        }
        ::_exit(all_well ? 0 : 1);
    }
}

void KeeperProcess::say(std::string_view packet) {
    if (!say_to(line_.get(), packet)) {
        throw std::runtime_error("the process that keeps hurrayd has ended");
    }
}

std::string KeeperProcess::hear() {
    std::string packet = hear_from(line_.get());
    if (packet.empty()) {
        throw std::runtime_error("the process that keeps hurrayd has ended");
    }
    return packet;
}

bool KeeperProcess::end() {
    line_.reset();
    return pid_ < 0 || wait_for_end(std::exchange(pid_, -1)) == 0;
}

std::string hear_from(int line) {
    std::array<char, 4096> packet{};
    ssize_t got = 0;
    do {
        got = ::recv(line, packet.data(), packet.size(), 0);
    } while (got < 0 && errno == EINTR);
    return {packet.data(), got < 0 ? 0 : static_cast<std::size_t>(got)};
}

bool say_to(int line, std::string_view packet) {
    return ::send(line, packet.data(), packet.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(packet.size());
}

}  // namespace hurray::test
