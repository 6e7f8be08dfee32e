#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "client/segment_pool.hpp"

namespace hurray::client {

/// A daemon with a quota, as the pool sees it.
struct FakeBooks final : SegmentBooks {
    std::uint64_t quota = UINT64_MAX;
    std::map<std::uint64_t, std::uint64_t> reserved;  ///< reservation -> bytes; also those that were published
    std::vector<std::uint64_t> forgotten;
    std::vector<std::uint64_t> unreserved;
    int asked = 0;

    [[nodiscard]] std::uint64_t bytes() const {
        std::uint64_t sum = 0;
        for (const auto& [number, size] : reserved) {
            sum += size;
        }
        return sum;
    }

    Result<std::uint64_t> reserve(std::uint64_t reservation, std::uint64_t size) override {
        ++asked;
        if (bytes() + size > quota) {
            return fail(Errc::OverQuota, "too much");
        }
        reserved.emplace(reservation, size);
        return 1;
    }
    void unreserve(std::uint64_t reservation) noexcept override {
        unreserved.push_back(reservation);
        reserved.erase(reservation);
    }
    void forget(std::vector<std::uint64_t> segments) noexcept override {
        for (const std::uint64_t number : segments) {
            forgotten.push_back(number);
            reserved.erase(number);  // of the pool's segments both have one number
        }
    }
};

/// A pool with such a daemon, and a clock that stands still until it is moved.
struct PoolWithBooks {
    explicit PoolWithBooks(const PoolLimits& limits = {}) : pool(std::make_shared<SegmentPool>(limits)) {
        now = SegmentPool::Clock::time_point(std::chrono::hours(1));
        pool->set_clock([] { return now; });
        pool->set_books(books);
    }

    /// As if it was published and answered.
    std::shared_ptr<Block> take(std::uint64_t length) const {
        auto block = pool->take(length);
        if (!block) {
            return nullptr;
        }
        (*block)->segment().known_in = 1;
        return std::move(*block);
    }

    inline static SegmentPool::Clock::time_point now;
    std::shared_ptr<FakeBooks> books = std::make_shared<FakeBooks>();
    std::shared_ptr<SegmentPool> pool;
};

}  // namespace hurray::client
