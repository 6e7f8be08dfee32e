#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace {

namespace fs = std::filesystem;

/// Every header of another origin than the standard library or libc that may be included below libhurray/, by folder.
const std::map<std::string, std::vector<std::string>> kAllowed{
    {"include", {"hurray.h", "hurray/"}},
    {"base", {"libhurray/base/", "tl/expected.hpp"}},
    {"format", {"libhurray/base/", "libhurray/format/", "hurray/types.hpp", "tl/expected.hpp"}},
    {"container", {"libhurray/base/", "libhurray/format/", "libhurray/container/", "boost/crc.hpp", "tl/expected.hpp"}},
    {"abi",
     {"libhurray/base/", "libhurray/format/", "libhurray/container/", "libhurray/abi/", "hurray.h", "hurray/types.hpp",
      "sanitizer/asan_interface.h"}},
};

/// A standard header has no folder and no extension; of libc we use these.
bool is_standard(const std::string& header) {
    static const std::set<std::string> libc{"fcntl.h",  "poll.h",     "pthread.h",   "stddef.h",
                                            "stdint.h", "sys/stat.h", "sys/types.h", "unistd.h"};
    return header.find_first_of("/.") == std::string::npos || libc.count(header) == 1;
}

bool is_allowed(const std::string& layer, const std::string& header) {
    const auto& prefixes = kAllowed.at(layer);
    return std::any_of(prefixes.begin(), prefixes.end(),
                       [&](const std::string& prefix) { return header.rfind(prefix, 0) == 0; });
}

/// The header that a line includes.
std::optional<std::string> included_header(const std::string& line) {
    const auto directive = line.find("#include");
    const auto open = line.find_first_of("<\"", directive == std::string::npos ? line.size() : directive);
    const auto close = line.find_first_of(">\"", open == std::string::npos ? line.size() : open + 1);
    if (close == std::string::npos) {
        return std::nullopt;
    }
    return line.substr(open + 1, close - open - 1);
}

TEST(IncludeArrows, LibhurrayKnowsNothingButItselfAndTheStandardLibrary) {
    const fs::path root = fs::path(HURRAY_SOURCE_DIR) / "libhurray";
    std::size_t seen = 0;
    for (const auto& entry : fs::recursive_directory_iterator(root)) {
        const std::string extension = entry.path().extension();
        if (extension != ".hpp" && extension != ".cpp" && extension != ".h") {
            continue;
        }
        const std::string layer = *fs::relative(entry.path(), root).begin();
        ASSERT_EQ(kAllowed.count(layer), 1U) << "a new folder: " << entry.path();
        std::ifstream file(entry.path());
        for (std::string line; std::getline(file, line);) {
            if (const auto header = included_header(line)) {
                ++seen;
                EXPECT_TRUE(is_standard(*header) || is_allowed(layer, *header))
                    << entry.path() << " includes " << *header;
            }
        }
    }
    EXPECT_GT(seen, 50U);
}

}  // namespace
