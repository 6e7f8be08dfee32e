#pragma once

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "libhurray/base/result.hpp"
#include "libhurray/base/unique_fd.hpp"

namespace hurray::wire {

/// Descriptors that this process has open.
inline std::size_t open_descriptors() {
    std::size_t count = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
        ++count;
    }
    return count;
}

/// Fails the test that leaves with more or fewer descriptors than it came with. Members of derived classes that hold
/// descriptors must be reset in the test or in TearDown().
class DescriptorTest : public ::testing::Test {
  protected:
    ~DescriptorTest() override { EXPECT_EQ(open_descriptors(), before_); }

  private:
    std::size_t before_ = open_descriptors();
};

inline UniqueFd owned(int fd, const char* what) {
    if (fd < 0) {
        throw std::runtime_error(std::string(what) + ": " + std::strerror(errno));
    }
    return UniqueFd(fd);
}

inline constexpr int kReusable = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL;
inline constexpr int kImmutable = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL;

enum class Sparse : bool { No, Yes };

/// A memfd of `size` bytes with `seals`.
inline UniqueFd make_memfd(std::uint64_t size, int seals, Sparse sparse = Sparse::No,
                           unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING) {
    UniqueFd fd = owned(::memfd_create("wire_test", flags), "memfd_create");
    if (::ftruncate(fd.get(), static_cast<off_t>(size)) != 0) {
        throw std::runtime_error(std::string("ftruncate: ") + std::strerror(errno));
    }
    if (sparse == Sparse::No && size > 0 && ::fallocate(fd.get(), 0, 0, static_cast<off_t>(size)) != 0) {
        throw std::runtime_error(std::string("fallocate: ") + std::strerror(errno));
    }
    if (seals != 0 && ::fcntl(fd.get(), F_ADD_SEALS, seals) != 0) {
        throw std::runtime_error(std::string("F_ADD_SEALS: ") + std::strerror(errno));
    }
    return fd;
}

inline std::span<const std::byte> as_bytes(std::string_view text) {
    return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

/// Whether `error` is of that kind, about that field, and says so in words that hold `words`.
inline void expect_error(const Error& error, Errc code, std::string_view field, std::string_view words) {
    EXPECT_EQ(static_cast<int>(error.code), static_cast<int>(code)) << error.message;
    EXPECT_EQ(error.field, field);
    EXPECT_NE(error.message.find(words), std::string::npos) << "got: " << error.message << "\nnot in it: " << words;
}

}  // namespace hurray::wire
