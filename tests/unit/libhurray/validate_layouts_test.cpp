// The rules of each layout: what is valid, and what a single change breaks.
#include <functional>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "libhurray/format/descriptor_reader.hpp"
#include "libhurray/format/validate.hpp"
#include "tests/support/sample_values.hpp"

namespace hurray {
namespace {

using Change = std::function<void(DescriptorValue&)>;

/// The name of the violation and its field, e.g. "BufferBelowLayout buffers[1].byte_size"; "" if there is none.
std::string violation(const DescriptorValue& value, ValidationRules rules = ValidationRules::Format) {
    const auto bytes = value.encode();
    if (!bytes) {
        return "not encoded: " + describe(bytes.error());
    }
    const auto valid = validate_descriptor(decode_descriptor(*bytes).value(), rules);
    return valid ? "" : std::string(fault_name(valid.error().fault)) + ' ' + to_error(valid.error()).field;
}

std::string changed(DescriptorValue value, const Change& change) {
    change(value);
    return violation(value);
}

template <class Payload>
Payload& payload(DescriptorValue& value) {
    return std::get<Payload>(value.layout.payload);
}

TEST(ValidateLayouts, EachLayoutWithBuffersOfExactlyTheNeededSizeIsValidByBothRules) {
    for (const auto& value : test::valid_values()) {
        EXPECT_EQ(violation(value), "") << static_cast<int>(value.layout.tag);
        EXPECT_EQ(violation(value, ValidationRules::Sharing), "") << static_cast<int>(value.layout.tag);
    }
}

// The inner levels of a CSF tree and the block table have no fixed size: see NeedsOfInnerBuffers.
TEST(ValidateLayouts, OneByteLessInABufferIsTooLittle) {
    for (const auto& value : test::valid_values()) {
        if (value.layout.tag == LayoutTag::Csf || value.layout.tag == LayoutTag::BlockPaged) {
            continue;
        }
        for (std::size_t i = 0; i < value.buffers.size(); ++i) {
            const std::string field = " buffers[" + std::to_string(i) + "].byte_size";
            const std::string broken = changed(value, [i](DescriptorValue& v) { --v.buffers[i].byte_size; });
            EXPECT_EQ(broken, (value.buffers.size() == 1 ? "ElementsPastBuffer" : "BufferBelowLayout") + field)
                << static_cast<int>(value.layout.tag);
        }
    }
}

TEST(ValidateLayouts, OneBufferMoreOrLessIsAnotherLayout) {
    for (const auto& value : test::valid_values()) {
        if (value.layout.tag == LayoutTag::CompositeHead) {
            continue;  // decoding sees to that
        }
        EXPECT_EQ(changed(value, [](DescriptorValue& v) { v.buffers.push_back(test::cpu_buffer(999)); }),
                  "BufferCountMismatch buffer_count");
        if (value.buffers.size() > 1) {
            EXPECT_EQ(changed(value, [](DescriptorValue& v) { v.buffers.pop_back(); }),
                      "BufferCountMismatch buffer_count");
        }
    }
}

TEST(ValidateLayouts, ByteOffsetCountsForDenseLayoutsAndIsZeroForTheOthers) {
    for (const auto& value : test::valid_values()) {
        if (value.layout.tag == LayoutTag::CompositeHead) {
            continue;
        }
        const bool dense = value.buffers.size() == 1;
        const auto with_room = [](DescriptorValue& v) {
            v.byte_offset = 8;
            v.buffers[0].byte_size += 8;
        };
        EXPECT_EQ(changed(value, with_room), dense ? "" : "ByteOffsetNotZero byte_offset")
            << static_cast<int>(value.layout.tag);
    }
}

TEST(ValidateLayouts, NeedsOfInnerBuffers) {
    const auto with_sizes = [](DescriptorValue value, const std::vector<std::uint64_t>& sizes) {
        for (std::size_t i = 0; i < sizes.size(); ++i) {
            value.buffers[i].byte_size = sizes[i];
        }
        return violation(value);
    };
    // Three leaves under the last dimension of 3 need one node on each level above.
    EXPECT_EQ(with_sizes(test::csf_value(), {12, 16, 8, 16, 8, 16, 24}), "");
    EXPECT_EQ(with_sizes(test::csf_value(), {12, 16, 7, 16, 8, 16, 24}), "BufferBelowLayout buffers[2].byte_size");
    EXPECT_EQ(with_sizes(test::csf_value(), {12, 15, 8, 16, 8, 16, 24}), "BufferBelowLayout buffers[1].byte_size");
    // Seven leaves need three of the nodes above them, and those two.
    auto seven = test::csf_value();
    payload<CsfValue>(seven).nnz = 7;
    EXPECT_EQ(with_sizes(seven, {28, 16, 16, 24, 24, 32, 56}), "");
    EXPECT_EQ(with_sizes(seven, {28, 16, 16, 24, 23, 32, 56}), "BufferBelowLayout buffers[4].byte_size");
    EXPECT_EQ(with_sizes(seven, {28, 16, 16, 24, 24, 31, 56}), "BufferBelowLayout buffers[5].byte_size");
    EXPECT_EQ(with_sizes(seven, {28, 16, 15, 24, 24, 32, 56}), "BufferBelowLayout buffers[2].byte_size");
    // No leaf: one root pointer pair, a single 0 on each other level, nothing else.
    auto none = test::csf_value();
    payload<CsfValue>(none).nnz = 0;
    EXPECT_EQ(with_sizes(none, {0, 16, 0, 8, 0, 8, 0}), "");
    EXPECT_EQ(with_sizes(none, {0, 16, 0, 8, 0, 7, 0}), "BufferBelowLayout buffers[5].byte_size");
    // A block table is as long as its last pointer says, which a descriptor does not know.
    EXPECT_EQ(with_sizes(test::block_paged_value(), {128, 0, 12}), "");
    EXPECT_EQ(with_sizes(test::block_paged_value(), {127, 0, 12}), "BufferBelowLayout buffers[0].byte_size");
    EXPECT_EQ(with_sizes(test::block_paged_value(), {128, 0, 11}), "BufferBelowLayout buffers[2].byte_size");
    auto wide = test::block_paged_value();
    payload<BlockPagedLayout>(wide).wide_index = true;
    EXPECT_EQ(with_sizes(wide, {128, 0, 23}), "BufferBelowLayout buffers[2].byte_size");
    EXPECT_EQ(with_sizes(wide, {128, 0, 24}), "");
}

TEST(ValidateLayouts, RankGoesWithTheLayout) {
    const auto with_shape = [](DescriptorValue value, std::vector<std::uint64_t> shape) {
        value.shape = std::move(shape);
        return violation(value);
    };
    EXPECT_EQ(with_shape(test::csr_value(), {12}), "InvalidLayout rank");
    EXPECT_EQ(with_shape(test::csc_value(), {3, 2, 2}), "InvalidLayout rank");
    EXPECT_EQ(with_shape(test::block_paged_value(), {5, 8}), "InvalidLayout rank");
    EXPECT_EQ(with_shape(test::hilbert_value(), {4, 4}), "InvalidLayout layout.hilbert_rank");
    auto flat = test::csf_value();
    payload<CsfValue>(flat).mode_order = {0, 1};
    EXPECT_EQ(with_shape(flat, {2, 6}), "InvalidLayout rank");
    for (auto scalar : {test::coo_value(), test::csr_value(), test::composite_head_value()}) {
        scalar.shape = {};
        EXPECT_EQ(violation(scalar), "InvalidLayout layout_tag");
    }
}

TEST(ValidateLayouts, SizesGoWithTheLayout) {
    EXPECT_EQ(changed(test::morton_value(), [](DescriptorValue& v) { v.shape = {5, 3}; }), "InvalidLayout shape[0]");
    EXPECT_EQ(changed(test::hilbert_value(), [](DescriptorValue& v) { v.shape[2] = 3; }), "InvalidLayout shape[2]");
    EXPECT_EQ(changed(test::hilbert_value(), [](DescriptorValue& v) { payload<HilbertLayout>(v).order = 64; }),
              "InvalidLayout layout.hilbert_order");
    EXPECT_EQ(
        changed(test::block_paged_value(), [](DescriptorValue& v) { payload<BlockPagedLayout>(v).page_size = 0; }),
        "InvalidLayout layout.page_size");
    EXPECT_EQ(
        changed(test::block_paged_value(), [](DescriptorValue& v) { payload<BlockPagedLayout>(v).paged_axis = 1; }),
        "InvalidLayout layout.paged_axis");
    EXPECT_EQ(changed(test::composite_head_value(), [](DescriptorValue& v) { v.shape[1] = kDynamicDim; }),
              "InvalidLayout shape[1]");
    EXPECT_EQ(changed(test::coo_value(), [](DescriptorValue& v) { v.layout.payload = CooLayout{13, true}; }),
              "StoredCountExceedsShape layout.nnz");
    EXPECT_EQ(changed(test::csr_value(),
                      [](DescriptorValue& v) {
                          v.shape = {3, 0};
                          v.buffers[0].byte_size = 12;
                      }),
              "StoredCountExceedsShape layout.nnz");
}

TEST(ValidateLayouts, UnequalMortonBitsNeedRoomForTheLargestCode) {
    auto value = test::value_of(ElementType::UInt8, {4, 8}, {LayoutTag::Morton, MortonValue{{2, 3}}}, {48});
    EXPECT_EQ(violation(value), "");  // bits 0, 2 and 1, 3, 5: the largest code is 47
    --value.buffers[0].byte_size;
    EXPECT_EQ(violation(value), "ElementsPastBuffer buffers[0].byte_size");
    payload<MortonValue>(value).bits = {2, 4'000'000'000};
    EXPECT_EQ(violation(value), "ElementsOverflow shape");
    value.shape[0] = 0;
    EXPECT_EQ(violation(value), "");  // no elements, whatever the order
}

TEST(ValidateLayouts, TilesWithStridesReachWhereTheirStridesLead) {
    // Six tiles of six elements, each 10 elements' worth of tiles apart: numbers 0 to 50.
    auto value = test::tiled_value();
    TiledLevelValue& level = payload<TiledValue>(value).levels[0];
    level.outer = LayoutTag::Strided;
    level.outer_strides = {20, 10};
    EXPECT_EQ(violation(value), "ElementsPastBuffer buffers[0].byte_size");
    value.buffers[0].byte_size = (50 * 6 + 6) * 4;
    EXPECT_EQ(violation(value), "");
    --value.buffers[0].byte_size;
    EXPECT_EQ(violation(value), "ElementsPastBuffer buffers[0].byte_size");
    // The elements of a tile backwards: the five others lie below the first.
    level.outer = LayoutTag::RowMajor;
    level.outer_strides = {};
    level.inner = LayoutTag::Strided;
    level.inner_strides = {-3, -1};
    EXPECT_EQ(violation(value), "ElementsBeforeBuffer byte_offset");
    value.byte_offset = 20;
    value.buffers[0].byte_size = 20 + (5 * 6 + 1) * 4;
    EXPECT_EQ(violation(value), "");
}

TEST(ValidateLayouts, EightLevelsOfTilesAreJudgedToTheInnermost) {
    auto value = test::value_of(ElementType::UInt8, {256}, {LayoutTag::Tiled, TiledValue{}}, {256});
    auto& levels = payload<TiledValue>(value).levels;
    for (std::uint64_t tile = 128; tile > 0; tile /= 2) {
        levels.push_back({{tile}, LayoutTag::RowMajor, LayoutTag::Tiled, {}, {}});
    }
    levels.back().inner = LayoutTag::RowMajor;
    ASSERT_EQ(levels.size(), 8U);
    EXPECT_EQ(violation(value), "");
    levels.back().outer = LayoutTag::Strided;
    levels.back().outer_strides = {2};  // the last halves one element further apart
    EXPECT_EQ(violation(value), "ElementsPastBuffer buffers[0].byte_size");
    value.buffers[0].byte_size = 257;
    EXPECT_EQ(violation(value), "");
    levels[7].inner = LayoutTag::Tiled;
    levels.push_back(levels[0]);
    levels[8].inner = LayoutTag::RowMajor;
    EXPECT_NE(violation(value).find("SubpavingNestingTooDeep"), std::string::npos);
}

TEST(ValidateLayouts, ProductsThatOverflowAreRefusedAndNotWrapped) {
    constexpr std::uint64_t kHuge = std::uint64_t{1} << 63;
    EXPECT_EQ(changed(test::tiled_value(),
                      [](DescriptorValue& v) { payload<TiledValue>(v).levels[0].tile_shape = {kHuge, kHuge}; }),
              "ElementsOverflow shape");
    EXPECT_EQ(changed(test::coo_value(),
                      [](DescriptorValue& v) {
                          v.shape = {kHuge, kHuge};
                          v.layout.payload = CooLayout{kHuge, true};
                      }),
              "ElementsOverflow layout.nnz");
    EXPECT_EQ(changed(test::csr_value(), [](DescriptorValue& v) { v.shape = {UINT64_MAX - 1, 1}; }),
              "ElementsOverflow shape");
    EXPECT_EQ(changed(test::block_paged_value(),
                      [](DescriptorValue& v) { payload<BlockPagedLayout>(v).num_pages = UINT64_MAX; }),
              "ElementsOverflow layout.num_pages");
}

TEST(ValidateLayouts, DynamicSizeLeavesOutWhatDependsOnIt) {
    auto rows = test::csr_value();
    rows.shape[0] = kDynamicDim;
    rows.buffers[2].byte_size = 0;
    EXPECT_EQ(violation(rows), "");
    rows.buffers[1].byte_size = 23;  // that does not
    EXPECT_EQ(violation(rows), "BufferBelowLayout buffers[1].byte_size");
    EXPECT_EQ(violation(rows, ValidationRules::Sharing), "InvalidShape shape[0]");
}

TEST(ValidateLayouts, PrivateLayoutsAreForThoseWhoShareThem) {
    auto value = test::private_layout_value();
    EXPECT_EQ(violation(value), "PrivateLayoutTag layout_tag");
    EXPECT_EQ(violation(value, ValidationRules::Sharing), "");
    value.byte_offset = 6;
    EXPECT_EQ(violation(value, ValidationRules::Sharing), "ByteOffsetPastBuffer byte_offset");
    value.byte_offset = 5;
    value.buffers.push_back(test::cpu_buffer(0));
    EXPECT_EQ(violation(value, ValidationRules::Sharing), "");
    value.buffers[1].memory_class = MemoryClass::Unified;
    EXPECT_EQ(violation(value, ValidationRules::Sharing), "MemoryClassMismatch buffers[1].memory_class");
}

TEST(ValidateLayouts, CompositeHeadHasMembers) {
    const auto with = [](CompositeHeadLayout head) {
        return changed(test::composite_head_value(), [&](DescriptorValue& v) { v.layout.payload = head; });
    };
    EXPECT_EQ(with({CompositionRule::Group, 0, 0}), "CompositeHeadEmpty layout.member_count");
    EXPECT_EQ(with({CompositionRule::Overlay, 1, 0}), "CompositeOverlayEmpty layout.member_count");
    EXPECT_EQ(with({CompositionRule::Overlay, 1, 1}), "");
}

TEST(ValidateLayouts, BooleanThatIsNeitherZeroNorOneIsNamed) {
    auto bytes = test::coo_value().encode().value();
    bytes[20 + 16 + 8 + 8] = 2;
    const auto valid = validate_descriptor(decode_descriptor(bytes).value());
    ASSERT_FALSE(valid);
    EXPECT_EQ(describe(valid.error()), "layout.is_sorted is 2, neither 0 nor 1 (InvalidBoolean)");
}

// ---- Sections ------------------------------------------------------------------------------------------------------

TEST(ValidateSections, ShardHasSizes) {
    auto value = test::row_major_value();
    value.shard = ShardValue{{3, 8}, {0, 4}};
    EXPECT_EQ(violation(value), "");
    value.shard = ShardValue{{UINT64_MAX, 8}, {UINT64_MAX, 4}};  // the sum saturates when it is decoded
    EXPECT_EQ(violation(value), "InvalidShape shard.parent_shape[0]");
    value.shape[1] = kDynamicDim;
    value.shard = ShardValue{{3, UINT64_MAX}, {0, 0}};
    EXPECT_EQ(violation(value), "InvalidShape shape[1]");
}

TEST(ValidateSections, MemberOfAnOverlayIsABoxAndItsBaseIsTheWholeHead) {
    auto value = test::row_major_value();
    value.composite_member = MemberRole::Correction;
    EXPECT_EQ(violation(value), "CompositeMemberMissingShard composite_member");
    value.shard = ShardValue{{9, 9}, {1, 0}};
    EXPECT_EQ(violation(value), "");
    value.composite_member = MemberRole::Base;
    EXPECT_EQ(violation(value), "CompositeOverlayBaseNotSpanning shard.shard_offset[0]");
    value.shard = ShardValue{{3, 9}, {0, 0}};
    EXPECT_EQ(violation(value), "CompositeOverlayBaseNotSpanning shape[1]");
    value.shard = ShardValue{{3, 4}, {0, 0}};
    EXPECT_EQ(violation(value), "");
}

TEST(ValidateSections, StatisticsCountWhatTheLayoutStores) {
    auto value = test::coo_value();
    value.statistics = Statistics{};
    value.statistics->nnz = 9;
    EXPECT_EQ(violation(value), "");
    value.statistics->computed_mask = Statistics::kNnz;
    EXPECT_EQ(violation(value), "StoredCountMismatch statistics.nnz");
    value.statistics->nnz = 2;
    EXPECT_EQ(violation(value), "");
}

}  // namespace
}  // namespace hurray
