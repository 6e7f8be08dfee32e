// `hurrayctl inspect` of files. No daemon is needed, and none is there.
#include <sys/stat.h>
#include <sys/wait.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <hurray/hurray.hpp>

#include "libhurray/base/unique_fd.hpp"
#include "tests/support/hex.hpp"
#include "tests/support/temporary_directory.hpp"

namespace {

using nlohmann::json;

struct Outcome {
    int code = -1;
    std::string output;  // stdout, and stderr if it was asked for
};

/// `arguments` are for the shell.
Outcome hurrayctl(const std::string& arguments) {
    Outcome outcome;
    FILE* const pipe = ::popen((HURRAY_BIN_DIR "/hurrayctl --socket /nonexistent " + arguments).c_str(), "re");
    EXPECT_NE(pipe, nullptr);
    std::array<char, 4096> chunk{};
    for (std::size_t size = 0; (size = std::fread(chunk.data(), 1, chunk.size(), pipe)) > 0;) {
        outcome.output.append(chunk.data(), size);
    }
    const int status = ::pclose(pipe);
    outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return outcome;
}

class HurrayctlFiles : public testing::Test {
  protected:
    HurrayctlFiles() {
        const hurray::UniqueFd file(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
        EXPECT_TRUE(file);
        hurray::Writer writer = hurray::Writer::file(file.get());
        const std::array<float, 6> data{};
        const std::array<const void*, 1> buffers{data.data()};
        writer.write("weights", hurray::Descriptor(hurray::DenseDescriptor{.shape = {2, 3}}.encode()), buffers);
        writer.write("bias\033[31m", hurray::Descriptor(hurray::DenseDescriptor{.shape = {3}}.encode()), buffers);
        writer.add_value("title", "a\nb");
        writer.add_value("seed", std::numeric_limits<std::uint64_t>::max());
        writer.add_value("axes", std::vector<hurray::PlainValue>{"y", "x"});
        writer.add_value("salt", std::vector<std::uint8_t>{0, 255});
        writer.finish();
    }

    const hurray::test::TemporaryDirectory directory_;
    const std::string path_ = directory_ / "model.hrry";
};

TEST_F(HurrayctlFiles, InspectPrintsATableOfTensorsAndValues) {
    const Outcome outcome = hurrayctl("inspect " + path_);
    EXPECT_EQ(outcome.code, 0);
    EXPECT_EQ(outcome.output, "file        " + path_ +
                                  "\n"
                                  "version     1.0\n"
                                  "bytes       8.2 KiB (8412)\n"
                                  "tensors     2, data aligned to 4096\n"
                                  "\n"
                                  "NAME       TYPE     SHAPE  LAYOUT     BYTES    AT\n"
                                  "weights    float32  2x3    row-major   24 B  4096\n"
                                  "bias?[31m  float32  3      row-major   12 B  8192\n"
                                  "\n"
                                  "KEY    KIND    VALUE\n"
                                  "title  string  \"a\\nb\"\n"
                                  "seed   uint64  18446744073709551615\n"
                                  "axes   array   [\"y\", \"x\"]\n"
                                  "salt   bytes   2 bytes: 00ff\n");
}

TEST_F(HurrayctlFiles, InspectPrintsAllOfATensor) {
    const Outcome outcome = hurrayctl("inspect " + path_ + " --tensor weights");
    EXPECT_EQ(outcome.code, 0);
    EXPECT_EQ(outcome.output,
              "name        weights\n"
              "data        24 B at byte 4096\n"
              "type        float32\n"
              "shape       2x3\n"
              "layout      row-major\n"
              "strides     3, 1 elements\n"
              "buffer 0    24 B, aligned to 64, cpu, standard, producer-synced\n");
    const Outcome missing = hurrayctl("inspect " + path_ + " --tensor nothing 2>&1");
    EXPECT_EQ(missing.code, 1);
    EXPECT_NE(missing.output.find("has no tensor nothing"), std::string::npos) << missing.output;
}

TEST_F(HurrayctlFiles, EachLayoutAndSectionIsShown) {
    const std::string path = directory_ / "golden.hrry";
    const hurray::UniqueFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    hurray::Writer writer = hurray::Writer::file(file.get());
    const std::vector<std::uint8_t> zeros(65536);
    for (const auto& entry : std::filesystem::directory_iterator(HURRAY_GOLDEN_DIR)) {
        std::ifstream text(entry.path());
        const hurray::Descriptor descriptor(
            hurray::test::from_hex(std::string(std::istreambuf_iterator<char>(text), {})));
        const std::vector<const void*> buffers(descriptor.buffer_count(), zeros.data());
        if (descriptor.layout() != hurray::LayoutTag::CompositeHead) {
            writer.write(entry.path().stem().string(), descriptor, buffers);
        }
    }
    writer.finish();
    const auto shown = [&](const std::string& tensor, const std::string& line) {
        const std::string output = hurrayctl("inspect " + path + " --tensor " + tensor).output;
        EXPECT_NE(output.find("\n" + line + "\n"), std::string::npos) << output;
    };
    shown("csr_f32_3x3", "layout      csr: nnz 2");
    shown("block_paged_f16",
          "layout      block-paged: page_size 2, num_pages 4, paged_axis 0, num_seqs 2, kv_role key, layer_index none, "
          "block_table_index_type uint32");
    shown("nested_tiles_f32_8x8", "layout      tiled");
    shown("nested_tiles_f32_8x8", "level 0     tile_shape [4, 4], outer_layout row-major, inner_layout tiled");
    shown("nested_tiles_f32_8x8", "level 1     tile_shape [2, 2], outer_layout column-major, inner_layout row-major");
    shown(
        "per_block_int4_128x128",
        "quantized   scheme per-block, scheme_version 1, symmetric true, axis 1, block_size 128, scale_buffer_index 1, "
        "zero_point_buffer_index none, scale_type float16");
    shown("shard_f32_8x4", "shard       parent_shape [8, 8], shard_offset [0, 4]");
    shown("overlay_correction_coo_f16_2x3", "member      correction");
    shown("overlay_correction_coo_f16_2x3", "layout      coo: nnz 1, is_sorted true");
    shown("private_type_with_statistics", "type        private 0xf1");
}

TEST_F(HurrayctlFiles, JsonHasEverything) {
    const json file = json::parse(hurrayctl("inspect --json " + path_).output);
    EXPECT_EQ(file["version"], "1.0");
    EXPECT_EQ(file["bytes"], std::filesystem::file_size(path_));
    ASSERT_EQ(file["tensors"].size(), 2U);
    EXPECT_EQ(file["tensors"][0]["name"], "weights");
    EXPECT_EQ(file["tensors"][0]["data_offset"], 4096);
    EXPECT_EQ(file["tensors"][0]["descriptor"]["shape"], json({2, 3}));
    EXPECT_EQ(file["tensors"][1]["name"], "bias\033[31m");
    EXPECT_EQ(file["values"], json::parse(R"([{"key": "title", "kind": "string", "value": "a\nb"},
                                              {"key": "seed", "kind": "uint64", "value": 18446744073709551615},
                                              {"key": "axes", "kind": "array", "value": ["y", "x"]},
                                              {"key": "salt", "kind": "bytes", "value": "AP8="}])"));
    const json tensor = json::parse(hurrayctl("inspect --json --tensor weights " + path_).output);
    EXPECT_EQ(tensor, file["tensors"][0]);
}

TEST_F(HurrayctlFiles, TheArgumentAloneSaysWhetherItIsAFile) {
    std::filesystem::copy(path_, directory_ / "model.bin");
    // Not a file by its name, though there is one: a capsule is asked for, and no daemon is there.
    EXPECT_EQ(hurrayctl("inspect " + (directory_ / "model.bin") + " 2>&1").code, 3);
    EXPECT_EQ(hurrayctl("inspect --capsule model.hrry 2>&1").code, 3);
    EXPECT_EQ(hurrayctl("inspect --file " + (directory_ / "model.bin")).code, 0);
    const Outcome missing = hurrayctl("inspect nothing.hrry 2>&1");
    EXPECT_EQ(missing.code, 1);
    EXPECT_NE(missing.output.find("--capsule"), std::string::npos) << missing.output;
    EXPECT_EQ(hurrayctl("inspect 2>&1").code, 2);
    EXPECT_EQ(hurrayctl("inspect a --capsule b 2>&1").code, 2);
    EXPECT_EQ(hurrayctl("inspect a --tensor b 2>&1").code, 2);
}

TEST_F(HurrayctlFiles, ADamagedTensorDoesNotHideTheOthers) {
    {
        std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
        file.seekp(64 + 14);
        file.put('\x47');  // the type of the first tensor
    }
    const Outcome outcome = hurrayctl("inspect " + path_ + " 2>/dev/null");
    EXPECT_EQ(outcome.code, 1);
    EXPECT_NE(outcome.output.find("weights    ?        ?      ?"), std::string::npos) << outcome.output;
    EXPECT_NE(outcome.output.find("bias?[31m  float32"), std::string::npos) << outcome.output;
    const Outcome errors = hurrayctl("inspect " + path_ + " 2>&1 >/dev/null");
    EXPECT_NE(errors.output.find("tensor weights, byte 64 of the file: type_tag is 0x47"), std::string::npos)
        << errors.output;
}

TEST_F(HurrayctlFiles, WhatIsNoFileOfTensorsIsRefused) {
    std::ofstream(directory_ / "text.hrry") << "nothing of the kind";
    const Outcome text = hurrayctl("inspect " + (directory_ / "text.hrry") + " 2>&1");
    EXPECT_EQ(text.code, 1);
    EXPECT_NE(text.output.find("the first bytes are not \"HRRYFILE\""), std::string::npos) << text.output;
    ASSERT_EQ(::mkfifo((directory_ / "pipe.hrry").c_str(), 0600), 0);
    const Outcome pipe = hurrayctl("inspect " + (directory_ / "pipe.hrry") + " 2>&1");  // and nobody waits
    EXPECT_EQ(pipe.code, 1);
    EXPECT_NE(pipe.output.find("no regular file"), std::string::npos) << pipe.output;
}

}  // namespace
