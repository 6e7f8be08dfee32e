#pragma once

#include <cstdint>
#include <span>

#include "libhurray/format/descriptor_error.hpp"
#include "libhurray/format/descriptor_view.hpp"

namespace hurray {

/// Reads one descriptor from the front of `bytes`, in exactly the order of the written format, so that of several
/// defects the one named there first is the one reported.
///
/// Accepts what is well-formed; whether it makes sense is for validate_descriptor(). Bytes past the descriptor's own
/// length are not looked at. Allocates nothing, for any layout. Threads: any.
[[nodiscard]] DescriptorResult<DescriptorView> decode_descriptor(std::span<const std::uint8_t> bytes) noexcept;

/// The same into a view that is there already, in its first state. False: `error` says why, and `view` means nothing.
[[nodiscard]] bool decode_descriptor(std::span<const std::uint8_t> bytes, DescriptorView& view,
                                     DescriptorError& error) noexcept;

/// The length that the descriptor at the front of `bytes` declares, itself included, once magic, version and length
/// are found to be good. The descriptor may well be longer than `bytes`.
[[nodiscard]] DescriptorResult<std::uint32_t> declared_descriptor_length(std::span<const std::uint8_t> bytes) noexcept;

}  // namespace hurray
