#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "proto/wire/names.hpp"
#include "tests/unit/proto/wire_test_support.hpp"

namespace hurray::wire {
namespace {

using namespace std::string_view_literals;

void expect_bad_name(std::string_view name, std::string_view words) {
    SCOPED_TRACE(::testing::PrintToString(std::string(name)));
    const auto checked = check_name(name, "publish.name");
    ASSERT_FALSE(checked);
    expect_error(checked.error(), Errc::InvalidArgument, "publish.name", words);
    for (const char c : checked.error().message) {
        EXPECT_TRUE(c >= 0x20 && c < 0x7F) << "unprintable in: " << ::testing::PrintToString(checked.error().message);
    }
}

TEST(NamesTest, UsualAndUnusualNamesAreFine) {
    for (const std::string_view name : {"a"sv, "camera/0/left"sv, "..."sv, "a/.b/..c/d."sv, " "sv, "%2e%2e"sv,
                                        "gr\xC3\xBC\xC3\x9F"sv, "\xE5\xBC\xA0\xE9\x87\x8F"sv, "\xF0\x9F\x8E\x89"sv,
                                        "\xC2\xA0"sv, "\xED\x9F\xBF"sv, "\xEE\x80\x80"sv, "\xF4\x8F\xBF\xBF"sv}) {
        EXPECT_TRUE(check_name(name, "n")) << ::testing::PrintToString(std::string(name));
    }
}

TEST(NamesTest, AnEmptyNameIsRefused) { expect_bad_name("", "the name is empty"); }

TEST(NamesTest, EmptySegmentsAreRefused) {
    expect_bad_name("/", "empty segment at position 0");
    expect_bad_name("/n", "empty segment at position 0");
    expect_bad_name("//n", "empty segment at position 0");
    expect_bad_name("a//n", "empty segment at position 2");
    expect_bad_name("n/", "empty segment at position 2");
}

TEST(NamesTest, DotSegmentsAreRefused) {
    expect_bad_name(".", "segment \".\" at position 0");
    expect_bad_name("..", "segment \"..\" at position 0");
    expect_bad_name("./n", "segment \".\" at position 0");
    expect_bad_name("a/../n", "segment \"..\" at position 2");
    expect_bad_name("a/.", "segment \".\" at position 2");
}

TEST(NamesTest, ControlCharactersAreRefusedByTheirNumber) {
    expect_bad_name("n\0"sv, "U+0000 at position 1");
    expect_bad_name("a\x1b[31mb", "U+001B at position 1");
    expect_bad_name("\n", "U+000A at position 0");
    expect_bad_name("\x1f", "U+001F");
    expect_bad_name("\x7f", "U+007F");
    expect_bad_name("\xC2\x80", "U+0080");
    expect_bad_name("gr\xC3\xBC\xC2\x9F", "U+009F at position 4");
}

TEST(NamesTest, WhatIsNotUtf8IsRefusedByItsByte) {
    expect_bad_name("a\x80", "byte 0x80 at position 1");         // a continuation alone
    expect_bad_name("\xC3", "byte 0xC3 at position 0");          // cut off
    expect_bad_name("ab\xE5\xBC", "byte 0xE5 at position 2");    // cut off
    expect_bad_name("\xF0\x9F\x8E", "byte 0xF0 at position 0");  // cut off
    expect_bad_name("\xC3/", "byte 0xC3 at position 0");         // no continuation
    expect_bad_name("\xC0\xAF", "byte 0xC0 at position 0");      // overlong '/'
    expect_bad_name("\xC1\xBF", "byte 0xC1 at position 0");      // overlong
    expect_bad_name("\xE0\x80\xAF", "byte 0xE0 at position 0");  // overlong
    expect_bad_name("\xE0\x9F\xBF", "byte 0xE0");                // overlong U+07FF
    expect_bad_name("\xF0\x8F\xBF\xBF", "byte 0xF0");            // overlong U+FFFF
    expect_bad_name("\xED\xA0\x80", "byte 0xED at position 0");  // surrogate
    expect_bad_name("\xED\xBF\xBF", "byte 0xED at position 0");  // surrogate
    expect_bad_name("\xF4\x90\x80\x80", "byte 0xF4");            // above U+10FFFF
    expect_bad_name("\xF8\x88\x80\x80\x80", "byte 0xF8");        // five bytes
    expect_bad_name("\xFF", "byte 0xFF");
}

TEST(NamesTest, ANameHasAtMost255Bytes) {
    EXPECT_TRUE(check_name(std::string(255, 'n'), "n"));

    const auto checked = check_name(std::string(256, 'n'), "attach.name");
    ASSERT_FALSE(checked);
    expect_error(checked.error(), Errc::Limit, "attach.name", "the name has 256 bytes; at most 255 are allowed");
    EXPECT_EQ(checked.error().limit_name, "name_bytes");
    EXPECT_EQ(checked.error().limit, 255U);
    EXPECT_EQ(checked.error().value, 256U);
}

TEST(NamesTest, APatternIsANameOrAPrefixOrEmpty) {
    EXPECT_TRUE(check_pattern("", "p"));
    EXPECT_TRUE(check_pattern("a/b", "p"));
    EXPECT_TRUE(check_pattern("a/b/", "p"));
    EXPECT_TRUE(check_pattern(std::string(254, 'n') + '/', "p"));
}

TEST(NamesTest, ABadPatternIsRefusedLikeABadName) {
    for (const std::string_view pattern : {"/"sv, "//"sv, "a//"sv, "/a/"sv, "../"sv, "a/./"sv, "a\0/"sv, "\xFF/"sv}) {
        const auto checked = check_pattern(pattern, "list.pattern");
        ASSERT_FALSE(checked) << pattern;
        expect_error(checked.error(), Errc::InvalidArgument, "list.pattern", "");
    }
    const auto checked = check_pattern(std::string(255, 'n') + '/', "list.pattern");
    ASSERT_FALSE(checked);
    expect_error(checked.error(), Errc::Limit, "list.pattern", "256 bytes");
}

TEST(NamesTest, TheEmptyPatternMatchesEverything) { EXPECT_TRUE(matches("", "a/b")); }

TEST(NamesTest, APrefixMatchesWhatIsBelowItAndNothingBesideIt) {
    EXPECT_TRUE(matches("a/", "a/b"));
    EXPECT_TRUE(matches("a/", "a/b/c"));
    EXPECT_FALSE(matches("a/", "a"));
    EXPECT_FALSE(matches("a/", "ab"));
    EXPECT_FALSE(matches("a/", "b/a/"));
}

TEST(NamesTest, ANameMatchesItselfAlone) {
    EXPECT_TRUE(matches("a/b", "a/b"));
    EXPECT_FALSE(matches("a/b", "a/b/c"));
    EXPECT_FALSE(matches("a/b", "a/B"));
    EXPECT_FALSE(matches("a", "a/b"));
}

}  // namespace
}  // namespace hurray::wire
