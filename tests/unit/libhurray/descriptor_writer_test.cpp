#include "libhurray/format/descriptor_writer.hpp"

#include <gtest/gtest.h>

#include "libhurray/format/descriptor_reader.hpp"
#include "tests/support/hex.hpp"
#include "tests/support/sample_descriptors.hpp"

namespace hurray {
namespace {

std::vector<std::uint8_t> reencode(const std::vector<std::uint8_t>& bytes) {
    const auto view = decode_descriptor(bytes);
    if (!view) {
        ADD_FAILURE() << describe(view.error());
        return {};
    }
    std::vector<std::uint8_t> out(encoded_size(*view));
    encode_descriptor(*view, out);
    return out;
}

TEST(DescriptorWriter, DecodingAndEncodingIsTheIdentityOnCanonicalBytes) {
    const auto bytes = test::row_major_f32_3x4();
    EXPECT_EQ(reencode(bytes), bytes);
}

TEST(DescriptorWriter, SurplusOfALaterMinorVersionIsDroppedAndTheLengthCorrected) {
    auto bytes = test::row_major_f32_3x4();
    const auto canonical_tail = bytes;
    bytes[5] = 1;
    bytes[6] = 64;
    bytes.resize(64, 0x77);
    auto expected = canonical_tail;
    expected[5] = 1;
    EXPECT_EQ(reencode(bytes), expected);
}

TEST(DescriptorWriter, BooleansBecomeZeroOrOne) {
    auto bytes = test::from_hex(
        "48525259 01 00 5D000000 00000000 01 06 02000000"
        "0200000000000000 0300000000000000 0000000000000000"
        "0100000000000000 07 00000000000000"
        "02"
        "0200000000000000 40000000 00 00 00 00"
        "1000000000000000 40000000 00 00 00 00");
    auto expected = bytes;
    expected[52] = 1;
    EXPECT_EQ(reencode(bytes), expected);
}

}  // namespace
}  // namespace hurray
