#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace hurray::test {

/// The bytes of a hexadecimal text. White space is ignored, and so is everything from a '#' to the end of its line.
inline std::vector<std::uint8_t> from_hex(std::string_view text) {
    std::vector<std::uint8_t> bytes;
    std::string digits;
    bool comment = false;
    for (const char c : text) {
        comment = c == '#' || (comment && c != '\n');
        if (comment || c == ' ' || c == '\n' || c == '\t' || c == '\r') {
            continue;
        }
        digits += c;
        if (digits.size() == 2) {
            std::size_t used = 0;
            bytes.push_back(static_cast<std::uint8_t>(std::stoul(digits, &used, 16)));
            if (used != 2) {
                throw std::invalid_argument("not a hexadecimal byte: " + digits);
            }
            digits.clear();
        }
    }
    if (!digits.empty()) {
        throw std::invalid_argument("half a byte at the end");
    }
    return bytes;
}

}  // namespace hurray::test
