#include "libhurray/container/key_values.hpp"

#include <string>

#include "libhurray/base/log_line.hpp"
#include "libhurray/base/utf8.hpp"
#include "libhurray/container/file_io.hpp"
#include "libhurray/container/sorted_order.hpp"

namespace hurray {
namespace {

constexpr const char* kPart = "key-values";

std::string_view read_key(PartReader& in) {
    const auto length = in.read<std::uint16_t>("the length of a key");
    in.check(length > 0, "a key is empty");
    return in.text(length, "a key");
}

}  // namespace

Result<KeyValues> KeyValues::parse(std::vector<std::uint8_t> bytes, std::uint64_t file_offset, bool tolerant) {
    KeyValues result;
    result.bytes_ = std::move(bytes);
    PartReader in(result.bytes_, file_offset, kPart);
    const auto count = in.read<std::uint32_t>("the number of entries");
    for (std::uint32_t i = 0; i < count && in.ok(); ++i) {
        result.offsets_.push_back(static_cast<std::uint32_t>(in.position()));
        in.check(is_utf8(read_key(in)), "a key is not UTF-8");
        static_cast<void>(read_value(in));
    }
    if (!tolerant) {
        in.check_end();
    }
    if (!in.ok()) {
        return fail(in.take_error());
    }
    const auto key = [&](std::size_t number) { return result.key(number); };
    result.by_key_ = sorted_order(result.size(), key);
    if (const auto twice = find_duplicate(result.by_key_, key)) {
        return fail_malformed("key-values: the key " + as_log_value(key(*twice)) + " is there twice");
    }
    return result;
}

std::span<const std::uint8_t> KeyValues::entry_bytes(std::size_t number) const {
    return std::span<const std::uint8_t>(bytes_).subspan(offsets_[number]);
}

KeyValue KeyValues::operator[](std::size_t number) const {
    PartReader in(entry_bytes(number), 0, kPart);
    KeyValue entry;
    entry.key = read_key(in);
    entry.value = read_value(in);
    return entry;
}

std::string_view KeyValues::key(std::size_t number) const {
    PartReader in(entry_bytes(number), 0, kPart);
    return read_key(in);
}

std::optional<std::size_t> KeyValues::find(std::string_view wanted) const {
    return find_sorted(by_key_, [this](std::size_t number) { return key(number); }, wanted);
}

}  // namespace hurray
