// Descriptors one after the other as a composite head and its members: a set says the same as a plain reading of the rules,
// and a member that it refuses leaves no trace.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "libhurray/base/check.hpp"
#include "libhurray/base/checked_math.hpp"
#include "libhurray/format/composite_set.hpp"
#include "libhurray/format/descriptor_reader.hpp"
#include "tests/fuzz/fuzz_target.hpp"

namespace {

using hurray::CompositeSet;
using hurray::DescriptorView;

std::vector<DescriptorView> descriptors(std::span<const std::uint8_t> bytes) {
    std::vector<DescriptorView> views;
    for (auto view = hurray::decode_descriptor(bytes); view; view = hurray::decode_descriptor(bytes)) {
        views.push_back(*view);
        // A later minor version may declare more than there is.
        bytes = bytes.subspan(std::min<std::size_t>(bytes.size(), *hurray::declared_descriptor_length(bytes)));
    }
    return views;
}

bool overlap(const DescriptorView& a, const DescriptorView& b) {
    for (std::size_t k = 0; k < a.shape.rank(); ++k) {
        const auto end = [k](const DescriptorView& box) {
            return hurray::checked_add(box.shard->offset[k], box.shape[k]).value_or(UINT64_MAX);
        };
        if (a.shard->offset[k] >= end(b) || b.shard->offset[k] >= end(a)) {
            return false;
        }
    }
    return true;
}

/// Whether the end of a partition without nested heads names the pair that comes first.
void check_first_overlap(std::span<const DescriptorView> members, const hurray::DescriptorResult<void>& end) {
    for (std::size_t a = 0; a < members.size(); ++a) {
        for (std::size_t b = a + 1; b < members.size(); ++b) {
            if (overlap(members[a], members[b])) {
                HURRAY_CHECK(!end && end.error().fault == hurray::Fault::CompositePartitionOverlap);
                HURRAY_CHECK(end.error().value == a && end.error().index == b);
                return;
            }
        }
    }
    HURRAY_CHECK(end || end.error().fault != hurray::Fault::CompositePartitionOverlap);
}

}  // namespace

// The target itself keeps two views of each descriptor, twenty times as large as the shortest of them.
const hurray::fuzz::MemoryLimit hurray::fuzz::kMemoryLimit = {4096, 64, 128};

void hurray::fuzz::run_input(std::span<const std::uint8_t> input) {
    const auto views = descriptors(input);
    if (views.empty()) {
        return;
    }
    auto set = CompositeSet::start(views[0]);
    if (!set) {
        HURRAY_CHECK(!hurray::describe(set.error()).empty());
        return;
    }
    std::vector<DescriptorView> members;
    bool nested = false;
    for (const DescriptorView& view : std::span(views).subspan(1)) {
        const std::uint64_t before = set->member_count();
        const auto end_before = set->finish();
        const auto added = set->add(view);
        HURRAY_CHECK(set->member_count() == before + (added ? 1 : 0));
        if (added) {
            members.push_back(view);
            nested = nested || view.layout.tag == hurray::LayoutTag::CompositeHead;
            continue;
        }
        HURRAY_CHECK(!hurray::describe(added.error()).empty());
        const auto end_after = set->finish();
        HURRAY_CHECK(end_before.has_value() == end_after.has_value());
        HURRAY_CHECK(end_before || end_before.error().fault == end_after.error().fault);
    }
    const auto* head = views[0].layout.as<hurray::CompositeHeadLayout>();
    const auto end = set->finish();
    HURRAY_CHECK(end || !hurray::describe(end.error()).empty());
    if (head->rule == hurray::CompositionRule::Partition && !nested && head->member_count == members.size()) {
        check_first_overlap(members, end);
    }
}
