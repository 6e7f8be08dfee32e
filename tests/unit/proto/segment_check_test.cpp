#include "proto/wire/segment_check.hpp"

#include <array>
#include <functional>
#include <ostream>
#include <string>

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "tests/unit/proto/wire_test_support.hpp"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U  // Linux 6.3
#endif

namespace hurray::wire {
namespace {

constexpr std::uint64_t kSize = 8192;

Segment segment_of(std::uint64_t size, Memory memory = Memory::Reusable) {
    return Segment{.number = 1, .carries_fd = true, .memory = memory, .size = size};
}

class SegmentCheckTest : public DescriptorTest {};

TEST_F(SegmentCheckTest, AReservedMemfdWithTheReusableSealsIsReusableMemory) {
    const UniqueFd fd = make_memfd(kSize, kReusable);
    EXPECT_TRUE(check_segment(fd.get(), segment_of(kSize), {"s"}));
}

TEST_F(SegmentCheckTest, AReservedMemfdWithTheImmutableSealsIsImmutableMemory) {
    const UniqueFd fd = make_memfd(kSize, kImmutable);
    EXPECT_TRUE(check_segment(fd.get(), segment_of(kSize, Memory::Immutable), {"s"}));
}

TEST_F(SegmentCheckTest, ASizeThatIsNoMultipleOfAPageIsFine) {
    const UniqueFd fd = make_memfd(5001, kReusable);
    EXPECT_TRUE(check_segment(fd.get(), segment_of(5001), {"s"}));
}

TEST_F(SegmentCheckTest, AReadOnlyDescriptorIsAsGoodAsAReadWriteOne) {
    const UniqueFd fd = make_memfd(kSize, kReusable);
    const std::string link = "/proc/self/fd/" + std::to_string(fd.get());
    const UniqueFd read_only = owned(::open(link.c_str(), O_RDONLY | O_CLOEXEC), "open");
    EXPECT_TRUE(check_segment(read_only.get(), segment_of(kSize), {"s"}));
}

TEST_F(SegmentCheckTest, TheExecSealOnTopDoesNoHarm) {
    const int probe = ::memfd_create("probe", MFD_CLOEXEC | MFD_NOEXEC_SEAL);
    if (probe < 0) {
        GTEST_SKIP() << "this kernel has no MFD_NOEXEC_SEAL";
    }
    ::close(probe);
    const UniqueFd fd = make_memfd(kSize, kReusable, Sparse::No, MFD_CLOEXEC | MFD_NOEXEC_SEAL);
    EXPECT_TRUE(check_segment(fd.get(), segment_of(kSize), {"s"}));
}

TEST_F(SegmentCheckTest, AClosedDescriptorIsRefused) {
    const auto checked = check_segment(-1, segment_of(kSize), {"publish.segments", 2});
    ASSERT_FALSE(checked);
    expect_error(checked.error(), Errc::InvalidArgument, "publish.segments[2]", "closed or was opened with O_PATH");
    EXPECT_EQ(checked.error().os_error, EBADF);
}

TEST_F(SegmentCheckTest, ASegmentOfNoBytesIsRefused) {
    const UniqueFd fd = make_memfd(0, kReusable);
    const auto checked = check_segment(fd.get(), segment_of(0), {"s"});
    ASSERT_FALSE(checked);
    expect_error(checked.error(), Errc::InvalidArgument, "s.size", "0 bytes");
}

TEST_F(SegmentCheckTest, MemoryThatIsNotBuiltYetIsUnsupportedWhateverTheDescriptor) {
    for (const Memory memory : {Memory::GpuLegacy, Memory::GpuVmm, Memory::GpuPool}) {
        const auto checked = check_segment(-1, segment_of(kSize, memory), {"s"});
        ASSERT_FALSE(checked);
        expect_error(checked.error(), Errc::Unsupported, "s.memory", "not built yet");
    }
}

TEST_F(SegmentCheckTest, SealsOnTopOfTheImmutableOnesDoNoHarm) {
    const UniqueFd fd = make_memfd(kSize, kImmutable | F_SEAL_FUTURE_WRITE);
    EXPECT_TRUE(check_segment(fd.get(), segment_of(kSize, Memory::Immutable), {"s"}));
}

TEST_F(SegmentCheckTest, WhatMemoryADescriptorIsItsSealsSay) {
    for (const auto& [seals, memory] :
         {std::pair(kReusable, Memory::Reusable), std::pair(kImmutable, Memory::Immutable),
          std::pair(kImmutable | F_SEAL_FUTURE_WRITE, Memory::Immutable)}) {
        const UniqueFd fd = make_memfd(kSize, seals);
        const auto found = find_segment(fd.get(), {"fds", 0});
        ASSERT_TRUE(found) << found.error().message;
        EXPECT_EQ(found->memory, memory);
        EXPECT_EQ(found->size, kSize);
        EXPECT_EQ(found->file, check_segment(fd.get(), segment_of(kSize, memory), {"s"}).value());
    }
}

TEST_F(SegmentCheckTest, WhatIsNoMemoryToShareIsToldWhatItLacks) {
    const auto refused = [](const UniqueFd& fd) {
        const auto found = find_segment(fd.get(), {"fds", 3});
        EXPECT_FALSE(found);
        EXPECT_EQ(found.error().code, Errc::InvalidArgument);
        EXPECT_EQ(found.error().field, "fds[3]");
        return found.error().message;
    };
    EXPECT_EQ(
        refused(make_memfd(kSize, 0)),
        "the memfd has no seals, so anybody could write to it: SHRINK|GROW|FUTURE_WRITE|SEAL are needed for memory "
        "that is used again, SHRINK|GROW|WRITE|SEAL for memory that never changes");
    EXPECT_EQ(refused(make_memfd(kSize, kReusable & ~F_SEAL_SEAL)),
              "the memfd has SHRINK|GROW|FUTURE_WRITE where SHRINK|GROW|FUTURE_WRITE|SEAL are needed: SEAL missing");
    EXPECT_EQ(refused(make_memfd(kSize, F_SEAL_WRITE | F_SEAL_GROW)),
              "the memfd has GROW|WRITE where SHRINK|GROW|WRITE|SEAL are needed: SHRINK|SEAL missing");
    EXPECT_EQ(refused(make_memfd(kSize, kImmutable, Sparse::Yes)),
              "the memfd is sparse: 0 of its 8192 bytes are reserved (fallocate does that)");
    EXPECT_EQ(refused(make_memfd(0, kReusable)), "the descriptor has 0 bytes: empty buffers need no memory");
    EXPECT_EQ(refused(owned(::eventfd(0, EFD_CLOEXEC), "eventfd")),
              "the descriptor is not a memfd but an object without memory (such as an eventfd)");
}

TEST_F(SegmentCheckTest, ADmabufIsNotTakenOnSomebodysWord) {
    const auto refused = [](const UniqueFd& fd) {
        const auto checked = check_segment(fd.get(), segment_of(kSize, Memory::Dmabuf), {"s"});
        EXPECT_FALSE(checked);
        return checked.error().message;
    };
    EXPECT_EQ(refused(make_memfd(kSize, kReusable)), "the descriptor is not a dma-buf but a memfd or a file in tmpfs");
    EXPECT_EQ(refused(make_memfd(kSize, 0)), "the descriptor is not a dma-buf but a memfd or a file in tmpfs");
    EXPECT_EQ(refused(owned(::eventfd(0, EFD_CLOEXEC), "eventfd")),
              "the descriptor is not a dma-buf but an object without memory (such as an eventfd)");
    EXPECT_EQ(refused(owned(::open("/dev/zero", O_RDWR | O_CLOEXEC), "open")),
              "the descriptor is not a dma-buf but a device");
    EXPECT_EQ(refused(owned(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC), "open")),
              "the descriptor is not a dma-buf but a file or directory of a file system that has no seals");
}

/// A descriptor that must not pass for `kSize` bytes of the claimed memory.
struct Impostor {
    const char* name;
    std::function<UniqueFd()> make;
    const char* field;
    const char* words;
    Memory claimed = Memory::Reusable;
};

void PrintTo(const Impostor& impostor, std::ostream* out) { *out << impostor.name; }

class ImpostorTest : public DescriptorTest, public ::testing::WithParamInterface<Impostor> {};

TEST_P(ImpostorTest, IsRefusedWithWhatWasFound) {
    const UniqueFd fd = GetParam().make();
    const auto checked = check_segment(fd.get(), segment_of(kSize, GetParam().claimed), {"publish.segments", 3});
    ASSERT_FALSE(checked);
    expect_error(checked.error(), Errc::InvalidArgument, std::string("publish.segments[3]") + GetParam().field,
                 GetParam().words);
}

UniqueFd one_end(std::array<int, 2> ends) {
    ::close(ends[1]);
    return UniqueFd(ends[0]);
}

UniqueFd pipe_end() {
    std::array<int, 2> ends{};
    owned(::pipe2(ends.data(), O_CLOEXEC) == 0 ? ::dup(0) : -1, "pipe2");
    return one_end(ends);
}

UniqueFd socket_end() {
    std::array<int, 2> ends{};
    owned(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0 ? ::dup(0) : -1, "socketpair");
    return one_end(ends);
}

UniqueFd opened(const char* path, int flags) { return owned(::open(path, flags | O_CLOEXEC, 0600), path); }

UniqueFd path_only() {
    const UniqueFd fd = make_memfd(kSize, kReusable);
    return opened(("/proc/self/fd/" + std::to_string(fd.get())).c_str(), O_PATH);
}

UniqueFd write_only() {
    UniqueFd fd = make_memfd(kSize, 0);
    const std::string link = "/proc/self/fd/" + std::to_string(fd.get());
    UniqueFd opened_anew = opened(link.c_str(), O_WRONLY);
    if (::fcntl(fd.get(), F_ADD_SEALS, kReusable) != 0) {
        throw std::runtime_error("F_ADD_SEALS");
    }
    return opened_anew;
}

UniqueFd tmpfs_file() {
    UniqueFd fd = opened("/dev/shm", O_TMPFILE | O_RDWR);
    if (::fallocate(fd.get(), 0, 0, kSize) != 0) {
        throw std::runtime_error("fallocate");
    }
    return fd;
}

UniqueFd with_a_hole() {
    UniqueFd fd = make_memfd(kSize, 0, Sparse::Yes);
    if (::fallocate(fd.get(), 0, 0, kSize / 2) != 0 || ::fcntl(fd.get(), F_ADD_SEALS, kReusable) != 0) {
        throw std::runtime_error("fallocate or F_ADD_SEALS");
    }
    return fd;
}

INSTANTIATE_TEST_SUITE_P(
    , ImpostorTest,
    ::testing::Values(
        Impostor{"Pipe", pipe_end, "", "not a memfd but a pipe"},
        Impostor{"Socket", socket_end, "", "not a memfd but a socket"},
        Impostor{"EventFd", [] { return owned(::eventfd(0, EFD_CLOEXEC), "eventfd"); }, "", "such as an eventfd"},
        Impostor{"DevZero", [] { return opened("/dev/zero", O_RDWR); }, "", "not a memfd but a device"},
        Impostor{"Directory", [] { return opened("/proc/self", O_RDONLY | O_DIRECTORY); }, "", "a file or directory"},
        Impostor{"FileOnDisk", [] { return opened("/proc/self/exe", O_RDONLY); }, "", "a file or directory"},
        Impostor{"PathOnlyDescriptor", path_only, "", "opened with O_PATH"},
        Impostor{"OpenForWritingOnly", write_only, "", "opened for writing only"},
        Impostor{"FileInTmpfs", tmpfs_file, "", "a file in tmpfs"},
        Impostor{"MemfdThatCannotBeSealed", [] { return make_memfd(kSize, 0, Sparse::No, MFD_CLOEXEC); }, "",
                 "without MFD_ALLOW_SEALING"},
        Impostor{"NoSeals", [] { return make_memfd(kSize, 0); }, "",
                 "has no seals where SHRINK|GROW|FUTURE_WRITE|SEAL are needed"},
        Impostor{"WithoutShrink", [] { return make_memfd(kSize, kReusable & ~F_SEAL_SHRINK); }, "",
                 "has GROW|FUTURE_WRITE|SEAL where"},
        Impostor{"WithoutGrow", [] { return make_memfd(kSize, kReusable & ~F_SEAL_GROW); }, "",
                 "has SHRINK|FUTURE_WRITE|SEAL where"},
        Impostor{"WithoutFutureWrite", [] { return make_memfd(kSize, kReusable & ~F_SEAL_FUTURE_WRITE); }, "",
                 "has SHRINK|GROW|SEAL where"},
        Impostor{"WithoutSeal", [] { return make_memfd(kSize, kReusable & ~F_SEAL_SEAL); }, "",
                 "has SHRINK|GROW|FUTURE_WRITE where"},
        Impostor{"WriteSealBesideFutureWrite", [] { return make_memfd(kSize, kReusable | F_SEAL_WRITE); }, "",
                 "has SHRINK|GROW|WRITE|FUTURE_WRITE|SEAL where"},
        Impostor{"ImmutableClaimedReusable", [] { return make_memfd(kSize, kImmutable); }, "",
                 "has SHRINK|GROW|WRITE|SEAL where SHRINK|GROW|FUTURE_WRITE|SEAL"},
        Impostor{"ReusableClaimedImmutable", [] { return make_memfd(kSize, kReusable); }, "",
                 "has SHRINK|GROW|FUTURE_WRITE|SEAL where SHRINK|GROW|WRITE|SEAL", Memory::Immutable},
        Impostor{"ImmutableWithoutShrink", [] { return make_memfd(kSize, kImmutable & ~F_SEAL_SHRINK); }, "",
                 "SHRINK missing", Memory::Immutable},
        Impostor{"ImmutableWithoutGrow", [] { return make_memfd(kSize, kImmutable & ~F_SEAL_GROW); }, "",
                 "GROW missing", Memory::Immutable},
        Impostor{"ImmutableWithoutWrite", [] { return make_memfd(kSize, kImmutable & ~F_SEAL_WRITE); }, "",
                 "WRITE missing", Memory::Immutable},
        Impostor{"ImmutableWithoutSeal", [] { return make_memfd(kSize, kImmutable & ~F_SEAL_SEAL); }, "",
                 "SEAL missing", Memory::Immutable},
        Impostor{"ImmutableAndSparse", [] { return make_memfd(kSize, kImmutable, Sparse::Yes); }, "",
                 "sparse: 0 of its 8192 bytes are reserved", Memory::Immutable},
        Impostor{"SmallerThanClaimed", [] { return make_memfd(kSize / 2, kReusable); }, ".size",
                 "has 4096 bytes, the message says 8192"},
        Impostor{"OneByteSmaller", [] { return make_memfd(kSize - 1, kReusable); }, ".size", "has 8191 bytes"},
        Impostor{"LargerThanClaimed", [] { return make_memfd(2 * kSize, kReusable); }, ".size", "has 16384 bytes"},
        Impostor{"EmptyMemfd", [] { return make_memfd(0, kReusable); }, ".size", "has 0 bytes"},
        Impostor{"Sparse", [] { return make_memfd(kSize, kReusable, Sparse::Yes); }, "",
                 "sparse: 0 of its 8192 bytes are reserved"},
        Impostor{"WithAHole", with_a_hole, "", "sparse: 4096 of its 8192 bytes are reserved"}),
    [](const auto& info) { return std::string(info.param.name); });

// The rules for overlapping buffers hold within a segment, and were got round by sending one memfd as two.
TEST(SegmentIdentityTest, OneFileUnderTwoNumbersIsRefusedHoweverItWasOpened) {
    const UniqueFd one = make_memfd(kSize, kReusable);
    const UniqueFd two = make_memfd(kSize, kReusable);
    const UniqueFd duplicate(::fcntl(one.get(), F_DUPFD_CLOEXEC, 0));
    const UniqueFd opened(::open(("/proc/self/fd/" + std::to_string(one.get())).c_str(), O_RDONLY | O_CLOEXEC));
    const auto identity = [](const UniqueFd& fd) { return check_segment(fd.get(), segment_of(kSize), {"s"}).value(); };
    EXPECT_TRUE(check_distinct({}, "publish"));
    EXPECT_TRUE(check_distinct({identity(one), identity(two)}, "publish"));
    for (const UniqueFd* again : {&one, &duplicate, &opened}) {
        const auto checked = check_distinct({identity(one), identity(two), identity(*again)}, "publish");
        ASSERT_FALSE(checked);
        expect_error(checked.error(), Errc::InvalidArgument, "publish.segments[2]", "is that of segment 0 as well");
    }
}

}  // namespace
}  // namespace hurray::wire
