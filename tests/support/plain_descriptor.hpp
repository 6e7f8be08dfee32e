#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <vector>

#include "libhurray/format/little_endian.hpp"

namespace hurray::test {

using Bytes = std::vector<std::uint8_t>;

/// Appends numbers, little-endian.
template <class... Numbers>
void put(Bytes& bytes, Numbers... numbers) {
    const auto append = [&](auto number) {
        bytes.resize(bytes.size() + sizeof(number));
        store_little_endian(number, bytes.data() + bytes.size() - sizeof(number));
    };
    (append(numbers), ...);
}

template <class T>
void put_all(Bytes& bytes, const std::vector<T>& numbers) {
    for (const T number : numbers) {
        put(bytes, number);
    }
}

inline void put_zeros(Bytes& bytes, std::size_t count) { bytes.resize(bytes.size() + count); }

/// A descriptor by the tables of the written format: its parts one after the other, whatever they mean. What an encoder is
/// compared with, so nothing of the library's own is in it.
struct PlainDescriptor {
    std::uint8_t version_minor = 0;
    std::uint8_t type_tag = 0x03;
    std::vector<std::uint64_t> shape;
    std::uint64_t byte_offset = 0;
    std::uint8_t layout_tag = 0x01;
    Bytes layout;
    std::size_t buffer_count = 0;
    Bytes buffers;
    std::optional<Bytes> quantization;
    std::optional<Bytes> shard;
    std::optional<Bytes> statistics;
    std::optional<Bytes> extension_type;
    std::optional<Bytes> composite_member;

    [[nodiscard]] Bytes encode() const {
        Bytes bytes = {'H', 'R', 'R', 'Y', 1, version_minor};
        put(bytes, std::uint32_t{0});  // the length, when it is known
        put(bytes, flags(), type_tag, layout_tag, static_cast<std::uint32_t>(shape.size()));
        put_all(bytes, shape);
        put(bytes, byte_offset);
        append(bytes, layout);
        put(bytes, static_cast<std::uint8_t>(buffer_count));
        append(bytes, buffers);
        if (quantization) {
            put(bytes, static_cast<std::uint32_t>(quantization->size()));
        }
        for (const auto& section : {quantization, shard, statistics, extension_type, composite_member}) {
            append(bytes, section.value_or(Bytes()));
        }
        store_little_endian(static_cast<std::uint32_t>(bytes.size()), bytes.data() + 6);
        return bytes;
    }

  private:
    static void append(Bytes& bytes, const Bytes& part) { bytes.insert(bytes.end(), part.begin(), part.end()); }

    [[nodiscard]] std::uint32_t flags() const {
        return (quantization ? 1U : 0U) | (shard ? 2U : 0U) | (extension_type ? 4U : 0U) | (statistics ? 8U : 0U) |
               (composite_member ? 16U : 0U);
    }
};

}  // namespace hurray::test
