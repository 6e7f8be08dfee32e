#include "libhurray/container/file_writer.hpp"

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "libhurray/container/file_reader.hpp"
#include "libhurray/format/descriptor_reader.hpp"
#include "tests/support/composite_samples.hpp"
#include "tests/support/golden_file.hpp"
#include "tests/support/memory_file.hpp"

namespace hurray {
namespace {

using Bytes = std::vector<std::uint8_t>;
using Parts = std::vector<std::span<const std::uint8_t>>;

template <class T>
std::string said(const Result<T>& result) {
    return result ? "ok" : result.error().message;
}

/// A writer and what it has written.
struct Output {
    explicit Output(const FileWriterOptions& options = {})
        : writer(FileWriter::open(UniqueFd(::dup(file.get())), options).value()) {}
    UniqueFd file = test::memory_file();
    std::unique_ptr<FileWriter> writer;
};

Bytes descriptor_of(std::uint64_t size) {
    return test::encode(test::SampleTensor(ElementType::UInt8, {size}, {test::cpu_buffer(size)}).view);
}

std::string write(FileWriter& writer, const std::string& name, const Bytes& data) {
    const Bytes bytes = descriptor_of(data.size());
    return said(writer.write(name, decode_descriptor(bytes).value(), Parts{data}));
}

Value number(std::uint64_t value) {
    Value result;
    result.tag = ValueTag::UInt64;
    result.uint64 = value;
    return result;
}

/// Copies tensors and values of a file in their order, as our writer writes them.
Bytes rewritten(const Bytes& bytes) {
    const auto reader = FileReader::open(test::memory_file(bytes), {}).value();
    Output output;
    for (auto more = reader->next(); more.value(); more = reader->next()) {
        std::vector<MemoryBlock> blocks;
        Parts parts;
        for (std::size_t i = 0; i < reader->current()->buffers.size(); ++i) {
            blocks.push_back(*reader->read_buffer(i));
            parts.emplace_back(blocks.back().bytes());
        }
        EXPECT_EQ(
            said(output.writer->write(reader->entries()[reader->current_number()].name, *reader->current(), parts)),
            "ok");
    }
    for (std::size_t i = 0; i < reader->values().size(); ++i) {
        const KeyValue entry = reader->values()[i];
        EXPECT_EQ(said(output.writer->add_value(entry.key, entry.value)), "ok");
    }
    EXPECT_EQ(said(output.writer->finish()), "ok");
    return test::contents(output.file);
}

TEST(FileWriter, WritesTheFileOfTheFormatsExamplesByteForByte) {
    const Bytes golden = test::load_golden_file(HURRAY_GOLDEN_FILES "/two_tensors.hrry.txt");
    EXPECT_EQ(rewritten(golden), golden);
}

/// The example of docs/files.md: lines of an offset, hexadecimal ("00 x 28": 28 times) and, behind three spaces, words.
Bytes documented_example() {
    std::ifstream document(HURRAY_SOURCE_DIR "/docs/files.md");
    EXPECT_TRUE(document);
    std::string line;
    while (std::getline(document, line) && line != "### Example") {
    }
    while (std::getline(document, line) && line != "```") {
    }
    Bytes bytes;
    while (std::getline(document, line) && line != "```") {
        std::size_t used = 0;
        bytes.resize(std::stoul(line, &used));
        line = line.substr(used);
        std::istringstream tokens(line.substr(0, line.find("   ")));
        for (std::string token; tokens >> token;) {
            if (token == "x") {
                std::size_t times = 0;
                tokens >> times;
                bytes.insert(bytes.end(), times - 1, bytes.back());
            } else {
                bytes.push_back(static_cast<std::uint8_t>(std::stoul(token, nullptr, 16)));
            }
        }
    }
    return bytes;
}

TEST(FileWriter, WritesTheExampleOfTheDocumentByteForByte) {
    Output output;
    ASSERT_EQ(write(*output.writer, "a", {'a', 'b', 'c'}), "ok");
    Value yes;
    yes.boolean = true;
    ASSERT_TRUE(output.writer->add_value("k", yes));
    ASSERT_TRUE(output.writer->finish());
    const Bytes written = test::contents(output.file);
    EXPECT_EQ(written.size(), 4203U);
    EXPECT_EQ(written, documented_example());
}

TEST(FileWriter, AFileWithoutAnythingIsAFile) {
    Output output;
    ASSERT_TRUE(output.writer->finish());
    EXPECT_EQ(test::contents(output.file).size(), 64U + 8U + 40U);
    const auto reader = FileReader::open(test::memory_file(test::contents(output.file)), {}).value();
    EXPECT_EQ(reader->entries().size(), 0U);
    EXPECT_EQ(reader->values().size(), 0U);
    EXPECT_FALSE(reader->next().value());
}

TEST(FileWriter, TensorsAreFoundByNameWhateverTheOrder) {
    for (const bool sorted : {false, true}) {
        Output output({.data_buffer_alignment = 8192, .sorted_index = sorted});
        ASSERT_EQ(write(*output.writer, "b", {1, 2}), "ok");
        ASSERT_EQ(write(*output.writer, "a", {}), "ok");
        ASSERT_EQ(write(*output.writer, "c", {3}), "ok");
        ASSERT_TRUE(output.writer->finish());
        const auto reader = FileReader::open(test::memory_file(test::contents(output.file)), {}).value();
        EXPECT_EQ(reader->entries()[0].name, sorted ? "a" : "b");
        EXPECT_EQ(reader->header().flags, sorted ? 6U : 4U);
        EXPECT_EQ(reader->header().data_buffer_alignment, 8192U);
        ASSERT_TRUE(reader->next().value());
        EXPECT_EQ(reader->entries()[reader->current_number()].name, "b");  // in the order of the file
        ASSERT_TRUE(reader->go_to(*reader->find("c")));
        EXPECT_EQ(reader->buffer_offset(0) % 8192, 0U);
        EXPECT_EQ(reader->read_buffer(0)->bytes()[0], 3);
        EXPECT_FALSE(reader->next().value());
    }
}

TEST(FileWriter, RefusalsWriteNothing) {
    Output output;
    ASSERT_EQ(write(*output.writer, "a", {1}), "ok");
    const Bytes before = test::contents(output.file);
    EXPECT_EQ(write(*output.writer, "a", {1}), "the name of a tensor a is in the file already");
    EXPECT_EQ(write(*output.writer, "", {1}), "the name of a tensor has 0 bytes; 1 to 65535 are possible");
    EXPECT_EQ(write(*output.writer, std::string(65536, 'x'), {1}),
              "the name of a tensor has 65536 bytes; 1 to 65535 are possible");
    EXPECT_EQ(write(*output.writer, "ab\xFF", {1}), "the name of a tensor is not UTF-8 from byte 2 on");
    EXPECT_EQ(said(output.writer->add_value("", number(1))), "the key of a value has 0 bytes; 1 to 65535 are possible");
    ASSERT_TRUE(output.writer->add_value("k", number(1)));
    EXPECT_EQ(said(output.writer->add_value("k", number(2))), "the key of a value k is in the file already");
    Value bad;
    bad.tag = ValueTag::Array;
    EXPECT_EQ(said(output.writer->add_value("l", bad)),
              "the value of l: an array has no elements; files keep none that are empty");
    EXPECT_EQ(test::contents(output.file), before);
    ASSERT_EQ(write(*output.writer, std::string(65535, 'x'), {1}), "ok");
    ASSERT_TRUE(output.writer->finish());
    EXPECT_EQ(said(output.writer->add_value("m", number(1))), "the output is finished");
    const auto reader = FileReader::open(test::memory_file(test::contents(output.file)), {}).value();
    EXPECT_EQ(reader->entries().size(), 2U);
    ASSERT_EQ(reader->values().size(), 1U);
    EXPECT_EQ(reader->values()[0].value.uint64, 1U);
}

TEST(FileWriter, AFileBeginsAtItsBeginning) {
    EXPECT_EQ(said(FileWriter::open(test::memory_file(Bytes{1}), {})),
              "the file has 1 bytes already; open it with O_TRUNC, or a new one");
    UniqueFd moved = test::memory_file();
    ASSERT_EQ(::lseek(moved.get(), 7, SEEK_SET), 7);
    EXPECT_EQ(said(FileWriter::open(std::move(moved), {})),
              "the file descriptor stands at byte 7, not at the beginning");
    for (const std::uint32_t alignment : {0U, 2048U, 4097U, 4194304U}) {
        const auto opened = FileWriter::open(test::memory_file(), {.data_buffer_alignment = alignment});
        ASSERT_FALSE(opened);
        EXPECT_EQ(opened.error().code, Errc::InvalidArgument);
    }
}

TEST(FileWriter, AFileThatWasNotFinishedIsNone) {
    Output output;
    ASSERT_EQ(write(*output.writer, "a", Bytes(100)), "ok");
    EXPECT_EQ(said(FileReader::open(test::memory_file(test::contents(output.file)), {})),
              "the last bytes are not \"HRRY\": the file is cut, or its writer did not finish it");
}

TEST(FileWriter, MembersOfACompositeFollowItsHead) {
    Output output({.sorted_index = true});
    const Bytes head = test::encode(test::HeadSample{.rule = CompositionRule::Group, .member_count = 2});
    ASSERT_TRUE(output.writer->write("z", decode_descriptor(head).value(), Parts{}));
    EXPECT_EQ(said(output.writer->finish()), "a composite head still lacks 2 members");
    ASSERT_EQ(write(*output.writer, "y", {1}), "ok");
    ASSERT_EQ(write(*output.writer, "x", {2}), "ok");
    ASSERT_TRUE(output.writer->finish());
    const auto reader = FileReader::open(test::memory_file(test::contents(output.file)), {}).value();
    ASSERT_TRUE(reader->go_to(*reader->find("z")));
    EXPECT_EQ(reader->current()->layout.tag, LayoutTag::CompositeHead);
    ASSERT_TRUE(reader->next().value());
    EXPECT_EQ(reader->entries()[reader->current_number()].name, "y");
    ASSERT_TRUE(reader->next().value());
    EXPECT_EQ(reader->entries()[reader->current_number()].name, "x");
    EXPECT_FALSE(reader->next().value());
}

}  // namespace
}  // namespace hurray
