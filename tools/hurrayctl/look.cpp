#include "look.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <hurray/client.hpp>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <vector>

#include "exit_codes.hpp"
#include "text.hpp"

namespace hurrayctl {
namespace {

using Json = nlohmann::ordered_json;

// ---- Descriptors ---------------------------------------------------------------------------------------------------

/// What a descriptor says, as far as this version can read it.
struct Tensor {
    std::string problem;  ///< not empty: nothing else is known
    std::string type;
    std::string layout;
    std::vector<std::uint64_t> shape;
    std::optional<std::vector<std::int64_t>> strides;
    std::uint64_t byte_offset = 0;
    std::vector<HurrayBufferEntry> buffers;
};

std::string named(std::span<const std::pair<unsigned, const char*>> names, unsigned tag) {
    const auto found = std::find_if(names.begin(), names.end(), [&](const auto& entry) { return entry.first == tag; });
    return found != names.end() ? found->second : std::to_string(tag);
}

std::string layout_name(unsigned tag) {
    constexpr std::pair<unsigned, const char*> kNames[] = {{HURRAY_LAYOUT_ROW_MAJOR, "row-major"},
                                                           {HURRAY_LAYOUT_COLUMN_MAJOR, "column-major"},
                                                           {HURRAY_LAYOUT_STRIDED, "strided"}};
    return named(kNames, tag);
}

std::string device_name(unsigned tag) {
    constexpr std::pair<unsigned, const char*> kNames[] = {
        {HURRAY_DEVICE_CPU, "cpu"},         {HURRAY_DEVICE_CUDA, "cuda"},
        {HURRAY_DEVICE_ROCM, "rocm"},       {HURRAY_DEVICE_METAL, "metal"},
        {HURRAY_DEVICE_VULKAN, "vulkan"},   {HURRAY_DEVICE_WEBGPU, "webgpu"},
        {HURRAY_DEVICE_HEXAGON, "hexagon"}, {HURRAY_DEVICE_LEVEL_ZERO, "level-zero"},
        {HURRAY_DEVICE_OPENCL, "opencl"}};
    return named(kNames, tag);
}

std::string sync_name(unsigned mode) {
    constexpr std::pair<unsigned, const char*> kNames[] = {{HURRAY_SYNC_PRODUCER_SYNCED, "producer-synced"},
                                                           {HURRAY_SYNC_EVENT, "event"},
                                                           {HURRAY_SYNC_CONSUMER_STREAM, "consumer-stream"}};
    return named(kNames, mode);
}

std::string memory_name(unsigned memory_class) {
    constexpr std::pair<unsigned, const char*> kNames[] = {{HURRAY_MEMORY_STANDARD, "standard"},
                                                           {HURRAY_MEMORY_HOST_PINNED, "host-pinned"},
                                                           {HURRAY_MEMORY_UNIFIED, "unified"},
                                                           {HURRAY_MEMORY_PEER, "peer"}};
    return named(kNames, memory_class);
}

std::string type_name(std::uint8_t tag) {
    const char* name = nullptr;
    return hurray_element_type_name(tag, &name) == HURRAY_OK ? name : "type " + std::to_string(tag);
}

/// Never throws StatusError: a descriptor that can't be read is no reason not to show the rest of a capsule.
Tensor read_tensor(std::span<const std::uint8_t> encoded) {
    Tensor tensor;
    HurrayDescriptor* descriptor = nullptr;
    const HurrayStatus status = hurray_descriptor_decode(encoded.data(), encoded.size(), &descriptor);
    if (status != HURRAY_OK) {
        tensor.problem = hurray_last_error_message();
        return tensor;
    }
    const std::unique_ptr<HurrayDescriptor, HurrayStatus (*)(HurrayDescriptor*)> owner(descriptor,
                                                                                       &hurray_descriptor_destroy);
    std::uint8_t type = 0;
    std::uint8_t layout = 0;
    std::array<std::uint64_t, HURRAY_MAX_RANK> shape{};
    std::array<std::int64_t, HURRAY_MAX_RANK> strides{};
    std::uintptr_t rank = shape.size();
    std::uint32_t buffers = 0;
    if (hurray_descriptor_element_type_tag(descriptor, &type) != HURRAY_OK ||
        hurray_descriptor_layout_tag(descriptor, &layout) != HURRAY_OK ||
        hurray_descriptor_shape(descriptor, shape.data(), &rank) != HURRAY_OK ||
        hurray_descriptor_byte_offset(descriptor, &tensor.byte_offset) != HURRAY_OK ||
        hurray_descriptor_buffer_count(descriptor, &buffers) != HURRAY_OK) {
        tensor.problem = hurray_last_error_message();
        return tensor;
    }
    tensor.type = type_name(type);
    tensor.layout = layout_name(layout);
    tensor.shape.assign(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(rank));
    rank = strides.size();
    if (hurray_descriptor_strides(descriptor, strides.data(), &rank) == HURRAY_OK) {
        tensor.strides.emplace(strides.begin(), strides.begin() + static_cast<std::ptrdiff_t>(rank));
    }
    for (std::uint32_t i = 0; i < buffers; ++i) {
        HurrayBufferEntry entry{};
        if (hurray_descriptor_buffer_entry(descriptor, i, &entry) == HURRAY_OK) {
            tensor.buffers.push_back(entry);
        }
    }
    return tensor;
}

std::string shape_text(const Tensor& tensor) {
    if (tensor.shape.empty()) {
        return "scalar";
    }
    std::string text;
    for (const std::uint64_t size : tensor.shape) {
        text += text.empty() ? "" : "x";
        text += size == HURRAY_DYNAMIC_DIM ? "?" : std::to_string(size);
    }
    return text;
}

// ---- Capsules ------------------------------------------------------------------------------------------------------

std::string state_of(const hurray::CapsuleInfo& info) {
    return info.retired ? "retired" : info.lingering ? "lingering" : "attachable";
}

std::string id_text(const hurray::CapsuleId& id) { return std::to_string(id.uid) + ":" + hex(id.id); }

std::string mode_text(std::uint32_t mode) {
    char text[16];
    std::snprintf(text, sizeof text, "%04o", mode);
    return text;
}

Json to_json(const hurray::CapsuleInfo& info) {
    const Tensor tensor = read_tensor(info.descriptor);
    Json descriptor;
    if (tensor.problem.empty()) {
        descriptor["element_type"] = tensor.type;
        descriptor["shape"] = Json::array();
        for (const std::uint64_t size : tensor.shape) {
            descriptor["shape"].push_back(size == HURRAY_DYNAMIC_DIM ? Json() : Json(size));
        }
        descriptor["layout"] = tensor.layout;
        descriptor["strides"] = tensor.strides ? Json(*tensor.strides) : Json();
        descriptor["byte_offset"] = tensor.byte_offset;
        descriptor["buffers"] = Json::array();
        for (const HurrayBufferEntry& entry : tensor.buffers) {
            descriptor["buffers"].push_back({{"byte_size", entry.byte_size},
                                             {"alignment", entry.alignment},
                                             {"device", device_name(entry.device_tag)},
                                             {"sync_mode", sync_name(entry.sync_mode)},
                                             {"memory_class", memory_name(entry.memory_class)}});
        }
    } else {
        descriptor["error"] = tensor.problem;
    }
    descriptor["encoded"] = base64(info.descriptor);
    return {{"capsule", {{"uid", info.capsule.uid}, {"id", hex(info.capsule.id)}}},
            {"name", info.name},
            {"version", info.version},
            {"bytes", info.byte_size},
            {"leases", info.leases},
            {"access", info.access ? Json{{"gid", info.access->gid}, {"mode", info.access->mode}} : Json()},
            {"retired", info.retired},
            {"lingering", info.lingering},
            {"pid", info.pid},
            {"descriptor", descriptor}};
}

// ---- Output and errors ---------------------------------------------------------------------------------------------

void print(const Json& json) { std::cout << json.dump(2, ' ', false, Json::error_handler_t::replace) << '\n'; }

std::string joined(const std::vector<std::string>& texts, const char* separator) {
    std::string result;
    for (const std::string& text : texts) {
        result += result.empty() ? "" : separator;
        result += text;
    }
    return result;
}

hurray::Client connect(const Look& look) {
    hurray::ConnectOptions options;
    options.address = look.socket;
    options.client_name = "hurrayctl";
    return hurray::Client::connect(std::move(options));
}

void complain(const std::string& message) { std::cerr << "hurrayctl: " << message << '\n'; }

/// Says on stderr what went wrong, which is the library's to tell together with what can be done; returns the exit code.
int report(const hurray::StatusError& error) {
    const std::string reason(error.reason());
    switch (error.status()) {
        case HURRAY_ERR_DAEMON_UNAVAILABLE:
            complain(reason);
            return kNoDaemon;
        case HURRAY_ERR_CONNECTION_LOST:
        case HURRAY_ERR_TIMED_OUT:
            complain("hurrayd does not answer: " + reason);
            return kNoDaemon;
        case HURRAY_ERR_INVALID_ARGUMENT:
            complain(reason);
            return kUsage;
        default:
            complain(reason);
            return kRefused;
    }
}

/// Runs a command with a connected client; everything it can throw ends here.
template <typename Command>
int with_client(const Look& look, Command&& command) {
    try {
        hurray::Client client = connect(look);
        const int code = command(client);
        if (!std::cout.flush()) {
            complain("can't write to stdout");
            return kRefused;
        }
        return code;
    } catch (const hurray::StatusError& error) {
        return report(error);
    }
}

void print_capsule(const hurray::CapsuleInfo& info, const Tensor& tensor) {
    const auto line = [](const char* key, const std::string& value) {
        std::cout << key << std::string(12 - std::char_traits<char>::length(key), ' ') << value << '\n';
    };
    line("name", info.name.empty() ? "(none)" : info.name);
    line("version", std::to_string(info.version));
    line("state", state_of(info));
    line("capsule", id_text(info.capsule));
    line("producer", "pid " + std::to_string(info.pid) + ", uid " + std::to_string(info.capsule.uid));
    line("access", info.access ? "gid " + std::to_string(info.access->gid) + ", mode " + mode_text(info.access->mode)
                               : "the producer's user");
    line("leases", std::to_string(info.leases));
    line("bytes", human_bytes(info.byte_size) + " (" + std::to_string(info.byte_size) + ")");
    if (!tensor.problem.empty()) {
        line("descriptor", "can't be read: " + tensor.problem);
        return;
    }
    line("type", tensor.type);
    line("shape", shape_text(tensor));
    line("layout", tensor.layout);
    if (tensor.strides) {
        std::vector<std::string> strides;
        for (const std::int64_t stride : *tensor.strides) {
            strides.push_back(std::to_string(stride));
        }
        line("strides", strides.empty() ? "(none)" : joined(strides, ", ") + " elements");
    }
    if (tensor.byte_offset != 0) {
        line("offset", std::to_string(tensor.byte_offset) + " bytes");
    }
    for (std::size_t i = 0; i < tensor.buffers.size(); ++i) {
        const HurrayBufferEntry& entry = tensor.buffers[i];
        line(("buffer " + std::to_string(i)).c_str(),
             human_bytes(entry.byte_size) + ", aligned to " + std::to_string(entry.alignment) + ", " +
                 device_name(entry.device_tag) + ", " + memory_name(entry.memory_class) + ", " +
                 sync_name(entry.sync_mode));
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
                     {"STATE", Left}});
        for (const hurray::CapsuleInfo& info : found) {
            const Tensor tensor = read_tensor(info.descriptor);
            const bool readable = tensor.problem.empty();
            table.add({info.name.empty() ? "-" : info.name, std::to_string(info.version), readable ? tensor.type : "?",
                       readable ? shape_text(tensor) : "?", human_bytes(info.byte_size), std::to_string(info.leases),
                       state_of(info)});
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
                const auto amount = [&](std::uint64_t value) {
                    return what.find("bytes") != std::string::npos ? human_bytes(value) : std::to_string(value);
                };
                const auto limit = use.value("limit", std::uint64_t{0});
                table.add({what, std::to_string(use.value("uid", 0u)), amount(use.value("used", std::uint64_t{0})),
                           limit == 0 ? "-" : amount(limit)});
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
