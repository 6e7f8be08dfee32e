#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "proto/wire/messages.hpp"
#include "tests/support/plain_descriptor.hpp"

namespace hurray::test {

/// A tensor in one segment of a page, and where its buffers are said to lie.
struct Placed {
    std::string what;
    std::string descriptor;
    std::vector<wire::Placement> placements = {{0, 0}};
};

namespace out_of_range_detail {

constexpr std::uint8_t kUInt8 = 0x11;
constexpr std::uint8_t kFloat64 = 0x04;
constexpr std::uint8_t kRowMajor = 0x01;
constexpr std::uint8_t kStrided = 0x03;
constexpr std::uint8_t kCsr = 0x07;

inline std::string encoded(std::uint8_t type, std::vector<std::uint64_t> shape, std::vector<std::uint64_t> sizes,
                           std::uint64_t byte_offset = 0, std::uint8_t layout_tag = kRowMajor, Bytes layout = {}) {
    PlainDescriptor tensor;
    tensor.type_tag = type;
    tensor.shape = std::move(shape);
    tensor.byte_offset = byte_offset;
    tensor.layout_tag = layout_tag;
    tensor.layout = std::move(layout);
    tensor.buffer_count = sizes.size();
    for (const std::uint64_t size : sizes) {
        put(tensor.buffers, size, std::uint32_t{64}, std::uint32_t{0});
    }
    const Bytes bytes = tensor.encode();
    return {bytes.begin(), bytes.end()};
}

inline Bytes stride(std::int64_t elements) {
    Bytes bytes;
    put(bytes, elements);
    return bytes;
}

inline Bytes stored(std::uint64_t elements) {
    Bytes bytes;
    put(bytes, elements);
    return bytes;
}

}  // namespace out_of_range_detail

/// Whatever wraps, or lies outside: nobody may take it for a tensor.
inline std::vector<Placed> out_of_range() {
    using namespace out_of_range_detail;
    constexpr std::uint64_t k32 = std::uint64_t{1} << 32;
    constexpr std::uint64_t k63 = std::uint64_t{1} << 63;
    return {
        {"2 bytes at 2^64-1", encoded(kUInt8, {2}, {2}), {{0, UINT64_MAX}}},
        {"2 bytes at 2^64-64", encoded(kUInt8, {2}, {2}), {{0, UINT64_MAX - 63}}},
        {"2^63 bytes at 2^63", encoded(kUInt8, {k63}, {k63}), {{0, k63}}},
        {"1 byte at the end", encoded(kUInt8, {1}, {1}), {{0, 4096}}},
        {"a byte more than there is", encoded(kUInt8, {4097}, {4097})},
        {"2^32 times 2^32 elements", encoded(kUInt8, {k32, k32}, {4096})},
        {"8 times 2^61 bytes", encoded(kFloat64, {std::uint64_t{1} << 61}, {4096})},
        {"a stride of 2^62", encoded(kUInt8, {3}, {4096}, 0, kStrided, stride(std::int64_t{1} << 62))},
        {"a stride of -2^62", encoded(kUInt8, {3}, {4096}, 4095, kStrided, stride(-(std::int64_t{1} << 62)))},
        {"65 dimensions", encoded(kUInt8, std::vector<std::uint64_t>(65, 1), {1})},
        {"elements behind the buffer, by their offset", encoded(kUInt8, {64}, {128}, 65)},
        {"an offset of 2^64-1", encoded(kUInt8, {64}, {128}, UINT64_MAX)},
        {"buffers in one place", encoded(0x03, {3, 4}, {12, 24, 32}, 0, kCsr, stored(3)), {{0, 0}, {0, 0}, {0, 64}}},
        {"buffers that overlap by a byte",
         encoded(0x03, {3, 4}, {65, 24, 32}, 0, kCsr, stored(3)),
         {{0, 0}, {0, 64}, {0, 128}}},
    };
}

/// What is at the edge, and right.
inline std::vector<Placed> just_in_range() {
    using namespace out_of_range_detail;
    return {
        {"the whole segment", encoded(kUInt8, {4096}, {4096})},
        {"its last byte, by the elements' offset", encoded(kUInt8, {1}, {4096}, 4095)},
        {"its last 64 bytes", encoded(kUInt8, {64}, {64}), {{0, 4096 - 64}}},
        {"a scalar", encoded(kUInt8, {}, {1})},
        {"64 dimensions", encoded(kUInt8, std::vector<std::uint64_t>(64, 1), {1})},
        {"backwards", encoded(kUInt8, {4096}, {4096}, 4095, kStrided, stride(-1))},
    };
}

}  // namespace hurray::test
