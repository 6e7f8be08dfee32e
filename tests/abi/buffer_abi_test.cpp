#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "hurray.h"

namespace {

/// What a release callback saw.
struct Releases {
    std::vector<void*> data;

    static void record(void* data, void* context) { static_cast<Releases*>(context)->data.push_back(data); }
};

HurrayBuffer* make_buffer(void* data, Releases& releases) {
    HurrayBuffer* buffer = nullptr;
    EXPECT_EQ(hurray_buffer_from_ptr(data, 64, 64, HURRAY_DEVICE_CPU, HURRAY_SYNC_PRODUCER_SYNCED,
                                     HURRAY_MEMORY_STANDARD, &Releases::record, &releases, &buffer),
              HURRAY_OK);
    return buffer;
}

TEST(BufferAbi, MessageOfAFailureNamesFunctionArgumentAndValue) {
    int data = 0;
    HurrayBuffer* buffer = nullptr;
    EXPECT_EQ(hurray_buffer_from_ptr(&data, 64, 48, 0, 0, 0, nullptr, nullptr, &buffer), HURRAY_ERR_INVALID_LAYOUT);
    EXPECT_STREQ(hurray_last_error_message(),
                 "hurray_buffer_from_ptr: alignment is 48, not a power of two (AlignmentNotPowerOfTwo)");
    EXPECT_EQ(hurray_buffer_from_ptr(nullptr, 64, 64, 0, 0, 0, nullptr, nullptr, &buffer), HURRAY_ERR_NULL_POINTER);
    EXPECT_STREQ(hurray_last_error_message(), "hurray_buffer_from_ptr: the argument 'data' is null");
    EXPECT_EQ(buffer, nullptr);
}

TEST(BufferAbi, SuccessLeavesTheLastMessageAsItIs) {
    hurray_last_error_set("from before");
    Releases releases;
    int data = 0;
    EXPECT_EQ(hurray_buffer_destroy(make_buffer(&data, releases)), HURRAY_OK);
    EXPECT_STREQ(hurray_last_error_message(), "from before");
}

TEST(BufferAbi, IndexPastTheListNamesIndexAndLength) {
    HurrayBufferList* list = nullptr;
    ASSERT_EQ(hurray_buffer_list_new(0, &list), HURRAY_OK);
    HurrayBuffer* buffer = nullptr;
    EXPECT_EQ(hurray_buffer_list_get(list, 7, &buffer), HURRAY_ERR_INDEX_OUT_OF_BOUNDS);
    EXPECT_STREQ(hurray_last_error_message(), "hurray_buffer_list_get: index is 7, the list has 0 buffers");
    hurray_buffer_list_destroy(&list);
}

TEST(BufferAbi, ExceptionOfAReleaseCallbackStopsAtTheBoundary) {
    int data = 0;
    HurrayBuffer* buffer = nullptr;
    const auto throwing = [](void*, void*) { throw std::runtime_error("callback failed"); };
    ASSERT_EQ(hurray_buffer_from_ptr(&data, 64, 64, 0, 0, 0, throwing, nullptr, &buffer), HURRAY_OK);
    EXPECT_EQ(hurray_buffer_destroy(buffer), HURRAY_ERR_INTERNAL_PANIC);
    EXPECT_STREQ(hurray_last_error_message(), "hurray_buffer_destroy: callback failed");
}

TEST(BufferAbi, ListGoesOnDestroyingAfterACallbackThrew) {
    Releases releases;
    int first = 0;
    int last = 0;
    HurrayBufferList* list = nullptr;
    HurrayBuffer* throwing = nullptr;
    ASSERT_EQ(hurray_buffer_list_new(3, &list), HURRAY_OK);
    ASSERT_EQ(
        hurray_buffer_from_ptr(&first, 64, 64, 0, 0, 0, [](void*, void*) { throw 1; }, nullptr, &throwing), HURRAY_OK);
    ASSERT_EQ(hurray_buffer_list_push(list, make_buffer(&first, releases)), HURRAY_OK);
    ASSERT_EQ(hurray_buffer_list_push(list, throwing), HURRAY_OK);
    ASSERT_EQ(hurray_buffer_list_push(list, make_buffer(&last, releases)), HURRAY_OK);
    EXPECT_EQ(hurray_buffer_list_destroy(&list), HURRAY_ERR_INTERNAL_PANIC);
    EXPECT_EQ(list, nullptr);
    EXPECT_EQ(releases.data, (std::vector<void*>{&first, &last}));
}

TEST(BufferAbi, CallbackFindsItsListWithThatSlotEmpty) {
    struct Seen {
        HurrayBufferList* list = nullptr;
        HurrayBuffer* slot = nullptr;
        bool called = false;
    } seen;
    HurrayBuffer* buffer = nullptr;
    ASSERT_EQ(hurray_buffer_list_new(1, &seen.list), HURRAY_OK);
    const auto look = [](void*, void* context) {
        auto* into = static_cast<Seen*>(context);
        into->called = hurray_buffer_list_get(into->list, 0, &into->slot) == HURRAY_OK;
    };
    seen.slot = reinterpret_cast<HurrayBuffer*>(&seen);
    ASSERT_EQ(hurray_buffer_from_ptr(&seen, 64, 64, 0, 0, 0, look, &seen, &buffer), HURRAY_OK);
    ASSERT_EQ(hurray_buffer_list_push(seen.list, buffer), HURRAY_OK);
    HurrayBufferList* list = seen.list;
    EXPECT_EQ(hurray_buffer_list_destroy(&list), HURRAY_OK);
    EXPECT_TRUE(seen.called);
    EXPECT_EQ(seen.slot, nullptr);
}

TEST(BufferAbi, ListOutlivesItsContext) {
    Releases releases;
    int data = 0;
    HurrayBufferList* list = nullptr;
    HurrayTensorContext* context = nullptr;
    ASSERT_EQ(hurray_buffer_list_new(1, &list), HURRAY_OK);
    ASSERT_EQ(hurray_buffer_list_push(list, make_buffer(&data, releases)), HURRAY_OK);
    ASSERT_EQ(hurray_tensor_context_new(2, nullptr, 0, nullptr, nullptr, &context), HURRAY_OK);
    EXPECT_EQ(hurray_tensor_context_destroy(&context), HURRAY_OK);
    EXPECT_TRUE(releases.data.empty());
    EXPECT_EQ(hurray_buffer_list_destroy(&list), HURRAY_OK);
    EXPECT_EQ(releases.data, std::vector<void*>{&data});
}

void let_go(void* /*owner*/) {}

TEST(BufferAbi, OwnerIsToldToItsMakerAlone) {
    int owner = 0;
    HurrayTensorContext* context = nullptr;
    ASSERT_EQ(hurray_tensor_context_new(2, nullptr, 0, &owner, let_go, &context), HURRAY_OK);
    void* out = nullptr;
    EXPECT_EQ(hurray_tensor_context_owner(context, nullptr, &out), HURRAY_ERR_INVALID_ARGUMENT);
    EXPECT_EQ(out, nullptr);
    EXPECT_EQ(hurray_tensor_context_owner(context, let_go, &out), HURRAY_OK);
    EXPECT_EQ(out, &owner);
    EXPECT_EQ(hurray_tensor_context_owner(nullptr, let_go, &out), HURRAY_ERR_NULL_POINTER);
    EXPECT_EQ(hurray_tensor_context_owner(context, let_go, nullptr), HURRAY_ERR_NULL_POINTER);
    hurray_tensor_context_destroy(&context);
}

TEST(StatusAbi, EveryStatusHasItsName) {
    EXPECT_STREQ(hurray_status_string(HURRAY_OK), "HURRAY_OK");
    EXPECT_STREQ(hurray_status_string(HURRAY_ERR_INVALID_MAGIC), "HURRAY_ERR_INVALID_MAGIC");
    EXPECT_STREQ(hurray_status_string(HURRAY_ERR_INTERRUPTED), "HURRAY_ERR_INTERRUPTED");
    int named = 0;
    for (HurrayStatus status = -100; status <= 100; ++status) {
        named += std::string(hurray_status_string(status)).rfind("HURRAY_", 0) == 0 ? 1 : 0;
    }
    EXPECT_EQ(named, 1 + 11 + 19);
    EXPECT_STREQ(hurray_status_string(-12), "not a HurrayStatus");
    EXPECT_STREQ(hurray_status_string(1), "not a HurrayStatus");
}

}  // namespace
