// decode_request() and decode_packet() take any bytes, and what they hand out is what they read: written and read again
// it is the same. The first byte of an input picks the decoder (even: request), the second is the number of
// descriptors.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "libhurray/base/check.hpp"
#include "proto/wire/codec.hpp"

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

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    constexpr std::size_t kHead = 2;
    if (size < kHead) {
        return 0;
    }
    const std::span input(reinterpret_cast<const std::byte*>(data) + kHead, size - kHead);
    if (data[0] % 2 == 0) {
        decode_and_write_twice(decode_request, input, data[1]);
    } else {
        decode_and_write_twice(decode_packet, input, data[1]);
    }
    return 0;
}
