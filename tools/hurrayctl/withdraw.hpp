#pragma once

#include <cstdint>
#include <string>

#include "look.hpp"

namespace hurrayctl {

/// `hurrayctl withdraw NAME`: lets nobody attach or take any more what is published under that name; of `version`, if it is not 0, that one
/// alone. Those who hold it go on reading. Prints what it has withdrawn, in JSON an array of name and version, and returns an exit code.
int withdraw(const Look& look, const std::string& name, std::uint64_t version);

}  // namespace hurrayctl
