#pragma once

#include <string>

#include "libhurray/format/descriptor_view.hpp"

namespace hurray {

/// Every field of a descriptor as a JSON object (UTF-8, without line breaks), for tools and for people.
///
/// Always there: version, element_type, shape, layout, byte_offset, buffers. `strides` where the layout has them, also
/// those that row- and column-major order imply (null if they can't be computed). `layout_fields` where the layout has
/// others; `quantization`, `shard`, `statistics`, `extension_type` and `composite_member` where the descriptor has the
/// section. Numbers are exact; a dynamic dimension is null. Floating-point values that JSON has no number for are the
/// strings "nan", "inf" and "-inf". Statistics that were not computed are left out. Bytes that mean nothing here are
/// hexadecimal.
///
/// Throws std::bad_alloc.
[[nodiscard]] std::string descriptor_to_json(const DescriptorView& view);

}  // namespace hurray
