#include "proto/wire/text.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace hurray::wire {
namespace {

/// One character of UTF-8, and how many bytes it takes; 0 bytes: not UTF-8.
struct Character {
    char32_t code = 0;
    std::size_t bytes = 0;
};

/// Strict: no overlong forms, no surrogates, nothing above U+10FFFF. `text` is not empty.
Character next_character(std::string_view text) noexcept {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    const unsigned char first = byte(0);
    if (first < 0x80) {
        return {first, 1};
    }
    std::size_t bytes = 0;
    char32_t code = 0;
    char32_t least = 0;
    if ((first & 0xE0U) == 0xC0) {
        bytes = 2;
        code = first & 0x1FU;
        least = 0x80;
    } else if ((first & 0xF0U) == 0xE0) {
        bytes = 3;
        code = first & 0x0FU;
        least = 0x800;
    } else if ((first & 0xF8U) == 0xF0) {
        bytes = 4;
        code = first & 0x07U;
        least = 0x10000;
    } else {
        return {};
    }
    if (text.size() < bytes) {
        return {};
    }
    for (std::size_t i = 1; i < bytes; ++i) {
        if ((byte(i) & 0xC0U) != 0x80) {
            return {};
        }
        code = (code << 6U) | (byte(i) & 0x3FU);
    }
    if (code < least || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) {
        return {};
    }
    return {code, bytes};
}

bool is_control(char32_t code) noexcept { return code < 0x20 || (code >= 0x7F && code <= 0x9F); }

std::string hexadecimal(std::uint32_t value, int digits) {
    constexpr std::string_view kDigits = "0123456789ABCDEF";
    std::string text;
    for (int shift = (digits - 1) * 4; shift >= 0; shift -= 4) {
        text += kDigits[(value >> static_cast<unsigned>(shift)) & 0xFU];
    }
    return text;
}

}  // namespace

Result<void> check_text(std::string_view text, std::string_view thing, std::string_view field) {
    for (std::size_t at = 0; at < text.size();) {
        if (text[at] >= 0x20 && text[at] < 0x7F) {  // most of what there is
            ++at;
            continue;
        }
        const Character character = next_character(text.substr(at));
        if (character.bytes == 0) {
            return fail_field(Errc::InvalidArgument, std::string(field),
                              std::string(thing) + " is not UTF-8: byte 0x" +
                                  hexadecimal(static_cast<unsigned char>(text[at]), 2) + " at position " +
                                  std::to_string(at));
        }
        if (is_control(character.code)) {
            return fail_field(Errc::InvalidArgument, std::string(field),
                              std::string(thing) + " holds the control character U+" +
                                  hexadecimal(static_cast<std::uint32_t>(character.code), 4) + " at position " +
                                  std::to_string(at));
        }
        at += character.bytes;
    }
    return {};
}

std::string printable(std::string_view text) {
    std::string result;
    result.reserve(text.size());
    while (!text.empty()) {
        const Character character = next_character(text);
        if (character.bytes == 0 || is_control(character.code)) {
            result += '?';
        } else {
            result += text.substr(0, character.bytes);
        }
        text.remove_prefix(std::max<std::size_t>(character.bytes, 1));
    }
    return result;
}

}  // namespace hurray::wire
