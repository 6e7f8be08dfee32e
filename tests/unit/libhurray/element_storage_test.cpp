#include "libhurray/format/element_storage.hpp"

#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "libhurray/format/element_address.hpp"
#include "tests/support/hex.hpp"

namespace hurray {
namespace {

using test::from_hex;

constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();

/// Stores `codes` one after the other, as elements 0, 1, 2, ...
std::vector<std::uint8_t> packed(std::uint32_t bits, const std::vector<std::uint64_t>& codes) {
    const ElementStorage storage = element_storage(bits).value();
    std::vector<std::uint8_t> bytes(storage.size_of(codes.size()).value());
    for (std::size_t i = 0; i < codes.size(); ++i) {
        const auto at = locate_element(storage, 0, static_cast<Int128>(i), 0, bytes.size()).value();
        store_element(storage, std::span(bytes).subspan(at.byte), at.bit, codes[i]);
    }
    return bytes;
}

std::vector<std::uint64_t> unpacked(std::uint32_t bits, const std::vector<std::uint8_t>& bytes, std::size_t count) {
    const ElementStorage storage = element_storage(bits).value();
    std::vector<std::uint64_t> codes;
    for (std::size_t i = 0; i < count; ++i) {
        const auto at = locate_element(storage, 0, static_cast<Int128>(i), 0, bytes.size()).value();
        codes.push_back(static_cast<std::uint64_t>(load_element(storage, std::span(bytes).subspan(at.byte), at.bit)));
    }
    return codes;
}

// The packing examples of the written format.
TEST(ElementStorage, ExamplesOfTheFormatPackAndUnpack) {
    EXPECT_EQ(packed(1, {0, 1, 1, 0, 0, 0, 0, 1, 1}), from_hex("86 01"));
    EXPECT_EQ(packed(2, {2, 0, 3, 1, 1}), from_hex("72 01"));
    EXPECT_EQ(packed(4, {0xD, 7, 8}), from_hex("7D 08"));  // -3, 7, -8
    EXPECT_EQ(packed(6, {0x3F, 0x01, 0x2A, 0x15}), from_hex("7F A0 56"));
    EXPECT_EQ(packed(6, {0x11}), from_hex("11 00 00"));
    EXPECT_EQ(unpacked(1, from_hex("86 01"), 9), (std::vector<std::uint64_t>{0, 1, 1, 0, 0, 0, 0, 1, 1}));
    EXPECT_EQ(unpacked(2, from_hex("72 01"), 5), (std::vector<std::uint64_t>{2, 0, 3, 1, 1}));
    EXPECT_EQ(unpacked(4, from_hex("7D 08"), 3), (std::vector<std::uint64_t>{0xD, 7, 8}));
    EXPECT_EQ(unpacked(6, from_hex("7F A0 56"), 4), (std::vector<std::uint64_t>{0x3F, 0x01, 0x2A, 0x15}));
}

TEST(ElementStorage, StoringLeavesTheNeighboursAlone) {
    std::mt19937_64 random(1);
    for (const std::uint32_t bits : {1U, 2U, 4U, 6U}) {
        std::vector<std::uint64_t> codes(40);
        for (auto& code : codes) {
            code = random() & ((1U << bits) - 1);
        }
        const ElementStorage storage = element_storage(bits).value();
        auto bytes = packed(bits, codes);
        for (int step = 0; step < 500; ++step) {
            const std::size_t i = random() % codes.size();
            const std::uint64_t code = random();  // more bits than the element has
            const auto at = locate_element(storage, 0, static_cast<Int128>(i), 0, bytes.size()).value();
            store_element(storage, std::span(bytes).subspan(at.byte), at.bit, code);
            codes[i] = code & ((1U << bits) - 1);
            ASSERT_EQ(unpacked(bits, bytes, codes.size()), codes) << bits;
        }
    }
}

TEST(ElementStorage, WholeBytesAreLittleEndian) {
    EXPECT_EQ(packed(32, {0x01020304}), from_hex("04 03 02 01"));
    const auto bytes = from_hex("00 01 02 03 04 05 06 07 08 09 0A 0B 0C 0D 0E 0F");
    EXPECT_EQ(load_element(element_storage(128).value(), bytes, 0),
              static_cast<UInt128>(0x0F0E0D0C0B0A0908) << 64 | 0x0706050403020100);
}

TEST(ElementStorage, WidthsWithoutStorageHaveNone) {
    for (const std::uint32_t bits : {0U, 3U, 5U, 7U, 9U, 12U, 31U, 0xFFFFFFFFU}) {
        EXPECT_FALSE(element_storage(bits)) << bits;
    }
    EXPECT_EQ(element_storage(0xFFFFFFF8)->group_bytes, 0x1FFFFFFFU);
}

TEST(ElementStorage, SizesAreExactUpTo64Bits) {
    EXPECT_EQ(element_storage(1)->size_of(0), 0U);
    EXPECT_EQ(element_storage(1)->size_of(9), 2U);
    EXPECT_EQ(element_storage(6)->size_of(5), 6U);
    EXPECT_EQ(element_storage(1)->size_of(kMax), std::uint64_t{1} << 61);
    EXPECT_EQ(element_storage(6)->size_of(kMax), (std::uint64_t{1} << 62) * 3);
    EXPECT_EQ(element_storage(8)->size_of(kMax), kMax);
    EXPECT_EQ(element_storage(16)->size_of(kMax / 2), kMax - 1);
    EXPECT_EQ(element_storage(16)->size_of(kMax / 2 + 1), std::nullopt);
    EXPECT_EQ(element_storage(0xFFFFFFF8)->size_of(kMax), std::nullopt);
}

}  // namespace
}  // namespace hurray
