#include "libhurray/abi/handle.hpp"

#ifdef HURRAY_HANDLE_CHECKS

#include <deque>
#include <mutex>
#include <unordered_set>

#include <pthread.h>

#if defined(__SANITIZE_ADDRESS__)
#define HURRAY_HAS_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HURRAY_HAS_ASAN 1
#endif
#endif

#ifdef HURRAY_HAS_ASAN
#include <sanitizer/asan_interface.h>
#endif

namespace hurray::abi {
namespace {

void poison([[maybe_unused]] void* block, [[maybe_unused]] std::size_t size) {
#ifdef HURRAY_HAS_ASAN
    __asan_poison_memory_region(block, size);
#endif
}

void unpoison([[maybe_unused]] void* block, [[maybe_unused]] std::size_t size) {
#ifdef HURRAY_HAS_ASAN
    __asan_unpoison_memory_region(block, size);
#endif
}

struct Grave {
    void* block;
    std::size_t size;
    void (*free)(void*);
};

struct Registry {
    std::mutex mutex;
    std::unordered_set<const void*> live;
    std::deque<Grave> graveyard;  // oldest first
};

Registry& registry();

/// A fork takes the lock along, so that a child never inherits it from a thread that it does not have.
Registry* make_registry() {
    pthread_atfork([] { registry().mutex.lock(); }, [] { registry().mutex.unlock(); },
                   [] { registry().mutex.unlock(); });
    return new Registry;
}

/// Never destroyed: handles may be destroyed by other static destructors. The static pointer keeps what it holds
/// reachable for the leak checker.
Registry& registry() {
    static auto* const instance = make_registry();
    return *instance;
}

}  // namespace

void register_handle(void* handle) {
    Registry& all = registry();
    const std::lock_guard lock(all.mutex);
    all.live.insert(handle);
}

bool claim_handle(const void* handle) noexcept {
    Registry& all = registry();
    const std::lock_guard lock(all.mutex);
    return all.live.erase(handle) == 1;
}

void bury_handle(void* block, std::size_t size, void (*free)(void*)) noexcept {
    Registry& all = registry();
    const std::lock_guard lock(all.mutex);
    // A failed allocation here ends the process: a checking build is not for running out of memory gracefully.
    all.graveyard.push_back({block, size, free});
    poison(block, size);
    if (all.graveyard.size() > kGraveyardSize) {
        const Grave oldest = all.graveyard.front();
        all.graveyard.pop_front();
        unpoison(oldest.block, oldest.size);
        oldest.free(oldest.block);
    }
}

}  // namespace hurray::abi

#endif
