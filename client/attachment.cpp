#include "client/attachment.hpp"

#include <algorithm>
#include <chrono>
#include <deque>
#include <utility>
#include <vector>

#include "client/deadline.hpp"
#include "libhurray/format/descriptor_reader.hpp"
#include "libhurray/format/validate.hpp"
#include "proto/wire/names.hpp"
#include "proto/wire/segment_check.hpp"

namespace hurray::client {

namespace {

/// What was granted is the producer's and the daemon's work: whatever is wrong with it, they broke the protocol.
tl::unexpected<Error> unsound(Error error) {
    if (error.code != Errc::Unsupported) {
        error.code = Errc::Protocol;
        error.message = "what hurrayd granted is not sound: " + error.message;
    }
    return fail(std::move(error));
}

/// Where the buffers lie, once all of it is checked.
Result<std::vector<BufferRange>> find_buffers(const wire::AttachReply& reply, std::span<SegmentCache::Use> segments,
                                              Populate populate) {
    const std::span bytes(reinterpret_cast<const std::uint8_t*>(reply.descriptor.data()), reply.descriptor.size());
    const auto view = decode_descriptor(bytes);
    if (!view) {
        return unsound(to_error(view.error()));
    }
    if (const auto valid = validate_descriptor(*view, ValidationRules::Sharing); !valid) {
        return unsound(to_error(valid.error()));
    }
    std::vector<wire::BufferExtent> extents(view->buffers.size());
    std::vector<BufferRange> ranges(view->buffers.size());
    for (std::size_t i = 0; i < ranges.size(); ++i) {
        const BufferEntry entry = view->buffers[i];
        if (entry.device != DeviceTag::Cpu) {
            return fail(Errc::Unsupported, "buffer " + std::to_string(i) + " is not in CPU memory");
        }
        extents[i] = {entry.byte_size, entry.alignment};
        ranges[i].size = entry.byte_size;
        ranges[i].alignment = entry.alignment;
        ranges[i].memory_class = static_cast<std::uint8_t>(entry.memory_class);
    }
    if (auto checked = wire::check_placements(reply.segments, reply.placements, extents, "attach"); !checked) {
        return unsound(std::move(checked.error()));
    }
    std::vector<std::shared_ptr<const Mapping>> mappings;
    mappings.reserve(segments.size());
    for (SegmentCache::Use& use : segments) {
        auto mapping = use.segment().map(populate);
        if (!mapping) {
            return mapping.error().code == Errc::Limit ? fail(std::move(mapping.error()))
                                                       : unsound(std::move(mapping.error()));
        }
        mappings.push_back(std::move(*mapping));
    }
    for (std::size_t i = 0; i < ranges.size(); ++i) {
        if (ranges[i].size > 0) {
            ranges[i].mapping = mappings[reply.placements[i].segment];
            ranges[i].offset = reply.placements[i].offset;
        }
    }
    return ranges;
}

/// Has hurrayd told of what is dropped on the way, once nothing of it is in use.
class Settling {
  public:
    explicit Settling(Session& session) noexcept : session_(session) {}
    ~Settling() { session_.segments().settle(session_.connection()); }
    Settling(const Settling&) = delete;
    Settling& operator=(const Settling&) = delete;

  private:
    Session& session_;
};

/// One attach on its way. What it was granted is given back unless finish() takes it.
class Attaching {
  public:
    Attaching(const std::shared_ptr<Session>& session, const AttachTerms& terms) : session_(session), terms_(terms) {}
    ~Attaching() { give_back(); }
    Attaching(const Attaching&) = delete;
    Attaching& operator=(const Attaching&) = delete;

    /// Fails: what is wrong with the terms.
    [[nodiscard]] Result<void> check() const {
        const auto* name = std::get_if<std::string>(&terms_.what);
        return name != nullptr ? wire::check_name(*name, "name") : Result<void>();
    }

    /// To be sent now; `waited` of its time is over.
    [[nodiscard]] Connection::Call* ask(std::chrono::milliseconds waited) {
        // First: its number and what it says of the last one seen are of this life of the daemon.
        call_.options.epoch = session_->connection().epoch();
        wire::Attach message;
        message.lease = session_->connection().next_lease_number();
        message.what = terms_.what;
        message.which = terms_.which;
        message.version = terms_.version;
        message.immutable_only = terms_.immutable_only;
        message.allow_unsealed = terms_.allow_unsealed;
        message.take = terms_.take;
        if (const auto* name = std::get_if<std::string>(&terms_.what);
            name != nullptr && !terms_.take && call_.options.epoch > 1) {
            message.last_seen = session_->seen().version_of(*name);
        }
        call_.message = std::move(message);
        call_.options.lease = std::get<wire::Attach>(call_.message).lease;
        call_.options.timeout_ms = terms_.timeout_ms;
        if (terms_.timeout_ms.value_or(0) != 0) {
            // At least 1: 0 would not be answered TimedOut.
            const auto over = static_cast<std::uint64_t>(waited.count());
            call_.options.timeout_ms = *terms_.timeout_ms > over ? *terms_.timeout_ms - over : 1;
        }
        standing_ = std::make_shared<Standing>();
        standing_->number = call_.options.lease;
        call_.options.on_reply = [this](const wire::PacketMessage& answer, std::vector<UniqueFd>& fds,
                                        bool fds_missing) {
            // Before any later packet is read: one may say that the producer is gone, or name the same segments.
            if (const auto* granted = std::get_if<wire::AttachReply>(&answer)) {
                standing_->capsule = granted->capsule;
                standing_->is_confirmed = !terms_.take;
                session_->leases().add(standing_);
                is_booked_ = true;
                segments_ = session_->segments().take(*granted, fds, fds_missing);
            }
        };
        return &call_;
    }
    [[nodiscard]] bool has_result() const noexcept { return call_.result.has_value(); }
    /// Whether the daemon went away, or is away, and the terms allow to wait for it.
    [[nodiscard]] bool is_to_be_asked_again() const noexcept { return call_.is_lost && terms_.timeout_ms != 0U; }
    /// Whether this process had too few descriptors free for what came, with this grant or with one before it.
    [[nodiscard]] bool lacks_descriptors() const noexcept {
        return call_.lacks_descriptors || (!segments_ && segments_.error().limit_name == kNoDescriptors);
    }
    /// Whether finish() failed since this process could not map what was granted.
    [[nodiscard]] bool lacks_address_space() const noexcept { return lacks_address_space_; }

    /// Makes an attachment of the result, which is there.
    [[nodiscard]] Result<Attachment> finish() {
        if (!*call_.result) {
            return fail(std::move(call_.result->error()));
        }
        auto* granted = std::get_if<wire::AttachReply>(&(*call_.result)->message);
        if (granted == nullptr) {
            return fail(Errc::Protocol, "hurrayd answered an attach with something else");
        }
        if (!segments_) {
            return fail(std::move(segments_.error()));
        }
        const bool is_immutable = wire::is_immutable(granted->segments);
        const bool is_unsealed = wire::is_unsealed(granted->segments);
        if ((terms_.immutable_only && !is_immutable) || (!terms_.allow_unsealed && is_unsealed)) {
            return unsound({Errc::Protocol, "its memory is of a kind that was not asked for"});
        }
        auto ranges = find_buffers(*granted, *segments_, terms_.populate);
        if (!ranges) {
            lacks_address_space_ = ranges.error().code == Errc::Limit;
            return fail(std::move(ranges.error()));
        }
        Attachment attachment;
        attachment.version = granted->version;
        attachment.once = terms_.take;
        attachment.access = granted->access;
        attachment.immutable = is_immutable;
        attachment.unsealed = is_unsealed;
        for (const BufferRange& range : *ranges) {
            attachment.byte_size += range.size;
        }
        auto buffers = make_buffer_list(*ranges);
        if (!buffers) {
            return fail(std::move(buffers.error()));
        }
        attachment.buffers = std::move(*buffers);
        if (!terms_.take) {
            session_->seen().note(granted->name, granted->version);
        }
        auto lease = std::make_unique<Lease>(session_, standing_, std::move(granted->name), std::move(*segments_));
        is_booked_ = false;
        is_taken_ = true;
        HurrayTensorContext* context = nullptr;
        if (const HurrayStatus status = hurray_tensor_context_new(
                HURRAY_C_ABI_VERSION, reinterpret_cast<const std::uint8_t*>(granted->descriptor.data()),
                granted->descriptor.size(), lease.get(), Lease::release_owner, &context);
            status != HURRAY_OK) {
            return fail(Error{static_cast<Errc>(status), hurray_last_error_message()});
        }
        attachment.lease = lease.release();
        attachment.context.reset(context);
        return attachment;
    }

  private:
    [[nodiscard]] bool was_granted() const noexcept {
        return call_.result && *call_.result && std::holds_alternative<wire::AttachReply>((*call_.result)->message);
    }
    void give_back() noexcept {
        if (was_granted() && !is_taken_) {
            session_->connection().lease_opened();
            session_->connection().release({standing_->number, standing_->capsule});
        }
        if (std::exchange(is_booked_, false)) {  // after that, as a Lease does
            session_->leases().remove(*standing_);
        }
    }

    static constexpr const char* kNoDescriptors = "RLIMIT_NOFILE";

    const std::shared_ptr<Session>& session_;
    const AttachTerms& terms_;
    Connection::Call call_;
    std::shared_ptr<Standing> standing_;
    Result<std::vector<SegmentCache::Use>> segments_;
    bool is_booked_ = false;
    bool is_taken_ = false;
    bool lacks_address_space_ = false;
};

std::chrono::milliseconds since(Clock::time_point begin) {
    return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin);
}

/// Waits for a grant since `begin`, and maps it.
Result<Attachment> attach_since(Clock::time_point begin, const std::shared_ptr<Session>& session,
                                const AttachTerms& terms) {
    Connection& connection = session->connection();
    for (bool has_made_room = false;;) {
        const Settling settling(*session);  // after all below have let go
        Attaching attaching(session, terms);
        if (auto checked = attaching.check(); !checked) {
            return fail(std::move(checked.error()));
        }
        Connection::Call* const call = attaching.ask(since(begin));
        if (auto called = connection.call_many(std::span(&call, 1), Connection::OnRefusal::GoOn); !called) {
            return fail(std::move(called.error()));
        }
        if (!attaching.is_to_be_asked_again()) {
            auto attachment = attaching.finish();
            if (!attachment && attaching.lacks_address_space() && !std::exchange(has_made_room, true) &&
                session->segments().drop_idle()) {
                continue;  // hurrayd answers in order: what lay idle is unmapped before the next grant comes
            }
            return attachment;
        }
        if (auto back = connection.wait_up(deadline_after(begin, terms.timeout_ms)); !back) {
            return fail(std::move(back.error()));
        }
    }
}

/// Says that what was granted to a take is mapped, and so this client's. False: it is not, and the lease has ended.
///
/// If the daemon dies before it answers, the next one is asked, however long that takes: it may be this client's already, and nobody
/// else would get it. Where that is given up the lease counts as lost: said to be released, it would be taken for done.
Result<bool> confirm(Connection& connection, Standing& standing) {
    wire::RequestMessage message = wire::Confirm{standing.number};
    Connection::Insistent insistent(connection);
    for (bool is_repeated = false;; is_repeated = true) {
        standing.is_lost = false;  // of a lease of a former life ClaimsRefused says so, before the reply
        Connection::CallOptions options;
        options.interruptible = false;
        options.insistent = &insistent;
        options.on_reply = [&standing](const wire::PacketMessage& reply, std::vector<UniqueFd>& /*fds*/,
                                       bool /*missing*/) {
            if (std::holds_alternative<wire::Done>(reply) && !standing.is_lost) {
                standing.is_confirmed =
                    true;  // before the connection is lost again, which would leave it to be repeated
            }
        };
        Connection::Call call(std::move(message), std::move(options));
        Connection::Call* const one = &call;
        if (auto called = connection.call_many(std::span(&one, 1), Connection::OnRefusal::GoOn); !called) {
            return fail(std::move(called.error()));
        }
        if (!call.is_lost) {
            const auto& reply = *call.result;
            const bool is_refused =
                !reply && (reply.error().code == Errc::ProducerLost || reply.error().code == Errc::NotFound);
            if (!reply && !is_refused) {
                standing.is_lost = is_repeated;
                return fail(reply.error());
            }
            if (reply && !std::holds_alternative<wire::Done>(reply->message)) {
                return fail(Errc::Protocol, "hurrayd answered a confirm with something else");
            }
            return standing.is_confirmed.load();
        }
        if (auto back = connection.wait_up(std::nullopt, Connection::Until::InsistentMayAsk); !back) {
            standing.is_lost = true;
            return fail(std::move(back.error()));
        }
        message = wire::Claims{{{standing.capsule, standing.number, wire::Claims::State::Confirmed}}};
    }
}

}  // namespace

Result<Attachment> attach(const std::shared_ptr<Session>& session, const AttachTerms& terms) {
    if (session->connection().in_child()) {
        return fail(forked());
    }
    const auto begin = Clock::now();
    for (;;) {
        auto attachment = attach_since(begin, session, terms);
        if (!attachment || !terms.take) {
            return attachment;
        }
        const auto confirmed = confirm(session->connection(), attachment->lease->standing());
        if (!confirmed) {
            return fail(confirmed.error());
        }
        if (*confirmed) {
            return attachment;
        }
    }
}

ManyResult<std::vector<Attachment>> attach_many(const std::shared_ptr<Session>& session,
                                                std::span<const AttachTerms> terms) {
    if (session->connection().in_child()) {
        return tl::unexpected(ManyError{std::nullopt, forked()});
    }
    std::vector<Attachment> attachments;
    attachments.reserve(terms.size());
    const auto fail_at = [](std::size_t index, Error error) {
        return tl::unexpected(ManyError{index, std::move(error)});
    };
    for (std::size_t i = 0; i < terms.size(); ++i) {
        if (auto checked = Attaching(session, terms[i]).check(); !checked) {
            return fail_at(i, std::move(checked.error()));
        }
    }
    const auto begin = Clock::now();
    // What has come is finished, and its descriptors closed, before more is asked for.
    std::size_t window = Connection::kMostCalls;
    std::optional<std::size_t> made_room_for;
    while (attachments.size() < terms.size()) {
        const Settling settling(*session);  // after all below have let go
        const std::size_t first = attachments.size();
        const auto waited = since(begin);
        std::deque<Attaching> attaching;
        std::vector<Connection::Call*> calls;
        for (std::size_t i = first; i < terms.size() && calls.size() < window; ++i) {
            calls.push_back(attaching.emplace_back(session, terms[i]).ask(waited));
        }
        const auto called = session->connection().call_many(calls, Connection::OnRefusal::CancelOthers);
        if (!called) {
            return tl::unexpected(ManyError{std::nullopt, called.error()});
        }
        if (*called != nullptr) {
            const auto refused = std::find(calls.begin(), calls.end(), *called);
            return fail_at(first + static_cast<std::size_t>(refused - calls.begin()), (*refused)->result->error());
        }
        for (std::size_t i = 0; i < attaching.size() && attaching[i].has_result(); ++i) {
            if (window > 1 && attaching[i].lacks_descriptors()) {
                window /= 2;  // it and those behind it are asked for again, fewer at a time
                break;
            }
            if (attaching[i].is_to_be_asked_again()) {  // likewise, when the daemon is back
                if (auto back = session->connection().wait_up(deadline_after(begin, terms[first + i].timeout_ms));
                    !back) {
                    return fail_at(first + i, std::move(back.error()));
                }
                break;
            }
            auto attachment = attaching[i].finish();
            if (!attachment && attaching[i].lacks_address_space() &&
                std::exchange(made_room_for, first + i) != first + i && session->segments().drop_idle()) {
                break;  // as for a single one
            }
            if (!attachment) {
                return fail_at(first + i, std::move(attachment.error()));
            }
            attachments.push_back(std::move(*attachment));
        }
    }
    return attachments;
}

}  // namespace hurray::client
