// Every layout and section: set through the builder, read back through the accessors, and the bytes that lie between.
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "hurray.h"

#include <hurray/hurray.hpp>

#include "tests/support/hex.hpp"
#include "tests/support/status_of.hpp"

namespace {

using hurray::Descriptor;
using hurray::DescriptorBuilder;
using hurray::ElementType;
using hurray::LayoutTag;
using hurray::TileLevel;
using hurray::test::from_hex;
using hurray::test::status_of;

/// Decodes what the builder encodes, so that nothing is read back from the builder itself.
Descriptor decoded(const DescriptorBuilder& builder) { return Descriptor(builder.encode()); }

constexpr std::uint64_t kShape[] = {3, 4};

DescriptorBuilder row_major() {
    DescriptorBuilder builder(ElementType::Float32, kShape);
    builder.buffer(48);
    return builder;
}

TEST(DescriptorBuilder, FirstExampleOfTheWrittenFormatComesOutByteForByte) {
    EXPECT_EQ(row_major().encode(), from_hex("48525259 01 00 3D000000 00000000 03 01 02000000"
                                             "0300000000000000 0400000000000000 0000000000000000"
                                             "01 3000000000000000 40000000 00 00 00 00"));
}

TEST(DescriptorBuilder, BuildGivesADescriptorOfTheSameBytes) {
    const auto builder = row_major();
    const Descriptor built = builder.build();
    EXPECT_EQ(built.encode(), builder.encode());
    EXPECT_EQ(built.version(), (std::pair<std::uint8_t, std::uint8_t>{1, 0}));
    EXPECT_EQ(built.sections(), 0U);
    built.validate();
}

TEST(DescriptorBuilder, ColumnMajorAndStrided) {
    auto builder = row_major();
    EXPECT_EQ(decoded(builder.column_major()).layout(), LayoutTag::ColumnMajor);
    const std::vector<std::int64_t> strides{4, -1};
    const auto strided = decoded(builder.strided(strides).byte_offset(12));
    EXPECT_EQ(strided.strides(), strides);
    EXPECT_EQ(strided.byte_offset(), 12U);
    EXPECT_EQ(decoded(builder.row_major()).layout(), LayoutTag::RowMajor);
    EXPECT_EQ(status_of([&] { builder.strided(std::vector<std::int64_t>{1}); }), HURRAY_ERR_INVALID_ARGUMENT);
}

TEST(DescriptorBuilder, TilesOfTiles) {
    const std::vector<TileLevel> levels{
        {{2, 4}, LayoutTag::Strided, LayoutTag::Tiled, {7, -9}, {}},
        {{1, 2}, LayoutTag::ColumnMajor, LayoutTag::Strided, {}, {2, 1}},
    };
    auto builder = row_major();
    const auto descriptor = decoded(builder.tiled(levels));
    const auto read = descriptor.tiled_levels();
    ASSERT_EQ(read.size(), 2U);
    for (std::size_t i = 0; i < 2; ++i) {
        EXPECT_EQ(read[i].tile_shape, levels[i].tile_shape);
        EXPECT_EQ(read[i].outer, levels[i].outer);
        EXPECT_EQ(read[i].inner, levels[i].inner);
        EXPECT_EQ(read[i].outer_strides, levels[i].outer_strides);
        EXPECT_EQ(read[i].inner_strides, levels[i].inner_strides);
    }
    std::int64_t strides[2];
    uintptr_t rank = 2;
    EXPECT_EQ(hurray_descriptor_tiled_inner_strides(descriptor.get(), 0, strides, &rank), HURRAY_ERR_UNSUPPORTED);
    EXPECT_EQ(hurray_descriptor_tiled_outer_strides(descriptor.get(), 2, strides, &rank),
              HURRAY_ERR_INDEX_OUT_OF_BOUNDS);
    EXPECT_STREQ(hurray_last_error_message(),
                 "hurray_descriptor_tiled_outer_strides: level is 2, the layout has 2 levels");
}

TEST(DescriptorBuilder, NineLevelsOrStraysOfStridesAreRefused) {
    auto builder = row_major();
    const TileLevel level{{1, 1}, LayoutTag::RowMajor, LayoutTag::Tiled, {}, {}};
    EXPECT_EQ(status_of([&] { builder.tiled(std::vector<TileLevel>(9, level)); }), HURRAY_ERR_INVALID_ARGUMENT);
    EXPECT_EQ(status_of([&] { builder.tiled({}); }), HURRAY_ERR_INVALID_ARGUMENT);
    EXPECT_EQ(
        status_of([&] { builder.tiled({TileLevel{{1, 1}, LayoutTag::RowMajor, LayoutTag::RowMajor, {1, 1}, {}}}); }),
        HURRAY_ERR_INVALID_ARGUMENT);
    EXPECT_EQ(decoded(builder).layout(), LayoutTag::RowMajor);  // nothing was set
}

TEST(DescriptorBuilder, MortonAndHilbert) {
    DescriptorBuilder builder(ElementType::UInt8, {4, 4});
    builder.buffer(16);
    EXPECT_EQ(decoded(builder.morton(std::vector<std::uint32_t>{2, 2})).morton_bits(),
              (std::vector<std::uint32_t>{2, 2}));
    const auto hilbert = decoded(builder.hilbert(2));
    EXPECT_EQ(hilbert.hilbert(), (std::pair<std::uint32_t, std::uint32_t>{2, 2}));
    hilbert.validate();
    EXPECT_EQ(status_of([&] { static_cast<void>(hilbert.morton_bits()); }), HURRAY_ERR_UNSUPPORTED);
    EXPECT_STREQ(hurray_last_error_message(), "hurray_descriptor_morton_bits: layout 64 has no Morton bits");
}

TEST(DescriptorBuilder, SparseLayouts) {
    DescriptorBuilder builder(ElementType::Float32, kShape);
    builder.coo(2, true).buffer(8).buffer(32);
    const auto coo = decoded(builder);
    EXPECT_EQ(coo.nnz(), 2U);
    EXPECT_TRUE(coo.coo_is_sorted());
    coo.validate();
    EXPECT_FALSE(decoded(builder.coo(1, false)).coo_is_sorted());

    const auto csr = decoded(builder.csr(3).clear_buffers().buffer(12).buffer(24).buffer(32));
    EXPECT_EQ(csr.layout(), LayoutTag::Csr);
    EXPECT_EQ(csr.nnz(), 3U);
    csr.validate();
    EXPECT_EQ(decoded(builder.csc(5)).nnz(), 5U);
    EXPECT_EQ(status_of([&] { static_cast<void>(csr.coo_is_sorted()); }), HURRAY_ERR_UNSUPPORTED);
    EXPECT_EQ(status_of([&] { static_cast<void>(row_major().build().nnz()); }), HURRAY_ERR_UNSUPPORTED);

    DescriptorBuilder cube(ElementType::Float32, {2, 2, 3});
    const std::vector<std::uint32_t> order{2, 0, 1};
    const auto csf = decoded(cube.csf(0, order).buffer(0));
    EXPECT_EQ(csf.csf_mode_order(), order);
    EXPECT_EQ(csf.nnz(), 0U);
    EXPECT_EQ(status_of([&] { static_cast<void>(cube.csf(0, std::vector<std::uint32_t>{0, 0, 1}).encode()); }),
              HURRAY_ERR_INVALID_LAYOUT);
    EXPECT_EQ(status_of([&] { builder.coo(1, true); }), HURRAY_OK);
    EXPECT_EQ(hurray_descriptor_builder_set_coo(builder.get(), 1, 2), HURRAY_ERR_INVALID_ARGUMENT);
}

TEST(DescriptorBuilder, BlockPaged) {
    HurrayBlockPaged pages{};
    pages.num_pages = 1ULL << 40;
    pages.page_size = 16;
    pages.num_seqs = 3;
    pages.layer_index = 11;
    pages.kv_role = HURRAY_KV_ROLE_VALUE;
    pages.index_type = 1;
    DescriptorBuilder builder(ElementType::Float16, {9, 2, 4});
    const auto read = decoded(builder.block_paged(pages).buffer(1)).block_paged();
    EXPECT_EQ(std::memcmp(&read, &pages, sizeof(pages)), 0);
    pages.layer_index = HURRAY_NO_LAYER;
    EXPECT_EQ(decoded(builder.block_paged(pages)).block_paged().layer_index, HURRAY_NO_LAYER);
    pages.reserved[5] = 1;
    EXPECT_EQ(status_of([&] { builder.block_paged(pages); }), HURRAY_ERR_INVALID_ARGUMENT);
    pages.reserved[5] = 0;
    pages.index_type = 2;
    EXPECT_EQ(status_of([&] { builder.block_paged(pages); }), HURRAY_ERR_INVALID_ARGUMENT);
    pages.index_type = 0;
    pages.kv_role = 3;
    EXPECT_EQ(status_of([&] { static_cast<void>(builder.block_paged(pages).encode()); }), HURRAY_ERR_INVALID_LAYOUT);
}

TEST(DescriptorBuilder, CompositeHead) {
    HurrayCompositeHead head{};
    head.member_count = 2;
    head.composition_rule = HURRAY_COMPOSITION_OVERLAY;
    head.combine_op = HURRAY_COMBINE_ADD;
    DescriptorBuilder builder(ElementType::Float32, {8, 8});
    const auto descriptor = decoded(builder.composite_head(head));
    const auto read = descriptor.composite_head();
    EXPECT_EQ(read.member_count, 2U);
    EXPECT_EQ(read.composition_rule, HURRAY_COMPOSITION_OVERLAY);
    EXPECT_EQ(read.combine_op, HURRAY_COMBINE_ADD);
    EXPECT_EQ(descriptor.buffer_count(), 0U);
    descriptor.validate();
    head.composition_rule = HURRAY_COMPOSITION_GROUP;
    EXPECT_EQ(status_of([&] { static_cast<void>(builder.composite_head(head).encode()); }), HURRAY_ERR_INTERNAL);
    EXPECT_NE(std::string(hurray_last_error_message()).find("InvalidCombineOp"), std::string::npos);
}

TEST(DescriptorBuilder, PrivateLayout) {
    auto builder = row_major();
    const std::vector<std::uint8_t> data{1, 2, 3};
    const auto descriptor = decoded(builder.private_layout(0xF1, 0x1122334455667788, data));
    const auto [id, bytes] = descriptor.private_layout();
    EXPECT_EQ(id, 0x1122334455667788U);
    EXPECT_EQ(std::vector<std::uint8_t>(bytes.begin(), bytes.end()), data);
    EXPECT_EQ(status_of([&] { descriptor.validate(); }), HURRAY_ERR_INVALID_LAYOUT);
    descriptor.validate_sharing();
    EXPECT_TRUE(decoded(builder.private_layout(0xF1, 1, {})).private_layout().second.empty());
    EXPECT_EQ(status_of([&] { builder.private_layout(0x40, 1, {}); }), HURRAY_ERR_INVALID_ARGUMENT);
    EXPECT_EQ(status_of([&] { builder.private_layout(0xFF, 1, {}); }), HURRAY_ERR_INVALID_ARGUMENT);
}

TEST(DescriptorBuilder, EveryQuantizationSchemeComesBack) {
    auto builder = row_major();
    const auto round_trip = [&](const HurrayQuantization& quantization) {
        const auto read = decoded(builder.quantization(quantization)).quantization();
        EXPECT_TRUE(read.has_value());
        EXPECT_EQ(std::memcmp(&*read, &quantization, sizeof(quantization)), 0) << int{quantization.scheme};
    };
    constexpr std::uint32_t kNone = HURRAY_NO_BUFFER;
    round_trip({HURRAY_QUANTIZATION_PER_TENSOR, 1, 0, 0, 0, 0, kNone, kNone, 0.25F, -3});
    round_trip({HURRAY_QUANTIZATION_PER_CHANNEL, 1, 0, HURRAY_TYPE_FLOAT32, 1, 0, 1, 2, 0, 0});
    round_trip({HURRAY_QUANTIZATION_PER_CHANNEL, 1, 1, HURRAY_TYPE_FLOAT32, 1, 0, 1, kNone, 0, 0});
    round_trip({HURRAY_QUANTIZATION_PER_BLOCK, 1, 0, HURRAY_TYPE_BFLOAT16, 1, 4, 1, 2, 0, 0});
    round_trip({HURRAY_QUANTIZATION_NF4, 1, 0, 0, 1, 64, 1, kNone, 0, 0});
    round_trip({HURRAY_QUANTIZATION_MXFP, 1, 0, 0, 0, 32, 1, kNone, 0, 0});
}

TEST(DescriptorBuilder, QuantizationThatItsSchemeDoesNotAllowIsRefusedAtOnce) {
    auto builder = row_major();
    const auto status = [&](const HurrayQuantization& quantization) {
        return status_of([&] { builder.quantization(quantization); });
    };
    EXPECT_EQ(status({6, 1, 0, 0, 0, 0, 0, 0, 0, 0}), HURRAY_ERR_INTERNAL);
    EXPECT_EQ(status({HURRAY_QUANTIZATION_PER_TENSOR, 1, 0, 0, 0, 0, 0, 0, 0, 0}), HURRAY_ERR_INTERNAL);  // scale 0
    EXPECT_EQ(status({HURRAY_QUANTIZATION_MXFP, 1, 0, 0, 0, 33, 1, 0, 0, 0}), HURRAY_ERR_INTERNAL);
    EXPECT_EQ(status({HURRAY_QUANTIZATION_MXFP, 1, 1, 0, 0, 32, 1, 0, 0, 0}), HURRAY_ERR_INTERNAL);  // symmetric
    EXPECT_EQ(status({HURRAY_QUANTIZATION_PER_TENSOR, 1, 2, 0, 0, 0, 0, 0, 1, 0}), HURRAY_ERR_INVALID_ARGUMENT);
    EXPECT_EQ(decoded(builder).sections(), 0U);
}

TEST(DescriptorBuilder, QuantizationBytesAreCarriedWhateverTheyMean) {
    auto builder = row_major();
    const std::vector<std::uint8_t> bytes{0xFF, 1, 2};
    const auto descriptor = decoded(builder.quantization_bytes(bytes));
    const auto read = descriptor.quantization_bytes().value();
    EXPECT_EQ(std::vector<std::uint8_t>(read.begin(), read.end()), bytes);
    EXPECT_EQ(status_of([&] { static_cast<void>(descriptor.quantization()); }), HURRAY_ERR_INTERNAL);
    const auto empty = decoded(builder.quantization_bytes({}));
    EXPECT_EQ(empty.sections(), HURRAY_SECTION_QUANTIZATION);
    EXPECT_TRUE(empty.quantization_bytes().value().empty());
    EXPECT_EQ(decoded(builder.quantization(std::nullopt)).sections(), 0U);
    EXPECT_FALSE(decoded(builder).quantization().has_value());
}

TEST(DescriptorBuilder, Shard) {
    auto builder = row_major();
    const hurray::ShardBox box{{30, 40}, {27, 36}};
    const auto descriptor = decoded(builder.shard(box));
    EXPECT_EQ(descriptor.shard()->parent_shape, box.parent_shape);
    EXPECT_EQ(descriptor.shard()->offset, box.offset);
    std::uint64_t one[2] = {5, 5};
    uintptr_t rank = 2;
    EXPECT_EQ(hurray_descriptor_shard(descriptor.get(), one, nullptr, &rank), HURRAY_ERR_BUFFER_TOO_SMALL);
    EXPECT_EQ(one[0], 5U);
    EXPECT_EQ(status_of([&] { static_cast<void>(builder.shard(hurray::ShardBox{{30, 40}, {28, 36}}).encode()); }),
              HURRAY_ERR_INVALID_LAYOUT);
    EXPECT_FALSE(decoded(builder.shard(std::nullopt)).shard().has_value());

    DescriptorBuilder scalar(ElementType::Float32, std::initializer_list<std::uint64_t>{});
    const auto empty = decoded(scalar.buffer(4).shard(hurray::ShardBox{}));
    EXPECT_EQ(empty.sections(), HURRAY_SECTION_SHARD);
    EXPECT_TRUE(empty.shard()->offset.empty());
}

TEST(DescriptorBuilder, StatisticsKeepTheirBits) {
    HurrayStatistics statistics{};
    statistics.nnz = 11;
    statistics.sparsity_ratio = 1.0 / 12;
    statistics.value_min = -std::numeric_limits<double>::infinity();
    statistics.value_max = std::numeric_limits<double>::denorm_min();
    statistics.value_abs_max = 3;
    statistics.value_mean = -0.0;
    statistics.value_stddev = 4;
    statistics.computed_mask = HURRAY_STATISTICS_NNZ | HURRAY_STATISTICS_MOMENTS | HURRAY_STATISTICS_SPECIAL;
    statistics.nm_n = 2;
    statistics.nm_m = 4;
    statistics.has_nan = 1;
    const std::uint64_t odd_nan = 0x7FF8000000000123;
    std::memcpy(&statistics.value_abs_max, &odd_nan, sizeof(odd_nan));
    auto builder = row_major();
    const auto read = decoded(builder.statistics(statistics)).statistics().value();
    EXPECT_EQ(std::memcmp(&read, &statistics, sizeof(statistics)), 0);
    statistics.computed_mask = 0x40;
    EXPECT_EQ(status_of([&] { static_cast<void>(builder.statistics(statistics).encode()); }),
              HURRAY_ERR_INVALID_LAYOUT);
    statistics.has_inf = 2;
    EXPECT_EQ(status_of([&] { builder.statistics(statistics); }), HURRAY_ERR_INVALID_ARGUMENT);
    EXPECT_FALSE(decoded(builder.statistics(std::nullopt)).statistics().has_value());
}

TEST(DescriptorBuilder, PrivateElementType) {
    const HurrayExtensionType type{4, 1, 2, 1, 0, 1, 2, 1, 1, 0};
    DescriptorBuilder builder(ElementType{0xF0}, kShape);
    builder.buffer(6);
    EXPECT_EQ(status_of([&] { static_cast<void>(builder.encode()); }), HURRAY_ERR_INVALID_LAYOUT);
    const auto descriptor = decoded(builder.extension_type(type));
    const auto read = descriptor.extension_type().value();
    EXPECT_EQ(std::memcmp(&read, &type, sizeof(type)), 0);
    descriptor.validate();
    EXPECT_FALSE(row_major().build().extension_type().has_value());
}

TEST(DescriptorBuilder, MemberOfAnOverlay) {
    auto builder = row_major();
    const auto descriptor =
        decoded(builder.shard(hurray::ShardBox{{3, 4}, {0, 0}}).composite_member(HURRAY_MEMBER_BASE));
    EXPECT_EQ(descriptor.composite_member(), HURRAY_MEMBER_BASE);
    descriptor.validate();
    EXPECT_EQ(status_of([&] { static_cast<void>(builder.composite_member(std::uint8_t{2}).encode()); }),
              HURRAY_ERR_INTERNAL);
    EXPECT_FALSE(decoded(builder.composite_member(std::nullopt)).composite_member().has_value());
}

TEST(DescriptorBuilder, SectionThatIsNotThereIsNotFound) {
    const auto descriptor = row_major().build();
    HurrayStatistics statistics{};
    EXPECT_EQ(hurray_descriptor_statistics(descriptor.get(), &statistics), HURRAY_ERR_NOT_FOUND);
    EXPECT_STREQ(hurray_last_error_message(), "hurray_descriptor_statistics: the descriptor has no statistics section");
}

TEST(DescriptorBuilder, StartsFromADescriptorAndChangesOneThing) {
    auto builder = row_major();
    HurrayStatistics statistics{};
    statistics.nnz = 3;
    const Descriptor before = builder.statistics(statistics).build();
    DescriptorBuilder again(before);
    EXPECT_EQ(again.encode(), before.encode());
    const auto after = decoded(again.column_major());
    EXPECT_EQ(after.layout(), LayoutTag::ColumnMajor);
    EXPECT_EQ(after.statistics()->nnz, 3U);
    EXPECT_EQ(after.buffer_entry(0).byte_size, 48U);
}

TEST(DescriptorBuilder, BadArgumentsAreNamed) {
    HurrayDescriptorBuilder* builder = nullptr;
    EXPECT_EQ(hurray_descriptor_builder_new(3, nullptr, 2, &builder), HURRAY_ERR_NULL_POINTER);
    EXPECT_EQ(hurray_descriptor_builder_new(3, kShape, 2, nullptr), HURRAY_ERR_NULL_POINTER);
    const std::vector<std::uint64_t> many(65, 1);
    EXPECT_EQ(hurray_descriptor_builder_new(3, many.data(), 65, &builder), HURRAY_ERR_INVALID_LAYOUT);
    EXPECT_STREQ(hurray_last_error_message(),
                 "hurray_descriptor_builder_new: rank is 65, the maximum is 64 (RankExceedsMaximum)");
    EXPECT_EQ(builder, nullptr);
    EXPECT_EQ(hurray_descriptor_builder_destroy(nullptr), HURRAY_ERR_NULL_POINTER);
    EXPECT_EQ(hurray_descriptor_builder_destroy(&builder), HURRAY_OK);

    ASSERT_EQ(hurray_descriptor_builder_new(3, kShape, 2, &builder), HURRAY_OK);
    EXPECT_EQ(hurray_descriptor_builder_set_strided(builder, nullptr), HURRAY_ERR_NULL_POINTER);
    EXPECT_EQ(hurray_descriptor_builder_set_csf(builder, 1, nullptr), HURRAY_ERR_NULL_POINTER);
    EXPECT_EQ(hurray_descriptor_builder_set_tiled(builder, nullptr, 1), HURRAY_ERR_NULL_POINTER);
    EXPECT_EQ(hurray_descriptor_builder_set_shard(builder, kShape, nullptr), HURRAY_ERR_NULL_POINTER);
    EXPECT_EQ(hurray_descriptor_builder_set_shard(builder, nullptr, kShape), HURRAY_ERR_NULL_POINTER);
    EXPECT_EQ(hurray_descriptor_builder_add_buffer(builder, nullptr), HURRAY_ERR_NULL_POINTER);
    EXPECT_EQ(hurray_descriptor_builder_set_row_major(nullptr), HURRAY_ERR_NULL_POINTER);
    uintptr_t length = 77;
    EXPECT_EQ(hurray_descriptor_builder_encode(builder, nullptr, &length), HURRAY_ERR_INVALID_LAYOUT);  // no buffer
    EXPECT_EQ(length, 77U);
    HurrayDescriptor* untouched = nullptr;
    EXPECT_EQ(hurray_descriptor_builder_build(builder, &untouched), HURRAY_ERR_INVALID_LAYOUT);
    EXPECT_EQ(untouched, nullptr);
    HurrayBufferEntry entry{48, 64, 0, 0, 0, 1};
    EXPECT_EQ(hurray_descriptor_builder_add_buffer(builder, &entry), HURRAY_ERR_INVALID_ARGUMENT);
    EXPECT_EQ(hurray_descriptor_builder_destroy(&builder), HURRAY_OK);
    EXPECT_EQ(builder, nullptr);
}

}  // namespace
