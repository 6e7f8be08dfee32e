// Forks, threads and finalizers: who may speak for whom, and what may wait for what.
#include <array>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <latch>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "tests/integration/client_test.hpp"
#include "tests/support/child.hpp"
#include "tests/support/old_kernel.hpp"
#include "tests/support/puppet_daemon.hpp"
#include "tests/support/raw_peer.hpp"
#include "tests/support/sanitized.hpp"

namespace hurray::test {
namespace {

/// Runs `body` in a forked child; 0 if it returned true, else what went wrong.
int in_child(const std::function<bool()>& body) {
    const pid_t child = ::fork();
    if (child == 0) {
        bool good = false;
        try {
            good = body();
        } catch (const std::exception& failure) {
            std::fprintf(stderr, "child: %s\n", failure.what());
        }
        ::_exit(good ? 0 : 1);
    }
    return wait_for_end(child);
}

AttachOptions wait_forever() {
    AttachOptions options;
    options.timeout = kForever;
    return options;
}

// ---- Forked children ------------------------------------------------------------------------------------------------

class Fork : public ClientTest {};

TEST_F(Fork, ChildThatDestroysEveryHandleDoesNotSpeakForItsParent) {
    std::optional<Client> producer(connect());
    std::optional<Client> consumer(connect());
    std::optional<Client> dispatching(connect(true));
    EventLog log;
    PublishOptions options;
    options.on_event = log.sink();
    publish(*producer, "forked", 5, 10, std::move(options));
    std::optional<Tensor> tensor(consumer->attach("forked"));
    std::optional<Tensor> other_tensor(dispatching->attach("forked"));
    std::optional<Allocation> allocation(producer->allocate<std::uint32_t>({1}));
    EventLog watched;
    std::optional<Watch> watch(consumer->watch("", watched.sink()));
    ASSERT_TRUE(watched.wait_for(HURRAY_EVENT_SNAPSHOT_END));

    EXPECT_EQ(in_child([&] {
                  const auto elements = tensor->elements<std::uint32_t>();
                  const bool readable = elements[4] == 14;
                  tensor.reset();
                  allocation.reset();
                  watch.reset();
                  consumer.reset();
                  producer.reset();
                  dispatching.reset();
                  other_tensor.reset();  // after its client
                  return readable;
              }),
              0);

    EXPECT_EQ(used(*consumer, "leases"), 2U);
    EXPECT_EQ(used(*consumer, "clients"), 2U) << "beside the one that asks";
    EXPECT_EQ(used(*consumer, "watches"), 1U);
    EXPECT_EQ(used(*consumer, "capsules"), 1U);
    EXPECT_EQ(log.all().size(), 0U) << "the producer was told of an end that was none";
    allocation->elements<std::uint32_t>()[0] = 5;
    producer->publish("allocated", std::move(*allocation));
    EXPECT_TRUE(watched.wait_for(HURRAY_EVENT_PUBLISHED)) << "the parent's watch goes on";
    EXPECT_EQ(consumer->attach("allocated").elements<std::uint32_t>()[0], 5U);
    tensor->release();
    EXPECT_TRUE(log.wait_for(HURRAY_EVENT_LEASE_RELEASED));
}

// case D6
TEST_F(Fork, ParentAndChildAttachAtOnceAndNeitherGetsWhatIsTheOthers) {
    Client producer = connect();
    Client client = connect();
    publish(producer, "x", 1000, 10);
    const int attaches = rounds(1000);
    const auto attach_all = [&](Client& one) {
        for (int i = 0; i < attaches; ++i) {
            if (one.attach("x").elements<std::uint32_t>()[999] != 1009) {
                return false;
            }
        }
        return true;
    };
    enum class Leaves { Exit, AtOnce, Killed };
    for (const Leaves leaves : {Leaves::Exit, Leaves::AtOnce, Leaves::Killed}) {
        const std::array<Tensor, 2> held = {client.attach("x"), client.attach("x")};
        const pid_t child = ::fork();
        if (child == 0) {
            bool good = status_of([&] { client.attach("x"); }) == HURRAY_ERR_FORKED;
            try {
                Client own = connect(true);  // no threads in a child
                good = good && attach_all(own) && held[0].elements<std::uint32_t>()[0] == 10U;
            } catch (const std::exception&) {
                good = false;
            }
            if (leaves == Leaves::Killed && good) {
                ::raise(SIGKILL);
            }
            if (leaves == Leaves::Exit && good &&
                !kIsSanitized) {  // which looks for leaks then, in a copy of half a process
                std::exit(0);
            }
            ::_exit(good ? 0 : 1);
        }
        EXPECT_TRUE(attach_all(client));
        const int status = wait_for_end(child);
        EXPECT_EQ(status, leaves == Leaves::Killed ? SIGKILL : 0);
        while (used(producer, "leases") != 2) {  // those that were released last may be on their way
            std::this_thread::yield();
        }
        EXPECT_EQ(held[1].elements<std::uint32_t>()[0], 10U);
        EXPECT_EQ(held[1].state(), HURRAY_OK);
    }
}

TEST_F(Fork, ChildDestroysHandlesWhateverItsParentsThreadsHeldLocked) {
    if (kIsSanitized) {
        GTEST_SKIP() << kNoForkBesideThreadsNote;
    }
    Client producer = connect();
    Client client = connect();
    publish(producer, "busy", 5, 10);
    std::atomic<bool> stop{false};
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i) {
        threads.emplace_back([&] {
            while (!stop) {
                client.attach("busy").release();
                const Watch watch = client.watch("", [](const Event&) {});
            }
        });
    }
    int wrong = 0;
    for (int i = 0; i < rounds(300) && wrong == 0; ++i) {
        std::optional<Tensor> tensor(client.attach("busy"));
        wrong = in_child([&] {
            tensor.reset();
            Client gone = std::move(client);
            return true;
        });
    }
    stop = true;
    for (std::thread& thread : threads) {
        thread.join();
    }
    EXPECT_EQ(wrong, 0) << "stuck, if killed by signal 9";
    while (used(producer, "leases") != 0) {
        client.list();
    }
}

TEST_F(Fork, CallbackMayForkWhileOtherThreadsReadTheSameWatch) {
    if (kIsSanitized) {
        GTEST_SKIP() << kNoForkBesideThreadsNote;
    }
    Client client = connect();
    Client other = connect();
    const pid_t parent = ::getpid();
    std::atomic<int> forked{0};
    std::atomic<int> wrong{0};
    const int wanted = rounds(200);
    // Each event of the watch is booked by whoever reads, under the watch's lock, while its callback forks.
    Watch watch = client.watch("", [&](const Event&) {
        const pid_t child = forked < wanted ? ::fork() : -1;
        if (child == 0) {
            return;  // on the library's thread: it ends this thread of the child, and with it the child
        }
        if (child > 0) {
            const int status = wait_for_end(child);
            // The thread sanitizer may crash where a child of many threads exits: there only "stuck" counts.
            const bool good = kIsThreadSanitized ? !WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL : status == 0;
            wrong += good ? 0 : 1;
            ++forked;
        }
    });
    while (forked < wanted && wrong == 0) {
        publish(other, "event", 1, 1);
        const int status = status_of([&] { client.list(); });
        if (::getpid() != parent) {
            ::_exit(status == HURRAY_ERR_FORKED ? 0 : 1);  // list() ran the callback
        }
        ASSERT_EQ(status, HURRAY_OK);
    }
    EXPECT_EQ(wrong, 0) << "stuck, if killed by signal 9";
}

/// Which of a client's connections a fork falls into.
class ForkBesideAHello : public ::testing::TestWithParam<int> {};

// Until the daemon had answered, its socket was on nobody's list of what a child closes: the connection lived for as long as the child.
TEST_P(ForkBesideAHello, ChildDoesNotKeepTheConnection) {
    pid_t child = -1;
    PuppetDaemon daemon(
        [](const wire::Request& request) -> PuppetDaemon::Answers {
            return std::holds_alternative<wire::List>(request.message) ? PuppetDaemon::Answers{}
                                                                       : PuppetDaemon::Answers{wire::Done{}};
        },
        [&, hellos = 0]() mutable {
            if (++hellos == GetParam()) {
                child = ::fork();
                while (child == 0) {
                    ::pause();
                }
            }
        });
    {
        EventLog log;
        ConnectOptions options;
        options.address = daemon.path();
        options.on_event = log.sink();
        Client client = Client::connect(std::move(options));
        for (std::size_t connections = 1; connections < static_cast<std::size_t>(GetParam()); ++connections) {
            EXPECT_EQ(status_of([&] { client.list(); }), HURRAY_ERR_CONNECTION_LOST);
            ASSERT_TRUE(log.wait_for(HURRAY_EVENT_CONNECTION, 2 * connections));
        }
    }
    const auto left = std::async(std::launch::async, [&] { daemon.join(); });
    EXPECT_EQ(left.wait_for(kWatchdog), std::future_status::ready);
    ::kill(child, SIGKILL);
    wait_for_end(child);
}

INSTANTIATE_TEST_SUITE_P(Of, ForkBesideAHello, ::testing::Values(1, 2), [](const auto& info) {
    return info.param == 1 ? "AClientThatConnects" : "AClientThatComesBack";
});

// ---- Destroying -----------------------------------------------------------------------------------------------------

class Destroy : public ClientTest {};

TEST_F(Destroy, WaitsForNobodyWhileTheDaemonIsStoppedAndAnotherThreadWaits) {
    Client producer = connect();
    Client consumer = connect();
    publish(producer, "stopped", 5, 10);
    std::vector<Tensor> tensors;
    for (int i = 0; i < 100; ++i) {
        tensors.push_back(consumer.attach("stopped"));
    }
    std::optional<Allocation> allocation(consumer.allocate<float>({1}));
    std::thread waiter(
        [&] { EXPECT_EQ(status_of([&] { consumer.attach("never", wait_forever()); }), HURRAY_ERR_CLOSED); });
    while (used(producer, "waiting") == 0) {
        std::this_thread::yield();
    }
    ::kill(daemon_.pid(), SIGSTOP);
    tensors.clear();  // the daemon goes on only after this: had it to answer, this would wait for ever
    allocation.reset();
    ::kill(daemon_.pid(), SIGCONT);
    while (used(producer, "leases") != 0) {
        std::this_thread::yield();
    }
    consumer.close();
    waiter.join();
}

TEST_F(Destroy, IsDoneInsideEveryCallback) {
    Client producer = connect();
    publish(producer, "inside", 5, 10);
    std::vector<Tensor> tensors;
    std::atomic<std::size_t> left{5};
    std::atomic<bool> is_interrupted{false};
    const auto drop = [&](std::size_t index) {
        if (tensors[index].context() != nullptr) {
            tensors[index].release();
            --left;
        }
    };
    ConnectOptions options;
    options.address = daemon_.socket_path();
    options.on_event = [&](const Event&) { drop(0); };
    options.interrupted = [&] {
        drop(1);
        is_interrupted = true;
        return true;
    };
    Client client = Client::connect(std::move(options));
    for (int i = 0; i < 5; ++i) {
        tensors.push_back(client.attach("inside"));
    }

    client.for_each("", [&](const CapsuleInfo&) { drop(2); });
    {
        std::latch told(1);
        Watch watch = client.watch("inside", [&](const Event& event) {
            if (event.kind == HURRAY_EVENT_SNAPSHOT_END) {
                drop(3);
                told.count_down();
            }
        });
        told.wait();
    }
    PublishOptions publish_options;
    EventLog log;
    publish_options.on_event = [&, sink = log.sink()](const Event& event) {
        drop(4);
        sink(event);
    };
    publish(client, "own", 1, 1, std::move(publish_options));
    client.attach("own").release();
    EXPECT_TRUE(log.wait_for(HURRAY_EVENT_LEASE_RELEASED));

    struct sigaction action{};
    struct sigaction before{};
    action.sa_handler = [](int) {};
    ::sigaction(SIGUSR1, &action, &before);
    std::thread waiter(
        [&] { EXPECT_EQ(status_of([&] { client.attach("never", wait_forever()); }), HURRAY_ERR_INTERRUPTED); });
    while (used(producer, "waiting") == 0) {
        std::this_thread::yield();
    }
    while (!is_interrupted) {
        ::pthread_kill(waiter.native_handle(), SIGUSR1);
        std::this_thread::yield();
    }
    waiter.join();
    ::sigaction(SIGUSR1, &before, nullptr);
    while (used(producer, "leases") != 1) {
        client.list();
    }
    daemon_.end(SIGTERM);
    while (left != 0) {
        std::this_thread::yield();
    }
}

// ---- Closing --------------------------------------------------------------------------------------------------------

class Close : public ClientTest, public ::testing::WithParamInterface<bool> {};

TEST_P(Close, WakesTheOneThatReadsAndAllThatSleepBesideIt) {
    const bool dispatch_by_caller = GetParam();
    Client client = connect(dispatch_by_caller);
    Client other = connect();
    std::vector<std::thread> waiters;
    for (int i = 0; i < 8; ++i) {
        waiters.emplace_back([&, i] {
            const auto attach = [&] { client.attach("never/" + std::to_string(i), wait_forever()); };
            EXPECT_EQ(status_of(attach), HURRAY_ERR_CLOSED);
        });
    }
    if (dispatch_by_caller) {
        waiters.emplace_back([&] {
            HurrayStatus status = HURRAY_OK;
            while (status == HURRAY_OK) {
                status = status_of([&] { client.dispatch(kForever); });
            }
            EXPECT_EQ(status, HURRAY_ERR_CLOSED);
        });
    }
    while (used(other, "waiting") != 8) {
        std::this_thread::yield();
    }
    client.close();
    for (std::thread& waiter : waiters) {
        waiter.join();
    }
    while (used(other, "waiting") != 0) {
        std::this_thread::yield();
    }
}

TEST_P(Close, LeavesViewsThatOtherThreadsRead) {
    Client producer = connect();
    EventLog log;
    PublishOptions options;
    options.on_event = log.sink();
    publish(producer, "viewed", 1000, 10, std::move(options));
    std::optional<Client> client(connect(GetParam()));
    std::vector<Tensor> tensors;
    for (int i = 0; i < 4; ++i) {
        tensors.push_back(client->attach("viewed"));
    }
    std::atomic<bool> is_closed{false};
    std::latch reading(4);
    std::vector<std::thread> readers;
    for (Tensor& tensor : tensors) {
        readers.emplace_back([&] {
            reading.count_down();
            for (bool last = false; !last;) {
                last = is_closed;  // once more after it
                const auto elements = tensor.elements<std::uint32_t>();
                for (std::uint32_t k = 0; k < elements.size(); ++k) {
                    ASSERT_EQ(elements[k], 10 + k);
                }
                ASSERT_EQ(tensor.state(), HURRAY_OK);
            }
            tensor.release();
        });
    }
    reading.wait();
    client->close();
    client.reset();
    is_closed = true;
    for (std::thread& reader : readers) {
        reader.join();
    }
    EXPECT_TRUE(log.wait_for(HURRAY_EVENT_LEASE_RELEASED, 4));
    EXPECT_EQ(log.count(HURRAY_EVENT_LEASE_LOST), 0U);
}

INSTANTIATE_TEST_SUITE_P(Pumped, Close, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "ByTheCaller" : "ByTheLibrary"; });

// ---- Older kernels: case D9 -----------------------------------------------------------------------------------------

/// A daemon that the kernel doesn't tell of a peer's death: it learns it by the end of the last copy of the peer's socket.
class WithoutPidfd : public ::testing::Test {
  protected:
    Client connect() {
        ConnectOptions options;
        options.address = daemon_.socket_path();
        options.dispatch_by_caller = true;  // children get no threads
        return Client::connect(std::move(options));
    }
    /// Waits until `log` has what is asked for, or the watchdog barks.
    static bool dispatch_until(Client& client, const EventLog& log, std::uint32_t kind) {
        while (log.count(kind) == 0) {
            if (!client.dispatch(kWatchdog)) {
                return false;
            }
        }
        return true;
    }
    Client publishing(EventLog& log) {
        Client producer = connect();
        Allocation allocation = producer.allocate<std::uint32_t>({1});
        allocation.elements<std::uint32_t>()[0] = 4711;
        PublishOptions options;
        options.on_event = log.sink();
        producer.publish("old", std::move(allocation), std::move(options));
        return producer;
    }

    DaemonProcess daemon_{{{}, {}, {}, {}, refuse_peer_pidfd}};
};

TEST_F(WithoutPidfd, HandleThatAChildDestroysDoesNotSpeakForItsParent) {
    EventLog log;
    Client producer = publishing(log);
    Client consumer = connect();
    std::optional<Tensor> tensor(consumer.attach("old"));
    EXPECT_EQ(in_child([&] {
                  const bool readable = tensor->elements<std::uint32_t>()[0] == 4711;
                  tensor.reset();
                  Client gone = std::move(consumer);
                  return readable;
              }),
              0);
    consumer.list();  // what the child had said would have been heard before this
    EXPECT_FALSE(producer.dispatch());
    EXPECT_EQ(tensor->elements<std::uint32_t>()[0], 4711U);
    tensor.reset();
    EXPECT_TRUE(dispatch_until(producer, log, HURRAY_EVENT_LEASE_RELEASED));
    EXPECT_EQ(log.count(HURRAY_EVENT_LEASE_LOST), 0U);
    const std::string said = daemon_.log();
    const std::size_t once = said.find("no_peer_pidfd");
    EXPECT_NE(once, std::string::npos) << "the shim did not work: " << said;
    EXPECT_EQ(said.find("no_peer_pidfd", once + 1), std::string::npos) << said;
}

TEST_F(WithoutPidfd, DeadParentsLeaseIsLostThoughItsChildLivesOn) {
    EventLog log;
    Client producer = publishing(log);
    int said[2];
    ASSERT_EQ(::pipe2(said, O_CLOEXEC), 0);
    const pid_t parent = ::fork();
    if (parent == 0) {
        Client client = connect();
        const Tensor tensor = client.attach("old");
        const pid_t child = ::fork();
        if (child == 0) {
            ::pause();  // holds whatever it inherited; the library has closed the connection here
            ::_exit(0);
        }
        [[maybe_unused]] const auto written = ::write(said[1], &child, sizeof child);
        ::pause();
        ::_exit(0);
    }
    pid_t child = 0;
    ASSERT_EQ(::read(said[0], &child, sizeof child), static_cast<ssize_t>(sizeof child));
    ::kill(parent, SIGKILL);
    ::waitpid(parent, nullptr, 0);
    EXPECT_TRUE(dispatch_until(producer, log, HURRAY_EVENT_LEASE_LOST));
    EXPECT_EQ(log.count(HURRAY_EVENT_LEASE_LOST), 1U);
    ASSERT_GT(child, 0);
    ::kill(child, SIGKILL);
    ::close(said[0]);
    ::close(said[1]);
}

TEST(WithoutNoexecSeal, MemoryIsPublishedAndAttachedAllTheSame) {
    DaemonProcess daemon;
    EXPECT_EQ(in_child([&] {
                  refuse_noexec_seal();
                  ConnectOptions options;
                  options.address = daemon.socket_path();
                  options.dispatch_by_caller = true;
                  Client client = Client::connect(std::move(options));
                  Allocation allocation = client.allocate<std::uint32_t>({1});
                  allocation.elements<std::uint32_t>()[0] = 4711;
                  client.publish("old", std::move(allocation));
                  return client.attach("old").elements<std::uint32_t>()[0] == 4711;
              }),
              0);
}

// ---- Few descriptors: case D1 ---------------------------------------------------------------------------------------

std::uint64_t leases_in(const Client& client) {
    const auto status = nlohmann::json::parse(client.status());
    for (const auto& use : status.at("uses")) {
        if (use.at("name") == "leases") {
            return use.at("used").get<std::uint64_t>();
        }
    }
    throw std::runtime_error("no leases are counted");
}

/// A process of few descriptors attaches one tensor that fits what is free, one that does not, and then a thousand.
bool attaches_with_few_descriptors(const std::string& socket) {
    const auto require = [](bool right, const char* what) {
        if (!right) {
            throw std::runtime_error(what);
        }
    };
    ConnectOptions options;
    options.address = socket;
    options.dispatch_by_caller = true;
    Client client = Client::connect(std::move(options));
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = 64;
    ::setrlimit(RLIMIT_NOFILE, &limit);
    std::vector<UniqueFd> fillers;
    while (UniqueFd filler = UniqueFd(::dup(0))) {
        fillers.push_back(std::move(filler));
    }
    fillers.resize(fillers.size() - 2);  // two are free: enough to look at one's own, and for one descriptor
    const std::size_t before = count_open_descriptors();
    require(client.attach("one").elements<std::uint32_t>()[0] == 4711, "one descriptor fits");
    std::string message;
    require(status_of([&] { client.attach("three"); }, &message) == HURRAY_ERR_LIMIT, "three do not");
    require(message.find("RLIMIT_NOFILE") != std::string::npos, message.c_str());
    require(count_open_descriptors() == before, "those that came are closed");
    while (leases_in(client) != 0) {
    }
    fillers.resize(fillers.size() - 10);
    {
        const Tensor three = client.attach("three");
        std::uint64_t buffers = 0;
        require(hurray_buffer_list_len(three.buffers(), &buffers) == HURRAY_OK && buffers == 3, "all three buffers");
    }
    const std::size_t with_room = count_open_descriptors();
    std::vector<Tensor> kept;
    for (int i = 0; i < 1000; ++i) {
        kept.push_back(client.attach("many/" + std::to_string(i)));
    }
    require(count_open_descriptors() < with_room + 10, "a thousand tensors cost no descriptors");
    require(leases_in(client) == 1000, "and are held");
    return true;
}

/// What such a process attaches: one tensor in one segment, one in three, a thousand in one each.
void publish_for_few_descriptors(const std::string& socket) {
    ConnectOptions options;
    options.address = socket;
    auto* client = new Client(Client::connect(std::move(options)));  // until the kill
    Allocation allocation = client->allocate<std::uint32_t>({1});
    allocation.elements<std::uint32_t>()[0] = 4711;
    client->publish("one", std::move(allocation));
    DescriptorBuilder csr(ElementType::Float32, {3, 4});
    csr.csr(3).buffer(12).buffer(24).buffer(32);
    const std::vector<UniqueFd> owned = [] {
        std::vector<UniqueFd> made;
        for (int i = 0; i < 3; ++i) {
            made.push_back(make_memfd());
        }
        return made;
    }();
    const std::vector<std::int32_t> fds = {owned[0].get(), owned[1].get(), owned[2].get()};
    client->publish_fds("three", csr.encode(), fds);
    DenseDescriptor dense;
    dense.element_type = ElementType::UInt8;
    dense.shape = {1000};
    for (int i = 0; i < 1000; ++i) {
        const UniqueFd memfd = make_memfd();
        const std::int32_t fd = memfd.get();
        client->publish_fds("many/" + std::to_string(i), dense.encode(), std::span(&fd, 1));
    }
}

TEST(FewDescriptors, WhatDoesNotFitIsGivenBackAndKeptTensorsCostNone) {  // case D1
    if (kIsSanitized) {
        GTEST_SKIP() << kNoDescriptorsLeftNote;
    }
    DaemonProcess daemon;
    const Child producer([&] { publish_for_few_descriptors(daemon.socket_path()); });
    EXPECT_EQ(in_child([&] { return attaches_with_few_descriptors(daemon.socket_path()); }), 0);
}

// ---- Nothing that is young: case D9 ---------------------------------------------------------------------------------

/// All that the daemon or the library could use and old kernels don't have.
void refuse_all_that_is_young() {
    refuse_peer_pidfd();
    refuse_pidfd_calls();
    refuse_noexec_seal();
}

class OldKernel : public ::testing::Test {
  protected:
    void TearDown() override {
        if (IsSkipped()) {
            return;  // nobody has come
        }
        const std::string said = daemon.log();
        const std::size_t once = said.find("no_peer_pidfd");
        EXPECT_NE(once, std::string::npos) << said;
        EXPECT_EQ(said.find("no_peer_pidfd", once + 1), std::string::npos) << "said more than once: " << said;
    }
    DaemonProcess daemon{{{}, {}, {}, {}, refuse_all_that_is_young}};
};

TEST_F(OldKernel, KilledConsumersLoseTheirLeasesOnceEach) {  // cases D9, C1
    RawPeer producer = RawPeer::greeted(daemon.socket_path());
    producer.publish(make_tensor("t"));
    const wire::Id16 session = fresh_id();
    for (int round = 0; round < 50; ++round) {
        Child consumer([&] {
            refuse_all_that_is_young();
            auto* p = new RawPeer(RawPeer::greeted(daemon.socket_path(), session));
            for (std::uint64_t lease = 1; lease <= 4; ++lease) {
                p->attach(lease, "t");
            }
        });
        for (std::uint64_t i = 1; i <= 4; ++i) {
            ASSERT_EQ(producer.next<wire::LeaseEvent>().remaining, i);
        }
        consumer.kill();
        std::set<std::uint64_t> lost;
        for (std::uint64_t i = 1; i <= 4; ++i) {
            const auto event = producer.next<wire::LeaseEvent>();
            EXPECT_EQ(event.what, wire::LeaseEvent::What::Lost);
            EXPECT_EQ(event.remaining, 4 - i);
            lost.insert(event.lease.lease);
        }
        EXPECT_EQ(lost.size(), 4u);
    }
    EXPECT_FALSE(producer.try_receive());
}

TEST_F(OldKernel, FewDescriptorsAreDealtWithAsEver) {  // cases D9, D1
    if (kIsSanitized) {
        GTEST_SKIP() << kNoDescriptorsLeftNote;
    }
    const Child producer([&] {
        refuse_all_that_is_young();
        publish_for_few_descriptors(daemon.socket_path());
    });
    EXPECT_EQ(in_child([&] {
                  refuse_all_that_is_young();
                  return attaches_with_few_descriptors(daemon.socket_path());
              }),
              0);
}

}  // namespace
}  // namespace hurray::test
