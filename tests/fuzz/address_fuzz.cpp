// A descriptor, and behind it an index and the contents of the buffers, as somebody hostile may have made them: looking an
// element up and reading it reads nothing outside the buffers, ends, and gives an address inside the buffer.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "libhurray/base/check.hpp"
#include "libhurray/format/composite_lookup.hpp"
#include "libhurray/format/descriptor_reader.hpp"
#include "libhurray/format/read_element.hpp"
#include "tests/fuzz/fuzz_input.hpp"
#include "tests/fuzz/fuzz_target.hpp"

namespace {

using hurray::DescriptorView;
using hurray::ElementAddress;
using hurray::fuzz::FuzzInput;

/// One component a dimension, inside the shape where it can be.
std::vector<std::uint64_t> read_index(FuzzInput& rest, const hurray::Shape& shape) {
    std::vector<std::uint64_t> index(shape.rank());
    for (std::size_t k = 0; k < index.size(); ++k) {
        const std::uint64_t number = rest.number();
        index[k] = shape[k] == 0 ? number : number % shape[k];
    }
    return index;
}

/// Each in memory of its own, so that the sanitizer knows where it ends.
std::vector<std::vector<std::uint8_t>> read_buffers(FuzzInput& rest, const DescriptorView& view) {
    std::vector<std::vector<std::uint8_t>> buffers;
    // Values are never looked into here: their bytes need not be in the input.
    for (std::size_t i = 0; i < view.buffers.size(); ++i) {
        const auto content =
            rest.take(i == 0 ? std::min<std::uint64_t>(view.buffers[i].byte_size, 256) : view.buffers[i].byte_size);
        buffers.emplace_back(content.begin(), content.end());
    }
    return buffers;
}

void check_address(const DescriptorView& view, hurray::BufferBytes buffers, const ElementAddress& address) {
    HURRAY_CHECK(address.buffer < view.buffers.size());
    HURRAY_CHECK(address.byte < view.buffers[address.buffer].byte_size);
    HURRAY_CHECK(address.byte < buffers[address.buffer].size());
    HURRAY_CHECK(address.bit + std::uint64_t{address.storage.bits} <= std::uint64_t{8} * address.storage.group_bytes);
}

/// The tensor as the only member of its parent, which has the same layout: a composite of composites, as it were.
void look_into_composite(const DescriptorView& view, const std::vector<std::uint64_t>& index) {
    const DescriptorView* const member = &view;
    const auto found = hurray::find_member(view, std::span(&member, 1), index, 1);
    if (found && *found) {
        for (std::size_t k = 0; k < index.size(); ++k) {
            HURRAY_CHECK((*found)->index[k] < view.shape[k]);
        }
    }
}

}  // namespace

// The contents of the buffers once more, and a byte for each component of an index.
const hurray::fuzz::MemoryLimit hurray::fuzz::kMemoryLimit = {4096, 8, 16};

void hurray::fuzz::run_input(std::span<const std::uint8_t> input) {
    const auto length = hurray::declared_descriptor_length(input);
    const auto view = hurray::decode_descriptor(input);
    if (!length || !view) {
        return;
    }
    FuzzInput rest(input.subspan(std::min<std::size_t>(*length, input.size())));
    const auto index = read_index(rest, view->shape);
    const hurray::PagedIndex paged{rest.number(), rest.number(), rest.number(), rest.number()};
    const auto contents = read_buffers(rest, *view);
    const std::vector<std::span<const std::uint8_t>> buffers(contents.begin(), contents.end());

    if (const auto address = hurray::element_address(*view, index)) {
        HURRAY_CHECK(address->byte < view->buffers[0].byte_size);
    } else {
        HURRAY_CHECK(!hurray::describe(address.error()).empty());
    }
    const auto found = hurray::find_element(*view, buffers, index);
    if (found && *found) {
        check_address(*view, buffers, **found);
    }
    if (const auto element = hurray::find_paged_element(*view, buffers, paged)) {
        check_address(*view, buffers, element->address);
    }
    static_cast<void>(hurray::read_element(*view, buffers, index));
    static_cast<void>(hurray::read_paged_element(*view, buffers, paged));
    look_into_composite(*view, index);
}
