#pragma once

#include <cstdint>
#include <vector>

#include "libhurray/base/check.hpp"
#include "libhurray/format/byte_reader.hpp"
#include "libhurray/format/byte_writer.hpp"
#include "libhurray/format/layout.hpp"

namespace hurray::test {

/// One level of tiling, put together by hand. The stride lists are used where the layout beside them is Strided.
struct TileLevel {
    std::vector<std::uint64_t> shape;
    LayoutTag outer;
    LayoutTag inner;
    std::vector<std::int64_t> outer_strides;
    std::vector<std::int64_t> inner_strides;
};

/// The payload of a tiled layout, and the layout that decoding makes of it.
class TiledPayload {
  public:
    /// All but the last level have Tiled inside.
    explicit TiledPayload(const std::vector<TileLevel>& levels) : rank_(levels.front().shape.size()) {
        bytes_.resize(levels.size() * (rank_ * 3 * 8 + 4));
        ByteWriter out{std::span(bytes_)};
        for (const TileLevel& level : levels) {
            for (const std::uint64_t size : level.shape) {
                out.write(size);
            }
            out.write(static_cast<std::uint8_t>(level.outer));
            out.write(static_cast<std::uint8_t>(level.inner));
            out.zeros(2);
            for (const std::int64_t stride : level.outer_strides) {
                out.write(stride);
            }
            for (const std::int64_t stride : level.inner_strides) {
                out.write(stride);
            }
        }
    }

    /// A loan of this object.
    [[nodiscard]] Layout layout() const {
        ByteReader in(bytes_, 0);
        Layout layout;
        read_layout(in, static_cast<std::uint8_t>(LayoutTag::Tiled), rank_, layout);
        HURRAY_CHECK(in.ok());
        return layout;
    }

  private:
    std::size_t rank_;
    std::vector<std::uint8_t> bytes_;
};

}  // namespace hurray::test
