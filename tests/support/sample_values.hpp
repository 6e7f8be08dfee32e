#pragma once

#include <cstdint>
#include <vector>

#include "libhurray/format/descriptor_value.hpp"
#include "libhurray/format/quantization.hpp"
#include "tests/support/sample_descriptors.hpp"

/// One descriptor of each layout that passes validate_descriptor(), its buffers exactly as large as they have to be.
namespace hurray::test {

inline DescriptorValue value_of(ElementType type, std::vector<std::uint64_t> shape, LayoutValue layout,
                                const std::vector<std::uint64_t>& buffer_sizes) {
    DescriptorValue value;
    value.element_type = type;
    value.shape = std::move(shape);
    value.layout = std::move(layout);
    for (const std::uint64_t size : buffer_sizes) {
        value.buffers.push_back(cpu_buffer(size));
    }
    return value;
}

inline DescriptorValue row_major_value() { return value_of(ElementType::Float32, {3, 4}, {}, {48}); }

inline DescriptorValue strided_value() {
    return value_of(ElementType::Float32, {3, 4}, {LayoutTag::Strided, StridedValue{{4, 1}}}, {48});
}

/// The first example of tiling in the written format: 36 elements for 5 x 6.
inline DescriptorValue tiled_value() {
    const TiledLevelValue level{{2, 3}, LayoutTag::RowMajor, LayoutTag::ColumnMajor, {}, {}};
    return value_of(ElementType::Float32, {5, 6}, {LayoutTag::Tiled, TiledValue{{level}}}, {144});
}

/// The second one: tiles of 4 x 4 made of tiles of 2 x 2.
inline DescriptorValue nested_tiles_value() {
    const TiledLevelValue outer{{4, 4}, LayoutTag::RowMajor, LayoutTag::Tiled, {}, {}};
    const TiledLevelValue inner{{2, 2}, LayoutTag::ColumnMajor, LayoutTag::RowMajor, {}, {}};
    return value_of(ElementType::Float32, {8, 8}, {LayoutTag::Tiled, TiledValue{{outer, inner}}}, {256});
}

inline DescriptorValue morton_value() {
    return value_of(ElementType::UInt8, {4, 3}, {LayoutTag::Morton, MortonValue{{2, 2}}}, {16});
}

inline DescriptorValue hilbert_value() {
    return value_of(ElementType::Int16, {4, 4, 4}, {LayoutTag::Hilbert, HilbertLayout{2, 3}}, {128});
}

inline DescriptorValue coo_value() {
    return value_of(ElementType::Float32, {3, 4}, {LayoutTag::Coo, CooLayout{2, true}}, {8, 32});
}

inline DescriptorValue csr_value() {
    return value_of(ElementType::Float32, {3, 4}, {LayoutTag::Csr, CompressedLayout{3}}, {12, 24, 32});
}

inline DescriptorValue csc_value() {
    return value_of(ElementType::Float32, {3, 4}, {LayoutTag::Csc, CompressedLayout{3}}, {12, 24, 40});
}

/// The example of the written format: three leaves, and two, then three nodes above them.
inline DescriptorValue csf_value() {
    return value_of(ElementType::Float32, {2, 2, 3}, {LayoutTag::Csf, CsfValue{3, {0, 1, 2}}},
                    {12, 16, 16, 24, 24, 32, 24});
}

inline DescriptorValue block_paged_value() {
    BlockPagedLayout pages;
    pages.page_size = 2;
    pages.num_pages = 4;
    pages.num_seqs = 2;
    pages.layer_index = 7;
    return value_of(ElementType::Float16, {5, 2, 4}, {LayoutTag::BlockPaged, pages}, {128, 12, 12});
}

inline DescriptorValue composite_head_value() {
    return value_of(ElementType::Float32, {8, 8},
                    {LayoutTag::CompositeHead, CompositeHeadLayout{CompositionRule::Partition, 0, 2}}, {});
}

inline DescriptorValue private_layout_value() {
    return value_of(ElementType::Float32, {3, 4}, {LayoutTag{0xF3}, PrivateValue{77, {1, 2, 3}}}, {5});
}

/// All that validate_descriptor() can judge to the end.
inline std::vector<DescriptorValue> valid_values() {
    return {row_major_value(), strided_value(), tiled_value(),       nested_tiles_value(),
            morton_value(),    hilbert_value(), coo_value(),         csr_value(),
            csc_value(),       csf_value(),     block_paged_value(), composite_head_value()};
}

inline void quantize(DescriptorValue& value, const Quantization& quantization) {
    const auto encoded = encode_quantization(quantization).value();
    value.quantization.emplace(encoded.bytes().begin(), encoded.bytes().end());
}

/// uint8 [3,4], one scale and zero point for each of the three rows, in buffers of their own.
inline DescriptorValue per_channel_value() {
    auto value = value_of(ElementType::UInt8, {3, 4}, {}, {12, 12, 12});
    Quantization q;
    q.scheme = QuantizationScheme::PerChannel;
    q.axis = 0;
    q.scale_buffer_index = 1;
    q.zero_point_buffer_index = 2;
    q.scale_type_tag = 3;
    quantize(value, q);
    return value;
}

}  // namespace hurray::test
