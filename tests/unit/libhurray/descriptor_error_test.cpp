#include "libhurray/format/descriptor_error.hpp"

#include <gtest/gtest.h>

namespace hurray {
namespace {

TEST(DescriptorError, MessageNamesFieldValueAndLimit) {
    const DescriptorError error{Fault::AlignmentBelowMinimum, "buffers[].alignment", 3, 32, 64};
    EXPECT_EQ(describe(error),
              "buffers[3].alignment is 32, but a buffer that is not empty needs at least 64 (AlignmentBelowMinimum)");
}

TEST(DescriptorError, TagsAreShownInHexadecimal) {
    const DescriptorError error{Fault::ReservedDeviceTag, "buffers[].device_tag", 0, 0x0A, 0};
    EXPECT_EQ(describe(error), "buffers[0].device_tag is 0xa, which is reserved (ReservedDeviceTag)");
}

TEST(DescriptorError, EveryFaultHasANameAndASentenceWithoutLeftOverBraces) {
    for (std::size_t i = 0; i < kFaultCount; ++i) {
        const auto fault = static_cast<Fault>(i);
        const std::string sentence = describe({fault, "field", 0, 1, 2});
        EXPECT_FALSE(fault_name(fault).empty());
        EXPECT_EQ(sentence.find_first_of("{}"), std::string::npos) << sentence;
        EXPECT_NE(sentence.find(fault_name(fault)), std::string::npos) << sentence;
    }
}

TEST(DescriptorError, OtherLayersSeeStatusSentenceAndFieldPath) {
    const Error error = to_error({Fault::InvalidSyncMode, "buffers[].sync_mode", 2, 9, 2});
    EXPECT_EQ(error.code, Errc::InvalidSyncMode);
    EXPECT_EQ(error.field, "buffers[2].sync_mode");
    EXPECT_EQ(error.message, "buffers[2].sync_mode is 9, the highest is 2 (InvalidSyncMode)");
}

}  // namespace
}  // namespace hurray
