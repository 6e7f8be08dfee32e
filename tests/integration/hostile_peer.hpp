#pragma once

#include <optional>
#include <string_view>

#include <gtest/gtest.h>

#include "tests/support/bystander.hpp"
#include "tests/support/daemon_process.hpp"
#include "tests/support/raw_peer.hpp"

namespace hurray::test {

/// Somebody lies, sends garbage, or does not read. Whatever he does, others are served (`bystander`), and at the end of each
/// test the daemon holds nothing, has as many descriptors open as in the beginning, and ends well.
class HostilePeer : public testing::Test {
  protected:
    DaemonProcess daemon;
    /// Greeted, so the daemon has done all of its start when its descriptors are counted; in the end it asks what is held.
    RawPeer anchor = peer();
    std::size_t descriptors_at_start = daemon.open_descriptors();
    std::optional<Bystander> bystander{std::in_place, daemon.socket_path()};

    RawPeer peer() { return RawPeer::greeted(daemon.socket_path()); }
    /// Waits until the daemon's log says so.
    void wait_for_log(std::string_view text);

    void TearDown() override;
};

}  // namespace hurray::test
