#include "bench/private_daemon.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

namespace bench {

void ensure_private_daemon(char** argv) {
    if (const char* socket = std::getenv("HURRAY_SOCKET"); socket != nullptr && *socket != '\0') {
        return;
    }
    const std::string program = std::filesystem::read_symlink("/proc/self/exe");
    const std::string control = program_beside("hurrayctl");
    std::vector<std::string> words = {control, "run", "--", program};
    for (char** argument = argv + 1; *argument != nullptr; ++argument) {
        words.emplace_back(*argument);
    }
    std::vector<char*> arguments;
    for (std::string& word : words) {
        arguments.push_back(word.data());
    }
    arguments.push_back(nullptr);
    ::execv(control.c_str(), arguments.data());
    std::perror(control.c_str());
    std::exit(1);
}

pid_t daemon_pid(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
    const int socket = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    ucred peer{};
    socklen_t length = sizeof peer;
    if (socket < 0 || ::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
        ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) {
        std::perror(address.sun_path);
        std::exit(1);
    }
    ::close(socket);
    return peer.pid;
}

PrivateDaemon::PrivateDaemon(std::string_view configuration) {
    directory_ = std::filesystem::temp_directory_path() / "hurray-bench.XXXXXX";
    if (::mkdtemp(directory_.data()) == nullptr) {
        std::perror(directory_.c_str());
        std::exit(1);
    }
    address_ = directory_ + "/hurrayd.sock";
    file_ = directory_ + "/hurrayd.toml";
    std::ofstream(file_) << configuration;
    start();
}

void PrivateDaemon::start() {
    const std::string program = program_beside("hurrayd");
    process_ = ::fork();
    if (process_ == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGTERM);
        ::execl(program.c_str(), program.c_str(), "--config", file_.c_str(), "--socket", address_.c_str(),
                "--log-level", "warning", nullptr);
        std::perror(program.c_str());
        ::_exit(1);
    }
}

void PrivateDaemon::restart() {
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
    start();
}

PrivateDaemon::~PrivateDaemon() {
    ::kill(process_, SIGTERM);
    ::waitpid(process_, nullptr, 0);
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
}

std::string program_beside(const char* name) {
    return std::filesystem::read_symlink("/proc/self/exe").replace_filename(name);
}

}  // namespace bench
