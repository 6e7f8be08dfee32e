#include "client/segment_pool.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <iostream>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/unit/client/fake_books.hpp"

namespace hurray::client {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kKiB = 1024;
constexpr std::uint64_t kMiB = 1024 * kKiB;
constexpr std::uint64_t kPage = SegmentPool::kPage;
using Numbers = std::vector<std::uint64_t>;

class SegmentPoolTest : public testing::Test, protected PoolWithBooks {};

// ---- Segments of one block

TEST_F(SegmentPoolTest, LargeBlockHasASegmentOfExactlyItsPages) {
    const auto block = take(8'003'584);
    EXPECT_EQ(block->segment().memory->size(), 8'003'584u);
    EXPECT_EQ(block->offset(), 0u);
    EXPECT_EQ(block->length(), 8'003'584u);
    EXPECT_EQ(books->bytes(), 8'003'584u) << "reserved to the byte";
    EXPECT_EQ(pool->totals().bytes, 8'003'584u);
}

TEST_F(SegmentPoolTest, WhatComesBackIsUsedAgainWithoutAWord) {
    auto first = take(kMiB);
    const std::byte* const where = first->data();
    const std::uint64_t number = first->segment().number;
    first.reset();
    EXPECT_EQ(pool->totals().idle_bytes, kMiB);
    const auto second = take(kMiB);
    EXPECT_EQ(second->data(), where);
    EXPECT_EQ(second->segment().number, number);
    EXPECT_EQ(books->asked, 1);
    EXPECT_EQ(books->forgotten, Numbers{});
    const auto totals = pool->totals();
    EXPECT_EQ(totals.made, 1u);
    EXPECT_EQ(totals.reused, 1u);
    EXPECT_EQ(totals.idle_segments, 0u);
    EXPECT_EQ(totals.idle_bytes, 0u);
}

TEST_F(SegmentPoolTest, FitLeavesLessThanAnEighthOfWhatWasAskedFor) {
    take(100 * kPage).reset();
    EXPECT_EQ(take(88 * kPage)->length(), 88 * kPage) << "twelve would be left, of at most ten";
    EXPECT_EQ(take(89 * kPage)->length(), 100 * kPage);
    EXPECT_EQ(take(101 * kPage)->length(), 101 * kPage) << "too small";
}

TEST_F(SegmentPoolTest, SmallestThatFitsIsUsedAndOfThoseTheLatest) {
    auto large = take(105 * kPage);
    auto first = take(100 * kPage);
    auto second = take(100 * kPage);
    const std::uint64_t first_number = first->segment().number;
    const std::uint64_t second_number = second->segment().number;
    second.reset();
    first.reset();
    large.reset();
    const auto again = take(100 * kPage);
    EXPECT_EQ(again->segment().number, first_number);
    EXPECT_EQ(take(100 * kPage)->segment().number, second_number);
}

TEST_F(SegmentPoolTest, SegmentHasOneAccessForLife) {
    const AccessRule rules[] = {std::nullopt, wire::Access{44, 0640}, wire::Access{44, 0644}, wire::Access{45, 0640},
                                wire::Access{0, 0}};
    for (const std::uint64_t length : {kPage, kMiB}) {
        std::map<std::uint64_t, AccessRule> known;  // by the numbers of segments
        for (const int round : {0, 1}) {
            for (const AccessRule& rule : rules) {
                auto block = pool->take(length, rule);
                ASSERT_TRUE(block);
                ProducerSegment& segment = (*block)->segment();
                segment.known_in = 1;
                EXPECT_EQ(segment.access, rule);
                EXPECT_EQ(known.emplace(segment.number, rule).second, round == 0);
                EXPECT_EQ(known.at(segment.number), rule);
            }
        }
    }
    EXPECT_EQ(pool->totals().made, 10u);
    EXPECT_EQ(pool->totals().reused, 10u);
    EXPECT_EQ(pool->totals().arena_bytes, 5 * 64 * kKiB) << "each rule begins small";
}

TEST_F(SegmentPoolTest, SpoiledBlockGoesForGood) {
    auto block = take(kMiB);
    const std::uint64_t number = block->segment().number;
    block->spoil();
    block.reset();
    EXPECT_EQ(books->forgotten, Numbers{number});
    EXPECT_EQ(pool->totals().segments, 0u);
    EXPECT_NE(take(kMiB)->segment().number, number);
    EXPECT_EQ(pool->totals().reused, 0u);
}

TEST_F(SegmentPoolTest, WhatWasNeverPublishedGoesAtOnce) {
    auto block = pool->take(kMiB);
    ASSERT_TRUE(block);
    const std::uint64_t number = (*block)->segment().number;
    block->reset();
    EXPECT_EQ(books->unreserved, Numbers{number});
    EXPECT_EQ(pool->totals().bytes, 0u);
    auto small = pool->take(kPage);
    ASSERT_TRUE(small);
    small->reset();
    EXPECT_EQ(books->bytes(), 0u);
    EXPECT_EQ(pool->totals().bytes, 0u);
}

TEST_F(SegmentPoolTest, BlockLivesUntilItsLastOwnerLetsGo) {
    auto block = take(kMiB);
    const auto view = block;
    block.reset();
    EXPECT_EQ(pool->totals().idle_segments, 0u);
    EXPECT_NE(take(kMiB)->data(), view->data());
}

// ---- How much waits

TEST_F(SegmentPoolTest, WhatHasWaitedLongestGoesWhenThereIsTooMuch) {
    PoolWithBooks small({.bytes = 3 * kMiB, .segments = 10, .age = 10s});
    std::vector<std::shared_ptr<Block>> blocks;
    for (int i = 0; i < 4; ++i) {
        blocks.push_back(small.take(kMiB));
    }
    for (auto& block : blocks) {
        now += 1ms;
        block.reset();
    }
    EXPECT_EQ(small.books->forgotten, Numbers{1});
    EXPECT_EQ(small.pool->totals().idle_bytes, 3 * kMiB);
    small.take(4 * kMiB).reset();
    EXPECT_EQ(small.books->forgotten, (Numbers{1, 2, 3, 4, 5})) << "what is larger than all that may wait never waits";
    EXPECT_EQ(small.pool->totals().bytes, 0u);
}

TEST_F(SegmentPoolTest, SegmentsThatWaitAreCounted) {
    PoolWithBooks small({.bytes = kMiB * kMiB, .segments = 2, .age = 10s});
    auto a = small.take(kMiB);
    auto b = small.take(kMiB);
    auto c = small.take(kPage);
    a.reset();
    now += 1ms;
    b.reset();
    now += 1ms;
    c.reset();
    EXPECT_EQ(small.books->forgotten, Numbers{1}) << "an empty arena counts like any other";
    EXPECT_EQ(small.pool->totals().idle_segments, 2u);
}

TEST_F(SegmentPoolTest, WhatWaitsTooLongGoes) {
    auto a = take(kMiB);
    auto b = take(2 * kMiB);
    auto arena = take(kPage);
    a.reset();
    now += 4s;
    b.reset();
    arena.reset();
    now += 5s;
    take(4 * kMiB).reset();
    EXPECT_EQ(books->forgotten, Numbers{}) << "nine seconds";
    now += 1s;
    auto other = take(4 * kMiB);
    EXPECT_EQ(books->forgotten, Numbers{1});
    now += 4s;
    other.reset();
    EXPECT_EQ(books->forgotten, (Numbers{1, 2, 3}));
    EXPECT_EQ(pool->totals().idle_segments, 1u);
}

// What waited stayed until the next allocation, if that was in a year.
TEST_F(SegmentPoolTest, WhatWaitsTooLongGoesAlsoIfNobodyTakesAnything) {
    take(kMiB).reset();
    now += 9s;
    EXPECT_TRUE(pool->expire());
    EXPECT_EQ(books->forgotten, Numbers{});
    now += 1s;
    EXPECT_FALSE(pool->expire()) << "nothing is left to look after";
    EXPECT_EQ(books->forgotten, Numbers{1});
    const auto used = take(kMiB);
    EXPECT_TRUE(pool->expire());
}

TEST_F(SegmentPoolTest, NothingWaitsWhereNothingMay) {
    PoolWithBooks none({.bytes = 0, .segments = 256, .age = 10s});
    none.take(kMiB).reset();
    none.take(kPage).reset();
    EXPECT_EQ(none.pool->totals().bytes, 0u);
    PoolWithBooks at_once({.bytes = kMiB, .segments = 256, .age = 0s});
    at_once.take(kMiB).reset();
    EXPECT_EQ(at_once.pool->totals().bytes, 0u);
}

TEST_F(SegmentPoolTest, LimitsComeFromTheEnvironment) {
    const auto with = [](const char* bytes, const char* seconds) {
        ::setenv("HURRAY_POOL_BYTES", bytes, 1);
        ::setenv("HURRAY_POOL_SECONDS", seconds, 1);
        auto limits = PoolLimits::from_environment();
        ::unsetenv("HURRAY_POOL_BYTES");
        ::unsetenv("HURRAY_POOL_SECONDS");
        return limits;
    };
    const auto defaults = with("", "");
    ASSERT_TRUE(defaults);
    EXPECT_EQ(defaults->bytes, 1024 * kMiB);
    EXPECT_EQ(defaults->age, 10s);
    const auto set = with("65536", "0");
    ASSERT_TRUE(set);
    EXPECT_EQ(set->bytes, 65536u);
    EXPECT_EQ(set->age, 0s);
    const auto bad = with("1G", "");
    ASSERT_FALSE(bad);
    EXPECT_EQ(bad.error().code, Errc::InvalidArgument);
    EXPECT_EQ(bad.error().field, "HURRAY_POOL_BYTES");
    EXPECT_FALSE(with("", "-1"));
    EXPECT_FALSE(with("9223372036854775808", ""));
}

// ---- When there is no room

TEST_F(SegmentPoolTest, WhatWaitsMakesRoomForWhatDoesNotFitBesideIt) {
    books->quota = 4 * kMiB;
    take(3 * kMiB).reset();
    const auto block = take(2 * kMiB);
    ASSERT_NE(block, nullptr);
    EXPECT_EQ(books->forgotten, Numbers{1});
    const auto refused = pool->take(3 * kMiB);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Errc::OverQuota);
    EXPECT_EQ(books->bytes(), 2 * kMiB);
}

TEST_F(SegmentPoolTest, ArenaTakesWhatIsLeftOfTheQuota) {
    books->quota = 192 * kKiB;
    std::vector<std::shared_ptr<Block>> blocks;
    while (auto block = take(64 * kKiB)) {
        blocks.push_back(std::move(block));
    }
    EXPECT_EQ(blocks.size(), 3u) << "the third arena would have had 128 KiB";
    EXPECT_EQ(books->bytes(), 192 * kKiB);
}

TEST_F(SegmentPoolTest, MemoryThatTheKernelRefusesIsNotReserved) {
    const auto refused = pool->take(UINT64_MAX / 2 / kPage * kPage);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Errc::NoSpace);
    EXPECT_EQ(books->bytes(), 0u);
    EXPECT_EQ(pool->totals().segments, 0u);
}

// ---- Arenas

TEST_F(SegmentPoolTest, SmallBlocksShareArenasThatGrow) {
    std::vector<std::shared_ptr<Block>> blocks;
    std::vector<std::uint64_t> sizes;
    for (int i = 0; i < 1024; ++i) {
        blocks.push_back(take(kPage));
        const std::uint64_t size = blocks.back()->segment().memory->size();
        if (blocks.back()->offset() == 0) {
            sizes.push_back(size / kKiB);
        }
    }
    EXPECT_EQ(sizes, (std::vector<std::uint64_t>{64, 64, 128, 256, 512, 1024, 1024, 1024}));
    EXPECT_EQ(books->asked, 8);
    EXPECT_EQ(pool->totals().arena_live_bytes, 4 * kMiB);
}

TEST_F(SegmentPoolTest, BlocksOfAnArenaDoNotOverlapAndBeginAtPages) {
    std::vector<std::shared_ptr<Block>> blocks;
    std::mt19937 random(7);
    for (int i = 0; i < 300; ++i) {
        blocks.push_back(take((1 + random() % 16) * kPage));
    }
    std::sort(blocks.begin(), blocks.end(), [](const auto& a, const auto& b) { return a->data() < b->data(); });
    for (std::size_t i = 0; i < blocks.size(); ++i) {
        EXPECT_EQ(blocks[i]->offset() % kPage, 0u);
        EXPECT_TRUE(i == 0 || blocks[i - 1]->data() + blocks[i - 1]->length() <= blocks[i]->data());
    }
}

TEST_F(SegmentPoolTest, RangeOfASpoiledBlockRetiresAndTheOthersGoOn) {
    auto a = take(kPage);
    auto b = take(kPage);
    a->spoil();
    a.reset();
    EXPECT_EQ(pool->totals().arena_retired_bytes, kPage);
    EXPECT_EQ(books->forgotten, Numbers{});
    b.reset();
    EXPECT_EQ(books->forgotten, Numbers{1}) << "nothing lives in it, and not all of it can be used again";
    EXPECT_EQ(pool->totals().arena_retired_bytes, 0u);
    EXPECT_EQ(pool->totals().arenas, 0u);

    auto c = take(kPage);
    auto d = take(kPage);
    const auto rest = take(kPage);
    c->spoil();
    c.reset();
    const std::byte* const reusable = d->data();
    d.reset();
    EXPECT_EQ(take(kPage)->data(), reusable);
}

TEST_F(SegmentPoolTest, EmptyArenaWaitsAndIsUsedAgain) {
    take(64 * kKiB).reset();
    EXPECT_EQ(pool->totals().idle_segments, 1u);
    const auto block = take(kPage);
    EXPECT_EQ(block->segment().number, 1u);
    EXPECT_EQ(pool->totals().idle_segments, 0u);
    EXPECT_EQ(pool->totals().made, 1u);
}

// Case A4: short-lived blocks come and go around long-lived ones, and the memory that is held stays near what is in use.
TEST_F(SegmentPoolTest, FragmentationStaysBoundedAmidLongLivedBlocks) {
    std::mt19937 random(42);
    std::vector<std::shared_ptr<Block>> long_lived;
    std::deque<std::shared_ptr<Block>> short_lived;
    std::uint64_t most_live = 0;
    std::uint64_t most_held = 0;
    for (int round = 0; round < 20'000; ++round) {
        auto block = take((1 + random() % 16) * kPage);
        if (round % 100 == 0) {
            long_lived.push_back(std::move(block));
        } else {
            short_lived.push_back(std::move(block));
        }
        if (short_lived.size() > 100) {
            const auto any = short_lived.begin() + static_cast<std::ptrdiff_t>(random() % 20);
            short_lived.erase(any);
        }
        const auto totals = pool->totals();
        most_live = std::max(most_live, totals.arena_live_bytes);
        most_held = std::max(most_held, totals.arena_bytes);
    }
    const auto totals = pool->totals();
    RecordProperty("most_live_bytes", std::to_string(most_live));
    RecordProperty("most_held_bytes", std::to_string(most_held));
    std::cout << "held at most " << most_held << " bytes for at most " << most_live << " in use\n";
    EXPECT_LE(most_held, most_live + most_live / 4 + SegmentPool::kLargestArena);
    EXPECT_EQ(totals.reused + totals.made, 20'000u);
}

// The worst for first fit: what is left pins a page of every sixteen.
TEST_F(SegmentPoolTest, WorstFragmentationIsWithinFirstFitsBound) {
    constexpr std::uint64_t kMost = 4 * kMiB;  // in use at a time
    std::vector<std::shared_ptr<Block>> blocks;
    std::uint64_t most_held = 0;
    // Fill with blocks of 1, 2, 4, 8 and 16 pages in turn, each time keeping of all that is there only what pins a stretch of the next size.
    for (std::uint64_t pages = 1; pages <= 16; pages *= 2) {
        while (pool->totals().arena_live_bytes + pages * kPage <= kMost) {
            blocks.push_back(take(pages * kPage));
        }
        most_held = std::max(most_held, pool->totals().arena_bytes);
        std::vector<std::shared_ptr<Block>> pins;
        const ProducerSegment* segment = nullptr;
        std::uint64_t stretch = 0;
        std::sort(blocks.begin(), blocks.end(), [](const auto& a, const auto& b) { return a->data() < b->data(); });
        for (auto& block : blocks) {
            const std::uint64_t its = block->offset() / (2 * pages * kPage);
            if (segment != &block->segment() || stretch != its) {
                segment = &block->segment();
                stretch = its;
                pins.push_back(std::move(block));
            }
        }
        blocks = std::move(pins);
    }
    std::cout << "held at most " << most_held << " bytes for at most " << kMost << " in use\n";
    EXPECT_GT(most_held, kMost) << "or the pattern pins nothing";
    EXPECT_LE(most_held, 4 * kMost + SegmentPool::kLargestArena) << "log2(16) times as much";
}

// ---- The end

TEST_F(SegmentPoolTest, ClosedPoolLetsGoAndKeepsNothing) {
    auto block = take(kMiB);
    auto small = take(kPage);
    take(2 * kMiB).reset();
    pool->close();
    EXPECT_EQ(books->forgotten, Numbers{3});
    block.reset();
    small.reset();
    EXPECT_EQ(books->forgotten, (Numbers{3, 1, 2}));
    EXPECT_EQ(pool->totals().bytes, 0u);
}

TEST_F(SegmentPoolTest, BlocksOutliveTheirPoolsOwnerAndItsBooks) {
    auto block = take(kMiB);
    pool->close();
    books.reset();
    pool.reset();
    std::memset(block->data(), 1, block->length());
    block.reset();
}

TEST_F(SegmentPoolTest, WithoutBooksThereIsNoNewSegment) {
    books.reset();
    const auto refused = pool->take(kMiB);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Errc::Closed);
}

TEST_F(SegmentPoolTest, QuietEndLeavesTheUnmappingToASweep) {
    PoolWithBooks none({.bytes = 0, .segments = 256, .age = 10s});
    auto block = none.take(kMiB);
    block->end_quietly();
    block.reset();
    EXPECT_TRUE(none.pool->needs_sweep());
    EXPECT_EQ(none.books->forgotten, Numbers{});
    none.pool->sweep();
    EXPECT_FALSE(none.pool->needs_sweep());
    EXPECT_EQ(none.books->forgotten, Numbers{1});
}

// ---- Immutable and foreign segments

TEST_F(SegmentPoolTest, ImmutableBlockHasASegmentOfItsOwnAndIsNeverUsedAgain) {
    auto small = take(kPage);
    auto block = pool->take_immutable(kPage).value();
    EXPECT_NE(&block->segment(), &small->segment());
    EXPECT_EQ(block->segment().kind, wire::Memory::Immutable);
    EXPECT_EQ(block->length(), kPage);
    EXPECT_EQ(books->reserved.at(block->segment().number), kPage);
    block->segment().known_in = 1;
    const std::uint64_t number = block->segment().number;
    block.reset();
    EXPECT_EQ(books->forgotten, Numbers{number});
    EXPECT_EQ(pool->totals().segments, 1u) << "the arena of the small one";
    EXPECT_EQ(pool->totals().idle_segments, 0u);
}

TEST_F(SegmentPoolTest, SegmentBecomesImmutableInPlaceOnce) {
    const auto block = pool->take_immutable(2 * kPage).value();
    std::memset(block->data(), 7, 2 * kPage);
    const WritableSegment& memory = *block->segment().memory;
    EXPECT_FALSE(memory.is_immutable());
    ASSERT_TRUE(memory.make_immutable());
    EXPECT_TRUE(memory.is_immutable());
    EXPECT_EQ(std::to_integer<int>(block->data()[2 * kPage - 1]), 7);
    EXPECT_TRUE(memory.make_immutable()) << "again";
    EXPECT_TRUE(wire::check_segment(memory.fd(), {.memory = wire::Memory::Immutable, .size = 2 * kPage}, {"s"}));
}

TEST_F(SegmentPoolTest, WhatElseIsMappedWritableStaysAsItWas) {
    const auto block = pool->take_immutable(kPage).value();
    const WritableSegment& memory = *block->segment().memory;
    void* const other = ::mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED, memory.fd(), 0);
    ASSERT_NE(other, MAP_FAILED);
    const auto refused = memory.make_immutable();
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Errc::InvalidArgument);
    EXPECT_EQ(refused.error().os_error, EBUSY);
    EXPECT_FALSE(memory.is_immutable());
    std::memset(block->data(), 3, kPage);
    EXPECT_EQ(*static_cast<const char*>(other), 3) << "it is the same memory still";
    ::munmap(other, kPage);
    EXPECT_TRUE(memory.make_immutable());
}

TEST_F(SegmentPoolTest, ForeignFileIsOneSegmentWhileACapsuleLiesInIt) {
    const auto mine = take(kMiB);
    const auto adopt = [&](std::uint64_t inode) {
        return pool->adopt(UniqueFd(::dup(mine->segment().fd())),
                           {.memory = wire::Memory::Immutable, .size = 5 * kPage, .file = {1, inode}});
    };
    auto first = adopt(100);
    auto second = adopt(100);
    auto other = adopt(200);
    EXPECT_EQ(&first->segment(), &second->segment());
    EXPECT_NE(first->segment().number, other->segment().number);
    EXPECT_NE(first->segment().number, mine->segment().number);
    EXPECT_EQ(first->segment().size(), 5 * kPage);
    EXPECT_EQ(first->segment().reservation, 0u);
    EXPECT_EQ(pool->totals().segments, 1u) << "it is not the pool's";
    const std::uint64_t number = first->segment().number;
    first.reset();
    EXPECT_EQ(books->forgotten, Numbers{});
    second.reset();
    EXPECT_EQ(books->forgotten, Numbers{number});
    EXPECT_EQ(books->unreserved, Numbers{});
    const auto again = adopt(100);
    EXPECT_GT(again->segment().number, other->segment().number) << "a number that was forgotten means nothing any more";
}

}  // namespace
}  // namespace hurray::client
