#include "libhurray/format/sparse_lookup.hpp"

#include <cstddef>

#include "libhurray/base/checked_math.hpp"
#include "libhurray/format/index_array.hpp"
#include "libhurray/format/validate.hpp"

namespace hurray {
namespace {

using Found = DescriptorResult<std::optional<std::uint64_t>>;
using Index = std::span<const std::uint64_t>;

tl::unexpected<DescriptorError> malformed(const char* field, std::uint64_t position, std::uint64_t value) {
    return tl::unexpected(DescriptorError{Fault::InvalidLayout, field, position, value, 0});
}

/// The numbers of buffer `buffer`, of which there have to be `count`.
DescriptorResult<IndexArray> numbers(BufferBytes buffers, std::size_t buffer, std::uint64_t count) {
    if (buffer >= buffers.size()) {
        return tl::unexpected(
            DescriptorError{Fault::BufferCountMismatch, "buffer_count", 0, buffers.size(), buffer + 1});
    }
    const IndexArray array(buffers[buffer], IndexArray::Width::U64);
    if (array.size() < count) {
        const std::uint64_t needed = checked_mul(count, std::uint64_t{8}).value_or(UINT64_MAX);
        return tl::unexpected(
            DescriptorError{Fault::BufferTooShort, "buffers[]", buffer, buffers[buffer].size(), needed});
    }
    return array;
}

/// Positions in an array, the end excluded.
struct Range {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
};

/// Where `wanted` is in that range of strictly increasing coordinates below `limit`. Each number that is looked at has to
/// lie between its neighbours among those looked at before.
Found find_coordinate(const IndexArray& coordinates, const char* field, Range range, std::uint64_t wanted,
                      std::uint64_t limit) {
    std::uint64_t lowest = 0;     // what the numbers from range.begin on can be
    std::uint64_t above = limit;  // and those before range.end are below it
    while (range.begin < range.end) {
        const std::uint64_t middle = range.begin + (range.end - range.begin) / 2;
        const std::uint64_t coordinate = coordinates[middle];
        if (coordinate < lowest || coordinate >= above) {
            return malformed(field, middle, coordinate);
        }
        if (coordinate == wanted) {
            return middle;
        }
        if (coordinate < wanted) {
            range.begin = middle + 1;
            lowest = coordinate + 1;
        } else {
            range.end = middle;
            above = coordinate;
        }
    }
    return std::nullopt;
}

/// The children of node `parent`: what lies between its pointer and the next one. There are `parents` nodes, and so one
/// pointer more; they begin at 0 and end at `last`.
DescriptorResult<Range> children(const IndexArray& pointers, const char* field, std::uint64_t parent,
                                 std::uint64_t parents, std::uint64_t last) {
    if (const std::uint64_t first = pointers[0]; first != 0) {
        return malformed(field, 0, first);
    }
    if (const std::uint64_t end = pointers[parents]; end != last) {
        return malformed(field, parents, end);
    }
    const Range range{pointers[parent], pointers[parent + 1]};
    if (range.begin > range.end || range.end > last) {
        return malformed(field, parent + 1, range.end);
    }
    return range;
}

/// The coordinates of COO's entries, one tuple after the other.
class CooEntries {
  public:
    CooEntries(const IndexArray& coordinates, const Shape& shape) noexcept : coordinates_(coordinates), shape_(shape) {}

    /// Entry `entry` against `index`, dimension 0 first: -1 before it, 0 equal, 1 after it.
    [[nodiscard]] DescriptorResult<int> compare(std::uint64_t entry, Index index) const {
        int order = 0;
        for (std::size_t k = 0; k < index.size(); ++k) {
            const std::uint64_t position = entry * index.size() + k;
            const std::uint64_t coordinate = coordinates_[position];
            if (coordinate >= shape_[k]) {
                return malformed("coordinates[]", position, coordinate);
            }
            if (order == 0 && coordinate != index[k]) {
                order = coordinate < index[k] ? -1 : 1;
            }
        }
        return order;
    }

  private:
    const IndexArray& coordinates_;
    const Shape& shape_;
};

Found scan(const CooEntries& entries, std::uint64_t count, Index index) {
    for (std::uint64_t entry = 0; entry < count; ++entry) {
        const auto order = entries.compare(entry, index);
        if (!order) {
            return tl::unexpected(order.error());
        }
        if (*order == 0) {
            return entry;
        }
    }
    return std::nullopt;
}

Found bisect(const CooEntries& entries, std::uint64_t count, Index index) {
    Range range{0, count};
    while (range.begin < range.end) {
        const std::uint64_t middle = range.begin + (range.end - range.begin) / 2;
        const auto order = entries.compare(middle, index);
        if (!order) {
            return tl::unexpected(order.error());
        }
        if (*order == 0) {
            return middle;
        }
        (*order < 0 ? range.begin : range.end) = *order < 0 ? middle + 1 : middle;
    }
    return std::nullopt;
}

Found find_in_coo(const CooLayout& layout, const Shape& shape, BufferBytes buffers, Index index) {
    const auto count = checked_mul(layout.nnz, static_cast<std::uint64_t>(index.size()));
    const auto coordinates = numbers(buffers, 1, count.value_or(UINT64_MAX));
    if (!coordinates) {
        return tl::unexpected(coordinates.error());
    }
    const CooEntries entries(*coordinates, shape);
    return layout.is_sorted ? bisect(entries, layout.nnz, index) : scan(entries, layout.nnz, index);
}

/// CSR with the row as major and the column as minor dimension, CSC the other way round.
Found find_in_compressed(const CompressedLayout& layout, const Shape& shape, std::size_t major, BufferBytes buffers,
                         Index index) {
    const std::size_t minor = 1 - major;
    const auto coordinates = numbers(buffers, 1, layout.nnz);
    if (!coordinates) {
        return tl::unexpected(coordinates.error());
    }
    const auto pointers = numbers(buffers, 2, shape[major] + 1);  // the size is not dynamic: fits
    if (!pointers) {
        return tl::unexpected(pointers.error());
    }
    const auto line = children(*pointers, "pointers[]", index[major], shape[major], layout.nnz);
    if (!line) {
        return tl::unexpected(line.error());
    }
    return find_coordinate(*coordinates, "coordinates[]", *line, index[minor], shape[minor]);
}

/// Down the tree, a level a dimension. The last pointer of a level says how many nodes it has.
Found find_in_csf(const CsfLayout& layout, const Shape& shape, BufferBytes buffers, Index index) {
    std::uint64_t node = 0;
    std::uint64_t nodes = 1;
    for (std::size_t level = 0; level < index.size(); ++level) {
        const auto pointer_count = checked_add(nodes, std::uint64_t{1});
        const auto pointers = numbers(buffers, 2 * level + 1, pointer_count.value_or(UINT64_MAX));
        if (!pointers) {
            return tl::unexpected(pointers.error());
        }
        const std::uint64_t below = (*pointers)[nodes];
        if (level + 1 == index.size() && below != layout.nnz) {
            return malformed("pointers[]", nodes, below);
        }
        const auto coordinates = numbers(buffers, 2 * level + 2, below);
        if (!coordinates) {
            return tl::unexpected(coordinates.error());
        }
        const auto range = children(*pointers, "pointers[]", node, nodes, below);
        if (!range) {
            return tl::unexpected(range.error());
        }
        const std::size_t dimension = layout.mode_order[level];
        const auto found = find_coordinate(*coordinates, "coordinates[]", *range, index[dimension], shape[dimension]);
        if (!found || !*found) {
            return found;
        }
        node = **found;
        nodes = below;
    }
    return node;
}

}  // namespace

Found find_stored_value(const DescriptorView& view, BufferBytes buffers, Index index) noexcept {
    if (const auto fits = check_layout_against_shape(view); !fits) {
        return tl::unexpected(fits.error());
    }
    const Layout& layout = view.layout;
    if (const auto* coo = layout.as<CooLayout>()) {
        return find_in_coo(*coo, view.shape, buffers, index);
    }
    if (const auto* compressed = layout.as<CompressedLayout>()) {
        return find_in_compressed(*compressed, view.shape, layout.tag == LayoutTag::Csr ? 0 : 1, buffers, index);
    }
    if (const auto* csf = layout.as<CsfLayout>()) {
        return find_in_csf(*csf, view.shape, buffers, index);
    }
    return tl::unexpected(
        DescriptorError{Fault::InvalidLayout, "layout_tag", 0, static_cast<std::uint64_t>(layout.tag), 0});
}

}  // namespace hurray
