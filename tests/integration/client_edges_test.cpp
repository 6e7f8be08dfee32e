// Rare orders of things, hostile daemons, forks at the wrong moment. Each of these went wrong once.
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <future>
#include <latch>
#include <thread>

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/wire/codec.hpp"
#include "proto/wire/packet_socket.hpp"
#include "tests/integration/client_test.hpp"
#include "tests/support/child.hpp"
#include "tests/support/out_of_range.hpp"
#include "tests/support/raw_peer.hpp"
#include "tests/support/sanitized.hpp"
#include "tests/support/temporary_directory.hpp"
#include "tests/support/test_tensor.hpp"

namespace hurray::test {
namespace {

/// A hurrayd that says what the test wants.
class StubDaemon {
  public:
    StubDaemon() : listener_(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
        sockaddr_un name{};
        name.sun_family = AF_UNIX;
        std::snprintf(name.sun_path, sizeof name.sun_path, "%s", path().c_str());
        if (::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0 ||
            ::listen(listener_.get(), 16) != 0) {
            throw std::runtime_error("stub");
        }
    }
    std::string path() const { return directory_ / "stub.sock"; }
    Client connect(ConnectOptions options = {}) {
        options.address = path();
        options.reconnects = false;  // it answers one client, as the test says
        if (options.interrupted) {   // once it is connected
            options.interrupted = [this, ask = std::move(options.interrupted)] { return is_connected_ && ask(); };
        }
        auto greeted = std::async(std::launch::async, [this] {
            peer_ = UniqueFd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
            const auto hello = receive();
            wire::HelloReply reply;
            reply.version = 1;
            reply.instance = fresh_id();
            send({hello.request_id, reply});
        });
        Client client = Client::connect(std::move(options));
        greeted.get();
        is_connected_ = true;
        return client;
    }
    wire::Request receive() {
        std::vector<std::byte> buffer(1 << 20);
        auto received = wire::receive_packet(peer_.get(), buffer);
        if (!received || received->kind != wire::Received::Kind::Packet) {
            throw std::runtime_error("stub: end");
        }
        auto request = wire::decode_request(std::span(buffer).first(received->size), received->fds.size());
        if (!request) {
            throw std::runtime_error("stub: " + request.error().error.message);
        }
        return std::move(*request);
    }
    void send(const wire::Packet& packet, std::initializer_list<int> fds = {}) {
        std::string bytes = wire::encoded(packet);
        [[maybe_unused]] const auto sent =
            wire::send_packet(peer_.get(), std::as_bytes(std::span(bytes)), std::span(fds.begin(), fds.size()));
    }
    /// Grants an empty tensor.
    void grant(const wire::Request& request, const wire::CapsuleId& capsule) {
        wire::AttachReply reply;
        reply.capsule = capsule;
        reply.name = "stub";
        reply.version = 1;
        reply.descriptor = make_descriptor(0);
        reply.placements = {{0, 0}};
        send({request.request_id, reply});
    }
    bool readable(int ms) {
        pollfd waiting{peer_.get(), POLLIN, 0};
        return ::poll(&waiting, 1, ms) == 1;
    }
    int fd() const { return peer_.get(); }

  private:
    TemporaryDirectory directory_;
    UniqueFd listener_;
    UniqueFd peer_;
    std::atomic<bool> is_connected_{false};
};

std::vector<std::uint8_t> long_descriptor(std::size_t size) {
    std::string text = make_descriptor(0);
    text[5] = 1;  // a later minor version may have appended something
    text.resize(size, '\0');
    const auto length = static_cast<std::uint32_t>(size);
    std::memcpy(text.data() + 6, &length, sizeof length);
    return {text.begin(), text.end()};
}

class Edges : public ClientTest {};

TEST_F(Edges, OneClientTooManyIsToldWhichQuotaItIsAndHowManyThereAre) {
    std::vector<RawPeer> others;
    for (int i = 0; i < 256; ++i) {
        others.push_back(RawPeer::greeted(daemon_.socket_path()));
    }
    try {
        connect();
        FAIL() << "it was let in";
    } catch (const StatusError& error) {
        EXPECT_EQ(error.status(), HURRAY_ERR_OVER_QUOTA);
        EXPECT_NE(std::string(error.what()).find("256 connections; at most 256 are allowed (quota.user.clients)"),
                  std::string::npos)
            << error.what();
    }
    others.clear();
}

// F: a program's loop `while (dispatch(-1))` ends when the client is closed, whenever close comes.
TEST_F(Edges, DispatchAfterCloseDoesNotWait) {
    Client client = connect(true);
    client.close();
    EXPECT_EQ(status_of([&] { client.dispatch(1000ms); }), HURRAY_ERR_CLOSED);
}

TEST(StubbedDaemon, ProducerLostRightAfterTheGrantIsNotMissed) {
    StubDaemon stub;
    Client client = stub.connect();
    int missed = 0;
    for (int i = 0; i < 300; ++i) {
        auto daemon = std::async(std::launch::async, [&] {
            const auto request = stub.receive();
            const wire::CapsuleId capsule{0, fresh_id()};
            stub.grant(request, capsule);
            stub.send({0, wire::ProducerLost{capsule}});
        });
        Tensor tensor = client.attach("stub");
        daemon.get();
        for (int k = 0; k < 200 && tensor.state() == HURRAY_OK; ++k) {
            std::this_thread::sleep_for(1ms);
        }
        missed += tensor.state() == HURRAY_OK ? 1 : 0;
        if (missed > 3) {
            break;
        }
        tensor.release();
        const auto released = stub.receive();
        stub.send({released.request_id, wire::Done{}});
    }
    EXPECT_EQ(missed, 0);
}

TEST(StubbedDaemon, FailedWatchCallsBackNoMore) {
    StubDaemon stub;
    ConnectOptions options;
    options.dispatch_by_caller = true;
    Client client = stub.connect(std::move(options));
    auto daemon = std::async(std::launch::async, [&] {
        const auto request = stub.receive();
        wire::Watched present;
        present.watch = std::get<wire::Watch>(request.message).watch;
        present.what = wire::Watched::What::SnapshotEnd;
        stub.send({0, present});
        stub.send({request.request_id, Error{Errc::OverQuota, "no"}});
    });
    std::atomic<int> told{0};
    const auto callback = [](const HurrayEvent*, void* context) { ++*static_cast<std::atomic<int>*>(context); };
    std::uint64_t watch = 0;
    EXPECT_EQ(hurray_client_watch(client.handle(), nullptr, callback, &told, &watch), HURRAY_ERR_OVER_QUOTA);
    daemon.get();
    client.dispatch();
    EXPECT_EQ(told, 0) << "the context may be gone by now";
}

// The client went as soon as it held no lease, and what it was granted too late was lost, and never used again by its producer.
TEST(StubbedDaemon, WhatIsGrantedTooLateIsReleasedThoughTheClientIsGone) {
    StubDaemon stub;
    ConnectOptions options;
    options.interrupted = [] { return true; };
    std::optional<Client> client(stub.connect(std::move(options)));
    struct sigaction action{};
    action.sa_handler = [](int) {};
    ::sigaction(SIGUSR1, &action, nullptr);
    std::atomic<bool> done{false};
    std::thread waiter([&] {
        AttachOptions attach;
        attach.timeout = kForever;
        EXPECT_EQ(status_of([&] { client->attach("late", attach); }), HURRAY_ERR_INTERRUPTED);
        done = true;
    });
    const auto request = stub.receive();
    while (!done) {
        ::pthread_kill(waiter.native_handle(), SIGUSR1);
        std::this_thread::sleep_for(1ms);
    }
    waiter.join();
    EXPECT_TRUE(std::holds_alternative<wire::Cancel>(stub.receive().message));
    client.reset();
    stub.grant(request, {1, fresh_id()});  // it was on its way
    const auto release = stub.receive();
    EXPECT_EQ(std::get<wire::Release>(release.message).leases,
              std::vector{std::get<wire::Attach>(request.message).lease});
}

// A signal that comes just before a wait, or to another thread, ends no system call.
TEST(StubbedDaemon, WaitsEndWithoutASignalOnceTheyAreInterrupted) {
    StubDaemon stub;
    std::atomic<bool> interrupted{false};
    ConnectOptions options;
    options.interrupted = [&] { return interrupted.load(); };
    options.dispatch_by_caller = true;
    Client client = stub.connect(std::move(options));
    std::vector<std::thread> waiters;
    AttachOptions attach;
    attach.timeout = kForever;
    for (int i = 0; i < 2; ++i) {  // one reads, the other one sleeps until it is its turn
        waiters.emplace_back(
            [&] { EXPECT_EQ(status_of([&] { client.attach("late", attach); }), HURRAY_ERR_INTERRUPTED); });
        (void)stub.receive();
    }
    waiters.emplace_back([&] { EXPECT_EQ(status_of([&] { client.dispatch(kForever); }), HURRAY_ERR_INTERRUPTED); });
    interrupted = true;
    for (std::thread& waiter : waiters) {
        waiter.join();
    }
}

// The same of the waits for a daemon: for one that listens, and for an answer of one that does.
TEST(StubbedDaemon, ConnectingEndsWithoutASignalOnceItIsInterrupted) {
    const StubDaemon stub;
    for (const std::string& address : {stub.path(), stub.path() + ".absent"}) {
        ConnectOptions options;
        options.address = address;
        options.timeout = kForever;
        options.interrupted = [] { return true; };
        EXPECT_EQ(status_of([&] { Client::connect(std::move(options)); }), HURRAY_ERR_INTERRUPTED) << address;
    }
}

TEST(StubbedDaemon, InterruptedWatchIsTakenBackAtTheDaemon) {
    StubDaemon stub;
    ConnectOptions options;
    options.interrupted = [] { return true; };
    Client client = stub.connect(std::move(options));
    struct sigaction action{};
    action.sa_handler = [](int) {};
    ::sigaction(SIGUSR1, &action, nullptr);
    std::atomic<bool> done{false};
    std::thread waiter([&] {
        EXPECT_EQ(status_of([&] { auto w = client.watch("", [](const Event&) {}); }), HURRAY_ERR_INTERRUPTED);
        done = true;
    });
    const auto request = stub.receive();
    while (!done) {
        ::pthread_kill(waiter.native_handle(), SIGUSR1);
        std::this_thread::sleep_for(1ms);
    }
    waiter.join();
    stub.send({request.request_id, wire::Done{}});  // it came before the Cancel
    bool taken_back = false;
    while (stub.readable(300)) {
        taken_back |= std::holds_alternative<wire::Unwatch>(stub.receive().message);
    }
    EXPECT_TRUE(taken_back);
}

TEST_F(Edges, UnwatchAfterCloseStillWaitsForTheCallback) {
    Client client = connect();
    std::latch inside(1);
    std::latch go(1);
    std::atomic<bool> left{false};
    struct Context {
        std::latch *inside, *go;
        std::atomic<bool>* left;
    } context{&inside, &go, &left};
    std::uint64_t watch = 0;
    ASSERT_EQ(hurray_client_watch(
                  client.handle(), nullptr,
                  [](const HurrayEvent*, void* given) {
                      auto& c = *static_cast<Context*>(given);
                      c.inside->count_down();
                      c.go->wait();
                      *c.left = true;
                  },
                  &context, &watch),
              HURRAY_OK);
    inside.wait();
    client.close();
    std::thread later([&] {
        std::this_thread::sleep_for(200ms);
        go.count_down();
    });
    hurray_client_unwatch(client.handle(), watch);
    EXPECT_TRUE(left);
    later.join();
}

TEST_F(Edges, LibraryThreadsTakeNoSignalsOfTheProgram) {
    const pid_t child = ::fork();
    if (child == 0) {
        {
            Client client = connect();
            sigset_t set;
            sigemptyset(&set);
            sigaddset(&set, SIGUSR1);
            ::pthread_sigmask(SIG_BLOCK, &set, nullptr);  // for a signalfd
            ::kill(::getpid(), SIGUSR1);
            std::this_thread::sleep_for(100ms);
        }
        ::_exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status)) << "killed by signal " << WTERMSIG(status);
}

TEST_F(Edges, InterruptedCallEndsSoThoughItsReplyCameMeanwhile) {
    Client producer = connect();
    ConnectOptions options;
    options.address = daemon_.socket_path();
    std::atomic<bool> is_connected{false};
    options.interrupted = [&] {
        if (!is_connected) {
            return false;
        }
        publish(producer, "late", 1, 1);
        while (used(producer, "leases") == 0) {
        }
        std::this_thread::sleep_for(100ms);
        return true;
    };
    Client consumer = Client::connect(std::move(options));
    is_connected = true;
    struct sigaction action{};
    action.sa_handler = [](int) {};
    ::sigaction(SIGUSR1, &action, nullptr);
    std::thread waiter([&] {
        AttachOptions attach;
        attach.timeout = kForever;
        EXPECT_EQ(status_of([&] { consumer.attach("late", attach); }), HURRAY_ERR_INTERRUPTED);
    });
    while (used(producer, "waiting") == 0) {
        std::this_thread::yield();
    }
    std::this_thread::sleep_for(50ms);
    ::pthread_kill(waiter.native_handle(), SIGUSR1);
    waiter.join();
}

TEST_F(Edges, ForkWhileOtherThreadsConnectAndDisconnect) {
    if (kIsSanitized) {
        GTEST_SKIP() << kNoForkBesideThreadsNote;
    }
    std::atomic<bool> stop{false};
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i) {
        threads.emplace_back([&] {
            while (!stop) {
                Client client = connect(true);
            }
        });
    }
    int killed = 0;
    const int forks = rounds(3000);
    for (int i = 0; i < forks && killed == 0; ++i) {
        const pid_t child = ::fork();
        if (child == 0) {
            ::_exit(0);
        }
        int status = 0;
        ::waitpid(child, &status, 0);
        killed += WIFSIGNALED(status) ? 1 : 0;
    }
    stop = true;
    for (auto& thread : threads) {
        thread.join();
    }
    EXPECT_EQ(killed, 0);
}

TEST(StubbedDaemon, PacketThatNoSocketTakesFailsItsCallAlsoIfItHadToWait) {
    StubDaemon stub;
    Client client = stub.connect();
    std::vector<std::thread> askers;
    for (int i = 0; i < 400; ++i) {  // fills the socket
        askers.emplace_back([&] { status_of([&] { client.list(std::string(200, 'x')); }); });
    }
    std::this_thread::sleep_for(500ms);
    const std::uint64_t size = 0;
    auto published = std::async(std::launch::async, [&] {
        HurrayAllocation* allocation = nullptr;
        EXPECT_EQ(hurray_client_allocate(client.handle(), &size, 1, nullptr, &allocation), HURRAY_OK);
        const auto descriptor = long_descriptor(400'000);
        const auto status = hurray_client_publish(client.handle(), "big", descriptor.data(), descriptor.size(),
                                                  &allocation, nullptr, nullptr);
        hurray_allocation_destroy(&allocation);
        return status;
    });
    std::this_thread::sleep_for(200ms);
    std::thread daemon([&] {
        for (int i = 0; i < 400; ++i) {
            const auto request = stub.receive();
            stub.send({request.request_id, wire::ListReply{}});
        }
    });
    daemon.join();
    for (auto& asker : askers) {
        asker.join();
    }
    EXPECT_EQ(published.wait_for(3s), std::future_status::ready) << "waits for ever";
    client.close();
    EXPECT_EQ(published.get(), HURRAY_ERR_LIMIT);
}

TEST_F(Edges, DescriptorThatIsTooLongIsRefusedAndTheConnectionStands) {
    Client client = connect();
    const std::uint64_t size = 0;
    for (const std::size_t length : {40'000UL, 70'000UL, 400'000UL}) {
        HurrayAllocation* allocation = nullptr;
        ASSERT_EQ(hurray_client_allocate(client.handle(), &size, 1, nullptr, &allocation), HURRAY_OK);
        const auto descriptor = long_descriptor(length);
        EXPECT_EQ(hurray_client_publish(client.handle(), "big", descriptor.data(), descriptor.size(), &allocation,
                                        nullptr, nullptr),
                  HURRAY_ERR_LIMIT)
            << length << hurray_last_error_message();
        hurray_allocation_destroy(&allocation);
    }
    EXPECT_EQ(status_of([&] { client.list(); }), HURRAY_OK);
}

TEST_F(Edges, AllocateWithoutFreeDescriptorsSaysLimit) {
    if (kIsSanitized) {
        GTEST_SKIP() << kNoDescriptorsLeftNote;
    }
    Client client = connect(true);
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    const rlimit none = {3, limit.rlim_max};  // all taken; poll() wants room for those that it looks at
    ::setrlimit(RLIMIT_NOFILE, &none);
    HurrayAllocation* allocation = nullptr;
    const std::uint64_t size = 16 << 20;
    const auto status = hurray_client_allocate(client.handle(), &size, 1, nullptr, &allocation);
    ::setrlimit(RLIMIT_NOFILE, &limit);
    EXPECT_EQ(status, HURRAY_ERR_LIMIT) << hurray_last_error_message();
}

// poll() refuses to look at two where the limit is below two, and whoever waited went round and round.
TEST_F(Edges, AnswersComeWithALimitOfNoDescriptorsAtAll) {
    if (kIsSanitized) {
        GTEST_SKIP() << kNoDescriptorsLeftNote;
    }
    Client client = connect(true);
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    for (const rlim_t most : {1, 0}) {
        const rlimit few = {most, limit.rlim_max};
        ::setrlimit(RLIMIT_NOFILE, &few);
        const HurrayStatus status = status_of([&] { client.list(); });
        ::setrlimit(RLIMIT_NOFILE, &limit);
        EXPECT_EQ(status, HURRAY_OK) << most;
    }
}

TEST_F(Edges, SlowCallbackHoldsNobodyUpAndCostsNoConnection) {
    Client producer = connect();
    Client consumer = connect();
    std::latch go(1);
    std::atomic<int> told{0};
    PublishOptions options;
    options.on_event = [&](const Event& event) {
        go.wait();
        told += event.kind == HURRAY_EVENT_LEASE_RELEASED ? 1 : 0;
    };
    publish(producer, "slow", 1, 1, std::move(options));
    for (int i = 0; i < 2000; ++i) {  // many times what the socket holds
        consumer.attach("slow").release();
    }
    go.count_down();
    while (told < 2000) {
        std::this_thread::yield();
    }
    EXPECT_EQ(status_of([&] { producer.list(); }), HURRAY_OK);
}

TEST_F(Edges, CallbackThatForksEndsInTheChild) {
    if (kIsSanitized) {
        GTEST_SKIP() << kNoForkBesideThreadsNote;
    }
    Client client = connect();
    static std::atomic<pid_t> child{0};
    Watch watch = client.watch("", [](const Event&) {
        const pid_t pid = ::fork();
        if (pid != 0) {
            child = pid;
        }
    });
    while (child == 0) {
        std::this_thread::yield();
    }
    EXPECT_FALSE(WIFSIGNALED(wait_for_end(child))) << "it spun until it was killed";
}

TEST_F(Edges, EveryCallOfAForkedChildSaysForkedWhateverThreadsDid) {
    if (kIsSanitized) {
        GTEST_SKIP() << kNoForkBesideThreadsNote;
    }
    Client client = connect();
    std::atomic<bool> stop{false};
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i) {
        threads.emplace_back([&, i] {
            while (!stop) {
                publish(client, "busy/" + std::to_string(i), 1, 1);
                auto watch = client.watch("", [](const Event&) {});
                client.withdraw(publish(client, "gone/" + std::to_string(i), 1, 1).capsule);
                Group group = client.begin_group();
                group.abort();
            }
        });
    }
    int wrong = 0;
    const int forks = rounds(400);
    for (int i = 0; i < forks && wrong == 0; ++i) {
        Allocation allocation = client.allocate<float>({1});
        const pid_t child = ::fork();
        if (child == 0) {
            int failures = 0;
            failures |= status_of([&] { client.publish("c", std::move(allocation)); }) == HURRAY_ERR_FORKED ? 0 : 1;
            failures |= status_of([&] { auto w = client.watch("", [](const Event&) {}); }) == HURRAY_ERR_FORKED ? 0 : 2;
            failures |= hurray_client_unwatch(client.handle(), 1) == HURRAY_ERR_FORKED ? 0 : 4;
            failures |= hurray_client_close(client.handle()) == HURRAY_OK ? 0 : 8;  // nothing to close here
            failures |= status_of([&] { client.withdraw(CapsuleId{}); }) == HURRAY_ERR_FORKED ? 0 : 16;
            std::uint64_t group = 0;
            failures |= hurray_client_group_begin(client.handle(), &group) == HURRAY_ERR_FORKED ? 0 : 32;
            failures |= hurray_client_group_end(client.handle(), 1, 0) == HURRAY_ERR_FORKED ? 0 : 32;
            failures |= hurray_client_group_end(client.handle(), 1, 1) == HURRAY_ERR_FORKED ? 0 : 32;
            failures |= status_of([&] { client.attach("busy/0"); }) == HURRAY_ERR_FORKED ? 0 : 64;
            ::_exit(failures);
        }
        const int status = wait_for_end(child);
        wrong = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
    }
    stop = true;
    for (auto& thread : threads) {
        thread.join();
    }
    EXPECT_EQ(wrong, 0) << "1 publish, 2 watch, 4 unwatch, 8 close, 16 withdraw, 32 group, 64 attach, 128 stuck";
}

// Such a client's thread looks after its pool too, whose lock another thread may have held.
TEST_F(Edges, DispatchOfAForkedChildSaysForkedWhateverThreadsDid) {
    if (kIsSanitized) {
        GTEST_SKIP() << kNoForkBesideThreadsNote;
    }
    Client client = connect(true);
    std::atomic<bool> stop{false};
    std::thread allocating([&] {
        while (!stop) {
            (void)client.allocate<float>({1});
        }
    });
    int wrong = 0;
    const int forks = rounds(400);
    for (int i = 0; i < forks && wrong == 0; ++i) {
        const pid_t child = ::fork();
        if (child == 0) {
            ::_exit(hurray_client_dispatch(client.handle(), 0) == HURRAY_ERR_FORKED ? 0 : 1);
        }
        wrong = wait_for_end(child);
    }
    stop = true;
    allocating.join();
    EXPECT_EQ(wrong, 0) << "stuck, if it is 9";
}

TEST_F(Edges, MemoryBeyondWhatAFileMayHaveIsRefusedAndNotASignal) {
    rlimit before{};
    ::getrlimit(RLIMIT_FSIZE, &before);
    const rlimit low{1 << 20, before.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &low);
    Client client = connect();
    std::string message;
    EXPECT_EQ(status_of([&] { (void)client.allocate<std::uint8_t>({64 << 20}); }, &message), HURRAY_ERR_LIMIT);
    EXPECT_NE(message.find("RLIMIT_FSIZE (ulimit -f), 1048576 bytes"), std::string::npos) << message;
    ::setrlimit(RLIMIT_FSIZE, &before);
    EXPECT_EQ(status_of([&] { (void)client.allocate<std::uint8_t>({64 << 20}); }), HURRAY_OK);
}

TEST_F(Edges, MessagesNameWhatTheyAreAbout) {
    Client client = connect();
    std::string message;
    EXPECT_EQ(status_of([&] { publish(client, "", 1, 1); }, &message), HURRAY_OK) << "without a name";
    const std::uint64_t size = 4;
    HurrayAllocation* allocation = nullptr;
    ASSERT_EQ(hurray_client_allocate(client.handle(), &size, 1, nullptr, &allocation), HURRAY_OK);
    const std::uint8_t descriptor = 0;
    EXPECT_EQ(hurray_client_publish(client.handle(), "", &descriptor, 1, &allocation, nullptr, nullptr),
              HURRAY_ERR_INVALID_ARGUMENT);
    EXPECT_STREQ(hurray_last_error_message(), "hurray_client_publish: name: is empty; null publishes without a name");
    hurray_allocation_destroy(&allocation);
    EXPECT_EQ(hurray_client_group_end(client.handle(), 0, 1), HURRAY_ERR_INVALID_ARGUMENT);
    EXPECT_STREQ(hurray_last_error_message(),
                 "hurray_client_group_end: group: is 0; hurray_client_group_begin gives numbers above that");
}

// A publish that runs while the client is closed leaves nothing attachable behind.
TEST(StubbedDaemon, PublishThatIsOnItsWayWhenTheClientIsClosedIsWithdrawn) {
    StubDaemon stub;
    Client client = stub.connect();
    auto published = std::async(std::launch::async,
                                [&] { return status_of([&] { client.publish("p", client.allocate<float>({1})); }); });
    const auto reserve = stub.receive();
    ASSERT_TRUE(std::holds_alternative<wire::Reserve>(reserve.message));
    stub.send({reserve.request_id, wire::Done{}});
    const auto request = stub.receive();
    const auto* publish = std::get_if<wire::Publish>(&request.message);
    ASSERT_NE(publish, nullptr);
    EXPECT_EQ(publish->segments.at(0).reservation, std::get<wire::Reserve>(reserve.message).reservation);
    client.close();
    EXPECT_EQ(published.get(), HURRAY_ERR_CLOSED);
    stub.send({request.request_id, wire::PublishReply{1}});
    bool withdrawn = false;
    std::vector<std::uint64_t> forgotten;
    while (stub.readable(200)) {
        const auto told = stub.receive();
        withdrawn |= std::holds_alternative<wire::Withdraw>(told.message);
        if (const auto* forget = std::get_if<wire::Forget>(&told.message)) {
            forgotten = forget->segments;
        }
    }
    EXPECT_TRUE(withdrawn);
    EXPECT_EQ(forgotten, std::vector{publish->segments.at(0).number}) << "whose memory is never used again";
}

TEST(StubbedDaemon, ReservationThatIsGrantedAfterTheClientWasClosedIsGivenBack) {
    StubDaemon stub;
    Client client = stub.connect();
    auto allocated =
        std::async(std::launch::async, [&] { return status_of([&] { client.allocate<float>({1 << 20}); }); });
    const auto reserve = stub.receive();
    client.close();
    EXPECT_EQ(allocated.get(), HURRAY_ERR_CLOSED);
    stub.send({reserve.request_id, wire::Done{}});
    bool given_back = false;
    while (stub.readable(200)) {
        given_back |= std::holds_alternative<wire::Unreserve>(stub.receive().message);
    }
    EXPECT_TRUE(given_back);
}

TEST_F(Edges, PublishRacingWithCloseLeavesNothingAttachable) {
    Client other = connect();
    std::size_t left = 0;
    for (int round = 0; round < 40 && left == 0; ++round) {
        Client client = connect();
        for (int i = 0; i < 200; ++i) {
            publish(client, "old/" + std::to_string(i), 1, 1);
        }
        std::atomic<int> published{0};
        std::vector<std::thread> publishers;
        for (int t = 0; t < 4; ++t) {
            publishers.emplace_back([&] {
                while (status_of([&] { publish(client, "new/" + std::to_string(++published), 1, 1); }) == HURRAY_OK) {
                }
            });
        }
        while (published < 10) {
            std::this_thread::yield();
        }
        client.close();
        for (std::thread& publisher : publishers) {
            publisher.join();
        }
        left = 1;
        for (int k = 0; k < 200 && left != 0; ++k) {
            left = 0;
            for (const auto& info : other.list()) {
                left += info.retired ? 0 : 1;
            }
            if (left != 0) {
                std::this_thread::sleep_for(1ms);
            }
        }
    }
    EXPECT_EQ(left, 0U);
}

// What a hostile daemon can make a client keep.
TEST(StubbedDaemon, ListOfEndlessEmptyPagesEnds) {
    StubDaemon stub;
    Client client = stub.connect();
    std::atomic<bool> stop{false};
    std::atomic<int> pages{0};
    std::thread daemon([&] {
        while (!stop && pages < 20000) {
            if (!stub.readable(100)) {
                continue;
            }
            const auto request = stub.receive();
            wire::ListReply reply;
            reply.cursor = "same";
            ++pages;
            if (pages == 20000) {
                reply.cursor.clear();
            }
            stub.send({request.request_id, reply});
        }
    });
    EXPECT_EQ(status_of([&] { client.list(); }), HURRAY_ERR_PROTOCOL);
    stop = true;
    daemon.join();
    EXPECT_LE(pages, 2);
}

TEST(StubbedDaemon, EventsThatNobodyDispatchesTakeABoundedAmountOfMemory) {
    StubDaemon stub;
    ConnectOptions options;
    options.dispatch_by_caller = true;
    Client client = stub.connect(std::move(options));
    std::thread daemon([&] {
        const auto request = stub.receive();
        const auto watch = std::get<wire::Watch>(request.message).watch;
        stub.send({request.request_id, wire::Done{}});
        const auto list = stub.receive();
        for (int i = 0; i < 200'000; ++i) {
            wire::Watched event;
            event.watch = watch;
            event.what = wire::Watched::What::Published;
            event.capsule = {0, fresh_id()};
            event.name = std::string(250, 'n');
            stub.send({0, event});
        }
        stub.send({list.request_id, wire::ListReply{}});
    });
    Watch watch = client.watch("", [](const Event&) {});
    client.list();
    daemon.join();
    std::ifstream file("/proc/self/statm");
    std::size_t total = 0, resident = 0;
    file >> total >> resident;
    if (!kIsSanitized) {  // which keeps what was freed
        EXPECT_LT(resident / 256, 40U) << "MiB";
    }
    client.close();  // the stub does not answer the Unwatch
}

/// The answer to a List, as what `first` brings.
std::string bundle(std::string first, std::uint64_t list_request) {
    wire::PacketBuffer buffer;
    buffer.append(first.data(), first.size());
    wire::append_more(wire::Packet{list_request, wire::ListReply{{}, ""}}, buffer);
    return std::string(buffer.view());
}

TEST(StubbedDaemon, PacketsThatComeInOneAreDealtWithAsIfTheyCameAlone) {
    StubDaemon stub;
    const Client client = stub.connect();
    const std::string unknown_event("\x92\x03\x02\x08\x01",
                                    5);  // of a newer daemon: passed over, and not what it brings
    const std::string last_words = wire::encoded(wire::Packet{0, wire::Closing{{Errc::Closed, "that was all"}}});
    for (const std::string& first : {unknown_event, last_words}) {
        auto daemon = std::async(std::launch::async, [&] {
            const std::string bytes = bundle(first, stub.receive().request_id);
            ::send(stub.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
        });
        EXPECT_EQ(client.list().size(), 0U);
        daemon.get();
    }
    ::shutdown(stub.fd(), SHUT_RDWR);
    std::string message;
    EXPECT_EQ(status_of([&] { (void)client.list(); }, &message), HURRAY_ERR_CONNECTION_LOST);
    EXPECT_NE(message.find("that was all"), std::string::npos) << message;
}

TEST(StubbedDaemon, APacketThatCameInOneAndIsNoneOrBringsMoreEndsTheConnection) {
    const auto within = [](std::uint64_t request, std::string_view each) {
        std::string bytes = bundle(wire::encoded(wire::Packet{request, wire::ListReply{{}, ""}}), request + 1);
        bytes.append("\xe2\x03").push_back(static_cast<char>(each.size()));  // Packet.more
        return bytes.append(each);
    };
    for (const bool is_nested : {true, false}) {
        StubDaemon stub;
        const Client client = stub.connect();
        auto daemon = std::async(std::launch::async, [&] {
            const std::uint64_t request = stub.receive().request_id;
            const std::string bytes = within(request, is_nested ? bundle("", request + 1) : "\xff\xff");
            ::send(stub.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
        });
        EXPECT_EQ(client.list().size(), 0U);  // what came before it is whole
        daemon.get();
        std::string message;
        EXPECT_EQ(status_of([&] { (void)client.list(); }, &message), HURRAY_ERR_PROTOCOL);
        EXPECT_NE(message.find("that another one brought"), std::string::npos) << message;
    }
}

TEST(StubbedDaemon, EveryByteOfAGrantWrong) {
    int survived = 0;
    StubDaemon stub;
    auto client = std::make_unique<Client>(stub.connect());
    for (std::size_t at = 0; at < 220; ++at) {
        auto daemon = std::async(std::launch::async, [&] {
            const auto request = stub.receive();
            TestTensor tensor = make_tensor("stub", 16, 1);
            wire::AttachReply reply;
            reply.capsule = {0, fresh_id()};
            reply.name = "stub";
            reply.version = 1;
            reply.descriptor = tensor.publish.descriptor;
            reply.segments = tensor.publish.segments;
            reply.placements = tensor.publish.placements;
            std::string bytes = wire::encoded(wire::Packet{request.request_id, reply});
            if (at < bytes.size()) {
                bytes[at] = static_cast<char>(bytes[at] ^ (1 << (at % 8)));
            }
            const int fd = tensor.fd.get();
            [[maybe_unused]] const auto sent =
                wire::send_packet(stub.fd(), std::as_bytes(std::span(bytes)), std::span(&fd, 1));
            // whatever it made of it, no answer is left open
            if (at < bytes.size()) {
                ::shutdown(stub.fd(), SHUT_WR);
            }
        });
        status_of([&] {
            const Tensor tensor = client->attach("stub");
            for (std::size_t i = 0; i < tensor.buffer_count(); ++i) {
                for (const std::byte byte : tensor.buffer(i)) {
                    survived += static_cast<int>(byte);
                }
            }
        });
        daemon.get();
        client.reset();
        client = std::make_unique<Client>(stub.connect());
    }
    EXPECT_LT(count_open_descriptors(), 30U);
}

TEST(StubbedDaemon, WrongDescriptorsAreRefused) {
    StubDaemon stub;
    Client client = stub.connect();
    UniqueFd file(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
    UniqueFd memfd_unsealed = make_memfd({.size = 4096, .seals = 0});
    UniqueFd memfd_sparse = make_memfd({.size = 4096, .reserve = false});
    UniqueFd memfd_small = make_memfd({.size = 8192});
    for (const int fd : {file.get(), memfd_unsealed.get(), memfd_sparse.get(), memfd_small.get(), stub.fd()}) {
        auto daemon = std::async(std::launch::async, [&] {
            const auto request = stub.receive();
            TestTensor tensor = make_tensor("stub", 16, 1);
            wire::AttachReply reply;
            reply.capsule = {0, fresh_id()};
            reply.name = "stub";
            reply.version = 1;
            reply.descriptor = tensor.publish.descriptor;
            reply.segments = tensor.publish.segments;
            reply.placements = tensor.publish.placements;
            stub.send({request.request_id, reply}, {fd});
            const auto released = stub.receive();
            EXPECT_TRUE(std::holds_alternative<wire::Release>(released.message));
            stub.send({released.request_id, wire::Done{}});
            const auto dropped = stub.receive();
            const auto* drop = std::get_if<wire::Drop>(&dropped.message);
            EXPECT_TRUE(drop != nullptr && drop->segments == std::vector{reply.segments[0].number});
            stub.send({dropped.request_id, wire::Done{}});
        });
        EXPECT_EQ(status_of([&] { client.attach("stub"); }), HURRAY_ERR_PROTOCOL);
        daemon.get();
    }
}

// case G2: what a daemon may say that lies
TEST(StubbedDaemon, GrantsThatWrapOrLieOutsideAreRefusedAndThoseAtTheEdgeAreNot) {
    StubDaemon stub;
    Client client = stub.connect();
    // What it does not keep it drops, when it likes.
    const auto receive = [&] {
        for (;;) {
            wire::Request request = stub.receive();
            if (!std::holds_alternative<wire::Drop>(request.message)) {
                return request;
            }
            stub.send({request.request_id, wire::Done{}});
        }
    };
    const auto attach = [&](const Placed& placed) {
        auto daemon = std::async(std::launch::async, [&] {
            const auto request = receive();
            TestTensor tensor = make_tensor("stub", 16, 1);
            wire::AttachReply reply;
            reply.capsule = {0, fresh_id()};
            reply.name = "stub";
            reply.version = 1;
            reply.descriptor = placed.descriptor;
            reply.segments = tensor.publish.segments;
            reply.placements = placed.placements;
            stub.send({request.request_id, reply}, {tensor.fd.get()});
            const auto released = receive();
            EXPECT_TRUE(std::holds_alternative<wire::Release>(released.message));
            stub.send({released.request_id, wire::Done{}});
        });
        const HurrayStatus status = status_of([&] { client.attach("stub"); });
        daemon.get();
        return status;
    };
    for (const Placed& placed : out_of_range()) {
        EXPECT_EQ(attach(placed), HURRAY_ERR_PROTOCOL) << placed.what;
    }
    for (const Placed& placed : just_in_range()) {
        EXPECT_EQ(attach(placed), HURRAY_OK) << placed.what;
    }
}

TEST(StubbedDaemon, EventsBeforeThePublishIsAnsweredAreNotTold) {
    StubDaemon stub;
    ConnectOptions options;
    options.dispatch_by_caller = true;
    Client client = stub.connect(std::move(options));
    auto daemon = std::async(std::launch::async, [&] {
        const auto request = stub.receive();
        const auto id = std::get<wire::Publish>(request.message).capsule;
        stub.send({0, wire::Ended{{static_cast<std::uint32_t>(::geteuid()), id}, true}});
        stub.send({request.request_id, Error{Errc::OverQuota, "no"}});
    });
    HurrayAllocation* allocation = nullptr;
    const std::uint64_t size = 0;
    ASSERT_EQ(hurray_client_allocate(client.handle(), &size, 1, nullptr, &allocation), HURRAY_OK);
    std::atomic<int> told{0};
    HurrayPublishOptions c_options{};
    c_options.struct_size = sizeof c_options;
    c_options.context = &told;
    c_options.on_event = [](const HurrayEvent*, void* context) { ++*static_cast<std::atomic<int>*>(context); };
    const std::string descriptor = make_descriptor(0);
    EXPECT_EQ(hurray_client_publish(client.handle(), "p", reinterpret_cast<const std::uint8_t*>(descriptor.data()),
                                    descriptor.size(), &allocation, &c_options, nullptr),
              HURRAY_ERR_OVER_QUOTA);
    daemon.get();
    client.dispatch();
    EXPECT_EQ(told, 0);
    hurray_allocation_destroy(&allocation);
}

TEST(StubbedDaemon, PollFdIsReadableOnceTheConnectionHasEnded) {
    auto stub = std::make_unique<StubDaemon>();
    ConnectOptions options;
    options.dispatch_by_caller = true;
    options.reconnects = false;
    int told = 0;
    options.on_event = [&](const Event&) { ++told; };
    Client client = stub->connect(std::move(options));
    stub.reset();
    EXPECT_TRUE(client.dispatch(1000ms));
    EXPECT_EQ(told, 1);
    pollfd ready{client.poll_fd(), POLLIN, 0};
    EXPECT_EQ(::poll(&ready, 1, 100), 1) << "an event loop without on_event never learns of it";
}

TEST_F(Edges, StoppedDaemonNeverBlocksReleasesAndAllAreSaidLater) {
    Client producer = connect();
    Client consumer = connect();
    publish(producer, "many", 1, 1);
    std::vector<Tensor> tensors;
    for (int i = 0; i < 6000; ++i) {
        tensors.push_back(consumer.attach("many"));
    }
    ::kill(daemon_.pid(), SIGSTOP);
    for (auto& tensor : tensors) {
        tensor.release();
    }
    {
        Client gone = std::move(consumer);
    }
    ::kill(daemon_.pid(), SIGCONT);
    while (used(producer, "leases") != 0 || used(producer, "clients") != 0) {
        std::this_thread::yield();
    }
}

/// Segments of shared memory that this process has mapped.
std::size_t mapped_segments() {
    std::ifstream maps("/proc/self/maps");
    std::size_t count = 0;
    for (std::string line; std::getline(maps, line);) {
        count += line.find("memfd:hurray") != std::string::npos ? 1U : 0U;
    }
    return count;
}
std::size_t rss_kib() {
    std::ifstream file("/proc/self/status");
    std::string key;
    std::size_t value = 0;
    while (file >> key) {
        if (key == "VmRSS:") {
            file >> value;
            return value;
        }
    }
    return 0;
}

/// Their segments are numbered when they are allocated.
TEST_F(Edges, ThousandsArePublishedInAnotherOrderThanTheyWereAllocated) {
    constexpr std::size_t kTensors = 2400;
    Client client = connect();
    std::vector<Allocation> allocations;
    for (std::size_t i = 0; i < kTensors; ++i) {
        allocations.push_back(client.allocate<std::uint32_t>({17'000}));  // more than lies in a shared segment
    }
    for (const std::size_t first : {1, 0}) {
        for (std::size_t i = first; i < kTensors; i += 2) {
            client.publish("tensor/" + std::to_string(i), std::move(allocations[i]));
        }
    }
    EXPECT_EQ(used(client, "capsules"), kTensors);
}

TEST_F(Edges, TenThousandRoundsLeaveNothing) {
    Client producer = connect();
    Client consumer = connect();
    std::size_t fds = 0, maps = 0, rss = 0;
    for (int i = 0; i < 10'000; ++i) {
        if (i == 2000) {
            fds = count_open_descriptors();
            maps = mapped_segments();
            rss = rss_kib();
        }
        publish(producer, "round", 1, 1);
        Tensor tensor = consumer.attach("round");
        if (i % 10 == 0) {
            std::optional<Tensor> outlived;
            {
                Client guest = connect(i % 20 == 0);
                outlived = guest.attach("round");
                auto w = guest.watch("", [](const Event&) {});
            }
        }
    }
    // The last connections end on threads of their own.
    while (used(producer, "leases") != 0 || count_open_descriptors() > fds) {
        std::this_thread::yield();
    }
    EXPECT_LE(mapped_segments(), maps + 4);  // a replaced one may be on its way out
    if (!kIsSanitized) {
        EXPECT_LT(rss_kib(), rss + 8 * 1024);
    }
}

}  // namespace
}  // namespace hurray::test
