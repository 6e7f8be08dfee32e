// The structures of DLPack's public ABI, as far as CPU tensors need them.
#pragma once

#include <cstdint>

namespace hurray_python::dlpack {

constexpr std::uint32_t kMajor = 1;
constexpr std::uint32_t kMinor = 1;  // the first with 8-bit floats

constexpr std::int32_t kCpu = 1;

enum TypeCode : std::uint8_t {
    kInt = 0,
    kUInt = 1,
    kFloat = 2,
    kBfloat = 4,
    kComplex = 5,
    kFloat8E4M3FN = 10,
    kFloat8E5M2 = 12,
    kFloat8E8M0FNU = 14,
};

constexpr std::uint64_t kReadOnly = 1u << 0;
constexpr std::uint64_t kCopied = 1u << 1;

struct Device {
    std::int32_t type;
    std::int32_t id;
};

struct DataType {
    std::uint8_t code;
    std::uint8_t bits;
    std::uint16_t lanes;
};

struct Tensor {
    void* data;
    Device device;
    std::int32_t ndim;
    DataType dtype;
    std::int64_t* shape;
    std::int64_t* strides;  // in elements
    std::uint64_t byte_offset;
};

/// What a capsule named "dltensor" holds. Whoever takes it over renames the capsule and calls `deleter` once.
struct ManagedTensor {
    Tensor tensor;
    void* manager_context;
    void (*deleter)(ManagedTensor*);
};

struct Version {
    std::uint32_t major;
    std::uint32_t minor;
};

/// What a capsule named "dltensor_versioned" holds.
struct ManagedTensorVersioned {
    Version version;
    void* manager_context;
    void (*deleter)(ManagedTensorVersioned*);
    std::uint64_t flags;
    Tensor tensor;
};

}  // namespace hurray_python::dlpack
