#include "libhurray/format/composite_lookup.hpp"

#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/sample_descriptors.hpp"

namespace hurray {
namespace {

using U64s = std::vector<std::uint64_t>;

/// A head with members, each a box of it.
class Composite {
  public:
    Composite(const U64s& shape, CompositionRule rule) : shape_(shape), head_(ElementType::Float32, shape, {}) {
        head_.view.layout = {LayoutTag::CompositeHead, CompositeHeadLayout{rule, 0, 0}};
    }

    Composite& add(const U64s& offset, const U64s& shape) {
        auto member = std::make_unique<Member>(shape);
        member->tensor.view.shard = Shard{test::pack(shape_, member->parent), test::pack(offset, member->offset)};
        members_.push_back(std::move(member));
        std::get<CompositeHeadLayout>(head_.view.layout.payload).member_count =
            static_cast<std::uint32_t>(members_.size());
        return *this;
    }

    [[nodiscard]] std::vector<const DescriptorView*> members() const {
        std::vector<const DescriptorView*> views;
        for (const auto& member : members_) {
            views.push_back(&member->tensor.view);
        }
        return views;
    }
    [[nodiscard]] DescriptorView& head() { return head_.view; }
    [[nodiscard]] DescriptorView& member(std::size_t number) { return members_[number]->tensor.view; }

    /// "member [index]", "none", or the name of what went wrong.
    [[nodiscard]] std::string at(const U64s& index, std::size_t before = 100) const {
        const auto views = members();
        const auto found = find_member(head_.view, views, index, before);
        if (!found) {
            return std::string(fault_name(found.error().fault));
        }
        if (!*found) {
            return "none";
        }
        std::string text = std::to_string((*found)->member) + " [";
        for (std::size_t k = 0; k < index.size(); ++k) {
            text += (k == 0 ? "" : ",") + std::to_string((*found)->index[k]);
        }
        return text + "]";
    }

  private:
    struct Member {
        explicit Member(const U64s& shape) : tensor(ElementType::Float32, shape, {test::cpu_buffer(1000)}) {}
        test::SampleTensor tensor;
        std::vector<std::uint8_t> parent;
        std::vector<std::uint8_t> offset;
    };

    U64s shape_;
    test::SampleTensor head_;
    std::vector<std::unique_ptr<Member>> members_;
};

TEST(CompositeLookup, PartitionExampleOfTheFormat) {
    Composite parts({4, 6}, CompositionRule::Partition);
    parts.add({0, 0}, {1, 6}).add({1, 0}, {3, 6});
    EXPECT_EQ(parts.at({2, 5}), "1 [1,5]");
    EXPECT_EQ(parts.at({0, 5}), "0 [0,5]");
}

TEST(CompositeLookup, EveryElementOfAPartitionIsInOneMember) {
    Composite parts({4, 6}, CompositionRule::Partition);
    parts.add({0, 0}, {2, 3}).add({0, 3}, {2, 3}).add({2, 0}, {2, 5}).add({2, 5}, {2, 1});
    for (std::uint64_t i = 0; i < 4; ++i) {
        for (std::uint64_t j = 0; j < 6; ++j) {
            const std::size_t member = i < 2 ? (j < 3 ? 0 : 1) : (j < 5 ? 2 : 3);
            const std::uint64_t row = i % 2;
            const std::uint64_t column = i < 2 ? j % 3 : j % 5;
            EXPECT_EQ(parts.at({i, j}),
                      std::to_string(member) + " [" + std::to_string(row) + "," + std::to_string(column) + "]");
            EXPECT_EQ(parts.at({i, j}, member), "none");
        }
    }
}

TEST(CompositeLookup, OverlayGivesTheLatestCorrectionFirstAndTheBaseLast) {
    Composite overlay({4, 4}, CompositionRule::Overlay);
    overlay.add({0, 0}, {4, 4}).add({1, 1}, {2, 2}).add({2, 0}, {2, 4});
    EXPECT_EQ(overlay.at({2, 2}), "2 [0,2]");
    EXPECT_EQ(overlay.at({2, 2}, 2), "1 [1,1]");
    EXPECT_EQ(overlay.at({2, 2}, 1), "0 [2,2]");
    EXPECT_EQ(overlay.at({2, 2}, 0), "none");
    EXPECT_EQ(overlay.at({0, 0}), "0 [0,0]");
}

TEST(CompositeLookup, GapsAreNoMembers) {
    Composite parts({4}, CompositionRule::Partition);
    parts.add({0}, {1}).add({2}, {2});
    EXPECT_EQ(parts.at({1}), "none");
}

TEST(CompositeLookup, BoxesAtTheEndOf64BitsAreExact) {
    constexpr std::uint64_t kLarge = UINT64_MAX - 1;
    Composite parts({kLarge}, CompositionRule::Partition);
    parts.add({0}, {kLarge - 1}).add({kLarge - 1}, {1});
    EXPECT_EQ(parts.at({kLarge - 1}), "1 [0]");
    EXPECT_EQ(parts.at({kLarge - 2}), "0 [" + std::to_string(kLarge - 2) + "]");
}

TEST(CompositeLookup, WhatIsNoSetOfBoxesIsRefused) {
    Composite parts({4}, CompositionRule::Partition);
    parts.add({0}, {4});
    EXPECT_EQ(parts.at({4}), "IndexOutOfRange");
    EXPECT_EQ(parts.at({0, 0}), "IndexRankMismatch");
    parts.member(0).shard.reset();
    EXPECT_EQ(parts.at({0}), "CompositeMemberMissingShard");

    Composite group({4}, CompositionRule::Group);
    group.add({0}, {4});
    EXPECT_EQ(group.at({0}), "LayoutIsVirtual");

    Composite count({4}, CompositionRule::Partition);
    count.add({0}, {4});
    std::get<CompositeHeadLayout>(count.head().layout.payload).member_count = 2;
    EXPECT_EQ(count.at({0}), "CompositeMemberCountMismatch");

    Composite other({4}, CompositionRule::Partition);
    other.add({0}, {4});
    std::vector<std::uint8_t> parent;
    other.member(0).shard->parent_shape = test::pack(U64s{5}, parent);
    EXPECT_EQ(other.at({0}), "CompositeMemberParentShapeMismatch");

    Composite ordinary({4}, CompositionRule::Partition);
    ordinary.head().layout = {};
    EXPECT_EQ(ordinary.at({0}), "InvalidLayout");
}

}  // namespace
}  // namespace hurray
