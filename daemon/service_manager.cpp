#include "daemon/service_manager.hpp"

#include <systemd/sd-daemon.h>

namespace hurrayd::service_manager {

// A service manager that can't be reached is no reason not to serve.
void ready() { (void)sd_notify(0, "READY=1\nSTATUS=Serving"); }
void stopping() { (void)sd_notify(0, "STOPPING=1"); }

}  // namespace hurrayd::service_manager
