#include <algorithm>
#include <deque>
#include <fstream>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <unistd.h>

#include <gtest/gtest.h>

#include "proto/wire/codec.hpp"
#include "tests/integration/hostile_peer.hpp"
#include "tests/support/daemon_process.hpp"
#include "tests/support/prometheus_text.hpp"
#include "tests/support/temporary_directory.hpp"

// Too many, too often, or anything at all.

namespace hurray::test {
namespace {

class HostileCrowd : public HostilePeer {
  protected:
    static constexpr std::uint64_t kMostClients = 256;
    /// Those of this user beside these tests' own: the anchor and the bystander's two.
    static constexpr std::uint64_t kOthers = 3;
    /// Says Hello on a new connection, and what is answered; the connection goes into `kept` if it is let in.
    std::optional<Error> knock(std::deque<RawPeer>& kept) {
        RawPeer p(daemon.socket_path());
        try {
            p.send_hello();
        } catch (const std::runtime_error&) {  // turned away before that: the reason is in the queue
        }
        Incoming answer = p.receive();
        if (auto* closing = std::get_if<wire::Closing>(&answer.packet.message)) {
            EXPECT_TRUE(p.at_end());
            return closing->error;
        }
        kept.push_back(std::move(p));
        return std::nullopt;
    }
};

TEST_F(HostileCrowd, TenThousandConnectionsAreMostlyRefusedAndTheirUsersOthersServed) {
    std::deque<RawPeer> kept;
    for (std::uint64_t i = 0; i < 10'000; ++i) {
        const auto refused = knock(kept);
        if (i < kMostClients - kOthers) {
            ASSERT_FALSE(refused) << i << ": " << refused->message;
            continue;
        }
        ASSERT_TRUE(refused) << i;
        ASSERT_EQ(refused->code, Errc::OverQuota);
        ASSERT_EQ(refused->limit_name, "quota.user.clients");
        ASSERT_EQ(refused->limit, kMostClients);
        ASSERT_EQ(refused->in_use, kMostClients);
        if (i % 1000 == 0) {
            bystander->check();
        }
    }
    kept.pop_front();
    while (knock(kept)) {  // until the end of that one has been read
    }
}

TEST_F(HostileCrowd, ConnectionsThatSayNothingCountToo) {
    std::deque<RawPeer> silent;
    for (std::uint64_t i = 0; i < kMostClients - kOthers; ++i) {
        silent.emplace_back(daemon.socket_path());
    }
    RawPeer late(daemon.socket_path());
    EXPECT_EQ(late.next<wire::Closing>().error.code, Errc::OverQuota);
    EXPECT_TRUE(late.at_end());
    bystander->check();
}

TEST_F(HostileCrowd, HalfAHandshakeIsNoHarm) {
    std::string hello = wire::encoded(wire::Request{1, {}, wire::Hello{1, 1, "half", fresh_id(), {}}});
    for (std::size_t length = 1; length < hello.size(); ++length) {
        RawPeer p(daemon.socket_path());
        p.send_raw(std::string_view(hello).substr(0, length));
        if (length % 2 == 0) {
            EXPECT_NE(describe(p.receive().packet), "");
            EXPECT_TRUE(p.at_end());
        }  // else it leaves without waiting for an answer
    }
    for (int i = 0; i < 100; ++i) {
        RawPeer p(daemon.socket_path());
        if (i % 2 == 0) {
            p.send_hello();
        }
    }
    bystander->check();
}

TEST_F(HostileCrowd, WaitingAttachesOfAUserAreBounded) {
    RawPeer p = peer();
    for (std::uint64_t lease = 1; lease <= 1024; ++lease) {
        p.send(wire::Attach{lease, "never", wire::Which::Latest, 0, 0});
    }
    p.call<wire::StatusReply>(wire::StatusRequest{});  // all of them have been looked at
    RawPeer other = peer();
    const auto error = other.call<Error>(wire::Attach{1, "never", wire::Which::Latest, 0, 0});
    EXPECT_EQ(error.code, Errc::OverQuota);
    EXPECT_EQ(error.limit_name, "quota.user.waiting");
    EXPECT_EQ(error.limit, 1024u);
    EXPECT_EQ(error.in_use, 1024u);
    EXPECT_EQ(other.call<Error>(wire::Attach{1, "never", wire::Which::Latest, 0, 0}, 0).code, Errc::NotFound);
}

TEST_F(HostileCrowd, FloodOfRequestsLeavesRoomForOthers) {
    std::string packets = wire::encoded(wire::Request{1, 0, wire::StatusRequest{}});
    std::deque<RawPeer> flooders;
    for (int i = 0; i < 8; ++i) {
        flooders.push_back(peer());
    }
    for (int round = 0; round < 20; ++round) {
        for (RawPeer& p : flooders) {
            for (int i = 0; i < 100; ++i) {
                p.send_raw(packets);
            }
        }
        bystander->check();
        for (RawPeer& p : flooders) {
            for (int i = 0; i < 100; ++i) {
                p.receive();
            }
        }
    }
}

// ---- Where a client may say only so much

class HostileFlood : public HostileCrowd {
  protected:
    TemporaryDirectory directory;
    DaemonProcess limited_to(std::uint64_t rate, std::uint64_t burst) {
        const std::string file = directory / "hurrayd.toml";
        std::ofstream(file) << "[quota.client]\nrequest_rate = " << rate << "\nrequest_burst = " << burst << "\n";
        return DaemonProcess({.arguments = {"--config", file}, .environment = {}, .descriptor_limit = {}});
    }
};

TEST_F(HostileFlood, OfClientOverItsRateTheRestIsReadLaterAndNobodyElseWaits) {
    constexpr std::uint64_t kBurst = 100;
    DaemonProcess strict = limited_to(1, kBurst);
    RawPeer flooder = RawPeer::greeted(strict.socket_path());
    constexpr std::uint64_t kSaid = 250;  // as many as fit its socket
    for (std::uint64_t i = 0; i < kSaid; ++i) {
        flooder.send(wire::StatusRequest{});
    }
    for (std::uint64_t i = 1; i < kBurst; ++i) {  // its Hello was one
        flooder.next<wire::StatusReply>(i + 1);
    }
    RawPeer neighbour = RawPeer::greeted(strict.socket_path());
    for (std::uint64_t i = 1; i < kBurst; ++i) {
        neighbour.call<wire::StatusReply>(wire::StatusRequest{});
    }
    std::uint64_t later = 0;
    while (flooder.try_receive()) {
        ++later;
    }
    EXPECT_LT(later, kSaid - kBurst) << "one for each second";
    EXPECT_GE(scrape(strict.metrics_path()).at("hurray_throttled_total"), 1);
    // What it said last counts, and its end is seen, though a hundred requests are before it.
    flooder.close();
    while (true) {
        const auto uses = RawPeer::greeted(strict.socket_path()).call<wire::StatusReply>(wire::StatusRequest{}).uses;
        const auto clients =
            std::find_if(uses.begin(), uses.end(), [](const wire::Use& use) { return use.name == "clients"; });
        if (clients != uses.end() && clients->used <= 1) {
            break;
        }
    }
}

TEST_F(HostileFlood, EverythingThatWasSaidIsAnsweredInItsOrder) {
    DaemonProcess strict = limited_to(2000, 10);
    RawPeer p = RawPeer::greeted(strict.socket_path());
    constexpr std::uint64_t kSaid = 200;
    for (std::uint64_t i = 0; i < kSaid; ++i) {
        p.send(wire::StatusRequest{});
    }
    for (std::uint64_t i = 0; i < kSaid; ++i) {
        p.next<wire::StatusReply>(i + 2);
    }
    EXPECT_GE(scrape(strict.metrics_path()).at("hurray_throttled_total"), 1);
}

// The whole budget of a user goes for what one connection makes the daemon keep; another user, and the daemon, go on.
TEST_F(HostileFlood, WhatOneUserMakesTheDaemonKeepIsBounded) {
    const std::string file = directory / "hurrayd.toml";
    std::ofstream(file) << "[quota.user]\ndaemon_bytes = 1000000\n";
    DaemonProcess strict({.arguments = {"--config", file}, .environment = {}, .descriptor_limit = {}});
    RawPeer greedy = RawPeer::greeted(strict.socket_path());
    std::optional<Error> refused;
    std::vector<wire::CapsuleId> published;
    while (!refused && published.size() < 10'000) {
        const TestTensor tensor = make_tensor("n/" + std::to_string(published.size()), 0);
        const auto id = greedy.send(tensor.publish);
        Incoming answer = greedy.receive();
        ASSERT_EQ(answer.packet.request_id, id);
        if (auto* error = std::get_if<Error>(&answer.packet.message)) {
            refused = *error;
        } else {
            published.push_back({::getuid(), tensor.publish.capsule});
        }
    }
    ASSERT_TRUE(refused);
    EXPECT_EQ(refused->code, Errc::OverQuota);
    EXPECT_EQ(refused->limit_name, "quota.user.daemon_bytes");
    EXPECT_EQ(refused->limit, 1'000'000u);
    EXPECT_LE(refused->in_use, refused->limit);
    EXPECT_GT(refused->in_use + refused->value, refused->limit);
    for (const wire::CapsuleId& id : published) {
        greedy.send(wire::Withdraw{id});
        greedy.next<wire::Ended>();
        greedy.receive();
    }
    greedy.publish(make_tensor("again", 0));
}

// Many packets wait when the daemon comes to read, each with as many descriptors as there can be, of which none is kept.
TEST_F(HostileCrowd, BurstsOfDescriptorsThatNobodyWantsLeaveNothingAndOthersServed) {
    const UniqueFd memfd = make_memfd();
    const std::vector<int> many(253, memfd.get());
    const std::string request = wire::encoded(wire::Request{1, 0, wire::StatusRequest{}});
    for (int round = 0; round < 10; ++round) {
        std::deque<RawPeer> flooders;
        for (int i = 0; i < 4; ++i) {
            flooders.push_back(peer());
            for (int packet = 0; packet < 16; ++packet) {
                // The kernel may have enough of us: then fewer are on their way.
                try {
                    flooders.back().send_raw(request, many);
                } catch (const std::runtime_error&) {
                    break;
                }
            }
        }
        bystander->check();
    }
}

// One packet of a burst that ends the session: what came before it is done, what comes behind it is not, and nothing is left.
TEST_F(HostileCrowd, WhatIsBehindABreachInABurstIsDroppedWithItsDescriptors) {
    for (int round = 0; round < 50; ++round) {
        RawPeer p = peer();
        const UniqueFd memfd = make_memfd();
        const TestTensor first = make_tensor("burst/first");
        const TestTensor second = make_tensor("burst/second");
        const std::uint64_t published = p.send(first.publish, {first.fd.get()});
        p.send_raw("\xff\xff\xff");
        try {  // unless it has been cut by now
            p.send(second.publish, {second.fd.get()});
            p.send_raw("\xff", std::vector<int>(100, memfd.get()));
        } catch (const std::runtime_error&) {
        }
        EXPECT_GT(p.next<wire::PublishReply>(published).version, 0u);
        EXPECT_EQ(p.next<wire::Closing>().error.code, Errc::Protocol);
        EXPECT_TRUE(p.at_end());
    }
    bystander->check();
}

TEST_F(HostileCrowd, RandomPacketsWithRandomDescriptorsAreSurvived) {
    std::mt19937 random(20'240'601);
    const auto below = [&](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random); };
    const UniqueFd memfd = make_memfd();
    std::string good = wire::encoded(wire::Request{7, 0, make_tensor("t").publish});
    for (int i = 0; i < 2000; ++i) {
        std::string bytes;
        if (i % 2 == 0) {
            bytes.resize(1 + below(300));
            for (char& byte : bytes) {
                byte = static_cast<char>(below(256));
            }
        } else {
            bytes = good;
            for (std::size_t flips = 1 + below(4); flips > 0; --flips) {
                bytes[below(bytes.size())] = static_cast<char>(below(256));
            }
        }
        RawPeer p = peer();
        p.send_raw(bytes, std::vector<int>(below(4), memfd.get()));
        if (i % 100 == 0) {
            bystander->check();
        }
    }
}

// A session of very many leases ended in one step, and everybody else waited for it.
TEST_F(HostileCrowd, EndOfASessionWithVeryManyLeasesIsToldInPiecesBetweenOthers) {
    constexpr std::uint64_t kLeases = 20'000;
    RawPeer producer = peer();
    producer.publish(make_tensor("a", 0));
    RawPeer holder = peer();
    for (std::uint64_t lease = 1; lease <= kLeases; ++lease) {
        holder.attach(lease, "a");
        producer.next<wire::LeaseEvent>();
    }
    holder.close();
    // The first piece is told; somebody else is answered before the last one.
    EXPECT_EQ(producer.next<wire::LeaseEvent>().remaining, kLeases - 1);
    const auto status = producer.send(wire::StatusRequest{});
    bool was_between = false;
    for (std::uint64_t left = kLeases - 1; left > 0;) {
        Incoming incoming = producer.receive();
        if (incoming.packet.request_id == status) {
            was_between = left > 1;
            continue;
        }
        const auto& event = std::get<wire::LeaseEvent>(incoming.packet.message);
        ASSERT_EQ(event.what, wire::LeaseEvent::What::Lost);
        ASSERT_EQ(event.remaining, --left);
    }
    EXPECT_TRUE(was_between);
}

}  // namespace
}  // namespace hurray::test
