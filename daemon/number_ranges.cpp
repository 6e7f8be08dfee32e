#include "daemon/number_ranges.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace hurrayd {

bool NumberRanges::contains(std::uint64_t number) const noexcept {
    auto after = ranges_.upper_bound(number);
    return after != ranges_.begin() && std::prev(after)->second >= number;
}

void NumberRanges::insert(std::uint64_t number) {
    auto after = ranges_.upper_bound(number);
    if (after != ranges_.begin()) {
        const auto before = std::prev(after);
        if (before->second >= number) {
            return;
        }
        if (before->second + 1 == number) {
            before->second = number;
            if (after != ranges_.end() && after->first - 1 == number) {
                before->second = after->second;
                ranges_.erase(after);
            }
            return;
        }
    }
    if (after != ranges_.end() && after->first - 1 == number) {
        const std::uint64_t last = after->second;
        ranges_.erase(after);
        ranges_.emplace(number, last);
        return;
    }
    ranges_.emplace(number, number);
}

void NumberRanges::insert_up_to(std::uint64_t number) {
    auto after = ranges_.upper_bound(number);
    if (after != ranges_.begin()) {
        number = std::max(number, std::prev(after)->second);
    }
    if (after != ranges_.end() && after->first - 1 == number) {
        number = after->second;
        ++after;
    }
    if (after == ranges_.begin()) {
        ranges_.emplace_hint(after, 0, number);
        return;
    }
    // The lowest grows over the others; as a rule it is the only one, and its node stays where it is.
    ranges_.erase(std::next(ranges_.begin()), after);
    if (ranges_.begin()->first != 0) {
        auto lowest = ranges_.extract(ranges_.begin());
        lowest.key() = 0;
        ranges_.insert(ranges_.begin(), std::move(lowest));
    }
    ranges_.begin()->second = number;
}

void NumberRanges::close_lowest_gap() {
    const auto lowest = ranges_.begin();
    const auto next = std::next(lowest);
    lowest->second = next->second;
    ranges_.erase(next);
}

}  // namespace hurrayd
