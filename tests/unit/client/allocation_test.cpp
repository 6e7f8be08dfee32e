#include "client/allocation.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/client/fake_books.hpp"

namespace hurray::client {
namespace {

using Contents = Allocation::Contents;
constexpr std::uint64_t kPage = SegmentPool::kPage;

class AllocationTest : public testing::Test, protected PoolWithBooks {
  protected:
    Allocation allocate(const std::vector<std::uint64_t>& sizes, Contents contents = Contents::Zeros) const {
        auto made = Allocation::create(*pool, sizes, contents);
        if (!made) {
            ADD_FAILURE() << made.error().message;
            return {};
        }
        if ((*made).block() != nullptr) {
            (*made).block()->segment().known_in = 1;
        }
        return std::move(*made);
    }
    /// Leaves memory behind that is full of 0xAA and waits to be used again.
    void soil(std::uint64_t bytes) const {
        const Allocation before = allocate({bytes});
        std::memset(before.block()->data(), 0xAA, before.block()->length());
    }
    /// Bytes of the block that are not zero, where no buffer is.
    static std::uint64_t dirt_around(const Allocation& allocation) {
        const Block& block = *allocation.block();
        std::vector<bool> covered(block.length());
        for (const auto& buffer : allocation.buffers()) {
            std::fill_n(covered.begin() + static_cast<std::ptrdiff_t>(buffer.offset - block.offset()), buffer.size,
                        true);
        }
        std::uint64_t dirt = 0;
        for (std::uint64_t i = 0; i < block.length(); ++i) {
            dirt += !covered[i] && block.data()[i] != std::byte{0} ? 1 : 0;
        }
        return dirt;
    }
    static std::uint64_t dirt_in(const Allocation& allocation, std::size_t index) {
        const std::byte* const data = allocation.data(index);
        return static_cast<std::uint64_t>(std::count_if(data, data + allocation.buffers()[index].size,
                                                        [](std::byte byte) { return byte != std::byte{0}; }));
    }
};

TEST_F(AllocationTest, FirstBufferBeginsAtAPageTheOthersAt64) {
    const Allocation before = allocate({1});
    for (const std::uint64_t first : {1u, 63u, 64u, 65u, 4095u, 70'000u}) {
        const Allocation allocation = allocate({first, 10, 0, 200});
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(allocation.data(0)) % 4096, 0u);
        for (std::size_t i = 1; i < 4; ++i) {
            EXPECT_EQ(reinterpret_cast<std::uintptr_t>(allocation.data(i)) % 64, 0u);
        }
        EXPECT_EQ(allocation.buffers()[0].offset, allocation.block()->offset());
        EXPECT_GE(allocation.data(1), allocation.data(0) + first);
        EXPECT_LE(allocation.data(3) + 200, allocation.block()->data() + allocation.block()->length());
    }
}

TEST_F(AllocationTest, EmptyBuffersTakeNoMemory) {
    const Allocation allocation = allocate({0, 0});
    EXPECT_EQ(allocation.block(), nullptr);
    EXPECT_EQ(allocation.mapping(), nullptr);
    EXPECT_NE(allocation.data(1), nullptr);
    EXPECT_EQ(books->asked, 0);
}

TEST_F(AllocationTest, UsedAgainItIsZeroToTheLastByte) {  // case A7
    for (const std::uint64_t size : {std::uint64_t{300}, 16 * kPage, 1024 * kPage}) {
        soil(size);
        const Allocation again = allocate({size - 150, 20});
        EXPECT_GT(again.block()->dirty(), 0u) << "else this proves nothing";
        EXPECT_EQ(dirt_in(again, 0), 0u);
        EXPECT_EQ(dirt_in(again, 1), 0u);
        EXPECT_EQ(dirt_around(again), 0u);
        std::memset(again.block()->data(), 0xAA, again.block()->length());
    }
}

TEST_F(AllocationTest, WhateverIsInTheBuffersNothingIsAroundThem) {
    for (const std::uint64_t size : {100 * kPage, 12 * kPage}) {
        soil(size);
        const Allocation again = allocate({size - kPage, 20, 0, 2000}, Contents::Whatever);
        EXPECT_EQ(dirt_in(again, 0), size - kPage);
        EXPECT_EQ(dirt_in(again, 3), 2000u);
        EXPECT_EQ(dirt_around(again), 0u);
    }
}

TEST_F(AllocationTest, TailOfASegmentThatIsLargerThanItsTensorIsZeroAlsoTheNextTime) {
    soil(100 * kPage);
    {
        const Allocation smaller = allocate({90 * kPage - 7});
    }
    const Allocation again = allocate({100 * kPage}, Contents::Whatever);
    EXPECT_EQ(dirt_in(again, 0), 0u) << "what was cleared once is not written by anybody";
    EXPECT_EQ(pool->totals().made, 1u);
}

TEST_F(AllocationTest, WhatIsNotPublishedOfABufferIsZero) {
    soil(100 * kPage);
    Allocation again = allocate({100 * kPage}, Contents::Whatever);
    again.shorten(0, 10);
    EXPECT_EQ(dirt_in(again, 0), 10u);
    Allocation zeros = allocate({100 * kPage});
    zeros.data(0)[20] = std::byte{1};
    zeros.shorten(0, 10);
    EXPECT_EQ(dirt_in(zeros, 0), 1u) << "the caller's own, written on purpose";
}

TEST_F(AllocationTest, NeighboursInAnArenaAreLeftAlone) {
    Allocation left = allocate({kPage});
    Allocation middle = allocate({kPage});
    Allocation right = allocate({kPage});
    for (const Allocation* each : {&left, &middle, &right}) {
        std::memset(each->block()->data(), 0xAA, kPage);
    }
    middle = {};
    const Allocation again = allocate({8});
    EXPECT_EQ(again.data(0), left.data(0) + kPage);
    EXPECT_EQ(dirt_in(left, 0), kPage);
    EXPECT_EQ(dirt_in(right, 0), kPage);
    EXPECT_EQ(dirt_around(again), 0u);
}

TEST_F(AllocationTest, ViewOfTheMemoryKeepsItFromBeingUsedAgain) {
    Allocation allocation = allocate({100 * kPage});
    auto view = allocation.mapping();
    const std::byte* const where = allocation.data(0);
    allocation = {};
    EXPECT_NE(allocate({100 * kPage}).data(0), where);
    EXPECT_EQ(view->data(), where);
    view.reset();
    EXPECT_EQ(pool->totals().idle_segments, 2u);
}

}  // namespace
}  // namespace hurray::client
