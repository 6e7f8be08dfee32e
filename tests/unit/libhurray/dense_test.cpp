#include "libhurray/format/dense.hpp"

#include <optional>

#include <gtest/gtest.h>

#include "libhurray/format/descriptor_reader.hpp"
#include "libhurray/format/validate.hpp"
#include "tests/support/sample_descriptors.hpp"

namespace hurray {
namespace {

const std::vector<std::uint64_t> kShape{3, 4};
const std::vector<std::int64_t> kStrides{4, 1};

DenseTensor sample() {
    DenseTensor tensor;
    tensor.shape = kShape;
    return tensor;
}

std::optional<Fault> fault_of(const DenseTensor& tensor) {
    const auto encoding = encode_dense(tensor);
    return encoding ? std::nullopt : std::optional(encoding.error().fault);
}

TEST(Dense, SampleGivesExactlyTheBytesOfTheWrittenFormat) {
    const auto encoding = encode_dense(sample());
    ASSERT_TRUE(encoding) << describe(encoding.error());
    const auto bytes = encoding->bytes();
    EXPECT_EQ(std::vector(bytes.begin(), bytes.end()), test::row_major_f32_3x4());
}

TEST(Dense, HighestRankFitsAndComesBack) {
    const std::vector<std::uint64_t> shape(kMaxRank, 1);
    const std::vector<std::int64_t> strides(kMaxRank, -7);
    DenseTensor tensor;
    tensor.layout = LayoutTag::Strided;
    tensor.shape = shape;
    tensor.strides = strides;
    const auto encoding = encode_dense(tensor);
    ASSERT_TRUE(encoding) << describe(encoding.error());
    const auto view = decode_descriptor(encoding->bytes());
    ASSERT_TRUE(view);
    EXPECT_EQ(view->shape.rank(), kMaxRank);
    EXPECT_EQ(view->layout.as<StridedLayout>()->strides[63], -7);
    EXPECT_TRUE(validate_descriptor(*view));
}

TEST(Dense, SizeOfZeroMeansWhatTheTensorNeeds) {
    DenseTensor tensor = sample();
    tensor.byte_offset = 128;
    const auto encoding = encode_dense(tensor);
    ASSERT_TRUE(encoding);
    EXPECT_EQ(decode_descriptor(encoding->bytes())->buffers[0].byte_size, 128U + 48U);
}

TEST(Dense, EmptyTensorBehindAnOffsetKeepsTheOffsetInsideItsBuffer) {
    const std::vector<std::uint64_t> shape{0};
    DenseTensor tensor;
    tensor.shape = shape;
    tensor.byte_offset = 128;
    EXPECT_EQ(dense_byte_size(tensor).value(), 128U);
    EXPECT_TRUE(encode_dense(tensor));
}

TEST(Dense, BufferOneByteTooSmallIsRefusedAndSaysWhatIsNeeded) {
    DenseTensor tensor = sample();
    tensor.buffer.byte_size = 47;
    const auto encoding = encode_dense(tensor);
    ASSERT_FALSE(encoding);
    EXPECT_EQ(describe(encoding.error()),
              "buffers[0].byte_size is 47, but offset and elements need 48 bytes (ElementsPastBuffer)");
}

TEST(Dense, FieldsThatNoDescriptorCouldHaveAreRefused) {
    DenseTensor tensor = sample();
    tensor.element_type = static_cast<ElementType>(0x05);
    EXPECT_EQ(fault_of(tensor), Fault::UnknownTypeTag);
    tensor.element_type = static_cast<ElementType>(0xF0);
    EXPECT_EQ(fault_of(tensor), Fault::UnknownTypeTag);

    tensor = sample();
    tensor.layout = LayoutTag::Tiled;
    EXPECT_EQ(fault_of(tensor), Fault::InvalidLayout);

    tensor = sample();
    tensor.strides = kStrides;
    EXPECT_EQ(fault_of(tensor), Fault::InvalidLayout);

    tensor = sample();
    tensor.layout = LayoutTag::Strided;
    EXPECT_EQ(fault_of(tensor), Fault::InvalidLayout);

    const std::vector<std::uint64_t> long_shape(kMaxRank + 1, 1);
    tensor = sample();
    tensor.shape = long_shape;
    EXPECT_EQ(fault_of(tensor), Fault::RankExceedsMaximum);

    tensor = sample();
    tensor.buffer.alignment = 96;
    EXPECT_EQ(fault_of(tensor), Fault::AlignmentNotPowerOfTwo);

    tensor = sample();
    tensor.buffer.sync_mode = SyncMode::Event;
    EXPECT_EQ(fault_of(tensor), Fault::CpuSyncMode);

    tensor = sample();
    tensor.buffer.memory_class = MemoryClass::Peer;
    EXPECT_EQ(fault_of(tensor), Fault::MemoryClassNotOnDevice);
}

TEST(Dense, ScalarIsRowMajorOnly) {
    DenseTensor scalar;
    EXPECT_TRUE(encode_dense(scalar));
    scalar.layout = LayoutTag::ColumnMajor;
    EXPECT_EQ(fault_of(scalar), Fault::InvalidLayout);
}

}  // namespace
}  // namespace hurray
