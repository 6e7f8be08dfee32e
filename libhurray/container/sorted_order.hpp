#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <optional>
#include <vector>

namespace hurray {

/// The numbers 0 to `count`-1 in the order of `key(number)`; what has equal keys stays in order.
template <class Key>
[[nodiscard]] std::vector<std::size_t> sorted_order(std::size_t count, Key key) {
    std::vector<std::size_t> order(count);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return key(a) < key(b); });
    return order;
}

/// The number whose key is `wanted`, in such an order.
template <class Key, class Wanted>
[[nodiscard]] std::optional<std::size_t> find_sorted(const std::vector<std::size_t>& order, Key key,
                                                     const Wanted& wanted) {
    const auto at = std::lower_bound(order.begin(), order.end(), wanted,
                                     [&](std::size_t number, const Wanted& w) { return key(number) < w; });
    return at != order.end() && key(*at) == wanted ? std::optional(*at) : std::nullopt;
}

/// The first key that is there twice, by one of its numbers.
template <class Key>
[[nodiscard]] std::optional<std::size_t> find_duplicate(const std::vector<std::size_t>& order, Key key) {
    const auto at =
        std::adjacent_find(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return key(a) == key(b); });
    return at != order.end() ? std::optional(*(at + 1)) : std::nullopt;
}

}  // namespace hurray
