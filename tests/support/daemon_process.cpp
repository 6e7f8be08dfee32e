#include "tests/support/daemon_process.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/child.hpp"

namespace hurray::test {
namespace {

/// Where a service manager puts the first descriptor.
constexpr int kFirstHandedOver = 3;

const char* binary() {
    const char* named = std::getenv("HURRAYD");
    return named != nullptr ? named : HURRAYD_BINARY;
}

std::string read_file(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

DaemonProcess::DaemonProcess(Options options)
    : options_(std::move(options)),
      socket_path_(directory_ / options_.socket),
      notifications_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string path = notify_path();
    std::memcpy(address.sun_path, path.data(), path.size());
    if (::bind(notifications_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
        throw std::runtime_error("bind " + path);
    }
    start();
}

DaemonProcess::~DaemonProcess() {
    // A daemon that crashed under a test has something to say.
    if (pid_ > 0 && end(SIGTERM) != 0) {
        std::fprintf(stderr, "hurrayd did not end well, its log:\n%s\n", log().c_str());
    }
}

pid_t DaemonProcess::spawn(const std::vector<std::string>& arguments, const std::string& log_path) const {
    std::vector<std::string> words = {options_.binary.empty() ? binary() : options_.binary};
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::vector<char*> argv;
    for (std::string& word : words) {
        argv.push_back(word.data());
    }
    argv.push_back(nullptr);
    const std::string notify = notify_path();

    const pid_t pid = ::fork();
    if (pid < 0) {
        throw std::runtime_error("fork");
    }
    if (pid == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        const int log = ::open(log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
        ::dup2(log, STDOUT_FILENO);
        ::dup2(log, STDERR_FILENO);
        ::close(log);
        if (options_.descriptor_limit) {
            const rlimit limit{*options_.descriptor_limit, *options_.descriptor_limit};
            ::setrlimit(RLIMIT_NOFILE, &limit);
        }
        if (options_.address_space_limit) {
            const rlimit limit{*options_.address_space_limit, *options_.address_space_limit};
            ::setrlimit(RLIMIT_AS, &limit);
        }
        ::unsetenv("HURRAY_SOCKET");
        ::setenv("NOTIFY_SOCKET", notify.c_str(), 1);
        play_service_manager();
        for (const auto& [name, value] : options_.environment) {
            ::setenv(name.c_str(), value.c_str(), 1);
        }
        if (options_.before_exec) {
            options_.before_exec();
        }
        ::execv(argv[0], argv.data());
        ::_exit(127);
    }
    return pid;
}

/// In the child, as the last thing before exec: what systemd does there.
void DaemonProcess::play_service_manager() const {
    ::close_range(kFirstHandedOver, ~0U, CLOSE_RANGE_CLOEXEC);  // what came from whoever started the test stays out
    const std::string addressee = std::to_string(options_.is_addressed ? ::getpid() : ::getppid());
    const auto count = static_cast<int>(options_.handed_over.size());
    std::string names;
    std::vector<int> copies;
    for (const auto& [fd, name] : options_.handed_over) {  // above all the places that they have to take
        copies.push_back(::fcntl(fd, F_DUPFD_CLOEXEC, kFirstHandedOver + count));
        names += (names.empty() ? "" : ":") + name;
    }
    for (int i = 0; i < count; ++i) {
        ::dup2(copies[static_cast<std::size_t>(i)], kFirstHandedOver + i);  // without close-on-exec
    }
    if (count != 0) {
        ::setenv("LISTEN_PID", addressee.c_str(), 1);
        ::setenv("LISTEN_FDS", std::to_string(count).c_str(), 1);
        ::setenv("LISTEN_FDNAMES", names.c_str(), 1);
    }
    if (options_.watchdog) {
        ::setenv("WATCHDOG_PID", addressee.c_str(), 1);
        ::setenv("WATCHDOG_USEC", std::to_string(options_.watchdog->count()).c_str(), 1);
    }
}

void DaemonProcess::start_without_waiting() {
    std::vector<std::string> arguments = {"--socket", socket_path_};
    arguments.insert(arguments.end(), options_.arguments.begin(), options_.arguments.end());
    pid_ = spawn(arguments, directory_ / "log");
}

void DaemonProcess::start() {
    start_without_waiting();
    if (!options_.waits_for_ready) {
        return;
    }
    for (std::string said; said.find("READY=1") == std::string::npos; said = next_notification()) {
        // Whoever ends instead of serving says why in the log.
        pollfd waiting{notifications_.get(), POLLIN, 0};
        while (::poll(&waiting, 1, 100) == 0) {
            int status = 0;
            if (::waitpid(pid_, &status, WNOHANG) == pid_) {
                pid_ = -1;
                throw std::runtime_error("hurrayd ended at once: " + log());
            }
        }
    }
}

void DaemonProcess::start(std::vector<std::pair<std::string, std::string>> environment) {
    options_.environment = std::move(environment);
    start();
}

std::string DaemonProcess::next_notification() {
    pollfd waiting{notifications_.get(), POLLIN, 0};
    if (::poll(&waiting, 1, 30'000) <= 0) {
        throw std::runtime_error("no notification came");
    }
    std::array<char, 4096> buffer;
    const ssize_t size = ::recv(notifications_.get(), buffer.data(), buffer.size(), 0);
    return {buffer.data(), size > 0 ? static_cast<std::size_t>(size) : 0};
}

std::string DaemonProcess::notification_with(const std::string& text) {
    for (;;) {
        std::string said = next_notification();
        if (said.find(text) != std::string::npos) {
            return said;
        }
    }
}

int DaemonProcess::end(int signal) {
    if (pid_ <= 0) {
        throw std::runtime_error("hurrayd has ended already");  // and never kill(-1)
    }
    ::kill(pid_, signal);
    return wait_end();
}

void DaemonProcess::freeze() const {
    ::kill(pid_, SIGSTOP);
    for (std::string state; state != "T";) {
        std::ifstream stat("/proc/" + std::to_string(pid_) + "/stat");
        std::string ignored;
        stat >> ignored >> ignored >> state;
    }
}

int DaemonProcess::wait_end() {
    const int status = wait_for_end(pid_);
    pid_ = -1;
    return status;
}

std::size_t DaemonProcess::open_descriptors() const {
    const std::filesystem::directory_iterator open("/proc/" + std::to_string(pid_) + "/fd");
    return static_cast<std::size_t>(std::distance(begin(open), std::filesystem::end(open)));
}

std::string DaemonProcess::maps() const { return read_file("/proc/" + std::to_string(pid_) + "/maps"); }

std::string DaemonProcess::log() const { return read_file(directory_ / "log"); }

DaemonProcess::Finished DaemonProcess::run_another(const std::vector<std::string>& arguments) const {
    const std::string log_path = directory_ / "other-log";
    const int status = wait_for_end(spawn(arguments, log_path));
    const std::string output = read_file(log_path);
    std::filesystem::remove(log_path);
    return {status, output};
}

}  // namespace hurray::test
