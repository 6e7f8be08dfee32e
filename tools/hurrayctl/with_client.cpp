#include "with_client.hpp"

#include <iostream>
#include <string>
#include <utility>

#include "exit_codes.hpp"
#include "text.hpp"

namespace hurrayctl {
namespace {

hurray::Client connect(const Look& look) {
    hurray::ConnectOptions options;
    options.address = look.socket;
    options.client_name = "hurrayctl";
    options.reconnects = false;
    return hurray::Client::connect(std::move(options));
}

/// Says on stderr what went wrong, which is the library's to tell together with what can be done; returns the exit code.
int report(const hurray::StatusError& error) {
    const std::string reason(error.reason());
    switch (error.status()) {
        case HURRAY_ERR_DAEMON_UNAVAILABLE:
            complain(reason);
            return kNoDaemon;
        case HURRAY_ERR_CONNECTION_LOST:
        case HURRAY_ERR_TIMED_OUT:
            complain("hurrayd does not answer: " + reason);
            return kNoDaemon;
        case HURRAY_ERR_INVALID_ARGUMENT:
            complain(reason);
            return kUsage;
        default:
            complain(reason);
            return kRefused;
    }
}

}  // namespace

int with_client(const Look& look, const std::function<int(hurray::Client&)>& command) {
    try {
        hurray::Client client = connect(look);
        const int code = command(client);
        if (!std::cout.flush()) {
            complain("can't write to stdout");
            return kRefused;
        }
        return code;
    } catch (const hurray::StatusError& error) {
        return report(error);
    }
}

}  // namespace hurrayctl
