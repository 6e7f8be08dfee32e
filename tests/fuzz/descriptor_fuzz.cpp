// Any bytes: decoding reads nothing outside them, in C++ and through the C ABI, and what it accepts survives being encoded and
// decoded again, from the view, as a value, and from the handle, and can be shown.
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

/// What is shown of a descriptor, and what is worked out from it.
std::vector<std::uint8_t> json_of(const HurrayDescriptor* handle) {
    const auto json = hurray::fuzz::write_all([&](std::uint8_t* out, std::uintptr_t* length) {
        return hurray_descriptor_to_json(handle, reinterpret_cast<char*>(out), length);
    });
    HURRAY_CHECK(json.status == HURRAY_OK && json.bytes.back() == 0);
    return json.bytes;
}

void ask_for_sizes(const HurrayDescriptor* handle, std::size_t buffer_count) {
    std::uint32_t bits = 0;
    static_cast<void>(hurray_descriptor_element_bits(handle, &bits));
    std::uint64_t size = 0;
    for (std::uint32_t i = 0; i < buffer_count; ++i) {
        static_cast<void>(hurray_descriptor_buffer_size(handle, i, &size));
    }
    HURRAY_CHECK(hurray_descriptor_buffer_size(handle, static_cast<std::uint32_t>(buffer_count), &size) ==
                 HURRAY_ERR_INDEX_OUT_OF_BOUNDS);
}

}  // namespace

// An entry of the buffer table has sixteen bytes, and a hundred as JSON, of which there are several copies.
const hurray::fuzz::MemoryLimit hurray::fuzz::kMemoryLimit = {16384, 32, 96};

void hurray::fuzz::run_input(std::span<const std::uint8_t> input) {
    const auto view = hurray::decode_descriptor(input);
    const DescriptorHandle handle = decode_through_c(input, view);
    if (!view) {
        return;
    }
    look_at_everything(*view);
    ask_for_sizes(handle.get(), view->buffers.size());
    const auto canonical = canonical_bytes(*view);
    HURRAY_CHECK(hurray::DescriptorValue::of(*view).encode() == canonical);
    HURRAY_CHECK(write_all([&](std::uint8_t* out, std::uintptr_t* length) {
                     return hurray_descriptor_encode(handle.get(), out, length);
                 }).bytes == canonical);
    const auto again = hurray::decode_descriptor(canonical);
    HURRAY_CHECK(again.has_value());
    HURRAY_CHECK(canonical_bytes(*again) == canonical);
    HURRAY_CHECK(json_of(decode_through_c(canonical, again).get()) == json_of(handle.get()));
}
