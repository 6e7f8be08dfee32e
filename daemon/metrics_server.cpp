#include "daemon/metrics_server.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

namespace hurrayd {
namespace {

using hurray::Errc;
using hurray::UniqueFd;

constexpr int kBacklog = 64;
/// With no descriptor left at all, not even the spare one: how long scrapers stay in the backlog.
constexpr std::chrono::milliseconds kAcceptPause{100};

tl::unexpected<hurray::Error> refuse_os(const std::string& what, int error) {
    return hurray::fail_os(Errc::Internal, error, what + ": " + std::strerror(error));
}

UniqueFd make_socket() { return UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)); }

UniqueFd open_spare() { return UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC)); }

sockaddr_un address_of(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    return address;
}

std::string response(std::string_view status, std::string_view more_headers, std::string_view body, bool with_body) {
    std::string text = "HTTP/1.1 ";
    text.append(status).append("\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: ");
    text.append(std::to_string(body.size())).append("\r\nConnection: close\r\n").append(more_headers).append("\r\n");
    return with_body ? text.append(body) : text;
}

}  // namespace

// ---- One scraper ----------------------------------------------------------------------------------------------------

/// Reads a request, writes the answer, and is gone; after kPatience in any case. Kept alive by its pending handlers, which do
/// nothing once it has ended.
class MetricsServer::Scrape : public std::enable_shared_from_this<Scrape> {
  public:
    Scrape(MetricsServer& server, Waitable socket)
        : server_(server), socket_(std::move(socket)), deadline_(server.io_) {}

    void start() {
        deadline_.expires_after(kPatience);
        deadline_.async_wait([self = shared_from_this()](const boost::system::error_code& failed) {
            if (!failed) {
                self->end();
            }
        });
        read();
    }

    void close() {
        ended_ = true;
        boost::system::error_code ignored;
        deadline_.cancel();
        socket_.close(ignored);
    }

  private:
    void end() {
        if (!ended_) {
            close();
            server_.forget(*this);
        }
    }

    void read() {
        std::array<char, 1024> piece;
        ssize_t got = 0;
        while ((got = ::recv(socket_.native_handle(), piece.data(), piece.size(), 0)) > 0) {
            request_.append(piece.data(), static_cast<std::size_t>(got));
            const bool is_whole =
                request_.find("\r\n\r\n") != std::string::npos || request_.find("\n\n") != std::string::npos;
            if (is_whole || request_.size() > kMostRequestBytes) {
                answer_ = server_.answer(request_);
                write();
                return;
            }
        }
        if (got == 0 || errno != EAGAIN) {
            end();
            return;
        }
        wait(Waitable::wait_read, &Scrape::read);
    }

    void write() {
        while (written_ < answer_.size()) {
            const ssize_t done =
                ::send(socket_.native_handle(), answer_.data() + written_, answer_.size() - written_, MSG_NOSIGNAL);
            if (done < 0) {
                if (errno == EAGAIN) {
                    wait(Waitable::wait_write, &Scrape::write);
                    return;
                }
                break;  // it left
            }
            written_ += static_cast<std::size_t>(done);
        }
        end();
    }

    void wait(Waitable::wait_type what, void (Scrape::*then)()) {
        socket_.async_wait(what, [self = shared_from_this(), then](const boost::system::error_code& failed) {
            if (!failed && !self->ended_) {
                (*self.*then)();
            }
        });
    }

    MetricsServer& server_;
    Waitable socket_;
    asio::steady_timer deadline_;
    std::string request_;
    std::string answer_;
    std::size_t written_ = 0;
    bool ended_ = false;
};

// ---- The socket -----------------------------------------------------------------------------------------------------

hurray::Result<MetricsServer::Endpoint> MetricsServer::open_endpoint(const MetricsOptions& options) {
    const std::string& path = options.path;
    // Made complete under another name and then moved into place: nobody ever meets it half made.
    const std::string fresh = path + ".new";
    if (fresh.size() >= sizeof(sockaddr_un::sun_path)) {
        return hurray::fail_field(Errc::InvalidArgument, "metrics.path",
                                  "the metrics socket's path has " + std::to_string(path.size()) + " bytes, at most " +
                                      std::to_string(sizeof(sockaddr_un::sun_path) - 5) + " are possible: " + path);
    }
    struct stat status{};
    if (::lstat(path.c_str(), &status) == 0) {
        if (!S_ISSOCK(status.st_mode)) {
            return hurray::fail_field(Errc::InvalidArgument, "metrics.path",
                                      "something that is not a socket is at " + path);
        }
        const UniqueFd probe = make_socket();
        const sockaddr_un address = address_of(path);
        // A socket whose listener is gone refuses.
        if (::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 ||
            (errno != ECONNREFUSED && errno != ENOENT)) {
            return hurray::fail(Errc::AlreadyExists, "something else serves " + path);
        }
    }
    Endpoint endpoint;
    endpoint.path = path;
    endpoint.listener = make_socket();
    if (!endpoint.listener) {
        return refuse_os("make a socket", errno);
    }
    (void)::unlink(fresh.c_str());  // left by one that was killed at this very moment
    const sockaddr_un address = address_of(fresh);
    // On Linux the file gets the mode of the socket less the umask, so nobody can come in before chmod has its way.
    if (::fchmod(endpoint.listener.get(), options.mode) != 0 ||
        ::bind(endpoint.listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
        return refuse_os("bind " + fresh, errno);
    }
    const bool is_made = (!options.group || ::lchown(fresh.c_str(), static_cast<uid_t>(-1), *options.group) == 0) &&
                         ::chmod(fresh.c_str(), options.mode) == 0 && ::lstat(fresh.c_str(), &status) == 0 &&
                         ::listen(endpoint.listener.get(), kBacklog) == 0 && ::rename(fresh.c_str(), path.c_str()) == 0;
    if (!is_made) {
        const int error = errno;
        ::unlink(fresh.c_str());
        return refuse_os("make the metrics socket " + path, error);
    }
    endpoint.device = status.st_dev;
    endpoint.inode = status.st_ino;
    return endpoint;
}

hurray::Result<std::unique_ptr<MetricsServer>> MetricsServer::open(asio::io_context& io, const MetricsOptions& options,
                                                                   std::function<std::string()> text) {
    auto endpoint = open_endpoint(options);
    if (!endpoint) {
        return tl::unexpected(endpoint.error());
    }
    std::unique_ptr<MetricsServer> server(new MetricsServer(io, std::move(*endpoint), std::move(text)));
    server->accept_next();
    return server;
}

MetricsServer::MetricsServer(asio::io_context& io, Endpoint endpoint, std::function<std::string()> text)
    : io_(io),
      endpoint_(std::move(endpoint)),
      listener_(io, endpoint_.listener.get()),
      spare_(open_spare()),
      accept_pause_(io),
      text_(std::move(text)) {
    (void)endpoint_.listener.release();
}

MetricsServer::~MetricsServer() { stop(); }

void MetricsServer::stop() {
    if (std::exchange(stopped_, true)) {
        return;
    }
    struct stat status{};
    if (::lstat(endpoint_.path.c_str(), &status) == 0 && status.st_dev == endpoint_.device &&
        status.st_ino == endpoint_.inode) {
        ::unlink(endpoint_.path.c_str());
    }
    boost::system::error_code ignored;
    listener_.close(ignored);
    accept_pause_.cancel();
    for (const auto& scrape : scrapes_) {
        scrape->close();
    }
    scrapes_.clear();
}

// ---- Coming and going -----------------------------------------------------------------------------------------------

void MetricsServer::accept_next() {
    if (accepting_ || stopped_ || scrapes_.size() >= kMostScrapers) {
        return;
    }
    accepting_ = true;
    listener_.async_wait(Waitable::wait_read, [this](const boost::system::error_code& failed) {
        if (!failed && !stopped_) {
            accepting_ = false;
            accept_all();
        }
    });
}

void MetricsServer::accept_all() {
    while (scrapes_.size() < kMostScrapers) {
        UniqueFd socket(::accept4(listener_.native_handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
        if (socket) {
            serve(std::move(socket));
            continue;
        }
        if (errno == EMFILE || errno == ENFILE) {
            if (spare_) {
                spare_.reset();
                continue;
            }
            // A wait would be over at once, again and again.
            accepting_ = true;
            accept_pause_.expires_after(kAcceptPause);
            accept_pause_.async_wait([this](const boost::system::error_code& failed) {
                if (!failed && !stopped_) {
                    accepting_ = false;
                    accept_next();
                }
            });
            return;
        }
        break;  // nobody there, or whoever was is gone
    }
    accept_next();
}

void MetricsServer::serve(UniqueFd socket) {
    Waitable waitable(io_);
    boost::system::error_code failed;
    waitable.assign(socket.get(), failed);
    if (failed) {
        return;
    }
    (void)socket.release();
    const auto scrape = std::make_shared<Scrape>(*this, std::move(waitable));
    scrapes_.push_back(scrape);
    scrape->start();
}

void MetricsServer::forget(const Scrape& scrape) {
    std::erase_if(scrapes_, [&scrape](const auto& each) { return each.get() == &scrape; });
    if (!spare_) {
        spare_ = open_spare();
    }
    accept_next();
}

std::string MetricsServer::answer(std::string_view request) const {
    if (request.size() > kMostRequestBytes) {
        return response("431 Request Header Fields Too Large", "",
                        "a request has at most " + std::to_string(kMostRequestBytes) + " bytes\n", true);
    }
    const std::string_view line = request.substr(0, request.find_first_of("\r\n"));
    const std::size_t first = line.find(' ');
    const std::size_t second = line.find(' ', first + 1);
    if (first == std::string_view::npos || second == std::string_view::npos ||
        !line.substr(second).starts_with(" HTTP/")) {
        return response("400 Bad Request", "", "this is HTTP: GET /metrics\n", true);
    }
    const std::string_view method = line.substr(0, first);
    const std::string_view target = line.substr(first + 1, second - first - 1);
    if (method != "GET" && method != "HEAD") {
        return response("405 Method Not Allowed", "Allow: GET, HEAD\r\n", "only GET and HEAD\n", true);
    }
    if (const std::string_view path = target.substr(0, target.find('?')); path != "/metrics" && path != "/") {
        return response("404 Not Found", "", "the metrics are at /metrics\n", method != "HEAD");
    }
    return response("200 OK", "", text_(), method != "HEAD");
}

}  // namespace hurrayd
