// Memory that nobody can change any more, and memory that the caller has made itself.
#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <linux/udmabuf.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "tests/integration/client_test.hpp"
#include "tests/support/child.hpp"
#include "tests/support/raw_peer.hpp"
#include "tests/support/sanitized.hpp"
#include "tests/support/test_tensor.hpp"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

namespace hurray::test {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;

constexpr int kReusableSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL;
const AllocateOptions kImmutable{.immutable = true};

constexpr int kImmutableSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL;

Json part_of(const Client& client, const char* part) { return Json::parse(client.status()).at("client").at(part); }

std::vector<std::uint8_t> bytes_tensor(std::uint64_t count) {
    DenseDescriptor tensor;
    tensor.element_type = ElementType::UInt8;
    tensor.shape = {count};
    return tensor.encode();
}

bool all_are(std::span<const std::byte> bytes, int value) {
    return std::all_of(bytes.begin(), bytes.end(),
                       [value](std::byte byte) { return std::to_integer<int>(byte) == value; });
}

class ClientSealed : public ClientTest {
  protected:
    /// Publishes `count` bytes of `value` in immutable memory.
    static CapsuleInfo publish_immutable(Client& client, const std::string& name, std::uint64_t count, int value,
                                         PublishOptions options = {}) {
        Allocation allocation = client.allocate<std::uint8_t>({count}, kImmutable);
        std::memset(allocation.buffer().data(), value, allocation.buffer().size());
        return client.publish(name, std::move(allocation), std::move(options));
    }
    static AttachOptions immutable_only() {
        AttachOptions options;
        options.immutable_only = true;
        return options;
    }
};

/// Anybody's descriptor of a capsule's memory, as it comes in a grant.
class Thief {
  public:
    Thief(const std::string& socket, const std::string& name) : peer_(RawPeer::greeted(socket)) {
        peer_.send(wire::Attach{1, name, wire::Which::Latest, 0, 0});
        Incoming grant = peer_.receive();
        fd_ = std::move(grant.fds.at(0));
    }
    [[nodiscard]] int fd() const { return fd_.get(); }
    [[nodiscard]] std::string link() const { return "/proc/self/fd/" + std::to_string(fd()); }

  private:
    RawPeer peer_;
    UniqueFd fd_;
};

// ---- Immutable ------------------------------------------------------------------------------------------------------

TEST_F(ClientSealed, ImmutableCapsuleIsToldAsSuchAndAttachedByWhoWantsNoOther) {
    Client producer = connect();
    Client consumer = connect();
    for (const std::uint64_t count : {std::uint64_t{100}, std::uint64_t{64 * 1024}, std::uint64_t{3} << 20}) {
        const CapsuleInfo published = publish_immutable(producer, "i", count, 7);
        EXPECT_TRUE(published.immutable);
        EXPECT_FALSE(published.unsealed);
        EXPECT_TRUE(producer.published(published.capsule).immutable);
        const Tensor tensor = consumer.attach("i", immutable_only());
        EXPECT_TRUE(tensor.info().immutable);
        EXPECT_EQ(tensor.buffer().size(), count);
        EXPECT_TRUE(all_are(tensor.buffer(), 7));
        EXPECT_TRUE(consumer.list("i").at(0).immutable);
    }
    EXPECT_EQ(part_of(producer, "memory").at("arenas"), 0) << "seals are a file's: it shares none";
    publish(producer, "r", 4, 1);
    EXPECT_FALSE(consumer.attach("r").info().immutable);
    EXPECT_FALSE(consumer.list("r").at(0).immutable);
}

TEST_F(ClientSealed, NobodyCanChangeAByteOfIt) {  // case G1
    Client producer = connect();
    Allocation allocation = producer.allocate<std::uint8_t>({8192}, kImmutable);
    const std::span<std::byte> written = allocation.buffer();
    std::memset(written.data(), 5, written.size());
    producer.publish("i", std::move(allocation));
    Client consumer = connect();
    const Tensor tensor = consumer.attach("i");
    const Thief thief(daemon_.socket_path(), "i");
    const std::array<char, 1> evil{66};
    const int fd = thief.fd();

    EXPECT_EQ(::fcntl(fd, F_GET_SEALS) & kImmutableSeals, kImmutableSeals);
    EXPECT_LT(::write(fd, evil.data(), 1), 0);
    EXPECT_LT(::pwrite(fd, evil.data(), 1, 0), 0);
    EXPECT_NE(::ftruncate(fd, 0), 0);
    EXPECT_NE(::ftruncate(fd, 1 << 20), 0);
    EXPECT_NE(::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), 0);
    EXPECT_NE(::fallocate(fd, FALLOC_FL_ZERO_RANGE, 0, 4096), 0);
    EXPECT_NE(::fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE), 0);
    EXPECT_EQ(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
    EXPECT_EQ(::open(thief.link().c_str(), O_RDWR | O_TRUNC | O_CLOEXEC), -1);
    const UniqueFd reopened(::open(thief.link().c_str(), O_RDWR | O_CLOEXEC));
    EXPECT_TRUE(!reopened || ::pwrite(reopened.get(), evil.data(), 1, 0) < 0);
    void* const shown = ::mmap(nullptr, 4096, PROT_READ, MAP_SHARED, fd, 0);
    ASSERT_NE(shown, MAP_FAILED);
    EXPECT_NE(::mprotect(shown, 4096, PROT_READ | PROT_WRITE), 0);
    const UniqueFd memory(::open("/proc/self/mem", O_RDWR | O_CLOEXEC));
    const auto poke = [&](const void* where) {
        return ::pwrite(memory.get(), evil.data(), 1, static_cast<off_t>(reinterpret_cast<std::uintptr_t>(where)));
    };
    EXPECT_LT(poke(shown), 0);
    EXPECT_LT(poke(tensor.buffer().data()), 0);
    ::munmap(shown, 4096);

    // The producer neither. By force it may change pages of its own at most, which nobody else sees.
    EXPECT_TRUE(all_are(written, 5)) << "what pointed into it can be read on";
    (void)poke(written.data());
    if (::mprotect(written.data(), 4096, PROT_READ | PROT_WRITE) == 0) {
        written[1] = std::byte{66};
    }
    EXPECT_TRUE(all_are(tensor.buffer(), 5));
    EXPECT_TRUE(all_are(connect().attach("i").buffer(), 5));
}

TEST_F(ClientSealed, WritingToItAfterwardsEndsTheProducer) {
    if (kIsSanitized) {
        GTEST_SKIP() << "a sanitizer handles the signal itself";
    }
    Client producer = connect();
    Allocation allocation = producer.allocate<std::uint8_t>({100}, kImmutable);
    std::byte* const written = allocation.buffer().data();
    producer.publish("i", std::move(allocation));
    const pid_t child = ::fork();
    if (child == 0) {
        std::signal(SIGSEGV, SIG_DFL);
        *static_cast<volatile std::byte*>(written) = std::byte{1};
        ::_exit(0);
    }
    const int status = wait_for_end(child);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV) << status;
}

TEST_F(ClientSealed, WhatAForkedChildCanWriteToIsNotPublished) {
    Client producer = connect();
    Allocation allocation = producer.allocate<std::uint8_t>({100'000}, kImmutable);
    std::memset(allocation.buffer().data(), 1, allocation.buffer().size());
    const pid_t child = ::fork();
    if (child == 0) {
        for (;;) {
            ::pause();
        }
    }
    std::string message;
    EXPECT_EQ(status_of([&] { producer.publish("i", std::move(allocation)); }, &message), HURRAY_ERR_INVALID_ARGUMENT);
    EXPECT_THAT(message,
                HasSubstr("allocation: the memory can't be made immutable while somebody else can write to it: a "
                          "forked child has it mapped"));
    EXPECT_TRUE(producer.list("i").empty());
    EXPECT_TRUE(allocation.is_writable());
    EXPECT_TRUE(all_are(allocation.buffer(), 1));
    std::memset(allocation.buffer().data(), 2, allocation.buffer().size());
    ::kill(child, SIGKILL);
    ASSERT_EQ(::waitpid(child, nullptr, 0), child);
    EXPECT_TRUE(producer.publish("i", std::move(allocation)).immutable);
    EXPECT_TRUE(all_are(connect().attach("i", immutable_only()).buffer(), 2));
}

TEST_F(ClientSealed, WhatTheDaemonRefusedIsSealedAndCanBePublishedAgain) {
    Client producer = connect();
    Allocation allocation = producer.allocate<std::uint8_t>({100}, {.contents = Contents::Whatever, .immutable = true});
    std::memset(allocation.buffer().data(), 3, allocation.buffer().size());
    EXPECT_TRUE(allocation.is_writable());
    PublishOptions nowhere;
    nowhere.group = 999;
    EXPECT_EQ(status_of([&] { producer.publish("i", std::move(allocation), nowhere); }), HURRAY_ERR_NOT_FOUND);
    EXPECT_FALSE(allocation.is_writable());
    EXPECT_TRUE(all_are(allocation.buffer(), 3));
    // Of a shorter tensor, too: nothing is cleared behind it now.
    producer.publish("i", bytes_tensor(50), std::move(allocation));
    EXPECT_TRUE(all_are(connect().attach("i", immutable_only()).buffer(), 3));
}

TEST_F(ClientSealed, ItIsNeverUsedAgain) {
    Client producer = connect();
    const EventLog log;
    PublishOptions options;
    options.on_event = log.sink();
    const CapsuleInfo published = publish_immutable(producer, "i", 100'000, 1, options);
    EXPECT_GT(used(producer, "bytes"), 0u);
    connect().attach("i");
    producer.withdraw(published.capsule);
    ASSERT_TRUE(log.wait_for(HURRAY_EVENT_ENDED));
    EXPECT_FALSE(log.all().back().event.reusable);
    const Allocation other = producer.allocate<std::uint8_t>({100'000}, kImmutable);
    EXPECT_TRUE(all_are(other.buffer(), 0));
    EXPECT_EQ(part_of(producer, "memory").at("segments"), 1);
    EXPECT_EQ(part_of(producer, "memory").at("idle_segments"), 0);
    EXPECT_EQ(part_of(producer, "memory").at("segments_made"), 2);
}

TEST_F(ClientSealed, UnpublishedOneGoesWithItsReservation) {
    Client producer = connect();
    {
        const Allocation dropped = producer.allocate<std::uint8_t>({100}, kImmutable);
    }
    EXPECT_EQ(part_of(producer, "memory").at("segments"), 0);
    EXPECT_EQ(used(producer, "reserved_bytes"), 0u);
    EXPECT_EQ(used(producer, "bytes"), 0u);
}

TEST_F(ClientSealed, CopyCanBeImmutable) {
    Client producer = connect();
    const std::vector<std::uint8_t> elements(70'000, 9);
    PublishOptions options;
    options.immutable = true;
    EXPECT_TRUE(producer.publish_copy<std::uint8_t>("i", {70'000}, elements, options).immutable);
    EXPECT_TRUE(all_are(connect().attach("i", immutable_only()).buffer(), 9));
    std::string message;
    Allocation allocation = producer.allocate<std::uint8_t>({1});
    EXPECT_EQ(status_of([&] { producer.publish("x", std::move(allocation), options); }, &message),
              HURRAY_ERR_INVALID_ARGUMENT);
    EXPECT_THAT(message, HasSubstr("HURRAY_ALLOCATE_IMMUTABLE"));
}

TEST_F(ClientSealed, TensorWithoutAByteIsImmutableAnyhow) {
    Client producer = connect();
    EXPECT_TRUE(producer.publish("empty", producer.allocate<std::uint8_t>({0})).immutable);
    EXPECT_TRUE(producer.publish("empty", producer.allocate<std::uint8_t>({0}, kImmutable)).immutable);
    EXPECT_TRUE(connect().attach("empty", immutable_only()).info().immutable);
}

TEST_F(ClientSealed, WhoWantsImmutableMemoryIsRefusedOtherAtOnceOrWhenItComes) {
    Client producer = connect();
    Client consumer = connect();
    publish(producer, "n", 4, 1);
    std::string message;
    EXPECT_EQ(status_of([&] { consumer.attach("n", immutable_only()); }, &message), HURRAY_ERR_UNSUPPORTED);
    EXPECT_THAT(
        message,
        HasSubstr("is not immutable: its producer may write to it once nobody holds it (attach.immutable_only)"));
    AttachOptions wait = immutable_only();
    wait.timeout = kWatchdog;
    wait.newer_than = consumer.attach("n").info().version;
    std::thread later([&] {
        while (used(producer, "waiting") == 0) {
            std::this_thread::yield();
        }
        publish(producer, "n", 4, 2);
    });
    EXPECT_EQ(status_of([&] { consumer.attach("n", wait); }), HURRAY_ERR_UNSUPPORTED);
    later.join();
}

TEST_F(ClientSealed, ConsumerKeepsItMapped) {
    Client producer = connect();
    Client consumer = connect();
    publish_immutable(producer, "i", 1 << 20, 4);
    const std::byte* first = consumer.attach("i").buffer().data();
    const Tensor again = consumer.attach("i", immutable_only());
    EXPECT_EQ(again.buffer().data(), first);
    EXPECT_EQ(part_of(consumer, "mappings").at("segments"), 1);
}

// ---- The caller's own memory ----------------------------------------------------------------------------------------

/// A program's own memory: mapped writable before it is sealed, if it is to be written again.
class OwnMemory {
  public:
    OwnMemory(std::size_t size, int seals, int value = 0) : size_(size) {
        fd_ = UniqueFd(::memfd_create("own", MFD_CLOEXEC | MFD_ALLOW_SEALING));
        EXPECT_EQ(::ftruncate(fd_.get(), static_cast<off_t>(size)), 0);
        EXPECT_EQ(::fallocate(fd_.get(), 0, 0, static_cast<off_t>(size)), 0);
        void* const mapped = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0);
        EXPECT_NE(mapped, MAP_FAILED);
        data_ = static_cast<std::byte*>(mapped);
        fill(value);
        if ((seals & F_SEAL_WRITE) != 0) {
            ::munmap(data_, size_);
            data_ = nullptr;
        }
        EXPECT_EQ(::fcntl(fd_.get(), F_ADD_SEALS, seals), 0) << std::strerror(errno);
    }
    ~OwnMemory() {
        if (data_ != nullptr) {
            ::munmap(data_, size_);
        }
    }
    OwnMemory(const OwnMemory&) = delete;
    OwnMemory& operator=(const OwnMemory&) = delete;

    void fill(int value) const { std::memset(data_, value, size_); }
    [[nodiscard]] std::int32_t fd() const { return fd_.get(); }

  private:
    UniqueFd fd_;
    std::byte* data_ = nullptr;
    std::size_t size_;
};

class ClientFds : public ClientSealed {
  protected:
    static CapsuleInfo publish_fd(Client& client, const std::string& name, std::uint64_t count, std::int32_t fd,
                                  std::uint64_t offset = 0, PublishOptions options = {}) {
        const Placement placement{0, offset};
        return client.publish_fds(name, bytes_tensor(count), std::span(&fd, 1), std::span(&placement, 1),
                                  std::move(options));
    }
    /// The message of a refusal.
    static std::string refusal_of(Client& client, std::int32_t fd, std::uint64_t count = 4096,
                                  std::uint64_t offset = 0) {
        std::string message;
        EXPECT_EQ(status_of([&] { publish_fd(client, "bad", count, fd, offset); }, &message),
                  HURRAY_ERR_INVALID_ARGUMENT);
        return message;
    }
};

TEST_F(ClientFds, OwnSealedMemoryIsPublishedAsItIs) {
    Client producer = connect();
    Client consumer = connect();
    const std::size_t descriptors = count_open_descriptors();
    {
        const OwnMemory reusable(8192, kReusableSeals, 1);
        const OwnMemory immutable(8192, kImmutableSeals, 2);
        const CapsuleInfo r = publish_fd(producer, "r", 8192, reusable.fd());
        const CapsuleInfo i = publish_fd(producer, "i", 8192, immutable.fd());
        EXPECT_FALSE(r.immutable);
        EXPECT_TRUE(i.immutable);
        EXPECT_EQ(used(producer, "bytes"), 2 * 8192u) << "it counts as any memory does";
        const Tensor seen = consumer.attach("r");
        EXPECT_FALSE(seen.info().immutable);
        EXPECT_TRUE(all_are(seen.buffer(), 1));
        EXPECT_TRUE(all_are(consumer.attach("i", immutable_only()).buffer(), 2));
        producer.withdraw(r.capsule);
        producer.withdraw(i.capsule);
    }
    // Once both have ended nothing of it is left, here or there.
    while (used(producer, "bytes") != 0) {
        std::this_thread::yield();
    }
    EXPECT_EQ(used(producer, "descriptors"), 0u);
    EXPECT_EQ(count_open_descriptors(), descriptors);
}

TEST_F(ClientFds, TheCallerIsToldWhenItMayWriteAgain) {
    Client producer = connect();
    Client consumer = connect();
    const OwnMemory own(4096, kReusableSeals, 1);
    for (int round = 1; round < 20; ++round) {
        const EventLog log;
        PublishOptions options;
        options.on_event = log.sink();
        own.fill(round);
        const CapsuleInfo published = publish_fd(producer, "r", 4096, own.fd(), 0, options);
        {
            const Tensor tensor = consumer.attach("r");
            producer.withdraw(published.capsule);
            EXPECT_TRUE(all_are(tensor.buffer(), round));
            EXPECT_EQ(log.count(HURRAY_EVENT_ENDED), 0u);
            // Memory of this client's own in between: no number is used twice.
            publish(producer, "between", 4, 1);
            EXPECT_EQ(consumer.attach("between").elements<std::uint32_t>()[0], 1u);
        }
        ASSERT_TRUE(log.wait_for(HURRAY_EVENT_ENDED));
        EXPECT_TRUE(log.all().back().event.reusable);
    }
}

TEST_F(ClientFds, ManyCapsulesInOneFileAreOneSegment) {
    Client producer = connect();
    Client consumer = connect();
    constexpr std::uint64_t kCount = 20;
    const OwnMemory file(kCount * 4096, kImmutableSeals, 6);
    std::vector<Tensor> tensors;
    for (std::uint64_t i = 0; i < kCount; ++i) {
        const std::string name = "layer/" + std::to_string(i);
        publish_fd(producer, name, 4000, file.fd(), i * 4096);
        tensors.push_back(consumer.attach(name));
        EXPECT_TRUE(all_are(tensors.back().buffer(), 6));
        EXPECT_EQ(tensors.back().buffer().data(), tensors.front().buffer().data() + i * 4096);
    }
    EXPECT_EQ(used(producer, "bytes"), kCount * 4096) << "once, however many lie in it";
    EXPECT_EQ(used(producer, "descriptors"), 1u);
    EXPECT_EQ(part_of(consumer, "mappings").at("segments"), 1);
    EXPECT_EQ(part_of(producer, "memory").at("segments"), 0) << "it is not this client's";
}

TEST_F(ClientFds, WithoutPlacementsEachBufferBeginsADescriptor) {
    Client producer = connect();
    const OwnMemory own(4096, kReusableSeals, 8);
    const std::array<std::int32_t, 2> fds{own.fd(), own.fd()};
    EXPECT_FALSE(producer.publish_fds("o", bytes_tensor(10), std::span(fds).first(1)).immutable);
    EXPECT_TRUE(all_are(connect().attach("o").buffer(), 8));
    std::string message;
    EXPECT_EQ(status_of([&] { producer.publish_fds("o", bytes_tensor(10), fds); }, &message),
              HURRAY_ERR_INVALID_ARGUMENT);
    EXPECT_THAT(message, HasSubstr("there are 2 descriptors for 1 buffers"));
    EXPECT_TRUE(producer.publish_fds("empty", bytes_tensor(0), {}, std::array{Placement{}}).immutable);
}

TEST_F(ClientFds, WhatCouldHurtAReaderIsRefusedHereWithWhatItLacks) {  // case G1
    Client producer = connect();
    std::array<int, 2> ends{};
    ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
    const UniqueFd read_end(ends[0]);
    const UniqueFd write_end(ends[1]);
    const UniqueFd good = make_memfd();
    struct Case {
        const char* what;
        UniqueFd fd;
        const char* words;
    };
    std::vector<Case> cases;
    cases.push_back(
        {"unsealed", make_memfd({.seals = 0}), "fds[0]: the memfd has no seals, so anybody could write to it"});
    for (const auto& [seals, kind] : {std::pair(kReusableSeals, "reusable"), std::pair(kImmutableSeals, "immutable")}) {
        cases.push_back({kind, make_memfd({.seals = seals & ~F_SEAL_SHRINK}), "SHRINK missing"});
        cases.push_back({kind, make_memfd({.seals = seals & ~F_SEAL_GROW}), "GROW missing"});
        cases.push_back({kind, make_memfd({.seals = seals & ~F_SEAL_SEAL}), "SEAL missing"});
        cases.push_back({kind, make_memfd({.seals = seals, .reserve = false}), "sparse: 0 of its 4096 bytes"});
        cases.push_back({kind, make_memfd({.size = 0, .seals = seals}), "has 0 bytes"});
    }
    cases.push_back({"no sealing", UniqueFd(::memfd_create("own", MFD_CLOEXEC)), "can't have seals"});
    cases.push_back({"tmpfs", UniqueFd(::open("/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600)), "can't have seals"});
    cases.push_back({"file", UniqueFd(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC)), "not a memfd but a file"});
    cases.push_back({"directory", UniqueFd(::open("/", O_RDONLY | O_CLOEXEC)), "not a memfd but a file or directory"});
    cases.push_back({"device", UniqueFd(::open("/dev/zero", O_RDWR | O_CLOEXEC)), "not a memfd but a device"});
    cases.push_back({"eventfd", UniqueFd(::eventfd(0, EFD_CLOEXEC)), "an object without memory"});
    cases.push_back({"socket", UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)), "not a memfd but a socket"});
    cases.push_back({"pipe", UniqueFd(::dup(read_end.get())), "not a memfd but a pipe"});
    const std::string link = "/proc/self/fd/" + std::to_string(good.get());
    cases.push_back({"path", UniqueFd(::open(link.c_str(), O_PATH | O_CLOEXEC)), "opened with O_PATH"});
    const std::size_t descriptors = count_open_descriptors();
    for (const Case& bad : cases) {
        EXPECT_THAT(refusal_of(producer, bad.fd.get()), HasSubstr(bad.words)) << bad.what;
    }
    EXPECT_THAT(refusal_of(producer, -1), HasSubstr("fds[0]: the descriptor is closed"));
    EXPECT_THAT(refusal_of(producer, good.get(), 4097), HasSubstr("does not fit its segment of 4096"));
    EXPECT_THAT(refusal_of(producer, good.get(), 10, 1), HasSubstr("no multiple of the buffer's alignment"));
    EXPECT_THAT(refusal_of(producer, good.get(), 10, UINT64_MAX - 63), HasSubstr("does not fit"));
    EXPECT_THAT(refusal_of(producer, good.get(), 0), HasSubstr("no buffer lies in this segment"));
    EXPECT_EQ(count_open_descriptors(), descriptors);
    EXPECT_EQ(used(producer, "capsules"), 0u);
    EXPECT_EQ(used(producer, "descriptors"), 0u);
}

TEST_F(ClientFds, OneFileTwiceIsRefused) {
    Client producer = connect();
    const OwnMemory own(4096, kReusableSeals);
    const std::array<std::int32_t, 2> fds{own.fd(), own.fd()};
    std::string message;
    EXPECT_EQ(status_of([&] { producer.publish_fds("o", bytes_tensor(10), fds, std::array{Placement{}}); }, &message),
              HURRAY_ERR_INVALID_ARGUMENT);
    EXPECT_THAT(message, HasSubstr("is that of segment 0 as well"));
}

TEST_F(ClientFds, RefusedPublishLeavesNothing) {
    Client producer = connect();
    const OwnMemory own(4096, kReusableSeals, 3);
    const std::size_t descriptors = count_open_descriptors();
    PublishOptions nowhere;
    nowhere.group = 999;
    EXPECT_EQ(status_of([&] { publish_fd(producer, "o", 10, own.fd(), 0, nowhere); }), HURRAY_ERR_NOT_FOUND);
    EXPECT_EQ(count_open_descriptors(), descriptors);
    EXPECT_EQ(used(producer, "bytes"), 0u);
    publish_fd(producer, "o", 10, own.fd());
    EXPECT_TRUE(all_are(connect().attach("o").buffer(), 3));
}

// ---- dma-buf --------------------------------------------------------------------------------------------------------

/// A dma-buf of one page that holds `value`; none, with the reason, where this machine can make none.
UniqueFd make_dmabuf(int value, std::string& why_not) {
    const UniqueFd device(::open("/dev/udmabuf", O_RDWR | O_CLOEXEC));
    if (!device) {
        why_not = std::string("/dev/udmabuf: ") + std::strerror(errno);
        return {};
    }
    const UniqueFd memory(::memfd_create("under-dmabuf", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    const std::string page(4096, static_cast<char>(value));
    if (::pwrite(memory.get(), page.data(), page.size(), 0) != 4096 ||
        ::fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK) != 0) {
        why_not = std::string("memfd: ") + std::strerror(errno);
        return {};
    }
    udmabuf_create create{};
    create.memfd = static_cast<__u32>(memory.get());
    create.flags = UDMABUF_FLAGS_CLOEXEC;
    create.size = 4096;
    UniqueFd made(::ioctl(device.get(), UDMABUF_CREATE, &create));
    if (!made) {
        why_not = std::string("UDMABUF_CREATE: ") + std::strerror(errno);
    }
    return made;
}

TEST_F(ClientFds, DmabufGoesOnlyToWhoAllowsUnsealedMemory) {
    std::string why_not;
    const UniqueFd dmabuf = make_dmabuf(7, why_not);
    if (!dmabuf) {
        GTEST_SKIP() << "SKIPPED: no dma-buf can be made here: " << why_not
                     << ". What is published, granted and mapped of them is NOT tested on this machine";
    }
    Client producer = connect();
    Client consumer = connect();
    const EventLog log;
    PublishOptions options;
    options.on_event = log.sink();
    const CapsuleInfo published = publish_fd(producer, "d", 4096, dmabuf.get(), 0, options);
    EXPECT_TRUE(published.unsealed);
    EXPECT_FALSE(published.immutable);
    EXPECT_TRUE(consumer.list("d").at(0).unsealed);
    std::string message;
    EXPECT_EQ(status_of([&] { consumer.attach("d"); }, &message), HURRAY_ERR_UNSUPPORTED);
    EXPECT_THAT(message, HasSubstr("attach.allow_unsealed"));
    EXPECT_EQ(status_of([&] { consumer.attach("d", immutable_only()); }), HURRAY_ERR_UNSUPPORTED);
    AttachOptions allowed;
    allowed.allow_unsealed = true;
    {
        const Tensor tensor = consumer.attach("d", allowed);
        EXPECT_TRUE(tensor.info().unsealed);
        EXPECT_TRUE(all_are(tensor.buffer(), 7));
        EXPECT_EQ(consumer.attach("d", allowed).buffer().data(), tensor.buffer().data()) << "it is kept mapped";
    }
    producer.withdraw(published.capsule);
    ASSERT_TRUE(log.wait_for(HURRAY_EVENT_ENDED));
    EXPECT_TRUE(log.all().back().event.reusable);
    EXPECT_THAT(refusal_of(producer, dmabuf.get(), 4097), HasSubstr("does not fit its segment of 4096"));
}

}  // namespace
}  // namespace hurray::test
