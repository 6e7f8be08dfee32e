// Quotas as programs meet them: how far a budget reaches, what a refusal says, and that hurrayctl says the same.
#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <deque>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "tests/integration/client_test.hpp"
#include "tests/support/child.hpp"
#include "tests/support/prometheus_text.hpp"
#include "tests/support/raw_peer.hpp"
#include "tests/support/sanitized.hpp"
#include "tests/support/temporary_directory.hpp"

namespace hurray::test {
namespace {

using Json = nlohmann::json;

constexpr std::uint64_t kMiB = 1 << 20;

constexpr std::uint64_t whole_pages(std::uint64_t bytes) { return (bytes + 4095) / 4096 * 4096; }

/// A daemon with quotas, and what hurrayctl says about it.
class QuotaDaemon {
  public:
    explicit QuotaDaemon(const std::string& quotas)
        : daemon_({.arguments = {"--config", write(quotas)}, .environment = {}, .descriptor_limit = {}}) {}

    [[nodiscard]] const DaemonProcess& process() const { return daemon_; }
    [[nodiscard]] RawPeer peer() const { return RawPeer::greeted(daemon_.socket_path()); }
    [[nodiscard]] Client connect(const std::string& name = {}) const {
        ConnectOptions options;
        options.address = daemon_.socket_path();
        options.client_name = name;
        return Client::connect(std::move(options));
    }
    /// Of this user.
    [[nodiscard]] Json hurrayctl(const std::string& arguments) const {
        const std::string command =
            std::string(HURRAY_BIN_DIR "/hurrayctl --socket ") + daemon_.socket_path() + " " + arguments + " --json";
        std::FILE* const pipe = ::popen(command.c_str(), "re");
        if (pipe == nullptr) {
            throw std::runtime_error("popen");
        }
        std::string text;
        std::array<char, 4096> piece{};
        while (const std::size_t size = std::fread(piece.data(), 1, piece.size(), pipe)) {
            text.append(piece.data(), size);
        }
        if (::pclose(pipe) != 0) {
            throw std::runtime_error(command + ": " + text);
        }
        return Json::parse(text);
    }
    /// One of the counters in a status.
    static Json use(const Json& status, const std::string& name) {
        for (const Json& each : status.at("uses")) {
            if (each.at("name") == name && each.at("uid") == ::geteuid()) {
                return each;
            }
        }
        throw std::runtime_error("nothing is counted as " + name);
    }

  private:
    std::string write(const std::string& quotas) const {
        std::ofstream(directory_ / "hurrayd.toml") << "[quota]\n" << quotas;
        return directory_ / "hurrayd.toml";
    }
    TemporaryDirectory directory_;
    DaemonProcess daemon_;
};

// ---- How far a budget reaches

TEST(Quotas, BudgetIsUsedToTheLastPage) {  // case A4
    constexpr std::uint64_t kBudget = 256 * kMiB;
    const QuotaDaemon daemon("user.bytes = " + std::to_string(kBudget) + "\n");
    Client client = daemon.connect();
    struct Size {
        std::uint64_t bytes;
        std::size_t seen_every;  ///< so many of them hurrayctl is asked
    };
    for (const Size& size : {Size{8'000'000, 1}, Size{kMiB + 1, 8}, Size{64 * 1024 - 1, 64}}) {
        std::vector<CapsuleInfo> published;
        std::string message;
        HurrayStatus refused = HURRAY_OK;
        while (refused == HURRAY_OK) {
            const bool asks_hurrayctl = published.size() % size.seen_every == 0;
            refused =
                status_of([&] { published.push_back(client.publish("", client.allocate<std::uint8_t>({size.bytes}))); },
                          &message);
            const Json own = Json::parse(client.status());
            const Json bytes = QuotaDaemon::use(asks_hurrayctl ? daemon.hurrayctl("status") : own, "bytes");
            EXPECT_EQ(bytes.at("limit"), kBudget);
            EXPECT_EQ(bytes.at("used"), own.at("client").at("memory").at("bytes")) << "what was made, to the byte";
            EXPECT_LE(bytes.at("used"), kBudget);
            if (size.seen_every == 1) {  // later some of what is counted waits to be used again
                EXPECT_EQ(bytes.at("used"), published.size() * whole_pages(size.bytes));
            }
        }
        EXPECT_GE(published.size() * 100, kBudget / whole_pages(size.bytes) * 99) << size.bytes;
        EXPECT_EQ(refused, HURRAY_ERR_OVER_QUOTA);
        EXPECT_NE(message.find("at most 268435456 are allowed (quota.user.bytes)"), std::string::npos) << message;
        for (const CapsuleInfo& info : published) {
            client.withdraw(info.capsule);  // what waits to be used again makes room for the next size
        }
    }
}

// ---- What was never published

class Unpublished : public testing::Test {
  protected:
    static constexpr std::uint64_t kBudget = 20 * kMiB;
    static constexpr std::uint64_t kWanted = 8 * kMiB;
    const QuotaDaemon daemon{"user.bytes = " + std::to_string(kBudget) + "\n"};

    /// Waits until all of it has come back; the third that dies would find no room otherwise.
    void wait_for_nothing_used() const {
        RawPeer looker = daemon.peer();
        for (bool is_used = true; is_used;) {
            is_used = false;
            for (const wire::Use& use : looker.call<wire::StatusReply>(wire::StatusRequest{}).uses) {
                is_used = is_used || use.used != 0;
            }
        }
    }
};

TEST_F(Unpublished, AllocationOfADeadProcessIsReclaimedEachTime) {  // case B1
    enum class Way { KilledUnwritten, KilledHalfWritten, LeavesCleanly };
    for (int round = 0; round < rounds(100); ++round) {
        const auto way = static_cast<Way>(round % 3);
        Child producer([&] {
            auto* client = new Client(daemon.connect());  // both live until the kill
            auto* allocation = new Allocation(client->allocate<std::uint8_t>({kWanted}));
            if (way == Way::KilledHalfWritten) {
                std::memset(allocation->buffer().data(), 1, allocation->buffer().size() / 2);
            } else if (way == Way::LeavesCleanly) {
                delete allocation;
                delete client;
            }
        });
        producer.kill();
        wait_for_nothing_used();
    }
}

TEST_F(Unpublished, PublishWhoseProducerDiesBeforeTheReplyIsWholeOrAbsent) {  // case B1
    int whole = 0;
    for (int round = 0; round < rounds(100); ++round) {
        RawPeer consumer = daemon.peer();
        const auto attach = consumer.send(wire::Attach{1, "half", wire::Which::Latest, 0, 0});
        const TestTensor tensor = make_tensor("half", kWanted / sizeof(float), 'h');
        Child producer([&] {
            auto* peer = new RawPeer(daemon.peer());  // it lives until the kill, and reads no reply
            peer->send(tensor.publish, {tensor.fd.get()});
        });
        if (round % 2 == 0) {  // the daemon has had time for it, or has not
            daemon.peer().call<wire::ListReply>(wire::List{});
        }
        producer.kill();
        consumer.send(wire::Cancel{attach});
        Incoming answer = consumer.receive();
        ASSERT_EQ(answer.packet.request_id, attach);
        if (const auto* granted = std::get_if<wire::AttachReply>(&answer.packet.message)) {
            ++whole;
            ASSERT_EQ(answer.fds.size(), 1u);
            ASSERT_EQ(granted->segments.size(), 1u);
            EXPECT_EQ(granted->segments[0].size, kWanted);
            void* const bytes = ::mmap(nullptr, kWanted, PROT_READ, MAP_SHARED, answer.fds[0].get(), 0);
            ASSERT_NE(bytes, MAP_FAILED);
            EXPECT_EQ(static_cast<const char*>(bytes)[kWanted - 1], 'h');
            ::munmap(bytes, kWanted);
        } else {
            EXPECT_EQ(std::get<Error>(answer.packet.message).code, Errc::Closed);
        }
        consumer.close();
        wait_for_nothing_used();
    }
    EXPECT_GT(whole, 0);
}

TEST_F(Unpublished, ItIsHiddenFromListsAndShownAsBeingWritten) {  // case B3
    const Child producer([&] {
        auto* client = new Client(daemon.connect());
        new Allocation(client->allocate<std::uint8_t>({kWanted}));
    });
    EXPECT_TRUE(daemon.peer().call<wire::ListReply>(wire::List{}).capsules.empty());
    EXPECT_TRUE(daemon.hurrayctl("list").empty());
    const Json status = daemon.hurrayctl("status");
    ASSERT_EQ(status.at("writing").size(), 1u);
    const Json& writing = status.at("writing")[0];
    EXPECT_EQ(writing.at("pid"), producer.pid());
    EXPECT_EQ(writing.at("uid"), ::geteuid());
    EXPECT_EQ(writing.at("bytes"), kWanted);
    EXPECT_TRUE(writing.at("age_ms").is_number_unsigned());
    EXPECT_EQ(QuotaDaemon::use(status, "capsules").at("used"), 0);
    const Samples metrics = scrape(daemon.process().metrics_path());
    EXPECT_EQ(metrics.at("hurray_reserved_bytes"), kWanted);
    EXPECT_EQ(metrics.at("hurray_reservations"), 1);
    EXPECT_EQ(metrics.at("hurray_capsules"), 0);
}

// ---- What a refusal says

/// What hurrayctl says of who has most of this user's memory, in the words of a refusal.
std::string holders_of(const Json& status) {
    std::string text;
    for (const Json& holder : status.at("holders")) {
        if (holder.at("name") == "bytes") {
            text += text.empty() ? "; of user " + std::to_string(::geteuid()) + " the most has " : ", then ";
            text += "\"" + holder.at("client_name").get<std::string>() + "\" (pid " +
                    std::to_string(holder.at("pid").get<int>()) +
                    "): " + std::to_string(holder.at("used").get<std::uint64_t>());
        }
    }
    return text;
}

/// Allocates so much again and again until that is refused, and returns the message.
std::string fill(Client& client, std::uint64_t bytes, std::deque<Allocation>& kept) {
    std::string message;
    while (status_of([&] { kept.push_back(client.allocate<std::uint8_t>({bytes})); }, &message) == HURRAY_OK) {
    }
    return message;
}

std::string in_words(std::uint64_t used, std::uint64_t asked, std::uint64_t limit, const std::string& quota) {
    return std::to_string(used) + " bytes of shared memory, and " + std::to_string(asked) +
           " more are asked for; at most " + std::to_string(limit) + " are allowed (" + quota + ")";
}

TEST(Quotas, EachRefusalNamesItsLimitUseAndLargestHoldersAsHurrayctlDoes) {  // case F5 b, c
    const QuotaDaemon daemon("client.bytes = " + std::to_string(8 * kMiB) +
                             "\nuser.bytes = " + std::to_string(20 * kMiB) + "\n");
    std::deque<Allocation> kept;
    std::deque<Client> clients;
    for (const char* name : {"first", "second", "third", "fourth"}) {
        clients.push_back(daemon.connect(name));
    }
    // The client's own quota: 7 of 8 MiB are used, and one of 2 does not fit.
    kept.push_back(clients[0].allocate<std::uint8_t>({kMiB}));
    const std::string of_client = fill(clients[0], 2 * kMiB, kept);
    const Json then = daemon.hurrayctl("status");
    EXPECT_EQ(of_client, "HURRAY_ERR_OVER_QUOTA: hurray_client_allocate: this client has " +
                             in_words(7 * kMiB, 2 * kMiB, 8 * kMiB, "quota.client.bytes") + holders_of(then) +
                             " (reserve.bytes)");
    EXPECT_EQ(then.at("holders")[0].at("name"), "bytes");
    // The user's: whichever client asks.
    kept.push_back(clients[1].allocate<std::uint8_t>({6 * kMiB}));
    kept.push_back(clients[2].allocate<std::uint8_t>({4 * kMiB}));
    const std::string of_user = fill(clients[3], 2 * kMiB, kept);
    const Json now = daemon.hurrayctl("status");
    EXPECT_EQ(QuotaDaemon::use(now, "bytes").at("used"), 19 * kMiB);
    EXPECT_EQ(QuotaDaemon::use(now, "bytes").at("limit"), 20 * kMiB);
    EXPECT_EQ(of_user, "HURRAY_ERR_OVER_QUOTA: hurray_client_allocate: user " + std::to_string(::geteuid()) + " has " +
                           in_words(19 * kMiB, 2 * kMiB, 20 * kMiB, "quota.user.bytes") + holders_of(now) +
                           " (reserve.bytes)");
    EXPECT_NE(holders_of(now).find("\"first\""), std::string::npos);
    EXPECT_EQ(holders_of(now).find("\"fourth\""), std::string::npos) << "three are named, and it has least";
}

TEST(Quotas, RefusalForTheDaemonsBudgetNamesTheSum) {  // case F5 d
    const QuotaDaemon daemon("bytes = " + std::to_string(20 * kMiB) + "\n");
    std::deque<Allocation> kept;
    Client a = daemon.connect("a");
    Client b = daemon.connect("b");
    kept.push_back(a.allocate<std::uint8_t>({13 * kMiB}));
    const std::string message = fill(b, 4 * kMiB, kept);
    EXPECT_EQ(message, "HURRAY_ERR_OVER_QUOTA: hurray_client_allocate: all users together have " +
                           in_words(17 * kMiB, 4 * kMiB, 20 * kMiB, "quota.bytes") +
                           holders_of(daemon.hurrayctl("status")) + " (reserve.bytes)");
}

// What one user had is the host's again, and not kept by hurrayd for whoever comes next.
TEST(Quotas, MemoryOfWhoHasLeftGoesBackToTheSystem) {
    if (kIsSanitized || kIsThreadSanitized) {
        GTEST_SKIP() << "the sanitizers' allocators keep what is freed";
    }
    const QuotaDaemon daemon("[resume]\nwindow = 0\n");  // while that is open, names of what was there are remembered
    const auto resident = [&] {
        std::ifstream file("/proc/" + std::to_string(daemon.process().pid()) + "/statm");
        std::uint64_t all = 0;
        std::uint64_t pages = 0;
        file >> all >> pages;
        return pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
    };
    const std::uint64_t before = resident();
    std::optional<Client> producer(daemon.connect("producer"));
    for (int i = 0; i < 50'000; ++i) {
        producer->publish("many/" + std::to_string(i), producer->allocate<std::uint8_t>({16}));
    }
    const Client stays = daemon.connect("stays");  // so that what is free is not just the end of the heap
    const std::uint64_t most = resident();
    EXPECT_GT(most, before + 8 * kMiB);
    producer.reset();
    const auto end = std::chrono::steady_clock::now() + kWatchdog;
    while (resident() - before > (most - before) / 2 && std::chrono::steady_clock::now() < end) {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    EXPECT_LE(resident() - before, (most - before) / 2) << "of " << (most - before) / kMiB << " MiB";
}

}  // namespace
}  // namespace hurray::test
