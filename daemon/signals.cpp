#include "daemon/signals.hpp"

#include <cerrno>
#include <csignal>
#include <string>
#include <utility>

#include <sys/signalfd.h>
#include <unistd.h>

namespace hurrayd {

hurray::Result<std::unique_ptr<Signals>> Signals::wait(asio::io_context& io, std::function<void(int)> on_signal) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    const int blocked = ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
    const int fd = blocked == 0 ? ::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK) : -1;
    if (fd < 0) {
        const int error = blocked != 0 ? blocked : errno;
        return hurray::fail_call(hurray::Errc::Internal, error, "signalfd");
    }
    std::unique_ptr<Signals> signals(new Signals(io, fd));
    signals->fd_.async_wait(Waitable::wait_read,
                            [fd, set, call = std::move(on_signal)](const boost::system::error_code& failed) {
                                if (failed) {
                                    return;
                                }
                                signalfd_siginfo info{};
                                if (::read(fd, &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
                                    ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
                                    call(static_cast<int>(info.ssi_signo));
                                }
                            });
    return signals;
}

}  // namespace hurrayd
