#include <vector>

#include <gtest/gtest.h>

#include "libhurray/format/dense.hpp"
#include "libhurray/format/descriptor_reader.hpp"
#include "libhurray/format/validate.hpp"
#include "tests/support/sample_descriptors.hpp"
#include "tests/unit/libhurray/counting_new.hpp"

namespace hurray {
namespace {

std::vector<std::uint8_t> strided_of_rank(std::size_t rank) {
    const std::vector<std::uint64_t> shape(rank, 2);
    const std::vector<std::int64_t> strides(rank, 1);
    DenseTensor tensor;
    tensor.layout = LayoutTag::Strided;
    tensor.shape = shape;
    tensor.strides = strides;
    const auto encoding = encode_dense(tensor).value();
    return {encoding.bytes().begin(), encoding.bytes().end()};
}

TEST(Allocation, DecodingAndValidatingADenseDescriptorAllocatesNothing) {
    for (const std::size_t rank : {std::size_t{1}, std::size_t{8}, kMaxRank}) {
        const auto bytes = strided_of_rank(rank);
        const int before = test::allocations();
        const auto view = decode_descriptor(bytes);
        const bool valid = view && validate_descriptor(*view);
        EXPECT_EQ(test::allocations(), before) << rank;
        EXPECT_TRUE(valid) << rank;
    }
}

TEST(Allocation, RefusingADescriptorAllocatesNothing) {
    auto bytes = test::row_major_f32_3x4();
    bytes[14] = 0x05;
    const int before = test::allocations();
    const bool refused = !decode_descriptor(bytes);
    EXPECT_EQ(test::allocations(), before);
    EXPECT_TRUE(refused);
}

TEST(Allocation, EncodingADenseDescriptorAllocatesNothing) {
    const std::vector<std::uint64_t> shape(8, 2);
    DenseTensor tensor;
    tensor.shape = shape;
    const int before = test::allocations();
    const bool encoded = encode_dense(tensor).has_value();
    EXPECT_EQ(test::allocations(), before);
    EXPECT_TRUE(encoded);
}

}  // namespace
}  // namespace hurray
