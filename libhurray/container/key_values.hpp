#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "libhurray/base/result.hpp"
#include "libhurray/container/value.hpp"

namespace hurray {

/// One entry of the key-value section: loans of it.
struct KeyValue {
    std::string_view key;
    Value value;
};

/// The key-value section of a file, checked, and kept as it is: entries are taken apart when they are asked for, so that
/// many small ones need little more memory than their bytes.
class KeyValues {
  public:
    /// None.
    KeyValues() noexcept = default;

    /// `bytes` were at `file_offset`. `tolerant`: bytes behind the last entry are nothing to complain of.
    ///
    /// Fails: InvalidLayout
    [[nodiscard]] static Result<KeyValues> parse(std::vector<std::uint8_t> bytes, std::uint64_t file_offset,
                                                 bool tolerant);

    [[nodiscard]] std::size_t size() const noexcept { return offsets_.size(); }
    /// `number` is below size(). In the order of the file. Lives as long as this object, wherever that is moved.
    [[nodiscard]] KeyValue operator[](std::size_t number) const;
    [[nodiscard]] std::string_view key(std::size_t number) const;
    [[nodiscard]] std::optional<std::size_t> find(std::string_view wanted) const;

  private:
    /// From an entry on.
    [[nodiscard]] std::span<const std::uint8_t> entry_bytes(std::size_t number) const;

    std::vector<std::uint8_t> bytes_;
    std::vector<std::uint32_t> offsets_;  // of the entries, in bytes_
    std::vector<std::size_t> by_key_;
};

}  // namespace hurray
