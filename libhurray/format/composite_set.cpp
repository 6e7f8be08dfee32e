#include "libhurray/format/composite_set.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "libhurray/base/checked_math.hpp"
#include "libhurray/format/validate.hpp"

namespace hurray {
namespace {

using Check = DescriptorResult<void>;
using Numbers = std::span<const std::uint64_t>;

tl::unexpected<DescriptorError> refuse(Fault fault, const char* field, std::uint64_t index = 0, std::uint64_t value = 0,
                                       std::uint64_t limit = 0) {
    return tl::unexpected(DescriptorError{fault, field, index, value, limit});
}

std::uint64_t saturating_add(std::uint64_t a, std::uint64_t b) {
    return checked_add(a, b).value_or(std::numeric_limits<std::uint64_t>::max());
}

bool equal(PackedArray<std::uint64_t> packed, Numbers numbers) {
    if (packed.size() != numbers.size()) {
        return false;
    }
    for (std::size_t k = 0; k < numbers.size(); ++k) {
        if (packed[k] != numbers[k]) {
            return false;
        }
    }
    return true;
}

/// Nothing if it does not fit 64 bits.
std::optional<std::uint64_t> volume(Numbers sizes) {
    std::optional<std::uint64_t> product = 1;
    for (const std::uint64_t size : sizes) {
        product = product ? checked_mul(*product, size) : product;
    }
    return product;
}

/// The boxes of a partition's members: for each all offsets, then all sizes.
class Boxes {
  public:
    Boxes(Numbers numbers, std::size_t rank, std::size_t count) : numbers_(numbers), rank_(rank), count_(count) {}

    [[nodiscard]] std::size_t count() const { return count_; }
    [[nodiscard]] std::size_t rank() const { return rank_; }
    [[nodiscard]] Numbers sizes(std::size_t box) const { return numbers_.subspan((2 * box + 1) * rank_, rank_); }
    [[nodiscard]] std::uint64_t begin(std::size_t box, std::size_t k) const { return numbers_[2 * box * rank_ + k]; }
    [[nodiscard]] std::uint64_t end(std::size_t box, std::size_t k) const {
        return saturating_add(begin(box, k), numbers_[(2 * box + 1) * rank_ + k]);
    }
    /// As the format says it: a box of size 0 inside another one counts.
    [[nodiscard]] bool overlap(std::size_t a, std::size_t b) const {
        for (std::size_t k = 0; k < rank_; ++k) {
            if (begin(a, k) >= end(b, k) || begin(b, k) >= end(a, k)) {
                return false;
            }
        }
        return true;
    }

  private:
    Numbers numbers_;
    std::size_t rank_;
    std::size_t count_;
};

/// The dimension in which the boxes begin at the most places; `order` becomes their order in it.
std::size_t sort_along_best_dimension(const Boxes& boxes, std::vector<std::size_t>& order) {
    std::size_t best = 0;
    std::size_t best_places = 0;
    std::vector<std::uint64_t> begins(boxes.count());
    for (std::size_t k = 0; k < boxes.rank(); ++k) {
        for (std::size_t box = 0; box < boxes.count(); ++box) {
            begins[box] = boxes.begin(box, k);
        }
        std::sort(begins.begin(), begins.end());
        const auto places =
            static_cast<std::size_t>(std::distance(begins.begin(), std::unique(begins.begin(), begins.end())));
        if (places > best_places) {
            best = k;
            best_places = places;
        }
    }
    std::sort(order.begin(), order.end(),
              [&](std::size_t a, std::size_t b) { return boxes.begin(a, best) < boxes.begin(b, best); });
    return best;
}

/// Of all pairs that overlap the first one, by the lower number and then by the higher.
///
/// Only boxes are compared that meet in one dimension, so that slabs and grids, which partitions are, do not take every pair.
std::optional<std::pair<std::size_t, std::size_t>> first_overlap(const Boxes& boxes) {
    if (boxes.rank() == 0) {  // a scalar holds one box
        return boxes.count() < 2 ? std::nullopt : std::optional(std::pair<std::size_t, std::size_t>(0, 1));
    }
    std::vector<std::size_t> order(boxes.count());
    std::iota(order.begin(), order.end(), std::size_t{0});
    const std::size_t dimension = sort_along_best_dimension(boxes, order);
    std::optional<std::pair<std::size_t, std::size_t>> first;
    for (auto a = order.begin(); a != order.end(); ++a) {
        const std::uint64_t end = boxes.end(*a, dimension);
        for (auto b = a + 1; b != order.end() && boxes.begin(*b, dimension) < end; ++b) {
            const std::pair<std::size_t, std::size_t> pair(std::minmax(*a, *b));
            if ((!first || pair < *first) && boxes.overlap(*a, *b)) {
                first = pair;
            }
        }
    }
    return first;
}

}  // namespace

DescriptorResult<CompositeSet::Level> CompositeSet::level_of(const DescriptorView& head) {
    const auto* layout = head.layout.as<CompositeHeadLayout>();
    if (layout == nullptr) {
        return refuse(Fault::NotACompositeHead, "layout_tag", 0, static_cast<std::uint64_t>(head.layout.tag),
                      static_cast<std::uint64_t>(LayoutTag::CompositeHead));
    }
    if (const Check fits = check_layout_against_shape(head); !fits) {
        return tl::unexpected(fits.error());
    }
    Level level;
    level.rule = layout->rule;
    level.element_type = head.element_type;
    level.expected = layout->member_count;
    for (std::size_t k = 0; k < head.shape.rank(); ++k) {
        level.shape.push_back(head.shape[k]);
    }
    return level;
}

DescriptorResult<CompositeSet> CompositeSet::start(const DescriptorView& head) {
    auto level = level_of(head);
    if (!level) {
        return tl::unexpected(level.error());
    }
    CompositeSet set;
    set.levels_.push_back(*std::move(level));
    return set;
}

Check CompositeSet::check_member(const Level& level, const DescriptorView& member, std::uint64_t number) noexcept {
    const bool overlay = level.rule == CompositionRule::Overlay;
    if (level.rule != CompositionRule::Group) {
        if (!member.shard) {
            return refuse(Fault::CompositeMemberMissingShard, "members[]", number);
        }
        // A view that was put together by hand may have another rank in its section.
        if (member.shape.rank() != level.shape.size() || member.shard->offset.size() != level.shape.size() ||
            !equal(member.shard->parent_shape, level.shape)) {
            return refuse(Fault::CompositeMemberParentShapeMismatch, "members[].shard.parent_shape", number);
        }
        for (std::size_t k = 0; k < level.shape.size(); ++k) {
            const std::uint64_t end = saturating_add(member.shard->offset[k], member.shape[k]);
            if (end > level.shape[k]) {
                return refuse(Fault::ShardOutOfBounds, "members[].shard.shard_offset", number, end, level.shape[k]);
            }
        }
        if (!member.quantization && member.element_type != level.element_type) {
            return refuse(Fault::CompositeMemberTypeMismatch, "members[].type_tag", number,
                          static_cast<std::uint64_t>(member.element_type),
                          static_cast<std::uint64_t>(level.element_type));
        }
    }
    if (overlay != member.composite_member.has_value()) {
        return refuse(Fault::CompositeMemberFlagMismatch, "members[].composite_member", number);
    }
    if (!overlay) {
        return {};
    }
    const bool first = level.members.empty();
    const MemberRole needed = first ? MemberRole::Base : MemberRole::Correction;
    if (*member.composite_member != needed) {
        return refuse(Fault::CompositeOverlayBaseNotFirst, "members[].composite_member.member_role", number,
                      static_cast<std::uint64_t>(*member.composite_member), static_cast<std::uint64_t>(needed));
    }
    if (!first) {
        return {};
    }
    for (std::size_t k = 0; k < level.shape.size(); ++k) {
        if (member.shard->offset[k] != 0) {
            return refuse(Fault::CompositeOverlayBaseNotSpanning, "members[].shard.shard_offset", number);
        }
    }
    if (!equal(member.shape.dims(), level.shape)) {
        return refuse(Fault::CompositeOverlayBaseNotSpanning, "members[].shape", number);
    }
    return {};
}

Check CompositeSet::check_partition(const Level& level) {
    const std::size_t rank = level.shape.size();
    const Boxes boxes(level.boxes, rank, level.members.size());
    if (const auto pair = first_overlap(boxes)) {
        return refuse(Fault::CompositePartitionOverlap, "members[]", level.members[pair->second],
                      level.members[pair->first]);
    }
    const std::optional<std::uint64_t> whole = volume(level.shape);
    std::optional<std::uint64_t> filled = 0;
    for (std::size_t box = 0; box < boxes.count() && filled; ++box) {
        const auto part = volume(boxes.sizes(box));
        filled = part ? checked_add(*filled, *part) : part;
    }
    if (whole && filled && *whole != *filled) {
        return refuse(Fault::CompositePartitionGap, "shape", 0, *whole, *filled);
    }
    return {};
}

Check CompositeSet::check_end(const Level& level) {
    if (level.members.size() != level.expected) {
        return refuse(Fault::CompositeMemberCountMismatch, "members", 0, level.members.size(), level.expected);
    }
    switch (level.rule) {
        case CompositionRule::Partition:
            return check_partition(level);
        case CompositionRule::Overlay:
            if (level.members.empty()) {
                return refuse(Fault::CompositeOverlayEmpty, "layout.member_count");
            }
            break;
        case CompositionRule::Group:
            break;
    }
    return {};
}

Check CompositeSet::add(const DescriptorView& member) {
    if (const Check fits = check_member(levels_.back(), member, added_); !fits) {
        return fits;
    }
    const bool nested = member.layout.tag == LayoutTag::CompositeHead;
    if (nested && levels_.size() == kMaxDepth) {
        return refuse(Fault::SubpavingNestingTooDeep, "members[]", added_, kMaxDepth + 1, kMaxDepth);
    }

    // The new state is made beside the old one where it can fail, so that a failure leaves no trace.
    std::optional<Level> inner;
    if (nested) {
        auto level = level_of(member);
        if (!level) {
            return tl::unexpected(level.error());
        }
        inner = *std::move(level);
        levels_.reserve(kMaxDepth);
    }
    Level& outer = levels_.back();
    const std::size_t boxes_before = outer.boxes.size();
    const auto undo = [&] {
        outer.boxes.resize(boxes_before);
        outer.members.pop_back();
    };
    outer.members.push_back(added_);
    try {
        if (outer.rule == CompositionRule::Partition) {
            const std::size_t rank = outer.shape.size();
            outer.boxes.resize(boxes_before + 2 * rank);
            for (std::size_t k = 0; k < rank; ++k) {
                outer.boxes[boxes_before + k] = member.shard->offset[k];
                outer.boxes[boxes_before + rank + k] = member.shape[k];
            }
        }
        // Which heads are complete now: the new one if it has no members, then outwards. The outermost is left to finish().
        Check ended;
        bool complete = true;
        if (inner) {
            complete = inner->expected == 0;
            ended = complete ? check_end(*inner) : ended;
        }
        std::size_t kept = levels_.size();
        while (complete && ended && kept > 1 && levels_[kept - 1].members.size() == levels_[kept - 1].expected) {
            ended = check_end(levels_[kept - 1]);
            --kept;
        }
        if (!ended) {
            undo();
            return ended;
        }
        levels_.erase(levels_.begin() + static_cast<std::ptrdiff_t>(kept), levels_.end());
        if (inner && inner->expected > 0) {
            levels_.push_back(*std::move(inner));
        }
    } catch (...) {  // out of memory
        undo();
        throw;
    }
    ++added_;
    return {};
}

Check CompositeSet::finish() const { return check_end(levels_.back()); }

Check check_composite_set(const DescriptorView& head, std::span<const DescriptorView> members) {
    auto set = CompositeSet::start(head);
    if (!set) {
        return tl::unexpected(set.error());
    }
    for (const DescriptorView& member : members) {
        if (const Check added = set->add(member); !added) {
            return added;
        }
    }
    return set->finish();
}

}  // namespace hurray
