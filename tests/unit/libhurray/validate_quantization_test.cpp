// Quantization against element type, shape, layout and buffer table.
#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "libhurray/format/descriptor_reader.hpp"
#include "libhurray/format/element_type.hpp"
#include "libhurray/format/validate.hpp"
#include "tests/support/sample_values.hpp"

namespace hurray {
namespace {

std::string named(const DescriptorResult<void>& result) {
    return result ? "" : std::string(fault_name(result.error().fault)) + ' ' + to_error(result.error()).field;
}

std::string violation(const DescriptorValue& value) {
    const auto bytes = value.encode();
    return bytes ? named(validate_descriptor(decode_descriptor(*bytes).value())) : describe(bytes.error());
}

/// What check_quantization() alone says.
std::string quantization_violation(const DescriptorValue& value) {
    const auto bytes = value.encode().value();
    return named(check_quantization(decode_descriptor(bytes).value()));
}

Quantization scheme(QuantizationScheme scheme) {
    Quantization q;
    q.scheme = scheme;
    q.scale = 0.5F;
    q.axis = 1;
    q.block_size = 32;
    q.scale_buffer_index = 1;
    q.zero_point_buffer_index = 2;
    q.scale_type_tag = 3;
    return q;
}

/// [4,64] elements of one byte or less, so much data that any of the types fits.
DescriptorValue quantized(ElementType type, const Quantization& q, const std::vector<std::uint64_t>& parameter_sizes) {
    auto value = test::value_of(type, {4, 64}, {}, {256});
    for (const std::uint64_t size : parameter_sizes) {
        value.buffers.push_back(test::cpu_buffer(size));
    }
    test::quantize(value, q);
    return value;
}

TEST(ValidateQuantization, EachSchemeWithItsParameterBuffersIsValid) {
    const auto per_tensor = scheme(QuantizationScheme::PerTensor);
    EXPECT_EQ(violation(quantized(ElementType::Int8, per_tensor, {})), "");
    auto per_channel = scheme(QuantizationScheme::PerChannel);
    EXPECT_EQ(violation(quantized(ElementType::Int8, per_channel, {256, 256})), "");
    per_channel.symmetric = true;
    EXPECT_EQ(violation(quantized(ElementType::Int8, per_channel, {256})), "");
    auto per_block = scheme(QuantizationScheme::PerBlock);  // two blocks in each of four rows
    EXPECT_EQ(violation(quantized(ElementType::Int4, per_block, {32, 32})), "");
    per_block.scale_type_tag = 1;
    EXPECT_EQ(violation(quantized(ElementType::Int4, per_block, {16, 32})), "");
    EXPECT_EQ(violation(quantized(ElementType::UInt4, scheme(QuantizationScheme::Nf4), {32})), "");
    EXPECT_EQ(violation(quantized(ElementType::Float4E2M1, scheme(QuantizationScheme::Mxfp), {8})), "");
}

TEST(ValidateQuantization, ParameterBuffersHoldTheParametersAndNothingElse) {
    const auto per_channel = scheme(QuantizationScheme::PerChannel);
    EXPECT_EQ(violation(quantized(ElementType::Int8, per_channel, {257, 256})),
              "ParameterBufferSize buffers[1].byte_size");
    EXPECT_EQ(violation(quantized(ElementType::Int8, per_channel, {256, 255})),
              "ParameterBufferSize buffers[2].byte_size");
    EXPECT_EQ(violation(quantized(ElementType::Float4E2M1, scheme(QuantizationScheme::Mxfp), {9})),
              "ParameterBufferSize buffers[1].byte_size");
}

TEST(ValidateQuantization, ScalesAndZeroPointsMayShareABuffer) {
    auto q = scheme(QuantizationScheme::PerChannel);
    q.zero_point_buffer_index = 1;
    EXPECT_EQ(violation(quantized(ElementType::Int8, q, {512})), "");
    EXPECT_EQ(violation(quantized(ElementType::Int8, q, {511})), "ParameterBufferSize buffers[1].byte_size");
    EXPECT_EQ(violation(quantized(ElementType::Int8, q, {512, 1})), "BufferCountMismatch buffer_count");
}

TEST(ValidateQuantization, PartialLastBlockHasParametersOfItsOwn) {
    auto value = quantized(ElementType::Int8, scheme(QuantizationScheme::PerBlock), {48, 48});
    value.shape = {4, 65};
    value.buffers[0].byte_size = 260;
    EXPECT_EQ(violation(value), "");
}

TEST(ValidateQuantization, EmptyTensorHasNoParameters) {
    auto value = quantized(ElementType::Int8, scheme(QuantizationScheme::PerBlock), {0, 0});
    value.shape = {0, 64};
    EXPECT_EQ(violation(value), "");
    value.shape = {4, 0};
    EXPECT_EQ(violation(value), "");
}

TEST(ValidateQuantization, EverySchemeStoresItsOwnTypes) {
    using enum ElementType;
    struct Row {
        QuantizationScheme scheme;
        std::vector<ElementType> types;
        std::vector<std::uint64_t> sizes;
    };
    const std::vector<Row> rows{
        {QuantizationScheme::PerTensor, {Int8, UInt8, Int16, UInt16, Int32, UInt32, Int4, UInt4, Int2, UInt2}, {}},
        {QuantizationScheme::PerChannel,
         {Int8, UInt8, Int16, UInt16, Int32, UInt32, Int4, UInt4, Int2, UInt2},
         {256, 256}},
        {QuantizationScheme::PerBlock, {Int8, UInt8, Int4, UInt4, Int2, UInt2}, {32, 32}},
        {QuantizationScheme::Nf4, {UInt4}, {32}},
        {QuantizationScheme::Mxfp, {Float8E4M3, Float8E5M2, Float4E2M1, Float6E2M3, Float6E3M2, Int8, Int4}, {8}},
    };
    for (const Row& row : rows) {
        for (int tag = 1; tag < 0x80; ++tag) {
            const auto type = static_cast<ElementType>(tag);
            if (check_element_type_tag(static_cast<std::uint8_t>(tag))) {
                continue;
            }
            const bool stored = std::find(row.types.begin(), row.types.end(), type) != row.types.end();
            EXPECT_EQ(quantization_violation(quantized(type, scheme(row.scheme), row.sizes)),
                      stored ? "" : "InvalidStorageTypeForScheme type_tag")
                << static_cast<int>(row.scheme) << ' ' << tag;
        }
    }
}

TEST(ValidateQuantization, ZeroPointIsAValueOfTheStorageType) {
    const auto with = [](ElementType type, std::int32_t zero_point) {
        auto q = scheme(QuantizationScheme::PerTensor);
        q.zero_point = zero_point;
        return quantization_violation(quantized(type, q, {}));
    };
    const std::string refused = "ZeroPointOutOfRange quantization.zero_point";
    const struct {
        ElementType type;
        std::int64_t lowest;
        std::int64_t highest;
    } ranges[] = {
        {ElementType::Int8, -128, 127},
        {ElementType::UInt8, 0, 255},
        {ElementType::Int16, -32768, 32767},
        {ElementType::UInt16, 0, 65535},
        {ElementType::Int32, INT32_MIN, INT32_MAX},
        {ElementType::UInt32, 0, INT32_MAX},
        {ElementType::Int4, -8, 7},
        {ElementType::UInt4, 0, 15},
        {ElementType::Int2, -2, 1},
        {ElementType::UInt2, 0, 3},
    };
    for (const auto& range : ranges) {
        for (const std::int64_t zero_point : {range.lowest - 1, range.lowest, range.highest, range.highest + 1}) {
            if (zero_point < INT32_MIN || zero_point > INT32_MAX) {
                continue;  // no field holds it
            }
            const bool holds = zero_point >= range.lowest && zero_point <= range.highest;
            EXPECT_EQ(with(range.type, static_cast<std::int32_t>(zero_point)), holds ? "" : refused)
                << static_cast<int>(range.type) << ' ' << zero_point;
        }
    }

    auto q = scheme(QuantizationScheme::PerTensor);
    q.zero_point = -300;
    const auto bytes = quantized(ElementType::Int8, q, {}).encode().value();
    EXPECT_EQ(describe(check_quantization(decode_descriptor(bytes).value()).error()),
              "quantization.zero_point is -300, which the storage type can't hold (ZeroPointOutOfRange)");
}

TEST(ValidateQuantization, AxisAndBlocksGoWithTheShape) {
    auto q = scheme(QuantizationScheme::PerBlock);
    q.axis = 2;
    EXPECT_EQ(quantization_violation(quantized(ElementType::Int8, q, {32, 32})),
              "QuantizationAxisOutOfBounds quantization.axis");
    q.axis = 0;  // 4 elements
    EXPECT_EQ(quantization_violation(quantized(ElementType::Int8, q, {32, 32})),
              "QuantizationShapeMismatch quantization.block_size");
    auto value = quantized(ElementType::Int8, scheme(QuantizationScheme::PerBlock), {32, 32});
    value.shape[1] = kDynamicDim;
    EXPECT_EQ(quantization_violation(value), "QuantizationShapeMismatch quantization.block_size");
    value.shape[1] = 0;
    EXPECT_EQ(quantization_violation(value), "");

    auto mxfp = quantized(ElementType::Int8, scheme(QuantizationScheme::Mxfp), {8});
    mxfp.shape[1] = 48;
    EXPECT_EQ(quantization_violation(mxfp), "QuantizationShapeMismatch quantization.block_size");
    mxfp.shape[1] = 0;
    EXPECT_EQ(quantization_violation(mxfp), "QuantizationShapeMismatch quantization.block_size");

    auto channels = quantized(ElementType::Int8, scheme(QuantizationScheme::PerChannel), {256, 256});
    channels.shape[1] = kDynamicDim;
    EXPECT_EQ(quantization_violation(channels), "");
    EXPECT_EQ(violation(channels), "InvalidShape shape[1]");
}

TEST(ValidateQuantization, ParameterBuffersAreInTheTableBehindTheData) {
    auto q = scheme(QuantizationScheme::PerChannel);
    EXPECT_EQ(quantization_violation(quantized(ElementType::Int8, q, {256})),
              "QuantizationBufferIndexOutOfRange quantization.zero_point_buffer_index");
    q.scale_buffer_index = 0;
    EXPECT_EQ(quantization_violation(quantized(ElementType::Int8, q, {256, 256})),
              "QuantizationBufferAliasesData quantization.scale_buffer_index");
    q.scale_buffer_index = 1;
    auto apart = quantized(ElementType::Int8, q, {256, 256});
    apart.buffers[2] = {256, 4096, DeviceTag::Cuda, SyncMode::ProducerSynced, MemoryClass::Standard};
    EXPECT_EQ(quantization_violation(apart), "DeviceTagMismatch buffers[2].device_tag");

    // Per-block without the symmetric flag decodes with "no buffer" for zero points, but has to have one.
    auto per_block = scheme(QuantizationScheme::PerBlock);
    per_block.zero_point_buffer_index = 0xFFFFFFFF;
    EXPECT_EQ(quantization_violation(quantized(ElementType::Int8, per_block, {32})),
              "QuantizationBufferIndexOutOfRange quantization.zero_point_buffer_index");

    // The coordinates of a sparse tensor are no scales.
    auto sparse = test::value_of(ElementType::Int8, {3, 4}, {LayoutTag::Coo, CooLayout{2, true}}, {2, 32, 16});
    q.symmetric = true;
    test::quantize(sparse, q);
    EXPECT_EQ(quantization_violation(sparse), "");
    EXPECT_EQ(violation(sparse), "QuantizationBufferAliasesData quantization.scale_buffer_index");
    q.scale_buffer_index = 2;
    test::quantize(sparse, q);
    EXPECT_EQ(violation(sparse), "");
}

TEST(ValidateQuantization, PagesHaveOneParameterASlot) {
    auto value = test::block_paged_value();
    value.element_type = ElementType::Int8;
    value.buffers[0].byte_size = 64;
    auto q = scheme(QuantizationScheme::PerBlock);
    q.axis = 0;
    q.block_size = 2;
    q.symmetric = true;
    q.scale_buffer_index = 3;
    test::quantize(value, q);
    value.buffers.push_back(test::cpu_buffer(32));  // 4 pages of 2 slots
    EXPECT_EQ(violation(value), "");
    value.buffers[3].byte_size = 28;
    EXPECT_EQ(violation(value), "ParameterBufferSize buffers[3].byte_size");
}

TEST(ValidateQuantization, WritersUseVersionOneAndNoSpareBytes) {
    auto value = quantized(ElementType::Int8, scheme(QuantizationScheme::PerTensor), {});
    value.quantization->push_back(0);
    EXPECT_EQ(quantization_violation(value), "");
    EXPECT_EQ(violation(value), "InvalidQuantization quantization_length");
    value.quantization->pop_back();
    (*value.quantization)[1] = 0;
    EXPECT_EQ(quantization_violation(value), "");
    EXPECT_EQ(violation(value), "UnsupportedSchemeVersion quantization.scheme_version");
}

}  // namespace
}  // namespace hurray
