#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace hurray::test {

/// A protobuf message written by hand, field by field: what no library would write, such as a field twice, can be.
class ProtoBytes {
  public:
    ProtoBytes& number(std::uint32_t field, std::uint64_t value) {
        varint(std::uint64_t{field} << 3U);
        varint(value);
        return *this;
    }
    ProtoBytes& bytes(std::uint32_t field, std::string_view value) {
        varint(std::uint64_t{field} << 3U | 2U);
        varint(value.size());
        encoded_ += value;
        return *this;
    }
    ProtoBytes& message(std::uint32_t field, const ProtoBytes& value) { return bytes(field, value.encoded_); }
    /// What is encoded already.
    ProtoBytes& add(std::string_view encoded) {
        encoded_ += encoded;
        return *this;
    }
    [[nodiscard]] const std::string& encoded() const noexcept { return encoded_; }

  private:
    void varint(std::uint64_t value) {
        for (; value >= 0x80; value >>= 7U) {
            encoded_ += static_cast<char>(value | 0x80U);
        }
        encoded_ += static_cast<char>(value);
    }

    std::string encoded_;
};

}  // namespace hurray::test
