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
void operator delete(void* block) noexcept { std::free(block); }
void operator delete(void* block, std::size_t) noexcept { std::free(block); }
