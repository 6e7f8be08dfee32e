#include <cstdint>
#include <limits>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "libhurray/base/checked_math.hpp"
#include "libhurray/base/unique_fd.hpp"

namespace hurray {
namespace {

constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();

bool is_open(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }

TEST(CheckedMath, AddingPastTheLargestNumberGivesNothing) {
    EXPECT_EQ(checked_add<std::uint64_t>(kMax - 1, 1), kMax);
    EXPECT_EQ(checked_add<std::uint64_t>(kMax, 1), std::nullopt);
}

TEST(CheckedMath, MultiplyingPastTheLargestNumberGivesNothing) {
    EXPECT_EQ(checked_mul<std::uint64_t>(std::uint64_t{1} << 32, (std::uint64_t{1} << 32) - 1), kMax - 0xFFFFFFFF);
    EXPECT_EQ(checked_mul<std::uint64_t>(std::uint64_t{1} << 32, std::uint64_t{1} << 32), std::nullopt);
}

TEST(CheckedMath, AligningUpNeverWrapsToZero) {
    EXPECT_EQ(checked_align_up(65, 64), 128U);
    EXPECT_EQ(checked_align_up(64, 64), 64U);
    EXPECT_EQ(checked_align_up(kMax, 64), std::nullopt);
}

TEST(CheckedMath, ARangeThatWouldWrapDoesNotFit) {
    EXPECT_TRUE(range_fits(8, 8, 16));
    EXPECT_FALSE(range_fits(9, 8, 16));
    EXPECT_FALSE(range_fits(8, kMax - 4, 16));
}

TEST(UniqueFd, DestroyingTheOwnerClosesTheDescriptor) {
    const int fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    ASSERT_GE(fd, 0);
    {
        const UniqueFd owner(fd);
    }
    EXPECT_FALSE(is_open(fd));
}

TEST(UniqueFd, MovingHandsTheDescriptorOver) {
    UniqueFd from(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    const int fd = from.get();
    UniqueFd to;
    to = std::move(from);
    EXPECT_EQ(to.get(), fd);
    EXPECT_FALSE(static_cast<bool>(from));  // NOLINT(bugprone-use-after-move): that it is empty is the point
    EXPECT_TRUE(is_open(fd));
}

TEST(UniqueFd, ReleasedDescriptorStaysOpen) {
    UniqueFd owner(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    const UniqueFd other(owner.release());
    EXPECT_FALSE(static_cast<bool>(owner));
    EXPECT_TRUE(is_open(other.get()));
}

}  // namespace
}  // namespace hurray
