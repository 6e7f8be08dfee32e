// Sends hostile packets to a real hurrayd: rubbish, requests with a bit turned, cut or too long, with descriptors that nobody
// asked for or of the wrong kind, floods, half a handshake; from peers that don't read, and that vanish. Meanwhile a bystander
// attaches and releases a tensor, again and again. Its latency is printed next to that in an idle daemon, for people; nothing depends
// on a time.
//
// What must be true: every attach of the bystander's is granted; afterwards the daemon holds nothing (`hurrayctl status
// --json`), has as many descriptors as before, has told of each lease's end, and ends well.
//
//   hostile_packets [--packets N] [--seed N]

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <mutex>
#include <optional>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <linux/sockios.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "proto/wire/codec.hpp"
#include "proto/wire/packet_socket.hpp"
#include "tests/support/daemon_process.hpp"
#include "tests/support/prometheus_text.hpp"
#include "tests/support/raw_peer.hpp"
#include "tests/support/test_tensor.hpp"

namespace {

using namespace hurray;
using namespace hurray::test;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kAttackers = 3;    // threads
constexpr std::size_t kConnections = 6;  // of each
constexpr std::size_t kIdleRounds = 3000;

struct Options {
    std::uint64_t packets = 100'000;
    std::uint64_t seed = 1;
};

Options read_options(int argc, char** argv) {
    Options options;
    for (int i = 1; i < argc; i += 2) {
        char* end = nullptr;
        const std::uint64_t value = i + 1 < argc ? std::strtoull(argv[i + 1], &end, 10) : 0;
        const bool is_number = end != nullptr && *end == '\0' && end != argv[i + 1];
        if (is_number && std::strcmp(argv[i], "--packets") == 0) {
            options.packets = value;
        } else if (is_number && std::strcmp(argv[i], "--seed") == 0) {
            options.seed = value;
        } else {
            std::fprintf(stderr, "usage: %s [--packets N] [--seed N]\n", argv[0]);
            std::exit(2);
        }
    }
    return options;
}

void wait_until(const char* what, const std::function<bool()>& is_so) {
    const auto watchdog = Clock::now() + std::chrono::seconds(60);
    while (!is_so()) {
        if (Clock::now() > watchdog) {
            throw std::runtime_error(std::string("the watchdog ended the wait for ") + what);
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
}

// ---- The bystander --------------------------------------------------------------------------------------------------

/// One producer, one consumer, a tensor that is attached and released.
class Bystander {
  public:
    explicit Bystander(const std::string& socket)
        : producer_(RawPeer::greeted(socket)), consumer_(RawPeer::greeted(socket)) {
        producer_.publish(make_tensor("bystander"));
    }

    /// Throws if something is not as it should be.
    void attach_once() {
        const auto begin = Clock::now();
        const auto attached = consumer_.attach(++lease_, "bystander");
        latencies_.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
        if (attached.fds.size() != 1) {
            throw std::runtime_error("a grant without its memory");
        }
        consumer_.call<wire::Done>(wire::Release{{lease_}});
        for (const auto what : {wire::LeaseEvent::What::Opened, wire::LeaseEvent::What::Released}) {
            const auto event = producer_.next<wire::LeaseEvent>();
            if (event.what != what || event.lease.lease != lease_) {
                throw std::runtime_error("the producer was told something else");
            }
        }
    }

    /// Prints the latencies since the last call.
    void report(const char* when) {
        std::sort(latencies_.begin(), latencies_.end());
        const auto at = [this](double part) {
            return latencies_.at(static_cast<std::size_t>(part * static_cast<double>(latencies_.size() - 1)));
        };
        std::printf("%-13s attach in us: p50 %7.1f  p99 %7.1f  p99.9 %8.1f  most %8.1f  of %zu\n", when, at(0.5),
                    at(0.99), at(0.999), latencies_.back(), latencies_.size());
        latencies_.clear();
    }

  private:
    RawPeer producer_;
    RawPeer consumer_;
    std::uint64_t lease_ = 0;
    std::vector<double> latencies_;
};

// ---- The attackers --------------------------------------------------------------------------------------------------

/// What a hostile peer sends along.
class Descriptors {
  public:
    Descriptors() {
        made_.push_back(make_memfd());
        made_.push_back(make_memfd({.size = 8192}));
        made_.push_back(make_memfd({.seals = 0}));
        made_.push_back(make_memfd({.reserve = false}));
        made_.emplace_back(::eventfd(0, EFD_CLOEXEC));
        made_.emplace_back(::open("/dev/null", O_RDWR | O_CLOEXEC));
        made_.emplace_back(::open("/", O_PATH | O_CLOEXEC));
        made_.emplace_back(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    }
    [[nodiscard]] int good() const { return made_.front().get(); }
    [[nodiscard]] int any(std::uint64_t number) const { return made_.at(number % made_.size()).get(); }

  private:
    std::vector<UniqueFd> made_;
};

struct Counts {
    std::atomic<std::uint64_t> packets{0};
    std::atomic<std::uint64_t> connections{0};
    std::atomic<std::uint64_t> cuts{0};  ///< found closed by the daemon
};

class Attacker {
  public:
    Attacker(std::string socket, std::uint64_t seed, std::uint64_t packets, Counts& counts)
        : path_(std::move(socket)), random_(seed), packets_(packets), counts_(counts) {}

    void run() {
        while (sent_ < packets_) {
            Peer& peer = peers_.at(below(peers_.size()));
            if (!peer.socket) {
                connect(peer);
            }
            attack(peer);
            if (peer.socket && peer.reads && below(4) != 0) {
                read(peer);
            }
            if (below(200) == 0) {
                peer.socket.reset();  // with whatever is unread
            }
        }
        for (Peer& peer : peers_) {
            peer.socket.reset();
        }
    }

  private:
    struct Peer {
        UniqueFd socket;
        bool reads = true;
        bool floods = false;  ///< sends on while the daemon has not read what came before, and may have cut it
        std::uint64_t next_request = 1;
        std::uint64_t next_segment = 1;
    };

    std::uint64_t below(std::uint64_t limit) { return random_() % limit; }

    void connect(Peer& peer) {
        peer.socket = UniqueFd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        path_.copy(address.sun_path, sizeof address.sun_path - 1);
        if (::connect(peer.socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
            throw std::runtime_error(std::string("connect: ") + std::strerror(errno));
        }
        ::fcntl(peer.socket.get(), F_SETFL, O_NONBLOCK);
        ++counts_.connections;
        peer.reads = below(8) != 0;
        peer.floods = below(8) == 0;
        peer.next_request = 1;
        peer.next_segment = 1;
        if (below(16) != 0) {
            send(peer, encoded(peer, wire::Hello{1, 1, "hostile", fresh_id(), {}}), {});
        }
    }

    std::string encoded(Peer& peer, wire::RequestMessage message) {
        std::optional<std::uint64_t> timeout_ms;
        if (below(2) == 0) {
            timeout_ms = below(50);
        }
        return wire::encoded(wire::Request{peer.next_request++, timeout_ms, std::move(message)});
    }

    std::string name() { return "hostile/" + std::to_string(below(100)); }
    wire::CapsuleId capsule() { return {static_cast<std::uint32_t>(::geteuid()), known_.at(below(known_.size()))}; }

    std::string request(Peer& peer, std::vector<int>& fds) {
        switch (below(13)) {
            case 0:
            case 1:
            case 2: {
                wire::Publish publish;
                publish.capsule = fresh_id();
                publish.name = name();
                publish.descriptor = descriptor_;
                // A number of its own, or one that was brought, mentioned again.
                const bool is_known = peer.next_segment != 1 && below(4) == 0;
                const std::uint64_t number = is_known ? 1 + below(peer.next_segment) : peer.next_segment++;
                publish.segments = {{number, !is_known, wire::Memory::Reusable, 4096, below(8) == 0 ? below(4) : 0}};
                publish.placements = {{0, below(4) == 0 ? random_() : 0}};
                publish.group = below(2) == 0 ? below(4) : 0;
                if (below(8) == 0) {
                    publish.access = {below(2) == 0 ? wire::kOwnGroup : static_cast<std::uint32_t>(random_()),
                                      static_cast<std::uint32_t>(below(01000))};
                }
                known_.at(below(known_.size())) = publish.capsule;
                if (!is_known) {
                    fds.push_back(descriptors_.good());
                }
                return encoded(peer, std::move(publish));
            }
            case 3:
            case 4: {
                wire::Attach attach;
                attach.lease = below(4) == 0 ? random_() : peer.next_request;
                if (below(2) == 0) {
                    attach.what = name();
                } else {
                    attach.what = capsule();
                }
                attach.which = below(4) == 0 ? wire::Which::NewerThan : wire::Which::Latest;
                attach.version = random_();
                return encoded(peer, std::move(attach));
            }
            case 5:
                return encoded(peer,
                               wire::Release{std::vector<std::uint64_t>(1 + below(100), below(peer.next_request))});
            case 6:
                return encoded(peer, wire::Withdraw{capsule()});
            case 7:
                return encoded(peer, wire::List{below(2) == 0 ? "" : "hostile/", std::string(below(20), 'c'), 0, true});
            case 8:
                return encoded(peer, wire::Watch{below(8), "hostile/"});
            case 9:
                return encoded(peer, wire::Reserve{below(8), random_()});
            case 10: {
                wire::Forget forget;
                for (std::uint64_t number = 1; number < std::min<std::uint64_t>(peer.next_segment, 4000); ++number) {
                    forget.segments.push_back(number);
                }
                forget.segments.push_back(random_());
                return encoded(peer, std::move(forget));
            }
            case 11:
                return encoded(peer, wire::Group{below(4), static_cast<wire::Group::Action>(below(4))});
            default:
                return encoded(peer, wire::StatusRequest{});
        }
    }

    void attack(Peer& peer) {
        std::vector<int> fds;
        std::string bytes;
        switch (below(8)) {
            case 0:  // rubbish
                bytes.resize(1 + below(below(50) == 0 ? 200'000 : 300));
                std::generate(bytes.begin(), bytes.end(), [this] { return static_cast<char>(random_()); });
                break;
            case 1:  // something turned
                bytes = request(peer, fds);
                for (std::uint64_t turns = 1 + below(3); turns-- > 0;) {
                    bytes.at(below(bytes.size())) ^= static_cast<char>(1U << below(8));
                }
                break;
            case 2:  // cut
                bytes = request(peer, fds);
                bytes.resize(1 + below(bytes.size()));
                break;
            case 3:  // descriptors of any kind and number
                bytes = request(peer, fds);
                fds.clear();
                for (std::uint64_t count = below(20) == 0 ? below(254) : below(4); count-- > 0;) {
                    fds.push_back(descriptors_.any(random_()));
                }
                break;
            case 4:  // too long
                bytes = request(peer, fds);
                bytes.append(below(20) == 0 ? 100'000 : below(100), '\x5a');
                break;
            default:  // valid, but a flood
                bytes = request(peer, fds);
                break;
        }
        send(peer, bytes, fds);
    }

    void send(Peer& peer, const std::string& bytes, const std::vector<int>& fds) {
        int unread = 0;
        while (!peer.floods && ::ioctl(peer.socket.get(), SIOCOUTQ, &unread) == 0 && unread != 0) {
            std::this_thread::sleep_for(std::chrono::microseconds(20));
        }
        for (;;) {
            const auto sent = wire::send_packet(peer.socket.get(), std::as_bytes(std::span(bytes)), fds);
            if (!sent) {
                throw std::runtime_error(sent.error().message);
            }
            switch (*sent) {
                case wire::Sent::Done:
                    ++sent_;
                    ++counts_.packets;
                    return;
                case wire::Sent::WouldBlock: {
                    // The daemon is behind. Whoever does not read may wait here for ever, if it is about to be cut for it.
                    pollfd room{peer.socket.get(), POLLOUT, 0};
                    if (::poll(&room, 1, 30'000) == 0) {
                        throw std::runtime_error("the daemon takes no packets");
                    }
                    if ((room.revents & (POLLERR | POLLHUP)) == 0) {
                        continue;
                    }
                    break;
                }
                case wire::Sent::TooManyInFlight:  // of this user, until the daemon has read on
                    std::this_thread::yield();
                    continue;
                case wire::Sent::Gone:
                    break;
            }
            ++counts_.cuts;
            peer.socket.reset();
            return;
        }
    }

    void read(Peer& peer) {
        for (;;) {
            const auto received = wire::receive_packet(peer.socket.get(), buffer_);
            if (!received || received->kind == wire::Received::Kind::WouldBlock) {
                return;
            }
            if (received->kind == wire::Received::Kind::End) {
                ++counts_.cuts;
                peer.socket.reset();
                return;
            }
        }
    }

    std::string path_;
    std::mt19937_64 random_;
    std::uint64_t packets_;
    std::uint64_t sent_ = 0;
    Counts& counts_;
    Descriptors descriptors_;
    std::string descriptor_ = make_descriptor(16);
    std::array<wire::Id16, 64> known_{};
    std::array<Peer, kConnections> peers_;
    std::vector<std::byte> buffer_ = std::vector<std::byte>(wire::kMaxPacketBytes);
};

// ---- The whole ------------------------------------------------------------------------------------------------------

void check_nothing_is_held(const DaemonProcess& daemon) {
    const std::string command = "'" HURRAYCTL_BINARY "' --socket '" + daemon.socket_path() + "' status --json";
    FILE* const pipe = ::popen(command.c_str(), "r");
    std::string text;
    std::array<char, 4096> piece;
    while (const std::size_t got = std::fread(piece.data(), 1, piece.size(), pipe)) {
        text.append(piece.data(), got);
    }
    if (::pclose(pipe) != 0) {
        throw std::runtime_error(command + " failed: " + text);
    }
    const auto status = nlohmann::json::parse(text);
    for (const auto& use : status.at("uses")) {
        if (use.at("used") != 0) {
            throw std::runtime_error("something is left: " + text);
        }
    }
}

void run(const Options& options) {
    DaemonProcess daemon;
    (void)scrape(daemon.metrics_path());  // so it is done with its start
    const std::size_t descriptors = daemon.open_descriptors();
    Counts counts;
    {
        Bystander bystander(daemon.socket_path());
        for (std::size_t i = 0; i < kIdleRounds; ++i) {
            bystander.attach_once();
        }
        bystander.report("idle daemon:");

        std::atomic<std::size_t> running{kAttackers};
        std::mutex mutex;
        std::string failure;
        std::vector<std::thread> attackers;
        const auto begin = Clock::now();
        for (std::size_t i = 0; i < kAttackers; ++i) {
            attackers.emplace_back([&, i] {
                try {
                    const std::uint64_t share =
                        options.packets / kAttackers + (i < options.packets % kAttackers ? 1 : 0);
                    Attacker(daemon.socket_path(), options.seed * kAttackers + i, share, counts).run();
                } catch (const std::exception& thrown) {
                    const std::lock_guard lock(mutex);
                    failure = thrown.what();
                }
                --running;
            });
        }
        const std::uint64_t tenth = std::max<std::uint64_t>(options.packets / 10, 1);
        std::uint64_t told = 0;
        std::string disturbed;
        while (running != 0) {
            try {
                if (disturbed.empty()) {
                    bystander.attach_once();
                }
            } catch (const std::exception& thrown) {
                disturbed = thrown.what();
            }
            if (const std::uint64_t done = counts.packets / tenth; done != told) {
                told = done;
                std::fprintf(stderr, "%3llu %% of %llu packets\n", static_cast<unsigned long long>(10 * told),
                             static_cast<unsigned long long>(options.packets));
            }
        }
        for (std::thread& attacker : attackers) {
            attacker.join();
        }
        const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
        if (!failure.empty() || !disturbed.empty()) {
            throw std::runtime_error("attacker: " + failure + "; bystander: " + disturbed);
        }
        bystander.report("under fire:");
        std::printf("%llu packets in %.1f s, over %llu connections, %llu of them cut\n",
                    static_cast<unsigned long long>(counts.packets), seconds,
                    static_cast<unsigned long long>(counts.connections), static_cast<unsigned long long>(counts.cuts));
    }
    wait_until("the daemon's descriptors to be where they began",
               [&] { return daemon.open_descriptors() == descriptors; });
    check_nothing_is_held(daemon);
    const Samples samples = scrape(daemon.metrics_path());
    const double opened = samples.at("hurray_leases_opened_total");
    const double released = samples.at("hurray_leases_ended_total{how=\"released\"}");
    const double lost = samples.at("hurray_leases_ended_total{how=\"lost\"}");
    double requests = 0;
    double refused = 0;
    for (const auto& [sample, value] : samples) {
        requests += sample.starts_with("hurray_requests_total") ? value : 0;
        refused += sample.starts_with("hurray_errors_total") ? value : 0;
    }
    std::printf("%.0f requests in order, %.0f refusals, %.0f capsules, %.0f leases: %.0f released, %.0f lost\n",
                requests, refused, samples.at("hurray_capsules_published_total"), opened, released, lost);
    if (opened != released + lost) {
        throw std::runtime_error("leases ended more or less often than they were opened");
    }
    if (lost == 0 || samples.at("hurray_connections_ended_total{how=\"cut\"}") == 0) {
        throw std::runtime_error("that was not hostile enough to prove anything");
    }
    if (const int status = daemon.end(SIGTERM); status != 0) {
        throw std::runtime_error("hurrayd ended with " + std::to_string(status) + ", its log:\n" + daemon.log());
    }
}

}  // namespace

int main(int argc, char** argv) {
    std::signal(SIGPIPE, SIG_IGN);
    try {
        run(read_options(argc, argv));
        return 0;
    } catch (const std::exception& failure) {
        std::fprintf(stderr, "hostile_packets: %s\n", failure.what());
        return 1;
    }
}
