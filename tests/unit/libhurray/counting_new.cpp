#include "tests/unit/libhurray/counting_new.hpp"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {
std::atomic<int> count{0};
}

int hurray::test::allocations() noexcept { return count; }

void* operator new(std::size_t size) {
    ++count;
    if (void* block = std::malloc(size)) {
        return block;
    }
    throw std::bad_alloc();
}
// Its nothrow form too: a sanitizer's own would not go with our delete.
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
    ++count;
    return std::malloc(size);
}
void operator delete(void* block) noexcept { std::free(block); }
void operator delete(void* block, std::size_t) noexcept { std::free(block); }
