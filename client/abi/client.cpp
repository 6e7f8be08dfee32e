#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>

#include <errno.h>

#include <nlohmann/json.hpp>

#include "hurray_client.h"

#include "client/abi/guard.hpp"
#include "client/abi/handles.hpp"
#include "client/abi/options.hpp"
#include "client/deadline.hpp"

using namespace hurray;
using namespace hurray::client;
using namespace hurray::client::abi;

namespace {

constexpr std::chrono::milliseconds kAnswerTimeout{5000};

/// What fits a label: whole characters, no control characters, at most 64 bytes.
std::string to_label(std::string_view text) {
    std::string label;
    for (const char c : text.substr(0, wire::kMaxClientNameBytes)) {
        label += (c >= 0x20 && c < 0x7F) ? c : '?';
    }
    return label;
}

}  // namespace

extern "C" {

HurrayStatus hurray_client_connect(const HurrayConnectOptions* options, HurrayClient** out) {
    return guard(__func__, [&]() -> Result<void> {
        if (out == nullptr) {
            return missing("out");
        }
        const auto given = read_options(options);
        if (!given) {
            return fail(given.error());
        }
        constexpr std::uint32_t kFlags = HURRAY_CONNECT_DISPATCH_BY_CALLER | HURRAY_CONNECT_NO_RECONNECT;
        if (auto checked = check_flags(given->flags, kFlags); !checked) {
            return checked;
        }
        const auto timeout = read_timeout(given->timeout_ms, "options->timeout_ms");
        if (!timeout) {
            return fail(timeout.error());
        }
        const auto reconnect_time = read_timeout(given->reconnect_ms, "options->reconnect_ms");
        if (!reconnect_time) {
            return fail(reconnect_time.error());
        }
        SessionOptions session_options;
        if (given->address != nullptr) {
            session_options.address = given->address;
            if (session_options.address.empty()) {
                return fail_field(Errc::InvalidArgument, "options->address", "is empty");
            }
        }
        session_options.client_name =
            to_label(given->client_name != nullptr ? given->client_name : program_invocation_short_name);
        session_options.connect_deadline = deadline_after(Clock::now(), *timeout);
        session_options.answer_deadline =
            *timeout == 0U ? Clock::now() + kAnswerTimeout : session_options.connect_deadline;
        session_options.dispatch_by_caller = (given->flags & HURRAY_CONNECT_DISPATCH_BY_CALLER) != 0;
        session_options.reconnects = (given->flags & HURRAY_CONNECT_NO_RECONNECT) == 0;
        if (reconnect_time->value_or(0) != 0 && **reconnect_time < kForEverMs) {
            session_options.reconnect_time = std::chrono::milliseconds(**reconnect_time);
        }
        session_options.on_event = given->on_event;
        session_options.interrupted = given->interrupted;
        session_options.context = given->context;
        auto session = Session::open(session_options);
        if (!session) {
            return fail(std::move(session.error()));
        }
        *out = new HurrayClient{std::move(*session)};
        return {};
    });
}

HurrayStatus hurray_client_close(HurrayClient* client) {
    return guard(__func__, [&]() -> Result<void> {
        if (client == nullptr) {
            return missing("client");
        }
        client->session->close();
        return {};
    });
}

HurrayStatus hurray_client_destroy(HurrayClient** client) {
    return guard(__func__, [&]() -> Result<void> {
        if (client == nullptr) {
            return missing("client");
        }
        const std::unique_ptr<HurrayClient> gone(*client);
        *client = nullptr;
        if (gone != nullptr) {
            Session::retire(gone->session);
        }
        return {};
    });
}

HurrayStatus hurray_client_poll_fd(HurrayClient* client, int32_t* out) {
    return guard(__func__, [&]() -> Result<void> {
        if (client == nullptr) {
            return missing("client");
        }
        if (out == nullptr) {
            return missing("out");
        }
        if (!client->session->dispatch_by_caller()) {
            return fail(Errc::Unsupported, "the client dispatches by itself; connect with DISPATCH_BY_CALLER to do it");
        }
        if (client->session->connection().in_child()) {
            return fail(forked());
        }
        *out = client->session->connection().poll_fd();
        return {};
    });
}

HurrayStatus hurray_client_dispatch(HurrayClient* client, int64_t timeout_ms) {
    return guard(__func__, [&]() -> Result<void> {
        if (client == nullptr) {
            return missing("client");
        }
        if (!client->session->dispatch_by_caller()) {
            return fail(Errc::Unsupported, "the client dispatches by itself; connect with DISPATCH_BY_CALLER to do it");
        }
        const auto timeout = read_timeout(timeout_ms, "timeout_ms");
        if (!timeout) {
            return fail(timeout.error());
        }
        if (client->session->connection().in_child()) {
            return fail(forked());
        }
        const auto told = client->session->connection().dispatch(deadline_after(Clock::now(), *timeout));
        client->session->pool().expire();  // such a client has no thread that would
        if (!told) {
            return fail(told.error());
        }
        if (*told == 0) {
            return *timeout == 0U ? fail(Errc::WouldBlock, "no event is waiting")
                                  : fail(Errc::TimedOut, "no event within " + std::to_string(timeout_ms) + " ms");
        }
        return {};
    });
}

HurrayStatus hurray_client_status_json(HurrayClient* client, char* out, uint64_t* inout_len) {
    return guard(__func__, [&]() -> Result<void> {
        if (client == nullptr) {
            return missing("client");
        }
        if (inout_len == nullptr) {
            return missing("inout_len");
        }
        Session& session = *client->session;
        wire::StatusReply status;  // empty while the daemon is away
        Connection::Call call(wire::StatusRequest{}, {});
        Connection::Call* const one = &call;
        if (auto called = session.connection().call_many(std::span(&one, 1), Connection::OnRefusal::GoOn); !called) {
            return fail(std::move(called.error()));
        }
        if (!call.is_lost) {
            if (!*call.result) {
                return fail(std::move(call.result->error()));
            }
            auto* answer = std::get_if<wire::StatusReply>(&(*call.result)->message);
            if (answer == nullptr) {
                return fail(Errc::Protocol, "hurrayd answered a status request with something else");
            }
            status = std::move(*answer);
        }
        auto json = nlohmann::ordered_json::object();
        json["daemon_version"] = status.daemon_version;
        json["uptime_ms"] = status.uptime_ms;
        json["uses"] = nlohmann::ordered_json::array();
        for (const wire::Use& use : status.uses) {
            json["uses"].push_back({{"name", use.name}, {"uid", use.uid}, {"used", use.used}, {"limit", use.limit}});
        }
        json["writing"] = nlohmann::ordered_json::array();
        for (const wire::Writing& writing : status.writing) {
            json["writing"].push_back(
                {{"uid", writing.uid}, {"pid", writing.pid}, {"bytes", writing.bytes}, {"age_ms", writing.age_ms}});
        }
        json["holders"] = nlohmann::ordered_json::array();
        for (const wire::Holder& holder : status.holders) {
            json["holders"].push_back({{"name", holder.name},
                                       {"uid", holder.uid},
                                       {"pid", holder.pid},
                                       {"client_name", holder.client_name},
                                       {"used", holder.used},
                                       {"limit", holder.limit}});
        }
        const auto [capsules, bytes] = session.publisher().totals();
        const SegmentPool::Totals pool = session.pool().totals();
        const PoolLimits& limits = session.pool().limits();
        json["client"] = {{"capsules", capsules}, {"bytes", bytes}, {"leases", session.connection().open_leases()}};
        json["client"]["connection"] = {{"state", call.is_lost ? "away" : "up"},
                                        {"reconnects", session.connection().epoch() - 1}};
        json["client"]["memory"] = {{"segments", pool.segments},
                                    {"bytes", pool.bytes},
                                    {"idle_segments", pool.idle_segments},
                                    {"idle_bytes", pool.idle_bytes},
                                    {"idle_bytes_limit", limits.bytes},
                                    {"idle_segments_limit", limits.segments},
                                    {"idle_ms_limit", limits.age.count()},
                                    {"arenas", pool.arenas},
                                    {"arena_bytes", pool.arena_bytes},
                                    {"arena_live_bytes", pool.arena_live_bytes},
                                    {"arena_retired_bytes", pool.arena_retired_bytes},
                                    {"segments_made", pool.made},
                                    {"blocks_reused", pool.reused}};
        const SegmentCache::Kept kept = session.segments().kept();
        json["client"]["mappings"] = {{"segments", kept.segments},
                                      {"bytes", kept.bytes},
                                      {"idle_segments", kept.idle_segments},
                                      {"idle_bytes", kept.idle_bytes},
                                      {"idle_bytes_limit", session.segments().limits().bytes},
                                      {"idle_segments_limit", session.segments().limits().segments}};
        const std::string text = json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
        const bool fits = out != nullptr && *inout_len > text.size();
        *inout_len = text.size();
        if (!fits) {
            return fail(Errc::BufferTooSmall,
                        "the text has " + std::to_string(text.size()) + " bytes and needs room for one more");
        }
        std::memcpy(out, text.c_str(), text.size() + 1);
        return {};
    });
}

}  // extern "C"
