#include "gate.hpp"

#include <atomic>

namespace hurray_python::gate {
namespace {

// One word, no mutex: a child of fork inherits it in a usable state whatever other threads were doing.
constexpr int kClosed = 1 << 30;
std::atomic<int> state{0};  // number of passes, and kClosed
thread_local int held = 0;

}  // namespace

bool enter() noexcept {
    int seen = state.load();
    do {
        if ((seen & kClosed) != 0) {
            return false;
        }
    } while (!state.compare_exchange_weak(seen, seen + 1));
    return true;
}

void leave() noexcept {
    if (state.fetch_sub(1) == (kClosed | 1)) {
        state.notify_all();
    }
}

Pass::Pass() noexcept : held_(enter()) { held += held_ ? 1 : 0; }

Pass::~Pass() {
    if (held_) {
        --held;
        leave();
    }
}

int passes_of_this_thread() noexcept { return held; }

void close() noexcept { state.fetch_or(kClosed); }

bool closed() noexcept { return (state.load() & kClosed) != 0; }

void wait_until_empty() noexcept {
    for (int seen = state.load(); seen != kClosed; seen = state.load()) {
        state.wait(seen);
    }
}

void reset_in_child() noexcept { state.store(held | (state.load() & kClosed)); }

}  // namespace hurray_python::gate
