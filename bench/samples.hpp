#pragma once

#include <cstdint>
#include <string>
#include <vector>

/// Times in nanoseconds, and how a benchmark prints two rows of them side by side.
namespace bench {

/// CLOCK_MONOTONIC, which all processes of the host share.
[[nodiscard]] std::uint64_t now_ns();

struct Quantiles {
    std::uint64_t p50 = 0;
    std::uint64_t p99 = 0;
    std::uint64_t p999 = 0;
};

/// `samples` is not empty.
[[nodiscard]] Quantiles quantiles(std::vector<std::uint64_t> samples);

/// "4 KiB", "64 MiB", "1 GiB".
[[nodiscard]] std::string human_size(std::uint64_t bytes);

/// What machine and kernel this is, in one line.
[[nodiscard]] std::string machine();

}  // namespace bench
