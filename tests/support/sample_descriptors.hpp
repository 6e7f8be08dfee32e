#pragma once

#include <cstdint>
#include <vector>

#include "libhurray/format/byte_writer.hpp"
#include "libhurray/format/descriptor_view.hpp"

namespace hurray::test {

/// The first example of the written format: float32 [3,4], row-major, one CPU buffer of 48 bytes. 61 bytes.
inline std::vector<std::uint8_t> row_major_f32_3x4() {
    std::vector<std::uint8_t> bytes(61);
    ByteWriter out{std::span(bytes)};
    out.write(kDescriptorMagic);
    out.write(std::uint8_t{1});
    out.write(std::uint8_t{0});
    out.write(std::uint32_t{61});
    out.write(std::uint32_t{0});  // flags
    out.write(std::uint8_t{3});
    out.write(std::uint8_t{1});
    out.write(std::uint32_t{2});
    out.write(std::uint64_t{3});
    out.write(std::uint64_t{4});
    out.write(std::uint64_t{0});  // byte_offset
    out.write(std::uint8_t{1});
    write_buffer_entry(out, BufferEntry{48, 64, DeviceTag::Cpu, SyncMode::ProducerSynced, MemoryClass::Standard});
    return bytes;
}

/// A packed array for a view that is put together by hand; `storage` holds its bytes.
template <class T>
PackedArray<T> pack(const std::vector<T>& numbers, std::vector<std::uint8_t>& storage) {
    storage.resize(numbers.size() * sizeof(T));
    ByteWriter out{std::span(storage)};
    for (const T number : numbers) {
        out.write(number);
    }
    return PackedArray<T>(storage);
}

/// A view of a tensor that is put together by hand, with the bytes that it refers to.
struct SampleTensor {
    SampleTensor(ElementType type, const std::vector<std::uint64_t>& shape, std::vector<BufferEntry> buffers) {
        view.element_type = type;
        view.shape = Shape(pack(shape, shape_bytes));
        set_buffers(buffers);
    }
    SampleTensor(const SampleTensor&) = delete;
    SampleTensor& operator=(const SampleTensor&) = delete;

    void set_buffers(const std::vector<BufferEntry>& buffers) {
        table_bytes.resize(buffers.size() * BufferTable::kEntrySize);
        ByteWriter out{std::span(table_bytes)};
        for (const BufferEntry& entry : buffers) {
            write_buffer_entry(out, entry);
        }
        view.buffers = BufferTable(table_bytes);
    }
    void set_strides(const std::vector<std::int64_t>& strides) {
        view.layout = {LayoutTag::Strided, StridedLayout{pack(strides, stride_bytes)}};
    }

    DescriptorView view;

  private:
    std::vector<std::uint8_t> shape_bytes;
    std::vector<std::uint8_t> stride_bytes;
    std::vector<std::uint8_t> table_bytes;
};

/// A CPU buffer of `byte_size` bytes.
inline BufferEntry cpu_buffer(std::uint64_t byte_size) {
    return BufferEntry{byte_size, 64, DeviceTag::Cpu, SyncMode::ProducerSynced, MemoryClass::Standard};
}

}  // namespace hurray::test
