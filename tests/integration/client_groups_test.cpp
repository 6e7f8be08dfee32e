// Groups by the client library: what is staged, what a commit or its refusal leaves, who is told of what.
#include <algorithm>
#include <csignal>
#include <optional>
#include <semaphore>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/integration/client_test.hpp"
#include "tests/support/other_user.hpp"
#include "tests/support/puppet_daemon.hpp"

namespace hurray::test {
namespace {

class ClientGroups : public ClientTest {
  protected:
    Client producer = connect();
    Client consumer = connect();

    PublishOptions into(const Group& group, const EventLog& log = {}) {
        PublishOptions options;
        options.group = group.number();
        options.on_event = log.sink();
        return options;
    }
};

TEST_F(ClientGroups, CommittedCapsulesAreThereWithTheirVersionsAndTheirEvents) {
    EventLog log;
    Group group = producer.begin_group();
    const CapsuleInfo first = publish(producer, "g/first", 3, 10, into(group, log));
    const CapsuleInfo second = publish(producer, "g/second", 3, 20, into(group, log));
    EXPECT_EQ(first.version, 0U);
    EXPECT_EQ(producer.published(second.capsule).version, 0U);
    EXPECT_EQ(status_of([&] { consumer.attach("g/first"); }), HURRAY_ERR_NOT_FOUND);
    EXPECT_TRUE(consumer.list().empty());

    group.commit();
    EXPECT_EQ(group.number(), 0U);
    Tensor tensor = consumer.attach("g/second");
    EXPECT_EQ(tensor.elements<std::uint32_t>()[2], 22U);
    EXPECT_EQ(tensor.info().version, producer.published(second.capsule).version);
    EXPECT_EQ(producer.published(second.capsule).version, producer.published(first.capsule).version + 1);
    tensor.release();
    ASSERT_TRUE(log.wait_for(HURRAY_EVENT_LEASE_RELEASED));
    EXPECT_EQ(log.all().back().event.version, producer.published(second.capsule).version);
    EXPECT_EQ(producer.published(second.capsule).leases, 0U);
    producer.withdraw(second.capsule);
    ASSERT_TRUE(log.wait_for(HURRAY_EVENT_ENDED));
    EXPECT_EQ(status_of([&] { static_cast<void>(producer.published(second.capsule)); }), HURRAY_ERR_NOT_FOUND);
}

TEST_F(ClientGroups, GroupThatIsNotCommittedIsAbortedAndItsCapsulesEndOnceEach) {
    EventLog log;
    {
        const Group group = producer.begin_group();
        publish(producer, "g/first", 3, 10, into(group, log));
        publish(producer, "g/second", 3, 20, into(group, log));
        EXPECT_EQ(used(consumer, "staged"), 2U);
    }
    ASSERT_TRUE(log.wait_for(HURRAY_EVENT_ENDED, 2));
    EXPECT_EQ(used(consumer, "capsules"), 0U);
    for (const EventLog::Entry& entry : log.all()) {
        EXPECT_EQ(entry.event.kind, std::uint32_t{HURRAY_EVENT_ENDED});
        EXPECT_TRUE(entry.event.reusable) << "nobody has seen it";
        EXPECT_EQ(entry.event.version, 0U);
    }
    EXPECT_EQ(status_of([&] { consumer.attach("g/first"); }), HURRAY_ERR_NOT_FOUND);
}

TEST_F(ClientGroups, WithdrawnMemberLeavesTheGroup) {
    EventLog log;
    Group group = producer.begin_group();
    const CapsuleInfo first = publish(producer, "g/first", 3, 10, into(group, log));
    const CapsuleInfo second = publish(producer, "g/second", 3, 20, into(group));
    EXPECT_EQ(status_of([&] { consumer.withdraw(first.capsule); }), HURRAY_ERR_NOT_FOUND) << "it is for nobody else";
    producer.withdraw(first.capsule);
    ASSERT_TRUE(log.wait_for(HURRAY_EVENT_ENDED));
    group.commit();
    EXPECT_EQ(consumer.list().size(), 1U);
    EXPECT_EQ(consumer.attach("g/second").info().version, producer.published(second.capsule).version);
}

TEST_F(ClientGroups, RefusedPublishLeavesItsAllocationToTheCaller) {
    Group group = producer.begin_group();
    publish(producer, "g/first", 3, 10, into(group));
    Allocation again = producer.allocate<std::uint32_t>({3});
    std::string message;
    EXPECT_EQ(status_of([&] { producer.publish("g/first", std::move(again), into(group)); }, &message),
              HURRAY_ERR_ALREADY_EXISTS);
    EXPECT_NE(message.find("has a member with the name \"g/first\" already"), std::string::npos) << message;
    producer.publish("g/second", std::move(again), into(group));
    group.commit();
    EXPECT_EQ(consumer.list("g/").size(), 2U);
}

TEST_F(ClientGroups, GroupThatIsNotOpenIsNotFound) {
    Group group = producer.begin_group();
    const std::uint64_t number = group.number();
    PublishOptions options = into(group);
    group.commit();
    EXPECT_EQ(status_of([&] { publish(producer, "late", 1, 1, options); }), HURRAY_ERR_NOT_FOUND);
    EXPECT_EQ(hurray_client_group_end(producer.handle(), number + 1, 1), HURRAY_ERR_NOT_FOUND);
    EXPECT_EQ(hurray_client_group_end(producer.handle(), 0, 0), HURRAY_ERR_INVALID_ARGUMENT);
    EXPECT_EQ(status_of([&] { group.commit(); }), HURRAY_ERR_INVALID_ARGUMENT) << "it has ended";
    EXPECT_EQ(status_of([&] { publish(consumer, "late", 1, 1, into(producer.begin_group())); }), HURRAY_ERR_NOT_FOUND)
        << "a group is its client's";
}

// The daemon answers the end of the last group again, and that answer was taken for a broken protocol, or for the end of an open one.
TEST_F(ClientGroups, GroupThatHasEndedIsNotFoundHoweverItIsEndedAgain) {
    for (const std::uint8_t commit : {std::uint8_t{1}, std::uint8_t{0}}) {
        std::uint64_t group = 0;
        ASSERT_EQ(hurray_client_group_begin(producer.handle(), &group), HURRAY_OK);
        ASSERT_EQ(hurray_client_group_end(producer.handle(), group, commit), HURRAY_OK);
        EXPECT_EQ(hurray_client_group_end(producer.handle(), group, 1), HURRAY_ERR_NOT_FOUND);
        EXPECT_EQ(hurray_client_group_end(producer.handle(), group, 0), HURRAY_ERR_NOT_FOUND);
    }
}

TEST_F(ClientGroups, RefusedCommitNamesTheMemberAndLeavesTheGroupOpen) {
    if (::geteuid() != 0) {
        GTEST_SKIP() << "needs root to connect as two other users";
    }
    admit_everybody(daemon_.socket_path());
    const auto as = [](uid_t uid, auto&& act) {  // who connects counts, and who has made the memory
        const AsUser user(uid);
        return act();
    };
    Client alice = as(kAlice, [&] { return connect(); });
    Client bob = as(kBob, [&] { return connect(); });
    EventLog log;
    Group group = alice.begin_group();
    const CapsuleInfo taken = as(kAlice, [&] {
        publish(alice, "pair/0", 1, 10, into(group, log));
        return publish(alice, "pair/1", 1, 11, into(group, log));
    });
    as(kBob, [&] { publish(bob, "pair/1", 1, 12); });

    std::string message;
    EXPECT_EQ(status_of([&] { group.commit(); }, &message), HURRAY_ERR_ALREADY_EXISTS);
    EXPECT_NE(message.find("\"pair/1\", which belongs to another user by now"), std::string::npos) << message;
    EXPECT_EQ(status_of([&] { alice.attach("pair/0"); }), HURRAY_ERR_NOT_FOUND);
    EXPECT_EQ(alice.published(taken.capsule).version, 0U);

    alice.withdraw(taken.capsule);
    group.commit();
    EXPECT_EQ(alice.attach("pair/0").elements<std::uint32_t>()[0], 10U);
    ASSERT_TRUE(log.wait_for(HURRAY_EVENT_ENDED));
    EXPECT_EQ(log.count(HURRAY_EVENT_ENDED), 1U) << "of the one that was withdrawn";
    EXPECT_EQ(bob.attach("pair/1").elements<std::uint32_t>()[0], 12U);
}

TEST_F(ClientGroups, NumbersAreNeverUsedTwiceByAClient) {
    std::vector<std::uint64_t> numbers;
    for (int i = 0; i < 3; ++i) {
        Group group = producer.begin_group();
        numbers.push_back(group.number());
        group.commit();
    }
    EXPECT_EQ(numbers, (std::vector<std::uint64_t>{1, 2, 3}));
}

TEST_F(ClientGroups, MovedGroupIsEndedOnce) {
    Group first = producer.begin_group();
    publish(producer, "moved", 1, 1, into(first));
    Group second = std::move(first);
    EXPECT_EQ(first.number(), 0U);  // NOLINT(bugprone-use-after-move): that is the question
    first.abort();
    EXPECT_EQ(used(consumer, "staged"), 1U);
    second = producer.begin_group();
    EXPECT_EQ(used(consumer, "staged"), 0U) << "what it had was aborted";
}

TEST_F(ClientGroups, LostConnectionEndsWhatIsStagedOnceAndWithoutReuse) {
    producer = connect_once();
    EventLog log;
    Group group = producer.begin_group();
    publish(producer, "g/first", 3, 10, into(group, log));
    publish(producer, "g/second", 3, 20, into(group, log));
    daemon_.end(SIGKILL);
    EXPECT_EQ(status_of([&] { group.commit(); }), HURRAY_ERR_CONNECTION_LOST);
    ASSERT_TRUE(log.wait_for(HURRAY_EVENT_ENDED, 2));
    EXPECT_FALSE(log.all().front().event.reusable);
    group.abort();
    EXPECT_EQ(log.count(HURRAY_EVENT_ENDED), 2U);
}

TEST_F(ClientGroups, ClosedClientLeavesNothingStaged) {
    EventLog log;
    Group group = producer.begin_group();
    publish(producer, "g/first", 3, 10, into(group, log));
    publish(producer, "", 3, 20, into(group, log));
    const Tensor held = [&] {  // so that the connection outlives the client
        publish(consumer, "held", 1, 1);
        return producer.attach("held");
    }();
    producer.close();
    ASSERT_TRUE(log.wait_for(HURRAY_EVENT_ENDED, 2));
    EXPECT_EQ(used(consumer, "staged"), 0U);
    EXPECT_EQ(status_of([&] { group.commit(); }), HURRAY_ERR_CLOSED);
}

/// A commit that may have been carried out and is not answered, of a group with one member that is to linger: it must not stay, as the
/// only one of its group, when its client is told that all of them have ended.
class UnansweredCommit : public ::testing::Test {
  protected:
    /// `commit` is what the daemon says to that.
    explicit UnansweredCommit(PuppetDaemon::Answers commit)
        : daemon_([this, commit = std::move(commit)](const wire::Request& request) -> PuppetDaemon::Answers {
              if (const auto* group = std::get_if<wire::Group>(&request.message)) {
                  if (group->action == wire::Group::Action::Commit) {
                      asked_.release();
                      go_on_.acquire();
                      return commit;
                  }
                  return {wire::GroupReply{}};
              }
              if (std::holds_alternative<wire::Publish>(request.message)) {
                  return {wire::PublishReply{0}};
              }
              return {wire::Done{}};
          }) {
        ConnectOptions options;
        options.address = daemon_.path();
        options.on_event = log_.sink();
        client_ = Client::connect(std::move(options));
        group_ = client_->begin_group();
        PublishOptions publish;
        publish.group = group_->number();
        publish.linger = kForever;
        capsule_ = client_->publish("a", client_->allocate<std::uint32_t>({0}), std::move(publish)).capsule;
    }
    /// Once its client is gone.
    void expect_withdrawn() {
        group_.reset();
        client_.reset();
        daemon_.join();
        bool is_committed = false;
        bool is_withdrawn = false;
        for (const wire::Request& request : daemon_.requests) {
            const auto* group = std::get_if<wire::Group>(&request.message);
            is_committed = is_committed || (group != nullptr && group->action == wire::Group::Action::Commit);
            const auto* withdraw = std::get_if<wire::Withdraw>(&request.message);
            is_withdrawn = is_withdrawn ||
                           (is_committed && withdraw != nullptr &&
                            std::equal(capsule_.id.begin(), capsule_.id.end(), withdraw->capsule.id.bytes.begin()));
        }
        EXPECT_TRUE(is_withdrawn);
    }

    std::binary_semaphore asked_{0};
    std::binary_semaphore go_on_{0};
    EventLog log_;
    PuppetDaemon daemon_;
    std::optional<Client> client_;
    std::optional<Group> group_;
    CapsuleId capsule_{};
};

class CommitBesideAClose : public UnansweredCommit {
  protected:
    CommitBesideAClose() : UnansweredCommit({wire::GroupReply{{1}}}) {}
};

TEST_F(CommitBesideAClose, WithdrawsWhatLingers) {
    std::thread committer([&] { EXPECT_EQ(status_of([&] { group_->commit(); }), HURRAY_ERR_CLOSED); });
    asked_.acquire();
    client_->close();
    go_on_.release();
    committer.join();
    expect_withdrawn();
}

class CommitOverTheDaemonsDeath : public UnansweredCommit {
  protected:
    CommitOverTheDaemonsDeath() : UnansweredCommit({}) {}
};

TEST_F(CommitOverTheDaemonsDeath, WithdrawsWhatLingers) {
    go_on_.release();
    EXPECT_EQ(status_of([&] { group_->commit(); }), HURRAY_ERR_CONNECTION_LOST);
    ASSERT_TRUE(log_.wait_for(HURRAY_EVENT_CONNECTION, 2));
    expect_withdrawn();
}

// case B5
TEST_F(ClientGroups, ThreeHundredBuffersAreThereAtOnceAndComplete) {
    Group group = producer.begin_group();
    for (std::uint32_t i = 0; i < 300; ++i) {
        publish(producer, "parts/" + std::to_string(i), 100, 1000 * i, into(group));
        EXPECT_TRUE(consumer.list("parts/").empty());
    }
    group.commit();
    for (std::uint32_t i = 0; i < 300; ++i) {
        const Tensor part = consumer.attach("parts/" + std::to_string(i));
        ASSERT_EQ(part.elements<std::uint32_t>().front(), 1000 * i);
        ASSERT_EQ(part.elements<std::uint32_t>().back(), 1000 * i + 99);
    }
}

// case B5: it had sent two of three
TEST_F(ClientGroups, WhatAKilledProducerHadStagedIsNeverSeen) {
    const std::size_t daemon_fds = daemon_.open_descriptors();
    const pid_t child = ::fork();
    if (child == 0) {
        Client mortal = connect(true);
        const Group group = mortal.begin_group();
        publish(mortal, "half/0", 3, 10, into(group));
        publish(mortal, "half/1", 3, 20, into(group));
        ::pause();
        ::_exit(0);
    }
    while (used(consumer, "staged") != 2) {
    }
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    while (used(consumer, "capsules") != 0) {
    }
    EXPECT_EQ(used(consumer, "staged"), 0U);
    EXPECT_EQ(used(consumer, "bytes"), 0U);
    EXPECT_EQ(daemon_.open_descriptors(), daemon_fds);
    EXPECT_EQ(status_of([&] { consumer.attach("half/0"); }), HURRAY_ERR_NOT_FOUND);
}

TEST_F(ClientGroups, ForkedChildCanNotEndItsParentsGroup) {
    Group group = producer.begin_group();
    const CapsuleInfo info = publish(producer, "parents", 3, 10, into(group));
    const pid_t child = ::fork();
    if (child == 0) {
        const bool good = status_of([&] { group.commit(); }) == HURRAY_ERR_FORKED &&
                          status_of([&] { static_cast<void>(producer.begin_group()); }) == HURRAY_ERR_FORKED &&
                          status_of([&] { static_cast<void>(producer.published(info.capsule)); }) == HURRAY_ERR_FORKED;
        group.abort();
        ::_exit(good ? 0 : 1);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
    group.commit();
    EXPECT_EQ(consumer.attach("parents").elements<std::uint32_t>()[0], 10U);
}

TEST_F(ClientGroups, CopiedMemoryIsStagedAsWell) {
    Group group = producer.begin_group();
    const std::vector<float> elements{1, 2, 3};
    producer.publish_copy<float>("copied", {3}, elements, into(group));
    EXPECT_TRUE(consumer.list().empty());
    group.commit();
    EXPECT_EQ(consumer.attach("copied").elements<float>()[1], 2);
}

}  // namespace
}  // namespace hurray::test
