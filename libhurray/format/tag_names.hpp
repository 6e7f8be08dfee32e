#pragma once

#include <string>

#include <hurray/types.hpp>

#include "libhurray/format/layout.hpp"
#include "libhurray/format/quantization.hpp"
#include "libhurray/format/sections.hpp"

/// The words for the numbers of the format, as people are shown them: "block-paged", "host-pinned". A number without a
/// word of its own is written as such: "private 0xf0", "0x2a".
namespace hurray {

[[nodiscard]] std::string element_type_text(ElementType type);
[[nodiscard]] std::string layout_text(LayoutTag tag);
[[nodiscard]] std::string device_text(DeviceTag device);
[[nodiscard]] std::string sync_mode_text(SyncMode mode);
[[nodiscard]] std::string memory_class_text(MemoryClass memory_class);
[[nodiscard]] std::string composition_rule_text(CompositionRule rule);
[[nodiscard]] std::string quantization_scheme_text(QuantizationScheme scheme);
[[nodiscard]] std::string member_role_text(MemberRole role);

}  // namespace hurray
