#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

// The tree is the architecture: what the daemon may know, and what it must never do.

namespace {

std::string output_of(const std::string& command) {
    FILE* pipe = ::popen(command.c_str(), "r");
    std::string output;
    std::array<char, 4096> buffer;
    while (pipe != nullptr) {
        const std::size_t size = std::fread(buffer.data(), 1, buffer.size(), pipe);
        if (size == 0) {
            break;
        }
        output.append(buffer.data(), size);
    }
    EXPECT_EQ(pipe == nullptr ? -1 : ::pclose(pipe), 0) << command;
    return output;
}

/// Every file of ours that the daemon's sources include, directly or not, and every name that they include in <>.
void collect_includes(const std::string& file, std::set<std::string>& seen) {
    std::ifstream stream(std::filesystem::path(HURRAY_SOURCE_DIR) / file);
    for (std::string line; std::getline(stream, line);) {
        const auto open = line.find_first_of("<\"");
        if (!line.starts_with("#include") || open == std::string::npos) {
            continue;
        }
        const std::string name = line.substr(open + 1, line.find_first_of(">\"", open + 1) - open - 1);
        if (seen.insert(name).second && line[open] == '"') {
            collect_includes(name, seen);
        }
    }
}

TEST(DaemonArchitecture, IncludesNothingOfTheClientAndNoCuda) {
    std::set<std::string> included;
    const std::filesystem::path source = HURRAY_SOURCE_DIR;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(source / "daemon")) {
        if (entry.is_regular_file()) {
            collect_includes(std::filesystem::relative(entry.path(), source).string(), included);
        }
    }
    EXPECT_TRUE(included.contains("daemon/store/keeping.hpp"));
    EXPECT_TRUE(included.contains("proto/wire/messages.hpp")) << "the graph was not followed";
    for (const std::string& name : included) {
        EXPECT_FALSE(name.starts_with("client/") || name.starts_with("hurray_client")) << name;
        EXPECT_EQ(name.find("cuda"), std::string::npos) << name;
    }
}

TEST(DaemonArchitecture, LinksNoCuda) {
    const std::string dynamic = output_of("readelf -d " HURRAYD_BINARY);
    EXPECT_NE(dynamic.find("NEEDED"), std::string::npos);
    EXPECT_EQ(dynamic.find("cuda"), std::string::npos) << dynamic;
    EXPECT_EQ(dynamic.find("libhurray-client"), std::string::npos) << dynamic;
}

TEST(DaemonArchitecture, NeverMapsMemory) {
    const std::string symbols = output_of("nm --undefined-only " HURRAYD_CORE_ARCHIVE);
    EXPECT_NE(symbols.find("recvmsg") == std::string::npos && symbols.find("accept4") == std::string::npos, true);
    for (const char* name : {" mmap\n", " mmap64\n", " mremap\n", " shm_open\n", " shmat\n", " dlopen\n"}) {
        EXPECT_EQ(symbols.find(name), std::string::npos) << name;
    }
}

}  // namespace
