#pragma once

#include <cstdint>
#include <vector>

/// Encoded descriptors to be measured: valid ones, of one to three CPU buffers of exactly the size that is needed.
namespace bench {

/// float32, row-major, each dimension 2.
[[nodiscard]] std::vector<std::uint8_t> dense(std::uint32_t rank);
/// The same with strides.
[[nodiscard]] std::vector<std::uint8_t> strided(std::uint32_t rank);
/// float32 [64,64] in CSR with 100 elements stored.
[[nodiscard]] std::vector<std::uint8_t> csr();
/// int8 [64,64] with a scale and a zero point for each column.
[[nodiscard]] std::vector<std::uint8_t> per_channel();

}  // namespace bench
