#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "libhurray/base/result.hpp"
#include "libhurray/format/little_endian.hpp"

namespace hurray {

/// A cursor over one part of a file (header, index, ...), which remembers the first thing that went wrong, with the part's
/// name and the byte of the file. After a failure every read gives zeros or nothing.
class PartReader {
  public:
    /// `bytes` lie at `file_offset` of the file; `part` is a literal.
    PartReader(std::span<const std::uint8_t> bytes, std::uint64_t file_offset, const char* part) noexcept
        : bytes_(bytes), file_offset_(file_offset), part_(part) {}

    template <std::integral T>
    [[nodiscard]] T read(const char* field) {
        const auto at = bytes(sizeof(T), field);
        return at.empty() ? T{0} : load_little_endian<T>(at.data());
    }

    [[nodiscard]] std::span<const std::uint8_t> bytes(std::uint64_t count, const char* field) {
        if (error_) {
            return {};
        }
        field_begin_ = position_;
        if (count > remaining()) {
            fail(std::string(field) + " takes " + std::to_string(count) + " bytes, but " + std::to_string(remaining()) +
                 " are left of the " + part_);
            return {};
        }
        const auto result = bytes_.subspan(position_, static_cast<std::size_t>(count));
        position_ += result.size();
        return result;
    }

    [[nodiscard]] std::string_view text(std::uint64_t count, const char* field) {
        const auto run = bytes(count, field);
        return {reinterpret_cast<const char*>(run.data()), run.size()};
    }

    /// Something is wrong with the field that was read last.
    void fail(std::string_view what) {
        if (!error_) {
            error_ = Error{Errc::InvalidLayout, std::string(part_) + ", byte " + std::to_string(field_offset()) +
                                                    " of the file: " + std::string(what)};
        }
    }
    void check(bool condition, std::string_view otherwise) {
        if (!condition) {
            fail(otherwise);
        }
    }

    /// Nothing is left of the part.
    void check_end() {
        if (!error_ && remaining() > 0) {
            field_begin_ = position_;
            fail(std::to_string(remaining()) + " bytes are behind the last entry");
        }
    }

    [[nodiscard]] bool ok() const noexcept { return !error_; }
    [[nodiscard]] Error take_error() { return *std::exchange(error_, std::nullopt); }
    [[nodiscard]] std::size_t remaining() const noexcept { return bytes_.size() - position_; }
    /// In the part.
    [[nodiscard]] std::size_t position() const noexcept { return position_; }

  private:
    [[nodiscard]] std::uint64_t field_offset() const noexcept { return file_offset_ + field_begin_; }

    std::span<const std::uint8_t> bytes_;
    std::uint64_t file_offset_;
    const char* part_;
    std::size_t position_ = 0;
    std::size_t field_begin_ = 0;
    std::optional<Error> error_;
};

}  // namespace hurray
