#pragma once

#include <cstddef>
#include <cstdint>

/// The one-byte tag spaces and the limits of the descriptor format, as C++ types.
///
/// Each tag space also has values F0 to FE for private agreements; they are carried as such values of the enumeration,
/// without an enumerator. The numbers are those of the HURRAY_* constants in hurray.h.
namespace hurray {

/// What one element is. Types below 8 bits are packed, the first element in the lowest bits.
enum class ElementType : std::uint8_t {
    Float16 = 0x01,
    BFloat16 = 0x02,
    Float32 = 0x03,
    Float64 = 0x04,
    Int8 = 0x10,
    UInt8 = 0x11,
    Int16 = 0x12,
    UInt16 = 0x13,
    Int32 = 0x14,
    UInt32 = 0x15,
    Int64 = 0x16,
    UInt64 = 0x17,
    Bool = 0x20,
    Float8E4M3 = 0x40,
    Float8E5M2 = 0x41,
    Float8E8M0 = 0x42,
    Float4E2M1 = 0x43,
    Float6E2M3 = 0x44,
    Float6E3M2 = 0x45,
    Float128 = 0x46,
    Int4 = 0x48,
    UInt4 = 0x49,
    Int2 = 0x4A,
    UInt2 = 0x4B,
    Complex64 = 0x50,
    Complex128 = 0x51,
};

/// How elements are arranged over the buffers.
enum class LayoutTag : std::uint8_t {
    RowMajor = 0x01,
    ColumnMajor = 0x02,
    Strided = 0x03,
    Tiled = 0x04,
    Morton = 0x05,
    Coo = 0x06,
    Csr = 0x07,
    Csc = 0x08,
    Csf = 0x09,
    BlockPaged = 0x0A,
    CompositeHead = 0x0B,
    Hilbert = 0x40,
};

/// Whose memory a buffer is.
enum class DeviceTag : std::uint8_t {
    Cpu = 0x00,
    Cuda = 0x01,
    Rocm = 0x02,
    Metal = 0x03,
    Vulkan = 0x04,
    WebGpu = 0x05,
    Hexagon = 0x06,
    LevelZero = 0x07,
    OpenCl = 0x08,
};

/// Who has to wait for the producer's writes. CPU buffers are always producer-synced.
enum class SyncMode : std::uint8_t { ProducerSynced = 0x00, Event = 0x01, ConsumerStream = 0x02 };

/// Who reaches a buffer without a copy.
enum class MemoryClass : std::uint8_t { Standard = 0x00, HostPinned = 0x01, Unified = 0x02, Peer = 0x03 };

inline constexpr std::size_t kMaxRank = 64;
inline constexpr std::size_t kMaxBuffers = 255;
inline constexpr std::uint32_t kMinBufferAlignment = 64;
/// A dimension whose size is not known yet.
inline constexpr std::uint64_t kDynamicDim = UINT64_MAX;

}  // namespace hurray
