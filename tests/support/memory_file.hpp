#pragma once

#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libhurray/base/unique_fd.hpp"

namespace hurray::test {

/// A regular file in memory that holds `bytes` and stands at its beginning.
inline UniqueFd memory_file(std::span<const std::uint8_t> bytes = {}) {
    UniqueFd fd(::memfd_create("hurray-test", MFD_CLOEXEC));
    if (!fd || ::pwrite(fd.get(), bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
        throw std::runtime_error("memfd_create");
    }
    return fd;
}

/// All that is in it.
inline std::vector<std::uint8_t> contents(const UniqueFd& fd) {
    struct stat info{};
    if (::fstat(fd.get(), &info) != 0) {
        throw std::runtime_error("fstat");
    }
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(info.st_size));
    if (::pread(fd.get(), bytes.data(), bytes.size(), 0) != info.st_size) {
        throw std::runtime_error("pread");
    }
    return bytes;
}

}  // namespace hurray::test
