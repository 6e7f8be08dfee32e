#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hurray.h"

#include "libhurray/base/check.hpp"
#include "libhurray/format/descriptor_error.hpp"
#include "libhurray/format/descriptor_view.hpp"
#include "libhurray/format/descriptor_writer.hpp"
#include "libhurray/format/validate.hpp"

/// What the targets of the descriptor format have in common: bytes, handles and answers, from C++ and through the C ABI.
namespace hurray::fuzz {

inline std::vector<std::uint8_t> canonical_bytes(const DescriptorView& view) {
    std::vector<std::uint8_t> bytes(encoded_size(view));
    encode_descriptor(view, bytes);
    return bytes;
}

// ---- The C ABI -----------------------------------------------------------------------------------------------------

struct DestroyDescriptor {
    void operator()(HurrayDescriptor* descriptor) const {
        HURRAY_CHECK(hurray_descriptor_destroy(descriptor) == HURRAY_OK);
    }
};
using DescriptorHandle = std::unique_ptr<HurrayDescriptor, DestroyDescriptor>;

/// What a C function with an array for an output says, and the array if that is HURRAY_OK.
struct Written {
    HurrayStatus status;
    std::vector<std::uint8_t> bytes;
};

/// Asks `call(array, &length)` in every way that the capacity pattern (R6) has, and sees to it that it is kept.
template <class Call>
Written write_all(Call call) {
    constexpr std::uint8_t kUntouched = 0xA5;
    std::uintptr_t length = 0;
    const HurrayStatus asked = call(static_cast<std::uint8_t*>(nullptr), &length);
    if (asked != HURRAY_ERR_BUFFER_TOO_SMALL) {
        HURRAY_CHECK(asked != HURRAY_OK && length == 0);
        return {asked, {}};
    }
    const std::uintptr_t needed = length;
    HURRAY_CHECK(needed > 0);
    std::vector<std::uint8_t> small(needed - 1, kUntouched);
    length = small.size();
    HURRAY_CHECK(call(small.data(), &length) == HURRAY_ERR_BUFFER_TOO_SMALL && length == needed);
    HURRAY_CHECK(small == std::vector<std::uint8_t>(needed - 1, kUntouched));
    std::vector<std::uint8_t> bytes(needed + 1, kUntouched);
    length = bytes.size();
    HURRAY_CHECK(call(bytes.data(), &length) == HURRAY_OK && length == needed);
    HURRAY_CHECK(bytes.back() == kUntouched);
    bytes.pop_back();
    std::vector<std::uint8_t> exact(needed);
    HURRAY_CHECK(call(exact.data(), &length) == HURRAY_OK && length == needed && exact == bytes);
    return {HURRAY_OK, std::move(bytes)};
}

/// Whether this thread's last message is that of `function` about `error`.
inline bool last_message_is(const char* function, const DescriptorError& error) {
    return hurray_last_error_message() == std::string(function) + ": " + describe(error);
}

// ---- Answers -------------------------------------------------------------------------------------------------------

/// Nothing: there is nothing against it.
using Violation = std::optional<DescriptorError>;

inline Violation violation(const DescriptorResult<void>& result) {
    return result ? Violation() : Violation(result.error());
}

inline bool same(const Violation& a, const Violation& b) {
    if (!a || !b) {
        return !a && !b;
    }
    return a->fault == b->fault && std::strcmp(a->field, b->field) == 0 && a->index == b->index &&
           a->value == b->value && a->limit == b->limit;
}

/// What validation has against a descriptor.
struct Validity {
    Violation format;
    Violation sharing;
};

inline Validity validate(const DescriptorView& view) {
    return {violation(validate_descriptor(view, ValidationRules::Format)),
            violation(validate_descriptor(view, ValidationRules::Sharing))};
}

/// The C ABI says the same of the same descriptor: status, rule, field and numbers.
inline void check_same_through_c(const HurrayDescriptor* descriptor, const Validity& validity) {
    const auto agrees = [](const char* function, HurrayStatus status, const Violation& expected) {
        if (!expected) {
            return status == HURRAY_OK;
        }
        return status == static_cast<HurrayStatus>(to_errc(expected->fault)) && last_message_is(function, *expected);
    };
    HURRAY_CHECK(agrees("hurray_descriptor_validate", hurray_descriptor_validate(descriptor), validity.format));
    HURRAY_CHECK(
        agrees("hurray_descriptor_validate_sharing", hurray_descriptor_validate_sharing(descriptor), validity.sharing));
}

}  // namespace hurray::fuzz
