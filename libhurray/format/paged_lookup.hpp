#pragma once

#include <cstdint>
#include <span>

#include "libhurray/base/int128.hpp"
#include "libhurray/format/descriptor_error.hpp"
#include "libhurray/format/descriptor_view.hpp"
#include "libhurray/format/sparse_lookup.hpp"

namespace hurray {

/// An element of a block-paged tensor, whose pages belong to sequences.
struct PagedIndex {
    std::uint64_t sequence = 0;
    std::uint64_t token = 0;  // of the sequence, not of the tensor
    std::uint64_t head = 0;
    std::uint64_t component = 0;
};

/// Where it is in the page pool.
struct PagedPosition {
    std::uint64_t slot = 0;  // page * page_size + place in the page: what quantization by page slot counts
    Int128 offset = 0;       // in elements; up to kMaxElementOffset
};

/// Looks the page of an element up in the block table (buffer 1) by way of the sequence pointers (buffer 2).
///
/// Fails: InvalidLayout         the layout doesn't fit the rank, or has page_size 0; sequence pointers that decrease or
///                              don't begin at 0; a page number past the pool
///        DynamicDimInIndexing, IndexOutOfRange  by head, component, sequence, token; a token past the sequence's pages
///        BufferCountMismatch, BufferTooShort
///        AddressOverflow
[[nodiscard]] DescriptorResult<PagedPosition> find_paged_position(const DescriptorView& view, BufferBytes buffers,
                                                                  const PagedIndex& index) noexcept;

/// A logical index [token, head, component] of a block-paged tensor as one by sequence. The descriptor doesn't say how
/// many tokens a sequence has, so that only the token of a single sequence is known.
///
/// Fails: SequenceNotGiven  there are several sequences, or none
[[nodiscard]] DescriptorResult<PagedIndex> paged_index(const DescriptorView& view,
                                                       std::span<const std::uint64_t> index) noexcept;

}  // namespace hurray
