#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <variant>

#include <hurray/types.hpp>

#include "libhurray/format/byte_reader.hpp"
#include "libhurray/format/byte_writer.hpp"
#include "libhurray/format/little_endian.hpp"

/// The layouts and what a descriptor says about each. All of it is a loan of the encoded bytes.
namespace hurray {

struct StridedLayout {
    PackedArray<std::int64_t> strides;  // in elements; any value, negative and zero included
};

/// One level of tiling. `outer` arranges the tiles, `inner` the elements in a tile.
struct TiledLevel {
    PackedArray<std::uint64_t> tile_shape;
    LayoutTag outer = LayoutTag::RowMajor;    // RowMajor, ColumnMajor or Strided
    LayoutTag inner = LayoutTag::RowMajor;    // those, or Tiled: the next level
    PackedArray<std::int64_t> outer_strides;  // in tiles; empty unless outer is Strided
    PackedArray<std::int64_t> inner_strides;  // in elements; empty unless inner is Strided
};

struct TiledLayout {
    static constexpr std::size_t kMaxLevels = 8;

    std::span<const std::uint8_t> payload;
    std::size_t rank = 0;
    std::size_t level_count = 0;

    /// `number` is below level_count; 0 is the outermost.
    [[nodiscard]] TiledLevel level(std::size_t number) const noexcept;
};

struct MortonLayout {
    PackedArray<std::uint32_t> bits;
};

struct CooLayout {
    std::uint64_t nnz = 0;
    bool is_sorted = false;
};

/// CSR and CSC.
struct CompressedLayout {
    std::uint64_t nnz = 0;
};

struct CsfLayout {
    std::uint64_t nnz = 0;
    PackedArray<std::uint32_t> mode_order;  // a permutation of the dimensions
};

struct BlockPagedLayout {
    std::uint32_t page_size = 0;
    std::uint64_t num_pages = 0;
    std::uint32_t paged_axis = 0;
    std::uint32_t num_seqs = 0;
    std::uint8_t kv_role = 0;                  // 0 key, 1 value, 2 fused or generic
    std::optional<std::uint32_t> layer_index;  // none: not tied to a layer
    bool wide_index = false;                   // page numbers and pointers are u64, not u32
};

enum class CompositionRule : std::uint8_t { Partition = 1, Overlay = 2, Group = 3 };

struct CompositeHeadLayout {
    CompositionRule rule = CompositionRule::Partition;
    std::uint8_t combine_op = 0;  // overlay: 1 replace, 2 add; otherwise 0
    std::uint32_t member_count = 0;
};

struct HilbertLayout {
    std::uint32_t order = 0;
    std::uint32_t rank = 0;
};

struct PrivateLayout {
    std::uint64_t id = 0;
    std::span<const std::uint8_t> data;
};

/// A layout tag with its payload. The alternative fits the tag; row-major and column-major have nothing to say.
struct Layout {
    LayoutTag tag = LayoutTag::RowMajor;
    std::variant<std::monostate, StridedLayout, TiledLayout, MortonLayout, CooLayout, CompressedLayout, CsfLayout,
                 BlockPagedLayout, CompositeHeadLayout, HilbertLayout, PrivateLayout>
        payload;

    /// Null unless the payload is a `T`.
    template <class T>
    [[nodiscard]] const T* as() const noexcept {
        return std::get_if<T>(&payload);
    }
};

/// How many elements a sparse layout stores; nothing for the others.
[[nodiscard]] std::optional<std::uint64_t> stored_count(const Layout& layout) noexcept;

/// Reads the payload that `tag` asks for, for a tensor of `rank` dimensions (up to kMaxRank). Judges the tag as well:
/// the format does that only here.
[[nodiscard]] Layout read_layout(ByteReader& in, std::uint8_t tag, std::size_t rank) noexcept;

/// Writes the payload; the tag is in the fixed header.
void write_layout(ByteWriter& out, const Layout& layout) noexcept;

}  // namespace hurray
