#include <algorithm>
#include <cstring>
#include <functional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "daemon/registry.hpp"
#include "tests/unit/daemon/registry_fixture.hpp"

// Who may do what with whose capsules, one rule a test.

namespace hurrayd {
namespace {

constexpr std::uint32_t kCarol = 1003;
constexpr std::uint32_t kVideo = 44;
constexpr std::uint32_t kAudio = 29;

using Names = std::vector<std::string>;

wire::Access video(std::uint32_t mode) { return {kVideo, mode}; }

class RegistryAccess : public RegistryTest {
  protected:
    /// Of a user whose effective group is not the one with its number.
    SessionNumber open_in(std::uint32_t uid, std::uint32_t gid) {
        const SessionNumber number{next_session++};
        EXPECT_TRUE(registry.open_session(number, {uid, gid, 1, false, id16(static_cast<std::uint8_t>(number.value))})
                        .has_value());
        return number;
    }
    /// Publishes without looking at the books, as often as needed.
    void publish_one_of_many(SessionNumber from, std::uint64_t number, const std::string& name,
                             const wire::Access& access) {
        Publication p = publication(0, name);
        std::memcpy(p.request.capsule.bytes.data(), &number, sizeof number);
        p.request.access = access;
        registry.publish(from, number, std::move(p), out);
        ASSERT_TRUE(std::holds_alternative<wire::PublishReply>(out.packets.at(0).packet.message));
        out.clear();
    }
    /// All that somebody sees, in pages of so many.
    std::vector<wire::Info> all_for(SessionNumber viewer, std::uint32_t limit = 0, const std::string& pattern = "") {
        std::vector<wire::Info> found;
        wire::List query{pattern, "", limit, false};
        for (;;) {
            registry.list(viewer, 1, query, 0, out);  // the books are not looked at after each page
            const auto page = std::get<wire::ListReply>(out.packets.at(0).packet.message);
            out.clear();
            EXPECT_TRUE(limit == 0 || page.capsules.size() <= limit);
            found.insert(found.end(), page.capsules.begin(), page.capsules.end());
            if (page.cursor.empty() || page.cursor == query.cursor) {
                return found;
            }
            query.cursor = page.cursor;
        }
    }
    Names names_for(SessionNumber viewer, const std::string& pattern = "") {
        Names names;
        for (const wire::Info& info : all_for(viewer, 0, pattern)) {
            names.push_back(info.name);
        }
        return names;
    }
    bool can_attach(SessionNumber viewer, const wire::Attach& what) {
        wire::Attach attempt = what;
        attempt.lease = ++last_lease_;
        const auto words = attach(viewer, 900, attempt);
        if (words.back().find("AttachReply") == std::string::npos) {
            EXPECT_EQ(words, (Words{std::to_string(viewer.value) + ":" + error(Errc::NotFound) + "#900"}));
            return false;
        }
        release(viewer, 901, {attempt.lease});
        return true;
    }
    /// What was answered last, a refusal.
    [[nodiscard]] const hurray::Error& refusal() const { return std::get<hurray::Error>(last.back().packet.message); }
    void expect_refused(Errc code, const std::string& field) const {
        ASSERT_TRUE(std::holds_alternative<hurray::Error>(last.back().packet.message));
        EXPECT_EQ(refusal().code, code) << refusal().message;
        EXPECT_EQ(refusal().field, field);
    }

  private:
    std::uint64_t last_lease_ = 0;
};

// ---- Reading

TEST_F(RegistryAccess, FirstClassThatFitsDecidesAlone) {
    struct Viewer {
        const char* who;
        SessionNumber session;
    };
    const auto alice = open(kAlice, {kVideo});
    const Viewer viewers[] = {{"own", open(kAlice)},
                              {"effective", open_in(kBob, kVideo)},
                              {"supplementary", open(kBob, {7, kVideo, 9})},
                              {"other", open(kCarol, {kAudio})},
                              {"root", open(0)}};
    struct Case {
        std::uint32_t mode;
        std::set<std::string> readers;
    };
    const Case cases[] = {{0600, {"own", "root"}},
                          {0640, {"own", "effective", "supplementary", "root"}},
                          {0644, {"own", "effective", "supplementary", "other", "root"}},
                          {0604, {"own", "other", "root"}},
                          {0040, {"effective", "supplementary", "root"}},
                          {0004, {"other", "root"}},
                          {0044, {"effective", "supplementary", "other", "root"}},
                          {0222, {"root"}},
                          {0000, {"root"}}};
    std::uint8_t capsule = 0;
    for (const Case& c : cases) {
        publish(alice, 1, ++capsule, "n", 0, video(c.mode));
        for (const Viewer& viewer : viewers) {
            SCOPED_TRACE(viewer.who + (" of mode " + std::to_string(c.mode)));
            const bool reads = c.readers.contains(viewer.who);
            EXPECT_EQ(can_attach(viewer.session, by_name(0, "n")), reads);
            EXPECT_EQ(can_attach(viewer.session, by_id(0, kAlice, capsule)), reads);
            EXPECT_EQ(names_for(viewer.session), reads ? Names{"n"} : Names{});
            EXPECT_EQ(names_for(viewer.session, "n"), reads ? Names{"n"} : Names{});
        }
    }
}

TEST_F(RegistryAccess, IsWhatWasAskedForOrTheDefaultAndShownToWhoReads) {
    const auto alice = open(kAlice, {kVideo});
    publish(alice, 1, 1, "asked", 0, video(0646));
    publish(alice, 2, 2, "default");
    publish(alice, 3, 3, "own group", 0, wire::Access{wire::kOwnGroup, 0640});
    const auto found = all_for(alice);
    ASSERT_EQ(found.size(), 3u);
    EXPECT_EQ(found[0].access, video(0646));
    EXPECT_EQ(found[1].access, (wire::Access{kAlice, 0600}));
    EXPECT_EQ(found[2].access, (wire::Access{kAlice, 0640}));
    attach(alice, 4, by_name(1, "asked"));
    EXPECT_EQ(std::get<wire::AttachReply>(last.at(1).packet.message).access, video(0646));
}

TEST(RegistryDefaultAccess, IsTheDaemonsMode) {
    Registry registry{kFirstVersion, {}, 0664};
    Outbox out;
    ASSERT_TRUE(registry.open_session({1}, {kAlice, kVideo, 1, false, id16(1)}).has_value());
    ASSERT_TRUE(registry.open_session({2}, {kBob, kBob, 1, false, id16(2)}).has_value());
    Publication p;
    p.request.name = "n";
    registry.publish({1}, 1, std::move(p), out);
    out.clear();
    registry.attach({2}, 1, {1, "n"}, 0, 0, out);
    EXPECT_EQ(std::get<wire::AttachReply>(out.packets.at(1).packet.message).access, video(0664));
}

TEST_F(RegistryAccess, GroupThatThePublisherIsNotInIsRefused) {
    const auto alice = open(kAlice, {kVideo});
    publish(alice, 1, 1, "n", 0, wire::Access{kAudio, 0640});
    expect_refused(Errc::NotPermitted, "publish.access.gid");
    EXPECT_EQ(refusal().message, "user 1001 was not in group 29 when this connection began");
    EXPECT_EQ(dropped.size(), 1u) << "its file is let go of";
    EXPECT_EQ(registry.totals().capsules, 0u);
    EXPECT_EQ(publish(open(0), 1, 1, "n", 0, wire::Access{kAudio, 0640}), (Words{"2:PublishReply=1000#1"}));
}

TEST_F(RegistryAccess, AnotherAccessIsAnotherPublish) {
    const auto alice = open(kAlice, {kVideo});
    publish(alice, 1, 1, "n", 0, video(0640));
    EXPECT_EQ(publish(alice, 2, 1, "n", 0, video(0640)), (Words{"1:PublishReply=1000#2"}));
    publish(alice, 3, 1, "n", 0, video(0600));
    expect_refused(Errc::AlreadyExists, "publish.capsule");
    publish(alice, 4, 1, "n");
    expect_refused(Errc::AlreadyExists, "publish.capsule");
}

// case G4: the same words for what is there and may not be read, and for what never was
TEST_F(RegistryAccess, ForbiddenAndAbsentAreAnsweredAlike) {
    const auto alice = open(kAlice, {kVideo});
    const auto carol = open(kCarol);
    using Request = std::function<void(std::uint64_t)>;
    std::vector<Request> requests;
    std::uint64_t lease = 0;
    const auto attaches = [&](wire::Attach what) {
        requests.emplace_back([=, this, &lease](std::uint64_t id) {
            wire::Attach attempt = what;
            attempt.lease = ++lease;
            registry.attach(carol, id, attempt, 0, now, out);
        });
    };
    attaches(by_name(0, "n"));
    attaches({0, "n", wire::Which::Exactly, kFirstVersion});
    attaches({0, "n", wire::Which::Exactly, kFirstVersion + 9});
    attaches({0, "n", wire::Which::NewerThan, 1});
    attaches(by_id(0, kAlice, 1));
    attaches({0, wire::CapsuleId{kAlice, id16(1)}, wire::Which::Exactly, kFirstVersion});
    requests.emplace_back([&](std::uint64_t id) { registry.withdraw(carol, id, {{kAlice, id16(1)}}, out); });
    const auto answers = [&] {
        std::vector<hurray::Error> errors;
        for (const Request& request : requests) {
            request(1);
            take();
            errors.push_back(refusal());
        }
        return errors;
    };
    publish(alice, 1, 1, "n", 0, video(0640));
    const auto forbidden = answers();
    const Names listed = names_for(carol);
    withdraw(alice, 2, kAlice, 1);
    const auto absent = answers();
    for (std::size_t i = 0; i < requests.size(); ++i) {
        EXPECT_EQ(forbidden[i].code, absent[i].code) << i;
        EXPECT_EQ(forbidden[i].field, absent[i].field) << i;
        EXPECT_EQ(forbidden[i].message, absent[i].message) << i;
        EXPECT_EQ(forbidden[i].code, Errc::NotFound) << i;
    }
    EXPECT_EQ(listed, Names{});
}

// ---- Waiting, watching

TEST_F(RegistryAccess, WhoMayNotReadGoesOnWaiting) {
    const auto alice = open(kAlice, {kVideo});
    const auto bob = open(kBob, {kVideo});
    const auto carol = open(kCarol);
    attach(bob, 1, by_name(1, "n"), std::nullopt);
    attach(carol, 2, by_name(1, "n"), std::nullopt);
    attach(carol, 3, by_id(2, kAlice, 1), std::nullopt);
    EXPECT_EQ(publish(alice, 1, 1, "n", 0, video(0640)),
              (Words{"1:PublishReply=1000#1", "1:Opened(1 lease 1 left 1)", "2:AttachReply(1)#1"}));
    EXPECT_EQ(publish(alice, 2, 2, "n", 0, video(0644)),
              (Words{"1:Retired(1)", "1:PublishReply=1001#2", "1:Opened(2 lease 1 left 1)", "3:AttachReply(2)#2"}));
    EXPECT_EQ(registry.totals().waiting, 1u) << "for an id that it can't see";
}

TEST_F(RegistryAccess, WatchersHearOfWhatTheyMayRead) {
    const auto alice = open(kAlice, {kVideo});
    const auto bob = open(kBob, {kVideo});
    const auto carol = open(kCarol);
    publish(alice, 1, 1, "a", 0, video(0640));
    publish(alice, 2, 2, "b", 0, video(0604));
    registry.watch(bob, 1, {1, ""}, out);
    EXPECT_EQ(take(), (Words{"2:Done#1", "2:WatchedPresent(1)", "2:WatchedSnapshotEnd"}));
    registry.watch(carol, 1, {1, ""}, out);
    EXPECT_EQ(take(), (Words{"3:Done#1", "3:WatchedPresent(2)", "3:WatchedSnapshotEnd"}));
    // Narrower: who can't read the new one hears that the old one is gone, and no more.
    EXPECT_EQ(publish(alice, 3, 3, "a", 0, video(0600)),
              (Words{"1:Retired(1)", "1:Ended(1 reusable)", "1:PublishReply=1002#3", "2:WatchedRetired(1)"}));
    // Wider: who couldn't read the old one hears of the new one alone.
    EXPECT_EQ(publish(alice, 4, 4, "a", 0, video(0644)),
              (Words{"1:Retired(3)", "1:Ended(3 reusable)", "1:PublishReply=1003#4", "2:WatchedPublished(4)",
                     "3:WatchedPublished(4)"}));
    EXPECT_EQ(withdraw(alice, 5, kAlice, 2), (Words{"1:Ended(2 reusable)", "1:Done#5", "3:WatchedRetired(2)"}));
    EXPECT_EQ(end(alice), (Words{"2:WatchedProducerLost(4)", "3:WatchedProducerLost(4)"}));
}

// ---- Writing

TEST_F(RegistryAccess, WhoMayWriteReplacesAndTheNameStaysItsOwners) {
    const auto alice = open(kAlice, {kVideo});
    const auto bob = open(kBob, {kVideo});
    publish(alice, 1, 1, "n", 0, video(0660));
    EXPECT_EQ(publish(bob, 1, 2, "n", 0, video(0660)),
              (Words{"1:Retired(1)", "1:Ended(1 reusable)", "2:PublishReply=1001#1"}));
    EXPECT_EQ(used(open(0), kAlice, "names"), 1u) << "on whose account it goes on being";
    EXPECT_EQ(used(open(0), kBob, "names"), 0u);
    EXPECT_EQ(publish(bob, 2, 3, "n", 0, video(0600)),
              (Words{"2:Retired(2)", "2:Ended(2 reusable)", "2:PublishReply=1002#2"}));
    // It can't see Bob's, yet the name is its own.
    EXPECT_EQ(publish(alice, 2, 4, "n", 0, video(0640)),
              (Words{"2:Retired(3)", "2:Ended(3 reusable)", "1:PublishReply=1003#2"}));
    publish(bob, 3, 5, "n");
    expect_refused(Errc::NotPermitted, "publish.name");
}

TEST_F(RegistryAccess, NameIsFreeOnceItsLastVersionHasEndedWhosesoever) {
    const auto alice = open(kAlice, {kVideo});
    const auto bob = open(kBob, {kVideo});
    publish(alice, 1, 1, "n", 0, video(0660));
    publish(bob, 1, 2, "n");
    withdraw(bob, 2, kBob, 2);
    EXPECT_EQ(publish(open(kCarol), 1, 3, "n"), (Words{"3:PublishReply=1002#1"}));
    publish(alice, 2, 4, "n");
    expect_refused(Errc::AlreadyExists, "publish.name");
}

TEST_F(RegistryAccess, WhoMayReadAndNotWriteIsToldSo) {
    const auto alice = open(kAlice, {kVideo});
    const auto bob = open(kBob, {kVideo});
    publish(alice, 1, 1, "n", 0, video(0640));
    publish(bob, 1, 2, "n");
    expect_refused(Errc::NotPermitted, "publish.name");
    EXPECT_EQ(
        refusal().message,
        "the name \"n\" is held by a capsule of user 1001 with group 44 and mode 0640, which you may not replace");
    withdraw(bob, 2, kAlice, 1);
    expect_refused(Errc::NotPermitted, "withdraw.capsule");
    EXPECT_TRUE(can_attach(bob, by_name(0, "n")));
}

TEST_F(RegistryAccess, WhoMayNotReadLearnsThatTheNameIsTakenAndNoMore) {
    const auto alice = open(kAlice, {kVideo});
    const auto bob = open(kBob, {kVideo});
    // Writing alone is nothing: there is nothing that it could be done to.
    std::uint8_t capsule = 0;
    for (const std::uint32_t mode : {0600U, 0620U, 0602U, 0626U}) {
        publish(alice, 2, ++capsule, "n", 0, video(mode));
        publish(bob, 3, 99, "n");
        expect_refused(Errc::AlreadyExists, "publish.name");
        EXPECT_EQ(refusal().message, "the name \"n\" belongs to another user while a version of it lives");
        withdraw(bob, 4, kAlice, capsule);
        expect_refused(Errc::NotFound, "withdraw.capsule");
    }
}

TEST_F(RegistryAccess, OwnUserWithoutTheBitMayNotButTheSessionThatPublishedMay) {
    const auto one = open(kAlice);
    const auto two = open(kAlice);
    std::uint8_t capsule = 0;
    for (const std::uint32_t mode : {0400U, 0200U, 0U}) {
        const std::uint8_t first = ++capsule;
        const std::uint8_t second = ++capsule;
        publish(one, 1, first, "n", 0, wire::Access{wire::kOwnGroup, mode});
        publish(two, 2, 99, "n");
        expect_refused(Errc::NotPermitted, "publish.name");
        withdraw(two, 3, kAlice, first);
        expect_refused(mode == 0400 ? Errc::NotPermitted : Errc::NotFound, "withdraw.capsule");
        EXPECT_EQ(publish(one, 4, second, "n", 0, wire::Access{wire::kOwnGroup, mode}).front(),
                  "1:Retired(" + std::to_string(first) + ")");
        EXPECT_EQ(withdraw(one, 5, kAlice, second),
                  (Words{"1:Ended(" + std::to_string(second) + " reusable)", "1:Done#5"}));
    }
}

TEST_F(RegistryAccess, WhoMayWriteWithdraws) {
    const auto alice = open(kAlice, {kVideo});
    publish(alice, 1, 1, "n", 0, video(0660));
    publish(alice, 2, 2, "m", 0, video(0606));
    EXPECT_EQ(withdraw(open(kBob, {kVideo}), 1, kAlice, 1), (Words{"1:Retired(1)", "1:Ended(1 reusable)", "2:Done#1"}));
    EXPECT_EQ(withdraw(open(kCarol), 1, kAlice, 2), (Words{"1:Retired(2)", "1:Ended(2 reusable)", "3:Done#1"}));
}

TEST_F(RegistryAccess, RetiredVersionDecidesWhileItIsTheNewest) {
    const auto alice = open(kAlice, {kVideo});
    const auto bob = open(kBob, {kVideo});
    publish(alice, 1, 1, "n", 0, video(0660));
    attach(alice, 2, by_name(1, "n"));
    withdraw(alice, 3, kAlice, 1);
    EXPECT_EQ(publish(bob, 1, 2, "n"), (Words{"2:PublishReply=1001#1"}));
}

// ---- Groups of capsules

TEST_F(RegistryAccess, StagedCapsulesBringTheirAccess) {
    const auto alice = open(kAlice, {kVideo});
    const auto bob = open(kBob, {kVideo});
    group(alice, 1, 7, wire::Group::Action::Begin);
    publish(alice, 2, 1, "a", 7, video(0640));
    publish(alice, 3, 2, "b", 7);
    publish(alice, 4, 3, "c", 7, wire::Access{kAudio, 0640});
    expect_refused(Errc::NotPermitted, "publish.access.gid");
    EXPECT_EQ(names_for(bob), Names{});
    withdraw(bob, 1, kAlice, 1);
    expect_refused(Errc::NotFound, "withdraw.capsule");
    group(alice, 5, 7, wire::Group::Action::Commit);
    EXPECT_EQ(names_for(bob), Names{"a"});
}

TEST_F(RegistryAccess, CommitIsRefusedAsAWholeIfANameMayNotBeReplacedByNow) {
    const auto alice = open(kAlice, {kVideo});
    const auto bob = open(kBob, {kVideo});
    publish(alice, 1, 1, "n", 0, video(0660));
    group(bob, 1, 7, wire::Group::Action::Begin);
    publish(bob, 2, 1, "m", 7);
    publish(bob, 3, 2, "n", 7);
    publish(alice, 2, 2, "n", 0, video(0640));
    group(bob, 4, 7, wire::Group::Action::Commit);
    expect_refused(Errc::NotPermitted, "group.group");
    EXPECT_EQ(refusal().message,
              "group 7 has a member with the name \"n\", which is held by a capsule that you may not replace by now: "
              "nothing of the group is published");
    EXPECT_EQ(names_for(bob), Names{"n"});
    publish(alice, 3, 3, "n", 0, video(0660));
    group(bob, 5, 7, wire::Group::Action::Commit);
    EXPECT_EQ(names_for(bob), (Names{"m", "n"}));
}

// ---- Memory

class SegmentAccess : public RegistryAccess {
  protected:
    /// A publish of `capsule` in segment `number`, which brings `file` unless that is 0.
    Words publish_in(SessionNumber from, std::uint8_t capsule, std::uint64_t number, std::uint64_t file,
                     const wire::Access& access) {
        Publication p = publication(capsule, "");
        p.request.segments = {{number, file != 0, wire::Memory::Reusable, 4096, 0}};
        p.request.placements = {{0, 0}};
        p.request.access = access;
        p.brought = {file != 0 ? brought(file) : BroughtSegment{}};
        registry.publish(from, 1, std::move(p), out);
        return take();
    }
};

TEST_F(SegmentAccess, HasTheAccessOfItsFirstCapsuleForLife) {
    const auto alice = open(kAlice, {kVideo, kAudio});
    publish_in(alice, 1, 5, 1, video(0640));
    EXPECT_EQ(publish_in(alice, 2, 5, 0, video(0640)), (Words{"1:PublishReply=1001#1"}));
    withdraw(alice, 1, kAlice, 1);
    withdraw(alice, 1, kAlice, 2);
    for (const wire::Access& other : {video(0600), video(0644), wire::Access{kAudio, 0640}}) {
        publish_in(alice, 3, 5, 0, other);
        expect_refused(Errc::InvalidArgument, "publish.segments[0]");
    }
    EXPECT_EQ(
        refusal().message,
        "segment number 5 was published with group 44 and mode 0640, and is not used with group 29 and mode 0640: "
        "whoever has mapped it sees what is written there later");
    publish_in(alice, 3, 5, 1, video(0600));
    expect_refused(Errc::InvalidArgument, "publish.segments[0]");
    EXPECT_EQ(registry.totals().capsules, 0u);
    EXPECT_EQ(publish_in(alice, 3, 5, 0, video(0640)), (Words{"1:PublishReply=1002#1"}));
}

TEST_F(SegmentAccess, OwnGroupByNumberIsTheSameAccess) {
    const auto alice = open(kAlice);
    publish_in(alice, 1, 5, 1, {wire::kOwnGroup, 0640});
    EXPECT_EQ(publish_in(alice, 2, 5, 0, {kAlice, 0640}), (Words{"1:PublishReply=1001#1"}));
}

TEST_F(SegmentAccess, IsTheFilesUnderWhateverNumberAndInWhateverSession) {
    const auto alice = open(kAlice, {kVideo});
    const auto again = open(kAlice, {kVideo});
    publish_in(alice, 1, 5, 1, video(0640));
    publish_in(alice, 2, 6, 1, video(0600));
    expect_refused(Errc::InvalidArgument, "publish.segments[0]");
    publish_in(again, 2, 5, 1, video(0600));
    expect_refused(Errc::InvalidArgument, "publish.segments[0]");
    EXPECT_EQ(publish_in(again, 2, 5, 1, video(0640)), (Words{"2:PublishReply=1001#1"}));
    registry.forget(alice, 1, {{5}}, out);
    take();
    withdraw(alice, 1, kAlice, 1);
    publish_in(again, 3, 7, 1, video(0600));
    expect_refused(Errc::InvalidArgument, "publish.segments[0]");
    end(again);
    EXPECT_EQ(publish_in(alice, 3, 7, 1, video(0600)), (Words{"1:PublishReply=1002#1"})) << "nobody keeps it any more";
}

TEST_F(SegmentAccess, AnotherUsersFileIsRefusedWithoutAWordOfItsAccess) {
    publish_in(open(kAlice, {kVideo}), 1, 5, 1, video(0640));
    publish_in(open(kBob, {kVideo}), 1, 5, 1, video(0640));
    expect_refused(Errc::InvalidArgument, "publish.segments[0]");
    EXPECT_EQ(refusal().message, "segment number 5 is a file that another user has published");
}

// ---- Lists

// Users, groups and modes at random: each viewer's pages, whatever their length, are what the rule says of each capsule, in order.
TEST_F(RegistryAccess, OfVersionsOfWhichSomeAreHiddenEachFindsTheRightOneOfItsOwn) {
    constexpr std::uint64_t kVersions = 12;
    const auto alice = open(kAlice);
    const auto bob = open(kBob);
    const auto root = open(0);
    std::vector<std::uint64_t> readable;  // by Bob
    for (std::uint64_t i = 0; i < kVersions; ++i) {
        const std::uint32_t mode = i % 3 == 1 ? 0604 : 0600;
        publish_with(alice, 1, static_cast<std::uint8_t>(i), "n", [&](wire::Publish& publish) {
            publish.retain = kVersions;
            publish.access = wire::Access{kAlice, mode};
        });
        if (mode == 0604) {
            readable.push_back(kFirstVersion + i);
        }
    }
    std::uint64_t lease = 0;
    const auto got = [&](SessionNumber who, wire::Which which, std::uint64_t version) -> std::uint64_t {
        registry.attach(who, 9, {++lease, "n", which, version, 0}, 0, now, out);
        take();
        const auto* reply = std::get_if<wire::AttachReply>(&last.back().packet.message);
        return reply != nullptr ? reply->version : 0;
    };
    EXPECT_EQ(got(alice, wire::Which::Latest, 0), kFirstVersion + kVersions - 1);
    EXPECT_EQ(got(root, wire::Which::Latest, 0), kFirstVersion + kVersions - 1);
    EXPECT_EQ(got(bob, wire::Which::Latest, 0), readable.back());
    for (std::uint64_t version = kFirstVersion - 1; version < kFirstVersion + kVersions; ++version) {
        const auto newer = std::upper_bound(readable.begin(), readable.end(), version);
        EXPECT_EQ(got(bob, wire::Which::NewerThan, version), newer != readable.end() ? *newer : 0) << version;
        const bool is_readable = std::binary_search(readable.begin(), readable.end(), version);
        EXPECT_EQ(got(bob, wire::Which::Exactly, version), is_readable ? version : 0) << version;
        EXPECT_EQ(got(alice, wire::Which::NewerThan, version),
                  version + 1 < kFirstVersion + kVersions ? version + 1 : 0);
    }
    withdraw(alice, 2, kAlice, 10);  // Bob's newest
    EXPECT_EQ(got(bob, wire::Which::Latest, 0), readable[readable.size() - 2]);
}

TEST_F(RegistryAccess, JobsOfWhichSomeAreHiddenOrGrantedAreTakenInOrder) {
    const auto alice = open(kAlice);
    const auto bob = open(kBob);
    for (std::uint8_t i = 0; i < 12; ++i) {
        publish_with(alice, 1, i, "q", [&](wire::Publish& publish) {
            publish.once = true;
            publish.access = wire::Access{kAlice, i % 3 == 1 ? 0606U : 0600U};
        });
    }
    std::uint64_t lease = 0;
    const auto taken = [&](SessionNumber who) -> int {
        wire::Attach attach{++lease, "q"};
        attach.take = true;
        registry.attach(who, lease, attach, 0, now, out);
        take();
        const auto* reply = std::get_if<wire::AttachReply>(&last.back().packet.message);
        return reply != nullptr ? reply->capsule.id.bytes[15] : -1;
    };
    EXPECT_EQ(taken(bob), 1);
    EXPECT_EQ(taken(bob), 4);
    EXPECT_EQ(taken(alice), 0);
    EXPECT_EQ(taken(alice), 2);
    EXPECT_EQ(taken(bob), 7);
    release(bob, 1, {2});  // 4 is put back
    EXPECT_EQ(taken(bob), 4);
    EXPECT_EQ(taken(bob), 10);
    EXPECT_EQ(taken(bob), -1);
    EXPECT_EQ(taken(alice), 3);
}

TEST_F(RegistryAccess, PagesOfEachViewerAreExactlyWhatItMayReadInOrder) {
    std::mt19937 random(7);
    const auto below = [&](std::uint32_t limit) {
        return std::uniform_int_distribution<std::uint32_t>(0, limit - 1)(random);
    };
    const std::vector<std::uint32_t> groups = {kVideo, kAudio, 7, 8, 9};
    std::vector<SessionNumber> producers;
    for (const std::uint32_t uid : {kAlice, kBob, kCarol}) {
        producers.push_back(open(uid, groups));
    }
    struct Made {
        std::string name;
        std::uint64_t version;
        std::uint32_t uid;
        wire::Access access;
    };
    std::vector<Made> made;
    for (std::uint64_t i = 0; i < 1500; ++i) {
        const std::uint32_t who = below(3);
        const wire::Access access{groups[below(5)], below(512) & 0666};
        // Nothing replaces anything. Capsules without a name have the same one, and many versions of it.
        const std::string name = below(10) == 0 ? "" : "n/" + std::to_string(i * 7919 % 1500);
        publish_one_of_many(producers[who], i, name, access);
        made.push_back({name, kFirstVersion + i, kAlice + who, access});
    }
    std::sort(made.begin(), made.end(),
              [](const Made& a, const Made& b) { return std::pair(a.name, a.version) < std::pair(b.name, b.version); });

    std::vector<Identity> viewers = {{kAlice, kAlice, 0, false, {}, {}},
                                     {kBob, 9, 0, false, {}, {kVideo, kVideo, kBob}},
                                     {kCarol, kCarol, 0, false, {}, groups},
                                     {2000, 2000, 0, false, {}, {}},
                                     {2001, kAudio, 0, false, {}, {}},
                                     {2002, 2002, 0, false, {}, groups},
                                     {0, 0, 0, true, {}, {}}};
    // One with more groups than there are shelves, and one with groups between and beyond all of them.
    viewers.push_back({2003, 2003, 0, false, {}, {}});
    for (std::uint32_t gid = 0; gid < 5000; gid += 2) {
        viewers.back().groups.push_back(gid);
    }
    viewers.push_back({2004, 1, 0, false, {}, {5, 8, 30, UINT32_MAX - 1}});
    for (Identity& viewer : viewers) {
        const SessionNumber session{next_session++};
        viewer.session = id16(static_cast<std::uint8_t>(session.value));
        ASSERT_TRUE(registry.open_session(session, viewer).has_value());
        viewer.groups.push_back(viewer.gid);
        std::sort(viewer.groups.begin(), viewer.groups.end());
        std::vector<std::pair<std::string, std::uint64_t>> expected;
        for (const Made& capsule : made) {
            if (permits(viewer, capsule.uid, capsule.access, Right::Read)) {
                expected.emplace_back(capsule.name, capsule.version);
            }
        }
        for (const std::uint32_t limit : {0U, 1000U, 17U, 1U}) {
            SCOPED_TRACE(std::to_string(viewer.uid) + " in pages of " + std::to_string(limit));
            std::vector<std::pair<std::string, std::uint64_t>> got;
            for (const wire::Info& info : all_for(session, limit)) {
                got.emplace_back(info.name, info.version);
            }
            EXPECT_EQ(got, expected);
        }
    }
    for (const SessionNumber producer : producers) {
        end(producer);
    }
    EXPECT_EQ(registry.totals().capsules, 0u);
}

// A page looks at a limited number of capsules. Were others' among them, it would end early and tell of them.
TEST_F(RegistryAccess, ListCostsNothingForWhatMayNotBeSeen) {
    const auto alice = open(kAlice, {kVideo, kAudio});
    const wire::Access hidden[] = {{kAudio, 0660}, {kVideo, 0604}, {kVideo, 0600}, {kAudio, 0240}};
    std::uint64_t number = 0;
    for (const wire::Access& access : hidden) {
        for (std::uint64_t i = 0; i < 5000; ++i) {
            ++number;
            publish_one_of_many(alice, number, "a/" + std::to_string(number), access);
        }
    }
    publish_one_of_many(alice, ++number, "b", video(0640));
    wire::ListReply page;
    list(open(kBob, {kVideo}), {}, page);
    ASSERT_EQ(page.capsules.size(), 1u);
    EXPECT_EQ(page.capsules[0].name, "b");
    EXPECT_EQ(page.cursor, "");
}

TEST_F(RegistryAccess, CapsulesThatAUserHasShutItselfOutOfEndAPageEarlyAndNotTheList) {
    const auto alice = open(kAlice, {kVideo});
    for (std::uint64_t number = 1; number <= 5000; ++number) {
        publish_one_of_many(alice, number, "a/" + std::to_string(number), video(0044));
    }
    publish_one_of_many(alice, 5001, "b", video(0640));
    wire::ListReply page;
    list(alice, {}, page);
    EXPECT_TRUE(page.capsules.empty());
    EXPECT_NE(page.cursor, "");
    EXPECT_EQ(names_for(alice), Names{"b"});
}

}  // namespace
}  // namespace hurrayd
