#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include <hurray/types.hpp>

#include "libhurray/format/byte_reader.hpp"
#include "libhurray/format/byte_writer.hpp"

namespace hurray {

/// One handle of the buffer table: what a buffer is. Addresses travel separately.
struct BufferEntry {
    std::uint64_t byte_size = 0;
    std::uint32_t alignment = kMinBufferAlignment;
    DeviceTag device = DeviceTag::Cpu;
    SyncMode sync_mode = SyncMode::ProducerSynced;
    MemoryClass memory_class = MemoryClass::Standard;
};

/// What an error about a handle calls its fields.
struct BufferFieldNames {
    const char* alignment;
    const char* device;
    const char* sync_mode;
    const char* memory_class;
};

/// What decoding has against the fields of a handle, in the format's order; also the rule for buffer handles that are
/// made from separate arguments.
[[nodiscard]] std::optional<DescriptorError> check_buffer_entry(const BufferEntry& entry,
                                                                const BufferFieldNames& fields) noexcept;

/// The matrix of devices and memory classes. Decoding does not consult it.
[[nodiscard]] bool device_has_memory_class(DeviceTag device, MemoryClass memory_class) noexcept;

/// The handles of a descriptor. A loan of the encoded bytes, each handle checked.
class BufferTable {
  public:
    static constexpr std::size_t kEntrySize = 16;

    constexpr BufferTable() noexcept = default;
    /// `bytes` holds whole handles.
    constexpr explicit BufferTable(std::span<const std::uint8_t> bytes) noexcept : bytes_(bytes) {}

    [[nodiscard]] constexpr std::size_t size() const noexcept { return bytes_.size() / kEntrySize; }
    /// `index` is below size().
    [[nodiscard]] BufferEntry operator[](std::size_t index) const noexcept;
    [[nodiscard]] constexpr std::span<const std::uint8_t> bytes() const noexcept { return bytes_; }

    /// Every handle is a good one of standard memory of the host with an alignment of at least 64, and there is one.
    [[nodiscard]] bool all_in_host_memory() const noexcept;

  private:
    std::span<const std::uint8_t> bytes_;
};

/// Reads the count and that many handles, each finished before the next. `may_be_empty`: a composite head.
[[nodiscard]] BufferTable read_buffer_table(ByteReader& in, bool may_be_empty) noexcept;

void write_buffer_entry(ByteWriter& out, const BufferEntry& entry) noexcept;

}  // namespace hurray
