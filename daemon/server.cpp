#include "daemon/server.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <map>
#include <utility>

#include <fcntl.h>
#include <malloc.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/log.hpp"
#include "libhurray/base/check.hpp"
#include "libhurray/base/errc_name.hpp"
#include "proto/wire/codec.hpp"

namespace hurrayd {
namespace {

using hurray::Errc;
using hurray::UniqueFd;

/// New clients before those who are here have their turn.
constexpr int kAcceptBatch = 16;
/// With no descriptor left at all, not even the spare one: how long new connections stay in the backlog.
constexpr std::chrono::milliseconds kAcceptPause{100};
/// How far ahead the timer is set at most.
constexpr std::uint64_t kLongestWaitMs = 60 * 60 * 1000;
/// When what ETOOMANYREFS refused is tried again, if its receiver keeps silent. Descriptors come free as soon as somebody
/// reads, which nothing tells us.
constexpr std::chrono::milliseconds kRetryPause{10};
/// How often it is looked who reads nothing, while somebody owes that: a few times in Outbound's patience.
constexpr std::chrono::milliseconds kStalledPause{250};
/// How long it may take until those who keep a segment are told that it is gone: they hold its memory until then.
constexpr std::chrono::milliseconds kGonePause{200};
/// How much less than before is needed when memory is given back to the system, which the C library keeps otherwise, and how long after
/// that: so not while things come and go.
constexpr std::uint64_t kWorthGivingBack = std::uint64_t{4} << 20;
constexpr std::chrono::seconds kGiveBackPause{1};
/// Packets of one session that are read at a time.
constexpr std::size_t kBurst = 16;
/// What a burst sets off is gathered up to here: so many packets are enough for a system call each, and for one wait.
constexpr std::size_t kMostGathered = 256;
/// A connection costs two descriptors; whoever takes one says Hello in this time. Local clients need microseconds.
constexpr std::chrono::seconds kHelloTime{5};

/// Milliseconds of the steady clock, rounded down.
std::uint64_t steady_ms() {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(now).count());
}

/// When the resume window of a life that starts now ends.
std::optional<std::uint64_t> window_end_ms(const ServerLimits& limits) {
    if (limits.resume_window.count() == 0) {
        return std::nullopt;
    }
    return steady_ms() + static_cast<std::uint64_t>(std::chrono::milliseconds(limits.resume_window).count());
}

std::uint64_t realtime_ns() {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

/// In place of a user where the kernel names none: the number that chown takes for nobody.
constexpr auto kNobody = static_cast<std::uint32_t>(-1);

UniqueFd open_spare() { return UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC)); }

/// What an administrator should see is a warning; what is part of an ordinary life can be looked at.
log::Level level_of(const hurray::Error& refusal) {
    switch (refusal.code) {
        case Errc::Limit:
        case Errc::OverQuota:
            return log::Level::Warning;
        case Errc::NotFound:
        case Errc::TimedOut:
        case Errc::Closed:
            return log::Level::Debug;
        default:
            return log::Level::Info;
    }
}

}  // namespace

// ---- The socket -----------------------------------------------------------------------------------------------------

hurray::Result<Server::Endpoint> Server::open_endpoint(const SocketOptions& options) {
    if (auto checked = ListeningFile::check(options.path, "socket.path"); !checked) {
        return tl::unexpected(checked.error());
    }
    const std::size_t slash = options.path.rfind('/');
    if (slash != std::string::npos && slash != 0) {
        const std::string directory = options.path.substr(0, slash);
        if (::mkdir(directory.c_str(), options.directory_mode) == 0) {
            // mkdir obeys the umask, in both directions what is wanted here does not.
            if (::chmod(directory.c_str(), options.directory_mode) != 0) {
                return hurray::fail_call(Errc::Internal, errno, "chmod " + directory);
            }
        } else if (errno != EEXIST) {
            return hurray::fail_call(Errc::Internal, errno, "make the directory " + directory);
        }
    }

    // The lock says whose the path is. Trying to connect first would be a race between two daemons that start at once; the
    // kernel gives the lock back however its holder ends, and the file stays, since removing it would be a race too.
    const std::string lock_path = options.path + ".lock";
    Endpoint endpoint;
    endpoint.lock = UniqueFd(::open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!endpoint.lock) {
        return hurray::fail_call(Errc::Internal, errno, "open " + lock_path);
    }
    if (::flock(endpoint.lock.get(), LOCK_EX | LOCK_NB) != 0) {
        if (errno == EWOULDBLOCK) {
            return hurray::fail(Errc::AlreadyExists, "another hurrayd serves " + options.path);
        }
        return hurray::fail_call(Errc::Internal, errno, "lock " + lock_path);
    }

    auto made = ListeningFile::make(SOCK_SEQPACKET, options, SOMAXCONN, "socket.path");
    if (!made) {
        return tl::unexpected(made.error());
    }
    endpoint.listener = std::move(made->listener);
    endpoint.file = std::move(made->file);
    return endpoint;
}

hurray::Result<std::unique_ptr<Server>> Server::open(asio::io_context& io, const SocketOptions& options,
                                                     const ServerLimits& limits, std::optional<Keeping> keeping) {
    auto endpoint = open_endpoint(options);
    if (!endpoint) {
        return tl::unexpected(endpoint.error());
    }
    return serve(io, std::move(*endpoint), limits, std::move(keeping));
}

hurray::Result<std::unique_ptr<Server>> Server::adopt(asio::io_context& io, UniqueFd listener,
                                                      const ServerLimits& limits, std::optional<Keeping> keeping) {
    Endpoint endpoint;
    endpoint.listener = std::move(listener);
    return serve(io, std::move(endpoint), limits, std::move(keeping));
}

hurray::Result<std::unique_ptr<Server>> Server::serve(asio::io_context& io, Endpoint endpoint,
                                                      const ServerLimits& limits, std::optional<Keeping> keeping) {
    wire::Id16 instance;
    if (::getrandom(instance.bytes.data(), instance.bytes.size(), 0) != static_cast<ssize_t>(instance.bytes.size())) {
        return hurray::fail_call(Errc::Internal, errno, "getrandom");
    }
    const std::size_t handed_over = keeping ? keeping->from_before.size() : 0;
    std::unique_ptr<Server> server(new Server(io, std::move(endpoint), limits, instance, handed_over));
    if (keeping) {
        if (auto started = server->start_keeping(std::move(*keeping)); !started) {
            return tl::unexpected(started.error());
        }
    }
    if (const DescriptorBudget& budget = server->budget_; budget.room_for_packets(0) == 0) {
        log::warning("few_descriptors", {{"limit", budget.limit()},
                                         {"needed", budget.in_use() + DescriptorBudget::kKeptFree},
                                         {"effect", "nothing can be published"}});
    }
    server->wait_accept();
    return server;
}

Server::Server(asio::io_context& io, Endpoint endpoint, const ServerLimits& limits, const wire::Id16& instance,
               std::size_t handed_over)
    : io_(io),
      endpoint_(std::move(endpoint)),
      listener_(io, endpoint_.listener.get()),
      spare_(open_spare()),
      accept_pause_(io),
      deadline_(io),
      retry_(io),
      stalled_(io),
      gone_(io),
      give_back_(io),
      hello_(io),
      processes_(io, [this](SessionNumber number) { on_death(number); }),
      requests_(limits.requests),
      peer_log_(io),
      start_time_(static_cast<double>(realtime_ns()) * 1e-9),
      closer_([this, &io](std::uint64_t ticket) { asio::post(io, [this, ticket] { resume({ticket}); }); }),
      segments_(closer_),
      budget_(segments_, closer_, handed_over),
      registry_(realtime_ns(), limits.quotas, limits.default_mode, window_end_ms(limits)),
      outbound_(segments_, *this, {.unread_fds = limits.unread_descriptors, .all_unread_fds = budget_.limit() / 2}),
      dispatcher_(registry_, segments_, budget_, instance, steady_ms()),
      reader_(kBurst) {
    (void)endpoint_.listener.release();
}

Server::~Server() { stop(); }

/// Before anybody is served: what was kept is there, and what is told from now on is kept first.
hurray::Result<void> Server::start_keeping(Keeping keeping) {
    store::Found found = store::find(std::move(keeping.from_before));
    Recovery before;
    before.has_journal = found.has_journal;
    before.journal = found.journal;
    before.last_segment = found.last_segment;
    std::map<keep::StoredSegment, SegmentNumber> numbers;
    for (store::WholeCapsule& capsule : found.capsules) {
        Publication publication;
        publication.buffer_bytes = capsule.checked.buffer_bytes;
        for (std::size_t i = 0; i < capsule.offer.segments.size(); ++i) {
            const wire::Segment& segment = capsule.offer.segments[i];
            const auto [number, fresh] = numbers.try_emplace(keep::StoredSegment{segment.number});
            if (fresh) {
                number->second = segments_.add(std::move(found.segments.at(number->first)), segment.size);
            }
            publication.brought.push_back({number->second, capsule.checked.files[i]});
        }
        publication.request = std::move(capsule.offer);
        before.capsules.push_back({capsule.id.uid, std::move(publication), capsule.group});
    }
    log::info("recovered", {{"capsules", before.capsules.size()},
                            {"segments", numbers.size()},
                            {"names", before.journal.names.size()},
                            {"journal", found.has_journal ? "found" : "none"},
                            {"removed", found.rest.size()}});
    keeper_ = std::make_unique<store::Keeper>(keeping.manager, segments_,
                                              [this](std::vector<keep::Note>& notes) { registry_.write_notes(notes); });
    registry_.recover(std::move(before), steady_ms(), outbox_);
    if (auto begun = keeper_->begin(found); !begun) {
        return begun;
    }
    deliver();
    if (registry_.next_deadline_ms()) {
        arm_deadline();
    }
    return {};
}

void Server::stop() {
    if (std::exchange(stopped_, true)) {
        return;
    }
    // First the name, so that nobody comes in any more; a file that somebody else put there is not ours to remove.
    endpoint_.file.remove();
    boost::system::error_code ignored;
    listener_.close(ignored);
    accept_pause_.cancel();
    deadline_.cancel();
    retry_.cancel();
    stalled_.cancel();
    gone_.cancel();
    give_back_.cancel();
    hello_.cancel();
    processes_.stop();
    for (const auto& [number, session] : sessions_) {
        outbox_.send({number}, 0, wire::Closing{{Errc::Closed, "hurrayd ends"}});
    }
    deliver();
    for (const auto& [number, session] : sessions_) {
        closer_.close_socket(session->user(), session->close());
        outbound_.remove({number});
    }
    sessions_.clear();
    connections_.clear();
    broken_.clear();
    peer_log_.stop();
}

Server::Held Server::held() const noexcept { return {registry_.totals(), sessions_.size(), segments_.size()}; }

Metrics Server::metrics() const {
    const Outbound::Queued queued = outbound_.queued();
    return {.totals = registry_.totals(),
            .history = registry_.history(),
            .requests = dispatcher_.requests(),
            .traffic = traffic_,
            .connections = sessions_.size(),
            .queued_packets = queued.packets,
            .queued_bytes = queued.bytes,
            .log_lines_suppressed = peer_log_.suppressed(),
            .log_lines_dropped = log::dropped(),
            .open_descriptors = count_open_descriptors(),
            .max_descriptors = max_open_descriptors(),
            .start_time = start_time_,
            .window_left = static_cast<double>(registry_.window_left_ms(steady_ms())) * 1e-3};
}

// ---- Coming in ------------------------------------------------------------------------------------------------------

void Server::wait_accept() {
    listener_.async_wait(Waitable::wait_read, [this](const boost::system::error_code& failed) {
        if (!failed && !stopped_) {
            accept_batch();
        }
    });
}

void Server::accept_batch() {
    for (int i = 0; i < kAcceptBatch; ++i) {
        UniqueFd socket(::accept4(listener_.native_handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
        if (socket) {
            try {
                admit(std::move(socket));
            } catch (const boost::system::system_error& failure) {  // from the event loop, before anything else is done
                peer_log_.write(log::Level::Warning, "accept_failed", kNobody, {{"reason", failure.what()}});
            }
            continue;
        }
        if (errno == EAGAIN) {
            break;
        }
        if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
            turn_away();
            if (!spare_) {
                // Not even the spare one came back. A wait would be over at once, again and again.
                accept_pause_.expires_after(kAcceptPause);
                accept_pause_.async_wait([this](const boost::system::error_code& failed) {
                    if (!failed && !stopped_) {
                        spare_ = open_spare();
                        wait_accept();
                    }
                });
                return;
            }
        }
        // Whatever else: that connection is gone.
    }
    wait_accept();
}

/// No descriptor is left. Left in the backlog the client would wait for ever, and we would spin: so the spare descriptor
/// is given for it, it is told, and the spare one is taken again.
void Server::turn_away() {
    spare_.reset();
    UniqueFd socket(::accept4(listener_.native_handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket) {
        const auto credentials = peer_credentials(socket.get());
        refuse_client(credentials ? credentials->uid : kNobody, std::move(socket), budget_.client_refusal());
    }
    spare_ = open_spare();
}

void Server::refuse_client(std::uint32_t user, UniqueFd socket, hurray::Error error) {
    ++traffic_.turned_away;
    traffic_.count(error);
    peer_log_.write(log::Level::Warning, "client_turned_away", user, {{"reason", error.message}});
    const std::string bytes = wire::encoded(wire::Packet{0, wire::Closing{std::move(error)}});
    (void)wire::send_packet(socket.get(), std::as_bytes(std::span(bytes)), {});
    closer_.close_socket(user, std::move(socket));
}

/// Throws boost::system::system_error, and nobody has come then.
void Server::admit(UniqueFd socket) {
    const auto credentials = peer_credentials(socket.get());
    if (!credentials) {
        closer_.close_socket(0, std::move(socket));
        return;
    }
    std::uint64_t& connections = connections_[credentials->uid];
    if (auto admitted = registry_.quotas().admit(Quota::Clients, credentials->uid, connections); !admitted) {
        refuse_client(credentials->uid, std::move(socket), std::move(admitted.error()));
        return;
    }
    if (!budget_.has_room_for_client()) {
        refuse_client(credentials->uid, std::move(socket), budget_.client_refusal());
        return;
    }
    UniqueFd pidfd = peer_pidfd(socket.get());
    if (!pidfd && (errno == EMFILE || errno == ENFILE)) {
        // Without it the death of this client could stay unseen.
        refuse_client(credentials->uid, std::move(socket), budget_.client_refusal());
        return;
    }
    if (!pidfd && !std::exchange(told_no_pidfd_, true)) {
        log::warning("no_peer_pidfd",
                     {{"reason", std::strerror(errno)},
                      {"effect", "the death of a process shows only when all copies of its socket close"}});
    }
    const SessionNumber number{next_session_++};
    auto session =
        std::make_shared<Session>(io_, static_cast<Session::Owner&>(*this), std::move(socket), std::move(pidfd),
                                  Dispatcher::Peer{number, *credentials, false, {}}, requests_);
    if (session->pidfd() >= 0) {
        processes_.add(session->pidfd(), number);
    }
    ++traffic_.accepted;
    outbound_.add(number, session->socket());
    sessions_.emplace(number.value, session);
    budget_.client_came();
    ++connections;
    // Not read at once: so the end of a connection whose session this one may go on with, which came before it, is looked at first.
    session->start();
    ungreeted_.emplace_back(std::chrono::steady_clock::now(), number);
    if (!hello_armed_) {
        arm_hello();
    }
}

void Server::on_death(SessionNumber number) {
    if (const auto found = sessions_.find(number.value); found != sessions_.end()) {
        const std::shared_ptr<Session> session = found->second;  // it may end on the way
        session->process_died();
    }
}

void Server::arm_hello() {
    hello_armed_ = true;
    hello_.expires_at(ungreeted_.front().first + kHelloTime);
    hello_.async_wait([this](const boost::system::error_code& failed) {
        hello_armed_ = false;
        if (!failed && !stopped_) {
            cut_ungreeted();
        }
    });
}

void Server::cut_ungreeted() {
    const auto now = std::chrono::steady_clock::now();
    while (!ungreeted_.empty() && now - ungreeted_.front().first >= kHelloTime) {
        const SessionNumber number = ungreeted_.front().second;
        ungreeted_.pop_front();
        const auto found = sessions_.find(number.value);
        if (found != sessions_.end() && !found->second->peer().greeted) {
            outbox_.send(number, 0, wire::Closing{{Errc::TimedOut, "no Hello came in time"}});
            deliver();
            end_session(number, "said no Hello in time", true);
        }
    }
    if (!ungreeted_.empty()) {
        arm_hello();
    }
    finish_step();
}

// ---- What comes in --------------------------------------------------------------------------------------------------

void Server::on_packet(Session& session, std::span<const std::byte> packet, wire::Received& received) {
    const SessionNumber number = session.number();
    outbound_.spoke(number);
    const bool was_greeted = session.peer().greeted;
    const std::uint64_t announced = registry_.announced();
    std::optional<std::string> fault;
    // No exception is caught here, std::bad_alloc included: it may leave the registry half changed, with which nobody can be
    // served. It ends the process (main), and whoever started that starts it again.
    if (const auto handled = dispatcher_.handle(session.peer(), packet, received, steady_ms(), outbox_); !handled) {
        fault = handled.error().message;
    }
    if (!was_greeted && session.peer().greeted) {
        peer_log_.write(log::Level::Info, "session_opened", session.peer());
        if (session.peer().keeps_segments) {
            outbound_.keep_segments(number);
        }
        if (session.peer().takes_bundles) {
            outbound_.take_bundles(number);
        }
    }
    if (!received.fds.empty() || received.is_left) {
        close_unused(session, received);
    }
    if (fault) {
        deliver();
        end_session(number, *fault, true);
        return;
    }
    if (registry_.has_snapshots(number)) {
        snapshotting_.insert(number);
    }
    if (registry_.has_announcements() && registry_.announced() != announced && telling_.insert(number).second) {
        session.pause();
    }
    if (outbox_.packets.size() >= kMostGathered) {
        deliver();
    }
}

/// What a burst sets off goes out together, before anybody else's packet is looked at: as little as there is to be sent for each
/// peer, in as few system calls (see Outbound). Nobody can tell it from sending after each packet, since the packets
/// of one session come in an order, and what they set off keeps that order for everybody whom it reaches.
void Server::on_burst_end() {
    deliver();
    finish_step();
}

void Server::on_writable(Session& session) {
    outbound_.writable(session.number());
    finish_step();
}

/// Closes what was not kept of a packet's descriptors. That may take any time, and until then no more comes from that peer
/// than the burst that is here: so nobody piles up more of them than one burst holds.
void Server::close_unused(Session& session, wire::Received& received) {
    const std::uint64_t ticket = session.number().value;
    if (received.is_left) {
        UniqueFd duplicate(::fcntl(session.socket(), F_DUPFD_CLOEXEC, 0));
        if (!duplicate) {
            broken(session.number(), "no file descriptor left to read on with");
            return;
        }
        session.pause();
        closer_.read_away(session.user(), std::move(duplicate), ticket);
        return;
    }
    std::erase_if(received.fds, [](const UniqueFd& fd) { return !fd; });
    if (closer_.close(session.user(), std::move(received.fds), ticket)) {
        session.pause();
    }
}

void Server::resume(SessionNumber number) {
    if (const auto found = sessions_.find(number.value); found != sessions_.end()) {
        const std::shared_ptr<Session> session = found->second;  // it may end on the way
        session->resume();
    }
}

std::size_t Server::room_for_packets(const Session& session) { return budget_.room_for_packets(session.user()); }

void Server::on_throttled(const Session& session) {
    ++traffic_.throttled;
    peer_log_.write(log::Level::Debug, "client_throttled", session.peer(), {{"rate", requests_.per_second}});
}

void Server::on_unused(const Session& session, std::vector<UniqueFd> fds) {
    if (!fds.empty()) {
        closer_.close(session.user(), std::move(fds), 0);
    }
}

void Server::on_end(Session& session, std::string_view reason) {
    end_session(session.number(), reason, false);
    finish_step();
}

/// Sends what the outbox holds, and keeps account of what is refused in it.
void Server::deliver() {
    for (const Outgoing& outgoing : outbox_.packets) {
        if (const auto* error = std::get_if<hurray::Error>(&outgoing.packet.message)) {
            note_refusal(outgoing.to, *error);
        } else if (const auto* closing = std::get_if<wire::Closing>(&outgoing.packet.message)) {
            traffic_.count(closing->error);  // the cut that follows has a line of its own
        }
    }
    keep();
    for (const Outbox::Answering& each : outbox_.answering) {
        answering_[each.publisher.value].push_back(each.capsule);
    }
    outbound_.deliver(outbox_);
    note_answers();
}

/// Does what is to be done before the packets of this step are sent.
void Server::keep() {
    if (keeper_ && (!outbox_.kept.empty() || keeper_->is_behind())) {
        keeper_->keep(outbox_.kept);
        outbox_.kept.clear();
    }
}

/// Tells the registry which publishers have their answers. Who has left won't.
void Server::note_answers() {
    if (answering_.empty()) {
        return;
    }
    std::erase_if(answering_, [this](const auto& each) {
        const auto& [publisher, capsules] = each;
        const auto sent = outbound_.has_sent_all({publisher});
        if (sent == true) {
            for (const wire::CapsuleId& capsule : capsules) {
                registry_.note_answered(capsule, outbox_);
            }
        }
        return sent != false;
    });
    keep();
}

void Server::note_refusal(SessionNumber number, const hurray::Error& error) {
    traffic_.count(error);
    const log::Level level = level_of(error);
    const auto found = sessions_.find(number.value);
    if (found == sessions_.end() || !log::is_enabled(level)) {
        return;
    }
    // Not the message, which may hold a name.
    const Dispatcher::Peer& peer = found->second->peer();
    if (error.limit_name.empty()) {
        peer_log_.write(level, "request_refused", peer,
                        {{"status", hurray::errc_name(error.code)}, {"field", error.field}});
    } else {
        peer_log_.write(level, "request_refused", peer,
                        {{"status", hurray::errc_name(error.code)},
                         {"field", error.field},
                         {"limit_name", error.limit_name},
                         {"limit", error.limit},
                         {"in_use", error.in_use},
                         {"value", error.value}});
    }
}

void Server::want_writable(SessionNumber session) {
    if (const auto found = sessions_.find(session.value); found != sessions_.end()) {
        found->second->want_writable();
    }
}

void Server::broken(SessionNumber session, std::string_view reason) { broken_.emplace_back(session, reason); }

void Server::end_session(SessionNumber number, std::string_view reason, bool is_fault) {
    const auto found = sessions_.find(number.value);
    if (found == sessions_.end()) {
        return;
    }
    const std::shared_ptr<Session> session = std::move(found->second);
    sessions_.erase(found);
    snapshotting_.erase(number);
    telling_.erase(number);
    const Dispatcher::Peer& peer = session->peer();
    if (peer.greeted || is_fault) {
        peer_log_.write(is_fault ? log::Level::Warning : log::Level::Info, is_fault ? "session_cut" : "session_ended",
                        peer, {{"reason", reason}});
    }
    ++(is_fault ? traffic_.cut : traffic_.left);
    // First what waited for it, then what its end sets off: a grant goes out before the news that its producer is lost.
    outbound_.remove(number);
    const bool is_cut_off = !session->has_left();
    closer_.close_socket(session->user(), session->close());
    budget_.client_left();
    if (const auto connections = connections_.find(session->user()); --connections->second == 0) {
        connections_.erase(connections);
    }
    if (peer.greeted) {
        if (const std::size_t leases = registry_.leases_of(number); leases != 0) {
            peer_log_.write(log::Level::Info, "leases_lost", peer, {{"leases", leases}});
        }
        registry_.end_session(number, steady_ms(), outbox_, is_cut_off);
        deliver();
    }
}

void Server::end_broken() {
    while (!broken_.empty()) {
        const auto [number, reason] = std::move(broken_.back());
        broken_.pop_back();
        end_session(number, reason, true);
    }
}

/// What is due after each step, whatever it was.
void Server::finish_step() {
    end_broken();
    note_answers();
    if (!snapshotting_.empty() && !pump_posted_) {
        pump_snapshots();
        end_broken();
    }
    const bool has_rest = registry_.has_endings() || registry_.has_announcements() || registry_.has_window_rest();
    if ((has_rest || !telling_.empty()) && !rest_posted_) {
        post_rest();
    }
    if (outbound_.has_refused() && !retry_armed_) {
        arm_retry();
    }
    if (outbound_.has_owing() && !stalled_armed_) {
        arm_stalled();
    }
    if (outbound_.has_gone() && !gone_armed_) {
        arm_gone();
    }
    most_cost_ = std::max(most_cost_, registry_.cost());
    if (has_too_much() && !give_back_armed_) {
        arm_give_back();
    }
    if (registry_.next_deadline_ms() != armed_deadline_ms_) {
        arm_deadline();
    }
    if (on_step_) {
        on_step_();
    }
}

/// One piece for each session that has read what it was sent; what is left comes after everybody else's turn.
void Server::pump_snapshots() {
    bool more = false;
    for (auto at = snapshotting_.begin(); at != snapshotting_.end();) {
        if (outbound_.idle(*at)) {
            registry_.continue_snapshots(*at, outbox_);
            deliver();
            if (!registry_.has_snapshots(*at)) {
                at = snapshotting_.erase(at);
                continue;
            }
            more = more || outbound_.idle(*at);
        }
        ++at;
    }
    if (more) {
        pump_posted_ = true;
        asio::post(io_, [this] {
            pump_posted_ = false;
            if (!stopped_) {
                finish_step();
            }
        });
    }
}

/// What the end of a session, the commit of a group, or anything under a name that many watch sets off comes in pieces, and everybody else has
/// a turn between two of them; whoever has set off what watchers are still to be told waits for that.
void Server::post_rest() {
    rest_posted_ = true;
    asio::post(io_, [this] {
        rest_posted_ = false;
        if (!stopped_) {
            registry_.continue_announcements(outbox_);
            if (!registry_.has_announcements()) {
                for (const SessionNumber number : std::exchange(telling_, {})) {
                    resume(number);
                }
            }
            registry_.continue_endings(outbox_);
            registry_.continue_window_rest(outbox_);
            deliver();
            finish_step();
        }
    });
}

void Server::arm_deadline() {
    armed_deadline_ms_ = registry_.next_deadline_ms();
    if (!armed_deadline_ms_) {
        deadline_.cancel();
        return;
    }
    // Requests are stamped with the millisecond they came in, rounded down, so one more: nobody is answered too early. And
    // not too far ahead, since a deadline may be beyond the nanoseconds that the clock counts: then it is armed again.
    const std::uint64_t now_ms = steady_ms();
    const std::uint64_t due_ms = std::min(*armed_deadline_ms_, now_ms + kLongestWaitMs) + 1;
    deadline_.expires_at(
        std::chrono::steady_clock::time_point(std::chrono::milliseconds(static_cast<std::int64_t>(due_ms))));
    deadline_.async_wait([this](const boost::system::error_code& failed) {
        if (failed || stopped_) {
            return;
        }
        armed_deadline_ms_.reset();
        registry_.expire(steady_ms() - 1, outbox_);
        deliver();
        finish_step();
    });
}

void Server::arm_retry() {
    retry_armed_ = true;
    retry_.expires_after(kRetryPause);
    retry_.async_wait([this](const boost::system::error_code& failed) {
        retry_armed_ = false;
        if (!failed && !stopped_) {
            outbound_.retry_refused();
            finish_step();
        }
    });
}

void Server::arm_gone() {
    gone_armed_ = true;
    gone_.expires_after(kGonePause);
    gone_.async_wait([this](const boost::system::error_code& failed) {
        gone_armed_ = false;
        if (!failed && !stopped_) {
            outbound_.tell_gone();
            finish_step();
        }
    });
}

/// Whether little is left of what was needed.
bool Server::has_too_much() const noexcept {
    return most_cost_ - registry_.cost() >= std::max(kWorthGivingBack, most_cost_ / 2);
}

void Server::arm_give_back() {
    give_back_armed_ = true;
    give_back_.expires_after(kGiveBackPause);
    give_back_.async_wait([this](const boost::system::error_code& failed) {
        give_back_armed_ = false;
        if (!failed && !stopped_ && has_too_much()) {
            most_cost_ = registry_.cost();
            ::malloc_trim(0);
        }
    });
}

void Server::arm_stalled() {
    stalled_armed_ = true;
    stalled_.expires_after(kStalledPause);
    stalled_.async_wait([this](const boost::system::error_code& failed) {
        stalled_armed_ = false;
        if (!failed && !stopped_) {
            outbound_.cut_stalled(std::chrono::steady_clock::now());
            finish_step();
        }
    });
}

}  // namespace hurrayd
