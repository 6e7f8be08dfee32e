#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "daemon/registry.hpp"

// The rules of the memory that producers bring and reserve, one a test.

namespace hurrayd {
namespace {

using hurray::Errc;
using hurray::Error;

constexpr std::uint64_t kFirstVersion = 1000;
constexpr std::uint32_t kAlice = 1001;
constexpr std::uint32_t kBob = 1002;

wire::Id16 id16(std::uint8_t n) {
    wire::Id16 id;
    id.bytes[15] = n;
    return id;
}

/// One segment of a publish: which file comes with it, if one does.
struct Said {
    std::uint64_t number = 0;
    std::uint64_t inode = 0;  ///< 0: it comes without its descriptor
    std::uint64_t size = 4096;
    std::uint64_t reservation = 0;
    wire::Memory memory = wire::Memory::Reusable;
};

class RegistryMemoryTest : public testing::Test {
  protected:
    std::optional<Registry> registry;
    Outbox out;
    std::vector<std::uint64_t> dropped;
    std::uint64_t next_session = 1;
    std::uint64_t next_segment = 1;
    std::uint8_t next_capsule = 1;
    std::uint64_t now = 0;

    RegistryMemoryTest() { registry.emplace(kFirstVersion); }

    SessionNumber open(std::uint32_t uid) {
        const SessionNumber number{next_session++};
        EXPECT_TRUE(registry->open_session(number, {uid, uid, static_cast<std::int32_t>(100 + number.value), uid == 0,
                                                    id16(static_cast<std::uint8_t>(number.value))}));
        return number;
    }

    /// The answer of the last step, an Error or nothing.
    std::optional<Error> answer() {
        registry->check_consistency();
        std::optional<Error> error;
        for (const Outgoing& outgoing : out.packets) {
            if (const auto* said = std::get_if<Error>(&outgoing.packet.message)) {
                error = *said;
            }
        }
        for (const SegmentNumber number : out.dropped) {
            dropped.push_back(number.value);
        }
        out.clear();
        return error;
    }

    /// Publishes a capsule of its own that lies in these segments.
    std::optional<Error> publish(SessionNumber from, const std::vector<Said>& segments, const std::string& name = {}) {
        Publication publication;
        publication.request.capsule = id16(next_capsule++);
        publication.request.name = name;
        for (const Said& said : segments) {
            publication.request.segments.push_back(
                {said.number, said.inode != 0, said.memory, said.size, said.reservation});
            publication.request.placements.push_back(
                {static_cast<std::uint32_t>(publication.request.placements.size()), 0});
            publication.brought.emplace_back();
            if (said.inode != 0) {
                publication.brought.back() = {{next_segment++}, {1, said.inode}};
            }
        }
        registry->publish(from, 1, std::move(publication), out);
        return answer();
    }
    [[nodiscard]] std::uint8_t last_capsule() const { return static_cast<std::uint8_t>(next_capsule - 1); }

    void withdraw(SessionNumber from, std::uint32_t uid, std::uint8_t capsule) {
        registry->withdraw(from, 1, {{uid, id16(capsule)}}, out);
        EXPECT_FALSE(answer());
    }
    std::vector<wire::Segment> attach(SessionNumber from, std::uint64_t lease, std::uint32_t uid,
                                      std::uint8_t capsule) {
        registry->attach(from, 1, {lease, wire::CapsuleId{uid, id16(capsule)}}, 0, now, out);
        std::vector<wire::Segment> segments;
        for (const Outgoing& outgoing : out.packets) {
            if (const auto* reply = std::get_if<wire::AttachReply>(&outgoing.packet.message)) {
                segments = reply->segments;
            }
        }
        EXPECT_FALSE(answer());
        return segments;
    }
    void release(SessionNumber from, std::uint64_t lease) {
        registry->release(from, 1, {{lease}}, out);
        EXPECT_FALSE(answer());
    }
    void forget(SessionNumber from, std::vector<std::uint64_t> segments) {
        registry->forget(from, 1, {std::move(segments)}, out);
        EXPECT_FALSE(answer());
    }
    std::optional<Error> reserve(SessionNumber from, std::uint64_t number, std::uint64_t bytes) {
        registry->reserve(from, 1, {number, bytes}, now, out);
        return answer();
    }
    void unreserve(SessionNumber from, std::uint64_t number) {
        registry->unreserve(from, 1, {number}, out);
        EXPECT_FALSE(answer());
    }
    void end(SessionNumber session) {
        registry->end_session(session, 0, out);
        while (registry->has_endings()) {
            registry->continue_endings(out);
        }
        EXPECT_FALSE(answer());
    }
    wire::StatusReply status(SessionNumber asker) {
        registry->status(asker, 1, "v", 5, now, out);
        auto reply = std::get<wire::StatusReply>(out.packets.at(0).packet.message);
        out.clear();
        return reply;
    }
    wire::Use use(SessionNumber asker, std::uint32_t uid, const std::string& name) {
        for (const wire::Use& each : status(asker).uses) {
            if (each.uid == uid && each.name == name) {
                return each;
            }
        }
        return {};
    }

    void expect_nothing_held() { EXPECT_EQ(registry->totals(), Registry::Totals{}); }
};

using Numbers = std::vector<std::uint64_t>;

#define EXPECT_REFUSED(answer, code_, field_, message_) \
    do {                                                \
        const std::optional<Error> refused_ = (answer); \
        ASSERT_TRUE(refused_);                          \
        EXPECT_EQ(refused_->code, code_);               \
        EXPECT_EQ(refused_->field, field_);             \
        EXPECT_EQ(refused_->message, message_);         \
    } while (false)

// ---- Segments

TEST_F(RegistryMemoryTest, SegmentIsKeptForItsProducerAfterItsCapsuleHasEnded) {
    const auto p = open(kAlice);
    EXPECT_FALSE(publish(p, {{7, 70}}));
    withdraw(p, kAlice, last_capsule());
    EXPECT_EQ(dropped, Numbers{});
    EXPECT_EQ(registry->totals().bytes, 4096u);
    EXPECT_EQ(registry->totals().descriptors, 1u);
    EXPECT_FALSE(publish(p, {{7}})) << "without its descriptor";
    EXPECT_EQ(registry->totals().bytes, 4096u);
    forget(p, {7});
    EXPECT_EQ(dropped, Numbers{}) << "a capsule lies in it";
    withdraw(p, kAlice, last_capsule());
    EXPECT_EQ(dropped, Numbers{1});
    EXPECT_EQ(registry->totals().bytes, 0u);
}

TEST_F(RegistryMemoryTest, ConsumersAreToldTheSameNumberOfASegmentEachTime) {
    const auto p = open(kAlice);
    EXPECT_FALSE(publish(p, {{7, 70}}));
    const auto first = attach(p, 1, kAlice, last_capsule());
    EXPECT_FALSE(publish(p, {{7}, {8, 80}}));
    const auto second = attach(p, 2, kAlice, last_capsule());
    ASSERT_EQ(first.size(), 1u);
    ASSERT_EQ(second.size(), 2u);
    EXPECT_EQ(first[0], second[0]);
    EXPECT_NE(first[0].number, second[1].number);
}

TEST_F(RegistryMemoryTest, CapsulesThatShareASegmentCountItOnce) {
    const auto p = open(kAlice);
    EXPECT_FALSE(publish(p, {{7, 70, 8192}}));
    EXPECT_FALSE(publish(p, {{7, 0, 8192}}));
    EXPECT_FALSE(publish(p, {{7, 70, 8192}})) << "the same file may come again";
    EXPECT_EQ(dropped, Numbers{2}) << "of which one descriptor is enough";
    EXPECT_EQ(registry->totals().bytes, 8192u);
    EXPECT_EQ(registry->totals().descriptors, 1u);
    forget(p, {7});
    withdraw(p, kAlice, 1);
    withdraw(p, kAlice, 3);
    EXPECT_EQ(dropped, Numbers{2});
    withdraw(p, kAlice, 2);
    EXPECT_EQ(dropped, (Numbers{2, 1}));
}

TEST_F(RegistryMemoryTest, ANumberNeverMeansAnotherFile) {
    const auto p = open(kAlice);
    EXPECT_FALSE(publish(p, {{7, 70}}));
    EXPECT_REFUSED(publish(p, {{7, 71}}), Errc::AlreadyExists, "publish.segments[0].number",
                   "segment number 7 means another file in this session");
    EXPECT_EQ(dropped, Numbers{2});
    forget(p, {7});
    withdraw(p, kAlice, 1);
    EXPECT_REFUSED(publish(p, {{7, 70}}), Errc::AlreadyExists, "publish.segments[0].number",
                   "segment number 7 was forgotten in this session, and is not used again");
    EXPECT_REFUSED(publish(p, {{7}}), Errc::AlreadyExists, "publish.segments[0].number",
                   "segment number 7 was forgotten in this session, and is not used again");
}

/// The library numbers them when they are allocated, and may publish them, and let go of them, in any order.
TEST_F(RegistryMemoryTest, SegmentsArePublishedInAnyOrder) {
    constexpr std::uint64_t kLast = 2 * (Registry::kMostRanges + 300);
    const auto p = open(kAlice);
    const auto publish_each_second = [&](std::uint64_t first) {
        std::vector<Said> segments;
        for (std::uint64_t number = first; number <= kLast; number += 2) {
            segments.push_back({number, number});
            if (segments.size() == 100 || number + 2 > kLast) {
                EXPECT_FALSE(publish(p, segments, "a")) << "up to number " << number;
                segments.clear();
            }
        }
    };
    publish_each_second(1);
    publish_each_second(2);
    EXPECT_EQ(registry->totals().bytes, kLast * 4096);
    EXPECT_FALSE(publish(p, {}, "a"));  // nothing lies in them any more
    for (std::uint64_t number = 1; number < kLast; number += 2) {
        registry->forget(p, 1, {{number, kLast + number}}, out);
    }
    EXPECT_FALSE(answer());
    EXPECT_EQ(registry->totals().bytes, kLast / 2 * 4096);
    for (std::uint64_t number = 2; number < 100; number += 2) {
        EXPECT_FALSE(publish(p, {{number}}, "a")) << "what is kept is known whatever else is forgotten";
    }
    EXPECT_FALSE(publish(p, {{kLast + 2, 9000}}, "a")) << "nor is what lies between forgotten ones forgotten";
    EXPECT_REFUSED(
        publish(p, {{2 * kLast - 1, 9001}}), Errc::AlreadyExists, "publish.segments[0].number",
        "segment number " + std::to_string(2 * kLast - 1) + " was forgotten in this session, and is not used again");
    end(p);
    expect_nothing_held();
}

TEST_F(RegistryMemoryTest, GapsAreLeftOnPurposeWithinBounds) {
    const auto p = open(kAlice);
    const auto cost = [&] { return registry->totals().kept_bytes; };
    const auto leave_gaps = [&](std::uint64_t from) {
        std::vector<std::uint64_t> numbers;
        for (std::uint64_t n = 0; n < Registry::kMostRanges; ++n) {
            numbers.push_back(from + 2 * n);
        }
        forget(p, numbers);
    };
    const std::uint64_t before = cost();
    leave_gaps(1);
    const std::uint64_t full = cost();
    EXPECT_GT(full, before) << "its user's";
    leave_gaps(100'000);
    EXPECT_EQ(cost(), full);
}

TEST_F(RegistryMemoryTest, NumbersAreASessionsOwn) {
    const auto p = open(kAlice);
    const auto q = open(kAlice);
    EXPECT_FALSE(publish(p, {{7, 70}}));
    EXPECT_REFUSED(publish(q, {{7}}), Errc::NotFound, "publish.segments[0].number",
                   "segment number 7 is not known in this session: its first mention brings its descriptor");
    EXPECT_FALSE(publish(q, {{7, 71}}));
    forget(q, {7});
    EXPECT_FALSE(publish(p, {{7}})) << "what another session forgets is its own";
}

TEST_F(RegistryMemoryTest, ASecondMentionSaysWhatTheFirstSaid) {
    const auto p = open(kAlice);
    EXPECT_FALSE(publish(p, {{7, 70}}));
    EXPECT_REFUSED(publish(p, {{7, 0, 8192}}), Errc::InvalidArgument, "publish.segments[0].size",
                   "segment number 7 has 4096 bytes, not 8192");
    EXPECT_REFUSED(publish(p, {{7, 0, 4096, 0, wire::Memory::Immutable}}), Errc::InvalidArgument,
                   "publish.segments[0].memory", "segment number 7 was published as memory of kind 1, not 2");
}

TEST_F(RegistryMemoryTest, OneFileHasOneNumberInAPublish) {
    const auto p = open(kAlice);
    EXPECT_FALSE(publish(p, {{7, 70}}));
    const auto refused = publish(p, {{7}, {8, 70}});
    ASSERT_TRUE(refused);
    EXPECT_EQ(refused->code, Errc::InvalidArgument);
    EXPECT_EQ(refused->field, "publish.segments[1]");
    EXPECT_FALSE(publish(p, {{8, 80}})) << "a refused publish has used no number";
}

TEST_F(RegistryMemoryTest, RefusedPublishLeavesWhatItBrought) {
    const auto p = open(kAlice);
    EXPECT_TRUE(publish(p, {{7, 70}, {8}}));
    EXPECT_EQ(dropped, Numbers{1});
    EXPECT_EQ(registry->totals().bytes, 0u);
    EXPECT_EQ(registry->totals().capsules, 0u);
}

TEST_F(RegistryMemoryTest, SegmentsOfAnEndedSessionStayWhileACapsuleIsHeld) {
    const auto p = open(kAlice);
    const auto c = open(kAlice);
    EXPECT_FALSE(publish(p, {{7, 70}}));
    EXPECT_FALSE(publish(p, {{8, 80}}));
    withdraw(p, kAlice, 2);
    attach(c, 1, kAlice, 1);
    end(p);
    EXPECT_EQ(dropped, Numbers{2});
    EXPECT_EQ(registry->totals().bytes, 4096u);
    release(c, 1);
    EXPECT_EQ(dropped, (Numbers{2, 1}));
    end(c);
    expect_nothing_held();
}

TEST_F(RegistryMemoryTest, ForgettingWhatIsNotKnownIsFine) {
    const auto p = open(kAlice);
    forget(p, {1, 2, 3});
    EXPECT_FALSE(publish(p, {{4, 20}}));
}

TEST_F(RegistryMemoryTest, ThousandsOfSegmentsEndPieceByPiece) {
    const auto p = open(kAlice);
    for (std::uint64_t number = 0; number < 1000; ++number) {
        EXPECT_FALSE(publish(p, {{number, 1000 + number}}, "a")) << "each replaces the one before";
        if (next_capsule == 0) {
            next_capsule = 1;
        }
    }
    registry->end_session(p, 0, out);
    EXPECT_TRUE(registry->has_endings());
    EXPECT_LT(out.dropped.size(), 1000u);
    while (registry->has_endings()) {
        registry->continue_endings(out);
    }
    answer();
    EXPECT_EQ(dropped.size(), 1000u);
    expect_nothing_held();
}

// ---- Reservations

TEST_F(RegistryMemoryTest, ReservationIsShownUntilItIsPublished) {
    const auto p = open(kAlice);
    now = 100;
    EXPECT_FALSE(reserve(p, 1, 8192));
    now = 250;
    EXPECT_FALSE(reserve(p, 2, 4096));
    now = 300;
    const auto before = status(p);
    ASSERT_EQ(before.writing.size(), 2u);
    EXPECT_EQ(before.writing[0].uid, kAlice);
    EXPECT_EQ(before.writing[0].pid, 101);
    EXPECT_EQ(before.writing[0].bytes, 8192u);
    EXPECT_EQ(before.writing[0].age_ms, 200u);
    EXPECT_EQ(before.writing[1].bytes, 4096u);
    EXPECT_EQ(before.writing[1].age_ms, 50u);
    EXPECT_EQ(use(p, kAlice, "bytes").used, 12288u) << "reserved is as good as taken";
    EXPECT_EQ(use(p, kAlice, "reserved_bytes").used, 12288u);
    EXPECT_FALSE(publish(p, {{7, 70, 8192, 1}}));
    ASSERT_EQ(status(p).writing.size(), 1u);
    EXPECT_EQ(use(p, kAlice, "bytes").used, 12288u);
    EXPECT_EQ(use(p, kAlice, "reserved_bytes").used, 4096u);
    unreserve(p, 2);
    EXPECT_TRUE(status(p).writing.empty());
    EXPECT_EQ(use(p, kAlice, "bytes").used, 8192u);
    unreserve(p, 2);
    EXPECT_FALSE(reserve(p, 2, 1)) << "the number is free again";
}

TEST_F(RegistryMemoryTest, ReservationsGoWithTheirSession) {
    const auto p = open(kAlice);
    const auto q = open(kAlice);
    EXPECT_FALSE(reserve(p, 1, 8192));
    EXPECT_FALSE(reserve(q, 1, 4096));
    end(p);
    EXPECT_EQ(registry->totals().reserved, 4096u);
    EXPECT_EQ(registry->totals().reservations, 1u);
    end(q);
    expect_nothing_held();
}

TEST_F(RegistryMemoryTest, WritingIsShownToItsUserAndRoot) {
    const auto alice = open(kAlice);
    const auto bob = open(kBob);
    const auto root = open(0);
    EXPECT_FALSE(reserve(alice, 1, 8192));
    EXPECT_EQ(status(alice).writing.size(), 1u);
    EXPECT_TRUE(status(bob).writing.empty());
    EXPECT_EQ(status(root).writing.size(), 1u);
}

TEST_F(RegistryMemoryTest, ReservationNumberInUseIsRefused) {
    const auto p = open(kAlice);
    EXPECT_FALSE(reserve(p, 1, 8192));
    EXPECT_REFUSED(reserve(p, 1, 8192), Errc::AlreadyExists, "reserve.reservation",
                   "reservation number 1 is in use in this session");
    EXPECT_EQ(registry->totals().reserved, 8192u);
}

TEST_F(RegistryMemoryTest, PublishNamesAReservationOfItsSessionOnce) {
    const auto p = open(kAlice);
    EXPECT_REFUSED(publish(p, {{7, 70, 4096, 3}}), Errc::NotFound, "publish.segments[0].reservation",
                   "there is no reservation number 3 in this session");
    EXPECT_FALSE(reserve(p, 3, 8192));
    EXPECT_REFUSED(publish(p, {{7, 70, 4096, 3}, {8, 80, 4096, 3}}), Errc::InvalidArgument,
                   "publish.segments[1].reservation", "reservation number 3 is of another segment already");
    EXPECT_EQ(registry->totals().reservations, 1u) << "a refused publish has ended none";
    EXPECT_FALSE(publish(p, {{7, 70, 4096, 3}}));
    EXPECT_EQ(registry->totals().reserved, 0u) << "also what was reserved and not used";
    EXPECT_FALSE(publish(p, {{7, 70, 4096, 3}})) << "of a known segment it has ended already";
}

// ---- Quotas

TEST_F(RegistryMemoryTest, UsersMemoryStaysWithinItsQuota) {
    registry.emplace(kFirstVersion, Quotas::Limits{.bytes = 16384});
    const auto alice = open(kAlice);
    const auto bob = open(kBob);
    EXPECT_FALSE(reserve(alice, 1, 8192));
    EXPECT_FALSE(publish(alice, {{7, 70, 4096}}));
    const auto refused = reserve(alice, 2, 4097);
    ASSERT_TRUE(refused);
    EXPECT_EQ(refused->code, Errc::OverQuota);
    EXPECT_EQ(refused->field, "reserve.bytes");
    EXPECT_EQ(refused->limit_name, "quota.user.bytes");
    EXPECT_EQ(refused->limit, 16384u);
    EXPECT_EQ(refused->in_use, 12288u);
    EXPECT_EQ(refused->value, 4097u);
    EXPECT_EQ(refused->message,
              "user 1001 has 12288 bytes of shared memory, and 4097 more are asked for; at most 16384 are allowed "
              "(quota.user.bytes); of user 1001 the most has a client (pid 101): 12288");
    EXPECT_FALSE(reserve(alice, 2, 4096)) << "to the last byte";
    EXPECT_TRUE(publish(alice, {{8, 80, 4096}})) << "there is no room beside what is reserved";
    EXPECT_FALSE(publish(alice, {{8, 80, 4096, 2}}));
    EXPECT_FALSE(publish(alice, {{9, 90, 8192, 1}}));
    EXPECT_FALSE(publish(alice, {{9, 0, 8192}})) << "what is there takes no room";
    EXPECT_EQ(use(alice, kAlice, "bytes").used, 16384u);
    EXPECT_EQ(use(alice, kAlice, "bytes").limit, 16384u);
    EXPECT_FALSE(reserve(bob, 1, 16384)) << "another user has its own";
}

TEST_F(RegistryMemoryTest, MoreThanWasReservedIsAdmittedOrRefused) {
    registry.emplace(kFirstVersion, Quotas::Limits{.bytes = 16384});
    const auto p = open(kAlice);
    EXPECT_FALSE(reserve(p, 1, 4096));
    const auto refused = publish(p, {{7, 70, 20480, 1}});
    ASSERT_TRUE(refused);
    EXPECT_EQ(refused->field, "publish.segments");
    EXPECT_EQ(refused->value, 16384u) << "beyond what was reserved";
    EXPECT_EQ(registry->totals().reserved, 4096u);
    EXPECT_FALSE(publish(p, {{7, 70, 16384, 1}}));
    EXPECT_EQ(registry->totals().reserved, 0u);
}

TEST_F(RegistryMemoryTest, SizesThatWrapAreOverQuota) {
    const auto p = open(kAlice);
    EXPECT_FALSE(reserve(p, 1, 4096));
    EXPECT_TRUE(reserve(p, 2, UINT64_MAX));
    EXPECT_FALSE(reserve(p, 2, UINT64_MAX - 4096));
    EXPECT_TRUE(reserve(p, 3, 1));
}

TEST_F(RegistryMemoryTest, WhatOneUserReservesWithoutALimitTakesNothingFromAnother) {
    const auto alice = open(kAlice);
    const auto bob = open(kBob);
    EXPECT_FALSE(reserve(alice, 1, UINT64_MAX - 1));
    EXPECT_FALSE(reserve(bob, 1, UINT64_MAX - 1));
    EXPECT_FALSE(reserve(bob, 2, 1));
    EXPECT_FALSE(publish(open(1003), {{7, 70, 4096}}));
    EXPECT_EQ(registry->totals().reserved, UINT64_MAX) << "and it is not said to be little";
    EXPECT_EQ(use(bob, kBob, "bytes").used, UINT64_MAX);
    end(alice);
    EXPECT_EQ(registry->totals().reserved, UINT64_MAX);
    end(bob);
    EXPECT_EQ(registry->totals().reserved, 0u);
}

TEST_F(RegistryMemoryTest, EverybodysMemoryTogetherStaysWithinTheDaemonsQuota) {
    registry.emplace(kFirstVersion, Quotas::Limits{.all_bytes = 16384});
    const auto alice = open(kAlice);
    const auto bob = open(kBob);
    EXPECT_FALSE(publish(alice, {{7, 70, 8192}}));
    EXPECT_FALSE(reserve(bob, 1, 4096));
    const auto refused = reserve(bob, 2, 8192);
    ASSERT_TRUE(refused);
    EXPECT_EQ(refused->limit_name, "quota.bytes");
    EXPECT_EQ(refused->in_use, 12288u);
    EXPECT_EQ(
        refused->message,
        "all users together have 12288 bytes of shared memory, and 8192 more are asked for; at most 16384 are allowed "
        "(quota.bytes); of user 1002 the most has a client (pid 102): 4096");
    forget(alice, {7});
    withdraw(alice, kAlice, 1);
    EXPECT_FALSE(reserve(bob, 2, 8192));
    EXPECT_EQ(registry->quotas().refused(Quota::AllBytes), 1u);
    EXPECT_EQ(registry->quotas().refused(Quota::Bytes), 0u);
}

TEST_F(RegistryMemoryTest, ReservationsOfAUserAreCounted) {
    registry.emplace(kFirstVersion, Quotas::Limits{.reservations = 2});
    const auto p = open(kAlice);
    const auto q = open(kAlice);
    EXPECT_FALSE(reserve(p, 1, 1));
    EXPECT_FALSE(reserve(q, 1, 1));
    const auto refused = reserve(p, 2, 1);
    ASSERT_TRUE(refused);
    EXPECT_EQ(refused->limit_name, "quota.user.reservations");
    EXPECT_EQ(refused->message,
              "user 1001 has 2 segments that are reserved and not published; at most 2 are allowed "
              "(quota.user.reservations)");
    unreserve(q, 1);
    EXPECT_FALSE(reserve(p, 2, 1));
}

// ---- Kinds of memory ------------------------------------------------------------------------------------------------

class RegistryKindsTest : public RegistryMemoryTest {
  protected:
    static constexpr auto kReusable = wire::Memory::Reusable;
    static constexpr auto kImmutable = wire::Memory::Immutable;
    static constexpr auto kDmabuf = wire::Memory::Dmabuf;

    /// A capsule under "a" with one segment of each of these kinds.
    void publish_kinds(SessionNumber from, const std::vector<wire::Memory>& kinds) {
        std::vector<Said> segments;
        for (const wire::Memory kind : kinds) {
            const std::uint64_t number = next_number++;
            segments.push_back({number, 1000 + number, 4096, 0, kind});
        }
        EXPECT_FALSE(publish(from, segments, "a"));
    }

    /// Attaches "a" and says how it went: "granted", "waits", or the refusal's field.
    std::string attach_a(SessionNumber from, bool immutable_only, bool allow_unsealed,
                         std::optional<std::uint64_t> timeout_ms = 0) {
        wire::Attach attach{next_lease++, "a"};
        attach.immutable_only = immutable_only;
        attach.allow_unsealed = allow_unsealed;
        registry->attach(from, next_lease, attach, timeout_ms, now, out);
        return outcome(from);
    }
    std::string outcome(SessionNumber of) {
        std::string how = "waits";
        for (const Outgoing& outgoing : out.packets) {
            if (outgoing.to != of) {
                continue;
            }
            if (std::holds_alternative<wire::AttachReply>(outgoing.packet.message)) {
                how = "granted";
            } else if (const auto* error = std::get_if<Error>(&outgoing.packet.message)) {
                EXPECT_EQ(error->code, Errc::Unsupported) << error->message;
                how = error->field;
            }
        }
        answer();
        return how;
    }

    std::uint64_t next_number = 1;
    std::uint64_t next_lease = 1;
};

TEST_F(RegistryKindsTest, AnAttachGetsTheLatestVersionOrIsRefusedForItsMemory) {
    const auto p = open(kAlice);
    const auto c = open(kAlice);
    const std::string only = "attach.immutable_only";
    const std::string unsealed = "attach.allow_unsealed";
    struct Case {
        std::vector<wire::Memory> kinds;
        std::string any, immutable_only, allow_unsealed, both;
    };
    const std::vector<Case> cases = {
        {{}, "granted", "granted", "granted", "granted"},
        {{kReusable}, "granted", only, "granted", only},
        {{kImmutable}, "granted", "granted", "granted", "granted"},
        {{kDmabuf}, unsealed, only, "granted", only},
        {{kImmutable, kImmutable}, "granted", "granted", "granted", "granted"},
        {{kImmutable, kReusable}, "granted", only, "granted", only},
        {{kImmutable, kDmabuf}, unsealed, only, "granted", only},
    };
    for (const Case& one : cases) {
        publish_kinds(p, one.kinds);
        EXPECT_EQ(attach_a(c, false, false), one.any);
        EXPECT_EQ(attach_a(c, true, false), one.immutable_only);
        EXPECT_EQ(attach_a(c, false, true), one.allow_unsealed);
        EXPECT_EQ(attach_a(c, true, true), one.both);
    }
}

TEST_F(RegistryKindsTest, AWaitingAttachIsRefusedWhenTheVersionThatComesIsOfAnotherKind) {
    const auto p = open(kAlice);
    const auto c = open(kAlice);
    EXPECT_EQ(attach_a(c, true, false, std::nullopt), "waits");
    wire::Publish reusable;
    reusable.capsule = id16(100);
    reusable.name = "a";
    reusable.segments = {{100, true, kReusable, 4096, 0}};
    reusable.placements = {{0, 0}};
    registry->publish(p, 1, {reusable, {{{next_segment++}, {1, 100}}}, 0}, out);
    EXPECT_EQ(outcome(c), "attach.immutable_only");
    EXPECT_EQ(registry->totals().waiting, 0u);
    EXPECT_EQ(registry->totals().leases, 0u);
}

TEST_F(RegistryKindsTest, ARefusalForTheMemoryUsesNoLeaseNumber) {
    const auto p = open(kAlice);
    const auto c = open(kAlice);
    publish_kinds(p, {kReusable});
    wire::Attach attach{7, "a"};
    attach.immutable_only = true;
    registry->attach(c, 1, attach, 0, now, out);
    EXPECT_EQ(outcome(c), "attach.immutable_only");
    attach.immutable_only = false;
    registry->attach(c, 2, attach, 0, now, out);
    EXPECT_EQ(outcome(c), "granted");
}

TEST_F(RegistryKindsTest, WhoMayNotSeeACapsuleIsNotToldOfItsMemory) {
    const auto p = open(kAlice);
    const auto stranger = open(kBob);
    publish_kinds(p, {kReusable});
    wire::Attach attach{1, "a"};
    attach.immutable_only = true;
    registry->attach(stranger, 1, attach, 0, now, out);
    EXPECT_REFUSED(answer(), Errc::NotFound, "attach.name", "there is nothing under the name \"a\" to attach");
}

TEST_F(RegistryKindsTest, TheListSaysWhatMemoryACapsuleLiesIn) {
    const auto p = open(kAlice);
    const auto flags = [&] {
        registry->list(p, 1, {}, 0, out);
        const auto page = std::get<wire::ListReply>(out.packets.at(0).packet.message);
        answer();
        return std::pair(page.capsules.at(0).immutable, page.capsules.at(0).unsealed);
    };
    publish_kinds(p, {kReusable});
    EXPECT_EQ(flags(), std::pair(false, false));
    publish_kinds(p, {kImmutable});
    EXPECT_EQ(flags(), std::pair(true, false));
    publish_kinds(p, {kImmutable, kDmabuf});
    EXPECT_EQ(flags(), std::pair(false, true));
}

TEST_F(RegistryKindsTest, ImmutableMemoryIsNeverReusable) {
    const auto p = open(kAlice);
    const auto ended_reusable = [&](const std::vector<wire::Memory>& kinds) {
        publish_kinds(p, kinds);
        registry->withdraw(p, 1, {{kAlice, id16(last_capsule())}}, out);
        std::optional<bool> reusable;
        for (const Outgoing& outgoing : out.packets) {
            if (const auto* ended = std::get_if<wire::Ended>(&outgoing.packet.message)) {
                reusable = ended->reusable;
            }
        }
        answer();
        return reusable;
    };
    EXPECT_EQ(ended_reusable({}), true);
    EXPECT_EQ(ended_reusable({kReusable}), true);
    EXPECT_EQ(ended_reusable({kDmabuf}), true);
    EXPECT_EQ(ended_reusable({kImmutable}), false);
    EXPECT_EQ(ended_reusable({kImmutable, kReusable}), true) << "the part that is";
}

}  // namespace
}  // namespace hurrayd
