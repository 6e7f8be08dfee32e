#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <utility>

/// Where handles live, and how a second destroy of one is noticed.
///
/// In a build with HURRAY_HANDLE_CHECKS every live handle is in a set, and the block of a destroyed one stays allocated
/// (poisoned under AddressSanitizer) while 2^20 later ones are destroyed: so its address does not come back, and asking
/// the set about a dead handle reads nothing of it. Without the option a handle is a plain allocation.
namespace hurray::abi {

/// A handle, and the 2^20 destroyed after it.
inline constexpr std::size_t kGraveyardSize = (std::size_t{1} << 20) + 1;

#ifdef HURRAY_HANDLE_CHECKS

/// Takes note of a new handle. May throw std::bad_alloc.
void register_handle(void* handle);
/// Ends a handle's life: true for the first caller, false for every later one. What has been claimed may be read and
/// destroyed by the claimant alone.
[[nodiscard]] bool claim_handle(const void* handle) noexcept;
/// Takes over the block of a claimed handle whose destructor has run. `free` gives it back, much later.
void bury_handle(void* block, std::size_t size, void (*free)(void*)) noexcept;

#else

inline void register_handle(void*) noexcept {}
[[nodiscard]] inline bool claim_handle(const void*) noexcept { return true; }
inline void bury_handle(void* block, std::size_t, void (*free)(void*)) noexcept { free(block); }

#endif

/// Destroys a claimed handle.
struct BuryHandle {
    template <class Handle>
    void operator()(Handle* handle) const noexcept {
        handle->~Handle();
        bury_handle(handle, sizeof(Handle), [](void* block) { ::operator delete(block); });
    }
};

/// A handle that has been claimed, or has not been handed out yet.
template <class Handle>
using OwnedHandle = std::unique_ptr<Handle, BuryHandle>;

/// Makes a handle and hands it out.
template <class Handle, class... Fields>
[[nodiscard]] Handle* make_handle(Fields&&... fields) {
    auto plain = std::make_unique<Handle>(Handle{std::forward<Fields>(fields)...});
    register_handle(plain.get());
    return plain.release();
}

}  // namespace hurray::abi
