// What outlives what: clients, contexts, lists, threads, processes.
#include <atomic>
#include <csignal>
#include <random>
#include <stdexcept>
#include <thread>

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/integration/client_test.hpp"
#include "tests/support/sanitized.hpp"

namespace hurray::test {
namespace {

class Lifetime : public ClientTest {
  protected:
    /// Forks a process that connects anew, attaches `name`, says so, and sleeps until it is killed.
    pid_t fork_consumer(const std::string& name) {
        int said[2];
        EXPECT_EQ(::pipe2(said, O_CLOEXEC), 0);
        const pid_t child = ::fork();
        if (child == 0) {
            Client client = connect(true);
            AttachOptions options;
            options.timeout = kForever;
            const Tensor tensor = client.attach(name, options);
            [[maybe_unused]] const auto written = ::write(said[1], "x", 1);
            ::pause();
            ::_exit(0);
        }
        ::close(said[1]);
        char byte = 0;
        EXPECT_EQ(::read(said[0], &byte, 1), 1);
        ::close(said[0]);
        return child;
    }

    static void kill_now(pid_t child) {
        if (child <= 0) {
            throw std::runtime_error("there is no child");  // and never kill(-1)
        }
        ::kill(child, SIGKILL);
        ::waitpid(child, nullptr, 0);
    }
};

TEST_F(Lifetime, ContextOutlivesItsClientAndItsReleaseStillReachesTheProducer) {
    Client producer = connect();
    EventLog log;
    PublishOptions options;
    options.on_event = log.sink();
    publish(producer, "outlived", 5, 10, std::move(options));
    std::optional<Tensor> tensor;
    {
        Client consumer = connect();
        tensor = consumer.attach("outlived");
    }
    EXPECT_EQ(tensor->elements<std::uint32_t>()[4], 14U);
    EXPECT_EQ(tensor->state(), HURRAY_OK);
    EXPECT_EQ(log.count(HURRAY_EVENT_LEASE_LOST), 0U);

    tensor.reset();

    EXPECT_TRUE(log.wait_for(HURRAY_EVENT_LEASE_RELEASED));
    EXPECT_EQ(log.count(HURRAY_EVENT_LEASE_LOST), 0U);
}

TEST_F(Lifetime, BufferListOutlivesItsContextAndIsDestroyedInPeace) {
    Client producer = connect();
    Client consumer = connect();
    publish(producer, "order", 5, 10);
    HurrayAttachOptions options{};
    options.struct_size = sizeof options;
    options.name = "order";
    HurrayBufferList* list = nullptr;
    HurrayTensorContext* context = nullptr;
    ASSERT_EQ(hurray_client_attach(consumer.handle(), &options, &list, &context, nullptr), HURRAY_OK);
    ASSERT_EQ(hurray_tensor_context_destroy(&context), HURRAY_OK);
    EXPECT_EQ(hurray_buffer_list_destroy(&list), HURRAY_OK);
}

TEST_F(Lifetime, LeaseStateOfAForeignContextIsRefused) {
    HurrayTensorContext* context = nullptr;
    ASSERT_EQ(hurray_tensor_context_new(HURRAY_C_ABI_VERSION, nullptr, 0, nullptr, nullptr, &context), HURRAY_OK);
    HurrayStatus state = 77;
    EXPECT_EQ(hurray_lease_state(context, &state), HURRAY_ERR_INVALID_ARGUMENT);
    EXPECT_EQ(state, 77);
    hurray_tensor_context_destroy(&context);
}

TEST_F(Lifetime, CloseWakesAWaitingAttachAndRefusesWhatComesAfter) {
    Client client = connect();
    Client other = connect();
    std::thread waiter([&] {
        AttachOptions options;
        options.timeout = kForever;
        EXPECT_EQ(status_of([&] { client.attach("never", options); }), HURRAY_ERR_CLOSED);
    });
    while (used(other, "waiting") == 0) {
        std::this_thread::yield();
    }
    client.close();
    waiter.join();
    EXPECT_EQ(status_of([&] { client.list(); }), HURRAY_ERR_CLOSED);
    EXPECT_EQ(status_of([&] { client.close(); }), HURRAY_OK);
    while (used(other, "waiting") != 0) {
        std::this_thread::yield();
    }
}

TEST_F(Lifetime, CloseEndsPublicationsAndLeavesViewsValid) {
    Client producer = connect();
    Client consumer = connect();
    publish(producer, "closing", 5, 10);
    Tensor tensor = consumer.attach("closing");
    producer.close();
    HurrayStatus status = HURRAY_OK;
    while (status == HURRAY_OK) {
        status = status_of([&] { consumer.attach("closing"); });
    }
    EXPECT_EQ(status, HURRAY_ERR_NOT_FOUND);
    EXPECT_EQ(tensor.elements<std::uint32_t>()[0], 10U);
    EXPECT_EQ(tensor.state(), HURRAY_OK) << "its producer is still there";
}

TEST_F(Lifetime, MemoryOfAPublishedAllocationStaysMappedForItsBufferLists) {
    Client producer = connect();
    const std::uint64_t size = 4096;
    HurrayAllocation* allocation = nullptr;
    ASSERT_EQ(hurray_client_allocate(producer.handle(), &size, 1, nullptr, &allocation), HURRAY_OK);
    HurrayBufferList* list = nullptr;
    ASSERT_EQ(hurray_allocation_buffers(allocation, &list), HURRAY_OK);
    void* data = nullptr;
    ASSERT_EQ(hurray_allocation_data(allocation, 0, &data), HURRAY_OK);
    *static_cast<char*>(data) = 'v';
    DenseDescriptor tensor;
    tensor.element_type = ElementType::UInt8;
    tensor.shape = {size};
    const auto descriptor = tensor.encode();
    EventLog log;
    HurrayCapsuleInfo info{};
    info.struct_size = sizeof info;
    ASSERT_EQ(hurray_client_publish(producer.handle(), "view", descriptor.data(), descriptor.size(), &allocation,
                                    nullptr, &info),
              HURRAY_OK);
    EXPECT_EQ(allocation, nullptr);
    ASSERT_EQ(hurray_client_withdraw(producer.handle(), &info.capsule), HURRAY_OK);
    while (used(producer, "capsules") != 0) {
        std::this_thread::yield();
    }
    HurrayBufferList* const held = list;
    std::uint64_t length = 0;
    EXPECT_EQ(hurray_buffer_list_len(held, &length), HURRAY_OK);
    EXPECT_EQ(length, 1U);
    EXPECT_EQ(*static_cast<char*>(data), 'v');
    hurray_buffer_list_destroy(&list);
}

TEST_F(Lifetime, KilledConsumersLeasesAreToldAsLostExactlyOnceEach) {
    Client producer = connect(true);
    EventLog log;
    PublishOptions options;
    options.on_event = log.sink();
    publish(producer, "mortal", 5, 10, std::move(options));
    const auto daemon_fds = daemon_.open_descriptors();
    const int count = rounds(1000);
    std::uint64_t daemon_memory = 0;
    for (int i = 0; i < count; ++i) {
        if (i == count / 10) {
            daemon_memory = resident_bytes(daemon_.pid());
        }
        kill_now(fork_consumer("mortal"));
        while (log.count(HURRAY_EVENT_LEASE_LOST) < static_cast<std::size_t>(i) + 1) {
            ASSERT_TRUE(producer.dispatch(kWatchdog));
        }
    }
    EXPECT_EQ(log.count(HURRAY_EVENT_LEASE_LOST), static_cast<std::size_t>(count));
    EXPECT_EQ(log.count(HURRAY_EVENT_LEASE_RELEASED), 0U);
    EXPECT_EQ(used(producer, "leases"), 0U);
    EXPECT_EQ(used(producer, "clients"), 0U);
    EXPECT_EQ(daemon_.open_descriptors(), daemon_fds);
    EXPECT_LT(resident_bytes(daemon_.pid()), daemon_memory + (kIsSanitized ? 64U << 20 : 1U << 20));
}

TEST_F(Lifetime, KilledProducersConsumersKeepReadingAndAreToldOfIt) {
    Client consumer = connect(true);
    consumer.list();
    const auto daemon_fds = daemon_.open_descriptors();
    const int count = rounds(1000);
    std::uint64_t daemon_memory = 0;
    for (int i = 0; i < count; ++i) {
        if (i == count / 10) {
            daemon_memory = resident_bytes(daemon_.pid());
        }
        const auto stamp = static_cast<std::uint32_t>(i);
        const pid_t child = ::fork();
        if (child == 0) {
            Client producer = connect(true);
            publish(producer, "orphan", 1000, stamp);
            ::pause();
            ::_exit(0);
        }
        AttachOptions options;
        options.timeout = kForever;
        Tensor tensor = consumer.attach("orphan", options);
        kill_now(child);
        while (tensor.state() == HURRAY_OK) {
            consumer.list();  // reads what the daemon has said meanwhile
        }
        ASSERT_EQ(tensor.state(), HURRAY_ERR_PRODUCER_LOST);
        ASSERT_EQ(tensor.elements<std::uint32_t>()[0], stamp);
        ASSERT_EQ(tensor.elements<std::uint32_t>()[999], stamp + 999);
        ASSERT_EQ(status_of([&] { consumer.attach("orphan"); }), HURRAY_ERR_NOT_FOUND);
    }
    EXPECT_EQ(used(consumer, "leases"), 0U);
    EXPECT_EQ(used(consumer, "capsules"), 0U);
    EXPECT_EQ(used(consumer, "bytes"), 0U);
    EXPECT_EQ(daemon_.open_descriptors(), daemon_fds);
    EXPECT_LT(resident_bytes(daemon_.pid()), daemon_memory + (kIsSanitized ? 64U << 20 : 1U << 20));
}

// ---- Forked children ------------------------------------------------------------------------------------------------

TEST_F(Lifetime, ForkedChildCantUseTheParentsClientButReadsItsViews) {
    Client producer = connect();
    Client consumer = connect();
    EventLog log;
    PublishOptions options;
    options.on_event = log.sink();
    publish(producer, "forked", 5, 10, std::move(options));
    std::optional<Tensor> tensor(consumer.attach("forked"));
    const pid_t child = ::fork();
    if (child == 0) {
        int failures = 0;
        failures += status_of([&] { consumer.attach("forked"); }) == HURRAY_ERR_FORKED ? 0 : 1;
        failures += status_of([&] { producer.allocate<float>({1}); }) == HURRAY_ERR_FORKED ? 0 : 2;
        failures += status_of([&] { consumer.list(); }) == HURRAY_ERR_FORKED ? 0 : 4;
        failures += tensor->elements<std::uint32_t>()[4] == 14U ? 0 : 8;
        failures += tensor->state() == HURRAY_ERR_FORKED ? 0 : 16;
        tensor.reset();  // unmaps here, and leaves the parent's lease alone
        consumer.close();
        ::_exit(failures);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(WEXITSTATUS(status), 0);
    EXPECT_EQ(used(producer, "leases"), 1U);
    EXPECT_EQ(log.count(HURRAY_EVENT_LEASE_RELEASED), 0U);
    EXPECT_EQ(log.count(HURRAY_EVENT_LEASE_LOST), 0U);
    EXPECT_EQ(tensor->elements<std::uint32_t>()[0], 10U);
}

TEST_F(Lifetime, ForkedChildDoesNotKeepItsDeadParentsLeasesAlive) {
    Client producer = connect(true);
    EventLog log;
    PublishOptions options;
    options.on_event = log.sink();
    publish(producer, "grandchild", 5, 10, std::move(options));
    int said[2];
    ASSERT_EQ(::pipe2(said, 0), 0);
    const pid_t parent = ::fork();
    if (parent == 0) {
        Client client = connect(true);
        const Tensor tensor = client.attach("grandchild");
        const pid_t child = ::fork();
        if (child == 0) {
            ::pause();  // holds whatever it inherited
            ::_exit(0);
        }
        [[maybe_unused]] const auto written = ::write(said[1], &child, sizeof child);
        ::pause();
        ::_exit(0);
    }
    pid_t child = 0;
    ASSERT_EQ(::read(said[0], &child, sizeof child), static_cast<ssize_t>(sizeof child));
    kill_now(parent);
    while (log.count(HURRAY_EVENT_LEASE_LOST) == 0) {
        ASSERT_TRUE(producer.dispatch(kWatchdog));
    }
    ASSERT_GT(child, 0);
    ::kill(child, SIGKILL);
    ::close(said[0]);
    ::close(said[1]);
    EXPECT_EQ(used(producer, "leases"), 0U);
}

TEST_F(Lifetime, ForkedChildFillsTheParentsAllocation) {
    Client producer = connect();
    Client consumer = connect();
    Allocation allocation = producer.allocate<std::uint32_t>({1});
    const pid_t child = ::fork();
    if (child == 0) {
        allocation.elements<std::uint32_t>()[0] = 4711;
        ::_exit(0);
    }
    ::waitpid(child, nullptr, 0);
    producer.publish("filled", std::move(allocation));
    EXPECT_EQ(consumer.attach("filled").elements<std::uint32_t>()[0], 4711U);
}

// ---- Interruptions, descriptors, the daemon's end ------------------------------------------------------------------

std::atomic<int> asked{0};

TEST_F(Lifetime, SignalEndsAWaitIfTheCallerSaysSoAndNothingIsHeldAfterwards) {
    Client producer = connect();
    ConnectOptions options;
    options.address = daemon_.socket_path();
    options.interrupted = [] { return ++asked >= 2; };
    Client consumer = Client::connect(std::move(options));
    struct sigaction action{};
    action.sa_handler = [](int) {};
    struct sigaction before{};
    ::sigaction(SIGUSR1, &action, &before);
    asked = 0;
    std::atomic<bool> done{false};
    std::thread waiter([&] {
        AttachOptions attach;
        attach.timeout = kForever;
        EXPECT_EQ(status_of([&] { consumer.attach("interrupted", attach); }), HURRAY_ERR_INTERRUPTED);
        done = true;
    });
    while (used(producer, "waiting") == 0) {
        std::this_thread::yield();
    }
    const pthread_t thread = waiter.native_handle();
    while (!done) {
        if (asked < 2) {
            ::pthread_kill(thread, SIGUSR1);
        }
        std::this_thread::yield();
    }
    waiter.join();
    ::sigaction(SIGUSR1, &before, nullptr);
    publish(producer, "interrupted", 1, 1);
    EXPECT_EQ(status_of([&] { consumer.attach("interrupted"); }), HURRAY_OK) << "the client goes on";
    while (used(producer, "leases") != 0) {
        consumer.list();
    }
    EXPECT_EQ(used(producer, "waiting"), 0U);
}

TEST_F(Lifetime, GrantThatFindsNoFreeDescriptorIsGivenBackAndTheSameAttachWorksLater) {
    if (kIsSanitized) {
        GTEST_SKIP() << kNoDescriptorsLeftNote;
    }
    Client producer = connect();
    Client consumer = connect(true);
    publish(producer, "no/room", 1, 7);
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    const rlimit none = {static_cast<rlim_t>(count_open_descriptors()), limit.rlim_max};
    std::string message;
    HurrayStatus status = HURRAY_OK;
    {
        // The lowest free number is what counts: fill every gap below the limit.
        std::vector<int> fillers;
        for (int fd = ::dup(0); fd >= 0; fd = ::dup(0)) {
            if (static_cast<rlim_t>(fd) >= none.rlim_cur) {
                ::close(fd);
                break;
            }
            fillers.push_back(fd);
        }
        ::setrlimit(RLIMIT_NOFILE, &none);
        status = status_of([&] { consumer.attach("no/room"); }, &message);
        ::setrlimit(RLIMIT_NOFILE, &limit);
        for (const int fd : fillers) {
            ::close(fd);
        }
    }
    EXPECT_EQ(status, HURRAY_ERR_LIMIT);
    EXPECT_NE(message.find("RLIMIT_NOFILE"), std::string::npos) << message;
    EXPECT_EQ(consumer.attach("no/room").elements<std::uint32_t>()[0], 7U);
    while (used(producer, "leases") != 0) {
        consumer.list();
    }
}

TEST_F(Lifetime, DaemonsDeathIsToldOnceToWhoDoesNotReconnectAndViewsStayReadable) {
    Client producer = connect_once();
    EventLog connection;
    ConnectOptions connect_options;
    connect_options.address = daemon_.socket_path();
    connect_options.on_event = connection.sink();
    connect_options.reconnects = false;
    Client consumer = Client::connect(std::move(connect_options));
    EventLog log;
    PublishOptions options;
    options.on_event = log.sink();
    publish(producer, "survivor", 5, 10, std::move(options));
    const Tensor tensor = consumer.attach("survivor");

    daemon_.end(SIGKILL);

    ASSERT_TRUE(connection.wait_for(HURRAY_EVENT_CONNECTION));
    ASSERT_TRUE(log.wait_for(HURRAY_EVENT_ENDED));
    EXPECT_EQ(connection.all()[0].event.status, HURRAY_ERR_CONNECTION_LOST);
    EXPECT_EQ(log.kinds(), (std::vector<std::uint32_t>{HURRAY_EVENT_LEASE_LOST, HURRAY_EVENT_ENDED}));
    EXPECT_FALSE(log.all()[1].event.reusable) << "somebody is reading it still";
    EXPECT_EQ(tensor.elements<std::uint32_t>()[4], 14U);
    EXPECT_EQ(tensor.state(), HURRAY_ERR_CONNECTION_LOST);
    EXPECT_EQ(status_of([&] { consumer.attach("survivor"); }), HURRAY_ERR_CONNECTION_LOST);
    EXPECT_EQ(status_of([&] { producer.list(); }), HURRAY_ERR_CONNECTION_LOST);
}

TEST_F(Lifetime, PollableDescriptorIsReadableWhileSomethingWaitsToBeDispatched) {
    Client producer = connect(true);
    Client consumer = connect();
    EventLog log;
    PublishOptions options;
    options.on_event = log.sink();
    const CapsuleInfo info = publish(producer, "polled", 1, 1, std::move(options));
    pollfd ready{producer.poll_fd(), POLLIN, 0};
    EXPECT_FALSE(producer.dispatch());

    consumer.attach("polled").release();
    while (log.count(HURRAY_EVENT_LEASE_RELEASED) == 0) {  // `opened` comes first, of which only the library is told
        ASSERT_EQ(::poll(&ready, 1, 60'000), 1);
        producer.dispatch();
    }

    // An event that was read by another call, while it waited for its own reply, still makes the descriptor readable.
    consumer.attach("polled").release();
    while (log.count(HURRAY_EVENT_LEASE_RELEASED) < 2) {
        producer.list();
        if (::poll(&ready, 1, 0) == 1) {
            producer.dispatch();
        }
    }
    producer.withdraw(info.capsule);
    while (log.count(HURRAY_EVENT_ENDED) == 0) {
        ASSERT_EQ(::poll(&ready, 1, 60'000), 1);
        producer.dispatch();
    }
    EXPECT_EQ(log.count(HURRAY_EVENT_LEASE_RELEASED), 2U);
}

}  // namespace
}  // namespace hurray::test
