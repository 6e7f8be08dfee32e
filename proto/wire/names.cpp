#include "proto/wire/names.hpp"

#include <algorithm>
#include <cstddef>
#include <string>

#include "proto/wire/faults.hpp"
#include "proto/wire/messages.hpp"
#include "proto/wire/text.hpp"

namespace hurray::wire {
namespace {

/// Checks the segments between the slashes of `name`, which is not empty.
Result<void> check_parts(std::string_view name, std::string_view field) {
    for (std::size_t begin = 0;;) {
        const std::size_t end = std::min(name.find('/', begin), name.size());
        const std::string_view part = name.substr(begin, end - begin);
        if (part.empty() || part == "." || part == "..") {
            std::string message = "the name \"" + std::string(name) + "\" ";
            if (part.empty()) {
                message += begin == 0             ? "begins with \"/\": it has "
                           : begin == name.size() ? "ends in \"/\", as only patterns do: it has "
                                                  : "has ";
                message += "an empty segment";
            } else {
                message += "is no path: it has a segment \"" + std::string(part) + "\"";
            }
            message += " at position " + std::to_string(begin);
            return fail_field(Errc::InvalidArgument, std::string(field), std::move(message));
        }
        if (end == name.size()) {
            return {};
        }
        begin = end + 1;
    }
}

}  // namespace

Result<void> check_name(std::string_view name, std::string_view field) {
    if (name.empty()) {
        return fail_field(Errc::InvalidArgument, std::string(field), "the name is empty");
    }
    if (name.size() > kMaxNameBytes) {
        return over_limit({field}, "name_bytes", kMaxNameBytes, name.size(), "the name", "bytes");
    }
    if (auto checked = check_text(name, "the name", field); !checked) {
        return checked;
    }
    return check_parts(name, field);
}

Result<void> check_pattern(std::string_view pattern, std::string_view field) {
    if (pattern.empty()) {
        return {};
    }
    if (pattern.size() > kMaxNameBytes) {
        return over_limit({field}, "name_bytes", kMaxNameBytes, pattern.size(), "the pattern", "bytes");
    }
    if (pattern == "/") {
        return fail_field(Errc::InvalidArgument, std::string(field),
                          "\"/\" is no prefix of a name: all is the empty pattern");
    }
    if (pattern.ends_with('/')) {
        pattern.remove_suffix(1);
    }
    return check_name(pattern, field);
}

bool matches(std::string_view pattern, std::string_view name) noexcept {
    return pattern.empty() || (pattern.ends_with('/') ? name.starts_with(pattern) : name == pattern);
}

}  // namespace hurray::wire
