#pragma once

#include <string>

#include "daemon/server.hpp"

namespace hurrayd {

/// What is held, for people who look at the service: "clients 3, capsules 12, names 10, leases 4, waiting 0, memory 1.5 GiB".
/// Memory is that of the stored segments, which the producers' processes pay for.
[[nodiscard]] std::string status_line(const Server::Held& held);

}  // namespace hurrayd
