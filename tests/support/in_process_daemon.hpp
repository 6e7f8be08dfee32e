#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "daemon/asio.hpp"
#include "daemon/server.hpp"
#include "tests/support/temporary_directory.hpp"

namespace hurray::test {

/// hurrayd's server in a thread of this process, on a temporary socket: it can be asked what it holds, and sanitizers see
/// both sides. Ends with this object.
class InProcessDaemon {
  public:
    InProcessDaemon();
    InProcessDaemon(const InProcessDaemon&) = delete;
    InProcessDaemon& operator=(const InProcessDaemon&) = delete;
    ~InProcessDaemon();

    [[nodiscard]] const std::string& socket_path() const noexcept { return path_; }
    /// What it holds once it has done everything it had begun.
    [[nodiscard]] hurrayd::Server::Held held();
    /// Waits until `is_so`; throws at a watchdog's 30 s. For what no packet tells, such as the end of another session.
    void wait_until(const std::function<bool(const hurrayd::Server::Held&)>& is_so);

  private:
    TemporaryDirectory directory_;
    std::string path_;
    hurrayd::asio::io_context io_;
    std::unique_ptr<hurrayd::Server> server_;
    std::thread thread_;
};

}  // namespace hurray::test
