#include "daemon/token_bucket.hpp"

#include <gtest/gtest.h>

namespace hurrayd {
namespace {

using namespace std::chrono_literals;

const TokenBucket::Time kStart{1h};

TEST(TokenBucket, IsFullAtFirstAndGetsSoManyASecond) {
    TokenBucket bucket({.per_second = 10, .burst = 3});
    EXPECT_TRUE(bucket.is_limited());
    EXPECT_EQ(bucket.available(kStart), 3u);
    bucket.take(3, kStart);
    EXPECT_EQ(bucket.available(kStart), 0u);
    EXPECT_EQ(bucket.next(), kStart + 100ms);
    EXPECT_EQ(bucket.available(kStart + 99ms), 0u);
    EXPECT_EQ(bucket.available(kStart + 100ms), 1u);
    EXPECT_EQ(bucket.available(kStart + 250ms), 2u);
    bucket.take(2, kStart + 250ms);
    EXPECT_EQ(bucket.next(), kStart + 300ms);
}

TEST(TokenBucket, HoldsNoMoreThanItsBurstHoweverLongTheSilence) {
    TokenBucket bucket({.per_second = 10, .burst = 3});
    bucket.take(3, kStart);
    EXPECT_EQ(bucket.available(kStart + 1h), 3u);
    bucket.take(1, kStart + 1h);
    EXPECT_EQ(bucket.available(kStart + 1h), 2u);
}

TEST(TokenBucket, TakesTheFastestAndTheLargest) {
    TokenBucket bucket({.per_second = 1'000'000'000, .burst = 1'000'000'000});
    bucket.take(1'000'000'000, kStart);
    EXPECT_EQ(bucket.available(kStart + 5ns), 5u);
    TokenBucket slow({.per_second = 1, .burst = 1'000'000'000});
    slow.take(1'000'000'000, kStart);
    EXPECT_EQ(slow.available(kStart), 0u);
    EXPECT_EQ(slow.next(), kStart + 1s);
}

TEST(TokenBucket, WithoutARateNothingIsLimited) { EXPECT_FALSE(TokenBucket({}).is_limited()); }

}  // namespace
}  // namespace hurrayd
