#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include <tl/expected.hpp>

#include "libhurray/base/result.hpp"

/// What the codec says of a field that breaks its rule. For the codec's own files. Cold, as in libhurray/base/result.hpp.
namespace hurray::wire {

/// Where a field is, as text only once there is an error to report: "publish.segments", 3, ".size".
struct Path {
    static constexpr std::size_t kNone = SIZE_MAX;

    std::string_view head;
    std::size_t index = kNone;
    std::string_view tail = {};

    [[nodiscard]] Path with_tail(std::string_view new_tail) const { return {head, index, new_tail}; }

    [[nodiscard]] std::string text() const {
        std::string result(head);
        if (index != kNone) {
            result += '[';
            result += std::to_string(index);
            result += ']';
        }
        result += tail;
        return result;
    }
};

[[gnu::cold]] inline tl::unexpected<Error> invalid(const Path& path, std::string message) {
    return fail_field(Errc::InvalidArgument, path.text(), std::move(message));
}

[[gnu::cold]] inline tl::unexpected<Error> not_yet(const Path& path) {
    std::string field = path.text();
    std::string message = field + " is not supported yet";
    return fail_field(Errc::Unsupported, std::move(field), std::move(message));
}

/// "the name has 300 bytes; at most 255 are allowed".
[[gnu::cold]] inline tl::unexpected<Error> over_limit(const Path& path, std::string_view limit_name,
                                                      std::uint64_t limit, std::uint64_t value, std::string_view thing,
                                                      std::string_view unit, std::string_view hint = {}) {
    std::string message(thing);
    message += " has " + std::to_string(value) + ' ';
    message += unit;
    message += "; at most " + std::to_string(limit) + " are allowed";
    message += hint;
    return fail(Error{.code = Errc::Limit,
                      .message = std::move(message),
                      .field = path.text(),
                      .limit_name = std::string(limit_name),
                      .limit = limit,
                      .value = value});
}

/// Passes a failure on as the failure of another type of result.
template <class T>
[[gnu::cold]] tl::unexpected<Error> pass_on(Result<T>& failed) {
    return tl::unexpected<Error>(std::move(failed.error()));
}

}  // namespace hurray::wire
