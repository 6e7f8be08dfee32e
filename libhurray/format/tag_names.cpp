#include "libhurray/format/tag_names.hpp"

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

#include "libhurray/format/element_type.hpp"

namespace hurray {
namespace {

template <class Tag, std::size_t Size>
std::string text(const std::array<std::pair<Tag, std::string_view>, Size>& words, Tag tag) {
    for (const auto& [known, word] : words) {
        if (known == tag) {
            return std::string(word);
        }
    }
    constexpr std::string_view kDigits = "0123456789abcdef";
    const auto number = static_cast<std::uint8_t>(tag);
    const std::string digits{kDigits[number >> 4U], kDigits[number & 15U]};
    return (is_private_tag(number) ? "private 0x" : "0x") + digits;
}

}  // namespace

std::string element_type_text(ElementType type) {
    const ElementTypeInfo* const info = find_element_type(type);
    return info != nullptr ? info->name : text(std::array<std::pair<ElementType, std::string_view>, 0>{}, type);
}

std::string layout_text(LayoutTag tag) {
    static constexpr std::array<std::pair<LayoutTag, std::string_view>, 12> kWords{{
        {LayoutTag::RowMajor, "row-major"},
        {LayoutTag::ColumnMajor, "column-major"},
        {LayoutTag::Strided, "strided"},
        {LayoutTag::Tiled, "tiled"},
        {LayoutTag::Morton, "morton"},
        {LayoutTag::Coo, "coo"},
        {LayoutTag::Csr, "csr"},
        {LayoutTag::Csc, "csc"},
        {LayoutTag::Csf, "csf"},
        {LayoutTag::BlockPaged, "block-paged"},
        {LayoutTag::CompositeHead, "composite"},
        {LayoutTag::Hilbert, "hilbert"},
    }};
    return text(kWords, tag);
}

std::string device_text(DeviceTag device) {
    static constexpr std::array<std::pair<DeviceTag, std::string_view>, 9> kWords{{
        {DeviceTag::Cpu, "cpu"},
        {DeviceTag::Cuda, "cuda"},
        {DeviceTag::Rocm, "rocm"},
        {DeviceTag::Metal, "metal"},
        {DeviceTag::Vulkan, "vulkan"},
        {DeviceTag::WebGpu, "webgpu"},
        {DeviceTag::Hexagon, "hexagon"},
        {DeviceTag::LevelZero, "level-zero"},
        {DeviceTag::OpenCl, "opencl"},
    }};
    return text(kWords, device);
}

std::string sync_mode_text(SyncMode mode) {
    static constexpr std::array<std::pair<SyncMode, std::string_view>, 3> kWords{{
        {SyncMode::ProducerSynced, "producer-synced"},
        {SyncMode::Event, "event"},
        {SyncMode::ConsumerStream, "consumer-stream"},
    }};
    return text(kWords, mode);
}

std::string memory_class_text(MemoryClass memory_class) {
    static constexpr std::array<std::pair<MemoryClass, std::string_view>, 4> kWords{{
        {MemoryClass::Standard, "standard"},
        {MemoryClass::HostPinned, "host-pinned"},
        {MemoryClass::Unified, "unified"},
        {MemoryClass::Peer, "peer"},
    }};
    return text(kWords, memory_class);
}

std::string composition_rule_text(CompositionRule rule) {
    static constexpr std::array<std::pair<CompositionRule, std::string_view>, 3> kWords{{
        {CompositionRule::Partition, "partition"},
        {CompositionRule::Overlay, "overlay"},
        {CompositionRule::Group, "group"},
    }};
    return text(kWords, rule);
}

std::string quantization_scheme_text(QuantizationScheme scheme) {
    static constexpr std::array<std::pair<QuantizationScheme, std::string_view>, 5> kWords{{
        {QuantizationScheme::PerTensor, "per-tensor"},
        {QuantizationScheme::PerChannel, "per-channel"},
        {QuantizationScheme::PerBlock, "per-block"},
        {QuantizationScheme::Nf4, "nf4"},
        {QuantizationScheme::Mxfp, "mxfp"},
    }};
    return text(kWords, scheme);
}

std::string member_role_text(MemberRole role) {
    static constexpr std::array<std::pair<MemberRole, std::string_view>, 2> kWords{{
        {MemberRole::Correction, "correction"},
        {MemberRole::Base, "base"},
    }};
    return text(kWords, role);
}

}  // namespace hurray
