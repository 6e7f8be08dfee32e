#include "libhurray/format/descriptor_writer.hpp"

#include <limits>

#include "libhurray/base/check.hpp"
#include "libhurray/format/byte_writer.hpp"

namespace hurray {
namespace {

void write_descriptor(ByteWriter& out, const DescriptorView& view, std::uint32_t length) noexcept {
    out.write(kDescriptorMagic);
    out.write(view.version_major);
    out.write(view.version_minor);
    out.write(length);
    out.write(section_flags(view));
    out.write(static_cast<std::uint8_t>(view.element_type));
    out.write(static_cast<std::uint8_t>(view.layout.tag));
    out.write(static_cast<std::uint32_t>(view.shape.rank()));
    out.bytes(view.shape.dims().bytes());
    out.write(view.byte_offset);
    write_layout(out, view.layout);
    out.write(static_cast<std::uint8_t>(view.buffers.size()));
    out.bytes(view.buffers.bytes());
    if (view.quantization) {
        out.write(static_cast<std::uint32_t>(view.quantization->size()));
        out.bytes(*view.quantization);
    }
    if (view.shard) {
        write_shard(out, *view.shard);
    }
    if (view.statistics) {
        write_statistics(out, *view.statistics);
    }
    if (view.extension_type) {
        write_extension_type(out, *view.extension_type);
    }
    if (view.composite_member) {
        write_composite_member(out, *view.composite_member);
    }
}

}  // namespace

std::uint32_t section_flags(const DescriptorView& view) noexcept {
    return (view.quantization ? descriptor_flags::kQuantization : 0U) | (view.shard ? descriptor_flags::kShard : 0U) |
           (view.extension_type ? descriptor_flags::kExtensionType : 0U) |
           (view.statistics ? descriptor_flags::kStatistics : 0U) |
           (view.composite_member ? descriptor_flags::kCompositeMember : 0U);
}

std::size_t encoded_size(const DescriptorView& view) noexcept {
    ByteWriter counter;
    write_descriptor(counter, view, 0);
    return counter.position();
}

void encode_descriptor(const DescriptorView& view, std::span<std::uint8_t> out) noexcept {
    // A view comes from bytes whose length is a u32, or from the dense builder; neither gives more than that.
    HURRAY_CHECK(out.size() <= std::numeric_limits<std::uint32_t>::max());
    HURRAY_DCHECK(out.size() == encoded_size(view));
    ByteWriter writer(out);
    write_descriptor(writer, view, static_cast<std::uint32_t>(out.size()));
}

}  // namespace hurray
