#include "libhurray/format/descriptor_error.hpp"

#include <array>
#include <charconv>
#include <cstddef>

namespace hurray {
namespace {

/// `text` is a sentence in which {f} is the field, {v} the value ({x} in hexadecimal, {i} signed) and
/// {l} the limit.
struct FaultInfo {
    Fault fault;
    std::string_view name;
    Errc errc;
    std::string_view text;
};

constexpr std::array kFaults{
    FaultInfo{Fault::InvalidMagic, "InvalidMagic", Errc::InvalidMagic,
              "the first four bytes, read as a number, are {x}, not \"HRRY\""},
    FaultInfo{Fault::UnsupportedDescriptorVersion, "UnsupportedDescriptorVersion", Errc::VersionMismatch,
              "{f} is {v}, this library knows {l}"},
    FaultInfo{Fault::DescriptorTooShort, "DescriptorTooShort", Errc::InvalidLayout,
              "{f} is {v}, less than the {l} bytes of the fixed header"},
    FaultInfo{Fault::DescriptorTruncated, "DescriptorTruncated", Errc::InvalidLayout,
              "{f} would end at byte {v}, but the descriptor has {l} bytes"},
    FaultInfo{Fault::DescriptorLengthMismatch, "DescriptorLengthMismatch", Errc::InvalidLayout,
              "{f} is {v}, but the parts take {l} bytes"},
    FaultInfo{Fault::ReservedDescriptorFlagBitsSet, "ReservedDescriptorFlagBitsSet", Errc::InvalidLayout,
              "{f} is {x}, with reserved bits set"},
    FaultInfo{Fault::ReservedBytesNonZero, "ReservedBytesNonZero", Errc::InvalidLayout, "{f} is not zero"},
    FaultInfo{Fault::EmptyBufferTable, "EmptyBufferTable", Errc::InvalidLayout,
              "{f} is 0, and only a composite head has no buffers"},
    FaultInfo{Fault::RankExceedsMaximum, "RankExceedsMaximum", Errc::InvalidLayout, "{f} is {v}, the maximum is {l}"},
    FaultInfo{Fault::InvalidLayout, "InvalidLayout", Errc::InvalidLayout,
              "{f} is {v}, which its layout does not allow"},
    FaultInfo{Fault::InvalidLayoutTag, "InvalidLayoutTag", Errc::InvalidLayout, "{f} is {x}, which is never valid"},
    FaultInfo{Fault::ReservedLayoutTag, "ReservedLayoutTag", Errc::InvalidLayout, "{f} is {x}, which is reserved"},
    FaultInfo{Fault::ExtensionTypeFlagMismatch, "ExtensionTypeFlagMismatch", Errc::InvalidLayout,
              "{f} is {x}: exactly the private types F0 to FE have an extension type section"},
    FaultInfo{Fault::ExtensionTypePackingInvalid, "ExtensionTypePackingInvalid", Errc::InvalidLayout,
              "{f} is {v}, which does not go with a width of {l} bits"},
    FaultInfo{Fault::ShardOutOfBounds, "ShardOutOfBounds", Errc::InvalidLayout,
              "{f} plus the dimension is {v}, past the parent's {l}"},
    FaultInfo{Fault::StatisticsReservedMaskBitsSet, "StatisticsReservedMaskBitsSet", Errc::InvalidLayout,
              "{f} is {x}, with reserved bits set"},
    FaultInfo{Fault::AlignmentNotPowerOfTwo, "AlignmentNotPowerOfTwo", Errc::InvalidLayout,
              "{f} is {v}, not a power of two"},
    FaultInfo{Fault::AlignmentBelowMinimum, "AlignmentBelowMinimum", Errc::InvalidLayout,
              "{f} is {v}, but a buffer that is not empty needs at least {l}"},
    FaultInfo{Fault::InvalidTypeTag, "InvalidTypeTag", Errc::InvalidType, "{f} is {x}, which is never valid"},
    FaultInfo{Fault::ReservedTypeTag, "ReservedTypeTag", Errc::InvalidType, "{f} is {x}, which is reserved"},
    FaultInfo{Fault::UnknownTypeTag, "UnknownTypeTag", Errc::InvalidType, "{f} is {x}, which names no element type"},
    FaultInfo{Fault::InvalidDeviceTag, "InvalidDeviceTag", Errc::InvalidType, "{f} is {x}, which is never valid"},
    FaultInfo{Fault::ReservedDeviceTag, "ReservedDeviceTag", Errc::InvalidType, "{f} is {x}, which is reserved"},
    FaultInfo{Fault::InvalidMemoryClass, "InvalidMemoryClass", Errc::InvalidType, "{f} is {x}, which is never valid"},
    FaultInfo{Fault::ReservedMemoryClass, "ReservedMemoryClass", Errc::InvalidType, "{f} is {x}, which is reserved"},
    FaultInfo{Fault::InvalidSyncMode, "InvalidSyncMode", Errc::InvalidSyncMode, "{f} is {v}, the highest is {l}"},
    FaultInfo{Fault::CpuSyncMode, "InvalidSyncMode", Errc::InvalidSyncMode,
              "{f} is {v}, but CPU buffers are always producer-synced (0)"},
    FaultInfo{Fault::SubpavingNestingTooDeep, "SubpavingNestingTooDeep", Errc::Internal,
              "{f} has level {v}, the maximum is {l}"},
    FaultInfo{Fault::ReservedCompositionRule, "ReservedCompositionRule", Errc::Internal,
              "{f} is {x}, which is reserved"},
    FaultInfo{Fault::PrivateCompositionRule, "PrivateCompositionRule", Errc::Internal, "{f} is {x}, which is private"},
    FaultInfo{Fault::InvalidCompositionRule, "InvalidCompositionRule", Errc::Internal,
              "{f} is {x}, which is never valid"},
    FaultInfo{Fault::InvalidCombineOp, "InvalidCombineOp", Errc::Internal,
              "{f} is {v}, which does not go with composition rule {l}"},
    FaultInfo{Fault::OpenCompositeReserved, "OpenCompositeReserved", Errc::Internal,
              "{f} is {x}, which is reserved for open composites"},
    FaultInfo{Fault::CompositeHeadHasBuffers, "CompositeHeadHasBuffers", Errc::Internal,
              "{f} is {v}, but a composite head has no buffers"},
    FaultInfo{Fault::CompositeHeadHasByteOffset, "CompositeHeadHasByteOffset", Errc::Internal,
              "{f} is {v}, but a composite head has no data to point into"},
    FaultInfo{Fault::CompositeHeadHasQuantization, "CompositeHeadHasQuantization", Errc::Internal,
              "{f} is there, but a composite head is not quantized"},
    FaultInfo{Fault::InvalidMemberRole, "InvalidMemberRole", Errc::Internal, "{f} is {v}, the highest is {l}"},
    FaultInfo{Fault::QuantizationDescriptorTooShort, "QuantizationDescriptorTooShort", Errc::Internal,
              "{f} has {v} bytes, at least {l} are needed"},
    FaultInfo{Fault::InvalidQuantizationSchemeTag, "InvalidQuantizationSchemeTag", Errc::Internal,
              "{f} is {x}, which is never valid"},
    FaultInfo{Fault::UnknownQuantizationSchemeTag, "UnknownQuantizationSchemeTag", Errc::Internal,
              "{f} is {x}, which names no scheme"},
    FaultInfo{Fault::ReservedQuantizationSchemeTag, "ReservedQuantizationSchemeTag", Errc::Internal,
              "{f} is {x}, which is reserved"},
    FaultInfo{Fault::PrivateQuantizationSchemeTag, "PrivateQuantizationSchemeTag", Errc::Internal,
              "{f} is {x}, which is private"},
    FaultInfo{Fault::UnsupportedSchemeVersion, "UnsupportedSchemeVersion", Errc::Internal,
              "{f} is {v}, this library knows {l}"},
    FaultInfo{Fault::ReservedQuantizationFlagsBits, "ReservedQuantizationFlagsBits", Errc::Internal,
              "{f} is {x}, with bits that the scheme does not define"},
    FaultInfo{Fault::InvalidQuantization, "InvalidQuantization", Errc::Internal,
              "{f} is {x}, which its scheme or layout does not allow"},
    FaultInfo{Fault::InvalidBlockSize, "InvalidBlockSize", Errc::Internal,
              "{f} is {v}, which is no power of two in the scheme's range"},
    FaultInfo{Fault::EmptyBufferList, "EmptyBufferList", Errc::Internal, "{f} is empty"},
    FaultInfo{Fault::DeviceTagMismatch, "DeviceTagMismatch", Errc::Internal,
              "{f} is {x}, but buffer 0 is on device {l}; all buffers of a tensor share one device"},
    FaultInfo{Fault::MemoryClassMismatch, "MemoryClassMismatch", Errc::Internal,
              "{f} is {x}, but that of buffer 0 is {l}; all buffers of a tensor share one memory class"},
    FaultInfo{Fault::InvalidShape, "InvalidShape", Errc::InvalidLayout,
              "{f} is dynamic, where its size has to be known"},
    FaultInfo{Fault::PrivateLayoutTag, "PrivateLayoutTag", Errc::InvalidLayout,
              "{f} is {x}, a private layout that this library doesn't know"},
    FaultInfo{Fault::InvalidStorageTypeForScheme, "InvalidStorageTypeForScheme", Errc::Internal,
              "{f} is {x}, which quantization scheme {l} does not store"},
    FaultInfo{Fault::QuantizationAxisOutOfBounds, "QuantizationAxisOutOfBounds", Errc::Internal,
              "{f} is {v}, but the tensor has {l} dimensions"},
    FaultInfo{Fault::ZeroPointOutOfRange, "ZeroPointOutOfRange", Errc::Internal,
              "{f} is {i}, which the storage type can't hold"},
    FaultInfo{Fault::QuantizationShapeMismatch, "QuantizationShapeMismatch", Errc::Internal,
              "{f} is {v}, which does not go with an axis of {l} elements"},
    FaultInfo{Fault::QuantizationBufferIndexOutOfRange, "QuantizationBufferIndexOutOfRange", Errc::Internal,
              "{f} is {v}, but there are {l} buffers"},
    FaultInfo{Fault::QuantizationBufferAliasesData, "QuantizationBufferAliasesData", Errc::Internal,
              "{f} is {v}, one of the {l} buffers of the layout itself"},
    FaultInfo{Fault::CompositeMemberMissingShard, "CompositeMemberMissingShard", Errc::Internal,
              "{f} is there, but no shard section: such a member is a box of its head"},
    FaultInfo{Fault::CompositeOverlayBaseNotSpanning, "CompositeOverlayBaseNotSpanning", Errc::Internal,
              "{f} is {v}, not {l}: the base of an overlay spans its whole head"},
    FaultInfo{Fault::CompositeOverlayEmpty, "CompositeOverlayEmpty", Errc::Internal,
              "{f} is 0, but an overlay has at least its base"},
    FaultInfo{Fault::IndexRankMismatch, "IndexRankMismatch", Errc::Internal,
              "{f} has {v} components, the tensor has {l} dimensions"},
    FaultInfo{Fault::DynamicDimInIndexing, "DynamicDimInIndexing", Errc::Internal,
              "{f} is dynamic; elements have addresses when all sizes are known"},
    FaultInfo{Fault::IndexOutOfRange, "IndexOutOfRange", Errc::Internal, "{f} is {v}, there are {l}"},
    FaultInfo{Fault::AddressOverflow, "AddressOverflow", Errc::Internal, "the address of {f} does not fit 64 bits"},
    FaultInfo{Fault::ByteAddressOverflow, "ByteAddressOverflow", Errc::Internal,
              "the element begins at byte {v} of {f}, which has {l}"},
    FaultInfo{Fault::ByteAddressNegative, "ByteAddressOverflow", Errc::Internal,
              "the element begins {v} bytes before {f}"},
    FaultInfo{Fault::IndexArithmeticOverflow, "IndexArithmeticOverflow", Errc::Internal,
              "{f} makes element offsets of {v} bits, the maximum is {l}"},
    FaultInfo{Fault::LayoutRequiresMultiBuffer, "LayoutRequiresMultiBuffer", Errc::Internal,
              "{f} is {x}: where its elements lie is known from the contents of its buffers"},
    FaultInfo{Fault::LayoutIsVirtual, "LayoutIsVirtual", Errc::Internal,
              "{f} is {x}: a composite head has no elements of its own"},
    FaultInfo{Fault::CompositeMemberParentShapeMismatch, "CompositeMemberParentShapeMismatch", Errc::Internal,
              "{f} has the parent dimension {v}, the composite head has {l}"},
    FaultInfo{Fault::CompositeMemberCountMismatch, "CompositeMemberCountMismatch", Errc::Internal,
              "{f} are {v}, the composite head names {l}"},
    FaultInfo{Fault::NotACompositeHead, "InvalidLayout", Errc::InvalidLayout,
              "{f} is {x}, which is not a composite head ({l})"},
    FaultInfo{Fault::CompositeMemberTypeMismatch, "CompositeMemberTypeMismatch", Errc::Internal,
              "{f} is {v}, that of the head is {l}; a member that is not quantized has the type of its head"},
    FaultInfo{Fault::CompositeMemberFlagMismatch, "CompositeMemberFlagMismatch", Errc::Internal,
              "{f}: the members of an overlay have this section, and no others"},
    FaultInfo{Fault::CompositeOverlayBaseNotFirst, "CompositeOverlayBaseNotFirst", Errc::Internal,
              "{f} is {v}, not {l}: the first member of an overlay is its base (1), every later one a correction (0)"},
    FaultInfo{Fault::CompositePartitionOverlap, "CompositePartitionOverlap", Errc::Internal,
              "the box of {f} overlaps that of members[{v}]"},
    FaultInfo{Fault::CompositePartitionGap, "CompositePartitionGap", Errc::Internal,
              "{f} holds {v} elements, but the members' boxes together {l}"},
    FaultInfo{Fault::MemoryClassNotOnDevice, "MemoryClassNotOnDevice", Errc::InvalidType,
              "{f} is {x}, which device {l} does not have"},
    FaultInfo{Fault::BufferCountMismatch, "BufferCountMismatch", Errc::InvalidLayout,
              "{f} is {v}, this layout has {l}"},
    FaultInfo{Fault::ByteOffsetPastBuffer, "ByteOffsetPastBuffer", Errc::InvalidLayout,
              "{f} is {v}, past the {l} bytes of buffer 0"},
    FaultInfo{Fault::ElementsBeforeBuffer, "ElementsBeforeBuffer", Errc::InvalidLayout,
              "{f} is {v}, but the strides reach further than that below it"},
    FaultInfo{Fault::ElementsPastBuffer, "ElementsPastBuffer", Errc::InvalidLayout,
              "{f} is {v}, but offset and elements need {l} bytes"},
    FaultInfo{Fault::ElementsOverflow, "ElementsOverflow", Errc::InvalidLayout,
              "{f} asks for more bytes than a 64-bit size can count"},
    FaultInfo{Fault::InvalidStatistics, "InvalidStatistics", Errc::InvalidLayout,
              "{f} contradicts what the statistic means"},
    FaultInfo{Fault::InvalidExtensionType, "InvalidExtensionType", Errc::InvalidLayout,
              "{f} is {v}, which contradicts the rest of the extension type"},
    FaultInfo{Fault::InvalidBoolean, "InvalidBoolean", Errc::InvalidLayout, "{f} is {v}, neither 0 nor 1"},
    FaultInfo{Fault::ByteOffsetNotZero, "ByteOffsetNotZero", Errc::InvalidLayout,
              "{f} is {v}, but the values of this layout begin at the start of buffer 0"},
    FaultInfo{Fault::BufferBelowLayout, "BufferBelowLayout", Errc::InvalidLayout,
              "{f} is {v}, but the layout needs {l} bytes in it"},
    FaultInfo{Fault::ParameterBufferSize, "ParameterBufferSize", Errc::InvalidLayout,
              "{f} is {v}, but the parameters of the quantization take exactly {l} bytes"},
    FaultInfo{Fault::StoredCountExceedsShape, "StoredCountExceedsShape", Errc::InvalidLayout,
              "{f} is {v}, but the shape has {l} elements"},
    FaultInfo{Fault::StoredCountMismatch, "StoredCountMismatch", Errc::InvalidLayout,
              "{f} is {v}, but the layout stores {l} elements"},
    FaultInfo{Fault::CompositeHeadEmpty, "CompositeHeadEmpty", Errc::InvalidLayout,
              "{f} is 0, but a composite has members"},
    FaultInfo{Fault::BufferTooShort, "BufferTooShort", Errc::InvalidLayout, "{f} has {v} bytes, its contents take {l}"},
    FaultInfo{Fault::SequenceNotGiven, "SequenceNotGiven", Errc::InvalidArgument,
              "{f} is {v}: an index without a sequence says where an element is only if there is one sequence"},
    FaultInfo{Fault::NoElementValue, "NoElementValue", Errc::Unsupported,
              "{f} is {x}, and nothing says what number an element of it is"},
};

constexpr bool table_follows_the_enumeration() {
    for (std::size_t i = 0; i < kFaults.size(); ++i) {
        if (kFaults[i].fault != static_cast<Fault>(i)) {
            return false;
        }
    }
    return kFaults.size() == kFaultCount;
}
static_assert(table_follows_the_enumeration());

const FaultInfo& info(Fault fault) { return kFaults[static_cast<std::size_t>(fault)]; }

std::string hexadecimal(std::uint64_t value) {
    std::array<char, 16> digits{};
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value, 16).ptr;
    return "0x" + std::string(digits.data(), end);
}

std::string field_path(const DescriptorError& error) {
    std::string path = error.field;
    if (const auto brackets = path.find("[]"); brackets != std::string::npos) {
        path.insert(brackets + 1, std::to_string(error.index));
    }
    return path;
}

}  // namespace

std::string_view fault_name(Fault fault) noexcept { return info(fault).name; }

Errc to_errc(Fault fault) noexcept { return info(fault).errc; }

std::string describe(const DescriptorError& error) {
    std::string sentence;
    std::string_view text = info(error.fault).text;
    for (auto brace = text.find('{'); brace != std::string_view::npos; brace = text.find('{')) {
        sentence += text.substr(0, brace);
        switch (text[brace + 1]) {
            case 'f':
                sentence += field_path(error);
                break;
            case 'v':
                sentence += std::to_string(error.value);
                break;
            case 'x':
                sentence += hexadecimal(error.value);
                break;
            case 'i':
                sentence += std::to_string(static_cast<std::int64_t>(error.value));
                break;
            default:
                sentence += std::to_string(error.limit);
                break;
        }
        text.remove_prefix(brace + 3);
    }
    sentence += text;
    sentence += " (";
    sentence += fault_name(error.fault);
    sentence += ')';
    return sentence;
}

Error to_error(const DescriptorError& error) {
    return Error{to_errc(error.fault), describe(error), field_path(error), 0, {}, 0, 0, 0};
}

}  // namespace hurray
