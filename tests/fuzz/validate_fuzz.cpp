// Any descriptor, well-formed or nearly so: validation gives the same answer in C++ and through the C ABI, for a descriptor and
// for its canonical bytes; the two sets of rules differ in what they are said to differ in; no part refuses what the whole
// accepts; and what is accepted holds up to plain arithmetic: buffers that are large enough, elements that have addresses.
//
// The head of the input up to the length is set right, so that mutations concern what validation looks at.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <vector>

#include "libhurray/base/check.hpp"
#include "libhurray/base/int128.hpp"
#include "libhurray/format/composite_set.hpp"
#include "libhurray/format/descriptor_reader.hpp"
#include "libhurray/format/descriptor_value.hpp"
#include "libhurray/format/element_address.hpp"
#include "libhurray/format/element_type.hpp"
#include "libhurray/format/little_endian.hpp"
#include "libhurray/format/quantization.hpp"
#include "libhurray/format/required_buffers.hpp"
#include "tests/fuzz/descriptor_checks.hpp"
#include "tests/fuzz/fuzz_target.hpp"

namespace {

using hurray::DescriptorValue;
using hurray::DescriptorView;
using hurray::Fault;
using hurray::UInt128;
using hurray::fuzz::same;
using hurray::fuzz::Validity;
using hurray::fuzz::Violation;
using hurray::fuzz::violation;

constexpr std::uint32_t kGpuAlignment = 4096;
constexpr std::uint64_t kMostElements = 1024;  // for looking at each

std::vector<std::uint8_t> with_right_head(std::span<const std::uint8_t> input) {
    std::vector<std::uint8_t> bytes(input.begin(), input.end());
    if (bytes.size() >= hurray::kDescriptorPrefixSize) {
        hurray::store_little_endian(hurray::kDescriptorMagic, bytes.data());
        hurray::store_little_endian(static_cast<std::uint32_t>(bytes.size()), bytes.data() + 6);
    }
    return bytes;
}

bool has_private_layout(const DescriptorView& view) {
    return hurray::is_private_tag(static_cast<std::uint8_t>(view.layout.tag));
}

// ---- Answers against each other ------------------------------------------------------------------------------------

/// The checks that stand alone are parts of the whole.
void check_parts(const DescriptorView& view, const Validity& validity) {
    const Violation layout = violation(hurray::check_layout_against_shape(view));
    const Violation colocation = violation(hurray::check_colocation(view.buffers));
    const Violation quantization = violation(hurray::check_quantization(view));
    const Violation written = violation(hurray::check_quantization_as_written(view));
    const bool virtual_tensor = view.layout.tag == hurray::LayoutTag::CompositeHead;
    if (layout || written || (colocation && !virtual_tensor)) {
        HURRAY_CHECK(validity.format && validity.sharing);
    }
    HURRAY_CHECK(!virtual_tensor || colocation->fault == Fault::EmptyBufferList);
    HURRAY_CHECK(!quantization || same(quantization, written));
    HURRAY_CHECK(view.quantization || !written);
}

/// Each set of rules accepts what the other does but for the documented differences.
void check_differences(const DescriptorView& view, const Validity& validity) {
    const auto dynamic = view.shape.first_dynamic_dimension();
    if (validity.format && !validity.sharing) {
        const bool unaligned = validity.format->fault == Fault::AlignmentBelowMinimum &&
                               view.buffers[validity.format->index].alignment < kGpuAlignment &&
                               view.buffers[validity.format->index].device != hurray::DeviceTag::Cpu;
        HURRAY_CHECK(unaligned || (validity.format->fault == Fault::PrivateLayoutTag && has_private_layout(view)));
    }
    if (validity.sharing && !validity.format) {
        HURRAY_CHECK(validity.sharing->fault == Fault::InvalidShape && validity.sharing->index == dynamic);
    }
    if (dynamic) {
        HURRAY_CHECK(validity.sharing);
    }
    if (has_private_layout(view)) {
        HURRAY_CHECK(validity.format);
    }
    if (has_private_layout(view) || dynamic) {
        return;
    }
    // With alignments that suit every device no difference is left.
    DescriptorValue aligned = DescriptorValue::of(view);
    for (hurray::BufferEntry& entry : aligned.buffers) {
        entry.alignment = std::max(entry.alignment, kGpuAlignment);
    }
    const auto bytes = aligned.encode().value();
    const Validity answers = hurray::fuzz::validate(hurray::decode_descriptor(bytes).value());
    HURRAY_CHECK(same(answers.format, answers.sharing));
    HURRAY_CHECK(view.odd_flag.field != nullptr || same(answers.sharing, validity.sharing));
}

/// In canonical form a descriptor is as valid as before. Booleans that were neither 0 nor 1 have become 1.
void check_canonical(const DescriptorView& view, const Validity& validity) {
    const auto bytes = DescriptorValue::of(view).encode().value();
    const DescriptorView again = hurray::decode_descriptor(bytes).value();
    const Validity answers = hurray::fuzz::validate(again);
    if (view.odd_flag.field == nullptr) {
        HURRAY_CHECK(same(answers.format, validity.format) && same(answers.sharing, validity.sharing));
    } else {
        HURRAY_CHECK(validity.format && validity.sharing);
        HURRAY_CHECK(!answers.format || answers.format->fault != Fault::InvalidBoolean);
    }
}

void check_through_c(std::span<const std::uint8_t> bytes, const Validity& validity) {
    HurrayDescriptor* made = nullptr;
    HURRAY_CHECK(hurray_descriptor_decode(bytes.data(), bytes.size(), &made) == HURRAY_OK);
    hurray::fuzz::check_same_through_c(hurray::fuzz::DescriptorHandle(made).get(), validity);
}

// ---- Accepted descriptors against plain arithmetic -----------------------------------------------------------------

UInt128 packed(UInt128 count, std::uint32_t bits) { return bits == 6 ? (count + 3) / 4 * 3 : (count * bits + 7) / 8; }

void check_holds(const DescriptorView& view, std::size_t buffer, UInt128 needed) {
    HURRAY_CHECK(view.buffers[buffer].byte_size >= needed);
}

/// The sizes that the format states for the buffers of a layout with several.
void check_sizes(const DescriptorView& view, std::uint32_t bits) {
    const auto& shape = view.shape;
    if (const auto nnz = hurray::stored_count(view.layout)) {
        check_holds(view, 0, packed(*nnz, bits));
        switch (view.layout.tag) {
            case hurray::LayoutTag::Coo:
                check_holds(view, 1, UInt128{*nnz} * shape.rank() * 8);
                break;
            case hurray::LayoutTag::Csr:
            case hurray::LayoutTag::Csc:
                check_holds(view, 1, UInt128{*nnz} * 8);
                check_holds(view, 2, (UInt128{shape[view.layout.tag == hurray::LayoutTag::Csr ? 0 : 1]} + 1) * 8);
                break;
            default:
                check_holds(view, 1, 16);
                check_holds(view, 2 * shape.rank(), UInt128{*nnz} * 8);
        }
    }
    if (const auto* pages = view.layout.as<hurray::BlockPagedLayout>()) {
        const std::uint64_t width = pages->wide_index ? 8 : 4;
        check_holds(view, 2, (UInt128{pages->num_seqs} + 1) * width);
        if (shape[1] != 0 && shape[2] != 0) {  // their product with the rest may be too large even for 128 bits
            const UInt128 tokens = UInt128{pages->num_pages} * pages->page_size;
            HURRAY_CHECK(view.buffers[0].byte_size * UInt128{8} / bits / shape[2] / shape[1] >= tokens);
        }
    }
}

/// Scales and zero points, one a channel or block, fill their buffers.
void check_parameters(const DescriptorView& view) {
    if (!view.quantization) {
        return;
    }
    const auto q = hurray::parse_quantization(*view.quantization).value();
    const auto encoded = hurray::encode_quantization(q).value();
    HURRAY_CHECK(std::ranges::equal(encoded.bytes(), *view.quantization));
    const auto* pages = view.layout.as<hurray::BlockPagedLayout>();
    if (q.scheme == hurray::QuantizationScheme::PerTensor || (pages != nullptr && q.block_size != 0)) {
        return;
    }
    UInt128 count = view.shape[q.axis];
    if (q.block_size != 0) {
        count = (count + q.block_size - 1) / q.block_size;
        for (std::size_t k = 0; k < view.shape.rank(); ++k) {
            count *= k == q.axis ? 1 : view.shape[k];
            if (count > UINT64_MAX) {
                HURRAY_CHECK(view.shape.is_empty());
                return;
            }
        }
    }
    const bool halves = q.scheme == hurray::QuantizationScheme::PerBlock && q.scale_type_tag != 3;
    const UInt128 scales = count * (q.scheme == hurray::QuantizationScheme::Mxfp ? 1U : halves ? 2U : 4U);
    const auto zero_points = hurray::zero_point_buffer(q);
    const bool shared = zero_points == q.scale_buffer_index;
    HURRAY_CHECK(view.buffers[q.scale_buffer_index].byte_size == scales + (shared ? count * 4 : 0));
    HURRAY_CHECK(!zero_points || shared || view.buffers[*zero_points].byte_size == count * 4);
}

/// The next index in row-major order; false behind the last.
bool advance(std::vector<std::uint64_t>& index, const hurray::Shape& shape) {
    for (std::size_t k = index.size(); k > 0; --k) {
        if (++index[k - 1] < shape[k - 1]) {
            return true;
        }
        index[k - 1] = 0;
    }
    return false;
}

bool is_inside(const DescriptorView& view, const hurray::ElementAddress& address) {
    return UInt128{address.byte} + address.storage.group_bytes <= view.buffers[0].byte_size;
}

/// Curves have codes of at most 64 bits, fewer than a buffer of single bits can hold.
bool has_address(const DescriptorView& view, std::span<const std::uint64_t> index) {
    const auto address = hurray::element_address(view, index);
    return address ? is_inside(view, *address) : address.error().fault == Fault::IndexArithmeticOverflow;
}

/// Where strides lead furthest down or up; for other layouts just far.
void check_corners(const DescriptorView& view) {
    const auto* strided = view.layout.as<hurray::StridedLayout>();
    std::vector<std::uint64_t> low(view.shape.rank());
    std::vector<std::uint64_t> high(view.shape.rank());
    for (std::size_t k = 0; k < view.shape.rank(); ++k) {
        const bool down = strided != nullptr && strided->strides[k] < 0;
        (down ? low : high)[k] = view.shape[k] - 1;
    }
    HURRAY_CHECK(has_address(view, low) && has_address(view, high));
}

/// Each element has an address, and but for strides each one of its own.
void check_elements(const DescriptorView& view) {
    std::vector<UInt128> bits;
    std::vector<std::uint64_t> index(view.shape.rank());
    do {
        const auto address = hurray::element_address(view, index);
        HURRAY_CHECK(has_address(view, index));
        if (address) {
            bits.push_back(UInt128{address->byte} * 8 + address->bit);
        }
    } while (advance(index, view.shape));
    const bool any_strides =
        view.layout.tag == hurray::LayoutTag::Strided || view.layout.tag == hurray::LayoutTag::Tiled;
    std::ranges::sort(bits);
    HURRAY_CHECK(any_strides || std::ranges::adjacent_find(bits) == bits.end());
}

/// What is refused for elements outside the buffer has one there. Tiles and curves store more than the elements.
void check_outside(const DescriptorView& view, const Violation& violation) {
    const bool exact = view.layout.tag == hurray::LayoutTag::RowMajor ||
                       view.layout.tag == hurray::LayoutTag::ColumnMajor ||
                       view.layout.tag == hurray::LayoutTag::Strided;
    const bool outside =
        violation->fault == Fault::ElementsPastBuffer || violation->fault == Fault::ElementsBeforeBuffer;
    if (!exact || !outside || view.shape.element_count().value_or(kMostElements + 1) > kMostElements) {
        return;
    }
    std::vector<std::uint64_t> index(view.shape.rank());
    do {
        if (!has_address(view, index)) {
            return;
        }
    } while (advance(index, view.shape));
    HURRAY_CHECK(false);
}

void check_accepted(const DescriptorView& view) {
    const auto bits = hurray::element_bits(view);
    HURRAY_CHECK(bits.has_value());
    if (view.layout.tag == hurray::LayoutTag::CompositeHead) {
        HURRAY_CHECK(hurray::CompositeSet::start(view).has_value());
        return;
    }
    if (view.shape.first_dynamic_dimension()) {
        return;
    }
    check_sizes(view, *bits);
    check_parameters(view);
    const bool dense = hurray::layout_buffer_count(view.layout, view.shape.rank()) == 1;
    if (!dense || view.shape.is_empty()) {
        return;
    }
    check_corners(view);
    if (view.shape.element_count().value_or(kMostElements + 1) <= kMostElements) {
        check_elements(view);
    }
}

}  // namespace

// Every small tensor is looked at element by element.
const hurray::fuzz::MemoryLimit hurray::fuzz::kMemoryLimit = {65536, 8, 24};

void hurray::fuzz::run_input(std::span<const std::uint8_t> input) {
    const auto bytes = with_right_head(input);
    const auto view = hurray::decode_descriptor(bytes);
    if (!view) {
        return;
    }
    const Validity validity = validate(*view);
    check_through_c(bytes, validity);
    check_parts(*view, validity);
    check_differences(*view, validity);
    check_canonical(*view, validity);
    if (!validity.format) {
        check_accepted(*view);
    } else {
        check_outside(*view, validity.format);
    }
}
