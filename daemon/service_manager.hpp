#pragma once

/// What systemd is told (or whoever set NOTIFY_SOCKET). Without one, nothing happens.
namespace hurrayd::service_manager {

/// Clients are served from now on: to be called after `listen`, not before.
void ready();
void stopping();

}  // namespace hurrayd::service_manager
