#include "bench/descriptor_samples.hpp"

#include <utility>

#include "libhurray/format/descriptor_value.hpp"
#include "libhurray/format/quantization.hpp"

namespace bench {
namespace {

using hurray::ElementType;
using hurray::LayoutTag;

hurray::DescriptorValue tensor(ElementType type, std::vector<std::uint64_t> shape,
                               const std::vector<std::uint64_t>& buffer_sizes) {
    hurray::DescriptorValue value;
    value.element_type = type;
    value.shape = std::move(shape);
    for (const std::uint64_t size : buffer_sizes) {
        value.buffers.push_back({.byte_size = size});
    }
    return value;
}

}  // namespace

std::vector<std::uint8_t> dense(std::uint32_t rank) {
    return tensor(ElementType::Float32, std::vector<std::uint64_t>(rank, 2), {std::uint64_t{4} << rank})
        .encode()
        .value();
}

std::vector<std::uint8_t> strided(std::uint32_t rank) {
    auto value = tensor(ElementType::Float32, std::vector<std::uint64_t>(rank, 2), {std::uint64_t{4} << rank});
    hurray::StridedValue strides;
    for (std::uint32_t k = 0; k < rank; ++k) {
        strides.strides.push_back(std::int64_t{1} << (rank - 1 - k));
    }
    value.layout = {LayoutTag::Strided, std::move(strides)};
    return value.encode().value();
}

std::vector<std::uint8_t> csr() {
    auto value = tensor(ElementType::Float32, {64, 64}, {400, 800, 520});
    value.layout = {LayoutTag::Csr, hurray::CompressedLayout{100}};
    return value.encode().value();
}

std::vector<std::uint8_t> per_channel() {
    auto value = tensor(ElementType::Int8, {64, 64}, {4096, 256, 256});
    hurray::Quantization q;
    q.scheme = hurray::QuantizationScheme::PerChannel;
    q.axis = 1;
    q.scale_buffer_index = 1;
    q.zero_point_buffer_index = 2;
    q.scale_type_tag = static_cast<std::uint8_t>(ElementType::Float32);
    const auto encoded = hurray::encode_quantization(q).value();
    value.quantization.emplace(encoded.bytes().begin(), encoded.bytes().end());
    return value.encode().value();
}

}  // namespace bench
