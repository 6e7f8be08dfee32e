#include "libhurray/container/value.hpp"

#include <limits>
#include <string>

#include "libhurray/base/utf8.hpp"
#include "libhurray/format/element_type.hpp"
#include "libhurray/format/little_endian.hpp"

namespace hurray {
namespace {

constexpr std::uint64_t kMaxLength = std::numeric_limits<std::uint32_t>::max();

bool is_element_tag(ValueTag tag) { return tag >= ValueTag::String && tag <= ValueTag::Bytes; }

std::string_view as_text(std::span<const std::uint8_t> data) {
    return {reinterpret_cast<const char*>(data.data()), data.size()};
}

/// The value of a tag that an element can have.
void read_plain(PartReader& in, Value& value) {
    switch (value.tag) {
        case ValueTag::String:
        case ValueTag::Bytes: {
            const auto length = in.read<std::uint32_t>("the length of a value");
            value.data = in.bytes(length, "a value");
            if (value.tag == ValueTag::String && !is_utf8(as_text(value.data))) {
                in.fail("a string is not UTF-8");
            }
            break;
        }
        case ValueTag::Int64:
            value.int64 = in.read<std::int64_t>("a value");
            break;
        case ValueTag::UInt64:
            value.uint64 = in.read<std::uint64_t>("a value");
            break;
        case ValueTag::Float64:
            value.float64_bits = in.read<std::uint64_t>("a value");
            break;
        case ValueTag::Bool: {
            const auto truth = in.read<std::uint8_t>("a value");
            if (truth > 1) {
                in.fail("a bool is " + std::to_string(truth) + ", not 0 or 1");
            }
            value.boolean = truth == 1;
            break;
        }
        case ValueTag::Array:
            break;
    }
}

template <std::integral T>
void append(std::vector<std::uint8_t>& out, T number) {
    const std::size_t at = out.size();
    out.resize(at + sizeof(T));
    store_little_endian(number, out.data() + at);
}

void append_plain(std::vector<std::uint8_t>& out, const Value& value) {
    switch (value.tag) {
        case ValueTag::String:
        case ValueTag::Bytes:
            append(out, static_cast<std::uint32_t>(value.data.size()));
            out.insert(out.end(), value.data.begin(), value.data.end());
            break;
        case ValueTag::Int64:
            append(out, value.int64);
            break;
        case ValueTag::UInt64:
            append(out, value.uint64);
            break;
        case ValueTag::Float64:
            append(out, value.float64_bits);
            break;
        case ValueTag::Bool:
            append(out, static_cast<std::uint8_t>(value.boolean));
            break;
        case ValueTag::Array:
            break;
    }
}

Result<void> check_length(std::uint64_t length, const char* what) {
    if (length > kMaxLength) {
        return fail(Errc::Limit, std::string(what) + " is " + std::to_string(length) + ", the maximum is " +
                                     std::to_string(kMaxLength));
    }
    return {};
}

Result<void> check_array(const Value& array) {
    if (!is_element_tag(array.element_tag)) {
        return fail(Errc::InvalidArgument, "the elements of an array have tag " +
                                               std::to_string(static_cast<unsigned>(array.element_tag)) +
                                               "; arrays hold strings, numbers, bools or bytes");
    }
    if (array.count == 0) {
        return fail(Errc::InvalidArgument, "an array has no elements; files keep none that are empty");
    }
    if (const auto fits = check_length(array.count, "the number of elements of an array"); !fits) {
        return fits;
    }
    PartReader in(array.data, 0, "array");
    for (std::uint64_t i = 0; i < array.count && in.ok(); ++i) {
        Value element;
        element.tag = array.element_tag;
        read_plain(in, element);
    }
    if (!in.ok()) {
        return fail(Errc::InvalidArgument, "the bytes of an array of " + std::to_string(array.count) +
                                               " elements are not that many of their kind");
    }
    if (in.remaining() > 0) {
        return fail(Errc::InvalidArgument, "an array of " + std::to_string(array.count) + " elements has " +
                                               std::to_string(in.remaining()) + " bytes behind them");
    }
    return {};
}

}  // namespace

Value read_value(PartReader& in) {
    Value value;
    const auto tag = in.read<std::uint8_t>("the tag of a value");
    value.tag = static_cast<ValueTag>(tag);
    if (value.tag != ValueTag::Array) {
        if (!is_element_tag(value.tag)) {
            in.fail("a value has tag " + std::to_string(tag) +
                    (is_private_tag(tag) ? ", which is private" : ", which names no kind of value"));
            value.tag = ValueTag::Bool;
            return value;
        }
        read_plain(in, value);
        return value;
    }
    const auto element_tag = in.read<std::uint8_t>("the tag of an array's elements");
    value.element_tag = static_cast<ValueTag>(element_tag);
    if (!is_element_tag(value.element_tag)) {
        in.fail("the elements of an array have tag " + std::to_string(element_tag) + ", which they can't have");
    }
    value.count = in.read<std::uint32_t>("the number of an array's elements");
    PartReader elements = in;
    for (std::uint64_t i = 0; i < value.count && in.ok(); ++i) {
        Value element;
        element.tag = value.element_tag;
        read_plain(in, element);
    }
    if (in.ok()) {
        value.data = elements.bytes(in.position() - elements.position(), "an array");
    }
    return value;
}

std::optional<Value> take_element(Value& array) {
    if (array.count == 0) {
        return std::nullopt;
    }
    PartReader in(array.data, 0, "array");
    Value element;
    element.tag = array.element_tag;
    read_plain(in, element);
    if (!in.ok()) {
        return std::nullopt;
    }
    array.data = array.data.subspan(in.position());
    --array.count;
    return element;
}

Result<void> check_value(const Value& value) {
    if (value.tag == ValueTag::Array) {
        return check_array(value);
    }
    if (!is_element_tag(value.tag)) {
        return fail(Errc::InvalidArgument, "a value has tag " + std::to_string(static_cast<unsigned>(value.tag)) +
                                               ", which names no kind of value");
    }
    if (value.tag == ValueTag::String && !is_utf8(as_text(value.data))) {
        return fail(Errc::InvalidArgument,
                    "a string is not UTF-8 from byte " + std::to_string(utf8_prefix(as_text(value.data))) + " on");
    }
    if (value.tag == ValueTag::String || value.tag == ValueTag::Bytes) {
        return check_length(value.data.size(), "the length of a value");
    }
    return {};
}

Result<std::vector<std::uint8_t>> encode_elements(std::span<const Value> elements) {
    std::vector<std::uint8_t> out;
    for (const Value& element : elements) {
        if (element.tag != elements[0].tag) {
            return fail(Errc::InvalidArgument, "the elements of an array differ in their tags");
        }
        if (element.tag == ValueTag::Array) {
            return fail(Errc::InvalidArgument, "an array holds no arrays");
        }
        if (const auto good = check_value(element); !good) {
            return tl::unexpected(good.error());
        }
        append_plain(out, element);
    }
    return out;
}

void append_value(std::vector<std::uint8_t>& out, const Value& value) {
    append(out, static_cast<std::uint8_t>(value.tag));
    if (value.tag != ValueTag::Array) {
        append_plain(out, value);
        return;
    }
    append(out, static_cast<std::uint8_t>(value.element_tag));
    append(out, static_cast<std::uint32_t>(value.count));
    out.insert(out.end(), value.data.begin(), value.data.end());
}

}  // namespace hurray
