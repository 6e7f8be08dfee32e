#include "client/fork_guard.hpp"

#include <atomic>
#include <mutex>

#include <pthread.h>
#include <unistd.h>

namespace hurray::client {

namespace {

std::atomic<std::uint32_t> generation{0};

}  // namespace

/// The living guards. Locked over a fork, so that the child finds the list whole.
struct ForkGuardRegistry {
    std::mutex mutex;
    ForkGuard* first = nullptr;

    /// Never destroyed: a fork may come while the process runs its last destructors.
    static ForkGuardRegistry& instance() {
        static ForkGuardRegistry* const registry = [] {
            auto* made = new ForkGuardRegistry;
            ::pthread_atfork([] { instance().mutex.lock(); }, [] { instance().mutex.unlock(); },
                             [] { instance().enter_child(); });
            return made;
        }();
        return *registry;
    }

    void add(ForkGuard& guard) {
        const std::lock_guard lock(mutex);
        guard.next_ = first;
        if (first != nullptr) {
            first->previous_ = &guard;
        }
        first = &guard;
    }

    void remove(ForkGuard& guard) {
        const std::lock_guard lock(mutex);
        (guard.previous_ != nullptr ? guard.previous_->next_ : first) = guard.next_;
        if (guard.next_ != nullptr) {
            guard.next_->previous_ = guard.previous_;
        }
    }

    void enter_child() noexcept {
        generation.fetch_add(1, std::memory_order_relaxed);
        for (ForkGuard* guard = first; guard != nullptr; guard = guard->next_) {
            for (const int fd : guard->fds_) {
                if (fd >= 0) {
                    ::close(fd);
                }
            }
        }
        first = nullptr;  // they are never destroyed here
        mutex.unlock();
    }
};

std::uint32_t fork_generation() noexcept { return generation.load(std::memory_order_relaxed); }

Error forked() { return Error{Errc::Forked, "this client belongs to the parent process: connect again in the child"}; }

ForkGuard::ForkGuard(const std::array<int, 3>& fds) : fds_(fds), generation_(fork_generation()) {
    ForkGuardRegistry::instance().add(*this);
}

ForkGuard::~ForkGuard() { ForkGuardRegistry::instance().remove(*this); }

UnforkedFd::UnforkedFd(const std::function<UniqueFd()>& make)
    : guard_(std::make_unique<ForkGuard>(std::array<int, 3>{-1, -1, -1})) {
    const std::lock_guard lock(ForkGuardRegistry::instance().mutex);
    fd_ = make();
    guard_->fds_[0] = fd_.get();
}

void UnforkedFd::reset() noexcept {
    if (guard_ == nullptr) {
        return;
    }
    if (guard_->in_child()) {  // it is closed, its number may be another's, and the guard is on no books
        (void)fd_.release();
        (void)guard_.release();
        return;
    }
    {
        const std::lock_guard lock(ForkGuardRegistry::instance().mutex);
        guard_->fds_[0] = -1;
        fd_.reset();
    }
    guard_.reset();
}

}  // namespace hurray::client
