// What decoding enforces, rule by rule and in its order: of several defects the one is reported that the walk comes to first.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "libhurray/format/descriptor_reader.hpp"
#include "tests/support/plain_descriptor.hpp"

namespace hurray {
namespace {

using test::Bytes;
using test::PlainDescriptor;
using test::put;
using test::put_all;
using test::put_zeros;

std::string fault_of(const Bytes& bytes) {
    const auto view = decode_descriptor(bytes);
    return view ? "" : std::string(fault_name(view.error().fault));
}

std::string fault_of(const PlainDescriptor& plain) { return fault_of(plain.encode()); }

Bytes handle(std::uint64_t byte_size = 48, std::uint32_t alignment = 64, std::uint8_t device = 0, std::uint8_t sync = 0,
             std::uint8_t memory_class = 0, std::uint8_t reserved = 0) {
    Bytes bytes;
    put(bytes, byte_size, alignment, device, sync, memory_class, reserved);
    return bytes;
}

/// float32 with one good buffer.
PlainDescriptor tensor(std::uint8_t layout_tag, std::vector<std::uint64_t> shape, Bytes layout = {}) {
    PlainDescriptor plain;
    plain.shape = std::move(shape);
    plain.layout_tag = layout_tag;
    plain.layout = std::move(layout);
    plain.buffer_count = 1;
    plain.buffers = handle();
    return plain;
}

/// `bytes` with the one at `offset` replaced.
Bytes with(Bytes bytes, std::size_t offset, std::uint8_t value) {
    bytes.at(offset) = value;
    return bytes;
}

template <class... Numbers>
Bytes bytes_of(Numbers... numbers) {
    Bytes bytes;
    put(bytes, numbers...);
    return bytes;
}

// ---- Header --------------------------------------------------------------------------------------------------------

TEST(DecodeRules, EveryTypeTagIsNamedPrivateReservedUnknownOrInvalid) {
    const auto named = [](unsigned tag) {
        return (tag >= 0x01 && tag <= 0x04) || (tag >= 0x10 && tag <= 0x17) || tag == 0x20 ||
               (tag >= 0x40 && tag <= 0x4B && tag != 0x47) || tag == 0x50 || tag == 0x51;
    };
    for (unsigned tag = 0; tag < 256; ++tag) {
        auto plain = tensor(0x01, {3, 4});
        plain.type_tag = static_cast<std::uint8_t>(tag);
        const std::string expected = named(tag)                                    ? ""
                                     : tag == 0x00 || tag == 0xFF                  ? "InvalidTypeTag"
                                     : tag == 0x47 || (tag >= 0x80 && tag <= 0xEF) ? "ReservedTypeTag"
                                     : tag >= 0xF0                                 ? "ExtensionTypeFlagMismatch"
                                                                                   : "UnknownTypeTag";
        EXPECT_EQ(fault_of(plain), expected) << tag;
    }
}

TEST(DecodeRules, EveryLayoutTagWithoutALayoutIsReservedOrInvalid) {
    for (unsigned tag = 0; tag < 256; ++tag) {
        const bool has_layout = (tag >= 0x01 && tag <= 0x0B) || tag == 0x40 || (tag >= 0xF0 && tag <= 0xFE);
        if (!has_layout) {
            EXPECT_EQ(fault_of(tensor(static_cast<std::uint8_t>(tag), {3, 4})),
                      tag == 0x00 || tag == 0xFF ? "InvalidLayoutTag" : "ReservedLayoutTag")
                << tag;
        }
    }
}

// The usual form is read in one sweep, everything else in a walk; both have the limit.
TEST(DecodeRules, RankGoesUpTo64) {
    for (const std::size_t rank : {std::size_t{64}, std::size_t{65}}) {
        const std::string expected = rank == 64 ? "" : "RankExceedsMaximum";
        const std::vector<std::uint64_t> shape(rank, 1);
        EXPECT_EQ(fault_of(tensor(0x01, shape)), expected);
        Bytes bits;
        put_all(bits, std::vector<std::uint32_t>(rank, 1));
        EXPECT_EQ(fault_of(tensor(0x05, shape, bits)), expected);
    }
}

TEST(DecodeRules, EachReservedFlagIsRefusedForEveryMinorVersion) {
    for (const int minor : {0, 1, 255}) {
        for (std::uint32_t bit = 5; bit < 32; ++bit) {
            auto plain = tensor(0x01, {3, 4});
            plain.version_minor = static_cast<std::uint8_t>(minor);
            Bytes bytes = plain.encode();
            bytes[10 + bit / 8] = static_cast<std::uint8_t>(1U << bit % 8);
            EXPECT_EQ(fault_of(bytes), "ReservedDescriptorFlagBitsSet") << bit;
        }
    }
}

TEST(DecodeRules, LaterMinorVersionsMayHaveMoreThanThisOneKnows) {
    auto plain = tensor(0x05, {1}, bytes_of(std::uint32_t{1}));
    Bytes bytes = plain.encode();
    const auto declared = static_cast<std::uint8_t>(bytes.size() + 1);
    EXPECT_EQ(fault_of(with(bytes, 6, declared)), "DescriptorLengthMismatch");
    EXPECT_EQ(fault_of(with(with(bytes, 6, declared), 5, 1)), "");
    bytes.push_back(0xAB);
    EXPECT_EQ(fault_of(bytes), "");  // behind the declared end
    EXPECT_EQ(fault_of(with(bytes, 6, declared)), "DescriptorLengthMismatch");
    EXPECT_EQ(fault_of(with(with(bytes, 6, declared), 5, 1)), "");
    EXPECT_EQ(fault_of(with(with(bytes, 6, declared), 4, 0)), "DescriptorLengthMismatch");  // version 0.0 is like 1.0
}

// ---- Layouts -------------------------------------------------------------------------------------------------------

struct Level {
    std::uint8_t outer = 0x01;
    std::uint8_t inner = 0x01;
    std::uint64_t size = 2;
    std::uint8_t reserved = 0;
};

/// Levels of tiles of one dimension. Strides follow where an order is strided.
Bytes tiles(const std::vector<Level>& levels) {
    Bytes bytes;
    for (const Level& level : levels) {
        put(bytes, level.size, level.outer, level.inner, std::uint8_t{0}, level.reserved);
        for (const std::uint8_t order : {level.outer, level.inner}) {
            if (order == 0x03) {
                put(bytes, std::int64_t{-1});
            }
        }
    }
    return bytes;
}

std::string tiled_fault(const std::vector<Level>& levels) { return fault_of(tensor(0x04, {8}, tiles(levels))); }

TEST(DecodeRules, TilesHaveOrdersAndSizes) {
    for (unsigned order = 0; order < 256; ++order) {
        const auto tag = static_cast<std::uint8_t>(order);
        EXPECT_EQ(tiled_fault({{.outer = tag}}), order >= 1 && order <= 3 ? "" : "InvalidLayout") << order;
        if (order != 0x04) {
            EXPECT_EQ(tiled_fault({{.inner = tag}}), order >= 1 && order <= 3 ? "" : "InvalidLayout") << order;
        }
    }
    EXPECT_EQ(tiled_fault({{.size = 0}}), "InvalidLayout");
    EXPECT_EQ(tiled_fault({{.reserved = 1}}), "ReservedBytesNonZero");
    EXPECT_EQ(tiled_fault({{.size = 0, .reserved = 1}}), "ReservedBytesNonZero");
    EXPECT_EQ(tiled_fault({{.outer = 0x03, .inner = 0x03}}), "");
    EXPECT_EQ(fault_of(tensor(0x04, {}, bytes_of(std::uint32_t{0x0101}))), "InvalidLayout");  // a scalar
}

TEST(DecodeRules, TilesNestEightLevelsDeep) {
    std::vector<Level> levels(7, Level{.inner = 0x04});
    levels.push_back({});
    EXPECT_EQ(tiled_fault(levels), "");
    levels.back().inner = 0x04;  // a ninth, which has no bytes
    EXPECT_EQ(tiled_fault(levels), "SubpavingNestingTooDeep");
}

TEST(DecodeRules, InnerTilesAreJudgedBeforeTheOuterOnes) {
    const Level bad_outer{.outer = 0x09, .inner = 0x04};
    EXPECT_EQ(tiled_fault({bad_outer, {}}), "InvalidLayout");
    EXPECT_EQ(tiled_fault({bad_outer, {.reserved = 1}}), "ReservedBytesNonZero");
    EXPECT_EQ(tiled_fault({{.outer = 0x09, .inner = 0x04, .reserved = 1}, {}}), "ReservedBytesNonZero");
    std::vector<Level> deep(8, bad_outer);
    EXPECT_EQ(tiled_fault(deep), "SubpavingNestingTooDeep");
    Bytes cut = tensor(0x04, {8}, tiles({bad_outer, {}})).encode();
    cut.resize(20 + 8 + 8 + 12 + 11);
    EXPECT_EQ(fault_of(cut), "DescriptorTruncated");
}

TEST(DecodeRules, CurvesHaveBitsAndDimensions) {
    EXPECT_EQ(fault_of(tensor(0x05, {2, 2}, bytes_of(std::uint32_t{1}, std::uint32_t{1}))), "");
    EXPECT_EQ(fault_of(tensor(0x05, {2, 2}, bytes_of(std::uint32_t{1}, std::uint32_t{0}))), "InvalidLayout");
    EXPECT_EQ(fault_of(tensor(0x05, {})), "InvalidLayout");
    EXPECT_EQ(fault_of(tensor(0x40, {2, 2}, bytes_of(std::uint32_t{1}, std::uint32_t{2}))), "");
    EXPECT_EQ(fault_of(tensor(0x40, {2, 2}, bytes_of(std::uint32_t{0}, std::uint32_t{2}))), "InvalidLayout");
    EXPECT_EQ(fault_of(tensor(0x40, {2}, bytes_of(std::uint32_t{1}, std::uint32_t{1}))), "InvalidLayout");
    EXPECT_EQ(fault_of(tensor(0x40, {}, bytes_of(std::uint32_t{1}, std::uint32_t{2}))), "");
}

TEST(DecodeRules, ReservedBytesOfSparseLayoutsAreZero) {
    const auto each = [](std::uint8_t tag, const std::vector<std::uint64_t>& shape, const Bytes& layout,
                         std::size_t reserved) {
        EXPECT_EQ(fault_of(tensor(tag, shape, layout)), "") << int{tag};
        for (std::size_t offset = layout.size() - reserved; offset < layout.size(); ++offset) {
            EXPECT_EQ(fault_of(tensor(tag, shape, with(layout, offset, 1))), "ReservedBytesNonZero")
                << int{tag} << ", " << offset;
        }
    };
    Bytes coo = bytes_of(std::uint64_t{1}, std::uint8_t{2});  // any byte but 0 is true
    put_zeros(coo, 7);
    each(0x06, {3, 4}, coo, 7);
    each(0x07, {3, 4}, bytes_of(std::uint64_t{1}, std::uint64_t{0}), 8);
    each(0x08, {3, 4}, bytes_of(std::uint64_t{1}, std::uint64_t{0}), 8);
    each(0x09, {3}, bytes_of(std::uint64_t{1}, std::uint32_t{0}, std::uint64_t{0}), 8);
}

TEST(DecodeRules, ModeOrderIsAPermutation) {
    const auto csf = [](std::vector<std::uint32_t> order, std::uint64_t reserved = 0) {
        Bytes layout = bytes_of(std::uint64_t{1});
        put_all(layout, order);
        put(layout, reserved);
        return fault_of(tensor(0x09, std::vector<std::uint64_t>(order.size(), 2), layout));
    };
    EXPECT_EQ(csf({2, 0, 1}), "");
    EXPECT_EQ(csf({}), "");
    EXPECT_EQ(csf({0, 1, 1}), "InvalidLayout");
    EXPECT_EQ(csf({0, 1, 3}), "InvalidLayout");
    EXPECT_EQ(csf({0, 0xFFFFFFFF}), "InvalidLayout");
    EXPECT_EQ(csf({0, 0}, 1), "ReservedBytesNonZero");
}

// The layout of a block-paged tensor, in which each field can be set.
struct Pages {
    std::uint32_t page_size = 2;
    std::uint8_t kv_role = 0;
    std::uint8_t index_type = 0;

    [[nodiscard]] Bytes layout() const {
        Bytes bytes = bytes_of(page_size, std::uint64_t{4}, std::uint32_t{0}, std::uint32_t{1}, kv_role,
                               std::uint32_t{7}, index_type);
        put_zeros(bytes, 6);
        return bytes;
    }
};

std::string paged_fault(const Bytes& layout) { return fault_of(tensor(0x0A, {4, 2, 2}, layout)); }

TEST(DecodeRules, BlockPagedFields) {
    for (unsigned byte = 0; byte < 256; ++byte) {
        const auto value = static_cast<std::uint8_t>(byte);
        EXPECT_EQ(paged_fault(Pages{.kv_role = value}.layout()), byte <= 2 ? "" : "InvalidLayout") << byte;
        EXPECT_EQ(paged_fault(Pages{.index_type = value}.layout()), byte <= 1 ? "" : "InvalidLayout") << byte;
    }
    for (std::size_t offset = 26; offset < 32; ++offset) {
        EXPECT_EQ(paged_fault(with(Pages{}.layout(), offset, 1)), "ReservedBytesNonZero") << offset;
    }
    EXPECT_EQ(paged_fault(with(Pages{.index_type = 2}.layout(), 31, 1)), "InvalidLayout");
    Bytes cut = tensor(0x0A, {4, 2, 2}, Pages{.kv_role = 3}.layout()).encode();
    cut.resize(20 + 24 + 8 + 21);  // up to the role
    EXPECT_EQ(fault_of(cut), "InvalidLayout");
    EXPECT_EQ(fault_of(with(cut, cut.size() - 1, 2)), "DescriptorTruncated");
}

PlainDescriptor head(std::uint8_t rule, std::uint8_t op, std::uint32_t members = 2) {
    PlainDescriptor plain;
    plain.shape = {4, 4};
    plain.layout_tag = 0x0B;
    put(plain.layout, rule, op, std::uint16_t{0}, members);
    return plain;
}

TEST(DecodeRules, CompositionRulesAndTheirOperations) {
    for (unsigned rule = 0; rule < 256; ++rule) {
        const std::string expected = rule >= 1 && rule <= 3 ? ""
                                     : rule == 0xFF         ? "InvalidCompositionRule"
                                     : rule >= 0xF0         ? "PrivateCompositionRule"
                                                            : "ReservedCompositionRule";
        const bool overlay = rule == 2;
        EXPECT_EQ(fault_of(head(static_cast<std::uint8_t>(rule), overlay ? 1 : 0)), expected) << rule;
    }
    for (unsigned op = 0; op < 256; ++op) {
        const auto value = static_cast<std::uint8_t>(op);
        EXPECT_EQ(fault_of(head(1, value)), op == 0 ? "" : "InvalidCombineOp") << op;
        EXPECT_EQ(fault_of(head(2, value)), op == 1 || op == 2 ? "" : "InvalidCombineOp") << op;
        EXPECT_EQ(fault_of(head(3, value)), op == 0 ? "" : "InvalidCombineOp") << op;
    }
    EXPECT_EQ(fault_of(head(1, 0, 0)), "");
    EXPECT_EQ(fault_of(head(3, 0, 0xFFFFFFFE)), "");
    EXPECT_EQ(fault_of(head(3, 0, 0xFFFFFFFF)), "OpenCompositeReserved");
    EXPECT_EQ(fault_of(head(1, 9, 0xFFFFFFFF)), "InvalidCombineOp");
    EXPECT_EQ(fault_of(head(0, 9, 0xFFFFFFFF)), "ReservedCompositionRule");
    auto reserved = head(0, 9, 0xFFFFFFFF);
    reserved.layout[3] = 1;
    EXPECT_EQ(fault_of(reserved), "ReservedBytesNonZero");
}

// ---- Buffers -------------------------------------------------------------------------------------------------------

std::string handle_fault(const Bytes& bytes) {
    auto plain = tensor(0x01, {3, 4});
    plain.buffers = bytes;
    return fault_of(plain);
}

TEST(DecodeRules, HandlesAreJudgedFieldByField) {
    for (unsigned byte = 0; byte < 256; ++byte) {
        const auto value = static_cast<std::uint8_t>(byte);
        const auto tag_fault = [byte](unsigned highest, const char* what) {
            const bool good = byte <= highest || (byte >= 0xF0 && byte <= 0xFE);
            return good ? "" : (byte == 0xFF ? "Invalid" : "Reserved") + std::string(what);
        };
        EXPECT_EQ(handle_fault(handle(48, 64, value)), tag_fault(8, "DeviceTag")) << byte;
        EXPECT_EQ(handle_fault(handle(48, 64, 1, 0, value)), tag_fault(3, "MemoryClass")) << byte;
        EXPECT_EQ(handle_fault(handle(48, 64, 1, value)), byte <= 2 ? "" : "InvalidSyncMode") << byte;
    }
    // From the last rule to the first, each with the defects of those before it mended.
    EXPECT_EQ(handle_fault(handle(0, 1, 0, 1)), "InvalidSyncMode");
    EXPECT_EQ(handle_fault(handle(1, 32, 0, 1)), "AlignmentBelowMinimum");
    EXPECT_EQ(handle_fault(handle(1, 33, 0, 1)), "AlignmentNotPowerOfTwo");
    EXPECT_EQ(handle_fault(handle(1, 33, 0, 1, 4)), "ReservedMemoryClass");
    EXPECT_EQ(handle_fault(handle(1, 33, 0, 3, 4)), "InvalidSyncMode");
    EXPECT_EQ(handle_fault(handle(1, 33, 9, 3, 4)), "ReservedDeviceTag");
    EXPECT_EQ(handle_fault(handle(1, 33, 9, 3, 4, 1)), "ReservedBytesNonZero");
    EXPECT_EQ(handle_fault(handle(0, 0)), "AlignmentNotPowerOfTwo");
    EXPECT_EQ(handle_fault(handle(0, 1)), "");
    EXPECT_EQ(handle_fault(handle(1, 0x80000000)), "");
}

TEST(DecodeRules, EachHandleIsFinishedBeforeTheNextIsRead) {
    auto plain = tensor(0x01, {3, 4});
    plain.buffer_count = 2;
    plain.buffers = handle(48, 32);
    EXPECT_EQ(fault_of(plain), "AlignmentBelowMinimum");
    plain.buffers = handle();
    EXPECT_EQ(fault_of(plain), "DescriptorTruncated");
    plain.buffers = handle();
    const Bytes second = handle(48, 64, 9);
    plain.buffers.insert(plain.buffers.end(), second.begin(), second.end());
    EXPECT_EQ(fault_of(plain), "ReservedDeviceTag");
}

// ---- Sections ------------------------------------------------------------------------------------------------------

TEST(DecodeRules, ShardsStayInsideTheirParent) {
    const auto shard = [](std::uint64_t size, std::uint64_t parent, std::uint64_t offset) {
        auto plain = tensor(0x01, {size});
        plain.shard = bytes_of(parent, offset);
        return fault_of(plain);
    };
    EXPECT_EQ(shard(4, 8, 4), "");
    EXPECT_EQ(shard(4, 8, 5), "ShardOutOfBounds");
    EXPECT_EQ(shard(0, 8, 8), "");
    // The sum saturates, and so only an unknown parent holds what reaches the end of 64 bits.
    EXPECT_EQ(shard(UINT64_MAX, UINT64_MAX, 5), "");
    EXPECT_EQ(shard(UINT64_MAX, UINT64_MAX - 1, 5), "ShardOutOfBounds");
    EXPECT_EQ(shard(2, UINT64_MAX - 1, UINT64_MAX - 1), "ShardOutOfBounds");
    auto scalar = tensor(0x01, {});
    scalar.shard = Bytes();
    EXPECT_EQ(fault_of(scalar), "");
}

TEST(DecodeRules, StatisticsHaveSixGroupsAndReservedBytes) {
    const auto fault = [](const Bytes& statistics) {
        auto plain = tensor(0x01, {3, 4});
        plain.statistics = statistics;
        return fault_of(plain);
    };
    Bytes all(72, 0xFF);
    for (const int zero : {1, 2, 3, 4, 5, 6, 7, 68, 69, 70, 71}) {
        all[static_cast<std::size_t>(zero)] = 0;
    }
    all[0] = 0x3F;
    EXPECT_EQ(fault(all), "");
    EXPECT_EQ(fault(with(all, 0, 0x40)), "StatisticsReservedMaskBitsSet");
    EXPECT_EQ(fault(with(all, 3, 0x80)), "StatisticsReservedMaskBitsSet");
    EXPECT_EQ(fault(with(all, 4, 1)), "ReservedBytesNonZero");
    EXPECT_EQ(fault(with(all, 71, 1)), "ReservedBytesNonZero");
    EXPECT_EQ(fault(with(with(all, 71, 1), 0, 0x40)), "StatisticsReservedMaskBitsSet");
    EXPECT_EQ(fault(Bytes(71)), "DescriptorTruncated");
}

std::string extension_fault(const Bytes& section) {
    auto plain = tensor(0x01, {3, 4});
    plain.type_tag = 0xF0;
    plain.extension_type = section;
    return fault_of(plain);
}

TEST(DecodeRules, PrivateTypesArePackedAsTheirWidthSays) {
    const auto section = [](std::uint32_t width, unsigned packing) {
        Bytes bytes = bytes_of(width, static_cast<std::uint8_t>(packing));
        put_zeros(bytes, 15);
        return bytes;
    };
    for (const std::uint32_t width : {0U, 1U, 2U, 3U, 4U, 5U, 6U, 7U, 8U, 9U, 12U, 128U, 0xFFFFFFFFU}) {
        const unsigned needed = width == 1 ? 8 : width == 2 ? 4 : width == 4 ? 2 : width >= 8 ? 1 : 0;
        for (unsigned packing = 0; packing < 256; ++packing) {
            EXPECT_EQ(extension_fault(section(width, packing)),
                      needed != 0 && packing == needed ? "" : "ExtensionTypePackingInvalid")
                << width << ", " << packing;
        }
    }
    for (const std::size_t offset : {10U, 11U, 18U, 19U}) {
        EXPECT_EQ(extension_fault(with(section(8, 1), offset, 1)), "ReservedBytesNonZero") << offset;
        EXPECT_EQ(extension_fault(with(section(8, 2), offset, 1)), "ExtensionTypePackingInvalid") << offset;
    }
}

TEST(DecodeRules, PrivateTypesAndTheirSectionBelongTogether) {
    auto plain = tensor(0x01, {3, 4});
    plain.extension_type = Bytes(20);
    EXPECT_EQ(fault_of(plain), "ExtensionTypeFlagMismatch");
    plain.type_tag = 0xFE;
    plain.extension_type.reset();
    plain.buffer_count = 0;
    EXPECT_EQ(fault_of(plain), "ExtensionTypeFlagMismatch");  // judged before the buffer table
    plain.layout_tag = 0x0C;
    EXPECT_EQ(fault_of(plain), "ReservedLayoutTag");  // and behind the layout
}

TEST(DecodeRules, MembersHaveARole) {
    const auto fault = [](const Bytes& section) {
        auto plain = tensor(0x01, {3, 4});
        plain.composite_member = section;
        return fault_of(plain);
    };
    for (unsigned role = 0; role < 256; ++role) {
        EXPECT_EQ(fault(with(Bytes(16), 0, static_cast<std::uint8_t>(role))), role <= 1 ? "" : "InvalidMemberRole");
    }
    for (std::size_t offset = 1; offset < 16; ++offset) {
        EXPECT_EQ(fault(with(Bytes(16), offset, 1)), "ReservedBytesNonZero") << offset;
    }
    EXPECT_EQ(fault({2}), "InvalidMemberRole");
    EXPECT_EQ(fault({1}), "DescriptorTruncated");
}

TEST(DecodeRules, StatisticsComeBeforeTheExtensionType) {
    auto plain = tensor(0x01, {3, 4});
    plain.type_tag = 0xF0;
    plain.statistics = with(Bytes(72), 0, 0x40);
    plain.extension_type = Bytes(20);
    plain.composite_member = Bytes(16, 9);
    EXPECT_EQ(fault_of(plain), "StatisticsReservedMaskBitsSet");
    plain.statistics = Bytes(72);
    EXPECT_EQ(fault_of(plain), "ExtensionTypePackingInvalid");
    plain.extension_type = with(with(Bytes(20), 0, 8), 4, 1);
    EXPECT_EQ(fault_of(plain), "InvalidMemberRole");
    plain.composite_member = Bytes(16);
    EXPECT_EQ(fault_of(plain), "");
}

// ---- Across sections -----------------------------------------------------------------------------------------------

TEST(DecodeRules, HeadsHaveNoDataAndNoRoleOfTheirOwn) {
    auto plain = head(1, 0);
    plain.buffer_count = 1;
    plain.buffers = handle();
    plain.byte_offset = 8;
    plain.quantization = Bytes();
    plain.composite_member = Bytes(16);
    EXPECT_EQ(fault_of(plain), "CompositeHeadHasBuffers");
    plain.buffer_count = 0;
    plain.buffers.clear();
    EXPECT_EQ(fault_of(plain), "CompositeHeadHasByteOffset");
    plain.byte_offset = 0;
    EXPECT_EQ(fault_of(plain), "CompositeHeadHasQuantization");
    plain.quantization.reset();
    EXPECT_EQ(fault_of(plain), "InvalidLayout");
    plain.composite_member.reset();
    EXPECT_EQ(fault_of(plain), "");
    // These may be there.
    plain.shard = bytes_of(std::uint64_t{4}, std::uint64_t{4}, std::uint64_t{0}, std::uint64_t{0});
    plain.statistics = Bytes(72);
    EXPECT_EQ(fault_of(plain), "");
}

TEST(DecodeRules, BlockPagedAndCsfTensorsAreNoShards) {
    const auto with_shard = [](PlainDescriptor plain) {
        plain.shard = Bytes();
        put_all(*plain.shard, plain.shape);
        put_all(*plain.shard, std::vector<std::uint64_t>(plain.shape.size()));
        return fault_of(plain);
    };
    EXPECT_EQ(with_shard(tensor(0x0A, {4, 2, 2}, Pages{}.layout())), "InvalidLayout");
    EXPECT_EQ(with_shard(tensor(0x09, {3}, bytes_of(std::uint64_t{1}, std::uint32_t{0}, std::uint64_t{0}))),
              "InvalidLayout");
    EXPECT_EQ(with_shard(tensor(0x07, {3, 4}, bytes_of(std::uint64_t{1}, std::uint64_t{0}))), "");
}

TEST(DecodeRules, LengthIsJudgedBeforeWhatConcernsSeveralSections) {
    auto plain = tensor(0x0A, {4, 2, 2}, Pages{}.layout());
    plain.quantization = Bytes();
    Bytes bytes = plain.encode();
    EXPECT_EQ(fault_of(bytes), "QuantizationDescriptorTooShort");
    ++bytes[6];
    EXPECT_EQ(fault_of(bytes), "DescriptorLengthMismatch");
}

/// Of a block-paged tensor, whose quantization decoding looks into.
std::string quantization_fault(const Bytes& section) {
    auto plain = tensor(0x0A, {4, 2, 2}, Pages{}.layout());
    plain.quantization = section;
    return fault_of(plain);
}

// The rules of each scheme from the last to the first, with the defects of all later ones still there.
TEST(DecodeRules, PerTensorQuantization) {
    Bytes section = bytes_of(std::uint32_t{0x0101}, std::uint32_t{0x3F800000}, std::int32_t{-5}, std::uint32_t{0});
    EXPECT_EQ(quantization_fault(section), "");
    EXPECT_EQ(quantization_fault(with(section, 1, 0)), "");  // version 0
    for (const std::uint32_t scale : {0U, 0x80000000U, 0x7F800000U, 0xFF800000U, 0x7FC00000U}) {
        store_little_endian(scale, section.data() + 4);
        EXPECT_EQ(quantization_fault(section), "InvalidQuantization") << scale;
    }
    section[2] = 1;
    EXPECT_EQ(quantization_fault(section), "ReservedQuantizationFlagsBits");
    section.resize(15);
    EXPECT_EQ(quantization_fault(section), "QuantizationDescriptorTooShort");
    section[1] = 2;
    EXPECT_EQ(quantization_fault(section), "UnsupportedSchemeVersion");
    section.resize(3);
    EXPECT_EQ(quantization_fault(section), "QuantizationDescriptorTooShort");
    section[0] = 6;
    EXPECT_EQ(quantization_fault(section), "UnknownQuantizationSchemeTag");
    EXPECT_EQ(quantization_fault({}), "QuantizationDescriptorTooShort");
}

TEST(DecodeRules, SchemeTagsAreKnownUnknownReservedPrivateOrInvalid) {
    for (unsigned tag = 0; tag < 256; ++tag) {
        const std::string expected = tag == 0x00 || tag == 0xFF ? "InvalidQuantizationSchemeTag"
                                     : tag <= 0x05              ? "QuantizationDescriptorTooShort"
                                     : tag < 0x60               ? "UnknownQuantizationSchemeTag"
                                     : tag < 0xF0               ? "ReservedQuantizationSchemeTag"
                                                                : "PrivateQuantizationSchemeTag";
        EXPECT_EQ(quantization_fault({static_cast<std::uint8_t>(tag)}), expected) << tag;
    }
}

TEST(DecodeRules, PerChannelQuantization) {
    const auto fault = [](std::uint16_t flags, std::uint32_t axis, std::uint32_t scales, std::uint32_t zero_points,
                          std::uint32_t type_and_reserved = 3) {
        return quantization_fault(bytes_of(std::uint16_t{0x0102}, flags, axis, scales, zero_points, type_and_reserved));
    };
    constexpr std::uint32_t kNone = 0xFFFFFFFF;
    EXPECT_EQ(fault(0, 1, 3, 4), "");
    EXPECT_EQ(fault(1, 1, 3, kNone), "");
    EXPECT_EQ(fault(0, 0, 3, 4), "InvalidQuantization");  // the paged axis
    EXPECT_EQ(fault(1, 1, 3, 4), "InvalidQuantization");
    EXPECT_EQ(fault(0, 1, 3, kNone), "InvalidQuantization");
    EXPECT_EQ(fault(0, 1, kNone, 4), "InvalidQuantization");
    EXPECT_EQ(fault(0, 1, 3, 4, 2), "InvalidQuantization");
    EXPECT_EQ(fault(0, 1, 3, 4, 0x01000003), "InvalidQuantization");
    EXPECT_EQ(fault(2, 1, 3, 4), "ReservedQuantizationFlagsBits");
}

TEST(DecodeRules, PerBlockQuantization) {
    const auto fault = [](std::uint16_t flags, std::uint32_t axis, std::uint32_t block_size, std::uint32_t zero_points,
                          std::uint32_t type_and_reserved = 3, std::uint32_t scales = 3) {
        return quantization_fault(
            bytes_of(std::uint16_t{0x0103}, flags, axis, block_size, scales, zero_points, type_and_reserved));
    };
    constexpr std::uint32_t kNone = 0xFFFFFFFF;
    EXPECT_EQ(fault(0, 0, 2, 4), "");
    EXPECT_EQ(fault(0, 0, 2, kNone, 3, kNone), "");  // any index, none included
    EXPECT_EQ(fault(1, 0, 2, kNone, 1), "");
    EXPECT_EQ(fault(0, 0, 4, 4), "InvalidQuantization");  // not the page
    EXPECT_EQ(fault(0, 1, 2, 4), "InvalidQuantization");  // not the paged axis
    EXPECT_EQ(fault(1, 0, 2, 4), "InvalidQuantization");
    EXPECT_EQ(fault(0, 0, 2, 4, 0), "InvalidQuantization");
    EXPECT_EQ(fault(0, 0, 2, 4, 4), "InvalidQuantization");
    EXPECT_EQ(fault(0, 0, 2, 4, 0x0103), "InvalidQuantization");
    for (const std::uint32_t size : {0U, 1U, 3U, 6U}) {
        EXPECT_EQ(fault(1, 1, size, 4, 9), "InvalidBlockSize") << size;
    }
}

TEST(DecodeRules, BlocksWithScalesAlone) {
    const auto fault = [](std::uint8_t scheme, std::uint16_t flags, std::uint32_t block_size, std::uint32_t scales) {
        return quantization_fault(bytes_of(scheme, std::uint8_t{1}, flags, std::uint32_t{1}, block_size, scales));
    };
    EXPECT_EQ(fault(4, 0, 4, 3), "InvalidBlockSize");
    EXPECT_EQ(fault(4, 0, 8, 3), "");
    EXPECT_EQ(fault(4, 0, 0x80000000, 3), "");
    EXPECT_EQ(fault(4, 0, 24, 0xFFFFFFFF), "InvalidBlockSize");
    EXPECT_EQ(fault(4, 0, 8, 0xFFFFFFFF), "InvalidQuantization");
    EXPECT_EQ(fault(4, 1, 8, 3), "ReservedQuantizationFlagsBits");
    EXPECT_EQ(fault(5, 0, 8, 3), "InvalidBlockSize");
    EXPECT_EQ(fault(5, 0, 16, 3), "");
    EXPECT_EQ(fault(5, 0, 2048, 3), "");
    EXPECT_EQ(fault(5, 0, 4096, 3), "InvalidBlockSize");
    EXPECT_EQ(fault(5, 0, 32, 0xFFFFFFFF), "InvalidQuantization");
    EXPECT_EQ(fault(5, 0x8000, 32, 3), "ReservedQuantizationFlagsBits");
}

TEST(DecodeRules, OtherLayoutsCarryQuantizationsWhateverTheyAre) {
    for (const Bytes& section : {Bytes(), Bytes{0xFF}, Bytes(100, 0x60)}) {
        auto plain = tensor(0x01, {3, 4});
        plain.quantization = section;
        EXPECT_EQ(fault_of(plain), "");
    }
    auto cut = tensor(0x01, {3, 4});
    cut.quantization = Bytes(4);
    Bytes bytes = cut.encode();
    bytes[61] = 5;
    EXPECT_EQ(fault_of(bytes), "DescriptorTruncated");
}

}  // namespace
}  // namespace hurray
