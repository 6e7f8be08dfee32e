#include "libhurray/abi/last_error.hpp"

#include <array>
#include <cstdio>
#include <cstring>

namespace hurray::abi {
namespace {

/// With the terminating null. Longer messages are cut.
constexpr std::size_t kCapacity = 1024;

thread_local std::array<char, kCapacity> last_message{};

bool continues_a_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U; }

/// How much of `message` fits, in whole UTF-8 characters.
std::size_t fitting_length(std::string_view message) {
    if (message.size() < kCapacity) {
        return message.size();
    }
    std::size_t length = kCapacity - 1;
    while (length > 0 && continues_a_character(message[length])) {
        --length;
    }
    return length;
}

}  // namespace

void set_last_error(std::string_view message) noexcept {
    const std::size_t length = fitting_length(message);
    // The message may be the last one itself.
    std::memmove(last_message.data(), message.data(), length);
    last_message[length] = '\0';
}

HurrayStatus fail(HurrayStatus status, const char* function, std::string_view what) noexcept {
    std::array<char, kCapacity> text{};
    std::snprintf(text.data(), text.size(), "%s: %.*s", function, static_cast<int>(what.size()), what.data());
    set_last_error(text.data());
    return status;
}

HurrayStatus fail_null(const char* function, const char* argument) noexcept {
    std::array<char, kCapacity> text{};
    std::snprintf(text.data(), text.size(), "%s: the argument '%s' is null", function, argument);
    set_last_error(text.data());
    return HURRAY_ERR_NULL_POINTER;
}

HurrayStatus require(const char* function, std::initializer_list<Required> arguments) noexcept {
    for (const Required& required : arguments) {
        if (!required.is_there) {
            return fail_null(function, required.argument);
        }
    }
    return HURRAY_OK;
}

HurrayStatus fail_too_small(const char* function, const char* array, std::uint64_t capacity,
                            std::uint64_t needed) noexcept {
    std::array<char, kCapacity> text{};
    std::snprintf(text.data(), text.size(), "%s: '%s' is null or has room for %llu entries, %llu are needed", function,
                  array, static_cast<unsigned long long>(capacity), static_cast<unsigned long long>(needed));
    set_last_error(text.data());
    return HURRAY_ERR_BUFFER_TOO_SMALL;
}

HurrayStatus fail(const char* function, const DescriptorError& error) {
    return fail(static_cast<HurrayStatus>(to_errc(error.fault)), function, describe(error));
}

}  // namespace hurray::abi

const char* hurray_last_error_message(void) { return hurray::abi::last_message.data(); }

void hurray_last_error_set(const char* message) { hurray::abi::set_last_error(message == nullptr ? "" : message); }
