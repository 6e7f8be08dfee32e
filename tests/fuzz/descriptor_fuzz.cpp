// Any bytes: decoding reads nothing outside them, and what it accepts survives being encoded and decoded again, from the view
// and as a value.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "libhurray/base/check.hpp"
#include "libhurray/format/descriptor_reader.hpp"
#include "libhurray/format/descriptor_value.hpp"
#include "libhurray/format/descriptor_writer.hpp"
#include "libhurray/format/quantization.hpp"
#include "libhurray/format/validate.hpp"

namespace {

using hurray::DescriptorView;

std::vector<std::uint8_t> encode(const DescriptorView& view) {
    std::vector<std::uint8_t> bytes(hurray::encoded_size(view));
    hurray::encode_descriptor(view, bytes);
    return bytes;
}

void look_at_everything(const DescriptorView& view) {
    if (const auto* tiled = view.layout.as<hurray::TiledLayout>()) {
        for (std::size_t i = 0; i < tiled->level_count; ++i) {
            HURRAY_CHECK(tiled->level(i).tile_shape.size() == view.shape.rank());
        }
    }
    if (view.quantization) {
        static_cast<void>(hurray::parse_quantization(*view.quantization));
    }
    for (const auto rules : {hurray::ValidationRules::Format, hurray::ValidationRules::Sharing}) {
        if (const auto valid = hurray::validate_descriptor(view, rules); !valid) {
            HURRAY_CHECK(!hurray::describe(valid.error()).empty());
        }
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto view = hurray::decode_descriptor(std::span(data, size));
    if (!view) {
        HURRAY_CHECK(!hurray::describe(view.error()).empty());
        return 0;
    }
    look_at_everything(*view);
    const auto canonical = encode(*view);
    HURRAY_CHECK(hurray::DescriptorValue::of(*view).encode() == canonical);
    const auto again = hurray::decode_descriptor(canonical);
    HURRAY_CHECK(again.has_value());
    HURRAY_CHECK(encode(*again) == canonical);
    return 0;
}
