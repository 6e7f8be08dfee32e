// Who may be on the way into the interpreter.
//
// A thread that asks for the GIL while the interpreter is being torn down never gets it: it is ended or put to sleep in
// the middle of C++ code. So every thread that will want the GIL, be it a callback of the client's own thread or a
// blocking call that has let the GIL go, holds a pass of this gate. At exit the gate is closed, and the interpreter
// waits until the last pass has been handed back.
//
// Threads that run Python code hold none, and are ended in it. That is why C++ code calls none on them: see hurray/_tensor.py.
#pragma once

namespace hurray_python::gate {

/// One pass; handed back in the destructor, which must run after the GIL is no longer asked for.
/// Threads: any.  Blocks: never.
class Pass {
  public:
    Pass() noexcept;
    ~Pass();
    Pass(const Pass&) = delete;
    Pass& operator=(const Pass&) = delete;
    /// False once the gate is closed: leave the interpreter alone.
    explicit operator bool() const noexcept { return held_; }

  private:
    bool held_;
};

/// As a Pass, for one that is handed back by another thread than the one that got it.
[[nodiscard]] bool enter() noexcept;
void leave() noexcept;

/// How many a thread holds: more than its own one means that it runs a callback, or a signal handler inside a call.
[[nodiscard]] int passes_of_this_thread() noexcept;

/// From now on nobody gets a pass.
void close() noexcept;
[[nodiscard]] bool closed() noexcept;

/// Waits until all passes are back. The caller has let the GIL go.
void wait_until_empty() noexcept;

/// In a forked child: the passes of threads that don't exist here are forgotten.
void reset_in_child() noexcept;

}  // namespace hurray_python::gate
