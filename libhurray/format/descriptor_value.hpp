#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "libhurray/format/descriptor_error.hpp"
#include "libhurray/format/descriptor_view.hpp"

/// A descriptor as plain values: what is put together field by field, changed, and then encoded.
namespace hurray {

struct StridedValue {
    std::vector<std::int64_t> strides;
};

struct TiledLevelValue {
    std::vector<std::uint64_t> tile_shape;
    LayoutTag outer = LayoutTag::RowMajor;
    LayoutTag inner = LayoutTag::RowMajor;    // Tiled for all levels but the last
    std::vector<std::int64_t> outer_strides;  // only with a strided outer layout
    std::vector<std::int64_t> inner_strides;  // only with a strided inner layout
};

struct TiledValue {
    std::vector<TiledLevelValue> levels;  // the outermost first
};

struct MortonValue {
    std::vector<std::uint32_t> bits;
};

struct CsfValue {
    std::uint64_t nnz = 0;
    std::vector<std::uint32_t> mode_order;
};

struct PrivateValue {
    std::uint64_t id = 0;
    std::vector<std::uint8_t> data;
};

/// A layout tag with its payload; those without arrays are the same as in a view.
struct LayoutValue {
    LayoutTag tag = LayoutTag::RowMajor;
    std::variant<std::monostate, StridedValue, TiledValue, MortonValue, CooLayout, CompressedLayout, CsfValue,
                 BlockPagedLayout, CompositeHeadLayout, HilbertLayout, PrivateValue>
        payload;
};

struct ShardValue {
    std::vector<std::uint64_t> parent_shape;
    std::vector<std::uint64_t> offset;
};

struct DescriptorValue {
    std::uint8_t version_major = 1;
    std::uint8_t version_minor = 0;
    ElementType element_type = ElementType::Float32;
    std::vector<std::uint64_t> shape;
    std::uint64_t byte_offset = 0;
    LayoutValue layout;
    std::vector<BufferEntry> buffers;
    std::optional<std::vector<std::uint8_t>> quantization;  // see encode_quantization()
    std::optional<ShardValue> shard;
    std::optional<Statistics> statistics;
    std::optional<ExtensionType> extension_type;
    std::optional<MemberRole> composite_member;

    /// The value of a decoded descriptor, independent of its bytes.
    [[nodiscard]] static DescriptorValue of(const DescriptorView& view);

    /// The canonical bytes. They decode; whether they make sense is for validate_descriptor().
    ///
    /// Fails: InvalidLayout             an array whose length is not the rank, a payload that is not that of the tag, levels
    ///                                  of tiling that do not follow each other, or more than 255 buffers
    ///        SubpavingNestingTooDeep   more than eight levels of tiling
    ///        DescriptorLengthMismatch  more bytes than a 32-bit length counts
    ///        and as decoding does, for the field concerned
    [[nodiscard]] DescriptorResult<std::vector<std::uint8_t>> encode() const;
};

}  // namespace hurray
