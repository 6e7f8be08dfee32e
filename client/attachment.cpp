#include "client/attachment.hpp"

#include <utility>
#include <vector>

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

/// A granted lease that has no owner yet; gives it back unless one takes it.
class Grant {
  public:
    Grant(Session& session, std::uint64_t number, const Standing& standing)
        : session_(&session), number_(number), standing_(standing) {}
    ~Grant() {
        if (session_ != nullptr) {
            session_->leases().remove(standing_);
            session_->connection().lease_opened();
            session_->connection().release(number_);
        }
    }
    Grant(const Grant&) = delete;
    Grant& operator=(const Grant&) = delete;
    void taken() noexcept { session_ = nullptr; }

  private:
    Session* session_;
    std::uint64_t number_;
    const Standing& standing_;
};

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

}  // namespace

Result<Attachment> attach(const std::shared_ptr<Session>& session, const AttachTerms& terms) {
    if (const auto* name = std::get_if<std::string>(&terms.what)) {
        if (auto checked = wire::check_name(*name, "name"); !checked) {
            return fail(std::move(checked.error()));
        }
    }
    wire::Attach message;
    message.lease = session->connection().next_lease_number();
    message.what = terms.what;
    message.which = terms.which;
    message.version = terms.version;
    message.immutable_only = terms.immutable_only;
    message.allow_unsealed = terms.allow_unsealed;

    Connection::CallOptions options;
    options.timeout_ms = terms.timeout_ms;
    options.lease = message.lease;
    const Settling settling(*session);  // after all below have let go
    const auto standing = std::make_shared<Standing>();
    Result<std::vector<SegmentCache::Use>> segments;
    bool booked = false;
    options.on_reply = [&](const wire::PacketMessage& answer, std::vector<UniqueFd>& fds, bool fds_missing) {
        // Before any later packet is read: one may say that the producer is gone, or name the same segments.
        if (const auto* granted = std::get_if<wire::AttachReply>(&answer)) {
            standing->capsule = granted->capsule;
            session->leases().add(standing);
            booked = true;
            segments = session->segments().take(*granted, fds, fds_missing);
        }
    };
    auto reply = session->connection().call(message, options);
    if (!reply) {
        if (booked) {
            session->leases().remove(*standing);
        }
        return fail(std::move(reply.error()));
    }
    auto* granted = std::get_if<wire::AttachReply>(&reply->message);
    if (granted == nullptr) {
        return fail(Errc::Protocol, "hurrayd answered an attach with something else");
    }
    Grant grant(*session, message.lease, *standing);
    if (!segments) {
        return fail(std::move(segments.error()));
    }
    const bool is_immutable = wire::is_immutable(granted->segments);
    const bool is_unsealed = wire::is_unsealed(granted->segments);
    if ((terms.immutable_only && !is_immutable) || (!terms.allow_unsealed && is_unsealed)) {
        return unsound({Errc::Protocol, "its memory is of a kind that was not asked for"});
    }
    auto ranges = find_buffers(*granted, *segments, terms.populate);
    if (!ranges) {
        return fail(std::move(ranges.error()));
    }
    Attachment attachment;
    attachment.version = granted->version;
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
    auto lease =
        std::make_unique<Lease>(session, message.lease, standing, std::move(granted->name), std::move(*segments));
    grant.taken();
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

}  // namespace hurray::client
