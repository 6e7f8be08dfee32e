#include "libhurray/format/dense.hpp"

#include "libhurray/base/check.hpp"
#include "libhurray/format/byte_writer.hpp"
#include "libhurray/format/descriptor_writer.hpp"
#include "libhurray/format/element_type.hpp"
#include "libhurray/format/extent.hpp"
#include "libhurray/format/validate.hpp"

namespace hurray {
namespace {

constexpr BufferFieldNames kDenseFields{"alignment", "device_tag", "sync_mode", "memory_class"};

/// The arrays of a tensor in the form in which a descriptor holds them.
class PackedTensor {
  public:
    explicit PackedTensor(const DenseTensor& tensor) noexcept : rank_(tensor.shape.size()) {
        pack(tensor.shape, shape_);
        pack(tensor.strides, strides_);
    }

    [[nodiscard]] Shape shape() const noexcept { return Shape(PackedArray<std::uint64_t>(array(shape_))); }
    [[nodiscard]] Layout layout(LayoutTag tag) const noexcept {
        if (tag == LayoutTag::Strided) {
            return {tag, StridedLayout{PackedArray<std::int64_t>(array(strides_))}};
        }
        return {tag, {}};
    }

  private:
    using Array = std::array<std::uint8_t, 8 * kMaxRank>;

    template <class T>
    static void pack(std::span<const T> numbers, Array& out) noexcept {
        ByteWriter writer(out);
        for (const T number : numbers) {
            writer.write(number);
        }
    }
    [[nodiscard]] std::span<const std::uint8_t> array(const Array& array) const noexcept {
        return {array.data(), 8 * rank_};
    }

    std::size_t rank_;
    Array shape_;
    Array strides_;
};

/// The fields that decoding would refuse on their own, before anything is computed with them.
DescriptorResult<void> check_fields(const DenseTensor& tensor) noexcept {
    const auto refuse = [](Fault fault, const char* field, std::uint64_t value, std::uint64_t limit = 0) {
        return tl::unexpected(DescriptorError{fault, field, 0, value, limit});
    };
    const auto type = static_cast<std::uint8_t>(tensor.element_type);
    if (const auto fault = check_element_type_tag(type)) {
        return refuse(*fault, "element_type", type);
    }
    if (is_private_tag(type)) {
        return refuse(Fault::UnknownTypeTag, "element_type", type);
    }
    if (tensor.layout < LayoutTag::RowMajor || tensor.layout > LayoutTag::Strided) {
        return refuse(Fault::InvalidLayout, "layout", static_cast<std::uint64_t>(tensor.layout));
    }
    if (tensor.shape.size() > kMaxRank) {
        return refuse(Fault::RankExceedsMaximum, "rank", tensor.shape.size(), kMaxRank);
    }
    const std::size_t stride_count = tensor.layout == LayoutTag::Strided ? tensor.shape.size() : 0;
    if (tensor.strides.size() != stride_count) {
        return refuse(Fault::InvalidLayout, "strides.size", tensor.strides.size());
    }
    return {};
}

}  // namespace

DescriptorResult<std::uint64_t> dense_byte_size(const DenseTensor& tensor) noexcept {
    if (const auto good = check_fields(tensor); !good) {
        return tl::unexpected(good.error());
    }
    const PackedTensor packed(tensor);
    return dense_extent(packed.shape(), packed.layout(tensor.layout), find_element_type(tensor.element_type)->bits)
        .and_then([&](ByteExtent extent) { return needed_byte_size(tensor.byte_offset, extent); });
}

DescriptorResult<DenseEncoding> encode_dense(const DenseTensor& tensor) noexcept {
    const auto needed = dense_byte_size(tensor);
    if (!needed) {
        return tl::unexpected(needed.error());
    }
    BufferEntry buffer = tensor.buffer;
    if (buffer.byte_size == 0) {
        buffer.byte_size = *needed;
    }
    if (const auto error = check_buffer_entry(buffer, kDenseFields)) {
        return tl::unexpected(*error);
    }
    std::array<std::uint8_t, BufferTable::kEntrySize> table;
    ByteWriter table_writer(table);
    write_buffer_entry(table_writer, buffer);

    const PackedTensor packed(tensor);
    DescriptorView view;
    view.element_type = tensor.element_type;
    view.shape = packed.shape();
    view.byte_offset = tensor.byte_offset;
    view.layout = packed.layout(tensor.layout);
    view.buffers = BufferTable(table);
    if (const auto valid = validate_descriptor(view, ValidationRules::Sharing); !valid) {
        return tl::unexpected(valid.error());
    }

    DenseEncoding encoding;
    encoding.size_ = encoded_size(view);
    HURRAY_CHECK(encoding.size_ <= encoding.bytes_.size());
    encode_descriptor(view, std::span(encoding.bytes_).first(encoding.size_));
    return encoding;
}

}  // namespace hurray
