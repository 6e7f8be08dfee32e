// Tensors that outlive the daemon, too: it is killed, and a service manager with a descriptor store starts the next one.
#include <algorithm>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

#include <gmock/gmock.h>

#include "tests/integration/client_test.hpp"
#include "tests/support/raw_peer.hpp"
#include "tests/support/store_manager.hpp"
#include "tests/support/temporary_directory.hpp"

namespace hurray::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;
using testing::StartsWith;

PublishOptions lingering(std::chrono::milliseconds linger = kForever, EventFunction on_event = {}) {
    PublishOptions options;
    options.on_event = std::move(on_event);
    options.linger = linger;
    return options;
}
PublishOptions once() {
    PublishOptions options = lingering();
    options.once = true;
    return options;
}

AttachOptions patient() {
    AttachOptions options;
    options.timeout = kWatchdog;
    return options;
}

class StoreLife : public ::testing::Test {
  protected:
    static StoreManager::Options config(int window_seconds, std::size_t most = 4096) {
        static const TemporaryDirectory directory;
        const std::string file = directory / ("window" + std::to_string(window_seconds) + ".toml");
        std::ofstream(file) << "[resume]\nwindow = " << window_seconds << "\n";
        return {.arguments = {"--config", file}, .environment = {}, .most = most, .says_so = true};
    }

    explicit StoreLife(const StoreManager::Options& options = config(4)) : manager(options) {}

    [[nodiscard]] Client connect() const {
        ConnectOptions options;
        options.address = manager.socket_path();
        options.timeout = kWatchdog;
        return Client::connect(std::move(options));
    }
    /// A client by hand, and the life that it is connected to.
    [[nodiscard]] std::pair<RawPeer, wire::Id16> greet(wire::Id16 session, std::optional<wire::Id16> last = {}) const {
        RawPeer peer(manager.socket_path());
        const wire::Id16 life = peer.call<wire::HelloReply>(wire::Hello{1, 1, "by hand", session, last}).instance;
        return {std::move(peer), life};
    }
    /// A tensor of so many elements: of more than 16,384 it has a segment of its own.
    static CapsuleInfo publish(Client& client, const std::string& name, std::uint32_t first,
                               PublishOptions options = lingering(), std::uint64_t count = 20'000) {
        options.timeout = kWatchdog;  // the daemon may be away
        Allocation allocation = client.allocate<std::uint32_t>({count});
        allocation.elements<std::uint32_t>()[0] = first;
        return client.publish(name, std::move(allocation), std::move(options));
    }
    static std::string entry_of(const CapsuleInfo& info) {
        constexpr char kDigits[] = "0123456789abcdef";
        std::string name = "c-" + std::to_string(info.capsule.uid) + "-";
        for (const std::uint8_t byte : info.capsule.id) {
            name += kDigits[byte >> 4U];
            name += kDigits[byte & 15U];
        }
        return name;
    }
    /// Everything in the store but the journal.
    std::vector<std::string> stored() {
        std::vector<std::string> names = manager.entries();
        std::erase_if(names, [](const std::string& name) { return name.starts_with("journal-"); });
        return names;
    }

    StoreManager manager;
};

TEST_F(StoreLife, WhatLingersIsThereAfterTheDaemonsDeathThoughNobodyElseIs) {
    std::optional<Client> producer = connect();
    const CapsuleInfo info = publish(*producer, "model", 7);
    EXPECT_THAT(manager.entries(), ElementsAre("journal-1", "s-1", entry_of(info)));
    publish(*producer, "plain", 8, {});
    producer.reset();
    for (std::uint64_t life = 2; life < 5; ++life) {
        manager.restart();
        EXPECT_THAT(manager.entries(), ElementsAre("s-1", entry_of(info), "journal-" + std::to_string(life)));
        Client consumer = connect();
        const Tensor tensor = consumer.attach("model");
        EXPECT_EQ(first_of(tensor), 7U);
        EXPECT_EQ(tensor.info().version, info.version);
        const CapsuleInfo listed = consumer.list("model").at(0);
        EXPECT_TRUE(listed.lingering && listed.producer_gone);
        EXPECT_EQ(listed.access, (Access{getegid(), 0600}));
        EXPECT_EQ(consumer.list("").size(), 1U);
    }
    Client other = connect();
    other.withdraw(info.capsule);
    EXPECT_THAT(manager.entries(), ElementsAre("journal-4"));
    manager.restart();
    EXPECT_THAT(connect().list(""), SizeIs(0));
}

TEST_F(StoreLife, AWithdrawalThatNobodyHasReadIsNotSaidToBeDone) {
    const auto withdraw = [](Client& client, const CapsuleInfo& info) {
        try {
            client.withdraw(info.capsule);
            return HURRAY_OK;
        } catch (const StatusError& error) {
            return error.status();
        }
    };
    std::optional<Client> producer = connect();
    const CapsuleInfo info = publish(*producer, "model", 7);
    manager.kill();
    EXPECT_EQ(withdraw(*producer, info), HURRAY_ERR_CONNECTION_LOST);
    producer.reset();  // and so the next daemon does not hear of it
    manager.start();
    Client next = connect();
    EXPECT_EQ(first_of(next.attach("model")), 7U);
    EXPECT_EQ(withdraw(next, info), HURRAY_OK);
    EXPECT_THAT(stored(), SizeIs(0));

    const CapsuleInfo again = publish(next, "model", 8);
    manager.kill();
    EXPECT_EQ(withdraw(next, again), HURRAY_ERR_CONNECTION_LOST);
    manager.start();
    while (!stored().empty()) {  // it heard of it
        std::this_thread::sleep_for(1ms);
    }
}

TEST_F(StoreLife, AStopAndAStartKeepItTooWhereTheManagerDoes) {
    {
        Client producer = connect();
        publish(producer, "model", 7);
    }
    manager.stop();
    manager.start();
    Client consumer = connect();
    EXPECT_EQ(first_of(consumer.attach("model")), 7U);
}

TEST_F(StoreLife, ItsProducerHasItAgainAndHearsOfEveryLeaseOnce) {
    EventLog connection;
    ConnectOptions options;
    options.address = manager.socket_path();
    options.on_event = connection.sink();
    Client producer = Client::connect(std::move(options));
    EventLog log;
    const CapsuleInfo info = publish(producer, "model", 7, lingering(kForever, log.sink()));
    Client consumer = connect();
    Tensor held = consumer.attach("model");
    Tensor given_back = consumer.attach("model");
    manager.kill();
    given_back.release();  // while nobody is there
    manager.start();
    ASSERT_TRUE(connection.wait_for(HURRAY_EVENT_CONNECTION, 2));
    EXPECT_EQ(first_of(consumer.attach("model", patient())), 7U);  // and that one is given back at once
    ASSERT_TRUE(log.wait_for(HURRAY_EVENT_LEASE_RELEASED, 2));
    held.release();
    ASSERT_TRUE(log.wait_for(HURRAY_EVENT_LEASE_RELEASED, 3));
    EXPECT_EQ(log.count(HURRAY_EVENT_LEASE_LOST), 0U);
    producer.withdraw(info.capsule);
    ASSERT_TRUE(log.wait_for(HURRAY_EVENT_ENDED));
    EXPECT_FALSE(log.all().back().event.reusable);
    EXPECT_THAT(stored(), SizeIs(0));
}

/// By hand, since who comes back first is what this is about.
TEST_F(StoreLife, AReleaseBeforeItsProducerIsBackIsToldWhenItIs) {  // release_kept
    const wire::Id16 ours = fresh_id();
    const wire::Id16 theirs = fresh_id();
    TestTensor tensor = make_tensor("model");
    tensor.publish.linger_ms = 0;
    auto [producer, life] = greet(ours);
    tensor.publish.version = producer.publish(tensor).version;
    auto [consumer, same_life] = greet(theirs);
    const wire::CapsuleId capsule = consumer.attach(1, "model").reply.capsule;
    consumer.attach(2, "model");
    for (int lease = 1; lease <= 2; ++lease) {
        EXPECT_EQ(producer.next<wire::LeaseEvent>().what, wire::LeaseEvent::What::Opened);
    }
    manager.restart();

    RawPeer back = greet(theirs, life).first;
    using State = wire::Claims::State;
    back.call<wire::Done>(wire::Claims{{{capsule, 1, State::Held}, {capsule, 2, State::Held}}});
    const std::uint64_t released = back.send(wire::Release{{1}});
    back.call<wire::Done>(wire::ResumeDone{});  // the release has no answer yet

    RawPeer again = greet(ours, life).first;
    again.publish(tensor);
    const auto event = again.next<wire::LeaseEvent>();
    EXPECT_EQ(event.what, wire::LeaseEvent::What::Released);
    EXPECT_EQ(event.lease.lease, 1U);
    EXPECT_EQ(event.remaining, 1U);
    back.next<wire::Done>(released);
    again.call<wire::Done>(wire::ResumeDone{});
    const auto open = again.next<wire::WindowClosed>().open;
    ASSERT_EQ(open.size(), 1U);
    EXPECT_EQ(open[0].lease, 2U);
}

TEST_F(StoreLife, AReplacementIsStoredAndTheOldOneGoes) {
    Client producer = connect();
    publish(producer, "model", 1);
    const CapsuleInfo second = publish(producer, "model", 2);
    EXPECT_THAT(stored(), ElementsAre("s-2", entry_of(second)));
    manager.restart();
    EXPECT_EQ(first_of(producer.attach("model", patient())), 2U);
    publish(producer, "model", 3, {});
    EXPECT_THAT(stored(), SizeIs(0));
    EXPECT_EQ(first_of(producer.attach("model")), 3U);
}

TEST_F(StoreLife, CapsulesThatShareASegmentShareItInTheStore) {
    std::optional<Client> producer = connect();
    const CapsuleInfo first = publish(*producer, "small/1", 1, lingering(), 10);
    const CapsuleInfo second = publish(*producer, "small/2", 2, lingering(), 10);
    EXPECT_THAT(stored(), ElementsAre("s-1", entry_of(first), entry_of(second)));
    producer.reset();
    manager.restart();
    Client consumer = connect();
    EXPECT_EQ(first_of(consumer.attach("small/1")), 1U);
    EXPECT_EQ(first_of(consumer.attach("small/2")), 2U);
    consumer.withdraw(first.capsule);
    EXPECT_THAT(stored(), ElementsAre("s-1", entry_of(second)));
    manager.restart();
    EXPECT_EQ(first_of(consumer.attach("small/2", patient())), 2U);
    consumer.withdraw(second.capsule);
    EXPECT_THAT(stored(), SizeIs(0));
}

TEST_F(StoreLife, ItsTimeGoesOnOverTheDeath) {
    {
        Client producer = connect();
        publish(producer, "brief", 1, lingering(1500ms));
        publish(producer, "long", 2, lingering(std::chrono::hours(1)));
    }
    Client consumer = connect();
    while (!consumer.list("brief").at(0).producer_gone) {
    }
    manager.restart();
    Client next = connect();
    const auto left = next.list("long").at(0).expires;
    EXPECT_GT(left, 0ms);
    EXPECT_LE(left, std::chrono::hours(1));
    while (!next.list("brief").empty()) {
        std::this_thread::sleep_for(1ms);
    }
    EXPECT_THAT(stored(), SizeIs(2));
}

TEST_F(StoreLife, EachJobIsTakenOnceOverManyDeaths) {
    constexpr std::uint32_t kJobs = 12;
    {
        Client producer = connect();
        for (std::uint32_t job = 0; job < kJobs; ++job) {
            publish(producer, "jobs", job, once());
        }
    }
    Client worker = connect();
    std::set<std::uint32_t> done;
    for (std::uint32_t job = 0; job < kJobs; ++job) {
        if (job % 4 == 3) {
            manager.restart();
        }
        const Tensor taken = worker.take("jobs", patient());
        EXPECT_TRUE(done.insert(first_of(taken)).second) << first_of(taken);
    }
    EXPECT_EQ(done.size(), kJobs);
    EXPECT_THAT(stored(), SizeIs(0));
}

TEST_F(StoreLife, DamagedMetadataIsPassedOverAndRemoved) {
    std::optional<Client> producer = connect();
    const CapsuleInfo good = publish(*producer, "good", 1);
    const CapsuleInfo bad = publish(*producer, "bad", 2);
    producer.reset();
    const std::string bad_entry = entry_of(bad);
    const std::uint64_t size = manager.size_of(bad_entry);
    manager.kill();
    manager.damage(bad_entry, size / 2);
    manager.start();
    EXPECT_THAT(stored(), ElementsAre("s-1", entry_of(good)));
    Client consumer = connect();
    EXPECT_EQ(first_of(consumer.attach("good")), 1U);
    EXPECT_EQ(status_of([&] { consumer.attach("bad"); }), HURRAY_ERR_NOT_FOUND);
    EXPECT_THAT(manager.log(), HasSubstr("stored_unusable entry=c-" + std::to_string(getuid()) + " "));
}

TEST_F(StoreLife, WithoutAllOfItsSegmentsItIsGone) {  // exists_iff_all
    std::optional<Client> producer = connect();
    const CapsuleInfo info = publish(*producer, "model", 1);
    publish(*producer, "other", 2);
    producer.reset();
    manager.kill();
    manager.lose("s-1");
    manager.start();
    EXPECT_THAT(manager.entries("c-"), SizeIs(1));
    EXPECT_THAT(manager.entries("s-"), ElementsAre("s-2"));
    EXPECT_THAT(manager.log(), HasSubstr("its segment s-1 is not there"));
    manager.kill();
    manager.lose(manager.entries("c-").at(0));
    manager.start();
    EXPECT_THAT(stored(), SizeIs(0));  // clean_store
}

TEST_F(StoreLife, WhatIsNotItsOwnIsRemoved) {  // clean_store
    Client producer = connect();
    const CapsuleInfo info = publish(producer, "model", 1);
    manager.kill();
    for (const char* name : {"s-99", "c-0-00", "stored", "journal-x", "s-0", "s-", "c-"}) {
        manager.add(name);
    }
    manager.add("journal-77");
    manager.start();
    EXPECT_THAT(manager.entries(), ElementsAre("s-1", entry_of(info), "journal-78"));
    EXPECT_EQ(first_of(producer.attach("model", patient())), 1U);
}

TEST_F(StoreLife, ATornJournalCountsUpToWhereItIsWhole) {
    Client producer = connect();
    const CapsuleInfo first = publish(producer, "a", 1, {});
    const std::uint64_t whole = manager.size_of("journal-1");
    publish(producer, "b", 2, {});
    manager.kill();
    manager.cut("journal-1", whole + 3);
    manager.start();
    EXPECT_THAT(manager.log(), HasSubstr("stored_unusable entry=journal-1"));
    EXPECT_THAT(manager.log(), HasSubstr("names=1 journal=found"));
    EXPECT_GT(publish(producer, "c", 3, {}).version, first.version);
}

TEST_F(StoreLife, AJournalThatCantBeReadIsNone) {
    Client producer = connect();
    publish(producer, "a", 1);
    manager.kill();
    manager.damage("journal-1", 0);
    manager.start();
    EXPECT_THAT(manager.log(), HasSubstr("journal=none"));
    EXPECT_THAT(manager.entries("journal-"), ElementsAre("journal-2"));
    EXPECT_EQ(first_of(producer.attach("a", patient())), 1U);
}

TEST_F(StoreLife, TheJournalIsBegunAnewWhenItIsMostlyOutOfDate) {
    Client producer = connect();
    const CapsuleInfo lingers = publish(producer, "lingers", 5);
    const std::string name(255, 'n');  // so that each note is long
    std::uint64_t last = 0;
    std::size_t published = 0;
    while (manager.entries("journal-") == std::vector<std::string>{"journal-1"}) {
        for (int i = 0; i < 500; ++i, ++published) {
            last = publish(producer, name, 1, {}, 1).version;
        }
    }
    EXPECT_THAT(manager.entries("journal-"), SizeIs(1));
    EXPECT_LT(manager.size_of(manager.entries("journal-").at(0)), published * 255);
    manager.restart();
    EXPECT_THAT(manager.log(), HasSubstr("names=2 journal=found"));
    EXPECT_GT(publish(producer, name, 2, {}, 1).version, last);
    EXPECT_EQ(producer.attach("lingers").info().version, lingers.version);
}

class SmallStore : public StoreLife {
  protected:
    SmallStore() : StoreLife(config(1, 5)) {}  // of them two for the journals
};

TEST_F(SmallStore, OverItsMaximumLingerIsRefusedByQuota) {
    EXPECT_THAT(manager.log(), HasSubstr(" store=5 "));
    Client producer = connect();
    const CapsuleInfo first = publish(producer, "a", 1);
    std::string message;
    EXPECT_EQ(status_of([&] { publish(producer, "b", 2); }, &message), HURRAY_ERR_OVER_QUOTA);
    EXPECT_THAT(message, HasSubstr("all users together have 2 descriptors in the service manager's store, and 2 more "
                                   "are asked for; at most 3 are allowed (store.max)"));
    EXPECT_NO_THROW(publish(producer, "c", 3, {}));
    producer.withdraw(first.capsule);
    const CapsuleInfo second = publish(producer, "b", 2);
    manager.restart();
    EXPECT_THAT(stored(), ElementsAre("s-2", entry_of(second)));
    EXPECT_EQ(first_of(producer.attach("b", patient())), 2U);
    EXPECT_EQ(status_of([&] { publish(producer, "d", 4); }), HURRAY_ERR_OVER_QUOTA);
}

TEST_F(SmallStore, ItsJournalHasAPlaceThoughTwoWereLeft) {  // clean_store
    // Killed while one journal took the other's place, in a store that was full. The third was dropped, and then both were removed: the
    // next life knew of no name and no take.
    Client producer = connect();
    publish(producer, "a", 1, lingering(), 1);
    const CapsuleInfo second = publish(producer, "b", 2, lingering(), 1);  // in the segment of the first
    manager.add("journal-9");
    EXPECT_THAT(manager.entries(), SizeIs(5));
    manager.restart();
    EXPECT_THAT(manager.entries("journal-"), ElementsAre("journal-10"));
    manager.restart();
    EXPECT_THAT(manager.log(), HasSubstr("names=2 journal=found"));
    EXPECT_EQ(producer.attach("b", patient()).info().version, second.version);
}

class NoStore : public StoreLife {
  protected:
    static StoreManager::Options silent() {
        StoreManager::Options options = config(1, 0);
        options.says_so = false;
        return options;
    }
    NoStore() : StoreLife(silent()) {}
};

TEST_F(NoStore, WhatLingersGoesWithTheDaemon) {
    {
        Client producer = connect();
        publish(producer, "model", 1);
    }
    Client consumer = connect();
    EXPECT_EQ(first_of(consumer.attach("model")), 1U);
    EXPECT_THAT(manager.entries(), SizeIs(0));
    manager.restart();
    Client next = connect();
    EXPECT_THAT(next.list(""), SizeIs(0));
}

/// Whoever is cut off may come back to a daemon that does not know what was taken meanwhile.
TEST_F(NoStore, WhatACutOffProducerQueuedIsTakenOnceByOne) {  // cut_off_once_ends
    const wire::Id16 session = fresh_id();
    TestTensor job = make_tensor("jobs");
    job.publish.linger_ms = 0;
    job.publish.once = true;
    auto [producer, life] = greet(session);
    const std::uint64_t version = producer.publish(job).version;
    Client worker = connect();
    producer.send_raw("no request");
    producer.next<wire::Closing>();
    EXPECT_TRUE(producer.at_end());
    EXPECT_EQ(status_of([&] { (void)worker.take("jobs"); }), HURRAY_ERR_NOT_FOUND);

    manager.restart();
    job.publish.version = version;
    auto [back, next_life] = greet(session, life);
    EXPECT_EQ(back.publish(job).version, version);
    back.call<wire::Done>(wire::ResumeDone{});
    const Tensor taken = worker.take("jobs", patient());
    EXPECT_EQ(taken.info().version, version);
    EXPECT_EQ(status_of([&] { (void)worker.take("jobs"); }), HURRAY_ERR_NOT_FOUND);

    // Whoever has left does not come back.
    job = make_tensor("jobs");
    job.publish.linger_ms = 0;
    job.publish.once = true;
    RawPeer leaver = greet(fresh_id()).first;
    const std::uint64_t last = leaver.publish(job).version;
    leaver.close();
    EXPECT_EQ(worker.take("jobs", patient()).info().version, last);
}

class LongWindow : public StoreLife {
  protected:
    LongWindow() : StoreLife(config(3600)) {}
};

TEST_F(LongWindow, EndsOnceEveryNameIsBack) {
    Client producer = connect();
    publish(producer, "jobs", 1, once());
    publish(producer, "plain", 2, {});
    manager.restart();
    Client worker = connect();
    EXPECT_EQ(first_of(worker.take("jobs", patient())), 1U);  // it waits for the window's end
}

// ---- Killed at every message ----------------------------------------------------------------------------------------

void wait_back(Client& client) {
    while (status_of([&] { (void)client.list(""); }) != HURRAY_OK) {
    }
}

/// Until nothing can be attached any more; what was withdrawn while the daemon was away is when it is back.
void withdraw_all(Client& client) {
    for (bool is_done = false; !is_done;) {
        wait_back(client);
        is_done = status_of([&] {
                      for (const CapsuleInfo& info : client.list("")) {
                          if (!info.retired) {
                              client.withdraw(info.capsule);
                          }
                      }
                  }) == HURRAY_OK;
    }
    wait_back(client);
}

/// Publishes tensors that linger, together, without a library that would say anything again. Their versions; none: the daemon died.
std::vector<std::uint64_t> publish_group(RawPeer& producer, const std::vector<std::string>& names) {
    try {
        producer.call<wire::GroupReply>(wire::Group{1, wire::Group::Action::Begin});
        for (const std::string& name : names) {
            TestTensor tensor = make_tensor(name);
            tensor.publish.group = 1;
            tensor.publish.linger_ms = 0;
            producer.publish(tensor);
        }
        const std::uint64_t commit = producer.send(wire::Group{1, wire::Group::Action::Commit});
        for (;;) {
            Incoming next = producer.receive();
            if (next.packet.request_id == commit) {
                return std::get<wire::GroupReply>(next.packet.message).versions;
            }
        }
    } catch (const std::runtime_error&) {  // the connection's end
        return {};
    }
}

TEST_F(StoreLife, AGroupIsThereAsAWholeOrNotAtAllWhereverTheDaemonDies) {  // all_of_a_group
    std::vector<std::string> names;
    for (int i = 0; i < 30; ++i) {
        names.push_back("model/" + std::to_string(i));
    }
    std::set<bool> found;
    bool is_through = false;
    for (std::size_t at = 1; !is_through; at += 7) {  // of 120 messages; it is killed there or a little later
        SCOPED_TRACE(at);
        RawPeer first = RawPeer::greeted(manager.socket_path());
        const auto old = publish_group(first, names);
        ASSERT_THAT(old, SizeIs(names.size()));
        RawPeer second = RawPeer::greeted(manager.socket_path());
        const std::size_t deaths = manager.deaths();
        manager.kill_at(at);
        const auto answered = publish_group(second, names);
        is_through = manager.deaths() == deaths;
        if (is_through) {
            manager.kill_at(0);
            manager.restart();
        }
        Client consumer = connect();
        std::size_t of_old = 0;
        std::size_t of_new = 0;
        for (const CapsuleInfo& info : consumer.list("model/")) {
            if (info.retired) {
                continue;  // others might still claim it
            }
            EXPECT_EQ(consumer.attach(info.name).info().version, info.version);
            ++(info.version <= old.back() ? of_old : of_new);
        }
        EXPECT_EQ(std::max(of_old, of_new), names.size());
        EXPECT_EQ(std::min(of_old, of_new), 0U);
        EXPECT_TRUE(answered.empty() || of_old == 0) << "it was said to be there";
        EXPECT_THAT(stored(), SizeIs(2 * names.size()));
        found.insert(of_old == 0);
    }
    EXPECT_THAT(found, SizeIs(2));
}

/// A program that publishes, replaces, takes and withdraws; whatever it was told is true whenever the daemon dies.
TEST_F(StoreLife, KilledAtAnyMessageAboutTheStoreItKeepsItsWord) {
    constexpr std::size_t kMessages = 26;  // what a round sends, and what a start does
    Client client = connect();
    for (std::size_t at = 1; at <= kMessages; ++at) {
        SCOPED_TRACE(at);
        const std::size_t deaths = manager.deaths();
        manager.kill_at(at);
        const auto value = static_cast<std::uint32_t>(at * 10);
        publish(client, "model", value);
        EXPECT_EQ(first_of(client.attach("model", patient())), value);
        publish(client, "model", value + 1);
        EXPECT_EQ(first_of(client.attach("model", patient())), value + 1);
        if (at % 3 == 0) {  // each may wait for a window's end
            publish(client, "jobs", value, once());
            publish(client, "jobs", value + 1, once());
            EXPECT_EQ(first_of(client.take("jobs", patient())), value);
            EXPECT_EQ(first_of(client.take("jobs", patient())), value + 1);
        }
        while (manager.deaths() == deaths) {  // it is told so until it dies
            publish(client, "more", value);
        }
        withdraw_all(client);
        EXPECT_EQ(status_of([&] { client.attach("model"); }), HURRAY_ERR_NOT_FOUND);
        EXPECT_EQ(status_of([&] { client.take("jobs"); }), HURRAY_ERR_NOT_FOUND);
        EXPECT_THAT(stored(), SizeIs(0));
        manager.restart();
        wait_back(client);
        EXPECT_THAT(stored(), SizeIs(0));
        for (const CapsuleInfo& info : client.list("")) {
            EXPECT_TRUE(info.retired) << info.name;  // others might still claim it
        }
    }
}

}  // namespace
}  // namespace hurray::test
