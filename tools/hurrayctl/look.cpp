#include "look.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <hurray/client.hpp>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "exit_codes.hpp"
#include "tensor_text.hpp"
#include "text.hpp"
#include "with_client.hpp"

namespace hurrayctl {
namespace {

// ---- Capsules ------------------------------------------------------------------------------------------------------

std::string state_of(const hurray::CapsuleInfo& info) {
    if (info.once) {
        return info.retired ? "taken" : info.leases != 0 ? "granted" : "queued";
    }
    return info.retired ? "retired" : info.producer_gone ? "lingering" : "attachable";
}

std::string id_text(const hurray::CapsuleId& id) { return std::to_string(id.uid) + ":" + hex(id.id); }

std::string mode_text(std::uint32_t mode) {
    char text[16];
    std::snprintf(text, sizeof text, "%04o", mode);
    return text;
}

/// For how long it can be had once its producer is gone.
std::string lingering_text(const hurray::CapsuleInfo& info) {
    if (!info.producer_gone) {
        return "yes: it stays when its producer leaves";
    }
    const auto left_ms = info.expires.count();
    return left_ms == 0 ? "until it is withdrawn or replaced"
                        : "for another " + std::to_string((left_ms + 999) / 1000) + " s";
}

/// "video, gid 44"; a number that has no name, once: "gid 44".
std::string with_number(const std::string& name, const char* what, std::uint32_t number) {
    const std::string digits = std::to_string(number);
    return (name == digits ? "" : name + ", ") + what + " " + digits;
}

Json to_json(const hurray::CapsuleInfo& info) {
    return {{"capsule", {{"uid", info.capsule.uid}, {"id", hex(info.capsule.id)}}},
            {"name", info.name},
            {"version", info.version},
            {"bytes", info.byte_size},
            {"leases", info.leases},
            {"access", info.access ? Json{{"gid", info.access->gid}, {"mode", info.access->mode}} : Json()},
            {"immutable", info.immutable},
            {"unsealed", info.unsealed},
            {"retired", info.retired},
            {"lingering", info.lingering},
            {"producer_gone", info.producer_gone},
            {"expires_ms", info.expires.count()},
            {"once", info.once},
            {"pid", info.pid},
            {"descriptor", to_json(read_tensor(info.descriptor), info.descriptor)}};
}

/// `look_up`, which may ask a server, once for each number.
auto remembering(std::string (*look_up)(std::uint32_t)) {
    return [look_up, known = std::make_shared<std::map<std::uint32_t, std::string>>()](std::uint32_t number) {
        const auto [entry, fresh] = known->try_emplace(number);
        if (fresh) {
            entry->second = look_up(number);
        }
        return entry->second;
    };
}

/// So much of what the daemon counts under that name.
std::string amount_of(const std::string& what, std::uint64_t value) {
    return what.find("bytes") != std::string::npos ? human_bytes(value) : std::to_string(value);
}

void print_capsule(const hurray::CapsuleInfo& info, const Tensor& tensor) {
    const auto line = [](const char* key, const std::string& value) {
        std::cout << key << std::string(12 - std::char_traits<char>::length(key), ' ') << value << '\n';
    };
    line("name", info.name.empty() ? "(none)" : info.name);
    line("version", std::to_string(info.version));
    line("state", state_of(info));
    line("capsule", id_text(info.capsule));
    line("producer",
         info.producer_gone ? "gone (was pid " + std::to_string(info.pid) + ")" : "pid " + std::to_string(info.pid));
    if (info.lingering) {
        line("lingers", lingering_text(info));
    }
    line("owner", with_number(user_text(info.capsule.uid), "uid", info.capsule.uid));
    if (info.access) {
        line("group", with_number(group_text(info.access->gid), "gid", info.access->gid));
        line("mode", mode_text(info.access->mode));
    }
    line("leases", std::to_string(info.leases));
    line("bytes", human_bytes(info.byte_size) + " (" + std::to_string(info.byte_size) + ")");
    for (const auto& [key, text] : lines(tensor)) {
        line(key.c_str(), text);
    }
}

}  // namespace

std::vector<std::string> socket_paths(const Look& look) {
    if (!look.socket.empty()) {
        return {look.socket};
    }
    if (const char* path = std::getenv("HURRAY_SOCKET"); path != nullptr && *path != '\0') {
        return {path};
    }
    std::vector<std::string> paths;
    if (const char* runtime = std::getenv("XDG_RUNTIME_DIR"); runtime != nullptr && *runtime != '\0') {
        paths.push_back(std::string(runtime) + "/hurray/hurrayd.sock");
    }
    paths.emplace_back("/run/hurray/hurrayd.sock");
    return paths;
}

int list(const Look& look, const std::string& pattern) {
    return with_client(look, [&](hurray::Client& client) {
        const std::vector<hurray::CapsuleInfo> found = client.list(pattern);
        if (look.json) {
            Json array = Json::array();
            for (const hurray::CapsuleInfo& info : found) {
                array.push_back(to_json(info));
            }
            print(array);
            return kDone;
        }
        using enum Table::Align;
        Table table({{"NAME", Left},
                     {"VERSION", Right},
                     {"TYPE", Left},
                     {"SHAPE", Left},
                     {"BYTES", Right},
                     {"LEASES", Right},
                     {"OWNER", Left},
                     {"GROUP", Left},
                     {"MODE", Left},
                     {"STATE", Left}});
        const auto name_of_user = remembering(user_text);
        const auto name_of_group = remembering(group_text);
        for (const hurray::CapsuleInfo& info : found) {
            const Tensor tensor = read_tensor(info.descriptor);
            table.add({info.name.empty() ? "-" : info.name, std::to_string(info.version), type_text(tensor),
                       shape_text(tensor), human_bytes(info.byte_size), std::to_string(info.leases),
                       name_of_user(info.capsule.uid), info.access ? name_of_group(info.access->gid) : "-",
                       info.access ? mode_text(info.access->mode) : "-", state_of(info)});
        }
        table.print(std::cout);
        return kDone;
    });
}

int inspect(const Look& look, const std::string& name) {
    if (name.empty() || name.back() == '/') {
        complain("inspect wants a capsule's whole name; `hurrayctl list " + name + "` shows which there are");
        return kUsage;
    }
    return with_client(look, [&](hurray::Client& client) {
        // Ordered by version; a retired one may be older or newer than what can be attached.
        std::optional<hurray::CapsuleInfo> latest;
        client.for_each(name, [&](const hurray::CapsuleInfo& info) {
            if (!latest || latest->retired || !info.retired) {
                latest = info;
            }
        });
        if (!latest) {
            complain("there is no capsule " + name + " that you may read; `hurrayctl list` shows what there is");
            return kRefused;
        }
        if (look.json) {
            print(to_json(*latest));
        } else {
            print_capsule(*latest, read_tensor(latest->descriptor));
        }
        return kDone;
    });
}

int status(const Look& look) {
    return with_client(look, [&](hurray::Client& client) {
        const Json status = Json::parse(client.status());
        if (look.json) {
            print(status);
            return kDone;
        }
        std::cout << "hurrayd " << status.value("daemon_version", "?") << ", up "
                  << human_duration(status.value("uptime_ms", std::uint64_t{0})) << '\n';
        using enum Table::Align;
        if (const Json uses = status.value("uses", Json::array()); !uses.empty()) {
            Table table({{"USE", Left}, {"UID", Right}, {"USED", Right}, {"LIMIT", Right}});
            for (const Json& use : uses) {
                const std::string what = use.value("name", "");
                const auto limit = use.value("limit", std::uint64_t{0});
                table.add({what, std::to_string(use.value("uid", 0u)),
                           amount_of(what, use.value("used", std::uint64_t{0})),
                           limit == 0 ? "-" : amount_of(what, limit)});
            }
            std::cout << '\n';
            table.print(std::cout);
        }
        if (const Json holders = status.value("holders", Json::array()); !holders.empty()) {
            Table table({{"MOST OF", Left},
                         {"UID", Right},
                         {"PID", Right},
                         {"CLIENT", Left},
                         {"USED", Right},
                         {"LIMIT", Right}});
            for (const Json& holder : holders) {
                const std::string what = holder.value("name", "");
                const auto limit = holder.value("limit", std::uint64_t{0});
                const std::string label = holder.value("client_name", "");
                table.add({what, std::to_string(holder.value("uid", 0u)), std::to_string(holder.value("pid", 0)),
                           label.empty() ? "-" : label, amount_of(what, holder.value("used", std::uint64_t{0})),
                           limit == 0 ? "-" : amount_of(what, limit)});
            }
            std::cout << '\n';
            table.print(std::cout);
        }
        if (const Json writing = status.value("writing", Json::array()); !writing.empty()) {
            Table table({{"WRITING", Right}, {"UID", Right}, {"PID", Right}, {"AGE", Right}});
            for (const Json& entry : writing) {
                table.add({human_bytes(entry.value("bytes", std::uint64_t{0})), std::to_string(entry.value("uid", 0u)),
                           std::to_string(entry.value("pid", 0)),
                           human_duration(entry.value("age_ms", std::uint64_t{0}))});
            }
            std::cout << '\n';
            table.print(std::cout);
        }
        return kDone;
    });
}

}  // namespace hurrayctl
