#include "libhurray/format/element_type.hpp"

#include <map>
#include <string>

#include <gtest/gtest.h>

namespace hurray {
namespace {

TEST(ElementType, EveryValueOfTheTagByteIsJudgedAsTheFormatSays) {
    int named = 0;
    for (int tag = 0; tag <= 0xFF; ++tag) {
        const auto byte = static_cast<std::uint8_t>(tag);
        const auto fault = check_element_type_tag(byte);
        if (tag == 0x00 || tag == 0xFF) {
            EXPECT_EQ(fault, Fault::InvalidTypeTag) << tag;
        } else if (tag == 0x47 || (tag >= 0x80 && tag <= 0xEF)) {
            EXPECT_EQ(fault, Fault::ReservedTypeTag) << tag;
        } else if (tag >= 0xF0) {
            EXPECT_EQ(fault, std::nullopt) << tag;
            EXPECT_EQ(find_element_type(static_cast<ElementType>(byte)), nullptr) << tag;
        } else if (find_element_type(static_cast<ElementType>(byte)) != nullptr) {
            EXPECT_EQ(fault, std::nullopt) << tag;
            ++named;
        } else {
            EXPECT_EQ(fault, Fault::UnknownTypeTag) << tag;
        }
    }
    EXPECT_EQ(named, 26);
}

TEST(ElementType, WidthsAreThoseOfTheFormat) {
    const std::map<std::string, std::uint32_t> bits{
        {"float16", 16},     {"bfloat16", 16},   {"float32", 32},    {"float64", 64},    {"int8", 8},
        {"uint8", 8},        {"int16", 16},      {"uint16", 16},     {"int32", 32},      {"uint32", 32},
        {"int64", 64},       {"uint64", 64},     {"bool", 1},        {"float8_e4m3", 8}, {"float8_e5m2", 8},
        {"float8_e8m0", 8},  {"float4_e2m1", 4}, {"float6_e2m3", 6}, {"float6_e3m2", 6}, {"float128", 128},
        {"int4", 4},         {"uint4", 4},       {"int2", 2},        {"uint2", 2},       {"complex64", 64},
        {"complex128", 128},
    };
    for (const auto& [name, width] : bits) {
        const auto* info = find_element_type(std::string_view(name));
        ASSERT_NE(info, nullptr) << name;
        EXPECT_EQ(info->bits, width) << name;
        EXPECT_EQ(find_element_type(info->type), info) << name;
    }
}

TEST(ElementType, NameOfNoTypeFindsNothing) {
    EXPECT_EQ(find_element_type(std::string_view("float")), nullptr);
    EXPECT_EQ(find_element_type(std::string_view("")), nullptr);
}

}  // namespace
}  // namespace hurray
