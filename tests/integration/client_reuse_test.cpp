// Memory that is published again and again: what it costs, that nobody is ever shown something else than what was attached, and
// that nothing is left over.
#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstring>
#include <deque>
#include <fstream>
#include <future>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "tests/integration/client_test.hpp"
#include "tests/support/child.hpp"
#include "tests/support/raw_peer.hpp"
#include "tests/support/sanitized.hpp"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HURRAY_TEST_COUNTS_CALLS 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define HURRAY_TEST_COUNTS_CALLS 0
#else
#define HURRAY_TEST_COUNTS_CALLS 1
#endif
#else
#define HURRAY_TEST_COUNTS_CALLS 1
#endif

namespace {

/// Calls that this program and the libraries in it have made.
struct Calls {
    std::atomic<std::uint64_t> memfds{0};
    std::atomic<std::uint64_t> mappings{0};
    std::atomic<std::uint64_t> populations{0};
    std::atomic<std::uint64_t> packets_with_descriptors{0};
    std::atomic<std::uint64_t> packets_that_brought_some{0};
};
Calls calls;

}  // namespace

#if HURRAY_TEST_COUNTS_CALLS
// In place of the C library's own, which do no more than this. Sanitizers have theirs.
extern "C" {
[[gnu::visibility("default")]] int memfd_create(const char* name, unsigned int flags) noexcept {
    ++calls.memfds;
    return static_cast<int>(::syscall(SYS_memfd_create, name, flags));
}
[[gnu::visibility("default")]] void* mmap(void* address, std::size_t length, int protection, int flags, int fd,
                                          off_t offset) noexcept {
    ++calls.mappings;
    return reinterpret_cast<void*>(::syscall(SYS_mmap, address, length, protection, flags, fd, offset));
}
[[gnu::visibility("default")]] int madvise(void* address, std::size_t length, int advice) noexcept {
    calls.populations += advice == MADV_POPULATE_READ ? 1 : 0;
    return static_cast<int>(::syscall(SYS_madvise, address, length, advice));
}
[[gnu::visibility("default")]] ssize_t sendmsg(int fd, const msghdr* message, int flags) {
    calls.packets_with_descriptors += message->msg_controllen > 0 ? 1 : 0;
    return ::syscall(SYS_sendmsg, fd, message, flags);
}
[[gnu::visibility("default")]] ssize_t recvmsg(int fd, msghdr* message, int flags) {
    const ssize_t size = ::syscall(SYS_recvmsg, fd, message, flags);
    calls.packets_that_brought_some += size >= 0 && message->msg_controllen > 0 ? 1 : 0;
    return size;
}
}
#endif

namespace hurray::test {
namespace {

using Json = nlohmann::json;

Json memory_of(const Client& client) { return Json::parse(client.status()).at("client").at("memory"); }

/// Mappings of memfds in this process.
std::size_t count_memfd_mappings() {
    std::ifstream maps("/proc/self/maps");
    std::size_t count = 0;
    for (std::string line; std::getline(maps, line);) {
        count += line.find("memfd:hurray") != std::string::npos ? 1 : 0;
    }
    return count;
}

std::uint64_t page_faults() {
    rusage usage{};
    ::getrusage(RUSAGE_THREAD, &usage);
    return static_cast<std::uint64_t>(usage.ru_minflt);
}

/// Whether it is not the rounds that fault: in some 25 of them at most 4 do, of which the kernel's taking pages away is reason
/// enough. A round that maps, or touches a new page, faults each time.
bool hardly_any_round_faults(const std::function<void(std::uint32_t)>& round) {
    for (int block = 0; block < 40; ++block) {
        const std::uint64_t before = page_faults();
        for (std::uint32_t i = 0; i < 25; ++i) {
            round(i);
        }
        if (page_faults() - before <= 4) {
            return true;
        }
    }
    return false;
}

/// A consumer that attached, maps its tensor and was cut off: its lease is lost, and it reads on.
class Lingerer {
  public:
    Lingerer(const std::string& socket, const std::string& name) {
        RawPeer peer = RawPeer::greeted(socket);
        const auto attached = peer.attach(1, name);
        size_ = attached.reply.segments.at(0).size;
        offset_ = attached.reply.placements.at(0).offset;
        data_ =
            static_cast<const std::byte*>(::mmap(nullptr, size_, PROT_READ, MAP_SHARED, attached.fds.at(0).get(), 0));
        if (data_ == MAP_FAILED) {
            throw std::runtime_error("mmap");
        }
    }
    Lingerer(const Lingerer&) = delete;
    Lingerer& operator=(const Lingerer&) = delete;
    ~Lingerer() { ::munmap(const_cast<std::byte*>(data_), size_); }

    /// The whole segment, and where in it the tensor lies.
    [[nodiscard]] std::span<const std::byte> segment() const { return {data_, size_}; }
    [[nodiscard]] std::uint64_t offset() const { return offset_; }
    [[nodiscard]] std::uint32_t element(std::uint64_t index) const {
        std::uint32_t value = 0;
        std::memcpy(&value, data_ + offset_ + 4 * index, sizeof value);
        return value;
    }

  private:
    const std::byte* data_ = nullptr;
    std::uint64_t size_ = 0;
    std::uint64_t offset_ = 0;
};

class Reuse : public ClientTest {
  protected:
    /// What the daemon holds for everybody, told once nothing of it changes any more.
    void expect_daemon_holds_nothing() {
        Client other = connect();
        const auto barks = std::chrono::steady_clock::now() + kWatchdog;
        while ((used(other, "bytes") != 0 || used(other, "descriptors") != 0 || used(other, "clients") != 0) &&
               std::chrono::steady_clock::now() < barks) {
        }
        EXPECT_EQ(used(other, "bytes"), 0u);
        EXPECT_EQ(used(other, "descriptors"), 0u);
        EXPECT_EQ(used(other, "capsules"), 0u);
        EXPECT_EQ(used(other, "reservations"), 0u);
        EXPECT_EQ(memory_of(other).at("bytes"), 0);
    }
};

// ---- What a steady loop costs

TEST_F(Reuse, SteadyLoopMakesNoSegmentMapsNothingFaultsNothingAndPassesNoDescriptor) {
    if (!HURRAY_TEST_COUNTS_CALLS) {
        GTEST_SKIP() << "sanitizers replace the calls that are counted, and fault in their own memory";
    }
    Client client = connect();
    for (const std::uint64_t elements : {std::uint64_t{2}, std::uint64_t{4096}, std::uint64_t{1 << 20}}) {
        const auto round = [&](std::uint32_t stamp) {
            Allocation allocation = client.allocate<std::uint32_t>({elements});
            std::ranges::fill(allocation.elements<std::uint32_t>(), stamp);
            client.publish("loop", std::move(allocation));
        };
        for (std::uint32_t warm_up = 0; warm_up < 20; ++warm_up) {
            round(warm_up);
        }
        const std::uint64_t memfds = calls.memfds;
        const std::uint64_t mappings = calls.mappings;
        const std::uint64_t descriptors = calls.packets_with_descriptors;
        const std::uint64_t made = memory_of(client).at("segments_made");
        EXPECT_TRUE(hardly_any_round_faults(round)) << elements;
        EXPECT_EQ(calls.memfds - memfds, 0u);
        EXPECT_EQ(calls.mappings - mappings, 0u);
        EXPECT_EQ(calls.packets_with_descriptors - descriptors, 0u);
        EXPECT_EQ(memory_of(client).at("segments_made"), made);
    }
    EXPECT_GT(calls.memfds, 0u) << "or the calls are not counted at all";
    EXPECT_GT(calls.mappings, 0u);
    EXPECT_GT(calls.packets_with_descriptors, 0u);
}

TEST_F(Reuse, SteadyConsumerMapsNothingFaultsNothingAndIsSentNoDescriptor) {
    if (!HURRAY_TEST_COUNTS_CALLS) {
        GTEST_SKIP() << "sanitizers replace the calls that are counted, and fault in their own memory";
    }
    Client producer = connect();
    Client consumer = connect(true);
    for (const std::uint64_t elements : {std::uint64_t{2}, std::uint64_t{4096}, std::uint64_t{1 << 20}}) {
        const auto round = [&](std::uint32_t stamp) {
            publish(producer, "loop", elements, stamp);
            const Tensor tensor = consumer.attach("loop");
            const auto seen = tensor.elements<std::uint32_t>();
            ASSERT_EQ(seen[0], stamp);
            ASSERT_EQ(seen[elements - 1], stamp + static_cast<std::uint32_t>(elements - 1));
        };
        for (std::uint32_t warm_up = 0; warm_up < 50; ++warm_up) {
            round(warm_up);
        }
        const std::uint64_t mappings = calls.mappings;
        const std::uint64_t descriptors = calls.packets_that_brought_some;
        const std::size_t mapped = count_memfd_mappings();
        EXPECT_TRUE(hardly_any_round_faults(round)) << elements;
        EXPECT_EQ(calls.mappings - mappings, 0u) << elements;
        EXPECT_EQ(calls.packets_that_brought_some - descriptors, 0u) << elements;
        EXPECT_EQ(count_memfd_mappings(), mapped);
    }
    EXPECT_GT(calls.packets_that_brought_some, 0u) << "or they are not counted at all";
}

TEST_F(Reuse, PagesThatAConsumerAsksForComeOnceAndNotWithEachAttach) {
    if (!HURRAY_TEST_COUNTS_CALLS) {
        GTEST_SKIP() << "sanitizers replace the calls that are counted";
    }
    Client producer = connect();
    Client consumer = connect();
    publish(producer, "big", 1 << 20, 1);
    (void)consumer.attach("big");  // maps it, and no page
    const std::uint64_t before = calls.populations;
    for (int i = 0; i < 3; ++i) {
        AttachOptions at_once;
        at_once.populate = Populate::Yes;
        const Tensor tensor = consumer.attach("big", at_once);
        EXPECT_EQ(calls.populations - before, 1U);
    }
}

TEST_F(Reuse, MappingsOfMemoryThatItsProducerGaveUpAreLetGo) {
    Client consumer = connect();
    const auto kept = [&] { return Json::parse(consumer.status()).at("client").at("mappings"); };
    {
        Client producer = connect();
        for (std::uint32_t i = 0; i < 10; ++i) {
            publish(producer, "gone/" + std::to_string(i), 1 << 18, i);
            EXPECT_EQ(consumer.attach("gone/" + std::to_string(i)).elements<std::uint32_t>()[1], i + 1);
        }
        EXPECT_EQ(kept().at("idle_segments"), 10);
        EXPECT_EQ(kept().at("idle_bytes"), 10 << 20);
    }
    const auto barks = std::chrono::steady_clock::now() + kWatchdog;
    while (kept().at("segments") != 0 && std::chrono::steady_clock::now() < barks) {
    }
    EXPECT_EQ(kept().at("segments"), 0);
    EXPECT_EQ(kept().at("idle_bytes"), 0);
    while (count_memfd_mappings() != 0 &&
           std::chrono::steady_clock::now() < barks) {  // by the thread that tells events
    }
    EXPECT_EQ(count_memfd_mappings(), 0u);
}

TEST_F(Reuse, ViewStaysReadableWhenItsMemoryIsGivenUp) {
    Client consumer = connect();
    std::optional<Client> producer(connect());
    publish(*producer, "left", 1 << 18, 5);
    const Tensor tensor = consumer.attach("left");
    producer.reset();
    while (used(consumer, "capsules") != 1 || tensor.state() != HURRAY_ERR_PRODUCER_LOST) {
        consumer.list();
    }
    EXPECT_EQ(tensor.elements<std::uint32_t>()[70'000], 70'005u);
}

TEST_F(Reuse, MoreIdleMappingsThanAreKeptAreDroppedAndComeAgain) {
    constexpr std::uint64_t kIdle = 1024;  // as hurray_client.h says
    Client producer = connect();
    Client consumer = connect();
    constexpr std::uint32_t kCapsules = kIdle + 20;
    for (std::uint32_t i = 0; i < kCapsules; ++i) {
        publish(producer, "many/" + std::to_string(i), 1 << 15, i);  // beyond what an arena takes
    }
    for (int pass = 0; pass < 2; ++pass) {
        for (std::uint32_t i = 0; i < kCapsules; ++i) {
            ASSERT_EQ(consumer.attach("many/" + std::to_string(i)).elements<std::uint32_t>()[9], i + 9);
        }
        const Json kept = Json::parse(consumer.status()).at("client").at("mappings");
        EXPECT_EQ(kept.at("segments"), kIdle) << kept;
        EXPECT_EQ(kept.at("idle_segments"), kIdle) << kept;
    }
    EXPECT_EQ(used(consumer, "leases"), 0u);
}

TEST_F(Reuse, ManyThreadsAttachTheSameMemoryThatWasNotMappedBefore) {
    Client producer = connect();
    Client consumer = connect();
    for (std::uint32_t round = 0; round < 50; ++round) {
        publish(producer, "shared", 1 << 18, round);
        std::vector<std::thread> threads;
        std::atomic<int> wrong{0};
        for (int i = 0; i < 4; ++i) {
            threads.emplace_back([&] {
                const Tensor tensor = consumer.attach("shared");
                wrong += tensor.elements<std::uint32_t>()[100] == round + 100 ? 0 : 1;
            });
        }
        for (std::thread& thread : threads) {
            thread.join();
        }
        ASSERT_EQ(wrong, 0);
    }
}

TEST_F(Reuse, LoopWithCallbacksAndConsumersSettlesOnAFewSegments) {
    Client producer = connect();
    Client consumer = connect();
    for (std::uint32_t i = 0; i < 200; ++i) {
        PublishOptions options;
        options.on_event = [](const Event&) {};
        publish(producer, "loop", 1 << 18, i, std::move(options));
        const Tensor tensor = consumer.attach("loop");
        ASSERT_EQ(tensor.elements<std::uint32_t>()[77], i + 77);
    }
    const Json memory = memory_of(producer);
    EXPECT_LE(memory.at("segments_made"), 20) << memory;
    EXPECT_EQ(used(consumer, "descriptors"), memory.at("segments"));
}

// A callback that takes its time kept the memory of each round, until there was no more to be had.
TEST_F(Reuse, MemoryIsUsedAgainBeforeItsProducerIsToldOfItsEnd) {
    Client producer = connect();
    std::promise<void> go_on;
    const std::shared_future<void> until = go_on.get_future().share();
    for (std::uint32_t i = 0; i < 50; ++i) {
        PublishOptions options;
        options.on_event = [until](const Event&) { until.wait(); };
        publish(producer, "loop", 1 << 18, i, std::move(options));
    }
    const Json memory = memory_of(producer);
    EXPECT_LE(memory.at("segments"), 4) << memory;
    go_on.set_value();
}

// The thread that lets idle memory go was woken by the daemon's answer to a reservation alone.
TEST_F(Reuse, MemoryThatWasAllocatedWhileTheDaemonWasAwayGoesToo) {
    ::setenv("HURRAY_POOL_SECONDS", "1", 1);
    Client producer = connect();
    ::unsetenv("HURRAY_POOL_SECONDS");
    Allocation allocation = [&] {
        daemon_.end(SIGKILL);
        while (status_of([&] { producer.list(); }) != HURRAY_ERR_CONNECTION_LOST) {
            std::this_thread::yield();
        }
        return producer.allocate<std::uint32_t>({1 << 20});
    }();
    daemon_.start();
    PublishOptions options;
    options.timeout = kWatchdog;
    const CapsuleInfo info = producer.publish("late", std::move(allocation), std::move(options));
    producer.withdraw(info.capsule);
    const auto barks = std::chrono::steady_clock::now() + kWatchdog;
    while (memory_of(producer).at("segments") != 0 && std::chrono::steady_clock::now() < barks) {
        std::this_thread::sleep_for(10ms);
    }
    EXPECT_EQ(memory_of(producer).at("segments"), 0);
}

// Its idle mappings left no room for another one, for ever.
TEST_F(Reuse, IdleMappingsMakeRoomForOthers) {
    if (kIsSanitized || kIsThreadSanitized) {
        GTEST_SKIP() << "a sanitizer's own mappings are beyond any limit";
    }
    Client producer = connect();
    constexpr std::uint64_t kWords = 16 << 20;  // 64 MiB
    std::vector<std::string> names;
    for (int i = 0; i < 6; ++i) {
        publish(producer, names.emplace_back("large/" + std::to_string(i)), kWords, 1);
    }
    const pid_t child = ::fork();
    if (child == 0) {
        std::uint64_t pages = 0;
        std::ifstream("/proc/self/statm") >> pages;
        const rlimit room{(pages * 4096) + (200 << 20), RLIM_INFINITY};
        bool good = ::setrlimit(RLIMIT_AS, &room) == 0;
        try {
            Client client = connect(true);  // no threads in a child
            for (const std::string& name : names) {
                const Tensor tensor = client.attach(name);
                good = good && first_of(tensor) == 1;
            }
            // Of all at once not even idle ones would make room.
            good = good && status_of([&] { (void)client.attach_many(names); }) == HURRAY_ERR_LIMIT;
            const Tensor tensor = client.attach(names[0]);
            good = good && first_of(tensor) == 1;
        } catch (const std::exception& failure) {
            std::fprintf(stderr, "child: %s\n", failure.what());
            good = false;
        }
        ::_exit(good ? 0 : 1);
    }
    EXPECT_EQ(wait_for_end(child), 0);
    while (used(producer, "leases") != 0) {
        std::this_thread::yield();
    }
}

// ---- What readers see

TEST_F(Reuse, CapsuleOfAUsedSegmentIsANewOne) {
    Client client = connect();
    const CapsuleInfo first = publish(client, "a", 1 << 18, 1);
    client.withdraw(first.capsule);
    const CapsuleInfo second = publish(client, "a", 1 << 18, 2);
    EXPECT_EQ(memory_of(client).at("blocks_reused"), 1);
    EXPECT_NE(first.capsule, second.capsule);
    EXPECT_GT(second.version, first.version);
    EXPECT_EQ(status_of([&] { client.attach(first.capsule); }), HURRAY_ERR_NOT_FOUND);
    EXPECT_EQ(client.attach("a").elements<std::uint32_t>()[0], 2u);
}

TEST_F(Reuse, PageOfASmallTensorShowsNothingOfWhatWasThereBefore) {  // case A7
    Client client = connect();
    for (const std::uint64_t before : {std::uint64_t{1} << 20, std::uint64_t{16384}, std::uint64_t{4096}}) {
        Allocation soiled = client.allocate<std::uint8_t>({before});
        std::memset(soiled.buffer().data(), 0xAA, before);
        client.withdraw(client.publish("", std::move(soiled)).capsule);
        Allocation small = client.allocate<std::uint8_t>({8}, {.contents = Contents::Whatever});
        std::memset(small.buffer().data(), 0xBB, 8);
        client.publish("small", std::move(small));
        EXPECT_EQ(client.attach("small").buffer().size(), 8u);
        const Lingerer by_hand(daemon_.socket_path(), "small");
        const auto page = by_hand.segment().subspan(by_hand.offset(), 4096);
        EXPECT_EQ(std::count(page.begin(), page.begin() + 8, std::byte{0xBB}), 8);
        EXPECT_EQ(std::count(page.begin() + 8, page.end(), std::byte{0}), 4088) << before;
    }
}

TEST_F(Reuse, AllocationOfUsedMemoryIsZeroUnlessItNeedNotBe) {
    Client client = connect();
    const auto dirt = [&](Contents contents) {
        const Allocation allocation = client.allocate<std::uint8_t>({1 << 20}, {.contents = contents});
        return (1 << 20) - std::ranges::count(allocation.buffer(), std::byte{0});
    };
    client.withdraw(publish(client, "", 1 << 18, 0x01010101).capsule);
    EXPECT_GT(dirt(Contents::Whatever), 0);
    EXPECT_EQ(dirt(Contents::Zeros), 0);
    EXPECT_EQ(memory_of(client).at("segments_made"), 1);
}

TEST_F(Reuse, WhoeverWasCutOffReadsTheSameForEver) {  // case E3
    Client client = connect();
    std::mt19937 random(1);
    for (const std::uint64_t elements : {std::uint64_t{100}, std::uint64_t{1} << 18}) {
        EventLog log;
        PublishOptions options;
        options.on_event = log.sink();
        const CapsuleInfo kept = publish(client, "kept", elements, 1000, std::move(options));
        const Lingerer reader(daemon_.socket_path(), "kept");
        ASSERT_TRUE(log.wait_for(HURRAY_EVENT_LEASE_LOST));
        client.withdraw(kept.capsule);
        ASSERT_TRUE(log.wait_for(HURRAY_EVENT_ENDED));
        EXPECT_FALSE(log.all().back().event.reusable);
        for (std::uint32_t round = 0; round < 200; ++round) {
            publish(client, "other", 1 + random() % (2 * elements), 7);
        }
        for (std::uint64_t i = 0; i < elements; ++i) {
            ASSERT_EQ(reader.element(i), 1000 + i);
        }
    }
}

TEST_F(Reuse, ViewInTheProducerKeepsItsMemory) {
    Client client = connect();
    HurrayAllocation* allocation = nullptr;
    const std::uint64_t size = 1 << 20;
    ASSERT_EQ(hurray_client_allocate(client.handle(), &size, 1, nullptr, &allocation), HURRAY_OK);
    HurrayBufferList* view = nullptr;
    ASSERT_EQ(hurray_allocation_buffers(allocation, &view), HURRAY_OK);
    void* data = nullptr;
    ASSERT_EQ(hurray_allocation_data(allocation, 0, &data), HURRAY_OK);
    std::memset(data, 5, size);
    DenseDescriptor tensor;
    tensor.element_type = ElementType::UInt8;
    tensor.shape = {size};
    const std::vector<std::uint8_t> descriptor = tensor.encode();
    HurrayCapsuleInfo info{};
    info.struct_size = sizeof info;
    ASSERT_EQ(hurray_client_publish(client.handle(), nullptr, descriptor.data(), descriptor.size(), &allocation,
                                    nullptr, &info),
              HURRAY_OK);
    ASSERT_EQ(hurray_client_withdraw(client.handle(), &info.capsule), HURRAY_OK);
    publish(client, "a", 1 << 18, 1);
    publish(client, "a", 1 << 18, 2);
    EXPECT_EQ(std::count(static_cast<std::uint8_t*>(data), static_cast<std::uint8_t*>(data) + size, 5),
              static_cast<std::ptrdiff_t>(size));
    EXPECT_EQ(hurray_buffer_list_destroy(&view), HURRAY_OK);
    EXPECT_EQ(memory_of(client).at("idle_segments"), 2);
}

TEST_F(Reuse, MemoryOfALostConnectionIsNotUsedAgain) {
    Client client = connect_once();
    client.withdraw(publish(client, "", 1 << 18, 1).capsule);
    publish(client, "a", 1 << 18, 1);
    Allocation before = client.allocate<std::uint32_t>({1 << 18});
    daemon_.end(SIGKILL);
    EXPECT_EQ(status_of([&] { client.publish("a", std::move(before)); }), HURRAY_ERR_CONNECTION_LOST);
    while (status_of([&] { client.allocate<std::uint32_t>({1 << 18}); }) != HURRAY_ERR_CONNECTION_LOST) {
    }
    before = [&] {
        daemon_.start();
        Client again = connect();
        return again.allocate<std::uint32_t>({1});
    }();
}

TEST_F(Reuse, ChildNeverTouchesItsParentsPool) {
    if (kIsSanitized) {
        GTEST_SKIP() << kNoForkBesideThreadsNote;
    }
    Client client = connect();
    publish(client, "a", 1 << 18, 1);
    publish(client, "a", 1 << 18, 2);
    std::optional<Allocation> large(client.allocate<std::uint32_t>({1 << 18}));
    std::optional<Allocation> small(client.allocate<std::uint32_t>({1}));
    const Json before = memory_of(client);
    const pid_t child = ::fork();
    if (child == 0) {
        large.reset();
        small.reset();
        const bool refused = status_of([&] { client.allocate<std::uint32_t>({1 << 18}); }) == HURRAY_ERR_FORKED;
        ::_exit(refused ? 0 : 1);
    }
    EXPECT_EQ(wait_for_end(child), 0);
    EXPECT_EQ(memory_of(client), before);
    std::ranges::fill(large->elements<std::uint32_t>(), 7u);
    client.publish("a", std::move(*large));
    EXPECT_EQ(client.attach("a").elements<std::uint32_t>()[5], 7u);
}

// ---- Contents, over many rounds and processes

/// What a consumer process does: takes every version that it comes by, checks each element, keeps some for a while.
bool consume(const std::string& socket, unsigned seed, int rounds_to_live) {
    std::mt19937 random(seed);
    ConnectOptions connect_options;
    connect_options.address = socket;
    Client client = Client::connect(std::move(connect_options));
    const auto is_sound = [](const Tensor& tensor) {
        const auto elements = tensor.elements<std::uint32_t>();
        for (std::size_t i = 0; i < elements.size(); ++i) {
            if (elements[i] != elements[0] + i) {
                return false;
            }
        }
        return true;
    };
    std::deque<std::pair<Tensor, std::uint32_t>> kept;
    AttachOptions options;
    options.timeout = kWatchdog;
    for (int round = 0;; ++round) {
        Tensor tensor = client.attach("stamped", options);
        options.newer_than = tensor.info().version;
        const std::uint32_t stamp = tensor.elements<std::uint32_t>()[0];
        if (stamp == UINT32_MAX) {
            return true;
        }
        if (!is_sound(tensor)) {
            return false;
        }
        if (round == rounds_to_live) {
            ::raise(SIGKILL);  // with its leases
        }
        kept.emplace_back(std::move(tensor), stamp);
        while (kept.size() > random() % 5) {
            const auto& [oldest, then] = kept.front();
            if (oldest.elements<std::uint32_t>()[0] != then || !is_sound(oldest)) {
                return false;
            }
            kept.pop_front();
        }
    }
}

TEST_F(Reuse, StampsAreRightInEveryConsumerWhileSomeAreKilledAndNothingIsLeft) {
    constexpr unsigned kSteady = 3;
    constexpr unsigned kVictims = 4;
    const std::size_t daemons_descriptors = daemon_.open_descriptors();
    std::vector<pid_t> children;
    for (unsigned i = 0; i < kSteady + kVictims; ++i) {  // before this process has threads
        const pid_t child = ::fork();
        if (child == 0) {
            bool good = false;
            try {
                good = consume(daemon_.socket_path(), i, i < kSteady ? -1 : 5 * static_cast<int>(i));
            } catch (const std::exception& error) {
                std::fprintf(stderr, "consumer %u: %s\n", i, error.what());
            }
            ::_exit(good ? 0 : 1);
        }
        children.push_back(child);
    }
    const std::size_t own_descriptors = count_open_descriptors();
    {
        Client client = connect();
        std::mt19937 random(99);
        std::atomic<std::uint64_t> lost{0};
        const auto produce = [&](std::uint64_t count, std::uint32_t stamp) {
            Allocation allocation = client.allocate<std::uint32_t>(
                {count}, {.contents = random() % 2 == 0 ? Contents::Zeros : Contents::Whatever});
            std::iota(allocation.elements<std::uint32_t>().begin(), allocation.elements<std::uint32_t>().end(), stamp);
            PublishOptions options;
            if (random() % 2 == 0) {
                options.on_event = [&lost](const Event& event) {
                    lost += event.kind == HURRAY_EVENT_LEASE_LOST ? 1 : 0;
                };
            }
            client.publish("stamped", std::move(allocation), std::move(options));
        };
        const std::array<std::uint64_t, 4> largest = {10, 4096, 16384, 300'000};
        std::uint32_t stamp = 1;
        const auto are_dead = [&] {
            bool all = true;
            for (unsigned i = kSteady; i < children.size(); ++i) {
                siginfo_t info{};
                ::waitid(P_PID, static_cast<id_t>(children[i]), &info, WEXITED | WNOHANG | WNOWAIT);
                all = all && info.si_pid != 0;
            }
            return all;
        };
        const int at_least = rounds(1000);
        for (int round = 0; round < at_least || !are_dead(); ++round) {
            const std::uint64_t count = 1 + random() % largest.at(random() % largest.size());
            produce(count, stamp);
            stamp += static_cast<std::uint32_t>(count);
            if (stamp > 2'000'000'000) {
                stamp = 1;
            }
        }
        produce(1, UINT32_MAX);
        for (unsigned i = 0; i < children.size(); ++i) {
            const int status = wait_for_end(children[i]);
            EXPECT_EQ(status, i < kSteady ? 0 : SIGKILL) << "consumer " << i;
        }
        const Json memory = memory_of(client);
        EXPECT_GT(memory.at("blocks_reused"), 0);
        EXPECT_EQ(used(client, "bytes"), memory.at("bytes")) << memory;
        EXPECT_EQ(used(client, "descriptors"), memory.at("segments")) << memory;
    }
    expect_daemon_holds_nothing();
    EXPECT_EQ(count_memfd_mappings(), 0u);
    EXPECT_EQ(count_open_descriptors(), own_descriptors);
    while (daemon_.open_descriptors() != daemons_descriptors) {
    }
}

// ---- What is not published, and what is small

TEST_F(Reuse, AllocationThatIsNotPublishedGivesItsMemoryBackAtOnce) {
    Client client = connect();
    for (const std::uint64_t size : {std::uint64_t{8}, std::uint64_t{1} << 20}) {
        {
            const Allocation allocation = client.allocate<std::uint8_t>({size});
            EXPECT_EQ(used(client, "reservations"), 1u);
            EXPECT_GE(used(client, "reserved_bytes"), size);
        }
        EXPECT_EQ(used(client, "reservations"), 0u);
        EXPECT_EQ(used(client, "bytes"), 0u);
        EXPECT_EQ(memory_of(client).at("bytes"), 0);
    }
}

// It stayed for as long as its program did nothing.
TEST_F(Reuse, MemoryThatNobodyUsesAnyMoreGoesThoughItsProgramDoesNothing) {
    ::setenv("HURRAY_POOL_SECONDS", "1", 1);
    Client producer = connect();
    ::unsetenv("HURRAY_POOL_SECONDS");
    Client looker = connect();
    producer.withdraw(publish(producer, "once", 1 << 20, 1).capsule);
    publish(producer, "small", 1, 1);
    producer.withdraw(publish(producer, "small", 1, 2).capsule);
    EXPECT_NE(used(looker, "bytes"), 0u);
    const auto barks = std::chrono::steady_clock::now() + kWatchdog;
    while (used(looker, "bytes") != 0 && std::chrono::steady_clock::now() < barks) {
        std::this_thread::sleep_for(10ms);
    }
    EXPECT_EQ(used(looker, "bytes"), 0u);
}

TEST_F(Reuse, EachCapsuleInAnArenaCostsTheDaemonNoDescriptor) {
    Client client = connect();
    for (std::uint32_t i = 0; i < 1000; ++i) {
        publish(client, "small/" + std::to_string(i), 1024, i);
    }
    EXPECT_EQ(used(client, "capsules"), 1000u);
    EXPECT_LE(used(client, "descriptors"), 8u);
    EXPECT_EQ(used(client, "bytes"), memory_of(client).at("arena_bytes"));
    for (std::uint32_t i = 0; i < 1000; i += 37) {
        EXPECT_EQ(client.attach("small/" + std::to_string(i)).elements<std::uint32_t>()[3], i + 3);
    }
}

// ---- Threads

TEST_F(Reuse, ThreadsAllocatePublishAndEndOnOneClient) {
    Client client = connect();
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < 4; ++t) {
        threads.emplace_back([&, t] {
            std::mt19937 random(t);
            const std::string name = "of/" + std::to_string(t);
            for (std::uint32_t round = 0; round < static_cast<std::uint32_t>(rounds(200)); ++round) {
                const std::uint64_t count = 1 + random() % (round % 2 == 0 ? 5000 : 40'000);
                publish(client, name, count, t * 1'000'000 + round);
                const Tensor tensor = client.attach(name);
                const auto elements = tensor.elements<std::uint32_t>();
                ASSERT_EQ(elements.size(), count);
                ASSERT_EQ(elements.front(), t * 1'000'000 + round);
                ASSERT_EQ(elements.back(), t * 1'000'000 + round + count - 1);
            }
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    const Json memory = memory_of(client);
    EXPECT_EQ(used(client, "bytes"), memory.at("bytes"));
    EXPECT_GT(memory.at("blocks_reused"), 0);
}

}  // namespace
}  // namespace hurray::test
