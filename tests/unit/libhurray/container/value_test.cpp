#include "libhurray/container/value.hpp"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/hex.hpp"

namespace hurray {
namespace {

std::span<const std::uint8_t> bytes_of(std::string_view text) {
    return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

Value string(std::string_view text) {
    Value value;
    value.tag = ValueTag::String;
    value.data = bytes_of(text);
    return value;
}

/// What reading `hex` fails with; "ok" if it does not and takes all of it.
std::string read(const std::string& hex) {
    const auto bytes = test::from_hex(hex);
    PartReader in(bytes, 100, "key-values");
    static_cast<void>(read_value(in));
    if (!in.ok()) {
        return in.take_error().message;
    }
    return in.remaining() == 0 ? "ok" : "bytes are left";
}

TEST(Value, EachKindIsReadWhole) {
    EXPECT_EQ(read("01 03000000 61c3a4"), "ok");
    EXPECT_EQ(read("01 00000000"), "ok");
    EXPECT_EQ(read("02 ffffffffffffffff"), "ok");
    EXPECT_EQ(read("03 0000000000000000"), "ok");
    EXPECT_EQ(read("04 000000000000f07f"), "ok");
    EXPECT_EQ(read("05 00"), "ok");
    EXPECT_EQ(read("06 02000000 ff80"), "ok");
    EXPECT_EQ(read("07 05 03000000 00 01 00"), "ok");
    EXPECT_EQ(read("07 01 00000000"), "ok");
}

TEST(Value, WhatIsNoValueIsRefusedWithItsPlace) {
    EXPECT_EQ(read("05 02"), "key-values, byte 101 of the file: a bool is 2, not 0 or 1");
    EXPECT_EQ(read("01 02000000 c328"), "key-values, byte 105 of the file: a string is not UTF-8");
    EXPECT_EQ(read("00"), "key-values, byte 100 of the file: a value has tag 0, which names no kind of value");
    EXPECT_EQ(read("08"), "key-values, byte 100 of the file: a value has tag 8, which names no kind of value");
    EXPECT_EQ(read("f0"), "key-values, byte 100 of the file: a value has tag 240, which is private");
    EXPECT_EQ(read("ff"), "key-values, byte 100 of the file: a value has tag 255, which names no kind of value");
    EXPECT_EQ(read("07 07 01000000"),
              "key-values, byte 101 of the file: the elements of an array have tag 7, which they can't have");
    EXPECT_EQ(read("07 05 ffffffff 00"),
              "key-values, byte 107 of the file: a value takes 1 bytes, but 0 are left of the key-values");
    EXPECT_EQ(read("06 ffffffff 00"),
              "key-values, byte 105 of the file: a value takes 4294967295 bytes, but 1 are left of the key-values");
    EXPECT_EQ(read("02 00"),
              "key-values, byte 101 of the file: a value takes 8 bytes, but 1 are left of the key-values");
}

TEST(Value, ElementsAreTakenOffAnArrayOneByOne) {
    const auto bytes = test::from_hex("07 01 02000000 01000000 79 00000000");
    PartReader in(bytes, 0, "key-values");
    Value array = read_value(in);
    ASSERT_TRUE(in.ok());
    EXPECT_EQ(array.count, 2U);
    const auto first = take_element(array);
    ASSERT_TRUE(first);
    EXPECT_EQ(first->tag, ValueTag::String);
    EXPECT_EQ(std::string(first->data.begin(), first->data.end()), "y");
    const auto second = take_element(array);
    ASSERT_TRUE(second);
    EXPECT_TRUE(second->data.empty());
    EXPECT_FALSE(take_element(array));
}

TEST(Value, WhatCantBeReadIsNotWritten) {
    const auto refusal = [](const Value& value) {
        const auto checked = check_value(value);
        return checked ? "ok" : checked.error().message;
    };
    EXPECT_EQ(refusal(string("\xC3\xA4")), "ok");
    EXPECT_EQ(refusal(string("a\xC3")), "a string is not UTF-8 from byte 1 on");
    Value value;
    value.tag = static_cast<ValueTag>(0xF0);
    EXPECT_EQ(refusal(value), "a value has tag 240, which names no kind of value");
    value.tag = ValueTag::Array;
    value.element_tag = ValueTag::UInt64;
    EXPECT_EQ(refusal(value), "an array has no elements; files keep none that are empty");
    const std::vector<std::uint8_t> sixteen(16);
    value.data = sixteen;
    value.count = 3;
    EXPECT_EQ(refusal(value), "the bytes of an array of 3 elements are not that many of their kind");
    value.count = 1;
    EXPECT_EQ(refusal(value), "an array of 1 elements has 8 bytes behind them");
    value.count = 2;
    EXPECT_EQ(refusal(value), "ok");
    value.element_tag = ValueTag::Array;
    EXPECT_EQ(refusal(value), "the elements of an array have tag 7; arrays hold strings, numbers, bools or bytes");
}

TEST(Value, AnArrayIsMadeOfElementsOfOneKind) {
    Value number;
    number.tag = ValueTag::Int64;
    const std::vector<Value> mixed{string("a"), number};
    EXPECT_EQ(encode_elements(mixed).error().message, "the elements of an array differ in their tags");
    Value array;
    array.tag = ValueTag::Array;
    EXPECT_EQ(encode_elements(std::vector{array}).error().message, "an array holds no arrays");
    EXPECT_EQ(encode_elements(std::vector{string("\xFF")}).error().message, "a string is not UTF-8 from byte 0 on");
    EXPECT_EQ(encode_elements(std::vector{string("a"), string("")}).value(), test::from_hex("01000000 61 00000000"));
}

}  // namespace
}  // namespace hurray
