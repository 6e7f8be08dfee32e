#include "daemon/process_watch.hpp"

#include <array>
#include <cerrno>
#include <cstddef>
#include <utility>

#include <sys/epoll.h>

namespace hurrayd {
namespace {

/// Deaths before everybody else has a turn.
constexpr std::size_t kMostAtOnce = 64;

[[noreturn]] void throw_os(int error, const char* what) {
    throw boost::system::system_error(error, boost::system::system_category(), what);
}

hurray::UniqueFd make_set() {
    hurray::UniqueFd set(::epoll_create1(EPOLL_CLOEXEC));
    if (!set) {
        throw_os(errno, "epoll_create1");
    }
    return set;
}

}  // namespace

ProcessWatch::ProcessWatch(asio::io_context& io, std::function<void(SessionNumber)> on_death)
    : set_(io), on_death_(std::move(on_death)) {
    hurray::UniqueFd set = make_set();
    set_.assign(set.get());
    (void)set.release();
    wait();
}

void ProcessWatch::add(int pidfd, SessionNumber session) {
    epoll_event interest{};
    interest.events = EPOLLIN | EPOLLONESHOT;  // it stays readable
    interest.data.u64 = session.value;
    if (::epoll_ctl(set_.native_handle(), EPOLL_CTL_ADD, pidfd, &interest) != 0) {
        throw_os(errno, "epoll_ctl");
    }
}

void ProcessWatch::stop() {
    boost::system::error_code ignored;
    set_.close(ignored);
}

void ProcessWatch::wait() {
    set_.async_wait(Waitable::wait_read, [this](const boost::system::error_code& failed) {
        if (!failed && set_.is_open()) {
            tell();
        }
    });
}

void ProcessWatch::tell() {
    std::array<epoll_event, kMostAtOnce> dead;
    const int count = ::epoll_wait(set_.native_handle(), dead.data(), static_cast<int>(dead.size()), 0);
    for (int i = 0; i < count && set_.is_open(); ++i) {
        on_death_({dead[static_cast<std::size_t>(i)].data.u64});
    }
    if (set_.is_open()) {
        wait();
    }
}

}  // namespace hurrayd
