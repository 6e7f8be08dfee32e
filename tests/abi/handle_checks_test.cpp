// A checking build (HURRAY_HANDLE_CHECKS) tells a second destroy from a first one, without reading freed memory.
#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hurray.h"

#include "tests/support/hex.hpp"

namespace {

constexpr std::size_t kPromisedDestroys = std::size_t{1} << 20;

HurrayBuffer* make_buffer(HurrayReleaseCallback release = nullptr, void* context = nullptr) {
    static int data = 0;
    HurrayBuffer* buffer = nullptr;
    EXPECT_EQ(hurray_buffer_from_ptr(&data, 64, 64, 0, 0, 0, release, context, &buffer), HURRAY_OK);
    return buffer;
}

void count(void*, void* context) { ++*static_cast<int*>(context); }

TEST(HandleChecks, SecondDestroyOfABufferIsRefusedAndReleasesNothing) {
    int releases = 0;
    HurrayBuffer* buffer = make_buffer(count, &releases);
    EXPECT_EQ(hurray_buffer_destroy(buffer), HURRAY_OK);
    EXPECT_EQ(hurray_buffer_destroy(buffer), HURRAY_ERR_INTERNAL);
    EXPECT_EQ(releases, 1);
    EXPECT_STREQ(hurray_last_error_message(),
                 "hurray_buffer_destroy: this buffer is not alive: it was destroyed before");
}

TEST(HandleChecks, SecondDestroyIsStillRefusedAfterAsManyDestroysAsPromised) {
    HurrayBuffer* buffer = make_buffer();
    ASSERT_EQ(hurray_buffer_destroy(buffer), HURRAY_OK);
    bool came_back = false;
    for (std::size_t i = 0; i < kPromisedDestroys; ++i) {
        HurrayBuffer* other = make_buffer();
        came_back = came_back || other == buffer;
        hurray_buffer_destroy(other);
    }
    EXPECT_FALSE(came_back);
    EXPECT_EQ(hurray_buffer_destroy(buffer), HURRAY_ERR_INTERNAL);
}

TEST(HandleChecks, SecondDestroyOfEveryOtherHandleIsRefused) {
    // uint8, a scalar.
    const auto bytes = hurray::test::from_hex(
        "48525259 01 00 2D000000 00000000 11 01 00000000 0000000000000000 01 0100000000000000 40000000 00 00 00 00");
    HurrayDescriptor* descriptor = nullptr;
    ASSERT_EQ(hurray_descriptor_decode(bytes.data(), bytes.size(), &descriptor), HURRAY_OK);
    EXPECT_EQ(hurray_descriptor_destroy(descriptor), HURRAY_OK);
    EXPECT_EQ(hurray_descriptor_destroy(descriptor), HURRAY_ERR_INTERNAL);

    HurrayBufferList* list = nullptr;
    ASSERT_EQ(hurray_buffer_list_new(0, &list), HURRAY_OK);
    HurrayBufferList* same_list = list;
    EXPECT_EQ(hurray_buffer_list_destroy(&list), HURRAY_OK);
    EXPECT_EQ(hurray_buffer_list_destroy(&same_list), HURRAY_ERR_INTERNAL);

    HurrayDescriptorBuilder* builder = nullptr;
    ASSERT_EQ(hurray_descriptor_builder_new(HURRAY_TYPE_UINT8, nullptr, 0, &builder), HURRAY_OK);
    HurrayDescriptorBuilder* same_builder = builder;
    EXPECT_EQ(hurray_descriptor_builder_destroy(&builder), HURRAY_OK);
    EXPECT_EQ(hurray_descriptor_builder_destroy(&same_builder), HURRAY_ERR_INTERNAL);

    HurrayTensorContext* context = nullptr;
    ASSERT_EQ(hurray_tensor_context_new(2, nullptr, 0, nullptr, nullptr, &context), HURRAY_OK);
    HurrayTensorContext* same_context = context;
    EXPECT_EQ(hurray_tensor_context_destroy(&context), HURRAY_OK);
    EXPECT_EQ(hurray_tensor_context_destroy(&same_context), HURRAY_ERR_INTERNAL);
}

TEST(HandleChecks, BufferDestroyedBehindItsListsBackIsReleasedOnce) {
    int releases = 0;
    HurrayBufferList* list = nullptr;
    ASSERT_EQ(hurray_buffer_list_new(2, &list), HURRAY_OK);
    HurrayBuffer* buffer = make_buffer(count, &releases);
    ASSERT_EQ(hurray_buffer_list_push(list, buffer), HURRAY_OK);
    ASSERT_EQ(hurray_buffer_list_push(list, make_buffer(count, &releases)), HURRAY_OK);
    EXPECT_EQ(hurray_buffer_destroy(buffer), HURRAY_OK);
    EXPECT_EQ(hurray_buffer_list_destroy(&list), HURRAY_ERR_INTERNAL);
    EXPECT_EQ(releases, 2);
    EXPECT_EQ(list, nullptr);
}

TEST(HandleChecks, CallbackThatDestroysItsOwnBufferIsRefused) {
    struct Inner {
        HurrayBuffer* buffer = nullptr;
        HurrayStatus status = HURRAY_OK;
    } inner;
    inner.buffer = make_buffer(
        [](void*, void* context) {
            auto* again = static_cast<Inner*>(context);
            again->status = hurray_buffer_destroy(again->buffer);
        },
        &inner);
    EXPECT_EQ(hurray_buffer_destroy(inner.buffer), HURRAY_OK);
    EXPECT_EQ(inner.status, HURRAY_ERR_INTERNAL);
}

TEST(HandleChecks, CallbackThatDestroysItsListIsRefused) {
    struct Inner {
        HurrayBufferList* list = nullptr;
        HurrayStatus status = HURRAY_OK;
    } inner;
    ASSERT_EQ(hurray_buffer_list_new(1, &inner.list), HURRAY_OK);
    HurrayBuffer* buffer = make_buffer(
        [](void*, void* context) {
            auto* again = static_cast<Inner*>(context);
            again->status = hurray_buffer_list_destroy(&again->list);
        },
        &inner);
    ASSERT_EQ(hurray_buffer_list_push(inner.list, buffer), HURRAY_OK);
    HurrayBufferList* list = inner.list;
    EXPECT_EQ(hurray_buffer_list_destroy(&list), HURRAY_OK);
    EXPECT_EQ(inner.status, HURRAY_ERR_INTERNAL);
}

TEST(HandleChecks, ThreadsMakeAndDestroyTheirOwnHandlesTogether) {
    constexpr int kThreads = 4;
    constexpr int kRounds = 2000;
    int releases[kThreads] = {};
    std::vector<std::thread> threads;
    for (int& mine : releases) {
        threads.emplace_back([&mine] {
            for (int i = 0; i < kRounds; ++i) {
                hurray_buffer_destroy(make_buffer(count, &mine));
            }
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    for (const int mine : releases) {
        EXPECT_EQ(mine, kRounds);
    }
}

TEST(HandleChecks, ChildOfAForkCanDestroyHandlesWhateverOtherThreadsWereDoing) {
    std::atomic<bool> stop{false};
    std::thread busy([&stop] {
        while (!stop) {
            hurray_buffer_destroy(make_buffer());
        }
    });
    int good = 0;
    constexpr int kForks = 50;
    for (int i = 0; i < kForks; ++i) {
        HurrayBuffer* buffer = make_buffer();
        const pid_t child = ::fork();
        if (child == 0) {
            ::_exit(hurray_buffer_destroy(buffer) == HURRAY_OK ? 0 : 1);
        }
        int status = 0;
        ASSERT_EQ(::waitpid(child, &status, 0), child);
        good += WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 1 : 0;
        EXPECT_EQ(hurray_buffer_destroy(buffer), HURRAY_OK);
    }
    stop = true;
    busy.join();
    EXPECT_EQ(good, kForks);
}

}  // namespace
