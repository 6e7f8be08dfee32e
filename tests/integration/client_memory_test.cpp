// Memory that runs out in the client, on a thread that is not the caller's: it ended the whole program once.
#include <atomic>
#include <thread>
#include <tuple>
#include <utility>

#include <gmock/gmock.h>

#include "tests/integration/client_test.hpp"
#include "tests/integration/scarce_new.hpp"

namespace hurray::test {
namespace {

class OutOfMemory : public ClientTest {
  protected:
    OutOfMemory() { is_exempt = true; }
    ~OutOfMemory() override { is_scarce = false; }
};

TEST_F(OutOfMemory, OnTheClientsOwnThreadEndsTheConnectionAndNotTheProgram) {
    Client other = connect(true);
    Client producer = connect();
    EventLog log;
    PublishOptions options;
    options.on_event = log.sink();
    publish(producer, "scarce", 5, 10, std::move(options));
    publish(other, "held", 5, 20);
    const Tensor held = producer.attach("held");

    is_scarce = true;
    const Tensor tensor = other.attach("scarce");  // of which the producer is told, by a thread of the library's
    while (used(other, "clients") != 0) {          // beside the one that asks
        std::this_thread::yield();
    }
    is_scarce = false;

    std::string message;
    EXPECT_EQ(status_of([&] { producer.list(); }, &message), HURRAY_ERR_CONNECTION_LOST);
    EXPECT_NE(message.find("out of memory"), std::string::npos) << message;
    EXPECT_EQ(held.state(), HURRAY_ERR_CONNECTION_LOST);
    EXPECT_EQ(held.elements<std::uint32_t>()[4], 24U) << "views stay";
    EXPECT_EQ(tensor.elements<std::uint32_t>()[4], 14U);
    while (tensor.state() == HURRAY_OK) {
        other.list();
    }
    EXPECT_EQ(tensor.state(), HURRAY_ERR_PRODUCER_LOST);
    EXPECT_EQ(used(other, "leases"), 1U) << "the one that it had itself is lost";
}

TEST_F(OutOfMemory, OfTheThreadThatReadsForAnotherIsToldToThatOne) {
    Client other = connect(true);
    Client client = connect();
    AttachOptions forever;
    forever.timeout = kForever;
    const auto wait_for_waiting = [&](std::uint64_t count) {
        while (used(other, "waiting") != count) {
            std::this_thread::yield();
        }
    };
    HurrayStatus reader_status = HURRAY_OK;
    std::thread reader([&] {  // by the C function: exceptions take memory
        HurrayAttachOptions options{};
        options.struct_size = sizeof options;
        options.name = "never";
        options.timeout_ms = -1;
        HurrayBufferList* list = nullptr;
        HurrayTensorContext* context = nullptr;
        reader_status = hurray_client_attach(client.handle(), &options, &list, &context, nullptr);
    });
    wait_for_waiting(1);
    std::thread sleeper([&] {
        is_exempt = true;
        EXPECT_EQ(status_of([&] { client.attach("late", forever); }), HURRAY_ERR_CONNECTION_LOST);
    });
    wait_for_waiting(2);

    is_scarce = true;
    publish(other, "late", 1, 1);  // granted to the sleeper, read by the reader, who has no memory for it
    sleeper.join();
    is_scarce = false;
    reader.join();
    EXPECT_EQ(reader_status, HURRAY_ERR_CONNECTION_LOST);
    while (used(other, "leases") != 0 || used(other, "waiting") != 0) {
        std::this_thread::yield();
    }
}

TEST_F(OutOfMemory, WhereverItHappensInAnAttachTheCallEndsAndNothingIsLeft) {
    Client producer = connect();
    publish(producer, "any", 1 << 16, 3);  // a segment of its own
    int request = 0;
    for (bool met = true; met;) {
        Client client = connect(true);
        HurrayAttachOptions options{};
        options.struct_size = sizeof options;
        options.name = "any";
        const auto attach = [&](int failing) {
            HurrayBufferList* list = nullptr;
            HurrayTensorContext* context = nullptr;
            failing_request = failing;
            const HurrayStatus status = hurray_client_attach(client.handle(), &options, &list, &context, nullptr);
            const bool was_met = failing_request == 0;
            failing_request = 0;
            hurray_buffer_list_destroy(&list);
            hurray_tensor_context_destroy(&context);
            return std::pair(status, was_met);
        };
        HurrayStatus status{};
        std::tie(status, met) = attach(++request);
        // Whatever it was: the client is whole, or its connection has ended.
        EXPECT_THAT(attach(0).first, testing::AnyOf(HURRAY_OK, HURRAY_ERR_CONNECTION_LOST))
            << request << ": " << status;
        if (!met) {
            EXPECT_EQ(status, HURRAY_OK) << request;
        }
        ASSERT_LT(request, 1000);
    }
    EXPECT_GT(request, 10) << "or none of them failed";
    while (used(producer, "leases") != 0) {
        producer.list();
    }
}

TEST_F(OutOfMemory, WhereverItHappensInAnAllocateNothingStaysReserved) {
    Client other = connect(true);
    int request = 0;
    for (bool met = true; met;) {
        Client client = connect(true);
        const std::uint64_t size = 1 << 17;
        HurrayAllocation* allocation = nullptr;
        failing_request = ++request;
        const HurrayStatus status = hurray_client_allocate(client.handle(), &size, 1, nullptr, &allocation);
        met = failing_request == 0;
        failing_request = 0;
        EXPECT_EQ(status == HURRAY_OK, allocation != nullptr);
        hurray_allocation_destroy(&allocation);
        if (status_of([&] { client.list(); }) == HURRAY_OK) {  // or its connection has ended, and all that it had
            EXPECT_EQ(used(other, "reservations"), 0U) << request;
        }
        ASSERT_LT(request, 1000);
    }
    EXPECT_GT(request, 5) << "or none of them failed";
}

// The same of many at once: each of which is attached, or none; and of what is published each allocation is taken or is not.
TEST_F(OutOfMemory, WhereverItHappensInABatchNothingIsLeft) {
    constexpr std::size_t kItems = 3;
    Client producer = connect();
    int request = 0;
    for (bool met = true; met;) {
        Client client = connect(true);
        std::vector<Allocation> memory;
        std::vector<HurrayAllocation*> allocations(kItems);
        std::vector<HurrayPublishItem> items(kItems);
        std::vector<HurrayAttachOptions> options(kItems);
        std::vector<HurrayAttachItem> attached(kItems);
        const std::vector<std::string> names = {"many/1", "many/2", "many/3"};
        const std::uint64_t size = 1 << 17;
        DenseDescriptor tensor;
        tensor.element_type = ElementType::UInt8;
        tensor.shape = {size};
        const std::vector<std::uint8_t> descriptor = tensor.encode();
        for (std::size_t i = 0; i < kItems; ++i) {
            ASSERT_EQ(hurray_client_allocate(client.handle(), &size, 1, nullptr, &allocations[i]), HURRAY_OK);
            items[i].struct_size = sizeof items[i];
            items[i].name = names[i].c_str();
            items[i].descriptor = descriptor.data();
            items[i].descriptor_len = descriptor.size();
            items[i].allocation = &allocations[i];
            options[i].struct_size = sizeof options[i];
            options[i].name = items[i].name;
            attached[i].struct_size = sizeof attached[i];
            attached[i].options = &options[i];
        }
        failing_request = ++request;
        (void)hurray_client_publish_many(client.handle(), items.data(), kItems);
        HurrayStatus status = HURRAY_OK;
        if (failing_request != 0) {
            status = hurray_client_attach_many(client.handle(), attached.data(), kItems);
        }
        met = failing_request == 0;
        failing_request = 0;
        const bool is_attached = attached[0].context != nullptr;
        for (std::size_t i = 0; i < kItems; ++i) {
            EXPECT_EQ(attached[i].context != nullptr, is_attached) << request;
            hurray_tensor_context_destroy(&attached[i].context);
            hurray_buffer_list_destroy(&attached[i].buffers);
            hurray_allocation_destroy(&allocations[i]);
        }
        if (!met) {
            EXPECT_EQ(status, HURRAY_OK) << request;
        }
        ASSERT_LT(request, 2000);
    }
    EXPECT_GT(request, 50) << "or none of them failed";
    while (used(producer, "leases") != 0 || used(producer, "capsules") != 0) {
        producer.list();
    }
}

}  // namespace
}  // namespace hurray::test
