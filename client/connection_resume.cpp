#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <random>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/connection.hpp"
#include "client/deadline.hpp"
#include "client/eventfd.hpp"
#include "client/log.hpp"
#include "client/signals_blocked.hpp"
#include "libhurray/base/check.hpp"
#include "libhurray/base/errc_name.hpp"

// What becomes of a connection when the daemon dies: away, and back.

namespace hurray::client {
namespace {

/// Pauses between two tries to reach a daemon: the first is about what one needs to start. Each is up to a quarter longer, so that many
/// clients don't come all at once.
constexpr std::chrono::milliseconds kFirstPause{10};
constexpr std::chrono::milliseconds kLongestPause{1000};
/// For the daemon's answer to Hello.
constexpr std::chrono::milliseconds kAnswerTime{5000};

/// For threads that are to ask again. One may be stopped, or have gone.
constexpr std::chrono::seconds kInsistentPatience{2};

std::chrono::microseconds with_jitter(std::chrono::milliseconds pause) {
    static thread_local std::minstd_rand random{std::random_device{}()};
    return pause +
           std::chrono::microseconds(std::uniform_int_distribution<std::int64_t>(0, pause.count() * 250)(random));
}

}  // namespace

/// A thread in wait_up. Its eventfd and not a condition variable: a signal ends the wait.
struct Connection::Sleeper {
    UniqueFd woken{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
};

// ---- Away -----------------------------------------------------------------------------------------------------------

/// The socket is of no use any more. On the one thread that reads.
void Connection::lose(Lock& lock, Error reason) {
    if (end_ || state_ == State::Away) {
        return;
    }
    const bool goes_on = greeting_.reconnects && !closed_ && !outlives_client_ && !stop_resumer_ && start_resumer(lock);
    if (!goes_on) {
        end(lock, std::move(reason));
        return;
    }
    const bool was_up = state_ == State::Up;
    if (was_up) {
        lost_since_ = Clock::now();
    }
    state_ = State::Away;
    interest_ = 0;
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, socket_.get(), nullptr);
    if (log::is_enabled(log::Level::Error)) {
        log::write(log::Level::Error, "daemon_away",
                   {{"status", errc_name(reason.code)}, {"message", reason.message}, {"open_leases", open_leases_}});
    }
    last_words_.reset();
    outgoing_.clear();
    abandoned_.clear();
    for (auto& [request, leases] : unacked_) {
        releases_.insert(releases_.end(), leases.begin(), leases.end());
    }
    unacked_.clear();
    claimed_.clear();
    unacked_leases_ = 0;
    std::unordered_map<std::uint64_t, std::function<void()>> posted;
    posted.swap(posted_);
    std::vector<Posted> deferred;
    deferred.swap(deferred_);
    std::vector<Notice> notices;
    lock.unlock();
    posted.clear();  // what they keep alive goes without a lock
    deferred.clear();
    if (sink_ != nullptr) {
        sink_->on_away(reason, was_up, notices);
    }
    lock.lock();
    queue_notices(lock, std::move(notices));
    for (Call* call : calls_) {
        call->is_lost = true;
    }
    fail_calls(lock, reason);
    is_lost_ = true;  // last: whoever is told that it is back was told before that it is away
    lost_.notify_one();
}

std::optional<Error> Connection::why_no_calls([[maybe_unused]] Lock& held, std::uint64_t epoch,
                                              const Insistent* insistent) const {
    // What was granted before a close is confirmed after it: given back, it would count as delivered in vain, and the third time nobody
    // would get it any more. While the daemon is away that is too late, since a closed client does not come back.
    const bool is_of_grant = insistent != nullptr && state_ == State::Up && !end_;
    if (closed_ && !is_of_grant) {
        return Error{Errc::Closed, "this client was closed"};
    }
    if (end_) {
        return end_;
    }
    // Nobody reads the end of a socket twice: a call that were let through once it is lost would wait for ever, the resumer's as well.
    const bool is_of_resuming = (insistent != nullptr && takes_insistent_) || std::this_thread::get_id() == resumer_id_;
    const bool takes_calls = state_ == State::Up || (state_ == State::Resuming && is_of_resuming);
    if (!takes_calls) {
        return Error{Errc::ConnectionLost, "hurrayd is away, and this client tries to reach it again"};
    }
    if (epoch != 0 && epoch != epoch_) {
        return Error{Errc::ConnectionLost, "hurrayd was away, and is back"};
    }
    return std::nullopt;
}

std::optional<wire::Access> Connection::access_of(std::optional<wire::Access> said) const {
    const Lock lock(mutex_);
    const auto& by_default = hello_.default_access;
    if (!said || !by_default) {
        return said ? said : by_default;
    }
    return wire::Access{said->gid == wire::kOwnGroup ? by_default->gid : said->gid, said->mode};
}

bool Connection::is_up() const {
    const Lock lock(mutex_);
    return state_ == State::Up && !end_;
}

Result<void> Connection::wait_up(Deadline deadline, Until until) {
    Sleeper sleeper;
    if (!sleeper.woken) {
        return fail_call(Errc::Limit, errno, "cannot make an eventfd");
    }
    Lock lock(mutex_);
    const auto place = sleepers_.insert(sleepers_.end(), &sleeper);
    Result<void> result;
    for (bool has_waited = false;; has_waited = true) {
        if (closed_ || end_) {
            result = fail(closed_ ? Error{Errc::Closed, "this client was closed"} : *end_);
            break;
        }
        if (state_ == State::Up || (until == Until::InsistentMayAsk && state_ == State::Resuming && takes_insistent_)) {
            break;
        }
        if (deadline && Clock::now() >= *deadline) {
            result = fail(Errc::ConnectionLost, has_waited ? "hurrayd is away, and was not back in time"
                                                           : "hurrayd is away; with a timeout this call waits for it");
            break;
        }
        clear_eventfd(sleeper.woken.get());
        lock.unlock();
        pollfd woken{sleeper.woken.get(), POLLIN, 0};
        const int ready = ::poll(&woken, 1, poll_timeout(interrupted_ ? look_again_before(deadline) : deadline));
        const bool stop = ready <= 0 && interrupted_ && interrupted_();
        lock.lock();
        if (stop) {
            result = fail(Errc::Interrupted, "the wait was interrupted");
            break;
        }
    }
    sleepers_.erase(place);
    return result;
}

Connection::Insistent::Insistent(Connection& connection) : connection_(connection) {
    const Lock lock(connection_.mutex_);
    connection_.insistent_.push_back(this);
}

Connection::Insistent::~Insistent() {
    const Lock lock(connection_.mutex_);
    std::erase(connection_.insistent_, this);
    connection_.lost_.notify_one();
}

void Connection::await_insistent() {
    Lock lock(mutex_);
    takes_insistent_ = true;
    wake_sleepers(lock);
    lost_.wait_for(lock, kInsistentPatience, [this] {
        const auto has_asked = [this](const Insistent* each) {
            return each->asked_in_ == 0 || each->asked_in_ == epoch_;
        };
        return end_ || closed_ || stop_resumer_ || state_ != State::Resuming ||
               std::all_of(insistent_.begin(), insistent_.end(), has_asked);
    });
}

void Connection::wake_sleepers([[maybe_unused]] Lock& held) noexcept {
    for (const Sleeper* sleeper : sleepers_) {
        set_eventfd(sleeper->woken.get());
    }
}

// ---- The resumer ----------------------------------------------------------------------------------------------------

bool Connection::start_resumer([[maybe_unused]] Lock& held) noexcept {
    if (resumer_.joinable()) {
        return true;
    }
    const SignalsBlocked blocked;
    try {
        resumer_ = std::thread([this] { run_resumer(); });
        resumer_id_ = resumer_.get_id();
        return true;
    } catch (const std::exception&) {
        return false;
    }
}

void Connection::stop_reconnecting() {
    std::thread resumer;
    {
        Lock lock(mutex_);
        stop_resumer_ = true;
        lost_.notify_one();
        if (state_ != State::Up) {
            set_eventfd(kick_.get());
        }
        resumer.swap(resumer_);
    }
    if (resumer.joinable()) {
        resumer.join();
    }
}

void Connection::run_resumer() {
    Lock lock(mutex_);
    for (;;) {
        // Whoever found the end of the socket is still about to say so, and to leave it. That is waited for also when this is to stop:
        // nobody else would end the connection then.
        lost_.wait(lock,
                   [this] { return end_ || (is_lost_ && !reading_) || (stop_resumer_ && state_ != State::Away); });
        if (end_ || !is_lost_) {
            return;
        }
        is_lost_ = false;
        try {
            reconnect(lock);
        } catch (const std::bad_alloc&) {
            end_out_of_memory(lock);
        }
    }
}

void Connection::reconnect(Lock& lock) {
    auto greeted = reach_daemon(lock);
    if (greeted && !end_) {  // not if memory has run out meanwhile
        resume(lock, std::move(*greeted));
    } else {
        end(lock, Error{Errc::ConnectionLost,
                        stop_resumer_ || closed_ ? "hurrayd is away" : "hurrayd was away for too long"});
    }
}

/// Tries until a daemon answers; nothing if that is to be given up.
std::optional<Connection::Greeted> Connection::reach_daemon(Lock& lock) {
    Deadline deadline;
    if (greeting_.reconnect_time) {
        deadline = lost_since_ + *greeting_.reconnect_time;
    }
    wire::Hello hello = this->hello();
    hello.last_instance = hello_.instance;
    std::string last_failure;
    for (auto pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
        const auto next_try = Clock::now() + with_jitter(pause);
        lost_.wait_until(lock, deadline ? std::min(*deadline, next_try) : next_try,
                         [this] { return stop_resumer_ || closed_; });
        if (stop_resumer_ || closed_) {
            return std::nullopt;
        }
        clear_eventfd(kick_.get());  // from now on it is set by who wants this to stop
        lock.unlock();
        Result<wire::HelloReply> reply = fail(Error{});
        auto socket = connect_socket(address_, Clock::now(), {});
        if (socket) {
            reply = greet(socket->get(), hello, Clock::now() + kAnswerTime, {}, kick_.get());
        }
        lock.lock();
        if (socket && reply) {
            return Greeted{std::move(*socket), *reply};
        }
        const Error& failure = socket ? reply.error() : socket.error();
        if (failure.message != last_failure && log::is_enabled(log::Level::Info)) {
            log::write(log::Level::Info, "daemon_not_back",
                       {{"status", errc_name(failure.code)}, {"message", failure.message}});
        }
        last_failure = failure.message;
        if (deadline && Clock::now() >= *deadline) {
            return std::nullopt;
        }
    }
}

/// Puts the new socket in the old one's place, and has brought back what hung on that.
void Connection::resume(Lock& lock, Greeted greeted) {
    HURRAY_DCHECK(!reading_ && state_ == State::Away);
    epoll_event none{};  // the level is set by update_interest
    if (::dup3(greeted.socket.get(), socket_.get(), O_CLOEXEC) < 0 ||
        ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, socket_.get(), &none) != 0) {
        end(lock, Error{Errc::ConnectionLost, std::string("cannot use the new connection: ") + std::strerror(errno)});
        return;
    }
    greeted.socket.reset();
    const bool is_same_life = greeted.reply.instance == hello_.instance;
    hello_ = greeted.reply;
    clear_eventfd(kick_.get());
    ++epoch_;
    state_ = State::Resuming;
    takes_insistent_ = false;
    std::vector<Notice> notices;
    std::vector<Notice> once_up;
    Result<void> back;
    if (sink_ != nullptr) {
        lock.unlock();
        back = sink_->on_back(is_same_life, notices, once_up);
        lock.lock();
        queue_notices(lock, std::move(notices));
    }
    if (end_ || state_ == State::Away) {
        return;  // lost again meanwhile
    }
    if (!back) {
        end(lock, std::move(back.error()));
        return;
    }
    state_ = State::Up;
    queue_notices(lock, std::move(once_up));
    if (log::is_enabled(log::Level::Info)) {
        log::write(log::Level::Info, "daemon_back", {{"same_life", is_same_life}, {"open_leases", open_leases_}});
    }
    for (Posted& posted : std::exchange(deferred_, {})) {
        post_now(lock, std::move(posted));
    }
    wake_sleepers(lock);
    flush_releases(lock);
    update_interest(lock);
    wake_pump(lock);
}

std::vector<Connection::Released> Connection::take_releases() {
    const Lock lock(mutex_);
    return std::exchange(releases_, {});
}

void Connection::claim_released(std::vector<Released> released) {
    Lock lock(mutex_);
    for (auto first = released.begin(); first != released.end();) {
        const auto last = first + std::min<std::ptrdiff_t>(released.end() - first, wire::kMaxClaims);
        if (end_ || state_ == State::Away) {
            releases_.insert(releases_.end(), first, released.end());  // for the next time
            return;
        }
        wire::Claims claims;
        std::transform(first, last, std::back_inserter(claims.claims), [](const Released& each) {
            return wire::Claims::Claim{each.capsule, each.lease, wire::Claims::State::Released};
        });
        const std::uint64_t request = ++last_request_;
        unacked_.emplace(request, std::vector<Released>(first, last));
        claimed_.insert(request);
        first = last;
        [[maybe_unused]] const auto sent = send(lock, {request, std::nullopt, std::move(claims)}, {});
    }
}

}  // namespace hurray::client
