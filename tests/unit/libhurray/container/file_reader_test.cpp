// Files that are right, and every way in which one can be wrong. Where things are in the golden file is written in it.
#include "libhurray/container/file_reader.hpp"

#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "libhurray/container/crc32c.hpp"
#include "libhurray/format/little_endian.hpp"
#include "tests/support/golden_file.hpp"
#include "tests/support/memory_file.hpp"

namespace hurray {
namespace {

using Bytes = std::vector<std::uint8_t>;

constexpr std::size_t kWeights = 64;
constexpr std::size_t kKeyValues = 16416;
constexpr std::size_t kIndex = 16528;
constexpr std::size_t kFirstEntry = kIndex + 8;
constexpr std::size_t kSecondEntry = kFirstEntry + 41;
constexpr std::size_t kTrailer = 16616;
constexpr std::size_t kSize = 16656;

Bytes golden() { return test::load_golden_file(HURRAY_GOLDEN_FILES "/two_tensors.hrry.txt"); }

template <class T>
std::string said(const Result<T>& result) {
    return result ? "ok" : result.error().message;
}

Result<std::unique_ptr<FileReader>> open(const Bytes& bytes, const ReaderLimits& limits = {}) {
    return FileReader::open(test::memory_file(bytes), limits);
}

template <class T>
void put(Bytes& bytes, std::size_t at, T number) {
    store_little_endian(number, bytes.data() + at);
}

/// After a change of the index.
void sign(Bytes& bytes) { put(bytes, kTrailer + 28, crc32c(std::span(bytes).subspan(kIndex, kTrailer - kIndex))); }

/// What opening the golden file says after a change.
std::string changed(const std::function<void(Bytes&)>& change) {
    Bytes bytes = golden();
    change(bytes);
    return said(open(bytes));
}

/// The same after a change of the index, whose CRC is made right again.
std::string changed_index(const std::function<void(Bytes&)>& change) {
    return changed([&](Bytes& bytes) {
        change(bytes);
        sign(bytes);
    });
}

/// What going to the first tensor says after a change of its entry.
std::string changed_entry(const std::function<void(Bytes&)>& change) {
    Bytes bytes = golden();
    change(bytes);
    sign(bytes);
    const auto reader = open(bytes);
    if (!reader) {
        return "not opened: " + said(reader);
    }
    const std::string first = said((*reader)->go_to(0));
    // Whatever the first is, the second one can be read.
    EXPECT_EQ(said((*reader)->go_to(1)), "ok");
    return first;
}

TEST(FileReader, ReadsTheTensorsOfTheFormatsExamples) {
    ASSERT_EQ(golden().size(), kSize);
    const auto opened = open(golden());
    ASSERT_TRUE(opened) << said(opened);
    FileReader& reader = **opened;
    EXPECT_EQ(reader.file_size(), kSize);
    EXPECT_EQ(reader.header().data_buffer_alignment, 4096U);
    EXPECT_EQ(reader.header().tensor_count_hint, UINT64_MAX);
    ASSERT_EQ(reader.entries().size(), 2U);
    EXPECT_EQ(reader.find("weights"), 0U);
    EXPECT_EQ(reader.find("edges"), 1U);
    EXPECT_EQ(reader.find("edge"), std::nullopt);
    EXPECT_EQ(reader.current(), nullptr);

    ASSERT_TRUE(reader.go_to(1));
    EXPECT_EQ(reader.current_number(), 1U);
    EXPECT_EQ(reader.current()->layout.tag, LayoutTag::Csr);
    EXPECT_EQ(reader.buffer_offset(0), 8192U);
    EXPECT_EQ(reader.buffer_offset(1), 12288U);
    EXPECT_EQ(reader.buffer_offset(2), 16384U);
    EXPECT_EQ(reader.read_buffer(1)->bytes()[0], 2);
    std::uint8_t byte = 0;
    ASSERT_TRUE(reader.read(2, 24, {&byte, 1}));  // in any order
    EXPECT_EQ(byte, 2);
    EXPECT_EQ(said(reader.read(2, 32, {&byte, 1})), "buffer 2 has 32 bytes; there are no 1 at byte 32");

    ASSERT_TRUE(reader.go_to(0));
    const auto data = reader.read_buffer(0);
    ASSERT_TRUE(data);
    ASSERT_EQ(data->bytes().size(), 48U);
    EXPECT_EQ(data->bytes()[47], 47);
    ASSERT_TRUE(reader.next().value());
    EXPECT_EQ(reader.current_number(), 1U);
    EXPECT_FALSE(reader.next().value());
    EXPECT_EQ(reader.current(), nullptr);
}

TEST(FileReader, ReadsEveryKindOfValue) {
    const auto opened = open(golden());
    ASSERT_TRUE(opened) << said(opened);
    const KeyValues& values = (*opened)->values();
    ASSERT_EQ(values.size(), 7U);
    EXPECT_EQ(values[0].key, "title");
    const auto title = values[0].value.data;
    EXPECT_EQ(std::string(title.begin(), title.end()), "v\xC3\xA9lo");
    EXPECT_EQ(values[1].value.int64, -2);
    EXPECT_EQ(values[2].value.uint64, UINT64_MAX);
    EXPECT_EQ(values[3].value.float64_bits, 0x3FE0000000000000U);
    EXPECT_EQ(values[4].value.tag, ValueTag::Bool);
    EXPECT_TRUE(values[4].value.boolean);
    EXPECT_EQ(values[5].value.data.size(), 3U);
    EXPECT_EQ(values[6].value.tag, ValueTag::Array);
    EXPECT_EQ(values[6].value.count, 2U);
    EXPECT_EQ(values.find("axes"), 6U);
    EXPECT_EQ(values.find("axe"), std::nullopt);
}

TEST(FileReader, EveryTruncationIsRefused) {
    const Bytes whole = golden();
    for (std::size_t length = 0; length < kSize; length += length < 128 || length > kKeyValues ? 1 : 61) {
        const auto opened = open(Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length)));
        ASSERT_FALSE(opened) << length;
    }
    EXPECT_EQ(said(open({})), "the first bytes are not \"HRRYFILE\"");
    EXPECT_EQ(said(open(Bytes(whole.begin(), whole.begin() + 64))),
              "the file has 64 bytes, less than header and trailer (104)");
}

TEST(FileReader, WhatIsNotARegularFileIsUnsupported) {
    int ends[2] = {-1, -1};
    ASSERT_EQ(::pipe(ends), 0);
    const UniqueFd in(ends[1]);
    const auto opened = FileReader::open(UniqueFd(ends[0]), {});
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().code, Errc::Unsupported);
}

// ---- Header --------------------------------------------------------------------------------------------------------

TEST(FileReader, TheHeaderIsChecked) {
    EXPECT_EQ(changed([](Bytes& b) { b[0] = 'h'; }), "the first bytes are not \"HRRYFILE\"");
    EXPECT_EQ(changed([](Bytes& b) { b[8] = 2; }), "the file's major version is 2, this library knows 1");
    EXPECT_EQ(changed([](Bytes& b) { b[10] = 1; }), "header, byte 10 of the file: reserved bytes are not zero");
    EXPECT_EQ(changed([](Bytes& b) { b[12] |= 8; }), "header, byte 12 of the file: file_flags has reserved bits set");
    EXPECT_EQ(changed([](Bytes& b) { b[63] = 1; }), "header, byte 36 of the file: reserved bytes are not zero");
    for (const std::uint32_t alignment : {0U, 1U, 2048U, 4095U, 4194304U, 0x80000000U}) {
        EXPECT_EQ(changed([&](Bytes& b) { put(b, 16, alignment); }),
                  "header, byte 16 of the file: data_buffer_alignment is " + std::to_string(alignment) +
                      ", not a power of two from 4096 to 2097152");
    }
    for (const std::uint64_t offset : {0U, 56U, 65U}) {
        EXPECT_EQ(changed([&](Bytes& b) { put(b, 20, offset); }),
                  "header, byte 20 of the file: first_descriptor_offset is " + std::to_string(offset) +
                      ", not a multiple of 8 behind the header");
    }
    EXPECT_EQ(open(Bytes(200)).error().code, Errc::InvalidMagic);
    Bytes newer = golden();
    newer[8] = 9;
    EXPECT_EQ(open(newer).error().code, Errc::VersionMismatch);
}

TEST(FileReader, ALaterMinorVersionMayUseWhatIsReserved) {
    EXPECT_EQ(changed([](Bytes& b) {
                  b[9] = 1;
                  b[10] = b[40] = 1;
                  b[kTrailer + 32] = 1;
              }),
              "ok");
    EXPECT_EQ(changed([](Bytes& b) {
                  b[9] = 1;
                  b[12] |= 8;
              }),
              "header, byte 12 of the file: file_flags has reserved bits set");
}

TEST(FileReader, TheFlagForKeyValuesDoesNotMatter) {
    EXPECT_EQ(changed([](Bytes& b) { b[12] |= 1; }), "ok");
}

// ---- Trailer -------------------------------------------------------------------------------------------------------

TEST(FileReader, TheTrailerIsChecked) {
    EXPECT_EQ(changed([](Bytes& b) { b[kSize - 1] = 'y'; }),
              "the last bytes are not \"HRRY\": the file is cut, or its writer did not finish it");
    EXPECT_EQ(changed([](Bytes& b) { b[kTrailer + 35] = 1; }),
              "trailer, byte 16648 of the file: reserved bytes are not zero");
    EXPECT_EQ(changed([](Bytes& b) { put(b, kTrailer, std::uint64_t{kIndex + 1}); }),
              "trailer, byte 16624 of the file: the index is said to be 88 bytes at byte 16529, which is not between "
              "header and trailer of a file of 16656 bytes");
    EXPECT_EQ(changed([](Bytes& b) { put(b, kTrailer, std::uint64_t{kIndex - 4}); }),
              "trailer, byte 16624 of the file: index_offset is not a multiple of 8");
    for (const std::uint64_t number : {std::uint64_t{0}, std::uint64_t{63}, UINT64_MAX, UINT64_MAX - 87}) {
        EXPECT_NE(changed([&](Bytes& b) { put(b, kTrailer, number); }).find("not between header and trailer"),
                  std::string::npos);
    }
    EXPECT_NE(changed([](Bytes& b) { put(b, kTrailer + 8, UINT64_MAX); }).find("not between header and trailer"),
              std::string::npos);
    EXPECT_NE(changed([](Bytes& b) { put(b, kTrailer + 16, UINT64_MAX); }).find("the key-value section is said"),
              std::string::npos);
    EXPECT_EQ(changed([](Bytes& b) { put(b, kTrailer + 16, std::uint64_t{0}); }),
              "trailer, byte 16640 of the file: of kv_offset and kv_length one alone is 0");
    EXPECT_EQ(changed([](Bytes& b) { b[12] = 0; }),
              "trailer, byte 16644 of the file: index_crc32c is not 0, but the flags say that there is none");
    EXPECT_EQ(changed([](Bytes& b) {
                  b[12] = 0;
                  put(b, kTrailer + 28, std::uint32_t{0});
              }),
              "ok");
}

// ---- Index ---------------------------------------------------------------------------------------------------------

TEST(FileReader, ADamagedIndexDoesNotMatchItsCrc) {
    for (std::size_t at = kIndex; at < kTrailer; ++at) {
        EXPECT_NE(changed([&](Bytes& b) { b[at] ^= 0x10; }).find("its CRC-32C is"), std::string::npos) << at;
    }
}

TEST(FileReader, TheIndexIsChecked) {
    EXPECT_EQ(changed_index([](Bytes& b) { put(b, kIndex, UINT64_MAX); }),
              "index, byte 16528 of the file: 18446744073709551615 entries do not fit 80 bytes");
    EXPECT_EQ(changed_index([](Bytes& b) { put(b, kIndex, std::uint64_t{1}); }),
              "index, byte 16577 of the file: 39 bytes are behind the last entry");
    EXPECT_EQ(changed_index([](Bytes& b) { put(b, kFirstEntry, std::uint16_t{0}); }),
              "index, byte 16536 of the file: a name is empty");
    EXPECT_EQ(changed_index([](Bytes& b) { b[kFirstEntry + 2] = 0xFF; }),
              "index, byte 16538 of the file: a name is not UTF-8");
    EXPECT_EQ(changed_index([](Bytes& b) { put(b, kSecondEntry, std::uint16_t{60}); }),
              "index, byte 16579 of the file: a name takes 60 bytes, but 37 are left of the index");
    for (std::size_t byte = 1; byte <= 4; ++byte) {
        EXPECT_EQ(changed_index([byte](Bytes& b) { b[kSecondEntry - byte] = 1; }),
                  "index, byte 16573 of the file: an entry's flags are not 0");
    }
    EXPECT_EQ(changed_index([](Bytes& b) { b[12] |= 2; }),
              "index, byte 16612 of the file: the flags say that names are sorted, but edges comes behind weights");
}

TEST(FileReader, NamesAreThereOnce) {
    // Two entries of 39 bytes, so the index becomes shorter and the trailer moves.
    Bytes bytes = golden();
    Bytes entry(bytes.begin() + kSecondEntry, bytes.begin() + kTrailer);
    Bytes trailer(bytes.begin() + kTrailer, bytes.end());
    bytes.resize(kFirstEntry);
    bytes.insert(bytes.end(), entry.begin(), entry.end());
    bytes.insert(bytes.end(), entry.begin(), entry.end());
    put(trailer, 8, std::uint64_t{8 + 2 * 39});
    put(trailer, 28, crc32c(std::span(bytes).subspan(kIndex)));
    bytes.insert(bytes.end(), trailer.begin(), trailer.end());
    EXPECT_EQ(said(open(bytes)), "index: the name edges is there twice");
}

TEST(FileReader, AnEntryIsCheckedWhenItsTensorIsGoneTo) {
    EXPECT_EQ(changed_entry([](Bytes&) {}), "ok");
    const std::string place = "tensor weights, byte 64 of the file: ";
    EXPECT_EQ(
        changed_entry([](Bytes& b) { put(b, kFirstEntry + 9, std::uint64_t{68}); }),
        "tensor weights, byte 68 of the file: its descriptor of 61 bytes is not at a multiple of 8 between header "
        "and trailer");
    EXPECT_NE(changed_entry([](Bytes& b) { put(b, kFirstEntry + 9, UINT64_MAX - 7); }).find("not at a multiple of 8"),
              std::string::npos);
    EXPECT_NE(changed_entry([](Bytes& b) { put(b, kFirstEntry + 9, std::uint64_t{56}); }).find("between header"),
              std::string::npos);
    EXPECT_EQ(changed_entry([](Bytes& b) { put(b, kFirstEntry + 17, std::uint32_t{62}); }),
              place + "the index gives the descriptor 62 bytes, the descriptor itself 61");
    EXPECT_EQ(changed_entry([](Bytes& b) { put(b, kFirstEntry + 17, std::uint32_t{0}); }),
              place +
                  "descriptor_length would end at byte 10, but the descriptor has 0 bytes "
                  "(DescriptorTruncated)");
    EXPECT_EQ(changed_entry([](Bytes& b) { put(b, kFirstEntry + 21, UINT64_MAX); }),
              place + "its data of 48 bytes at byte 18446744073709551615 is not before the trailer");
    EXPECT_EQ(changed_entry([](Bytes& b) { put(b, kFirstEntry + 29, std::uint64_t{47}); }),
              place + "buffer 0 of 48 bytes does not fit its data, 47 bytes at byte 4096");
    EXPECT_EQ(changed_entry([](Bytes& b) { put(b, kFirstEntry + 29, UINT64_MAX); }),
              place + "its data of 18446744073709551615 bytes at byte 4096 is not before the trailer");
    EXPECT_EQ(changed_entry([](Bytes& b) { put(b, kWeights + 45, UINT64_MAX); }),
              place + "buffer 0 of 18446744073709551615 bytes does not fit its data, 48 bytes at byte 4096");
    EXPECT_EQ(changed_entry([](Bytes& b) { b[kWeights + 14] = 0x47; }),
              place + "type_tag is 0x47, which is reserved (ReservedTypeTag)");
}

TEST(FileReader, ATensorThatCantBeReadIsPassed) {
    Bytes bytes = golden();
    bytes[kWeights] = 'X';
    const auto reader = open(bytes).value();
    const auto first = reader->next();
    ASSERT_FALSE(first);
    EXPECT_EQ(first.error().code, Errc::InvalidMagic);
    EXPECT_EQ(reader->current(), nullptr);
    ASSERT_TRUE(reader->next().value());
    EXPECT_EQ(reader->current_number(), 1U);
}

// ---- Key-values ----------------------------------------------------------------------------------------------------

TEST(FileReader, KeyValuesAreChecked) {
    EXPECT_EQ(
        changed([](Bytes& b) { put(b, kKeyValues, std::uint32_t{8}); }),
        "key-values, byte 16526 of the file: the length of a key takes 2 bytes, but 0 are left of the key-values");
    EXPECT_EQ(changed([](Bytes& b) { put(b, kKeyValues, std::uint32_t{6}); }),
              "key-values, byte 16504 of the file: 22 bytes are behind the last entry");
    EXPECT_EQ(changed([](Bytes& b) { put(b, 16420, std::uint16_t{0}); }),
              "key-values, byte 16420 of the file: a key is empty");
    EXPECT_EQ(changed([](Bytes& b) { b[16422] = 0x80; }), "key-values, byte 16422 of the file: a key is not UTF-8");
    EXPECT_EQ(changed([](Bytes& b) { b[16489] = 2; }), "key-values, byte 16489 of the file: a bool is 2, not 0 or 1");
    EXPECT_EQ(changed([](Bytes& b) { b[16458] = 0xF0; }),
              "key-values, byte 16458 of the file: a value has tag 240, which is private");
    // "seed" becomes "step".
    EXPECT_EQ(changed([](Bytes& b) {
                  b[16455] = 't';
                  b[16457] = 'p';
              }),
              "key-values: the key step is there twice");
}

// ---- Limits --------------------------------------------------------------------------------------------------------

TEST(FileReader, LimitsAreKept) {
    ReaderLimits limits;
    limits.max_index_size = 87;
    EXPECT_EQ(said(open(golden(), limits)), "the index has 88 bytes, the maximum is 87");
    limits.max_index_size = 109;
    EXPECT_EQ(said(open(golden(), limits)), "the key-value section has 110 bytes, the maximum is 109");
    limits = {};
    limits.max_descriptor_size = 100;
    const auto reader = open(golden(), limits).value();
    EXPECT_TRUE(reader->go_to(0));
    EXPECT_EQ(said(reader->go_to(1)),
              "tensor edges, byte 4144 of the file: descriptor_length is 109, the maximum is 100");
    limits = {};
    limits.max_tensor_size = 55;
    const auto small = open(golden(), limits).value();
    EXPECT_TRUE(small->go_to(0));
    EXPECT_EQ(said(small->go_to(1)),
              "tensor edges, byte 4144 of the file: the buffers have 56 bytes, the maximum is 55");
}

TEST(FileReader, AnIndexInAHoleOfAHugeFileTakesNoMemory) {
    constexpr std::uint64_t kHuge = std::uint64_t{1} << 40U;
    const Bytes bytes = golden();
    UniqueFd file = test::memory_file(std::span(bytes).first(64));
    Bytes trailer(bytes.begin() + kTrailer, bytes.end());
    put(trailer, 0, std::uint64_t{64});
    put(trailer, 8, kHuge - 64);
    ASSERT_EQ(::pwrite(file.get(), trailer.data(), trailer.size(), static_cast<off_t>(kHuge)), 40);
    const auto opened = FileReader::open(std::move(file), {});
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().code, Errc::Limit);
}

TEST(FileReader, AFileThatBecomesShorterSaysSo) {
    UniqueFd file = test::memory_file(golden());
    const auto reader = FileReader::open(UniqueFd(::dup(file.get())), {}).value();
    ASSERT_TRUE(reader->go_to(1));
    ASSERT_EQ(::ftruncate(file.get(), 12296), 0);
    EXPECT_EQ(said(reader->read_buffer(1)), "the file ends at byte 12296: it has become shorter since it was opened");
    EXPECT_TRUE(reader->read_buffer(0));
}

}  // namespace
}  // namespace hurray
