#include "libhurray/format/buffer_table.hpp"

#include <array>
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

BufferTable read_buffer_table(ByteReader& in, bool may_be_empty) noexcept {
    const auto count = in.read<std::uint8_t>("buffer_count");
    in.check(count > 0 || may_be_empty, {Fault::EmptyBufferTable, "buffer_count"});
    const std::uint8_t* first = nullptr;
    for (std::size_t i = 0; i < count && in.ok(); ++i) {
        const auto bytes = in.bytes(BufferTable::kEntrySize, "buffers");
        if (!in.ok()) {
            break;
        }
        first = i == 0 ? bytes.data() : first;
        if (bytes[15] != 0) {
            in.fail({Fault::ReservedBytesNonZero, "buffers[].reserved", i});
        } else if (auto error = check_buffer_entry(BufferTable(bytes)[0], kTableFields)) {
            error->index = i;
            in.fail(*error);
        }
    }
    return in.ok() ? BufferTable({first, count * BufferTable::kEntrySize}) : BufferTable();
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
