#include "libhurray/format/descriptor_reader.hpp"
#include "libhurray/format/owned_descriptor.hpp"

#include <optional>

#include <gtest/gtest.h>

#include "tests/support/hex.hpp"
#include "tests/support/sample_descriptors.hpp"

namespace hurray {
namespace {

using test::from_hex;
using test::row_major_f32_3x4;

std::optional<Fault> fault_of(const std::vector<std::uint8_t>& bytes) {
    const auto view = decode_descriptor(bytes);
    return view ? std::nullopt : std::optional(view.error().fault);
}

/// The sample with the byte at each offset replaced.
std::optional<Fault> fault_with(std::initializer_list<std::pair<std::size_t, std::uint8_t>> changes) {
    auto bytes = row_major_f32_3x4();
    for (const auto& [offset, value] : changes) {
        bytes.at(offset) = value;
    }
    return fault_of(bytes);
}

TEST(DescriptorReader, DenseDescriptorGivesItsFields) {
    const auto bytes = row_major_f32_3x4();
    const auto view = decode_descriptor(bytes);
    ASSERT_TRUE(view);
    EXPECT_EQ(view->version_major, 1);
    EXPECT_EQ(view->version_minor, 0);
    EXPECT_EQ(view->element_type, ElementType::Float32);
    EXPECT_EQ(view->layout.tag, LayoutTag::RowMajor);
    ASSERT_EQ(view->shape.rank(), 2U);
    EXPECT_EQ(view->shape[0], 3U);
    EXPECT_EQ(view->shape[1], 4U);
    EXPECT_EQ(view->byte_offset, 0U);
    ASSERT_EQ(view->buffers.size(), 1U);
    EXPECT_EQ(view->buffers[0].byte_size, 48U);
    EXPECT_EQ(view->buffers[0].alignment, 64U);
    EXPECT_EQ(view->buffers[0].device, DeviceTag::Cpu);
    EXPECT_FALSE(view->quantization || view->shard || view->statistics || view->extension_type ||
                 view->composite_member);
}

// Section 9.7 of the written format: single changes to its first example, with the error that each produces.
TEST(DescriptorReader, SingleChangesGiveTheErrorsOfTheWrittenFormat) {
    auto nine_bytes = row_major_f32_3x4();
    nine_bytes.resize(9);
    EXPECT_EQ(fault_of(nine_bytes), Fault::DescriptorTruncated);
    EXPECT_EQ(fault_with({{0, 0x00}}), Fault::InvalidMagic);
    EXPECT_EQ(fault_with({{4, 0x02}}), Fault::UnsupportedDescriptorVersion);
    EXPECT_EQ(fault_with({{4, 0x00}}), std::nullopt);
    EXPECT_EQ(fault_with({{6, 0x13}}), Fault::DescriptorTooShort);
    EXPECT_EQ(fault_with({{6, 0x3C}}), Fault::DescriptorTruncated);
    EXPECT_EQ(fault_with({{6, 0x3E}}), Fault::DescriptorLengthMismatch);
    EXPECT_EQ(fault_with({{6, 0x3E}, {5, 0x01}}), std::nullopt);
    EXPECT_EQ(fault_with({{10, 0x20}}), Fault::ReservedDescriptorFlagBitsSet);
    EXPECT_EQ(fault_with({{10, 0x10}}), Fault::DescriptorTruncated);
    EXPECT_EQ(fault_with({{14, 0x47}}), Fault::ReservedTypeTag);
    EXPECT_EQ(fault_with({{14, 0x05}}), Fault::UnknownTypeTag);
    EXPECT_EQ(fault_with({{14, 0xFF}}), Fault::InvalidTypeTag);
    EXPECT_EQ(fault_with({{14, 0xF0}}), Fault::ExtensionTypeFlagMismatch);
    EXPECT_EQ(fault_with({{15, 0x0C}}), Fault::ReservedLayoutTag);
    EXPECT_EQ(fault_with({{15, 0x00}}), Fault::InvalidLayoutTag);
    EXPECT_EQ(fault_with({{14, 0x05}, {15, 0x0C}}), Fault::UnknownTypeTag);
    EXPECT_EQ(fault_with({{16, 0x41}}), Fault::RankExceedsMaximum);
    EXPECT_EQ(fault_with({{44, 0x00}}), Fault::EmptyBufferTable);
    EXPECT_EQ(fault_with({{53, 0x20}}), Fault::AlignmentBelowMinimum);
    EXPECT_EQ(fault_with({{57, 0x09}}), Fault::ReservedDeviceTag);
    EXPECT_EQ(fault_with({{57, 0xFF}}), Fault::InvalidDeviceTag);
    EXPECT_EQ(fault_with({{57, 0x09}, {60, 0x01}}), Fault::ReservedBytesNonZero);
    EXPECT_EQ(fault_with({{58, 0x03}}), Fault::InvalidSyncMode);
    EXPECT_EQ(fault_with({{58, 0x01}}), Fault::CpuSyncMode);
    EXPECT_EQ(fault_with({{57, 0x01}, {58, 0x01}}), std::nullopt);
    EXPECT_EQ(fault_with({{59, 0x04}}), Fault::ReservedMemoryClass);
    auto longer = row_major_f32_3x4();
    longer.resize(100, 0xAB);
    EXPECT_EQ(fault_of(longer), std::nullopt);
}

TEST(DescriptorReader, EveryTruncationIsRefusedWithoutReadingPastTheEnd) {
    const auto bytes = row_major_f32_3x4();
    for (std::size_t length = 0; length < bytes.size(); ++length) {
        // A block of exactly that size, so that AddressSanitizer sees a read past it.
        const std::vector<std::uint8_t> cut(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(length));
        EXPECT_EQ(fault_of(cut), Fault::DescriptorTruncated) << length;
    }
}

TEST(DescriptorReader, BadLayoutTagOfAShortDescriptorIsATruncation) {
    auto bytes = row_major_f32_3x4();
    bytes[15] = 0x0C;
    bytes.resize(43);
    EXPECT_EQ(fault_of(bytes), Fault::DescriptorTruncated);
}

TEST(DescriptorReader, ErrorSaysWhichBufferIsWrong) {
    const auto bytes = from_hex(
        "48525259 01 00 4D000000 00000000 03 01 02000000"
        "0300000000000000 0400000000000000 0000000000000000"
        "02"
        "3000000000000000 40000000 00 00 00 00"
        "3000000000000000 30000000 00 00 00 00");
    const auto view = decode_descriptor(bytes);
    ASSERT_FALSE(view);
    EXPECT_EQ(describe(view.error()), "buffers[1].alignment is 48, not a power of two (AlignmentNotPowerOfTwo)");
}

// float32 [8,8] in 4x4 tiles, each of them in 2x2 tiles: the second example of the tiled layout.
TEST(DescriptorReader, NestedTilesGiveEachLevel) {
    const auto bytes = from_hex(
        "48525259 01 00 65000000 00000000 03 04 02000000"
        "0800000000000000 0800000000000000 0000000000000000"
        "0400000000000000 0400000000000000 01 04 0000"
        "0200000000000000 0200000000000000 02 01 0000"
        "01 0001000000000000 40000000 00 00 00 00");
    const auto view = decode_descriptor(bytes);
    ASSERT_TRUE(view) << describe(view.error());
    const auto* tiled = view->layout.as<TiledLayout>();
    ASSERT_NE(tiled, nullptr);
    ASSERT_EQ(tiled->level_count, 2U);
    EXPECT_EQ(tiled->level(0).tile_shape[1], 4U);
    EXPECT_EQ(tiled->level(0).inner, LayoutTag::Tiled);
    EXPECT_EQ(tiled->level(1).tile_shape[1], 2U);
    EXPECT_EQ(tiled->level(1).outer, LayoutTag::ColumnMajor);
    EXPECT_EQ(tiled->level(1).inner, LayoutTag::RowMajor);
}

TEST(DescriptorReader, OwnedDescriptorOutlivesItsInput) {
    auto bytes = row_major_f32_3x4();
    auto decoded = OwnedDescriptor::decode(bytes);
    ASSERT_TRUE(decoded);
    std::fill(bytes.begin(), bytes.end(), std::uint8_t{0xEE});
    const OwnedDescriptor moved = *std::move(decoded);
    ASSERT_EQ(moved.view().shape.rank(), 2U);
    EXPECT_EQ(moved.view().shape[1], 4U);
    EXPECT_EQ(moved.view().buffers[0].byte_size, 48U);
}

TEST(DescriptorReader, TenBytesTellTheLength) {
    auto bytes = row_major_f32_3x4();
    bytes.resize(10);
    EXPECT_EQ(declared_descriptor_length(bytes).value(), 61U);
    bytes.resize(9);
    EXPECT_EQ(declared_descriptor_length(bytes).error().fault, Fault::DescriptorTruncated);
}

TEST(DescriptorReader, HugeLengthOfALaterMinorVersionIsJustIgnored) {
    EXPECT_EQ(fault_with({{5, 0x01}, {6, 0xFF}, {7, 0xFF}, {8, 0xFF}, {9, 0xFF}}), std::nullopt);
}

}  // namespace
}  // namespace hurray
