// The files of the public implementation: read whole, and written again by our writer to the same bytes.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "hurray.h"

#include <hurray/hurray.hpp>

#include "tests/support/memory_file.hpp"

namespace hurray {
namespace {

namespace fs = std::filesystem;

const fs::path kUpstream = fs::path(HURRAY_CONFORMANCE_DIR) / "upstream";

std::vector<std::uint8_t> load(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    EXPECT_TRUE(file) << path;
    return {std::istreambuf_iterator<char>(file), {}};
}

/// Tensors and values in the order of the file.
std::vector<std::uint8_t> rewritten(Reader& reader) {
    const UniqueFd copy = test::memory_file();
    Writer writer = Writer::file(copy.get(), {.data_buffer_alignment = reader.file_info().data_buffer_alignment});
    while (const auto descriptor = reader.next()) {
        writer.write(reader.name(reader.current().value()), *descriptor, reader.read_buffers());
    }
    for (std::uint64_t i = 0; i < reader.file_info().value_count; ++i) {
        const auto [key, value] = reader.value(i);
        writer.add_value(key, value);
    }
    writer.finish();
    return test::contents(copy);
}

TEST(UpstreamFiles, EachIsReadAndWrittenToTheSameBytes) {
    std::size_t count = 0;
    for (const auto& entry : fs::directory_iterator(kUpstream / "files")) {
        const auto bytes = load(entry.path());
        const UniqueFd file = test::memory_file(bytes);
        Reader reader = Reader::file(file.get());
        EXPECT_EQ(rewritten(reader), bytes) << entry.path();
        ++count;
    }
    EXPECT_GE(count, 1U);
}

TEST(UpstreamFiles, EachHoldsWhatItsManifestSays) {
    const auto bytes = load(kUpstream / "manifest.json");
    const auto manifest = nlohmann::json::parse(bytes);
    std::size_t tensors = 0;
    for (const auto& expected : manifest.at("files")) {
        const std::string name = expected.at("file");
        const UniqueFd file = test::memory_file(load(kUpstream / name));
        Reader reader = Reader::file(file.get());
        EXPECT_EQ(reader.file_info().tensor_count, expected.at("tensors").size()) << name;
        for (const auto& tensor : expected.at("tensors")) {
            const std::string tensor_name = tensor.at("name");
            const Descriptor descriptor = reader.go_to(tensor_name);
            EXPECT_EQ(descriptor.shape(), tensor.at("shape").get<std::vector<std::uint64_t>>()) << tensor_name;
            EXPECT_EQ(element_type_name(descriptor.element_type()), tensor.at("element_type").get<std::string>());
            EXPECT_EQ(reader.read_buffers()[0].byte_size(), tensor.at("data_bytes").get<std::uint64_t>());
            ++tensors;
        }
        EXPECT_EQ(reader.file_info().value_count, expected.at("kv").size()) << name;
        for (const auto& value : expected.at("kv")) {
            const FileValue wanted = value.at("kind") == "string"
                                         ? FileValue(value.at("value_string").get<std::string>())
                                         : FileValue(value.at("value_int").get<std::int64_t>());
            EXPECT_EQ(reader.find_value(value.at("key").get<std::string>()), wanted) << value;
        }
    }
    EXPECT_GT(tensors, 0U);
}

}  // namespace
}  // namespace hurray
