#include "client/publisher.hpp"

#include <cerrno>
#include <cstring>
#include <utility>

#include <sys/random.h>

#include "client/event.hpp"
#include "client/foreign_memory.hpp"
#include "libhurray/format/descriptor_reader.hpp"
#include "libhurray/format/validate.hpp"
#include "proto/wire/access.hpp"
#include "proto/wire/names.hpp"
#include "proto/wire/segment_check.hpp"

namespace hurray::client {

namespace {

tl::unexpected<Error> misfit(std::size_t index, const char* what, std::uint64_t described, std::uint64_t allocated) {
    return fail_field(Errc::InvalidArgument, "descriptor",
                      "buffer " + std::to_string(index) + " of the descriptor has " + std::to_string(described) + " " +
                          what + ", the allocation's " + std::to_string(allocated));
}

std::string rule_text(const AccessRule& access) {
    return access ? wire::access_text(*access) : "the daemon's default access";
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

namespace {

/// The buffers that are to be published, once all that can be judged here is.
Result<BufferTable> check(const Connection& connection, std::span<const std::uint8_t> descriptor,
                          const PublishTerms& terms) {
    if (connection.in_child()) {
        return fail(forked());
    }
    if (!terms.name.empty()) {
        if (auto checked = wire::check_name(terms.name, "name"); !checked) {
            return fail(std::move(checked.error()));
        }
    }
    const auto view = decode_descriptor(descriptor);
    if (!view) {
        return fail(to_error(view.error()));
    }
    if (const auto valid = validate_descriptor(*view, ValidationRules::Sharing); !valid) {
        return fail(to_error(valid.error()));
    }
    return view->buffers;
}

bool is_unanswered(const Error& error) noexcept {
    return error.code == Errc::ConnectionLost || error.code == Errc::Closed;
}

}  // namespace

Result<Publisher::Published> Publisher::publish(Connection& connection, std::span<const std::uint8_t> descriptor,
                                                Allocation& allocation, const PublishTerms& terms) {
    if (!connection.in_child() && allocation.maybe_published) {
        return fail_field(
            Errc::InvalidArgument, "allocation",
            "the allocation may have been published before the connection ended, so somebody may be reading "
            "it: allocate anew");
    }
    if (terms.access && terms.access != allocation.access()) {
        return fail_field(Errc::InvalidArgument, "options->access",
                          "the memory was allocated for " + rule_text(allocation.access()) +
                              ", and can't be published with " + rule_text(terms.access) +
                              ": say so when it is allocated");
    }
    const auto table = check(connection, descriptor, terms);
    if (!table) {
        return fail(table.error());
    }
    auto placements = place(*table, allocation);
    if (!placements) {
        return fail(std::move(placements.error()));
    }
    Blocks blocks;
    bool holds_bytes = false;
    for (std::size_t i = 0; i < table->size(); ++i) {
        holds_bytes = holds_bytes || (*table)[i].byte_size > 0;
    }
    if (holds_bytes) {
        blocks.push_back(allocation.block());
        if (const ProducerSegment& segment = blocks.front()->segment(); segment.kind == wire::Memory::Immutable) {
            if (auto sealed = segment.memory->make_immutable(); !sealed) {
                sealed.error().field = "allocation";
                return fail(std::move(sealed.error()));
            }
        }
    }
    PublishTerms booked = terms;
    booked.access = allocation.access();
    auto published = send(connection, descriptor, *table, std::move(*placements), blocks, booked);
    if (!published && is_unanswered(published.error())) {
        allocation.maybe_published = true;
        for (const auto& block : blocks) {
            block->spoil();
        }
    }
    return published;
}

Result<Publisher::Published> Publisher::publish(Connection& connection, std::span<const std::uint8_t> descriptor,
                                                std::span<const std::int32_t> fds,
                                                const std::vector<wire::Placement>* placements,
                                                const PublishTerms& terms) {
    const auto table = check(connection, descriptor, terms);
    if (!table) {
        return fail(table.error());
    }
    auto memory = ForeignMemory::take(*pool_, fds, placements, *table);
    if (!memory) {
        return fail(std::move(memory.error()));
    }
    return send(connection, descriptor, *table, std::move(memory->placements), memory->blocks, terms);
}

Result<Publisher::Published> Publisher::send(Connection& connection, std::span<const std::uint8_t> descriptor,
                                             const BufferTable& table, std::vector<wire::Placement> placements,
                                             const Blocks& blocks, const PublishTerms& terms) {
    auto id = random_id();
    if (!id) {
        return fail(std::move(id.error()));
    }
    wire::Publish message;
    message.capsule = *id;
    message.name = terms.name;
    message.descriptor.assign(reinterpret_cast<const char*>(descriptor.data()), descriptor.size());
    message.placements = std::move(placements);
    message.access = terms.access;
    message.group = terms.group;

    std::vector<int> fds;
    for (const auto& block : blocks) {
        // Whose first publish is without its answer yet is brought by others as well: the daemon sees that it is one file.
        const ProducerSegment& segment = block->segment();
        const bool is_known = segment.is_known;
        message.segments.push_back(
            {segment.number, !is_known, segment.kind, segment.size(), is_known ? 0 : segment.reservation});
        if (!is_known) {
            fds.push_back(segment.fd());
        }
    }
    Published published;
    published.capsule = {connection.uid(), *id};
    published.access = terms.access;
    for (std::size_t i = 0; i < table.size(); ++i) {
        published.byte_size += table[i].byte_size;
    }
    published.immutable = wire::is_immutable(message.segments);
    published.unsealed = wire::is_unsealed(message.segments);
    Connection::CallOptions options;
    options.interruptible = false;  // answered at once; giving up in between would leave it open who owns the memory
    options.fds = fds;
    {
        // On the books before it is sent: what the daemon says of it may be read by another thread.
        Capsule capsule;
        capsule.id = published.capsule;
        capsule.terms = terms;
        capsule.byte_size = published.byte_size;
        capsule.immutable = published.immutable;
        capsule.unsealed = published.unsealed;
        capsule.blocks = blocks;
        const std::lock_guard lock(mutex_);
        capsules_.emplace(*id, std::move(capsule));
    }
    options.on_reply = [this, &id, &terms, &blocks](const wire::PacketMessage& reply, std::vector<UniqueFd>& /*fds*/,
                                                    bool /*missing*/) {
        if (const auto* answer = std::get_if<wire::PublishReply>(&reply)) {
            for (const auto& block : blocks) {
                block->segment().is_known = true;  // before anything of the capsule's end is read
            }
            const std::lock_guard lock(mutex_);
            if (const auto found = capsules_.find(*id); found != capsules_.end()) {
                found->second.answered = true;
                found->second.version = answer->version;
            }
            if (const auto group = groups_.find(terms.group); group != groups_.end()) {
                group->second.push_back(*id);
            }
        }
    };
    auto reply = connection.call(std::move(message), options);
    const auto* answer = reply ? std::get_if<wire::PublishReply>(&reply->message) : nullptr;
    if (answer != nullptr) {
        published.version = answer->version;
        return published;
    }
    Capsules::node_type refused;  // its memory goes without the lock
    {
        const std::lock_guard lock(mutex_);
        refused = capsules_.extract(*id);
    }
    if (!reply) {
        if (is_unanswered(reply.error())) {
            connection.post(wire::Withdraw{published.capsule});  // close() knows nothing of it any more
        }
        return fail(std::move(reply.error()));
    }
    return fail(Errc::Protocol, "hurrayd answered a publish with something else");
}

Result<std::uint64_t> Publisher::begin_group(Connection& connection) {
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
    bool all_known = false;
    Connection::CallOptions options;
    options.interruptible = false;  // as a publish
    options.on_reply = [this, group, &all_known](const wire::PacketMessage& reply, std::vector<UniqueFd>& /*fds*/,
                                                 bool /*missing*/) {
        const auto* answer = std::get_if<wire::GroupReply>(&reply);
        const std::lock_guard lock(mutex_);
        const auto staged = groups_.find(group);
        if (answer == nullptr || staged == groups_.end() || staged->second.size() != answer->versions.size()) {
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
    if (!all_known) {
        return fail(Errc::Protocol,
                    "hurrayd answered the commit of a group with something else than its members' versions");
    }
    return {};
}

Result<void> Publisher::abort_group(Connection& connection, std::uint64_t group) {
    {
        const std::lock_guard lock(mutex_);
        groups_.erase(group);  // its members end one by one as the daemon says so
    }
    Connection::CallOptions options;
    options.interruptible = false;
    const auto reply = connection.call(wire::Group{group, wire::Group::Action::Abort}, options);
    return reply ? Result<void>() : fail(reply.error());
}

Result<Publisher::Published> Publisher::find(const wire::CapsuleId& capsule) {
    const std::lock_guard lock(mutex_);
    const auto found = capsules_.find(capsule.id);
    if (found == capsules_.end() || !found->second.answered || found->second.id != capsule) {
        return fail(Errc::NotFound, "this client has published no such capsule, or it has ended");
    }
    const Capsule& known = found->second;
    return Published{known.id,          known.version, known.byte_size, known.terms.access,
                     known.open.size(), known.retired, known.immutable, known.unsealed};
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
    } else {
        if (capsule.open.erase(event.lease) == 0) {
            return;  // told already
        }
        record.kind = event.what == What::Released ? HURRAY_EVENT_LEASE_RELEASED
                      : event.what == What::Lost   ? HURRAY_EVENT_LEASE_LOST
                                                   : HURRAY_EVENT_LEASE_TAKEN;
    }
    record.remaining = capsule.open.size();
    if (capsule.terms.on_event != nullptr) {
        notices.push_back([tell = capsule.terms.on_event, context = capsule.terms.context, record = std::move(record)] {
            record.tell(tell, context);
            return true;
        });
    }
}

void Publisher::on_retired(const wire::Retired& event) { withdrawn(event.capsule); }

void Publisher::withdrawn(const wire::CapsuleId& capsule) {
    const std::lock_guard lock(mutex_);
    if (const auto found = capsules_.find(capsule.id); found != capsules_.end()) {
        found->second.retired = true;
    }
}

/// Whatever is still open is lost now.
void Publisher::close_all(Capsule& capsule, std::vector<Notice>& notices) {
    while (!capsule.open.empty()) {
        capsule.open.erase(capsule.open.begin());
        if (capsule.terms.on_event == nullptr) {
            continue;
        }
        EventRecord record{HURRAY_EVENT_LEASE_LOST, 0, HURRAY_OK, capsule.id, capsule.version, capsule.open.size(),
                           capsule.terms.name};
        notices.push_back([tell = capsule.terms.on_event, context = capsule.terms.context, record = std::move(record)] {
            record.tell(tell, context);
            return true;
        });
    }
}

/// What the user is to be told. That notice also keeps the memory: it is used again, or unmapped, after the user was told, and
/// not by the reader. Where nobody is to be told, memory that can be used again goes back to its pool at once.
void Publisher::end(Capsule&& capsule, bool reusable, std::vector<Notice>& notices) {
    Blocks blocks = std::move(capsule.blocks);
    if (!reusable) {
        for (const auto& block : blocks) {
            block->spoil();
        }
    }
    const HurrayEventFn tell = capsule.terms.on_event;
    if (tell == nullptr) {
        if (blocks.empty()) {
            return;
        }
        if (reusable) {
            for (const auto& block : blocks) {
                block->end_quietly();
            }
            blocks.clear();
            if (!pool_->needs_sweep()) {
                return;
            }
        }
        notices.push_back([pool = pool_, blocks = std::move(blocks)]() mutable {
            blocks.clear();
            pool->sweep();
            return false;
        });
        return;
    }
    EventRecord record{HURRAY_EVENT_ENDED,
                       reusable ? HURRAY_EVENT_FLAG_REUSABLE : 0,
                       HURRAY_OK,
                       capsule.id,
                       capsule.version,
                       0,
                       std::move(capsule.terms.name)};
    notices.push_back([tell, context = capsule.terms.context, record = std::move(record), blocks = std::move(blocks)] {
        record.tell(tell, context);
        return true;
    });
}

void Publisher::on_ended(const wire::Ended& event, std::vector<Notice>& notices) {
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
    const bool all_released = node.mapped().open.empty();
    close_all(node.mapped(), notices);
    end(std::move(node.mapped()), event.reusable && all_released, notices);
}

void Publisher::on_connection_lost(std::vector<Notice>& notices) {
    Capsules ended;
    {
        const std::lock_guard lock(mutex_);
        groups_.clear();
        for (auto next = capsules_.begin(); next != capsules_.end();) {
            const auto capsule = next++;
            if (capsule->second.answered) {  // else its publish was not answered: the one who waits for it is told
                ended.insert(capsules_.extract(capsule));
            }
        }
    }
    for (auto& [id, capsule] : ended) {
        close_all(capsule, notices);
        end(std::move(capsule), false, notices);
    }
}

std::vector<wire::CapsuleId> Publisher::attachable() {
    const std::lock_guard lock(mutex_);
    std::vector<wire::CapsuleId> ids;
    for (const auto& [id, capsule] : capsules_) {
        if (!capsule.retired) {
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
