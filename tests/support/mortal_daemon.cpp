#include "tests/support/mortal_daemon.hpp"

#include <csignal>

namespace hurray::test {
namespace {

/// What the keeper does until the other end of `line` is closed: at each packet, one death and one birth.
bool keep(const DaemonProcess::Options& options, int line) {
    DaemonProcess daemon(options);
    while (say_to(line, daemon.socket_path()) && !hear_from(line).empty()) {
        daemon.end(SIGKILL);
        daemon.start();
    }
    return true;
}

}  // namespace

MortalDaemon::MortalDaemon(const DaemonProcess::Options& options)
    : keeper_([&](int line) { return keep(options, line); }), socket_path_(keeper_.hear()) {}

void MortalDaemon::restart() {
    keeper_.say("r");
    (void)keeper_.hear();
}

}  // namespace hurray::test
