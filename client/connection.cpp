#include "client/connection.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>
#include <system_error>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <semaphore.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "client/deadline.hpp"
#include "client/eventfd.hpp"
#include "client/log.hpp"
#include "client/signals_blocked.hpp"
#include "libhurray/base/check.hpp"
#include "libhurray/base/errc_name.hpp"
#include "proto/wire/codec.hpp"
#include "proto/wire/packet_socket.hpp"

namespace hurray::client {

namespace {

/// Packets that are read at a time, before what they set off is run.
constexpr std::size_t kBurst = 32;
/// How often a socket is looked at that can't be polled.
constexpr std::chrono::milliseconds kBlindPause{1};
/// The id of each connection's first request.
constexpr std::uint64_t kHelloRequest = 1;
/// In the epoll, of what is there beside the socket.
constexpr std::uint32_t kOnWake = 1;
/// For the answer to a confirm, once the client was closed. The daemon takes half of it at most, but where a resume window goes on.
constexpr std::chrono::seconds kClosedPatience{5};

/// The limit_name of too_many_in_flight().
constexpr const char* kInFlight = "descriptors_in_flight";

Error too_many_in_flight() {
    rlimit limit{};
    (void)::getrlimit(RLIMIT_NOFILE, &limit);
    Error error{Errc::Limit,
                "too many descriptors of this user are on their way to other processes; the limit is "
                "RLIMIT_NOFILE, " +
                    std::to_string(limit.rlim_cur)};
    error.limit_name = kInFlight;
    error.limit = limit.rlim_cur;
    return error;
}

/// Short enough for a std::string to hold without memory of its own, so that it can be said when there is none.
constexpr const char* kOutOfMemory = "out of memory";

/// sem_wait, but no longer than kInterruptPause. (By the clock that is set, since that is the call that the thread sanitizer knows.)
int wait_a_while(sem_t& turn) noexcept {
    timespec until{};
    (void)::clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += std::chrono::nanoseconds(kInterruptPause).count();
    constexpr long kSecond = 1'000'000'000;
    until.tv_sec += until.tv_nsec / kSecond;
    until.tv_nsec %= kSecond;
    return ::sem_timedwait(&turn, &until);
}

Error connection_lost(std::string why) { return Error{Errc::ConnectionLost, std::move(why)}; }

void log_connected(int socket, std::uint32_t version) {
    ucred peer{};
    socklen_t length = sizeof peer;
    (void)::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length);
    log::write(log::Level::Info, "connected",
               {{"daemon_uid", peer.uid}, {"daemon_pid", peer.pid}, {"protocol_version", version}});
}

void log_answer(const char* request, std::uint64_t id, Clock::time_point sent_at,
                const Result<Connection::Reply>& result) {
    const Error* error = result ? std::get_if<Error>(&result->message) : &result.error();
    log::write(log::Level::Debug, "answered",
               {{"request", request},
                {"id", id},
                {"status", error != nullptr ? errc_name(error->code) : "HURRAY_OK"},
                {"descriptors", result ? result->fds.size() : 0},
                {"us", std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - sent_at).count()}});
}

/// What the daemon said no to. The sentence comes first, since it is for the caller; the field of the protocol's message, which
/// the caller never wrote, is for whoever wonders what this library sent.
Error refused(Error error) {
    if (!error.field.empty() && error.message.find(error.field) == std::string::npos) {
        error.message += " (" + error.field + ")";
    }
    return error;
}

}  // namespace

/// A thread that waits for replies, to one request or to several of a batch. Lives on that thread's stack.
///
/// The semaphore and not a condition variable: a signal ends its wait, so that Ctrl-C reaches a thread that isn't the reader.
struct Connection::Wait {
    explicit Wait(OnRefusal what) : on_refusal(what) { HURRAY_CHECK(::sem_init(&turn, 0, 0) == 0); }
    ~Wait() { ::sem_destroy(&turn); }
    Wait(const Wait&) = delete;
    Wait& operator=(const Wait&) = delete;

    const OnRefusal on_refusal;
    sem_t turn;                           ///< posted when all is answered, and when it is its thread's turn to read
    bool sleeping = false;                ///< its thread waits for that
    std::size_t unanswered = 0;           ///< of its calls
    const Call* first_refused = nullptr;  ///< by the daemon
};

/// Calls on the connection's books, from before they are sent until their thread leaves, however it leaves.
class Connection::Registration {
  public:
    Registration(Connection& connection, Lock& lock, Wait& wait, std::span<Call* const> calls)
        : connection_(connection), lock_(lock), wait_(wait) {
        std::list<Call*> fresh(calls.begin(), calls.end());
        for (Call* call : calls) {
            call->wait_ = &wait;
        }
        wait_.unanswered = calls.size();
        connection_.calls_.splice(connection_.calls_.end(), fresh);
        ++connection_.waiters_;
        connection_.update_interest(lock_);
    }
    ~Registration() {
        if (!lock_.owns_lock()) {
            lock_.lock();
        }
        if (wait_.unanswered != 0) {
            connection_.calls_.remove_if([this](Call* call) {
                const bool is_ours = call->wait_ == &wait_;
                call->wait_ = is_ours ? nullptr : call->wait_;
                return is_ours;
            });
        }
        --connection_.waiters_;
        connection_.update_interest(lock_);
    }
    Registration(const Registration&) = delete;
    Registration& operator=(const Registration&) = delete;

    /// These were not sent.
    void take_back(std::span<Call* const> calls) noexcept {
        for (Call* call : calls) {
            connection_.calls_.remove(call);
            call->wait_ = nullptr;
            --wait_.unanswered;
        }
    }

  private:
    Connection& connection_;
    Lock& lock_;
    Wait& wait_;
};

/// The right to read the socket, while it lasts.
class Connection::ReaderTurn {
  public:
    ReaderTurn(Connection& connection, Lock& lock, bool is_pump) : connection_(connection), lock_(lock) {
        HURRAY_DCHECK(!connection_.reading_);
        connection_.reading_ = true;
        connection_.pump_reads_ = is_pump;
    }
    ~ReaderTurn() {
        if (!lock_.owns_lock()) {
            lock_.lock();
        }
        connection_.reading_ = false;
        connection_.pump_reads_ = false;
        connection_.hand_over(lock_);
        if (connection_.state_ == State::Away) {
            connection_.lost_.notify_one();
        }
    }
    ReaderTurn(const ReaderTurn&) = delete;
    ReaderTurn& operator=(const ReaderTurn&) = delete;

  private:
    Connection& connection_;
    Lock& lock_;
};

/// A stay in dispatch(). Whatever it leaves to be done or said, and however it is left: who polls the descriptor must see it, though
/// the pump has cleared the mark that was set for it.
class Connection::DispatchStay {
  public:
    DispatchStay(Connection& connection, Lock& lock) : connection_(connection), lock_(lock) {}
    ~DispatchStay() {
        if (connection_.in_child()) {
            return;  // a callback forked: whose lock it is, nobody knows
        }
        if (!lock_.owns_lock()) {
            lock_.lock();
        }
        if (!connection_.notices_.empty() || connection_.end_ || connection_.closed_) {
            connection_.wake_pump(lock_);
        }
    }
    DispatchStay(const DispatchStay&) = delete;
    DispatchStay& operator=(const DispatchStay&) = delete;

  private:
    Connection& connection_;
    Lock& lock_;
};

// ---- Opening --------------------------------------------------------------------------------------------------------

Connection::Connection(const Address& address, const Greeting& greeting, UnforkedFd socket, UniqueFd epoll,
                       UniqueFd wake, UniqueFd kick, Interrupted interrupted)
    : socket_(std::move(socket)),
      epoll_(std::move(epoll)),
      wake_(std::move(wake)),
      kick_(std::move(kick)),
      interrupted_(std::move(interrupted)),
      address_(address),
      greeting_(greeting),
      uid_(static_cast<std::uint32_t>(::geteuid())),
      reader_(kBurst),
      fork_guard_({epoll_.get(), wake_.get(), kick_.get()}) {}

Result<std::unique_ptr<Connection>> Connection::open(const Address& address, Deadline deadline,
                                                     const Greeting& greeting, Interrupted interrupted) {
    auto socket = connect_socket(address, deadline, interrupted);
    if (!socket) {
        return fail(std::move(socket.error()));
    }
    UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
    UniqueFd wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    UniqueFd kick(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!epoll || !wake || !kick) {
        return fail_os(Errc::Limit, errno,
                       std::string("cannot make the connection's descriptors: ") + std::strerror(errno));
    }
    epoll_event on_wake{};
    on_wake.events = EPOLLIN;
    on_wake.data.u32 = kOnWake;
    epoll_event on_socket{};  // the level is set by update_interest
    if (::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, wake.get(), &on_wake) != 0 ||
        ::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, socket->get(), &on_socket) != 0) {
        return fail_call(Errc::Limit, errno, "cannot watch the connection");
    }
    std::unique_ptr<Connection> connection(new Connection(address, greeting, std::move(*socket), std::move(epoll),
                                                          std::move(wake), std::move(kick), std::move(interrupted)));
    if (::getrandom(connection->session_.bytes.data(), connection->session_.bytes.size(), 0) !=
        static_cast<ssize_t>(connection->session_.bytes.size())) {
        return fail_os(Errc::Internal, errno, "the kernel gives no random bytes");
    }
    auto reply = greet(connection->socket_.get(), connection->hello(), greeting.answer_deadline,
                       connection->interrupted_, connection->kick_.get());
    if (!reply) {
        return fail(std::move(reply.error()));
    }
    connection->hello_ = *reply;
    return connection;
}

wire::Hello Connection::hello() const {
    wire::Hello hello;
    hello.version_min = wire::kProtocolVersionMin;
    hello.version_max = wire::kProtocolVersionMax;
    hello.keeps_segments = true;
    hello.takes_bundles = true;
    hello.client_name = greeting_.client_name;
    hello.session = session_;
    return hello;
}

/// Says Hello, as the connection's first request, and reads the answer. `kick` ends the wait, as if it had been interrupted.
Result<wire::HelloReply> Connection::greet(int socket, const wire::Hello& hello, Deadline deadline,
                                           const Interrupted& interrupted, int kick) {
    const std::string said = wire::encoded(wire::Request{kHelloRequest, std::nullopt, hello});
    if (auto sent = wire::send_packet(socket, std::as_bytes(std::span(said)), {}); !sent) {
        return fail(std::move(sent.error()));
    }
    wire::BurstReader reader(1);
    wire::Received received;
    for (;;) {
        using Kind = wire::Received::Kind;
        auto burst = reader.read(socket, 1);
        if (!burst) {
            return fail(std::move(burst.error()));
        }
        if (const Kind kind = burst->front().kind; kind == Kind::Packet || kind == Kind::End) {
            received = std::move(burst->front());
            break;
        }
        pollfd ready[] = {{socket, POLLIN, 0}, {kick, POLLIN, 0}};
        const int count = ::poll(ready, 2, poll_timeout(interrupted ? look_again_before(deadline) : deadline));
        if (count == 0 && deadline && Clock::now() >= *deadline) {
            return fail(Errc::TimedOut, "somebody listens on hurrayd's socket, but does not answer");
        }
        const bool is_interrupted = count <= 0 && interrupted && interrupted();
        if (is_interrupted || (count > 0 && ready[1].revents != 0)) {
            return fail(Errc::Interrupted, "connecting was interrupted");
        }
    }
    if (received.kind == wire::Received::Kind::End) {
        return fail(connection_lost("hurrayd ended the connection without an answer"));
    }
    auto packet = wire::decode_packet(reader.bytes(0), received.fds.size());
    if (!packet) {
        return fail(Errc::Protocol, "what listens there is no hurrayd: " + packet.error().message);
    }
    if (const auto* reply = std::get_if<wire::HelloReply>(&packet->message)) {
        if (log::is_enabled(log::Level::Info)) {
            log_connected(socket, reply->version);
        }
        return *reply;
    }
    if (auto* error = std::get_if<Error>(&packet->message)) {
        return fail(refused(std::move(*error)));
    }
    if (auto* closing = std::get_if<wire::Closing>(&packet->message)) {
        return fail(std::move(closing->error));
    }
    return fail(Errc::Protocol, "what listens there is no hurrayd: its first packet answers nothing");
}

void Connection::set_sink(EventSink* sink) {
    const Lock lock(mutex_);
    sink_ = sink;
}

// ---- Asking ---------------------------------------------------------------------------------------------------------

bool Connection::Call::is_held_up() const noexcept {
    return result && !*result && result->error().code == Errc::Limit && result->error().limit_name == kInFlight;
}

Result<const Connection::Call*> Connection::call_many(std::span<Call* const> calls, OnRefusal on_refusal) {
    HURRAY_DCHECK(!calls.empty());
    if (in_child()) {
        for (Call* call : calls) {
            call->result = fail(forked());
        }
        return nullptr;
    }
    calls = calls.first(std::min(calls.size(), kMostCalls));
    const bool is_told = log::is_enabled(log::Level::Debug);
    std::array<const char*, kMostCalls> names;  // NOLINT(cppcoreguidelines-pro-type-member-init): used if is_told
    for (std::size_t i = 0; is_told && i < calls.size(); ++i) {
        names.at(i) = wire::kRequestNames[calls[i]->message.index()];
        calls[i]->sent_at_ = Clock::now();
    }
    Wait wait(on_refusal);
    {
        Lock lock(mutex_);
        // Those of a batch are alike.
        const CallOptions& options = calls.front()->options;
        if (const auto why = why_no_calls(lock, options.epoch, options.insistent)) {
            for (Call* call : calls) {
                call->result = fail(*why);
                call->is_lost = !end_ && !closed_;
            }
            return nullptr;
        }
        flush_releases(lock);  // what was given back before is seen so by what is asked now
        Registration registration(*this, lock, wait, calls);
        const std::size_t sent = send_first(lock, calls);
        registration.take_back(calls.subspan(sent));
        calls = calls.first(sent);
        for (Call* call : calls) {
            call->was_sent = true;
        }
        if (options.insistent != nullptr) {
            options.insistent->asked_in_ = epoch_;
            lost_.notify_one();
        }
        if (auto waited = wait_for(lock, wait, calls); !waited) {
            return fail(std::move(waited.error()));
        }
    }
    for (std::size_t i = 0; i < calls.size(); ++i) {
        Result<Reply>& result = *calls[i]->result;
        try {
            if (is_told) {
                log_answer(names.at(i), calls[i]->request_id_, *calls[i]->sent_at_, result);
            }
            if (auto* error = result ? std::get_if<Error>(&result->message) : nullptr) {
                result = fail(refused(std::move(*error)));
            }
        } catch (const std::bad_alloc&) {
            if (result && std::holds_alternative<Error>(result->message)) {
                result = fail(Error{Errc::Internal, kOutOfMemory});
            }
        }
    }
    return wait.first_refused;
}

Result<Connection::Reply> Connection::call(wire::RequestMessage message, const CallOptions& options) {
    Call call(std::move(message), options);
    Call* const one = &call;
    if (auto called = call_many(std::span(&one, 1), OnRefusal::GoOn); !called) {
        return fail(std::move(called.error()));
    }
    return std::move(*call.result);
}

void Connection::post(wire::RequestMessage message, std::function<void()> answered) noexcept {
    if (in_child()) {
        return;
    }
    try {
        Lock lock(mutex_);
        if (end_ || state_ == State::Away) {
            return;
        }
        if (state_ == State::Resuming && std::this_thread::get_id() != resumer_id_) {
            // What it is about may have been brought back already.
            deferred_.push_back({std::move(message), std::move(answered)});
            return;
        }
        flush_releases(lock);
        post_now(lock, {std::move(message), std::move(answered)});
    } catch (const std::bad_alloc&) {
        // Nobody waits for it; what it would have tidied up ends with the connection.
    }
}

void Connection::post_now(Lock& held, Posted posted) {
    wire::Request request{++last_request_, std::nullopt, std::move(posted.message)};
    if (posted.answered) {
        posted_.emplace(request.request_id, std::move(posted.answered));
    }
    [[maybe_unused]] const auto sent = send(held, request, {});
}

/// The daemon cuts the connection of who sends more.
Result<void> Connection::check_size(std::size_t size) const {
    const std::size_t most = std::min<std::size_t>(hello_.limits.packet_bytes, wire::kMaxPacketBytes);
    if (size <= most) {
        return {};
    }
    Error error{Errc::Limit,
                "the request has " + std::to_string(size) + " bytes; hurrayd takes at most " + std::to_string(most)};
    error.limit_name = "packet_bytes";
    error.limit = most;
    error.value = size;
    return fail(std::move(error));
}

/// Sends as many of `calls` as the socket takes, and says how many. At least the first: what becomes of that is booked, as is what
/// can't be sent at all.
std::size_t Connection::send_first(Lock& held, std::span<Call* const> calls) {
    const auto append = [this](Call& call) {
        call.request_id_ = ++last_request_;
        wire::append(call.request_id_, call.options.timeout_ms, call.message, encoded_);
    };
    const auto send_one = [&](Call& call) {
        encoded_.clear();
        append(call);
        if (auto sent = send_encoded(held, call.request_id_, call.options.fds); !sent) {
            Result<Reply> result = fail(std::move(sent.error()));
            calls_.remove(&call);
            finish(held, call, std::move(result));
        }
    };
    if (calls.size() == 1 || !outgoing_.empty()) {
        send_one(*calls.front());
        return 1;
    }
    std::size_t done = 0;
    try {
        while (done < calls.size()) {
            encoded_.clear();
            std::array<std::size_t, wire::kMaxRun> ends;  // NOLINT(cppcoreguidelines-pro-type-member-init): counted
            std::size_t length = 0;
            bool is_too_long = false;
            for (; length < wire::kMaxRun && done + length < calls.size(); ++length) {
                const std::size_t begin = encoded_.size();
                append(*calls[done + length]);
                is_too_long = !check_size(encoded_.size() - begin);
                if (is_too_long) {
                    break;
                }
                ends.at(length) = encoded_.size();
            }
            std::array<wire::Parcel, wire::kMaxRun> packets;
            for (std::size_t i = 0, begin = 0; i < length; begin = ends.at(i++)) {
                packets.at(i) = {encoded_.bytes().subspan(begin, ends.at(i) - begin), calls[done + i]->options.fds};
            }
            const auto run = wire::send_packets(socket_.get(), std::span(packets).first(length));
            const std::size_t sent = run ? run->count : 0;
            done += sent;
            if (run && run->what == wire::Sent::Gone) {
                return calls.size();  // the reader will come to the end, after what the daemon had still said
            }
            if (done == 0 || (sent == length && is_too_long)) {
                send_one(*calls[done]);  // says what is wrong with it, or queues it
                ++done;
            } else if (sent < length) {
                break;
            }
        }
    } catch (const std::bad_alloc&) {
        if (done == 0) {
            throw;
        }
        // What is sent must be waited for.
    }
    return done;
}

Result<void> Connection::send(Lock& held, const wire::Request& request, std::span<const int> fds) {
    wire::encode(request, encoded_);
    return send_encoded(held, request.request_id, fds);
}

/// Sends the request that encoded_ holds, or queues it. Nothing was sent if it throws.
Result<void> Connection::send_encoded(Lock& held, std::uint64_t request_id, std::span<const int> fds) {
    if (auto checked = check_size(encoded_.size()); !checked) {
        return checked;
    }
    if (outgoing_.empty()) {
        auto sent = wire::send_packet(socket_.get(), encoded_.bytes(), fds);
        if (!sent) {
            return fail(std::move(sent.error()));
        }
        switch (*sent) {
            case wire::Sent::Done:
                return {};
            case wire::Sent::Gone:
                return {};  // the reader will come to the end, after what the daemon had still said
            case wire::Sent::TooManyInFlight:
                return fail(too_many_in_flight());
            case wire::Sent::WouldBlock:
                break;
        }
    }
    Outgoing waiting{request_id, std::string(encoded_.view()), {}};
    for (const int fd : fds) {
        UniqueFd copy(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
        if (!copy) {
            return fail_call(Errc::Limit, errno, "cannot duplicate a descriptor");
        }
        waiting.fds.push_back(std::move(copy));
    }
    outgoing_.push_back(std::move(waiting));
    if (reading_) {
        set_eventfd(kick_.get());  // the reader waits for writability too, from now on
    }
    update_interest(held);
    return {};
}

void Connection::flush(Lock& held) {
    while (!outgoing_.empty()) {
        const Outgoing& next = outgoing_.front();
        std::vector<int> fds;
        std::transform(next.fds.begin(), next.fds.end(), std::back_inserter(fds),
                       [](const auto& fd) { return fd.get(); });
        const auto sent = wire::send_packet(socket_.get(), std::as_bytes(std::span(next.bytes)), fds);
        if (sent && *sent == wire::Sent::WouldBlock) {
            return;
        }
        if (!sent || *sent == wire::Sent::TooManyInFlight) {
            // Not sent, so it gets no reply: who waits for one is told.
            const auto waiting = std::find_if(calls_.begin(), calls_.end(),
                                              [&](const Call* call) { return call->request_id_ == next.request_id; });
            if (waiting != calls_.end()) {
                Result<Reply> result = fail(sent ? too_many_in_flight() : sent.error());
                Call& call = **waiting;
                calls_.erase(waiting);
                finish(held, call, std::move(result));
            }
        }
        outgoing_.pop_front();
    }
    flush_releases(held);
    update_interest(held);
}

void Connection::flush_releases(Lock& held) {
    while (!releases_.empty() && outgoing_.empty() && !end_ && state_ == State::Up) {
        const std::size_t allowed =
            hello_.limits.unacked_releases - std::min<std::size_t>(hello_.limits.unacked_releases, unacked_leases_);
        const std::size_t count = std::min({releases_.size(), allowed, wire::kMaxReleaseLeases});
        if (count == 0) {
            return;  // the next Done makes room
        }
        const auto last = releases_.begin() + static_cast<std::ptrdiff_t>(count);
        wire::Release release;
        release.leases.reserve(count);
        std::transform(releases_.begin(), last, std::back_inserter(release.leases),
                       [](const Released& each) { return each.lease; });
        const auto unacked = unacked_.emplace(last_request_ + 1, std::vector<Released>(releases_.begin(), last)).first;
        const wire::Request request{++last_request_, std::nullopt, std::move(release)};
        bool is_sent = false;
        try {
            is_sent = send(held, request, {}).has_value();
        } catch (const std::bad_alloc&) {
            unacked_.erase(unacked);  // the next who comes by tries again
            throw;
        }
        unacked_leases_ += count;
        releases_.erase(releases_.begin(), last);
        if (!is_sent) {
            return;  // the connection is about to end, and the leases with it
        }
    }
}

void Connection::lease_opened() noexcept {
    const Lock lock(mutex_);
    ++open_leases_;
}

void Connection::lease_lost() noexcept {
    Lock lock(mutex_);
    --open_leases_;
    if (outlived_and_idle(lock)) {
        wake_pump(lock);
    }
}

void Connection::release(const Released& released) noexcept {
    if (in_child()) {
        return;
    }
    try {
        Lock lock(mutex_);
        --open_leases_;
        if (!end_) {
            releases_.push_back(released);
            if (has_pump_ && unacked_leases_ != 0) {
                wake_pump(lock);
            } else {
                flush_releases(lock);
            }
        }
        if (outlived_and_idle(lock)) {
            wake_pump(lock);
        }
    } catch (const std::bad_alloc&) {
        // Said at the latest by the connection's end.
    }
}

void Connection::abandon(Lock& held, Call& call, std::uint64_t lease) {
    const auto unsent = std::find_if(outgoing_.begin(), outgoing_.end(),
                                     [&](const Outgoing& waiting) { return waiting.request_id == call.request_id_; });
    if (unsent != outgoing_.end()) {
        outgoing_.erase(unsent);
        return;
    }
    abandoned_.emplace(call.request_id_, lease);
    wire::Request cancel{++last_request_, std::nullopt, wire::Cancel{call.request_id_}};
    [[maybe_unused]] const auto sent = send(held, cancel, {});
}

void Connection::close_calls() {
    if (in_child()) {
        return;
    }
    Lock lock(mutex_);
    if (!std::exchange(closed_, true)) {
        closed_at_ = Clock::now();
        if (log::is_enabled(log::Level::Info)) {
            log::write(log::Level::Info, "closed", {{"open_leases", open_leases_}});
        }
    }
    for (Call* call : calls_) {
        if (call->options.insistent == nullptr) {
            abandon(lock, *call, call->options.lease);
        }
    }
    fail_calls(lock, Error{Errc::Closed, "this client was closed"}, WhichCalls::ButInsistent);
    wake_sleepers(lock);
    if (state_ == State::Away) {
        set_eventfd(kick_.get());
        lost_.notify_one();
    }
    wake_pump(lock);
}

// ---- Waiting --------------------------------------------------------------------------------------------------------

Result<void> Connection::wait_for(Lock& lock, Wait& wait, std::span<Call* const> calls) {
    const bool asks = calls.front()->options.interruptible && interrupted_;
    const bool is_insistent = calls.front()->options.insistent != nullptr;
    const bool looks_up = asks || is_insistent;
    const Clock::time_point begin = Clock::now();
    while (wait.unanswered != 0) {
        bool signalled = false;
        if (!reading_) {
            const ReaderTurn turn(*this, lock, false);
            signalled = !read_until_done(lock, wait, looks_up);
        } else {
            wait.sleeping = true;
            lock.unlock();
            signalled = (looks_up ? wait_a_while(wait.turn) : ::sem_wait(&wait.turn)) != 0;
            lock.lock();
            wait.sleeping = false;
        }
        if (wait.unanswered != 0 && is_insistent && closed_ &&
            Clock::now() >= std::max(begin, closed_at_) + kClosedPatience) {
            // Not left alone: what was taken would be held by nobody then, and nobody would be told.
            try {
                end(lock, connection_lost("this client was closed, and hurrayd does not answer"));
            } catch (const std::bad_alloc&) {
                end_out_of_memory(lock);
            }
        }
        if (signalled && wait.unanswered != 0 && asks) {
            // The user's code runs now: it may call the library, and must find the socket served.
            --waiters_;
            if (!reading_) {
                hand_over(lock);
            }
            update_interest(lock);
            lock.unlock();
            const bool stop = interrupted_();
            lock.lock();
            ++waiters_;
            update_interest(lock);
            if (stop) {
                for (Call* call : calls) {
                    if (!call->result) {
                        abandon(lock, *call, call->options.lease);
                    }
                }
                return fail(Errc::Interrupted, "the wait was interrupted");
            }
        }
    }
    return {};
}

/// Reads until all of `wait` is answered; false if a signal came first, or, where it `looks_up`, a pause is over.
bool Connection::read_until_done(Lock& lock, const Wait& wait, bool looks_up) {
    while (wait.unanswered != 0) {
        const short events = static_cast<short>(outgoing_.empty() ? POLLIN : POLLIN | POLLOUT);
        pollfd fds[] = {{socket_.get(), events, 0}, {kick_.get(), POLLIN, 0}};
        lock.unlock();
        const int ready = ::poll(fds, 2, looks_up ? static_cast<int>(kInterruptPause.count()) : -1);
        const bool signalled = ready == 0 || (ready < 0 && errno == EINTR);
        if (ready < 0 && !signalled) {
            // RLIMIT_NOFILE is below two, with which poll() refuses two. So it is looked at now and then.
            std::this_thread::sleep_for(kBlindPause);
            fds[0].revents = events;
            fds[1].revents = POLLIN;
        }
        lock.lock();
        if (signalled) {
            return false;
        }
        if (fds[1].revents != 0) {
            clear_eventfd(kick_.get());
        }
        if ((fds[0].revents & POLLOUT) != 0) {
            try {
                flush(lock);
            } catch (const std::bad_alloc&) {
                end_out_of_memory(lock);  // this call is sent, and whoever leaves it would leave what it is granted
            }
        }
        if ((fds[0].revents & ~POLLOUT) != 0 && wait.unanswered != 0) {
            read_packets(lock, wait.unanswered);
        }
    }
    return true;
}

/// Nobody reads now: if somebody sleeps without a reply, it is that one's turn.
void Connection::hand_over([[maybe_unused]] Lock& held) {
    const auto sleeper =
        std::find_if(calls_.begin(), calls_.end(), [](const Call* call) { return call->wait_->sleeping; });
    if (sleeper != calls_.end()) {
        ::sem_post(&(*sleeper)->wait_->turn);
    }
}

/// `call` is off the books.
void Connection::finish(Lock& held, Call& call, Result<Reply> result) {
    Wait& wait = *std::exchange(call.wait_, nullptr);
    const bool is_refused = result && std::holds_alternative<Error>(result->message);
    call.result.emplace(std::move(result));
    if (is_refused && wait.first_refused == nullptr) {
        wait.first_refused = &call;
        if (wait.on_refusal == OnRefusal::CancelOthers) {
            cancel_others(held, wait);
        }
    }
    if (--wait.unanswered == 0) {
        ::sem_post(&wait.turn);
    }
}

/// Those that may wait. Each is answered all the same.
void Connection::cancel_others(Lock& held, const Wait& wait) {
    for (const Call* call : calls_) {
        if (call->wait_ == &wait && call->options.timeout_ms != 0U) {
            wire::Request cancel{++last_request_, std::nullopt, wire::Cancel{call->request_id_}};
            [[maybe_unused]] const auto sent = send(held, cancel, {});
        }
    }
}

void Connection::fail_calls(Lock& held, const Error& reason, WhichCalls which) {
    for (auto next = calls_.begin(); next != calls_.end();) {
        Call& call = **next;
        if (which == WhichCalls::ButInsistent && call.options.insistent != nullptr) {
            ++next;
            continue;
        }
        Result<Reply> result = fail(reason);
        next = calls_.erase(next);
        finish(held, call, std::move(result));
    }
    if (reading_) {
        set_eventfd(kick_.get());
    }
}

// ---- Reading --------------------------------------------------------------------------------------------------------

/// Reads what is there, at most `most` packets, as the one reader.
void Connection::read_packets(Lock& lock, std::size_t most) {
    using Kind = wire::Received::Kind;
    HURRAY_DCHECK(reading_);
    try {
        lock.unlock();
        auto burst = reader_.read(socket_.get(), std::min(most, reader_.capacity()));
        lock.lock();
        if (!burst) {
            lose(lock, connection_lost("the connection to hurrayd broke: " + burst.error().message));
            return;
        }
        for (std::size_t i = 0; i < burst->size() && !end_ && state_ != State::Away; ++i) {
            switch ((*burst)[i].kind) {
                case Kind::WouldBlock:
                case Kind::Interrupted:
                case Kind::Reset:
                    break;
                case Kind::End:
                    lose(lock, connection_lost(last_words_ ? "hurrayd ended the connection: " + last_words_->message
                                                           : "hurrayd ended the connection"));
                    break;
                case Kind::Packet:
                    handle(lock, reader_.bytes(i), (*burst)[i]);
                    (*burst)[i].fds.clear();  // those that nobody took: the reader would keep them until it reads again
            }
        }
    } catch (const std::bad_alloc&) {
        end_out_of_memory(lock);
    }
}

/// What was received, and the packets that it brings.
void Connection::handle(Lock& lock, std::span<const std::byte> bytes, wire::Received& received) {
    if (received.truncated) {
        break_off(lock, "a packet over the limit");
        return;
    }
    auto brought = wire::more_in(bytes);
    if (!brought) {
        break_off(lock, brought.error().message);
        return;
    }
    const std::vector<std::string_view> more = std::move(*brought);
    handle_one(lock, bytes, received);
    wire::Received alone;
    for (auto next = more.begin(); next != more.end() && !end_ && state_ != State::Away; ++next) {
        const auto packet = std::as_bytes(std::span(*next));
        if (const auto nested = wire::more_in(packet); !nested || !nested->empty()) {
            break_off(lock, "a packet that another one brought is no Packet, or brings more");
            return;
        }
        handle_one(lock, packet, alone);
    }
}

void Connection::break_off(Lock& lock, const std::string& why) {
    end(lock, Error{Errc::Protocol, "hurrayd broke the protocol: " + why});
}

void Connection::handle_one(Lock& lock, std::span<const std::byte> bytes, wire::Received& received) {
    lock.unlock();
    const bool fds_missing = received.fds_missing;
    auto packet = wire::decode_packet(bytes, fds_missing ? wire::kAnyFdCount : received.fds.size());
    lock.lock();
    if (!packet) {
        if (packet.error().code != Errc::Unsupported) {
            break_off(lock, packet.error().message);
        }
        return;  // an event of a newer daemon
    }
    if (packet->request_id == 0) {
        handle_event(lock, std::move(packet->message));
    } else {
        handle_reply(lock, std::move(*packet), std::move(received.fds), fds_missing);
    }
}

void Connection::handle_event(Lock& lock, wire::PacketMessage&& event) {
    if (auto* closing = std::get_if<wire::Closing>(&event)) {
        last_words_ = std::move(closing->error);
        return;
    }
    if (sink_ == nullptr) {
        return;
    }
    std::vector<Notice> notices;
    lock.unlock();
    sink_->on_event(std::move(event), notices);
    lock.lock();
    queue_notices(lock, std::move(notices));
}

void Connection::handle_reply(Lock& lock, wire::Packet&& packet, std::vector<UniqueFd>&& fds, bool fds_missing) {
    const bool granted = std::holds_alternative<wire::AttachReply>(packet.message);
    const auto found = std::find_if(calls_.begin(), calls_.end(),
                                    [&](const Call* call) { return call->request_id_ == packet.request_id; });
    if (found != calls_.end()) {
        Call& call = **found;
        // It stays on the books until it has its result: whoever runs out of memory on the way ends it with the others.
        if (call.options.on_reply) {
            call.options.on_reply(packet.message, fds, fds_missing);
        }
        Result<Reply> result;
        if (fds_missing) {
            // Nothing that came with it is used; the lease goes back, so the same attach again brings them again.
            if (granted) {
                releases_.push_back({call.options.lease, std::get<wire::AttachReply>(packet.message).capsule});
                flush_releases(lock);
            }
            Error error{Errc::Limit,
                        "this process has too few descriptors free for what hurrayd sent; the limit is "
                        "RLIMIT_NOFILE"};
            error.limit_name = "RLIMIT_NOFILE";
            call.lacks_descriptors = true;
            result = fail(std::move(error));
        } else {
            result = Reply{std::move(packet.message), std::move(fds)};
        }
        calls_.erase(found);
        finish(lock, call, std::move(result));
        return;
    }
    if (const auto release = unacked_.find(packet.request_id); release != unacked_.end()) {
        unacked_leases_ -= claimed_.erase(packet.request_id) != 0 ? 0 : release->second.size();
        unacked_.erase(release);
        flush_releases(lock);
        return;
    }
    if (auto posted = posted_.extract(packet.request_id); !posted.empty()) {
        lock.unlock();
        posted.mapped()();
        posted.mapped() = nullptr;  // what it kept alive goes without a lock
        lock.lock();
        return;
    }
    if (const auto late = abandoned_.extract(packet.request_id); !late.empty() && granted) {
        releases_.push_back({late.mapped(), std::get<wire::AttachReply>(packet.message).capsule});
        flush_releases(lock);
        if (sink_ != nullptr) {
            lock.unlock();
            sink_->on_late_grant(std::get<wire::AttachReply>(packet.message), std::move(fds), fds_missing);
            lock.lock();
        }
    }
}

void Connection::end(Lock& lock, Error reason) {
    if (end_) {
        return;
    }
    // So that the daemon knows as well: views may keep the socket open for long, and what is on its way to the daemon still gets there.
    ::shutdown(socket_.get(), SHUT_RDWR);
    end_ = reason;  // first: whatever fails for lack of memory after it, nobody goes on with this connection
    if (log::is_enabled(log::Level::Error)) {
        log::write(log::Level::Error, "connection_ended",
                   {{"status", errc_name(reason.code)}, {"message", reason.message}, {"open_leases", open_leases_}});
    }
    outgoing_.clear();
    releases_.clear();
    if (state_ != State::Away) {
        ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, socket_.get(), nullptr);
    }
    if (sink_ != nullptr) {
        std::vector<Notice> notices;
        lock.unlock();
        sink_->on_end(reason, notices);
        lock.lock();
        queue_notices(lock, std::move(notices));
    }
    end_is_booked_ = true;
    fail_calls(lock, reason);
    wake_sleepers(lock);
    lost_.notify_one();
    wake_pump(lock);  // a waiting dispatch() has to learn of it
}

/// As end(), where an allocation has failed just now, and others may.
void Connection::end_out_of_memory(Lock& lock) noexcept {
    if (!lock.owns_lock()) {
        lock.lock();
    }
    try {
        end(lock, connection_lost(kOutOfMemory));
    } catch (const std::bad_alloc&) {
        // It has got as far as end_. The callbacks that it could not queue stay untold.
        if (!lock.owns_lock()) {
            lock.lock();
        }
    }
    end_is_booked_ = true;
    fail_calls(lock, connection_lost(kOutOfMemory));  // takes no memory; nobody waits any more if end() came so far
    wake_sleepers(lock);
    lost_.notify_one();
    wake_pump(lock);
}

void Connection::update_interest([[maybe_unused]] Lock& held) {
    if (end_ || state_ == State::Away || (pumps_asleep_ == 0 && !poll_fd_is_out_)) {
        return;  // nobody looks; the pump sees to it before it goes to sleep
    }
    std::uint32_t interest = 0;
    if (waiters_ == 0) {
        interest = outgoing_.empty() ? EPOLLIN : EPOLLIN | EPOLLOUT;
    }
    if (interest == interest_) {
        return;
    }
    interest_ = interest;
    epoll_event event{};
    event.events = interest;
    HURRAY_CHECK(::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, socket_.get(), &event) == 0);
}

// ---- The pump -------------------------------------------------------------------------------------------------------

void Connection::queue_notices(Lock& held, std::vector<Notice>&& notices) {
    if (notices.empty()) {
        return;
    }
    try {
        std::move(notices.begin(), notices.end(), std::back_inserter(notices_));
    } catch (const std::bad_alloc&) {
        held.unlock();  // what they kept alive may speak to the connection when it goes
        notices.clear();
        held.lock();
        throw;
    }
    if (has_teller_) {
        untold_.notify_one();
    } else {
        wake_pump(held);
    }
}

void Connection::wake_pump([[maybe_unused]] Lock& held) noexcept {
    if (wake_set_ || (pumps_asleep_ == 0 && !poll_fd_is_out_)) {
        return;  // who is awake looks at everything before it sleeps
    }
    if (!pump_reads_ || end_ || closed_) {  // if it reads, it is awake; these must still be seen by poll_fd
        set_eventfd(wake_.get());
        wake_set_ = true;
    }
}

/// Sleeps until there is something to do, and reads if nobody else does. False if a signal came first.
bool Connection::pump(Lock& lock, Deadline deadline) {
    epoll_event events[2];
    const int timeout = notices_.empty() || has_teller_ ? poll_timeout(deadline) : 0;
    flush_releases(lock);  // who has queued one meanwhile did not wake us
    ++pumps_asleep_;
    update_interest(lock);
    lock.unlock();
    const int ready = ::epoll_wait(epoll_.get(), events, 2, timeout);
    const bool signalled = ready < 0 && errno == EINTR;
    lock.lock();
    --pumps_asleep_;
    if (wake_set_) {
        clear_eventfd(wake_.get());
        wake_set_ = false;
    }
    const bool is_socket_ready = std::any_of(events, events + std::max(ready, 0),
                                             [](const epoll_event& event) { return event.data.u32 != kOnWake; });
    if (is_socket_ready && waiters_ == 0 && !reading_ && !end_ && state_ != State::Away) {
        const ReaderTurn turn(*this, lock, true);
        flush(lock);
        read_packets(lock, kBurst);
    }
    return !signalled;
}

std::size_t Connection::run_notices(Lock& lock) {
    std::size_t told = 0;
    while (!notices_.empty()) {
        Notice notice = std::move(notices_.front());
        notices_.pop_front();
        lock.unlock();
        told += notice() ? 1U : 0U;
        notice = nullptr;  // what it kept alive goes without a lock
        if (in_child()) {
            return told;  // it forked, and this is the child: whose threads held which locks, nobody knows
        }
        lock.lock();
    }
    return told;
}

Result<std::size_t> Connection::dispatch(Deadline deadline) {
    if (in_child()) {
        return fail(forked());
    }
    Lock lock(mutex_);
    const DispatchStay stay(*this, lock);
    bool looked = false;
    for (;;) {
        const std::size_t told = run_notices(lock);
        if (in_child()) {
            return fail(forked());
        }
        if (told > 0) {
            return told;
        }
        if (end_is_booked_) {
            return fail(*end_);
        }
        if (closed_ && looked) {
            return fail(Errc::Closed, "this client was closed");
        }
        // Once closed, what is there already is told, but nothing is waited for.
        const bool last_look = closed_ || (deadline && Clock::now() >= *deadline);
        if (last_look) {
            deadline = Clock::now();
        }
        looked = true;
        const Clock::time_point pause_end = Clock::now() + kInterruptPause;
        const bool is_unsignalled =
            pump(lock, interrupted_ ? std::min(deadline.value_or(pause_end), pause_end) : deadline);
        if (interrupted_ && (!is_unsignalled || Clock::now() >= pause_end)) {
            lock.unlock();
            const bool stop = interrupted_();
            lock.lock();
            if (stop) {
                return fail(Errc::Interrupted, "the wait was interrupted");
            }
        }
        if (last_look && notices_.empty() && !end_is_booked_ && !closed_) {
            return std::size_t{0};
        }
    }
}

bool Connection::outlived_and_idle([[maybe_unused]] Lock& held) const {
    // What was given up and may be granted all the same is waited for: it is to be released, not lost.
    return outlives_client_ &&
           (end_ || (open_leases_ == 0 && releases_.empty() && outgoing_.empty() && abandoned_.empty()));
}

void Connection::run_background_pump() {
    Lock lock(mutex_);
    while (!stop_pump_ && !outlived_and_idle(lock)) {
        try {
            [[maybe_unused]] const bool unsignalled = pump(lock, std::nullopt);
            if (!has_teller_) {
                run_notices(lock);  // of a client that is gone: they only let things go
            }
        } catch (const std::bad_alloc&) {
            end_out_of_memory(lock);
        }
    }
}

void Connection::set_chore(std::chrono::milliseconds period, std::function<bool()> chore) {
    const Lock lock(mutex_);
    chore_period_ = period;
    chore_ = std::move(chore);
}

void Connection::call_for_chore() noexcept {
    const Lock lock(mutex_);
    if (has_teller_ && next_chore_ == Clock::time_point::max()) {
        next_chore_ = Clock::now() + chore_period_;
        untold_.notify_one();
    }
}

void Connection::run_teller() {
    Lock lock(mutex_);
    while (!stop_pump_) {
        const auto is_called = [this] { return stop_pump_ || !notices_.empty(); };
        if (const auto until = next_chore_; until == Clock::time_point::max()) {
            untold_.wait(lock, [&] { return is_called() || next_chore_ != until; });
        } else if (!untold_.wait_until(lock, until, is_called) || Clock::now() >= until) {
            next_chore_ = Clock::time_point::max();
            lock.unlock();
            const bool comes_again = chore_();
            lock.lock();
            if (comes_again) {
                next_chore_ = std::min(next_chore_, Clock::now() + chore_period_);
            }
        }
        run_notices(lock);
        if (in_child()) {
            return;
        }
    }
}

Result<void> Connection::start_background_pump() {
    const SignalsBlocked blocked;
    try {
        {
            const Lock lock(mutex_);
            has_teller_ = true;
        }
        teller_ = std::thread([this] { run_teller(); });
        pump_ = std::thread([this] { run_background_pump(); });
        const Lock lock(mutex_);
        has_pump_ = true;
    } catch (const std::system_error& error) {
        stop_background_pump();
        return fail_os(Errc::Limit, error.code().value(),
                       std::string("cannot start the client's threads: ") + std::strerror(error.code().value()));
    } catch (const std::bad_alloc&) {
        stop_background_pump();
        throw;
    }
    return {};
}

void Connection::stop_background_pump() {
    {
        Lock lock(mutex_);
        stop_pump_ = true;
        untold_.notify_one();
        wake_pump(lock);
    }
    for (std::thread* thread : {&teller_, &pump_}) {
        if (thread->joinable()) {
            thread->join();
        }
    }
    Lock lock(mutex_);
    stop_pump_ = false;
    has_teller_ = false;
    lose_pump(lock);
}

/// From now on nobody sends on his own what is queued.
void Connection::lose_pump(Lock& held) noexcept {
    has_pump_ = false;
    try {
        flush_releases(held);
    } catch (const std::bad_alloc&) {
        // Said at the latest by the connection's end.
    }
}

void Connection::outlive_client(std::shared_ptr<void> owner) {
    std::deque<Notice> untold;  // nobody is left to be told; what they keep alive goes without a lock
    {
        Lock lock(mutex_);
        untold.swap(notices_);
        outlives_client_ = true;
        if (outlived_and_idle(lock)) {
            return;
        }
        has_pump_ = true;
    }
    const SignalsBlocked blocked;
    try {
        std::thread([this, owner = std::move(owner)] { run_background_pump(); }).detach();
    } catch (const std::exception&) {
        // No thread to be had: the contexts own the connection, and send their releases themselves.
        Lock lock(mutex_);
        lose_pump(lock);
    }
}

int Connection::poll_fd() {
    Lock lock(mutex_);
    poll_fd_is_out_ = true;
    update_interest(lock);
    if (!notices_.empty() || end_ || closed_) {
        wake_pump(lock);
    }
    return epoll_.get();
}

bool Connection::has_ended() const {
    const Lock lock(mutex_);
    return end_.has_value();
}

std::size_t Connection::open_leases() const {
    const Lock lock(mutex_);
    return open_leases_;
}

}  // namespace hurray::client
