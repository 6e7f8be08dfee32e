#include "tests/soak/stage.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hurray::soak {
namespace {

constexpr std::string_view kPlays = "--plays";
constexpr int kLedgerFd = 3;

std::string describe_end(int status) {
    return WIFSIGNALED(status) ? "was ended by signal " + std::to_string(WTERMSIG(status))
                               : "ended with status " + std::to_string(WEXITSTATUS(status));
}

}  // namespace

std::string slot_name(std::size_t page, std::uint32_t slot) {
    if (slot == kQueueSlot) {
        return kPrefix + std::to_string(page) + "/jobs";
    }
    return slot < kNamedSlots ? kPrefix + std::to_string(page) + "/" + std::to_string(slot) : "";
}

Client connect_as(const Part& part, bool dispatch_by_caller) {
    const auto gives_up = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    for (;;) {
        try {
            ConnectOptions options;
            options.address = part.socket;
            options.client_name = "soak " + part.role + " " + std::to_string(part.index);
            options.dispatch_by_caller = dispatch_by_caller;
            options.timeout = std::chrono::minutes(part.is_mortal ? 1 : 0);
            return Client::connect(std::move(options));
        } catch (const StatusError& error) {
            if (!is_away(part, error) || std::chrono::steady_clock::now() > gives_up) {
                throw;
            }
        }
    }
}

Random random_of(const Part& part) {
    std::seed_seq seeds{part.seed, part.seed >> 32, static_cast<std::uint64_t>(part.role.front()),
                        std::uint64_t{part.index}, part.life};
    return Random(seeds);
}

std::uint64_t random_size(Random& random, std::uint64_t most) {
    if (one_in(random, 32)) {
        return 0;
    }
    std::uint64_t powers = 1;
    while ((most >> powers) > 0) {
        ++powers;
    }
    const std::uint64_t below = std::uint64_t{1} << (1 + random() % powers);
    return 1 + random() % std::min(below, most);
}

void fail_run(const Part& part, const std::string& why) {
    std::fprintf(stderr, "hurray_soak: %s %zu, life %llu: %s\n", part.role.c_str(), part.index,
                 static_cast<unsigned long long>(part.life), why.c_str());
    std::_Exit(1);
}

std::optional<Part> part_of(int argc, char** argv) {
    if (argc != 10 || argv[1] != kPlays) {
        return std::nullopt;
    }
    const auto number = [&](int i) { return std::strtoull(argv[i], nullptr, 10); };
    ::fcntl(kLedgerFd, F_SETFD, FD_CLOEXEC);
    return Part{argv[2], number(3), number(4), number(5), number(6), number(7), argv[8], kLedgerFd, number(9) != 0};
}

Stage::~Stage() {
    for (const Actor& actor : actors_) {
        ::kill(actor.pid, SIGKILL);
        ::waitpid(actor.pid, nullptr, 0);
    }
}

void Stage::start(Part part) {
    std::array<std::string, 10> words = {"hurray_soak",
                                         std::string(kPlays),
                                         part.role,
                                         std::to_string(part.index),
                                         std::to_string(part.life),
                                         std::to_string(part.seed),
                                         std::to_string(part.rounds),
                                         std::to_string(part.max_bytes),
                                         part.socket,
                                         part.is_mortal ? "1" : "0"};
    std::array<char*, 11> argv{};
    std::transform(words.begin(), words.end(), argv.begin(), [](std::string& word) { return word.data(); });
    const pid_t pid = ::fork();
    if (pid < 0) {
        throw std::system_error(errno, std::generic_category(), "fork");
    }
    if (pid == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (part.ledger_fd == kLedgerFd) {
            ::fcntl(kLedgerFd, F_SETFD, 0);
        } else {
            ::dup2(part.ledger_fd, kLedgerFd);
        }
        ::execv("/proc/self/exe", argv.data());
        ::_exit(127);
    }
    actors_.push_back({std::move(part), pid});
}

std::size_t Stage::running(const std::string& role) const {
    return static_cast<std::size_t>(
        std::count_if(actors_.begin(), actors_.end(), [&](const Actor& actor) { return actor.part.role == role; }));
}

bool Stage::look() {
    bool all_well = true;
    std::erase_if(actors_, [&](const Actor& actor) {
        int status = 0;
        if (::waitpid(actor.pid, &status, WNOHANG) != actor.pid) {
            return false;
        }
        if (status != 0) {
            std::fprintf(stderr, "hurray_soak: %s %zu %s\n", actor.part.role.c_str(), actor.part.index,
                         describe_end(status).c_str());
            all_well = false;
        }
        return true;
    });
    return all_well;
}

void Stage::replace(const std::string& role, Random& random) {
    std::vector<Actor*> candidates;
    for (Actor& actor : actors_) {
        if (actor.part.role == role) {
            candidates.push_back(&actor);
        }
    }
    if (candidates.empty()) {
        return;
    }
    Actor& victim = *candidates[random() % candidates.size()];
    ::kill(victim.pid, SIGKILL);
    int status = 0;
    ::waitpid(victim.pid, &status, 0);
    if (!WIFSIGNALED(status)) {
        std::fprintf(stderr, "hurray_soak: %s %zu %s before it was killed\n", role.c_str(), victim.part.index,
                     describe_end(status).c_str());
        std::exit(1);
    }
    Part next = std::move(victim.part);
    std::erase_if(actors_, [&](const Actor& actor) { return &actor == &victim; });
    ++next.life;
    start(std::move(next));
}

}  // namespace hurray::soak
