#include <string>
#include <utility>

#include "hurray_client.h"

#include "client/abi/capsule_info.hpp"
#include "client/abi/guard.hpp"
#include "client/abi/handles.hpp"
#include "client/event.hpp"
#include "proto/wire/names.hpp"

using namespace hurray;
using namespace hurray::client;
using namespace hurray::client::abi;

namespace {

HurrayCapsuleInfo to_c(const wire::Info& info) {
    HurrayCapsuleInfo out{};
    out.struct_size = sizeof out;
    out.flags = memory_flags(info.immutable, info.unsealed) | (info.retired ? HURRAY_CAPSULE_RETIRED : 0U) |
                (info.lingering ? HURRAY_CAPSULE_LINGERING : 0U) | (info.once ? HURRAY_CAPSULE_ONCE : 0U) |
                (info.producer_gone ? HURRAY_CAPSULE_PRODUCER_GONE : 0U);
    out.capsule = client::to_c(info.capsule);
    out.access = {1, info.access.gid, info.access.mode};
    out.version = info.version;
    out.byte_size = info.bytes;
    out.leases = info.leases;
    out.name = info.name.c_str();
    out.descriptor = reinterpret_cast<const std::uint8_t*>(info.descriptor.data());
    out.descriptor_len = info.descriptor.size();
    out.pid = info.pid;
    out.expires_ms = info.expires_ms;
    return out;
}

}  // namespace

extern "C" {

HurrayStatus hurray_client_list(HurrayClient* client, const char* pattern, HurrayListFn callback, void* context) {
    return guard(__func__, [&]() -> Result<void> {
        if (client == nullptr) {
            return missing("client");
        }
        if (callback == nullptr) {
            return missing("callback");
        }
        wire::List request;
        request.pattern = pattern != nullptr ? pattern : "";
        request.with_descriptor = true;
        if (auto checked = wire::check_pattern(request.pattern, "pattern"); !checked) {
            return checked;
        }
        for (;;) {
            auto reply = client->session->connection().call(request, {});
            if (!reply) {
                return fail(std::move(reply.error()));
            }
            const auto* page = std::get_if<wire::ListReply>(&reply->message);
            if (page == nullptr) {
                return fail(Errc::Protocol, "hurrayd answered a list with something else");
            }
            for (const wire::Info& info : page->capsules) {
                const HurrayCapsuleInfo told = to_c(info);
                if (callback(&told, context) != 0) {
                    return {};
                }
            }
            if (page->cursor.empty()) {
                return {};
            }
            if (page->cursor == request.cursor) {
                return fail(Errc::Protocol, "hurrayd's list does not get on: a page ends where it began");
            }
            request.cursor = page->cursor;
        }
    });
}

HurrayStatus hurray_client_watch(HurrayClient* client, const char* pattern, HurrayEventFn callback, void* context,
                                 uint64_t* out) {
    return guard(__func__, [&]() -> Result<void> {
        if (client == nullptr) {
            return missing("client");
        }
        if (callback == nullptr) {
            return missing("callback");
        }
        if (out == nullptr) {
            return missing("out");
        }
        Session& session = *client->session;
        const auto watch =
            session.watcher().watch(session.connection(), pattern != nullptr ? pattern : "", callback, context);
        if (!watch) {
            return fail(watch.error());
        }
        *out = *watch;
        return {};
    });
}

HurrayStatus hurray_client_unwatch(HurrayClient* client, uint64_t watch) {
    return guard(__func__, [&]() -> Result<void> {
        if (client == nullptr) {
            return missing("client");
        }
        Session& session = *client->session;
        return session.watcher().unwatch(session.connection(), watch);
    });
}

}  // extern "C"
