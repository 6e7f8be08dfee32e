#include "tests/support/prometheus_text.hpp"

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <set>
#include <stdexcept>

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "libhurray/base/unique_fd.hpp"

namespace hurray::test {
namespace {

bool is_name_char(char c, bool first) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (!first && c >= '0' && c <= '9');
}

/// One line, read from its beginning.
class Line {
  public:
    explicit Line(std::string_view text) : all_(text), rest_(text) {}

    [[noreturn]] void refuse(const std::string& why) const {
        throw std::runtime_error(why + " in line: " + std::string(all_));
    }
    bool take(std::string_view text) {
        if (!rest_.starts_with(text)) {
            return false;
        }
        rest_.remove_prefix(text.size());
        return true;
    }
    void expect(std::string_view text) {
        if (!take(text)) {
            refuse("no '" + std::string(text) + "'");
        }
    }
    /// A metric's name may have colons, but those are for rules that people write.
    std::string_view name() {
        std::size_t size = 0;
        while (size < rest_.size() && is_name_char(rest_[size], size == 0)) {
            ++size;
        }
        if (size == 0) {
            refuse("no name");
        }
        const std::string_view found = rest_.substr(0, size);
        rest_.remove_prefix(size);
        return found;
    }
    void quoted() {
        expect("\"");
        while (!take("\"")) {
            if (rest_.empty()) {
                refuse("an open quote");
            }
            if (!take("\\\\") && !take("\\\"") && !take("\\n")) {
                if (rest_.front() == '\\') {
                    refuse("an escape that does not exist");
                }
                rest_.remove_prefix(1);
            }
        }
    }
    double number() {
        double value = 0;
        const auto [end, failed] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
        if (failed != std::errc{} || end != rest_.data() + rest_.size()) {
            refuse("no number");
        }
        return value;
    }
    [[nodiscard]] std::string_view rest() const { return rest_; }
    [[nodiscard]] std::string before_rest() const { return std::string(all_.substr(0, all_.size() - rest_.size())); }

  private:
    std::string_view all_;
    std::string_view rest_;
};

}  // namespace

Samples read_prometheus_text(std::string_view text) {
    Samples samples;
    std::set<std::string, std::less<>> metrics;
    std::string metric;  // whose samples may come
    bool has_type = true;
    bool has_samples = true;
    while (!text.empty()) {
        const std::size_t end = text.find('\n');
        Line line(text.substr(0, end));
        if (end == std::string_view::npos) {
            line.refuse("no end");
        }
        text.remove_prefix(end + 1);
        if (line.take("# HELP ")) {
            if (!has_type || !has_samples) {
                line.refuse("the metric before has no TYPE or no sample");
            }
            metric = line.name();
            if (!metrics.insert(metric).second) {
                line.refuse("a second HELP");
            }
            line.expect(" ");
            if (line.rest().empty()) {
                line.refuse("nothing is explained");
            }
            for (std::size_t at = 0; (at = line.rest().find('\\', at)) != std::string_view::npos; at += 2) {
                const std::string_view escape = line.rest().substr(at, 2);
                if (escape != "\\\\" && escape != "\\n") {
                    line.refuse("an escape that does not exist");
                }
            }
            has_type = false;
            has_samples = false;
        } else if (line.take("# TYPE ")) {
            if (has_type || line.name() != metric) {
                line.refuse("a TYPE that does not follow its HELP");
            }
            const bool is_counter = line.rest() == " counter";
            if (!is_counter && line.rest() != " gauge") {
                line.refuse("an unknown type");
            }
            if (is_counter != metric.ends_with("_total")) {
                line.refuse("a counter's name ends in _total, a gauge's does not");
            }
            has_type = true;
        } else {
            if (!has_type || line.name() != metric) {
                line.refuse("a sample that does not follow its TYPE");
            }
            if (line.take("{")) {
                std::set<std::string_view> labels;
                do {
                    const std::string_view label = line.name();
                    if (label.starts_with("__") || !labels.insert(label).second) {
                        line.refuse("a label that may not be there");
                    }
                    line.expect("=");
                    line.quoted();
                } while (line.take(","));
                line.expect("}");
            }
            const std::string key = line.before_rest();
            line.expect(" ");
            if (!samples.emplace(key, line.number()).second) {
                line.refuse("a second sample");
            }
            has_samples = true;
        }
    }
    if (!has_type || !has_samples) {
        throw std::runtime_error("the last metric has no TYPE or no sample");
    }
    return samples;
}

std::string ask_http(const std::string& path, std::string_view request) {
    const UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
        ::send(socket.get(), request.data(), request.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(request.size())) {
        throw std::runtime_error("ask " + path + ": " + std::strerror(errno));
    }
    std::string answer;
    std::array<char, 4096> piece;
    for (;;) {
        pollfd waiting{socket.get(), POLLIN, 0};
        if (::poll(&waiting, 1, 30'000) <= 0) {
            throw std::runtime_error("no answer came from " + path);
        }
        const ssize_t got = ::recv(socket.get(), piece.data(), piece.size(), 0);
        if (got <= 0) {
            return answer;
        }
        answer.append(piece.data(), static_cast<std::size_t>(got));
    }
}

Samples scrape(const std::string& path) {
    const std::string answer = ask_http(path, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    const std::size_t head = answer.find("\r\n\r\n");
    if (!answer.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n") ||
        head == std::string::npos) {
        throw std::runtime_error("not an answer: " + answer);
    }
    const std::string_view body = std::string_view(answer).substr(head + 4);
    if (answer.find("\r\nContent-Length: " + std::to_string(body.size()) + "\r\n") == std::string::npos) {
        throw std::runtime_error("not the length of the body, " + std::to_string(body.size()) + ": " + answer);
    }
    return read_prometheus_text(body);
}

}  // namespace hurray::test
