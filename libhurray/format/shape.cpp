#include "libhurray/format/shape.hpp"

#include "libhurray/base/checked_math.hpp"

namespace hurray {

std::optional<std::size_t> Shape::first_dynamic_dimension() const noexcept {
    for (std::size_t k = 0; k < rank(); ++k) {
        if (dims_[k] == kDynamicDim) {
            return k;
        }
    }
    return std::nullopt;
}

bool Shape::is_empty() const noexcept {
    for (std::size_t k = 0; k < rank(); ++k) {
        if (dims_[k] == 0) {
            return true;
        }
    }
    return false;
}

std::optional<std::uint64_t> Shape::element_count() const noexcept {
    if (first_dynamic_dimension()) {
        return std::nullopt;
    }
    if (is_empty()) {
        return 0;
    }
    std::uint64_t count = 1;
    for (std::size_t k = 0; k < rank(); ++k) {
        const auto product = checked_mul(count, dims_[k]);
        if (!product) {
            return std::nullopt;
        }
        count = *product;
    }
    return count;
}

Shape read_shape(ByteReader& in) noexcept {
    const auto rank = in.read<std::uint32_t>("rank");
    in.check(rank <= kMaxRank, Fault::RankExceedsMaximum, "rank", 0, rank, kMaxRank);
    return Shape(in.array<std::uint64_t>(rank, "shape"));
}

}  // namespace hurray
