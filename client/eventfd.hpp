#pragma once

#include <cstdint>

#include <unistd.h>

namespace hurray::client {

/// Makes a non-blocking eventfd readable. Threads: any.
inline void set_eventfd(int fd) noexcept {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(fd, &one, sizeof one);  // full means set already
}

/// Makes it unreadable.
inline void clear_eventfd(int fd) noexcept {
    std::uint64_t count = 0;
    [[maybe_unused]] const auto read = ::read(fd, &count, sizeof count);
}

}  // namespace hurray::client
