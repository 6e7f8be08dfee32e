#include "run.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>

#include "exit_codes.hpp"
#include "subprocess.hpp"

namespace hurrayctl {
namespace {

using namespace std::chrono_literals;

// A healthy daemon is ready within milliseconds. Somebody who waits longer than this wants to know.
constexpr auto kReadyPatience = 30s;
// It has only to close what it holds.
constexpr auto kEndPatience = 10s;
// What hurrayd takes: what sockaddr_un holds, less its terminating null and the ".new" of a socket that is being made.
constexpr std::size_t kMaxSocketPath = sizeof(sockaddr_un::sun_path) - 1 - 4;

constexpr std::string_view kSocketFile = "hurrayd.sock";
constexpr std::string_view kNotifyFile = "notify.sock";
constexpr std::string_view kDirectoryPattern = "hurray-run-XXXXXX";

/// A new directory with mode 0700, removed with all that is in it.
class PrivateDirectory {
  public:
    PrivateDirectory() {
        std::string problem;
        for (const std::string& base : candidates()) {
            const std::string pattern = base + "/" + std::string(kDirectoryPattern);
            if (pattern.size() + 1 + kSocketFile.size() > kMaxSocketPath) {
                problem =
                    base + " is too long: a socket's path has at most " + std::to_string(kMaxSocketPath) + " bytes";
                continue;
            }
            std::string path = pattern;
            if (mkdtemp(path.data()) != nullptr) {
                path_ = path;
                return;
            }
            problem = "can't make a directory in " + base + ": " + std::strerror(errno);
        }
        throw std::runtime_error(problem);
    }

    ~PrivateDirectory() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }

    PrivateDirectory(const PrivateDirectory&) = delete;
    PrivateDirectory& operator=(const PrivateDirectory&) = delete;

    std::string file(std::string_view name) const { return path_ + "/" + std::string(name); }

  private:
    static std::vector<std::string> candidates() {
        std::vector<std::string> found;
        const char* runtime = std::getenv("XDG_RUNTIME_DIR");
        struct stat info{};
        // Somebody else's directory (left over from su, say) would let that user swap our socket.
        if (runtime != nullptr && runtime[0] == '/' && stat(runtime, &info) == 0 && S_ISDIR(info.st_mode) &&
            info.st_uid == geteuid() && access(runtime, W_OK | X_OK) == 0) {
            found.emplace_back(runtime);
        }
        found.emplace_back("/tmp");
        return found;
    }

    std::string path_;
};

/// The datagram socket on which a service tells its manager "READY=1".
class NotifySocket {
  public:
    explicit NotifySocket(const std::string& path)
        : fd_(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        path.copy(address.sun_path, kMaxSocketPath);
        if (fd_ < 0 || bind(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
            const int error = errno;
            if (fd_ >= 0) {
                close(fd_);
            }
            throw std::system_error(error, std::generic_category(), path);
        }
    }
    ~NotifySocket() { close(fd_); }
    NotifySocket(const NotifySocket&) = delete;
    NotifySocket& operator=(const NotifySocket&) = delete;

    int fd() const { return fd_; }

    /// Reads what has come so far; whether one of the messages said READY=1.
    bool ready() {
        char text[4096];
        for (;;) {
            const ssize_t size = recv(fd_, text, sizeof text, 0);
            if (size < 0) {
                return false;
            }
            std::string_view rest(text, static_cast<std::size_t>(size));
            while (!rest.empty()) {
                const std::string_view line = rest.substr(0, rest.find('\n'));
                if (line == "READY=1") {
                    return true;
                }
                rest.remove_prefix(std::min(line.size() + 1, rest.size()));
            }
        }
    }

  private:
    int fd_;
};

/// hurrayd beside this program, so that a build or an installation uses its own; else whatever PATH has.
std::string find_daemon() {
    char self[PATH_MAX];
    const ssize_t size = readlink("/proc/self/exe", self, sizeof self);
    if (size > 0) {
        const std::string_view path(self, static_cast<std::size_t>(size));
        const std::string beside = std::string(path.substr(0, path.rfind('/'))) + "/hurrayd";
        if (access(beside.c_str(), X_OK) == 0) {
            return beside;
        }
    }
    return "hurrayd";
}

void complain(const std::string& message) { std::fprintf(stderr, "hurrayctl: %s\n", message.c_str()); }

/// Waits until the daemon is ready. Otherwise what hurrayctl has to exit with.
std::optional<int> wait_until_ready(Subprocess& daemon, NotifySocket& notify, SignalQueue& signals) {
    const auto deadline = std::chrono::steady_clock::now() + kReadyPatience;
    for (;;) {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
        if (left.count() <= 0) {
            complain("hurrayd did not get ready within " + std::to_string(kReadyPatience.count()) + " s");
            return kNoDaemon;
        }
        const auto signal = signals.wait(left, notify.fd());
        if (signal && signal->number != SIGCHLD) {
            return 128 + signal->number;
        }
        if (notify.ready()) {
            return std::nullopt;
        }
        if (const auto status = daemon.poll()) {
            complain("hurrayd ended before it was ready, with " + describe(*status) + "; its last lines above say why");
            return kNoDaemon;
        }
    }
}

/// Waits for the command's end and passes on the signals that come meanwhile.
int wait_for_command(Subprocess& command, Subprocess& daemon, SignalQueue& signals) {
    bool daemon_lost = false;
    for (;;) {
        if (const auto status = command.poll()) {
            return exit_code(*status);
        }
        if (const auto status = daemon.poll(); status && !daemon_lost) {
            daemon_lost = true;
            complain("hurrayd ended while the command was running, with " + describe(*status));
        }
        const auto signal = signals.wait(std::nullopt);
        if (signal && signal->number != SIGCHLD && !signal->from_terminal) {
            command.signal(signal->number);
        }
    }
}

int run_in(const PrivateDirectory& directory, const std::vector<std::string>& command, SignalQueue& signals) {
    const std::string socket_path = directory.file(kSocketFile);
    NotifySocket notify(directory.file(kNotifyFile));

    const std::string daemon_file = find_daemon();
    std::optional<Subprocess> daemon;
    try {
        daemon.emplace(Launch{daemon_file,
                              {daemon_file, "--socket", socket_path, "--log-level", "warning"},
                              {{"NOTIFY_SOCKET", directory.file(kNotifyFile)}, {"FDSTORE", "0"}},  // nothing is kept
                              true},
                       signals);
    } catch (const std::system_error& error) {
        complain("can't start hurrayd: " + std::string(error.what()) +
                 "; it was looked for beside hurrayctl and in PATH. Is it installed?");
        return kNoDaemon;
    }
    if (const auto failure = wait_until_ready(*daemon, notify, signals)) {
        daemon->end(signals, kEndPatience);
        return *failure;
    }

    int result = 0;
    try {
        Subprocess started(Launch{command.front(), command, {{"HURRAY_SOCKET", socket_path}}, false}, signals);
        result = wait_for_command(started, *daemon, signals);
    } catch (const std::system_error& error) {
        complain("can't run " + std::string(error.what()));
        result = error.code().value() == ENOENT ? kCommandNotFound : kCommandNotExecutable;
    }
    daemon->end(signals, kEndPatience);
    return result;
}

}  // namespace

int run(const std::vector<std::string>& command) {
    try {
        SignalQueue signals;
        const PrivateDirectory directory;
        return run_in(directory, command, signals);
    } catch (const std::exception& error) {
        complain(error.what());
        return kNoDaemon;
    }
}

}  // namespace hurrayctl
