#include <algorithm>
#include <array>
#include <optional>
#include <random>
#include <set>

#include "tests/unit/daemon/registry_fixture.hpp"

// What is kept over the daemon's death, rule by rule. `kept` is what a step wants to have kept before any of its packets is sent.

namespace hurrayd {
namespace {

constexpr std::uint64_t kWindowEnd = 30'000;
using State = wire::Claims::State;

class StoreTest : public RegistryTest {
  protected:
    StoreTest() : StoreTest(Quotas::Limits{}) {}
    explicit StoreTest(Quotas::Limits limits) { begin(limits, {}); }

    /// The registry of a life of the daemon that finds `before`.
    void begin(Quotas::Limits limits, Recovery before, std::optional<std::uint64_t> window_end = kWindowEnd) {
        life.emplace(kFirstVersion, limits, Registry::kDefaultMode, window_end);
        life->recover(std::move(before), now, out);
        (void)look();
    }

    Registry& daemon() { return *life; }

    Words look() {
        daemon().check_consistency();
        Words words;
        for (const Outgoing& outgoing : out.packets) {
            words.push_back(std::to_string(outgoing.to.value) + ":" + text(outgoing.packet));
        }
        kept.clear();
        for (const keep::Step& step : out.kept) {
            kept.push_back(text(step));
        }
        remember();
        dropped.insert(dropped.end(), out.dropped.begin(), out.dropped.end());
        steps = out.kept;
        answering = out.answering;
        out.clear();
        return words;
    }

    SessionNumber come(std::uint32_t uid, std::uint8_t id = 0, bool resumes = false) {
        const SessionNumber number{next_session++};
        const auto session = id != 0 ? id : static_cast<std::uint8_t>(number.value);
        EXPECT_TRUE(daemon().open_session(number, {uid, uid, 1, uid == 0, id16(session), {}, resumes}).has_value());
        return number;
    }
    SessionNumber resume(std::uint32_t uid, std::uint8_t id) { return come(uid, id, true); }
    Words leave(SessionNumber session) {
        daemon().end_session(session, now, out);
        return look();
    }

    template <class More>
    Words say(SessionNumber from, std::uint64_t request, std::uint8_t capsule, const std::string& name, More&& more) {
        Publication p = publication(capsule, name);
        p.request.segments = {{capsule, true, wire::Memory::Reusable, 4096, 0}};
        p.request.placements = {{0, 0}};
        p.brought = {brought(capsule)};
        more(p);
        daemon().publish(from, request, std::move(p), out);
        return look();
    }
    Words plain(SessionNumber from, std::uint64_t request, std::uint8_t capsule, const std::string& name) {
        return say(from, request, capsule, name, [](Publication&) {});
    }
    Words lingering(SessionNumber from, std::uint64_t request, std::uint8_t capsule, const std::string& name,
                    std::uint64_t linger_ms = 0, bool once = false) {
        return say(from, request, capsule, name, [&](Publication& p) {
            p.request.linger_ms = linger_ms;
            p.request.once = once;
        });
    }
    Words offer(SessionNumber from, std::uint64_t request, std::uint8_t capsule, const std::string& name,
                std::uint64_t version, std::optional<std::uint64_t> linger_ms = {}, bool once = false) {
        return say(from, request, capsule, name, [&](Publication& p) {
            p.request.version = version;
            p.request.linger_ms = linger_ms;
            p.request.once = once;
        });
    }
    Words attach_to(SessionNumber from, std::uint64_t request, const wire::Attach& what,
                    std::optional<std::uint64_t> timeout = 0) {
        daemon().attach(from, request, what, timeout, now, out);
        return look();
    }
    Words take_from(SessionNumber from, std::uint64_t request, std::uint64_t lease, const std::string& name,
                    std::optional<std::uint64_t> timeout = 0) {
        wire::Attach what = by_name(lease, name);
        what.take = true;
        return attach_to(from, request, what, timeout);
    }
    Words confirm(SessionNumber from, std::uint64_t request, std::uint64_t lease) {
        daemon().confirm(from, request, {lease}, out);
        return look();
    }
    Words give_back(SessionNumber from, std::uint64_t request, std::uint64_t lease) {
        daemon().release(from, request, {{lease}}, out);
        return look();
    }
    Words withdraw_it(SessionNumber from, std::uint64_t request, std::uint8_t capsule, std::uint32_t uid = kAlice) {
        daemon().withdraw(from, request, {{uid, id16(capsule)}}, out);
        return look();
    }
    Words claim(SessionNumber from, std::uint64_t request, std::uint8_t capsule, std::uint64_t lease, State state) {
        daemon().claim(from, request, {{{{kAlice, id16(capsule)}, lease, state}}}, out);
        return look();
    }
    /// The answer to that capsule's publish was sent.
    Words answered(std::uint8_t capsule, std::uint32_t uid = kAlice) {
        daemon().note_answered({uid, id16(capsule)}, out);
        (void)look();
        return kept;
    }
    Words expire(std::uint64_t at) {
        now = at;
        daemon().expire(now, out);
        Words words = look();
        while (daemon().has_window_rest()) {
            daemon().continue_window_rest(out);
            const Words more = look();
            words.insert(words.end(), more.begin(), more.end());
        }
        return words;
    }
    std::uint64_t stored() { return daemon().totals().stored; }

    /// The daemon dies; the next one finds what was kept up to here.
    void die(Quotas::Limits limits = {}, std::optional<std::uint64_t> window_end = kWindowEnd,
             bool has_journal = true) {
        Recovery before;
        before.has_journal = has_journal;
        for (const keep::Note& note : journal) {
            before.journal.apply(note);
        }
        for (const auto& [id, offer] : capsules) {
            Recovery::Capsule capsule{id.uid, {}};
            capsule.publication.request = offer;
            for (const wire::Segment& segment : offer.segments) {
                ASSERT_TRUE(segments.contains(segment.number));
                inodes[1'000'000 + segment.number] = segments.at(segment.number);
                capsule.publication.brought.push_back({{1'000'000 + segment.number}, {1, segments.at(segment.number)}});
            }
            capsule.group = groups[id];
            before.capsules.push_back(std::move(capsule));
        }
        before.last_segment = {segments.empty() ? 0 : segments.rbegin()->first};
        std::erase_if(segments, [&](const auto& entry) {  // clean_store
            return std::none_of(capsules.begin(), capsules.end(), [&](const auto& capsule) {
                const auto& listed = capsule.second.segments;
                return std::any_of(listed.begin(), listed.end(),
                                   [&](const wire::Segment& segment) { return segment.number == entry.first; });
            });
        });
        next_segment = 1000;
        begin(limits, std::move(before), window_end ? std::optional(now + *window_end) : std::nullopt);
    }
    Words in_store() {
        Words words;
        for (const auto& [id, offer] : capsules) {
            words.push_back("c-" + capsule_text(id));
        }
        for (const auto& [number, inode] : segments) {
            words.push_back("s-" + std::to_string(number));
        }
        return words;
    }

    std::optional<Registry> life;
    std::vector<keep::Note> journal;
    std::map<wire::CapsuleId, wire::Publish> capsules;
    std::map<wire::CapsuleId, std::uint64_t> groups;  // of those
    std::map<std::uint64_t, std::uint64_t> segments;  // number in the store -> inode

  private:
    /// What the service manager would have.
    void remember() {
        bool is_behind_note = false;
        for (const keep::Step& step : out.kept) {
            const bool is_note = std::holds_alternative<keep::Note>(step);
            if (!(is_note && is_behind_note)) {
                if (lives_for == 0) {
                    return;
                }
                --lives_for;
            }
            is_behind_note = is_note;
            if (const auto* note = std::get_if<keep::Note>(&step)) {
                journal.push_back(*note);
            } else if (const auto* segment = std::get_if<keep::StoreSegment>(&step)) {
                segments.emplace(segment->as.value, inode_of(segment->segment));
            } else if (const auto* capsule = std::get_if<keep::StoreCapsule>(&step)) {
                for (const wire::Segment& listed : capsule->offer.segments) {
                    EXPECT_TRUE(segments.contains(listed.number)) << "meta_last";
                }
                capsules[{capsule->uid, capsule->offer.capsule}] = capsule->offer;
                groups[{capsule->uid, capsule->offer.capsule}] = capsule->group;
            } else if (const auto* gone = std::get_if<keep::RemoveCapsule>(&step)) {
                EXPECT_EQ(capsules.erase(gone->capsule), 1U);
            } else {
                EXPECT_EQ(segments.erase(std::get<keep::RemoveSegment>(step).segment.value), 1U);
            }
        }
    }
    std::uint64_t inode_of(SegmentNumber number) { return inodes.at(number.value); }

  protected:
    std::size_t lives_for = SIZE_MAX;  // so many things are still kept, notes in a row as one, then the daemon is dead
    std::map<std::uint64_t, std::uint64_t> inodes;  // of what was brought
    BroughtSegment brought(std::uint64_t inode) {
        inodes[next_segment] = inode;
        return RegistryTest::brought(inode);
    }
};

TEST_F(StoreTest, WhatLingersIsStoredBeforeItsPublishIsAnswered) {  // journal_first, store_then_reply, meta_last
    const auto p = come(kAlice);
    EXPECT_EQ(lingering(p, 1, 1, "a"), Words{"1:PublishReply=1000#1"});
    EXPECT_EQ(kept, (Words{"store s-1", "store c-1", "name a=1000 floor 1000"}));
    EXPECT_EQ(stored(), 2U);
    ASSERT_EQ(answering.size(), 1U);
    EXPECT_EQ(answering[0].publisher, p);
    EXPECT_EQ(answered(1), Words{"answered 1"});
    EXPECT_EQ(answered(1), Words{});
    EXPECT_EQ(leave(p), Words{});
    EXPECT_EQ(kept, Words{});
}

TEST_F(StoreTest, OfWhatDoesNotLingerTheVersionIsNoted) {  // journal_first
    const auto p = come(kAlice);
    plain(p, 1, 1, "a");
    EXPECT_EQ(kept, Words{"name a=1000 floor 1000"});
    plain(p, 2, 2, "");
    EXPECT_EQ(kept, Words{"name =1001"});
    plain(p, 3, 3, "a");
    EXPECT_EQ(kept, Words{"name a=1002 floor 1002"});
    say(p, 4, 4, "b", [](Publication& each) { each.request.retain = 2; });
    EXPECT_EQ(kept, Words{"name b=1003"});  // there is room for an older one
    say(p, 5, 5, "b", [](Publication& each) { each.request.retain = 2; });
    EXPECT_EQ(kept, Words{"name b=1004 floor 1003"});
    say(p, 6, 6, "q", [](Publication& each) { each.request.once = true; });
    EXPECT_EQ(kept, Words{"name q=1005"});
    leave(p);
    EXPECT_EQ(kept, (Words{"name  ended", "name a ended", "name b ended", "name q ended"}));
    EXPECT_EQ(stored(), 0U);
}

TEST_F(StoreTest, ReplacingStoresTheNewBeforeTheOldIsRemoved) {  // new_before_old
    const auto p = come(kAlice);
    lingering(p, 1, 1, "a");
    answered(1);
    EXPECT_EQ(lingering(p, 2, 2, "a"), (Words{"1:Retired(1)", "1:Ended(1 reusable)", "1:PublishReply=1001#2"}));
    EXPECT_EQ(kept, (Words{"store s-2", "store c-2", "gone 1", "remove c-1", "remove s-1", "name a=1001 floor 1001"}));
    EXPECT_EQ(in_store(), (Words{"c-2", "s-2"}));
}

TEST_F(StoreTest, WithdrawingRemovesMetadataFirstAndBeforeTheAnswer) {  // remove_then_reply
    const auto p = come(kAlice);
    lingering(p, 1, 1, "a");
    answered(1);
    leave(p);
    const auto c = come(kAlice);
    attach_to(c, 2, by_name(1, "a"));
    EXPECT_EQ(withdraw_it(c, 3, 1), Words{"2:Done#3"});
    EXPECT_EQ(kept, (Words{"gone 1", "remove c-1", "remove s-1"}));  // also while it is held
    EXPECT_EQ(stored(), 0U);
    give_back(c, 4, 1);
    EXPECT_EQ(kept, Words{"name a ended"});
}

TEST_F(StoreTest, ASegmentThatTwoShareIsStoredOnceAndRemovedWithTheLast) {
    const auto p = come(kAlice);
    lingering(p, 1, 1, "a");
    say(p, 2, 2, "b", [&](Publication& each) {
        each.request.linger_ms = 0;
        each.request.segments[0].number = 1;
        each.request.segments[0].carries_fd = false;
        each.brought = {{}};
    });
    EXPECT_EQ(kept, (Words{"store c-2", "name b=1001 floor 1001"}));
    EXPECT_EQ(stored(), 3U);
    const auto other = come(kAlice);
    say(other, 3, 3, "c", [&](Publication& each) {  // the same file, brought by another session
        each.request.linger_ms = 0;
        each.brought = {brought(1)};
    });
    EXPECT_EQ(kept, (Words{"store c-3", "name c=1002 floor 1002"}));
    withdraw_it(p, 4, 1);
    EXPECT_EQ(kept, (Words{"left 1=1000", "remove c-1", "name a ended"}));
    withdraw_it(p, 5, 2);
    withdraw_it(p, 6, 3);
    EXPECT_EQ(kept, (Words{"left 3=1002", "remove c-3", "remove s-1", "name c ended"}));
    EXPECT_EQ(stored(), 0U);
}

TEST_F(StoreTest, MembersOfAGroupAreStoredWhenItIsCommitted) {
    const auto p = come(kAlice);
    daemon().group(p, 1, {1, wire::Group::Action::Begin}, out);
    const auto staged = [&](std::uint64_t request, std::uint8_t capsule, const std::string& name) {
        return say(p, request, capsule, name, [](Publication& each) {
            each.request.linger_ms = 0;
            each.request.group = 1;
        });
    };
    staged(2, 1, "a");
    staged(3, 2, "b");
    EXPECT_EQ(kept, Words{});
    EXPECT_EQ(stored(), 4U);  // their room is kept
    daemon().group(p, 4, {1, wire::Group::Action::Commit}, out);
    look();
    EXPECT_EQ(kept, (Words{"store s-1", "store c-1", "store s-2", "store c-2", "committed 1000",
                           "name a=1000 floor 1000", "answered 1", "name b=1001 floor 1001", "answered 2"}));
    const auto is_noted = [&] {  // in a journal that is begun anew
        std::vector<keep::Note> notes;
        daemon().write_notes(notes);
        return std::count(notes.begin(), notes.end(), keep::Note(keep::Committed{1000}));
    };
    EXPECT_EQ(is_noted(), 1);
    die();
    EXPECT_EQ(is_noted(), 1);
    const auto q = come(kAlice);
    withdraw_it(q, 5, 1);
    EXPECT_EQ(is_noted(), 1);
    withdraw_it(q, 6, 2);
    EXPECT_EQ(is_noted(), 0);
}

TEST_F(StoreTest, MembersOfAGroupThatIsGivenUpAreNotStored) {
    const auto p = come(kAlice);
    daemon().group(p, 5, {2, wire::Group::Action::Begin}, out);
    say(p, 6, 3, "c", [](Publication& each) {
        each.request.linger_ms = 0;
        each.request.group = 2;
    });
    EXPECT_EQ(stored(), 2U);
    daemon().group(p, 7, {2, wire::Group::Action::Abort}, out);
    look();
    EXPECT_EQ(kept, Words{});
    EXPECT_EQ(stored(), 0U);
}

TEST_F(StoreTest, WhereTheJournalIsLostWhatIsThereOfAGroupCounts) {
    const auto p = come(kAlice);
    daemon().group(p, 1, {1, wire::Group::Action::Begin}, out);
    say(p, 2, 1, "a", [](Publication& each) {
        each.request.linger_ms = 0;
        each.request.group = 1;
    });
    daemon().group(p, 3, {1, wire::Group::Action::Commit}, out);
    look();
    journal.clear();
    die({}, kWindowEnd, false);
    EXPECT_EQ(in_store(), (Words{"c-1", "s-1"}));
    const auto c = come(kAlice);
    EXPECT_EQ(attach_to(c, 4, by_name(1, "a")), Words{"2:AttachReply(1)#4"});
    std::vector<keep::Note> notes;
    daemon().write_notes(notes);
    EXPECT_EQ(std::count(notes.begin(), notes.end(), keep::Note(keep::Committed{1000})), 1)
        << "and from now on it is known";
}

/// A model is replaced, and the daemon dies after each thing that it keeps over that, and once more at the start that follows.
TEST_F(StoreTest, AGroupIsThereAsAWholeOrNotAtAllWheneverTheDaemonDies) {  // all_of_a_group
    constexpr std::array<const char*, 3> kNames = {"a", "b", "c"};
    const auto commit = [&](SessionNumber from, std::uint8_t first) {
        daemon().group(from, 1, {first, wire::Group::Action::Begin}, out);
        for (std::uint8_t i = 0; i < kNames.size(); ++i) {
            say(from, 2, static_cast<std::uint8_t>(first + i), kNames.at(i), [&](Publication& each) {
                each.request.linger_ms = 0;
                each.request.group = first;
            });
        }
        daemon().group(from, 3, {first, wire::Group::Action::Commit}, out);
        return look();
    };
    std::set<std::uint8_t> found;
    bool is_through = false;
    for (std::size_t lived = 0; !is_through; ++lived) {
        for (std::size_t lives_on = 0; lives_on < 7; ++lives_on) {
            SCOPED_TRACE(std::to_string(lived) + ", " + std::to_string(lives_on));
            journal.clear();
            capsules.clear();
            groups.clear();
            segments.clear();
            lives_for = SIZE_MAX;
            begin({}, {});
            const auto p = come(kAlice);
            commit(p, 10);
            lives_for = lived;
            commit(p, 20);
            is_through = lives_for != 0;
            lives_for = lives_on;
            die();
            lives_for = SIZE_MAX;
            die();
            EXPECT_EQ(in_store().size(), 2 * kNames.size());
            const auto consumer = come(kAlice);
            const std::uint8_t first = capsules.begin()->first.id.bytes[15];
            for (std::uint8_t i = 0; i < kNames.size(); ++i) {
                EXPECT_EQ(attach_to(consumer, 4, by_name(i + 1U, kNames.at(i))).back(),
                          std::to_string(consumer.value) + ":AttachReply(" + std::to_string(first + i) + ")#4");
            }
            found.insert(first);
            EXPECT_TRUE(!is_through || first == 20);
        }
    }
    EXPECT_EQ(found, (std::set<std::uint8_t>{10, 20}));
}

TEST_F(StoreTest, ExpiryIsNotedWhenItBeginsAndWhenItIsCalledOff) {
    const auto p = come(kAlice);
    lingering(p, 1, 1, "a", 500);
    answered(1);
    now = 100;
    leave(p);
    EXPECT_EQ(kept, Words{"expires 1 at 600"});
    const auto next = come(kAlice);
    offer(next, 2, 1, "a", 1000, 500);
    EXPECT_EQ(kept, Words{"expires 1 at 0"});
    now = 200;
    leave(next);
    expire(700);
    EXPECT_EQ(kept, (Words{"gone 1", "remove c-1", "remove s-1", "name a ended"}));
    EXPECT_EQ(daemon().totals(), Registry::Totals{});
}

TEST_F(StoreTest, WhatACutOffProducerQueuedIsTakenSinceTheJournalKnows) {  // confirm_needs_producer
    const auto p = come(kAlice, 100);
    lingering(p, 1, 1, "q", 0, true);
    answered(1);
    expire(kWindowEnd);
    daemon().end_session(p, now, out, true);
    look();
    const auto c = come(kAlice, 101);
    take_from(c, 2, 7, "q");
    EXPECT_EQ(confirm(c, 3, 7), Words{"2:Done#3"});
    die();
    const auto next = resume(kAlice, 100);
    EXPECT_EQ(offer(next, 4, 1, "q", 1000, 0, true), (Words{"3:PublishReply=1000#4", "3:Taken(1 lease 7 left 0)"}));
}

TEST_F(StoreTest, ConfirmingATakeIsNotedBeforeItLeavesTheStore) {  // journal_taken
    const auto p = come(kAlice);
    const auto c = come(kAlice);
    lingering(p, 1, 1, "q", 0, true);
    answered(1);
    leave(p);
    expire(kWindowEnd);
    EXPECT_EQ(take_from(c, 2, 7, "q"), Words{"2:AttachReply(1)#2"});
    EXPECT_EQ(confirm(c, 3, 7), Words{"2:Done#3"});
    EXPECT_EQ(kept, (Words{"taken 1 by 7", "gone 1", "remove c-1", "remove s-1"}));
    give_back(c, 4, 7);  // its producer may still ask
    EXPECT_EQ(kept, Words{"name q ended"});
}

class SmallStoreTest : public StoreTest {
  protected:
    SmallStoreTest() : StoreTest({.stored = 3, .all_stored = 5}) {}
};

TEST_F(SmallStoreTest, OverTheLimitLingerIsRefusedAndNamesIt) {
    const auto p = come(kAlice);
    lingering(p, 1, 1, "a");
    EXPECT_EQ(lingering(p, 2, 2, "b"), Words{"1:" + error(Errc::OverQuota) + "#2"});
    EXPECT_EQ(kept, Words{});
    EXPECT_EQ(plain(p, 3, 3, "c"), Words{"1:PublishReply=1001#3"});
    const auto other = come(kBob);
    EXPECT_EQ(lingering(other, 4, 4, "d"), Words{"2:PublishReply=1002#4"});
    const auto third = come(1003);
    daemon().publish(
        third, 5,
        [&] {
            Publication each = publication(5, "e");
            each.request.linger_ms = 0;
            each.request.segments = {{5, true, wire::Memory::Reusable, 4096, 0}};
            each.request.placements = {{0, 0}};
            each.brought = {brought(5)};
            return each;
        }(),
        out);
    const auto refused = std::get<hurray::Error>(out.packets.at(0).packet.message);
    EXPECT_EQ(refused.code, Errc::OverQuota);
    EXPECT_EQ(refused.field, "publish.linger_ms");
    EXPECT_EQ(refused.limit_name, "store.max");
    EXPECT_EQ(refused.limit, 5U);
    EXPECT_EQ(refused.in_use, 4U);
    EXPECT_EQ(refused.value, 2U);
    look();
    // One without memory of its own needs one place.
    EXPECT_EQ(say(p, 6, 6, "f",
                  [&](Publication& each) {
                      each.request.linger_ms = 0;
                      each.request.segments = {};
                      each.request.placements = {};
                      each.brought = {};
                  }),
              Words{"1:PublishReply=1003#6"});
}

// ---- The next life --------------------------------------------------------------------------------------------------

TEST_F(StoreTest, WhatLingeredIsThereAgain) {  // exists_iff_all
    const auto p = come(kAlice);
    lingering(p, 1, 1, "a");
    answered(1);
    die();
    const auto c = come(kAlice);
    EXPECT_EQ(attach_to(c, 2, by_name(1, "a")), Words{"2:AttachReply(1)#2"});
    EXPECT_EQ(daemon().totals().bytes, 4096U);
    EXPECT_EQ(stored(), 2U);
    EXPECT_EQ(plain(c, 3, 2, "a"), Words{"2:PublishReply=1001#3"});  // above what the journal knows
    EXPECT_EQ(in_store(), Words{});
}

TEST_F(StoreTest, ItsStoredNumbersAreNotGivenAgain) {
    const auto p = come(kAlice);
    lingering(p, 1, 1, "a");
    lingering(p, 2, 2, "b");
    die();
    const auto next = come(kAlice);
    lingering(next, 3, 3, "c");
    EXPECT_EQ(kept, (Words{"store s-3", "store c-3", "name c=1002 floor 1002"}));
}

TEST_F(StoreTest, VersionsGoOnAboveTheJournalsEvenIfTheClockWentBack) {  // journal_first
    const auto p = come(kAlice);
    for (std::uint64_t i = 0; i < 5; ++i) {
        plain(p, i + 1, static_cast<std::uint8_t>(i + 1), "");
    }
    die();
    const auto next = come(kAlice);
    EXPECT_EQ(plain(next, 1, 9, "a"), Words{"2:PublishReply=1005#1"});
}

TEST_F(StoreTest, WhatTheJournalsLivesHaveNotGivenOutIsNotOffered) {  // journal_first
    const auto p = come(kAlice, 100);
    plain(p, 1, 1, "a");
    plain(p, 2, 2, "b");
    die();
    const auto next = resume(kAlice, 100);
    EXPECT_EQ(offer(next, 3, 2, "b", 1002), Words{"2:" + error(Errc::InvalidArgument) + "#3"});
    EXPECT_EQ(offer(next, 4, 2, "b", 1001), Words{"2:PublishReply=1001#4"});
    EXPECT_EQ(plain(next, 5, 3, "c"), Words{"2:PublishReply=1002#5"});
}

TEST_F(StoreTest, OfTwoThatDisplaceEachOtherTheOlderIsRemoved) {  // new_before_old, killed in between
    const auto p = come(kAlice);
    lingering(p, 1, 1, "a");
    answered(1);
    const auto before = capsules;
    lingering(p, 2, 2, "a");
    capsules.insert(before.begin(), before.end());
    segments.emplace(1, 1);
    die();
    EXPECT_EQ(in_store(), (Words{"c-2", "s-2"}));
    const auto c = come(kAlice);
    EXPECT_EQ(attach_to(c, 2, by_name(1, "a")), Words{"2:AttachReply(2)#2"});
    expire(kWindowEnd);
    EXPECT_EQ(daemon().totals().capsules, 1U);
}

TEST_F(StoreTest, WhatContradictsAnotherOneIsRemoved) {  // clean_store
    const auto p = come(kAlice);
    lingering(p, 1, 1, "a");
    wire::Publish other = capsules.begin()->second;  // the same version of the same name
    other.capsule = id16(2);
    other.segments[0].number = 9;
    capsules[{kAlice, id16(2)}] = other;
    segments.emplace(9, 99);
    die();
    EXPECT_EQ(in_store(), (Words{"c-1", "s-1"}));
    EXPECT_EQ(daemon().totals().descriptors, 1U);
    EXPECT_EQ(dropped, std::vector<SegmentNumber>{{1'000'009}});
}

TEST_F(StoreTest, ExpiryGoesOnOverTheDeath) {
    const auto p = come(kAlice);
    lingering(p, 1, 1, "a", 500);
    lingering(p, 2, 2, "b", 500);
    answered(1);
    answered(2);
    now = 100;
    leave(p);
    now = 300;
    die();
    EXPECT_EQ(daemon().next_deadline_ms(), 600U);
    expire(600);
    EXPECT_EQ(in_store(), Words{});
}

TEST_F(StoreTest, ExpiryGoesOnOverSeveralDeaths) {
    // The second life knew the time, and told its journal another one: its own start and all of the time once more. Whoever restarts often
    // kept what lingers for ever.
    const auto p = come(kAlice);
    lingering(p, 1, 1, "a", 500);
    answered(1);
    now = 100;
    leave(p);
    for (now = 200; now < 600; now += 100) {
        die();
        EXPECT_EQ(daemon().next_deadline_ms(), 600U);
    }
    expire(600);
    EXPECT_EQ(in_store(), Words{});
}

TEST_F(StoreTest, ItsTimeBeginsWithTheDaemonsDeathIfItsProducerWasThere) {
    const auto p = come(kAlice);
    lingering(p, 1, 1, "a", 500);
    now = 1000;
    die();
    EXPECT_EQ(kept, (Words{"name a=1000 floor 1000", "expires 1 at 1500"}));
    EXPECT_EQ(daemon().next_deadline_ms(), 1500U);
}

TEST_F(StoreTest, ItsProducerAdoptsItInTheWindowAndIsToldOfItsLeasesAtTheEnd) {  // adopt_lingering, list_is_all_open
    const auto p = come(kAlice, 100);
    lingering(p, 1, 1, "a");
    answered(1);
    die();
    const auto c = resume(kAlice, 101);
    EXPECT_EQ(claim(c, 2, 1, 7, State::Held), Words{"2:Done#2"});
    EXPECT_EQ(claim(c, 3, 1, 6, State::Released), Words{});  // kept like a claim
    const auto next = resume(kAlice, 100);
    EXPECT_EQ(offer(next, 4, 1, "a", 1000, 0),
              (Words{"3:PublishReply=1000#4", "3:Released(1 lease 6 left 1)", "2:Done#3"}));
    EXPECT_EQ(expire(kWindowEnd), Words{"3:WindowClosed(1 7)"});
    EXPECT_EQ(in_store(), (Words{"c-1", "s-1"}));
}

TEST_F(StoreTest, AReleaseInTheWindowWaitsForTheProducer) {  // release_kept
    const auto p = come(kAlice, 100);
    lingering(p, 1, 1, "a");
    answered(1);
    die();
    const auto c = resume(kAlice, 101);
    for (const std::uint64_t lease : {5, 6, 7, 8}) {
        EXPECT_EQ(claim(c, lease, 1, lease, State::Held), Words{"2:Done#" + std::to_string(lease)});
    }
    EXPECT_EQ(give_back(c, 10, 5), Words{});
    EXPECT_EQ(claim(c, 11, 1, 6, State::Released), Words{});
    EXPECT_EQ(daemon().totals().claims, 2U);
    const auto next = resume(kAlice, 100);
    EXPECT_EQ(offer(next, 12, 1, "a", 1000, 0), (Words{"3:PublishReply=1000#12", "3:Released(1 lease 5 left 2)",
                                                       "2:Done#10", "3:Released(1 lease 6 left 2)", "2:Done#11"}));
    EXPECT_EQ(give_back(c, 13, 7), (Words{"3:Released(1 lease 7 left 1)", "2:Done#13"}));
    EXPECT_EQ(expire(kWindowEnd), Words{"3:WindowClosed(1 8)"});
    leave(c);
    EXPECT_EQ(daemon().history().leases_released, 3U);
    EXPECT_EQ(daemon().history().leases_lost, 1U);
}

TEST_F(StoreTest, AReleaseInTheWindowIsAnsweredAtItsEndIfTheProducerIsNotBack) {  // release_kept, ack_at_end
    const auto p = come(kAlice, 100);
    lingering(p, 1, 1, "a");
    answered(1);
    die();
    const auto c = resume(kAlice, 101);
    claim(c, 1, 1, 7, State::Held);
    EXPECT_EQ(give_back(c, 2, 7), Words{});
    EXPECT_EQ(expire(kWindowEnd), Words{"2:Done#2"});
    const auto next = resume(kAlice, 100);
    EXPECT_EQ(offer(next, 3, 1, "a", 1000, 0), (Words{"3:PublishReply=1000#3", "3:WindowClosed(1)"}));
}

TEST_F(StoreTest, AReleaseInTheWindowOutlivesItsSessionAndALeaseDoesNot) {  // release_kept
    const auto p = come(kAlice, 100);
    lingering(p, 1, 1, "a");
    answered(1);
    die();
    const auto c = resume(kAlice, 101);
    claim(c, 1, 1, 6, State::Held);
    claim(c, 2, 1, 7, State::Held);
    EXPECT_EQ(give_back(c, 3, 6), Words{});
    EXPECT_EQ(leave(c), Words{});
    const auto next = resume(kAlice, 100);
    EXPECT_EQ(offer(next, 4, 1, "a", 1000, 0), (Words{"3:PublishReply=1000#4", "3:Released(1 lease 6 left 0)"}));
    EXPECT_EQ(expire(kWindowEnd), Words{"3:WindowClosed(1)"});  // so 7 is lost
}

TEST_F(StoreTest, AReleaseOfWhatNoProducerWasToldOfIsAnsweredAtOnce) {
    const auto p = come(kAlice, 100);
    lingering(p, 1, 1, "a");
    answered(1);
    die();
    const auto c = come(kAlice, 101);
    attach_to(c, 1, by_name(1, "a"));
    EXPECT_EQ(give_back(c, 2, 1), Words{"2:Done#2"});
    EXPECT_EQ(daemon().totals().claims, 0U);
    // What this life's producer was told of is: that may come back once more.
    const auto next = resume(kAlice, 100);
    offer(next, 3, 1, "a", 1000, 0);
    EXPECT_EQ(attach_to(c, 4, by_name(2, "a")), (Words{"3:Opened(1 lease 2 left 1)", "2:AttachReply(1)#4"}));
    leave(next);
    EXPECT_EQ(give_back(c, 5, 2), Words{});
    const auto again = resume(kAlice, 100);
    EXPECT_EQ(offer(again, 6, 1, "a", 1000, 0),
              (Words{"4:PublishReply=1000#6", "4:Released(1 lease 2 left 0)", "2:Done#5"}));
}

TEST_F(StoreTest, AReleaseInTheWindowOfWhatExpiresOrIsWithdrawnMeanwhileIsPassedOnToo) {  // release_kept, retired_stays
    const auto p = come(kAlice, 100);
    lingering(p, 1, 1, "a", 500);
    lingering(p, 2, 2, "b");
    answered(1);
    answered(2);
    die();
    const auto c = resume(kAlice, 101);
    claim(c, 1, 1, 6, State::Held);
    claim(c, 2, 2, 7, State::Held);
    EXPECT_EQ(give_back(c, 3, 6), Words{});
    EXPECT_EQ(expire(now + 500), Words{});
    EXPECT_EQ(withdraw_it(c, 4, 2), Words{"2:Done#4"});
    EXPECT_EQ(give_back(c, 5, 7), Words{});
    const auto next = resume(kAlice, 100);
    EXPECT_EQ(offer(next, 6, 1, "a", 1000, 500),
              (Words{"3:PublishReply=1000#6", "3:Retired(1)", "3:Released(1 lease 6 left 0)", "2:Done#3"}));
    EXPECT_EQ(offer(next, 7, 2, "b", 1001, 0),
              (Words{"3:PublishReply=1001#7", "3:Retired(2)", "3:Released(2 lease 7 left 0)", "2:Done#5"}));
    EXPECT_EQ(expire(kWindowEnd),
              (Words{"3:WindowClosed(1)", "3:Ended(1 reusable)", "3:WindowClosed(2)", "3:Ended(2 reusable)"}));
}

TEST_F(StoreTest, ItsProducerAdoptsItAfterTheWindowToo) {  // adopt_lingering
    const auto p = come(kAlice, 100);
    lingering(p, 1, 1, "a");
    answered(1);
    plain(p, 2, 2, "b");
    die();
    expire(kWindowEnd);
    const auto c = come(kAlice);
    attach_to(c, 3, by_name(1, "a"));
    const auto next = resume(kAlice, 100);
    EXPECT_EQ(offer(next, 4, 1, "a", 1000, 0), (Words{"3:PublishReply=1000#4", "3:WindowClosed(1 1)"}));
    EXPECT_EQ(offer(next, 5, 2, "b", 1001), Words{"3:" + error(Errc::Closed) + "#5"});
}

TEST_F(StoreTest, OfferedThoughTheStoreHasItNoMoreItIsRetired) {  // store_decides
    const auto p = come(kAlice, 100);
    lingering(p, 1, 1, "a");
    answered(1);
    const auto other = come(kAlice);
    withdraw_it(other, 2, 1);
    die();
    const auto next = resume(kAlice, 100);
    EXPECT_EQ(offer(next, 3, 1, "a", 1000, 0), Words{"3:PublishReply=1000#3"});
    EXPECT_EQ(attach_to(next, 4, by_name(1, "a")), Words{"3:" + error(Errc::NotFound) + "#4"});
    EXPECT_EQ(in_store(), Words{});
    EXPECT_EQ(expire(kWindowEnd), (Words{"3:WindowClosed(1)", "3:Ended(1 reusable)"}));
}

TEST_F(StoreTest, WithoutAJournalOfBeforeAnOfferBringsItIntoTheStoreAgain) {
    const auto next = resume(kAlice, 100);
    EXPECT_EQ(offer(next, 1, 1, "a", 500, 0), Words{"1:PublishReply=500#1"});
    EXPECT_EQ(kept, (Words{"store s-1", "store c-1", "name a=500 floor 500", "answered 1"}));
}

TEST_F(StoreTest, BelowTheJournalsVersionAnOfferIsRetired) {  // below_known_retired
    const auto p = come(kAlice, 100);
    plain(p, 1, 1, "a");
    const auto q = come(kAlice, 101);
    plain(q, 2, 2, "a");
    die();
    const auto next = resume(kAlice, 100);
    EXPECT_EQ(offer(next, 3, 1, "a", 1000), Words{"3:PublishReply=1000#3"});
    EXPECT_EQ(attach_to(next, 4, by_name(1, "a")), Words{"3:" + error(Errc::NotFound) + "#4"});
    const auto second = resume(kAlice, 101);
    EXPECT_EQ(offer(second, 5, 2, "a", 1001), Words{"4:PublishReply=1001#5"});
    EXPECT_EQ(attach_to(next, 6, by_name(2, "a")), (Words{"4:Opened(2 lease 2 left 1)", "3:AttachReply(2)#6"}));
}

TEST_F(StoreTest, RetainedVersionsMayComeBackInAnyOrder) {  // below_known_retired, less retain
    const auto p = come(kAlice, 100);
    for (std::uint8_t i = 1; i <= 3; ++i) {
        say(p, i, i, "a", [](Publication& each) { each.request.retain = 2; });
    }
    die();
    const auto next = resume(kAlice, 100);
    const auto again = [&](std::uint8_t capsule, std::uint64_t version) {
        return say(next, capsule, capsule, "a", [&](Publication& each) {
            each.request.retain = 2;
            each.request.version = version;
        });
    };
    again(2, 1001);
    again(1, 1000);
    EXPECT_EQ(attach_to(next, 7, {1, "a", wire::Which::Exactly, 1001}).size(), 2U);
    daemon().attach(next, 8, {2, "a", wire::Which::Exactly, 1000}, 0, now, out);
    EXPECT_EQ(look(), Words{"2:" + error(Errc::NotFound) + "#8"});
}

TEST_F(StoreTest, AForeignPublishUnderANameOfBeforeWaitsForTheWindowsEnd) {  // foreign_waits
    const auto p = come(kAlice, 100);
    plain(p, 1, 1, "a");
    plain(p, 2, 2, "b");
    die();
    const auto stranger = come(kBob);
    EXPECT_EQ(plain(stranger, 3, 3, "a"), Words{});
    EXPECT_EQ(plain(stranger, 4, 4, "b"), Words{});
    EXPECT_EQ(plain(stranger, 5, 5, "c"), Words{"2:PublishReply=1002#5"});
    EXPECT_EQ(offer(stranger, 6, 6, "a", 900), Words{"2:" + error(Errc::AlreadyExists) + "#6"});
    EXPECT_EQ(daemon().totals().waiting, 2U);
    const auto next = resume(kAlice, 100);
    EXPECT_EQ(offer(next, 7, 1, "a", 1000), Words{"3:PublishReply=1000#7"});
    EXPECT_EQ(expire(kWindowEnd),
              (Words{"3:WindowClosed(1)", "2:" + error(Errc::AlreadyExists) + "#3", "2:PublishReply=1003#4"}));
    EXPECT_EQ(daemon().totals().waiting, 0U);
}

TEST_F(StoreTest, APublishThatWaitsForTheWindowsEndCanBeStopped) {  // foreign_waits
    const auto p = come(kAlice, 100);
    plain(p, 1, 1, "a");
    die();
    const auto stranger = come(kBob);
    const auto other = come(kBob);
    lingering(stranger, 3, 3, "a");
    lingering(stranger, 4, 4, "a");
    lingering(stranger, 5, 5, "a");
    plain(other, 3, 6, "a");
    const auto held = daemon().totals();
    EXPECT_EQ(held.waiting, 4U);

    daemon().cancel(stranger, {3}, out);
    EXPECT_EQ(look(), Words{"2:" + error(Errc::Closed) + "#3"});
    EXPECT_EQ(dropped.size(), 1U) << "what came with it is let go";
    daemon().withdraw(stranger, 7, {{kBob, id16(4)}}, out);
    EXPECT_EQ(look(), (Words{"2:" + error(Errc::Closed) + "#4", "2:Done#7"}));
    EXPECT_EQ(dropped.size(), 2U);
    EXPECT_EQ(daemon().totals().waiting, 2U);
    EXPECT_EQ(daemon().totals().descriptors, held.descriptors - 2);
    for (const auto capsule : std::to_array<std::uint8_t>({3, 4, 6})) {  // stopped, stopped, and another connection's
        daemon().withdraw(stranger, 8, {{kBob, id16(capsule)}}, out);
        EXPECT_EQ(look(), Words{"2:" + error(Errc::NotFound) + "#8"});
    }

    EXPECT_EQ(expire(kWindowEnd),
              (Words{"2:PublishReply=1001#5", "2:Retired(5)", "2:Ended(5 reusable)", "3:PublishReply=1002#3"}));
    EXPECT_EQ(daemon().totals().waiting, 0U);
}

TEST_F(StoreTest, TheOwnerNeedNotWait) {  // foreign_waits
    const auto p = come(kAlice, 100);
    plain(p, 1, 1, "a");
    die();
    const auto next = come(kAlice);
    EXPECT_EQ(plain(next, 2, 2, "a"), Words{"2:PublishReply=1001#2"});
    const auto root = come(0);
    EXPECT_EQ(plain(root, 3, 3, "a").back(), "3:PublishReply=1002#3");
    const auto stranger = come(kBob);
    EXPECT_EQ(plain(stranger, 4, 4, "a"),
              Words{"4:" + error(Errc::AlreadyExists) + "#4"});  // it is back: no need to wait
}

TEST_F(StoreTest, WhoPublishedTheLastVersionBringsItBackThoughTheNameIsAnothersUsers) {
    const auto p = come(kAlice, 100);
    say(p, 1, 1, "a", [](Publication& each) { each.request.access = {kAlice, 0666}; });
    const auto q = come(kBob, 101);
    say(q, 2, 2, "a", [](Publication& each) { each.request.access = {kBob, 0666}; });
    die();
    const auto next = resume(kBob, 101);
    EXPECT_EQ(say(next, 3, 2, "a",
                  [](Publication& each) {
                      each.request.access = {kBob, 0666};
                      each.request.version = 1001;
                  }),
              Words{"3:PublishReply=1001#3"});
    std::vector<keep::Note> notes;
    daemon().write_notes(notes);
    for (const keep::Note& note : notes) {
        if (const auto* name = std::get_if<keep::Name>(&note)) {
            EXPECT_EQ(name->owner, kAlice);
            EXPECT_EQ(name->publisher, kBob);
        }
    }
}

TEST_F(StoreTest, WhoWaitsToPublishAndLeavesIsForgotten) {
    const auto p = come(kAlice, 100);
    plain(p, 1, 1, "a");
    die();
    const auto stranger = come(kBob);
    plain(stranger, 2, 2, "a");
    leave(stranger);
    EXPECT_EQ(dropped, std::vector<SegmentNumber>{{1000}});
    EXPECT_EQ(daemon().totals(), Registry::Totals{});
    EXPECT_EQ(expire(kWindowEnd), Words{});
    EXPECT_EQ(kept, Words{"name a ended"});
}

TEST_F(StoreTest, WhatWaitsToBePublishedCountsAsWhatIsKept) {
    // What it brought was kept until the window's end and counted for nobody: descriptors and memory that no quota knew of.
    const auto p = come(kAlice, 100);
    plain(p, 1, 1, "a");
    Quotas::Limits limits;
    limits.descriptors = 3;
    limits.bytes = 10'000;
    limits.client_waiting = 2;
    die(limits);
    const auto stranger = come(kBob);
    const std::uint64_t before = daemon().totals().kept_bytes;
    EXPECT_EQ(plain(stranger, 2, 2, "a"), Words{});
    EXPECT_EQ(daemon().totals().descriptors, 1U);
    EXPECT_EQ(daemon().totals().bytes, 4096U);
    EXPECT_GT(daemon().totals().kept_bytes, before + 400);
    EXPECT_EQ(plain(stranger, 3, 3, "a"), Words{});
    EXPECT_EQ(plain(stranger, 4, 4, "a"), Words{"2:" + error(Errc::OverQuota) + "#4"});  // quota.client.waiting
    const auto other = come(kBob);
    EXPECT_EQ(plain(other, 5, 5, "a"), Words{"3:" + error(Errc::OverQuota) + "#5"});  // quota.user.bytes
    EXPECT_EQ(leave(stranger), Words{});
    EXPECT_EQ(plain(other, 6, 6, "a"), Words{});
    EXPECT_EQ(expire(now + kWindowEnd), Words{"3:PublishReply=1001#6"});
    EXPECT_EQ(daemon().totals().descriptors, 1U);
    EXPECT_EQ(daemon().totals().bytes, 4096U);
    leave(other);
    EXPECT_EQ(daemon().totals(), Registry::Totals{});
}

TEST_F(StoreTest, StagedPublishesUnderAForeignNameOfBeforeAreRefused) {
    const auto p = come(kAlice, 100);
    plain(p, 1, 1, "a");
    die();
    const auto stranger = come(kBob);
    daemon().group(stranger, 2, {1, wire::Group::Action::Begin}, out);
    look();
    EXPECT_EQ(say(stranger, 3, 2, "a", [](Publication& each) { each.request.group = 1; }),
              Words{"2:" + error(Errc::AlreadyExists) + "#3"});
}

TEST_F(StoreTest, TheWindowEndsOnceEveryNameIsBack) {
    const auto p = come(kAlice, 100);
    plain(p, 1, 1, "a");
    lingering(p, 2, 2, "b");
    answered(2);
    now = 500;
    die();
    EXPECT_EQ(daemon().next_deadline_ms(), 500 + kWindowEnd);
    const auto next = resume(kAlice, 100);
    offer(next, 3, 1, "a", 1000);
    EXPECT_EQ(daemon().next_deadline_ms(), 500 + kWindowEnd);  // that client has more to say
    daemon().resume_done(next, 4, out);
    EXPECT_EQ(look(), Words{"2:Done#4"});
    EXPECT_EQ(daemon().next_deadline_ms(), 500 + Registry::kLeastWindowMs);
    const auto c = resume(kAlice, 101);
    claim(c, 5, 9, 1, State::Held);  // of something that is not back
    daemon().resume_done(c, 6, out);
    look();
    EXPECT_EQ(daemon().next_deadline_ms(), 500 + kWindowEnd);
    leave(c);
    expire(500 + Registry::kLeastWindowMs);
    EXPECT_FALSE(daemon().is_window_open());
}

TEST_F(StoreTest, WithACapsuleThatHasNoNameTheWindowLastsItsTime) {
    const auto p = come(kAlice, 100);
    plain(p, 1, 1, "");
    die();
    const auto next = resume(kAlice, 100);
    offer(next, 2, 1, "", 1000);
    daemon().resume_done(next, 3, out);
    look();
    EXPECT_EQ(daemon().next_deadline_ms(), kWindowEnd);
}

TEST_F(StoreTest, NamesThatDoNotComeBackAreFreeAfterTheWindow) {
    const auto p = come(kAlice, 100);
    plain(p, 1, 1, "a");
    die();
    expire(kWindowEnd);
    EXPECT_EQ(kept, Words{"name a ended"});
    const auto stranger = come(kBob);
    EXPECT_EQ(plain(stranger, 2, 2, "a"), Words{"2:PublishReply=1001#2"});
}

TEST_F(StoreTest, WithoutAWindowNamesAreFreeAtOnce) {
    const auto p = come(kAlice, 100);
    plain(p, 1, 1, "a");
    lingering(p, 2, 2, "b");
    die({}, std::nullopt);
    std::vector<keep::Note> notes;
    daemon().write_notes(notes);
    EXPECT_EQ(notes.size(), 2U);  // the last version, and "b"
    const auto stranger = come(kBob);
    EXPECT_EQ(plain(stranger, 3, 3, "a"), Words{"2:PublishReply=1002#3"});
    EXPECT_EQ(in_store(), (Words{"c-2", "s-1"}));
}

// ---- Unanswered publishes -------------------------------------------------------------------------------------------

TEST_F(StoreTest, AnUnansweredPublishSaidAgainAdoptsWhatTheStoreHas) {
    const auto p = come(kAlice, 100);
    lingering(p, 1, 1, "a");
    die();
    const auto next = resume(kAlice, 100);
    EXPECT_EQ(lingering(next, 2, 1, "a"), Words{"2:PublishReply=1000#2"});
    ASSERT_EQ(answering.size(), 1U);
    EXPECT_EQ(answered(1), Words{"answered 1"});
}

TEST_F(StoreTest, AnUnansweredPublishWhoseCapsuleEndedIsNotNew) {  // unanswered_leaves_id
    const auto p = come(kAlice, 100);
    lingering(p, 1, 1, "a");
    leave(p);
    const auto other = come(kAlice);
    withdraw_it(other, 2, 1);
    EXPECT_EQ(kept, (Words{"left 1=1000", "remove c-1", "remove s-1", "name a ended"}));
    const auto next = come(kAlice, 100);
    EXPECT_EQ(lingering(next, 3, 1, "a"), Words{"3:PublishReply=1000#3"});  // inside the window it comes in retired
    EXPECT_EQ(attach_to(next, 4, by_name(1, "a")), Words{"3:" + error(Errc::NotFound) + "#4"});
    EXPECT_EQ(lingering(next, 5, 1, "a"), Words{"3:PublishReply=1000#5"});
    EXPECT_EQ(answered(1), Words{"answered 1"});
    EXPECT_EQ(expire(kWindowEnd), (Words{"3:WindowClosed(1)", "3:Ended(1 reusable)"}));
}

TEST_F(StoreTest, AfterTheWindowItIsAnsweredAndHasEnded) {  // unanswered_leaves_id
    const auto p = come(kAlice, 100);
    lingering(p, 1, 1, "a");
    leave(p);
    const auto other = come(kAlice);
    withdraw_it(other, 2, 1);
    die();
    expire(kWindowEnd);
    const auto next = come(kAlice, 100);
    EXPECT_EQ(lingering(next, 3, 1, "a"), (Words{"3:PublishReply=1000#3", "3:Ended(1)"}));
    EXPECT_EQ(daemon().totals().descriptors, 0U);
    EXPECT_EQ(answered(1), Words{"answered 1"});
}

// ---- Takes ----------------------------------------------------------------------------------------------------------

class StoredTakeTest : public StoreTest {
  protected:
    /// One job is granted to lease 7 of session 101 and confirmed; then the daemon dies. With `is_answered`: after it left the store.
    void take_and_die(bool is_removed) {
        const auto p = come(kAlice, 100);
        lingering(p, 1, 1, "q", 0, true);
        answered(1);
        expire(kWindowEnd);
        const auto c = come(kAlice, 101);
        take_from(c, 2, 7, "q");
        const auto before_capsules = capsules;
        const auto before_segments = segments;
        confirm(c, 3, 7);
        if (!is_removed) {
            capsules = before_capsules;
            segments = before_segments;
        }
        die();
    }
};

TEST_F(StoredTakeTest, ARepeatedConfirmIsAnsweredFromTheJournal) {  // journal_taken, confirm_repeated
    take_and_die(true);
    const auto stranger = resume(kAlice, 102);
    EXPECT_EQ(claim(stranger, 1, 1, 7, State::Confirmed), Words{});  // nobody else's
    const auto c = resume(kAlice, 101);
    EXPECT_EQ(claim(c, 2, 1, 7, State::Confirmed), Words{"4:Done#2"});
    EXPECT_EQ(claim(c, 3, 1, 7, State::Confirmed), Words{"4:Done#3"});
    // It counts as a held claim: its producer is told.
    const auto next = resume(kAlice, 100);
    EXPECT_EQ(offer(next, 4, 1, "q", 1000, 0, true),
              (Words{"5:PublishReply=1000#4", "5:Taken(1 lease 7 left 0)", "3:ClaimsRefused(7)", "3:Done#1"}));
    EXPECT_EQ(expire(now + kWindowEnd), Words{"5:WindowClosed(1 7)"});
    EXPECT_EQ(give_back(c, 5, 7), (Words{"5:Released(1 lease 7 left 0)", "5:Ended(1 reusable)", "4:Done#5"}));
    EXPECT_EQ(kept, Words{"name q ended"});
}

TEST_F(StoredTakeTest, ANumberUnderWhichSomethingIsAwaitedIsNoClaim) {
    // What the journal knows was claimed under a number that an attach waited with. Both became leases of that one number.
    take_and_die(true);
    const auto c = resume(kAlice, 101);
    EXPECT_EQ(attach_to(c, 1, by_name(7, "b"), std::nullopt), Words{});
    EXPECT_EQ(claim(c, 2, 1, 7, State::Confirmed), (Words{"3:ClaimsRefused(7)", "3:Done#2"}));
    const auto p = resume(kAlice, 100);
    EXPECT_EQ(plain(p, 3, 2, "b"),
              (Words{"4:PublishReply=1001#3", "4:Opened(2 lease 7 left 1)", "3:AttachReply(2)#1"}));
    EXPECT_EQ(offer(p, 4, 1, "q", 1000, 0, true), (Words{"4:PublishReply=1000#4", "4:Taken(1 lease 7 left 0)"}));
    EXPECT_EQ(daemon().totals().leases, 1U);
}

TEST_F(StoredTakeTest, WithoutItsProducerTheTakerLosesItsProducerAtTheEnd) {
    take_and_die(true);
    const auto c = resume(kAlice, 101);
    EXPECT_EQ(claim(c, 1, 1, 7, State::Confirmed), Words{"3:Done#1"});
    EXPECT_EQ(expire(now + kWindowEnd), Words{"3:ProducerLost(1)"});
    EXPECT_EQ(kept, (Words{"name q ended", "taken 1 dropped"}));
}

TEST_F(StoredTakeTest, TheNoteIsDroppedAtTheNextWindowsEnd) {  // late_taker_is_dead
    take_and_die(true);
    expire(now + kWindowEnd);
    EXPECT_EQ(kept, (Words{"name q ended", "taken 1 dropped"}));
    const auto c = resume(kAlice, 101);
    EXPECT_EQ(claim(c, 1, 1, 7, State::Confirmed), (Words{"3:ClaimsRefused(7)", "3:Done#1"}));
}

TEST_F(StoredTakeTest, ConfirmedButStillInTheStoreItIsTakenAndRemoved) {  // journal_taken
    take_and_die(false);
    EXPECT_EQ(in_store(), Words{});
    const auto c = resume(kAlice, 101);
    EXPECT_EQ(take_from(c, 1, 8, "q", std::nullopt), Words{});
    EXPECT_EQ(claim(c, 2, 1, 7, State::Confirmed), Words{"3:Done#2"});
    EXPECT_EQ(daemon().totals().leases, 1U);
    const auto other = resume(kAlice, 102);
    EXPECT_EQ(claim(other, 3, 1, 7, State::Confirmed), (Words{"4:ClaimsRefused(7)", "4:Done#3"}));
}

TEST_F(StoredTakeTest, WhatIsTakenInTheWindowLeavesNoNoteBehind) {
    die();
    const auto p = come(kAlice);
    const auto c = come(kAlice);
    for (std::uint64_t i = 1; i < 4; ++i) {
        lingering(p, i, 1, "q", 0, true);
        answered(1);
        take_from(c, i, i, "q");
        confirm(c, 10, i);
        give_back(c, 11, i);
        EXPECT_EQ(kept, Words{"name q ended"});
    }
    EXPECT_EQ(expire(now + kWindowEnd), Words{});
    EXPECT_EQ(kept, Words{"taken 1 dropped"});
}

TEST_F(StoredTakeTest, WhatIsTakenAndGivenBackInTheWindowIsToldToItsProducer) {  // release_kept
    const auto p = come(kAlice, 100);
    lingering(p, 1, 1, "q", 0, true);
    answered(1);
    expire(kWindowEnd);
    const auto before = come(kAlice, 101);
    take_from(before, 2, 7, "q");
    die();
    const auto c = resume(kAlice, 101);
    EXPECT_EQ(claim(c, 3, 1, 7, State::Confirmed), Words{"3:Done#3"});
    EXPECT_EQ(give_back(c, 4, 7), Words{});
    const auto next = resume(kAlice, 100);
    EXPECT_EQ(offer(next, 5, 1, "q", 1000, 0, true), (Words{"4:PublishReply=1000#5", "4:Taken(1 lease 7 left 0)",
                                                            "4:Released(1 lease 7 left 0)", "3:Done#4"}));
    EXPECT_EQ(expire(now + kWindowEnd), (Words{"4:WindowClosed(1)", "4:Ended(1 reusable)"}));
}

TEST_F(StoredTakeTest, UnconfirmedItIsQueuedAgain) {  // put_back over the death
    const auto p = come(kAlice, 100);
    lingering(p, 1, 1, "q", 0, true);
    answered(1);
    expire(kWindowEnd);
    const auto c = come(kAlice, 101);
    take_from(c, 2, 7, "q");
    die();
    const auto other = come(kAlice);
    EXPECT_EQ(take_from(other, 3, 1, "q", std::nullopt), Words{});  // take_waits: the first may have been told
    EXPECT_EQ(expire(now + kWindowEnd), Words{"3:AttachReply(1)#3"});
}

// ---- Any order ------------------------------------------------------------------------------------------------------

/// Two users do what they like, and the daemon dies between any two things that it keeps. Whatever it then finds fits together: a capsule
/// is whole or not there, the store holds nothing else, no version is given out twice, and what was withdrawn stays away.
// ---- What a second look found

TEST_F(StoreTest, WhatIsRetiredInTheStartTakesNoSegmentFromTheOthersInIt) {
    const auto p = come(kAlice);
    for (std::uint8_t job = 1; job <= 3; ++job) {
        say(p, job, job, "q", [&](Publication& each) {
            each.request.linger_ms = 0;
            each.request.once = true;
            each.request.segments[0].number = 77;
            each.brought = {brought(500)};
        });
        answered(job);
    }
    const auto c = come(kAlice);
    take_from(c, 10, 7, "q");
    lives_for = 1;  // the note that it is taken is the last thing that is kept
    confirm(c, 11, 7);
    lives_for = SIZE_MAX;
    die();
    EXPECT_EQ(in_store(), (Words{"c-2", "c-3", "s-1"}));
    die();
    expire(now + kWindowEnd);
    const auto next = come(kAlice);
    EXPECT_EQ(take_from(next, 1, 1, "q").back(), std::to_string(next.value) + ":AttachReply(2)#1");
    EXPECT_EQ(take_from(next, 2, 2, "q").back(), std::to_string(next.value) + ":AttachReply(3)#2");
}

TEST_F(StoreTest, ItsTimeDoesNotBeginAnewIfItDiesBeforeItIsRemoved) {
    const auto p = come(kAlice);
    lingering(p, 1, 1, "a", 700);
    answered(1);
    leave(p);
    lives_for = 1;  // that it is gone is noted
    expire(701);
    lives_for = SIZE_MAX;
    die({}, std::nullopt);
    EXPECT_EQ(in_store(), Words{});
    EXPECT_EQ(stored(), 0U);
}

TEST_F(StoreTest, MemoryThatComesBackFromTheStoreAndFromItsProducerCountsOnce) {
    const Quotas::Limits limits{.descriptors = 1, .bytes = 6000};
    begin(limits, {});
    const auto p = come(kAlice, 100);
    const auto in_shared = [&](SessionNumber who, std::uint8_t capsule, std::optional<std::uint64_t> linger,
                               std::uint64_t version) {
        return say(who, capsule, capsule, "n" + std::to_string(capsule),
                   [&](Publication& each) {
                       each.request.linger_ms = linger;
                       each.request.version = version;
                       each.request.segments[0].number = 77;
                       each.brought = {brought(500)};
                   })
            .back();
    };
    EXPECT_EQ(in_shared(p, 1, {}, 0), "1:PublishReply=1000#1");
    EXPECT_EQ(in_shared(p, 2, 0, 0), "1:PublishReply=1001#2");
    answered(2);
    die(limits);
    const auto back = resume(kAlice, 100);
    EXPECT_EQ(in_shared(back, 1, {}, 1000), std::to_string(back.value) + ":PublishReply=1000#1");
    EXPECT_EQ(in_shared(back, 2, 0, 1001), std::to_string(back.value) + ":PublishReply=1001#2");
    EXPECT_EQ(daemon().totals().bytes, 4096U);
    EXPECT_EQ(daemon().totals().descriptors, 1U);
    leave(back);
    EXPECT_EQ(daemon().totals().bytes, 4096U);
    expire(now + kWindowEnd);
    const auto other = come(kAlice);
    withdraw_it(other, 1, 2);
    EXPECT_EQ(daemon().totals().bytes, 0U);
}

TEST_F(StoreTest, AdoptionAsksTheQuotasForMemoryThatAnotherSessionHasToo) {
    const Quotas::Limits limits{.descriptors = 2, .bytes = 10'000};
    begin(limits, {});
    const auto in_shared = [&](SessionNumber who, std::uint8_t capsule) {
        return say(who, capsule, capsule, "n" + std::to_string(capsule),
                   [&](Publication& each) {
                       each.request.linger_ms = 0;
                       each.request.segments[0].number = 77;
                       each.brought = {brought(500)};
                   })
            .back();
    };
    const auto p = come(kAlice, 100);
    for (std::uint8_t capsule = 1; capsule <= 4; ++capsule) {
        in_shared(p, capsule);
    }
    leave(p);
    std::vector<std::string> said;
    for (std::uint8_t capsule = 1; capsule <= 4; ++capsule) {
        const std::string last_word = in_shared(come(kAlice), capsule);
        said.push_back(last_word.substr(last_word.find(':') + 1));
    }
    const std::string refused = error(Errc::OverQuota);
    EXPECT_EQ(said, (Words{"WindowClosed(1)", "WindowClosed(2)", refused + "#3", refused + "#4"}));
    EXPECT_EQ(daemon().totals().bytes, 8192U);
    EXPECT_EQ(daemon().totals().descriptors, 2U);
}

TEST_F(StoreTest, TheWindowLastsWhileTheLastVersionOfANameIsNotBack) {
    const auto p = come(kAlice, 100);
    const auto q = come(kAlice, 101);
    lingering(p, 1, 1, "q", 0, true);
    answered(1);
    say(q, 2, 2, "q", [](Publication& each) { each.request.once = true; });
    die();
    expire(now + Registry::kLeastWindowMs);
    EXPECT_TRUE(daemon().is_window_open());
    const auto back = resume(kAlice, 101);
    EXPECT_EQ(offer(back, 3, 2, "q", 1001, {}, true), Words{std::to_string(back.value) + ":PublishReply=1001#3"});
    daemon().resume_done(back, 4, out);
    look();
    expire(now + 1);
    EXPECT_FALSE(daemon().is_window_open());
}

TEST_F(StoreTest, AnIdIsLeftHoweverManyOthersComeAndGo) {  // unanswered_leaves_id
    const auto p = come(kBob, 100);
    lingering(p, 1, 1, "job");
    leave(p);
    withdraw_it(come(kBob, 101), 2, 1, kBob);
    EXPECT_EQ(kept.front(), "left 1=1000");
    const auto alice = come(kAlice);
    auto publish_next = [&, number = std::uint32_t{0}](bool is_answered) mutable {
        Publication each = publication(0, "x");
        ++number;
        for (std::size_t i = 0; i < 4; ++i) {
            each.request.capsule.bytes[12 + i] = static_cast<std::uint8_t>(number >> (8 * i));
        }
        each.request.linger_ms = 0;
        const wire::CapsuleId id{kAlice, each.request.capsule};
        daemon().publish(alice, number, std::move(each), out);
        if (is_answered) {
            daemon().note_answered(id, out);
        }
        out.clear();
    };
    for (int i = 0; i < 70'000; ++i) {
        publish_next(i % 2 == 0);
    }
    look();
    expire(now + kWindowEnd);
    const auto again = come(kBob, 100);
    EXPECT_EQ(lingering(again, 3, 1, "job").front(), std::to_string(again.value) + ":PublishReply=1000#3");
}

TEST_F(StoreTest, WhoPublishedTheLastVersionUnderAnothersNameHasAllOfItsOwnBack) {
    const auto alice = come(kAlice, 100);
    const auto bob = come(kBob, 101);
    const auto say_job = [&](SessionNumber who, std::uint32_t uid, std::uint8_t capsule, std::uint64_t version) {
        return say(who, capsule, capsule, "q",
                   [&](Publication& each) {
                       each.request.access = {{uid, 0666}};
                       each.request.once = true;
                       each.request.version = version;
                   })
            .back();
    };
    say_job(alice, kAlice, 1, 0);
    say_job(bob, kBob, 2, 0);
    say_job(bob, kBob, 3, 0);
    die();
    const auto back = resume(kBob, 101);
    EXPECT_EQ(say_job(back, kBob, 2, 1001), std::to_string(back.value) + ":PublishReply=1001#2");
    EXPECT_EQ(say_job(back, kBob, 3, 1002), std::to_string(back.value) + ":PublishReply=1002#3");
}

TEST_F(StoreTest, OfWhatAGroupReplacesAllIsThereOrNothingWhereverTheDaemonDies) {
    const auto commit = [&](SessionNumber from, std::uint8_t first, bool lingers) {
        daemon().group(from, 1, {first, wire::Group::Action::Begin}, out);
        look();
        for (std::uint8_t i = 0; i < 3; ++i) {
            say(from, 2, static_cast<std::uint8_t>(first + i), std::string("n") + static_cast<char>('0' + i),
                [&](Publication& each) {
                    each.request.linger_ms = lingers ? std::optional<std::uint64_t>(0) : std::nullopt;
                    each.request.group = first;
                });
        }
        daemon().group(from, 3, {first, wire::Group::Action::Commit}, out);
        look();
    };
    for (const bool lingers : {true, false}) {
        bool is_through = false;
        for (std::size_t lived = 0; !is_through; ++lived) {
            journal.clear();
            capsules.clear();
            groups.clear();
            segments.clear();
            lives_for = SIZE_MAX;
            begin({}, {});
            const auto p = come(kAlice);
            commit(p, 10, true);
            lives_for = lived;
            commit(p, 20, lingers);
            is_through = lives_for != 0;
            lives_for = SIZE_MAX;
            die();
            const auto c = come(kAlice);
            std::string found;
            for (std::uint8_t i = 0; i < 3; ++i) {
                const std::string name = std::string("n") + static_cast<char>('0' + i);
                const Words said = attach_to(c, 4, by_name(1U + i, name));
                found += said.back().find("AttachReply(1") != std::string::npos   ? "old "
                         : said.back().find("AttachReply(2") != std::string::npos ? "new "
                                                                                  : "nothing ";
            }
            const bool is_good =
                found == "old old old " || found == (lingers ? "new new new " : "nothing nothing nothing ");
            EXPECT_TRUE(is_good) << found << ", killed after " << lived;
            EXPECT_TRUE(!is_through || found.substr(0, 3) != "old") << found;
        }
    }
}

/// A life that no journal came before, whose producer is cut off and comes back to it.
class SameLifeTest : public StoreTest {
  protected:
    SameLifeTest() { begin_without_journal(); }
    void begin_without_journal() {
        life.emplace(kFirstVersion, Quotas::Limits{}, Registry::kDefaultMode, kWindowEnd);
        life->recover({}, now, out);
        (void)look();
    }
    void cut_off(SessionNumber session) {
        daemon().end_session(session, now, out, true);
        (void)look();
    }
    SessionNumber come_back(std::uint8_t id) {
        const SessionNumber number{next_session++};
        Identity identity{kAlice, kAlice, 1, false, id16(id), {}};
        identity.was_cut_off = true;
        EXPECT_TRUE(daemon().open_session(number, identity).has_value());
        return number;
    }
};

TEST_F(SameLifeTest, AJobThatWasDoneMeanwhileIsNotHadTwiceAndItsProducerHearsOfIt) {
    for (const bool is_window_over : {false, true}) {
        begin_without_journal();
        const auto p = come(kAlice, 100);
        lingering(p, 1, 1, "q", 0, true);
        answered(1);
        cut_off(p);
        if (is_window_over) {
            expire(now + kWindowEnd);
        }
        const auto c = come(kAlice);
        take_from(c, 2, 7, "q");
        const Words confirmed = confirm(c, 3, 7);
        if (!is_window_over) {  // takes wait in it
            EXPECT_NE(confirmed.back().find("Done"), std::string::npos) << confirmed.back();
        }
        give_back(c, 4, 7);
        EXPECT_EQ(daemon().totals().capsules, 0U);
        const auto back = come_back(100);
        const std::string who = std::to_string(back.value) + ":";
        const Words told = offer(back, 5, 1, "q", 1000, 0, true);
        ASSERT_GE(told.size(), 2U);
        EXPECT_EQ(told[0], who + "PublishReply=1000#5");
        EXPECT_EQ(told[1], who + "Taken(1 lease 7 left 0)");
        EXPECT_EQ(daemon().totals().queued, 0U);
        EXPECT_EQ(take_from(c, 6, 8, "q").size(), 1U);
        if (is_window_over) {
            EXPECT_EQ(told.back(), who + "Ended(1)");
        }
    }
}

TEST_F(SameLifeTest, WhatWasWithdrawnOrExpiredMeanwhileComesBackRetired) {
    const auto p = come(kAlice, 100);
    lingering(p, 1, 1, "a");
    lingering(p, 2, 2, "b", 500);
    lingering(p, 3, 3, "");
    cut_off(p);
    withdraw_it(come(kAlice), 1, 1);
    withdraw_it(come(kAlice), 2, 3);
    expire(600);
    EXPECT_EQ(daemon().totals().capsules, 0U);
    const auto back = come_back(100);
    offer(back, 1, 1, "a", 1000, 0);
    offer(back, 2, 2, "b", 1001, 500);
    offer(back, 3, 3, "", 1002, 0);
    const auto c = come(kAlice);
    EXPECT_EQ(attach_to(c, 1, by_name(1, "a")), Words{std::to_string(c.value) + ":" + error(Errc::NotFound) + "#1"});
    EXPECT_EQ(attach_to(c, 2, by_name(2, "b")), Words{std::to_string(c.value) + ":" + error(Errc::NotFound) + "#2"});
    EXPECT_EQ(attach_to(c, 3, by_id(3, kAlice, 3)),
              Words{std::to_string(c.value) + ":" + error(Errc::NotFound) + "#3"});
}

class WheneverItDies : public StoreTest, public testing::WithParamInterface<unsigned> {};

INSTANTIATE_TEST_SUITE_P(OfSeeds, WheneverItDies, testing::Values(20261130U, 2U, 26U, 37U));

TEST_P(WheneverItDies, TheNextLifeFindsWhatFitsTogether) {
    std::mt19937 random(GetParam());
    const auto below = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); };
    constexpr std::array<const char*, 4> kNames = {"a", "b", "q", ""};
    std::set<wire::CapsuleId> withdrawn;  // and answered
    std::vector<wire::CapsuleId> published;
    std::uint64_t highest = 0;  // version that anybody was told of
    std::uint64_t request = 0;
    std::size_t deaths = 0;
    for (int life = 0; life < 150; ++life) {
        std::vector<SessionNumber> sessions;
        std::vector<std::uint32_t> users;
        lives_for = 1 + below(40);
        for (int step = 0; step < 60 && lives_for != 0; ++step) {
            if (sessions.size() < 3) {
                users.push_back(below(3) == 0 ? kBob : kAlice);
                sessions.push_back(come(users.back()));
                continue;
            }
            const std::size_t which = below(3);
            const SessionNumber who = sessions[which];
            const bool is_queue = below(3) == 0;
            const std::string name = is_queue ? "q" : kNames.at(below(2) == 0 ? below(2) : 3);
            Words said;
            ++request;
            switch (below(9)) {
                case 0:
                case 1:
                case 2:
                    said = say(who, request, static_cast<std::uint8_t>(request), name, [&](Publication& each) {
                        each.request.capsule.bytes[14] = static_cast<std::uint8_t>(request >> 8U);
                        each.request.capsule.bytes[13] = static_cast<std::uint8_t>(request >> 16U);
                        published.push_back({users[which], each.request.capsule});
                        each.brought = {brought(1000 + request)};
                        each.request.linger_ms = below(4) == 0 ? std::nullopt : std::optional(below(2) * 300ULL);
                        each.request.once = is_queue;
                        each.request.retain = is_queue ? 1 : 1 + below(2);
                        if (below(3) == 0) {  // of a file that others of that user lie in too
                            each.brought = {brought(users[which])};
                            each.request.segments[0].number = 999'999;
                        } else {
                            each.request.segments[0].number = request;
                        }
                    });
                    break;
                case 3: {
                    if (published.empty()) {
                        break;
                    }
                    const wire::CapsuleId victim =
                        published[published.size() - 1 -
                                  below(static_cast<std::uint32_t>(std::min<std::size_t>(8, published.size())))];
                    daemon().withdraw(who, request, {victim}, out);
                    said = look();
                    if (lives_for != 0 && !said.empty() && said.back().find("Done") != std::string::npos) {
                        withdrawn.insert(victim);
                    }
                    break;
                }
                case 4:
                    said = attach_to(who, request, by_name(request, name));
                    break;
                case 5:
                    said = take_from(who, request, request, "q");
                    if (lives_for != 0 && below(2) == 0) {
                        confirm(who, request + 100'000, request);
                    }
                    break;
                case 6:
                    give_back(who, request, request - below(10));
                    break;
                case 7:
                    expire(now + below(400));
                    break;
                default:
                    leave(who);
                    sessions.erase(sessions.begin() + static_cast<std::ptrdiff_t>(which));
                    users.erase(users.begin() + static_cast<std::ptrdiff_t>(which));
            }
            if (lives_for == 0) {
                break;
            }
            for (const auto& outgoing : said) {
                if (const auto at = outgoing.find("PublishReply="); at != std::string::npos) {
                    const std::uint64_t version = std::stoull(outgoing.substr(at + 13));
                    EXPECT_GT(version, highest);
                    highest = version;
                }
            }
            for (const Outbox::Answering& each : std::vector(answering)) {
                daemon().note_answered(each.capsule, out);
                look();
            }
        }
        deaths += lives_for == 0 ? 1 : 0;
        lives_for = SIZE_MAX;
        die();
        EXPECT_EQ(stored(), in_store().size());
        for (const auto& [id, offer] : capsules) {
            EXPECT_FALSE(withdrawn.contains(id)) << life;
        }
        if (below(2) == 0) {
            expire(now + kWindowEnd);
        }
    }
    EXPECT_GT(deaths, 40U);
}

/// Three users who say anything that a packet can say, with few numbers, so that all of it meets: claims of what is waited for, offers of what is
/// here, takes of what is claimed. Lives end in between. Whatever they do, all that is known twice agrees after each step (look), and
/// nothing is left when all have gone.
TEST_F(StoreTest, WhateverIsSaidInAWindowAddsUp) {
    std::mt19937 random(20261201);  // NOLINT(cert-msc51-cpp): the same each time
    const auto below = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); };
    constexpr std::array<std::uint32_t, 4> kUsers = {kAlice, kAlice, kBob, 0};
    constexpr std::array<const char*, 5> kNames = {"a", "b", "q", "r", ""};
    constexpr std::array<State, 3> kStates = {State::Held, State::Released, State::Confirmed};
    struct Open {
        SessionNumber number;
        std::uint32_t uid = 0;
        std::uint8_t id = 0;
    };
    std::vector<Open> sessions;
    std::uint64_t request = 0;
    const auto capsule_number = [&] { return static_cast<std::uint8_t>(1 + below(9)); };
    std::uint64_t last_lease = 1;  // that something was attached under, or was to be
    const auto lease_number = [&] { return below(2) == 0 ? last_lease : 1 + below(8); };
    const auto open_one = [&] {
        const auto id = static_cast<std::uint8_t>(100 + below(6));
        if (std::none_of(sessions.begin(), sessions.end(), [&](const Open& open) { return open.id == id; })) {
            const std::uint32_t uid = kUsers.at(id % kUsers.size());
            const std::uint32_t how = below(4);
            const SessionNumber number{next_session++};
            ASSERT_TRUE(daemon().open_session(number, {uid, uid, 1, uid == 0, id16(id), {}, how > 1, how == 1}));
            sessions.push_back({number, uid, id});
        }
    };
    const auto publish_something = [&](const Open& who) {
        const std::uint8_t capsule = capsule_number();
        say(who.number, request, capsule, kNames.at(below(kNames.size())), [&](Publication& each) {
            wire::Publish& said = each.request;
            said.once = below(2) == 0;
            said.retain = said.once ? 1 : 1 + below(3);
            said.linger_ms = below(2) == 0 ? std::nullopt : std::optional(below(3) * 300ULL);
            if (below(3) == 0) {
                said.access = {{kAlice, below(2) == 0 ? 0666U : 0600U}};
            }
            if (below(3) == 0) {
                said.version = below(2) == 0 ? kFirstVersion - 20 + below(20) : kFirstVersion + below(60);
                said.retired = below(4) == 0;
                if (said.once && below(3) == 0) {
                    said.taken_by = {kUsers.at(below(4)), session_hash(id16(static_cast<std::uint8_t>(100 + below(6)))),
                                     lease_number()};
                }
            } else if (below(5) == 0) {
                said.group = 1;
            }
            each.brought = {brought(who.uid * 10ULL + capsule + (below(8) == 0 ? 1 : 0))};
            if (said.version == 0 && below(4) == 0) {
                said.segments[0].carries_fd = false;
                each.brought = {{}};
            } else if (below(4) == 0) {
                said.segments[0].reservation = 1;
            }
        });
    };
    const auto claim_something = [&](const Open& who) {
        wire::Claims claims;
        for (std::uint32_t n = 1 + below(3); n != 0; --n) {
            claims.claims.push_back(
                {{kUsers.at(below(4)), id16(capsule_number())}, lease_number(), kStates.at(below(3))});
        }
        daemon().claim(who.number, request, claims, out);
    };
    const auto attach_something = [&](const Open& who) {
        last_lease = 1 + below(100);  // each is used once in a session
        wire::Attach what = below(3) == 0 ? by_id(last_lease, kUsers.at(below(4)), capsule_number())
                                          : by_name(last_lease, kNames.at(below(4)));
        what.take = below(2) == 0;
        if (!what.take && below(3) == 0) {
            what.which = below(2) == 0 ? wire::Which::Exactly : wire::Which::NewerThan;
            what.version = kFirstVersion - 20 + below(60);
        }
        const std::array<std::optional<std::uint64_t>, 3> times = {0, 200, std::nullopt};
        daemon().attach(who.number, request, what, times.at(below(3)), now, out);
        if (what.take && below(2) == 0) {
            look();
            daemon().confirm(who.number, request, {what.lease}, out);
        }
    };
    std::uint64_t claimed = 0;
    std::uint64_t taken = 0;
    for (int life = 0; life < 60; ++life) {
        for (int step = 0; step < 300; ++step) {
            ++request;
            if (sessions.size() < 2) {
                open_one();
                continue;
            }
            const std::size_t which = below(static_cast<std::uint32_t>(sessions.size()));
            const Open who = sessions[which];
            switch (below(20)) {
                case 0:
                    open_one();
                    break;
                case 1:
                case 2:
                case 3:
                case 4:
                    publish_something(who);
                    break;
                case 5:
                case 6:
                case 7:
                    claim_something(who);
                    break;
                case 8:
                case 9:
                case 10:
                    attach_something(who);
                    break;
                case 11:
                case 12:
                    daemon().confirm(who.number, request, {lease_number()}, out);
                    break;
                case 13:
                    daemon().release(who.number, request, {{lease_number(), lease_number()}}, out);
                    break;
                case 14:
                    daemon().cancel(who.number, {request - below(12)}, out);
                    break;
                case 15:
                    daemon().withdraw(who.number, request, {{kUsers.at(below(4)), id16(capsule_number())}}, out);
                    break;
                case 16: {
                    constexpr std::array<wire::Group::Action, 3> kActions = {
                        wire::Group::Action::Begin, wire::Group::Action::Commit, wire::Group::Action::Abort};
                    daemon().group(who.number, request, {1, kActions.at(below(3))}, out);
                    break;
                }
                case 17:
                    if (below(2) == 0) {
                        daemon().watch(who.number, request, {1 + below(2), below(2) == 0 ? "" : "a"}, out);
                    } else if (below(2) == 0) {
                        daemon().reserve(who.number, request, {1, 4096}, now, out);
                    } else {
                        daemon().forget(who.number, request, {{capsule_number()}}, out);
                    }
                    break;
                case 18:
                    if (below(3) == 0) {
                        daemon().resume_done(who.number, request, out);
                    } else {
                        expire(now + below(below(4) == 0 ? 40'000 : 400));
                    }
                    break;
                default:
                    if (below(3) == 0) {
                        leave(who.number);
                        sessions.erase(sessions.begin() + static_cast<std::ptrdiff_t>(which));
                    }
            }
            look();
            claimed = std::max(claimed, daemon().totals().claims);
            for (const Outbox::Answering& each : std::vector(answering)) {
                if (below(2) == 0) {
                    daemon().note_answered(each.capsule, out);
                    look();
                }
            }
        }
        taken += daemon().history().taken;
        if (below(3) == 0) {  // all of them leave, and what lingers is let go
            for (const Open& open : std::exchange(sessions, {})) {
                leave(open.number);
            }
            expire(now + 100'000);
            const SessionNumber root = come(0, 50);
            for (const auto& [id, offer] : std::map(capsules)) {
                withdraw_it(root, ++request, id.id.bytes[15], id.uid);
            }
            leave(root);
            EXPECT_EQ(daemon().totals(), Registry::Totals{}) << life;
            EXPECT_EQ(in_store(), Words{}) << life;
        }
        sessions.clear();
        die();
    }
    EXPECT_GT(claimed, 5U);
    EXPECT_GT(taken, 0U);
}

// ---- Compaction -----------------------------------------------------------------------------------------------------

TEST_F(StoreTest, AllNotesSayWhatTheJournalSays) {
    const auto p = come(kAlice, 100);
    lingering(p, 1, 1, "a", 700);
    answered(1);
    plain(p, 2, 2, "b");
    lingering(p, 3, 3, "q", 0, true);
    lingering(p, 4, 4, "c");
    plain(p, 5, 5, "");
    plain(p, 6, 6, "b");
    expire(kWindowEnd);
    const auto c = come(kAlice, 101);
    take_from(c, 7, 7, "q");
    confirm(c, 8, 7);
    withdraw_it(c, 9, 4);
    leave(p);
    store::JournalState appended;
    for (const keep::Note& note : journal) {
        appended.apply(note);
    }
    std::vector<keep::Note> notes;
    daemon().write_notes(notes);
    store::JournalState anew;
    for (const keep::Note& note : notes) {
        anew.apply(note);
    }
    EXPECT_EQ(anew.last_version, appended.last_version);
    EXPECT_EQ(anew.names, appended.names);
    EXPECT_EQ(anew.taken, appended.taken);
    EXPECT_EQ(anew.answered, appended.answered);
    EXPECT_EQ(anew.expires, appended.expires);
    EXPECT_EQ(anew.left, appended.left);
    EXPECT_EQ(anew.names.size(), 2U);  // "a", and "q", which its taker holds
    EXPECT_EQ(anew.taken.size(), 1U);
    EXPECT_EQ(anew.left.size(), 2U);
}

}  // namespace
}  // namespace hurrayd
