#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "libhurray/format/descriptor_error.hpp"
#include "libhurray/format/descriptor_view.hpp"

namespace hurray {

/// Reads one descriptor from the front of `bytes`, in exactly the order of the written format, so that of several
/// defects the one named there first is the one reported.
///
/// Accepts what is well-formed; whether it makes sense is for validate_descriptor(). Bytes past the descriptor's own
/// length are not looked at. Allocates nothing, for any layout. Threads: any.
[[nodiscard]] DescriptorResult<DescriptorView> decode_descriptor(std::span<const std::uint8_t> bytes) noexcept;

/// The length that the descriptor at the front of `bytes` declares, itself included, once magic, version and length
/// are found to be good. The descriptor may well be longer than `bytes`.
[[nodiscard]] DescriptorResult<std::uint32_t> declared_descriptor_length(std::span<const std::uint8_t> bytes) noexcept;

/// A decoded descriptor with the bytes that it refers to.
class OwnedDescriptor {
  public:
    /// As decode_descriptor(), on a copy of the bytes: `bytes` may change or go afterwards.
    [[nodiscard]] static DescriptorResult<OwnedDescriptor> decode(std::span<const std::uint8_t> bytes);

    // Moving keeps the bytes where they are; a copy would have to point its view elsewhere.
    OwnedDescriptor(OwnedDescriptor&&) noexcept = default;
    OwnedDescriptor& operator=(OwnedDescriptor&&) noexcept = default;
    OwnedDescriptor(const OwnedDescriptor&) = delete;
    OwnedDescriptor& operator=(const OwnedDescriptor&) = delete;
    ~OwnedDescriptor() = default;

    /// Lives as long as this object.
    [[nodiscard]] const DescriptorView& view() const noexcept { return view_; }

  private:
    OwnedDescriptor(std::vector<std::uint8_t> bytes, const DescriptorView& view) noexcept
        : bytes_(std::move(bytes)), view_(view) {}

    std::vector<std::uint8_t> bytes_;
    DescriptorView view_;
};

}  // namespace hurray
