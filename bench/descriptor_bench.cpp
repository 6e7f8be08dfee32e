// What does it cost to decode and to check a descriptor, which daemon and client do for every capsule? Nothing in it should
// grow with the tensor, and nothing should be allocated.
#include <array>
#include <cstdint>
#include <vector>

#include <benchmark/benchmark.h>

#include "libhurray/format/descriptor_reader.hpp"
#include "libhurray/format/validate.hpp"

namespace {

/// float32, row-major, in one CPU buffer of the right size.
std::vector<std::uint8_t> descriptor(std::uint32_t rank) {
    std::vector<std::uint8_t> bytes = {'H', 'R', 'R', 'Y', 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x03, 0x01};
    const auto put = [&](std::uint64_t value, int width) {
        for (int i = 0; i < width; ++i) {
            bytes.push_back(static_cast<std::uint8_t>(value >> (8 * i)));
        }
    };
    put(rank, 4);
    for (std::uint32_t i = 0; i < rank; ++i) {
        put(2, 8);
    }
    put(0, 8);
    put(1, 1);
    put(std::uint64_t{4} << rank, 8);
    put(64, 4);
    put(0, 4);
    const auto length = static_cast<std::uint32_t>(bytes.size());
    for (std::uint32_t i = 0; i < 4; ++i) {
        bytes[6 + i] = static_cast<std::uint8_t>(length >> (8 * i));
    }
    return bytes;
}

void decode(benchmark::State& state) {
    const auto bytes = descriptor(static_cast<std::uint32_t>(state.range(0)));
    for (auto _ : state) {
        auto view = hurray::decode_descriptor(bytes);
        benchmark::DoNotOptimize(view);
    }
}
BENCHMARK(decode)->Arg(0)->Arg(4)->Arg(8);

void decode_and_validate(benchmark::State& state) {
    const auto bytes = descriptor(static_cast<std::uint32_t>(state.range(0)));
    for (auto _ : state) {
        const auto view = hurray::decode_descriptor(bytes);
        auto valid = hurray::validate_descriptor(*view);
        if (!valid) {
            state.SkipWithError("the descriptor is not valid");
        }
        benchmark::DoNotOptimize(valid);
    }
}
BENCHMARK(decode_and_validate)->Arg(0)->Arg(4)->Arg(8);

}  // namespace
