#pragma once

#include <string>
#include <utility>

#include "libhurray/base/result.hpp"

namespace hurrayd {

/// Why a request is refused: `field` of it, as the protocol names it.
[[nodiscard, gnu::cold]] inline hurray::Error refusal(hurray::Errc code, std::string field, std::string message) {
    return {code, std::move(message), std::move(field)};
}

}  // namespace hurrayd
