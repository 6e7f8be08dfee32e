// How many instructions do the calls take that daemon and client make for every capsule? Run under callgrind by
// scripts/count-instructions, which reads the counts; by itself it only checks that the calls do what they should.
//
// Unlike times, counts repeat to the instruction, so a gate can stand on them. What they leave out is the cost of memory:
// how often and how much each call allocates is checked here as well.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <vector>

#include <valgrind/callgrind.h>

#include "hurray.h"

#include "bench/descriptor_samples.hpp"
#include "libhurray/base/check.hpp"
#include "libhurray/format/descriptor_reader.hpp"
#include "libhurray/format/validate.hpp"

namespace {

std::size_t allocations = 0;
std::size_t largest_allocation = 0;

}  // namespace

void* operator new(std::size_t size) {
    ++allocations;
    largest_allocation = size > largest_allocation ? size : largest_allocation;
    if (void* block = std::malloc(size)) {
        return block;
    }
    throw std::bad_alloc();
}
void operator delete(void* block) noexcept { std::free(block); }
void operator delete(void* block, std::size_t) noexcept { std::free(block); }

namespace {

/// Repetitions under the counter; the counts of one run are the total divided by this.
constexpr int kRuns = 1000;

struct Allowance {
    std::size_t allocations;
    std::size_t largest;
};

/// Counts `call`, which says whether it did its work, as `name`.
template <class Call>
void count(const char* name, Allowance allowed, Call call) {
    HURRAY_CHECK(call());  // lazy binding and the allocator's first block are not what is counted
    allocations = 0;
    largest_allocation = 0;
    bool good = true;
    CALLGRIND_ZERO_STATS;
    for (int i = 0; i < kRuns; ++i) {
        good = call() && good;
    }
    CALLGRIND_DUMP_STATS_AT(name);
    HURRAY_CHECK(good);
    if (allocations != allowed.allocations * kRuns || largest_allocation > allowed.largest) {
        std::fprintf(stderr,
                     "%s: %zu allocations in %d runs, the largest of %zu bytes; allowed are %zu a run of %zu bytes\n",
                     name, allocations, kRuns, largest_allocation, allowed.allocations, allowed.largest);
        std::exit(1);
    }
}

constexpr Allowance kNone{0, 0};
/// Above this size glibc takes a slower way.
constexpr Allowance kOneBlock{1, 1032};

void count_decode(const char* name, const std::vector<std::uint8_t>& bytes) {
    count(name, kNone, [&] { return hurray::decode_descriptor(bytes).has_value(); });
}

}  // namespace

int main() {
    const auto dense = bench::dense(4);
    count_decode("decode_dense_rank_4", dense);
    count_decode("decode_strided_rank_8", bench::strided(8));
    count_decode("decode_csr", bench::csr());
    count_decode("decode_per_channel", bench::per_channel());
    count("decode_and_validate_dense_rank_4", kNone, [&] {
        const auto view = hurray::decode_descriptor(dense);
        return view && hurray::validate_descriptor(*view, hurray::ValidationRules::Sharing);
    });

    count("abi_decode_and_destroy_dense_rank_4", kOneBlock, [&] {
        HurrayDescriptor* descriptor = nullptr;
        return hurray_descriptor_decode(dense.data(), dense.size(), &descriptor) == HURRAY_OK &&
               hurray_descriptor_destroy(descriptor) == HURRAY_OK;
    });
    HurrayDescriptor* descriptor = nullptr;
    HURRAY_CHECK(hurray_descriptor_decode(dense.data(), dense.size(), &descriptor) == HURRAY_OK);
    std::array<std::uint8_t, 128> out{};
    count("abi_encode_dense_rank_4", kNone, [&] {
        uintptr_t length = out.size();
        return hurray_descriptor_encode(descriptor, out.data(), &length) == HURRAY_OK && length == dense.size();
    });
    HURRAY_CHECK(std::equal(dense.begin(), dense.end(), out.begin()));
    hurray_descriptor_destroy(descriptor);
    return 0;
}
