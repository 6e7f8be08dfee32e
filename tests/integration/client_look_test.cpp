// Looking around: list, watch, connect, options.
#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <map>
#include <thread>

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/integration/client_test.hpp"
#include "tests/support/raw_peer.hpp"
#include "tests/support/temporary_directory.hpp"

namespace hurray::test {
namespace {

class Look : public ClientTest {};

TEST_F(Look, ListIsOrderedByNameAndNarrowedByThePattern) {
    Client client = connect();
    for (const char* name : {"b/2", "a", "b/1", "bb", "b/1/x"}) {
        publish(client, name, 4, 1);
    }
    const auto names = [&](const std::string& pattern) {
        std::vector<std::string> found;
        for (const CapsuleInfo& info : client.list(pattern)) {
            found.push_back(info.name);
        }
        return found;
    };
    EXPECT_EQ(names(""), (std::vector<std::string>{"a", "b/1", "b/1/x", "b/2", "bb"}));
    EXPECT_EQ(names("b/"), (std::vector<std::string>{"b/1", "b/1/x", "b/2"}));
    EXPECT_EQ(names("bb"), (std::vector<std::string>{"bb"}));
    EXPECT_EQ(names("c/"), std::vector<std::string>{});
    EXPECT_EQ(status_of([&] { client.list("a//"); }), HURRAY_ERR_INVALID_ARGUMENT);
    const CapsuleInfo info = client.list("a").at(0);
    EXPECT_EQ(info.byte_size, 16U);
    EXPECT_EQ(info.pid, ::getpid());
    EXPECT_EQ(Descriptor(info.descriptor).shape(), std::vector<std::uint64_t>{4});
}

TEST_F(Look, ListOfMoreThanOnePageIsWhole) {
    Client client = connect();
    constexpr int kCount = 2000;
    for (int i = 0; i < kCount; ++i) {
        publish(client, "many/" + std::string(100, 'x') + std::to_string(i), 0, 1);
    }
    std::vector<std::string> names;
    client.for_each("many/", [&](const CapsuleInfo& info) { names.push_back(info.name); });
    EXPECT_EQ(names.size(), static_cast<std::size_t>(kCount));
    EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
    int seen = 0;
    client.for_each("many/", [&](const CapsuleInfo&) { return ++seen < 3; });
    EXPECT_EQ(seen, 3);
}

TEST_F(Look, RetiredCapsulesAreListedWhileSomebodyHoldsThem) {
    Client client = connect();
    const CapsuleInfo info = publish(client, "held", 4, 1);
    Tensor tensor = client.attach("held");
    client.withdraw(info.capsule);
    ASSERT_EQ(client.list().size(), 1U);
    EXPECT_TRUE(client.list()[0].retired);
    EXPECT_EQ(client.list()[0].leases, 1U);
    tensor.release();
    EXPECT_TRUE(client.list().empty()) << "a release and a list are answered in their order";
}

TEST_F(Look, WatchTellsWhatIsThereAndThenWhatChanges) {
    Client client = connect();
    publish(client, "w/old", 1, 1);
    publish(client, "elsewhere", 1, 1);
    EventLog log;
    const Watch watch = client.watch("w/", log.sink());
    ASSERT_TRUE(log.wait_for(HURRAY_EVENT_SNAPSHOT_END));
    const CapsuleInfo fresh = publish(client, "w/new", 1, 1);
    ASSERT_TRUE(log.wait_for(HURRAY_EVENT_PUBLISHED));
    client.withdraw(fresh.capsule);
    ASSERT_TRUE(log.wait_for(HURRAY_EVENT_RETIRED));
    EXPECT_EQ(log.kinds(), (std::vector<std::uint32_t>{HURRAY_EVENT_PRESENT, HURRAY_EVENT_SNAPSHOT_END,
                                                       HURRAY_EVENT_PUBLISHED, HURRAY_EVENT_RETIRED}));
    EXPECT_EQ(log.all()[0].name, "w/old");
    EXPECT_EQ(log.all()[2].name, "w/new");
    EXPECT_EQ(log.all()[2].event.version, fresh.version);
    EXPECT_EQ(log.all()[3].event.capsule, fresh.capsule);
}

TEST_F(Look, WatchTellsOfALostProducer) {
    Client watcher = connect();
    EventLog log;
    const Watch watch = watcher.watch("", log.sink());
    {
        RawPeer producer = RawPeer::greeted(daemon_.socket_path());
        producer.publish(make_tensor("raw"));
    }  // leaves without a word
    ASSERT_TRUE(log.wait_for(HURRAY_EVENT_PRODUCER_LOST));
    EXPECT_EQ(log.count(HURRAY_EVENT_PUBLISHED), 1U);
    EXPECT_EQ(log.count(HURRAY_EVENT_RETIRED), 0U);
}

// Programs wait for the end of the snapshot: with a mark that is dropped they would wait for ever.
TEST_F(Look, SlowWatcherOfThousandsIsShownAllOfThemAndTheEnd) {
    constexpr std::size_t kCapsules = 6000;
    Client producer = connect();
    for (std::size_t i = 0; i < kCapsules; ++i) {
        publish(producer, "many/" + std::to_string(i), 1, 1);
    }
    Client watcher = connect();
    std::mutex mutex;
    std::condition_variable changed;
    bool may_go_on = false;
    std::map<std::uint32_t, std::size_t> told;
    const Watch watch = watcher.watch("many/", [&](const Event& event) {
        std::unique_lock lock(mutex);
        changed.wait_for(lock, kWatchdog, [&] { return may_go_on; });
        ++told[event.kind];
        changed.notify_all();
    });
    for (int i = 0; i < 20; ++i) {  // each reads what came before its answer; the daemon goes on when it has been read
        watcher.list("nothing");
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    std::unique_lock lock(mutex);
    may_go_on = true;
    changed.notify_all();
    ASSERT_TRUE(changed.wait_for(lock, kWatchdog, [&] { return told.contains(HURRAY_EVENT_SNAPSHOT_END); }));
    EXPECT_EQ(told, (std::map<std::uint32_t, std::size_t>{{HURRAY_EVENT_PRESENT, kCapsules},
                                                          {HURRAY_EVENT_SNAPSHOT_END, 1}}));
}

TEST_F(Look, EndedWatchTellsNothingMore) {
    Client client = connect();
    EventLog log;
    Watch watch = client.watch("", log.sink());
    ASSERT_TRUE(log.wait_for(HURRAY_EVENT_SNAPSHOT_END));
    watch.end();
    publish(client, "unseen", 1, 1);
    client.list();
    EXPECT_EQ(log.count(HURRAY_EVENT_PUBLISHED), 0U);
    EXPECT_EQ(hurray_client_unwatch(client.handle(), 12345), HURRAY_ERR_NOT_FOUND);
}

TEST_F(Look, WatchIsEndedFromItsOwnCallback) {
    Client client = connect();
    std::mutex mutex;
    std::condition_variable changed;
    std::optional<Watch> watch;
    int told = 0;
    {
        const std::lock_guard lock(mutex);
        watch = client.watch("", [&](const Event& event) {
            const std::lock_guard inner(mutex);
            if (event.kind == HURRAY_EVENT_SNAPSHOT_END) {
                watch.reset();
            }
            ++told;
            changed.notify_all();
        });
    }
    std::unique_lock lock(mutex);
    ASSERT_TRUE(changed.wait_for(lock, kWatchdog, [&] { return told == 1; }));
    lock.unlock();
    publish(client, "unseen", 1, 1);
    client.list();
    EXPECT_EQ(told, 1);
}

TEST_F(Look, CallbacksMayCallTheClient) {
    Client client = connect();
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<std::uint32_t> seen;
    const Watch watch = client.watch("", [&](const Event& event) {
        if (event.kind == HURRAY_EVENT_PUBLISHED) {
            const Tensor tensor = client.attach(std::string(event.name));
            const std::lock_guard lock(mutex);
            seen.push_back(tensor.elements<std::uint32_t>()[0]);
            changed.notify_all();
        }
    });
    publish(client, "self", 1, 9);
    std::unique_lock lock(mutex);
    ASSERT_TRUE(changed.wait_for(lock, kWatchdog, [&] { return seen.size() == 1; }));
    EXPECT_EQ(seen[0], 9U);
}

// ---- Options -------------------------------------------------------------------------------------------------------

TEST_F(Look, OptionStructsMayBeShorterAndLongerThanTheLibrarys) {
    Client client = connect();
    publish(client, "sized", 1, 1);
    struct Longer {
        HurrayAttachOptions known;
        std::uint64_t unknown;
    } longer{};
    longer.known.struct_size = sizeof longer;
    longer.known.name = "sized";
    HurrayBufferList* list = nullptr;
    HurrayTensorContext* context = nullptr;
    ASSERT_EQ(hurray_client_attach(client.handle(), &longer.known, &list, &context, nullptr), HURRAY_OK);
    hurray_buffer_list_destroy(&list);
    hurray_tensor_context_destroy(&context);
    longer.unknown = 1;
    EXPECT_EQ(hurray_client_attach(client.handle(), &longer.known, &list, &context, nullptr), HURRAY_ERR_UNSUPPORTED);
    HurrayAttachOptions shorter{};
    shorter.struct_size = offsetof(HurrayAttachOptions, capsule);
    shorter.name = "sized";
    shorter.version = 1;  // past its end: not read
    ASSERT_EQ(hurray_client_attach(client.handle(), &shorter, &list, &context, nullptr), HURRAY_OK);
    hurray_buffer_list_destroy(&list);
    hurray_tensor_context_destroy(&context);
    shorter.struct_size = 0;
    EXPECT_EQ(hurray_client_attach(client.handle(), &shorter, &list, &context, nullptr), HURRAY_ERR_INVALID_ARGUMENT);
}

TEST_F(Look, WhatIsNotBuiltYetIsUnsupportedAndNamed) {
    Client client = connect();
    HurrayAttachOptions attach{};
    attach.struct_size = sizeof attach;
    attach.name = "x";
    attach.device = 1;
    HurrayBufferList* list = nullptr;
    HurrayTensorContext* context = nullptr;
    EXPECT_EQ(hurray_client_attach(client.handle(), &attach, &list, &context, nullptr), HURRAY_ERR_UNSUPPORTED);
    EXPECT_NE(std::string(hurray_last_error_message()).find("device"), std::string::npos);
    attach.device = 0;
    attach.populate = 3;
    EXPECT_EQ(hurray_client_attach(client.handle(), &attach, &list, &context, nullptr), HURRAY_ERR_INVALID_ARGUMENT);
    attach.populate = HURRAY_POPULATE_AUTO;
    attach.flags = HURRAY_ATTACH_TAKE;
    attach.version = 1;
    EXPECT_EQ(hurray_client_attach(client.handle(), &attach, &list, &context, nullptr), HURRAY_ERR_INVALID_ARGUMENT);
    attach.version = 0;
    attach.flags = 1U << 20;
    EXPECT_EQ(hurray_client_attach(client.handle(), &attach, &list, &context, nullptr), HURRAY_ERR_INVALID_ARGUMENT);
    HurrayConnectOptions connect_options{};
    connect_options.struct_size = sizeof connect_options;
    connect_options.reconnect_ms = -2;
    HurrayClient* out = nullptr;
    EXPECT_EQ(hurray_client_connect(&connect_options, &out), HURRAY_ERR_INVALID_ARGUMENT);
    EXPECT_EQ(list, nullptr);
    EXPECT_EQ(out, nullptr);
}

// ---- Connecting: case C8 -------------------------------------------------------------------------------------------

class Connecting : public ::testing::Test {
  protected:
    static HurrayStatus connect(const std::string& path, std::int64_t timeout_ms, std::string* message = nullptr) {
        ConnectOptions options;
        options.address = path;
        options.timeout = std::chrono::milliseconds(timeout_ms);
        return status_of([&] { Client::connect(options); }, message);
    }

    /// Listens on a socket of `type` in the directory.
    int listen(const std::string& path, int type) {
        const int fd = ::socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
        sockaddr_un name{};
        name.sun_family = AF_UNIX;
        path.copy(name.sun_path, sizeof name.sun_path - 1);
        EXPECT_EQ(::bind(fd, reinterpret_cast<const sockaddr*>(&name), sizeof name), 0);
        EXPECT_EQ(::listen(fd, 8), 0);
        return fd;
    }

    TemporaryDirectory directory_;
};

TEST_F(Connecting, NoSocketIsUnavailableAndNamesThePath) {
    std::string message;
    const std::string path = directory_ / "none.sock";
    EXPECT_EQ(connect(path, 0, &message), HURRAY_ERR_DAEMON_UNAVAILABLE);
    EXPECT_NE(message.find(path), std::string::npos) << message;
    EXPECT_EQ(connect(path, 50), HURRAY_ERR_DAEMON_UNAVAILABLE);
}

TEST_F(Connecting, StaleSocketIsUnavailable) {
    const std::string path = directory_ / "stale.sock";
    ::close(listen(path, SOCK_SEQPACKET));
    EXPECT_EQ(connect(path, 0), HURRAY_ERR_DAEMON_UNAVAILABLE);
}

TEST_F(Connecting, ListenerThatNeverAnswersTimesOut) {
    const std::string path = directory_ / "mute.sock";
    const int fd = listen(path, SOCK_SEQPACKET);
    EXPECT_EQ(connect(path, 50), HURRAY_ERR_TIMED_OUT);
    ::close(fd);
}

TEST_F(Connecting, SocketOfAnotherTypeIsAProtocolError) {
    const std::string path = directory_ / "stream.sock";
    const int fd = listen(path, SOCK_STREAM);
    EXPECT_EQ(connect(path, 50), HURRAY_ERR_PROTOCOL);
    ::close(fd);
}

TEST_F(Connecting, ListenerThatSpeaksAnotherProtocolIsAProtocolError) {
    const std::string path = directory_ / "other.sock";
    const int fd = listen(path, SOCK_SEQPACKET);
    std::thread other([&] {
        const int peer = ::accept(fd, nullptr, nullptr);
        [[maybe_unused]] const auto sent = ::send(peer, "HTTP/1.1 400 Bad Request\r\n", 26, MSG_NOSIGNAL);
        ::close(peer);
    });
    EXPECT_EQ(connect(path, 60'000), HURRAY_ERR_PROTOCOL);
    other.join();
    ::close(fd);
}

TEST_F(Connecting, SocketThatMayNotBeOpenedIsNotPermittedAtOnce) {
    if (::geteuid() == 0) {
        GTEST_SKIP() << "root is never refused";
    }
    const std::string path = directory_ / "closed.sock";
    const int fd = listen(path, SOCK_SEQPACKET);
    ::chmod(path.c_str(), 0);
    EXPECT_EQ(connect(path, -1), HURRAY_ERR_NOT_PERMITTED);
    ::close(fd);
}

TEST_F(Connecting, DaemonThatStartsMeanwhileIsFound) {
    DaemonProcess daemon;
    daemon.end(SIGKILL);
    HurrayStatus status = HURRAY_ERR_INTERNAL;
    std::thread waiter([&] { status = connect(daemon.socket_path(), -1); });
    daemon.start();
    waiter.join();
    EXPECT_EQ(status, HURRAY_OK);
}

TEST_F(Connecting, PathThatIsTooLongIsRefusedWithTheLimit) {
    std::string message;
    EXPECT_EQ(connect("/tmp/" + std::string(200, 'p'), 0, &message), HURRAY_ERR_INVALID_ARGUMENT);
    EXPECT_NE(message.find("107"), std::string::npos) << message;
}

}  // namespace
}  // namespace hurray::test
