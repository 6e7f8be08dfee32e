#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

namespace hurrayd {

/// A set of numbers that takes room for each range of them. Clients count upwards, so there are few.
///
/// Somebody who leaves gaps on purpose makes many: whoever keeps one bounds it, by either of the last two.
class NumberRanges {
  public:
    [[nodiscard]] bool contains(std::uint64_t number) const noexcept;
    void insert(std::uint64_t number);
    /// This one and all below it.
    void insert_up_to(std::uint64_t number);
    [[nodiscard]] std::size_t size() const noexcept { return ranges_.size(); }

    /// Takes in what lies between the two lowest ranges, of at least two.
    void close_lowest_gap();
    /// Lets go of the lowest range, of at least one.
    void drop_lowest() { ranges_.erase(ranges_.begin()); }

  private:
    std::map<std::uint64_t, std::uint64_t> ranges_;  // first -> last, not touching each other
};

}  // namespace hurrayd
