#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/support/child.hpp"
#include "tests/support/daemon_process.hpp"
#include "tests/support/raw_peer.hpp"

// Groups between real processes, by peers that speak the protocol by hand. The rules one by one: registry_groups_test.cpp.

namespace hurray::test {
namespace {

using Action = wire::Group::Action;

class DaemonGroups : public testing::Test {
  protected:
    DaemonProcess daemon;

    RawPeer peer() { return RawPeer::greeted(daemon.socket_path()); }

    static wire::GroupReply end(RawPeer& producer, std::uint64_t group, Action action) {
        const auto id = producer.send(wire::Group{group, action});
        for (;;) {  // what the replaced capsules' producer is told comes first
            Incoming incoming = producer.receive();
            if (auto* reply = std::get_if<wire::GroupReply>(&incoming.packet.message)) {
                EXPECT_EQ(incoming.packet.request_id, id);
                return *reply;
            }
            EXPECT_EQ(incoming.packet.request_id, 0u) << describe(incoming.packet);
        }
    }
    static void stage(RawPeer& producer, std::uint64_t group, const std::string& name, std::uint64_t elements = 16) {
        TestTensor tensor = make_tensor(name, elements);
        tensor.publish.group = group;
        std::vector<int> fds;
        if (tensor.fd) {
            fds.push_back(tensor.fd.get());
        }
        const auto id = producer.send(tensor.publish, fds);
        for (;;) {
            Incoming incoming = producer.receive();
            if (incoming.packet.request_id == 0) {
                continue;  // of former groups
            }
            EXPECT_EQ(incoming.packet.request_id, id);
            EXPECT_EQ(std::get<wire::PublishReply>(incoming.packet.message).version, 0u);
            return;
        }
    }
    static std::uint64_t used(RawPeer& peer, const std::string& name) {
        for (const auto& use : peer.call<wire::StatusReply>(wire::StatusRequest{}).uses) {
            if (use.uid == ::getuid() && use.name == name) {
                return use.used;
            }
        }
        return 0;
    }
    static void wait_until_used(RawPeer& peer, const std::string& name, std::uint64_t count) {
        while (used(peer, name) != count) {  // a watchdog ends the test should it never be
        }
    }
};

TEST_F(DaemonGroups, MembersAreThereAllAtOnce) {
    RawPeer producer = peer();
    RawPeer consumer = peer();
    const auto waiting = consumer.send(wire::Attach{1, "m/head", wire::Which::Latest, 0, 0}, {}, 60'000);
    producer.call<wire::GroupReply>(wire::Group{1, Action::Begin});
    for (const char* name : {"m/head", "m/0", "m/1"}) {
        stage(producer, 1, name);
        EXPECT_EQ(consumer.call<Error>(wire::Attach{9, "m/0", wire::Which::Latest, 0, 0}, 0).code, Errc::NotFound);
        EXPECT_TRUE(consumer.call<wire::ListReply>(wire::List{}).capsules.empty());
    }
    const auto versions = end(producer, 1, Action::Commit).versions;
    ASSERT_EQ(versions.size(), 3u);
    Incoming granted = consumer.receive();
    EXPECT_EQ(granted.packet.request_id, waiting);
    EXPECT_EQ(std::get<wire::AttachReply>(granted.packet.message).version, versions[0]);
    EXPECT_EQ(consumer.attach(2, "m/0").reply.version, versions[0] + 1);
    EXPECT_EQ(consumer.attach(3, "m/1").reply.version, versions[0] + 2);
}

TEST_F(DaemonGroups, WhatAKilledProducerHadStagedIsGone) {
    RawPeer bystander = peer();
    const std::size_t descriptors = daemon.open_descriptors();
    const auto waiting = bystander.send(wire::Attach{1, "half/0", wire::Which::Latest, 0, 0}, {}, 60'000);
    {
        Child producer([&] {
            static RawPeer p = peer();  // open until it dies
            p.call<wire::GroupReply>(wire::Group{1, Action::Begin});
            for (int i = 0; i < 5; ++i) {
                stage(p, 1, "half/" + std::to_string(i));
            }
        });
        EXPECT_EQ(used(bystander, "staged"), 5u);
        EXPECT_EQ(used(bystander, "descriptors"), 5u);
        EXPECT_EQ(used(bystander, "bytes"), 5u * 4096);
        producer.kill();
    }
    wait_until_used(bystander, "capsules", 0);
    for (const char* name : {"staged", "descriptors", "bytes", "names", "leases"}) {
        EXPECT_EQ(used(bystander, name), 0u) << name;
    }
    EXPECT_EQ(daemon.open_descriptors(), descriptors);
    EXPECT_EQ(used(bystander, "waiting"), 1u) << "it was never there";
    bystander.send(wire::Cancel{waiting});
    EXPECT_EQ(bystander.next<Error>(waiting).code, Errc::Closed);
}

// What is promised: whoever attaches one member, and then another that came behind it in its group, gets that one or a later
// version of it, never an older one and never nothing. And versions of one group follow each other, so that a consumer can
// tell whether it has a pair, or ask for it.
TEST_F(DaemonGroups, ObserverNeverSeesHalfOfAGroup) {
    constexpr int kCommits = 150;
    constexpr int kObservers = 2;
    std::atomic<int> ready{0};
    std::atomic<bool> over{false};
    std::atomic<int> pairs{0};
    const auto observe = [&] {
        RawPeer p = peer();
        std::uint64_t lease = 0;
        ++ready;
        const auto attach = [&](const char* name, wire::Which which, std::uint64_t version) {
            const auto id = p.send(wire::Attach{++lease, name, which, version, 0}, {}, 0);
            Incoming incoming = p.receive();
            EXPECT_EQ(incoming.packet.request_id, id);
            const auto* reply = std::get_if<wire::AttachReply>(&incoming.packet.message);
            return reply != nullptr ? reply->version : 0;
        };
        while (!over) {
            const std::uint64_t before = lease;
            const std::uint64_t first = attach("pair/first", wire::Which::Latest, 0);
            const std::uint64_t second = attach("pair/second", wire::Which::Latest, 0);
            EXPECT_TRUE(first == 0 || second > first) << first << ", " << second;
            if (second == first + 1 && first != 0) {
                ++pairs;
            }
            if (first != 0) {
                const std::uint64_t partner = attach("pair/second", wire::Which::Exactly, first + 1);
                EXPECT_TRUE(partner == first + 1 || partner == 0);
            }
            std::vector<std::uint64_t> held;
            for (std::uint64_t number = before + 1; number <= lease; ++number) {
                held.push_back(number);
            }
            p.call<wire::Done>(wire::Release{held});
        }
    };
    std::vector<std::thread> observers;
    for (int i = 0; i < kObservers; ++i) {
        observers.emplace_back(observe);
    }
    while (ready < kObservers) {
        std::this_thread::yield();
    }
    std::atomic<int> done{0};
    std::atomic<bool> observers_ended{false};
    std::vector<RawPeer> peers;  // who stay, so that there is a pair to be seen, and nobody's producer is lost
    std::vector<std::thread> producers;
    for (int which = 0; which < 2; ++which) {
        peers.push_back(peer());
    }
    for (RawPeer& p : peers) {  // they replace each other's
        producers.emplace_back([&] {
            for (int i = 0; i < kCommits; ++i) {
                const std::uint64_t group = 1 + static_cast<std::uint64_t>(i);
                p.send(wire::Group{group, Action::Begin});
                for (Incoming incoming = p.receive(); incoming.packet.request_id == 0;) {
                    incoming = p.receive();
                }
                stage(p, group, "pair/first");
                stage(p, group, "pair/second");
                const auto versions = end(p, group, Action::Commit).versions;
                ASSERT_EQ(versions.size(), 2u);
                EXPECT_EQ(versions[1], versions[0] + 1);
            }
            ++done;
            while (!observers_ended) {  // who read nothing would hold them up, and be cut
                if (!p.try_receive()) {
                    std::this_thread::yield();
                }
            }
        });
    }
    while (done < 2 || pairs == 0) {  // the last pair is still there
        std::this_thread::yield();
    }
    over = true;
    for (std::thread& observer : observers) {
        observer.join();
    }
    observers_ended = true;
    for (std::thread& producer : producers) {
        producer.join();
    }
    peers.clear();
    RawPeer last = peer();
    wait_until_used(last, "leases", 0);
    wait_until_used(last, "capsules", 0);
}

TEST_F(DaemonGroups, LargeCommitReachesAWatcherWholeWhileOthersAreServed) {
    constexpr std::size_t kMembers = 1500;
    RawPeer producer = peer();
    RawPeer watcher = peer();
    RawPeer other = peer();
    watcher.call<wire::Done>(wire::Watch{1, "big/"});
    watcher.next<wire::Watched>();  // SNAPSHOT_END
    producer.call<wire::GroupReply>(wire::Group{1, Action::Begin});
    for (std::size_t i = 0; i < kMembers; ++i) {
        stage(producer, 1, "big/" + std::to_string(i), 0);
    }
    const auto commit = producer.send(wire::Group{1, Action::Commit});
    EXPECT_EQ(producer.next<wire::GroupReply>(commit).versions.size(), kMembers);
    EXPECT_EQ(other.attach(1, "big/" + std::to_string(kMembers - 1)).reply.name, "big/1499");
    for (std::size_t i = 0; i < kMembers; ++i) {
        const auto event = watcher.next<wire::Watched>();
        ASSERT_EQ(event.what, wire::Watched::What::Published);
        ASSERT_EQ(event.name, "big/" + std::to_string(i));
    }
}

TEST_F(DaemonGroups, StatusShowsWhatIsStagedUntilItIsAborted) {
    RawPeer producer = peer();
    producer.call<wire::GroupReply>(wire::Group{1, Action::Begin});
    stage(producer, 1, "a");
    EXPECT_EQ(used(producer, "capsules"), 1u);
    EXPECT_EQ(used(producer, "staged"), 1u);
    producer.send(wire::Group{1, Action::Abort});
    EXPECT_TRUE(producer.next<wire::Ended>().reusable);
    EXPECT_TRUE(producer.receive().packet.request_id != 0);
    EXPECT_EQ(used(producer, "staged"), 0u);
}

}  // namespace
}  // namespace hurray::test
