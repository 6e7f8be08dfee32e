#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "libhurray/format/descriptor_error.hpp"
#include "libhurray/format/descriptor_view.hpp"

namespace hurray {

/// An element of a composite, as an element of one of its members.
struct MemberElement {
    std::size_t member = 0;
    std::array<std::uint64_t, kMaxRank> index{};  // in the member; as many components as the head has dimensions
};

/// The last of the members before number `before` whose box holds the element at `index` of the composite; nothing if
/// none does. Start with `before` at the number of members and go on from the member found.
///
/// In a partition one member holds the element. In an overlay the base does, and so may corrections, which come first here,
/// the latest before the others: with the rule "replace" the first of them that stores the element has its value, with
/// "add" the values of all of them are added. A member can itself be a composite head, to be looked into the same way.
///
/// `members` are those of `head`, in order; its own members' members are not among them. That they form a proper set is
/// taken for granted: only those that are looked at are looked at.
///
/// Fails: InvalidLayout    `head` is no composite head
///        IndexRankMismatch, DynamicDimInIndexing, IndexOutOfRange  of the index, or (dynamic) of a member's shape
///        LayoutIsVirtual  a group, whose members have nothing to do with the shape of the head
///        CompositeMemberCountMismatch, CompositeMemberMissingShard, CompositeMemberParentShapeMismatch
[[nodiscard]] DescriptorResult<std::optional<MemberElement>> find_member(const DescriptorView& head,
                                                                         std::span<const DescriptorView* const> members,
                                                                         std::span<const std::uint64_t> index,
                                                                         std::size_t before) noexcept;

}  // namespace hurray
