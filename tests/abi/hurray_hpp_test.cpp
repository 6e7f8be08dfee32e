#include <array>
#include <type_traits>

#include <gtest/gtest.h>

#include <hurray/hurray.hpp>

#include "tests/support/status_of.hpp"

namespace {

using hurray::Buffer;
using hurray::BufferList;
using hurray::DenseDescriptor;
using hurray::Descriptor;
using hurray::ElementType;
using hurray::StatusError;
using hurray::TensorContext;
using hurray::test::status_of;

static_assert(std::is_nothrow_move_constructible_v<Buffer> && !std::is_copy_constructible_v<Buffer>);
static_assert(std::is_nothrow_move_constructible_v<BufferList> && !std::is_copy_constructible_v<BufferList>);
static_assert(std::is_nothrow_move_constructible_v<Descriptor> && !std::is_copy_constructible_v<Descriptor>);
static_assert(std::is_nothrow_move_constructible_v<TensorContext> && !std::is_copy_constructible_v<TensorContext>);

struct Storage {
    alignas(64) std::array<std::byte, 64> bytes{};
};

TEST(HurrayHpp, FailureCarriesStatusAndMessage) {
    try {
        const Buffer buffer(nullptr, 64);
        FAIL() << "a null buffer was made";
    } catch (const StatusError& error) {
        EXPECT_EQ(error.status(), HURRAY_ERR_NULL_POINTER);
        EXPECT_STREQ(error.what(), "HURRAY_ERR_NULL_POINTER: hurray_buffer_from_ptr: the argument 'data' is null");
    }
}

TEST(HurrayHpp, BufferReleasesItsMemoryOnceWhereverItWasMoved) {
    Storage storage;
    int releases = 0;
    {
        Buffer first(storage.bytes.data(), 64, {}, [&](void* data) {
            EXPECT_EQ(data, storage.bytes.data());
            ++releases;
        });
        Buffer second = std::move(first);
        EXPECT_EQ(second.ref().byte_size(), 64U);
        EXPECT_EQ(releases, 0);
    }
    EXPECT_EQ(releases, 1);
}

TEST(HurrayHpp, BufferThatCannotBeMadeReleasesNothing) {
    Storage storage;
    int releases = 0;
    hurray::BufferTraits traits;
    traits.alignment = 48;
    EXPECT_EQ(status_of([&] { Buffer(storage.bytes.data(), 64, traits, [&](void*) { ++releases; }); }),
              HURRAY_ERR_INVALID_LAYOUT);
    EXPECT_EQ(releases, 0);
}

TEST(HurrayHpp, ListOwnsWhatWasPushedAndLendsIt) {
    Storage storage;
    int releases = 0;
    {
        BufferList list(1);
        list.push(Buffer(storage.bytes.data(), 64, {}, [&](void*) { ++releases; }));
        ASSERT_EQ(list.size(), 1U);
        EXPECT_EQ(list[0].bytes().data(), storage.bytes.data());
        EXPECT_EQ(status_of([&] { static_cast<void>(list[1]); }), HURRAY_ERR_INDEX_OUT_OF_BOUNDS);
        EXPECT_EQ(releases, 0);
    }
    EXPECT_EQ(releases, 1);
}

TEST(HurrayHpp, BufferTellsItsTraitsAndChecksHandoffs) {
    Storage storage;
    hurray::BufferTraits traits;
    traits.alignment = 128;
    traits.device = hurray::DeviceTag::Cuda;
    traits.sync_mode = hurray::SyncMode::ConsumerStream;
    traits.memory_class = hurray::MemoryClass::Unified;
    const Buffer buffer(storage.bytes.data(), 64, traits);
    EXPECT_EQ((*buffer).alignment(), 128U);
    EXPECT_EQ((*buffer).device(), hurray::DeviceTag::Cuda);
    EXPECT_EQ((*buffer).sync_mode(), hurray::SyncMode::ConsumerStream);
    EXPECT_EQ((*buffer).memory_class(), hurray::MemoryClass::Unified);
    (*buffer).check_consumer_stream_handoff({&storage, HURRAY_DEVICE_CUDA});
    EXPECT_EQ(status_of([&] { (*buffer).check_producer_synced_handoff(); }), HURRAY_ERR_SYNC_MODE_MISMATCH);
    EXPECT_EQ(status_of([&] { (*buffer).check_event_handoff({&storage, 1, [](void*, void*) {}, nullptr}); }),
              HURRAY_ERR_SYNC_MODE_MISMATCH);
}

TEST(HurrayHpp, DenseTensorGoesThroughBytesAndComesBack) {
    DenseDescriptor dense;
    dense.element_type = ElementType::Int4;
    dense.shape = {3, 5};
    dense.byte_offset = 64;
    EXPECT_EQ(dense.needed_byte_size(), 64U + 8U);
    const auto bytes = dense.encode();
    const Descriptor descriptor(bytes);
    descriptor.validate();
    EXPECT_EQ(descriptor.rank(), 2U);
    EXPECT_EQ(descriptor.shape(), dense.shape);
    EXPECT_EQ(descriptor.strides(), (std::vector<std::int64_t>{5, 1}));
    EXPECT_EQ(descriptor.element_type(), ElementType::Int4);
    EXPECT_EQ(descriptor.layout(), hurray::LayoutTag::RowMajor);
    EXPECT_EQ(descriptor.byte_offset(), 64U);
    ASSERT_EQ(descriptor.buffer_count(), 1U);
    EXPECT_EQ(descriptor.buffer_entry(0).byte_size, 72U);
    EXPECT_EQ(descriptor.encode(), bytes);
}

TEST(HurrayHpp, ScalarHasNoSizesAndNoStrides) {
    const Descriptor descriptor(DenseDescriptor{}.encode());
    EXPECT_EQ(descriptor.rank(), 0U);
    EXPECT_TRUE(descriptor.shape().empty());
    EXPECT_TRUE(descriptor.strides().empty());
}

TEST(HurrayHpp, GivenStridesMakeAStridedTensor) {
    DenseDescriptor dense;
    dense.shape = {2, 3};
    dense.strides = {3, -1};
    dense.byte_offset = 8;
    const Descriptor descriptor(dense.encode());
    EXPECT_EQ(descriptor.layout(), hurray::LayoutTag::Strided);
    EXPECT_EQ(descriptor.strides(), dense.strides);
    dense.strides = {1};
    EXPECT_EQ(status_of([&] { static_cast<void>(dense.encode()); }), HURRAY_ERR_INVALID_ARGUMENT);
}

TEST(HurrayHpp, EmptyBytesAreNoDescriptor) {
    EXPECT_EQ(status_of([] { Descriptor descriptor(std::span<const std::uint8_t>{}); }), HURRAY_ERR_INVALID_LAYOUT);
}

TEST(HurrayHpp, ContextKeepsACopyAndReleasesItsOwner) {
    int releases = 0;
    std::vector<std::uint8_t> bytes{1, 2, 3};
    {
        const HurrayOwnerReleaseFn release = [](void* owner) { ++*static_cast<int*>(owner); };
        const TensorContext context(bytes, &releases, release);
        bytes[0] = 9;
        EXPECT_EQ(context.abi_version(), HURRAY_C_ABI_VERSION);
        EXPECT_EQ(context.owner(release), &releases);
        const auto kept = context.descriptor();
        EXPECT_EQ(std::vector<std::uint8_t>(kept.begin(), kept.end()), (std::vector<std::uint8_t>{1, 2, 3}));
    }
    EXPECT_EQ(releases, 1);
}

TEST(HurrayHpp, ReleasedHandleIsTheCallersToDestroy) {
    Storage storage;
    Buffer buffer(storage.bytes.data(), 64);
    HurrayBuffer* const raw = buffer.release();
    EXPECT_EQ(buffer.get(), nullptr);
    EXPECT_EQ(hurray_buffer_destroy(raw), HURRAY_OK);
}

TEST(HurrayHpp, ElementTypesHaveNamesAndWidths) {
    EXPECT_EQ(hurray::element_type_name(ElementType::BFloat16), "bfloat16");
    EXPECT_EQ(hurray::element_type_bits(ElementType::Bool), 1U);
    EXPECT_EQ(hurray::element_type_from_name("complex128"), ElementType::Complex128);
    EXPECT_EQ(status_of([] { static_cast<void>(hurray::element_type_from_name("float")); }), HURRAY_ERR_INVALID_TYPE);
}

}  // namespace
