#include "libhurray/format/paged_lookup.hpp"

#include <cstddef>

#include "libhurray/base/checked_math.hpp"
#include "libhurray/format/element_offset.hpp"
#include "libhurray/format/index_array.hpp"
#include "libhurray/format/validate.hpp"

namespace hurray {
namespace {

tl::unexpected<DescriptorError> refuse(Fault fault, const char* field, std::uint64_t index, std::uint64_t value,
                                       std::uint64_t limit = 0) {
    return tl::unexpected(DescriptorError{fault, field, index, value, limit});
}

DescriptorResult<IndexArray> numbers(BufferBytes buffers, std::size_t buffer, bool wide, std::uint64_t count) {
    if (buffer >= buffers.size()) {
        return refuse(Fault::BufferCountMismatch, "buffer_count", 0, buffers.size(), buffer + 1);
    }
    const auto width = wide ? IndexArray::Width::U64 : IndexArray::Width::U32;
    const IndexArray array(buffers[buffer], width);
    if (array.size() < count) {
        const auto needed = checked_mul(count, static_cast<std::uint64_t>(width));
        return refuse(Fault::BufferTooShort, "buffers[]", buffer, buffers[buffer].size(), needed.value_or(UINT64_MAX));
    }
    return array;
}

DescriptorResult<void> check_component(const Shape& shape, std::size_t dimension, const char* field,
                                       std::uint64_t component) {
    if (shape[dimension] == kDynamicDim) {
        return refuse(Fault::DynamicDimInIndexing, "shape[]", dimension, 0);
    }
    if (component >= shape[dimension]) {
        return refuse(Fault::IndexOutOfRange, field, 0, component, shape[dimension]);
    }
    return {};
}

/// Which entry of the block table is page `number` of `sequence`.
DescriptorResult<std::uint64_t> table_entry(const BlockPagedLayout& layout, const IndexArray& pointers,
                                            const IndexArray& table, std::uint64_t sequence, std::uint64_t number) {
    const std::uint64_t first = pointers[0];
    const std::uint64_t total = pointers[layout.num_seqs];
    const std::uint64_t begin = pointers[sequence];
    const std::uint64_t end = pointers[sequence + 1];
    if (first != 0) {
        return refuse(Fault::InvalidLayout, "seq_ptr[]", 0, first);
    }
    if (total > table.size()) {
        return refuse(Fault::InvalidLayout, "seq_ptr[]", layout.num_seqs, total);
    }
    if (begin > end || end > total) {
        return refuse(Fault::InvalidLayout, "seq_ptr[]", sequence + 1, end);
    }
    if (number >= end - begin) {
        return refuse(Fault::IndexOutOfRange, "index.token / page_size", 0, number, end - begin);
    }
    return begin + number;
}

}  // namespace

DescriptorResult<PagedPosition> find_paged_position(const DescriptorView& view, BufferBytes buffers,
                                                    const PagedIndex& index) noexcept {
    const auto* const layout = view.layout.as<BlockPagedLayout>();
    if (layout == nullptr) {
        return refuse(Fault::InvalidLayout, "layout_tag", 0, static_cast<std::uint64_t>(view.layout.tag));
    }
    if (const auto fits = check_layout_against_shape(view); !fits) {
        return tl::unexpected(fits.error());
    }
    const Shape& shape = view.shape;
    if (const auto head = check_component(shape, 1, "index.head", index.head); !head) {
        return tl::unexpected(head.error());
    }
    if (const auto component = check_component(shape, 2, "index.component", index.component); !component) {
        return tl::unexpected(component.error());
    }
    if (index.sequence >= layout->num_seqs) {
        return refuse(Fault::IndexOutOfRange, "index.sequence", 0, index.sequence, layout->num_seqs);
    }
    const auto pointers = numbers(buffers, 2, layout->wide_index, std::uint64_t{layout->num_seqs} + 1);
    if (!pointers) {
        return tl::unexpected(pointers.error());
    }
    const auto table = numbers(buffers, 1, layout->wide_index, 0);
    if (!table) {
        return tl::unexpected(table.error());
    }
    const auto entry = table_entry(*layout, *pointers, *table, index.sequence, index.token / layout->page_size);
    if (!entry) {
        return tl::unexpected(entry.error());
    }
    const std::uint64_t page = (*table)[*entry];
    if (page >= layout->num_pages) {
        return refuse(Fault::InvalidLayout, "block_table[]", *entry, page);
    }
    const Int128 slot =
        Int128{layout->page_size} * static_cast<Int128>(page) + static_cast<Int128>(index.token % layout->page_size);
    // A slot has at most 96 bits; those that have more than 64 are past every buffer.
    const auto by_head = checked_mul_wide(slot, static_cast<Int128>(shape[1]));
    const auto heads = by_head ? checked_add_wide(*by_head, static_cast<Int128>(index.head)) : std::nullopt;
    const auto by_component = heads ? checked_mul_wide(*heads, static_cast<Int128>(shape[2])) : std::nullopt;
    const auto offset =
        by_component ? checked_add_wide(*by_component, static_cast<Int128>(index.component)) : std::nullopt;
    if (!offset || *offset > kMaxElementOffset || slot > static_cast<Int128>(UINT64_MAX)) {
        return refuse(Fault::AddressOverflow, "index", 0, 0);
    }
    return PagedPosition{static_cast<std::uint64_t>(slot), *offset};
}

DescriptorResult<PagedIndex> paged_index(const DescriptorView& view, std::span<const std::uint64_t> index) noexcept {
    const auto* const layout = view.layout.as<BlockPagedLayout>();
    if (layout == nullptr || index.size() != 3) {
        return refuse(Fault::InvalidLayout, "rank", 0, view.shape.rank());
    }
    if (layout->num_seqs != 1) {
        return refuse(Fault::SequenceNotGiven, "layout.num_seqs", 0, layout->num_seqs);
    }
    return PagedIndex{0, index[0], index[1], index[2]};
}

}  // namespace hurray
