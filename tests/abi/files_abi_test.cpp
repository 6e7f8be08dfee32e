// Streams and files through the C functions and their C++ face.
#include <array>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <hurray/hurray.hpp>

#include "tests/support/status_of.hpp"

namespace {

using hurray::BufferList;
using hurray::Descriptor;
using hurray::FileValue;
using hurray::Reader;
using hurray::Writer;
using hurray::test::status_of;

/// A new file in memory, closed with this object.
class MemoryFile {
  public:
    MemoryFile() : fd_(::memfd_create("hurray-test", MFD_CLOEXEC)) { EXPECT_GE(fd_, 0); }
    MemoryFile(const MemoryFile&) = delete;
    MemoryFile& operator=(const MemoryFile&) = delete;
    ~MemoryFile() { ::close(fd_); }

    [[nodiscard]] int fd() const { return fd_; }
    void rewind() const { EXPECT_EQ(::lseek(fd_, 0, SEEK_SET), 0); }

  private:
    int fd_;
};

Descriptor floats(std::uint64_t count) { return Descriptor(hurray::DenseDescriptor{.shape = {count}}.encode()); }

/// "a" with two floats, "b" with three, and values of every kind.
void write_sample(int fd) {
    const std::array<float, 3> data{1, 2, 3};
    const std::array<const void*, 1> buffers{data.data()};
    Writer writer = Writer::file(fd);
    writer.write("a", floats(2), buffers);
    writer.write("b", floats(3), buffers);
    writer.add_value("s", "text");
    writer.add_value("i", std::int64_t{-1});
    writer.add_value("u", std::numeric_limits<std::uint64_t>::max());
    writer.add_value("f", 0.25);
    writer.add_value("t", true);
    writer.add_value("y", std::vector<std::uint8_t>{0, 255});
    writer.add_value("l", std::vector<hurray::PlainValue>{"x", ""});
    writer.finish();
}

TEST(FilesAbi, WhatAFileWasGivenIsReadFromIt) {
    const MemoryFile file;
    write_sample(file.fd());
    Reader reader = Reader::file(file.fd());
    const HurrayFileInfo info = reader.file_info();
    EXPECT_EQ(info.tensor_count, 2U);
    EXPECT_EQ(info.value_count, 7U);
    EXPECT_EQ(info.data_buffer_alignment, 4096U);
    EXPECT_EQ(info.version_major, 1);
    EXPECT_EQ(info.flags, 4U);
    EXPECT_EQ(reader.name(1), "b");
    EXPECT_EQ(reader.entry(1).data_length, 12U);
    EXPECT_EQ(reader.find("b"), 1U);
    EXPECT_EQ(reader.find("c"), std::nullopt);
    EXPECT_EQ(reader.find(""), std::nullopt);
    EXPECT_EQ(reader.current(), std::nullopt);

    const Descriptor b = reader.go_to("b");
    EXPECT_EQ(b.shape(), std::vector<std::uint64_t>{3});
    EXPECT_EQ(reader.current(), 1U);
    EXPECT_EQ(reader.buffer_offset(0), reader.entry(1).data_offset);
    const BufferList buffers = reader.read_buffers();
    ASSERT_EQ(buffers.size(), 1U);
    std::array<float, 3> values{};
    ASSERT_EQ(buffers[0].byte_size(), sizeof values);
    std::memcpy(values.data(), buffers[0].data(), sizeof values);
    EXPECT_EQ(values, (std::array<float, 3>{1, 2, 3}));
    EXPECT_EQ(buffers[0].device(), hurray::DeviceTag::Cpu);

    float second = 0;
    reader.read(0, 4, std::as_writable_bytes(std::span(&second, 1)));
    EXPECT_EQ(second, 2);
    EXPECT_FALSE(reader.next());
}

TEST(FilesAbi, ValuesOfEveryKindComeBack) {
    const MemoryFile file;
    write_sample(file.fd());
    const Reader reader = Reader::file(file.fd());
    EXPECT_EQ(reader.value(0).first, "s");
    EXPECT_EQ(reader.value(0).second, FileValue("text"));
    EXPECT_EQ(reader.find_value("i"), FileValue(std::int64_t{-1}));
    EXPECT_EQ(reader.find_value("u"), FileValue(std::numeric_limits<std::uint64_t>::max()));
    EXPECT_EQ(reader.find_value("f"), FileValue(0.25));
    EXPECT_EQ(reader.find_value("t"), FileValue(true));
    EXPECT_EQ(reader.find_value("y"), FileValue(std::vector<std::uint8_t>{0, 255}));
    EXPECT_EQ(reader.find_value("l"), FileValue(std::vector<hurray::PlainValue>{"x", ""}));
    EXPECT_EQ(reader.find_value("z"), std::nullopt);
    EXPECT_EQ(status_of([&] { static_cast<void>(reader.value(7)); }), HURRAY_ERR_INDEX_OUT_OF_BOUNDS);
}

TEST(FilesAbi, AnArrayThatWasReadCanBeWritten) {
    const MemoryFile file;
    write_sample(file.fd());
    const Reader reader = Reader::file(file.fd());
    HurrayValue array{};
    ASSERT_EQ(hurray_reader_find_value(reader.get(), "l", 1, &array), HURRAY_OK);
    const MemoryFile copy;
    Writer writer = Writer::file(copy.fd());
    ASSERT_EQ(hurray_writer_add_value(writer.get(), "again", 5, &array), HURRAY_OK);
    writer.finish();
    EXPECT_EQ(Reader::file(copy.fd()).find_value("again"), reader.find_value("l"));
    array.count = 3;
    EXPECT_EQ(hurray_writer_add_value(Writer::file(MemoryFile().fd()).get(), "again", 5, &array),
              HURRAY_ERR_INVALID_ARGUMENT);
}

TEST(FilesAbi, AStreamGoesThroughAPipe) {
    std::array<int, 2> ends{};
    ASSERT_EQ(::pipe(ends.data()), 0);
    const std::array<float, 2> data{4, 5};
    const std::array<const void*, 1> buffers{data.data()};
    Writer writer = Writer::stream(ends[1]);
    writer.write(floats(2), buffers);
    EXPECT_EQ(status_of([&] { writer.write("name", floats(2), buffers); }), HURRAY_ERR_INVALID_ARGUMENT);
    EXPECT_EQ(status_of([&] { writer.add_value("k", true); }), HURRAY_ERR_UNSUPPORTED);
    writer.finish();
    ::close(ends[1]);
    Reader reader = Reader::stream(ends[0]);
    ::close(ends[0]);
    EXPECT_TRUE(reader.next());  // the writer's duplicate of the pipe is still open, and nothing is waited for
    EXPECT_EQ(status_of([&] { static_cast<void>(reader.file_info()); }), HURRAY_ERR_UNSUPPORTED);
    EXPECT_EQ(status_of([&] { static_cast<void>(reader.find("a")); }), HURRAY_ERR_UNSUPPORTED);
    BufferList list = reader.read_buffers();
    float second = 0;
    std::memcpy(&second, list[0].bytes().data() + 4, 4);
    EXPECT_EQ(second, 5);

    const MemoryFile again;
    Writer copy = Writer::stream(again.fd());
    copy.write(floats(2), list);
    copy.finish();
    again.rewind();
    Reader reader_again = Reader::stream(again.fd());
    EXPECT_TRUE(reader_again.next());
    EXPECT_FALSE(reader_again.next());
}

TEST(FilesAbi, AListThatDoesNotFitIsRefused) {
    const MemoryFile file;
    Writer writer = Writer::file(file.fd());
    std::array<float, 3> data{};
    BufferList list;
    EXPECT_EQ(status_of([&] { writer.write("a", floats(2), list); }), HURRAY_ERR_INVALID_ARGUMENT);
    list.push(hurray::Buffer(data.data(), 12));
    EXPECT_EQ(status_of([&] { writer.write("a", floats(2), list); }), HURRAY_ERR_INVALID_ARGUMENT);
    writer.write("a", floats(3), list);
    BufferList device;
    device.push(hurray::Buffer(data.data(), 12, {.device = hurray::DeviceTag::Cuda}));
    EXPECT_EQ(status_of([&] { writer.write("b", floats(3), device); }), HURRAY_ERR_UNSUPPORTED);
    EXPECT_STREQ(hurray_last_error_message(),
                 "hurray_writer_write_list: buffer 0 is in memory of device 1, which the host does not reach; copy it "
                 "first");
    BufferList pinned;
    pinned.push(hurray::Buffer(data.data(), 12,
                               {.device = hurray::DeviceTag::Cuda, .memory_class = hurray::MemoryClass::HostPinned}));
    writer.write("b", floats(3), pinned);
    EXPECT_EQ(status_of([&] { writer.write("b", floats(3), list); }), HURRAY_ERR_ALREADY_EXISTS);
    writer.finish();
    EXPECT_EQ(status_of([&] { writer.finish(); }), HURRAY_ERR_CLOSED);
}

TEST(FilesAbi, MessagesNameTheTensorAndThePlace) {
    const MemoryFile file;
    ASSERT_EQ(::write(file.fd(), "HRRY\x01\x00\x13\x00\x00\x00", 10), 10);
    file.rewind();
    Reader reader = Reader::stream(file.fd());
    EXPECT_EQ(status_of([&] { static_cast<void>(reader.next()); }), HURRAY_ERR_INVALID_LAYOUT);
    EXPECT_STREQ(hurray_last_error_message(),
                 "hurray_reader_next: tensor 0 at byte 0: descriptor_length is 19, less than the 20 bytes of the fixed "
                 "header (DescriptorTooShort)");
    EXPECT_EQ(status_of([&] { static_cast<void>(Reader::file(file.fd())); }), HURRAY_ERR_INVALID_MAGIC);
    EXPECT_EQ(status_of([] { static_cast<void>(Reader::stream(-1)); }), HURRAY_ERR_INVALID_ARGUMENT);
}

TEST(FilesAbi, OptionsAreChecked) {
    const MemoryFile file;
    HurrayReader* reader = nullptr;
    HurrayReaderOptions options = hurray::ReaderOptions{}.as_c();
    EXPECT_EQ(hurray_reader_open_stream(file.fd(), &options, &reader), HURRAY_OK);
    EXPECT_EQ(hurray_reader_destroy(&reader), HURRAY_OK);
    EXPECT_EQ(reader, nullptr);
    options.struct_size = 1;
    EXPECT_EQ(hurray_reader_open_stream(file.fd(), &options, &reader), HURRAY_ERR_INVALID_ARGUMENT);
    options = hurray::ReaderOptions{}.as_c();
    options.reserved[1] = 1;
    EXPECT_EQ(hurray_reader_open_file(file.fd(), &options, &reader), HURRAY_ERR_INVALID_ARGUMENT);
    options = hurray::ReaderOptions{}.as_c();
    options.producer_synced_only = 2;
    EXPECT_EQ(hurray_reader_open_stream(file.fd(), &options, &reader), HURRAY_ERR_INVALID_ARGUMENT);
    EXPECT_EQ(reader, nullptr);

    HurrayWriter* writer = nullptr;
    HurrayFileOptions file_options{};
    EXPECT_EQ(hurray_writer_open_file(file.fd(), &file_options, &writer), HURRAY_ERR_INVALID_ARGUMENT);
    file_options.struct_size = sizeof file_options;
    file_options.sorted_index = 2;
    EXPECT_EQ(hurray_writer_open_file(file.fd(), &file_options, &writer), HURRAY_ERR_INVALID_ARGUMENT);
    file_options.sorted_index = 1;
    file_options.reserved[6] = 1;
    EXPECT_EQ(hurray_writer_open_file(file.fd(), &file_options, &writer), HURRAY_ERR_INVALID_ARGUMENT);
    file_options.reserved[6] = 0;
    file_options.data_buffer_alignment = 1000;
    EXPECT_EQ(hurray_writer_open_file(file.fd(), &file_options, &writer), HURRAY_ERR_INVALID_ARGUMENT);
    EXPECT_EQ(writer, nullptr);
    file_options.data_buffer_alignment = 0;
    EXPECT_EQ(hurray_writer_open_file(file.fd(), &file_options, &writer), HURRAY_OK);
    EXPECT_EQ(hurray_writer_destroy(&writer), HURRAY_OK);
}

TEST(FilesAbi, NullPointersAreRefused) {
    const MemoryFile file;
    write_sample(file.fd());
    const Reader reader = Reader::file(file.fd());
    const MemoryFile target;
    const Writer writer = Writer::file(target.fd());
    const Descriptor descriptor = floats(1);
    HurrayReader* no_reader = nullptr;
    HurrayWriter* no_writer = nullptr;
    HurrayDescriptor* made = nullptr;
    HurrayBufferList* list = nullptr;
    HurrayFileEntry entry{};
    HurrayValue value{};
    std::uint64_t number = 0;
    const char* key = nullptr;
    EXPECT_EQ(hurray_reader_open_stream(file.fd(), nullptr, nullptr), HURRAY_ERR_NULL_POINTER);
    EXPECT_EQ(hurray_reader_open_file(file.fd(), nullptr, nullptr), HURRAY_ERR_NULL_POINTER);
    EXPECT_EQ(hurray_reader_destroy(nullptr), HURRAY_ERR_NULL_POINTER);
    EXPECT_EQ(hurray_reader_destroy(&no_reader), HURRAY_OK);
    EXPECT_EQ(hurray_reader_next(nullptr, &made), HURRAY_ERR_NULL_POINTER);
    EXPECT_EQ(hurray_reader_next(reader.get(), nullptr), HURRAY_ERR_NULL_POINTER);
    EXPECT_EQ(hurray_reader_read(nullptr, 0, 0, nullptr, 0), HURRAY_ERR_NULL_POINTER);
    EXPECT_EQ(hurray_reader_read(reader.get(), 0, 0, nullptr, 1), HURRAY_ERR_NULL_POINTER);
    EXPECT_EQ(hurray_reader_read_buffers(nullptr, &list), HURRAY_ERR_NULL_POINTER);
    EXPECT_EQ(hurray_reader_read_buffers(reader.get(), nullptr), HURRAY_ERR_NULL_POINTER);
    EXPECT_EQ(hurray_reader_read_buffers(reader.get(), &list), HURRAY_ERR_INVALID_ARGUMENT);  // no current tensor
    EXPECT_EQ(hurray_reader_file_info(reader.get(), nullptr), HURRAY_ERR_NULL_POINTER);
    EXPECT_EQ(hurray_reader_entry(nullptr, 0, &entry), HURRAY_ERR_NULL_POINTER);
    EXPECT_EQ(hurray_reader_entry(reader.get(), 2, &entry), HURRAY_ERR_INDEX_OUT_OF_BOUNDS);
    EXPECT_EQ(hurray_reader_find(reader.get(), nullptr, 0, &number), HURRAY_ERR_NULL_POINTER);
    EXPECT_EQ(hurray_reader_go_to(reader.get(), 2, &made), HURRAY_ERR_INDEX_OUT_OF_BOUNDS);
    EXPECT_EQ(hurray_reader_go_to(reader.get(), 0, nullptr), HURRAY_ERR_NULL_POINTER);
    EXPECT_EQ(hurray_reader_current(reader.get(), nullptr), HURRAY_ERR_NULL_POINTER);
    EXPECT_EQ(hurray_reader_buffer_offset(reader.get(), 0, &number), HURRAY_ERR_NOT_FOUND);
    EXPECT_EQ(hurray_reader_value(reader.get(), 0, nullptr, &number, &value), HURRAY_ERR_NULL_POINTER);
    EXPECT_EQ(hurray_reader_value(reader.get(), 0, &key, nullptr, &value), HURRAY_ERR_NULL_POINTER);
    EXPECT_EQ(hurray_reader_find_value(reader.get(), nullptr, 0, &value), HURRAY_ERR_NULL_POINTER);
    EXPECT_EQ(hurray_value_take_element(nullptr, &value), HURRAY_ERR_NULL_POINTER);
    EXPECT_EQ(hurray_value_take_element(&value, nullptr), HURRAY_ERR_NULL_POINTER);
    EXPECT_EQ(hurray_value_take_element(&value, &value), HURRAY_ERR_INVALID_ARGUMENT);
    value.kind = HURRAY_VALUE_ARRAY;
    EXPECT_EQ(hurray_value_take_element(&value, &value), HURRAY_ERR_NOT_FOUND);
    value.count = 1;
    value.element_kind = HURRAY_VALUE_UINT64;
    EXPECT_EQ(hurray_value_take_element(&value, &value), HURRAY_ERR_INVALID_ARGUMENT);

    EXPECT_EQ(hurray_writer_open_stream(target.fd(), nullptr), HURRAY_ERR_NULL_POINTER);
    EXPECT_EQ(hurray_writer_open_file(target.fd(), nullptr, nullptr), HURRAY_ERR_NULL_POINTER);
    EXPECT_EQ(hurray_writer_finish(nullptr), HURRAY_ERR_NULL_POINTER);
    EXPECT_EQ(hurray_writer_destroy(nullptr), HURRAY_ERR_NULL_POINTER);
    EXPECT_EQ(hurray_writer_destroy(&no_writer), HURRAY_OK);
    const void* nowhere = nullptr;
    EXPECT_EQ(hurray_writer_write(nullptr, "a", 1, descriptor.get(), &nowhere), HURRAY_ERR_NULL_POINTER);
    EXPECT_EQ(hurray_writer_write(writer.get(), nullptr, 0, descriptor.get(), &nowhere), HURRAY_ERR_NULL_POINTER);
    EXPECT_EQ(hurray_writer_write(writer.get(), "a", 1, nullptr, &nowhere), HURRAY_ERR_NULL_POINTER);
    EXPECT_EQ(hurray_writer_write(writer.get(), "a", 1, descriptor.get(), nullptr), HURRAY_ERR_NULL_POINTER);
    EXPECT_EQ(hurray_writer_write(writer.get(), "a", 1, descriptor.get(), &nowhere), HURRAY_ERR_NULL_POINTER);
    EXPECT_EQ(hurray_writer_write_list(writer.get(), "a", 1, descriptor.get(), nullptr), HURRAY_ERR_NULL_POINTER);
    EXPECT_EQ(hurray_writer_add_value(writer.get(), nullptr, 0, &value), HURRAY_ERR_NULL_POINTER);
    EXPECT_EQ(hurray_writer_add_value(writer.get(), "k", 1, nullptr), HURRAY_ERR_NULL_POINTER);
    EXPECT_EQ(hurray_writer_add_array(writer.get(), "k", 1, nullptr, 1), HURRAY_ERR_NULL_POINTER);
    value = HurrayValue{};
    value.kind = HURRAY_VALUE_BYTES;
    value.length = 1;
    EXPECT_EQ(hurray_writer_add_value(writer.get(), "k", 1, &value), HURRAY_ERR_INVALID_ARGUMENT);
}

}  // namespace
