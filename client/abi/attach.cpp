#include <string>
#include <vector>

#include "hurray_client.h"

#include "client/abi/capsule_info.hpp"
#include "client/abi/guard.hpp"
#include "client/abi/handles.hpp"
#include "client/abi/items.hpp"
#include "client/abi/options.hpp"
#include "client/attachment.hpp"
#include "client/event.hpp"

using namespace hurray;
using namespace hurray::client;
using namespace hurray::client::abi;

namespace {

Result<AttachTerms> read_terms(const HurrayAttachOptions& options) {
    constexpr std::uint32_t kFlags = HURRAY_ATTACH_IMMUTABLE_ONLY | HURRAY_ATTACH_TAKE | HURRAY_ATTACH_ALLOW_UNSEALED;
    if (auto checked = check_flags(options.flags, kFlags); !checked) {
        return fail(std::move(checked.error()));
    }
    if (auto checked = check_not_yet(options.device != 0, "options->device"); !checked) {
        return fail(std::move(checked.error()));
    }
    if ((options.name == nullptr) == (options.capsule == nullptr)) {
        return fail(Errc::InvalidArgument, options.name == nullptr
                                               ? "neither name nor capsule says what to attach"
                                               : "name and capsule are both given: one says what to attach");
    }
    if (options.version != 0 && options.newer_than != 0) {
        return fail(Errc::InvalidArgument,
                    "version " + std::to_string(options.version) + " and newer_than " +
                        std::to_string(options.newer_than) +
                        " are both given: version asks for exactly that one, newer_than for the first one "
                        "above it");
    }
    AttachTerms terms;
    terms.take = (options.flags & HURRAY_ATTACH_TAKE) != 0;
    if (terms.take && (options.version != 0 || options.newer_than != 0)) {
        return fail(Errc::InvalidArgument, "what is taken is the oldest there is: version and newer_than must be 0");
    }
    switch (options.populate) {
        case HURRAY_POPULATE_AUTO:
            break;
        case HURRAY_POPULATE_YES:
            terms.populate = Populate::Yes;
            break;
        case HURRAY_POPULATE_NO:
            terms.populate = Populate::No;
            break;
        default:
            return fail_field(Errc::InvalidArgument, "options->populate",
                              "options->populate is " + std::to_string(options.populate) + ", and " +
                                  std::to_string(HURRAY_POPULATE_NO) + " is the highest there is");
    }
    if (options.name != nullptr) {
        terms.what = std::string(options.name);
    } else {
        terms.what = from_c(*options.capsule);
    }
    if (options.version != 0) {
        terms.which = wire::Which::Exactly;
        terms.version = options.version;
    } else if (options.newer_than != 0) {
        terms.which = wire::Which::NewerThan;
        terms.version = options.newer_than;
    }
    const auto timeout = read_timeout(options.timeout_ms, "options->timeout_ms");
    if (!timeout) {
        return fail(timeout.error());
    }
    terms.timeout_ms = *timeout;
    terms.immutable_only = (options.flags & HURRAY_ATTACH_IMMUTABLE_ONLY) != 0;
    terms.allow_unsealed = (options.flags & HURRAY_ATTACH_ALLOW_UNSEALED) != 0;
    return terms;
}

HurrayCapsuleInfo to_c_info(const Attachment& attachment) {
    HurrayCapsuleInfo info{};
    info.flags = memory_flags(attachment.immutable, attachment.unsealed) | (attachment.once ? HURRAY_CAPSULE_ONCE : 0U);
    info.capsule = to_c(attachment.lease->capsule());
    info.access = {1, attachment.access.gid, attachment.access.mode};
    info.version = attachment.version;
    info.byte_size = attachment.byte_size;
    info.name = attachment.lease->name().c_str();
    hurray_tensor_context_descriptor(attachment.context.get(), &info.descriptor, &info.descriptor_len);
    return info;
}

/// What one item asks for.
Result<AttachTerms> read_item(const HurrayAttachItem& item) {
    if (item.options == nullptr) {
        return missing("options");
    }
    if (auto checked = check_info_out(item.info); !checked) {
        return fail(std::move(checked.error()));
    }
    const auto options = read_options(item.options);
    if (options && (options->flags & HURRAY_ATTACH_TAKE) != 0) {
        return fail_field(Errc::InvalidArgument, "options->flags", "TAKE is for hurray_client_attach: one at a time");
    }
    return options ? read_terms(*options) : fail(options.error());
}

}  // namespace

extern "C" {

HurrayStatus hurray_client_attach(HurrayClient* client, const HurrayAttachOptions* options, HurrayBufferList** buffers,
                                  HurrayTensorContext** context, HurrayCapsuleInfo* info) {
    return guard(__func__, [&]() -> Result<void> {
        if (client == nullptr) {
            return missing("client");
        }
        if (options == nullptr) {
            return missing("options");
        }
        if (buffers == nullptr) {
            return missing("buffers");
        }
        if (context == nullptr) {
            return missing("context");
        }
        const auto given = read_options(options);
        if (!given) {
            return fail(given.error());
        }
        const auto terms = read_terms(*given);
        if (!terms) {
            return fail(terms.error());
        }
        if (auto checked = check_info_out(info); !checked) {
            return checked;
        }
        auto attachment = attach(client->session, *terms);
        if (!attachment) {
            return fail(std::move(attachment.error()));
        }
        write_info(to_c_info(*attachment), info);
        *buffers = attachment->buffers.release();
        *context = attachment->context.release();
        return {};
    });
}

HurrayStatus hurray_client_attach_many(HurrayClient* client, HurrayAttachItem* items, uint64_t count) {
    return guard(__func__, [&]() -> Result<void> {
        if (client == nullptr) {
            return missing("client");
        }
        const auto given = Items<HurrayAttachItem>::of(items, count);
        if (!given) {
            return fail(given.error());
        }
        for (std::size_t i = 0; i < given->size(); ++i) {
            given->write(i, &HurrayAttachItem::status, HurrayStatus{HURRAY_OK});
            given->write(i, &HurrayAttachItem::buffers, static_cast<HurrayBufferList*>(nullptr));
            given->write(i, &HurrayAttachItem::context, static_cast<HurrayTensorContext*>(nullptr));
        }
        std::vector<HurrayAttachItem> read(given->size());
        const auto fail_at = [&](std::size_t i, Error error) {
            given->write(i, &HurrayAttachItem::status, static_cast<HurrayStatus>(error.code));
            return fail(of_item(i, read[i].options != nullptr ? read[i].options->name : nullptr, std::move(error)));
        };
        std::vector<AttachTerms> terms;
        terms.reserve(given->size());
        for (std::size_t i = 0; i < given->size(); ++i) {
            auto item = given->read(i);
            if (!item) {
                return fail_at(i, std::move(item.error()));
            }
            read[i] = *item;
            auto wanted = read_item(read[i]);
            if (!wanted) {
                return fail_at(i, std::move(wanted.error()));
            }
            terms.push_back(std::move(*wanted));
        }
        auto attachments = attach_many(client->session, terms);
        if (!attachments) {
            ManyError& failed = attachments.error();
            return failed.index ? fail_at(*failed.index, std::move(failed.error)) : fail(std::move(failed.error));
        }
        for (std::size_t i = 0; i < given->size(); ++i) {
            Attachment& attachment = (*attachments)[i];
            write_info(to_c_info(attachment), read[i].info);
            given->write(i, &HurrayAttachItem::buffers, attachment.buffers.release());
            given->write(i, &HurrayAttachItem::context, attachment.context.release());
        }
        return {};
    });
}

HurrayStatus hurray_lease_state(const HurrayTensorContext* context, HurrayStatus* out) {
    return guard(__func__, [&]() -> Result<void> {
        if (context == nullptr) {
            return missing("context");
        }
        if (out == nullptr) {
            return missing("out");
        }
        void* owner = nullptr;
        if (hurray_tensor_context_owner(context, Lease::release_owner, &owner) != HURRAY_OK) {
            return fail_field(Errc::InvalidArgument, "context", "was not made by hurray_client_attach");
        }
        *out = static_cast<const Lease*>(owner)->state();
        return {};
    });
}

}  // extern "C"
