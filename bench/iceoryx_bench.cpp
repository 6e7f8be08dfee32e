// What does iceoryx, as Debian has it, take from publish to view?
//
// Beside hurrayd in the same run, in turns, for memory that both sides have mapped. iceoryx hands a chunk over through queues in shared
// memory and wakes the subscriber by a semaphore: no broker between them knows who holds what, or who may see it. So it has one wake-up where a
// hand-over through a broker has two; this shows what that is worth.
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/handover.hpp"
#include "bench/placement.hpp"
#include "bench/private_daemon.hpp"
#include "bench/progress.hpp"
#include "bench/samples.hpp"
#include "iceoryx_hoofs/log/logmanager.hpp"
#include "iceoryx_posh/popo/untyped_publisher.hpp"
#include "iceoryx_posh/popo/untyped_subscriber.hpp"
#include "iceoryx_posh/popo/wait_set.hpp"
#include "iceoryx_posh/runtime/posh_runtime.hpp"

namespace {

constexpr unsigned char kGoOn = 1;
constexpr unsigned char kStop = 2;
constexpr std::uint64_t kSizes[] = {4096, 1U << 20};

const iox::capro::ServiceDescription kService{"bench", "handover", "tensor"};

[[noreturn]] void die(const char* what) {
    std::fprintf(stderr, "iceoryx_bench: %s\n", what);
    std::exit(1);
}

/// iceoryx' daemon, with room for the sizes above.
class RouDi {
  public:
    RouDi() : configuration_(std::filesystem::temp_directory_path() / ("iceoryx-bench-" + std::to_string(::getpid()))) {
        std::ofstream(configuration_) << "[general]\nversion = 1\n\n[[segment]]\n\n"
                                         "[[segment.mempool]]\nsize = 16384\ncount = 64\n\n"
                                         "[[segment.mempool]]\nsize = 2097152\ncount = 16\n";
        process_ = ::fork();
        if (process_ == 0) {
            ::prctl(PR_SET_PDEATHSIG, SIGTERM);
            // It is talkative. What goes wrong shows in who wants to use it.
            const int nowhere = ::open("/dev/null", O_WRONLY);
            ::dup2(nowhere, STDOUT_FILENO);
            ::dup2(nowhere, STDERR_FILENO);
            ::execlp("iox-roudi", "iox-roudi", "-l", "off", "-c", configuration_.c_str(), nullptr);
            ::_exit(1);
        }
    }
    ~RouDi() {
        if (::getpid() != owner_) {
            return;  // the subscriber, which has it by fork: it goes before the others
        }
        ::kill(process_, SIGTERM);
        ::waitpid(process_, nullptr, 0);
        std::filesystem::remove(configuration_);
    }
    RouDi(const RouDi&) = delete;
    RouDi& operator=(const RouDi&) = delete;

  private:
    const pid_t owner_ = ::getpid();
    std::string configuration_;
    pid_t process_ = -1;
};

/// Sleeps until something is published, reads its first byte, notes when, and lets go.
[[noreturn]] void subscribe(bench::SharedTimes& times, const bench::Baton& ready) {
    iox::runtime::PoshRuntime::initRuntime("hurray-bench-subscriber");
    iox::popo::UntypedSubscriber subscriber(kService);
    iox::popo::WaitSet<> waiting;
    waiting.attachState(subscriber, iox::popo::SubscriberState::HAS_DATA).or_else([](auto) { die("no WaitSet"); });
    while (subscriber.getSubscriptionState() != iox::SubscribeState::SUBSCRIBED) {
        ::usleep(1000);
    }
    for (unsigned char first = kGoOn; first != kStop;) {
        ready.pass();
        waiting.wait();
        subscriber.take()
            .and_then([&](const void* chunk) {
                bench::touch(chunk);
                times.viewed = bench::now_ns();
                first = *static_cast<const unsigned char*>(chunk);
                subscriber.release(chunk);
            })
            .or_else([](auto&) { die("woken for nothing"); });
    }
    std::exit(0);  // which tells RouDi
}

std::uint64_t publish(iox::popo::UntypedPublisher& publisher, std::uint64_t size, unsigned char first) {
    std::uint64_t start = 0;
    publisher.loan(static_cast<std::uint32_t>(size))
        .and_then([&](void* chunk) {
            *static_cast<unsigned char*>(chunk) = first;
            start = bench::now_ns();
            publisher.publish(chunk);
        })
        .or_else([](auto&) { die("no chunk to be had"); });
    return start;
}

/// The subscriber has said that it is about to sleep; this lets it.
void let_it_sleep() {
    const std::uint64_t end = bench::now_ns() + 500'000;
    while (bench::now_ns() < end) {
    }
}

}  // namespace

int main(int argc, char** argv) {
    int rounds = 400;
    const std::string_view value = argc == 3 ? argv[2] : "";
    if (argc != 1 &&
        (std::string_view(argv[1]) != "--rounds" ||
         std::from_chars(value.data(), value.data() + value.size(), rounds).ptr != value.data() + value.size() ||
         rounds <= 0)) {
        std::fputs("usage: iceoryx_bench [--rounds N]      rounds a size, of each side (default: 400)\n", stderr);
        return 2;
    }
    bench::ensure_private_daemon(argv);
    const bench::Processors processors = bench::usable_processors();
    if (!bench::put(0, processors.first) ||
        !bench::put(bench::daemon_pid(std::getenv("HURRAY_SOCKET")), processors.first)) {
        std::perror("iceoryx_bench: placing the processes");
    }
    const int consumer_processor = processors.second >= 0 ? processors.second : processors.first;
    bench::Brokered brokered(consumer_processor);
    iox::log::LogManager::GetLogManager().SetDefaultLogLevel(iox::log::LogLevel::kError,
                                                             iox::log::LogLevelOutput::kHideLogLevel);
    static const RouDi roudi;  // destroyed after iceoryx' own statics, which still tell it that this process leaves
    bench::SharedTimes& times = bench::make_shared_times();
    const bench::Baton ready;
    const pid_t subscriber = ::fork();
    if (subscriber == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        bench::place_consumer(consumer_processor);
        subscribe(times, ready);
    }
    iox::runtime::PoshRuntime::initRuntime("hurray-bench-publisher");
    iox::popo::UntypedPublisher publisher(kService);

    std::printf("%s; %s\n\n", bench::machine().c_str(),
                bench::to_string(processors.second >= 0 ? bench::Placement::Apart : bench::Placement::Together));
    std::printf("Microseconds; ratio = p50 through hurrayd / p50 of iceoryx.\n\n");
    std::printf("| %-21s | %7s | %6s | %8s | %8s | %11s | %11s | %5s |\n", "", "size", "rounds", "p50", "p99",
                "iceoryx p50", "iceoryx p99", "ratio");
    std::printf(
        "|-----------------------|---------|--------|----------|----------|-------------|-------------|-------|\n");
    ready.take();
    for (const std::uint64_t size : kSizes) {
        bench::HandoverSamples ours;
        std::vector<std::uint64_t> theirs;
        {
            bench::Progress progress;
            for (int done = 0; done < rounds;) {
                const int block = std::min(4, rounds - done);
                brokered.run(size, block, ours);
                bench::settle();
                for (int i = 0; i < block + bench::kUncounted; ++i) {
                    let_it_sleep();
                    const std::uint64_t start = publish(publisher, size, kGoOn);
                    ready.take();
                    if (i >= bench::kUncounted) {
                        theirs.push_back(times.viewed - start);
                    }
                }
                done += block;
                progress.show("iceoryx: " + bench::human_size(size) + ", " + std::to_string(done) + " of " +
                              std::to_string(rounds) + " rounds");
            }
        }
        const auto a = bench::quantiles(ours.again_to_view);
        const auto b = bench::quantiles(theirs);
        const auto us = [](std::uint64_t ns) { return static_cast<double>(ns) / 1000.0; };
        std::printf("| %-21s | %7s | %6zu | %8.1f | %8.1f | %11.1f | %11.1f | %5.2f |\n", "publish to view, kept",
                    bench::human_size(size).c_str(), theirs.size(), us(a.p50), us(a.p99), us(b.p50), us(b.p99),
                    static_cast<double>(a.p50) / static_cast<double>(b.p50));
        std::fflush(stdout);
    }
    publish(publisher, 4096, kStop);
    ::waitpid(subscriber, nullptr, 0);
    return 0;
}
