#include <algorithm>
#include <cstring>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "hurray_client.h"

#include "client/abi/capsule_info.hpp"
#include "client/abi/guard.hpp"
#include "client/abi/handles.hpp"
#include "client/abi/items.hpp"
#include "client/abi/options.hpp"
#include "client/event.hpp"
#include "libhurray/format/descriptor_reader.hpp"

using namespace hurray;
using namespace hurray::client;
using namespace hurray::client::abi;

namespace {

/// What all ways of publishing ask for. Each has looked at COPY and IMMUTABLE itself.
Result<PublishTerms> read_terms(const char* name, const HurrayPublishOptions& options) {
    constexpr std::uint32_t kFlags = HURRAY_PUBLISH_COPY | HURRAY_PUBLISH_TELL_OPENED | HURRAY_PUBLISH_ONCE |
                                     HURRAY_PUBLISH_LINGER | HURRAY_PUBLISH_IMMUTABLE;
    if (auto checked = check_flags(options.flags, kFlags); !checked) {
        return fail(std::move(checked.error()));
    }
    auto access = read_access(options.access);
    if (!access) {
        return fail(std::move(access.error()));
    }
    PublishTerms terms;
    terms.once = (options.flags & HURRAY_PUBLISH_ONCE) != 0;
    if (options.retain > wire::kMaxRetain) {
        Error error{Errc::Limit, "options->retain is " + std::to_string(options.retain) + "; at most " +
                                     std::to_string(wire::kMaxRetain) + " versions are retained"};
        error.limit_name = "retained_versions";
        error.limit = wire::kMaxRetain;
        error.value = options.retain;
        return fail(std::move(error));
    }
    if (terms.once && options.retain > 1) {
        return fail_field(Errc::InvalidArgument, "options->retain",
                          "is " + std::to_string(options.retain) + ", but what is published ONCE replaces nothing");
    }
    if (options.linger_ms < 0) {
        return fail_field(Errc::InvalidArgument, "options->linger_ms",
                          "is " + std::to_string(options.linger_ms) + "; 0 lets it linger without an end");
    }
    if ((options.flags & HURRAY_PUBLISH_LINGER) != 0) {
        terms.linger_ms = static_cast<std::uint64_t>(options.linger_ms);
    } else if (options.linger_ms != 0) {
        return fail_field(
            Errc::InvalidArgument, "options->linger_ms",
            "is " + std::to_string(options.linger_ms) + ", which has no meaning without HURRAY_PUBLISH_LINGER");
    }
    terms.retain = options.retain != 0 ? static_cast<std::uint32_t>(options.retain) : 1;
    terms.access = *access;
    if (name != nullptr) {
        terms.name = name;
        if (terms.name.empty()) {
            return fail_field(Errc::InvalidArgument, "name", "is empty; null publishes without a name");
        }
    }
    auto timeout = read_timeout(options.timeout_ms, "options->timeout_ms");
    if (!timeout) {
        return fail(std::move(timeout.error()));
    }
    terms.timeout_ms = *timeout;
    terms.group = options.group;
    terms.tell_opened = (options.flags & HURRAY_PUBLISH_TELL_OPENED) != 0;
    terms.on_event = options.on_event;
    terms.context = options.context;
    return terms;
}

HurrayCapsuleInfo to_c_info(const Publisher::Published& published) {
    HurrayCapsuleInfo info{};
    info.flags = memory_flags(published.immutable, published.unsealed) |
                 (published.retired ? HURRAY_CAPSULE_RETIRED : 0U) | (published.once ? HURRAY_CAPSULE_ONCE : 0U) |
                 (published.lingering ? HURRAY_CAPSULE_LINGERING : 0U);
    info.capsule = to_c(published.capsule);
    if (published.access) {
        info.access = {1, published.access->gid, published.access->mode};
    }
    info.version = published.version;
    info.byte_size = published.byte_size;
    info.leases = published.leases;
    return info;
}

/// COPY and IMMUTABLE say what memory to copy to, so they have no meaning where nothing is copied.
Result<void> check_no_copy(std::uint32_t flags) {
    if ((flags & HURRAY_PUBLISH_COPY) != 0) {
        return fail_field(Errc::InvalidArgument, "options->flags", "COPY is for hurray_client_publish_list");
    }
    if ((flags & HURRAY_PUBLISH_IMMUTABLE) != 0) {
        return fail_field(Errc::InvalidArgument, "options->flags",
                          "IMMUTABLE is for hurray_client_publish_list; what is to be immutable otherwise is allocated "
                          "with HURRAY_ALLOCATE_IMMUTABLE, or has its seals already");
    }
    return {};
}

/// Copies what `descriptor` names of each buffer of `list` into memory that can be shared; not a byte more.
Result<Allocation> copy_of(SegmentPool& pool, const HurrayBufferList& list, std::span<const std::uint8_t> descriptor,
                           const AccessRule& access, wire::Memory kind) {
    const auto view = decode_descriptor(descriptor);
    if (!view) {
        return fail(to_error(view.error()));
    }
    const BufferTable& table = view->buffers;
    std::uint64_t count = 0;
    hurray_buffer_list_len(&list, &count);
    if (count != table.size()) {
        return fail_field(Errc::InvalidArgument, "buffers",
                          "has " + std::to_string(count) + " buffers, the descriptor " + std::to_string(table.size()));
    }
    std::vector<std::uint64_t> sizes(table.size());
    std::vector<const void*> data(table.size());
    for (std::size_t i = 0; i < table.size(); ++i) {
        HurrayBuffer* buffer = nullptr;
        void* pointer = nullptr;
        std::uint64_t size = 0;
        std::uint8_t device = 0;
        hurray_buffer_list_get(&list, i, &buffer);
        hurray_buffer_byte_size(buffer, &size);
        hurray_buffer_data_ptr(buffer, &pointer);
        hurray_buffer_device_tag(buffer, &device);
        if (device != HURRAY_DEVICE_CPU) {
            return fail_field(Errc::Unsupported, "buffers",
                              "buffer " + std::to_string(i) + " is in device memory, which is not supported yet");
        }
        sizes[i] = table[i].byte_size;
        data[i] = pointer;
        if (size < sizes[i]) {
            return fail_field(Errc::InvalidArgument, "buffers",
                              "buffer " + std::to_string(i) + " has " + std::to_string(size) +
                                  " bytes, the descriptor's " + std::to_string(sizes[i]));
        }
    }
    auto allocation = Allocation::create(pool, sizes, Allocation::Contents::Whatever, access, kind);
    if (allocation) {
        for (std::size_t i = 0; i < sizes.size(); ++i) {
            if (sizes[i] > 0) {
                std::memcpy(allocation->data(i), data[i], sizes[i]);
            }
        }
    }
    return allocation;
}

/// What a publish needs, from whichever call, once it is checked as far as it can be without the daemon.
struct Wanted {
    std::span<const std::uint8_t> descriptor;
    Allocation* allocation = nullptr;  ///< the caller's, or `copy`
    std::optional<Allocation> copy;
    PublishTerms terms;
};

Result<Wanted> of_allocation(const char* name, const std::uint8_t* descriptor, std::uint64_t descriptor_len,
                             HurrayAllocation** allocation, const HurrayPublishOptions* options,
                             const HurrayCapsuleInfo* out) {
    if (descriptor == nullptr) {
        return missing("descriptor");
    }
    if (allocation == nullptr) {
        return missing("allocation");
    }
    if (*allocation == nullptr) {
        return fail(Errc::NullPointer, "*allocation is null: was it published already? Publishing takes it");
    }
    const auto given = read_options(options);
    if (!given) {
        return fail(given.error());
    }
    if (auto checked = check_no_copy(given->flags); !checked) {
        return fail(std::move(checked.error()));
    }
    auto terms = read_terms(name, *given);
    if (!terms) {
        return fail(std::move(terms.error()));
    }
    if (auto checked = check_info_out(out); !checked) {
        return fail(std::move(checked.error()));
    }
    return Wanted{std::span(descriptor, descriptor_len), &(*allocation)->allocation, {}, std::move(*terms)};
}

Result<Wanted> of_list(HurrayClient& client, const char* name, const std::uint8_t* descriptor,
                       std::uint64_t descriptor_len, const HurrayBufferList* buffers,
                       const HurrayPublishOptions* options, const HurrayCapsuleInfo* out) {
    if (descriptor == nullptr) {
        return missing("descriptor");
    }
    if (buffers == nullptr) {
        return missing("buffers");
    }
    const auto given = read_options(options);
    if (!given) {
        return fail(given.error());
    }
    if ((given->flags & HURRAY_PUBLISH_COPY) == 0) {
        return fail_field(Errc::InvalidArgument, "options->flags",
                          "ordinary memory can't be shared as it is: fill a hurray_client_allocate, or say COPY");
    }
    auto terms = read_terms(name, *given);
    if (!terms) {
        return fail(std::move(terms.error()));
    }
    if (auto checked = check_info_out(out); !checked) {
        return fail(std::move(checked.error()));
    }
    if (client.session->connection().in_child()) {
        return fail(forked());
    }
    const std::span bytes(descriptor, descriptor_len);
    const auto kind = (given->flags & HURRAY_PUBLISH_IMMUTABLE) != 0 ? wire::Memory::Immutable : wire::Memory::Reusable;
    auto copy =
        copy_of(client.session->pool(), *buffers, bytes, client.session->connection().access_of(terms->access), kind);
    if (!copy) {
        return fail(std::move(copy.error()));
    }
    return Wanted{bytes, nullptr, std::move(*copy), std::move(*terms)};
}

Result<void> publish(HurrayClient& client, Wanted& wanted, HurrayCapsuleInfo* out) {
    Session& session = *client.session;
    Allocation& allocation = wanted.copy ? *wanted.copy : *wanted.allocation;
    const auto published =
        session.publisher().publish(session.connection(), wanted.descriptor, allocation, wanted.terms);
    if (!published) {
        return fail(published.error());
    }
    write_info(to_c_info(*published), out);
    return {};
}

void take(HurrayAllocation** allocation) noexcept {
    delete *allocation;
    *allocation = nullptr;
}

Result<Wanted> of_item(HurrayClient& client, const HurrayPublishItem& item) {
    if ((item.allocation == nullptr) == (item.buffers == nullptr)) {
        return fail(Errc::InvalidArgument, item.allocation == nullptr
                                               ? "neither allocation nor buffers says what to publish"
                                               : "allocation and buffers are both given: one says what to publish");
    }
    return item.allocation != nullptr ? of_allocation(item.name, item.descriptor, item.descriptor_len, item.allocation,
                                                      item.options, item.info)
                                      : of_list(client, item.name, item.descriptor, item.descriptor_len, item.buffers,
                                                item.options, item.info);
}

}  // namespace

extern "C" {

HurrayStatus hurray_client_publish(HurrayClient* client, const char* name, const uint8_t* descriptor,
                                   uint64_t descriptor_len, HurrayAllocation** allocation,
                                   const HurrayPublishOptions* options, HurrayCapsuleInfo* out) {
    return guard(__func__, [&]() -> Result<void> {
        if (client == nullptr) {
            return missing("client");
        }
        auto wanted = of_allocation(name, descriptor, descriptor_len, allocation, options, out);
        if (!wanted) {
            return fail(std::move(wanted.error()));
        }
        auto result = publish(*client, *wanted, out);
        if (result) {
            take(allocation);
        }
        return result;
    });
}

HurrayStatus hurray_client_publish_list(HurrayClient* client, const char* name, const uint8_t* descriptor,
                                        uint64_t descriptor_len, const HurrayBufferList* buffers,
                                        const HurrayPublishOptions* options, HurrayCapsuleInfo* out) {
    return guard(__func__, [&]() -> Result<void> {
        if (client == nullptr) {
            return missing("client");
        }
        auto wanted = of_list(*client, name, descriptor, descriptor_len, buffers, options, out);
        return wanted ? publish(*client, *wanted, out) : fail(std::move(wanted.error()));
    });
}

HurrayStatus hurray_client_publish_many(HurrayClient* client, HurrayPublishItem* items, uint64_t count) {
    return guard(__func__, [&]() -> Result<void> {
        if (client == nullptr) {
            return missing("client");
        }
        const auto given = Items<HurrayPublishItem>::of(items, count);
        if (!given) {
            return fail(given.error());
        }
        std::optional<std::size_t> first_failed;
        std::optional<Error> first_error;
        const auto note = [&](std::size_t i, HurrayPublishItem& item, Error error) {
            given->write(i, &HurrayPublishItem::status, static_cast<HurrayStatus>(error.code));
            if (!first_failed || i < *first_failed) {
                first_failed = i;
                first_error = of_item(i, item.name, std::move(error));
            }
        };
        Session& session = *client->session;
        std::unordered_set<const HurrayAllocation*> given_before;  // of another part of the list it may be gone
        constexpr std::size_t kAtATime = 1024;
        for (std::size_t first = 0; first < given->size(); first += kAtATime) {
            const std::size_t last = std::min(first + kAtATime, given->size());
            std::deque<std::pair<std::size_t, HurrayPublishItem>> sent;
            std::deque<Wanted> wanted;
            std::vector<Publisher::ToPublish> to_publish;
            for (std::size_t i = first; i < last; ++i) {
                auto item = given->read(i);
                HurrayPublishItem read{};
                auto ready = item ? of_item(*client, read = *item) : Result<Wanted>(fail(item.error()));
                if (!ready) {
                    note(i, read, std::move(ready.error()));
                    continue;
                }
                if (read.allocation != nullptr && !given_before.insert(*read.allocation).second) {
                    note(i, read, {Errc::InvalidArgument, "is given twice: it can be published once", "allocation"});
                    continue;
                }
                sent.emplace_back(i, read);
                Wanted& one = wanted.emplace_back(std::move(*ready));
                to_publish.push_back({one.descriptor, one.copy ? &*one.copy : one.allocation, &one.terms});
            }
            session.publisher().publish_many(session.connection(), to_publish,
                                             [&](std::size_t at, Result<Publisher::Published>&& published) {
                                                 auto& [i, item] = sent[at];
                                                 if (!published) {
                                                     note(i, item, std::move(published.error()));
                                                     return;
                                                 }
                                                 given->write(i, &HurrayPublishItem::status, HurrayStatus{HURRAY_OK});
                                                 write_info(to_c_info(*published), item.info);
                                                 if (item.allocation != nullptr) {
                                                     take(item.allocation);
                                                 }
                                             });
        }
        return first_error ? fail(std::move(*first_error)) : Result<void>();
    });
}

HurrayStatus hurray_client_publish_fds(HurrayClient* client, const char* name, const uint8_t* descriptor,
                                       uint64_t descriptor_len, const int32_t* fds, uint32_t count,
                                       const HurrayPlacement* placements, const HurrayPublishOptions* options,
                                       HurrayCapsuleInfo* out) {
    return guard(__func__, [&]() -> Result<void> {
        if (client == nullptr) {
            return missing("client");
        }
        if (descriptor == nullptr) {
            return missing("descriptor");
        }
        if (fds == nullptr && count != 0) {
            return missing("fds");
        }
        const auto given = read_options(options);
        if (!given) {
            return fail(given.error());
        }
        if (auto checked = check_no_copy(given->flags); !checked) {
            return checked;
        }
        const auto terms = read_terms(name, *given);
        if (!terms) {
            return fail(terms.error());
        }
        if (auto checked = check_info_out(out); !checked) {
            return checked;
        }
        const std::span bytes(descriptor, descriptor_len);
        std::vector<wire::Placement> placed;
        if (placements != nullptr) {
            const auto view = decode_descriptor(bytes);
            if (!view) {
                return fail(to_error(view.error()));
            }
            for (std::size_t i = 0; i < view->buffers.size(); ++i) {
                placed.push_back({placements[i].segment, placements[i].offset});
            }
        }
        Session& session = *client->session;
        const Publisher::Foreign foreign{std::span(fds, count), placements != nullptr ? &placed : nullptr};
        const auto published = session.publisher().publish(session.connection(), bytes, foreign, *terms);
        if (!published) {
            return fail(published.error());
        }
        write_info(to_c_info(*published), out);
        return {};
    });
}

HurrayStatus hurray_client_published(HurrayClient* client, const HurrayCapsuleId* capsule, HurrayCapsuleInfo* out) {
    return guard(__func__, [&]() -> Result<void> {
        if (client == nullptr) {
            return missing("client");
        }
        if (capsule == nullptr) {
            return missing("capsule");
        }
        if (out == nullptr) {
            return missing("out");
        }
        if (auto checked = check_info_out(out); !checked) {
            return checked;
        }
        Session& session = *client->session;
        if (session.connection().in_child()) {
            return fail(forked());
        }
        const auto published = session.publisher().find(from_c(*capsule));
        if (!published) {
            return fail(published.error());
        }
        write_info(to_c_info(*published), out);
        return {};
    });
}

HurrayStatus hurray_client_group_begin(HurrayClient* client, uint64_t* out) {
    return guard(__func__, [&]() -> Result<void> {
        if (client == nullptr) {
            return missing("client");
        }
        if (out == nullptr) {
            return missing("out");
        }
        Session& session = *client->session;
        const auto group = session.publisher().begin_group(session.connection());
        if (!group) {
            return fail(group.error());
        }
        *out = *group;
        return {};
    });
}

HurrayStatus hurray_client_group_end(HurrayClient* client, uint64_t group, uint8_t commit) {
    return guard(__func__, [&]() -> Result<void> {
        if (client == nullptr) {
            return missing("client");
        }
        if (group == 0) {
            return fail_field(Errc::InvalidArgument, "group",
                              "is 0; hurray_client_group_begin gives numbers above that");
        }
        Session& session = *client->session;
        return commit != 0 ? session.publisher().commit_group(session.connection(), group)
                           : session.publisher().abort_group(session.connection(), group);
    });
}

HurrayStatus hurray_client_withdraw(HurrayClient* client, const HurrayCapsuleId* capsule) {
    return guard(__func__, [&]() -> Result<void> {
        if (client == nullptr) {
            return missing("client");
        }
        if (capsule == nullptr) {
            return missing("capsule");
        }
        Session& session = *client->session;
        return session.publisher().withdraw(session.connection(), from_c(*capsule));
    });
}

}  // extern "C"
