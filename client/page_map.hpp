#pragma once

#include <array>
#include <cstdint>
#include <optional>

namespace hurray::client {

/// Which pages of an arena are taken: by a block that lives, or for good. Plain logic.
///
/// A request gets the lowest gap that it fits (first fit by address). Of all simple rules this has the best worst case: blocks of
/// up to n pages never need much more than log2(n) times the most pages that were ever taken at once, however they come and go
/// (J. M. Robson, 1977); the rule of the smallest gap can need n times as many.
///
/// Threads: one at a time.
class PageMap {
  public:
    static constexpr std::uint32_t kMostPages = 256;

    /// `pages` free ones, 1 to kMostPages.
    explicit PageMap(std::uint32_t pages) noexcept;

    /// The first of `count` neighbouring pages, above 0, which are taken from now on. None: no gap is that wide.
    [[nodiscard]] std::optional<std::uint32_t> take(std::uint32_t count) noexcept;
    /// Pages that were taken together are free again.
    void give_back(std::uint32_t first, std::uint32_t count) noexcept;
    /// Pages that were taken together are of no use to anybody ever again.
    void retire(std::uint32_t count) noexcept;

    [[nodiscard]] std::uint32_t pages() const noexcept { return pages_; }
    /// Taken by blocks that live.
    [[nodiscard]] std::uint32_t live() const noexcept { return live_; }
    [[nodiscard]] std::uint32_t retired() const noexcept { return retired_; }
    [[nodiscard]] std::uint32_t free() const noexcept { return pages_ - live_ - retired_; }

  private:
    static constexpr std::uint32_t kBits = 64;
    /// The first page from `from` on whose bit is `taken`; pages() if there is none.
    [[nodiscard]] std::uint32_t find(std::uint32_t from, bool taken) const noexcept;
    void mark(std::uint32_t first, std::uint32_t count, bool taken) noexcept;

    std::array<std::uint64_t, kMostPages / kBits> taken_{};
    std::uint32_t pages_;
    std::uint32_t live_ = 0;
    std::uint32_t retired_ = 0;
};

}  // namespace hurray::client
