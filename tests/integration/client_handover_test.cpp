// One tensor from a producer to a consumer: what arrives, what it costs, what each side is told.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <numeric>
#include <sstream>
#include <thread>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/integration/client_test.hpp"
#include "tests/support/raw_peer.hpp"
#include "tests/support/sanitized.hpp"

namespace hurray::test {
namespace {

struct MappedAt {
    std::string inode;
    std::uint64_t offset = 0;
    std::string permissions;
};

/// Which file lies at `address` of this process, and where in it.
MappedAt find_mapping(const void* address) {
    const auto wanted = reinterpret_cast<std::uintptr_t>(address);
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
        std::uintptr_t first = 0;
        std::uintptr_t last = 0;
        std::uint64_t offset = 0;
        char dash = 0;
        MappedAt found;
        std::string device;
        std::istringstream fields(line);
        fields >> std::hex >> first >> dash >> last >> found.permissions >> offset >> device >> found.inode;
        if (wanted >= first && wanted < last) {
            found.offset = offset + (wanted - first);
            return found;
        }
    }
    return {};
}

class Handover : public ClientTest {};

TEST_F(Handover, ConsumerReadsWhatTheProducerWrote) {
    Client producer = connect();
    Client consumer = connect();
    const CapsuleInfo published = publish(producer, "numbers", 1000, 7);

    const Tensor tensor = consumer.attach("numbers");

    EXPECT_EQ(tensor.name(), "numbers");
    EXPECT_EQ(tensor.info().capsule, published.capsule);
    EXPECT_EQ(tensor.info().version, published.version);
    EXPECT_EQ(tensor.info().byte_size, 4000U);
    EXPECT_EQ(tensor.shape(), std::vector<std::uint64_t>{1000});
    const auto elements = tensor.elements<std::uint32_t>();
    ASSERT_EQ(elements.size(), 1000U);
    EXPECT_EQ(elements[0], 7U);
    EXPECT_EQ(elements[999], 1006U);
    EXPECT_EQ(tensor.state(), HURRAY_OK);
}

TEST_F(Handover, BothSidesSeeTheSameFileAtTheSameOffset) {
    Client producer = connect();
    Client consumer = connect();
    Allocation allocation = producer.allocate<float>({25});
    const MappedAt made = find_mapping(allocation.buffer().data());
    producer.publish("same/file", std::move(allocation));

    const Tensor attached = consumer.attach("same/file");

    const MappedAt seen = find_mapping(attached.buffer().data());
    EXPECT_NE(seen.inode, "0");
    EXPECT_EQ(seen.inode, made.inode);
    EXPECT_EQ(seen.offset, made.offset);
    EXPECT_EQ(seen.permissions, "r--s");
}

// case H1
TEST_F(Handover, FirstBufferStartsAtAPageAndEveryOtherAtAMultipleOf64) {
    Client client = connect();
    for (const std::uint64_t odd : {1U, 63U, 65U, 4095U, 4097U}) {
        const std::uint64_t sizes[] = {odd, odd, 0, odd};
        const Allocation allocation = client.allocate_buffers(sizes);
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(allocation.buffer(0).data()) % 4096, 0U);
        for (std::size_t i = 0; i < 4; ++i) {
            EXPECT_EQ(reinterpret_cast<std::uintptr_t>(allocation.buffer(i).data()) % 64, 0U) << i;
            for (const std::byte byte : allocation.buffer(i)) {
                ASSERT_EQ(byte, std::byte{0});
            }
        }
    }
}

// case A3, A7: one byte, and both sides of every threshold that is near
TEST_F(Handover, EverySizeArrivesWholeAndAsLongAsItWasPublished) {
    Client producer = connect();
    Client consumer = connect();
    for (const std::uint64_t size :
         {1U, 2U, 8U, 63U, 64U, 65U, 4095U, 4096U, 4097U, 65535U, 65536U, 65537U, 2097151U, 2097152U, 2097153U}) {
        Allocation allocation = producer.allocate<std::uint8_t>({size});
        const auto elements = allocation.elements<std::uint8_t>();
        std::iota(elements.begin(), elements.end(), static_cast<std::uint8_t>(size));
        producer.publish("size", std::move(allocation));

        const Tensor tensor = consumer.attach("size");

        const auto seen = tensor.elements<std::uint8_t>();
        ASSERT_EQ(seen.size(), size);
        EXPECT_EQ(tensor.buffer().size(), size);
        EXPECT_EQ(seen.front(), static_cast<std::uint8_t>(size));
        EXPECT_EQ(seen.back(), static_cast<std::uint8_t>(size + size - 1));
    }
}

// case A6
TEST_F(Handover, EmptyTensorsAreHandedOverWithoutAnyMemory) {
    Client producer = connect();
    Client consumer = connect();
    const std::size_t mappings = count_shared_mappings();
    const std::vector<std::vector<std::uint64_t>> shapes = {{0}, {1, 8, 0, 128}, {0, 0}};
    for (const ElementType type : {ElementType::Float32, ElementType::BFloat16, ElementType::Bool}) {
        for (const auto& shape : shapes) {
            DenseDescriptor empty;
            empty.element_type = type;
            empty.shape = shape;
            EventLog log;
            PublishOptions options;
            options.on_event = log.sink();
            producer.publish("empty", producer.allocate(empty), std::move(options));
            {
                const Tensor tensor = consumer.attach("empty");
                EXPECT_EQ(tensor.shape(), shape);
                EXPECT_EQ(tensor.element_type(), type);
                EXPECT_EQ(tensor.info().byte_size, 0U);
                EXPECT_EQ(used(consumer, "leases"), 1U);
            }
            EXPECT_TRUE(log.wait_for(HURRAY_EVENT_LEASE_RELEASED));
            EXPECT_EQ(used(consumer, "leases"), 0U);
        }
        // A scalar is not empty.
        DenseDescriptor scalar;
        scalar.element_type = type;
        producer.publish("scalar", producer.allocate(scalar));
        const Tensor tensor = consumer.attach("scalar");
        EXPECT_TRUE(tensor.shape().empty());
        EXPECT_EQ(tensor.info().byte_size, type == ElementType::Float32 ? 4U : type == ElementType::BFloat16 ? 2U : 1U);
        producer.withdraw(tensor.info().capsule);
    }
    EXPECT_LE(count_shared_mappings(), mappings + 2) << "the scalars' arena, on both sides, and nothing else";
}

// case B5
TEST_F(Handover, SparseTensorArrivesWithItsThreeBuffersAndItsLayout) {
    Client producer = connect();
    Client consumer = connect();
    DescriptorBuilder csr(ElementType::Float32, {3, 4});
    csr.csr(3).buffer(12).buffer(24).buffer(32);
    const std::uint64_t sizes[] = {12, 24, 32};
    Allocation allocation = producer.allocate_buffers(sizes);
    for (std::size_t i = 0; i < 3; ++i) {
        std::fill(allocation.buffer(i).begin(), allocation.buffer(i).end(), static_cast<std::byte>(i + 1));
    }
    producer.publish("sparse", csr.encode(), std::move(allocation));

    const Tensor tensor = consumer.attach("sparse");

    EXPECT_EQ(tensor.descriptor().layout(), LayoutTag::Csr);
    EXPECT_EQ(tensor.descriptor().nnz(), 3U);
    ASSERT_EQ(tensor.buffer_count(), 3U);
    for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(tensor.buffer(i).size(), sizes[i]);
        EXPECT_EQ(tensor.buffer(i).back(), static_cast<std::byte>(i + 1));
    }
}

TEST_F(Handover, SharingTakesPrivateLayoutsAndRefusesDynamicSizesOnBothSides) {
    Client producer = connect();
    Client consumer = connect();
    const std::uint64_t size[] = {64};
    DescriptorBuilder ours(ElementType::UInt8, {7});
    const std::uint8_t data[] = {1, 2};
    ours.private_layout(0xF7, 99, data).buffer(64);
    producer.publish("private", ours.encode(), producer.allocate_buffers(size));
    EXPECT_EQ(consumer.attach("private").descriptor().private_layout().first, 99U);

    DescriptorBuilder dynamic(ElementType::UInt8, {HURRAY_DYNAMIC_DIM});
    Allocation allocation = producer.allocate_buffers(size);
    std::string message;
    EXPECT_EQ(
        status_of([&] { producer.publish("dynamic", dynamic.buffer(64).encode(), std::move(allocation)); }, &message),
        HURRAY_ERR_INVALID_LAYOUT);
    EXPECT_NE(message.find("shape[0] is dynamic"), std::string::npos) << message;
}

TEST_F(Handover, ScalarArrives) {
    Client producer = connect();
    Client consumer = connect();
    Allocation allocation = producer.allocate<double>({});
    allocation.elements<double>()[0] = 2.5;
    producer.publish("scalar", std::move(allocation));

    const Tensor tensor = consumer.attach("scalar");

    EXPECT_TRUE(tensor.shape().empty());
    ASSERT_EQ(tensor.elements<double>().size(), 1U);
    EXPECT_EQ(tensor.elements<double>()[0], 2.5);
}

TEST_F(Handover, ProducerIsToldOfOpenedReleasedAndEndedInThatOrderAndOnce) {
    Client producer = connect();
    Client consumer = connect();
    EventLog log;
    PublishOptions options;
    options.tell_opened = true;
    options.on_event = log.sink();
    const CapsuleInfo info = publish(producer, "told", 1, 1, std::move(options));

    consumer.attach("told").release();
    ASSERT_TRUE(log.wait_for(HURRAY_EVENT_LEASE_RELEASED));
    producer.withdraw(info.capsule);
    ASSERT_TRUE(log.wait_for(HURRAY_EVENT_ENDED));

    EXPECT_EQ(log.kinds(),
              (std::vector<std::uint32_t>{HURRAY_EVENT_LEASE_OPENED, HURRAY_EVENT_LEASE_RELEASED, HURRAY_EVENT_ENDED}));
    const auto events = log.all();
    EXPECT_EQ(events[0].event.remaining, 1U);
    EXPECT_EQ(events[1].event.remaining, 0U);
    EXPECT_TRUE(events[2].event.reusable);
    EXPECT_EQ(events[2].event.version, info.version);
    EXPECT_EQ(events[2].event.capsule, info.capsule);
    EXPECT_EQ(events[2].name, "told");
}

TEST_F(Handover, OpenedIsNotToldUnlessAskedFor) {
    Client producer = connect();
    Client consumer = connect();
    EventLog log;
    PublishOptions options;
    options.on_event = log.sink();
    publish(producer, "untold", 1, 1, std::move(options));

    consumer.attach("untold").release();
    ASSERT_TRUE(log.wait_for(HURRAY_EVENT_LEASE_RELEASED));

    EXPECT_EQ(log.count(HURRAY_EVENT_LEASE_OPENED), 0U);
}

TEST_F(Handover, WithdrawnTensorStaysReadableAndEndsWithItsLastLease) {
    Client producer = connect();
    Client consumer = connect();
    EventLog log;
    PublishOptions options;
    options.on_event = log.sink();
    const CapsuleInfo info = publish(producer, "gone", 10, 5, std::move(options));
    Tensor tensor = consumer.attach("gone");

    producer.withdraw(info.capsule);

    EXPECT_EQ(status_of([&] { consumer.attach("gone"); }), HURRAY_ERR_NOT_FOUND);
    EXPECT_EQ(tensor.elements<std::uint32_t>()[9], 14U);
    EXPECT_EQ(log.count(HURRAY_EVENT_ENDED), 0U);
    tensor.release();
    EXPECT_TRUE(log.wait_for(HURRAY_EVENT_ENDED));
}

TEST_F(Handover, ReplacedVersionStaysWithThoseWhoHoldItAndNewAttachesGetTheNewOne) {
    Client producer = connect();
    Client consumer = connect();
    EventLog first_log;
    PublishOptions options;
    options.on_event = first_log.sink();
    const CapsuleInfo first = publish(producer, "model", 4, 100, std::move(options));
    Tensor old = consumer.attach("model");

    const CapsuleInfo second = publish(producer, "model", 4, 200);
    const Tensor fresh = consumer.attach("model");

    EXPECT_GT(second.version, first.version);
    EXPECT_EQ(old.elements<std::uint32_t>()[0], 100U);
    EXPECT_EQ(fresh.elements<std::uint32_t>()[0], 200U);
    EXPECT_EQ(first_log.count(HURRAY_EVENT_ENDED), 0U);
    old.release();
    EXPECT_TRUE(first_log.wait_for(HURRAY_EVENT_ENDED));
}

TEST_F(Handover, CapsuleWithoutANameIsAttachedByItsId) {
    Client producer = connect();
    Client consumer = connect();
    const CapsuleInfo info = publish(producer, "", 3, 1);

    const Tensor tensor = consumer.attach(info.capsule);

    EXPECT_EQ(tensor.name(), "");
    EXPECT_EQ(tensor.elements<std::uint32_t>()[2], 3U);
}

TEST_F(Handover, CopyPublishesOrdinaryMemoryAndLeavesItToTheCaller) {
    Client producer = connect();
    Client consumer = connect();
    std::vector<std::int16_t> mine = {1, -2, 3};
    producer.publish_copy<std::int16_t>("copied", {3}, mine);
    mine[0] = 99;

    const Tensor tensor = consumer.attach("copied");

    EXPECT_EQ(tensor.elements<std::int16_t>()[0], 1);
    EXPECT_EQ(tensor.elements<std::int16_t>()[1], -2);
}

TEST_F(Handover, OrdinaryMemoryIsRefusedUnlessTheCallerSaysCopy) {
    Client producer = connect();
    std::vector<std::uint8_t> mine(64);
    BufferList buffers;
    buffers.push(Buffer(mine.data(), mine.size()));
    DenseDescriptor tensor;
    tensor.element_type = ElementType::UInt8;
    tensor.shape = {64};
    const auto descriptor = tensor.encode();

    EXPECT_EQ(hurray_client_publish_list(producer.handle(), "plain", descriptor.data(), descriptor.size(),
                                         buffers.get(), nullptr, nullptr),
              HURRAY_ERR_INVALID_ARGUMENT);
    EXPECT_NE(std::string(hurray_last_error_message()).find("COPY"), std::string::npos);
    EXPECT_TRUE(producer.list().empty());
}

TEST_F(Handover, DescriptorThatDoesNotFitTheAllocationIsRefusedAndTheAllocationKept) {
    Client producer = connect();
    DenseDescriptor tensor;
    tensor.element_type = ElementType::UInt8;
    tensor.shape = {5000};
    const auto descriptor = tensor.encode();
    const std::uint64_t small[] = {4096};
    Allocation allocation = producer.allocate_buffers(small);

    std::string message;
    EXPECT_EQ(status_of([&] { producer.publish("misfit", descriptor, std::move(allocation)); }, &message),
              HURRAY_ERR_INVALID_ARGUMENT);
    EXPECT_NE(message.find("5000"), std::string::npos) << message;
    EXPECT_NE(message.find("4096"), std::string::npos) << message;
    tensor.shape = {4096};
    EXPECT_EQ(status_of([&] { producer.publish("misfit", tensor.encode(), std::move(allocation)); }), HURRAY_OK);
}

// case E10
TEST_F(Handover, AbsentNameIsNotFoundAtOnceAndTimedOutAfterAWait) {
    Client consumer = connect();
    AttachOptions options;
    EXPECT_EQ(status_of([&] { consumer.attach("absent", options); }), HURRAY_ERR_NOT_FOUND);
    options.timeout = 1ms;
    EXPECT_EQ(status_of([&] { consumer.attach("absent", options); }), HURRAY_ERR_TIMED_OUT);
    options.timeout = -2ms;
    EXPECT_EQ(status_of([&] { consumer.attach("absent", options); }), HURRAY_ERR_INVALID_ARGUMENT);
    EXPECT_EQ(used(consumer, "waiting"), 0U);

    // Memory that is only written is not there yet.
    Client producer = connect();
    options.timeout = 500ms;
    std::thread waiter(
        [&] { EXPECT_EQ(status_of([&] { consumer.attach("absent", options); }), HURRAY_ERR_TIMED_OUT); });
    while (used(producer, "waiting") == 0) {
        std::this_thread::yield();
    }
    const Allocation allocation = producer.allocate<float>({100'000});
    waiter.join();
    options.timeout = std::chrono::milliseconds(1'000'000'000'000'000'000);
    std::thread patient([&] { EXPECT_EQ(consumer.attach("late", options).elements<std::uint32_t>()[0], 3U); });
    while (used(producer, "waiting") == 0) {
        std::this_thread::yield();
    }
    publish(producer, "late", 1, 3);
    patient.join();
}

TEST_F(Handover, WaitingAttachCompletesWhenTheNameIsPublished) {
    Client producer = connect();
    Client consumer = connect();
    std::thread waiter([&] {
        AttachOptions options;
        options.timeout = kForever;
        EXPECT_EQ(consumer.attach("later", options).elements<std::uint32_t>()[0], 42U);
    });
    while (used(producer, "waiting") == 0) {
        std::this_thread::yield();
    }
    publish(producer, "later", 1, 42);
    waiter.join();
}

// case C12
TEST_F(Handover, WhatIsAttachedAgainAndAgainIsMappedOnceAndReleasedOnce) {
    Client producer = connect();
    Client one = connect();
    Client other = connect();
    RawPeer peer = RawPeer::greeted(daemon_.socket_path());
    publish(producer, "x", 100'000, 1);
    const auto round = [&](Client& client) {
        Tensor first = client.attach("x");
        const Tensor again = client.attach("x");
        first.release();
        const Tensor third = client.attach("x");
        first.release();  // twice over
        EXPECT_EQ(third.elements<std::uint32_t>()[99'999], 100'000U);
    };
    round(one);
    round(other);
    const std::size_t mappings = count_shared_mappings();
    for (std::uint64_t i = 1; i <= static_cast<std::uint64_t>(rounds(1000)); ++i) {
        round(one);
        round(other);
        peer.attach(i, "x");
        peer.call<wire::Done>(wire::Release{{i}});
        peer.call<wire::Done>(wire::Release{{i}});          // twice
        peer.call<wire::Done>(wire::Release{{1'000'000}});  // never granted
    }
    EXPECT_EQ(count_shared_mappings(), mappings);
    while (used(producer, "leases") != 0) {
        std::this_thread::yield();
    }
}

TEST_F(Handover, NewerThanWaitsForTheNextVersion) {
    Client producer = connect();
    Client consumer = connect();
    const CapsuleInfo first = publish(producer, "loop", 1, 1);
    AttachOptions options;
    options.newer_than = first.version;
    EXPECT_EQ(status_of([&] { consumer.attach("loop", options); }), HURRAY_ERR_NOT_FOUND);
    std::thread waiter([&] {
        options.timeout = kForever;
        const Tensor tensor = consumer.attach("loop", options);
        EXPECT_GT(tensor.info().version, first.version);
        EXPECT_EQ(tensor.elements<std::uint32_t>()[0], 2U);
    });
    while (used(producer, "waiting") == 0) {
        std::this_thread::yield();
    }
    publish(producer, "loop", 1, 2);
    waiter.join();
}

// It began with "attach.name:", a field that no caller of the library knows.
TEST_F(Handover, RefusalsOfTheDaemonBeginWithASentenceForTheCaller) {
    Client client = connect();
    const auto message_of = [&](const std::string& name) {
        try {
            client.attach(name);
        } catch (const StatusError& error) {
            return std::string(error.what());
        }
        return std::string("no error");
    };
    EXPECT_EQ(message_of("absent"),
              "HURRAY_ERR_NOT_FOUND: hurray_client_attach: there is nothing under the name \"absent\" to attach "
              "(attach.name)");
    EXPECT_EQ(
        message_of("a//b"),
        "HURRAY_ERR_INVALID_ARGUMENT: hurray_client_attach: the name \"a//b\" has an empty segment at position 2");
}

// case E11
TEST_F(Handover, NamesThatBreakTheRulesAreRefusedByName) {
    Client client = connect();
    const std::string too_long(256, 'n');
    const std::string longest(255, 'n');
    for (const std::string& name :
         {std::string("a/../b"), std::string("/a"), std::string("a//b"), std::string("a/"), std::string("./a"),
          std::string("tab\there"), std::string("\xff\xfe"), too_long, std::string("//a"), std::string(100'000, 'n')}) {
        const HurrayStatus status = status_of([&] { client.attach(name); });
        EXPECT_TRUE(status == HURRAY_ERR_INVALID_ARGUMENT || status == HURRAY_ERR_LIMIT) << name << ": " << status;
        EXPECT_EQ(status_of([&] { publish(client, name, 1, 1); }), status) << name;
    }
    for (const std::string& name : {std::string("a"), longest, std::string("a b "), std::string("caf\xc3\xa9"),
                                    std::string("cafe\xcc\x81"), std::string("model/v1/weights")}) {
        EXPECT_EQ(status_of([&] { publish(client, name, 1, 1); }), HURRAY_OK) << name;
        EXPECT_EQ(status_of([&] { client.attach(name); }), HURRAY_OK) << name;
    }
    EXPECT_EQ(client.list().size(), 6U);
    EXPECT_EQ(status_of([&] { client.attach(""); }), HURRAY_ERR_INVALID_ARGUMENT) << "empty: nothing to look for";
}

TEST_F(Handover, AGibibyteIsHandedOverWithoutMovingAByte) {
    constexpr std::uint64_t kSize = 1ULL << 30;
    Client producer = connect();
    Client consumer = connect();
    Allocation allocation = producer.allocate<std::uint8_t>({kSize});
    const auto elements = allocation.elements<std::uint8_t>();
    elements[0] = 11;
    elements[kSize - 1] = 22;
    const std::string inode = find_mapping(elements.data()).inode;
    publish(producer, "warm/up", 1, 1);
    consumer.attach("warm/up").release();
    const std::uint64_t daemon_before = resident_bytes(daemon_.pid());
    rusage before{};
    ::getrusage(RUSAGE_SELF, &before);

    producer.publish("big", std::move(allocation));
    const Tensor tensor = consumer.attach("big");

    rusage after{};
    ::getrusage(RUSAGE_SELF, &after);
    // A fault for each of 262,144 pages would show, or for each of 512 huge ones; what is left is the heap of both sides.
    EXPECT_LT(after.ru_minflt - before.ru_minflt, kIsSanitized ? 400 : 100);
    EXPECT_LT(resident_bytes(daemon_.pid()), daemon_before + (4U << 20));
    EXPECT_EQ(find_mapping(tensor.buffer().data()).inode, inode);
    EXPECT_EQ(tensor.elements<std::uint8_t>()[0], 11);
    EXPECT_EQ(tensor.elements<std::uint8_t>()[kSize - 1], 22);
}

TEST_F(Handover, MoreMemoryThanThereIsIsRefusedWithBothNumbers) {
    Client client = connect();
    std::string message;
    const std::uint64_t sizes[] = {1ULL << 50};
    EXPECT_EQ(status_of([&] { client.allocate_buffers(sizes); }, &message), HURRAY_ERR_NO_SPACE);
    EXPECT_NE(message.find(std::to_string(1ULL << 50)), std::string::npos) << message;
    EXPECT_NE(message.find("available"), std::string::npos) << message;
    const std::uint64_t endless[] = {(1ULL << 63) + 4096};
    EXPECT_EQ(status_of([&] { client.allocate_buffers(endless); }), HURRAY_ERR_NO_SPACE);
    const std::uint64_t wrapping[] = {1ULL << 63, 1ULL << 63};
    EXPECT_EQ(status_of([&] { client.allocate_buffers(wrapping); }), HURRAY_ERR_NO_SPACE);
}

// ---- Nobody but the producer writes --------------------------------------------------------------------------------

TEST_F(Handover, ConsumerCantMakeItsMappingWritableOrWriteThroughTheKernel) {
    Client producer = connect();
    Client consumer = connect();
    publish(producer, "sealed", 1024, 1);
    const Tensor tensor = consumer.attach("sealed");
    auto* const page = const_cast<std::byte*>(tensor.buffer().data());

    EXPECT_EQ(::mprotect(page, 4096, PROT_READ | PROT_WRITE), -1);
    EXPECT_EQ(errno, EACCES);
    EXPECT_EQ(::madvise(page, 4096, MADV_REMOVE), -1);
    const int memory = ::open("/proc/self/mem", O_RDWR | O_CLOEXEC);
    if (memory >= 0) {
        const char byte = 99;
        EXPECT_EQ(::pwrite(memory, &byte, 1, static_cast<off_t>(reinterpret_cast<std::uintptr_t>(page))), -1);
        ::close(memory);
    }
    EXPECT_EQ(tensor.elements<std::uint32_t>()[0], 1U);
}

TEST_F(Handover, ConsumerThatKeepsTheDescriptorCantChangeAByteByAnyWay) {
    Client producer = connect();
    publish(producer, "sealed", 1024, 1);
    RawPeer consumer = RawPeer::greeted(daemon_.socket_path());
    const RawPeer::Attached attached = consumer.attach(1, "sealed");
    const int fd = attached.fds.at(0).get();
    const auto refused = [](auto result, int with) { return result == decltype(result)(-1) && errno == with; };
    const char byte = 99;

    EXPECT_TRUE(refused(::write(fd, &byte, 1), EPERM));
    EXPECT_TRUE(refused(::pwrite(fd, &byte, 1, 0), EPERM));
    EXPECT_EQ(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
    EXPECT_EQ(errno, EPERM);
    EXPECT_TRUE(refused(::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), EPERM));
    EXPECT_TRUE(refused(::fallocate(fd, FALLOC_FL_ZERO_RANGE, 0, 4096), EPERM) || errno == EOPNOTSUPP);
    EXPECT_TRUE(refused(::ftruncate(fd, 0), EPERM));
    EXPECT_TRUE(refused(::ftruncate(fd, 8192), EPERM));
    EXPECT_TRUE(refused(::fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), EPERM)) << "nobody may add seals of his own";
    const std::string path = "/proc/self/fd/" + std::to_string(fd);
    EXPECT_TRUE(refused(::open(path.c_str(), O_RDWR | O_TRUNC | O_CLOEXEC), EPERM));
    const UniqueFd again(::open(path.c_str(), O_RDWR | O_CLOEXEC));  // succeeds, and helps nobody
    if (again) {
        EXPECT_TRUE(refused(::pwrite(again.get(), &byte, 1, 0), EPERM));
        EXPECT_EQ(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, again.get(), 0), MAP_FAILED);
    }
    void* const page = ::mmap(nullptr, 4096, PROT_READ, MAP_SHARED, fd, 0);
    ASSERT_NE(page, MAP_FAILED);
    EXPECT_TRUE(refused(::mprotect(page, 4096, PROT_READ | PROT_WRITE), EACCES));
    ::munmap(page, 4096);
    std::uint32_t first = 0;
    ASSERT_EQ(::pread(fd, &first, sizeof first, 0), static_cast<ssize_t>(sizeof first));
    EXPECT_EQ(first, 1U);
}

TEST_F(Handover, AttachingLeavesNoDescriptorOpen) {
    Client producer = connect();
    Client consumer = connect();
    publish(producer, "fds", 10, 1);
    const auto before = count_open_descriptors();
    std::vector<Tensor> held;
    for (int i = 0; i < 100; ++i) {
        held.push_back(consumer.attach("fds"));
    }
    EXPECT_EQ(count_open_descriptors(), before);
}

}  // namespace
}  // namespace hurray::test
