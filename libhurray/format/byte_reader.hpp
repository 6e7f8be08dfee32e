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
/// After a failure nothing is left to read: every read gives zeros or nothing and no check is recorded any more, so that code
/// which reads and checks in the format's order reports exactly the failure that comes first, without a branch a line. What
/// was read is meaningless unless ok(); loops over it run to the size that was read, never to a count.
///
/// Reading and checking are inlined, failing is not: nearly every descriptor is good.
class ByteReader {
  public:
    /// Reads `bytes` from `position` on. Bytes past the end of `bytes` do not exist for it.
    constexpr ByteReader(std::span<const std::uint8_t> bytes, std::size_t position) noexcept
        : next_(bytes.data() + position), left_(bytes.size() - position), size_(bytes.size()) {}

    template <std::integral T>
    [[nodiscard]] constexpr T read(const char* field) noexcept {
        if (left_ < sizeof(T)) [[unlikely]] {
            fail_truncated(sizeof(T), field);
            return T{0};
        }
        const T value = load_little_endian<T>(next_);
        advance(sizeof(T));
        return value;
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
        if (left_ < count) [[unlikely]] {
            fail_truncated(count, field);
            return {};
        }
        const std::span<const std::uint8_t> result(next_, count);
        advance(count);
        return result;
    }

    /// Reserved bytes are read by this and by nothing else: as one run, which has to be zero.
    constexpr void reserved(std::size_t count, const char* field) noexcept { check_zero(bytes(count, field), field); }

    constexpr void check_zero(std::span<const std::uint8_t> run, const char* field) noexcept {
        const bool zero = std::all_of(run.begin(), run.end(), [](std::uint8_t byte) { return byte == 0; });
        check(zero, Fault::ReservedBytesNonZero, field);
    }

    /// Fails with `fault` unless `condition` holds. The parts of the error are put together only then.
    constexpr void check(bool condition, Fault fault, const char* field, std::uint64_t index = 0,
                         std::uint64_t value = 0, std::uint64_t limit = 0) noexcept {
        if (!condition) [[unlikely]] {
            fail_check(fault, field, index, value, limit);
        }
    }

    [[gnu::cold, gnu::noinline]] constexpr void fail(const DescriptorError& error) noexcept {
        if (ok_) {
            ok_ = false;
            error_ = error;
            next_ += left_;
            left_ = 0;
        }
    }

    [[nodiscard]] constexpr bool ok() const noexcept { return ok_; }
    /// The first failure; only after !ok().
    [[nodiscard]] constexpr const DescriptorError& error() const noexcept { return error_; }
    /// How many bytes have been consumed, those before the first position included. Only while ok().
    [[nodiscard]] constexpr std::size_t position() const noexcept { return size_ - left_; }
    [[nodiscard]] constexpr std::size_t left() const noexcept { return left_; }
    [[nodiscard]] constexpr const OddFlag& odd_flag() const noexcept { return odd_flag_; }

  private:
    constexpr void advance(std::size_t count) noexcept {
        next_ += count;
        left_ -= count;
    }

    [[gnu::cold, gnu::noinline]] constexpr void fail_check(Fault fault, const char* field, std::uint64_t index,
                                                           std::uint64_t value, std::uint64_t limit) noexcept {
        fail({fault, field, index, value, limit});
    }

    [[gnu::cold, gnu::noinline]] constexpr void fail_truncated(std::size_t count, const char* field) noexcept {
        fail({Fault::DescriptorTruncated, field, 0, position() + count, size_});
    }

    const std::uint8_t* next_;
    std::size_t left_;
    std::size_t size_;
    bool ok_ = true;
    DescriptorError error_;
    OddFlag odd_flag_;
};

}  // namespace hurray
