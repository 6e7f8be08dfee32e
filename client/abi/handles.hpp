#pragma once

#include <memory>

#include "hurray_client.h"

#include "client/allocation.hpp"
#include "client/session.hpp"

/// What the opaque handles of hurray_client.h are.
struct HurrayClient {
    std::shared_ptr<hurray::client::Session> session;
};

struct HurrayAllocation {
    hurray::client::Allocation allocation;
};
