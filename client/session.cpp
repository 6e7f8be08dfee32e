#include "client/session.hpp"

#include <new>
#include <utility>
#include <variant>

#include "client/event.hpp"
#include "client/log.hpp"

namespace hurray::client {

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
    auto connection = Connection::open(find_address(options.address), options.connect_deadline,
                                       {options.client_name, options.answer_deadline}, std::move(interrupted));
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
    for (const wire::CapsuleId& capsule : publisher_.attachable()) {
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
    connection.stop_background_pump();
    session->publisher_.clear();
    session->options_.on_event = nullptr;
    connection.outlive_client(session);
}

void Session::on_event(wire::PacketMessage&& event, std::vector<Notice>& notices) {
    if (const auto* lease = std::get_if<wire::LeaseEvent>(&event)) {
        publisher_.on_lease(*lease, notices);
    } else if (const auto* ended = std::get_if<wire::Ended>(&event)) {
        publisher_.on_ended(*ended, notices);
    } else if (const auto* retired = std::get_if<wire::Retired>(&event)) {
        publisher_.on_retired(*retired);
    } else if (auto* watched = std::get_if<wire::Watched>(&event)) {
        watcher_.on_watched(std::move(*watched), notices);
    } else if (const auto* lost = std::get_if<wire::ProducerLost>(&event)) {
        leases_.producer_lost(lost->capsule);
    } else if (const auto* gone = std::get_if<wire::SegmentsGone>(&event)) {
        if (auto kept = segments_.gone(gone->segments); !kept.empty()) {
            notices.push_back([kept = std::move(kept)] { return false; });  // unmapped where nobody waits for it
        }
    }
}

void Session::on_late_grant(const wire::AttachReply& grant, std::vector<UniqueFd>&& fds, bool fds_missing) {
    (void)segments_.take(grant, fds, fds_missing);  // later grants count on what it brought
    segments_.settle(*connection_);
}

void Session::on_end(const Error&, std::vector<Notice>& notices) {
    publisher_.on_connection_lost(notices);
    if (auto kept = segments_.clear(); !kept.empty()) {
        notices.push_back([kept = std::move(kept)] { return false; });
    }
    notices.push_back([pool = pool_] {  // what it holds is of no use to another session
        pool->close();
        return false;
    });
    if (options_.on_event != nullptr) {
        EventRecord record;
        record.kind = HURRAY_EVENT_CONNECTION;
        record.status = HURRAY_ERR_CONNECTION_LOST;
        notices.push_back([tell = options_.on_event, context = options_.context, record = std::move(record)] {
            record.tell(tell, context);
            return true;
        });
    }
}

Result<void> Session::reserve(std::uint64_t reservation, std::uint64_t bytes) {
    // As publishing, no wait: given up half-way it would leave the reservation behind.
    Connection::CallOptions options;
    options.interruptible = false;
    auto reply = connection_->call(wire::Reserve{reservation, bytes}, options);
    if (!reply) {
        if (reply.error().code == Errc::Closed) {
            unreserve(reservation);  // it may be granted all the same
        }
        return fail(std::move(reply.error()));
    }
    if (!std::holds_alternative<wire::Done>(reply->message)) {
        return fail(Errc::Protocol, "hurrayd answered a reserve with something else");
    }
    return {};
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
