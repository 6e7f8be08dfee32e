#include <cstdint>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "proto/wire/segment_check.hpp"
#include "tests/unit/proto/wire_test_support.hpp"

namespace hurray::wire {
namespace {

constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();

std::vector<Segment> segments_of(const std::vector<std::uint64_t>& sizes) {
    std::vector<Segment> segments;
    for (const std::uint64_t size : sizes) {
        segments.push_back(Segment{.number = segments.size() + 1, .carries_fd = true, .size = size});
    }
    return segments;
}

void expect_refused(const Result<void>& checked, std::string_view field, std::string_view words) {
    ASSERT_FALSE(checked);
    expect_error(checked.error(), Errc::InvalidArgument, field, words);
}

TEST(PlacementsTest, NothingAtAllIsFine) { EXPECT_TRUE(check_placements({}, {}, {}, "publish")); }

TEST(PlacementsTest, BuffersThatTouchEachOtherAndTheEndAreFine) {
    EXPECT_TRUE(check_placements(segments_of({4096}), {{0, 0}, {0, 64}, {0, 4032}}, {{64, 64}, {3968, 64}, {64, 64}},
                                 "publish"));
}

TEST(PlacementsTest, BuffersInDifferentSegmentsDoNotOverlap) {
    EXPECT_TRUE(check_placements(segments_of({64, 64}), {{1, 0}, {0, 0}}, {{64, 64}, {64, 64}}, "publish"));
}

TEST(PlacementsTest, ASegmentOfTheLargestSizeIsUsableToItsLastByte) {
    EXPECT_TRUE(check_placements(segments_of({kMax}), {{0, kMax - 1}, {0, 0}}, {{1, 1}, {kMax - 1, 1}}, "publish"));
}

TEST(PlacementsTest, ThePlacementOfAnEmptyBufferIsIgnored) {
    EXPECT_TRUE(check_placements({}, {{77, kMax}}, {{0, 64}}, "publish"));
    EXPECT_TRUE(
        check_placements(segments_of({64}), {{0, 0}, {9, 13}, {0, 32}}, {{64, 64}, {0, 64}, {0, 64}}, "publish"));
}

TEST(PlacementsTest, TooFewOrTooManyPlacementsAreRefused) {
    expect_refused(check_placements(segments_of({64}), {{0, 0}}, {{32, 1}, {32, 1}}, "publish"), "publish.placements",
                   "1 placements for 2 buffers");
    expect_refused(check_placements(segments_of({64}), {{0, 0}, {0, 32}}, {{32, 1}}, "attach"), "attach.placements",
                   "2 placements for 1 buffers");
}

TEST(PlacementsTest, ASegmentThatIsNotThereIsRefused) {
    expect_refused(check_placements(segments_of({64}), {{1, 0}}, {{64, 1}}, "publish"), "publish.placements[0].segment",
                   "segment 1 of 1");
    expect_refused(check_placements({}, {{0, 0}}, {{1, 1}}, "attach"), "attach.placements[0].segment",
                   "segment 0 of 0");
}

TEST(PlacementsTest, ABufferOutsideItsSegmentIsRefusedAndNothingWraps) {
    struct Case {
        std::uint64_t offset;
        std::uint64_t size;
    };
    constexpr std::uint64_t kSegment = 4096;
    for (const Case& c : {Case{kMax, 2}, Case{1ULL << 63U, 1ULL << 63U}, Case{kSegment, 1}, Case{0, kSegment + 1},
                          Case{1, kSegment}, Case{kMax, kMax}, Case{kMax - 63, 64}}) {
        SCOPED_TRACE(c.offset);
        expect_refused(check_placements(segments_of({kSegment}), {{0, c.offset}}, {{c.size, 1}}, "publish"),
                       "publish.placements[0].offset",
                       "at offset " + std::to_string(c.offset) + " does not fit its segment of 4096");
    }
}

TEST(PlacementsTest, AnOffsetThatIsNoMultipleOfTheAlignmentIsRefused) {
    expect_refused(check_placements(segments_of({4096}), {{0, 32}}, {{64, 64}}, "publish"),
                   "publish.placements[0].offset", "offset 32 is no multiple of the buffer's alignment 64");
}

TEST(PlacementsTest, AnAlignmentOfZeroAsksForNothing) {
    EXPECT_TRUE(check_placements(segments_of({64}), {{0, 1}}, {{63, 0}}, "publish"));
}

TEST(PlacementsTest, OverlappingBuffersAreRefusedWhateverTheirOrder) {
    expect_refused(check_placements(segments_of({256}), {{0, 0}, {0, 63}}, {{64, 1}, {64, 1}}, "publish"),
                   "publish.placements[1]", "overlaps placement 0 in segment 0: bytes from 63 to 64");
    expect_refused(check_placements(segments_of({256}), {{0, 100}, {0, 50}}, {{10, 1}, {51, 1}}, "publish"),
                   "publish.placements[1]", "overlaps placement 0 in segment 0: bytes from 100 to 101");
}

TEST(PlacementsTest, TheSameBytesTwiceAreRefused) {
    expect_refused(check_placements(segments_of({64}), {{0, 0}, {0, 0}}, {{64, 64}, {64, 64}}, "publish"),
                   "publish.placements[1]", "bytes from 0 to 64");
}

TEST(PlacementsTest, ABufferThatSpansSeveralOthersIsRefused) {
    expect_refused(check_placements(segments_of({64, 256}), {{0, 0}, {1, 200}, {1, 100}, {1, 0}},
                                    {{64, 1}, {8, 1}, {8, 1}, {256, 1}}, "publish"),
                   "publish.placements[3]", "overlaps placement 2 in segment 1: bytes from 100 to 108");
}

TEST(PlacementsTest, ASegmentThatNoBufferLiesInIsRefused) {
    expect_refused(check_placements(segments_of({64, 64, 64}), {{0, 0}, {2, 0}}, {{64, 1}, {64, 1}}, "publish"),
                   "publish.segments[1]", "no buffer lies in this segment");
    expect_refused(check_placements(segments_of({64, 64}), {{0, 0}}, {{64, 1}}, "publish"), "publish.segments[1]",
                   "no buffer");
    expect_refused(check_placements(segments_of({64}), {{0, 0}}, {{0, 1}}, "publish"), "publish.segments[0]",
                   "no buffer");
}

}  // namespace
}  // namespace hurray::wire
