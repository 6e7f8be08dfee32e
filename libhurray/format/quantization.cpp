#include "libhurray/format/quantization.hpp"

#include <bit>
#include <cmath>
#include <cstddef>

#include "libhurray/format/byte_reader.hpp"
#include "libhurray/format/byte_writer.hpp"
#include "libhurray/format/element_type.hpp"

namespace hurray {
namespace {

constexpr const char* kSection = "quantization";
constexpr std::uint32_t kNoBuffer = 0xFFFFFFFF;
constexpr std::uint16_t kSymmetric = 0x0001;
constexpr std::uint8_t kNewestVersion = 1;
constexpr std::uint8_t kFloat32Tag = 0x03;  // scales may be float16 (01), bfloat16 (02) or this

bool has_symmetric_flag(QuantizationScheme scheme) {
    return scheme == QuantizationScheme::PerChannel || scheme == QuantizationScheme::PerBlock;
}

void check_scheme_tag(ByteReader& in, std::uint8_t tag) noexcept {
    constexpr const char* kField = "quantization.scheme_tag";
    in.check(tag != 0x00 && tag != 0xFF, {Fault::InvalidQuantizationSchemeTag, kField, 0, tag});
    in.check(!is_private_tag(tag), {Fault::PrivateQuantizationSchemeTag, kField, 0, tag});
    in.check(tag < 0x60, {Fault::ReservedQuantizationSchemeTag, kField, 0, tag});
    in.check(tag <= 0x05, {Fault::UnknownQuantizationSchemeTag, kField, 0, tag});
}

/// Reserved bytes inside a quantization descriptor are a quantization error, unlike those everywhere else.
void check_reserved(ByteReader& in, std::span<const std::uint8_t> run) noexcept {
    for (const std::uint8_t byte : run) {
        in.check(byte == 0, {Fault::InvalidQuantization, "quantization.reserved", 0, byte});
    }
}

void check_block_size(ByteReader& in, std::uint32_t block_size, std::uint32_t low, std::uint32_t high) noexcept {
    in.check(std::has_single_bit(block_size) && block_size >= low && block_size <= high,
             {Fault::InvalidBlockSize, "quantization.block_size", 0, block_size});
}

void check_scale_buffer(ByteReader& in, std::uint32_t index) noexcept {
    in.check(index != kNoBuffer, {Fault::InvalidQuantization, "quantization.scale_buffer_index", 0, index});
}

void check_zero_point_buffer(ByteReader& in, bool allowed, std::uint32_t index) noexcept {
    in.check(allowed, {Fault::InvalidQuantization, "quantization.zero_point_buffer_index", 0, index});
}

void read_per_tensor(ByteReader& in, Quantization& q) noexcept {
    q.scale = std::bit_cast<float>(in.read<std::uint32_t>(kSection));
    q.zero_point = in.read<std::int32_t>(kSection);
    check_reserved(in, in.bytes(4, kSection));
    in.check(std::isfinite(q.scale) && q.scale != 0.0F,
             {Fault::InvalidQuantization, "quantization.scale", 0, std::bit_cast<std::uint32_t>(q.scale)});
}

void read_per_channel(ByteReader& in, Quantization& q) noexcept {
    q.axis = in.read<std::uint32_t>(kSection);
    q.scale_buffer_index = in.read<std::uint32_t>(kSection);
    q.zero_point_buffer_index = in.read<std::uint32_t>(kSection);
    q.scale_type_tag = in.read<std::uint8_t>(kSection);
    check_scale_buffer(in, q.scale_buffer_index);
    in.check(q.scale_type_tag == kFloat32Tag,
             {Fault::InvalidQuantization, "quantization.scale_type_tag", 0, q.scale_type_tag});
    check_reserved(in, in.bytes(3, kSection));
    check_zero_point_buffer(in, q.symmetric == (q.zero_point_buffer_index == kNoBuffer), q.zero_point_buffer_index);
}

void read_per_block(ByteReader& in, Quantization& q) noexcept {
    q.axis = in.read<std::uint32_t>(kSection);
    q.block_size = in.read<std::uint32_t>(kSection);
    q.scale_buffer_index = in.read<std::uint32_t>(kSection);
    q.zero_point_buffer_index = in.read<std::uint32_t>(kSection);
    q.scale_type_tag = in.read<std::uint8_t>(kSection);
    check_block_size(in, q.block_size, 2, UINT32_MAX);
    in.check(q.scale_type_tag >= 1 && q.scale_type_tag <= kFloat32Tag,
             {Fault::InvalidQuantization, "quantization.scale_type_tag", 0, q.scale_type_tag});
    check_reserved(in, in.bytes(3, kSection));
    // Without the symmetric flag any index goes here, "none" included.
    check_zero_point_buffer(in, !q.symmetric || q.zero_point_buffer_index == kNoBuffer, q.zero_point_buffer_index);
}

void read_scaled_blocks(ByteReader& in, Quantization& q, std::uint32_t low, std::uint32_t high) noexcept {
    q.axis = in.read<std::uint32_t>(kSection);
    q.block_size = in.read<std::uint32_t>(kSection);
    q.scale_buffer_index = in.read<std::uint32_t>(kSection);
    check_block_size(in, q.block_size, low, high);
    check_scale_buffer(in, q.scale_buffer_index);
}

}  // namespace

std::optional<std::uint32_t> scale_buffer(const Quantization& quantization) noexcept {
    if (quantization.scheme == QuantizationScheme::PerTensor) {
        return std::nullopt;
    }
    return quantization.scale_buffer_index;
}

std::optional<std::uint32_t> zero_point_buffer(const Quantization& quantization) noexcept {
    if (!has_symmetric_flag(quantization.scheme) || quantization.symmetric) {
        return std::nullopt;
    }
    return quantization.zero_point_buffer_index;
}

std::size_t quantization_length(QuantizationScheme scheme) noexcept {
    switch (scheme) {
        case QuantizationScheme::PerChannel:
            return 20;
        case QuantizationScheme::PerBlock:
            return 24;
        default:
            return 16;
    }
}

DescriptorResult<Quantization> parse_quantization(std::span<const std::uint8_t> bytes) noexcept {
    ByteReader in(bytes, 0);
    const auto need = [&](std::size_t length) {
        in.check(bytes.size() >= length, {Fault::QuantizationDescriptorTooShort, kSection, 0, bytes.size(), length});
    };
    Quantization q;
    need(1);
    const auto tag = in.read<std::uint8_t>(kSection);
    check_scheme_tag(in, tag);
    q.scheme = static_cast<QuantizationScheme>(tag);
    need(4);
    q.scheme_version = in.read<std::uint8_t>(kSection);
    in.check(q.scheme_version <= kNewestVersion,
             {Fault::UnsupportedSchemeVersion, "quantization.scheme_version", 0, q.scheme_version, kNewestVersion});
    const auto flags = in.read<std::uint16_t>(kSection);
    need(quantization_length(q.scheme));
    const std::uint16_t defined = has_symmetric_flag(q.scheme) ? kSymmetric : std::uint16_t{0};
    in.check((flags & ~defined) == 0, {Fault::ReservedQuantizationFlagsBits, "quantization.flags", 0, flags});
    q.symmetric = (flags & kSymmetric) != 0;
    if (!in.ok()) {
        return tl::unexpected(in.error());
    }

    switch (q.scheme) {
        case QuantizationScheme::PerTensor:
            read_per_tensor(in, q);
            break;
        case QuantizationScheme::PerChannel:
            read_per_channel(in, q);
            break;
        case QuantizationScheme::PerBlock:
            read_per_block(in, q);
            break;
        case QuantizationScheme::Nf4:
            read_scaled_blocks(in, q, 8, UINT32_MAX);
            break;
        case QuantizationScheme::Mxfp:
            read_scaled_blocks(in, q, 16, 2048);
            break;
    }
    if (!in.ok()) {
        return tl::unexpected(in.error());
    }
    return q;
}

DescriptorResult<EncodedQuantization> encode_quantization(const Quantization& q) noexcept {
    EncodedQuantization encoded;
    ByteWriter out(encoded.bytes_);
    out.write(static_cast<std::uint8_t>(q.scheme));
    out.write(q.scheme_version);
    out.write(q.symmetric ? kSymmetric : std::uint16_t{0});
    if (q.scheme == QuantizationScheme::PerTensor) {
        out.write(std::bit_cast<std::uint32_t>(q.scale));
        out.write(q.zero_point);
        out.zeros(4);
    } else {
        out.write(q.axis);
        if (q.scheme != QuantizationScheme::PerChannel) {
            out.write(q.block_size);
        }
        out.write(q.scale_buffer_index);
        if (has_symmetric_flag(q.scheme)) {
            out.write(q.symmetric ? kNoBuffer : q.zero_point_buffer_index);
            out.write(q.scale_type_tag);
            out.zeros(3);
        }
    }
    encoded.size_ = out.position();
    return parse_quantization(encoded.bytes()).map([&](const Quantization&) { return encoded; });
}

}  // namespace hurray
