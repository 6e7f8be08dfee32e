#include "libhurray/container/crc32c.hpp"

#include <string_view>
#include <vector>

#include <gtest/gtest.h>

namespace hurray {
namespace {

std::uint32_t sum(std::string_view text) {
    return crc32c({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
}

TEST(Crc32c, IsTheOneThatTheFormatNames) {
    EXPECT_EQ(sum("123456789"), 0xE3069283U);
    EXPECT_EQ(sum(""), 0U);
    // RFC 3720, B.4: 32 bytes of zeros.
    EXPECT_EQ(crc32c(std::vector<std::uint8_t>(32)), 0x8A9136AAU);
}

}  // namespace
}  // namespace hurray
