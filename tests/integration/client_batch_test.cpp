// Many capsules at once: published and attached with few system calls, all of them or as many as said, in order; and released so.
#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "tests/integration/client_test.hpp"
#include "tests/support/mortal_daemon.hpp"
#include "tests/support/raw_peer.hpp"
#include "tests/support/sanitized.hpp"

namespace {

/// What a thread of this program has asked of sockets, in the libraries too.
struct Calls {
    std::uint64_t sends = 0;
    std::uint64_t receives = 0;
};
thread_local Calls calls;
std::atomic<std::uint64_t> packets_sent{0};  ///< by all of them

}  // namespace

// In place of the C library's own, which do no more than this.
extern "C" {
[[gnu::visibility("default")]] ssize_t sendmsg(int fd, const msghdr* message, int flags) {
    ++calls.sends;
    ++packets_sent;
    return ::syscall(SYS_sendmsg, fd, message, flags);
}
[[gnu::visibility("default")]] int sendmmsg(int fd, mmsghdr* messages, unsigned int count, int flags) {
    ++calls.sends;
    const auto sent = static_cast<int>(::syscall(SYS_sendmmsg, fd, messages, count, flags));
    packets_sent += sent > 0 ? static_cast<std::uint64_t>(sent) : 0;
    return sent;
}
[[gnu::visibility("default")]] ssize_t recvmsg(int fd, msghdr* message, int flags) {
    ++calls.receives;
    return ::syscall(SYS_recvmsg, fd, message, flags);
}
[[gnu::visibility("default")]] int recvmmsg(int fd, mmsghdr* messages, unsigned int count, int flags,
                                            timespec* timeout) {
    ++calls.receives;
    return static_cast<int>(::syscall(SYS_recvmmsg, fd, messages, count, flags, timeout));
}
}

namespace hurray::test {
namespace {

using Json = nlohmann::json;

/// A sanitizer makes each step many times as dear, and maps memory as it pleases.
constexpr bool kIsDear = kIsSanitized || kIsThreadSanitized;

/// Lowers what this process may have open.
class DescriptorLimit {
  public:
    explicit DescriptorLimit(rlim_t limit) {
        ::getrlimit(RLIMIT_NOFILE, &before_);
        rlimit low = before_;
        low.rlim_cur = limit;
        EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
    }
    DescriptorLimit(const DescriptorLimit&) = delete;
    DescriptorLimit& operator=(const DescriptorLimit&) = delete;
    ~DescriptorLimit() { ::setrlimit(RLIMIT_NOFILE, &before_); }

  private:
    rlimit before_{};
};

class Batch : public ClientTest {
  protected:
    static std::string name_of(std::size_t index) { return "model/" + std::to_string(index); }
    static std::vector<std::string> names(std::size_t count) {
        std::vector<std::string> all;
        for (std::size_t i = 0; i < count; ++i) {
            all.push_back(name_of(i));
        }
        return all;
    }

    /// Tensors that are to be told from each other by what they hold.
    static std::vector<Publication> tensors(Client& client, std::size_t count, std::uint64_t elements,
                                            PublishOptions options = {}) {
        std::vector<Publication> all;
        for (std::size_t i = 0; i < count; ++i) {
            Allocation allocation = client.allocate<std::uint32_t>({elements});
            const auto values = allocation.elements<std::uint32_t>();
            values.front() = static_cast<std::uint32_t>(i);
            values.back() = static_cast<std::uint32_t>(i);
            all.push_back({name_of(i), std::move(allocation), options});
        }
        return all;
    }

    /// What the daemon counts, once it counts `wanted` of it: what another connection says may be seen a little later.
    static std::uint64_t settled(const Client& client, const std::string& what, std::uint64_t wanted) {
        const auto barks = std::chrono::steady_clock::now() + kWatchdog;
        while (used(client, what) != wanted && std::chrono::steady_clock::now() < barks) {
        }
        return used(client, what);
    }
};

// ---- What it costs

TEST_F(Batch, AModelCostsAFewSystemCallsEachWay) {
    constexpr std::size_t kTensors = 300;
    Client producer = connect();
    Client consumer = connect();
    const std::vector<std::string> all = names(kTensors);
    // Whoever waits for replies reads them, so all of it is done by this thread. How many are there when it comes to read is up to
    // the scheduler: the best of some rounds says that they are read many at a time.
    std::uint64_t fewest_receives_to_publish = UINT64_MAX;
    std::uint64_t fewest_receives_to_attach = UINT64_MAX;
    for (int round = 0; round < 10; ++round) {  // the first brings descriptors, later ones find mappings that are kept
        std::vector<Publication> model = tensors(producer, kTensors, 1 << 13);
        std::uint64_t sends = calls.sends;
        std::uint64_t receives = calls.receives;
        producer.publish_many(model);
        EXPECT_LE(calls.sends - sends, 12u);
        fewest_receives_to_publish = std::min(fewest_receives_to_publish, calls.receives - receives);

        sends = calls.sends;
        receives = calls.receives;
        std::vector<Tensor> attached = consumer.attach_many(all);
        EXPECT_LE(calls.sends - sends, 12u) << round;
        fewest_receives_to_attach = std::min(fewest_receives_to_attach, calls.receives - receives);
        ASSERT_EQ(attached.size(), kTensors);
        for (std::size_t i = 0; i < kTensors; ++i) {
            ASSERT_EQ(attached[i].name(), all[i]);
            ASSERT_EQ(attached[i].info().capsule, model[i].info.capsule);
            ASSERT_EQ(attached[i].info().version, model[i].info.version);
            ASSERT_EQ(attached[i].elements<std::uint32_t>().front(), i);
            ASSERT_EQ(attached[i].elements<std::uint32_t>().back(), i);
        }
        EXPECT_EQ(used(consumer, "leases"), kTensors);
    }
    constexpr std::size_t kMany = kIsThreadSanitized ? kTensors - 1 : kTensors / 2;
    EXPECT_LE(fewest_receives_to_publish, kMany);
    EXPECT_LE(fewest_receives_to_attach, kMany);
    EXPECT_EQ(used(consumer, "leases"), 0u);
}

TEST_F(Batch, ContextsDestroyedInARowGoOutInFewPacketsAndTheLastOneWaitsForNothing) {
    constexpr std::size_t kTensors = 1000;
    Client producer = connect();
    Client consumer = connect();
    EventLog log;
    std::vector<Publication> model = tensors(producer, kTensors, 8, {.on_event = log.sink()});
    producer.publish_many(model);
    // How soon the pump is awake is up to the scheduler, so the best of some rounds counts.
    std::uint64_t fewest = UINT64_MAX;
    for (std::size_t round = 1; round <= 10; ++round) {
        std::vector<Tensor> attached = consumer.attach_many(names(kTensors));
        const std::uint64_t packets = packets_sent;
        attached.clear();
        // Nobody says anything else meanwhile.
        ASSERT_TRUE(log.wait_for(HURRAY_EVENT_LEASE_RELEASED, round * kTensors));
        fewest = std::min(fewest, packets_sent - packets);
    }
    EXPECT_LE(fewest, kIsThreadSanitized ? kTensors - 1 : kTensors / 4);
}

TEST_F(Batch, WhereTheUserIsThePumpEachReleaseGoesOutAtOnce) {
    Client producer = connect();
    Client consumer = connect(true);
    EventLog log;
    std::vector<Publication> model = tensors(producer, 100, 8, {.on_event = log.sink()});
    producer.publish_many(model);
    (void)consumer.attach_many(names(100));
    EXPECT_TRUE(log.wait_for(HURRAY_EVENT_LEASE_RELEASED, 100));
}

// ---- What comes of it

TEST_F(Batch, NothingIsAnEmptyBatch) {
    Client client = connect();
    client.publish_many({});
    EXPECT_TRUE(client.attach_many(std::vector<std::string>()).empty());
    EXPECT_EQ(hurray_client_attach_many(client.handle(), nullptr, 0), HURRAY_OK);
    EXPECT_EQ(hurray_client_attach_many(client.handle(), nullptr, 1), HURRAY_ERR_NULL_POINTER);
    EXPECT_EQ(hurray_client_publish_many(client.handle(), nullptr, 1), HURRAY_ERR_NULL_POINTER);
}

// D4
TEST_F(Batch, AGroupOfAThousandArrivesCompleteAndInOrder) {
    constexpr std::size_t kTensors = 1000;
    Client producer = connect();
    Client consumer = connect();
    Group group = producer.begin_group();
    std::vector<Publication> model = tensors(producer, kTensors, 1024, {.group = group.number()});
    producer.publish_many(model);
    EXPECT_TRUE(std::ranges::all_of(model, [](const Publication& one) { return one.info.version == 0; }));
    EXPECT_EQ(status_of([&] { (void)consumer.attach_many(names(kTensors)); }), HURRAY_ERR_NOT_FOUND);
    group.commit();
    const std::uint64_t first = producer.published(model[0].info.capsule).version;
    const std::vector<Tensor> attached = consumer.attach_many(names(kTensors));
    ASSERT_EQ(attached.size(), kTensors);
    for (std::size_t i = 0; i < kTensors; ++i) {
        ASSERT_EQ(attached[i].name(), name_of(i));
        ASSERT_EQ(attached[i].info().version, first + i);
        ASSERT_EQ(attached[i].elements<std::uint32_t>().front(), i);
    }
}

// case A8
TEST_F(Batch, HundredThousandTensorsOfGroupsAreAttachedInOneConsumerWithFewMappings) {
    constexpr std::size_t kGroups = kIsThreadSanitized ? 1 : kIsSanitized ? 2 : 25;
    constexpr std::size_t kMembers = kIsThreadSanitized ? 500 : 4000;
    Client producer = connect();
    Client consumer = connect();
    std::vector<AttachItem> wanted;
    for (std::size_t g = 0; g < kGroups; ++g) {
        Group group = producer.begin_group();
        std::vector<Publication> members;
        for (std::size_t i = 0; i < kMembers; ++i) {
            Allocation allocation = producer.allocate<std::uint32_t>({1024}, {.contents = Contents::Whatever});
            allocation.elements<std::uint32_t>()[g % 1024] = static_cast<std::uint32_t>(g * kMembers + i);
            members.push_back({std::to_string(g) + "/" + std::to_string(i),
                               std::move(allocation),
                               {.on_event = {}, .tell_opened = false, .group = group.number()}});
            wanted.push_back({members.back().name});
        }
        producer.publish_many(members);
        group.commit();
    }
    const std::size_t before = count_mappings();
    std::vector<Tensor> attached = consumer.attach_many(wanted);
    if (!kIsThreadSanitized) {  // which maps shadows of its own
        EXPECT_LT(count_mappings(), before + 1000);
    }
    ASSERT_EQ(attached.size(), kGroups * kMembers);
    for (std::size_t i = 0; i < attached.size(); ++i) {
        ASSERT_EQ(attached[i].elements<std::uint32_t>()[i / kMembers % 1024], i);
    }
    EXPECT_EQ(used(consumer, "leases"), attached.size());
    attached.clear();
    EXPECT_EQ(settled(consumer, "leases", 0), 0u);
}

// case A8
TEST_F(Batch, SeventyThousandSingleTensorsAreAttachedInOneConsumerWithFewMappings) {
    constexpr std::size_t kSingles = kIsDear ? 2000 : 70'000;
    Client producer = connect();
    Client consumer = connect();
    const std::size_t before = count_mappings();
    std::vector<Tensor> attached;
    for (std::size_t i = 0; i < kSingles; ++i) {
        Allocation allocation = producer.allocate<std::uint32_t>({1024}, {.contents = Contents::Whatever});
        allocation.elements<std::uint32_t>()[i % 1024] = static_cast<std::uint32_t>(i);
        producer.publish("single/" + std::to_string(i), std::move(allocation));
        attached.push_back(consumer.attach("single/" + std::to_string(i)));
    }
    EXPECT_LT(count_mappings(), before + 2000) << "a mebibyte each, on both sides";
    for (std::size_t i = 0; i < kSingles; ++i) {
        ASSERT_EQ(attached[i].elements<std::uint32_t>()[i % 1024], i);
    }
}

TEST_F(Batch, OneThatIsMissingInTheMiddleLeavesNothingAttached) {
    Client producer = connect();
    Client consumer = connect();
    std::vector<Publication> model = tensors(producer, 300, 1 << 15);
    producer.publish_many(model);
    producer.withdraw(model[170].info.capsule);
    std::string message;
    EXPECT_EQ(status_of([&] { (void)consumer.attach_many(names(300)); }, &message), HURRAY_ERR_NOT_FOUND);
    EXPECT_NE(message.find("items[170] \"model/170\""), std::string::npos) << message;
    EXPECT_EQ(used(consumer, "leases"), 0u);
    EXPECT_EQ(Json::parse(consumer.status()).at("client").at("leases"), 0);

    // Those that wait don't keep the others waiting.
    std::vector<AttachItem> wanted;
    for (std::size_t i = 0; i < 100; ++i) {
        wanted.push_back({"never/" + std::to_string(i), {.timeout = std::chrono::milliseconds(-1)}});
    }
    wanted[50] = {"model/170"};
    EXPECT_EQ(status_of([&] { (void)consumer.attach_many(wanted); }, &message), HURRAY_ERR_NOT_FOUND);
    EXPECT_NE(message.find("items[50] \"model/170\""), std::string::npos) << message;
    EXPECT_EQ(used(consumer, "waiting"), 0u);
    EXPECT_EQ(used(consumer, "leases"), 0u);
    EXPECT_EQ(consumer.attach("model/3").elements<std::uint32_t>().front(), 3u);
}

TEST_F(Batch, StatusAndNullOutputsOfAFailedAttach) {
    Client client = connect();
    publish(client, "there", 8, 1);
    std::array<HurrayAttachOptions, 3> options{};
    std::array<HurrayAttachItem, 3> items{};
    const std::array<const char*, 3> wanted = {"there", "not there", "there"};
    for (std::size_t i = 0; i < items.size(); ++i) {
        options.at(i).struct_size = sizeof options.at(i);
        options.at(i).name = wanted.at(i);
        items.at(i).struct_size = sizeof items.at(i);
        items.at(i).options = &options.at(i);
        items.at(i).status = HURRAY_ERR_INTERNAL;
        items.at(i).context = reinterpret_cast<HurrayTensorContext*>(&items);
    }
    const auto attach = [&] { return hurray_client_attach_many(client.handle(), items.data(), items.size()); };
    EXPECT_EQ(attach(), HURRAY_ERR_NOT_FOUND);
    EXPECT_EQ(items[0].status, HURRAY_OK);
    EXPECT_EQ(items[1].status, HURRAY_ERR_NOT_FOUND);
    EXPECT_EQ(items[2].status, HURRAY_OK);
    for (const HurrayAttachItem& item : items) {
        EXPECT_EQ(item.context, nullptr);
        EXPECT_EQ(item.buffers, nullptr);
    }
    options[2].flags = 0x80;
    EXPECT_EQ(attach(), HURRAY_ERR_INVALID_ARGUMENT);
    EXPECT_EQ(items[2].status, HURRAY_ERR_INVALID_ARGUMENT);
    EXPECT_NE(std::string(hurray_last_error_message()).find("items[2] \"there\": options->flags"), std::string::npos)
        << hurray_last_error_message();
    items[1].struct_size += 8;
    EXPECT_EQ(attach(), HURRAY_ERR_INVALID_ARGUMENT);
    EXPECT_NE(std::string(hurray_last_error_message()).find("items[1].struct_size"), std::string::npos);
}

TEST_F(Batch, ItemsOfAnotherHeaderAreTakenByTheirOwnSize) {
    struct Longer {
        HurrayAttachItem item;
        std::uint64_t newer;
    };
    Client client = connect();
    publish(client, "a", 8, 1);
    publish(client, "b", 8, 2);
    std::array<HurrayAttachOptions, 2> options{};
    std::array<Longer, 2> items{};
    for (std::size_t i = 0; i < items.size(); ++i) {
        options.at(i).struct_size = sizeof options.at(i);
        options.at(i).name = i == 0 ? "a" : "b";
        items.at(i).item.struct_size = sizeof items.at(i);
        items.at(i).item.options = &options.at(i);
    }
    ASSERT_EQ(hurray_client_attach_many(client.handle(), &items[0].item, items.size()), HURRAY_OK);
    for (Longer& item : items) {
        EXPECT_NE(item.item.context, nullptr);
        hurray_tensor_context_destroy(&item.item.context);
        hurray_buffer_list_destroy(&item.item.buffers);
    }
    items[1].newer = 1;
    EXPECT_EQ(hurray_client_attach_many(client.handle(), &items[0].item, items.size()), HURRAY_ERR_UNSUPPORTED);
    EXPECT_EQ(items[1].item.status, HURRAY_ERR_UNSUPPORTED);
    EXPECT_EQ(items[0].item.context, nullptr);
}

TEST_F(Batch, EachPublicationHasItsOwnStatus) {
    Client client = connect();
    std::vector<Publication> all = tensors(client, 200, 8);
    all[20].name = "not//a name";
    all[150].options.group = 77;
    std::string message;
    EXPECT_EQ(status_of([&] { client.publish_many(all); }, &message), HURRAY_ERR_INVALID_ARGUMENT);
    EXPECT_NE(message.find("items[20] \"not//a name\""), std::string::npos) << message;
    for (std::size_t i = 0; i < all.size(); ++i) {
        ASSERT_EQ(all[i].status, i == 20    ? HURRAY_ERR_INVALID_ARGUMENT
                                 : i == 150 ? HURRAY_ERR_NOT_FOUND
                                            : HURRAY_OK)
            << i;
        ASSERT_EQ(all[i].info.version == 0, i == 20 || i == 150);
    }
    // What was not published is still the caller's.
    client.publish("kept", std::move(all[20].allocation));
    client.publish("kept too", std::move(all[150].allocation));
    EXPECT_EQ(client.attach("kept").elements<std::uint32_t>().front(), 20u);
    EXPECT_EQ(used(client, "capsules"), 200u);
}

TEST_F(Batch, AnAllocationIsGivenOnce) {
    Client client = connect();
    const std::uint64_t size = 64;
    HurrayAllocation* allocation = nullptr;
    ASSERT_EQ(hurray_client_allocate(client.handle(), &size, 1, nullptr, &allocation), HURRAY_OK);
    DenseDescriptor tensor;
    tensor.element_type = ElementType::UInt8;
    tensor.shape = {64};
    const std::vector<std::uint8_t> descriptor = tensor.encode();
    HurrayAllocation* same = allocation;
    std::array<HurrayPublishItem, 2> items{};
    for (HurrayPublishItem& item : items) {
        item.struct_size = sizeof item;
        item.descriptor = descriptor.data();
        item.descriptor_len = descriptor.size();
    }
    items[0].allocation = &allocation;
    items[1].allocation = &same;
    EXPECT_EQ(hurray_client_publish_many(client.handle(), items.data(), items.size()), HURRAY_ERR_INVALID_ARGUMENT);
    EXPECT_EQ(items[0].status, HURRAY_OK);
    EXPECT_EQ(items[1].status, HURRAY_ERR_INVALID_ARGUMENT);
    EXPECT_EQ(allocation, nullptr);
    items[0].allocation = nullptr;
    EXPECT_EQ(hurray_client_publish_many(client.handle(), items.data(), 1), HURRAY_ERR_INVALID_ARGUMENT);
}

// The first one was published, and the allocation gone, before the second was looked at.
TEST_F(Batch, AnAllocationIsGivenOnceHoweverFarApart) {
    Client client = connect();
    DenseDescriptor tensor;
    tensor.element_type = ElementType::UInt8;
    tensor.shape = {64};
    const std::vector<std::uint8_t> descriptor = tensor.encode();
    for (const std::size_t count : {200U, 1500U}) {
        std::vector<HurrayAllocation*> allocations(count);
        std::vector<HurrayPublishItem> items(count);
        for (std::size_t i = 0; i < count; ++i) {
            const std::uint64_t size = 64;
            if (i + 1 < count) {
                ASSERT_EQ(hurray_client_allocate(client.handle(), &size, 1, nullptr, &allocations[i]), HURRAY_OK);
            } else {
                allocations[i] = allocations[0];
            }
            items[i].struct_size = sizeof items[i];
            items[i].descriptor = descriptor.data();
            items[i].descriptor_len = descriptor.size();
            items[i].allocation = &allocations[i];
        }
        EXPECT_EQ(hurray_client_publish_many(client.handle(), items.data(), count), HURRAY_ERR_INVALID_ARGUMENT);
        EXPECT_EQ(items.back().status, HURRAY_ERR_INVALID_ARGUMENT);
        EXPECT_EQ(std::count_if(items.begin(), items.end(), [](const auto& item) { return item.status == HURRAY_OK; }),
                  static_cast<std::ptrdiff_t>(count) - 1);
    }
}

// ---- Ends

TEST_F(Batch, DaemonKilledInTheMiddleEndsIt) {
    for (int round = 0; round < rounds(20); ++round) {
        DaemonProcess daemon;
        ConnectOptions options;
        options.address = daemon.socket_path();
        options.reconnects = false;
        Client producer = Client::connect(options);
        Client consumer = Client::connect(options);
        std::vector<Publication> model = tensors(producer, 600, 1 << 12);
        std::thread killer([&, pause = std::chrono::microseconds(50 * (round + 1))] {
            std::this_thread::sleep_for(pause);  // another place each time; any is right
            daemon.end(SIGKILL);
        });
        const HurrayStatus published = status_of([&] { producer.publish_many(model); });
        const HurrayStatus attached = status_of([&] {
            for (;;) {
                (void)consumer.attach_many(names(600));
            }
        });
        killer.join();
        EXPECT_TRUE(published == HURRAY_OK || published == HURRAY_ERR_CONNECTION_LOST) << published;
        EXPECT_TRUE(attached == HURRAY_ERR_NOT_FOUND || attached == HURRAY_ERR_CONNECTION_LOST) << attached;
        for (const Publication& one : model) {
            ASSERT_TRUE(one.status == HURRAY_OK || one.status == HURRAY_ERR_CONNECTION_LOST) << one.status;
        }
    }
}

TEST_F(Batch, DaemonKilledAndStartedAgainInTheMiddleIsNotNoticed) {
    for (int round = 0; round < rounds(5); ++round) {
        MortalDaemon daemon({});
        ConnectOptions options;
        options.address = daemon.socket_path();
        Client producer = Client::connect(options);
        Client consumer = Client::connect(options);
        std::vector<Publication> model = tensors(producer, 600, 1 << 12);
        std::vector<AttachItem> wanted;
        for (Publication& one : model) {
            one.options.timeout = kWatchdog;
            wanted.push_back({one.name, {.timeout = kWatchdog}});
        }
        std::vector<Tensor> attached;
        std::thread working([&] {
            producer.publish_many(model);
            attached = consumer.attach_many(wanted);
        });
        std::this_thread::sleep_for(
            std::chrono::microseconds(100 * (round + 1)));  // another place each time; any is right
        daemon.restart();
        working.join();
        ASSERT_EQ(attached.size(), 600U);
        for (std::size_t i = 0; i < attached.size(); ++i) {
            EXPECT_EQ(attached[i].name(), model[i].name);
        }
    }
}

TEST_F(Batch, TimeoutsCountFromTheCall) {
    Client client = connect();
    std::vector<AttachItem> wanted;
    for (std::size_t i = 0; i < 300; ++i) {  // more than one window
        wanted.push_back({"never/" + std::to_string(i), {.timeout = std::chrono::milliseconds(50)}});
    }
    EXPECT_EQ(status_of([&] { (void)client.attach_many(wanted); }), HURRAY_ERR_TIMED_OUT);
    EXPECT_EQ(used(client, "waiting"), 0u);
}

TEST_F(Batch, InterruptedItHoldsNothing) {
    std::atomic<int> asked{0};
    ConnectOptions options;
    options.address = daemon_.socket_path();
    std::atomic<bool> is_connected{false};
    options.interrupted = [&] { return is_connected && ++asked > 0; };
    Client consumer = Client::connect(options);
    is_connected = true;
    Client producer = connect();
    publish(producer, "there", 8, 1);
    std::vector<AttachItem> wanted;
    for (std::size_t i = 0; i < 50; ++i) {
        wanted.push_back({"there"});
        wanted.push_back({"never/" + std::to_string(i), {.timeout = std::chrono::milliseconds(-1)}});
    }
    struct sigaction action{};
    action.sa_handler = [](int) {};
    ::sigaction(SIGUSR1, &action, nullptr);
    const pthread_t waiting = ::pthread_self();
    std::atomic<bool> done{false};
    std::thread poker([&] {
        while (used(producer, "waiting") != 50) {
        }
        while (!done) {
            ::pthread_kill(waiting, SIGUSR1);
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
    });
    EXPECT_EQ(status_of([&] { (void)consumer.attach_many(wanted); }), HURRAY_ERR_INTERRUPTED);
    done = true;
    poker.join();
    EXPECT_EQ(settled(producer, "leases", 0), 0u);
    EXPECT_EQ(settled(producer, "waiting", 0), 0u);
}

TEST_F(Batch, FewFreeDescriptorsMakeItSlowerNotFail) {
    if (kIsSanitized) {
        GTEST_SKIP() << kNoDescriptorsLeftNote;
    }
    Client producer = connect();
    Client consumer = connect();
    std::vector<Publication> model = tensors(producer, 200, 1 << 15);
    producer.publish_many(model);
    const DescriptorLimit low(count_open_descriptors() + 10);
    const std::vector<Tensor> attached = consumer.attach_many(names(200));
    for (std::size_t i = 0; i < attached.size(); ++i) {
        ASSERT_EQ(attached[i].elements<std::uint32_t>().back(), i);
    }
    EXPECT_EQ(used(consumer, "leases"), 200u);
}

TEST_F(Batch, ManyThreadsOfOneClientAtOnce) {
    Client producer = connect();
    Client consumer = connect();
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
        threads.emplace_back([&, t] {
            for (int round = 0; round < rounds(40); ++round) {
                std::vector<Publication> mine;
                std::vector<std::string> all;
                for (std::uint32_t i = 0; i < 150; ++i) {
                    Allocation allocation = producer.allocate<std::uint32_t>({16});
                    allocation.elements<std::uint32_t>()[3] = i + static_cast<std::uint32_t>(1000 * round);
                    all.push_back(std::to_string(t) + "/" + std::to_string(i));
                    mine.push_back({all.back(), std::move(allocation)});
                }
                producer.publish_many(mine);
                const std::vector<Tensor> attached = consumer.attach_many(all);
                for (std::uint32_t i = 0; i < attached.size(); ++i) {
                    wrong += attached[i].elements<std::uint32_t>()[3] == i + static_cast<std::uint32_t>(1000 * round)
                                 ? 0
                                 : 1;
                }
            }
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    EXPECT_EQ(wrong, 0);
    EXPECT_EQ(used(consumer, "leases"), 0u);
}

// ---- Order

TEST_F(Batch, ProducerHearsOfEveryLeaseBeforeItEnds) {
    constexpr std::size_t kTensors = 200;
    Client producer = connect();
    Client consumer = connect();
    EventLog log;
    std::vector<Publication> model = tensors(producer, kTensors, 8, {.on_event = log.sink(), .tell_opened = true});
    producer.publish_many(model);
    for (int round = 0; round < 5; ++round) {
        (void)consumer.attach_many(names(kTensors));
    }
    ASSERT_TRUE(log.wait_for(HURRAY_EVENT_LEASE_RELEASED, 5 * kTensors));
    EXPECT_EQ(log.count(HURRAY_EVENT_LEASE_OPENED), 5 * kTensors);
    EXPECT_EQ(log.count(HURRAY_EVENT_LEASE_LOST), 0u);
}

}  // namespace
}  // namespace hurray::test
