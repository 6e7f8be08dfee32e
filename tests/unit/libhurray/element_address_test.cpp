#include "libhurray/format/element_address.hpp"

#include <limits>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "libhurray/format/element_offset.hpp"
#include "libhurray/format/extent.hpp"
#include "tests/support/sample_descriptors.hpp"
#include "tests/support/sample_layouts.hpp"

namespace hurray {
namespace {

using test::SampleTensor;
using Index = std::vector<std::uint64_t>;
using Strides = std::vector<std::int64_t>;

constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();
constexpr std::int64_t kMinStride = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kMaxStride = std::numeric_limits<std::int64_t>::max();

/// A tensor of bytes in one buffer of `size` bytes.
struct Bytes : SampleTensor {
    explicit Bytes(const Index& shape, std::uint64_t size = kMax)
        : SampleTensor(ElementType::UInt8, shape, {test::cpu_buffer(size)}) {}

    /// The byte, or what went wrong.
    [[nodiscard]] std::string at(const Index& index) const {
        const auto address = element_address(view, index);
        return address ? std::to_string(address->byte) : std::string(fault_name(address.error().fault));
    }
    /// The element offset, negative ones too.
    [[nodiscard]] std::int64_t offset(const Index& index) const {
        return static_cast<std::int64_t>(element_offset(view.shape, view.layout, index).value());
    }
};

/// Every index of a shape, the last dimension fastest.
std::vector<Index> all_indices(const Index& shape) {
    std::vector<Index> all{{}};
    for (const std::uint64_t size : shape) {
        std::vector<Index> longer;
        for (const Index& prefix : all) {
            for (std::uint64_t i = 0; i < size; ++i) {
                longer.push_back(prefix);
                longer.back().push_back(i);
            }
        }
        all = std::move(longer);
    }
    return all;
}

const std::vector<Index> kSmallShapes{{}, {1}, {7}, {2, 5, 3}, {3, 1, 4, 2}, {1, 1, 1}, {2, 2, 2, 2, 2}};

// ---- Row-major, column-major, strided ------------------------------------------------------------------------------

TEST(ElementAddress, ExamplesOfTheFormat) {
    Bytes dense({2, 5, 3});
    EXPECT_EQ(dense.offset({1, 3, 2}), 26);
    dense.view.layout.tag = LayoutTag::ColumnMajor;
    EXPECT_EQ(dense.offset({1, 3, 2}), 27);

    SampleTensor strided(ElementType::Float32, {2, 3}, {test::cpu_buffer(24)});
    strided.view.byte_offset = 8;
    strided.set_strides({3, -1});
    EXPECT_EQ(element_address(strided.view, Index{1, 2})->byte, 12U);
}

TEST(ElementAddress, RowMajorCountsEveryElementInTurn) {
    for (const Index& shape : kSmallShapes) {
        const Bytes dense(shape);
        std::int64_t expected = 0;
        for (const Index& index : all_indices(shape)) {
            ASSERT_EQ(dense.offset(index), expected++);
        }
    }
}

TEST(ElementAddress, ColumnMajorIsRowMajorOfTheReversedShape) {
    for (const Index& shape : kSmallShapes) {
        Bytes column(shape);
        column.view.layout.tag = LayoutTag::ColumnMajor;
        const Bytes row(Index(shape.rbegin(), shape.rend()));
        for (const Index& index : all_indices(shape)) {
            ASSERT_EQ(column.offset(index), row.offset(Index(index.rbegin(), index.rend())));
        }
    }
}

TEST(ElementAddress, StridedIsTheSumOfIndexTimesStride) {
    const Index shape{3, 4, 2};
    for (const Strides& strides : {Strides{8, 2, 1}, Strides{-8, 2, -1}, Strides{0, 0, 0}, Strides{0, 1, -100}}) {
        Bytes tensor(shape);
        tensor.set_strides(strides);
        for (const Index& index : all_indices(shape)) {
            std::int64_t expected = 0;
            for (std::size_t k = 0; k < shape.size(); ++k) {
                expected += static_cast<std::int64_t>(index[k]) * strides[k];
            }
            ASSERT_EQ(tensor.offset(index), expected);
        }
    }
}

TEST(ElementAddress, StridedStaysInsideTheExtentOfItsElements) {
    SampleTensor tensor(ElementType::Float32, {3, 4}, {test::cpu_buffer(1000)});
    for (std::int64_t a = -5; a <= 5; ++a) {
        for (std::int64_t b = -5; b <= 5; ++b) {
            tensor.set_strides({a, b});
            const auto extent = dense_extent(tensor.view.shape, tensor.view.layout, 32).value();
            tensor.view.byte_offset = extent.below;
            tensor.set_buffers({test::cpu_buffer(extent.below + extent.above)});
            std::uint64_t lowest = kMax;
            std::uint64_t end = 0;
            for (const Index& index : all_indices({3, 4})) {
                const auto address = element_address(tensor.view, index);
                ASSERT_TRUE(address) << describe(address.error());
                lowest = std::min(lowest, address->byte);
                end = std::max(end, address->byte + 4);
            }
            EXPECT_EQ(lowest, 0U);
            EXPECT_EQ(end, extent.below + extent.above);
        }
    }
}

// ---- Bytes and bits ------------------------------------------------------------------------------------------------

TEST(ElementAddress, PackedElementsHaveTheBitsOfTheFormat) {
    struct Packed {
        ElementType type;
        std::uint32_t bits;
    };
    for (const Packed packed :
         {Packed{ElementType::Bool, 1}, Packed{ElementType::UInt2, 2}, Packed{ElementType::Int4, 4}}) {
        SampleTensor tensor(packed.type, {100}, {test::cpu_buffer(1000)});
        tensor.view.byte_offset = 3;
        for (std::uint64_t i = 0; i < 100; ++i) {
            const auto address = element_address(tensor.view, Index{i}).value();
            EXPECT_EQ(address.byte * 8 + address.bit, 3 * 8 + i * packed.bits);
            EXPECT_LT(address.bit, 8U);
            EXPECT_EQ(address.storage.group_bytes, 1U);
        }
    }
    SampleTensor tensor(ElementType::Float6E2M3, {100}, {test::cpu_buffer(1000)});
    tensor.view.byte_offset = 5;
    for (std::uint64_t i = 0; i < 100; ++i) {
        const auto address = element_address(tensor.view, Index{i}).value();
        EXPECT_EQ(address.byte, 5 + 3 * (i / 4));
        EXPECT_EQ(address.bit, 6 * (i % 4));
        EXPECT_EQ(address.storage.group_bytes, 3U);
    }
}

TEST(ElementAddress, PackedElementsBeforeTheFirstAreInTheByteBelow) {
    SampleTensor tensor(ElementType::Int4, {4}, {test::cpu_buffer(10)});
    tensor.view.byte_offset = 2;
    tensor.set_strides({-1});
    const auto at = [&](std::uint64_t i) { return element_address(tensor.view, Index{i}).value(); };
    EXPECT_EQ(at(0), (ElementAddress{0, 2, 0, {}}));
    EXPECT_EQ(at(1), (ElementAddress{0, 1, 4, {}}));  // offset -1: the upper half of byte 1
    EXPECT_EQ(at(2), (ElementAddress{0, 1, 0, {}}));
    EXPECT_EQ(at(3), (ElementAddress{0, 0, 4, {}}));
}

TEST(ElementAddress, PrivateTypeIsAsWideAsItsDescriptorSays) {
    SampleTensor tensor(static_cast<ElementType>(0xF3), {10}, {test::cpu_buffer(30)});
    tensor.view.extension_type = ExtensionType{};
    tensor.view.extension_type->bit_width = 24;
    EXPECT_EQ(element_address(tensor.view, Index{9})->byte, 27U);
    tensor.view.extension_type->bit_width = 12;
    EXPECT_EQ(element_address(tensor.view, Index{9}).error().fault, Fault::InvalidExtensionType);
}

// ---- Limits --------------------------------------------------------------------------------------------------------

TEST(ElementAddress, BytesAreExactUpToTheLastOfABufferOf64Bits) {
    EXPECT_EQ(Bytes({kMax - 1}).at({kMax - 2}), std::to_string(kMax - 2));
    EXPECT_EQ(Bytes({std::uint64_t{1} << 63, 2}).at({(std::uint64_t{1} << 63) - 1, 0}), std::to_string(kMax - 1));
    EXPECT_EQ(Bytes({std::uint64_t{1} << 63, 2}).at({(std::uint64_t{1} << 63) - 1, 1}), "ByteAddressOverflow");
    EXPECT_EQ(Bytes({std::uint64_t{1} << 63, 3}).at({(std::uint64_t{1} << 63) - 1, 2}), "AddressOverflow");
    EXPECT_EQ(Bytes({kMax - 1, kMax - 1, kMax - 1}).at({kMax - 2, 0, 0}), "AddressOverflow");
    EXPECT_EQ(Bytes({kMax - 1, kMax - 1, kMax - 1}).at({0, 0, kMax - 2}), std::to_string(kMax - 2));
}

TEST(ElementAddress, ByteOffsetCountsTowardTheLimit) {
    Bytes tensor({10});
    tensor.view.byte_offset = kMax - 5;
    EXPECT_EQ(tensor.at({4}), std::to_string(kMax - 1));
    EXPECT_EQ(tensor.at({5}), "ByteAddressOverflow");
    EXPECT_EQ(tensor.at({6}), "AddressOverflow");
}

TEST(ElementAddress, LargeStridesCancelExactly) {
    Bytes cancel({3, 3, 3});
    cancel.set_strides({kMaxStride, kMinStride, 1});
    EXPECT_EQ(cancel.offset({2, 2, 2}), 0);  // 2(2^63 - 1) - 2*2^63 + 2
    EXPECT_EQ(cancel.at({2, 2, 2}), "0");
    EXPECT_EQ(cancel.at({1, 1, 1}), "0");
    EXPECT_EQ(cancel.at({2, 1, 2}), std::to_string(std::uint64_t{1} << 63));  // 2^63 - 2 + 2
    EXPECT_EQ(cancel.at({0, 1, 0}), "ByteAddressOverflow");                   // -2^63: before the buffer
    EXPECT_EQ(cancel.at({0, 2, 0}), "AddressOverflow");                       // -2^64: no 64-bit number
}

TEST(ElementAddress, LargestStrideTimesLargestIndexOverflowsNothing) {
    Bytes tensor(Index(kMaxRank, kMax - 1));
    tensor.set_strides(Strides(kMaxRank, kMinStride));
    EXPECT_EQ(tensor.at(Index(kMaxRank, kMax - 2)), "AddressOverflow");
    tensor.set_strides(Strides(kMaxRank, kMaxStride));
    EXPECT_EQ(tensor.at(Index(kMaxRank, kMax - 2)), "AddressOverflow");
    EXPECT_EQ(tensor.at(Index(kMaxRank, 0)), "0");
}

TEST(ElementAddress, BitsReachPast64BitsOfElements) {
    SampleTensor tensor(ElementType::Bool, {8, std::uint64_t{1} << 63}, {test::cpu_buffer(kMax)});
    const auto address = element_address(tensor.view, Index{7, (std::uint64_t{1} << 63) - 3}).value();
    EXPECT_EQ(address.byte, kMax >> 1);  // bit 2^66 - 3: byte 2^63 - 1
    EXPECT_EQ(address.bit, 5U);
}

TEST(ElementAddress, OnlyTheFirstByteHasToBeInsideTheBuffer) {
    SampleTensor tensor(ElementType::Float32, {2}, {test::cpu_buffer(5)});
    EXPECT_EQ(element_address(tensor.view, Index{1})->byte, 4U);
    tensor.set_buffers({test::cpu_buffer(4)});
    const auto outside = element_address(tensor.view, Index{1});
    ASSERT_FALSE(outside);
    EXPECT_EQ(describe(outside.error()),
              "the element begins at byte 4 of buffers[0], which has 4 (ByteAddressOverflow)");
}

// ---- Refusals, in the format's order -------------------------------------------------------------------------------

TEST(ElementAddress, IndexIsJudgedByRankThenDimensionByDimension) {
    EXPECT_EQ(Bytes({2, 3}).at({1}), "IndexRankMismatch");
    EXPECT_EQ(Bytes({2, 3}).at({1, 1, 1}), "IndexRankMismatch");
    EXPECT_EQ(Bytes({}).at({0}), "IndexRankMismatch");
    EXPECT_EQ(Bytes({kDynamicDim, 3}).at({1, 3}), "DynamicDimInIndexing");
    EXPECT_EQ(Bytes({3, kDynamicDim}).at({3, 1}), "IndexOutOfRange");
    EXPECT_EQ(Bytes({2, 0}).at({0, 0}), "IndexOutOfRange");
    const auto error = element_address(Bytes({2, 3}).view, Index{1, 7}).error();
    EXPECT_EQ(describe(error), "index[1] is 7, there are 3 (IndexOutOfRange)");
    EXPECT_EQ(to_errc(error.fault), Errc::Internal);
}

TEST(ElementAddress, LayoutsWithoutAnElementOffsetAreRefusedByName) {
    Bytes tensor({2, 3});
    tensor.view.layout = {LayoutTag::Coo, CooLayout{}};
    EXPECT_EQ(tensor.at({0, 0}), "LayoutRequiresMultiBuffer");
    EXPECT_EQ(tensor.at({0, 3}), "IndexOutOfRange");
    tensor.view.layout = {LayoutTag::BlockPaged, BlockPagedLayout{}};
    EXPECT_EQ(tensor.at({0, 0}), "LayoutRequiresMultiBuffer");
    tensor.view.layout = {LayoutTag::CompositeHead, CompositeHeadLayout{}};
    EXPECT_EQ(tensor.at({0, 0}), "LayoutIsVirtual");
    tensor.view.layout = {static_cast<LayoutTag>(0xF0), PrivateLayout{}};
    EXPECT_EQ(tensor.at({0, 0}), "PrivateLayoutTag");
    EXPECT_EQ(to_errc(Fault::PrivateLayoutTag), Errc::InvalidLayout);
}

// ---- Tiled ---------------------------------------------------------------------------------------------------------

using test::TiledPayload;
using test::TileLevel;

/// The written procedure, one dimension-list at a time and in no hurry, for numbers that fit.
std::int64_t slow_position(LayoutTag order, const Strides& strides, const Index& sizes, const Index& at) {
    std::int64_t sum = 0;
    for (std::size_t k = 0; k < at.size(); ++k) {
        std::int64_t stride = 1;
        if (order == LayoutTag::Strided) {
            stride = strides[k];
        }
        for (std::size_t m = 0; m < at.size() && order != LayoutTag::Strided; ++m) {
            if (order == LayoutTag::RowMajor ? m > k : m < k) {
                stride *= static_cast<std::int64_t>(sizes[m]);
            }
        }
        sum += stride * static_cast<std::int64_t>(at[k]);
    }
    return sum;
}

std::int64_t slow_tiled(const Index& extent, const std::vector<TileLevel>& levels, std::size_t number,
                        const Index& index) {
    const TileLevel& level = levels[number];
    Index tile;
    Index inside;
    Index grid;
    std::int64_t volume = 1;
    for (std::size_t k = 0; k < index.size(); ++k) {
        tile.push_back(index[k] / level.shape[k]);
        inside.push_back(index[k] % level.shape[k]);
        grid.push_back((extent[k] + level.shape[k] - 1) / level.shape[k]);
        volume *= static_cast<std::int64_t>(level.shape[k]);
    }
    const std::int64_t rest = level.inner == LayoutTag::Tiled
                                  ? slow_tiled(level.shape, levels, number + 1, inside)
                                  : slow_position(level.inner, level.inner_strides, level.shape, inside);
    return slow_position(level.outer, level.outer_strides, grid, tile) * volume + rest;
}

constexpr auto kRow = LayoutTag::RowMajor;
constexpr auto kColumn = LayoutTag::ColumnMajor;
constexpr auto kStrided = LayoutTag::Strided;
constexpr auto kTiled = LayoutTag::Tiled;

TEST(TiledAddress, ExamplesOfTheFormat) {
    const TiledPayload flat({{{2, 3}, kRow, kColumn, {}, {}}});
    Bytes tensor({5, 6});
    tensor.view.layout = flat.layout();
    EXPECT_EQ(tensor.offset({3, 4}), 21);

    const TiledPayload nested({{{4, 4}, kRow, kTiled, {}, {}}, {{2, 2}, kColumn, kRow, {}, {}}});
    Bytes square({8, 8});
    square.view.layout = nested.layout();
    EXPECT_EQ(square.offset({5, 6}), 58);
}

TEST(TiledAddress, EveryElementOfSmallTensorsIsWhereTheWrittenProcedureHasIt) {
    const std::vector<std::vector<TileLevel>> samples{
        {{{2, 3}, kRow, kRow, {}, {}}},
        {{{2, 3}, kColumn, kColumn, {}, {}}},
        {{{5, 1}, kRow, kColumn, {}, {}}},
        {{{100, 100}, kColumn, kRow, {}, {}}},
        {{{2, 2}, kStrided, kStrided, {-3, 7}, {1, -2}}},
        {{{4, 4}, kRow, kTiled, {}, {}}, {{2, 2}, kColumn, kRow, {}, {}}},
        {{{4, 6}, kStrided, kTiled, {1, 2}, {}},
         {{3, 4}, kRow, kTiled, {}, {}},
         {{2, 2}, kStrided, kStrided, {5, -1}, {2, 1}}},
        {{{8, 8}, kRow, kTiled, {}, {}},
         {{7, 7}, kColumn, kTiled, {}, {}},
         {{6, 6}, kRow, kTiled, {}, {}},
         {{5, 5}, kColumn, kTiled, {}, {}},
         {{4, 4}, kRow, kTiled, {}, {}},
         {{3, 3}, kColumn, kTiled, {}, {}},
         {{2, 2}, kRow, kTiled, {}, {}},
         {{1, 1}, kRow, kRow, {}, {}}},
    };
    for (const auto& levels : samples) {
        const TiledPayload payload(levels);
        for (const Index& shape : {Index{5, 7}, Index{8, 8}, Index{1, 9}}) {
            Bytes tensor(shape);
            tensor.view.layout = payload.layout();
            for (const Index& index : all_indices(shape)) {
                ASSERT_EQ(tensor.offset(index), slow_tiled(shape, levels, 0, index))
                    << levels.size() << " levels, " << index[0] << ' ' << index[1];
            }
        }
    }
}

// Only tiles that divide the enclosing one: the format counts a tile as the product of its sizes, and its nested tiles, if
// they stick out of it, take more.
TEST(TiledAddress, WithoutStridesNoTwoElementsShareAnOffset) {
    const TiledPayload payload({{{4, 2, 6}, kColumn, kTiled, {}, {}}, {{2, 2, 3}, kRow, kColumn, {}, {}}});
    const Index shape{4, 5, 6};
    Bytes tensor(shape);
    tensor.view.layout = payload.layout();
    std::set<std::int64_t> seen;
    for (const Index& index : all_indices(shape)) {
        EXPECT_TRUE(seen.insert(tensor.offset(index)).second);
    }
    EXPECT_GE(*seen.begin(), 0);
    EXPECT_EQ(seen.size(), 120U);
}

TEST(TiledAddress, HugeTilesAreExactAndOverflowNothing) {
    // One tile that is far larger than the tensor: inside it rows are 2^62 elements long.
    const TiledPayload huge({{{kMax, std::uint64_t{1} << 62}, kRow, kRow, {}, {}}});
    Bytes tensor({5, 100});
    tensor.view.layout = huge.layout();
    EXPECT_EQ(tensor.at({3, 99}), std::to_string(3 * (std::uint64_t{1} << 62) + 99));
    EXPECT_EQ(tensor.at({4, 0}), "AddressOverflow");

    // Tile 1 begins 2^64 - 1 elements on, times 2^63 others.
    const TiledPayload many({{{kMax, std::uint64_t{1} << 63}, kRow, kRow, {}, {}}});
    Bytes wide({5, kMax - 1});
    wide.view.layout = many.layout();
    EXPECT_EQ(wide.at({0, (std::uint64_t{1} << 63) - 1}), std::to_string((std::uint64_t{1} << 63) - 1));
    EXPECT_EQ(wide.at({0, std::uint64_t{1} << 63}), "AddressOverflow");

    const TiledPayload everything(
        {{Index(kMaxRank, kMax), kStrided, kStrided, Strides(kMaxRank, kMinStride), Strides(kMaxRank, kMinStride)}});
    Bytes most(Index(kMaxRank, kMax - 1));
    most.view.layout = everything.layout();
    EXPECT_EQ(most.at(Index(kMaxRank, kMax - 2)), "AddressOverflow");
    EXPECT_EQ(most.at(Index(kMaxRank, 0)), "0");
}

// ---- Morton and Hilbert --------------------------------------------------------------------------------------------

struct Curve : Bytes {
    Curve(const Index& shape, const std::vector<std::uint32_t>& morton_bits) : Bytes(shape) {
        view.layout = {LayoutTag::Morton, MortonLayout{test::pack(morton_bits, bits_bytes)}};
    }
    Curve(const Index& shape, std::uint32_t order) : Bytes(shape) {
        view.layout = {LayoutTag::Hilbert, HilbertLayout{order, static_cast<std::uint32_t>(shape.size())}};
    }

  private:
    std::vector<std::uint8_t> bits_bytes;
};

/// Bit by bit as the format places them.
std::uint64_t slow_morton(const std::vector<std::uint32_t>& bits, const Index& index) {
    std::uint64_t code = 0;
    for (std::size_t d = 0; d < index.size(); ++d) {
        for (std::uint32_t b = 0; b < bits[d]; ++b) {
            code += (index[d] >> b & 1) << (b * index.size() + d);
        }
    }
    return code;
}

TEST(MortonAddress, BitsAreInterleavedAsTheFormatSays) {
    EXPECT_EQ(Curve({4, 4}, std::vector<std::uint32_t>{2, 2}).offset({1, 2}), 9);
    EXPECT_EQ(Curve({4, 8}, std::vector<std::uint32_t>{2, 3}).offset({3, 5}), 39);
    for (const std::vector<std::uint32_t>& bits :
         {std::vector<std::uint32_t>{3}, {2, 2}, {2, 3}, {3, 1}, {2, 2, 2}, {1, 3, 2}, {1, 1, 1, 1, 1}}) {
        Index shape;
        for (const std::uint32_t count : bits) {
            shape.push_back(std::uint64_t{1} << count);
        }
        const Curve curve(shape, bits);
        for (const Index& index : all_indices(shape)) {
            ASSERT_EQ(curve.at(index), std::to_string(slow_morton(bits, index)));
        }
    }
}

TEST(MortonAddress, OffsetsUseUpTo63Bits) {
    const std::uint64_t side = std::uint64_t{1} << 31;
    const Curve curve({side, side}, std::vector<std::uint32_t>{31, 31});
    EXPECT_EQ(curve.at({side - 1, side - 1}), std::to_string((std::uint64_t{1} << 62) - 1));
    EXPECT_EQ(curve.at({0, side - 1}), std::to_string(0x2AAAAAAAAAAAAAAA));
    const Curve line({std::uint64_t{1} << 63}, std::vector<std::uint32_t>{63});
    EXPECT_EQ(line.at({(std::uint64_t{1} << 63) - 1}), std::to_string((std::uint64_t{1} << 63) - 1));

    EXPECT_EQ(Curve({4, 4}, std::vector<std::uint32_t>{32, 32}).at({1, 1}), "IndexArithmeticOverflow");
    EXPECT_EQ(Curve({4}, std::vector<std::uint32_t>{64}).at({1}), "IndexArithmeticOverflow");
    EXPECT_EQ(Curve({4}, std::vector<std::uint32_t>{0xFFFFFFFF}).at({1}), "IndexArithmeticOverflow");
    // 35 bits in all, but the last of them at position 2 * 33 + 1.
    EXPECT_EQ(Curve({2, 4}, std::vector<std::uint32_t>{1, 34}).at({1, 1}), "IndexArithmeticOverflow");
    EXPECT_EQ(Curve({2, 4}, std::vector<std::uint32_t>{1, 32}).at({1, 1}), "3");
}

TEST(MortonAddress, IndexWithMoreBitsThanTheLayoutIsRefused) {
    const Curve curve({5, 4}, std::vector<std::uint32_t>{2, 2});
    EXPECT_EQ(curve.at({3, 3}), "15");
    EXPECT_EQ(curve.at({4, 0}), "InvalidLayout");
}

// The self-test of the written format, and its further checks.
TEST(HilbertAddress, NumbersOfTheFormat) {
    const std::vector<std::vector<std::int64_t>> square{{0, 3, 4, 5}, {1, 2, 7, 6}, {14, 13, 8, 9}, {15, 12, 11, 10}};
    const Curve curve({4, 4}, 2);
    for (const Index& index : all_indices({4, 4})) {
        EXPECT_EQ(curve.offset(index), square[index[0]][index[1]]);
    }
    EXPECT_EQ(Curve({8, 8}, 3).offset({5, 2}), 55);
    EXPECT_EQ(Curve({8, 8}, 3).offset({6, 7}), 41);
    EXPECT_EQ(Curve({4, 4, 4}, 2).offset({1, 2, 3}), 22);
}

/// The inverse as the format describes it, bit by bit.
Index slow_hilbert_index(std::uint64_t offset, std::uint32_t order, std::size_t rank) {
    Index x(rank, 0);
    for (std::uint32_t b = 0; b < order; ++b) {
        for (std::size_t d = 0; d < rank; ++d) {
            x[d] |= (offset >> (b * rank + (rank - 1 - d)) & 1) << b;
        }
    }
    const std::uint64_t saved = x[rank - 1] / 2;
    for (std::size_t i = rank - 1; i > 0; --i) {
        x[i] ^= x[i - 1];
    }
    x[0] ^= saved;
    for (std::uint64_t q = 2; q <= std::uint64_t{1} << (order - 1); q *= 2) {
        for (std::size_t i = rank; i-- > 0;) {
            if ((x[i] & q) != 0) {
                x[0] ^= q - 1;
            } else {
                const std::uint64_t t = (x[0] ^ x[i]) & (q - 1);
                x[0] ^= t;
                x[i] ^= t;
            }
        }
    }
    return x;
}

TEST(HilbertAddress, AgreesWithTheInverseAndEachStepGoesToANeighbour) {
    struct Cube {
        std::uint32_t order;
        std::size_t rank;
    };
    for (const Cube cube : {Cube{1, 2}, Cube{4, 2}, Cube{3, 3}, Cube{2, 4}, Cube{1, 8}, Cube{2, 5}}) {
        const Curve curve(Index(cube.rank, std::uint64_t{1} << cube.order), cube.order);
        Index previous;
        for (std::uint64_t offset = 0; offset < std::uint64_t{1} << (cube.order * cube.rank); ++offset) {
            const Index index = slow_hilbert_index(offset, cube.order, cube.rank);
            ASSERT_EQ(curve.at(index), std::to_string(offset)) << cube.order << ' ' << cube.rank;
            std::uint64_t distance = 0;
            for (std::size_t k = 0; k < previous.size(); ++k) {
                distance += index[k] > previous[k] ? index[k] - previous[k] : previous[k] - index[k];
            }
            ASSERT_EQ(distance, previous.empty() ? 0U : 1U);
            previous = index;
        }
    }
}

TEST(HilbertAddress, OffsetsUseAll64Bits) {
    const std::uint64_t side = std::uint64_t{1} << 32;
    const Curve square({side, side}, 32);
    for (const std::uint64_t offset :
         {std::uint64_t{0}, std::uint64_t{1} << 63, kMax - 1, std::uint64_t{0x0123456789ABCDEF}}) {
        EXPECT_EQ(square.at(slow_hilbert_index(offset, 32, 2)), std::to_string(offset));
    }
    EXPECT_EQ(square.at(slow_hilbert_index(kMax, 32, 2)), "ByteAddressOverflow");
    const Curve cube(Index(kMaxRank, 2), 1);
    for (const std::uint64_t offset : {std::uint64_t{0}, std::uint64_t{12345678901234567890U}, kMax - 1}) {
        EXPECT_EQ(cube.at(slow_hilbert_index(offset, 1, kMaxRank)), std::to_string(offset));
    }
}

TEST(HilbertAddress, OrderThatDoesNotFitIsRefused) {
    EXPECT_EQ(Curve({4, 4}, 33).at({1, 1}), "IndexArithmeticOverflow");
    EXPECT_EQ(Curve({4, 4}, 0xFFFFFFFF).at({1, 1}), "IndexArithmeticOverflow");
    EXPECT_EQ(Curve({4, 4}, 1).at({2, 1}), "InvalidLayout");
    Curve ranks({4, 4}, 2);
    ranks.view.layout = {LayoutTag::Hilbert, HilbertLayout{2, 3}};
    EXPECT_EQ(ranks.at({1, 1}), "InvalidLayout");
}

}  // namespace
}  // namespace hurray
