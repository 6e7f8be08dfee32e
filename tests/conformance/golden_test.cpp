// Descriptors written down by hand from the examples of the written format: golden/*.hex.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "hurray.h"

#include "libhurray/format/descriptor_reader.hpp"
#include "libhurray/format/quantization.hpp"
#include "tests/support/hex.hpp"

namespace hurray {
namespace {

namespace fs = std::filesystem;

std::vector<std::uint8_t> load(const std::string& name) {
    std::ifstream file(fs::path(HURRAY_GOLDEN_DIR) / (name + ".hex"));
    EXPECT_TRUE(file) << name;
    return test::from_hex(std::string(std::istreambuf_iterator<char>(file), {}));
}

/// The fields of a golden descriptor; the view lends from its bytes.
struct Golden {
    explicit Golden(const std::string& name) : bytes(load(name)) {
        const auto decoded = decode_descriptor(bytes);
        EXPECT_TRUE(decoded) << name << ": " << describe(decoded.error());
        view = decoded.value_or(DescriptorView{});
    }
    std::vector<std::uint8_t> bytes;
    DescriptorView view;
};

TEST(Golden, EveryDescriptorDecodesAndEncodesToTheSameBytes) {
    std::size_t count = 0;
    for (const auto& entry : fs::directory_iterator(HURRAY_GOLDEN_DIR)) {
        const std::string name = entry.path().stem();
        const auto bytes = load(name);
        HurrayDescriptor* descriptor = nullptr;
        ASSERT_EQ(hurray_descriptor_decode(bytes.data(), bytes.size(), &descriptor), HURRAY_OK)
            << name << ": " << hurray_last_error_message();
        std::vector<std::uint8_t> again(bytes.size());
        uintptr_t length = again.size();
        EXPECT_EQ(hurray_descriptor_encode(descriptor, again.data(), &length), HURRAY_OK) << name;
        EXPECT_EQ(length, bytes.size()) << name;
        EXPECT_EQ(again, bytes) << name;
        hurray_descriptor_destroy(descriptor);
        ++count;
    }
    EXPECT_EQ(count, 10U);
}

TEST(Golden, EveryTruncationIsRefused) {
    for (const auto& entry : fs::directory_iterator(HURRAY_GOLDEN_DIR)) {
        const auto bytes = load(entry.path().stem());
        for (std::size_t length = 0; length < bytes.size(); ++length) {
            const std::vector<std::uint8_t> cut(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(length));
            const auto view = decode_descriptor(cut);
            ASSERT_FALSE(view) << entry.path() << " cut to " << length;
            EXPECT_EQ(view.error().fault, Fault::DescriptorTruncated) << entry.path() << " cut to " << length;
        }
    }
}

TEST(Golden, StridedKeepsItsStrides) {
    const Golden golden("strided_f32_3x4");
    const auto* layout = golden.view.layout.as<StridedLayout>();
    ASSERT_NE(layout, nullptr);
    EXPECT_EQ(layout->strides[0], 4);
    EXPECT_EQ(layout->strides[1], 1);
}

TEST(Golden, CsrKeepsItsCountAndThreeBuffers) {
    const Golden golden("csr_f32_3x3");
    ASSERT_NE(golden.view.layout.as<CompressedLayout>(), nullptr);
    EXPECT_EQ(golden.view.layout.as<CompressedLayout>()->nnz, 2U);
    ASSERT_EQ(golden.view.buffers.size(), 3U);
    EXPECT_EQ(golden.view.buffers[2].byte_size, 32U);
}

TEST(Golden, QuantizationKeepsItsBytes) {
    const Golden golden("per_block_int4_128x128");
    ASSERT_TRUE(golden.view.quantization);
    const auto quantization = parse_quantization(*golden.view.quantization);
    ASSERT_TRUE(quantization) << describe(quantization.error());
    EXPECT_EQ(quantization->scheme, QuantizationScheme::PerBlock);
    EXPECT_TRUE(quantization->symmetric);
    EXPECT_EQ(quantization->block_size, 128U);
}

TEST(Golden, CompositeHeadHasMembersAndNoBuffers) {
    const Golden golden("composite_head_partition");
    const auto* head = golden.view.layout.as<CompositeHeadLayout>();
    ASSERT_NE(head, nullptr);
    EXPECT_EQ(head->rule, CompositionRule::Partition);
    EXPECT_EQ(head->member_count, 2U);
    EXPECT_EQ(golden.view.buffers.size(), 0U);
}

TEST(Golden, ShardKnowsItsParent) {
    const Golden golden("shard_f32_8x4");
    ASSERT_TRUE(golden.view.shard);
    EXPECT_EQ(golden.view.shard->parent_shape[1], 8U);
    EXPECT_EQ(golden.view.shard->offset[1], 4U);
}

TEST(Golden, OverlayCorrectionHasItsRole) {
    const Golden golden("overlay_correction_coo_f16_2x3");
    EXPECT_EQ(golden.view.composite_member, MemberRole::Correction);
    ASSERT_NE(golden.view.layout.as<CooLayout>(), nullptr);
    EXPECT_TRUE(golden.view.layout.as<CooLayout>()->is_sorted);
}

TEST(Golden, BlockPagedKeepsItsFields) {
    const Golden golden("block_paged_f16");
    const auto* layout = golden.view.layout.as<BlockPagedLayout>();
    ASSERT_NE(layout, nullptr);
    EXPECT_EQ(layout->page_size, 2U);
    EXPECT_EQ(layout->num_pages, 4U);
    EXPECT_EQ(layout->num_seqs, 2U);
    EXPECT_EQ(layout->layer_index, std::nullopt);
    EXPECT_FALSE(layout->wide_index);
}

TEST(Golden, PrivateTypeAndStatisticsKeepTheirFields) {
    const Golden golden("private_type_with_statistics");
    ASSERT_TRUE(golden.view.statistics && golden.view.extension_type);
    EXPECT_EQ(golden.view.statistics->nnz, 4U);
    EXPECT_EQ(golden.view.statistics->value_max_bits, 0x7FF8000000000000U);
    EXPECT_TRUE(golden.view.statistics->has_nan);
    EXPECT_EQ(golden.view.extension_type->bit_width, 24U);
    EXPECT_TRUE(golden.view.extension_type->is_signed);
}

}  // namespace
}  // namespace hurray
