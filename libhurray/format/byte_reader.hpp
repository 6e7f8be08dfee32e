#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>

#include "libhurray/format/descriptor_error.hpp"
#include "libhurray/format/little_endian.hpp"

namespace hurray {

/// A boolean that is stored as neither 0 nor 1: decoding takes it for true, the written format does not allow it.
struct OddFlag {
    const char* field = nullptr;  // null: there is none
    std::uint8_t value = 0;
};

/// The cursor of the decoder, which remembers the first thing that went wrong.
///
/// After a failure every read gives zeros or nothing and every check passes, so that code which reads and checks in the
/// format's order reports exactly the failure that comes first, without a branch a line. What was read is meaningless
/// unless ok(); loops over it run to the size that was read, never to a count.
class ByteReader {
  public:
    /// Reads `bytes` from `position` on. Bytes past the end of `bytes` do not exist for it.
    constexpr ByteReader(std::span<const std::uint8_t> bytes, std::size_t position) noexcept
        : bytes_(bytes), position_(position) {}

    template <std::integral T>
    [[nodiscard]] constexpr T read(const char* field) noexcept {
        const auto at = bytes(sizeof(T), field);
        return at.empty() ? T{0} : load_little_endian<T>(at.data());
    }

    /// A boolean: any byte but 0 is true. Which field held something else than 0 and 1 first is kept for odd_flag().
    [[nodiscard]] constexpr bool flag(const char* field) noexcept {
        const auto byte = read<std::uint8_t>(field);
        if (byte > 1 && odd_flag_.field == nullptr) {
            odd_flag_ = {field, byte};
        }
        return byte != 0;
    }

    template <std::integral T>
    [[nodiscard]] constexpr PackedArray<T> array(std::size_t count, const char* field) noexcept {
        return PackedArray<T>(bytes(count * sizeof(T), field));
    }

    /// The next `count` bytes; `count` is below 2^62.
    [[nodiscard]] constexpr std::span<const std::uint8_t> bytes(std::size_t count, const char* field) noexcept {
        if (!ok_) {
            return {};
        }
        if (count > bytes_.size() - position_) {
            fail({Fault::DescriptorTruncated, field, 0, position_ + count, bytes_.size()});
            return {};
        }
        const auto result = bytes_.subspan(position_, count);
        position_ += count;
        return result;
    }

    /// Reserved bytes are read by this and by nothing else: as one run, which has to be zero.
    constexpr void reserved(std::size_t count, const char* field) noexcept { check_zero(bytes(count, field), field); }

    constexpr void check_zero(std::span<const std::uint8_t> run, const char* field) noexcept {
        const bool zero = std::all_of(run.begin(), run.end(), [](std::uint8_t byte) { return byte == 0; });
        check(zero, {Fault::ReservedBytesNonZero, field});
    }

    constexpr void check(bool condition, const DescriptorError& otherwise) noexcept {
        if (!condition && ok_) {
            fail(otherwise);
        }
    }

    constexpr void fail(const DescriptorError& error) noexcept {
        if (ok_) {
            ok_ = false;
            error_ = error;
        }
    }

    [[nodiscard]] constexpr bool ok() const noexcept { return ok_; }
    /// The first failure; only after !ok().
    [[nodiscard]] constexpr const DescriptorError& error() const noexcept { return error_; }
    /// How many bytes have been consumed, those before the first position included.
    [[nodiscard]] constexpr std::size_t position() const noexcept { return position_; }
    [[nodiscard]] constexpr const OddFlag& odd_flag() const noexcept { return odd_flag_; }
    [[nodiscard]] constexpr std::size_t limit() const noexcept { return bytes_.size(); }

  private:
    std::span<const std::uint8_t> bytes_;
    std::size_t position_;
    bool ok_ = true;
    DescriptorError error_;
    OddFlag odd_flag_;
};

}  // namespace hurray
