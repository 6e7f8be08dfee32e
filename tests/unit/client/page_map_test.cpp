#include "client/page_map.hpp"

#include <bitset>
#include <cstdint>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace hurray::client {
namespace {

TEST(PageMapTest, TakesTheLowestGapThatFits) {
    PageMap map(16);
    EXPECT_EQ(map.take(4), 0u);
    EXPECT_EQ(map.take(2), 4u);
    EXPECT_EQ(map.take(4), 6u);
    map.give_back(0, 4);
    map.give_back(6, 4);
    EXPECT_EQ(map.take(5), 6u) << "four were too few";
    EXPECT_EQ(map.take(4), 0u);
    EXPECT_EQ(map.take(6), std::nullopt);
    EXPECT_EQ(map.take(5), 11u);
    EXPECT_EQ(map.free(), 0u);
    EXPECT_EQ(map.take(1), std::nullopt);
}

TEST(PageMapTest, GapsReachOverWords) {
    PageMap map(PageMap::kMostPages);
    EXPECT_EQ(map.take(60), 0u);
    EXPECT_EQ(map.take(16), 60u);
    EXPECT_EQ(map.take(180), 76u);
    EXPECT_EQ(map.free(), 0u);
    map.give_back(60, 16);
    EXPECT_EQ(map.take(17), std::nullopt);
    EXPECT_EQ(map.take(16), 60u);
}

TEST(PageMapTest, NothingIsTakenBeyondTheEnd) {
    PageMap map(5);
    EXPECT_EQ(map.take(6), std::nullopt);
    EXPECT_EQ(map.take(3), 0u);
    EXPECT_EQ(map.take(3), std::nullopt);
    EXPECT_EQ(map.take(2), 3u);
}

TEST(PageMapTest, RetiredPagesAreNeverTakenAgain) {
    PageMap map(4);
    EXPECT_EQ(map.take(2), 0u);
    map.retire(2);
    EXPECT_EQ(map.live(), 0u);
    EXPECT_EQ(map.retired(), 2u);
    EXPECT_EQ(map.free(), 2u);
    EXPECT_EQ(map.take(2), 2u);
    map.give_back(2, 2);
    EXPECT_EQ(map.take(3), std::nullopt);
}

TEST(PageMapTest, AgreesWithASimpleModelOverManyRounds) {
    std::mt19937 random(6);
    for (const std::uint32_t size : {1u, 63u, 64u, 65u, 200u, 256u}) {
        PageMap map(size);
        std::bitset<256> taken;
        std::vector<std::pair<std::uint32_t, std::uint32_t>> blocks;
        for (int round = 0; round < 2000; ++round) {
            const std::uint32_t count = 1 + static_cast<std::uint32_t>(random() % 16);
            std::optional<std::uint32_t> expected;
            for (std::uint32_t first = 0; !expected && first + count <= size; ++first) {
                bool is_free = true;
                for (std::uint32_t page = first; page < first + count; ++page) {
                    is_free = is_free && !taken[page];
                }
                if (is_free) {
                    expected = first;
                }
            }
            ASSERT_EQ(map.take(count), expected);
            if (expected) {
                for (std::uint32_t page = *expected; page < *expected + count; ++page) {
                    taken[page] = true;
                }
                blocks.emplace_back(*expected, count);
            }
            if (!blocks.empty() && (!expected || random() % 3 == 0)) {
                std::swap(blocks.at(random() % blocks.size()), blocks.back());
                const auto [first, pages] = blocks.back();
                blocks.pop_back();
                map.give_back(first, pages);
                for (std::uint32_t page = first; page < first + pages; ++page) {
                    taken[page] = false;
                }
            }
            ASSERT_EQ(map.live(), taken.count());
        }
    }
}

}  // namespace
}  // namespace hurray::client
