#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "hurray.h"

#include "libhurray/container/value.hpp"

namespace hurray::abi {

[[nodiscard]] inline HurrayValue to_c(const Value& value) noexcept {
    HurrayValue c{};
    c.kind = static_cast<std::uint8_t>(value.tag);
    c.element_kind = value.tag == ValueTag::Array ? static_cast<std::uint8_t>(value.element_tag) : std::uint8_t{0};
    c.boolean = static_cast<std::uint8_t>(value.boolean);
    c.int64 = value.int64;
    c.uint64 = value.uint64;
    c.float64 = std::bit_cast<double>(value.float64_bits);
    c.data = value.data.data();
    c.length = value.data.size();
    c.count = value.count;
    return c;
}

/// Null unless a struct of the caller's is one: what the fields mean is for check_value() to judge.
[[nodiscard]] inline const char* what_is_wrong(const HurrayValue& value) noexcept {
    if (value.data == nullptr && value.length != 0) {
        return "value.data is null, but value.length is not 0";
    }
    if (value.boolean > 1) {
        return "value.boolean is neither 0 nor 1";
    }
    for (const std::uint8_t byte : value.reserved) {
        if (byte != 0) {
            return "value.reserved is not 0";
        }
    }
    return nullptr;
}

[[nodiscard]] inline Value from_c(const HurrayValue& c) noexcept {
    Value value;
    value.tag = static_cast<ValueTag>(c.kind);
    value.element_tag = static_cast<ValueTag>(c.element_kind);
    value.boolean = c.boolean == 1;
    value.int64 = c.int64;
    value.uint64 = c.uint64;
    value.float64_bits = std::bit_cast<std::uint64_t>(c.float64);
    value.data = {c.data, static_cast<std::size_t>(c.length)};
    value.count = c.count;
    return value;
}

}  // namespace hurray::abi
