#include "tests/support/test_tensor.hpp"

#include <array>
#include <atomic>
#include <stdexcept>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libhurray/format/dense.hpp"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

namespace hurray::test {

UniqueFd make_memfd(const MemfdOptions& options) {
    UniqueFd fd(::memfd_create("hurray-test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (!fd || ::ftruncate(fd.get(), static_cast<off_t>(options.size)) != 0) {
        throw std::runtime_error("memfd_create");
    }
    if (options.reserve && options.size != 0) {
        if (::fallocate(fd.get(), 0, 0, static_cast<off_t>(options.size)) != 0) {
            throw std::runtime_error("fallocate");
        }
        if (options.fill != 0) {
            const std::vector<char> bytes(options.size, options.fill);
            if (::pwrite(fd.get(), bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
                throw std::runtime_error("pwrite");
            }
        }
    }
    const int seals =
        options.seals >= 0 ? options.seals : F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL;
    if (seals != 0 && ::fcntl(fd.get(), F_ADD_SEALS, seals) != 0) {
        throw std::runtime_error("F_ADD_SEALS");
    }
    return fd;
}

std::string make_descriptor(std::uint64_t elements) {
    const std::array<std::uint64_t, 1> shape = {elements};
    DenseTensor tensor;
    tensor.shape = shape;
    const auto encoded = encode_dense(tensor);
    if (!encoded) {
        throw std::runtime_error(describe(encoded.error()));
    }
    const auto bytes = encoded->bytes();
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

wire::Id16 fresh_id() {
    wire::Id16 id;
    if (::getrandom(id.bytes.data(), id.bytes.size(), 0) != static_cast<ssize_t>(id.bytes.size())) {
        throw std::runtime_error("getrandom");
    }
    return id;
}

TestTensor make_tensor(std::string name, std::uint64_t elements, char fill) {
    static std::atomic<std::uint64_t> next_number{1};
    TestTensor tensor;
    tensor.publish.capsule = fresh_id();
    tensor.publish.name = std::move(name);
    tensor.publish.descriptor = make_descriptor(elements);
    if (elements == 0) {
        tensor.publish.placements = {{0, 0}};
        return tensor;
    }
    const std::uint64_t size = (4 * elements + 4095) / 4096 * 4096;
    tensor.fd = make_memfd({.size = size, .fill = fill});
    tensor.publish.segments = {{next_number++, true, wire::Memory::Reusable, size, 0}};
    tensor.publish.placements = {{0, 0}};
    return tensor;
}

std::uint64_t inode_of(int fd) {
    struct stat status{};
    if (::fstat(fd, &status) != 0) {
        throw std::runtime_error("fstat");
    }
    return status.st_ino;
}

}  // namespace hurray::test
