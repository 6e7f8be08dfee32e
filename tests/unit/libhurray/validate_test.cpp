#include "libhurray/format/validate.hpp"

#include <bit>

#include <gtest/gtest.h>

#include "tests/support/sample_descriptors.hpp"

namespace hurray {
namespace {

using test::cpu_buffer;
using test::SampleTensor;

SampleTensor float32_3x4() { return SampleTensor(ElementType::Float32, {3, 4}, {cpu_buffer(48)}); }

std::optional<Fault> fault_of(const SampleTensor& tensor, ValidationRules rules = ValidationRules::Format) {
    const auto valid = validate_descriptor(tensor.view, rules);
    return valid ? std::nullopt : std::optional(valid.error().fault);
}

TEST(Validate, DenseTensorThatFillsItsBufferIsValid) { EXPECT_EQ(fault_of(float32_3x4()), std::nullopt); }

TEST(Validate, MajorVersionZeroIsNoFormat) {
    auto tensor = float32_3x4();
    tensor.view.version_major = 0;
    EXPECT_EQ(fault_of(tensor), Fault::UnsupportedDescriptorVersion);
}

TEST(Validate, BufferOneByteShortIsRefused) {
    EXPECT_EQ(fault_of(SampleTensor(ElementType::Float32, {3, 4}, {cpu_buffer(47)})), Fault::ElementsPastBuffer);
}

TEST(Validate, ElementsBehindTheOffsetHaveToFit) {
    auto tensor = float32_3x4();
    tensor.view.byte_offset = 4;
    EXPECT_EQ(fault_of(tensor), Fault::ElementsPastBuffer);
    tensor.set_buffers({cpu_buffer(52)});
    EXPECT_EQ(fault_of(tensor), std::nullopt);
}

TEST(Validate, OffsetOfAnEmptyTensorStaysInsideTheBuffer) {
    SampleTensor tensor(ElementType::Float32, {0}, {cpu_buffer(8)});
    tensor.view.byte_offset = 8;
    EXPECT_EQ(fault_of(tensor), std::nullopt);
    tensor.view.byte_offset = 9;
    EXPECT_EQ(fault_of(tensor), Fault::ByteOffsetPastBuffer);
}

TEST(Validate, NegativeStridesNeedRoomBelowTheOffset) {
    SampleTensor tensor(ElementType::Float32, {2, 3}, {cpu_buffer(24)});
    tensor.set_strides({3, -1});
    tensor.view.byte_offset = 8;
    EXPECT_EQ(fault_of(tensor), std::nullopt);
    tensor.view.byte_offset = 7;
    EXPECT_EQ(fault_of(tensor), Fault::ElementsBeforeBuffer);
    tensor.view.byte_offset = 9;
    EXPECT_EQ(fault_of(tensor), Fault::ElementsPastBuffer);
}

TEST(Validate, OffsetAndSizeThatWouldWrapAreRefused) {
    SampleTensor tensor(ElementType::UInt8, {UINT64_MAX - 1}, {cpu_buffer(UINT64_MAX)});
    EXPECT_EQ(fault_of(tensor), std::nullopt);
    tensor.view.byte_offset = 1;
    EXPECT_EQ(fault_of(tensor), std::nullopt);
    tensor.view.byte_offset = 2;
    EXPECT_EQ(fault_of(tensor), Fault::ElementsOverflow);
}

TEST(Validate, DenseTensorHasOneBuffer) {
    auto tensor = float32_3x4();
    tensor.set_buffers({cpu_buffer(48), cpu_buffer(48)});
    EXPECT_EQ(fault_of(tensor), Fault::BufferCountMismatch);
}

TEST(Validate, DynamicDimensionIsRefusedWhereTensorsAreShared) {
    const SampleTensor tensor(ElementType::Float32, {3, kDynamicDim}, {cpu_buffer(48)});
    EXPECT_EQ(fault_of(tensor), std::nullopt);
    EXPECT_EQ(fault_of(tensor, ValidationRules::Sharing), Fault::InvalidShape);
}

TEST(Validate, ScalarIsRowMajorOnly) {
    SampleTensor scalar(ElementType::Float32, {}, {cpu_buffer(4)});
    EXPECT_EQ(fault_of(scalar), std::nullopt);
    scalar.view.layout.tag = LayoutTag::ColumnMajor;
    EXPECT_EQ(fault_of(scalar), Fault::InvalidLayout);
    scalar.set_strides({});
    EXPECT_EQ(fault_of(scalar), Fault::InvalidLayout);
}

TEST(Validate, GpuBufferNeedsAnAlignmentOf4096ByTheFormatAnd64ByTheBroker) {
    const auto aligned_to = [](std::uint32_t alignment) {
        return BufferEntry{48, alignment, DeviceTag::Cuda, SyncMode::Event, MemoryClass::Standard};
    };
    SampleTensor tensor(ElementType::Float32, {3, 4}, {aligned_to(2048)});
    EXPECT_EQ(fault_of(tensor), Fault::AlignmentBelowMinimum);
    EXPECT_EQ(fault_of(tensor, ValidationRules::Sharing), std::nullopt);
    tensor.set_buffers({aligned_to(4096)});
    EXPECT_EQ(fault_of(tensor), std::nullopt);
}

TEST(Validate, OfTheOtherDevicesOnlyHostHexagonAndPrivateOnesMayHaveLessAlignment) {
    for (const unsigned device : {0x00U, 0x01U, 0x02U, 0x03U, 0x04U, 0x05U, 0x06U, 0x07U, 0x08U, 0xF0U, 0xFEU}) {
        const auto tag = static_cast<DeviceTag>(device);
        SampleTensor tensor(ElementType::Float32, {3, 4},
                            {BufferEntry{48, 64, tag, SyncMode::ProducerSynced, MemoryClass::Standard}});
        const bool gpu = tag != DeviceTag::Cpu && tag != DeviceTag::Hexagon && device < 0xF0;
        EXPECT_EQ(fault_of(tensor).has_value(), gpu) << device;
        EXPECT_EQ(fault_of(tensor, ValidationRules::Sharing), std::nullopt) << device;
        if (gpu) {  // an empty buffer has no address to be aligned
            const SampleTensor empty(ElementType::Float32, {0},
                                     {BufferEntry{0, 1, tag, SyncMode::ProducerSynced, MemoryClass::Standard}});
            EXPECT_EQ(fault_of(empty), std::nullopt) << device;
        }
    }
}

TEST(Validate, EveryPairOfDeviceAndMemoryClassFollowsTheMatrix) {
    // Rows CPU to OpenCL, columns standard, host-pinned, unified, peer.
    constexpr bool kMatrix[9][4] = {
        {true, true, true, false}, {true, true, true, true}, {true, true, true, true},
        {true, true, true, false}, {true, true, true, true}, {true, false, false, false},
        {true, true, true, false}, {true, true, true, true}, {true, true, true, false},
    };
    for (std::uint8_t device = 0; device < 9; ++device) {
        for (std::uint8_t memory = 0; memory < 4; ++memory) {
            EXPECT_EQ(device_has_memory_class(DeviceTag{device}, MemoryClass{memory}), kMatrix[device][memory])
                << int{device} << ' ' << int{memory};
        }
        EXPECT_FALSE(device_has_memory_class(DeviceTag{device}, MemoryClass{0xF0})) << int{device};
    }
    EXPECT_TRUE(device_has_memory_class(DeviceTag{0xF3}, MemoryClass::Standard));
    EXPECT_FALSE(device_has_memory_class(DeviceTag{0xF3}, MemoryClass::Unified));
    EXPECT_TRUE(device_has_memory_class(DeviceTag{0xF3}, MemoryClass{0xF9}));
}

TEST(Validate, MemoryClassThatTheDeviceLacksIsRefused) {
    SampleTensor tensor(ElementType::Float32, {3, 4},
                        {BufferEntry{48, 64, DeviceTag::Cpu, SyncMode::ProducerSynced, MemoryClass::Peer}});
    EXPECT_EQ(fault_of(tensor), Fault::MemoryClassNotOnDevice);
}

TEST(Validate, BuffersOnDifferentDevicesAreRefused) {
    auto tensor = float32_3x4();
    tensor.set_buffers(
        {cpu_buffer(48), BufferEntry{48, 4096, DeviceTag::Cuda, SyncMode::ProducerSynced, MemoryClass::Standard}});
    EXPECT_EQ(fault_of(tensor), Fault::DeviceTagMismatch);
    tensor.set_buffers(
        {cpu_buffer(48), BufferEntry{48, 64, DeviceTag::Cpu, SyncMode::ProducerSynced, MemoryClass::Unified}});
    EXPECT_EQ(fault_of(tensor), Fault::MemoryClassMismatch);
}

TEST(Validate, StatisticsMayNotContradictThemselves) {
    auto tensor = float32_3x4();
    tensor.view.statistics.emplace();
    tensor.view.statistics->value_stddev_bits = std::bit_cast<std::uint64_t>(-1.0);
    tensor.view.statistics->nm_n = 2;
    tensor.view.statistics->nm_m = 1;
    EXPECT_EQ(fault_of(tensor), std::nullopt) << "fields whose mask bit is clear mean nothing";
    tensor.view.statistics->computed_mask = Statistics::kMoments;
    EXPECT_EQ(fault_of(tensor), Fault::InvalidStatistics);
    tensor.view.statistics->computed_mask = Statistics::kNmSparsity;
    EXPECT_EQ(fault_of(tensor), Fault::InvalidStatistics);
}

TEST(Validate, PrivateTypeBringsItsOwnWidth) {
    SampleTensor tensor(static_cast<ElementType>(0xF1), {5}, {cpu_buffer(15)});
    ExtensionType type;
    type.bit_width = 24;
    type.packing_factor = 1;
    tensor.view.extension_type = type;
    EXPECT_EQ(fault_of(tensor), std::nullopt);
    tensor.set_buffers({cpu_buffer(14)});
    EXPECT_EQ(fault_of(tensor), Fault::ElementsPastBuffer);
}

TEST(Validate, PrivateTypeMayNotContradictItself) {
    SampleTensor tensor(static_cast<ElementType>(0xF1), {5}, {cpu_buffer(15)});
    const auto fault_with = [&](auto change) {
        ExtensionType type;
        type.bit_width = 8;
        type.packing_factor = 1;
        change(type);
        tensor.view.extension_type = type;
        return fault_of(tensor);
    };
    const auto refused = std::optional(Fault::InvalidExtensionType);
    EXPECT_EQ(fault_with([](ExtensionType& t) { t.is_signed = true; }), std::nullopt);
    EXPECT_EQ(fault_with([](ExtensionType& t) { t.sign_bits = 1; }), refused);
    EXPECT_EQ(fault_with([](ExtensionType& t) { t.exponent_bits = 3; }), refused);
    EXPECT_EQ(fault_with([](ExtensionType& t) { t.mantissa_bits = 3; }), refused);
    EXPECT_EQ(fault_with([](ExtensionType& t) { t.exponent_bias = 1; }), refused);
    EXPECT_EQ(fault_with([](ExtensionType& t) { t.bit_width = 12; }), refused);
    const auto real = [&](auto change) {
        return fault_with([&](ExtensionType& t) {
            t = {.bit_width = 8,
                 .packing_factor = 1,
                 .is_float = true,
                 .sign_bits = 1,
                 .exponent_bits = 3,
                 .mantissa_bits = 4,
                 .exponent_bias = 3};
            change(t);
        });
    };
    EXPECT_EQ(real([](ExtensionType&) {}), std::nullopt);
    EXPECT_EQ(real([](ExtensionType& t) { t.sign_bits = 0; }), std::nullopt);
    EXPECT_EQ(real([](ExtensionType& t) { t.sign_bits = 2; }), refused);
    EXPECT_EQ(real([](ExtensionType& t) { t.is_signed = true; }), refused);
}

}  // namespace
}  // namespace hurray
