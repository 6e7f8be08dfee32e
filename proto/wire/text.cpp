#include "proto/wire/text.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "libhurray/base/utf8.hpp"

namespace hurray::wire {
namespace {

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
        const Utf8Character character = first_utf8_character(text.substr(at));
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
        const Utf8Character character = first_utf8_character(text);
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
