#include "libhurray/format/composite_set.hpp"

#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "libhurray/format/descriptor_reader.hpp"
#include "libhurray/format/owned_descriptor.hpp"
#include "tests/support/composite_samples.hpp"

namespace hurray {
namespace {

using test::HeadSample;
using test::MemberSample;

constexpr auto kPartition = CompositionRule::Partition;
constexpr auto kOverlay = CompositionRule::Overlay;
constexpr auto kGroup = CompositionRule::Group;

template <class Sample>
OwnedDescriptor tensor(const Sample& sample) {
    auto decoded = OwnedDescriptor::decode(test::encode(sample));
    EXPECT_TRUE(decoded) << describe(decoded.error());
    return *std::move(decoded);
}

CompositeSet start(const HeadSample& head) {
    auto set = CompositeSet::start(tensor(head).view());
    EXPECT_TRUE(set) << describe(set.error());
    return *std::move(set);
}

/// "ok", or what an error says.
std::string said(const DescriptorResult<void>& result) { return result ? "ok" : describe(result.error()); }

template <class Sample>
std::string add(CompositeSet& set, const Sample& member) {
    return said(set.add(tensor(member).view()));
}

std::string name_of(const DescriptorResult<void>& result) {
    return result ? "ok" : std::string(fault_name(result.error().fault));
}

/// A head of [4,6] and its members; the name of what is wrong.
std::string check(CompositionRule rule, const std::vector<MemberSample>& members,
                  std::optional<std::uint32_t> count = {}) {
    const auto head = tensor(HeadSample{rule, count.value_or(static_cast<std::uint32_t>(members.size())), {4, 6}});
    std::vector<OwnedDescriptor> owned;
    std::vector<DescriptorView> views;
    for (const MemberSample& member : members) {
        owned.push_back(tensor(member));
        views.push_back(owned.back().view());
    }
    return name_of(check_composite_set(head.view(), views));
}

MemberSample box(std::vector<std::uint64_t> shape, std::vector<std::uint64_t> offset) {
    return {std::move(shape), {4, 6}, std::move(offset)};
}

MemberSample layer(MemberRole role, std::vector<std::uint64_t> shape = {4, 6},
                   std::vector<std::uint64_t> offset = {0, 0}) {
    return {std::move(shape), {4, 6}, std::move(offset), role};
}

// ---- Heads ---------------------------------------------------------------------------------------------------------

TEST(CompositeSet, AHeadIsACompositeHead) {
    const auto set = CompositeSet::start(tensor(box({1, 6}, {0, 0})).view());
    ASSERT_FALSE(set);
    EXPECT_EQ(describe(set.error()), "layout_tag is 0x1, which is not a composite head (11) (InvalidLayout)");
    EXPECT_EQ(to_errc(set.error().fault), Errc::InvalidLayout);
}

TEST(CompositeSet, AHeadThatIsFilledHasSizes) {
    for (const CompositionRule rule : {kPartition, kOverlay}) {
        const auto set = CompositeSet::start(tensor(HeadSample{rule, 1, {4, kDynamicDim}}).view());
        ASSERT_FALSE(set);
        EXPECT_EQ(set.error().fault, Fault::InvalidLayout);
        EXPECT_EQ(set.error().index, 1U);
    }
    EXPECT_TRUE(CompositeSet::start(tensor(HeadSample{kGroup, 1, {4, kDynamicDim}}).view()));
}

// ---- Members of a partition ----------------------------------------------------------------------------------------

TEST(CompositeSet, APartitionOfTwoSlabsIsComplete) {
    EXPECT_EQ(check(kPartition, {box({1, 6}, {0, 0}), box({3, 6}, {1, 0})}), "ok");
}

TEST(CompositeSet, AMemberThatSaysNotWhereItLiesIsRefused) {
    CompositeSet set = start({kPartition, 1, {4, 6}});
    EXPECT_EQ(add(set, MemberSample{.shape = {4, 6}, .shard = false}),
              "members[0] is there, but no shard section: such a member is a box of its head "
              "(CompositeMemberMissingShard)");
    EXPECT_EQ(set.member_count(), 0U);
}

TEST(CompositeSet, AMemberOfAnotherParentIsRefused) {
    EXPECT_EQ(check(kPartition, {{{4, 5}, {4, 5}, {0, 0}}}), "CompositeMemberParentShapeMismatch");
    EXPECT_EQ(check(kPartition, {{{4}, {4}, {0}}}), "CompositeMemberParentShapeMismatch");
    EXPECT_EQ(check(kPartition, {{{4, 6, 1}, {4, 6, 1}, {0, 0, 0}}}), "CompositeMemberParentShapeMismatch");
}

TEST(CompositeSet, ABoxOutsideTheHeadIsRefused) {
    // Decoding refuses such a section too, so the view is changed after it.
    const auto good = tensor(box({3, 6}, {1, 0}));
    std::vector<std::uint8_t> storage;
    DescriptorView outside = good.view();
    outside.shard->offset = test::pack(std::vector<std::uint64_t>{2, 0}, storage);
    CompositeSet set = start({kPartition, 1, {4, 6}});
    EXPECT_EQ(said(set.add(outside)),
              "members[0].shard.shard_offset plus the dimension is 5, past the parent's 4 (ShardOutOfBounds)");
    outside.shard->offset = test::pack(std::vector<std::uint64_t>{UINT64_MAX, 0}, storage);
    EXPECT_EQ(name_of(set.add(outside)), "ShardOutOfBounds");
    EXPECT_EQ(to_errc(Fault::ShardOutOfBounds), Errc::InvalidLayout);
}

TEST(CompositeSet, AMemberOfAnotherTypeIsRefusedUnlessItIsQuantized) {
    MemberSample member = box({4, 6}, {0, 0});
    member.type = ElementType::Int8;
    EXPECT_EQ(check(kPartition, {member}), "CompositeMemberTypeMismatch");
    member.quantized = true;
    EXPECT_EQ(check(kPartition, {member}), "ok");
}

TEST(CompositeSet, OnlyMembersOfAnOverlayHaveARole) {
    MemberSample member = box({4, 6}, {0, 0});
    EXPECT_EQ(check(kOverlay, {member}), "CompositeMemberFlagMismatch");
    member.role = MemberRole::Base;
    EXPECT_EQ(check(kPartition, {member}), "CompositeMemberFlagMismatch");
    EXPECT_EQ(check(kGroup, {member}), "CompositeMemberFlagMismatch");
}

TEST(CompositeSet, TheFirstRuleThatAMemberBreaksIsTheOneReported) {
    MemberSample everything{{4, 5}, {4, 5}, {0, 0}, MemberRole::Base, ElementType::Int8};
    EXPECT_EQ(check(kPartition, {everything}), "CompositeMemberParentShapeMismatch");
    everything.parent = {4, 6};
    EXPECT_EQ(check(kPartition, {everything}), "CompositeMemberTypeMismatch");
    everything.type = ElementType::Float32;
    EXPECT_EQ(check(kPartition, {everything}), "CompositeMemberFlagMismatch");
}

// ---- Members of an overlay -----------------------------------------------------------------------------------------

TEST(CompositeSet, AnOverlayOfABaseAndCorrectionsIsComplete) {
    EXPECT_EQ(check(kOverlay, {layer(MemberRole::Base), layer(MemberRole::Correction, {1, 1}, {3, 5}),
                               layer(MemberRole::Correction, {1, 1}, {3, 5})}),
              "ok");
}

TEST(CompositeSet, TheBaseOfAnOverlayComesFirstAndOnlyThere) {
    EXPECT_EQ(check(kOverlay, {layer(MemberRole::Correction)}), "CompositeOverlayBaseNotFirst");
    EXPECT_EQ(check(kOverlay, {layer(MemberRole::Base), layer(MemberRole::Base)}), "CompositeOverlayBaseNotFirst");
}

TEST(CompositeSet, TheBaseOfAnOverlayCoversAllOfIt) {
    EXPECT_EQ(check(kOverlay, {layer(MemberRole::Base, {3, 6}, {1, 0})}), "CompositeOverlayBaseNotSpanning");
    EXPECT_EQ(check(kOverlay, {layer(MemberRole::Base, {3, 6}, {0, 0})}), "CompositeOverlayBaseNotSpanning");
}

// As the format says it: nothing overlaps where it begins or ends, but it does strictly inside.
TEST(CompositeSet, ABoxOfSizeZeroInsideAnotherOneCounts) {
    const MemberSample whole = box({4, 6}, {0, 0});
    for (const std::uint64_t at : {0U, 2U, 4U}) {
        const MemberSample nothing = box({0, 6}, {at, 0});
        const std::string expected = at == 2 ? "CompositePartitionOverlap" : "ok";
        EXPECT_EQ(check(kPartition, {whole, nothing}), expected) << at;
        EXPECT_EQ(check(kPartition, {nothing, whole}), expected) << at;
    }
}

TEST(CompositeSet, AnOverlayHasAtLeastItsBase) { EXPECT_EQ(check(kOverlay, {}), "CompositeOverlayEmpty"); }

// ---- Groups --------------------------------------------------------------------------------------------------------

TEST(CompositeSet, AGroupTakesTensorsOfAnyTypeAndShape) {
    EXPECT_EQ(check(kGroup, {MemberSample{.shape = {7}, .type = ElementType::Int8, .shard = false},
                             MemberSample{.shape = {1, 2, 3}, .shard = false}}),
              "ok");
    EXPECT_EQ(check(kGroup, {}), "ok");
}

// ---- The end -------------------------------------------------------------------------------------------------------

TEST(CompositeSet, AsManyMembersAsTheHeadCounts) {
    EXPECT_EQ(check(kPartition, {box({4, 6}, {0, 0})}, 2), "CompositeMemberCountMismatch");
    EXPECT_EQ(check(kPartition, {box({1, 6}, {0, 0}), box({3, 6}, {1, 0})}, 1), "CompositeMemberCountMismatch");
    EXPECT_EQ(check(kOverlay, {}, 1), "CompositeMemberCountMismatch");
    const CompositeSet set = start({kGroup, 3, {}});
    EXPECT_EQ(said(set.finish()), "members are 0, the composite head names 3 (CompositeMemberCountMismatch)");
}

TEST(CompositeSet, TheFirstPairThatOverlapsIsNamed) {
    CompositeSet set = start({kPartition, 4, {4, 6}});
    EXPECT_EQ(add(set, box({1, 6}, {0, 0})), "ok");
    EXPECT_EQ(add(set, box({1, 6}, {2, 0})), "ok");
    EXPECT_EQ(add(set, box({2, 6}, {2, 0})), "ok");
    EXPECT_EQ(add(set, box({1, 1}, {0, 5})), "ok");
    EXPECT_EQ(said(set.finish()), "the box of members[3] overlaps that of members[0] (CompositePartitionOverlap)");
}

TEST(CompositeSet, ABoxWithoutElementsInsideAnotherOverlapsIt) {
    EXPECT_EQ(check(kPartition, {box({4, 6}, {0, 0}), box({0, 6}, {2, 0})}), "CompositePartitionOverlap");
    EXPECT_EQ(check(kPartition, {box({4, 6}, {0, 0}), box({0, 6}, {4, 0})}), "ok");
    EXPECT_EQ(check(kPartition, {box({4, 6}, {0, 0}), box({0, 6}, {0, 0})}), "ok");
}

TEST(CompositeSet, APartitionFillsItsHead) {
    CompositeSet set = start({kPartition, 1, {4, 6}});
    EXPECT_EQ(add(set, box({3, 6}, {0, 0})), "ok");
    EXPECT_EQ(said(set.finish()),
              "shape holds 24 elements, but the members' boxes together 18 (CompositePartitionGap)");
    EXPECT_EQ(check(kPartition, {}), "CompositePartitionGap");
}

TEST(CompositeSet, AHeadWhoseElementsNoNumberCountsIsNotMeasured) {
    constexpr std::uint64_t kHuge = std::uint64_t{1} << 40U;
    CompositeSet set = start({kPartition, 1, {kHuge, kHuge}});
    EXPECT_EQ(add(set, MemberSample{{kHuge, 1}, {kHuge, kHuge}, {0, 0}}), "ok");
    EXPECT_EQ(said(set.finish()), "ok");
}

TEST(CompositeSet, BoxesUpToTheHighestIndexAreCompared) {
    constexpr std::uint64_t kMost = UINT64_MAX - 1;
    CompositeSet set = start({kPartition, 2, {kMost}});
    EXPECT_EQ(add(set, MemberSample{{1}, {kMost}, {kMost - 1}}), "ok");
    EXPECT_EQ(add(set, MemberSample{{kMost - 1}, {kMost}, {0}}), "ok");
    EXPECT_EQ(said(set.finish()), "ok");
}

TEST(CompositeSet, AScalarHeadIsOneBox) {
    MemberSample scalar;
    CompositeSet one = start({kPartition, 1, {}});
    EXPECT_EQ(add(one, scalar), "ok");
    EXPECT_EQ(said(one.finish()), "ok");
    CompositeSet two = start({kPartition, 2, {}});
    EXPECT_EQ(add(two, scalar), "ok");
    EXPECT_EQ(add(two, scalar), "ok");
    EXPECT_EQ(name_of(two.finish()), "CompositePartitionOverlap");
}

TEST(CompositeSet, ALargeGridIsCheckedWithoutComparingEveryPair) {
    constexpr std::uint64_t kSide = 200;
    CompositeSet set = start({kPartition, kSide * kSide, {kSide, kSide}});
    for (std::uint64_t i = 0; i < kSide * kSide; ++i) {
        const auto member = tensor(MemberSample{{1, 1}, {kSide, kSide}, {i / kSide, i % kSide}});
        ASSERT_TRUE(set.add(member.view()));
    }
    EXPECT_EQ(said(set.finish()), "ok");
}

// ---- Sets in sets --------------------------------------------------------------------------------------------------

TEST(CompositeSet, MembersOfANestedHeadComeBeforeTheNextMember) {
    CompositeSet set = start({kPartition, 2, {4, 6}});
    EXPECT_EQ(add(set, HeadSample{.member_count = 2, .shape = {2, 6}, .parent = {4, 6}, .offset = {0, 0}}), "ok");
    EXPECT_EQ(name_of(set.finish()), "CompositeMemberCountMismatch");
    EXPECT_EQ(add(set, MemberSample{{2, 3}, {2, 6}, {0, 0}}), "ok");
    EXPECT_EQ(add(set, MemberSample{{2, 3}, {2, 6}, {0, 3}}), "ok");
    EXPECT_EQ(add(set, box({2, 6}, {2, 0})), "ok");
    EXPECT_EQ(set.member_count(), 4U);
    EXPECT_EQ(said(set.finish()), "ok");
}

TEST(CompositeSet, ANestedHeadIsCheckedWithItsLastMember) {
    CompositeSet set = start({kGroup, 1, {}});
    EXPECT_EQ(add(set, HeadSample{.member_count = 2, .shape = {2, 6}}), "ok");
    EXPECT_EQ(add(set, MemberSample{{2, 3}, {2, 6}, {0, 0}}), "ok");
    EXPECT_EQ(add(set, MemberSample{{2, 3}, {2, 6}, {0, 2}}),
              "the box of members[2] overlaps that of members[1] (CompositePartitionOverlap)");
    EXPECT_EQ(set.member_count(), 2U);
    // Nothing has changed, so the right one fits.
    EXPECT_EQ(add(set, MemberSample{{2, 3}, {2, 6}, {0, 3}}), "ok");
    EXPECT_EQ(said(set.finish()), "ok");
}

TEST(CompositeSet, HeadsThatEndTogetherAreAllChecked) {
    CompositeSet set = start({kGroup, 1, {}});
    EXPECT_EQ(add(set, HeadSample{.member_count = 1, .shape = {4, 6}}), "ok");  // to be filled by [2,6]: a gap
    EXPECT_EQ(add(set, HeadSample{.member_count = 1, .shape = {2, 6}, .parent = {4, 6}, .offset = {0, 0}}), "ok");
    EXPECT_EQ(add(set, MemberSample{{2, 6}, {2, 6}, {0, 0}}),
              "shape holds 24 elements, but the members' boxes together 12 (CompositePartitionGap)");
    EXPECT_EQ(set.member_count(), 2U);
}

TEST(CompositeSet, ANestedHeadWithoutMembersIsCheckedAtOnce) {
    CompositeSet set = start({kGroup, 2, {}});
    EXPECT_EQ(add(set, HeadSample{.rule = kOverlay, .shape = {4, 6}}),
              "layout.member_count is 0, but an overlay has at least its base (CompositeOverlayEmpty)");
    EXPECT_EQ(add(set, HeadSample{.rule = kGroup}), "ok");
    EXPECT_EQ(add(set, HeadSample{.shape = {0, 6}}), "ok");
    EXPECT_EQ(said(set.finish()), "ok");
}

TEST(CompositeSet, EightHeadsInOneAnotherAreTheLimit) {
    CompositeSet set = start({kGroup, 1, {}});
    for (int depth = 2; depth <= 8; ++depth) {
        EXPECT_EQ(add(set, HeadSample{.rule = kGroup, .member_count = 1}), "ok");
    }
    EXPECT_EQ(add(set, HeadSample{.rule = kGroup, .member_count = 1}),
              "members[7] has level 9, the maximum is 8 (SubpavingNestingTooDeep)");
    EXPECT_EQ(add(set, MemberSample{.shape = {1}, .shard = false}), "ok");
    EXPECT_EQ(said(set.finish()), "ok");
}

}  // namespace
}  // namespace hurray
