#include "daemon/metrics_server.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

namespace hurrayd {
namespace {

using hurray::UniqueFd;

constexpr int kBacklog = 64;
/// With no descriptor left at all, not even the spare one: how long scrapers stay in the backlog.
constexpr std::chrono::milliseconds kAcceptPause{100};

UniqueFd open_spare() { return UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC)); }

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

hurray::Result<std::unique_ptr<MetricsServer>> MetricsServer::open(asio::io_context& io, const MetricsOptions& options,
                                                                   std::function<std::string()> text) {
    auto made = ListeningFile::make(SOCK_STREAM, options, kBacklog, "metrics.path");
    if (!made) {
        return tl::unexpected(made.error());
    }
    std::unique_ptr<MetricsServer> server(new MetricsServer(io, std::move(*made), std::move(text)));
    server->accept_next();
    return server;
}

MetricsServer::MetricsServer(asio::io_context& io, ListeningFile::Made socket, std::function<std::string()> text)
    : io_(io),
      file_(std::move(socket.file)),
      listener_(io, socket.listener.get()),
      spare_(open_spare()),
      accept_pause_(io),
      text_(std::move(text)) {
    (void)socket.listener.release();
}

MetricsServer::~MetricsServer() { stop(); }

void MetricsServer::stop() {
    if (std::exchange(stopped_, true)) {
        return;
    }
    file_.remove();
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
