#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <hurray/hurray.hpp>

#include "tests/support/hex.hpp"

namespace {

using hurray::CompositeSet;
using hurray::Descriptor;

/// A partition of float32 [8,8] into two, as the written format's examples have it.
std::vector<std::uint8_t> head_bytes() {
    return hurray::test::from_hex(
        "48525259 01 00 35000000 00000000 03 0b 02000000 0800000000000000 0800000000000000 0000000000000000"
        "01 00 0000 02000000 00");
}

/// Its members: [8,4] at [0,`column`].
std::vector<std::uint8_t> member_bytes(std::uint8_t column) {
    std::vector<std::uint8_t> bytes = hurray::test::from_hex(
        "48525259 01 00 5d000000 02000000 03 01 02000000 0800000000000000 0400000000000000 0000000000000000"
        "01 8000000000000000 40000000 00 00 00 00"
        "0800000000000000 0800000000000000 0000000000000000 0000000000000000");
    bytes[85] = column;
    return bytes;
}

/// float32 [3,4], which is no member of anything.
std::vector<std::uint8_t> dense_bytes() { return hurray::DenseDescriptor{.shape = {3, 4}}.encode(); }

TEST(CompositeSetAbi, ChecksAHeadWithItsMembers) {
    CompositeSet set{Descriptor(head_bytes())};
    set.add(Descriptor(member_bytes(0)));
    EXPECT_EQ(set.member_count(), 1U);
    set.add(Descriptor(member_bytes(4)));
    EXPECT_EQ(set.member_count(), 2U);
    set.finish();
}

TEST(CompositeSetAbi, SaysWhichRuleIsBroken) {
    CompositeSet set{Descriptor(head_bytes())};
    EXPECT_EQ(hurray_composite_set_add(set.get(), Descriptor(dense_bytes()).get()), HURRAY_ERR_INTERNAL);
    EXPECT_STREQ(hurray_last_error_message(),
                 "hurray_composite_set_add: members[0] is there, but no shard section: such a member is a "
                 "box of its head (CompositeMemberMissingShard)");
    EXPECT_EQ(hurray_composite_set_finish(set.get()), HURRAY_ERR_INTERNAL);
    EXPECT_NE(std::string(hurray_last_error_message()).find("(CompositeMemberCountMismatch)"), std::string::npos);
    // Neither has changed the set.
    set.add(Descriptor(member_bytes(0)));
    set.add(Descriptor(member_bytes(4)));
    set.finish();
}

TEST(CompositeSetAbi, RefusesAHeadThatIsNone) {
    HurrayCompositeSet* set = nullptr;
    EXPECT_EQ(hurray_composite_set_new(Descriptor(member_bytes(0)).get(), &set), HURRAY_ERR_INVALID_LAYOUT);
    EXPECT_EQ(set, nullptr);
}

TEST(CompositeSetAbi, NullPointersAreRefused) {
    const Descriptor head(head_bytes());
    CompositeSet set{head};
    HurrayCompositeSet* made = nullptr;
    EXPECT_EQ(hurray_composite_set_new(nullptr, &made), HURRAY_ERR_NULL_POINTER);
    EXPECT_EQ(hurray_composite_set_new(head.get(), nullptr), HURRAY_ERR_NULL_POINTER);
    EXPECT_EQ(hurray_composite_set_add(nullptr, head.get()), HURRAY_ERR_NULL_POINTER);
    EXPECT_EQ(hurray_composite_set_add(set.get(), nullptr), HURRAY_ERR_NULL_POINTER);
    EXPECT_EQ(hurray_composite_set_member_count(set.get(), nullptr), HURRAY_ERR_NULL_POINTER);
    EXPECT_EQ(hurray_composite_set_finish(nullptr), HURRAY_ERR_NULL_POINTER);
    EXPECT_EQ(hurray_composite_set_destroy(nullptr), HURRAY_ERR_NULL_POINTER);
    EXPECT_EQ(hurray_composite_set_destroy(&made), HURRAY_OK);
}

TEST(DescriptorJsonAbi, TellsEveryField) {
    EXPECT_EQ(Descriptor(dense_bytes()).to_json(),
              R"({"version":"1.0","element_type":"float32","shape":[3,4],"layout":"row-major","strides":[4,1],)"
              R"("byte_offset":0,"buffers":[{"byte_size":48,"alignment":64,"device":"cpu",)"
              R"("sync_mode":"producer-synced","memory_class":"standard"}]})");
}

TEST(DescriptorJsonAbi, CountsTheTerminatingNull) {
    const Descriptor descriptor(dense_bytes());
    const std::string text = descriptor.to_json();
    std::vector<char> out(text.size() + 1, 'x');
    uintptr_t length = text.size();
    EXPECT_EQ(hurray_descriptor_to_json(descriptor.get(), out.data(), &length), HURRAY_ERR_BUFFER_TOO_SMALL);
    EXPECT_EQ(length, text.size() + 1);
    EXPECT_EQ(out[0], 'x');
    EXPECT_EQ(hurray_descriptor_to_json(descriptor.get(), out.data(), &length), HURRAY_OK);
    EXPECT_STREQ(out.data(), text.c_str());
    EXPECT_EQ(hurray_descriptor_to_json(nullptr, out.data(), &length), HURRAY_ERR_NULL_POINTER);
    EXPECT_EQ(hurray_descriptor_to_json(descriptor.get(), out.data(), nullptr), HURRAY_ERR_NULL_POINTER);
}

}  // namespace
