#include "tests/fuzz/fuzz_target.hpp"

#include <cstdio>
#include <cstdlib>
#include <optional>

// As in <sanitizer/allocator_interface.h>, which not every compiler with the sanitizer brings along; null without it.
extern "C" {
__attribute__((weak)) int __sanitizer_install_malloc_and_free_hooks(  // NOLINT(bugprone-reserved-identifier)
    void (*malloc_hook)(const volatile void*, std::size_t), void (*free_hook)(const volatile void*));
__attribute__((weak)) std::size_t __sanitizer_get_allocated_size(  // NOLINT(bugprone-reserved-identifier)
    const volatile void* block);
int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
}

namespace {

/// The blocks of one input.
class Meter {
  public:
    explicit Meter(std::size_t input_size)
        : largest_block_(limit(input_size, hurray::fuzz::kMemoryLimit.block_per_byte)),
          largest_total_(limit(input_size, hurray::fuzz::kMemoryLimit.total_per_byte)) {}

    void allocated(std::size_t size) {
        total_ += static_cast<std::ptrdiff_t>(size);
        check("block", static_cast<std::ptrdiff_t>(size), largest_block_);
        check("total", total_, largest_total_);
    }
    void freed(std::size_t size) { total_ -= static_cast<std::ptrdiff_t>(size); }

  private:
    static std::ptrdiff_t limit(std::size_t input_size, std::size_t per_byte) {
        return static_cast<std::ptrdiff_t>(hurray::fuzz::kMemoryLimit.fixed + per_byte * input_size);
    }
    static void check(const char* what, std::ptrdiff_t size, std::ptrdiff_t limit);

    std::ptrdiff_t largest_block_;
    std::ptrdiff_t largest_total_;
    std::ptrdiff_t total_ = 0;  // below zero: blocks from before have gone
};

thread_local std::optional<Meter> meter;

void Meter::check(const char* what, std::ptrdiff_t size, std::ptrdiff_t limit) {
    if (size > limit) {
        meter.reset();  // the report may allocate
        std::fprintf(stderr, "this input may take a %s of %td bytes of memory, not %td\n", what, limit, size);
        std::abort();
    }
}

void on_malloc(const volatile void* /*block*/, std::size_t size) {
    if (meter) {
        meter->allocated(size);
    }
}

void on_free(const volatile void* block) {
    if (meter) {
        meter->freed(__sanitizer_get_allocated_size(block));
    }
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const bool kCounts = __sanitizer_install_malloc_and_free_hooks != nullptr &&
                                __sanitizer_install_malloc_and_free_hooks(on_malloc, on_free) != 0;
    if (kCounts) {
        meter.emplace(size);
    }
    hurray::fuzz::run_input({data, size});
    meter.reset();
    return 0;
}
