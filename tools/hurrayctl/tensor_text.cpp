#include "tensor_text.hpp"

#include <hurray/hurray.hpp>
#include <iostream>

#include "text.hpp"

namespace hurrayctl {
namespace {

std::string value_text(const Json& value) {
    if (value.is_string()) {
        return value.get<std::string>();
    }
    if (value.is_null()) {
        return "none";
    }
    if (!value.is_array()) {
        return value.dump();
    }
    std::string text;
    for (const Json& entry : value) {
        text += text.empty() ? "" : ", ";
        text += entry.is_null() ? "?" : value_text(entry);
    }
    return "[" + text + "]";
}

/// "axis 1, block_size 128".
std::string pairs_text(const Json& object) {
    std::string text;
    for (const auto& [key, value] : object.items()) {
        text += text.empty() ? "" : ", ";
        text += key + " " + value_text(value);
    }
    return text;
}

std::string field(const Tensor& tensor, const char* key) {
    return tensor.problem.empty() ? tensor.fields.at(key).get<std::string>() : "?";
}

std::string buffer_text(const Json& buffer) {
    return human_bytes(buffer.at("byte_size").get<std::uint64_t>()) + ", aligned to " + buffer.at("alignment").dump() +
           ", " + value_text(buffer.at("device")) + ", " + value_text(buffer.at("memory_class")) + ", " +
           value_text(buffer.at("sync_mode"));
}

}  // namespace

void print(const Json& json) { std::cout << json.dump(2, ' ', false, Json::error_handler_t::replace) << '\n'; }

Tensor read_tensor(std::span<const std::uint8_t> encoded) {
    try {
        return {{}, Json::parse(hurray::Descriptor(encoded).to_json())};
    } catch (const hurray::StatusError&) {
        return {hurray_last_error_message(), {}};
    }
}

Json to_json(const Tensor& tensor, std::span<const std::uint8_t> encoded) {
    Json json = tensor.fields;
    if (!tensor.problem.empty()) {
        json = {{"error", tensor.problem}};
    }
    json["encoded"] = base64(encoded);
    return json;
}

std::string type_text(const Tensor& tensor) { return field(tensor, "element_type"); }

std::string shape_text(const Tensor& tensor) {
    if (!tensor.problem.empty()) {
        return "?";
    }
    std::string text;
    for (const Json& size : tensor.fields.at("shape")) {
        text += text.empty() ? "" : "x";
        text += size.is_null() ? "?" : size.dump();
    }
    return text.empty() ? "scalar" : text;
}

std::string layout_text(const Tensor& tensor) { return field(tensor, "layout"); }

std::vector<std::pair<std::string, std::string>> lines(const Tensor& tensor) {
    if (!tensor.problem.empty()) {
        return {{"descriptor", "can't be read: " + tensor.problem}};
    }
    const Json& fields = tensor.fields;
    std::vector<std::pair<std::string, std::string>> lines{{"type", type_text(tensor)}, {"shape", shape_text(tensor)}};
    std::string layout = layout_text(tensor);
    Json levels = Json::array();
    if (fields.contains("layout_fields")) {
        Json layout_fields = fields.at("layout_fields");
        if (layout_fields.contains("levels")) {
            levels = layout_fields.at("levels");
        } else {
            layout += ": " + pairs_text(layout_fields);
        }
    }
    lines.emplace_back("layout", layout);
    for (std::size_t i = 0; i < levels.size(); ++i) {
        lines.emplace_back("level " + std::to_string(i), pairs_text(levels[i]));
    }
    if (const auto strides = fields.find("strides"); strides != fields.end() && !strides->is_null()) {
        std::string text = value_text(*strides);
        text = text.substr(1, text.size() - 2);
        lines.emplace_back("strides", text.empty() ? "(none)" : text + " elements");
    }
    if (const auto offset = fields.at("byte_offset").get<std::uint64_t>(); offset != 0) {
        lines.emplace_back("offset", std::to_string(offset) + " bytes");
    }
    for (std::size_t i = 0; i < fields.at("buffers").size(); ++i) {
        lines.emplace_back("buffer " + std::to_string(i), buffer_text(fields.at("buffers")[i]));
    }
    constexpr std::pair<const char*, const char*> kSections[] = {{"quantization", "quantized"},
                                                                 {"shard", "shard"},
                                                                 {"statistics", "statistics"},
                                                                 {"extension_type", "extension"}};
    for (const auto& [key, heading] : kSections) {
        if (const auto section = fields.find(key); section != fields.end()) {
            lines.emplace_back(heading, section->empty() ? "(none computed)" : pairs_text(*section));
        }
    }
    if (const auto role = fields.find("composite_member"); role != fields.end()) {
        lines.emplace_back("member", value_text(*role));
    }
    return lines;
}

}  // namespace hurrayctl
