#include "bench/samples.hpp"

#include <algorithm>
#include <fstream>

#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

namespace bench {

std::uint64_t now_ns() {
    timespec time{};
    ::clock_gettime(CLOCK_MONOTONIC, &time);
    return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000U + static_cast<std::uint64_t>(time.tv_nsec);
}

Quantiles quantiles(std::vector<std::uint64_t> samples) {
    std::sort(samples.begin(), samples.end());
    const auto at = [&](double share) {
        return samples[static_cast<std::size_t>(static_cast<double>(samples.size() - 1) * share)];
    };
    return {at(0.5), at(0.99), at(0.999)};
}

std::string human_size(std::uint64_t bytes) {
    static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    std::size_t unit = 0;
    while (bytes >= 1024 && bytes % 1024 == 0 && unit + 1 < std::size(kUnits)) {
        bytes /= 1024;
        ++unit;
    }
    return std::to_string(bytes) + " " + kUnits[unit];
}

std::string machine() {
    utsname system{};
    ::uname(&system);
    std::string processor = "unknown processor";
    std::ifstream cpuinfo("/proc/cpuinfo");
    for (std::string line; std::getline(cpuinfo, line);) {
        if (line.starts_with("model name")) {
            processor = line.substr(line.find(':') + 2);
            break;
        }
    }
    return processor + ", " + std::to_string(::sysconf(_SC_NPROCESSORS_ONLN)) + " processors, Linux " + system.release;
}

}  // namespace bench
