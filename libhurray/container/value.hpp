#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "libhurray/base/result.hpp"
#include "libhurray/container/part_reader.hpp"

/// The values that a file keeps beside its tensors.
namespace hurray {

enum class ValueTag : std::uint8_t {
    String = 0x01,
    Int64 = 0x02,
    UInt64 = 0x03,
    Float64 = 0x04,
    Bool = 0x05,
    Bytes = 0x06,
    Array = 0x07,
};

/// One value; the field that its tag names counts. What has a length is a loan.
struct Value {
    ValueTag tag = ValueTag::Bool;
    ValueTag element_tag = ValueTag::Bool;  // of an array: that of all its elements
    bool boolean = false;
    std::int64_t int64 = 0;
    std::uint64_t uint64 = 0;
    std::uint64_t float64_bits = 0;      // so that a NaN keeps its payload
    std::span<const std::uint8_t> data;  // a string's or bytes' own, an array's encoded elements
    std::uint64_t count = 0;             // an array's elements
};

/// Reads a tag and its value, and checks all of it, also each element of an array.
[[nodiscard]] Value read_value(PartReader& in);

/// Takes the first element off `array`, which read_value() or check_value() has found good. Nothing if there is none.
[[nodiscard]] std::optional<Value> take_element(Value& array);

/// Whether `value` can be written: text is UTF-8, lengths fit 32 bits, arrays hold what they say, and something.
///
/// Fails: InvalidArgument, Limit
[[nodiscard]] Result<void> check_value(const Value& value);

/// The elements of an array, encoded one after the other.
///
/// Fails: as check_value(), and if they are not all of the first one's tag
[[nodiscard]] Result<std::vector<std::uint8_t>> encode_elements(std::span<const Value> elements);

/// Appends tag and value; `value` has passed check_value().
void append_value(std::vector<std::uint8_t>& out, const Value& value);

}  // namespace hurray
