#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "libhurray/format/descriptor_error.hpp"
#include "libhurray/format/descriptor_view.hpp"

namespace hurray {

/// A composite head and its members, checked against each other while they are put together.
///
/// Members are added in the order of streams and files: depth first. A member that is a head itself is followed by its own
/// members, as many as it counts, before the next member of the outer head. Members are called by the order in which
/// they were added, nested ones included, from 0: that is the number in errors.
///
/// Keeps copies of what it needs, so that views may go after each call. Threads: one at a time.
class CompositeSet {
  public:
    /// Heads inside heads, the outermost included.
    static constexpr std::size_t kMaxDepth = 8;

    /// Fails: InvalidLayout  `head` is no composite head, or one with a dynamic dimension whose members must fill it
    [[nodiscard]] static DescriptorResult<CompositeSet> start(const DescriptorView& head);

    /// Adds the next member, and ends every nested head that is complete with it. On failure nothing has changed.
    ///
    /// Fails: CompositeMemberMissingShard, CompositeMemberParentShapeMismatch, ShardOutOfBounds,
    ///        CompositeMemberTypeMismatch, CompositeMemberFlagMismatch, CompositeOverlayBaseNotFirst,
    ///        CompositeOverlayBaseNotSpanning; for a nested head what start() says, or SubpavingNestingTooDeep; for one
    ///        that is complete what finish() says
    [[nodiscard]] DescriptorResult<void> add(const DescriptorView& member);

    /// Whether what was added is the whole set. The object stays as it is.
    ///
    /// Fails: CompositeMemberCountMismatch, CompositePartitionOverlap (the first pair), CompositePartitionGap,
    ///        CompositeOverlayEmpty
    [[nodiscard]] DescriptorResult<void> finish() const;

    /// Nested ones included.
    [[nodiscard]] std::uint64_t member_count() const noexcept { return added_; }

  private:
    /// A head that still waits for members, and what its members have to fit.
    struct Level {
        CompositionRule rule = CompositionRule::Partition;
        ElementType element_type = ElementType::Float32;
        std::uint32_t expected = 0;
        std::vector<std::uint64_t> shape;
        std::vector<std::uint64_t> members;  // their numbers
        std::vector<std::uint64_t> boxes;    // of a partition: for each member all offsets, then all sizes
    };

    CompositeSet() = default;

    [[nodiscard]] static DescriptorResult<Level> level_of(const DescriptorView& head);
    [[nodiscard]] static DescriptorResult<void> check_member(const Level& level, const DescriptorView& member,
                                                             std::uint64_t number) noexcept;
    [[nodiscard]] static DescriptorResult<void> check_end(const Level& level);
    [[nodiscard]] static DescriptorResult<void> check_partition(const Level& level);

    std::vector<Level> levels_;  // the outermost first; never empty
    std::uint64_t added_ = 0;
};

/// All of it at once.
[[nodiscard]] DescriptorResult<void> check_composite_set(const DescriptorView& head,
                                                         std::span<const DescriptorView> members);

}  // namespace hurray
