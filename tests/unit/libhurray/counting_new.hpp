#pragma once

namespace hurray::test {

/// How often operator new has been called so far. A program that links counting_new.cpp has it replaced as a whole.
[[nodiscard]] int allocations() noexcept;

}  // namespace hurray::test
