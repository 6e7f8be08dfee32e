#pragma once

#include <string>
#include <vector>

namespace hurrayctl {

/// The commands that look at a running daemon. Each prints to stdout, as a table or text for people or as JSON, and returns an
/// exit code of exit_codes.hpp; what goes wrong is told on stderr.
///
/// In JSON the keys are the fields of the protocol's messages Info, Use and Writing. Ids are hex, numbers exact, and a
/// descriptor is an object of its own: decoded, with the encoded bytes beside.
struct Look {
    std::string socket;  ///< empty: where clients look by default
    bool json = false;
};

/// Where a daemon's socket may be: where clients look, or where `look` says.
std::vector<std::string> socket_paths(const Look& look);

/// Every capsule that matches the pattern and that this user may read; in JSON an array of Info.
int list(const Look& look, const std::string& pattern);

/// One capsule, the latest of its name; in JSON an Info.
int inspect(const Look& look, const std::string& name);

/// The daemon's counters; in JSON an object with the fields of StatusReply, and this client's counters.
int status(const Look& look);

}  // namespace hurrayctl
