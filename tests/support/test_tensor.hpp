#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "libhurray/base/unique_fd.hpp"
#include "proto/wire/messages.hpp"

namespace hurray::test {

/// A memfd of `size` reserved bytes, `fill` in each, with `seals` (default: those of a reusable segment).
struct MemfdOptions {
    std::size_t size = 4096;
    char fill = 0;
    int seals = -1;
    bool reserve = true;  ///< false: sparse
};
[[nodiscard]] UniqueFd make_memfd(const MemfdOptions& options = {});

/// The encoded descriptor of a row-major float32 tensor of shape (elements), in one CPU buffer of `4 * elements` bytes.
[[nodiscard]] std::string make_descriptor(std::uint64_t elements);

/// A tensor that is ready to be published by hand: change what you want to be wrong.
struct TestTensor {
    UniqueFd fd;
    wire::Publish publish;
};

/// Of `elements` float32, each byte `fill`, in a segment of its own whose number is new in this process.
[[nodiscard]] TestTensor make_tensor(std::string name, std::uint64_t elements = 16, char fill = 0);

/// 16 bytes that were never used before.
[[nodiscard]] wire::Id16 fresh_id();

/// Which file a descriptor is open on.
[[nodiscard]] std::uint64_t inode_of(int fd);

}  // namespace hurray::test
