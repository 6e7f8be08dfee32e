#include "libhurray/abi/guard.hpp"

#include <stdexcept>
#include <string>
#include <thread>

#include <gtest/gtest.h>

namespace hurray::abi {
namespace {

template <class Exception>
HurrayStatus throwing(const Exception& exception) {
    return guard("hurray_sample", [&]() -> HurrayStatus { throw exception; });
}

TEST(Guard, StatusOfTheBodyPassesThrough) {
    EXPECT_EQ(guard("hurray_sample", [] { return HurrayStatus{HURRAY_ERR_INVALID_LAYOUT}; }),
              HURRAY_ERR_INVALID_LAYOUT);
}

TEST(Guard, RunningOutOfMemoryIsInternal) {
    EXPECT_EQ(throwing(std::bad_alloc()), HURRAY_ERR_INTERNAL);
    EXPECT_STREQ(hurray_last_error_message(), "hurray_sample: out of memory");
    EXPECT_EQ(throwing(std::length_error("vector")), HURRAY_ERR_INTERNAL);
}

TEST(Guard, UnexpectedExceptionsArePanics) {
    EXPECT_EQ(throwing(std::runtime_error("a bug")), HURRAY_ERR_INTERNAL_PANIC);
    EXPECT_STREQ(hurray_last_error_message(), "hurray_sample: a bug");
    EXPECT_EQ(throwing(7), HURRAY_ERR_INTERNAL_PANIC);
}

TEST(LastError, EachThreadHasItsOwn) {
    set_last_error("ours");
    std::string theirs = "unset";
    std::thread([&] { theirs = hurray_last_error_message(); }).join();
    EXPECT_EQ(theirs, "");
    EXPECT_STREQ(hurray_last_error_message(), "ours");
}

TEST(LastError, NullMessageIsEmpty) {
    hurray_last_error_set("something");
    hurray_last_error_set(nullptr);
    EXPECT_STREQ(hurray_last_error_message(), "");
}

TEST(LastError, MessageCanBeSetFromItself) {
    hurray_last_error_set("once more");
    hurray_last_error_set(hurray_last_error_message() + 5);
    EXPECT_STREQ(hurray_last_error_message(), "more");
}

TEST(LastError, LongMessageIsCutAt1023Bytes) {
    hurray_last_error_set(std::string(5000, 'x').c_str());
    EXPECT_EQ(std::string(hurray_last_error_message()), std::string(1023, 'x'));
}

TEST(LastError, CutNeverSplitsACharacter) {
    // 1022 bytes, then a character of two: it does not fit whole.
    hurray_last_error_set((std::string(1022, 'x') + "\u00e9").c_str());
    EXPECT_EQ(std::string(hurray_last_error_message()), std::string(1022, 'x'));
}

}  // namespace
}  // namespace hurray::abi
