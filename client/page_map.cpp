#include "client/page_map.hpp"

#include <algorithm>
#include <bit>

#include "libhurray/base/check.hpp"

namespace hurray::client {

PageMap::PageMap(std::uint32_t pages) noexcept : pages_(pages) { HURRAY_CHECK(pages > 0 && pages <= kMostPages); }

std::uint32_t PageMap::find(std::uint32_t from, bool taken) const noexcept {
    while (from < pages_) {
        const std::uint64_t word = taken_[from / kBits];
        const std::uint64_t wanted = (taken ? word : ~word) >> (from % kBits);
        if (wanted != 0) {
            return std::min(pages_, from + static_cast<std::uint32_t>(std::countr_zero(wanted)));
        }
        from = (from / kBits + 1) * kBits;
    }
    return pages_;
}

void PageMap::mark(std::uint32_t first, std::uint32_t count, bool taken) noexcept {
    for (std::uint32_t page = first; page < first + count; ++page) {
        const std::uint64_t bit = std::uint64_t{1} << (page % kBits);
        std::uint64_t& word = taken_[page / kBits];
        HURRAY_CHECK(((word & bit) != 0) != taken);
        word ^= bit;
    }
}

std::optional<std::uint32_t> PageMap::take(std::uint32_t count) noexcept {
    if (count > free()) {
        return std::nullopt;
    }
    for (std::uint32_t gap = find(0, false); gap + count <= pages_;) {
        const std::uint32_t end = find(gap, true);
        if (end - gap >= count) {
            mark(gap, count, true);
            live_ += count;
            return gap;
        }
        gap = find(end, false);
    }
    return std::nullopt;
}

void PageMap::give_back(std::uint32_t first, std::uint32_t count) noexcept {
    mark(first, count, false);
    live_ -= count;
}

void PageMap::retire(std::uint32_t count) noexcept {
    live_ -= count;
    retired_ += count;
}

}  // namespace hurray::client
