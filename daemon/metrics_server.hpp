#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include "daemon/asio.hpp"
#include "daemon/listening_file.hpp"
#include "libhurray/base/result.hpp"
#include "libhurray/base/unique_fd.hpp"

namespace hurrayd {

/// Where metrics are to be had.
struct MetricsOptions : SocketPlace {  ///< with an empty path: nowhere
    /// The path was asked for by name, and not derived from that of the clients' socket.
    bool is_explicit = false;
};

/// Serves the metrics on a Unix stream socket, as little of HTTP/1.1 as a scraper needs: GET and HEAD of /metrics (or /), one
/// request a connection. HTTP and not the bare text, because then curl, every HTTP library, and Prometheus itself through a
/// proxy or socat can read it as it is, and know by its length that it is whole.
///
/// Holds nobody up: sockets are non-blocking, each scraper has kPatience for all of it and is cut then, and at most
/// kMostScrapers are served at a time; who comes meanwhile waits in the backlog for as long.
///
/// Threads: the one that runs `io`.
class MetricsServer {
  public:
    static constexpr std::size_t kMostScrapers = 8;
    static constexpr std::size_t kMostRequestBytes = 8 * 1024;
    static constexpr std::chrono::seconds kPatience{5};

    /// Listens at once. `text` makes the metrics; it is called between two steps of the daemon's, while `io` runs.
    ///
    /// A stale socket is replaced, a live one never is. (Of two daemons that are given one path and start at the same moment
    /// neither may have it; paths that derive from the clients' socket are safe from that through its lock.)
    /// Fails: AlreadyExists    somebody else serves that path
    ///        InvalidArgument  the path is too long, or something that is not a socket is there
    ///        Internal         the system refuses, with errno
    [[nodiscard]] static hurray::Result<std::unique_ptr<MetricsServer>> open(asio::io_context& io,
                                                                             const MetricsOptions& options,
                                                                             std::function<std::string()> text);
    ~MetricsServer();

    /// Removes the socket and closes every connection. `io` runs out of work.
    void stop();

  private:
    class Scrape;
    MetricsServer(asio::io_context& io, ListeningFile::Made socket, std::function<std::string()> text);
    void accept_next();
    void accept_all();
    void serve(hurray::UniqueFd socket);
    void forget(const Scrape& scrape);
    [[nodiscard]] std::string answer(std::string_view request) const;

    asio::io_context& io_;
    ListeningFile file_;
    Waitable listener_;
    bool accepting_ = false;
    /// Given up for a scraper when no other descriptor is left: that is when somebody wants to look.
    hurray::UniqueFd spare_;
    asio::steady_timer accept_pause_;
    std::function<std::string()> text_;
    std::vector<std::shared_ptr<Scrape>> scrapes_;
    bool stopped_ = false;
};

}  // namespace hurrayd
