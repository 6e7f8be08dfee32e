#include "daemon/journal.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <utility>

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

namespace hurrayd {
namespace {

/// syslog's numbers.
std::string_view priority(log::Level level) {
    switch (level) {
        case log::Level::Debug:
            return "7";
        case log::Level::Info:
            return "6";
        case log::Level::Warning:
            return "4";
        case log::Level::Error:
            return "3";
    }
    return "6";
}

/// `NAME=value\n`, or, for a value of several lines, the name, its length in 8 bytes and the value: no value can begin a
/// field of its own.
void append(std::string& datagram, std::string_view name, std::string_view value) {
    datagram += name;
    if (value.find('\n') == std::string_view::npos) {
        datagram += '=';
    } else {
        datagram += '\n';
        for (unsigned shift = 0; shift < 64; shift += 8) {
            datagram += static_cast<char>(std::uint64_t{value.size()} >> shift);
        }
    }
    datagram += value;
    datagram += '\n';
}

}  // namespace

std::optional<Journal> Journal::behind(int fd) {
    const char* stream = std::getenv("JOURNAL_STREAM");
    struct stat status{};
    if (stream == nullptr || ::fstat(fd, &status) != 0 ||
        stream != std::to_string(status.st_dev) + ":" + std::to_string(status.st_ino)) {
        return std::nullopt;
    }
    return Journal(kSocket);
}

Journal::Journal(std::string path)
    : path_(std::move(path)), socket_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {}

Journal::Sent Journal::send(log::Level level, std::string_view line, std::string_view event,
                            std::span<const log::Field> fields) {
    std::string datagram;
    append(datagram, "MESSAGE", line);
    append(datagram, "PRIORITY", priority(level));
    append(datagram, "SYSLOG_IDENTIFIER", "hurrayd");
    append(datagram, "HURRAY_EVENT", event);
    std::string name;
    for (const log::Field& field : fields) {
        name = "HURRAY_";
        std::transform(field.key.begin(), field.key.end(), std::back_inserter(name),
                       [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; });
        append(datagram, name, field.value);
    }
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path_.copy(address.sun_path, sizeof address.sun_path - 1);
    // To the address each time: a journal that was restarted listens on another socket at the same path.
    if (::sendto(socket_.get(), datagram.data(), datagram.size(), MSG_NOSIGNAL,
                 reinterpret_cast<const sockaddr*>(&address), sizeof address) >= 0) {
        return Sent::Done;
    }
    return errno == EAGAIN || errno == ENOBUFS ? Sent::NoRoom : Sent::NobodyThere;
}

}  // namespace hurrayd
