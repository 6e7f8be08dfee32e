#include "client/publisher.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <deque>
#include <iterator>
#include <list>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include <sys/random.h>

#include "client/deadline.hpp"
#include "client/event.hpp"
#include "client/foreign_memory.hpp"
#include "client/log.hpp"
#include "libhurray/base/errc_name.hpp"
#include "libhurray/format/descriptor_reader.hpp"
#include "libhurray/format/validate.hpp"
#include "proto/wire/access.hpp"
#include "proto/wire/names.hpp"
#include "proto/wire/segment_check.hpp"

namespace hurray::client {

namespace {

/// When the descriptors of all that many clients bring back at once are more than may be on their way: how long it takes until the daemon
/// has read some, about, and for how long that is waited for.
constexpr std::chrono::milliseconds kInFlightPause{10};
constexpr std::chrono::seconds kInFlightPatience{10};

tl::unexpected<Error> misfit(std::size_t index, const char* what, std::uint64_t described, std::uint64_t allocated) {
    return fail_field(Errc::InvalidArgument, "descriptor",
                      "buffer " + std::to_string(index) + " of the descriptor has " + std::to_string(described) + " " +
                          what + ", the allocation's " + std::to_string(allocated));
}

std::string rule_text(const AccessRule& access) {
    return access ? wire::access_text(*access) : "the daemon's default access";
}

Error no_such_group(std::uint64_t group) {
    return {Errc::NotFound, "no group " + std::to_string(group) + " of this client is open"};
}

/// The placements of a descriptor's buffers in the allocation's one segment.
Result<std::vector<wire::Placement>> place(const BufferTable& table, Allocation& allocation) {
    const auto& buffers = allocation.buffers();
    if (table.size() != buffers.size()) {
        return fail_field(Errc::InvalidArgument, "descriptor",
                          "the descriptor has " + std::to_string(table.size()) + " buffers, the allocation " +
                              std::to_string(buffers.size()));
    }
    std::vector<wire::Placement> placements(table.size());
    for (std::size_t i = 0; i < table.size(); ++i) {
        const BufferEntry entry = table[i];
        if (entry.byte_size > buffers[i].size) {
            return misfit(i, "bytes", entry.byte_size, buffers[i].size);
        }
        if (entry.byte_size > 0 && buffers[i].offset % entry.alignment != 0) {
            return misfit(i, "bytes of alignment", entry.alignment, i == 0 ? 4096 : HURRAY_MIN_BUFFER_ALIGNMENT);
        }
        placements[i].offset = buffers[i].offset;
    }
    for (std::size_t i = 0; i < table.size(); ++i) {
        allocation.shorten(i, table[i].byte_size);
    }
    return placements;
}

}  // namespace

std::size_t Publisher::Hash::operator()(const wire::Id16& id) const noexcept {
    std::size_t hash = 0;  // the id is random: any part of it is as good as a hash
    std::memcpy(&hash, id.bytes.data(), sizeof hash);
    return hash;
}

/// From a stock, since each draw from the kernel is a system call on the way to the consumer.
Result<wire::Id16> Publisher::random_id() {
    const std::lock_guard lock(mutex_);
    if (random_left_ == 0) {
        if (::getrandom(random_.data(), sizeof random_, 0) != static_cast<ssize_t>(sizeof random_)) {
            return fail_os(Errc::Internal, errno, "the kernel gives no random bytes");
        }
        random_left_ = random_.size();
    }
    return random_[--random_left_];
}

/// One publish on its way.
class Publisher::Publishing {
  public:
    Publishing(Publisher& publisher, Connection& connection, const ToPublish& what)
        : publisher_(publisher),
          connection_(connection),
          descriptor_(what.descriptor),
          allocation_(what.allocation),
          foreign_(what.foreign),
          terms_(*what.terms) {}
    ~Publishing() {
        if (is_booked_) {  // it was never sent, for want of memory
            unbook();
        }
    }
    Publishing(const Publishing&) = delete;
    Publishing& operator=(const Publishing&) = delete;

    /// Checks all of it, and books it: what the daemon says of it may be read by another thread. To be sent now.
    /// Fails: as publish, without the daemon's part.
    [[nodiscard]] Result<Connection::Call*> ask();
    /// Waits for the daemon and has it published there, for as long as that fails because the daemon is away and the terms allow it.
    void insist();
    [[nodiscard]] bool has_result() const noexcept { return call_.result.has_value(); }
    /// Takes it off the books if it was not published. The result is there.
    [[nodiscard]] Result<Published> finish();

  private:
    [[nodiscard]] Result<void> check() const;
    [[nodiscard]] Result<std::vector<wire::Placement>> take_memory(const BufferTable& table);
    void name_segments(std::uint64_t epoch);
    void note_answer(const wire::PublishReply& answer);
    void unbook() noexcept {
        if (allocation_ != nullptr) {
            allocation_->is_on_its_way = false;
        }
        is_booked_ = false;
        const std::lock_guard lock(publisher_.mutex_);
        publisher_.capsules_.erase(published_.capsule.id);
    }

    Publisher& publisher_;
    Connection& connection_;
    const std::span<const std::uint8_t> descriptor_;
    Allocation* const allocation_;
    const Foreign* const foreign_;  ///< where there is no allocation
    const PublishTerms& terms_;
    const Clock::time_point begin_ = Clock::now();
    Blocks blocks_;  ///< none if it has no byte
    std::vector<int> fds_;
    bool was_sent_before_ = false;  ///< to a daemon that did not answer
    Published published_;
    bool is_booked_ = false;
    Connection::Call call_;
};

Result<void> Publisher::Publishing::check() const {
    if (connection_.in_child()) {
        return fail(forked());
    }
    if (allocation_ != nullptr && allocation_->is_on_its_way) {
        return fail_field(Errc::InvalidArgument, "allocation", "is given twice: it can be published once");
    }
    if (allocation_ != nullptr && allocation_->maybe_published) {
        return fail_field(
            Errc::InvalidArgument, "allocation",
            "the allocation may have been published before the connection ended, so somebody may be reading "
            "it: allocate anew");
    }
    if (allocation_ != nullptr && terms_.access) {
        if (const AccessRule wanted = connection_.access_of(terms_.access); wanted != allocation_->access()) {
            return fail_field(Errc::InvalidArgument, "options->access",
                              "the memory was allocated for " + rule_text(allocation_->access()) +
                                  ", and can't be published with " + rule_text(wanted) +
                                  ": say so when it is allocated");
        }
    }
    return terms_.name.empty() ? Result<void>() : wire::check_name(terms_.name, "name");
}

/// Finds the blocks that it lies in, and says where. What is to be immutable is so when this has succeeded.
Result<std::vector<wire::Placement>> Publisher::Publishing::take_memory(const BufferTable& table) {
    if (foreign_ != nullptr) {
        auto memory = ForeignMemory::take(*publisher_.pool_, foreign_->fds, foreign_->placements, table);
        if (!memory) {
            return fail(std::move(memory.error()));
        }
        blocks_ = std::move(memory->blocks);
        return std::move(memory->placements);
    }
    auto placements = place(table, *allocation_);
    if (!placements) {
        return placements;
    }
    bool holds_bytes = false;
    for (std::size_t i = 0; i < table.size(); ++i) {
        holds_bytes = holds_bytes || table[i].byte_size > 0;
    }
    if (holds_bytes) {
        const ProducerSegment& segment = allocation_->block()->segment();
        if (segment.kind == wire::Memory::Immutable) {
            if (auto sealed = segment.memory->make_immutable(); !sealed) {
                sealed.error().field = "allocation";
                return fail(std::move(sealed.error()));
            }
        }
        blocks_ = {allocation_->block()};
    }
    return placements;
}

Result<Connection::Call*> Publisher::Publishing::ask() {
    if (auto checked = check(); !checked) {
        return fail(std::move(checked.error()));
    }
    const auto view = decode_descriptor(descriptor_);
    if (!view) {
        return fail(to_error(view.error()));
    }
    if (const auto valid = validate_descriptor(*view, ValidationRules::Sharing); !valid) {
        return fail(to_error(valid.error()));
    }
    auto id = publisher_.random_id();
    if (!id) {
        return fail(std::move(id.error()));
    }
    auto placements = take_memory(view->buffers);
    if (!placements) {
        return fail(std::move(placements.error()));
    }
    // In numbers, so that it stays the same if another life of the daemon has another default.
    const AccessRule access = allocation_ != nullptr ? allocation_->access() : connection_.access_of(terms_.access);
    wire::Publish message;
    message.capsule = *id;
    message.name = terms_.name;
    message.descriptor.assign(reinterpret_cast<const char*>(descriptor_.data()), descriptor_.size());
    message.placements = std::move(*placements);
    message.access = access;
    message.group = terms_.group;
    message.retain = terms_.retain;
    message.once = terms_.once;
    message.linger_ms = terms_.linger_ms;

    published_.capsule = {connection_.uid(), *id};
    published_.access = access;
    published_.once = terms_.once;
    published_.lingering = terms_.linger_ms.has_value();
    for (std::size_t i = 0; i < view->buffers.size(); ++i) {
        published_.byte_size += view->buffers[i].byte_size;
    }
    call_.options.interruptible =
        false;  // answered at once; giving up in between would leave it open who owns the memory
    call_.message = std::move(message);
    call_.options.on_reply = [this](const wire::PacketMessage& reply, std::vector<UniqueFd>& /*fds*/,
                                    bool /*missing*/) {
        if (const auto* answer = std::get_if<wire::PublishReply>(&reply)) {
            note_answer(*answer);
        }
    };
    name_segments(connection_.epoch());
    const auto& segments = std::get<wire::Publish>(call_.message).segments;
    published_.immutable = wire::is_immutable(segments);
    published_.unsealed = wire::is_unsealed(segments);
    {
        Capsule capsule;
        capsule.id = published_.capsule;
        capsule.terms = terms_;
        capsule.terms.access = access;
        capsule.byte_size = published_.byte_size;
        capsule.blocks = blocks_;
        capsule.message = std::get<wire::Publish>(call_.message);
        capsule.sent_in = call_.options.epoch;
        const std::lock_guard lock(publisher_.mutex_);
        publisher_.capsules_.emplace(*id, std::move(capsule));
    }
    is_booked_ = true;
    if (allocation_ != nullptr) {
        allocation_->is_on_its_way = true;
    }
    return &call_;
}

/// Says which segments it lies in, for the daemon of that epoch.
void Publisher::Publishing::name_segments(std::uint64_t epoch) {
    call_.options.epoch = epoch;
    auto& segments = std::get<wire::Publish>(call_.message).segments;
    segments.clear();
    fds_.clear();
    for (const auto& block : blocks_) {
        // Whose first publish is without its answer yet is brought by others as well: the daemon sees that it is one file.
        const ProducerSegment& segment = block->segment();
        const bool is_known = segment.known_in == epoch;
        const bool is_reserved = !is_known && segment.reserved_in == epoch;
        segments.push_back(
            {segment.number, !is_known, segment.kind, segment.size(), is_reserved ? segment.reservation : 0});
        if (!is_known) {
            fds_.push_back(segment.fd());
        }
    }
    call_.options.fds = fds_;
}

void Publisher::Publishing::insist() {
    while (call_.is_lost && terms_.group == 0) {
        was_sent_before_ = was_sent_before_ || call_.was_sent;
        // What was sent may have been published, so it is sent again however long that takes.
        Deadline deadline;
        if (!was_sent_before_) {
            deadline = deadline_after(begin_, terms_.timeout_ms);
        }
        if (auto back = connection_.wait_up(deadline); !back) {
            call_.result = fail(std::move(back.error()));
            return;
        }
        call_.result.reset();
        call_.was_sent = call_.is_lost = false;
        name_segments(connection_.epoch());
        Connection::Call* const call = &call_;
        if (auto called = connection_.call_many(std::span(&call, 1), Connection::OnRefusal::GoOn); !called) {
            call_.result = fail(std::move(called.error()));
        }
    }
}

/// On the thread that reads, before anything of the capsule's end is read.
void Publisher::Publishing::note_answer(const wire::PublishReply& answer) {
    for (const auto& block : blocks_) {
        block->segment().known_in = call_.options.epoch;
    }
    const wire::Id16& id = published_.capsule.id;
    const std::lock_guard lock(publisher_.mutex_);
    if (const auto found = publisher_.capsules_.find(id); found != publisher_.capsules_.end()) {
        found->second.answered = true;
        found->second.version = answer.version;
    }
    if (const auto group = publisher_.groups_.find(terms_.group); group != publisher_.groups_.end()) {
        group->second.push_back(id);
    }
}

Result<Publisher::Published> Publisher::Publishing::finish() {
    Result<Connection::Reply>& reply = *call_.result;
    if (const auto* answer = reply ? std::get_if<wire::PublishReply>(&reply->message) : nullptr) {
        is_booked_ = false;
        published_.version = answer->version;
        return published_;
    }
    unbook();
    if (reply) {
        return fail(Errc::Protocol, "hurrayd answered a publish with something else");
    }
    const Errc why = reply.error().code;
    const bool maybe_published =
        was_sent_before_ || (call_.was_sent && (why == Errc::ConnectionLost || why == Errc::Closed));
    if (allocation_ != nullptr) {
        allocation_->maybe_published = maybe_published;
    }
    if (maybe_published) {
        for (const auto& block : blocks_) {
            block->spoil();
        }
        connection_.post(wire::Withdraw{published_.capsule});  // close() knows nothing of it any more
    }
    return fail(std::move(reply.error()));
}

Result<Publisher::Published> Publisher::publish(Connection& connection, std::span<const std::uint8_t> descriptor,
                                                Allocation& allocation, const PublishTerms& terms) {
    return publish(connection, {descriptor, &allocation, &terms});
}

Result<Publisher::Published> Publisher::publish(Connection& connection, std::span<const std::uint8_t> descriptor,
                                                const Foreign& foreign, const PublishTerms& terms) {
    return publish(connection, {descriptor, nullptr, &terms, &foreign});
}

Result<Publisher::Published> Publisher::publish(Connection& connection, const ToPublish& what) {
    Publishing publishing(*this, connection, what);
    const auto call = publishing.ask();
    if (!call) {
        return fail(call.error());
    }
    if (auto called = connection.call_many(std::span(&*call, 1), Connection::OnRefusal::GoOn); !called) {
        return fail(std::move(called.error()));
    }
    publishing.insist();
    return publishing.finish();
}

void Publisher::publish_many(Connection& connection, std::span<const ToPublish> items,
                             const std::function<void(std::size_t, Result<Published>&&)>& done) {
    std::size_t next = 0;
    while (next < items.size()) {
        std::deque<std::pair<std::size_t, Publishing>> window;
        std::vector<Connection::Call*> calls;
        for (; next < items.size() && calls.size() < Connection::kMostCalls; ++next) {
            auto& [index, publishing] = window.emplace_back(std::piecewise_construct, std::forward_as_tuple(next),
                                                            std::forward_as_tuple(*this, connection, items[next]));
            if (auto call = publishing.ask()) {
                calls.push_back(*call);
            } else {
                window.pop_back();
                done(next, fail(std::move(call.error())));
            }
        }
        while (!window.empty()) {
            const auto called = connection.call_many(calls, Connection::OnRefusal::GoOn);
            std::size_t answered = 0;
            for (; !window.empty() && (!called || window.front().second.has_result()); ++answered) {
                auto& [index, publishing] = window.front();
                if (called) {
                    publishing.insist();
                }
                done(index, called ? publishing.finish() : fail(called.error()));
                window.pop_front();
            }
            calls.erase(calls.begin(), calls.begin() + static_cast<std::ptrdiff_t>(answered));
        }
    }
}

Result<std::uint64_t> Publisher::begin_group(Connection& connection) {
    if (connection.in_child()) {
        return fail(forked());
    }
    std::uint64_t number = 0;
    {
        const std::lock_guard lock(mutex_);
        number = ++last_group_;
    }
    Connection::CallOptions options;
    options.interruptible = false;
    const auto reply = connection.call(wire::Group{number, wire::Group::Action::Begin}, options);
    if (!reply) {
        return fail(reply.error());
    }
    if (!std::holds_alternative<wire::GroupReply>(reply->message)) {
        return fail(Errc::Protocol, "hurrayd answered the beginning of a group with something else");
    }
    const std::lock_guard lock(mutex_);
    groups_.try_emplace(number);
    return number;
}

Result<void> Publisher::commit_group(Connection& connection, std::uint64_t group) {
    if (connection.in_child()) {
        return fail(forked());
    }
    bool was_open = true;
    bool all_known = false;
    Connection::CallOptions options;
    options.interruptible = false;  // as a publish
    options.on_reply = [&, this](const wire::PacketMessage& reply, std::vector<UniqueFd>& /*fds*/, bool /*missing*/) {
        const auto* answer = std::get_if<wire::GroupReply>(&reply);
        const std::lock_guard lock(mutex_);
        const auto staged = groups_.find(group);
        was_open = staged != groups_.end();
        if (answer == nullptr || !was_open || staged->second.size() != answer->versions.size()) {
            return;
        }
        all_known = true;
        for (std::size_t i = 0; i < answer->versions.size(); ++i) {
            if (const auto found = capsules_.find(staged->second[i]); found != capsules_.end()) {
                found->second.version = answer->versions[i];
            }
        }
        groups_.erase(staged);
    };
    const auto reply = connection.call(wire::Group{group, wire::Group::Action::Commit}, options);
    if (!reply) {
        return fail(reply.error());
    }
    if (!was_open) {  // the daemon repeats its answer to the last one that has ended
        return fail(no_such_group(group));
    }
    if (!all_known) {
        return fail(Errc::Protocol,
                    "hurrayd answered the commit of a group with something else than its members' versions");
    }
    return {};
}

Result<void> Publisher::abort_group(Connection& connection, std::uint64_t group) {
    if (connection.in_child()) {
        return fail(forked());
    }
    bool was_open = false;
    {
        const std::lock_guard lock(mutex_);
        was_open = groups_.erase(group) != 0;  // its members end one by one as the daemon says so
    }
    Connection::CallOptions options;
    options.interruptible = false;
    const auto reply = connection.call(wire::Group{group, wire::Group::Action::Abort}, options);
    if (!reply) {
        return fail(reply.error());
    }
    return was_open ? Result<void>() : fail(no_such_group(group));
}

Result<Publisher::Published> Publisher::find(const wire::CapsuleId& capsule) {
    const std::lock_guard lock(mutex_);
    const auto found = capsules_.find(capsule.id);
    if (found == capsules_.end() || !found->second.answered || found->second.id != capsule) {
        return fail(Errc::NotFound, "this client has published no such capsule, or it has ended");
    }
    const Capsule& known = found->second;
    return Published{known.id,
                     known.version,
                     known.byte_size,
                     known.terms.access,
                     known.open.size(),
                     known.retired,
                     wire::is_immutable(known.message.segments),
                     wire::is_unsealed(known.message.segments),
                     known.terms.once,
                     known.terms.linger_ms.has_value()};
}

void Publisher::on_lease(const wire::LeaseEvent& event, std::vector<Notice>& notices) {
    using What = wire::LeaseEvent::What;
    const std::lock_guard lock(mutex_);
    const auto found = capsules_.find(event.capsule.id);
    if (found == capsules_.end() || found->second.version == 0) {
        return;  // its publish is answered first; if it never is, nobody may be called
    }
    Capsule& capsule = found->second;
    EventRecord record{HURRAY_EVENT_LEASE_OPENED, 0, HURRAY_OK, capsule.id, capsule.version, 0, capsule.terms.name};
    if (event.what == What::Opened) {
        if (!capsule.open.insert(event.lease).second || !capsule.terms.tell_opened) {
            return;
        }
    } else if (event.what == What::Taken) {  // it stays open: what it held is its taker's now
        if (std::exchange(capsule.taken_by, event.lease) == event.lease) {
            return;  // told already
        }
        capsule.retired = true;
        record.kind = HURRAY_EVENT_LEASE_TAKEN;
    } else {
        if (capsule.open.erase(event.lease) == 0) {
            return;  // told already
        }
        record.kind = event.what == What::Released ? HURRAY_EVENT_LEASE_RELEASED : HURRAY_EVENT_LEASE_LOST;
    }
    record.remaining = capsule.open.size();
    if (capsule.terms.on_event != nullptr) {
        notices.push_back([tell = capsule.terms.on_event, context = capsule.terms.context, record = std::move(record)] {
            record.tell(tell, context);
            return true;
        });
    }
}

void Publisher::on_retired(const wire::Retired& event) { (void)set_retired(event.capsule, true); }

/// Whether it is one of this session's.
bool Publisher::set_retired(const wire::CapsuleId& capsule, bool retired) {
    const std::lock_guard lock(mutex_);
    const auto found = capsules_.find(capsule.id);
    if (found == capsules_.end() || found->second.id != capsule) {
        return false;
    }
    found->second.retired = retired;
    return true;
}

bool Publisher::lingers(const wire::CapsuleId& capsule) {
    const std::lock_guard lock(mutex_);
    const auto found = capsules_.find(capsule.id);
    return found != capsules_.end() && found->second.id == capsule && found->second.terms.linger_ms.has_value();
}

Result<void> Publisher::withdraw(Connection& connection, const wire::CapsuleId& capsule) {
    if (connection.in_child()) {
        return fail(forked());
    }
    const bool is_own = set_retired(capsule, true);  // before it is sent: the daemon may go away before it answers
    Connection::Call call(wire::Withdraw{capsule}, {});
    Connection::Call* const one = &call;
    if (auto called = connection.call_many(std::span(&one, 1), Connection::OnRefusal::GoOn); !called) {
        return fail(std::move(called.error()));
    }
    if (*call.result) {
        return {};
    }
    if (call.is_lost && is_own) {
        // In case that it is being offered again just now, as one that is there.
        connection.post(wire::Withdraw{capsule});
        if (lingers(capsule)) {  // it is still stored, and this client may be gone before the daemon is back
            return fail(std::move(call.result->error()));
        }
        return {};
    }
    if (is_own && !call.was_sent) {
        (void)set_retired(capsule, false);
    }
    return fail(std::move(call.result->error()));
}

/// One that is open is lost now.
void Publisher::close(Capsule& capsule, const wire::LeaseId& lease, std::vector<Notice>& notices) {
    capsule.open.erase(lease);
    if (capsule.terms.on_event == nullptr) {
        return;
    }
    EventRecord record{HURRAY_EVENT_LEASE_LOST, 0, HURRAY_OK, capsule.id, capsule.version, capsule.open.size(),
                       capsule.terms.name};
    notices.push_back([tell = capsule.terms.on_event, context = capsule.terms.context, record = std::move(record)] {
        record.tell(tell, context);
        return true;
    });
}

/// Whatever is still open is lost now.
void Publisher::close_all(Capsule& capsule, std::vector<Notice>& notices) {
    while (!capsule.open.empty()) {
        close(capsule, wire::LeaseId(*capsule.open.begin()), notices);
    }
}

/// What the user is to be told. Memory that can be used again goes back to its pool at once: its next capsule must not wait until the user
/// has been told of this one, which may take any time. Else it is unmapped after that, and not by the reader.
void Publisher::end(Capsule&& capsule, bool reusable, std::vector<Notice>& notices) {
    Blocks blocks = std::move(capsule.blocks);
    if (!reusable) {
        for (const auto& block : blocks) {
            block->spoil();
        }
    }
    std::shared_ptr<SegmentPool> swept;
    if (reusable) {
        for (const auto& block : blocks) {
            block->end_quietly();
        }
        const bool had_some = !blocks.empty();
        blocks.clear();
        swept = had_some && pool_->needs_sweep() ? pool_ : nullptr;
    }
    const HurrayEventFn tell = capsule.terms.on_event;
    if (tell == nullptr) {
        if (!blocks.empty() || swept != nullptr) {
            notices.push_back([swept = std::move(swept), blocks = std::move(blocks)] {
                if (swept != nullptr) {
                    swept->sweep();
                }
                return false;
            });
        }
        return;
    }
    EventRecord record{HURRAY_EVENT_ENDED,
                       reusable ? HURRAY_EVENT_FLAG_REUSABLE : 0,
                       HURRAY_OK,
                       capsule.id,
                       capsule.version,
                       0,
                       std::move(capsule.terms.name)};
    notices.push_back([tell, context = capsule.terms.context, record = std::move(record), swept = std::move(swept),
                       blocks = std::move(blocks)] {
        if (swept != nullptr) {
            swept->sweep();
        }
        record.tell(tell, context);
        return true;
    });
}

/// Leases of before that nobody has claimed are lost.
void Publisher::on_window_closed(const wire::WindowClosed& event, std::vector<Notice>& notices) {
    const std::lock_guard lock(mutex_);
    const auto found = capsules_.find(event.capsule.id);
    if (found == capsules_.end()) {
        return;
    }
    Capsule& capsule = found->second;
    capsule.confirmed.insert(event.open.begin(), event.open.end());
    if (event.more) {
        return;
    }
    const auto confirmed = std::exchange(capsule.confirmed, {});
    std::vector<wire::LeaseId> lost;
    std::set_difference(capsule.open.begin(), capsule.open.end(), confirmed.begin(), confirmed.end(),
                        std::back_inserter(lost));
    capsule.lost_some = capsule.lost_some || !lost.empty();
    for (const wire::LeaseId& lease : lost) {
        close(capsule, lease, notices);
    }
}

/// A capsule that is offered to the daemon of another life.
class Publisher::Offering {
  public:
    Offering(const Capsule& capsule, std::uint64_t epoch) : blocks_(capsule.blocks) {
        wire::Publish message = capsule.message;
        message.version = capsule.version;
        message.retired = capsule.retired;
        message.taken_by = capsule.taken_by;
        message.group = 0;
        for (wire::Segment& segment : message.segments) {
            segment.carries_fd = true;
            segment.reservation = 0;
        }
        std::transform(blocks_.begin(), blocks_.end(), std::back_inserter(fds_),
                       [](const auto& block) { return block->segment().fd(); });
        call.message = std::move(message);
        call.options.interruptible = false;
        call.options.epoch = epoch;
        call.options.fds = fds_;
        call.options.on_reply = [this, epoch](const wire::PacketMessage& reply, std::vector<UniqueFd>&, bool) {
            if (std::holds_alternative<wire::PublishReply>(reply)) {
                for (const auto& block : blocks_) {
                    block->segment().known_in = epoch;
                }
            }
        };
    }
    Offering(const Offering&) = delete;
    Offering& operator=(const Offering&) = delete;
    ~Offering() = default;

    [[nodiscard]] const wire::Publish& message() const { return std::get<wire::Publish>(call.message); }

    Connection::Call call;

  private:
    const Blocks blocks_;
    std::vector<int> fds_;
};

Result<void> Publisher::offer_again(Connection& connection, std::vector<Notice>& notices) {
    std::vector<wire::Id16> staged;
    std::vector<std::pair<std::uint64_t, wire::Id16>> offers;  // by version, so that the newest comes last
    {
        const std::lock_guard lock(mutex_);
        groups_.clear();
        for (const auto& [id, capsule] : capsules_) {
            if (!capsule.answered) {
                continue;  // whoever waits for the answer sends it again
            }
            if (capsule.version == 0) {
                staged.push_back(id);  // its group is gone, or was committed and nobody said with which versions
            } else {
                offers.emplace_back(capsule.version, id);
            }
        }
    }
    for (const wire::Id16& id : staged) {
        if (const wire::CapsuleId capsule{connection.uid(), id}; lingers(capsule)) {
            connection.post(wire::Withdraw{capsule});  // if it was committed, the daemon has it
        }
        end_refused(id, notices);
    }
    std::sort(offers.begin(), offers.end());
    const std::uint64_t epoch = connection.epoch();
    const Clock::time_point patience = Clock::now() + kInFlightPatience;
    for (auto next = offers.cbegin(); next != offers.cend();) {
        std::list<Offering> window;
        for (; next != offers.cend() && window.size() < Connection::kMostCalls; ++next) {
            const std::lock_guard lock(mutex_);
            if (const auto found = capsules_.find(next->second); found != capsules_.end()) {
                found->second.confirmed.clear();  // by a list that the daemon did not live to finish
                window.emplace_back(found->second, epoch);
            }
        }
        while (!window.empty()) {
            std::vector<Connection::Call*> calls;
            std::transform(window.begin(), window.end(), std::back_inserter(calls),
                           [](Offering& offering) { return &offering.call; });
            const auto called = connection.call_many(calls, Connection::OnRefusal::GoOn);
            if (!called) {
                return fail(called.error());
            }
            bool is_held_up = false;
            for (auto offering = window.begin(); offering != window.end() && offering->call.result;) {
                if (offering->call.is_held_up() && Clock::now() < patience) {
                    is_held_up = true;
                    offering->call.result.reset();
                    ++offering;
                    continue;
                }
                const Result<Connection::Reply>& reply = *offering->call.result;
                if (!reply && (reply.error().code == Errc::ConnectionLost || connection.has_ended())) {
                    return fail(reply.error());
                }
                if (!reply) {
                    tell_refused(*offering, reply.error(), notices);
                }
                offering = window.erase(offering);
            }
            if (is_held_up) {
                std::this_thread::sleep_for(kInFlightPause);
            }
        }
    }
    return {};
}

void Publisher::tell_refused(const Offering& offering, const Error& why, std::vector<Notice>& notices) {
    if (log::is_enabled(log::Level::Warning)) {
        log::write(
            log::Level::Warning, "offer_refused",
            {{"version", offering.message().version}, {"status", errc_name(why.code)}, {"message", why.message}});
    }
    end_refused(offering.message().capsule, notices);
}

/// The daemon of this life does not know it, and won't: whoever has it may go on reading.
void Publisher::end_refused(const wire::Id16& id, std::vector<Notice>& notices) {
    Capsules::node_type node;
    {
        const std::lock_guard lock(mutex_);
        node = capsules_.extract(id);
    }
    if (!node.empty()) {
        close_all(node.mapped(), notices);
        end(std::move(node.mapped()), false, notices);
    }
}

void Publisher::on_ended(const wire::Ended& event, std::uint64_t epoch, std::vector<Notice>& notices) {
    Capsules::node_type node;
    {
        const std::lock_guard lock(mutex_);
        const auto found = capsules_.find(event.capsule.id);
        if (found == capsules_.end() || !found->second.answered) {
            return;
        }
        node = capsules_.extract(found);
        if (const auto group = groups_.find(node.mapped().terms.group); group != groups_.end()) {
            std::erase(group->second, event.capsule.id);  // withdrawn while it was staged
        }
    }
    // An earlier life may have granted what nobody has claimed: a consumer that was stopped meanwhile may still be reading.
    const bool is_ours_alone = node.mapped().open.empty() && !node.mapped().lost_some && node.mapped().sent_in == epoch;
    close_all(node.mapped(), notices);
    end(std::move(node.mapped()), event.reusable && is_ours_alone, notices);
}

void Publisher::on_connection_lost(std::vector<Notice>& notices) { end_all(false, notices); }

void Publisher::on_cut_off(std::vector<Notice>& notices) { end_all(true, notices); }

void Publisher::end_all(bool but_lingering, std::vector<Notice>& notices) {
    Capsules ended;
    {
        const std::lock_guard lock(mutex_);
        groups_.clear();
        for (auto next = capsules_.begin(); next != capsules_.end();) {
            const auto capsule = next++;
            const Capsule& known = capsule->second;
            const bool lingers = but_lingering && known.terms.linger_ms;
            if (known.answered && !lingers) {  // else its publish was not answered: the one who waits for it is told
                ended.insert(capsules_.extract(capsule));
            }
        }
    }
    for (auto& [id, capsule] : ended) {
        close_all(capsule, notices);
        end(std::move(capsule), false, notices);
    }
}

std::vector<wire::CapsuleId> Publisher::to_withdraw() {
    const std::lock_guard lock(mutex_);
    std::vector<wire::CapsuleId> ids;
    for (const auto& [id, capsule] : capsules_) {
        // Of one that lingers and has no version a commit may be on its way, which nobody hears of any more.
        if (!capsule.retired && (!capsule.terms.linger_ms || capsule.version == 0)) {
            ids.push_back(capsule.id);
        }
    }
    return ids;
}

void Publisher::clear() {
    Capsules forgotten;  // their memory goes without the lock
    const std::lock_guard lock(mutex_);
    forgotten.swap(capsules_);
    groups_.clear();
}

std::pair<std::size_t, std::uint64_t> Publisher::totals() {
    const std::lock_guard lock(mutex_);
    std::uint64_t bytes = 0;
    for (const auto& [id, capsule] : capsules_) {
        bytes += capsule.byte_size;
    }
    return {capsules_.size(), bytes};
}

}  // namespace hurray::client
