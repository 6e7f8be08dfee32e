#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "libhurray/format/descriptor_view.hpp"

namespace hurray {

/// The flags that tell which sections `view` has; see descriptor_flags.
[[nodiscard]] std::uint32_t section_flags(const DescriptorView& view) noexcept;

/// How many bytes the canonical encoding of `view` takes.
[[nodiscard]] std::size_t encoded_size(const DescriptorView& view) noexcept;

/// Writes that encoding: flags and length derived, reserved bytes zero, booleans 0 or 1, nothing after the last
/// section. Decoding and encoding again changes nothing else. `out` has exactly encoded_size() bytes, and does not overlap the
/// bytes that `view` refers to.
void encode_descriptor(const DescriptorView& view, std::span<std::uint8_t> out) noexcept;

}  // namespace hurray
