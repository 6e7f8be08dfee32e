#include "libhurray/format/curve.hpp"

#include <cstddef>

namespace hurray {
namespace {

/// Bit b of coordinate d of r to bit b*r + d.
std::uint64_t interleave(std::span<const std::uint64_t> coordinates) {
    std::uint64_t code = 0;
    for (std::size_t d = 0; d < coordinates.size(); ++d) {
        std::size_t position = d;
        for (std::uint64_t rest = coordinates[d]; rest != 0; rest >>= 1) {
            if ((rest & 1) != 0) {
                code |= std::uint64_t{1} << position;
            }
            position += coordinates.size();
        }
    }
    return code;
}

}  // namespace

std::uint64_t morton_code(std::span<const std::uint64_t> coordinates) noexcept { return interleave(coordinates); }

std::uint64_t hilbert_code(std::span<std::uint64_t> x, std::uint32_t order) noexcept {
    const std::uint64_t top = std::uint64_t{1} << (order - 1);
    for (std::uint64_t q = top; q > 1; q >>= 1) {
        const std::uint64_t below = q - 1;
        for (std::uint64_t& coordinate : x) {
            if ((coordinate & q) != 0) {
                x[0] ^= below;
            } else {
                const std::uint64_t exchanged = (x[0] ^ coordinate) & below;
                x[0] ^= exchanged;
                coordinate ^= exchanged;
            }
        }
    }
    for (std::size_t i = 1; i < x.size(); ++i) {
        x[i] ^= x[i - 1];
    }
    std::uint64_t flips = 0;
    for (std::uint64_t q = top; q > 1; q >>= 1) {
        if ((x.back() & q) != 0) {
            flips ^= q - 1;
        }
    }
    // The first coordinate goes to the highest bit of each group, so they are interleaved last to first.
    std::uint64_t code = 0;
    for (std::uint32_t b = order; b-- > 0;) {
        for (const std::uint64_t coordinate : x) {
            code = code << 1 | (((coordinate ^ flips) >> b) & 1);
        }
    }
    return code;
}

}  // namespace hurray
