#pragma once

#include "libhurray/format/descriptor_error.hpp"
#include "libhurray/format/descriptor_view.hpp"

namespace hurray {

/// Whether a decoded descriptor also makes sense: every rule of the written format that concerns it and that decoding
/// does not enforce. The first rule broken is reported.
///
/// Complete for row-major, column-major and strided tensors that are not quantized: device and memory class, one buffer
/// that holds every element, known sizes, sections that do not contradict themselves. An alignment of 64 is enough.
/// What can't be judged yet (the other layouts, quantization) fails with NotSupportedYet, after the rules that can.
[[nodiscard]] DescriptorResult<void> validate_descriptor(const DescriptorView& view) noexcept;

/// The parts of it that hold for every layout.

/// The fields of the layout against rank and shape.
[[nodiscard]] DescriptorResult<void> check_layout_against_shape(const DescriptorView& view) noexcept;

/// One device and one memory class for all buffers.
[[nodiscard]] DescriptorResult<void> check_colocation(const BufferTable& buffers) noexcept;

}  // namespace hurray
