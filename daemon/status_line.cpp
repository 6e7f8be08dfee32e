#include "daemon/status_line.hpp"

#include <array>
#include <cstdint>
#include <cstdio>

namespace hurrayd {
namespace {

/// With a digit behind the point from 1 KiB on.
std::string human_bytes(std::uint64_t bytes) {
    constexpr std::array<const char*, 6> kUnits = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    if (bytes < 1024) {
        return std::to_string(bytes) + " B";
    }
    double value = static_cast<double>(bytes) / 1024;
    std::size_t unit = 0;
    while (value >= 1024 && unit + 1 < kUnits.size()) {
        value /= 1024;
        ++unit;
    }
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%.1f %s", value, kUnits[unit]);
    return text.data();
}

}  // namespace

std::string status_line(const Server::Held& held) {
    const Registry::Totals& totals = held.totals;
    return "clients " + std::to_string(totals.clients) + ", capsules " + std::to_string(totals.capsules) + ", names " +
           std::to_string(totals.names) + ", leases " + std::to_string(totals.leases) + ", waiting " +
           std::to_string(totals.waiting) + ", memory " + human_bytes(totals.bytes);
}

}  // namespace hurrayd
