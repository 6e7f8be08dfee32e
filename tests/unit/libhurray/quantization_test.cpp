#include "libhurray/format/quantization.hpp"

#include <optional>

#include <gtest/gtest.h>

#include "tests/support/hex.hpp"

namespace hurray {
namespace {

using test::from_hex;

std::optional<Fault> fault_of(std::string_view hex) {
    const auto bytes = from_hex(hex);
    const auto parsed = parse_quantization(bytes);
    return parsed ? std::nullopt : std::optional(parsed.error().fault);
}

// The per-block example of the written format.
TEST(Quantization, PerBlockGivesItsFields) {
    const auto bytes = from_hex("03 01 0100 01000000 80000000 01000000 FFFFFFFF 01 000000");
    const auto q = parse_quantization(bytes);
    ASSERT_TRUE(q) << describe(q.error());
    EXPECT_EQ(q->scheme, QuantizationScheme::PerBlock);
    EXPECT_TRUE(q->symmetric);
    EXPECT_EQ(q->axis, 1U);
    EXPECT_EQ(q->block_size, 128U);
    EXPECT_EQ(q->scale_buffer_index, 1U);
    EXPECT_EQ(q->scale_type_tag, 1);
}

TEST(Quantization, PerTensorScaleIsFiniteAndNotZero) {
    EXPECT_EQ(fault_of("01 01 0000 0000803F 05000000 00000000"), std::nullopt);
    EXPECT_EQ(fault_of("01 01 0000 00000080 05000000 00000000"), Fault::InvalidQuantization);
    EXPECT_EQ(fault_of("01 01 0000 0000807F 05000000 00000000"), Fault::InvalidQuantization);
    EXPECT_EQ(fault_of("01 01 0000 0000803F 05000000 00000001"), Fault::InvalidQuantization);
}

TEST(Quantization, SchemeTagIsJudgedBeforeTheLength) {
    EXPECT_EQ(fault_of(""), Fault::QuantizationDescriptorTooShort);
    EXPECT_EQ(fault_of("00"), Fault::InvalidQuantizationSchemeTag);
    EXPECT_EQ(fault_of("06"), Fault::UnknownQuantizationSchemeTag);
    EXPECT_EQ(fault_of("60"), Fault::ReservedQuantizationSchemeTag);
    EXPECT_EQ(fault_of("F0"), Fault::PrivateQuantizationSchemeTag);
    EXPECT_EQ(fault_of("01"), Fault::QuantizationDescriptorTooShort);
    EXPECT_EQ(fault_of("01 02 0000"), Fault::UnsupportedSchemeVersion);
    EXPECT_EQ(fault_of("01 01 0100"), Fault::QuantizationDescriptorTooShort);
    EXPECT_EQ(fault_of("01 01 0100 0000803F 05000000 00000000"), Fault::ReservedQuantizationFlagsBits);
}

TEST(Quantization, BlockSizesAreThoseOfTheScheme) {
    EXPECT_EQ(fault_of("05 01 0000 00000000 20000000 01000000 00000000"), std::nullopt);
    EXPECT_EQ(fault_of("05 01 0000 00000000 08000000 01000000 00000000"), Fault::InvalidBlockSize);
    EXPECT_EQ(fault_of("05 01 0000 00000000 00100000 01000000 00000000"), Fault::InvalidBlockSize);
    EXPECT_EQ(fault_of("04 01 0000 00000000 08000000 01000000 00000000"), std::nullopt);
    EXPECT_EQ(fault_of("04 01 0000 00000000 0C000000 01000000 00000000"), Fault::InvalidBlockSize);
}

TEST(Quantization, BytesPastTheSchemeAreIgnored) {
    EXPECT_EQ(fault_of("01 01 0000 0000803F 05000000 00000000 ABCDEF"), std::nullopt);
}

}  // namespace
}  // namespace hurray
