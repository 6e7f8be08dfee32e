// hurray/types.hpp stands on its own, and its numbers are those of hurray.h.
#include <hurray/types.hpp>

#include "hurray.h"

namespace {

template <class Enum>
constexpr int number(Enum value) {
    return static_cast<int>(value);
}

using hurray::DeviceTag;
using hurray::ElementType;
using hurray::LayoutTag;
using hurray::MemoryClass;
using hurray::SyncMode;

static_assert(number(ElementType::Float16) == HURRAY_TYPE_FLOAT16);
static_assert(number(ElementType::BFloat16) == HURRAY_TYPE_BFLOAT16);
static_assert(number(ElementType::Float32) == HURRAY_TYPE_FLOAT32);
static_assert(number(ElementType::Float64) == HURRAY_TYPE_FLOAT64);
static_assert(number(ElementType::Int8) == HURRAY_TYPE_INT8);
static_assert(number(ElementType::UInt8) == HURRAY_TYPE_UINT8);
static_assert(number(ElementType::Int16) == HURRAY_TYPE_INT16);
static_assert(number(ElementType::UInt16) == HURRAY_TYPE_UINT16);
static_assert(number(ElementType::Int32) == HURRAY_TYPE_INT32);
static_assert(number(ElementType::UInt32) == HURRAY_TYPE_UINT32);
static_assert(number(ElementType::Int64) == HURRAY_TYPE_INT64);
static_assert(number(ElementType::UInt64) == HURRAY_TYPE_UINT64);
static_assert(number(ElementType::Bool) == HURRAY_TYPE_BOOL);
static_assert(number(ElementType::Float8E4M3) == HURRAY_TYPE_FLOAT8_E4M3);
static_assert(number(ElementType::Float8E5M2) == HURRAY_TYPE_FLOAT8_E5M2);
static_assert(number(ElementType::Float8E8M0) == HURRAY_TYPE_FLOAT8_E8M0);
static_assert(number(ElementType::Float4E2M1) == HURRAY_TYPE_FLOAT4_E2M1);
static_assert(number(ElementType::Float6E2M3) == HURRAY_TYPE_FLOAT6_E2M3);
static_assert(number(ElementType::Float6E3M2) == HURRAY_TYPE_FLOAT6_E3M2);
static_assert(number(ElementType::Float128) == HURRAY_TYPE_FLOAT128);
static_assert(number(ElementType::Int4) == HURRAY_TYPE_INT4);
static_assert(number(ElementType::UInt4) == HURRAY_TYPE_UINT4);
static_assert(number(ElementType::Int2) == HURRAY_TYPE_INT2);
static_assert(number(ElementType::UInt2) == HURRAY_TYPE_UINT2);
static_assert(number(ElementType::Complex64) == HURRAY_TYPE_COMPLEX64);
static_assert(number(ElementType::Complex128) == HURRAY_TYPE_COMPLEX128);

static_assert(number(LayoutTag::RowMajor) == HURRAY_LAYOUT_ROW_MAJOR);
static_assert(number(LayoutTag::ColumnMajor) == HURRAY_LAYOUT_COLUMN_MAJOR);
static_assert(number(LayoutTag::Strided) == HURRAY_LAYOUT_STRIDED);
static_assert(number(LayoutTag::Tiled) == HURRAY_LAYOUT_TILED);
static_assert(number(LayoutTag::Morton) == HURRAY_LAYOUT_MORTON);
static_assert(number(LayoutTag::Coo) == HURRAY_LAYOUT_COO);
static_assert(number(LayoutTag::Csr) == HURRAY_LAYOUT_CSR);
static_assert(number(LayoutTag::Csc) == HURRAY_LAYOUT_CSC);
static_assert(number(LayoutTag::Csf) == HURRAY_LAYOUT_CSF);
static_assert(number(LayoutTag::BlockPaged) == HURRAY_LAYOUT_BLOCK_PAGED);
static_assert(number(LayoutTag::CompositeHead) == HURRAY_LAYOUT_COMPOSITE_HEAD);
static_assert(number(LayoutTag::Hilbert) == HURRAY_LAYOUT_HILBERT);

static_assert(number(DeviceTag::Cpu) == HURRAY_DEVICE_CPU);
static_assert(number(DeviceTag::Cuda) == HURRAY_DEVICE_CUDA);
static_assert(number(DeviceTag::Rocm) == HURRAY_DEVICE_ROCM);
static_assert(number(DeviceTag::Metal) == HURRAY_DEVICE_METAL);
static_assert(number(DeviceTag::Vulkan) == HURRAY_DEVICE_VULKAN);
static_assert(number(DeviceTag::WebGpu) == HURRAY_DEVICE_WEBGPU);
static_assert(number(DeviceTag::Hexagon) == HURRAY_DEVICE_HEXAGON);
static_assert(number(DeviceTag::LevelZero) == HURRAY_DEVICE_LEVEL_ZERO);
static_assert(number(DeviceTag::OpenCl) == HURRAY_DEVICE_OPENCL);

static_assert(number(SyncMode::ProducerSynced) == HURRAY_SYNC_PRODUCER_SYNCED);
static_assert(number(SyncMode::Event) == HURRAY_SYNC_EVENT);
static_assert(number(SyncMode::ConsumerStream) == HURRAY_SYNC_CONSUMER_STREAM);

static_assert(number(MemoryClass::Standard) == HURRAY_MEMORY_STANDARD);
static_assert(number(MemoryClass::HostPinned) == HURRAY_MEMORY_HOST_PINNED);
static_assert(number(MemoryClass::Unified) == HURRAY_MEMORY_UNIFIED);
static_assert(number(MemoryClass::Peer) == HURRAY_MEMORY_PEER);

static_assert(hurray::kMaxRank == HURRAY_MAX_RANK);
static_assert(hurray::kMaxBuffers == HURRAY_MAX_BUFFERS);
static_assert(hurray::kMinBufferAlignment == HURRAY_MIN_BUFFER_ALIGNMENT);
static_assert(hurray::kDynamicDim == HURRAY_DYNAMIC_DIM);

}  // namespace
