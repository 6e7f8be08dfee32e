#include "libhurray/format/descriptor_value.hpp"

#include <optional>

#include <gtest/gtest.h>

#include "libhurray/format/descriptor_reader.hpp"
#include "libhurray/format/descriptor_writer.hpp"
#include "tests/support/sample_values.hpp"

namespace hurray {
namespace {

std::optional<Fault> fault_of(const DescriptorValue& value) {
    const auto bytes = value.encode();
    return bytes ? std::nullopt : std::optional(bytes.error().fault);
}

TEST(DescriptorValue, FirstExampleOfTheWrittenFormatComesOutByteForByte) {
    EXPECT_EQ(test::row_major_value().encode().value(), test::row_major_f32_3x4());
}

TEST(DescriptorValue, ValueOfADecodedDescriptorEncodesToTheSameBytes) {
    auto values = test::valid_values();
    values.push_back(test::private_layout_value());
    values.push_back(test::per_channel_value());
    values.push_back(test::row_major_value());
    values.back().version_minor = 3;
    values.back().shard = ShardValue{{30, 40}, {3, 4}};
    values.back().statistics = Statistics{};
    values.back().statistics->value_min_bits = 0x7FF8000000000123;
    values.back().composite_member = MemberRole::Base;
    for (const auto& value : values) {
        const auto bytes = value.encode();
        ASSERT_TRUE(bytes) << describe(bytes.error());
        const auto view = decode_descriptor(*bytes).value();
        EXPECT_EQ(DescriptorValue::of(view).encode().value(), *bytes);
        std::vector<std::uint8_t> from_view(encoded_size(view));
        encode_descriptor(view, from_view);
        EXPECT_EQ(from_view, *bytes);
    }
}

TEST(DescriptorValue, ArraysAreAsLongAsTheRank) {
    auto strided = test::strided_value();
    std::get<StridedValue>(strided.layout.payload).strides.push_back(1);
    EXPECT_EQ(fault_of(strided), Fault::InvalidLayout);
    auto morton = test::morton_value();
    std::get<MortonValue>(morton.layout.payload).bits.pop_back();
    EXPECT_EQ(fault_of(morton), Fault::InvalidLayout);
    auto csf = test::csf_value();
    std::get<CsfValue>(csf.layout.payload).mode_order = {0, 1};
    EXPECT_EQ(fault_of(csf), Fault::InvalidLayout);
    auto tiled = test::tiled_value();
    std::get<TiledValue>(tiled.layout.payload).levels[0].tile_shape = {2, 3, 1};
    EXPECT_EQ(fault_of(tiled), Fault::InvalidLayout);
    auto shard = test::row_major_value();
    shard.shard = ShardValue{{3, 4}, {0}};
    EXPECT_EQ(fault_of(shard), Fault::InvalidLayout);
}

TEST(DescriptorValue, LevelsOfTilesFollowEachOther) {
    auto value = test::nested_tiles_value();
    auto& levels = std::get<TiledValue>(value.layout.payload).levels;
    levels[0].inner = LayoutTag::RowMajor;
    EXPECT_EQ(fault_of(value), Fault::InvalidLayout);
    levels[0].inner = LayoutTag::Tiled;
    levels[1].inner = LayoutTag::Tiled;
    EXPECT_EQ(fault_of(value), Fault::InvalidLayout);
    levels.resize(1);
    levels[0].inner = LayoutTag::RowMajor;
    levels[0].outer_strides = {1, 1};
    EXPECT_EQ(fault_of(value), Fault::InvalidLayout);
    levels[0].outer = LayoutTag::Strided;
    EXPECT_EQ(fault_of(value), std::nullopt);
    levels.resize(9, levels[0]);
    EXPECT_EQ(fault_of(value), Fault::SubpavingNestingTooDeep);
    levels.clear();
    EXPECT_EQ(fault_of(value), Fault::InvalidLayout);
}

TEST(DescriptorValue, WhatDecodingRefusesIsNotEncoded) {
    auto value = test::row_major_value();
    value.element_type = ElementType{0x05};
    EXPECT_EQ(fault_of(value), Fault::UnknownTypeTag);
    value = test::row_major_value();
    value.buffers.assign(256, test::cpu_buffer(1));
    EXPECT_EQ(fault_of(value), Fault::InvalidLayout);
    value.buffers.clear();
    EXPECT_EQ(fault_of(value), Fault::EmptyBufferTable);
    value = test::row_major_value();
    value.shape.assign(65, 1);
    EXPECT_EQ(fault_of(value), Fault::RankExceedsMaximum);
    value = test::row_major_value();
    value.layout.tag = LayoutTag::Coo;  // with the payload of row-major
    EXPECT_EQ(fault_of(value), Fault::InvalidLayout);
    value.layout.tag = LayoutTag{0x0C};
    EXPECT_EQ(fault_of(value), Fault::ReservedLayoutTag);
    value = test::composite_head_value();
    value.composite_member = MemberRole::Base;
    EXPECT_EQ(fault_of(value), Fault::InvalidLayout);
    value = test::csf_value();
    value.shard = ShardValue{{2, 2, 3}, {0, 0, 0}};
    EXPECT_EQ(fault_of(value), Fault::InvalidLayout);
}

TEST(DescriptorValue, QuantizationIsPutTogetherFromItsFields) {
    Quantization q;
    q.scheme = QuantizationScheme::PerBlock;
    q.symmetric = true;
    q.axis = 1;
    q.block_size = 128;
    q.scale_buffer_index = 1;
    q.scale_type_tag = 1;
    auto value = test::value_of(ElementType::Int4, {128, 128}, {}, {8192, 256});
    test::quantize(value, q);
    const auto bytes = value.encode().value();
    EXPECT_EQ(std::vector<std::uint8_t>(bytes.begin() + 77, bytes.end()),
              (std::vector<std::uint8_t>{0x18, 0, 0, 0, 3, 1, 1,    0,    1,    0,    0, 0, 0x80, 0,
                                         0,    0, 1, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF, 1, 0, 0,    0}));
    q.block_size = 3;
    EXPECT_EQ(encode_quantization(q).error().fault, Fault::InvalidBlockSize);
    q.scheme = QuantizationScheme{9};
    EXPECT_EQ(encode_quantization(q).error().fault, Fault::UnknownQuantizationSchemeTag);
}

}  // namespace
}  // namespace hurray
