#include "libhurray/format/owned_descriptor.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <new>
#include <type_traits>

#include "libhurray/format/descriptor_reader.hpp"

namespace hurray {

static_assert(std::is_trivially_destructible_v<OwnedDescriptor::Block>);
static_assert(alignof(OwnedDescriptor::Block) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__);

void OwnedDescriptor::Free::operator()(const Block* block) const noexcept {
    ::operator delete(const_cast<Block*>(block));
}

DescriptorResult<OwnedDescriptor> OwnedDescriptor::decode(std::span<const std::uint8_t> bytes) {
    const auto declared = declared_descriptor_length(bytes);
    if (!declared) {
        return tl::unexpected(declared.error());
    }
    const std::size_t length = std::min<std::size_t>(bytes.size(), *declared);
    auto* const memory = static_cast<std::uint8_t*>(::operator new(sizeof(Block) + length));
    auto* const block = ::new (memory) Block;
    OwnedDescriptor owned(block);
    auto* const copy = memory + sizeof(Block);
    std::memcpy(copy, bytes.data(), length);
    DescriptorError error;
    if (!decode_descriptor({copy, length}, block->view, error)) {
        return tl::unexpected(error);
    }
    return owned;
}

}  // namespace hurray
