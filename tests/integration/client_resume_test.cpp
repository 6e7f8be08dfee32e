#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <fstream>
#include <functional>
#include <future>
#include <map>
#include <mutex>
#include <random>
#include <semaphore>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <gmock/gmock.h>

#include "libhurray/base/unique_fd.hpp"
#include "proto/wire/packet_socket.hpp"
#include "tests/integration/client_test.hpp"
#include "tests/support/mortal_daemon.hpp"
#include "tests/support/puppet_daemon.hpp"
#include "tests/support/temporary_directory.hpp"
#include "tests/support/test_tensor.hpp"

// What programs notice of the daemon's death: as little as can be. The daemon is killed and started again; the clients live on.

namespace hurray::test {
namespace {

using testing::ElementsAre;

/// The window is longer than any of these tests takes, so nobody comes too late on a busy machine.
class Resume : public ClientTest {
  protected:
    explicit Resume(int window_seconds = 60) : daemon_with_window(config(window_seconds)) {}

    static DaemonProcess::Options config(int window_seconds) {
        static TemporaryDirectory directory;
        const std::string file = directory / ("window" + std::to_string(window_seconds) + ".toml");
        std::ofstream(file) << "[resume]\nwindow = " << window_seconds << "\n";
        return {.arguments = {"--config", file}, .environment = {}, .descriptor_limit = {}};
    }

    /// A client, and what it is told of its connection.
    struct Connected {
        EventLog log;
        Client client;
        void wait_back(std::size_t times = 1) const { ASSERT_TRUE(log.wait_for(HURRAY_EVENT_CONNECTION, 2 * times)); }
    };
    Connected connect_logged() { return connect_to(daemon().socket_path()); }
    static Connected connect_to(const std::string& path) {
        EventLog log;
        ConnectOptions options;
        options.address = path;
        options.on_event = log.sink();
        return {log, Client::connect(std::move(options))};
    }

    DaemonProcess& daemon() { return daemon_with_window; }
    void kill_daemon() { daemon().end(SIGKILL); }
    void restart_daemon() {
        kill_daemon();
        daemon().start();
    }

    static PublishOptions told(const EventLog& log) {
        PublishOptions options;
        options.on_event = log.sink();
        return options;
    }

    DaemonProcess daemon_with_window;
};

/// The same for what happens when the window ends. Who is to be back before has this long.
class ResumeWindow : public Resume {
  protected:
    ResumeWindow() : Resume(3) {}
};

TEST_F(Resume, WhatIsPublishedAndAttachedIsThereAgain) {
    Connected producer = connect_logged();
    Connected consumer = connect_logged();
    EventLog log;
    const CapsuleInfo info = publish(producer.client, "model", 1000, 7, told(log));
    std::optional<Tensor> tensor = consumer.client.attach("model");

    restart_daemon();
    producer.wait_back();
    consumer.wait_back();
    EXPECT_EQ(producer.log.all()[0].event.status, HURRAY_ERR_CONNECTION_LOST);
    EXPECT_TRUE(producer.log.all()[0].event.away);
    EXPECT_EQ(producer.log.all()[1].event.status, HURRAY_OK);

    EXPECT_EQ(tensor->state(), HURRAY_OK);
    EXPECT_EQ(first_of(*tensor), 7U);
    const Tensor again = consumer.client.attach("model");
    EXPECT_EQ(again.info().version, info.version);
    EXPECT_EQ(first_of(again), 7U);
    EXPECT_EQ(consumer.client.list("model").at(0).leases, 2U);
    tensor.reset();
    ASSERT_TRUE(log.wait_for(HURRAY_EVENT_LEASE_RELEASED));
    EXPECT_EQ(log.all().back().event.remaining, 1U);
    EXPECT_EQ(log.count(HURRAY_EVENT_LEASE_LOST), 0U);
}

TEST_F(ResumeWindow, ImmutableMemoryAndMemoryOfOnesOwnAreOfferedAgainWithoutTheCallersDescriptor) {
    Connected producer = connect_logged();
    Client& client = producer.client;
    Allocation allocation = client.allocate<std::uint32_t>({1000}, {.immutable = true});
    allocation.elements<std::uint32_t>()[0] = 5;
    client.publish("immutable", std::move(allocation));
    DenseDescriptor tensor;
    tensor.element_type = ElementType::UInt8;
    tensor.shape = {4096};
    {
        const UniqueFd own = make_memfd({.size = 2 * 4096, .fill = 'o'});
        const std::int32_t fd = own.get();
        for (const std::uint64_t offset : {0U, 4096U}) {
            client.publish_fds("own/" + std::to_string(offset), tensor.encode(), std::span(&fd, 1),
                               std::array{Placement{0, offset}});
        }
    }
    restart_daemon();
    producer.wait_back();
    Connected consumer = connect_logged();
    AttachOptions options;
    options.immutable_only = true;
    const Tensor immutable = consumer.client.attach("immutable", options);
    EXPECT_EQ(first_of(immutable), 5U);
    for (const char* name : {"own/0", "own/4096"}) {
        EXPECT_EQ(consumer.client.attach(name).buffer()[4095], std::byte{'o'});
    }
    EXPECT_EQ(used(client, "descriptors"), 2U) << "one file is one segment, in this life too";
    for (const CapsuleInfo& info : client.list("own/")) {
        client.withdraw(info.capsule);
    }
    while (used(client, "descriptors") != 1) {
        std::this_thread::yield();
    }
}

TEST_F(Resume, AReleaseWhileTheDaemonIsAwayIsToldAsOne) {
    Connected producer = connect_logged();
    Connected consumer = connect_logged();
    EventLog log;
    publish(producer.client, "x", 10, 1, told(log));
    std::optional<Tensor> held = consumer.client.attach("x");
    std::optional<Tensor> given_back = consumer.client.attach("x");
    kill_daemon();
    given_back.reset();
    daemon().start();
    ASSERT_TRUE(log.wait_for(HURRAY_EVENT_LEASE_RELEASED));
    held.reset();
    ASSERT_TRUE(log.wait_for(HURRAY_EVENT_LEASE_RELEASED, 2));
    EXPECT_EQ(log.kinds(), (std::vector<std::uint32_t>{HURRAY_EVENT_LEASE_RELEASED, HURRAY_EVENT_LEASE_RELEASED}));
}

TEST_F(ResumeWindow, WhoDiedMeanwhileIsToldAsLostWhenTheWindowEnds) {
    Connected producer = connect_logged();
    EventLog log;
    {
        ConnectOptions options;
        options.address = daemon().socket_path();
        options.reconnects = false;  // as good as dead
        Client consumer = Client::connect(std::move(options));
        publish(producer.client, "x", 10, 1, told(log));
        const Tensor tensor = consumer.attach("x");
        kill_daemon();
        while (tensor.state() == HURRAY_OK) {
            std::this_thread::yield();
        }
    }
    daemon().start();
    producer.wait_back();
    producer.client.withdraw(producer.client.list("x").at(0).capsule);
    ASSERT_TRUE(log.wait_for(HURRAY_EVENT_ENDED));
    EXPECT_EQ(log.kinds(), (std::vector<std::uint32_t>{HURRAY_EVENT_LEASE_LOST, HURRAY_EVENT_ENDED}));
    EXPECT_FALSE(log.all().back().event.reusable);
}

// A consumer that was stopped over the whole window may be reading what an earlier life granted.
TEST(ResumeOfAPuppet, AListThatTheDaemonDidNotLiveToFinishConfirmsNothing) {  // list_at_end
    // What its first part had named counted as named by the next life's list as well, so a holder who had died in between was open for ever.
    wire::CapsuleId capsule{static_cast<std::uint32_t>(::geteuid()), {}};
    const auto lease = [&](std::uint64_t number) { return wire::LeaseId{capsule.uid, capsule.id, number}; };
    const auto event = [&](std::uint64_t number, wire::LeaseEvent::What what) {
        return wire::LeaseEvent{capsule, lease(number), what, 0};
    };
    int life = 1;
    PuppetDaemon daemon([&](const wire::Request& request) -> PuppetDaemon::Answers {
        using What = wire::LeaseEvent::What;
        if (const auto* publish = std::get_if<wire::Publish>(&request.message)) {
            capsule.id = publish->capsule;
            return {wire::PublishReply{1}};
        }
        if (std::holds_alternative<wire::ResumeDone>(request.message)) {
            return {wire::WindowClosed{capsule, {lease(static_cast<std::uint64_t>(++life) - 1)}, life == 2},
                    wire::Done{}};
        }
        if (const auto* list = std::get_if<wire::List>(&request.message)) {
            if (list->pattern == "attach") {
                return {event(1, What::Opened), event(2, What::Opened), wire::ListReply{}};
            }
            if (list->pattern == "die") {
                return {};
            }
            return {event(2, What::Released), wire::Ended{capsule, true}, wire::ListReply{}};
        }
        return {wire::Done{}};
    });
    const EventLog told_of_connection;
    const EventLog log;
    {
        ConnectOptions options;
        options.address = daemon.path();
        options.on_event = told_of_connection.sink();
        Client client = Client::connect(std::move(options));
        PublishOptions publish;
        publish.on_event = log.sink();
        client.publish("a", client.allocate<std::uint32_t>({0}), std::move(publish));
        (void)client.list("attach");
        for (std::size_t deaths = 1; deaths < 3; ++deaths) {
            EXPECT_EQ(status_of([&] { (void)client.list("die"); }), HURRAY_ERR_CONNECTION_LOST);
            ASSERT_TRUE(told_of_connection.wait_for(HURRAY_EVENT_CONNECTION, 2 * deaths));
        }
        (void)client.list("release");
        ASSERT_TRUE(log.wait_for(HURRAY_EVENT_ENDED));
    }
    std::vector<std::pair<std::uint32_t, std::uint64_t>> all;
    for (const auto& entry : log.all()) {
        all.emplace_back(entry.event.kind, entry.event.remaining);
    }
    EXPECT_THAT(all, ElementsAre(std::pair(HURRAY_EVENT_LEASE_LOST, 1), std::pair(HURRAY_EVENT_LEASE_RELEASED, 0),
                                 std::pair(HURRAY_EVENT_ENDED, 0)));
}

// Its socket stayed open for as long as its views, and with it all that it had brought back until then.
TEST(ResumeOfAPuppet, AClientThatIsDestroyedWhileItIsBroughtBackHasLeftThoughAViewOfItLives) {
    std::binary_semaphore is_brought_back{0};
    std::binary_semaphore is_destroyed{0};
    PuppetDaemon daemon([&](const wire::Request& request) -> PuppetDaemon::Answers {
        if (std::holds_alternative<wire::Attach>(request.message)) {
            return {PuppetDaemon::grant()};
        }
        if (std::holds_alternative<wire::List>(request.message)) {
            return {};
        }
        if (std::holds_alternative<wire::Claims>(request.message)) {
            is_brought_back.release();
            is_destroyed.acquire();
        }
        return {wire::Done{}};
    });
    ConnectOptions options;
    options.address = daemon.path();
    std::optional<Client> client = Client::connect(std::move(options));
    std::optional<Tensor> view = client->attach("jobs");
    EXPECT_EQ(status_of([&] { client->list(); }), HURRAY_ERR_CONNECTION_LOST);
    is_brought_back.acquire();
    client.reset();
    is_destroyed.release();
    const auto left = std::async(std::launch::async, [&] { daemon.join(); });
    EXPECT_EQ(left.wait_for(kWatchdog), std::future_status::ready) << "the daemon can't tell it from one that lives";
    EXPECT_EQ(view->state(), HURRAY_ERR_CONNECTION_LOST);
    view.reset();
}

TEST_F(ResumeWindow, MemoryPublishedBeforeTheDaemonsDeathIsNeverWrittenAgain) {
    Connected producer = connect_logged();
    EventLog log;
    const CapsuleInfo before = publish(producer.client, "x", 10, 1, told(log));
    restart_daemon();
    producer.wait_back();
    EventLog later;
    const CapsuleInfo after = publish(producer.client, "y", 10, 1, told(later));
    producer.client.withdraw(before.capsule);
    producer.client.withdraw(after.capsule);
    ASSERT_TRUE(later.wait_for(HURRAY_EVENT_ENDED));
    EXPECT_TRUE(later.all().back().event.reusable);
    ASSERT_TRUE(log.wait_for(HURRAY_EVENT_ENDED));
    EXPECT_FALSE(log.all().back().event.reusable);
}

TEST_F(Resume, AWaitingAttachGoesOnWaiting) {
    Connected producer = connect_logged();
    Connected consumer = connect_logged();
    std::thread waiting([&] {
        AttachOptions options;
        options.timeout = kWatchdog;
        EXPECT_EQ(first_of(consumer.client.attach("late", options)), 5U);
    });
    while (used(producer.client, "waiting") == 0) {
        std::this_thread::yield();
    }
    restart_daemon();
    producer.wait_back();
    publish(producer.client, "late", 1, 5);
    waiting.join();
}

TEST_F(Resume, PublishingWhileItIsAwayFailsOrWaitsAsAsked) {
    Connected producer = connect_logged();
    kill_daemon();
    ASSERT_TRUE(producer.log.wait_for(HURRAY_EVENT_CONNECTION));
    std::string message;
    EXPECT_EQ(status_of([&] { publish(producer.client, "x", 10, 1); }, &message), HURRAY_ERR_CONNECTION_LOST);
    EXPECT_THAT(message, testing::HasSubstr("away"));
    EXPECT_EQ(status_of([&] { producer.client.list(); }), HURRAY_ERR_CONNECTION_LOST);
    EXPECT_EQ(status_of([&] { producer.client.attach("x"); }), HURRAY_ERR_CONNECTION_LOST);
    EXPECT_THAT(producer.client.status(), testing::HasSubstr("\"state\":\"away\""));
    PublishOptions options;
    options.timeout = 1ms;
    EXPECT_EQ(status_of([&] { publish(producer.client, "x", 10, 1, options); }), HURRAY_ERR_CONNECTION_LOST);
    std::thread publishing([&] {
        options.timeout = kWatchdog;
        publish(producer.client, "x", 10, 1, options);
    });
    std::thread patient([&] {  // beyond the end of time: that was in the past, and no time at all
        PublishOptions longest;
        longest.timeout = std::chrono::milliseconds::max();
        EXPECT_EQ(status_of([&] { publish(producer.client, "y", 10, 2, longest); }), HURRAY_OK);
    });
    daemon().start();
    publishing.join();
    patient.join();
    EXPECT_EQ(first_of(producer.client.attach("x")), 1U);
    EXPECT_EQ(first_of(producer.client.attach("y")), 2U);
    EXPECT_THAT(producer.client.status(), testing::HasSubstr("\"state\":\"up\",\"reconnects\":1"));
}

// A signal that comes just before the wait, or to another thread, ends no system call.
TEST_F(Resume, AWaitForADaemonThatIsAwayEndsWithoutASignalOnceItIsInterrupted) {
    std::atomic<bool> interrupted{false};
    ConnectOptions options;
    options.address = daemon().socket_path();
    options.interrupted = [&] { return interrupted.load(); };
    Client client = Client::connect(options);
    kill_daemon();
    std::vector<std::thread> waiters;
    waiters.emplace_back([&] {
        AttachOptions attach;
        attach.timeout = kForever;
        EXPECT_EQ(status_of([&] { client.attach("x", attach); }), HURRAY_ERR_INTERRUPTED);
    });
    waiters.emplace_back([&] {
        PublishOptions wait;
        wait.timeout = kForever;
        EXPECT_EQ(status_of([&] { publish(client, "x", 1, 1, wait); }), HURRAY_ERR_INTERRUPTED);
    });
    waiters.emplace_back([&] {
        options.timeout = kForever;
        EXPECT_EQ(status_of([&] { (void)Client::connect(options); }), HURRAY_ERR_INTERRUPTED);
    });
    interrupted = true;
    for (std::thread& waiter : waiters) {
        waiter.join();
    }
}

// What many clients bring back at once was more than may be on its way, and each that was refused so had ended.
TEST_F(Resume, OffersWaitWhileTooManyDescriptorsAreOnTheirWay) {
    if (::geteuid() == 0) {
        GTEST_SKIP() << "root may have any number of descriptors on their way";
    }
    Connected producer = connect_logged();
    constexpr int kCapsules = 40;
    EventLog log;
    for (int i = 0; i < kCapsules; ++i) {
        publish(producer.client, "many/" + std::to_string(i), 1 << 15, 1, told(log));  // a segment of its own each
    }
    kill_daemon();
    ASSERT_TRUE(producer.log.wait_for(HURRAY_EVENT_CONNECTION));
    rlimit before{};
    ::getrlimit(RLIMIT_NOFILE, &before);
    const rlimit few{512, before.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &few);
    std::vector<UniqueFd> ends;  // what lies unread in them is on its way
    for (bool is_full = false; !is_full;) {
        int pair[2];
        ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
        ends.emplace_back(pair[0]);
        ends.emplace_back(pair[1]);
        const std::vector<int> fds(200, pair[0]);
        for (std::size_t count = fds.size(); count != 0 && !is_full;) {
            const auto sent = wire::send_packet(pair[0], std::as_bytes(std::span("x")), std::span(fds).first(count));
            ASSERT_TRUE(sent);
            if (*sent == wire::Sent::WouldBlock) {
                break;
            }
            is_full = *sent == wire::Sent::TooManyInFlight;
        }
    }
    daemon().start();
    Connected observer = connect_logged();
    std::this_thread::sleep_for(200ms);  // any moment is right
    EXPECT_EQ(producer.log.count(HURRAY_EVENT_CONNECTION), 1U) << "away, and not back";
    ends.clear();
    producer.wait_back();
    EXPECT_EQ(log.count(HURRAY_EVENT_ENDED), 0U);
    EXPECT_EQ(observer.client.list("many/").size(), static_cast<std::size_t>(kCapsules));
    ::setrlimit(RLIMIT_NOFILE, &before);
}

// The default of another life was that of all that clients brought back without saying more, and of the memory that they used again.
TEST_F(Resume, AnotherDefaultOfTheNextLifeChangesNobodysAccess) {  // access is fixed at publish
    const TemporaryDirectory directory;
    const std::string file = directory / "hurrayd.toml";
    std::ofstream(file) << "[access]\ndefault_mode = \"0644\"\n";
    DaemonProcess daemon({.arguments = {"--config", file}, .environment = {}, .descriptor_limit = {}});
    Connected producer = connect_to(daemon.socket_path());
    EventLog log;
    publish(producer.client, "shown", 1 << 18, 1);
    ASSERT_EQ(producer.client.list("shown").at(0).access->mode, 0644U);
    producer.client.withdraw(publish(producer.client, "idle", 1 << 18, 1, told(log)).capsule);
    ASSERT_TRUE(log.wait_for(HURRAY_EVENT_ENDED));
    daemon.end(SIGKILL);
    std::ofstream(file) << "[access]\ndefault_mode = \"0600\"\n";
    daemon.start();
    producer.wait_back();
    EXPECT_EQ(producer.client.list("shown").at(0).access->mode, 0644U);
    publish(producer.client, "secret", 1 << 18, 1);
    EXPECT_EQ(producer.client.list("secret").at(0).access->mode, 0600U);
    EXPECT_THAT(producer.client.status(), testing::HasSubstr("\"blocks_reused\":0"))
        << "whoever has mapped what was idle would see the secret";
}

TEST_F(ResumeWindow, WithdrawnWhileItIsAwayStaysWithdrawn) {
    Connected producer = connect_logged();
    Connected consumer = connect_logged();
    EventLog log;
    const CapsuleInfo info = publish(producer.client, "x", 10, 1, told(log));
    std::optional<Tensor> tensor = consumer.client.attach("x");
    kill_daemon();
    ASSERT_TRUE(producer.log.wait_for(HURRAY_EVENT_CONNECTION));
    producer.client.withdraw(info.capsule);
    daemon().start();
    producer.wait_back();
    consumer.wait_back();
    EXPECT_EQ(status_of([&] { consumer.client.attach("x"); }), HURRAY_ERR_NOT_FOUND);
    EXPECT_EQ(log.count(HURRAY_EVENT_ENDED), 0U);
    tensor.reset();
    ASSERT_TRUE(log.wait_for(HURRAY_EVENT_ENDED));
    EXPECT_EQ(log.kinds(), (std::vector<std::uint32_t>{HURRAY_EVENT_LEASE_RELEASED, HURRAY_EVENT_ENDED}));
}

// The client was just bringing it back, as one that is there: nobody said any more that it was withdrawn, and it stayed for ever.
TEST_F(ResumeWindow, WithdrawnWhileItIsBroughtBackIsWithdrawn) {
    Connected producer = connect_logged();
    EventLog log;
    const CapsuleInfo first = publish(producer.client, "many/0", 1, 1, told(log));
    for (int i = 1; i < 1000; ++i) {
        publish(producer.client, "many/" + std::to_string(i), 1, 1);
    }
    restart_daemon();
    Client observer = connect_logged().client;
    while (observer.list("many/0").empty()) {
    }
    producer.client.withdraw(first.capsule);
    ASSERT_TRUE(log.wait_for(HURRAY_EVENT_ENDED));
    producer.wait_back();
    EXPECT_TRUE(observer.list("many/0").empty());
    EXPECT_EQ(observer.list("many/").size(), 999U);
}

TEST_F(Resume, NothingOlderThanWasSeenIsTheLatest) {
    Connected first = connect_logged();
    Connected consumer = connect_logged();
    publish(first.client, "x", 1, 1);
    const std::uint64_t seen = [&] {
        Connected second = connect_logged();
        publish(second.client, "x", 1, 2);
        const std::uint64_t version = consumer.client.attach("x").info().version;
        kill_daemon();
        return version;
    }();
    daemon().start();
    first.wait_back();
    consumer.wait_back();
    EXPECT_EQ(status_of([&] { consumer.client.attach("x"); }), HURRAY_ERR_NOT_FOUND);
    EXPECT_GT(publish(first.client, "x", 1, 3).version, seen);
    EXPECT_EQ(first_of(consumer.client.attach("x")), 3U);
}

TEST_F(ResumeWindow, WatchersAreToldTheDifferencesAndAGap) {
    Connected stays = connect_logged();
    Connected watcher = connect_logged();
    publish(stays.client, "w/stays", 1, 1);
    const CapsuleInfo withdrawn = publish(stays.client, "w/withdrawn", 1, 1);
    EventLog log;
    const Watch watch = watcher.client.watch("w/", log.sink());
    ASSERT_TRUE(log.wait_for(HURRAY_EVENT_SNAPSHOT_END));
    kill_daemon();
    ASSERT_TRUE(stays.log.wait_for(HURRAY_EVENT_CONNECTION));
    stays.client.withdraw(withdrawn.capsule);
    daemon().start();
    stays.wait_back();
    publish(stays.client, "w/new", 1, 1);
    ASSERT_TRUE(log.wait_for(HURRAY_EVENT_GAP));
    std::vector<std::string> told;
    for (const EventLog::Entry& entry : log.all()) {
        told.push_back(std::to_string(entry.event.kind) + entry.name);
    }
    const auto word = [](std::uint32_t kind, const char* name) { return std::to_string(kind) + name; };
    EXPECT_THAT(told, ElementsAre(word(HURRAY_EVENT_PRESENT, "w/stays"), word(HURRAY_EVENT_PRESENT, "w/withdrawn"),
                                  word(HURRAY_EVENT_SNAPSHOT_END, ""), word(HURRAY_EVENT_PUBLISHED, "w/new"),
                                  word(HURRAY_EVENT_RETIRED, "w/withdrawn"), word(HURRAY_EVENT_GAP, "")));
    publish(stays.client, "w/new", 1, 2);
    ASSERT_TRUE(log.wait_for(HURRAY_EVENT_PUBLISHED, 2));
    EXPECT_EQ(log.count(HURRAY_EVENT_RETIRED), 2U);
}

TEST_F(Resume, WhatIsStagedEndsAndTheGroupIsGone) {
    Connected producer = connect_logged();
    EventLog log;
    Group group = producer.client.begin_group();
    PublishOptions options = told(log);
    options.group = group.number();
    publish(producer.client, "g/a", 1, 1, std::move(options));
    restart_daemon();
    producer.wait_back();
    ASSERT_TRUE(log.wait_for(HURRAY_EVENT_ENDED));
    EXPECT_FALSE(log.all().back().event.reusable);
    EXPECT_EQ(status_of([&] { group.commit(); }), HURRAY_ERR_NOT_FOUND);
}

TEST_F(Resume, WhoWasCutOffByALivingDaemonBeginsAnew) {
    Connected client = connect_logged();
    EventLog log;
    publish(client.client, "x", 10, 1, told(log));
    std::optional<Tensor> tensor = client.client.attach("x");
    cut_off(daemon().socket_path());
    client.wait_back();
    ASSERT_TRUE(log.wait_for(HURRAY_EVENT_ENDED));
    EXPECT_EQ(log.kinds(), (std::vector<std::uint32_t>{HURRAY_EVENT_LEASE_LOST, HURRAY_EVENT_ENDED}));
    EXPECT_FALSE(log.all().back().event.reusable);
    EXPECT_EQ(tensor->state(), HURRAY_ERR_CONNECTION_LOST);
    EXPECT_EQ(first_of(*tensor), 1U);
    tensor.reset();
    publish(client.client, "x", 10, 2);
    EXPECT_EQ(first_of(client.client.attach("x")), 2U);
}

TEST_F(Resume, WhatCantBeReachedInTimeIsLost) {
    EventLog log;
    ConnectOptions options;
    options.address = daemon().socket_path();
    options.on_event = log.sink();
    options.reconnect_time = 50ms;
    Client client = Client::connect(std::move(options));
    publish(client, "x", 10, 1);
    const Tensor tensor = client.attach("x");
    kill_daemon();
    ASSERT_TRUE(log.wait_for(HURRAY_EVENT_CONNECTION, 2));
    EXPECT_TRUE(log.all()[0].event.away);
    EXPECT_FALSE(log.all()[1].event.away);
    EXPECT_EQ(tensor.state(), HURRAY_ERR_CONNECTION_LOST);
    EXPECT_EQ(first_of(tensor), 1U);
    EXPECT_EQ(status_of([&] { client.list(); }), HURRAY_ERR_CONNECTION_LOST);
}

TEST_F(Resume, ClosingWhileItIsAwayIsTheEndAndTakesNoTime) {
    Connected client = connect_logged();
    publish(client.client, "x", 10, 1);
    const Tensor tensor = client.client.attach("x");
    kill_daemon();
    ASSERT_TRUE(client.log.wait_for(HURRAY_EVENT_CONNECTION));
    std::thread waiting([&] {
        AttachOptions options;
        options.timeout = kWatchdog;
        EXPECT_EQ(status_of([&] { client.client.attach("late", options); }), HURRAY_ERR_CLOSED);
    });
    client.client.close();
    waiting.join();
    {
        const Client gone = std::move(client.client);
    }
    EXPECT_EQ(first_of(tensor), 1U);
    daemon().start();
}

TEST_F(Resume, ClientsThatDispatchThemselvesComeBackToo) {
    ConnectOptions options;
    options.address = daemon().socket_path();
    options.dispatch_by_caller = true;
    std::vector<HurrayStatus> told;
    options.on_event = [&](const Event& event) { told.push_back(event.status); };
    Client client = Client::connect(std::move(options));
    publish(client, "x", 10, 1);
    restart_daemon();
    while (told.size() < 2) {
        client.dispatch(kWatchdog);
    }
    EXPECT_EQ(told, (std::vector<HurrayStatus>{HURRAY_ERR_CONNECTION_LOST, HURRAY_OK}));
    EXPECT_EQ(first_of(client.attach("x")), 1U);
}

// case C5
TEST_F(Resume, KilledInAnyPhaseTheDaemonStartsAgainAndItsClientsComeBack) {
    Connected producer = connect_logged();
    Connected consumer = connect_logged();
    publish(producer.client, "x", 10, 1);
    std::minstd_rand random(20261130);
    const auto moment = [&] { std::this_thread::sleep_for(std::chrono::microseconds(random() % 20'000)); };
    const int rounds_of_all = rounds(48) / 4 * 4;
    for (int round = 0; round < rounds_of_all; ++round) {
        std::vector<Tensor> leases;
        switch (round % 4) {
            case 0:  // while it starts
                kill_daemon();
                daemon().start_without_waiting();
                moment();
                break;
            case 1:  // idle
                break;
            case 2:  // with leases open
                for (int i = 0; i < 100; ++i) {
                    AttachOptions options;
                    options.timeout = kWatchdog;
                    leases.push_back(consumer.client.attach("x", options));
                }
                break;
            default:  // while it ends
                ::kill(daemon().pid(), SIGTERM);
                moment();
        }
        restart_daemon();
        AttachOptions options;
        options.timeout = kWatchdog;
        EXPECT_EQ(first_of(consumer.client.attach("x", options)), 1U) << "round " << round;
    }
}

TEST_F(ResumeWindow, ManyDeathsInARowLoseNothing) {
    Connected producer = connect_logged();
    Connected consumer = connect_logged();
    EventLog log;
    std::vector<Tensor> held;
    const int deaths = rounds(8);
    for (int death = 0; death < deaths; ++death) {
        for (int i = 0; i < 20; ++i) {
            const std::string name = "n/" + std::to_string(i);
            const auto stamp = static_cast<std::uint32_t>(100 * death + i);
            PublishOptions options = told(log);
            options.timeout = kWatchdog;
            publish(producer.client, name, 50, stamp, std::move(options));
            AttachOptions attach;
            attach.timeout = kWatchdog;
            held.push_back(consumer.client.attach(name, attach));
            EXPECT_EQ(first_of(held.back()), stamp);
        }
        kill_daemon();
        held.erase(held.begin(), held.begin() + static_cast<std::ptrdiff_t>(held.size() / 2));
        daemon().start();
    }
    held.clear();
    const auto opened = static_cast<std::size_t>(20 * deaths);
    ASSERT_TRUE(log.wait_for(HURRAY_EVENT_LEASE_RELEASED, opened))
        << log.count(HURRAY_EVENT_LEASE_RELEASED) << " released, " << log.count(HURRAY_EVENT_LEASE_LOST) << " lost";
    for (int i = 0; i < 20; ++i) {
        PublishOptions options;
        options.timeout = kWatchdog;
        publish(producer.client, "n/" + std::to_string(i), 1, 0, std::move(options));
    }
    ASSERT_TRUE(log.wait_for(HURRAY_EVENT_ENDED, opened));
    EXPECT_EQ(log.count(HURRAY_EVENT_LEASE_RELEASED), opened);
    EXPECT_EQ(log.count(HURRAY_EVENT_LEASE_LOST), 0U);
    EXPECT_EQ(log.count(HURRAY_EVENT_ENDED), opened);
}

/// Publishes, replaces and withdraws for as long as it is to, and keeps account of what it is told of each capsule.
class BusyProducer {
  public:
    BusyProducer(Client client, std::uint32_t number) : client_(std::move(client)), number_(number) {}

    void run(const std::atomic<bool>& stop) {
        for (std::uint32_t count = 1; !stop; ++count) {
            const std::string name = "busy/" + std::to_string(number_) + "/" + std::to_string(count % 4);
            const std::uint32_t stamp = number_ << 24U | count;
            PublishOptions options;
            options.timeout = kWatchdog;
            options.tell_opened = true;
            options.on_event = [this, stamp](const Event& event) { note(stamp, event); };
            const std::uint64_t elements = count % 3 == 0 ? 40'000 : 100;  // with a segment of its own, and in an arena
            Allocation allocation = client_.allocate<std::uint32_t>({elements});
            std::ranges::fill(allocation.elements<std::uint32_t>(), stamp);
            const CapsuleInfo info = client_.publish(name, std::move(allocation), std::move(options));
            ++published_;
            if (count % 5 == 0) {
                client_.withdraw(info.capsule);
            }
        }
    }

    /// Once nobody holds anything: retires what is left, and waits until each capsule has ended, once.
    void finish() {
        for (int i = 0; i < 4; ++i) {
            const std::string name = "busy/" + std::to_string(number_) + "/" + std::to_string(i);
            for (const CapsuleInfo& left : client_.list(name)) {
                const HurrayStatus status = status_of([&] { client_.withdraw(left.capsule); });
                EXPECT_TRUE(status == HURRAY_OK || status == HURRAY_ERR_NOT_FOUND) << status;  // it ended meanwhile
            }
        }
        std::unique_lock lock(mutex_);
        EXPECT_TRUE(changed_.wait_for(lock, kWatchdog, [this] { return ended_ == published_; }))
            << ended_ << " of " << published_;
        for (const auto& [stamp, open] : open_) {
            EXPECT_EQ(open, 0) << "of the capsule with the stamp " << stamp;
        }
    }

    [[nodiscard]] std::uint64_t opened() const { return opened_; }
    [[nodiscard]] std::uint64_t closed() const { return closed_; }

  private:
    void note(std::uint32_t stamp, const Event& event) {
        const std::lock_guard lock(mutex_);
        switch (event.kind) {
            case HURRAY_EVENT_LEASE_OPENED:
                ++opened_;
                ++open_[stamp];
                break;
            case HURRAY_EVENT_LEASE_RELEASED:
            case HURRAY_EVENT_LEASE_LOST:
                ++closed_;
                --open_[stamp];
                EXPECT_GE(open_[stamp], 0) << "closed more often than opened";
                break;
            case HURRAY_EVENT_ENDED:
                ++ended_;
                EXPECT_EQ(open_[stamp], 0) << "ended while it is held";
                EXPECT_TRUE(ended_stamps_.insert(stamp).second) << "ended twice";
                break;
            default:
                ADD_FAILURE() << "event " << event.kind;
        }
        changed_.notify_all();
    }

    Client client_;
    const std::uint32_t number_;
    std::uint64_t published_ = 0;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::map<std::uint32_t, int> open_;
    std::set<std::uint32_t> ended_stamps_;
    std::atomic<std::uint64_t> opened_ = 0;  // others look at it while it runs
    std::uint64_t closed_ = 0;
    std::uint64_t ended_ = 0;
};

/// Attaches, holds some for a while, and looks at each again before it lets go: nobody may have written there.
void consume_busily(Client client, std::uint32_t seed, const std::atomic<bool>& stop) {
    std::minstd_rand random(seed);
    struct Held {
        Tensor tensor;
        std::uint32_t stamp;
    };
    std::vector<Held> held;
    const auto all_are = [](const Tensor& tensor, std::uint32_t stamp) {
        return std::ranges::all_of(tensor.elements<std::uint32_t>(), [=](std::uint32_t each) { return each == stamp; });
    };
    while (!stop) {
        const std::string name = "busy/" + std::to_string(1 + random() % 2) + "/" + std::to_string(random() % 4);
        AttachOptions options;
        options.timeout = 200ms;
        const HurrayStatus status = status_of([&] {
            Tensor tensor = client.attach(name, options);
            const std::uint32_t stamp = first_of(tensor);
            EXPECT_TRUE(all_are(tensor, stamp)) << name;
            held.push_back({std::move(tensor), stamp});
        });
        EXPECT_TRUE(status == HURRAY_OK || status == HURRAY_ERR_TIMED_OUT || status == HURRAY_ERR_CONNECTION_LOST)
            << status;
        while (held.size() > 8 || (!held.empty() && random() % 3 == 0)) {
            const std::size_t which = random() % held.size();
            EXPECT_TRUE(all_are(held[which].tensor, held[which].stamp)) << "written while it was held";
            held.erase(held.begin() + static_cast<std::ptrdiff_t>(which));
        }
    }
}

TEST_F(Resume, DeathsUnderLoadCloseEachLeaseOnceAndChangeNothingThatIsHeld) {
    MortalDaemon mortal(config(5));
    const auto connect = [&] { return connect_to(mortal.socket_path()).client; };
    const std::size_t descriptors = count_open_descriptors();
    {
        std::atomic<bool> stop{false};
        BusyProducer one(connect(), 1);
        BusyProducer two(connect(), 2);
        std::vector<std::thread> threads;
        threads.emplace_back([&] { one.run(stop); });
        threads.emplace_back([&] { two.run(stop); });
        for (std::uint32_t seed = 1; seed <= 3; ++seed) {
            threads.emplace_back(consume_busily, connect(), seed, std::cref(stop));
        }
        std::minstd_rand random(20261130);
        for (int death = rounds(20); death > 0; --death) {
            std::this_thread::sleep_for(std::chrono::milliseconds(random() % 60));  // any moment is right
            mortal.restart();
        }
        while (one.opened() == 0 || two.opened() == 0) {
            std::this_thread::yield();  // a machine that is busy elsewhere comes to nothing between two deaths
        }
        stop = true;
        for (std::thread& thread : threads) {
            thread.join();
        }
        one.finish();
        two.finish();
        EXPECT_EQ(one.opened(), one.closed());
        EXPECT_EQ(two.opened(), two.closed());
        Client client = connect();
        while (used(client, "capsules") != 0 || used(client, "leases") != 0 || used(client, "claims") != 0) {
            std::this_thread::yield();
        }
    }
    while (count_open_descriptors() > descriptors) {
        std::this_thread::yield();
    }
}

}  // namespace
}  // namespace hurray::test
