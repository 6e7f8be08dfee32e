#include "bench/placement.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <sched.h>
#include <unistd.h>

namespace bench {

namespace {

/// The threads of the core that a processor is one of, as the kernel writes them: equal for all of one core.
std::string core_of(int processor) {
    std::string siblings = std::to_string(processor);
    std::ifstream file("/sys/devices/system/cpu/cpu" + siblings + "/topology/thread_siblings_list");
    std::getline(file, siblings);
    return siblings;
}

}  // namespace

std::optional<Placement> placement_from(std::string_view text) noexcept {
    if (text == "apart") {
        return Placement::Apart;
    }
    if (text == "together") {
        return Placement::Together;
    }
    if (text == "free") {
        return Placement::Free;
    }
    return std::nullopt;
}

const char* to_string(Placement placement) noexcept {
    switch (placement) {
        case Placement::Apart:
            return "producer and daemon on one processor, the consumer on another";
        case Placement::Together:
            return "all processes on one processor";
        case Placement::Free:
            break;
    }
    return "processes where the scheduler likes";
}

Processors usable_processors() {
    cpu_set_t usable;
    CPU_ZERO(&usable);
    ::sched_getaffinity(0, sizeof usable, &usable);
    Processors found{-1, -1};
    bool same_core = false;
    for (int processor = 0; processor < CPU_SETSIZE; ++processor) {
        if (!CPU_ISSET(processor, &usable)) {
            continue;
        }
        if (found.first < 0) {
            found.first = processor;
        } else if (core_of(processor) != core_of(found.first)) {
            found.second = processor;
            return found;
        } else if (!same_core) {
            same_core = true;
            found.second = processor;
        }
    }
    return found;
}

bool put(pid_t process, int processor) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<unsigned>(processor), &one);
    std::error_code error;
    const std::string tasks = "/proc/" + std::to_string(process == 0 ? ::getpid() : process) + "/task";
    for (const auto& task : std::filesystem::directory_iterator(tasks, error)) {
        const pid_t thread = std::atoi(task.path().filename().c_str());
        if (::sched_setaffinity(thread, sizeof one, &one) != 0 && errno != ESRCH) {
            return false;
        }
    }
    errno = error.value();
    return !error;
}

void put_apart(std::initializer_list<pid_t> daemons, const Processors& processors) {
    if (processors.second < 0) {
        return;
    }
    const bool are_placed = std::ranges::all_of(daemons, [&](pid_t daemon) { return put(daemon, processors.first); });
    static_cast<void>(are_placed && put(0, processors.second));
}

}  // namespace bench
