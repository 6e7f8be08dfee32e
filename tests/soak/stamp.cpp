#include "tests/soak/stamp.hpp"

#include <algorithm>
#include <cstring>

namespace hurray::soak {
namespace {

constexpr std::size_t kWord = 8;
constexpr std::size_t kPage = 4096;
constexpr std::size_t kSampledStride = 61;

std::uint64_t word_at(std::uint64_t stamp, std::size_t index) { return stamp + index * 0x9E3779B97F4A7C15U; }

/// Calls `visit(offset, size, word)` for each place that is stamped, in order, until it returns false.
template <typename Visit>
void for_each_place(std::size_t size, std::uint64_t stamp, Visit&& visit) {
    const std::size_t stride = size <= kWholeBytes ? 1 : kSampledStride;
    const std::size_t words = size / kWord;
    for (std::size_t i = 0; i < words; i += stride) {
        if (!visit(i * kWord, kWord, word_at(stamp, i))) {
            return;
        }
    }
    if (size % kWord != 0) {
        visit(words * kWord, size % kWord, word_at(stamp, words));
    } else if (words > 0) {
        visit((words - 1) * kWord, kWord, word_at(stamp, words - 1));
    }
}

}  // namespace

void write_stamp(std::span<std::byte> bytes, std::uint64_t stamp) {
    for_each_place(bytes.size(), stamp, [&](std::size_t offset, std::size_t size, std::uint64_t word) {
        std::memcpy(bytes.data() + offset, &word, size);
        return true;
    });
}

std::optional<std::string> find_wrong_stamp(std::span<const std::byte> bytes, std::uint64_t stamp) {
    std::optional<std::string> wrong;
    for_each_place(bytes.size(), stamp, [&](std::size_t offset, std::size_t size, std::uint64_t word) {
        if (std::memcmp(bytes.data() + offset, &word, size) == 0) {
            return true;
        }
        std::uint64_t found = 0;
        std::uint64_t expected = 0;
        std::memcpy(&found, bytes.data() + offset, size);
        std::memcpy(&expected, &word, size);
        wrong = "at byte " + std::to_string(offset) + " of " + std::to_string(bytes.size()) + " is " +
                std::to_string(found) + ", not " + std::to_string(expected);
        return false;
    });
    return wrong;
}

std::optional<std::size_t> find_nonzero(std::span<const std::byte> bytes) {
    const auto found = std::find_if(bytes.begin(), bytes.end(), [](std::byte byte) { return byte != std::byte{0}; });
    if (found == bytes.end()) {
        return std::nullopt;
    }
    return static_cast<std::size_t>(found - bytes.begin());
}

std::span<const std::byte> rest_of_page(std::span<const std::byte> bytes) {
    const auto end = reinterpret_cast<std::uintptr_t>(bytes.data()) + bytes.size();
    return {bytes.data() + bytes.size(), (kPage - end % kPage) % kPage};
}

}  // namespace hurray::soak
