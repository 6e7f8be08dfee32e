#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <hurray/hurray.hpp>

#include "tests/support/hex.hpp"
#include "tests/support/status_of.hpp"

namespace {

using hurray::Buffer;
using hurray::BufferList;
using hurray::BufferTraits;
using hurray::Descriptor;
using hurray::DeviceTag;
using hurray::ElementType;
using hurray::test::from_hex;
using hurray::test::status_of;
using Bytes = std::vector<std::uint8_t>;
using Index = std::vector<std::uint64_t>;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// Buffers over bytes that the test keeps.
BufferList lend(std::vector<Bytes>& contents, const BufferTraits& traits = {}) {
    BufferList list;
    for (Bytes& bytes : contents) {
        bytes.reserve(1);  // an empty buffer has an address too
        list.push(Buffer(bytes.data(), bytes.size(), traits));
    }
    return list;
}

/// The head of a descriptor: flags, type, layout, then rank and shape.
std::string header(const std::string& length, const std::string& flags, const std::string& type_and_layout) {
    return "48525259 0100" + length + "000000" + flags + "000000" + type_and_layout;
}

constexpr const char* kBufferOf = " 40000000 00000000";  // behind a size: alignment 64, CPU

// ---- Codes and values ----------------------------------------------------------------------------------------------

TEST(ElementAbi, SizesAreThoseOfPackedElements) {
    EXPECT_EQ(hurray::element_storage_size(ElementType::Bool, 9), 2U);
    EXPECT_EQ(hurray::element_storage_size(ElementType::Float6E2M3, 5), 6U);
    EXPECT_EQ(hurray::element_storage_size(ElementType::Complex128, 3), 48U);
    EXPECT_EQ(status_of([] { return hurray::element_storage_size(ElementType::Int16, UINT64_MAX); }),
              HURRAY_ERR_INVALID_LAYOUT);
    EXPECT_EQ(status_of([] { return hurray::element_storage_size(static_cast<ElementType>(0x47), 1); }),
              HURRAY_ERR_INVALID_TYPE);
    EXPECT_EQ(status_of([] { return hurray::element_storage_size(static_cast<ElementType>(0xF0), 1); }),
              HURRAY_ERR_INVALID_TYPE);
}

TEST(ElementAbi, ElementsGoInAndOutOfSharedBytes) {
    Bytes group = from_hex("7F A0 56");
    EXPECT_EQ(hurray::load_element(ElementType::Float6E3M2, group, 12).low, 0x2AU);
    hurray::store_element(ElementType::Float6E3M2, group, 12, {0xFF, 0xFF});
    EXPECT_EQ(group, from_hex("7F F0 57"));
    Bytes wide(16);
    hurray::store_element(ElementType::Float128, wide, 0, {1, 2});
    EXPECT_EQ(wide, from_hex("0100000000000000 0200000000000000"));
    EXPECT_EQ(hurray::load_element(ElementType::Float128, wide).high, 2U);
}

TEST(ElementAbi, PlacesThatHoldNoElementAreRefused) {
    Bytes group(3);
    const auto load = [&](ElementType type, std::size_t length, std::uint32_t bit) {
        return status_of([&] { return hurray::load_element(type, std::span(group).first(length), bit); });
    };
    EXPECT_EQ(load(ElementType::Float6E2M3, 3, 18), HURRAY_OK);
    EXPECT_EQ(load(ElementType::Float6E2M3, 2, 0), HURRAY_ERR_INVALID_ARGUMENT);
    EXPECT_EQ(load(ElementType::Float6E2M3, 3, 24), HURRAY_ERR_INVALID_ARGUMENT);
    EXPECT_EQ(load(ElementType::Float6E2M3, 3, 8), HURRAY_ERR_INVALID_ARGUMENT);
    EXPECT_STREQ(hurray_last_error_message(), "hurray_element_load: bit is 8, where no element of 6 bits begins");
    EXPECT_EQ(load(ElementType::Int8, 1, 4), HURRAY_ERR_INVALID_ARGUMENT);
    EXPECT_EQ(load(ElementType::Int8, 1, 8), HURRAY_ERR_INVALID_ARGUMENT);
    EXPECT_EQ(load(ElementType::Float32, 3, 0), HURRAY_ERR_INVALID_ARGUMENT);
    const HurrayElementCode code{1, 0};
    EXPECT_EQ(hurray_element_store(HURRAY_TYPE_INT4, group.data(), 3, 3, &code), HURRAY_ERR_INVALID_ARGUMENT);
    EXPECT_EQ(group, Bytes(3));
}

TEST(ElementAbi, ValuesAreConvertedBothWays) {
    EXPECT_EQ(hurray::element_value(ElementType::Float8E4M3, {0x7E, 0}).real, 448);
    EXPECT_EQ(hurray::element_value(ElementType::Int4, {0xFFFFFFFD, 7}).real, -3) << "bits above the width are ignored";
    EXPECT_TRUE(std::isnan(hurray::element_value(ElementType::Float8E8M0, {0, 0}).real));
    EXPECT_EQ(hurray::element_code(ElementType::Float4E2M1, {100, 0}).low, 7U);
    EXPECT_EQ(hurray::element_code(ElementType::Float128, {1, 0}).high, 0x3FFF000000000000U);
    EXPECT_EQ(hurray::element_code(ElementType::Complex64, {1, 2}).low, 0x400000003F800000U);
    EXPECT_EQ(status_of([] { return hurray::element_code(ElementType::Int8, {kNan, 0}); }),
              HURRAY_ERR_INVALID_ARGUMENT);
    EXPECT_STREQ(hurray_last_error_message(),
                 "hurray_element_from_value: value is NaN, which this element type does not have");
    EXPECT_EQ(status_of([] { return hurray::element_code(ElementType::Int8, {1, 1}); }), HURRAY_ERR_INVALID_ARGUMENT);
    EXPECT_STREQ(hurray_last_error_message(),
                 "hurray_element_from_value: value has an imaginary part, but this element type is not complex");
}

TEST(ElementAbi, NullArgumentsComeFirst) {
    HurrayElementCode code{};
    HurrayElementValue value{};
    std::uint8_t byte = 0;
    EXPECT_EQ(hurray_element_storage_size(0, 1, nullptr), HURRAY_ERR_NULL_POINTER);
    EXPECT_EQ(hurray_element_load(0, nullptr, 1, 0, &code), HURRAY_ERR_NULL_POINTER);
    EXPECT_EQ(hurray_element_load(0, &byte, 1, 0, nullptr), HURRAY_ERR_NULL_POINTER);
    EXPECT_EQ(hurray_element_store(0, nullptr, 1, 0, &code), HURRAY_ERR_NULL_POINTER);
    EXPECT_EQ(hurray_element_store(0, &byte, 1, 0, nullptr), HURRAY_ERR_NULL_POINTER);
    EXPECT_EQ(hurray_element_to_value(0, nullptr, &value), HURRAY_ERR_NULL_POINTER);
    EXPECT_EQ(hurray_element_to_value(0, &code, nullptr), HURRAY_ERR_NULL_POINTER);
    EXPECT_EQ(hurray_element_from_value(0, nullptr, &code), HURRAY_ERR_NULL_POINTER);
    EXPECT_EQ(hurray_element_from_value(0, &value, nullptr), HURRAY_ERR_NULL_POINTER);
    EXPECT_EQ(hurray_descriptor_element_bits(nullptr, nullptr), HURRAY_ERR_NULL_POINTER);
    EXPECT_EQ(hurray_descriptor_buffer_size(nullptr, 0, nullptr), HURRAY_ERR_NULL_POINTER);
    EXPECT_EQ(hurray_descriptor_element_address(nullptr, nullptr, 0, nullptr), HURRAY_ERR_NULL_POINTER);
    EXPECT_EQ(hurray_descriptor_find_element(nullptr, nullptr, nullptr, 0, nullptr), HURRAY_ERR_NULL_POINTER);
    EXPECT_EQ(hurray_descriptor_find_paged_element(nullptr, nullptr, nullptr, nullptr), HURRAY_ERR_NULL_POINTER);
    EXPECT_EQ(hurray_descriptor_find_member(nullptr, nullptr, 0, nullptr, 0, 0, nullptr, nullptr),
              HURRAY_ERR_NULL_POINTER);
    EXPECT_EQ(hurray_descriptor_read_element(nullptr, nullptr, nullptr, 0, nullptr, nullptr), HURRAY_ERR_NULL_POINTER);
    EXPECT_EQ(hurray_descriptor_read_paged_element(nullptr, nullptr, nullptr, nullptr), HURRAY_ERR_NULL_POINTER);
}

// ---- Addresses -----------------------------------------------------------------------------------------------------

Descriptor dense(ElementType type, const Index& shape, std::vector<std::int64_t> strides = {},
                 std::uint64_t byte_offset = 0) {
    hurray::DenseDescriptor description;
    description.element_type = type;
    description.shape = shape;
    description.strides = std::move(strides);
    description.byte_offset = byte_offset;
    return Descriptor(description.encode());
}

TEST(AddressAbi, DenseElementsHaveAddressesWithoutTheirBuffers) {
    const Descriptor strided = dense(ElementType::Float32, {2, 3}, {3, -1}, 8);
    const HurrayElementAddress address = strided.element_address(Index{1, 2});
    EXPECT_EQ(address.byte_offset, 12U);
    EXPECT_EQ(address.buffer_index, 0U);
    EXPECT_EQ(address.byte_count, 4U);
    EXPECT_EQ(address.bit_offset, 0U);
    EXPECT_EQ(address.bit_count, 32U);
    EXPECT_EQ(address.stored, 1);
    EXPECT_EQ(strided.buffer_size(0), 24U);
    EXPECT_EQ(strided.element_bits(), 32U);

    const HurrayElementAddress packed = dense(ElementType::Float6E3M2, {10}).element_address(Index{7});
    EXPECT_EQ(packed.byte_offset, 3U);
    EXPECT_EQ(packed.byte_count, 3U);
    EXPECT_EQ(packed.bit_offset, 18U);
    EXPECT_EQ(packed.bit_count, 6U);

    EXPECT_EQ(dense(ElementType::Int8, {}).element_address({}).byte_offset, 0U);
}

TEST(AddressAbi, IndexOutsideTheShapeLeavesTheOutputAlone) {
    const Descriptor tensor = dense(ElementType::Float32, {2, 3});
    const Index index{1, 3};
    HurrayElementAddress address{};
    address.byte_offset = 77;
    EXPECT_EQ(hurray_descriptor_element_address(tensor.get(), index.data(), 2, &address), HURRAY_ERR_INTERNAL);
    EXPECT_STREQ(hurray_last_error_message(),
                 "hurray_descriptor_element_address: index[1] is 3, there are 3 (IndexOutOfRange)");
    EXPECT_EQ(hurray_descriptor_element_address(tensor.get(), index.data(), 1, &address), HURRAY_ERR_INTERNAL);
    EXPECT_EQ(hurray_descriptor_element_address(tensor.get(), index.data(), UINTPTR_MAX, &address),
              HURRAY_ERR_INTERNAL);
    EXPECT_EQ(hurray_descriptor_element_address(tensor.get(), nullptr, 2, &address), HURRAY_ERR_NULL_POINTER);
    EXPECT_EQ(address.byte_offset, 77U);
}

TEST(AddressAbi, BufferSizeIsWhatTheElementsNeed) {
    EXPECT_EQ(dense(ElementType::Bool, {3, 3}, {}, 5).buffer_size(0), 7U);
    EXPECT_EQ(dense(ElementType::Float64, {0, 3}, {}, 5).buffer_size(0), 5U);
    EXPECT_EQ(status_of([] { return dense(ElementType::Bool, {3}).buffer_size(1); }), HURRAY_ERR_INDEX_OUT_OF_BOUNDS);
}

TEST(AddressAbi, BufferSizeCountsTheParametersOfAQuantization) {
    // The example of the format: int4 [128,128] in blocks of 128, with float16 scales.
    const auto with_scales_in = [](const std::string& buffers, const std::string& zero_points) {
        return Descriptor(from_hex(header("69", "01", "48 01") + "02000000 8000000000000000 8000000000000000" +
                                   "0000000000000000 02 0020000000000000" + kBufferOf + "0000000000000000" + kBufferOf +
                                   "18000000" + buffers + zero_points + "01 000000"));
    };
    const Descriptor symmetric = with_scales_in("03 01 0100 01000000 80000000 01000000", "FFFFFFFF");
    EXPECT_EQ(symmetric.buffer_size(0), 8192U);
    EXPECT_EQ(symmetric.buffer_size(1), 256U);
    const Descriptor shared = with_scales_in("03 01 0000 01000000 80000000 01000000", "01000000");
    EXPECT_EQ(shared.buffer_size(1), 256U + 512U);
    const Descriptor outside = with_scales_in("03 01 0000 01000000 80000000 02000000", "01000000");
    EXPECT_EQ(status_of([&] { return outside.buffer_size(1); }), HURRAY_ERR_INTERNAL);
}

TEST(AddressAbi, BufferThatNothingNeedsHasNoSize) {
    const Descriptor surplus(from_hex(header("4D", "00", "11 01") + "02000000 0300000000000000 0400000000000000" +
                                      "0000000000000000 02 0C00000000000000" + kBufferOf + "0100000000000000" +
                                      kBufferOf));
    EXPECT_EQ(surplus.buffer_size(0), 12U);
    EXPECT_EQ(status_of([&] { return surplus.buffer_size(1); }), HURRAY_ERR_INVALID_LAYOUT);
}

/// float32 [3,4], CSR, entries (0,1) (0,3) (2,0).
Descriptor csr() {
    return Descriptor(from_hex(header("6D", "00", "03 07") + "02000000 0300000000000000 0400000000000000" +
                               "0000000000000000 0300000000000000 0000000000000000 03" + "0C00000000000000" +
                               kBufferOf + "1800000000000000" + kBufferOf + "2000000000000000" + kBufferOf));
}

std::vector<Bytes> csr_contents() {
    return {from_hex("0000803F 00000040 00004040"), from_hex("0100000000000000 0300000000000000 0000000000000000"),
            from_hex("0000000000000000 0200000000000000 0200000000000000 0300000000000000")};
}

TEST(AddressAbi, SparseElementsAreLookedUpInTheirBuffers) {
    auto contents = csr_contents();
    const BufferList buffers = lend(contents);
    const Descriptor tensor = csr();
    EXPECT_EQ(status_of([&] { return tensor.element_address(Index{0, 3}); }), HURRAY_ERR_INTERNAL);
    EXPECT_EQ(tensor.buffer_size(0), 12U);
    EXPECT_EQ(tensor.buffer_size(1), 24U);
    EXPECT_EQ(tensor.buffer_size(2), 32U);
    EXPECT_EQ(tensor.find_element(buffers, Index{0, 3})->byte_offset, 4U);
    EXPECT_EQ(tensor.find_element(buffers, Index{2, 0})->byte_offset, 8U);
    EXPECT_FALSE(tensor.find_element(buffers, Index{1, 1}));
    EXPECT_EQ(tensor.read_element(buffers, Index{2, 0})->real, 3);
    EXPECT_FALSE(tensor.read_element(buffers, Index{1, 1}));
}

TEST(AddressAbi, NotStoredIsZeroInEveryField) {
    auto contents = csr_contents();
    const BufferList buffers = lend(contents);
    const Descriptor tensor = csr();
    const Index index{1, 1};
    HurrayElementAddress address{1, 1, 1, 1, 1, 1, {}};
    ASSERT_EQ(hurray_descriptor_find_element(tensor.get(), buffers.get(), index.data(), 2, &address), HURRAY_OK);
    EXPECT_EQ(address.byte_offset + address.buffer_index + address.byte_count + address.bit_offset + address.bit_count +
                  address.stored,
              0U);
    HurrayElementValue value{5, 5};
    ASSERT_EQ(hurray_descriptor_read_element(tensor.get(), buffers.get(), index.data(), 2, &value, nullptr), HURRAY_OK);
    EXPECT_EQ(value.real, 0);
    EXPECT_EQ(value.imaginary, 0);
}

TEST(AddressAbi, ContentsThatLieAndMissingBuffersAreRefused) {
    auto contents = csr_contents();
    contents[2][8] = 9;
    const Descriptor tensor = csr();
    EXPECT_EQ(status_of([&] { return tensor.find_element(lend(contents), Index{0, 3}); }), HURRAY_ERR_INVALID_LAYOUT);
    EXPECT_STREQ(hurray_last_error_message(),
                 "hurray_descriptor_find_element: pointers[1] is 9, which its layout does "
                 "not allow (InvalidLayout)");
    contents.pop_back();
    EXPECT_EQ(status_of([&] { return tensor.find_element(lend(contents), Index{0, 3}); }), HURRAY_ERR_INVALID_LAYOUT);
}

TEST(AddressAbi, DeviceMemoryIsNotReadUnlessTheHostReachesIt) {
    auto contents = csr_contents();
    BufferTraits traits;
    traits.device = DeviceTag::Cuda;
    EXPECT_EQ(status_of([&] { return csr().find_element(lend(contents, traits), Index{0, 3}); }),
              HURRAY_ERR_UNSUPPORTED);
    EXPECT_STREQ(hurray_last_error_message(),
                 "hurray_descriptor_find_element: buffers[0] is memory of device 1, which the host can't read");
    traits.memory_class = hurray::MemoryClass::HostPinned;
    EXPECT_EQ(csr().find_element(lend(contents, traits), Index{0, 3})->byte_offset, 4U);
}

TEST(AddressAbi, BlockPagedElementsAreFoundBySequence) {
    // float16, shape [5,2,4], pages of 2, 4 pages, 2 sequences, 32-bit indices.
    const Descriptor tensor(
        from_hex(header("85", "00", "01 0A") + "03000000 0500000000000000 0200000000000000 0400000000000000" +
                 "0000000000000000" + "02000000 0400000000000000 00000000 02000000 02 FFFFFFFF 00 000000000000" + "03" +
                 "8000000000000000" + kBufferOf + "0C00000000000000" + kBufferOf + "0C00000000000000" + kBufferOf));
    std::vector<Bytes> contents{Bytes(128), from_hex("03000000 00000000 03000000"),
                                from_hex("00000000 02000000 03000000")};
    contents[0][29] = 0x3C;  // element 14: 1.0
    const BufferList buffers = lend(contents);
    EXPECT_EQ(tensor.find_element(buffers, HurrayPagedIndex{0, 3, 1, 2}).byte_offset, 28U);
    EXPECT_EQ(tensor.read_element(buffers, HurrayPagedIndex{0, 3, 1, 2}).real, 1);
    EXPECT_EQ(status_of([&] { return tensor.find_element(buffers, HurrayPagedIndex{2, 0, 0, 0}); }),
              HURRAY_ERR_INTERNAL);
    EXPECT_EQ(status_of([&] { return tensor.find_element(buffers, Index{0, 0, 0}); }), HURRAY_ERR_INVALID_ARGUMENT);
}

TEST(AddressAbi, CompositeElementsAreFoundInTheirMembers) {
    // The example of the format: [8,8] float32 in two halves.
    const Descriptor head(from_hex(header("35", "00", "03 0B") + "02000000 0800000000000000 0800000000000000" +
                                   "0000000000000000 01 00 0000 02000000 00"));
    const auto half = [](const std::string& column) {
        return Descriptor(from_hex(header("5D", "02", "03 01") + "02000000 0800000000000000 0400000000000000" +
                                   "0000000000000000 01 8000000000000000" + kBufferOf +
                                   "0800000000000000 0800000000000000 0000000000000000" + column));
    };
    const Descriptor left = half("0000000000000000");
    const Descriptor right = half("0400000000000000");
    const std::vector<const HurrayDescriptor*> members{left.get(), right.get()};
    const auto found = hurray::find_member(head, members, Index{2, 5}, 2);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->member, 1U);
    EXPECT_EQ(found->index, (Index{2, 1}));
    EXPECT_EQ(right.element_address(found->index).byte_offset, 36U);
    EXPECT_FALSE(hurray::find_member(head, members, Index{2, 5}, 1));
    EXPECT_EQ(status_of([&] { return hurray::find_member(head, {}, Index{2, 5}, 0); }), HURRAY_ERR_INTERNAL);
    EXPECT_EQ(status_of([&] { return head.element_address(Index{2, 5}); }), HURRAY_ERR_INTERNAL);
}

TEST(AddressAbi, QuantizedElementsAreReadAsRealNumbers) {
    // uint8 [2], per tensor: scale 0.5, zero point 10.
    const Descriptor tensor(from_hex(header("49", "01", "11 01") + "01000000 0200000000000000" + "0000000000000000" +
                                     "01 0200000000000000" + kBufferOf + "10000000" +
                                     "01 01 0000 0000003F 0A000000 00000000"));
    std::vector<Bytes> contents{{4, 200}};
    const BufferList buffers = lend(contents);
    EXPECT_EQ(tensor.read_element(buffers, Index{0})->real, -3);
    EXPECT_EQ(tensor.read_element(buffers, Index{1})->real, 95);
}

}  // namespace
