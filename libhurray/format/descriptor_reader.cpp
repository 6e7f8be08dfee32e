#include "libhurray/format/descriptor_reader.hpp"

#include <algorithm>
#include <cstddef>

#include "libhurray/format/byte_reader.hpp"
#include "libhurray/format/element_type.hpp"
#include "libhurray/format/quantization.hpp"

namespace hurray {
namespace {

constexpr std::uint8_t kNewestMajor = 1;

/// The walk. Each step reads one part and says whether to go on; the reader keeps what went wrong.
class Decoder {
  public:
    /// `bytes` ends where the descriptor does, or earlier; `declared_length` is what it says of itself.
    Decoder(std::span<const std::uint8_t> bytes, std::uint32_t declared_length, DescriptorView& view) noexcept
        : in_(bytes, kDescriptorPrefixSize), declared_length_(declared_length), view_(view) {
        view_.version_major = bytes[4];
        view_.version_minor = bytes[5];
    }

    [[nodiscard]] bool run(DescriptorError& error) noexcept {
        const bool good =
            header() && shape_and_offset() && layout() && buffers() && sections() && length() && across_sections();
        if (!good) {
            error = in_.error();
        }
        return good;
    }

  private:
    bool header() noexcept {
        flags_ = in_.read<std::uint32_t>("flags");
        in_.check((flags_ & ~descriptor_flags::kAll) == 0,
                  {Fault::ReservedDescriptorFlagBitsSet, "flags", 0, flags_, 0});
        type_tag_ = in_.read<std::uint8_t>("type_tag");
        if (const auto fault = check_element_type_tag(type_tag_)) {
            in_.fail({*fault, "type_tag", 0, type_tag_, 0});
        }
        view_.element_type = static_cast<ElementType>(type_tag_);
        layout_tag_ = in_.read<std::uint8_t>("layout_tag");
        return in_.ok();
    }

    bool shape_and_offset() noexcept {
        view_.shape = read_shape(in_);
        view_.byte_offset = in_.read<std::uint64_t>("byte_offset");
        return in_.ok();
    }

    bool layout() noexcept {
        view_.layout = read_layout(in_, layout_tag_, view_.shape.rank());
        in_.check(is_private_tag(type_tag_) == has(descriptor_flags::kExtensionType),
                  {Fault::ExtensionTypeFlagMismatch, "type_tag", 0, type_tag_, 0});
        return in_.ok();
    }

    bool buffers() noexcept {
        view_.buffers = read_buffer_table(in_, is(LayoutTag::CompositeHead));
        return in_.ok();
    }

    // Statistics come before the extension type, although their flag bit is the higher one.
    bool sections() noexcept {
        if (has(descriptor_flags::kQuantization)) {
            const auto length = in_.read<std::uint32_t>("quantization_length");
            view_.quantization = in_.bytes(length, "quantization");
        }
        if (has(descriptor_flags::kShard)) {
            view_.shard = read_shard(in_, view_.shape);
        }
        if (has(descriptor_flags::kStatistics)) {
            view_.statistics = read_statistics(in_);
        }
        if (has(descriptor_flags::kExtensionType)) {
            view_.extension_type = read_extension_type(in_);
        }
        if (has(descriptor_flags::kCompositeMember)) {
            view_.composite_member = read_composite_member(in_);
        }
        view_.odd_flag = in_.odd_flag();
        return in_.ok();
    }

    /// A later minor version may have appended what this one does not know.
    bool length() noexcept {
        in_.check(view_.version_minor > 0 || in_.position() == declared_length_,
                  {Fault::DescriptorLengthMismatch, "descriptor_length", 0, declared_length_, in_.position()});
        return in_.ok();
    }

    bool across_sections() noexcept {
        const bool head = is(LayoutTag::CompositeHead);
        in_.check(!head || view_.buffers.size() == 0,
                  {Fault::CompositeHeadHasBuffers, "buffer_count", 0, view_.buffers.size(), 0});
        in_.check(!head || view_.byte_offset == 0,
                  {Fault::CompositeHeadHasByteOffset, "byte_offset", 0, view_.byte_offset, 0});
        in_.check(!head || !view_.quantization, {Fault::CompositeHeadHasQuantization, "quantization", 0, 0, 0});
        const bool takes_no_shard = is(LayoutTag::BlockPaged) || is(LayoutTag::Csf);
        in_.check(!takes_no_shard || !view_.shard, {Fault::InvalidLayout, "flags", 0, flags_, 0});
        if (in_.ok() && is(LayoutTag::BlockPaged) && view_.quantization) {
            block_paged_quantization();
        }
        in_.check(!head || !view_.composite_member, {Fault::InvalidLayout, "flags", 0, flags_, 0});
        return in_.ok();
    }

    /// The one layout whose quantization decoding looks into: the parameters are paged as the values are.
    void block_paged_quantization() noexcept {
        const auto quantization = parse_quantization(*view_.quantization);
        if (!quantization) {
            in_.fail(quantization.error());
            return;
        }
        const std::uint32_t axis = quantization->axis;
        if (quantization->scheme == QuantizationScheme::PerChannel) {
            in_.check(axis != 0, {Fault::InvalidQuantization, "quantization.axis", 0, axis, 0});
        } else if (quantization->scheme == QuantizationScheme::PerBlock) {
            const std::uint32_t block_size = quantization->block_size;
            in_.check(axis == 0, {Fault::InvalidQuantization, "quantization.axis", 0, axis, 0});
            in_.check(block_size == view_.layout.as<BlockPagedLayout>()->page_size,
                      {Fault::InvalidQuantization, "quantization.block_size", 0, block_size, 0});
        }
    }

    [[nodiscard]] bool has(std::uint32_t flag) const noexcept { return (flags_ & flag) != 0; }
    [[nodiscard]] bool is(LayoutTag tag) const noexcept { return layout_tag_ == static_cast<std::uint8_t>(tag); }

    ByteReader in_;
    std::uint32_t declared_length_;
    std::uint32_t flags_ = 0;
    std::uint8_t type_tag_ = 0;
    std::uint8_t layout_tag_ = 0;
    DescriptorView& view_;
};

std::span<const std::uint8_t> front(std::span<const std::uint8_t> bytes, std::uint32_t declared_length) {
    return bytes.first(std::min<std::size_t>(bytes.size(), declared_length));
}

}  // namespace

DescriptorResult<std::uint32_t> declared_descriptor_length(std::span<const std::uint8_t> bytes) noexcept {
    if (bytes.size() < kDescriptorPrefixSize) {
        return tl::unexpected(
            DescriptorError{Fault::DescriptorTruncated, "descriptor_length", 0, kDescriptorPrefixSize, bytes.size()});
    }
    const auto magic = load_little_endian<std::uint32_t>(bytes.data());
    if (magic != kDescriptorMagic) {
        return tl::unexpected(DescriptorError{Fault::InvalidMagic, "magic", 0, magic, 0});
    }
    const std::uint8_t major = bytes[4];
    if (major > kNewestMajor) {
        return tl::unexpected(
            DescriptorError{Fault::UnsupportedDescriptorVersion, "version_major", 0, major, kNewestMajor});
    }
    const auto length = load_little_endian<std::uint32_t>(bytes.data() + 6);
    if (length < kDescriptorHeaderSize) {
        return tl::unexpected(
            DescriptorError{Fault::DescriptorTooShort, "descriptor_length", 0, length, kDescriptorHeaderSize});
    }
    return length;
}

bool decode_descriptor(std::span<const std::uint8_t> bytes, DescriptorView& view, DescriptorError& error) noexcept {
    const auto length = declared_descriptor_length(bytes);
    if (!length) {
        error = length.error();
        return false;
    }
    return Decoder(front(bytes, *length), *length, view).run(error);
}

DescriptorResult<DescriptorView> decode_descriptor(std::span<const std::uint8_t> bytes) noexcept {
    DescriptorResult<DescriptorView> result;
    DescriptorError error;
    if (!decode_descriptor(bytes, *result, error)) {
        result = tl::unexpected(error);
    }
    return result;
}

}  // namespace hurray
