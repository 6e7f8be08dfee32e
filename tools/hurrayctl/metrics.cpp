#include "metrics.hpp"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <iostream>
#include <string_view>
#include <vector>

#include "exit_codes.hpp"
#include "text.hpp"

namespace hurrayctl {
namespace {

/// The daemon cuts a slow scraper after 5 seconds; who hears nothing for longer won't hear anything.
constexpr timeval kPatience{10, 0};
constexpr std::string_view kRequest = "GET /metrics HTTP/1.1\r\nHost: hurrayd\r\nConnection: close\r\n\r\n";

/// The daemon's own rule.
std::string path_beside(std::string_view socket) {
    constexpr std::string_view kEnding = ".sock";
    if (socket.ends_with(kEnding)) {
        socket.remove_suffix(kEnding.size());
    }
    return std::string(socket) + "-metrics.sock";
}

class Socket {
  public:
    Socket() : fd_(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {}
    ~Socket() { close(fd_); }
    Socket(const Socket&) = delete;
    Socket& operator=(const Socket&) = delete;
    int fd() const { return fd_; }

  private:
    int fd_;
};

/// The whole answer, up to the end of the connection. False: errno says why.
bool ask(int fd, const std::string& path, std::string& answer) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof address.sun_path) {
        errno = ENAMETOOLONG;
        return false;
    }
    path.copy(address.sun_path, path.size());
    if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof kPatience) != 0 ||
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &kPatience, sizeof kPatience) != 0 ||
        connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
        send(fd, kRequest.data(), kRequest.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(kRequest.size())) {
        return false;
    }
    std::array<char, 4096> piece;
    ssize_t got = 0;
    while ((got = recv(fd, piece.data(), piece.size(), 0)) > 0) {
        answer.append(piece.data(), static_cast<std::size_t>(got));
    }
    return got == 0;
}

/// Prints the body of a whole answer.
int print(const std::string& path, const std::string& answer) {
    constexpr std::string_view kDoneLine = "HTTP/1.1 200 OK\r\n";
    const std::size_t head = answer.find("\r\n\r\n");
    if (!answer.starts_with(kDoneLine) || head == std::string::npos) {
        complain("what listens on " + path + " gives no metrics: " + answer.substr(0, answer.find('\r')));
        return kRefused;
    }
    const std::string_view body = std::string_view(answer).substr(head + 4);
    const std::string length = "Content-Length: " + std::to_string(body.size()) + "\r\n";
    if (std::string_view(answer).substr(0, head + 2).find(length) == std::string_view::npos) {
        complain("the metrics from " + path + " did not come whole");
        return kRefused;
    }
    if (!(std::cout << body).flush()) {
        complain("can't write to stdout");
        return kRefused;
    }
    return kDone;
}

}  // namespace

int metrics(const Look& look, const std::string& path) {
    std::vector<std::string> paths;
    if (!path.empty()) {
        paths.push_back(path);
    } else {
        for (const std::string& socket : socket_paths(look)) {
            paths.push_back(path_beside(socket));
        }
    }
    std::string tried;
    for (const std::string& candidate : paths) {
        const Socket socket;
        std::string answer;
        if (ask(socket.fd(), candidate, answer)) {
            return print(candidate, answer);
        }
        switch (errno) {
            case ENOENT:
            case ENOTDIR:
                tried += (tried.empty() ? "" : " or ") + candidate;
                continue;  // only a missing socket moves the search on
            case EACCES:
            case EPERM:
                complain("not permitted to read the metrics on " + candidate);
                std::cerr << "They are for the daemon's user, root, and whom metrics.mode and metrics.group of its "
                             "configuration let in.\n";
                return kRefused;
            case ECONNREFUSED:
                complain("no hurrayd is listening at " + candidate);
                return kNoDaemon;
            case EAGAIN:
                complain("hurrayd does not answer on " + candidate);
                return kNoDaemon;
            case ENAMETOOLONG:
                complain("the path " + candidate + " is too long for a socket");
                return kUsage;
            default:
                complain("can't read the metrics on " + candidate + ": " + std::strerror(errno));
                return kNoDaemon;
        }
    }
    complain("no hurrayd serves metrics at " + tried);
    std::cerr
        << "Is it running (`hurrayctl status`)? Does its metrics.path say another place, or \"\"? Then name it with "
           "--metrics-socket.\n";
    return kNoDaemon;
}

}  // namespace hurrayctl
