#include "libhurray/format/extent.hpp"

#include <limits>
#include <optional>

#include <gtest/gtest.h>

#include "tests/support/sample_descriptors.hpp"

namespace hurray {
namespace {

constexpr std::int64_t kMinStride = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kMaxStride = std::numeric_limits<std::int64_t>::max();
constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();

/// The extent, or nothing where it overflows.
class Extent : public testing::Test {
  protected:
    DescriptorResult<ByteExtent> linear(const std::vector<std::uint64_t>& shape, std::uint32_t bits) {
        return dense_extent(Shape(test::pack(shape, shape_)), Layout{}, bits);
    }
    DescriptorResult<ByteExtent> strided(const std::vector<std::uint64_t>& shape,
                                         const std::vector<std::int64_t>& strides, std::uint32_t bits) {
        const Layout layout{LayoutTag::Strided, StridedLayout{test::pack(strides, strides_)}};
        return dense_extent(Shape(test::pack(shape, shape_)), layout, bits);
    }

    std::vector<std::uint8_t> shape_;
    std::vector<std::uint8_t> strides_;
};

void expect_extent(const DescriptorResult<ByteExtent>& extent, std::uint64_t below, std::uint64_t above) {
    ASSERT_TRUE(extent) << describe(extent.error());
    EXPECT_EQ(extent->below, below);
    EXPECT_EQ(extent->above, above);
}

void expect_fault(const DescriptorResult<ByteExtent>& extent, Fault fault) {
    ASSERT_FALSE(extent);
    EXPECT_EQ(extent.error().fault, fault);
}

TEST_F(Extent, LinearTensorTakesTheProductOfItsSizes) { expect_extent(linear({3, 4}, 32), 0, 48); }

TEST_F(Extent, ScalarTakesOneElement) { expect_extent(linear({}, 64), 0, 8); }

TEST_F(Extent, EmptyTensorTakesNothingWhateverTheOtherSizesAre) {
    expect_extent(linear({kMax - 1, 0, kMax - 1}, 128), 0, 0);
    expect_extent(strided({0, 5}, {kMinStride, kMaxStride}, 64), 0, 0);
}

// The packing examples of the written format.
TEST_F(Extent, PackedTypesTakeWholeBytes) {
    expect_extent(linear({9}, 1), 0, 2);
    expect_extent(linear({5}, 2), 0, 2);
    expect_extent(linear({3}, 4), 0, 2);
    expect_extent(linear({4}, 6), 0, 3);
    expect_extent(linear({5}, 6), 0, 6);
    expect_extent(linear({1}, 6), 0, 3);
}

// The strided example of the written format: strides 3 and -1, float32, bytes 0 to 23 around byte offset 8.
TEST_F(Extent, NegativeStrideReachesBelow) { expect_extent(strided({2, 3}, {3, -1}, 32), 8, 16); }

TEST_F(Extent, ZeroStrideSharesStorage) { expect_extent(strided({1000, 4}, {0, 1}, 32), 0, 16); }

TEST_F(Extent, NegativeStrideOfAPackedTypeRoundsDown) {
    expect_extent(strided({2}, {-1}, 4), 1, 1);
    expect_extent(strided({3}, {-1}, 4), 1, 1);
    expect_extent(strided({4}, {-1}, 4), 2, 1);
    expect_extent(strided({2}, {-1}, 6), 3, 3);
    expect_extent(strided({6}, {-1}, 6), 6, 3);
}

TEST_F(Extent, LargestSizeIsExact) {
    expect_extent(linear({kMax - 1}, 8), 0, kMax - 1);
    expect_extent(linear({std::uint64_t{1} << 63, 2 - 1}, 8), 0, std::uint64_t{1} << 63);
    // 2^64 - 2 elements of one bit, in 2^61 bytes.
    expect_extent(linear({kMax - 1}, 1), 0, std::uint64_t{1} << 61);
}

TEST_F(Extent, SizePast64BitsOverflowsInsteadOfWrapping) {
    expect_fault(linear({std::uint64_t{1} << 32, std::uint64_t{1} << 32}, 8), Fault::ElementsOverflow);
    expect_fault(linear({std::uint64_t{1} << 62}, 32), Fault::ElementsOverflow);
    expect_fault(linear({std::uint64_t{1} << 63}, 16), Fault::ElementsOverflow);
}

TEST_F(Extent, StridesNearTheLimitsAreExact) {
    expect_extent(strided({2}, {kMaxStride}, 8), 0, std::uint64_t{1} << 63);
    expect_extent(strided({2}, {kMinStride}, 8), std::uint64_t{1} << 63, 1);
    expect_extent(strided({3}, {kMaxStride}, 8), 0, kMax);
    expect_extent(strided({2, 2}, {kMaxStride, kMinStride}, 8), std::uint64_t{1} << 63, std::uint64_t{1} << 63);
    expect_fault(strided({3}, {kMinStride}, 8), Fault::ElementsOverflow);
    expect_fault(strided({4}, {kMaxStride}, 8), Fault::ElementsOverflow);
    expect_fault(strided({2}, {kMaxStride}, 32), Fault::ElementsOverflow);
}

TEST_F(Extent, ManyHugeStridesOverflowInsteadOfWrapping) {
    const std::vector<std::uint64_t> shape(kMaxRank, kMax - 1);
    expect_fault(strided(shape, std::vector<std::int64_t>(kMaxRank, kMaxStride), 8), Fault::ElementsOverflow);
    expect_fault(strided(shape, std::vector<std::int64_t>(kMaxRank, kMinStride), 8), Fault::ElementsOverflow);
}

TEST_F(Extent, DynamicDimensionHasNoSize) { expect_fault(linear({0, kDynamicDim}, 32), Fault::InvalidShape); }

TEST_F(Extent, NeededSizeCountsTheOffsetAndRefusesToReachBelowTheBuffer) {
    EXPECT_EQ(needed_byte_size(8, {8, 16}).value(), 24U);
    EXPECT_EQ(needed_byte_size(7, {8, 16}).error().fault, Fault::ElementsBeforeBuffer);
    EXPECT_EQ(needed_byte_size(kMax, {0, 1}).error().fault, Fault::ElementsOverflow);
}

TEST_F(Extent, ImpliedStridesFollowTheOrder) {
    const Shape shape(test::pack<std::uint64_t>({2, 5, 3}, shape_));
    std::vector<std::int64_t> strides(3);
    ASSERT_TRUE(implied_strides(shape, LayoutTag::RowMajor, strides));
    EXPECT_EQ(strides, (std::vector<std::int64_t>{15, 3, 1}));
    ASSERT_TRUE(implied_strides(shape, LayoutTag::ColumnMajor, strides));
    EXPECT_EQ(strides, (std::vector<std::int64_t>{1, 2, 10}));
}

TEST_F(Extent, SlowestDimensionMayBeDynamicWhereOnlyStridesAreAsked) {
    const Shape shape(test::pack<std::uint64_t>({kDynamicDim, 4}, shape_));
    std::vector<std::int64_t> strides(2);
    ASSERT_TRUE(implied_strides(shape, LayoutTag::RowMajor, strides));
    EXPECT_EQ(strides, (std::vector<std::int64_t>{4, 1}));
    EXPECT_EQ(implied_strides(shape, LayoutTag::ColumnMajor, strides).error().fault, Fault::InvalidShape);
}

TEST_F(Extent, ImpliedStridePast63BitsOverflows) {
    const Shape shape(test::pack<std::uint64_t>({1, std::uint64_t{1} << 32, std::uint64_t{1} << 31}, shape_));
    std::vector<std::int64_t> strides(3);
    EXPECT_EQ(implied_strides(shape, LayoutTag::RowMajor, strides).error().fault, Fault::ElementsOverflow);
}

}  // namespace
}  // namespace hurray
