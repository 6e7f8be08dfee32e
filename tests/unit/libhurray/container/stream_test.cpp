// Streams of tensors, through memfds and through pipes that give a little at a time.
#include <algorithm>
#include <array>
#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <unistd.h>

#include "libhurray/container/stream_reader.hpp"
#include "libhurray/container/tensor_writer.hpp"
#include "libhurray/format/descriptor_reader.hpp"
#include "tests/support/composite_samples.hpp"
#include "tests/support/memory_file.hpp"

namespace hurray {
namespace {

using Bytes = std::vector<std::uint8_t>;
using Parts = std::vector<std::span<const std::uint8_t>>;

Bytes counting(std::size_t size) {
    Bytes bytes(size);
    for (std::size_t i = 0; i < size; ++i) {
        bytes[i] = static_cast<std::uint8_t>(i * 7 + 1);
    }
    return bytes;
}

/// A uint8 vector with its size in its shape.
Bytes descriptor_of(std::uint64_t size, SyncMode sync = SyncMode::ProducerSynced) {
    test::SampleTensor tensor(ElementType::UInt8, {size}, {test::cpu_buffer(size)});
    if (sync != SyncMode::ProducerSynced) {
        tensor.set_buffers({BufferEntry{size, 64, DeviceTag::Cuda, sync, MemoryClass::Standard}});
    }
    return test::encode(tensor.view);
}

Bytes two_buffers(std::uint64_t first, std::uint64_t second) {
    return test::encode(
        test::SampleTensor(ElementType::UInt8, {first}, {test::cpu_buffer(first), test::cpu_buffer(second)}).view);
}

Bytes joined(const std::vector<Bytes>& parts) {
    Bytes all;
    for (const Bytes& part : parts) {
        all.insert(all.end(), part.begin(), part.end());
    }
    return all;
}

template <class T>
std::string said(const Result<T>& result) {
    return result ? "ok" : result.error().message;
}

StreamReader reader_of(const Bytes& bytes, const ReaderLimits& limits = {}) {
    return StreamReader(test::memory_file(bytes), limits);
}

// ---- Reading -------------------------------------------------------------------------------------------------------

TEST(StreamReader, TensorsComeOneAfterTheOther) {
    StreamReader reader =
        reader_of(joined({two_buffers(3, 5), counting(8), descriptor_of(0), descriptor_of(2), {8, 9}}));
    ASSERT_TRUE(reader.next().value());
    EXPECT_EQ(reader.current()->buffers.size(), 2U);
    const auto first = reader.read_buffer(0);
    ASSERT_TRUE(first) << said(first);
    EXPECT_TRUE(std::ranges::equal(first->bytes(), Bytes{1, 8, 15}));
    const auto second = reader.read_buffer(1);
    ASSERT_TRUE(second);
    EXPECT_TRUE(std::ranges::equal(second->bytes(), Bytes{22, 29, 36, 43, 50}));
    ASSERT_TRUE(reader.next().value());
    const auto empty = reader.read_buffer(0);
    ASSERT_TRUE(empty);
    EXPECT_EQ(empty->bytes().size(), 0U);
    ASSERT_TRUE(reader.next().value());
    EXPECT_EQ(reader.current()->shape[0], 2U);
    ASSERT_FALSE(reader.next().value());
    EXPECT_EQ(reader.current(), nullptr);
    ASSERT_FALSE(reader.next().value());
}

TEST(StreamReader, WhatIsNotReadIsPassedOver) {
    const Bytes large = counting(200000);
    StreamReader reader = reader_of(joined({two_buffers(200000, 3), large, {1, 2, 3}, descriptor_of(1), {42}}));
    ASSERT_TRUE(reader.next().value());
    std::array<std::uint8_t, 2> out{};
    ASSERT_TRUE(reader.read(0, 150000, out));
    EXPECT_EQ(out[0], large[150000]);
    EXPECT_EQ(out[1], large[150001]);
    ASSERT_TRUE(reader.read(1, 1, std::span(out).first(1)));
    EXPECT_EQ(out[0], 2);
    ASSERT_TRUE(reader.next().value());
    ASSERT_TRUE(reader.read(0, 0, std::span(out).first(1)));
    EXPECT_EQ(out[0], 42);
}

TEST(StreamReader, WhatHasPassedIsNotReadAgain) {
    StreamReader reader = reader_of(joined({two_buffers(4, 4), counting(8)}));
    std::array<std::uint8_t, 2> out{};
    EXPECT_EQ(said(reader.read(0, 0, out)), "there is no current tensor");
    ASSERT_TRUE(reader.next().value());
    ASSERT_TRUE(reader.read(0, 0, out));
    EXPECT_EQ(said(reader.read(0, 1, out)), "byte 1 of buffer 0 has passed: a stream is read front to back");
    ASSERT_TRUE(reader.read(1, 0, out));
    EXPECT_EQ(said(reader.read(0, 2, out)), "byte 2 of buffer 0 has passed: a stream is read front to back");
    EXPECT_EQ(reader.read(0, 2, out).error().code, Errc::InvalidArgument);
    EXPECT_EQ(said(reader.read(1, 3, out)), "buffer 1 has 4 bytes; there are no 2 at byte 3");
    EXPECT_EQ(said(reader.read(2, 0, out)), "there is no buffer 2, the tensor has 2");
    EXPECT_EQ(reader.read(2, 0, out).error().code, Errc::IndexOutOfBounds);
    ASSERT_TRUE(reader.read(1, 2, out));
}

TEST(StreamReader, NothingBehindTheTensorIsRead) {
    const UniqueFd file = test::memory_file(joined({descriptor_of(3), {1, 2, 3}, {77}}));
    StreamReader reader(UniqueFd(::dup(file.get())), {});
    ASSERT_TRUE(reader.next().value());
    ASSERT_TRUE(reader.read_buffer(0));
    std::uint8_t next = 0;
    ASSERT_EQ(::read(file.get(), &next, 1), 1);
    EXPECT_EQ(next, 77);
}

TEST(StreamReader, AStreamThatEndsInsideATensorSaysWhere) {
    const Bytes descriptor = descriptor_of(100);
    const Bytes whole = joined({descriptor_of(1), {5}, descriptor, counting(100)});
    const std::size_t begin = descriptor_of(1).size() + 1;
    for (std::size_t length = begin + 1; length < whole.size(); ++length) {
        StreamReader reader = reader_of(Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length)));
        ASSERT_TRUE(reader.next().value());
        const auto second = reader.next();
        const bool in_descriptor = length < begin + descriptor.size();
        const std::string expected = "tensor 1 at byte " + std::to_string(begin) + ": the stream ends at byte " +
                                     std::to_string(length) + ", inside " +
                                     (in_descriptor ? "the descriptor" : "a buffer");
        if (in_descriptor) {
            ASSERT_EQ(said(second), expected);
            ASSERT_EQ(second.error().code, Errc::InvalidLayout);
        } else {
            ASSERT_TRUE(second.value());
            ASSERT_EQ(said(reader.read_buffer(0)), expected);
        }
        // The place is lost, so everything fails from now on.
        ASSERT_EQ(said(reader.next()), expected);
    }
}

TEST(StreamReader, ADescriptorThatIsNoneSaysWhatDecodingSays) {
    Bytes bad = descriptor_of(1);
    bad[0] = 'X';
    StreamReader magic = reader_of(bad);
    const auto wrong_magic = magic.next();
    EXPECT_EQ(wrong_magic.error().code, Errc::InvalidMagic);
    EXPECT_TRUE(wrong_magic.error().message.starts_with("tensor 0 at byte 0: ")) << wrong_magic.error().message;
    bad = descriptor_of(1);
    bad[14] = 0x47;
    StreamReader type = reader_of(bad);
    EXPECT_EQ(said(type.next()), "tensor 0 at byte 0: type_tag is 0x47, which is reserved (ReservedTypeTag)");
    EXPECT_EQ(type.current(), nullptr);
    bad = descriptor_of(1);
    bad[6] = 9;
    StreamReader short_length = reader_of(bad);
    EXPECT_EQ(short_length.next().error().code, Errc::InvalidLayout);
}

TEST(StreamReader, LimitsAreKeptBeforeAnythingIsRead) {
    ReaderLimits limits;
    limits.max_tensor_size = 9;
    StreamReader tensor = reader_of(two_buffers(5, 5), limits);
    EXPECT_EQ(said(tensor.next()), "tensor 0 at byte 0: the buffers have 10 bytes, the maximum is 9");
    EXPECT_EQ(tensor.next().error().code, Errc::Limit);
    StreamReader overflow = reader_of(two_buffers(UINT64_MAX, 5), limits);
    EXPECT_EQ(overflow.next().error().code, Errc::Limit);
    limits = {};
    limits.max_descriptor_size = 52;
    StreamReader descriptor = reader_of(descriptor_of(1), limits);
    EXPECT_EQ(said(descriptor.next()), "tensor 0 at byte 0: descriptor_length is 53, the maximum is 52");
    limits = {};
    limits.producer_synced_only = true;
    StreamReader sync = reader_of(descriptor_of(1, SyncMode::Event), limits);
    EXPECT_EQ(sync.next().error().code, Errc::InvalidSyncMode);
    StreamReader any = reader_of(joined({descriptor_of(1, SyncMode::Event), {1}}));
    EXPECT_TRUE(any.next().value());
}

TEST(StreamReader, HugeBuffersThatAreOnlyAnnouncedTakeNoMemory) {
    for (const std::uint64_t size : {std::uint64_t{1} << 40U, std::uint64_t{1} << 62U, UINT64_MAX}) {
        StreamReader reader = reader_of(joined({descriptor_of(size), counting(100000)}));
        ASSERT_TRUE(reader.next().value());
        const auto read = reader.read_buffer(0);
        ASSERT_FALSE(read);
        EXPECT_EQ(read.error().code, Errc::InvalidLayout) << said(read);
    }
    Bytes bytes = descriptor_of(1);
    bytes[5] = 1;  // a later minor version
    bytes[9] = 0x7F;
    ReaderLimits limits;
    limits.max_descriptor_size = UINT32_MAX;
    StreamReader reader = reader_of(bytes, limits);
    EXPECT_EQ(said(reader.next()), "tensor 0 at byte 0: the stream ends at byte 53, inside the descriptor");
}

TEST(StreamReader, AlignmentIsTheDescriptorsUpToAPage) {
    for (const auto& [asked, given] : {std::pair(64U, 64U), {256U, 256U}, {4096U, 4096U}, {1U << 31U, 4096U}}) {
        test::SampleTensor tensor(ElementType::UInt8, {3}, {BufferEntry{3, asked}});
        StreamReader reader = reader_of(joined({test::encode(tensor.view), {1, 2, 3}}));
        ASSERT_TRUE(reader.next().value());
        const auto block = reader.read_buffer(0);
        ASSERT_TRUE(block);
        EXPECT_EQ(block->alignment(), given);
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block->bytes().data()) % given, 0U);
    }
}

// ---- Pipes ---------------------------------------------------------------------------------------------------------

struct Pipe {
    explicit Pipe(int flags = 0) {
        std::array<int, 2> ends{};
        EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC | flags), 0);
        out = UniqueFd(ends[0]);
        in = UniqueFd(ends[1]);
    }
    UniqueFd out;
    UniqueFd in;
};

/// All tensors of a stream, again as a stream.
Bytes copy_stream(StreamReader& reader) {
    const UniqueFd file = test::memory_file();
    StreamWriter writer(UniqueFd(::dup(file.get())));
    for (auto more = reader.next(); more.value(); more = reader.next()) {
        std::vector<MemoryBlock> blocks;
        Parts parts;
        for (std::size_t i = 0; i < reader.current()->buffers.size(); ++i) {
            blocks.push_back(*reader.read_buffer(i));
            parts.emplace_back(blocks.back().bytes());
        }
        EXPECT_TRUE(writer.write({}, *reader.current(), parts));
    }
    EXPECT_TRUE(writer.finish());
    return test::contents(file);
}

TEST(StreamReader, APipeThatGivesByteByByteIsReadWhole) {
    const Bytes stream = joined({two_buffers(300, 5), counting(305), descriptor_of(2), {1, 2}});
    Pipe pipe;
    std::thread feeder([&] {
        for (const std::uint8_t byte : stream) {
            EXPECT_EQ(::write(pipe.in.get(), &byte, 1), 1);
        }
        pipe.in.reset();
    });
    StreamReader reader(std::move(pipe.out), {});
    EXPECT_EQ(copy_stream(reader), stream);
    feeder.join();
}

TEST(StreamReader, ANonBlockingPipeIsWaitedFor) {
    const Bytes stream = joined({descriptor_of(1000000), counting(1000000)});
    Pipe pipe(O_NONBLOCK);
    std::thread feeder([&] {
        const auto decoded = decode_descriptor(stream);
        StreamWriter writer(std::move(pipe.in));  // it has to wait too: a pipe holds less
        const Bytes data = counting(1000000);
        EXPECT_TRUE(writer.write({}, *decoded, Parts{data}));
    });
    StreamReader reader(std::move(pipe.out), {});
    EXPECT_EQ(copy_stream(reader), stream);
    feeder.join();
}

TEST(StreamReader, SignalsDoNotInterruptIt) {
    struct sigaction action{};
    struct sigaction before{};
    action.sa_handler = [](int) {};  // without SA_RESTART, so that read returns EINTR
    ASSERT_EQ(::sigaction(SIGUSR1, &action, &before), 0);
    const Bytes stream = joined({descriptor_of(64), counting(64)});
    Pipe pipe;
    const pthread_t reading = ::pthread_self();
    std::thread feeder([&] {
        for (const std::uint8_t byte : stream) {
            ::pthread_kill(reading, SIGUSR1);
            EXPECT_EQ(::write(pipe.in.get(), &byte, 1), 1);
        }
        pipe.in.reset();
    });
    StreamReader reader(std::move(pipe.out), {});
    EXPECT_EQ(copy_stream(reader), stream);
    feeder.join();
    ASSERT_EQ(::sigaction(SIGUSR1, &before, nullptr), 0);
}

TEST(StreamReader, WhatCantBeReadSaysWhatTheSystemSays) {
    StreamReader nothing(UniqueFd(), {});
    EXPECT_EQ(said(nothing.next()), "tensor 0 at byte 0: reading failed: Bad file descriptor");
    EXPECT_EQ(nothing.next().error().code, Errc::InvalidArgument);
    Pipe pipe;
    StreamReader wrong_end(std::move(pipe.in), {});
    EXPECT_EQ(wrong_end.next().error().os_error, EBADF);
}

// ---- Writing -------------------------------------------------------------------------------------------------------

TEST(StreamWriter, RefusalsWriteNothing) {
    const UniqueFd file = test::memory_file();
    StreamWriter writer(UniqueFd(::dup(file.get())));
    const Bytes bytes = descriptor_of(3);
    const auto view = decode_descriptor(bytes).value();
    const Bytes data{1, 2, 3};
    EXPECT_EQ(said(writer.write("name", view, Parts{data})), "a name is given, but tensors in a stream have none");
    EXPECT_EQ(said(writer.write({}, view, Parts{})), "0 buffers are given, the descriptor has 1");
    EXPECT_EQ(said(writer.write({}, view, Parts{std::span(data).first(2)})),
              "buffers[0] has 2 bytes, the descriptor says 3");
    const Bytes event = descriptor_of(3, SyncMode::Event);
    const auto refused = writer.write({}, decode_descriptor(event).value(), Parts{data});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Errc::InvalidSyncMode);
    EXPECT_TRUE(test::contents(file).empty());
    EXPECT_TRUE(writer.write({}, view, Parts{data}));
    EXPECT_EQ(test::contents(file), joined({bytes, data}));
}

TEST(StreamWriter, ACompositeIsWrittenWhole) {
    const UniqueFd file = test::memory_file();
    StreamWriter writer(UniqueFd(::dup(file.get())));
    const Bytes head = test::encode(test::HeadSample{.rule = CompositionRule::Group, .member_count = 2});
    const Bytes nested = test::encode(test::HeadSample{.rule = CompositionRule::Group, .member_count = 1});
    const Bytes member = descriptor_of(0);
    const Bytes nothing;
    ASSERT_TRUE(writer.write({}, decode_descriptor(head).value(), Parts{}));
    ASSERT_TRUE(writer.write({}, decode_descriptor(nested).value(), Parts{}));
    EXPECT_EQ(said(writer.finish()), "a composite head still lacks 1 members");
    ASSERT_TRUE(writer.write({}, decode_descriptor(member).value(), Parts{nothing}));
    EXPECT_EQ(said(writer.finish()), "a composite head still lacks 1 members");
    ASSERT_TRUE(writer.write({}, decode_descriptor(member).value(), Parts{nothing}));
    EXPECT_EQ(said(writer.finish()), "ok");
    EXPECT_EQ(said(writer.finish()), "the output is finished");
    EXPECT_EQ(writer.write({}, decode_descriptor(member).value(), Parts{nothing}).error().code, Errc::Closed);
}

TEST(StreamWriter, EightHeadsInOneAnotherAreTheLimit) {
    StreamWriter writer(test::memory_file());
    const Bytes head = test::encode(test::HeadSample{.rule = CompositionRule::Group, .member_count = 1});
    const auto view = decode_descriptor(head).value();
    for (int depth = 1; depth <= 8; ++depth) {
        ASSERT_TRUE(writer.write({}, view, Parts{}));
    }
    EXPECT_EQ(said(writer.write({}, view, Parts{})), "layout has level 9, the maximum is 8 (SubpavingNestingTooDeep)");
    const Bytes nothing;
    EXPECT_TRUE(writer.write({}, decode_descriptor(descriptor_of(0)).value(), Parts{nothing}));
    EXPECT_TRUE(writer.finish());
}

TEST(StreamWriter, APipeThatNobodyReadsIsClosed) {
    struct sigaction ignore{};
    struct sigaction before{};
    ignore.sa_handler = SIG_IGN;
    ASSERT_EQ(::sigaction(SIGPIPE, &ignore, &before), 0);
    Pipe pipe;
    pipe.out.reset();
    StreamWriter writer(std::move(pipe.in));
    const Bytes bytes = descriptor_of(0);
    const Bytes nothing;
    const auto written = writer.write({}, decode_descriptor(bytes).value(), Parts{nothing});
    ASSERT_FALSE(written);
    EXPECT_EQ(written.error().code, Errc::Closed);
    EXPECT_EQ(written.error().message, "byte 0 of the output: writing failed: Broken pipe");
    EXPECT_EQ(said(writer.finish()), written.error().message);
    ASSERT_EQ(::sigaction(SIGPIPE, &before, nullptr), 0);
}

TEST(StreamWriter, AFullDeviceIsNoSpace) {
    UniqueFd full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
    if (!full) {
        GTEST_SKIP() << "there is no /dev/full here";
    }
    StreamWriter writer(std::move(full));
    const Bytes bytes = descriptor_of(0);
    const Bytes nothing;
    EXPECT_EQ(writer.write({}, decode_descriptor(bytes).value(), Parts{nothing}).error().code, Errc::NoSpace);
}

}  // namespace
}  // namespace hurray
