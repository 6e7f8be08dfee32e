#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <gtest/gtest.h>

// tests/fuzz/codec_fuzz.cpp, which aborts on what must not be.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace hurray::wire {
namespace {

TEST(CodecCorpusTest, EveryInputOfTheCorpusIsReadAndWrittenAlike) {
    int inputs = 0;
    for (const auto& entry : std::filesystem::directory_iterator(HURRAY_CODEC_CORPUS)) {
        SCOPED_TRACE(entry.path());
        std::ifstream file(entry.path(), std::ios::binary);
        const std::string bytes{std::istreambuf_iterator<char>(file), {}};
        ASSERT_TRUE(file);
        LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
        ++inputs;
    }
    EXPECT_GT(inputs, 0);
}

}  // namespace
}  // namespace hurray::wire
