#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "libhurray/format/descriptor_writer.hpp"
#include "tests/support/sample_descriptors.hpp"

/// Encoded composite heads and members.
namespace hurray::test {

struct HeadSample {
    CompositionRule rule = CompositionRule::Partition;
    std::uint32_t member_count = 0;
    std::vector<std::uint64_t> shape{};
    ElementType type = ElementType::Float32;
    // As a member of another set:
    std::vector<std::uint64_t> parent{};
    std::vector<std::uint64_t> offset{};
};

struct MemberSample {
    std::vector<std::uint64_t> shape{};
    std::vector<std::uint64_t> parent{};  // empty: no shard section, unless `shard` says so
    std::vector<std::uint64_t> offset{};
    std::optional<MemberRole> role{};
    ElementType type = ElementType::Float32;
    bool shard = true;
    bool quantized = false;
};

inline std::vector<std::uint8_t> encode(const DescriptorView& view) {
    std::vector<std::uint8_t> bytes(encoded_size(view));
    encode_descriptor(view, bytes);
    return bytes;
}

inline std::vector<std::uint8_t> encode(const HeadSample& sample) {
    SampleTensor head(sample.type, sample.shape, {});
    const auto op = static_cast<std::uint8_t>(sample.rule == CompositionRule::Overlay ? 1 : 0);
    head.view.layout = {LayoutTag::CompositeHead, CompositeHeadLayout{sample.rule, op, sample.member_count}};
    std::vector<std::uint8_t> parent;
    std::vector<std::uint8_t> offset;
    if (!sample.parent.empty()) {
        head.view.shard = Shard{pack(sample.parent, parent), pack(sample.offset, offset)};
    }
    return encode(head.view);
}

inline std::vector<std::uint8_t> encode(const MemberSample& sample) {
    SampleTensor member(sample.type, sample.shape, {cpu_buffer(4096)});
    std::vector<std::uint8_t> parent;
    std::vector<std::uint8_t> offset;
    if (sample.shard) {
        member.view.shard = Shard{pack(sample.parent, parent), pack(sample.offset, offset)};
    }
    // Per-tensor affine, scale 1, zero point 0.
    static constexpr std::uint8_t kQuantization[] = {1, 1, 0, 0, 0, 0, 0x80, 0x3F, 0, 0, 0, 0, 0, 0, 0, 0};
    if (sample.quantized) {
        member.view.quantization = std::span(kQuantization);
    }
    member.view.composite_member = sample.role;
    return encode(member.view);
}

}  // namespace hurray::test
