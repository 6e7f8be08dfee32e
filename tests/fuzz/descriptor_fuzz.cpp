// Any bytes: decoding reads nothing outside them, in C++ and through the C ABI, and what it accepts survives being encoded and
// decoded again, from the view, as a value, and from the handle.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "libhurray/base/check.hpp"
#include "libhurray/format/descriptor_reader.hpp"
#include "libhurray/format/descriptor_value.hpp"
#include "libhurray/format/quantization.hpp"
#include "tests/fuzz/descriptor_checks.hpp"
#include "tests/fuzz/fuzz_target.hpp"

namespace {

using hurray::DescriptorView;
using hurray::fuzz::canonical_bytes;
using hurray::fuzz::DescriptorHandle;

void look_at_everything(const DescriptorView& view) {
    if (const auto* tiled = view.layout.as<hurray::TiledLayout>()) {
        for (std::size_t i = 0; i < tiled->level_count; ++i) {
            HURRAY_CHECK(tiled->level(i).tile_shape.size() == view.shape.rank());
        }
    }
    if (view.quantization) {
        static_cast<void>(hurray::parse_quantization(*view.quantization));
    }
}

/// The handle that the C ABI makes of the bytes; null if it refuses them, and then as C++ does.
DescriptorHandle decode_through_c(std::span<const std::uint8_t> input,
                                  const hurray::DescriptorResult<DescriptorView>& expected) {
    static const std::uint8_t kNothing = 0;  // the address of no bytes may be null, but not in C
    HurrayDescriptor* made = nullptr;
    const HurrayStatus status = hurray_descriptor_decode(input.empty() ? &kNothing : input.data(), input.size(), &made);
    DescriptorHandle handle(made);
    HURRAY_CHECK((handle != nullptr) == expected.has_value());
    if (expected) {
        HURRAY_CHECK(status == HURRAY_OK);
    } else {
        HURRAY_CHECK(status == static_cast<HurrayStatus>(to_errc(expected.error().fault)));
        HURRAY_CHECK(hurray::fuzz::last_message_is("hurray_descriptor_decode", expected.error()));
    }
    return handle;
}

}  // namespace

const hurray::fuzz::MemoryLimit hurray::fuzz::kMemoryLimit = {4096, 8, 24};

void hurray::fuzz::run_input(std::span<const std::uint8_t> input) {
    const auto view = hurray::decode_descriptor(input);
    const DescriptorHandle handle = decode_through_c(input, view);
    if (!view) {
        return;
    }
    look_at_everything(*view);
    const auto canonical = canonical_bytes(*view);
    HURRAY_CHECK(hurray::DescriptorValue::of(*view).encode() == canonical);
    HURRAY_CHECK(write_all([&](std::uint8_t* out, std::uintptr_t* length) {
                     return hurray_descriptor_encode(handle.get(), out, length);
                 }).bytes == canonical);
    const auto again = hurray::decode_descriptor(canonical);
    HURRAY_CHECK(again.has_value());
    HURRAY_CHECK(canonical_bytes(*again) == canonical);
}
