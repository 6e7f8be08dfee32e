#include "libhurray/format/read_element.hpp"

#include <array>

#include "libhurray/base/checked_math.hpp"
#include "libhurray/format/dequantize.hpp"

namespace hurray {
namespace {

/// The value of the element at an address that find_element() or find_paged_element() gave.
DescriptorResult<ElementValue> value_at(const DescriptorView& view, BufferBytes buffers, const ElementAddress& address,
                                        const QuantizedPlace& place) {
    const std::span<const std::uint8_t> bytes = buffers[address.buffer];
    const std::uint64_t length = address.storage.group_bytes;
    if (!range_fits(address.byte, length, bytes.size())) {
        const std::uint64_t end = checked_add(address.byte, length).value_or(UINT64_MAX);
        return tl::unexpected(DescriptorError{Fault::BufferTooShort, "buffers[]", address.buffer, bytes.size(), end});
    }
    const auto format = element_format(view);
    if (!format) {
        return tl::unexpected(format.error());
    }
    if (format->kind == ElementFormat::Kind::Opaque) {
        return tl::unexpected(
            DescriptorError{Fault::NoElementValue, "type_tag", 0, static_cast<std::uint64_t>(view.element_type), 0});
    }
    const UInt128 code = load_element(address.storage, bytes.subspan(address.byte), address.bit);
    if (!view.quantization) {
        return *to_value(*format, code);
    }
    const auto real = dequantize(view, buffers, place, code);
    if (!real) {
        return tl::unexpected(real.error());
    }
    return ElementValue{*real};
}

}  // namespace

DescriptorResult<std::optional<ElementValue>> read_element(const DescriptorView& view, BufferBytes buffers,
                                                           std::span<const std::uint64_t> index) noexcept {
    const auto to_optional = [](const DescriptorResult<ElementValue>& value) {
        return value.map([](const ElementValue& v) { return std::optional(v); });
    };
    if (const auto checked = check_index(view.shape, index); !checked) {
        return tl::unexpected(checked.error());
    }
    if (view.layout.tag == LayoutTag::BlockPaged) {
        const auto paged = paged_index(view, index);
        if (!paged) {
            return tl::unexpected(paged.error());
        }
        return to_optional(read_paged_element(view, buffers, *paged));
    }
    const auto address = find_element(view, buffers, index);
    if (!address) {
        return tl::unexpected(address.error());
    }
    if (!*address) {
        return std::nullopt;
    }
    return to_optional(value_at(view, buffers, **address, {index, std::nullopt}));
}

DescriptorResult<ElementValue> read_paged_element(const DescriptorView& view, BufferBytes buffers,
                                                  const PagedIndex& index) noexcept {
    const auto found = find_paged_element(view, buffers, index);
    if (!found) {
        return tl::unexpected(found.error());
    }
    const std::array<std::uint64_t, 3> logical{index.token, index.head, index.component};
    return value_at(view, buffers, found->address, {logical, found->slot});
}

}  // namespace hurray
