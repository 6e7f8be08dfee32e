#pragma once

#include <cstdint>
#include <span>

#include "hurray.h"

#include "libhurray/abi/last_error.hpp"
#include "libhurray/format/paged_lookup.hpp"

namespace hurray::abi {

/// An index that a caller passed as pointer and length. The pointer may be null for a scalar.
struct IndexArgument {
    const uint64_t* components;
    uintptr_t length;

    [[nodiscard]] bool is_null() const noexcept { return components == nullptr && length > 0; }
    [[nodiscard]] std::span<const std::uint64_t> span() const noexcept { return {components, length}; }
};

[[nodiscard]] inline PagedIndex to_paged_index(const HurrayPagedIndex& index) noexcept {
    return {index.sequence, index.token, index.head, index.component};
}

}  // namespace hurray::abi
