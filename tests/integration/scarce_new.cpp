#include "tests/integration/scarce_new.hpp"

#include <cstddef>
#include <cstdlib>
#include <new>

namespace hurray::test {

std::atomic<bool> is_scarce{false};
thread_local bool is_exempt = false;
thread_local int failing_request = 0;

namespace {

bool fails() noexcept { return (is_scarce && !is_exempt) || (failing_request != 0 && --failing_request == 0); }

}  // namespace

}  // namespace hurray::test

void* operator new(std::size_t size) {
    if (!hurray::test::fails()) {
        if (void* block = std::malloc(size)) {
            return block;
        }
    }
    throw std::bad_alloc();
}
// Its nothrow form too: a sanitizer's own would not go with our delete.
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
    return !hurray::test::fails() ? std::malloc(size) : nullptr;
}
void operator delete(void* block) noexcept { std::free(block); }
void operator delete(void* block, std::size_t) noexcept { std::free(block); }
