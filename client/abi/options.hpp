#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <optional>
#include <span>
#include <string>

#include "hurray_client.h"

#include "libhurray/base/result.hpp"
#include "proto/wire/access.hpp"

namespace hurray::client::abi {

/// Reads a caller's option struct: null is all defaults, a shorter one of an older header is filled up with zeros, a longer one
/// of a newer header is fine if what we don't know of it is zero.
template <class Options>
[[nodiscard]] Result<Options> read_options(const Options* given) {
    Options options{};
    options.struct_size = sizeof options;
    if (given == nullptr) {
        return options;
    }
    const std::size_t size = given->struct_size;
    if (size < sizeof given->struct_size) {
        return fail_field(Errc::InvalidArgument, "options->struct_size",
                          "is " + std::to_string(size) + "; set it to the size of the struct");
    }
    const auto* bytes = reinterpret_cast<const unsigned char*>(given);
    std::memcpy(&options, bytes, std::min(size, sizeof options));
    for (std::size_t i = sizeof options; i < size; ++i) {
        if (bytes[i] != 0) {
            return fail_field(Errc::Unsupported, "options",
                              "an option of a newer hurray_client.h is set, which this library does not know");
        }
    }
    options.struct_size = sizeof options;
    return options;
}

/// Whether all of `flags` are among those that a function knows.
[[nodiscard]] inline Result<void> check_flags(std::uint32_t flags, std::uint32_t known) {
    const std::uint32_t unknown = flags & ~known;
    if (unknown != 0) {
        std::array<char, 16> text{};
        std::snprintf(text.data(), text.size(), "0x%x", unknown);
        return fail_field(Errc::InvalidArgument, "options->flags",
                          std::string(text.data()) + " is no flag of this function");
    }
    return {};
}

/// For fields that must be zero until what they ask for is built.
[[nodiscard]] inline Result<void> check_not_yet(bool is_set, const char* field) {
    if (is_set) {
        return fail_field(Errc::Unsupported, field, "is not supported yet and must be 0");
    }
    return {};
}

/// An access as the protocol wants it. A mode that would not count is a mistake, and one that could show a secret.
[[nodiscard]] inline Result<std::optional<wire::Access>> read_access(const HurrayAccess& given) {
    if (given.is_set == 0) {
        if (given.mode != 0) {
            return fail_field(Errc::InvalidArgument, "options->access.is_set",
                              "is 0, so the mode " + wire::mode_text(given.mode) + " would not count");
        }
        return std::optional<wire::Access>();
    }
    if (auto checked = wire::check_mode(given.mode, "options->access.mode"); !checked) {
        return fail(std::move(checked.error()));
    }
    return std::optional(wire::Access{given.gid, given.mode});
}

/// A timeout as the protocol wants it: absent for ever.
[[nodiscard]] inline Result<std::optional<std::uint64_t>> read_timeout(std::int64_t timeout_ms, const char* field) {
    if (timeout_ms < -1) {
        return fail_field(Errc::InvalidArgument, field,
                          "is " + std::to_string(timeout_ms) + "; -1 waits for ever, 0 does not wait");
    }
    if (timeout_ms == -1) {
        return std::optional<std::uint64_t>();
    }
    return std::optional<std::uint64_t>(static_cast<std::uint64_t>(timeout_ms));
}

}  // namespace hurray::client::abi
