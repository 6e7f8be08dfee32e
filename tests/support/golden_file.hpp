#pragma once

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/hex.hpp"

namespace hurray::test {

/// The bytes of a file that is written down as text: hexadecimal, "@N" goes on at byte N, what is passed over is zero, '#'
/// begins a comment.
inline std::vector<std::uint8_t> load_golden_file(const std::string& path) {
    std::ifstream file(path);
    if (!file) {
        throw std::runtime_error(path);
    }
    std::vector<std::uint8_t> bytes;
    for (std::string line; std::getline(file, line);) {
        if (line.starts_with('@')) {
            const std::size_t offset = std::stoul(line.substr(1));
            if (offset < bytes.size()) {
                throw std::invalid_argument(line + ": byte " + std::to_string(bytes.size()) + " is reached already");
            }
            bytes.resize(offset);
        } else {
            const auto more = from_hex(line);
            bytes.insert(bytes.end(), more.begin(), more.end());
        }
    }
    return bytes;
}

}  // namespace hurray::test
