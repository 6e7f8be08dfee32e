#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <tl/expected.hpp>

#include "libhurray/base/result.hpp"

namespace hurray {

/// Every way in which a descriptor can be wrong, by the name that the format gives it.
///
/// The first group comes out of decoding, the second out of the checks beyond decoding, the third out of checking a
/// composite head against its members; the fourth names rules that the format states without naming their violation.
enum class Fault : std::uint8_t {
    InvalidMagic,
    UnsupportedDescriptorVersion,
    DescriptorTooShort,
    DescriptorTruncated,
    DescriptorLengthMismatch,
    ReservedDescriptorFlagBitsSet,
    ReservedBytesNonZero,
    EmptyBufferTable,
    RankExceedsMaximum,
    InvalidLayout,
    InvalidLayoutTag,
    ReservedLayoutTag,
    ExtensionTypeFlagMismatch,
    ExtensionTypePackingInvalid,
    ShardOutOfBounds,
    StatisticsReservedMaskBitsSet,
    AlignmentNotPowerOfTwo,
    AlignmentBelowMinimum,
    InvalidTypeTag,
    ReservedTypeTag,
    UnknownTypeTag,
    InvalidDeviceTag,
    ReservedDeviceTag,
    InvalidMemoryClass,
    ReservedMemoryClass,
    InvalidSyncMode,
    CpuSyncMode,
    SubpavingNestingTooDeep,
    ReservedCompositionRule,
    PrivateCompositionRule,
    InvalidCompositionRule,
    InvalidCombineOp,
    OpenCompositeReserved,
    CompositeHeadHasBuffers,
    CompositeHeadHasByteOffset,
    CompositeHeadHasQuantization,
    InvalidMemberRole,
    QuantizationDescriptorTooShort,
    InvalidQuantizationSchemeTag,
    UnknownQuantizationSchemeTag,
    ReservedQuantizationSchemeTag,
    PrivateQuantizationSchemeTag,
    UnsupportedSchemeVersion,
    ReservedQuantizationFlagsBits,
    InvalidQuantization,
    InvalidBlockSize,

    EmptyBufferList,
    DeviceTagMismatch,
    MemoryClassMismatch,
    InvalidShape,
    PrivateLayoutTag,
    InvalidStorageTypeForScheme,
    QuantizationAxisOutOfBounds,
    ZeroPointOutOfRange,
    QuantizationShapeMismatch,
    QuantizationBufferIndexOutOfRange,
    QuantizationBufferAliasesData,
    CompositeMemberMissingShard,
    CompositeOverlayBaseNotSpanning,
    CompositeOverlayEmpty,
    IndexRankMismatch,
    DynamicDimInIndexing,
    IndexOutOfRange,
    AddressOverflow,
    ByteAddressOverflow,
    ByteAddressNegative,
    IndexArithmeticOverflow,
    LayoutRequiresMultiBuffer,
    LayoutIsVirtual,
    CompositeMemberParentShapeMismatch,
    CompositeMemberCountMismatch,

    NotACompositeHead,
    CompositeMemberTypeMismatch,
    CompositeMemberFlagMismatch,
    CompositeOverlayBaseNotFirst,
    CompositePartitionOverlap,
    CompositePartitionGap,

    MemoryClassNotOnDevice,
    BufferCountMismatch,
    ByteOffsetPastBuffer,
    ElementsBeforeBuffer,
    ElementsPastBuffer,
    ElementsOverflow,
    InvalidStatistics,
    InvalidExtensionType,
    InvalidBoolean,
    ByteOffsetNotZero,
    BufferBelowLayout,
    ParameterBufferSize,
    StoredCountExceedsShape,
    StoredCountMismatch,
    CompositeHeadEmpty,
    BufferTooShort,
    SequenceNotGiven,
    NoElementValue,
};

/// For loops over all of them.
inline constexpr std::size_t kFaultCount = static_cast<std::size_t>(Fault::NoElementValue) + 1;

/// What is wrong with a descriptor, and where. Small and without memory of its own, so that refusing costs nothing.
struct DescriptorError {
    Fault fault = Fault::InvalidLayout;
    /// Path of the field, a literal. "[]" in it stands for `index`.
    const char* field = "";
    std::uint64_t index = 0;
    /// What the field holds, and the bound that it breaks, where the fault has one.
    std::uint64_t value = 0;
    std::uint64_t limit = 0;
};

/// The format's name of a fault, e.g. "AlignmentBelowMinimum".
[[nodiscard]] std::string_view fault_name(Fault fault) noexcept;

/// The status that a caller gets for it.
[[nodiscard]] Errc to_errc(Fault fault) noexcept;

/// A sentence that names the field, its value and the rule, e.g.
/// "buffers[0].alignment is 32, but a buffer that is not empty needs at least 64 (AlignmentBelowMinimum)".
[[nodiscard]] std::string describe(const DescriptorError& error);

/// The same failure as the `Error` of the other layers.
[[nodiscard]] Error to_error(const DescriptorError& error);

template <class T>
using DescriptorResult = tl::expected<T, DescriptorError>;

}  // namespace hurray
