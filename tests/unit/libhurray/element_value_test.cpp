#include "libhurray/format/element_value.hpp"

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "libhurray/format/element_type.hpp"

namespace hurray {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

ElementFormat format_of(const std::string& name) {
    return element_format(find_element_type(std::string_view(name))->type).value();
}

double value_of(const std::string& name, UInt128 code) { return to_value(format_of(name), code).value().real; }

/// The code as a number of up to 64 bits; nothing if the value has none.
std::optional<std::uint64_t> code_of(const std::string& name, double value) {
    const auto code = to_code(format_of(name), {value});
    return code ? std::optional(static_cast<std::uint64_t>(*code)) : std::nullopt;
}

/// The narrow floats as the format's table of parameters has them, for a computation of its own.
struct NarrowFloat {
    std::string name;
    int exponent_bits;
    int mantissa_bits;
    int bias;
    bool has_infinity;
    bool has_nan;

    [[nodiscard]] int bits() const { return 1 + exponent_bits + mantissa_bits; }
    [[nodiscard]] std::uint64_t sign() const { return std::uint64_t{1} << (bits() - 1); }
    [[nodiscard]] std::uint64_t all_ones() const { return sign() - 1; }

    /// By the formula of the format, with the sign left out.
    [[nodiscard]] double magnitude(std::uint64_t code) const {
        const auto mantissa = static_cast<double>(code & ((std::uint64_t{1} << mantissa_bits) - 1));
        const int exponent = static_cast<int>(code >> mantissa_bits);
        const double fraction = std::ldexp(mantissa, -mantissa_bits);
        if (has_infinity && exponent == (1 << exponent_bits) - 1) {
            return mantissa == 0 ? kInfinity : kNan;
        }
        if (has_nan && !has_infinity && code == all_ones()) {
            return kNan;
        }
        return exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, exponent - bias);
    }
    /// The highest code that is a finite number.
    [[nodiscard]] std::uint64_t highest() const {
        std::uint64_t code = all_ones();
        while (!std::isfinite(magnitude(code))) {
            --code;
        }
        return code;
    }
};

const std::vector<NarrowFloat>& narrow_floats() {
    static const std::vector<NarrowFloat> floats{
        {"float16", 5, 10, 15, true, true},     {"bfloat16", 8, 7, 127, true, true},
        {"float8_e4m3", 4, 3, 7, false, true},  {"float8_e5m2", 5, 2, 15, true, true},
        {"float4_e2m1", 2, 1, 1, false, false}, {"float6_e2m3", 2, 3, 1, false, false},
        {"float6_e3m2", 3, 2, 3, false, false},
    };
    return floats;
}

TEST(ElementValue, EveryCodeOfTheNarrowFloatsHasTheValueOfTheFormula) {
    for (const NarrowFloat& type : narrow_floats()) {
        const ElementFormat format = format_of(type.name);
        for (std::uint64_t code = 0; code < 2 * type.sign(); ++code) {
            const double magnitude = type.magnitude(code & type.all_ones());
            const double value = to_value(format, code).value().real;
            ASSERT_EQ(std::signbit(value), (code & type.sign()) != 0) << type.name << ' ' << code;
            if (std::isnan(magnitude)) {
                ASSERT_TRUE(std::isnan(value)) << type.name << ' ' << code;
            } else {
                ASSERT_EQ(std::fabs(value), magnitude) << type.name << ' ' << code;
            }
        }
    }
}

TEST(ElementValue, EveryCodeOfTheNarrowFloatsComesBackThroughItsValue) {
    for (const NarrowFloat& type : narrow_floats()) {
        const ElementFormat format = format_of(type.name);
        for (std::uint64_t code = 0; code < 2 * type.sign(); ++code) {
            const auto back = to_code(format, to_value(format, code).value());
            ASSERT_TRUE(back) << type.name << ' ' << code;
            ASSERT_EQ(static_cast<std::uint64_t>(*back), code) << type.name;
        }
    }
}

TEST(ElementValue, BetweenTwoCodesTheNearestWinsAndATieGoesToTheEvenOne) {
    for (const NarrowFloat& type : narrow_floats()) {
        const ElementFormat format = format_of(type.name);
        const auto expect = [&](double value, std::uint64_t code) {
            ASSERT_EQ(static_cast<std::uint64_t>(to_code(format, {value}).value()), code) << type.name << ' ' << value;
            ASSERT_EQ(static_cast<std::uint64_t>(to_code(format, {-value}).value()), code | type.sign()) << type.name;
        };
        for (std::uint64_t code = 0; code < type.highest(); ++code) {
            // Exact: a double has more mantissa bits than both.
            const double middle = (type.magnitude(code) + type.magnitude(code + 1)) / 2;
            expect(middle, code % 2 == 0 ? code : code + 1);
            expect(std::nextafter(middle, 0.0), code);
            expect(std::nextafter(middle, kInfinity), code + 1);
        }
    }
}

TEST(ElementValue, PastTheLargestNumberIsInfinityWhereThereIsOneElseTheLargestNumber) {
    for (const NarrowFloat& type : narrow_floats()) {
        const ElementFormat format = format_of(type.name);
        const auto expect = [&](double value, std::uint64_t code) {
            ASSERT_EQ(static_cast<std::uint64_t>(to_code(format, {value}).value()), code) << type.name << ' ' << value;
            ASSERT_EQ(static_cast<std::uint64_t>(to_code(format, {-value}).value()), code | type.sign()) << type.name;
        };
        const std::uint64_t highest = type.highest();
        const double largest = type.magnitude(highest);
        const double step = largest - type.magnitude(highest - 1);
        const std::uint64_t beyond = type.has_infinity ? highest + 1 : highest;
        expect(std::nextafter(largest + step / 2, 0.0), highest);
        expect(largest + step / 2, beyond);  // a tie, and the largest number's code is odd where there is an infinity
        expect(2 * largest, beyond);
        expect(std::numeric_limits<double>::max(), beyond);
        expect(kInfinity, beyond);
    }
}

TEST(ElementValue, NanHasACodeOnlyWhereTheFormatGivesItOne) {
    for (const NarrowFloat& type : narrow_floats()) {
        EXPECT_EQ(to_code(format_of(type.name), {kNan}).has_value(), type.has_nan) << type.name;
    }
    EXPECT_EQ(code_of("float8_e4m3", kNan), 0x7FU);
    EXPECT_EQ(code_of("float8_e4m3", -kNan), 0xFFU);
    EXPECT_EQ(code_of("float8_e5m2", kNan), 0x7EU);
    EXPECT_EQ(code_of("float16", kNan), 0x7E00U);
    for (const char* const name : {"int8", "uint64", "int4", "uint2", "float8_e8m0", "float4_e2m1"}) {
        EXPECT_EQ(code_of(name, kNan), std::nullopt) << name;
    }
}

TEST(ElementValue, NanWhoseMantissaDoesNotFitStaysANan) {
    const double payload_in_the_lowest_bit = std::bit_cast<double>(std::uint64_t{0x7FF0000000000001});
    EXPECT_EQ(code_of("float16", payload_in_the_lowest_bit), 0x7E00U);
    EXPECT_EQ(code_of("float32", payload_in_the_lowest_bit), 0x7FC00000U);
    EXPECT_EQ(code_of("float64", payload_in_the_lowest_bit), 0x7FF0000000000001U);
}

// The numbers that the format's table names.
TEST(ElementValue, EdgesAreThoseOfTheTable) {
    EXPECT_EQ(value_of("float16", 0x7BFF), 65504);
    EXPECT_EQ(value_of("float16", 0x0400), std::ldexp(1.0, -14));
    EXPECT_EQ(value_of("float16", 0x0001), std::ldexp(1.0, -24));
    EXPECT_EQ(value_of("bfloat16", 0x0001), std::ldexp(1.0, -133));
    EXPECT_EQ(value_of("float8_e4m3", 0x7E), 448);
    EXPECT_EQ(value_of("float8_e4m3", 0x08), std::ldexp(1.0, -6));
    EXPECT_EQ(value_of("float8_e4m3", 0x01), std::ldexp(1.0, -9));
    EXPECT_EQ(value_of("float8_e5m2", 0x7B), 57344);
    EXPECT_EQ(value_of("float8_e5m2", 0xFC), -kInfinity);
    EXPECT_EQ(value_of("float8_e8m0", 0xFE), std::ldexp(1.0, 127));
    EXPECT_EQ(value_of("float8_e8m0", 0x01), std::ldexp(1.0, -126));
    EXPECT_EQ(value_of("float6_e2m3", 0x1F), 7.5);
    EXPECT_EQ(value_of("float6_e3m2", 0x1F), 28);
    const std::vector<double> e2m1{0, 0.5, 1, 1.5, 2, 3, 4, 6};
    for (std::size_t code = 0; code < e2m1.size(); ++code) {
        EXPECT_EQ(value_of("float4_e2m1", code), e2m1[code]);
        EXPECT_EQ(value_of("float4_e2m1", code + 8), -e2m1[code]);
    }
    EXPECT_TRUE(std::signbit(value_of("float4_e2m1", 8)));
}

TEST(ElementValue, ScalesArePowersOfTwoAndNeverZero) {
    for (unsigned code = 1; code <= 0xFE; ++code) {
        EXPECT_EQ(value_of("float8_e8m0", code), std::ldexp(1.0, static_cast<int>(code) - 127));
        EXPECT_EQ(code_of("float8_e8m0", std::ldexp(1.0, static_cast<int>(code) - 127)), code);
    }
    EXPECT_TRUE(std::isnan(value_of("float8_e8m0", 0x00)));
    EXPECT_TRUE(std::isnan(value_of("float8_e8m0", 0xFF)));
    EXPECT_EQ(code_of("float8_e8m0", 0.0), 0x01U);
    EXPECT_EQ(code_of("float8_e8m0", -4.0), 0x01U);
    EXPECT_EQ(code_of("float8_e8m0", -kInfinity), 0x01U);
    EXPECT_EQ(code_of("float8_e8m0", kInfinity), 0xFEU);
    EXPECT_EQ(code_of("float8_e8m0", 1.49), 127U);
    EXPECT_EQ(code_of("float8_e8m0", 1.5), 128U);  // a tie between 127 and 128
    EXPECT_EQ(code_of("float8_e8m0", 3.0), 128U);  // a tie between 128 and 129
    EXPECT_EQ(code_of("float8_e8m0", 3.01), 129U);
}

TEST(ElementValue, EveryCodeOfTheNarrowIntegersIsItsNumberAndComesBack) {
    struct NarrowInteger {
        const char* name;
        int bits;
        bool is_signed;
    };
    for (const NarrowInteger type :
         {NarrowInteger{"bool", 1, false}, NarrowInteger{"uint2", 2, false}, NarrowInteger{"int2", 2, true},
          NarrowInteger{"uint4", 4, false}, NarrowInteger{"int4", 4, true}, NarrowInteger{"uint8", 8, false},
          NarrowInteger{"int8", 8, true}, NarrowInteger{"uint16", 16, false}, NarrowInteger{"int16", 16, true}}) {
        const ElementFormat format = format_of(type.name);
        const int count = 1 << type.bits;
        for (int code = 0; code < count; ++code) {
            const int number = type.is_signed && code >= count / 2 ? code - count : code;
            const auto value = to_value(format, static_cast<UInt128>(code)).value();
            ASSERT_EQ(value.real, number) << type.name;
            ASSERT_EQ(static_cast<int>(to_code(format, value).value()), code) << type.name;
        }
    }
}

TEST(ElementValue, IntegersRoundToEvenAndStopAtTheirEnds) {
    EXPECT_EQ(code_of("uint8", 2.5), 2U);
    EXPECT_EQ(code_of("uint8", 3.5), 4U);
    EXPECT_EQ(code_of("uint8", 3.4999), 3U);
    EXPECT_EQ(code_of("uint8", 0.5), 0U);
    EXPECT_EQ(code_of("uint8", 1e-300), 0U);
    EXPECT_EQ(code_of("uint8", 255.5), 255U);
    EXPECT_EQ(code_of("uint8", 300.0), 255U);
    EXPECT_EQ(code_of("uint8", kInfinity), 255U);
    EXPECT_EQ(code_of("uint8", -0.0), 0U);
    EXPECT_EQ(code_of("uint8", -3.0), 0U);
    EXPECT_EQ(code_of("int8", -2.5), 0xFEU);
    EXPECT_EQ(code_of("int8", -128.4), 0x80U);
    EXPECT_EQ(code_of("int8", -1e300), 0x80U);
    EXPECT_EQ(code_of("int8", -kInfinity), 0x80U);
    EXPECT_EQ(code_of("int8", 127.6), 0x7FU);
    EXPECT_EQ(code_of("int4", -9.0), 0x8U);
    EXPECT_EQ(code_of("int4", 8.0), 0x7U);
    EXPECT_EQ(code_of("int2", -1.0), 0x3U);
    EXPECT_EQ(code_of("int64", 0x1p63), 0x7FFFFFFFFFFFFFFFU);
    EXPECT_EQ(code_of("int64", -0x1p63), 0x8000000000000000U);
    EXPECT_EQ(code_of("int64", -0x1p62), 0xC000000000000000U);
    EXPECT_EQ(code_of("uint64", 0x1p64), 0xFFFFFFFFFFFFFFFFU);
    EXPECT_EQ(code_of("uint64", 0x1.fffffffffffffp63), 0xFFFFFFFFFFFFF800U);
    EXPECT_EQ(code_of("bool", 0.0), 0U);
    EXPECT_EQ(code_of("bool", 0.25), 1U);
    EXPECT_EQ(code_of("bool", -3.0), 1U);
    EXPECT_EQ(code_of("bool", kNan), 1U);
}

TEST(ElementValue, WideIntegersRoundToTheNearestDouble) {
    EXPECT_EQ(value_of("uint64", 0xFFFFFFFFFFFFFFFF), 0x1p64);
    EXPECT_EQ(value_of("uint64", 0x20000000000001), 0x1p53);        // a tie, to even
    EXPECT_EQ(value_of("uint64", 0x20000000000003), 0x1p53 + 4.0);  // a tie, to even
    EXPECT_EQ(value_of("int64", 0x8000000000000000), -0x1p63);
    EXPECT_EQ(value_of("int64", 0xFFFFFFFFFFFFFFFF), -1);
    EXPECT_EQ(value_of("int32", 0x80000000), -2147483648.0);
    EXPECT_EQ(value_of("uint32", 0xFFFFFFFF), 4294967295.0);
}

// The processor's own conversions are the second opinion.
TEST(ElementValue, Float32AndFloat64AreThoseOfTheProcessor) {
    std::mt19937_64 random(20);
    const ElementFormat single = format_of("float32");
    const ElementFormat twice = format_of("float64");
    for (int i = 0; i < 200'000; ++i) {
        const std::uint64_t bits = random();
        const auto number = std::bit_cast<double>(bits);
        const auto code = static_cast<std::uint32_t>(bits);
        ASSERT_EQ(static_cast<std::uint64_t>(to_code(twice, {number}).value()), bits);
        if (!std::isnan(std::bit_cast<float>(code))) {
            ASSERT_EQ(to_value(single, code).value().real, double{std::bit_cast<float>(code)});
        }
        // Around the range of float32, its subnormals included.
        const auto near = std::ldexp(1 + static_cast<double>(bits >> 12) * 0x1p-52, static_cast<int>(bits % 290) - 155);
        ASSERT_EQ(static_cast<std::uint32_t>(to_code(single, {near}).value()),
                  std::bit_cast<std::uint32_t>(static_cast<float>(near)))
            << near;
    }
}

UInt128 quad(std::uint64_t high, std::uint64_t low) { return static_cast<UInt128>(high) << 64 | low; }

TEST(ElementValue, Float128RoundsToTheNearestDouble) {
    EXPECT_EQ(value_of("float128", quad(0x3FFF000000000000, 0)), 1);
    EXPECT_EQ(value_of("float128", quad(0xC000800000000000, 0)), -3);
    EXPECT_EQ(value_of("float128", quad(0x3FFF000000000000, 0x0800000000000000)), 1);            // half a unit: even
    EXPECT_EQ(value_of("float128", quad(0x3FFF000000000000, 0x0800000000000001)), 1 + 0x1p-52);  // more than half
    EXPECT_EQ(value_of("float128", quad(0x3FFF000000000000, 0x1800000000000000)), 1 + 0x1p-51);  // half, odd below
    EXPECT_EQ(value_of("float128", quad(0x7FFEFFFFFFFFFFFF, ~std::uint64_t{0})), kInfinity);     // its largest number
    EXPECT_EQ(value_of("float128", quad(0x43FEFFFFFFFFFFFF, 0xF000000000000000)), std::numeric_limits<double>::max());
    EXPECT_EQ(value_of("float128", quad(0x43FEFFFFFFFFFFFF, 0xF7FFFFFFFFFFFFFF)), std::numeric_limits<double>::max());
    EXPECT_EQ(value_of("float128", quad(0x43FEFFFFFFFFFFFF, 0xF800000000000000)), kInfinity);
    EXPECT_EQ(value_of("float128", quad(0, 1)), 0);                           // 2^-16494
    EXPECT_EQ(value_of("float128", quad(0x3BCD000000000000, 0)), 0x1p-1074);  // 16383 - 1074
    EXPECT_EQ(value_of("float128", quad(0x3BCC000000000000, 0)), 0);          // a tie with 0
    EXPECT_EQ(value_of("float128", quad(0x3BCC000000000000, 1)), 0x1p-1074);
    EXPECT_TRUE(std::signbit(value_of("float128", quad(0x8000000000000000, 0))));
    EXPECT_EQ(value_of("float128", quad(0x7FFF000000000000, 0)), kInfinity);
    EXPECT_TRUE(std::isnan(value_of("float128", quad(0x7FFF000000000000, 1))));
}

TEST(ElementValue, EveryDoubleFitsFloat128) {
    EXPECT_EQ(to_code(format_of("float128"), {1.0}), quad(0x3FFF000000000000, 0));
    EXPECT_EQ(to_code(format_of("float128"), {-0x1p-1074}), quad(0xBBCD000000000000, 0));
    EXPECT_EQ(to_code(format_of("float128"), {kInfinity}), quad(0x7FFF000000000000, 0));
    std::mt19937_64 random(21);
    for (int i = 0; i < 100'000; ++i) {
        const auto bits = random();
        const auto code = to_code(format_of("float128"), {std::bit_cast<double>(bits)}).value();
        ASSERT_EQ(std::bit_cast<std::uint64_t>(value_of("float128", code)), bits);
    }
}

TEST(ElementValue, ComplexHasTheRealPartFirst) {
    const UInt128 code = quad(0, 0xBF80000040000000);  // 2 and -1
    EXPECT_EQ(to_value(format_of("complex64"), code), (ElementValue{2, -1}));
    EXPECT_EQ(to_code(format_of("complex64"), {2, -1}), code);
    EXPECT_EQ(to_code(format_of("complex128"), {1, -2}), quad(0xC000000000000000, 0x3FF0000000000000));
    EXPECT_EQ(to_value(format_of("complex128"), quad(0xC000000000000000, 0x3FF0000000000000)), (ElementValue{1, -2}));
}

TEST(ElementValue, ImaginaryPartFitsOnlyComplexTypes) {
    EXPECT_EQ(to_code(format_of("float32"), {1, 1}), std::nullopt);
    EXPECT_EQ(to_code(format_of("int8"), {1, 1}), std::nullopt);
}

ElementFormat private_format(const ExtensionType& type) { return element_format(type).value(); }

TEST(ElementValue, PrivateIntegersOfAnyWidthHaveValues) {
    ExtensionType type;
    type.bit_width = 24;
    type.packing_factor = 1;
    type.is_signed = true;
    EXPECT_EQ(to_value(private_format(type), 0xFFFFFE)->real, -2);
    EXPECT_EQ(to_code(private_format(type), {-1e9}), UInt128{0x800000});
    type.bit_width = 128;
    EXPECT_EQ(to_value(private_format(type), ~UInt128{0})->real, -1);
    EXPECT_EQ(to_code(private_format(type), {-0x1p127}), UInt128{1} << 127);
    EXPECT_EQ(to_code(private_format(type), {0x1p127}), (UInt128{1} << 127) - 1);
    type.is_signed = false;
    EXPECT_EQ(to_code(private_format(type), {0x1p127}), UInt128{1} << 127);
    EXPECT_EQ(to_code(private_format(type), {0x1p128}), ~UInt128{0});
    type.bit_width = 136;
    EXPECT_EQ(to_value(private_format(type), 0), std::nullopt);
}

TEST(ElementValue, PrivateFloatHasValuesWhereItsDescriptorLeavesNoQuestion) {
    ExtensionType type;  // float24: 1, 7, 16
    type.bit_width = 24;
    type.packing_factor = 1;
    type.is_float = true;
    type.sign_bits = 1;
    type.exponent_bits = 7;
    type.mantissa_bits = 16;
    type.exponent_bias = 63;
    EXPECT_EQ(to_value(private_format(type), 0x3F8000)->real, 1.5);
    EXPECT_EQ(to_value(private_format(type), 0x7FFFFF)->real, (2 - 0x1p-16) * 0x1p64);
    EXPECT_EQ(to_code(private_format(type), {kInfinity}), UInt128{0x7FFFFF});
    type.has_nan = true;
    EXPECT_EQ(to_value(private_format(type), 0x3F8000), std::nullopt) << "which code is NaN?";
    type.has_inf = true;
    EXPECT_EQ(to_value(private_format(type), 0x7F0000)->real, kInfinity);
    type.mantissa_bits = 15;
    EXPECT_EQ(to_value(private_format(type), 0), std::nullopt) << "a bit is not accounted for";
}

}  // namespace
}  // namespace hurray
