#include "libhurray/format/descriptor_json.hpp"

#include <bit>
#include <limits>
#include <string>

#include <gtest/gtest.h>

#include "libhurray/format/json_writer.hpp"
#include "tests/support/composite_samples.hpp"

namespace hurray {
namespace {

constexpr const char* kOneBuffer =
    R"("byte_offset":0,"buffers":[{"byte_size":64,"alignment":64,"device":"cpu","sync_mode":"producer-synced",)"
    R"("memory_class":"standard"}]})";

/// float32 [2,3] in one buffer, with another layout.
std::string with_layout(const Layout& layout) {
    test::SampleTensor tensor(ElementType::Float32, {2, 3}, {test::cpu_buffer(64)});
    tensor.view.layout = layout;
    const std::string text = descriptor_to_json(tensor.view);
    const std::string begin = R"({"version":"1.0","element_type":"float32","shape":[2,3],"layout":)";
    EXPECT_EQ(text.substr(0, begin.size()), begin);
    EXPECT_EQ(text.substr(text.size() - std::string(kOneBuffer).size()), kOneBuffer);
    return text.substr(begin.size(), text.size() - begin.size() - std::string(kOneBuffer).size());
}

/// What a change of a scalar without data adds to its text.
template <class Change>
std::string section(Change change) {
    test::SampleTensor tensor(ElementType::Float32, {}, {});
    change(tensor.view);
    const std::string text = descriptor_to_json(tensor.view);
    const std::string before = R"("buffers":[])";
    const auto at = text.find(before);
    EXPECT_NE(at, std::string::npos);
    return text.substr(at + before.size());
}

TEST(DescriptorJson, OrderedLayoutsTellTheStridesThatTheyImply) {
    EXPECT_EQ(with_layout({LayoutTag::RowMajor, {}}), R"("row-major","strides":[3,1],)");
    EXPECT_EQ(with_layout({LayoutTag::ColumnMajor, {}}), R"("column-major","strides":[1,2],)");
    std::vector<std::uint8_t> storage;
    EXPECT_EQ(
        with_layout({LayoutTag::Strided, StridedLayout{test::pack(std::vector<std::int64_t>{-4, INT64_MIN}, storage)}}),
        R"("strided","strides":[-4,-9223372036854775808],)");
}

TEST(DescriptorJson, DynamicSizesAreNullAndSoAreStridesThatNeedThem) {
    test::SampleTensor tensor(ElementType::Float32, {2, kDynamicDim}, {test::cpu_buffer(64)});
    EXPECT_NE(descriptor_to_json(tensor.view).find(R"("shape":[2,null],"layout":"row-major","strides":null,)"),
              std::string::npos);
}

TEST(DescriptorJson, EachLayoutTellsItsFields) {
    std::vector<std::uint8_t> storage;
    EXPECT_EQ(with_layout({LayoutTag::Morton, MortonLayout{test::pack(std::vector<std::uint32_t>{1, 2}, storage)}}),
              R"("morton","layout_fields":{"morton_bits":[1,2]},)");
    EXPECT_EQ(with_layout({LayoutTag::Coo, CooLayout{UINT64_MAX, true}}),
              R"("coo","layout_fields":{"nnz":18446744073709551615,"is_sorted":true},)");
    EXPECT_EQ(with_layout({LayoutTag::Csc, CompressedLayout{7}}), R"("csc","layout_fields":{"nnz":7},)");
    EXPECT_EQ(with_layout({LayoutTag::Csf, CsfLayout{7, test::pack(std::vector<std::uint32_t>{1, 0}, storage)}}),
              R"("csf","layout_fields":{"nnz":7,"mode_order":[1,0]},)");
    EXPECT_EQ(with_layout({LayoutTag::BlockPaged, BlockPagedLayout{2, 4, 0, 3, 1, std::nullopt, true}}),
              R"("block-paged","layout_fields":{"page_size":2,"num_pages":4,"paged_axis":0,"num_seqs":3,)"
              R"("kv_role":"value","layer_index":null,"block_table_index_type":"uint64"},)");
    EXPECT_EQ(with_layout({LayoutTag::CompositeHead, CompositeHeadLayout{CompositionRule::Overlay, 2, 5}}),
              R"("composite","layout_fields":{"composition_rule":"overlay","combine_op":"add","member_count":5},)");
    EXPECT_EQ(with_layout({LayoutTag::Hilbert, HilbertLayout{3, 2}}),
              R"("hilbert","layout_fields":{"hilbert_order":3,"hilbert_rank":2},)");
    const std::vector<std::uint8_t> data{0x0A, 0xFF};
    EXPECT_EQ(with_layout({static_cast<LayoutTag>(0xF1), PrivateLayout{9, data}}),
              R"("private 0xf1","layout_fields":{"extension_layout_id":9,"extension_data":"0aff"},)");
}

TEST(DescriptorJson, TilesTellEachLevel) {
    std::vector<std::uint8_t> payload(2 * 8 + 4 + 2 * 8 + 2 * 8 + 4);
    ByteWriter out{std::span(payload)};
    for (const std::uint64_t size : {4U, 4U}) {
        out.write(size);
    }
    out.write(std::uint8_t{3});
    out.write(std::uint8_t{4});
    out.zeros(2);
    for (const std::int64_t stride : {1, -2}) {
        out.write(stride);
    }
    for (const std::uint64_t size : {2U, 2U}) {
        out.write(size);
    }
    out.write(std::uint8_t{2});
    out.write(std::uint8_t{1});
    out.zeros(2);
    EXPECT_EQ(with_layout({LayoutTag::Tiled, TiledLayout{payload, 2, 2}}),
              R"("tiled","layout_fields":{"levels":[)"
              R"({"tile_shape":[4,4],"outer_layout":"strided","inner_layout":"tiled","outer_strides":[1,-2]},)"
              R"({"tile_shape":[2,2],"outer_layout":"column-major","inner_layout":"row-major"}]},)");
}

TEST(DescriptorJson, QuantizationIsTakenApartOrKeptAsBytes) {
    const std::vector<std::uint8_t> tensor{1, 1, 0, 0, 0, 0, 0, 0x3F, 0xFE, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0};
    EXPECT_EQ(section([&](DescriptorView& view) { view.quantization = tensor; }),
              R"(,"quantization":{"scheme":"per-tensor","scheme_version":1,"scale":0.5,"zero_point":-2}})");
    const std::vector<std::uint8_t> block{3, 1, 1, 0, 1,   0,   0,   0,   128, 0, 0, 0,
                                          1, 0, 0, 0, 255, 255, 255, 255, 1,   0, 0, 0};
    EXPECT_EQ(section([&](DescriptorView& view) { view.quantization = block; }),
              R"(,"quantization":{"scheme":"per-block","scheme_version":1,"symmetric":true,"axis":1,"block_size":128,)"
              R"("scale_buffer_index":1,"zero_point_buffer_index":null,"scale_type":"float16"}})");
    const std::vector<std::uint8_t> nothing{0xF0};
    EXPECT_EQ(section([&](DescriptorView& view) { view.quantization = nothing; }),
              R"(,"quantization":{"error":"quantization.scheme_tag is 0xf0, which is private )"
              R"~((PrivateQuantizationSchemeTag)","bytes":"f0"}})~");
}

TEST(DescriptorJson, TheOtherSectionsTellTheirFields) {
    std::vector<std::uint8_t> parent;
    std::vector<std::uint8_t> offset;
    EXPECT_EQ(section([&](DescriptorView& view) {
                  view.shard = Shard{test::pack(std::vector<std::uint64_t>{8, kDynamicDim}, parent),
                                     test::pack(std::vector<std::uint64_t>{0, 4}, offset)};
                  view.composite_member = MemberRole::Base;
              }),
              R"(,"shard":{"parent_shape":[8,null],"shard_offset":[0,4]},"composite_member":"base"})");
    EXPECT_EQ(section([](DescriptorView& view) {
                  view.extension_type = ExtensionType{24, 1, false, true, 0, 0, 0, 0, false, true};
              }),
              R"(,"extension_type":{"bit_width":24,"packing_factor":1,"is_float":false,"is_signed":true,"sign_bits":0,)"
              R"("exponent_bits":0,"mantissa_bits":0,"exponent_bias":0,"has_nan":false,"has_inf":true}})");
}

TEST(DescriptorJson, StatisticsAreToldIfTheyWereComputed) {
    Statistics s;
    s.nnz = 3;
    s.value_min_bits = std::bit_cast<std::uint64_t>(-std::numeric_limits<double>::infinity());
    s.value_max_bits = std::bit_cast<std::uint64_t>(0.1);
    s.value_abs_max_bits = std::bit_cast<std::uint64_t>(std::numeric_limits<double>::quiet_NaN());
    s.computed_mask = Statistics::kRange;
    EXPECT_EQ(section([&](DescriptorView& view) { view.statistics = s; }),
              R"(,"statistics":{"value_min":"-inf","value_max":0.1,"value_abs_max":"nan"}})");
    s.computed_mask = Statistics::kNnz | Statistics::kSparsityRatio | Statistics::kMoments | Statistics::kNmSparsity |
                      Statistics::kSpecialValues;
    EXPECT_EQ(section([&](DescriptorView& view) { view.statistics = s; }),
              R"(,"statistics":{"nnz":3,"sparsity_ratio":0,"value_mean":0,"value_stddev":0,"nm_n":0,"nm_m":0,)"
              R"("has_nan":false,"has_inf":false}})");
}

TEST(DescriptorJson, NumbersWithoutAWordAreHexadecimal) {
    test::SampleTensor tensor(static_cast<ElementType>(0xF2), {}, {test::cpu_buffer(1)});
    EXPECT_NE(descriptor_to_json(tensor.view).find(R"("element_type":"private 0xf2")"), std::string::npos);
}

TEST(JsonWriter, EscapesWhatJsonWantsEscaped) {
    JsonWriter json;
    json.begin_array().value("a\"\\\n\x01\xC3\xA4").end_array();
    EXPECT_EQ(std::move(json).text(), "[\"a\\\"\\\\\\u000a\\u0001\xC3\xA4\"]");
}

}  // namespace
}  // namespace hurray
