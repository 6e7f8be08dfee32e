#pragma once

#include <atomic>

/// Replaces operator new in the program that links it.
namespace hurray::test {

/// While it is set, threads that are not exempt get no memory.
extern std::atomic<bool> is_scarce;
extern thread_local bool is_exempt;
/// The one of this thread's next requests for memory that fails, the first is 1; 0: none.
extern thread_local int failing_request;

}  // namespace hurray::test
