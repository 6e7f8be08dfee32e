// How long after `kill -9` of the daemon is everything there again? And how much of that is the daemon's?
//
// A thousand clients with ten thousand leases come back to a daemon that was killed and started again, and say what they had: Hello, what they
// publish, what they hold, done. "by hand" they are sockets of one process that all speak at once and wait for nothing, which is the daemon's work
// alone. "with the library" they are clients of libhurray-client in processes of their own: what a program notices, from the kill on. It has in it
// how long a daemon takes to start, and the pauses of clients that find nobody yet.
//
// Beside "by hand", in turns, two processes that accept as many sockets and answer as many packets, and keep no books. The *floor* only gets them
// from the kernel, with the descriptors. *Reading* does with each what nobody can do without who is to understand it: it asks the kernel who its sender is, watches
// that sender's process, decodes the packet, and checks the descriptor, by the daemon's own functions. What is above that is the books.
#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/arguments.hpp"
#include "bench/placement.hpp"
#include "bench/private_daemon.hpp"
#include "bench/progress.hpp"
#include "bench/samples.hpp"
#include "daemon/publication_check.hpp"
#include "daemon/session.hpp"
#include "hurray/client.hpp"
#include "libhurray/base/unique_fd.hpp"
#include "proto/wire/codec.hpp"
#include "proto/wire/packet_socket.hpp"

namespace {

namespace wire = hurray::wire;
using hurray::UniqueFd;

constexpr std::uint64_t kTensorBytes = 256;
constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kCapsules = 1000;  // with the library
constexpr std::uint64_t kCapsulesOfAProducer = 100;
constexpr std::uint64_t kAnswerBytes = 16;  // about what the daemon's have

struct Options {
    std::uint64_t rounds = 9;
    std::uint64_t clients = 1000;
    std::uint64_t leases = 10'000;
};

constexpr const char* kUsage =
    "usage: resume_bench [--rounds N] [--clients N] [--leases N]\n"
    "Starts daemons of its own.\n"
    "  --rounds N   deaths of the daemon, each way (default: 9)\n"
    "  --clients N  (default: 1000)\n"
    "  --leases N   of all clients together (default: 10000)\n";

Options parse(int argc, char** argv) {
    Options options;
    const std::pair<std::string_view, std::uint64_t*> known[] = {
        {"--rounds", &options.rounds}, {"--clients", &options.clients}, {"--leases", &options.leases}};
    bench::read_counts(argc, argv, known, kUsage);
    return options;
}

[[noreturn]] void fail(const std::string& what) { throw std::runtime_error(what + ": " + std::strerror(errno)); }

sockaddr_un address_of(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    return address;
}

/// Tries until somebody listens.
UniqueFd connect_to(const std::string& path) {
    const sockaddr_un address = address_of(path);
    for (;;) {
        UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
        if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
            return socket;
        }
        if (errno != ENOENT && errno != ECONNREFUSED) {
            fail("connect to " + path);
        }
    }
}

// ---- By hand --------------------------------------------------------------------------------------------------------

/// One client's part: the packets that it says, in this order, each answered once.
struct Part {
    std::vector<std::string> packets;
    UniqueFd memory;                       ///< travels with each packet that has a segment
    std::vector<bool> carries_descriptor;  ///< for each packet
};

wire::Id16 id_of(std::uint64_t number) {
    wire::Id16 id;
    std::memcpy(id.bytes.data(), &number, sizeof number);
    id.bytes.back() = 1;
    return id;
}

UniqueFd make_memory(std::uint64_t size) {
    UniqueFd fd(::memfd_create("resume-bench", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (!fd || ::fallocate(fd.get(), 0, 0, static_cast<off_t>(size)) != 0 ||
        ::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) != 0) {
        fail("memory");
    }
    return fd;
}

/// What clients of a life before have to say. The first of them publish, all of them hold leases.
std::vector<Part> make_parts(const Options& options) {
    hurray::DenseDescriptor tensor;
    tensor.element_type = hurray::ElementType::UInt8;
    tensor.shape = {kTensorBytes};
    const std::vector<std::uint8_t> encoded = tensor.encode();
    const std::uint64_t producers = std::max<std::uint64_t>(options.clients / kCapsulesOfAProducer, 1);
    const std::uint64_t capsules = producers * kCapsulesOfAProducer;
    const auto uid = static_cast<std::uint32_t>(::geteuid());
    std::vector<Part> parts(options.clients);
    std::uint64_t lease = 0;
    for (std::uint64_t i = 0; i < options.clients; ++i) {
        Part& part = parts[i];
        std::uint64_t request = 0;
        const auto say = [&](wire::RequestMessage message, bool carries_descriptor = false) {
            part.packets.push_back(wire::encoded(wire::Request{++request, std::nullopt, std::move(message)}));
            part.carries_descriptor.push_back(carries_descriptor);
        };
        wire::Hello hello{1, 1, "resume", id_of(i + 1), id_of(~std::uint64_t{0})};
        say(std::move(hello));
        wire::Claims claims;
        for (; lease < (i + 1) * options.leases / options.clients; ++lease) {
            claims.claims.push_back({{uid, id_of(lease % capsules)}, lease + 1, wire::Claims::State::Held});
        }
        if (!claims.claims.empty()) {
            say(std::move(claims));
        }
        if (i < producers) {
            part.memory = make_memory(kCapsulesOfAProducer * kPage);
            for (std::uint64_t k = 0; k < kCapsulesOfAProducer; ++k) {
                const std::uint64_t number = i * kCapsulesOfAProducer + k;
                wire::Publish offer;
                offer.capsule = id_of(number);
                offer.name = "resume/" + std::to_string(number);
                offer.descriptor.assign(encoded.begin(), encoded.end());
                offer.segments = {{1, true, wire::Memory::Reusable, kCapsulesOfAProducer * kPage, 0}};
                offer.placements = {{0, k * kPage}};
                offer.version = number + 1;
                say(std::move(offer), true);
            }
        }
        say(wire::ResumeDone{});
    }
    return parts;
}

/// Says it all, and reads until all is answered. Who answers is to stay until this returns the sockets.
std::vector<UniqueFd> come_back(const std::string& path, const std::vector<Part>& parts) {
    std::vector<UniqueFd> sockets;
    std::vector<std::size_t> unanswered;
    const UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
    for (std::size_t i = 0; i < parts.size(); ++i) {
        const Part& part = parts[i];
        sockets.push_back(connect_to(path));
        unanswered.push_back(part.packets.size());
        for (std::size_t k = 0; k < part.packets.size(); ++k) {
            const int fd = part.memory.get();
            const std::span<const int> fds(&fd, part.carries_descriptor[k] ? 1 : 0);
            const auto sent = wire::send_packet(sockets.back().get(), std::as_bytes(std::span(part.packets[k])), fds);
            if (!sent || *sent != wire::Sent::Done) {
                throw std::runtime_error("a packet was not sent");
            }
        }
        epoll_event interest{};
        interest.events = EPOLLIN;
        interest.data.u64 = i;
        ::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, sockets.back().get(), &interest);
    }
    std::size_t left = parts.size();
    std::vector<epoll_event> ready(256);
    std::vector<char> packet(wire::kMaxPacketBytes);
    while (left > 0) {
        const int count = ::epoll_wait(epoll.get(), ready.data(), static_cast<int>(ready.size()), 30'000);
        if (count <= 0) {
            throw std::runtime_error("no answer came");
        }
        for (int k = 0; k < count; ++k) {
            const std::size_t i = ready[static_cast<std::size_t>(k)].data.u64;
            ssize_t size = 0;
            while (unanswered[i] > 0 &&
                   (size = ::recv(sockets[i].get(), packet.data(), packet.size(), MSG_DONTWAIT)) > 0) {
                left -= --unanswered[i] == 0 ? 1 : 0;
            }
            if (size == 0 && unanswered[i] > 0) {
                throw std::runtime_error("the connection has ended");
            }
        }
    }
    return sockets;
}

/// Whether everybody has all that was claimed.
void check_all_is_back(const std::string& address, const Options& options) {
    const std::string status =
        hurray::Client::connect({.address = address, .dispatch_by_caller = true, .reconnects = false}).status();
    const auto has = [&](std::string_view name, std::uint64_t used) {
        const std::size_t at = status.find("\"name\":\"" + std::string(name) + "\"");
        const std::size_t end = status.find('}', at);
        return at != std::string::npos &&
               status.substr(at, end - at).find("\"used\":" + std::to_string(used)) != std::string::npos;
    };
    if (!has("leases", options.leases) || !has("claims", 0)) {
        throw std::runtime_error("not all came back: " + status);
    }
}

/// What a server without books does with what comes.
enum class Serving {
    Floor,    ///< gets it from the kernel
    Reading,  ///< and sees to it that it can be understood and trusted
};

/// A packet that is not understood is none of ours, and ends the process: so no answer comes.
void read_packet(std::span<const std::byte> packet, const wire::Received& received) {
    const auto request = wire::decode_request(packet, received.fds.size());
    if (!request) {
        std::abort();
    }
    if (const auto* publish = std::get_if<wire::Publish>(&request->message)) {
        std::vector<int> fds;
        for (const UniqueFd& fd : received.fds) {
            fds.push_back(fd.get());
        }
        if (!hurrayd::check_publish(*publish, fds)) {
            std::abort();
        }
    }
}

/// Accepts whoever comes and answers each packet.
[[noreturn]] void serve(int listener, Serving serving) {
    const UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
    std::vector<hurrayd::PeerCredentials> senders;
    std::vector<UniqueFd> processes;
    const auto watch = [&](int fd) {
        epoll_event interest{};
        interest.events = EPOLLIN;
        interest.data.fd = fd;
        ::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, fd, &interest);
    };
    watch(listener);
    const std::string answer(kAnswerBytes, 'a');
    std::vector<epoll_event> ready(256);
    wire::BurstReader reader(16);
    for (;;) {
        const int count = ::epoll_wait(epoll.get(), ready.data(), static_cast<int>(ready.size()), -1);
        for (int i = 0; i < count; ++i) {
            const int fd = ready[static_cast<std::size_t>(i)].data.fd;
            if (fd == listener) {
                if (const int socket = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
                    socket >= 0) {
                    if (serving == Serving::Reading) {
                        senders.push_back(hurrayd::peer_credentials(socket).value());
                        if (UniqueFd process = hurrayd::peer_pidfd(socket)) {
                            watch(process.get());
                            processes.push_back(std::move(process));
                        }
                    }
                    watch(socket);
                }
                continue;
            }
            auto burst = reader.read(fd, reader.capacity());
            if (!burst || burst->front().kind == wire::Received::Kind::End) {
                ::close(fd);
                continue;
            }
            if (serving == Serving::Reading) {
                for (std::size_t k = 0; k < burst->size(); ++k) {
                    read_packet(reader.bytes(k).first((*burst)[k].size), (*burst)[k]);
                }
            }
            std::vector<wire::Parcel> answers(burst->size(), wire::Parcel{std::as_bytes(std::span(answer))});
            (void)wire::send_packets(fd, answers);
        }
    }
}

/// A process that serves so on a socket of its own.
class Server {
  public:
    Server(const std::string& path, Serving serving) {
        ::unlink(path.c_str());
        const UniqueFd listener(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
        const sockaddr_un address = address_of(path);
        if (::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
            ::listen(listener.get(), SOMAXCONN) != 0) {
            fail("listen on " + path);
        }
        process_ = ::fork();
        if (process_ == 0) {
            ::prctl(PR_SET_PDEATHSIG, SIGKILL);
            serve(listener.get(), serving);
        }
    }
    ~Server() {
        ::kill(process_, SIGKILL);
        ::waitpid(process_, nullptr, 0);
    }
    Server(const Server&) = delete;
    Server& operator=(const Server&) = delete;
    [[nodiscard]] pid_t process() const noexcept { return process_; }

  private:
    pid_t process_ = -1;
};

// ---- With the library -----------------------------------------------------------------------------------------------

/// Clients in a process of their own, which say when all of them are back.
class Crowd {
  public:
    /// The first of a run publishes the capsules.
    Crowd(const std::string& address, std::uint64_t clients, std::uint64_t leases, bool publishes) {
        int ends[2];
        if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
            fail("socketpair");
        }
        line_ = UniqueFd(ends[0]);
        UniqueFd theirs(ends[1]);
        process_ = ::fork();
        if (process_ == 0) {
            ::prctl(PR_SET_PDEATHSIG, SIGKILL);
            line_.reset();
            try {
                stay(address, clients, leases, publishes, theirs.get());
            } catch (const std::exception& error) {
                std::fprintf(stderr, "resume_bench: %s\n", error.what());
            }
            ::_exit(1);
        }
        theirs.reset();
        (void)hear();
    }
    ~Crowd() {
        ::kill(process_, SIGKILL);
        ::waitpid(process_, nullptr, 0);
    }
    Crowd(const Crowd&) = delete;
    Crowd& operator=(const Crowd&) = delete;

    /// When they had all come back, the next time that they do.
    [[nodiscard]] std::uint64_t hear() const {
        std::uint64_t when = 0;
        if (::recv(line_.get(), &when, sizeof when, 0) != sizeof when) {
            throw std::runtime_error("a crowd has ended");
        }
        return when;
    }

  private:
    static void tell(int line) {
        const std::uint64_t now = bench::now_ns();
        if (::send(line, &now, sizeof now, MSG_NOSIGNAL) != sizeof now) {
            ::_exit(0);
        }
    }

    [[noreturn]] static void stay(const std::string& address, std::uint64_t clients, std::uint64_t leases,
                                  bool publishes, int line) {
        std::mutex mutex;
        std::condition_variable changed;
        std::uint64_t back = 0;
        std::vector<hurray::Client> all;
        std::vector<hurray::Tensor> held;
        for (std::uint64_t i = 0; i < clients; ++i) {
            hurray::ConnectOptions how;
            how.address = address;
            how.timeout = std::chrono::seconds(10);
            how.on_event = [&](const hurray::Event& event) {
                const std::lock_guard lock(mutex);
                back += event.status == HURRAY_OK ? 1 : 0;
                changed.notify_one();
            };
            all.push_back(hurray::Client::connect(std::move(how)));
        }
        const auto name_of = [](std::uint64_t number) { return "resume/" + std::to_string(number % kCapsules); };
        for (std::uint64_t i = 0; publishes && i < kCapsules; ++i) {
            all[i % clients].publish(name_of(i), all[i % clients].allocate<std::uint8_t>({kTensorBytes}));
        }
        for (std::uint64_t i = 0; i < leases; ++i) {
            held.push_back(all[i % clients].attach(name_of(i)));
        }
        for (;;) {
            tell(line);
            std::unique_lock lock(mutex);
            changed.wait(lock, [&] { return back == clients; });
            back = 0;
        }
    }

    UniqueFd line_;
    pid_t process_ = -1;
};

/// Beside each of `others`, if there are any, its ratio.
void print_row(const char* what, const Options& options, const std::vector<std::uint64_t>& ours,
               const std::array<std::vector<std::uint64_t>, 2>& others) {
    const auto ms = [](std::uint64_t ns) { return static_cast<double>(ns) / 1e6; };
    const bench::Quantiles a = bench::quantiles(ours);
    std::printf("| %-24s | %7llu | %6llu | %6zu | %8.1f | %8.1f |", what,
                static_cast<unsigned long long>(options.clients), static_cast<unsigned long long>(options.leases),
                ours.size(), ms(a.p50), ms(*std::ranges::max_element(ours)));
    for (const std::vector<std::uint64_t>& other : others) {
        if (other.empty()) {
            std::printf(" %11s | %5s |", "", "");
        } else {
            const bench::Quantiles b = bench::quantiles(other);
            std::printf(" %11.1f | %5.2f |", ms(b.p50), static_cast<double>(a.p50) / static_cast<double>(b.p50));
        }
    }
    std::printf("\n");
}

}  // namespace

int main(int argc, char** argv) try {
    const Options options = parse(argc, argv);
    rlimit descriptors{};
    ::getrlimit(RLIMIT_NOFILE, &descriptors);
    descriptors.rlim_cur = descriptors.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &descriptors);
    const bench::Processors processors = bench::usable_processors();

    std::vector<std::uint64_t> listening;
    std::vector<std::uint64_t> by_hand;
    std::array<std::vector<std::uint64_t>, 2> others;  // by Serving
    {
        bench::PrivateDaemon daemon("[quota.user]\nclients = 1000000\n");
        connect_to(daemon.address());
        const std::vector<Part> parts = make_parts(options);
        bench::Progress progress;
        for (std::uint64_t round = 0; round <= options.rounds; ++round) {  // the first is not counted
            progress.show("resume: by hand, " + std::to_string(round) + " of " + std::to_string(options.rounds));
            const std::uint64_t killed = bench::now_ns();
            daemon.restart();
            const UniqueFd first = connect_to(daemon.address());
            const std::uint64_t listens = bench::now_ns();
            bench::put_apart({daemon.process()}, processors);
            const std::uint64_t begin = bench::now_ns();
            const std::vector<UniqueFd> sockets = come_back(daemon.address(), parts);
            const std::uint64_t end = bench::now_ns();
            check_all_is_back(daemon.address(), options);

            if (round > 0) {
                listening.push_back(listens - killed);
                by_hand.push_back(end - begin);
            }
            for (const Serving serving : {Serving::Floor, Serving::Reading}) {
                const std::string address = daemon.address() + "-other";
                const Server server(address, serving);
                bench::put_apart({server.process()}, processors);
                const std::uint64_t other_begin = bench::now_ns();
                const std::vector<UniqueFd> other_sockets = come_back(address, parts);
                if (round > 0) {
                    others[static_cast<std::size_t>(serving)].push_back(bench::now_ns() - other_begin);
                }
            }
        }
    }
    std::vector<std::uint64_t> with_library;
    {
        bench::PrivateDaemon daemon("[quota.user]\nclients = 1000000\n");
        const std::uint64_t processes = std::min<std::uint64_t>(4, options.clients);
        std::vector<std::unique_ptr<Crowd>> crowds;
        for (std::uint64_t i = 0; i < processes; ++i) {
            const auto share = [&](std::uint64_t all) { return all * (i + 1) / processes - all * i / processes; };
            crowds.push_back(
                std::make_unique<Crowd>(daemon.address(), share(options.clients), share(options.leases), i == 0));
        }
        bench::Progress progress;
        for (std::uint64_t round = 0; round < options.rounds; ++round) {
            progress.show("resume: with the library, " + std::to_string(round) + " of " +
                          std::to_string(options.rounds));
            const std::uint64_t killed = bench::now_ns();
            daemon.restart();
            std::uint64_t back = 0;
            for (const auto& crowd : crowds) {
                back = std::max(back, crowd->hear());
            }
            check_all_is_back(daemon.address(), options);
            with_library.push_back(back - killed);
        }
    }
    std::printf("%s; %s\n\n", bench::machine().c_str(),
                processors.second >= 0
                    ? "by hand, the daemon or what is beside it on one processor, the clients on another"
                    : bench::to_string(bench::Placement::Together));
    std::printf("Milliseconds; ratio = p50 / p50 of the floor, or of reading.\n\n");
    std::printf("| %-24s | %7s | %6s | %6s | %8s | %8s | %11s | %5s | %11s | %5s |\n", "", "clients", "leases",
                "deaths", "p50", "longest", "floor p50", "ratio", "reading p50", "ratio");
    std::printf("|--------------------------|---------|--------|--------|----------|----------|-------------|-------|");
    std::printf("-------------|-------|\n");
    print_row("killed to listening", options, listening, {});
    print_row("back, by hand", options, by_hand, others);
    print_row("killed to back, library", options, with_library, {});
    return 0;
} catch (const std::exception& error) {
    std::fprintf(stderr, "resume_bench: %s\n", error.what());
    return 1;
}
