#include "libhurray/format/buffer_table.hpp"

#include <algorithm>
#include <bit>

#include "libhurray/format/element_type.hpp"

namespace hurray {
namespace {

constexpr std::uint8_t kHighestDevice = 0x08;
constexpr std::uint8_t kHighestMemoryClass = 0x03;
constexpr std::uint8_t kHighestSyncMode = 0x02;

constexpr BufferFieldNames kTableFields{"buffers[].alignment", "buffers[].device_tag", "buffers[].sync_mode",
                                        "buffers[].memory_class"};

bool is_reserved(std::uint8_t tag, std::uint8_t highest) { return tag > highest && tag < 0xF0; }

}  // namespace

std::optional<DescriptorError> check_buffer_entry(const BufferEntry& entry, const BufferFieldNames& fields) noexcept {
    const auto device = static_cast<std::uint8_t>(entry.device);
    if (is_reserved(device, kHighestDevice)) {
        return DescriptorError{Fault::ReservedDeviceTag, fields.device, 0, device, 0};
    }
    if (device == 0xFF) {
        return DescriptorError{Fault::InvalidDeviceTag, fields.device, 0, device, 0};
    }
    const auto sync_mode = static_cast<std::uint8_t>(entry.sync_mode);
    if (sync_mode > kHighestSyncMode) {
        return DescriptorError{Fault::InvalidSyncMode, fields.sync_mode, 0, sync_mode, kHighestSyncMode};
    }
    const auto memory_class = static_cast<std::uint8_t>(entry.memory_class);
    if (is_reserved(memory_class, kHighestMemoryClass)) {
        return DescriptorError{Fault::ReservedMemoryClass, fields.memory_class, 0, memory_class, 0};
    }
    if (memory_class == 0xFF) {
        return DescriptorError{Fault::InvalidMemoryClass, fields.memory_class, 0, memory_class, 0};
    }
    if (!std::has_single_bit(entry.alignment)) {
        return DescriptorError{Fault::AlignmentNotPowerOfTwo, fields.alignment, 0, entry.alignment, 0};
    }
    if (entry.byte_size > 0 && entry.alignment < kMinBufferAlignment) {
        return DescriptorError{Fault::AlignmentBelowMinimum, fields.alignment, 0, entry.alignment, kMinBufferAlignment};
    }
    if (entry.device == DeviceTag::Cpu && entry.sync_mode != SyncMode::ProducerSynced) {
        return DescriptorError{Fault::CpuSyncMode, fields.sync_mode, 0, sync_mode, 0};
    }
    return std::nullopt;
}

bool device_has_memory_class(DeviceTag device, MemoryClass memory_class) noexcept {
    const auto device_tag = static_cast<std::uint8_t>(device);
    if (is_private_tag(device_tag)) {
        return memory_class == MemoryClass::Standard || is_private_tag(static_cast<std::uint8_t>(memory_class));
    }
    switch (memory_class) {
        case MemoryClass::Standard:
            return true;
        case MemoryClass::HostPinned:
        case MemoryClass::Unified:
            return device != DeviceTag::WebGpu;
        case MemoryClass::Peer:
            return device == DeviceTag::Cuda || device == DeviceTag::Rocm || device == DeviceTag::Vulkan ||
                   device == DeviceTag::LevelZero;
    }
    return false;  // a private class, which belongs to private devices
}

BufferEntry BufferTable::operator[](std::size_t index) const noexcept {
    const std::uint8_t* at = bytes_.data() + index * kEntrySize;
    return BufferEntry{load_little_endian<std::uint64_t>(at), load_little_endian<std::uint32_t>(at + 8),
                       static_cast<DeviceTag>(at[12]), static_cast<SyncMode>(at[13]), static_cast<MemoryClass>(at[14])};
}

namespace {

/// Whether an encoded handle is of standard host memory and aligned as buffers are that are not empty.
bool is_usual(const std::uint8_t* handle) noexcept {
    // Not std::has_single_bit(), which counts bits by a call on the oldest x86-64.
    const auto alignment = load_little_endian<std::uint32_t>(handle + 8);
    const bool aligned = (alignment & (alignment - 1)) == 0 && alignment >= kMinBufferAlignment;
    // Device, sync mode, memory class and the reserved byte.
    return aligned && load_little_endian<std::uint32_t>(handle + 12) == 0;
}

/// Whether decoding has nothing against an encoded handle.
bool is_good(const std::uint8_t* handle) noexcept {
    if (is_usual(handle)) [[likely]] {
        return true;
    }
    const BufferTable one({handle, BufferTable::kEntrySize});
    return handle[15] == 0 && !check_buffer_entry(one[0], kTableFields);
}

/// Why is_good() says no.
[[gnu::cold, gnu::noinline]] DescriptorError what_is_wrong(const std::uint8_t* handle, std::size_t index) noexcept {
    if (handle[15] != 0) {
        return {Fault::ReservedBytesNonZero, "buffers[].reserved", index};
    }
    const BufferTable one({handle, BufferTable::kEntrySize});
    DescriptorError error = *check_buffer_entry(one[0], kTableFields);
    error.index = index;
    return error;
}

}  // namespace

bool BufferTable::all_in_host_memory() const noexcept {
    for (std::size_t at = 0; at < bytes_.size(); at += kEntrySize) {
        if (!is_usual(bytes_.data() + at)) {
            return false;
        }
    }
    return !bytes_.empty();
}

BufferTable read_buffer_table(ByteReader& in, bool may_be_empty) noexcept {
    const auto count = in.read<std::uint8_t>("buffer_count");
    in.check(count > 0 || may_be_empty, Fault::EmptyBufferTable, "buffer_count");
    // Each handle is finished before the next is read, so one that is wrong comes before one that is missing.
    const std::size_t complete = std::min<std::size_t>(count, in.left() / BufferTable::kEntrySize);
    const BufferTable table(in.bytes(complete * BufferTable::kEntrySize, "buffers"));
    for (std::size_t i = 0; i < table.size(); ++i) {
        const std::uint8_t* const handle = table.bytes().data() + i * BufferTable::kEntrySize;
        if (!is_good(handle)) [[unlikely]] {
            in.fail(what_is_wrong(handle, i));
            return {};
        }
    }
    if (complete < count) [[unlikely]] {
        static_cast<void>(in.bytes(BufferTable::kEntrySize, "buffers"));
        return {};
    }
    return table;
}

void write_buffer_entry(ByteWriter& out, const BufferEntry& entry) noexcept {
    out.write(entry.byte_size);
    out.write(entry.alignment);
    out.write(static_cast<std::uint8_t>(entry.device));
    out.write(static_cast<std::uint8_t>(entry.sync_mode));
    out.write(static_cast<std::uint8_t>(entry.memory_class));
    out.zeros(1);
}

}  // namespace hurray
