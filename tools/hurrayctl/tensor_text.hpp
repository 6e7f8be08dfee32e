#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace hurrayctl {

using Json = nlohmann::ordered_json;

/// To stdout, for people and programs.
void print(const Json& json);

/// What a descriptor says. Capsules and files show it by the same functions.
struct Tensor {
    std::string problem;  ///< not empty: nothing else is known
    Json fields;          ///< as hurray_descriptor_to_json has them
};

/// Never throws StatusError: a descriptor that can't be read is no reason not to show the rest.
Tensor read_tensor(std::span<const std::uint8_t> encoded);

/// The fields, or an `error`, and the encoded bytes in base64 as `encoded`.
Json to_json(const Tensor& tensor, std::span<const std::uint8_t> encoded);

/// "float32", "3x4", "row-major"; "?" if it can't be read.
std::string type_text(const Tensor& tensor);
std::string shape_text(const Tensor& tensor);
std::string layout_text(const Tensor& tensor);

/// Everything, as lines of a key and a text.
std::vector<std::pair<std::string, std::string>> lines(const Tensor& tensor);

}  // namespace hurrayctl
