// What clients and the daemon say to each other, and the daemon dies at each packet of it.
#include <array>
#include <cstdlib>
#include <future>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/deaths/play.hpp"
#include "tests/deaths/walk.hpp"
#include "tests/support/raw_peer.hpp"
#include "tests/support/test_tensor.hpp"

namespace hurray::test {
namespace {

/// What somebody does meanwhile. Its exceptions come out of `get`.
std::future<void> meanwhile(const std::function<void()>& act) { return std::async(std::launch::async, act); }

PublishOptions once() {
    PublishOptions options;
    options.once = true;
    return options;
}

AttachOptions of_version(std::uint64_t version) {
    AttachOptions options;
    options.version = version;
    return options;
}

/// Whatever a peer does that speaks the protocol by hand, it ends with the daemon.
void by_hand(const std::function<void()>& act) {
    try {
        act();
    } catch (const std::runtime_error&) {  // of the connection
    }
}

TEST(DaemonDiesAtEachPacket, OfAPublishThatSomebodyWaitsFor) {
    walk([](Play& play) {
        Client& producer = play.connect();
        Client& consumer = play.connect();
        auto waiting = meanwhile([&] { play.attach(consumer, "a"); });
        play.publish(producer, "a");
        waiting.get();
        play.release_all();
        play.publish(producer, "a", {}, Play::kLarge);
        play.attach(consumer, "a");
    });
}

TEST(DaemonDiesAtEachPacket, OfAPublishThatReplaces) {
    walk([](Play& play) {
        Client& producer = play.connect();
        Client& other = play.connect();
        Client& consumer = play.connect();
        play.publish(producer, "a");
        const CapsuleInfo held = play.attach(consumer, "a");
        play.publish(other, "a", {}, Play::kLarge);
        play.attach(consumer, "a");
        play.publish(producer, "a");
        play.release(held);
        play.attach(consumer, "a");
        play.release_all();
        play.publish(producer, "b", {}, Play::kLarge);  // in memory of before, if that may be
        play.attach(consumer, "b");
    });
}

TEST(DaemonDiesAtEachPacket, OfPublishesThatRetain) {
    walk([](Play& play) {
        Client& producer = play.connect();
        Client& consumer = play.connect();
        std::vector<CapsuleInfo> versions;
        for (int i = 0; i < 3; ++i) {
            PublishOptions options;
            options.retain = 2;
            versions.push_back(play.publish(producer, "a", std::move(options)));
        }
        play.attach(consumer, "a", of_version(versions[1].version));
        AttachOptions newer;
        newer.newer_than = versions[1].version;
        Play::require(play.attach(consumer, "a", newer).version == versions[2].version, "not the next version came");
        play.publish(producer, "a");
        play.attach(consumer, "a");
    });
}

TEST(DaemonDiesAtEachPacket, OfAttachesAndReleases) {
    walk([](Play& play) {
        Client& producer = play.connect();
        Client& one = play.connect();
        Client& another = play.connect();
        const CapsuleInfo info = play.publish(producer, "a", {}, Play::kLarge);
        play.attach(one, "a");
        play.attach(another, "a");
        play.release(info);
        play.attach(one, "a");
        play.release(info);
        play.release(info);
        play.attach(another, "a");
    });
}

TEST(DaemonDiesAtEachPacket, OfAWithdrawalOfWhatIsHeld) {
    walk([](Play& play) {
        Client& producer = play.connect();
        Client& consumer = play.connect();
        const CapsuleInfo held = play.publish(producer, "a");
        play.attach(consumer, "a");
        play.withdraw(producer, held);
        play.withdraw(producer, play.publish(producer, "b"));
        play.release_all();
        play.publish(producer, "a");
        play.attach(consumer, "a");
    });
}

TEST(DaemonDiesAtEachPacket, OfAGroupThatIsCommitted) {
    walk([](Play& play) {
        Client& producer = play.connect();
        Client& observer = play.connect();
        const auto publish_group = [&] {
            for (;;) {
                std::set<CapsuleId> members;
                try {
                    Group group = producer.begin_group();
                    PublishOptions options;
                    options.group = group.number();
                    const CapsuleInfo a = play.publish(producer, "g/a", options);
                    members.insert(a.capsule);
                    const CapsuleInfo b = play.publish(producer, "g/b", options, Play::kLarge);
                    members.insert(b.capsule);
                    group.commit();
                    return std::array{producer.published(a.capsule).version, producer.published(b.capsule).version};
                } catch (const StatusError& error) {
                    Play::require(
                        error.status() == HURRAY_ERR_CONNECTION_LOST || error.status() == HURRAY_ERR_NOT_FOUND,
                        std::string("a group failed: ") + error.what());
                }
                Play::insist([&] { (void)producer.status(); });
                Play::insist([&] {
                    for (const CapsuleInfo& info : observer.list("g/")) {
                        Play::require(!members.contains(info.capsule), "a group failed, and a part of it is there");
                    }
                });
            }
        };
        for (int i = 0; i < 2; ++i) {
            const auto versions = publish_group();
            Play::require(versions[1] == versions[0] + 1, "the versions of a group are not consecutive");
            play.attach(observer, "g/a", of_version(versions[0]));
            play.attach(observer, "g/b", of_version(versions[1]));
        }
    });
}

TEST(DaemonDiesAtEachPacket, OfAGroupThatIsAborted) {
    walk([](Play& play) {
        Client& producer = play.connect();
        try {
            Group group = producer.begin_group();
            PublishOptions options;
            options.group = group.number();
            play.publish(producer, "g/a", options);
            play.publish(producer, "g/b", options, Play::kLarge);
            group.abort();
        } catch (const StatusError& error) {
            Play::require(error.status() == HURRAY_ERR_CONNECTION_LOST || error.status() == HURRAY_ERR_NOT_FOUND,
                          std::string("a group failed: ") + error.what());
        }
        Play::insist([&] { Play::require(producer.list("g/").empty(), "what was staged is there"); });
    });
}

TEST(DaemonDiesAtEachPacket, OfTakes) {
    walk([](Play& play) {
        Client& producer = play.connect();
        Client& taker = play.connect();
        Client& other = play.connect();
        auto waiting = meanwhile([&] { play.take(other, "jobs"); });
        for (int i = 0; i < 3; ++i) {
            play.publish(producer, "jobs", once(), i == 2 ? Play::kLarge : Play::kSmall);
        }
        play.take(taker, "jobs");
        waiting.get();
        play.release_all();
        play.take(taker, "jobs");
        play.require_all_taken();
    });
}

TEST(DaemonDiesAtEachPacket, OfATakeThatIsPutBack) {
    walk([](Play& play) {
        Client& producer = play.connect();
        play.publish(producer, "jobs", once());
        play.expect_strangers(1);
        by_hand([&] {
            RawPeer dies_before_its_confirm = RawPeer::greeted(play.daemon().socket_path());
            wire::Attach take{1, std::string("jobs")};
            take.take = true;
            dies_before_its_confirm.call<wire::AttachReply>(take, 0);
        });
        play.take(play.connect(), "jobs");
        play.require_all_taken();
    });
}

TEST(DaemonDiesAtEachPacket, OfAttachesThatAreCancelled) {
    walk([](Play& play) {
        Client& producer = play.connect();
        Client& consumer = play.connect();
        play.publish(producer, "there");
        play.expect_strangers(6);
        AttachOptions patient;
        patient.timeout = kPatience;
        AttachOptions immutable = patient;
        immutable.immutable_only = true;
        for (int i = 0; i < 2; ++i) {
            // The last is refused, and the others with it: one has come, and one waits.
            HurrayStatus status = HURRAY_OK;
            try {
                (void)consumer.attach_many(std::vector<AttachItem>{{std::string("there"), patient},
                                                                   {std::string("absent"), patient},
                                                                   {std::string("there"), immutable}});
            } catch (const StatusError& error) {
                status = error.status();
            }
            Play::require(status == HURRAY_ERR_UNSUPPORTED, "the batch ended with status " + std::to_string(status));
        }
        Play::wait_until("nothing is held", [&] { return Play::used(producer, "leases") == 0; });
        Play::require(Play::used(producer, "waiting") == 0, "an attach waits that was cancelled");
    });
}

TEST(DaemonDiesAtEachPacket, OfAWatch) {
    walk([](Play& play) {
        Client& producer = play.connect();
        Client& watcher = play.connect();
        Watched watched;
        const CapsuleInfo replaced = play.publish(producer, "w/a");
        std::optional<Watch> watch;
        Play::insist([&] { watch.emplace(watcher.watch("w/", watched.sink())); });
        watched.wait_for({{"w/a", replaced.version}});
        const CapsuleInfo a = play.publish(producer, "w/a");
        const CapsuleInfo b = play.publish(producer, "w/b");
        play.publish(producer, "elsewhere");
        play.withdraw(producer, play.publish(producer, "w/c"));
        watched.wait_for({{"w/a", a.version}, {"w/b", b.version}});
        play.withdraw(producer, b);
        watched.wait_for({{"w/a", a.version}});
        watch.reset();
    });
}

TEST(DaemonDiesAtEachPacket, OfWhatIsSaidAboutMemory) {
    walk([](Play& play) {
        ::setenv("HURRAY_POOL_BYTES", "0", 1);  // so that what comes back is forgotten at once
        Client& producer = play.connect();
        Client& consumer = play.connect();
        for (int i = 0; i < 2; ++i) {
            (void)producer.allocate<std::uint32_t>({Play::kLarge});  // reserved, and given back
            const CapsuleInfo info = play.publish(producer, "a", {}, Play::kLarge);
            play.attach(consumer, "a");
            play.release_all();
            play.withdraw(producer, info);
        }
        const CapsuleInfo left = play.publish(producer, "b", {}, Play::kLarge);
        play.expect_strangers(2);
        by_hand([&] {
            RawPeer peer(play.daemon().socket_path());
            wire::Hello hello{1, 1, "keeps", fresh_id(), {}};
            hello.keeps_segments = true;
            peer.next<wire::HelloReply>(peer.send(hello));
            const auto grant = peer.attach(1, "b").reply;
            peer.call<wire::Done>(wire::Release{{1}});
            peer.call<wire::Done>(wire::Drop{{grant.segments.at(0).number}});
            Play::require(peer.attach(2, "b").fds.size() == 1, "what was dropped came without its descriptor");
        });
        play.withdraw(producer, left);
    });
}

TEST(DaemonDiesAtEachPacket, OfBatches) {
    walk([](Play& play) {
        Client& producer = play.connect();
        Client& consumer = play.connect();
        const std::vector<std::string> names = {"n/0", "n/1", "n/2", "n/3", "n/4"};
        play.publish_many(producer, names);
        play.attach_many(consumer, names);
        play.publish_many(producer, names);
        play.release_all();
        play.attach_many(consumer, names);
    });
}

TEST(DaemonDiesAtEachPacket, OfTheResumeAfterADeath) {
    walk(
        [](Play& play) {
            Client& one = play.connect();
            Client& two = play.connect();
            Client& consumer = play.connect();
            Client& taker = play.connect();
            Watched watched;
            std::optional<Watch> watch;
            Play::insist([&] { watch.emplace(taker.watch("w/", watched.sink())); });
            play.publish(one, "w/replaced", {}, Play::kLarge);
            play.attach(consumer, "w/replaced");
            const CapsuleInfo newest = play.publish(two, "w/replaced");
            const CapsuleInfo withdrawn = play.publish(one, "w/withdrawn");
            play.attach(taker, "w/withdrawn");
            const CapsuleInfo away = play.publish(one, "w/away");
            const CapsuleInfo given_back = play.publish(two, "given back", {}, Play::kLarge);
            play.attach(consumer, "given back");
            play.attach(taker, "given back");
            const CapsuleInfo held = play.attach(taker, "w/replaced");
            for (int i = 0; i < 3; ++i) {
                play.publish(two, "jobs", once());
            }
            play.take(taker, "jobs");
            play.withdraw(one, withdrawn);
            auto waiting = meanwhile([&] { play.attach(consumer, "later"); });
            play.daemon().kill();
            play.release(given_back);
            play.withdraw(one, away);
            play.take(consumer, "jobs");
            play.publish(one, "later");
            waiting.get();
            play.release(held);
            Play::require(play.attach(consumer, "w/replaced").version == newest.version, "an older version came");
            play.take(taker, "jobs");
            watched.wait_for({{"w/replaced", newest.version}});
            play.require_all_taken();
        },
        true);
}

}  // namespace
}  // namespace hurray::test
