#include "libhurray/format/dequantize.hpp"

#include <bit>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "libhurray/format/read_element.hpp"
#include "tests/support/hex.hpp"
#include "tests/support/index_contents.hpp"
#include "tests/support/sample_descriptors.hpp"

namespace hurray {
namespace {

using test::Contents;
using test::from_hex;
using test::U32s;
using test::U64s;
using Bytes = std::vector<std::uint8_t>;

std::uint32_t bits_of(float number) { return std::bit_cast<std::uint32_t>(number); }

U32s bits_of(const std::vector<float>& numbers) {
    U32s bits;
    for (const float number : numbers) {
        bits.push_back(bits_of(number));
    }
    return bits;
}

std::string hex_of(std::uint32_t number) {
    std::string text;
    for (int shift = 0; shift < 32; shift += 8) {
        constexpr const char* kDigits = "0123456789ABCDEF";
        const std::uint32_t byte = number >> shift & 0xFF;
        text += {kDigits[byte >> 4], kDigits[byte & 0xF]};
    }
    return text;
}

/// Quantized, with all of its buffers; buffer 0 has the elements.
struct Quantized : test::SampleTensor {
    Quantized(ElementType type, const U64s& shape, const std::string& section, Contents buffers)
        : SampleTensor(type, shape, table(buffers)), contents(std::move(buffers)), section_(from_hex(section)) {
        view.quantization = section_;
    }

    /// The value, 0 for what is not stored; NaN and a failed test if there is none.
    [[nodiscard]] double at(const U64s& index) const {
        const auto spans = contents.spans();
        const auto value = read_element(view, spans, index);
        if (!value) {
            ADD_FAILURE() << describe(value.error());
            return std::numeric_limits<double>::quiet_NaN();
        }
        return value->value_or(ElementValue{}).real;
    }
    [[nodiscard]] std::string why(const U64s& index) const {
        const auto spans = contents.spans();
        const auto value = read_element(view, spans, index);
        return value ? "" : describe(value.error());
    }
    [[nodiscard]] std::optional<Fault> fault(const U64s& index) const {
        const auto spans = contents.spans();
        const auto value = read_element(view, spans, index);
        return value ? std::nullopt : std::optional(value.error().fault);
    }

    Contents contents;

  private:
    static std::vector<BufferEntry> table(Contents& buffers) {
        std::vector<BufferEntry> entries;
        for (std::size_t i = 0; i < buffers.size(); ++i) {
            entries.push_back(test::cpu_buffer(buffers[i].size()));
        }
        return entries;
    }
    Bytes section_;
};

Contents elements(const Bytes& bytes) { return std::move(Contents().add(bytes)); }

std::string per_tensor(float scale, std::int32_t zero_point) {
    return "01 01 0000" + hex_of(bits_of(scale)) + hex_of(static_cast<std::uint32_t>(zero_point)) + "00000000";
}

constexpr const char* kSymmetricChannel = "02 01 0100 01000000 01000000 FFFFFFFF 03 000000";

// ---- Per tensor ----------------------------------------------------------------------------------------------------

TEST(Dequantize, PerTensorSubtractsAndScales) {
    const Quantized tensor(ElementType::Int8, {3}, per_tensor(0.5F, 10), elements({0x00, 0x7F, 0x80}));
    EXPECT_EQ(tensor.at({0}), -5);
    EXPECT_EQ(tensor.at({1}), 58.5);
    EXPECT_EQ(tensor.at({2}), -69);
}

TEST(Dequantize, PerTensorStoresEveryIntegerOfTheScheme) {
    EXPECT_EQ(Quantized(ElementType::UInt4, {2}, per_tensor(2, 1), elements({0xF3})).at({1}), 28);
    EXPECT_EQ(Quantized(ElementType::Int4, {2}, per_tensor(2, 1), elements({0xF3})).at({1}), -4);
    EXPECT_EQ(Quantized(ElementType::UInt2, {4}, per_tensor(2, 1), elements({0xC0})).at({3}), 4);
    EXPECT_EQ(Quantized(ElementType::Int2, {4}, per_tensor(2, 1), elements({0xC0})).at({3}), -4);
    EXPECT_EQ(Quantized(ElementType::Int16, {1}, per_tensor(1, 0), elements({0xFE, 0xFF})).at({0}), -2);
    EXPECT_EQ(Quantized(ElementType::UInt16, {1}, per_tensor(1, 0), elements({0xFE, 0xFF})).at({0}), 65534);
    EXPECT_EQ(Quantized(ElementType::Float16, {1}, per_tensor(1, 0), elements({0, 0})).fault({0}),
              Fault::InvalidStorageTypeForScheme);
    EXPECT_EQ(Quantized(ElementType::Int64, {1}, per_tensor(1, 0), elements(Bytes(8))).fault({0}),
              Fault::InvalidStorageTypeForScheme);
    EXPECT_EQ(Quantized(ElementType::Bool, {1}, per_tensor(1, 0), elements({0})).fault({0}),
              Fault::InvalidStorageTypeForScheme);
}

TEST(Dequantize, DifferencesOfMoreThan32BitsAreExact) {
    const Quantized lowest(ElementType::Int32, {1}, per_tensor(1, INT32_MAX), elements({0, 0, 0, 0x80}));
    EXPECT_EQ(lowest.at({0}), -4294967296.0);  // -2^32 + 1, in float32
    const Quantized highest(ElementType::UInt32, {1}, "02 01 0000 00000000 01000000 02000000 03 000000",
                            elements({0xFF, 0xFF, 0xFF, 0xFF}).add(U32s{bits_of(1.0F)}).add(U32s{0x80000000}));
    EXPECT_EQ(highest.at({0}), 6442450944.0);  // 2^32 - 1 + 2^31, in float32
}

TEST(Dequantize, AffineIsComputedInFloat32) {
    const Quantized tensor(ElementType::UInt8, {1}, per_tensor(0.1F, 0), elements({3}));
    EXPECT_EQ(tensor.at({0}), double{0.1F * 3.0F});
    EXPECT_NE(tensor.at({0}), double{0.1F} * 3.0);
}

// ---- Per channel ---------------------------------------------------------------------------------------------------

TEST(Dequantize, PerChannelHasAScaleForEachIndexOfItsAxis) {
    const Quantized tensor(ElementType::UInt8, {2, 3}, kSymmetricChannel,
                           elements({1, 2, 3, 4, 5, 6}).add(bits_of(std::vector<float>{1, 10, 100})));
    EXPECT_EQ(tensor.at({0, 0}), 1);
    EXPECT_EQ(tensor.at({0, 1}), 20);
    EXPECT_EQ(tensor.at({1, 2}), 600);
}

TEST(Dequantize, PerChannelZeroPointsHaveTheirBuffer) {
    const std::string section = "02 01 0000 00000000 01000000 02000000 03 000000";
    const Quantized tensor(
        ElementType::UInt8, {2, 2}, section,
        elements({1, 2, 3, 4}).add(bits_of(std::vector<float>{1, 10})).add(U32s{5, static_cast<std::uint32_t>(-5)}));
    EXPECT_EQ(tensor.at({0, 1}), -3);
    EXPECT_EQ(tensor.at({1, 1}), 90);
}

TEST(Dequantize, OneBufferHasAllScalesBeforeAllZeroPoints) {
    const std::string section = "02 01 0000 00000000 01000000 01000000 03 000000";
    U32s parameters = bits_of(std::vector<float>{1, 10});
    parameters.insert(parameters.end(), {7, 9});
    const Quantized tensor(ElementType::UInt8, {2, 1}, section, elements({10, 10}).add(parameters));
    EXPECT_EQ(tensor.at({0, 0}), 3);
    EXPECT_EQ(tensor.at({1, 0}), 10);
}

TEST(Dequantize, SparseValuesHaveTheParametersOfTheirLogicalIndex) {
    Quantized tensor(ElementType::UInt8, {2, 3}, "02 01 0100 01000000 02000000 FFFFFFFF 03 000000",
                     elements({2, 3}).add(U64s{0, 1, 1, 2}).add(bits_of(std::vector<float>{1, 10, 100})));
    tensor.view.layout = {LayoutTag::Coo, CooLayout{2, true}};
    EXPECT_EQ(tensor.at({0, 1}), 20);
    EXPECT_EQ(tensor.at({1, 2}), 300);
    EXPECT_EQ(tensor.at({1, 1}), 0);
}

// ---- Per block -----------------------------------------------------------------------------------------------------

/// Axis 1, blocks of two, float16 scales in buffer 1, zero points in buffer 2.
constexpr const char* kBlocksOfTwo = "03 01 0000 01000000 02000000 01000000 02000000 01 000000";

TEST(Dequantize, PerBlockCountsBlocksAlongItsAxisLineByLine) {
    // [2,3,2]: three rows of two blocks would be one block a row and column; here nb = ceil(3/2) = 2 along the middle axis.
    const std::vector<std::uint16_t> scales{0x3C00, 0x4000, 0x4200, 0x4400, 0x4500, 0x4600, 0x4700, 0x4800};
    const Quantized tensor(ElementType::UInt8, {2, 3, 2}, kBlocksOfTwo,
                           elements({10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10})
                               .add(scales)  // 1 2 3 4 5 6 7 8
                               .add(U32s{0, 1, 2, 3, 4, 5, 6, 7}));
    for (std::uint64_t a = 0; a < 2; ++a) {
        for (std::uint64_t b = 0; b < 3; ++b) {
            for (std::uint64_t c = 0; c < 2; ++c) {
                const std::uint64_t block = (a * 2 + c) * 2 + b / 2;  // line of the other two, then the block in it
                EXPECT_EQ(tensor.at({a, b, c}), static_cast<double>((block + 1) * (10 - block)));
            }
        }
    }
}

TEST(Dequantize, PerBlockScalesMayBeBfloat16) {
    const std::string section = "03 01 0100 00000000 02000000 01000000 FFFFFFFF 02 000000";
    const Quantized tensor(ElementType::Int8, {2}, section,
                           elements({1, 0xFF}).add(std::vector<std::uint16_t>{0x4049}));  // 3.140625
    EXPECT_EQ(tensor.at({0}), 3.140625);
    EXPECT_EQ(tensor.at({1}), -3.140625);
}

TEST(Dequantize, PerBlockInOneBufferHasZeroPointsBehindScalesOfHalfWidth) {
    const std::string section = "03 01 0000 00000000 02000000 01000000 01000000 01 000000";
    // Two blocks: float16 1 and 2, then int32 3 and 4.
    const Quantized tensor(ElementType::UInt8, {4}, section,
                           elements({10, 10, 10, 10}).add(from_hex("003C 0040 03000000 04000000")));
    EXPECT_EQ(tensor.at({1}), 7);
    EXPECT_EQ(tensor.at({2}), 12);
}

TEST(Dequantize, BlockPagedCountsPageSlots) {
    // Pages of two; scales by slot in buffer 3, zero points in buffer 4.
    const std::string section = "03 01 0000 00000000 02000000 03000000 04000000 03 000000";
    Quantized tensor(ElementType::UInt8, {4, 1, 2}, section,
                     elements({0, 1, 2, 3, 4, 5, 6, 7})
                         .add(U32s{1, 0})
                         .add(U32s{0, 1, 2})
                         .add(bits_of(std::vector<float>{1, 10, 100, 1000}))
                         .add(U32s{0, 1, 2, 3}));
    tensor.view.layout = {LayoutTag::BlockPaged, BlockPagedLayout{2, 2, 0, 2, 2, std::nullopt, false}};
    const auto spans = tensor.contents.spans();
    // Sequence 0 has page 1: slots 2 and 3.
    EXPECT_EQ(read_paged_element(tensor.view, spans, {0, 0, 0, 1})->real, 100 * (5 - 2));
    EXPECT_EQ(read_paged_element(tensor.view, spans, {0, 1, 0, 0})->real, 1000 * (6 - 3));
    EXPECT_EQ(read_paged_element(tensor.view, spans, {1, 1, 0, 1})->real, 10 * (3 - 1));
    EXPECT_EQ(tensor.fault({0, 0, 0}), Fault::SequenceNotGiven);
}

TEST(Dequantize, BlockPagedPerChannelGoesByHeadOrComponent) {
    Quantized tensor(ElementType::UInt8, {2, 1, 2}, "02 01 0100 02000000 03000000 FFFFFFFF 03 000000",
                     elements({1, 2, 3, 4}).add(U32s{0}).add(U32s{0, 1}).add(bits_of(std::vector<float>{1, 10})));
    tensor.view.layout = {LayoutTag::BlockPaged, BlockPagedLayout{2, 1, 0, 1, 2, std::nullopt, false}};
    EXPECT_EQ(tensor.at({0, 0, 1}), 20);
    EXPECT_EQ(tensor.at({1, 0, 0}), 3);
}

// ---- NF4 and MXFP --------------------------------------------------------------------------------------------------

TEST(Dequantize, Nf4LooksItsLevelUp) {
    const std::string section = "04 01 0000 00000000 08000000 01000000 00000000";
    const std::vector<double> levels{-1.0,
                                     -0.6961928009986877,
                                     -0.5250730514526367,
                                     -0.39491748809814453,
                                     -0.28444138169288635,
                                     -0.18477343022823334,
                                     -0.09105003625154495,
                                     0.0,
                                     0.07958029955625534,
                                     0.16093020141124725,
                                     0.24611230194568634,
                                     0.33791524171829224,
                                     0.44070982933044434,
                                     0.5626170039176941,
                                     0.7229568362236023,
                                     1.0};
    const Quantized tensor(
        ElementType::UInt4, {16}, section,
        elements({0x10, 0x32, 0x54, 0x76, 0x98, 0xBA, 0xDC, 0xFE}).add(bits_of(std::vector<float>{1, 2})));
    for (std::uint64_t i = 0; i < 16; ++i) {
        EXPECT_EQ(tensor.at({i}), levels[i] * (i < 8 ? 1 : 2)) << i;
    }
}

TEST(Dequantize, MxfpScalesByPowersOfTwoWithoutRounding) {
    const std::string section = "05 01 0000 00000000 10000000 01000000 00000000";
    Bytes codes(32, 0x7E);  // 448
    const Quantized wide(ElementType::Float8E4M3, {32}, section, elements(codes).add(Bytes{0xFE, 0x01}));
    EXPECT_EQ(wide.at({0}), 448 * 0x1p127);  // more than float32 holds
    EXPECT_EQ(wide.at({16}), 448 * 0x1p-126);
    const Quantized four(ElementType::Float4E2M1, {16}, section, elements(Bytes(8, 0xF7)).add(Bytes{128}));
    EXPECT_EQ(four.at({0}), 12);
    EXPECT_EQ(four.at({1}), -12);
    const Quantized six(ElementType::Float6E2M3, {16}, section, elements(Bytes(12, 0xFF)).add(Bytes{126}));
    EXPECT_EQ(six.at({15}), -3.75);
    const Quantized integer(ElementType::Int8, {16}, section, elements(Bytes(16, 0x80)).add(Bytes{127}));
    EXPECT_EQ(integer.at({3}), -128);
    const Quantized special(ElementType::Float8E5M2, {16}, section, elements(Bytes(16, 0xFC)).add(Bytes{127}));
    EXPECT_EQ(special.at({3}), -std::numeric_limits<double>::infinity());
}

// ---- What does not go together -------------------------------------------------------------------------------------

TEST(Dequantize, ForbiddenScalesAreRefused) {
    const std::string mxfp = "05 01 0000 00000000 10000000 01000000 00000000";
    const Quantized zero(ElementType::Int8, {16}, mxfp, elements(Bytes(16)).add(Bytes{0x00}));
    EXPECT_EQ(zero.why({0}), "scales[0] is 0x0, which its scheme or layout does not allow (InvalidQuantization)");
    EXPECT_EQ(Quantized(ElementType::Int8, {16}, mxfp, elements(Bytes(16)).add(Bytes{0xFF})).fault({0}),
              Fault::InvalidQuantization);
    const std::string nf4 = "04 01 0000 00000000 08000000 01000000 00000000";
    const auto with = [&](float scale) {
        return Quantized(ElementType::UInt4, {8}, nf4, elements(Bytes(4)).add(U32s{bits_of(scale)})).fault({0});
    };
    EXPECT_EQ(with(0), std::nullopt);
    EXPECT_EQ(with(-1), Fault::InvalidQuantization);
    EXPECT_EQ(with(std::numeric_limits<float>::infinity()), Fault::InvalidQuantization);
    EXPECT_EQ(with(std::numeric_limits<float>::quiet_NaN()), Fault::InvalidQuantization);
    const std::string blocks = "03 01 0100 00000000 02000000 01000000 FFFFFFFF 03 000000";
    EXPECT_EQ(Quantized(ElementType::Int8, {2}, blocks, elements(Bytes(2)).add(U32s{0})).fault({0}),
              Fault::InvalidQuantization);
}

TEST(Dequantize, ParametersThatAreNotThereAreRefused) {
    const Quantized missing(ElementType::UInt8, {2, 3}, kSymmetricChannel, elements(Bytes(6)));
    EXPECT_EQ(missing.why({0, 0}),
              "quantization.scale_buffer_index is 1, but there are 1 buffers (QuantizationBufferIndexOutOfRange)");
    const Quantized few(ElementType::UInt8, {2, 3}, kSymmetricChannel,
                        elements(Bytes(6)).add(bits_of(std::vector<float>{1, 10})));
    EXPECT_EQ(few.at({0, 1}), 0);
    EXPECT_EQ(few.why({0, 2}), "buffers[1] has 8 bytes, its contents take 12 (BufferTooShort)");
}

TEST(Dequantize, SchemeThatDoesNotFitTheTensorIsRefused) {
    const auto scale = [] { return elements(Bytes(64)).add(bits_of(std::vector<float>(64, 1))); };
    EXPECT_EQ(Quantized(ElementType::UInt8, {4}, kSymmetricChannel, scale()).fault({0}),
              Fault::QuantizationAxisOutOfBounds);
    const std::string nf4 = "04 01 0000 00000000 10000000 01000000 00000000";
    EXPECT_EQ(Quantized(ElementType::UInt8, {16}, nf4, scale()).fault({0}), Fault::InvalidStorageTypeForScheme);
    EXPECT_EQ(Quantized(ElementType::UInt4, {15}, nf4, scale()).fault({0}), Fault::QuantizationShapeMismatch);
    EXPECT_EQ(Quantized(ElementType::UInt4, {17}, nf4, scale()).fault({16}), std::nullopt);
    const std::string mxfp = "05 01 0000 00000000 10000000 01000000 00000000";
    EXPECT_EQ(Quantized(ElementType::Int8, {17}, mxfp, scale()).fault({0}), Fault::QuantizationShapeMismatch);
    EXPECT_EQ(Quantized(ElementType::Int8, {17}, "06", scale()).fault({0}), Fault::UnknownQuantizationSchemeTag);
}

TEST(Dequantize, BlocksPastEveryCountOverflowNothing) {
    constexpr std::uint64_t kLarge = std::uint64_t{1} << 40;
    Quantized tensor(ElementType::UInt8, {kLarge, kLarge, 2},
                     "03 01 0100 02000000 02000000 01000000 FFFFFFFF 03 000000",
                     elements({1}).add(bits_of(std::vector<float>{3})));
    EXPECT_EQ(tensor.fault({0, 0, 0}), Fault::ElementsOverflow);
    Quantized strided(ElementType::UInt8, {kLarge, kLarge >> 17, 2},
                      "03 01 0100 02000000 02000000 01000000 FFFFFFFF 03 000000",
                      elements({1}).add(bits_of(std::vector<float>{3})));
    strided.set_strides({0, 0, 0});
    EXPECT_EQ(strided.at({0, 0, 1}), 3);
    EXPECT_EQ(strided.fault({kLarge - 1, (kLarge >> 17) - 1, 1}), Fault::BufferTooShort);
}

// ---- Tensors that are not quantized --------------------------------------------------------------------------------

TEST(ReadElement, PlainTensorsGiveTheirValue) {
    test::SampleTensor tensor(ElementType::Complex64, {2}, {test::cpu_buffer(16)});
    const auto bytes = from_hex("0000803F 00000040 00004040 00008040");
    const std::vector<std::span<const std::uint8_t>> spans{bytes};
    const U64s second{1};
    EXPECT_EQ(read_element(tensor.view, spans, second).value(), (ElementValue{3, 4}));
}

TEST(ReadElement, LastByteHasToBeInTheBuffer) {
    test::SampleTensor tensor(ElementType::Float32, {2}, {test::cpu_buffer(7)});
    const Bytes bytes(7);
    const std::vector<std::span<const std::uint8_t>> spans{bytes};
    const U64s second{1};
    EXPECT_EQ(read_element(tensor.view, spans, second).error().fault, Fault::BufferTooShort);
}

TEST(ReadElement, PrivateTypeWithoutKnownValuesIsRefused) {
    test::SampleTensor tensor(static_cast<ElementType>(0xF0), {2}, {test::cpu_buffer(64)});
    tensor.view.extension_type = ExtensionType{};
    tensor.view.extension_type->bit_width = 256;
    const Bytes bytes(64);
    const std::vector<std::span<const std::uint8_t>> spans{bytes};
    const U64s second{1};
    EXPECT_EQ(read_element(tensor.view, spans, second).error().fault, Fault::NoElementValue);
    tensor.view.extension_type->bit_width = 24;
    EXPECT_EQ(read_element(tensor.view, spans, second).value(), ElementValue{0});
}

}  // namespace
}  // namespace hurray
