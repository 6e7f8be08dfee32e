#include "client/shared_memory.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>
#include <utility>

#include <boost/interprocess/exceptions.hpp>
#include <boost/interprocess/mapped_region.hpp>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>

// Younger than the oldest headers that this is built with.
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace hurray::client {

namespace {

namespace ipc = boost::interprocess;

/// From this size on it is worth asking how much memory there is before taking it: beyond the machine's memory the kernel
/// does not refuse, it kills.
constexpr std::uint64_t kAskBeforeTaking = 16ULL << 20;
constexpr std::uint64_t kHugePage = 2ULL << 20;

/// What mapped_region wants to see of a descriptor.
struct BorrowedHandle {
    int fd;
    [[nodiscard]] ipc::mapping_handle_t get_mapping_handle() const noexcept { return {fd, false}; }
};

Result<ipc::mapped_region> map(int fd, ipc::mode_t mode, std::uint64_t size, int options = MAP_SHARED) {
    try {
        return ipc::mapped_region(BorrowedHandle{fd}, mode, 0, static_cast<std::size_t>(size), nullptr, options);
    } catch (const ipc::interprocess_exception& error) {
        const int os_error = error.get_native_error();
        return fail_os(Errc::Limit, os_error,
                       "cannot map " + std::to_string(size) + " bytes of shared memory: " + std::strerror(os_error) +
                           " (the limits are vm.max_map_count mappings a process and its address space)");
    }
}

/// MemAvailable, in bytes; 0 if the kernel does not say.
std::uint64_t available_memory() {
    std::ifstream meminfo("/proc/meminfo");
    std::string key;
    std::uint64_t kibibytes = 0;
    std::string unit;
    while (meminfo >> key >> kibibytes >> unit) {
        if (key == "MemAvailable:") {
            return kibibytes * 1024;
        }
    }
    return 0;
}

tl::unexpected<Error> no_space(std::uint64_t asked, int os_error) {
    const std::uint64_t available = available_memory();
    Error error{Errc::NoSpace,
                "cannot reserve " + std::to_string(asked) + " bytes of shared memory: " + std::to_string(available) +
                    " bytes are available",
                {},
                os_error};
    error.limit_name = "available memory";
    error.limit = available;
    error.value = asked;
    return fail(std::move(error));
}

Result<UniqueFd> make_memfd() {
    // Sealed against execution where the kernel knows how; older ones say EINVAL to the flag.
    int fd = ::memfd_create("hurray", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
    if (fd < 0 && errno == EINVAL) {
        fd = ::memfd_create("hurray", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    }
    if (fd < 0) {
        const int os_error = errno;
        return fail_os(Errc::Limit, os_error,
                       std::string("cannot make a shared-memory file: ") + std::strerror(os_error) +
                           " (the limit on open descriptors is RLIMIT_NOFILE)");
    }
    return UniqueFd(fd);
}

/// Takes every page now, so that no later write can fail. One pass reserves the pages and enters them into this process's
/// page table; kernels before 5.14 do the first half only.
bool reserve(int fd, std::byte* data, std::uint64_t size) {
    if (::madvise(data, size, MADV_POPULATE_WRITE) == 0) {
        return true;
    }
    if (errno != EINVAL) {
        return false;
    }
    int result = 0;
    do {
        result = ::fallocate(fd, 0, 0, static_cast<off_t>(size));
    } while (result != 0 && errno == EINTR);
    return result == 0;
}

}  // namespace

struct Mapping::Region {
    ipc::mapped_region region;
};

Mapping::Mapping(std::unique_ptr<Region> region) noexcept
    : region_(std::move(region)),
      data_(static_cast<std::byte*>(region_->region.get_address())),
      size_(region_->region.get_size()) {}

Mapping::~Mapping() = default;

void Mapping::populate() const noexcept { (void)::madvise(data_, size_, MADV_POPULATE_READ); }

Result<std::shared_ptr<const Mapping>> Mapping::open_read_only(int fd, std::uint64_t size, Populate populate) {
    auto region = map(fd, ipc::read_only, size, populate == Populate::Yes ? MAP_SHARED | MAP_POPULATE : MAP_SHARED);
    if (!region) {
        return fail(std::move(region.error()));
    }
    return std::shared_ptr<const Mapping>(new Mapping(std::make_unique<Region>(Region{std::move(*region)})));
}

WritableSegment::WritableSegment(std::unique_ptr<Region> region, UniqueFd fd) noexcept
    : Mapping(std::move(region)), fd_(std::move(fd)) {}

Result<void> WritableSegment::check_size(std::uint64_t size) {
    if (size > static_cast<std::uint64_t>(INT64_MAX)) {
        return no_space(size, ENOMEM);
    }
    rlimit file_size{};
    if (::getrlimit(RLIMIT_FSIZE, &file_size) == 0 && size > file_size.rlim_cur) {
        Error error{Errc::Limit,
                    "shared memory of " + std::to_string(size) +
                        " bytes is more than a file of this process may have; the limit is RLIMIT_FSIZE (ulimit -f), " +
                        std::to_string(file_size.rlim_cur) + " bytes"};
        error.limit_name = "RLIMIT_FSIZE";
        error.limit = file_size.rlim_cur;
        error.value = size;
        return fail(std::move(error));  // the kernel would say so with a signal that ends the process
    }
    return {};
}

Result<std::shared_ptr<const WritableSegment>> WritableSegment::create(std::uint64_t size, Purpose purpose) {
    auto fd = make_memfd();
    if (!fd) {
        return fail(std::move(fd.error()));
    }
    if (size >= kAskBeforeTaking) {
        const std::uint64_t available = available_memory();
        if (available != 0 && size > available) {
            return no_space(size, ENOMEM);
        }
    }
    if (::ftruncate(fd->get(), static_cast<off_t>(size)) != 0) {
        return no_space(size, errno);
    }
    auto region = map(fd->get(), ipc::read_write, size);
    if (!region) {
        return fail(std::move(region.error()));
    }
    auto* const data = static_cast<std::byte*>(region->get_address());
    if (size >= kHugePage) {
        ::madvise(data, size, MADV_HUGEPAGE);  // advice: where it is not taken, small pages do
    }
    if (!reserve(fd->get(), data, size)) {
        return no_space(size, errno);
    }
    // Of what is used again all seals, before the descriptor can leave this process: this mapping goes on writing, no other can
    // begin to. Of what is written once those that a writable mapping allows.
    const int seals = purpose == Purpose::Reuse ? F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL
                                                : F_SEAL_SHRINK | F_SEAL_GROW;
    if (::fcntl(fd->get(), F_ADD_SEALS, seals) != 0) {
        const int os_error = errno;
        return fail_os(Errc::Unsupported, os_error,
                       std::string("the kernel does not seal shared memory against writing: ") +
                           std::strerror(os_error) + " (Linux 5.1 or newer is needed)");
    }
    return std::shared_ptr<const WritableSegment>(
        new WritableSegment(std::make_unique<Region>(Region{std::move(*region)}), std::move(*fd)));
}

bool WritableSegment::is_immutable() const noexcept {
    const int seals = ::fcntl(fd(), F_GET_SEALS);
    return seals >= 0 && (seals & F_SEAL_WRITE) != 0;
}

Result<void> WritableSegment::make_immutable() const {
    if (is_immutable()) {
        return {};
    }
    const auto map_in_place = [&](int protection, int flags) {
        return ::mmap(data(), size(), protection, flags | MAP_FIXED, fd(), 0) != MAP_FAILED;
    };
    const auto unmapped = [&](int os_error) {
        return fail_os(Errc::Limit, os_error,
                       "cannot map " + std::to_string(size()) +
                           " bytes of shared memory in the place where they were: " + std::strerror(os_error));
    };
    // In one step, so that another thread may read on meanwhile. A shared mapping of this descriptor could become writable and
    // would forbid the seal, a private one shows the same pages and does not.
    if (!map_in_place(PROT_READ, MAP_PRIVATE)) {
        return unmapped(errno);
    }
    if (::fcntl(fd(), F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SEAL) == 0) {
        return {};
    }
    const int os_error = errno;
    if (!map_in_place(PROT_READ | PROT_WRITE, MAP_SHARED)) {
        return unmapped(errno);
    }
    if (os_error == EBUSY) {
        return fail_os(
            Errc::InvalidArgument, os_error,
            "the memory can't be made immutable while somebody else can write to it: a forked child has it "
            "mapped, or its pages are pinned for a device. Let the child end, or the pages go, and publish again");
    }
    return fail_call(Errc::Internal, os_error, "sealing shared memory");
}

}  // namespace hurray::client
