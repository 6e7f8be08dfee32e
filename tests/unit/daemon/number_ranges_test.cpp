#include "daemon/number_ranges.hpp"

#include <gtest/gtest.h>

namespace hurrayd {
namespace {

TEST(NumberRanges, RememberWhatWasInsertedInAnyOrder) {
    NumberRanges numbers;
    for (const std::uint64_t n : {5ULL, 1ULL, 3ULL, 2ULL, 9ULL, 4ULL, ~0ULL, 5ULL}) {
        numbers.insert(n);
    }
    for (const std::uint64_t n : {1ULL, 2ULL, 3ULL, 4ULL, 5ULL, 9ULL, ~0ULL}) {
        EXPECT_TRUE(numbers.contains(n)) << n;
    }
    for (const std::uint64_t n : {0ULL, 6ULL, 8ULL, 10ULL, ~0ULL - 1}) {
        EXPECT_FALSE(numbers.contains(n)) << n;
    }
    EXPECT_EQ(numbers.size(), 3U);
}

TEST(NumberRanges, TakeInAllBelow) {
    NumberRanges numbers;
    for (const std::uint64_t n : {2ULL, 7ULL, 8ULL, 20ULL}) {
        numbers.insert(n);
    }
    numbers.insert_up_to(6);
    EXPECT_TRUE(numbers.contains(0) && numbers.contains(8));
    EXPECT_FALSE(numbers.contains(9) || numbers.contains(19));
    EXPECT_EQ(numbers.size(), 2U);
}

TEST(NumberRanges, AreMadeFewerFromBelow) {
    NumberRanges numbers;
    for (const std::uint64_t n : {2ULL, 4ULL, 6ULL}) {
        numbers.insert(n);
    }
    numbers.close_lowest_gap();
    EXPECT_TRUE(numbers.contains(3));
    EXPECT_FALSE(numbers.contains(5));
    numbers.drop_lowest();
    EXPECT_FALSE(numbers.contains(2) || numbers.contains(4));
    EXPECT_TRUE(numbers.contains(6));
    EXPECT_EQ(numbers.size(), 1U);
}

}  // namespace
}  // namespace hurrayd
