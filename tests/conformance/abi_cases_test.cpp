// Agreement with the public implementation, call for call: abi_cases.json. The one difference is the ABI version.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "hurray.h"

#include "libhurray/format/dense.hpp"
#include "libhurray/format/descriptor_error.hpp"

namespace {

using nlohmann::json;

const json& data() {
    static const json all = json::parse(std::ifstream(HURRAY_CONFORMANCE_DIR "/abi_cases.json"));
    return all;
}

/// 64-bit numbers are decimal strings, smaller ones numbers.
std::uint64_t number(const json& value) {
    return value.is_string() ? std::stoull(value.get<std::string>()) : value.get<std::uint64_t>();
}

bool is_text(const json& object, const char* key, const char* text) {
    return object.contains(key) && object.at(key) == text;
}

/// A pointer value that no function writes: what an output holds before the call.
template <class T>
T* untouched() {
    return reinterpret_cast<T*>(std::uintptr_t{0x5EED0});
}

/// Memory that buffers are made over, and what their callbacks saw.
struct Memory {
    alignas(64) std::array<unsigned char, 128> bytes{};
    std::vector<void*> released;

    static void record(void* data, void* context) { static_cast<Memory*>(context)->released.push_back(data); }
};

HurrayBuffer* make_buffer(Memory& memory, std::uint8_t device = 0, std::uint8_t sync_mode = 0, std::size_t at = 0) {
    HurrayBuffer* buffer = nullptr;
    EXPECT_EQ(
        hurray_buffer_from_ptr(&memory.bytes.at(at), 64, 64, device, sync_mode, 0, &Memory::record, &memory, &buffer),
        HURRAY_OK);
    return buffer;
}

/// A list of `length` buffers, destroyed at the end. Buffer i lies over byte i modulo 64.
struct List {
    explicit List(std::uint64_t length) {
        EXPECT_EQ(hurray_buffer_list_new(length, &handle), HURRAY_OK);
        for (std::uint64_t i = 0; i < length; ++i) {
            pushed.push_back(make_buffer(memory, 0, 0, i % 64));
            EXPECT_EQ(hurray_buffer_list_push(handle, pushed.back()), HURRAY_OK);
        }
    }
    List(const List&) = delete;
    List& operator=(const List&) = delete;
    ~List() { EXPECT_EQ(hurray_buffer_list_destroy(&handle), HURRAY_OK); }

    Memory memory;
    std::vector<HurrayBuffer*> pushed;
    HurrayBufferList* handle = nullptr;
};

std::vector<std::uint8_t> row_major(std::uint64_t rank) {
    std::vector<std::uint64_t> shape;
    for (std::uint64_t k = 0; k < rank; ++k) {
        shape.push_back(k + 1);
    }
    if (rank > 8) {
        shape.assign(rank, 1);  // the product has to stay small
    }
    hurray::DenseTensor tensor;
    tensor.shape = shape;
    const auto encoding = hurray::encode_dense(tensor).value();
    return {encoding.bytes().begin(), encoding.bytes().end()};
}

struct Decoded {
    explicit Decoded(std::uint64_t rank) {
        const auto bytes = row_major(rank);
        EXPECT_EQ(hurray_descriptor_decode(bytes.data(), bytes.size(), &handle), HURRAY_OK);
    }
    Decoded(const Decoded&) = delete;
    Decoded& operator=(const Decoded&) = delete;
    ~Decoded() { EXPECT_EQ(hurray_descriptor_destroy(handle), HURRAY_OK); }

    HurrayDescriptor* handle = nullptr;
};

// ---- One function a function of the ABI: makes the call that a case describes and compares what it did --------------

using Case = json;

template <class T>
void buffer_accessor(HurrayStatus (*accessor)(const HurrayBuffer*, T*), const Case& c) {
    Memory memory;
    HurrayBuffer* buffer = make_buffer(memory);
    T out{};
    const HurrayStatus status = accessor(c.at("args").at("buffer") == "null" ? nullptr : buffer,
                                         c.at("args").at("out") == "null" ? nullptr : &out);
    EXPECT_EQ(status, c.at("status"));
    if (status != HURRAY_OK) {
        EXPECT_EQ(out, T{});
    }
    hurray_buffer_destroy(buffer);
}

template <class T>
void descriptor_accessor(HurrayStatus (*accessor)(const HurrayDescriptor*, T*), const Case& c) {
    const Decoded decoded(2);
    T out = 77;
    const HurrayStatus status = accessor(c.at("args").at("handle") == "null" ? nullptr : decoded.handle,
                                         c.at("args").at("out") == "null" ? nullptr : &out);
    EXPECT_EQ(status, c.at("status"));
    if (status != HURRAY_OK) {
        EXPECT_EQ(out, T{77});
    }
}

void buffer_destroy(const Case& c) {
    if (c.at("args").at("buffer") == "null") {
        EXPECT_EQ(hurray_buffer_destroy(nullptr), c.at("status"));
        return;
    }
    struct Seen {
        int calls = 0;
        void* data = nullptr;
        void* context = nullptr;
    };
    static Seen seen;
    seen = {0, nullptr, &seen};
    int memory = 0;
    HurrayBuffer* buffer = nullptr;
    const auto release = [](void* bytes, void* context) { seen = {seen.calls + 1, bytes, context}; };
    ASSERT_EQ(hurray_buffer_from_ptr(&memory, 64, 64, 0, 0, 0, release, nullptr, &buffer), HURRAY_OK);
    EXPECT_EQ(hurray_buffer_destroy(buffer), c.at("status"));
    EXPECT_EQ(seen.calls, c.at("out").at("release_calls"));
    EXPECT_EQ(seen.data, &memory);
    EXPECT_EQ(seen.context, nullptr);
}

void buffer_from_ptr(const Case& c) {
    const json& args = c.at("args");
    Memory memory;
    void* data = args.at("data") == "null" ? nullptr : &memory.bytes[args.at("data") == "valid" ? 0 : 1];
    const std::uint64_t byte_size = number(args.at("byte_size"));
    const std::uint32_t alignment = args.at("alignment");
    const std::uint8_t device = args.at("device_tag");
    const std::uint8_t sync_mode = args.at("sync_mode");
    const std::uint8_t memory_class = args.at("memory_class");
    HurrayBuffer* buffer = untouched<HurrayBuffer>();
    const HurrayStatus status = hurray_buffer_from_ptr(data, byte_size, alignment, device, sync_mode, memory_class,
                                                       args.at("release") == true ? &Memory::record : nullptr, &memory,
                                                       args.at("out_handle") == "null" ? nullptr : &buffer);
    ASSERT_EQ(status, c.at("status"));
    if (status != HURRAY_OK) {
        EXPECT_EQ(buffer, untouched<HurrayBuffer>());
        EXPECT_TRUE(memory.released.empty());
        return;
    }
    void* data_out = nullptr;
    std::uint64_t byte_size_out = 0;
    std::uint32_t alignment_out = 0;
    std::uint8_t device_out = 0;
    std::uint8_t sync_mode_out = 0;
    std::uint8_t memory_class_out = 0;
    EXPECT_EQ(hurray_buffer_data_ptr(buffer, &data_out), HURRAY_OK);
    EXPECT_EQ(hurray_buffer_byte_size(buffer, &byte_size_out), HURRAY_OK);
    EXPECT_EQ(hurray_buffer_alignment(buffer, &alignment_out), HURRAY_OK);
    EXPECT_EQ(hurray_buffer_device_tag(buffer, &device_out), HURRAY_OK);
    EXPECT_EQ(hurray_buffer_sync_mode(buffer, &sync_mode_out), HURRAY_OK);
    EXPECT_EQ(hurray_buffer_memory_class(buffer, &memory_class_out), HURRAY_OK);
    EXPECT_EQ(data_out, data);
    EXPECT_EQ(byte_size_out, byte_size);
    EXPECT_EQ(alignment_out, alignment);
    EXPECT_EQ(device_out, device);
    EXPECT_EQ(sync_mode_out, sync_mode);
    EXPECT_EQ(memory_class_out, memory_class);
    EXPECT_TRUE(memory.released.empty());
    EXPECT_EQ(hurray_buffer_destroy(buffer), c.at("out").at("destroy_status"));
    EXPECT_EQ(memory.released.size(), c.at("out").at("release_calls_at_destroy"));
}

/// The buffer of a handoff case, or null.
HurrayBuffer* handoff_buffer(Memory& memory, const Case& c) {
    const json& buffer = c.at("args").at("buffer");
    return buffer == "null" ? nullptr : make_buffer(memory, buffer.at("device_tag"), buffer.at("sync_mode"));
}

void handoff(const Case& c, const std::function<HurrayStatus(const HurrayBuffer*)>& call) {
    Memory memory;
    HurrayBuffer* buffer = handoff_buffer(memory, c);
    EXPECT_EQ(call(buffer), c.at("status"));
    EXPECT_EQ(call(buffer), c.at("status")) << "it keeps no state";
    EXPECT_TRUE(memory.released.empty());
    if (buffer != nullptr) {
        hurray_buffer_destroy(buffer);
    }
}

void event_release_that_is_never_called(void*, void*) { ADD_FAILURE(); }

void handoff_event(const Case& c) {
    const json& given = c.at("args").at("payload");
    int event = 0;
    HurraySyncEventPayload payload{&event, 1, &event_release_that_is_never_called, nullptr};
    if (given.is_object()) {
        payload.sync_handle = is_text(given, "sync_handle", "null") ? nullptr : &event;
        payload.sync_handle_device_tag = given.at("sync_handle_device_tag");
        payload.event_release_fn =
            is_text(given, "event_release_fn", "null") ? nullptr : &event_release_that_is_never_called;
        payload.event_release_context = is_text(given, "event_release_context", "null") ? nullptr : &event;
    }
    handoff(c, [&](const HurrayBuffer* buffer) {
        return hurray_buffer_handoff_event(buffer, given == "null" ? nullptr : &payload);
    });
}

void handoff_consumer_stream(const Case& c) {
    const json& given = c.at("args").at("payload");
    int stream = 0;
    HurraySyncConsumerStreamPayload payload{&stream, 1};
    if (given.is_object()) {
        payload.consumer_stream = is_text(given, "consumer_stream", "null") ? nullptr : &stream;
        payload.consumer_stream_device_tag = given.at("consumer_stream_device_tag");
    }
    handoff(c, [&](const HurrayBuffer* buffer) {
        return hurray_buffer_handoff_consumer_stream(buffer, given == "null" ? nullptr : &payload);
    });
}

void handoff_producer_synced(const Case& c) { handoff(c, hurray_buffer_handoff_producer_synced); }

void list_destroy(const Case& c) {
    const json& args = c.at("args");
    if (args.contains("list")) {
        HurrayBufferList* none = nullptr;
        EXPECT_EQ(hurray_buffer_list_destroy(args.at("list") == "null" ? nullptr : &none), c.at("status"));
        return;
    }
    struct Seen {
        HurrayBufferList* list = nullptr;
        std::vector<void*> order;
        bool null_inside = false;
    } seen;
    std::vector<void*> pushed;
    std::array<unsigned char, 100> memory{};
    ASSERT_EQ(hurray_buffer_list_new(0, &seen.list), HURRAY_OK);
    const auto release = [](void* bytes, void* context) {
        auto* into = static_cast<Seen*>(context);
        into->order.push_back(bytes);
        into->null_inside = into->null_inside || into->list == nullptr;
    };
    for (std::size_t i = 0; i < args.at("list_len").get<std::size_t>(); ++i) {
        HurrayBuffer* buffer = nullptr;
        ASSERT_EQ(hurray_buffer_from_ptr(&memory.at(i), 64, 64, 0, 0, 0, release, &seen, &buffer), HURRAY_OK);
        ASSERT_EQ(hurray_buffer_list_push(seen.list, buffer), HURRAY_OK);
        pushed.push_back(&memory.at(i));
    }
    EXPECT_EQ(hurray_buffer_list_destroy(&seen.list), c.at("status"));
    EXPECT_EQ(seen.order, pushed);
    EXPECT_EQ(seen.order.size(), c.at("out").at("release_calls"));
    EXPECT_EQ(seen.list, nullptr);
    const json& null_inside = c.at("out").at("caller_pointer_null_inside_callbacks");
    if (!null_inside.is_null()) {
        EXPECT_EQ(seen.null_inside, null_inside);
    }
}

void list_get(const Case& c) {
    const json& args = c.at("args");
    const List list(args.value("list_len", std::uint64_t{0}));
    const std::uint64_t index = number(args.at("index"));
    HurrayBuffer* out = untouched<HurrayBuffer>();
    const HurrayStatus status = hurray_buffer_list_get(is_text(args, "list", "null") ? nullptr : list.handle, index,
                                                       is_text(args, "out_buffer", "null") ? nullptr : &out);
    EXPECT_EQ(status, c.at("status"));
    EXPECT_EQ(out, status == HURRAY_OK ? list.pushed.at(index) : untouched<HurrayBuffer>());
}

void list_len(const Case& c) {
    const json& args = c.at("args");
    const List list(args.value("list_len", std::uint64_t{0}));
    std::uint64_t out = 77;
    const HurrayStatus status = hurray_buffer_list_len(is_text(args, "list", "null") ? nullptr : list.handle,
                                                       is_text(args, "out_len", "null") ? nullptr : &out);
    EXPECT_EQ(status, c.at("status"));
    EXPECT_EQ(out, status == HURRAY_OK ? number(c.at("out").at("len")) : 77);
}

void list_new(const Case& c) {
    const json& args = c.at("args");
    HurrayBufferList* list = nullptr;
    const HurrayStatus status =
        hurray_buffer_list_new(number(args.at("capacity")), args.at("out_list") == "null" ? nullptr : &list);
    EXPECT_EQ(status, c.at("status"));
    if (status == HURRAY_OK) {
        std::uint64_t length = 77;
        EXPECT_EQ(hurray_buffer_list_len(list, &length), HURRAY_OK);
        EXPECT_EQ(length, number(c.at("out").at("len")));
        hurray_buffer_list_destroy(&list);
    }
}

void list_push(const Case& c) {
    const json& args = c.at("args");
    const List list(args.value("list_len", std::uint64_t{0}));
    Memory memory;
    HurrayBuffer* buffer = make_buffer(memory);
    EXPECT_EQ(hurray_buffer_list_push(is_text(args, "list", "null") ? nullptr : list.handle,
                                      args.at("buffer") == "null" ? nullptr : buffer),
              c.at("status"));
    std::uint64_t length = 0;
    hurray_buffer_list_len(list.handle, &length);
    EXPECT_EQ(length, list.pushed.size());
    EXPECT_TRUE(memory.released.empty());
    EXPECT_EQ(hurray_buffer_destroy(buffer), HURRAY_OK);  // still ours
}

void abi_version(const Case& c) {
    EXPECT_EQ(c.at("out").at("returns"), 4);
    EXPECT_EQ(hurray_c_abi_version(), 2U);
}

void descriptor_decode(const Case& c) {
    const json& args = c.at("args");
    auto bytes = row_major(2);
    ASSERT_EQ(bytes.size(), 61U);
    if (args.at("bytes") == "garbage") {
        bytes.assign(61, 0xAB);
    }
    HurrayDescriptor* out = untouched<HurrayDescriptor>();
    const HurrayStatus status =
        hurray_descriptor_decode(args.at("bytes") == "null" ? nullptr : bytes.data(), args.at("len"),
                                 args.at("out_handle") == "null" ? nullptr : &out);
    EXPECT_EQ(status, c.at("status"));
    if (status != HURRAY_OK) {
        EXPECT_EQ(out, untouched<HurrayDescriptor>());
        return;
    }
    std::fill(bytes.begin(), bytes.end(), std::uint8_t{0xAB});
    std::uint32_t rank = 0;
    EXPECT_EQ(hurray_descriptor_rank(out, &rank), HURRAY_OK);
    EXPECT_EQ(rank, c.at("out").at("rank_afterwards"));
    hurray_descriptor_destroy(out);
}

void descriptor_destroy(const Case& c) {
    ASSERT_EQ(c.at("args").at("handle"), "null");
    EXPECT_EQ(hurray_descriptor_destroy(nullptr), c.at("status"));
}

void descriptor_shape(const Case& c) {
    const json& args = c.at("args");
    const bool null_rank = is_text(args, "out_rank", "null");
    const std::uint64_t rank = args.value("rank", std::uint64_t{2});
    const Decoded decoded(rank);
    constexpr std::uint64_t kUnwritten = 0xDEAD;
    std::vector<std::uint64_t> dims(70, kUnwritten);
    uintptr_t inout_rank = null_rank ? 0 : number(args.at("out_rank_in"));
    const HurrayStatus status = hurray_descriptor_shape(is_text(args, "handle", "null") ? nullptr : decoded.handle,
                                                        args.at("out_dims") == "null" ? nullptr : dims.data(),
                                                        null_rank ? nullptr : &inout_rank);
    EXPECT_EQ(status, c.at("status"));
    if (c.contains("out")) {
        EXPECT_EQ(inout_rank, c.at("out").at("out_rank"));
    }
    const auto written = std::count_if(dims.begin(), dims.end(), [](std::uint64_t d) { return d != kUnwritten; });
    EXPECT_EQ(static_cast<std::uint64_t>(written), status == HURRAY_OK ? rank : 0);
}

void context_abi_version(const Case& c) {
    HurrayTensorContext* context = nullptr;
    ASSERT_EQ(hurray_tensor_context_new(4, nullptr, 0, nullptr, nullptr, &context), HURRAY_OK);
    std::uint32_t out = 77;
    EXPECT_EQ(hurray_tensor_context_abi_version(c.at("args").at("ctx") == "null" ? nullptr : context,
                                                c.at("args").at("out") == "null" ? nullptr : &out),
              c.at("status"));
    EXPECT_EQ(out, 77U);
    hurray_tensor_context_destroy(&context);
}

void context_descriptor(const Case& c) {
    const json& args = c.at("args");
    HurrayTensorContext* context = nullptr;
    const std::uint8_t bytes[] = {1, 2, 3};
    ASSERT_EQ(hurray_tensor_context_new(4, bytes, 3, nullptr, nullptr, &context), HURRAY_OK);
    const std::uint8_t* out = untouched<const std::uint8_t>();
    std::uint64_t length = 77;
    EXPECT_EQ(hurray_tensor_context_descriptor(args.at("ctx") == "null" ? nullptr : context,
                                               is_text(args, "out_bytes", "null") ? nullptr : &out,
                                               is_text(args, "out_len", "null") ? nullptr : &length),
              c.at("status"));
    EXPECT_EQ(out, untouched<const std::uint8_t>());
    EXPECT_EQ(length, 77U);
    hurray_tensor_context_destroy(&context);
}

void context_destroy(const Case& c) {
    HurrayTensorContext* none = nullptr;
    EXPECT_EQ(hurray_tensor_context_destroy(c.at("args").at("ctx") == "null" ? nullptr : &none), c.at("status"));
}

/// What the owner's release saw. The callback gets the owner and nothing else, which may be null.
struct OwnerSeen {
    HurrayTensorContext* context = nullptr;
    int calls = 0;
    void* owner = nullptr;
    bool null_inside = false;
};
OwnerSeen owner_seen;

void release_owner(void* owner) {
    ++owner_seen.calls;
    owner_seen.owner = owner;
    owner_seen.null_inside = owner_seen.context == nullptr;
}

void context_new(const Case& c) {
    const json& args = c.at("args");
    const std::array<std::uint8_t, 5> bytes{1, 2, 3, 4, 5};
    int owner = 0;
    void* const given_owner = args.at("owner") == "null" ? nullptr : &owner;
    owner_seen = {};
    owner_seen.context = untouched<HurrayTensorContext>();
    const HurrayStatus status = hurray_tensor_context_new(
        args.at("abi_version"), args.at("descriptor_bytes") == "null" ? nullptr : bytes.data(),
        number(args.at("descriptor_len")), given_owner, args.at("owner_release") == true ? &release_owner : nullptr,
        args.at("out_ctx") == "null" ? nullptr : &owner_seen.context);
    ASSERT_EQ(status, c.at("status"));
    if (status != HURRAY_OK) {
        EXPECT_EQ(owner_seen.context, untouched<HurrayTensorContext>());
        EXPECT_EQ(owner_seen.calls, 0);
        return;
    }
    const json& expected = c.at("out");
    std::uint32_t version = 0;
    const std::uint8_t* kept = nullptr;
    std::uint64_t length = 77;
    EXPECT_EQ(hurray_tensor_context_abi_version(owner_seen.context, &version), HURRAY_OK);
    EXPECT_EQ(hurray_tensor_context_descriptor(owner_seen.context, &kept, &length), HURRAY_OK);
    EXPECT_EQ(version, expected.at("abi_version"));
    EXPECT_EQ(length, expected.at("descriptor_len"));
    if (expected.at("descriptor") == "null") {
        EXPECT_EQ(kept, nullptr);
    } else {
        EXPECT_NE(kept, bytes.data());
        EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), kept, kept + length));
    }
    EXPECT_EQ(hurray_tensor_context_destroy(&owner_seen.context), expected.at("destroy_status"));
    EXPECT_EQ(owner_seen.calls, expected.at("owner_release_calls"));
    if (owner_seen.calls > 0) {
        EXPECT_EQ(owner_seen.owner, given_owner);
        EXPECT_EQ(owner_seen.null_inside, expected.at("caller_pointer_null_inside_callback"));
    }
    EXPECT_EQ(owner_seen.context, nullptr);
    EXPECT_EQ(hurray_tensor_context_destroy(&owner_seen.context), expected.at("second_destroy_status"));
    EXPECT_EQ(owner_seen.calls, expected.at("owner_release_calls"));
}

const std::map<std::string, std::function<void(const Case&)>> kHandlers{
    {"hurray_buffer_alignment", [](const Case& c) { buffer_accessor(hurray_buffer_alignment, c); }},
    {"hurray_buffer_byte_size", [](const Case& c) { buffer_accessor(hurray_buffer_byte_size, c); }},
    {"hurray_buffer_data_ptr", [](const Case& c) { buffer_accessor(hurray_buffer_data_ptr, c); }},
    {"hurray_buffer_destroy", buffer_destroy},
    {"hurray_buffer_device_tag", [](const Case& c) { buffer_accessor(hurray_buffer_device_tag, c); }},
    {"hurray_buffer_from_ptr", buffer_from_ptr},
    {"hurray_buffer_handoff_consumer_stream", handoff_consumer_stream},
    {"hurray_buffer_handoff_event", handoff_event},
    {"hurray_buffer_handoff_producer_synced", handoff_producer_synced},
    {"hurray_buffer_list_destroy", list_destroy},
    {"hurray_buffer_list_get", list_get},
    {"hurray_buffer_list_len", list_len},
    {"hurray_buffer_list_new", list_new},
    {"hurray_buffer_list_push", list_push},
    {"hurray_buffer_memory_class", [](const Case& c) { buffer_accessor(hurray_buffer_memory_class, c); }},
    {"hurray_buffer_sync_mode", [](const Case& c) { buffer_accessor(hurray_buffer_sync_mode, c); }},
    {"hurray_c_abi_version", abi_version},
    {"hurray_descriptor_buffer_count", [](const Case& c) { descriptor_accessor(hurray_descriptor_buffer_count, c); }},
    {"hurray_descriptor_byte_offset", [](const Case& c) { descriptor_accessor(hurray_descriptor_byte_offset, c); }},
    {"hurray_descriptor_decode", descriptor_decode},
    {"hurray_descriptor_destroy", descriptor_destroy},
    {"hurray_descriptor_element_type_tag",
     [](const Case& c) { descriptor_accessor(hurray_descriptor_element_type_tag, c); }},
    {"hurray_descriptor_layout_tag", [](const Case& c) { descriptor_accessor(hurray_descriptor_layout_tag, c); }},
    {"hurray_descriptor_rank", [](const Case& c) { descriptor_accessor(hurray_descriptor_rank, c); }},
    {"hurray_descriptor_shape", descriptor_shape},
    {"hurray_tensor_context_abi_version", context_abi_version},
    {"hurray_tensor_context_descriptor", context_descriptor},
    {"hurray_tensor_context_destroy", context_destroy},
    {"hurray_tensor_context_new", context_new},
};

TEST(AbiCases, EveryCaseOfEveryFunctionAgrees) {
    std::size_t cases = 0;
    for (const auto& [function, rules] : data().at("functions").items()) {
        const auto handler = kHandlers.find(function);
        ASSERT_NE(handler, kHandlers.end()) << function;
        for (const Case& c : rules.at("cases")) {
            SCOPED_TRACE(function + ' ' + c.dump());
            handler->second(c);
            ++cases;
        }
    }
    EXPECT_GT(cases, 700U);
}

// The ordered rules of hurray_buffer_from_ptr, over every byte of each tag and the edges of the numbers.
TEST(AbiCases, BufferFromPtrFollowsItsOrderedRules) {
    const auto expected = [](std::uint64_t size, std::uint32_t alignment, unsigned device, unsigned sync,
                             unsigned memory) -> HurrayStatus {
        if ((device >= 0x09 && device <= 0xEF) || device == 0xFF) {
            return HURRAY_ERR_INVALID_TYPE;
        }
        if (sync >= 0x03) {
            return HURRAY_ERR_INVALID_SYNC_MODE;
        }
        if ((memory >= 0x04 && memory <= 0xEF) || memory == 0xFF) {
            return HURRAY_ERR_INVALID_TYPE;
        }
        if (alignment == 0 || (alignment & (alignment - 1)) != 0 || (size > 0 && alignment < 64)) {
            return HURRAY_ERR_INVALID_LAYOUT;
        }
        return device == 0 && sync != 0 ? HURRAY_ERR_INVALID_SYNC_MODE : HURRAY_OK;
    };
    Memory memory;
    for (const std::uint32_t alignment : {0U, 1U, 63U, 64U, 96U, 0x80000000U}) {
        for (const std::uint64_t size : {std::uint64_t{0}, std::uint64_t{1}, UINT64_MAX}) {
            for (unsigned device = 0; device <= 0xFF; device += device < 0x0A || device >= 0xEE ? 1 : 0x10) {
                for (const unsigned sync : {0U, 1U, 2U, 3U, 0xFFU}) {
                    for (const unsigned memory_class : {0U, 3U, 4U, 0xEFU, 0xF0U, 0xFEU, 0xFFU}) {
                        HurrayBuffer* buffer = nullptr;
                        const HurrayStatus status =
                            hurray_buffer_from_ptr(memory.bytes.data(), size, alignment,
                                                   static_cast<std::uint8_t>(device), static_cast<std::uint8_t>(sync),
                                                   static_cast<std::uint8_t>(memory_class), nullptr, nullptr, &buffer);
                        ASSERT_EQ(status, expected(size, alignment, device, sync, memory_class))
                            << alignment << ' ' << size << ' ' << device << ' ' << sync << ' ' << memory_class;
                        if (status == HURRAY_OK) {
                            hurray_buffer_destroy(buffer);
                        }
                    }
                }
            }
        }
    }
}

TEST(AbiCases, StatusCodesHaveTheSameNamesAndNumbers) {
    for (const auto& [name, value] : data().at("status_codes").items()) {
        EXPECT_EQ(name, hurray_status_string(value.get<HurrayStatus>()));
    }
}

TEST(AbiCases, EveryErrorHasTheSameStatus) {
    const json& statuses = data().at("error_kind_to_status");
    std::map<std::string, int> ours;
    for (std::size_t i = 0; i < hurray::kFaultCount; ++i) {
        const auto fault = static_cast<hurray::Fault>(i);
        ours[std::string(hurray::fault_name(fault))] = static_cast<int>(hurray::to_errc(fault));
    }
    for (const auto& [name, status] : statuses.items()) {
        ASSERT_EQ(ours.count(name), 1U) << name;
        EXPECT_EQ(ours.at(name), status) << name;
    }
}

TEST(AbiCases, PayloadStructsHaveTheSameLayout) {
    const json& event = data().at("struct_layout_x86_64").at("HurraySyncEventPayload");
    EXPECT_EQ(event.at("size"), sizeof(HurraySyncEventPayload));
    EXPECT_EQ(event.at("sync_handle"), offsetof(HurraySyncEventPayload, sync_handle));
    EXPECT_EQ(event.at("sync_handle_device_tag"), offsetof(HurraySyncEventPayload, sync_handle_device_tag));
    EXPECT_EQ(event.at("event_release_fn"), offsetof(HurraySyncEventPayload, event_release_fn));
    EXPECT_EQ(event.at("event_release_context"), offsetof(HurraySyncEventPayload, event_release_context));
    const json& stream = data().at("struct_layout_x86_64").at("HurraySyncConsumerStreamPayload");
    EXPECT_EQ(stream.at("size"), sizeof(HurraySyncConsumerStreamPayload));
    EXPECT_EQ(stream.at("consumer_stream"), offsetof(HurraySyncConsumerStreamPayload, consumer_stream));
    EXPECT_EQ(stream.at("consumer_stream_device_tag"),
              offsetof(HurraySyncConsumerStreamPayload, consumer_stream_device_tag));
}

}  // namespace
