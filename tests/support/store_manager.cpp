#include "tests/support/store_manager.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <optional>
#include <sstream>
#include <stdexcept>

#include <fcntl.h>
#include <linux/kcmp.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/daemon_process.hpp"
#include "tests/support/temporary_directory.hpp"

namespace hurray::test {
namespace {

constexpr int kPatienceMs = 30'000;
constexpr std::size_t kMostOfLog = 150'000;

UniqueFd bound_socket(int type, const std::string& path) {
    UniqueFd socket(::socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.data(), path.size());
    if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
        throw std::runtime_error("bind " + path);
    }
    return socket;
}

bool is_same_file(int a, int b) {
    const pid_t self = ::getpid();
    const long order = ::syscall(SYS_kcmp, self, self, KCMP_FILE, a, b);
    if (order >= 0) {
        return order == 0;
    }
    struct stat of_a{};
    struct stat of_b{};
    return ::fstat(a, &of_a) == 0 && ::fstat(b, &of_b) == 0 && of_a.st_dev == of_b.st_dev && of_a.st_ino == of_b.st_ino;
}

/// As systemd's fdname_is_valid.
bool is_name(const std::string& name) {
    return !name.empty() && name.size() <= 255 &&
           std::all_of(name.begin(), name.end(), [](char c) { return c >= ' ' && c < 127 && c != ':'; });
}

std::string contents(int fd) {
    struct stat status{};
    ::fstat(fd, &status);
    std::string bytes(static_cast<std::size_t>(status.st_size), '\0');
    if (::pread(fd, bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
        throw std::runtime_error("pread");
    }
    return bytes;
}

/// A file with these bytes and the seals of `like`.
UniqueFd copy_of(const std::string& bytes, int like) {
    UniqueFd fd(::memfd_create("copy", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (::pwrite(fd.get(), bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
        throw std::runtime_error("pwrite");
    }
    ::fcntl(fd.get(), F_ADD_SEALS, ::fcntl(like, F_GET_SEALS) & ~0x20);
    return fd;
}

/// The process that is the manager.
class Manager {
  public:
    Manager(const StoreManager::Options& options, int line)
        : options_(options),
          line_(line),
          socket_path_(directory_ / "hurrayd.sock"),
          listener_(bound_socket(SOCK_SEQPACKET, socket_path_)),
          notifications_(bound_socket(SOCK_DGRAM, directory_ / "notify")) {
        if (::listen(listener_.get(), SOMAXCONN) != 0) {
            throw std::runtime_error("listen");
        }
    }

    void run() {
        start();
        say(socket_path_);
        for (;;) {
            if (daemon_ == nullptr && is_wanted_) {
                start();
                continue;
            }
            std::array<pollfd, 2> waiting{{{line_, POLLIN, 0}, {notifications_.get(), POLLIN, 0}}};
            if (::poll(waiting.data(), waiting.size(), -1) < 0) {
                continue;
            }
            if (waiting[1].revents != 0) {
                hear();
            }
            if (waiting[0].revents != 0) {
                std::array<char, 4096> word;
                const ssize_t got = ::recv(line_, word.data(), word.size(), 0);
                if (got <= 0) {
                    return;
                }
                hear_all();
                say(answer({word.data(), static_cast<std::size_t>(got)}));
            }
        }
    }

  private:
    struct Entry {
        std::string name;
        UniqueFd fd;
    };

    void say(const std::string& text) const {
        const std::string whole = text.empty() ? " " : text;
        ::send(line_, whole.data(), whole.size(), MSG_NOSIGNAL);
    }

    std::string answer(const std::string& command) {
        std::istringstream words(command);
        std::string what;
        std::string name;
        std::size_t number = 0;
        words >> what;
        if (what == "kill" || what == "stop") {
            is_wanted_ = false;
            if (const int status = end(what == "kill" ? SIGKILL : SIGTERM); what == "stop" && status != 0) {
                throw std::runtime_error("hurrayd did not end well, status " + std::to_string(status) + ": " + log_);
            }
        } else if (what == "start") {
            is_wanted_ = true;
            while (daemon_ == nullptr) {
                start();
            }
        } else if (what == "kill_at") {
            words >> number;
            kill_at_ = messages_ + number;
        } else if (what == "deaths") {
            return std::to_string(deaths_);
        } else if (what == "entries") {
            std::string all;
            for (const Entry& entry : entries_) {
                all += entry.name + "\n";
            }
            return all;
        } else if (what == "log") {
            const std::string log = log_ + (daemon_ != nullptr ? daemon_->log() : "");
            return log.substr(log.size() - std::min(log.size(), kMostOfLog));
        } else if (what == "pid") {
            return std::to_string(daemon_ != nullptr ? daemon_->pid() : -1);
        } else if (what == "lose") {
            words >> name;
            find(name);
            std::erase_if(entries_, [&](const Entry& entry) { return entry.name == name; });
        } else if (what == "size") {
            words >> name;
            return std::to_string(contents(find(name).fd.get()).size());
        } else if (what == "damage") {
            words >> name >> number;
            Entry& entry = find(name);
            std::string bytes = contents(entry.fd.get());
            bytes.at(number) = static_cast<char>(~bytes.at(number));
            entry.fd = copy_of(bytes, entry.fd.get());
        } else if (what == "cut") {
            words >> name >> number;
            Entry& entry = find(name);
            entry.fd = copy_of(contents(entry.fd.get()).substr(0, number), entry.fd.get());
        } else if (what == "add") {
            words >> name;
            entries_.push_back({name, UniqueFd(::memfd_create("stray", MFD_CLOEXEC))});
        }
        return {};
    }

    Entry& find(const std::string& name) {
        const auto found =
            std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) { return entry.name == name; });
        if (found == entries_.end()) {
            throw std::runtime_error("no entry " + name);
        }
        return *found;
    }

    void start() {
        DaemonProcess::Options options{
            .arguments = options_.arguments, .environment = options_.environment, .descriptor_limit = {}};
        options.environment.emplace_back("NOTIFY_SOCKET", directory_ / "notify");
        if (options_.says_so) {
            options.environment.emplace_back("FDSTORE", std::to_string(options_.most));
        }
        options.handed_over.emplace_back(listener_.get(), "hurrayd.socket");
        for (auto entry = entries_.rbegin(); entry != entries_.rend(); ++entry) {
            options.handed_over.emplace_back(entry->fd.get(), entry->name);
        }
        options.waits_for_ready = false;
        is_ready_ = false;
        daemon_ = std::make_unique<DaemonProcess>(options);
        while (!is_ready_) {
            pollfd waiting{notifications_.get(), POLLIN, 0};
            for (int waited = 0; ::poll(&waiting, 1, 100) == 0; waited += 100) {
                int status = 0;
                if (waited > kPatienceMs || ::waitpid(daemon_->pid(), &status, WNOHANG) != 0) {
                    throw std::runtime_error("hurrayd does not serve: " + daemon_->log());
                }
            }
            hear();
            if (daemon_ == nullptr) {
                return;  // kill_at
            }
        }
    }

    /// The status as waitpid gives it; 0 if there is none.
    int end(int signal) {
        if (daemon_ == nullptr) {
            return 0;
        }
        const int status = daemon_->end(signal);
        log_ += daemon_->log();
        daemon_.reset();
        hear_all();
        return status;
    }

    /// All that was sent so far.
    void hear_all() {
        pollfd waiting{notifications_.get(), POLLIN, 0};
        while (::poll(&waiting, 1, 0) > 0) {
            hear();
        }
    }

    /// One message.
    void hear() {
        std::array<char, 4096> text;
        alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * 253)> control;
        iovec bytes{text.data(), text.size()};
        msghdr message{};
        message.msg_iov = &bytes;
        message.msg_iovlen = 1;
        message.msg_control = control.data();
        message.msg_controllen = control.size();
        const ssize_t got = ::recvmsg(notifications_.get(), &message, MSG_CMSG_CLOEXEC);
        std::vector<UniqueFd> fds;
        for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr; part = CMSG_NXTHDR(&message, part)) {
            for (std::size_t at = 0; CMSG_LEN(at + sizeof(int)) <= part->cmsg_len; at += sizeof(int)) {
                int fd = -1;
                std::memcpy(&fd, CMSG_DATA(part) + at, sizeof fd);
                fds.emplace_back(fd);
            }
        }
        std::istringstream lines(std::string(text.data(), got > 0 ? static_cast<std::size_t>(got) : 0));
        std::string name = "stored";
        bool is_store = false;
        bool is_remove = false;
        for (std::string line; std::getline(lines, line);) {
            is_ready_ = is_ready_ || line == "READY=1";
            is_store = is_store || line == "FDSTORE=1";
            is_remove = is_remove || line == "FDSTOREREMOVE=1";
            if (line.starts_with("FDNAME=") && is_name(line.substr(7))) {
                name = line.substr(7);
            }
        }
        if (is_remove) {
            std::erase_if(entries_, [&](const Entry& entry) { return entry.name == name; });
        }
        for (UniqueFd& fd : fds) {
            const bool is_there = std::any_of(entries_.begin(), entries_.end(), [&](const Entry& entry) {
                return is_same_file(entry.fd.get(), fd.get());
            });
            if (is_store && !is_there && entries_.size() < options_.most) {
                entries_.push_back({name, std::move(fd)});
            }
        }
        if ((is_store || is_remove) && ++messages_ == kill_at_) {
            ++deaths_;
            end(SIGKILL);
        }
    }

    const StoreManager::Options options_;
    const int line_;
    const TemporaryDirectory directory_;
    const std::string socket_path_;
    const UniqueFd listener_;
    const UniqueFd notifications_;
    std::vector<Entry> entries_;
    std::unique_ptr<DaemonProcess> daemon_;
    std::string log_;
    bool is_wanted_ = true;
    bool is_ready_ = false;
    std::size_t deaths_ = 0;
    std::size_t messages_ = 0;
    std::size_t kill_at_ = SIZE_MAX;
};

std::string hear_line(int line) {
    std::string text(200'000, '\0');
    ssize_t got = 0;
    do {
        got = ::recv(line, text.data(), text.size(), 0);
    } while (got < 0 && errno == EINTR);
    if (got <= 0) {
        throw std::runtime_error("the service manager has ended");
    }
    text.resize(static_cast<std::size_t>(got));
    return text;
}

}  // namespace

StoreManager::StoreManager(const Options& options) {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) {
        throw std::runtime_error("socketpair");
    }
    line_ = UniqueFd(ends[0]);
    UniqueFd managers(ends[1]);
    keeper_ = ::fork();
    if (keeper_ == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        line_.reset();
        try {
            Manager(options, managers.get()).run();
        } catch (const std::exception& failure) {
            std::fprintf(stderr, "the service manager: %s\n", failure.what());
            ::_exit(1);
        }
        ::_exit(0);
    }
    managers.reset();
    socket_path_ = hear_line(line_.get());
}

StoreManager::~StoreManager() {
    line_.reset();
    ::waitpid(keeper_, nullptr, 0);
}

std::string StoreManager::ask(const std::string& what) {
    if (::send(line_.get(), what.data(), what.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(what.size())) {
        throw std::runtime_error("the service manager has ended");
    }
    return hear_line(line_.get());
}

std::vector<std::string> StoreManager::entries() {
    std::istringstream lines(ask("entries"));
    std::vector<std::string> names;
    for (std::string name; lines >> name;) {
        names.push_back(name);
    }
    return names;
}

std::vector<std::string> StoreManager::entries(const std::string& prefix) {
    std::vector<std::string> names = entries();
    std::erase_if(names, [&](const std::string& name) { return !name.starts_with(prefix); });
    return names;
}

}  // namespace hurray::test
