#include "bench/progress.hpp"

#include <cstdio>

#include <unistd.h>

#include "bench/samples.hpp"

namespace bench {

Progress::Progress() : terminal_(::isatty(STDERR_FILENO) == 1), last_(now_ns()) {}

Progress::~Progress() {
    if (terminal_) {
        std::fprintf(stderr, "\r%70s\r", "");
    }
}

void Progress::show(const std::string& what) {
    constexpr std::uint64_t kLineNs = 10'000'000'000;
    if (terminal_) {
        std::fprintf(stderr, "\r%-70s", what.c_str());
    } else if (now_ns() - last_ >= kLineNs) {
        last_ = now_ns();
        std::fprintf(stderr, "%s\n", what.c_str());
    }
}

}  // namespace bench
