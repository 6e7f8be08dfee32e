// What does it cost to decode and to check a descriptor, which daemon and client do for every capsule? Nothing in it should
// grow with the tensor, and nothing should be allocated.
#include <array>
#include <cstdint>
#include <vector>

#include <benchmark/benchmark.h>

#include "hurray.h"

#include "bench/descriptor_samples.hpp"
#include "libhurray/format/descriptor_reader.hpp"
#include "libhurray/format/validate.hpp"

namespace {

void decode(benchmark::State& state) {
    const auto bytes = bench::dense(static_cast<std::uint32_t>(state.range(0)));
    for (auto _ : state) {
        auto view = hurray::decode_descriptor(bytes);
        benchmark::DoNotOptimize(view);
    }
}
BENCHMARK(decode)->Arg(0)->Arg(4)->Arg(8);

void decode_and_validate(benchmark::State& state) {
    const auto bytes = bench::dense(static_cast<std::uint32_t>(state.range(0)));
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

void decode_of(benchmark::State& state, const std::vector<std::uint8_t>& bytes) {
    for (auto _ : state) {
        auto view = hurray::decode_descriptor(bytes);
        benchmark::DoNotOptimize(view);
    }
}
BENCHMARK_CAPTURE(decode_of, strided_rank_8, bench::strided(8));
BENCHMARK_CAPTURE(decode_of, csr, bench::csr());
BENCHMARK_CAPTURE(decode_of, per_channel, bench::per_channel());

void c_decode_and_destroy(benchmark::State& state) {
    const auto bytes = bench::dense(static_cast<std::uint32_t>(state.range(0)));
    for (auto _ : state) {
        HurrayDescriptor* descriptor = nullptr;
        if (hurray_descriptor_decode(bytes.data(), bytes.size(), &descriptor) != HURRAY_OK) {
            state.SkipWithError("the descriptor does not decode");
            break;
        }
        benchmark::DoNotOptimize(descriptor);
        hurray_descriptor_destroy(descriptor);
    }
}
BENCHMARK(c_decode_and_destroy)->Arg(4)->Arg(8);

void c_encode(benchmark::State& state) {
    const auto bytes = bench::dense(static_cast<std::uint32_t>(state.range(0)));
    HurrayDescriptor* descriptor = nullptr;
    hurray_descriptor_decode(bytes.data(), bytes.size(), &descriptor);
    std::array<std::uint8_t, 256> out{};
    for (auto _ : state) {
        uintptr_t length = out.size();
        if (hurray_descriptor_encode(descriptor, out.data(), &length) != HURRAY_OK) {
            state.SkipWithError("the descriptor does not encode");
        }
        benchmark::DoNotOptimize(out);
    }
    hurray_descriptor_destroy(descriptor);
}
BENCHMARK(c_encode)->Arg(4)->Arg(8);

}  // namespace
