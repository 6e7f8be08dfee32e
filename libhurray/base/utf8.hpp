#pragma once

#include <cstddef>
#include <string_view>

/// UTF-8 that somebody else wrote, taken strictly: no overlong forms, no surrogates, nothing above U+10FFFF.
namespace hurray {

/// One character, and how many bytes it takes; 0 bytes: not UTF-8.
struct Utf8Character {
    char32_t code = 0;
    std::size_t bytes = 0;
};

/// The first character of `text`, which is not empty.
[[nodiscard]] constexpr Utf8Character first_utf8_character(std::string_view text) noexcept {
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

/// Where `text` stops being UTF-8; its size if it does not.
[[nodiscard]] constexpr std::size_t utf8_prefix(std::string_view text) noexcept {
    std::size_t at = 0;
    while (at < text.size()) {
        const std::size_t bytes = first_utf8_character(text.substr(at)).bytes;
        if (bytes == 0) {
            break;
        }
        at += bytes;
    }
    return at;
}

[[nodiscard]] constexpr bool is_utf8(std::string_view text) noexcept { return utf8_prefix(text) == text.size(); }

}  // namespace hurray
