// decode_request() and decode_packet() take any bytes, and what they hand out is what they read: written and read again
// it is the same. The first byte of an input picks the decoder (even: request), the second is the number of
// descriptors.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "libhurray/base/check.hpp"
#include "proto/wire/codec.hpp"
#include "tests/fuzz/fuzz_target.hpp"

namespace {

using hurray::wire::decode_packet;
using hurray::wire::decode_request;
using hurray::wire::encode;

std::span<const std::byte> bytes_of(const std::string& text) {
    return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

/// Messages can't be compared, but the bytes they are written as can.
template <class Decode>
void decode_and_write_twice(Decode decode, std::span<const std::byte> input, std::size_t fd_count) {
    const auto first = decode(input, fd_count);
    if (!first) {
        return;
    }
    std::string once = encoded(*first);
    const auto second = decode(bytes_of(once), fd_count);
    HURRAY_CHECK(second.has_value());
    std::string twice = encoded(*second);
    HURRAY_CHECK(once == twice);
}

}  // namespace

// Of a message that repeats a field of two bytes, each becomes a struct with strings, in a vector that grows.
const hurray::fuzz::MemoryLimit hurray::fuzz::kMemoryLimit = {4096, 64, 128};

void hurray::fuzz::run_input(std::span<const std::uint8_t> input) {
    constexpr std::size_t kHead = 2;
    if (input.size() < kHead) {
        return;
    }
    const auto message = std::as_bytes(input.subspan(kHead));
    if (input[0] % 2 == 0) {
        decode_and_write_twice(decode_request, message, input[1]);
    } else {
        decode_and_write_twice(decode_packet, message, input[1]);
    }
}
