#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include <hurray/types.hpp>

#include "libhurray/format/buffer_table.hpp"
#include "libhurray/format/layout.hpp"
#include "libhurray/format/sections.hpp"
#include "libhurray/format/shape.hpp"

namespace hurray {

/// A decoded descriptor.
///
/// Everything of variable length is a loan of the encoded bytes, which stay where they are, unchanged, for as long as
/// the view is used: copy bytes that a peer can still write before decoding them. Copying a view copies the loan.
struct DescriptorView {
    std::uint8_t version_major = 1;
    std::uint8_t version_minor = 0;
    ElementType element_type = ElementType::Float32;
    Shape shape;
    std::uint64_t byte_offset = 0;  // of the element with all-zero index, in buffer 0
    Layout layout;
    BufferTable buffers;
    std::optional<std::span<const std::uint8_t>> quantization;  // its bytes as they are: see parse_quantization
    std::optional<Shard> shard;
    std::optional<Statistics> statistics;
    std::optional<ExtensionType> extension_type;
    std::optional<MemberRole> composite_member;
    OddFlag odd_flag;  // the first boolean that is stored as neither 0 nor 1; encoding makes it 1
};

/// Which optional sections a descriptor has.
namespace descriptor_flags {
inline constexpr std::uint32_t kQuantization = 1U << 0;
inline constexpr std::uint32_t kShard = 1U << 1;
inline constexpr std::uint32_t kExtensionType = 1U << 2;
inline constexpr std::uint32_t kStatistics = 1U << 3;
inline constexpr std::uint32_t kCompositeMember = 1U << 4;
inline constexpr std::uint32_t kAll = 0x1F;
}  // namespace descriptor_flags

/// The header up to and including the length; enough to skip a descriptor.
inline constexpr std::size_t kDescriptorPrefixSize = 10;
inline constexpr std::size_t kDescriptorHeaderSize = 20;
inline constexpr std::uint32_t kDescriptorMagic = 0x59525248;  // "HRRY", read as a little-endian number

}  // namespace hurray
