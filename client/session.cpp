#include "client/session.hpp"

#include <algorithm>
#include <chrono>
#include <new>
#include <span>
#include <unordered_set>
#include <utility>
#include <variant>

#include "client/event.hpp"
#include "client/log.hpp"

namespace hurray::client {

namespace {

/// How long memory that waits is not looked after, at least.
constexpr std::chrono::milliseconds kLeastChorePause{1000};

}  // namespace

Session::Session(const SessionOptions& options, const PoolLimits& pool_limits)
    : options_(options), pool_(std::make_shared<SegmentPool>(pool_limits)), publisher_(pool_) {}

Result<std::shared_ptr<Session>> Session::open(const SessionOptions& options) {
    log::read_environment();
    Interrupted interrupted;
    if (options.interrupted != nullptr) {
        interrupted = [ask = options.interrupted, context = options.context] { return ask(context) != 0; };
    }
    const auto pool_limits = PoolLimits::from_environment();
    if (!pool_limits) {
        return fail(pool_limits.error());
    }
    auto connection =
        Connection::open(find_address(options.address), options.connect_deadline,
                         {options.client_name, options.answer_deadline, options.reconnects, options.reconnect_time},
                         std::move(interrupted));
    if (!connection) {
        return fail(std::move(connection.error()));
    }
    const std::shared_ptr<Session> session(new Session(options, *pool_limits), [](Session* made) {
        if (!made->connection_->in_child()) {
            delete made;
        }
    });
    session->connection_ = std::move(*connection);
    session->pool_->set_books(session);
    session->connection_->set_sink(session.get());
    if (!options.dispatch_by_caller) {
        session->connection_->set_chore(std::max(pool_limits->age, kLeastChorePause),
                                        [pool = session->pool_] { return pool->expire(); });
        if (auto started = session->connection_->start_background_pump(); !started) {
            return fail(std::move(started.error()));
        }
    }
    return session;
}

void Session::close() {
    if (connection_->in_child()) {
        return;
    }
    connection_->close_calls();  // first, so that nothing is published or watched beside what follows
    for (const wire::CapsuleId& capsule : publisher_.to_withdraw()) {
        connection_->post(wire::Withdraw{capsule});
    }
    for (const std::uint64_t watch : watcher_.cancel_all()) {
        connection_->post(wire::Unwatch{watch});
    }
    pool_->close();
}

void Session::retire(std::shared_ptr<Session> session) {
    Connection& connection = *session->connection_;
    if (connection.in_child()) {
        return;
    }
    session->close();
    connection.stop_reconnecting();
    connection.stop_background_pump();
    session->publisher_.clear();
    session->options_.on_event = nullptr;
    connection.outlive_client(session);
}

void Session::on_event(wire::PacketMessage&& event, std::vector<Notice>& notices) {
    if (const auto* lease = std::get_if<wire::LeaseEvent>(&event)) {
        publisher_.on_lease(*lease, notices);
    } else if (const auto* ended = std::get_if<wire::Ended>(&event)) {
        publisher_.on_ended(*ended, connection_->epoch(), notices);
    } else if (const auto* retired = std::get_if<wire::Retired>(&event)) {
        publisher_.on_retired(*retired);
    } else if (auto* watched = std::get_if<wire::Watched>(&event)) {
        watcher_.on_watched(std::move(*watched), notices);
    } else if (const auto* lost = std::get_if<wire::ProducerLost>(&event)) {
        leases_.producer_lost(lost->capsule);
    } else if (const auto* window = std::get_if<wire::WindowClosed>(&event)) {
        publisher_.on_window_closed(*window, notices);
    } else if (const auto* refused = std::get_if<wire::ClaimsRefused>(&event)) {
        leases_.lost(refused->leases);
    } else if (const auto* gone = std::get_if<wire::SegmentsGone>(&event)) {
        // Unmapping takes its time. It is done where nobody waits for it, unless nobody may ever come there.
        if (auto kept = segments_.gone(gone->segments); !kept.empty() && !options_.dispatch_by_caller) {
            notices.push_back([kept = std::move(kept)] { return false; });
        }
    }
}

void Session::on_late_grant(const wire::AttachReply& grant, std::vector<UniqueFd>&& fds, bool fds_missing) {
    (void)segments_.take(grant, fds, fds_missing);  // later grants count on what it brought
    segments_.settle(*connection_);
}

void Session::tell_connection(HurrayStatus status, std::uint32_t flags, std::vector<Notice>& notices) const {
    if (options_.on_event == nullptr) {
        return;
    }
    EventRecord record;
    record.kind = HURRAY_EVENT_CONNECTION;
    record.flags = flags;
    record.status = status;
    notices.push_back([tell = options_.on_event, context = options_.context, record = std::move(record)] {
        record.tell(tell, context);
        return true;
    });
}

/// Segments have other numbers in another life, so what the cache knows is of no use any more.
void Session::forget_segments(std::vector<Notice>& notices) {
    if (auto kept = segments_.clear(); !kept.empty() && !options_.dispatch_by_caller) {
        notices.push_back([kept = std::move(kept)] { return false; });
    }
}

void Session::on_away(const Error&, bool was_up, std::vector<Notice>& notices) {
    forget_segments(notices);
    if (was_up) {
        tell_connection(HURRAY_ERR_CONNECTION_LOST, HURRAY_EVENT_FLAG_AWAY, notices);
    }
}

Result<void> Session::on_back(bool is_same_life, std::vector<Notice>& notices, std::vector<Notice>& once_up) {
    if (is_same_life) {
        // This client was cut off: the daemon has ended all that hung on the connection before, but for what lingers.
        publisher_.on_cut_off(notices);
        leases_.all_lost();
        (void)connection_->take_releases();
    } else if (auto claimed = claim_leases(); !claimed) {
        return claimed;
    }
    if (auto offered = publisher_.offer_again(*connection_, notices); !offered) {
        return offered;
    }
    if (auto watched = watcher_.watch_again(*connection_, notices); !watched) {
        return watched;
    }
    connection_->await_insistent();
    if (!is_same_life) {
        if (const auto done = ask_unheard(wire::ResumeDone{}); !done) {
            return done;
        }
    }
    tell_connection(HURRAY_OK, 0, once_up);
    return {};
}

/// Says which leases of before are held, and which were given back.
Result<void> Session::claim_leases() {
    std::vector<wire::Claims::Claim> held = leases_.held();
    std::vector<Connection::Released> released = connection_->take_releases();  // after that: see ~Lease
    std::unordered_set<std::uint64_t> given_back;
    for (const Connection::Released& each : released) {
        given_back.insert(each.lease);
    }
    connection_->claim_released(std::move(released));
    std::erase_if(held, [&](const wire::Claims::Claim& claim) { return given_back.contains(claim.lease); });
    for (std::size_t first = 0; first < held.size(); first += wire::kMaxClaims) {
        const std::size_t last = std::min(held.size(), first + wire::kMaxClaims);
        wire::Claims claims;
        claims.claims.assign(held.begin() + static_cast<std::ptrdiff_t>(first),
                             held.begin() + static_cast<std::ptrdiff_t>(last));
        if (const auto claimed = ask_unheard(std::move(claims)); !claimed) {
            return claimed;
        }
    }
    return {};
}

/// A request of the resumer's. What the daemon says no to is no reason to give up.
Result<void> Session::ask_unheard(wire::RequestMessage message) {
    Connection::CallOptions options;
    options.interruptible = false;
    const auto reply = connection_->call(std::move(message), options);
    return reply || (reply.error().code != Errc::ConnectionLost && reply.error().code != Errc::Closed)
               ? Result<void>()
               : fail(reply.error());
}

void Session::on_end(const Error&, std::vector<Notice>& notices) {
    publisher_.on_connection_lost(notices);
    forget_segments(notices);
    notices.push_back([pool = pool_] {  // what it holds is of no use to another session
        pool->close();
        return false;
    });
    tell_connection(HURRAY_ERR_CONNECTION_LOST, 0, notices);
}

Result<std::uint64_t> Session::reserve(std::uint64_t reservation, std::uint64_t bytes) {
    // As publishing, no wait: given up half-way it would leave the reservation behind.
    Connection::CallOptions options;
    options.interruptible = false;
    options.epoch = connection_->epoch();
    Connection::Call call(wire::Reserve{reservation, bytes}, options);
    Connection::Call* const one = &call;
    if (auto called = connection_->call_many(std::span(&one, 1), Connection::OnRefusal::GoOn); !called) {
        return fail(std::move(called.error()));
    }
    if (call.is_lost) {
        connection_->call_for_chore();
        return 0;  // memory can be written while the daemon is away
    }
    auto& reply = *call.result;
    if (!reply) {
        if (reply.error().code == Errc::Closed) {
            unreserve(reservation);  // it may be granted all the same
        }
        return fail(std::move(reply.error()));
    }
    if (!std::holds_alternative<wire::Done>(reply->message)) {
        return fail(Errc::Protocol, "hurrayd answered a reserve with something else");
    }
    connection_->call_for_chore();  // what is made now may lie idle one day
    return options.epoch;
}

void Session::unreserve(std::uint64_t reservation) noexcept { connection_->post(wire::Unreserve{reservation}); }

void Session::forget(std::vector<std::uint64_t> segments) noexcept {
    try {
        while (segments.size() > wire::kMaxSegmentNumbers) {
            const auto last = segments.end() - static_cast<std::ptrdiff_t>(wire::kMaxSegmentNumbers);
            connection_->post(wire::Forget{{last, segments.end()}});
            segments.erase(last, segments.end());
        }
    } catch (const std::bad_alloc&) {
        return;  // the daemon keeps them for as long as the connection lives
    }
    connection_->post(wire::Forget{std::move(segments)});
}

}  // namespace hurray::client
