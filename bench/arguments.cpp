#include "bench/arguments.hpp"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <system_error>

namespace bench {
namespace {

/// False: it is no number, or 0.
bool read_count(std::string_view text, std::uint64_t& into) {
    const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), into);
    return failed == std::errc{} && end == text.data() + text.size() && into != 0;
}

[[noreturn]] void end_with(int code, const char* usage) {
    std::fputs(usage, code == 0 ? stdout : stderr);
    std::exit(code);
}

}  // namespace

void read_counts(int argc, char** argv, std::span<const std::pair<std::string_view, std::uint64_t*>> known,
                 const char* usage) {
    for (int i = 1; i < argc; i += 2) {
        if (std::string_view(argv[i]) == "--help") {
            end_with(0, usage);
        }
        const auto option = std::ranges::find(known, argv[i], [](const auto& entry) { return entry.first; });
        if (option == known.end() || i + 1 == argc || !read_count(argv[i + 1], *option->second)) {
            end_with(2, usage);
        }
    }
}

}  // namespace bench
