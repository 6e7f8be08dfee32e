#include "proto/wire/access.hpp"

#include <array>
#include <charconv>

namespace hurray::wire {

Result<void> check_mode(std::uint32_t mode, std::string_view field) {
    if ((mode & ~kAccessBits) != 0) {
        return fail_field(Errc::InvalidArgument, std::string(field),
                          "the mode is " + mode_text(mode) +
                              "; it may grant reading and writing to the user, the group and others: 0 to 0666");
    }
    return {};
}

std::string mode_text(std::uint32_t mode) {
    std::array<char, 12> digits{};
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), mode, 8).ptr;
    std::string text(digits.data(), end);
    text.insert(0, text.size() < 3 ? 4 - text.size() : 1, '0');
    return text;
}

std::string access_text(const Access& access) {
    return (access.gid == kOwnGroup ? std::string("the publisher's group") : "group " + std::to_string(access.gid)) +
           " and mode " + mode_text(access.mode);
}

}  // namespace hurray::wire
