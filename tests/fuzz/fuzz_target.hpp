#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

/// What each target defines; fuzz_target.cpp makes libFuzzer's entry point of it.
namespace hurray::fuzz {

/// Runs one input. Whatever must not be ends the program.
void run_input(std::span<const std::uint8_t> input);

/// What an input of `n` bytes may cost in memory, counted while run_input() runs, what the target itself allocates included:
/// no block above `fixed + block_per_byte * n`, and no more than `fixed + total_per_byte * n` at any time. So no announced size
/// becomes memory before its bytes are there. Counted by the address sanitizer, in other builds not at all.
struct MemoryLimit {
    std::size_t fixed;
    std::size_t block_per_byte;
    std::size_t total_per_byte;
};
extern const MemoryLimit kMemoryLimit;

}  // namespace hurray::fuzz
