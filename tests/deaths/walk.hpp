#pragma once

#include <functional>

#include "tests/deaths/play.hpp"

namespace hurray::test {

/// Plays an exchange again and again, each time in processes of its own, some at a time: once for each packet that the daemon reads or sends on the
/// way, at which it dies; until there is no further packet. Then some times more, with a second death at some packet of the next life.
/// Whatever goes wrong is a failure of the test that is running, and names the packets.
///
/// With `after_a_kill` the exchange kills the first life itself, and it is the second one's packets that are walked over: those of the resume.
///
/// $HURRAY_STOPS (as "12" or "12,3") plays those alone. Under sanitizers only some of the packets are tried, other ones each time.
void walk(const std::function<void(Play&)>& exchange, bool after_a_kill = false);

}  // namespace hurray::test
