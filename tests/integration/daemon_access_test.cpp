// Who may do what, seen from other users' connections. The rules one by one are in the registry's unit tests.
#include <array>
#include <fstream>
#include <functional>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "proto/wire/codec.hpp"
#include "tests/support/daemon_process.hpp"
#include "tests/support/other_user.hpp"
#include "tests/support/raw_peer.hpp"
#include "tests/support/temporary_directory.hpp"
#include "tests/support/test_tensor.hpp"

namespace hurray::test {
namespace {

wire::Access own_group(std::uint32_t mode) { return {wire::kOwnGroup, mode}; }
wire::Access video(std::uint32_t mode) { return {kVideoGroup, mode}; }

TestTensor make_tensor_for(const std::string& name, const wire::Access& access) {
    TestTensor tensor = make_tensor(name);
    tensor.publish.access = access;
    return tensor;
}

wire::Attach latest(std::uint64_t lease, const std::string& name) { return {lease, name, wire::Which::Latest, 0, 0}; }

std::vector<std::string> names_for(RawPeer& peer) {
    std::vector<std::string> names;
    for (const wire::Info& info : peer.call<wire::ListReply>(wire::List{}).capsules) {
        names.push_back(info.name);
    }
    return names;
}

/// Of several users, whose connections this process opens for them.
class DaemonAccess : public testing::Test {
  protected:
    void SetUp() override {
        if (::geteuid() != 0) {
            GTEST_SKIP() << "needs root to connect as other users";
        }
        admit_everybody(daemon.socket_path());
    }
    RawPeer as(uid_t uid, const std::vector<gid_t>& groups = {}) {
        const AsUser user(uid, groups);
        return RawPeer::greeted(daemon.socket_path());
    }
    static Error refusal_of(RawPeer& peer, wire::RequestMessage request) {
        return peer.call<Error>(std::move(request), 0);
    }

    DaemonProcess daemon;
};

TEST_F(DaemonAccess, GroupsAreWhatTheKernelSaysHoweverManyThereAre) {
    std::vector<gid_t> many(5000);
    std::iota(many.begin(), many.end(), gid_t{60'000});
    RawPeer alice = as(kAlice, many);
    RawPeer bob = as(kBob, {many.back()});
    RawPeer carol = as(kCarol, {many.back() + 1});
    alice.publish(make_tensor_for("n", {many.back(), 0640}));
    EXPECT_EQ(names_for(bob), std::vector<std::string>{"n"});
    EXPECT_EQ(bob.attach(1, "n").reply.access, (wire::Access{many.back(), 0640}));
    EXPECT_EQ(names_for(carol), std::vector<std::string>{});
    EXPECT_EQ(refusal_of(carol, latest(1, "n")).code, Errc::NotFound);
    TestTensor foreign = make_tensor_for("m", {many.back() + 1, 0640});
    EXPECT_EQ(alice.next<wire::LeaseEvent>().lease.uid, kBob);
    const Error refused = alice.next<Error>(alice.send(foreign.publish, {foreign.fd.get()}));
    EXPECT_EQ(refused.code, Errc::NotPermitted);
    EXPECT_EQ(refused.field, "publish.access.gid");
}

TEST_F(DaemonAccess, EffectiveGroupCountsAsAnyOther) {
    RawPeer alice = as(kAlice, {kVideoGroup});
    alice.publish(make_tensor_for("n", video(0640)));
    const AsUser bob(kBob, kVideoGroup, {});
    RawPeer peer = RawPeer::greeted(daemon.socket_path());
    EXPECT_EQ(names_for(peer), std::vector<std::string>{"n"});
}

TEST_F(DaemonAccess, WaitersAndWatchersHearOfWhatTheyMayRead) {
    RawPeer alice = as(kAlice, {kVideoGroup});
    RawPeer bob = as(kBob, {kVideoGroup});
    RawPeer carol = as(kCarol);
    for (RawPeer* peer : {&bob, &carol}) {
        peer->call<wire::Done>(wire::Watch{1, ""});
        EXPECT_EQ(peer->next<wire::Watched>().what, wire::Watched::What::SnapshotEnd);
    }
    const auto carols = carol.send(latest(1, "n"));
    alice.publish(make_tensor_for("n", video(0640)));
    EXPECT_EQ(bob.next<wire::Watched>().what, wire::Watched::What::Published);
    alice.publish(make_tensor_for("hidden", own_group(0600)));
    // Narrower, then wider: the first is the end for Bob, the second the beginning for both.
    const TestTensor narrow = make_tensor_for("n", own_group(0600));
    EXPECT_GT(alice.send(narrow.publish, {narrow.fd.get()}), 0U);
    alice.next<wire::Retired>();
    alice.next<wire::Ended>();
    alice.receive();  // the answer
    EXPECT_EQ(bob.next<wire::Watched>().what, wire::Watched::What::Retired);
    const TestTensor wide = make_tensor_for("n", video(0644));
    EXPECT_GT(alice.send(wide.publish, {wide.fd.get()}), 0U);
    EXPECT_EQ(carol.next<wire::AttachReply>(carols).capsule.id, wide.publish.capsule);
    for (RawPeer* peer : {&bob, &carol}) {
        const auto event = peer->next<wire::Watched>();
        EXPECT_EQ(event.what, wire::Watched::What::Published);
        EXPECT_EQ(event.capsule.id, wide.publish.capsule);
    }
}

TEST_F(DaemonAccess, MemberOfTheGroupReplacesAndWithdraws) {
    RawPeer alice = as(kAlice, {kVideoGroup});
    RawPeer bob = as(kBob, {kVideoGroup});
    alice.publish(make_tensor_for("n", video(0660)));
    const TestTensor bobs = make_tensor_for("n", video(0660));
    bob.publish(bobs);
    alice.next<wire::Retired>();
    EXPECT_TRUE(alice.next<wire::Ended>().reusable);
    alice.call<wire::Done>(wire::Withdraw{{kBob, bobs.publish.capsule}});
    bob.next<wire::Retired>();
    EXPECT_TRUE(bob.next<wire::Ended>().reusable);
    EXPECT_EQ(names_for(bob), std::vector<std::string>{});
}

// case G4: a name that is there for others, by every spelling, and one that is not
TEST_F(DaemonAccess, ForeignNamesCantBeToldFromAbsentOnesByAnySpelling) {
    RawPeer alice = as(kAlice, {kVideoGroup});
    RawPeer carol = as(kCarol);
    const std::vector<std::string> spellings = {"secret/a",
                                                "/secret/a",
                                                "//secret/a",
                                                "./secret/a",
                                                "secret//a",
                                                "SECRET/A",
                                                "secret%2Fa",
                                                "secret/a/",
                                                "secret/./a",
                                                "secret/../secret/a",
                                                "secret\\a",
                                                " secret/a",
                                                "secret/a ",
                                                "secret/\xC3\xA0",
                                                std::string("secret/a\0", 9),
                                                std::string("secret/a\0x", 10)};
    TestTensor there = make_tensor_for("secret/a", video(0660));
    std::uint64_t lease = 0;
    const auto ask_all = [&] {
        std::vector<std::string> answers;
        const auto note = [&](const Incoming& answer) {
            std::string text = describe(answer.packet);
            if (const auto* error = std::get_if<Error>(&answer.packet.message)) {
                text = std::to_string(static_cast<int>(error->code)) + " " + error->field + ": " + error->message;
                EXPECT_EQ(error->limit_name, "");
            } else if (const auto* page = std::get_if<wire::ListReply>(&answer.packet.message)) {
                text = "page of " + std::to_string(page->capsules.size()) + ", cursor " + page->cursor;
            }
            answers.push_back(text);
        };
        const auto ask = [&](wire::RequestMessage request) {
            carol.send(std::move(request), {}, 0);
            note(carol.receive());
        };
        for (const std::string& name : spellings) {
            for (const auto which : {wire::Which::Latest, wire::Which::Exactly, wire::Which::NewerThan}) {
                ask(wire::Attach{++lease, name, which, which == wire::Which::Latest ? 0U : 1U, 0});
            }
            ask(wire::List{name, "", 0, true});
        }
        ask(wire::List{"secret/", "", 0, true});
        ask(wire::Attach{++lease, wire::CapsuleId{kAlice, there.publish.capsule}, wire::Which::Latest, 0, 0});
        ask(wire::Withdraw{{kAlice, there.publish.capsule}});
        return answers;
    };
    const auto absent = ask_all();
    alice.publish(there);
    EXPECT_EQ(ask_all(), absent);
    // What tells is publishing, and only that the name is taken.
    const TestTensor own = make_tensor_for("secret/a", own_group(0600));
    const auto taken = carol.next<Error>(carol.send(own.publish, {own.fd.get()}));
    EXPECT_EQ(taken.code, Errc::AlreadyExists);
    EXPECT_EQ(taken.message, "the name \"secret/a\" belongs to another user while a version of it lives");
    EXPECT_FALSE(alice.try_receive().has_value()) << "and its owner heard nothing of all that";
    // Nothing secret in any text: no path, no id, no session.
    for (const std::string& answer : absent) {
        EXPECT_EQ(answer.find(daemon.socket_path()), std::string::npos) << answer;
        EXPECT_EQ(answer.find(std::to_string(kAlice)), std::string::npos) << answer;
    }
}

// The daemon of a host that shares by default.
TEST_F(DaemonAccess, DefaultIsTheConfiguredMode) {
    const TemporaryDirectory directory;
    const std::string file = directory.path() + "/hurrayd.toml";
    std::ofstream(file) << "[access]\ndefault_mode = \"0644\"\n";
    DaemonProcess open_daemon({.arguments = {"--config", file}, .environment = {}, .descriptor_limit = {}});
    admit_everybody(open_daemon.socket_path());
    const auto connect_as = [&](uid_t uid) {
        const AsUser user(uid);
        return RawPeer::greeted(open_daemon.socket_path());
    };
    RawPeer alice = connect_as(kAlice);
    alice.publish(make_tensor("n"));
    RawPeer bob = connect_as(kBob);
    EXPECT_EQ(bob.attach(1, "n").reply.access, (wire::Access{kAlice, 0644}));
}

TEST_F(DaemonAccess, WhoeverWasGrantedAFileCantPublishItInItsOwnersPlace) {
    RawPeer alice = as(kAlice);
    RawPeer bob = as(kBob);
    RawPeer root = as(0);
    const TestTensor own = make_tensor_for("n", {wire::kOwnGroup, 0644});
    alice.publish(own);
    const RawPeer::Attached granted = bob.attach(1, "n");
    alice.next<wire::LeaseEvent>();
    alice.call<wire::Done>(wire::Withdraw{{kAlice, own.publish.capsule}});
    bob.call<wire::Done>(wire::Release{{1}});
    alice.close();  // as in a restart: the daemon does not know the file any more

    TestTensor stolen = make_tensor_for("m", {wire::kOwnGroup, 0644});
    const auto publish = [&](RawPeer& peer, std::uint64_t request) {
        stolen.publish.capsule = fresh_id();
        const std::array<int, 1> fds = {granted.fds.at(0).get()};
        peer.send_raw(wire::encoded(wire::Request{request, {}, stolen.publish}), fds);
    };
    publish(bob, 100);
    const Error refused = bob.next<Error>(100);
    EXPECT_EQ(refused.code, Errc::NotPermitted);
    EXPECT_EQ(refused.field, "publish.segments[0]");
    EXPECT_NE(refused.message.find("was made by user 54321, and you are user 54322"), std::string::npos)
        << refused.message;
    publish(root, 101);
    root.next<wire::PublishReply>(101);
}

/// What a client that is not ours may do wrong with its memory.
class SegmentsOfOneAccess : public testing::Test {
  protected:
    /// Publishes in a segment that may be known, and returns what it is answered.
    wire::PacketMessage publish_in(std::uint64_t segment, int fd, const wire::Access& access) {
        TestTensor tensor = make_tensor_for("", access);
        tensor.publish.segments[0].number = segment;
        tensor.publish.segments[0].carries_fd = fd >= 0;
        const std::vector<int> fds = fd >= 0 ? std::vector<int>{fd} : std::vector<int>();
        peer.send(tensor.publish, fds);
        return peer.receive().packet.message;
    }
    static void expect_refused(const wire::PacketMessage& answer) {
        const auto* error = std::get_if<Error>(&answer);
        ASSERT_NE(error, nullptr);
        EXPECT_EQ(error->code, Errc::InvalidArgument);
        EXPECT_EQ(error->field, "publish.segments[0]");
        EXPECT_NE(error->message.find("mode 0640"), std::string::npos) << error->message;
        EXPECT_NE(error->message.find("mode 0600"), std::string::npos) << error->message;
    }

    DaemonProcess daemon;
    RawPeer peer = RawPeer::greeted(daemon.socket_path());
};

TEST_F(SegmentsOfOneAccess, AreRefusedUnderAnotherOneHoweverTheyAreNamed) {
    const UniqueFd file = make_memfd();
    const UniqueFd other = make_memfd();
    EXPECT_TRUE(std::holds_alternative<wire::PublishReply>(publish_in(7, file.get(), own_group(0640))));
    const auto before = daemon.open_descriptors();
    expect_refused(publish_in(7, -1, own_group(0600)));
    expect_refused(publish_in(7, file.get(), own_group(0600)));
    expect_refused(publish_in(8, file.get(), own_group(0600)));
    while (daemon.open_descriptors() != before) {  // some are closed on a thread of their own
        std::this_thread::yield();
    }
    EXPECT_TRUE(std::holds_alternative<wire::PublishReply>(publish_in(7, -1, own_group(0640))));
    EXPECT_TRUE(std::holds_alternative<wire::PublishReply>(publish_in(9, other.get(), own_group(0600))));
}

}  // namespace
}  // namespace hurray::test
