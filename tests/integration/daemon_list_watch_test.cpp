#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "tests/support/in_process_daemon.hpp"
#include "tests/support/raw_peer.hpp"

namespace hurray::test {
namespace {

using What = wire::Watched::What;

class ListWatch : public testing::Test {
  protected:
    InProcessDaemon daemon;
    RawPeer peer() { return RawPeer::greeted(daemon.socket_path()); }
};

TEST_F(ListWatch, PagesShowEverythingOnceInOrder) {
    RawPeer p = peer();
    std::set<std::string> published;
    for (int i = 0; i < 700; ++i) {
        const std::string name = "list/" + std::string(200, 'n') + std::to_string(i);
        p.publish(make_tensor(name, 0));
        published.insert(name);
    }
    wire::List request{"list/", "", 0, true};
    std::vector<std::string> seen;
    int pages = 0;
    do {
        const auto page = p.call<wire::ListReply>(request);
        for (const auto& info : page.capsules) {
            seen.push_back(info.name);
            EXPECT_EQ(info.descriptor, make_descriptor(0));
        }
        request.cursor = page.cursor;
        ++pages;
    } while (!request.cursor.empty());
    EXPECT_GT(pages, 2);
    EXPECT_EQ(seen, std::vector<std::string>(published.begin(), published.end()));
}

TEST_F(ListWatch, WatcherSeesWhatIsThereThenWhatChanges) {
    RawPeer producer = peer();
    RawPeer watcher = peer();
    producer.publish(make_tensor("w/a"));
    producer.publish(make_tensor("elsewhere"));
    watcher.call<wire::Done>(wire::Watch{7, "w/"});
    const auto present = watcher.next<wire::Watched>();
    EXPECT_EQ(present.what, What::Present);
    EXPECT_EQ(present.watch, 7u);
    EXPECT_EQ(present.name, "w/a");
    EXPECT_EQ(watcher.next<wire::Watched>().what, What::SnapshotEnd);
    producer.publish(make_tensor("w/b"));
    EXPECT_EQ(watcher.next<wire::Watched>().what, What::Published);
    producer.close();
    EXPECT_EQ(watcher.next<wire::Watched>().what, What::ProducerLost);
    EXPECT_EQ(watcher.next<wire::Watched>().what, What::ProducerLost);
    watcher.call<wire::Done>(wire::Unwatch{7});
    RawPeer another = peer();
    another.publish(make_tensor("w/c"));
    watcher.call<wire::StatusReply>(wire::StatusRequest{});  // and nothing before it
}

TEST_F(ListWatch, SnapshotLongerThanAnyQueueArrivesWhole) {
    constexpr int kCapsules = 6000;
    RawPeer producer = peer();
    RawPeer watcher = peer();
    for (int i = 0; i < kCapsules; ++i) {
        producer.publish(make_tensor("s/" + std::to_string(i), 0));
    }
    watcher.call<wire::Done>(wire::Watch{1, "s/"});
    producer.publish(make_tensor("s/zzz", 0));
    std::set<std::string> names;
    for (;;) {
        const auto event = watcher.next<wire::Watched>();
        if (event.what == What::SnapshotEnd) {
            break;
        }
        EXPECT_EQ(event.what, What::Present);
        names.insert(event.name);
    }
    EXPECT_GE(names.size(), static_cast<std::size_t>(kCapsules));
}

TEST_F(ListWatch, WhatAProducerThatLeftHadPublishedIsToldToEachOfManyWatchesInOrder) {
    constexpr std::uint64_t kWatches = 500;
    constexpr int kVersions = 40;
    RawPeer watcher = peer();
    for (std::uint64_t number = 1; number <= kWatches; ++number) {
        watcher.call<wire::Done>(wire::Watch{number, "m"});
        EXPECT_EQ(watcher.next<wire::Watched>().what, What::SnapshotEnd);
    }
    {
        RawPeer producer = peer();
        for (int i = 0; i < kVersions; ++i) {
            producer.send(make_tensor("m", 0).publish);
        }
    }
    RawPeer another = peer();
    std::map<std::uint64_t, std::string> heard;
    for (std::uint64_t i = 0; i < kWatches * 2 * kVersions; ++i) {
        const auto event = watcher.next<wire::Watched>();
        heard[event.watch] += event.what == What::Published ? "P" : event.what == What::Retired ? "R" : "L";
        if (i % 1000 == 0) {
            another.publish(make_tensor("", 0));
        }
    }
    std::string expected = "P";
    for (int i = 1; i < kVersions; ++i) {
        expected += "RP";
    }
    expected += "L";
    EXPECT_EQ(heard.size(), kWatches);
    for (const auto& [number, events] : heard) {
        EXPECT_EQ(events, expected) << number;
    }
}

TEST_F(ListWatch, EverythingIsCountedBackToNothing) {
    const auto before = daemon.held();
    {
        RawPeer producer = peer();
        RawPeer consumer = peer();
        producer.publish(make_tensor("a"));
        producer.publish(make_tensor(""));
        consumer.attach(1, "a");
        consumer.send(wire::Attach{2, "b", wire::Which::Latest, 0, 0});
        consumer.call<wire::Done>(wire::Reserve{1, 4096});
        consumer.call<wire::Done>(wire::Watch{1, ""});
        auto held = daemon.held();
        EXPECT_GT(std::exchange(held.totals.kept_bytes, 0), 2 * 4096u) << "all of it costs something";
        EXPECT_EQ(held.totals, (hurrayd::Registry::Totals{.clients = 2,
                                                          .capsules = 2,
                                                          .names = 1,
                                                          .bytes = 8192,
                                                          .reserved = 4096,
                                                          .reservations = 1,
                                                          .leases = 1,
                                                          .waiting = 1,
                                                          .watches = 1,
                                                          .descriptors = 2}));
        EXPECT_EQ(held.segments, 2u);
    }
    daemon.wait_until([&](const hurrayd::Server::Held& held) { return held == before; });
}

}  // namespace
}  // namespace hurray::test
