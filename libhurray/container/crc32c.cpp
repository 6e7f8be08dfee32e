#include "libhurray/container/crc32c.hpp"

#include <boost/crc.hpp>

namespace hurray {

// Boost's, because it is packaged wherever Boost is, which the daemon needs anyway, is a header and so adds no library to
// load, and takes any polynomial; zlib knows another one alone. A table at a time is slower than the processor's own
// instruction, but it is the index of a file that is summed, not its data.
std::uint32_t crc32c(std::span<const std::uint8_t> bytes) noexcept {
    boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> sum;
    sum.process_bytes(bytes.data(), bytes.size());
    return sum.checksum();
}

}  // namespace hurray
