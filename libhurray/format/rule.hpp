#pragma once

#include <cstdint>

#include "libhurray/format/descriptor_error.hpp"

/// How the checks beyond decoding are written down: each rule returns nothing or what is wrong.
namespace hurray {

using Check = DescriptorResult<void>;

[[nodiscard]] inline tl::unexpected<DescriptorError> refuse(Fault fault, const char* field, std::uint64_t value = 0,
                                                            std::uint64_t limit = 0, std::uint64_t index = 0) noexcept {
    return tl::unexpected(DescriptorError{fault, field, index, value, limit});
}

[[nodiscard]] inline Check require(bool condition, Fault fault, const char* field, std::uint64_t value = 0,
                                   std::uint64_t limit = 0, std::uint64_t index = 0) noexcept {
    if (condition) {
        return {};
    }
    return refuse(fault, field, value, limit, index);
}

}  // namespace hurray
