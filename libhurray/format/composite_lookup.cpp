#include "libhurray/format/composite_lookup.hpp"

#include <algorithm>

#include "libhurray/format/element_address.hpp"

namespace hurray {
namespace {

DescriptorResult<void> check_head(const DescriptorView& head, std::size_t members) {
    const auto* const layout = head.layout.as<CompositeHeadLayout>();
    const auto tag = static_cast<std::uint64_t>(head.layout.tag);
    if (layout == nullptr) {
        return tl::unexpected(DescriptorError{Fault::InvalidLayout, "layout_tag", 0, tag, 0});
    }
    if (layout->rule == CompositionRule::Group) {
        return tl::unexpected(DescriptorError{Fault::LayoutIsVirtual, "layout_tag", 0, tag, 0});
    }
    if (layout->member_count != members) {
        return tl::unexpected(
            DescriptorError{Fault::CompositeMemberCountMismatch, "members", 0, members, layout->member_count});
    }
    return {};
}

DescriptorResult<void> check_member(const DescriptorView& head, const DescriptorView& member, std::size_t number) {
    if (!member.shard) {
        return tl::unexpected(DescriptorError{Fault::CompositeMemberMissingShard, "members[]", number, 0, 0});
    }
    const PackedArray<std::uint64_t> parent = member.shard->parent_shape;
    if (parent.size() != head.shape.rank()) {
        return tl::unexpected(
            DescriptorError{Fault::IndexRankMismatch, "members[]", number, parent.size(), head.shape.rank()});
    }
    for (std::size_t k = 0; k < parent.size(); ++k) {
        if (parent[k] != head.shape[k]) {
            return tl::unexpected(DescriptorError{Fault::CompositeMemberParentShapeMismatch, "members[]", number,
                                                  parent[k], head.shape[k]});
        }
    }
    if (const auto dynamic = member.shape.first_dynamic_dimension()) {
        return tl::unexpected(DescriptorError{Fault::DynamicDimInIndexing, "members[].shape", number, *dynamic, 0});
    }
    return {};
}

/// Whether the member's box holds the element; if so, `out` is its index in the member.
bool holds(const DescriptorView& member, std::span<const std::uint64_t> index, std::span<std::uint64_t> out) {
    for (std::size_t k = 0; k < index.size(); ++k) {
        const std::uint64_t offset = member.shard->offset[k];
        if (index[k] < offset || index[k] - offset >= member.shape[k]) {
            return false;
        }
        out[k] = index[k] - offset;
    }
    return true;
}

}  // namespace

DescriptorResult<std::optional<MemberElement>> find_member(const DescriptorView& head,
                                                           std::span<const DescriptorView* const> members,
                                                           std::span<const std::uint64_t> index,
                                                           std::size_t before) noexcept {
    if (const auto checked = check_head(head, members.size()); !checked) {
        return tl::unexpected(checked.error());
    }
    if (const auto checked = check_index(head.shape, index); !checked) {
        return tl::unexpected(checked.error());
    }
    for (std::size_t number = std::min(before, members.size()); number-- > 0;) {
        const DescriptorView& member = *members[number];
        if (const auto checked = check_member(head, member, number); !checked) {
            return tl::unexpected(checked.error());
        }
        MemberElement element{number};
        if (holds(member, index, element.index)) {
            return element;
        }
    }
    return std::nullopt;
}

}  // namespace hurray
