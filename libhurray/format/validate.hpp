#pragma once

#include <cstdint>

#include "libhurray/format/descriptor_error.hpp"
#include "libhurray/format/descriptor_view.hpp"

/// The checks beyond decoding: whether a descriptor that is well-formed also makes sense. None of them allocates.
namespace hurray {

/// Where two readers differ in what they ask.
enum class ValidationRules : std::uint8_t {
    /// The written format, as a reader by itself applies it. Private layouts are refused, since this library knows none;
    /// buffers on a GPU are aligned to 4096 bytes; sizes may be dynamic, and what depends on them is not looked at then.
    Format,
    /// What is asked of a tensor that is shared through the broker. An alignment of 64 is enough on every device; private
    /// layouts pass, for the peers to agree about, with the rules that hold for every layout; every size is known.
    Sharing,
};

/// Every rule of the written format that concerns this one descriptor and that decoding does not enforce: fields against
/// each other, layout and quantization against shape and buffer table, buffers large enough, devices that go together.
/// Reports the first that is broken. What lies in the buffers is not known here.
[[nodiscard]] DescriptorResult<void> validate_descriptor(const DescriptorView& view,
                                                         ValidationRules rules = ValidationRules::Format) noexcept;

/// The parts of it that stand alone.

/// The fields of the layout against rank and shape.
[[nodiscard]] DescriptorResult<void> check_layout_against_shape(const DescriptorView& view) noexcept;

/// One device and one memory class for all buffers, of which there is at least one.
[[nodiscard]] DescriptorResult<void> check_colocation(const BufferTable& buffers) noexcept;

/// The quantization, if there is one: taken apart (parse_quantization), then against element type, shape and buffer table.
[[nodiscard]] DescriptorResult<void> check_quantization(const DescriptorView& view) noexcept;

/// That, and what the format asks of those who write one: version, length, and parameter buffers of exactly the right size
/// behind the buffers of the layout.
[[nodiscard]] DescriptorResult<void> check_quantization_as_written(const DescriptorView& view) noexcept;

}  // namespace hurray
