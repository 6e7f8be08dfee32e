#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "hurray.h"

#include "tests/support/hex.hpp"

namespace {

constexpr uint64_t kShape[] = {2, 3};

HurrayDenseDescriptor sample() {
    HurrayDenseDescriptor dense{};
    dense.struct_size = sizeof(dense);
    dense.element_type = HURRAY_TYPE_FLOAT32;
    dense.rank = 2;
    dense.shape = kShape;
    return dense;
}

std::vector<uint8_t> encode(const HurrayDenseDescriptor& dense) {
    std::vector<uint8_t> bytes(2000);
    uintptr_t length = bytes.size();
    EXPECT_EQ(hurray_descriptor_encode_dense(&dense, bytes.data(), &length), HURRAY_OK) << hurray_last_error_message();
    bytes.resize(length);
    return bytes;
}

HurrayStatus encode_status(const HurrayDenseDescriptor& dense) {
    std::vector<uint8_t> bytes(2000, 0xAA);
    uintptr_t length = bytes.size();
    const HurrayStatus status = hurray_descriptor_encode_dense(&dense, bytes.data(), &length);
    EXPECT_EQ(length, bytes.size()) << "a failure must leave the length as it is";
    EXPECT_EQ(bytes, std::vector<uint8_t>(2000, 0xAA));
    return status;
}

/// Decodes, and destroys at the end.
class Decoded {
  public:
    explicit Decoded(const std::vector<uint8_t>& bytes) {
        EXPECT_EQ(hurray_descriptor_decode(bytes.data(), bytes.size(), &handle), HURRAY_OK)
            << hurray_last_error_message();
    }
    Decoded(const Decoded&) = delete;
    Decoded& operator=(const Decoded&) = delete;
    ~Decoded() { hurray_descriptor_destroy(handle); }

    HurrayDescriptor* handle = nullptr;
};

TEST(DescriptorAbi, EncodedDenseTensorDecodesToItsFields) {
    const Decoded decoded(encode(sample()));
    uint8_t type = 0;
    uint8_t layout = 0;
    EXPECT_EQ(hurray_descriptor_element_type_tag(decoded.handle, &type), HURRAY_OK);
    EXPECT_EQ(hurray_descriptor_layout_tag(decoded.handle, &layout), HURRAY_OK);
    EXPECT_EQ(type, HURRAY_TYPE_FLOAT32);
    EXPECT_EQ(layout, HURRAY_LAYOUT_ROW_MAJOR);
    HurrayBufferEntry entry{};
    EXPECT_EQ(hurray_descriptor_buffer_entry(decoded.handle, 0, &entry), HURRAY_OK);
    EXPECT_EQ(entry.byte_size, 24U);
    EXPECT_EQ(entry.alignment, 64U);
    EXPECT_EQ(hurray_descriptor_buffer_entry(decoded.handle, 1, &entry), HURRAY_ERR_INDEX_OUT_OF_BOUNDS);
    EXPECT_STREQ(hurray_last_error_message(),
                 "hurray_descriptor_buffer_entry: index is 1, the descriptor has 1 buffers");
    EXPECT_EQ(hurray_descriptor_validate(decoded.handle), HURRAY_OK);
}

TEST(DescriptorAbi, EncodingFollowsTheCapacityPattern) {
    const auto dense = sample();
    uintptr_t length = 0;
    EXPECT_EQ(hurray_descriptor_encode_dense(&dense, nullptr, &length), HURRAY_ERR_BUFFER_TOO_SMALL);
    EXPECT_EQ(length, 61U);
    std::vector<uint8_t> bytes(60, 0xAA);
    length = 60;
    EXPECT_EQ(hurray_descriptor_encode_dense(&dense, bytes.data(), &length), HURRAY_ERR_BUFFER_TOO_SMALL);
    EXPECT_EQ(length, 61U);
    EXPECT_EQ(bytes, std::vector<uint8_t>(60, 0xAA));
    EXPECT_STREQ(hurray_last_error_message(),
                 "hurray_descriptor_encode_dense: 'out_bytes' is null or has room for 60 entries, 61 are needed");
}

TEST(DescriptorAbi, EncodingAgainGivesTheSameBytes) {
    const auto bytes = encode(sample());
    const Decoded decoded(bytes);
    std::vector<uint8_t> again(bytes.size());
    uintptr_t length = again.size();
    EXPECT_EQ(hurray_descriptor_encode(decoded.handle, again.data(), &length), HURRAY_OK);
    EXPECT_EQ(again, bytes);
    length = 3;
    EXPECT_EQ(hurray_descriptor_encode(decoded.handle, again.data(), &length), HURRAY_ERR_BUFFER_TOO_SMALL);
    EXPECT_EQ(length, bytes.size());
}

TEST(DescriptorAbi, StridesAreTheImpliedOnesOrTheStoredOnes) {
    const auto strides_of = [](const HurrayDenseDescriptor& dense) {
        const Decoded decoded(encode(dense));
        std::vector<int64_t> strides(2);
        uintptr_t rank = 2;
        EXPECT_EQ(hurray_descriptor_strides(decoded.handle, strides.data(), &rank), HURRAY_OK);
        EXPECT_EQ(rank, 2U);
        return strides;
    };
    auto dense = sample();
    EXPECT_EQ(strides_of(dense), (std::vector<int64_t>{3, 1}));
    dense.layout = HURRAY_LAYOUT_COLUMN_MAJOR;
    EXPECT_EQ(strides_of(dense), (std::vector<int64_t>{1, 2}));
    const std::vector<int64_t> stored{3, -1};
    dense.layout = HURRAY_LAYOUT_STRIDED;
    dense.strides = stored.data();
    dense.byte_offset = 8;
    EXPECT_EQ(strides_of(dense), stored);
}

TEST(DescriptorAbi, LayoutWithoutStridesSaysSo) {
    // uint8 [2,2] in Hilbert order 1.
    const auto bytes = hurray::test::from_hex(
        "48525259 01 00 45000000 00000000 11 40 02000000"
        "0200000000000000 0200000000000000 0000000000000000"
        "01000000 02000000"
        "01 0400000000000000 40000000 00 00 00 00");
    const Decoded decoded(bytes);
    int64_t strides[2] = {7, 7};
    uintptr_t rank = 2;
    EXPECT_EQ(hurray_descriptor_strides(decoded.handle, strides, &rank), HURRAY_ERR_UNSUPPORTED);
    EXPECT_EQ(strides[0], 7);
    EXPECT_STREQ(hurray_last_error_message(), "hurray_descriptor_strides: layout 64 has no strides");
}

TEST(DescriptorAbi, RequiredSizeIgnoresTheSizeGiven) {
    auto dense = sample();
    dense.byte_size = 1;
    dense.byte_offset = 64;
    uint64_t size = 0;
    EXPECT_EQ(hurray_descriptor_dense_byte_size(&dense, &size), HURRAY_OK);
    EXPECT_EQ(size, 88U);
}

TEST(DescriptorAbi, MistakesInTheStructAreInvalidArguments) {
    auto dense = sample();
    dense.struct_size = 8;
    EXPECT_EQ(encode_status(dense), HURRAY_ERR_INVALID_ARGUMENT);
    EXPECT_NE(std::string(hurray_last_error_message()).find("struct_size is 8"), std::string::npos);
    dense = sample();
    dense.reserved[2] = 1;
    EXPECT_EQ(encode_status(dense), HURRAY_ERR_INVALID_ARGUMENT);
    dense = sample();
    dense.reserved2 = 1;
    EXPECT_EQ(encode_status(dense), HURRAY_ERR_INVALID_ARGUMENT);
    const int64_t strides[] = {3, 1};
    dense = sample();
    dense.strides = strides;
    EXPECT_EQ(encode_status(dense), HURRAY_ERR_INVALID_ARGUMENT);
}

TEST(DescriptorAbi, MissingArraysAreNullPointers) {
    auto dense = sample();
    dense.shape = nullptr;
    EXPECT_EQ(encode_status(dense), HURRAY_ERR_NULL_POINTER);
    dense = sample();
    dense.layout = HURRAY_LAYOUT_STRIDED;
    EXPECT_EQ(encode_status(dense), HURRAY_ERR_NULL_POINTER);
    uintptr_t length = 0;
    uint64_t size = 0;
    EXPECT_EQ(hurray_descriptor_encode_dense(nullptr, nullptr, &length), HURRAY_ERR_NULL_POINTER);
    EXPECT_EQ(hurray_descriptor_encode_dense(&dense, nullptr, nullptr), HURRAY_ERR_NULL_POINTER);
    EXPECT_EQ(hurray_descriptor_dense_byte_size(nullptr, &size), HURRAY_ERR_NULL_POINTER);
    EXPECT_EQ(hurray_descriptor_dense_byte_size(&dense, nullptr), HURRAY_ERR_NULL_POINTER);
}

TEST(DescriptorAbi, RankIsCheckedBeforeTheShapeIsRead) {
    auto dense = sample();
    dense.rank = 0xFFFFFFFF;
    EXPECT_EQ(encode_status(dense), HURRAY_ERR_INVALID_LAYOUT);
    EXPECT_STREQ(hurray_last_error_message(),
                 "hurray_descriptor_encode_dense: rank is 4294967295, the maximum is 64 (RankExceedsMaximum)");
}

TEST(DescriptorAbi, TagsThatDoNotFitAreRefusedWithTheirStatus) {
    auto dense = sample();
    dense.element_type = 0xF0;
    EXPECT_EQ(encode_status(dense), HURRAY_ERR_INVALID_TYPE);
    dense = sample();
    dense.layout = HURRAY_LAYOUT_COO;
    EXPECT_EQ(encode_status(dense), HURRAY_ERR_INVALID_LAYOUT);
    dense = sample();
    dense.sync_mode = HURRAY_SYNC_EVENT;
    EXPECT_EQ(encode_status(dense), HURRAY_ERR_INVALID_SYNC_MODE);
    dense = sample();
    dense.memory_class = HURRAY_MEMORY_PEER;
    EXPECT_EQ(encode_status(dense), HURRAY_ERR_INVALID_TYPE);
}

TEST(DescriptorAbi, NullArgumentsOfTheAddedFunctionsAreNamed) {
    const Decoded decoded(encode(sample()));
    HurrayBufferEntry entry{};
    uintptr_t length = 0;
    int64_t stride = 0;
    EXPECT_EQ(hurray_descriptor_validate(nullptr), HURRAY_ERR_NULL_POINTER);
    EXPECT_STREQ(hurray_last_error_message(), "hurray_descriptor_validate: the argument 'descriptor' is null");
    EXPECT_EQ(hurray_descriptor_buffer_entry(nullptr, 0, &entry), HURRAY_ERR_NULL_POINTER);
    EXPECT_EQ(hurray_descriptor_buffer_entry(decoded.handle, 9, nullptr), HURRAY_ERR_NULL_POINTER);
    EXPECT_EQ(hurray_descriptor_strides(nullptr, &stride, &length), HURRAY_ERR_NULL_POINTER);
    EXPECT_EQ(hurray_descriptor_strides(decoded.handle, &stride, nullptr), HURRAY_ERR_NULL_POINTER);
    EXPECT_EQ(hurray_descriptor_encode(nullptr, nullptr, &length), HURRAY_ERR_NULL_POINTER);
    EXPECT_EQ(hurray_descriptor_encode(decoded.handle, nullptr, nullptr), HURRAY_ERR_NULL_POINTER);
}

TEST(ElementTypeAbi, TagNameAndWidthBelongTogether) {
    uint32_t bits = 0;
    const char* name = nullptr;
    uint8_t tag = 0;
    EXPECT_EQ(hurray_element_type_bits(HURRAY_TYPE_FLOAT6_E2M3, &bits), HURRAY_OK);
    EXPECT_EQ(bits, 6U);
    EXPECT_EQ(hurray_element_type_name(HURRAY_TYPE_FLOAT6_E2M3, &name), HURRAY_OK);
    EXPECT_STREQ(name, "float6_e2m3");
    EXPECT_EQ(hurray_element_type_from_name("float6_e2m3", &tag), HURRAY_OK);
    EXPECT_EQ(tag, HURRAY_TYPE_FLOAT6_E2M3);
}

TEST(ElementTypeAbi, UnknownTypesAreRefused) {
    uint32_t bits = 77;
    const char* name = nullptr;
    uint8_t tag = 77;
    EXPECT_EQ(hurray_element_type_bits(0xF0, &bits), HURRAY_ERR_INVALID_TYPE);
    EXPECT_EQ(hurray_element_type_name(0x47, &name), HURRAY_ERR_INVALID_TYPE);
    EXPECT_EQ(hurray_element_type_from_name("float", &tag), HURRAY_ERR_INVALID_TYPE);
    EXPECT_STREQ(hurray_last_error_message(), "hurray_element_type_from_name: no element type is called 'float'");
    EXPECT_EQ(bits, 77U);
    EXPECT_EQ(tag, 77);
    EXPECT_EQ(hurray_element_type_bits(1, nullptr), HURRAY_ERR_NULL_POINTER);
    EXPECT_EQ(hurray_element_type_name(1, nullptr), HURRAY_ERR_NULL_POINTER);
    EXPECT_EQ(hurray_element_type_from_name(nullptr, &tag), HURRAY_ERR_NULL_POINTER);
    EXPECT_EQ(hurray_element_type_from_name("bool", nullptr), HURRAY_ERR_NULL_POINTER);
}

}  // namespace
