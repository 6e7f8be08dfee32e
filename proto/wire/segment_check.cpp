#include "proto/wire/segment_check.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "libhurray/base/checked_math.hpp"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010  // Linux 5.1
#endif
#ifndef F_SEAL_EXEC
#define F_SEAL_EXEC 0x0020  // Linux 6.3; absent from the headers of Debian 12
#endif

namespace hurray::wire {
namespace {

/// The seals of one kind of memory: all of `needed`, and nothing else but what is `harmless`, since it breaks nobody's promise.
struct SealRule {
    int needed;
    int harmless;
};
constexpr SealRule kReusable{F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL, F_SEAL_EXEC};
/// FUTURE_WRITE forbids nothing that WRITE does not; the kernel adds it where EXEC is added to an executable memfd.
constexpr SealRule kImmutable{F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL,
                              F_SEAL_EXEC | F_SEAL_FUTURE_WRITE};

/// What fstatfs says of a dma-buf: "DMAB".
constexpr auto kDmabufMagic = 0x444d4142;

[[gnu::cold]] tl::unexpected<Error> refuse(std::string_view field, std::string message) {
    return fail_field(Errc::InvalidArgument, std::string(field), std::move(message));
}

std::string seal_names(int seals) {
    struct Seal {
        int bit;
        const char* name;
    };
    constexpr std::array<Seal, 6> kSeals{{{F_SEAL_SHRINK, "SHRINK"},
                                          {F_SEAL_GROW, "GROW"},
                                          {F_SEAL_WRITE, "WRITE"},
                                          {F_SEAL_FUTURE_WRITE, "FUTURE_WRITE"},
                                          {F_SEAL_SEAL, "SEAL"},
                                          {F_SEAL_EXEC, "EXEC"}}};
    std::string names;
    int unnamed = seals;
    for (const Seal& seal : kSeals) {
        if ((seals & seal.bit) != 0) {
            names += names.empty() ? "" : "|";
            names += seal.name;
            unnamed &= ~seal.bit;
        }
    }
    if (unnamed != 0) {
        names += names.empty() ? "" : "|";
        names += "unknown bits " + std::to_string(unnamed);
    }
    return names.empty() ? "no seals" : names;
}

/// "the memfd has SHRINK|GROW where SHRINK|GROW|WRITE|SEAL are needed: WRITE|SEAL missing"
std::string misfit(int seals, const SealRule& rule) {
    std::string message = "the memfd has " + seal_names(seals) + " where " + seal_names(rule.needed) + " are needed";
    const int missing = rule.needed & ~seals;
    const int surplus = seals & ~(rule.needed | rule.harmless);
    if (missing != 0) {
        message += ": " + seal_names(missing) + " missing";
    }
    if (surplus != 0) {
        message += (missing != 0 ? ", " : ": ") + seal_names(surplus) + " must not be there";
    }
    return message;
}

/// What a descriptor without seals is, in words.
///
/// Not fstat(): a hostile peer may send a file of its own FUSE file system, and fstat() waits for that file system's
/// answer. Reading the link in /proc asks nobody.
std::string kind_without_seals(int fd) {
    std::array<char, 64> target{};
    const std::string link = "/proc/self/fd/" + std::to_string(fd);
    const ssize_t length = ::readlink(link.c_str(), target.data(), target.size());
    const std::string_view name(target.data(), length < 0 ? 0 : static_cast<std::size_t>(length));
    if (name.starts_with("pipe:")) {
        return "a pipe";
    }
    if (name.starts_with("socket:")) {
        return "a socket";
    }
    if (name.starts_with("anon_inode:")) {
        return "an object without memory (such as an eventfd)";
    }
    if (name.starts_with("/dmabuf:")) {
        return "a dma-buf";
    }
    if (name.starts_with("/dev/")) {
        return "a device";
    }
    if (name.starts_with("/")) {
        return "a file or directory of a file system that has no seals";
    }
    return "something else";
}

[[gnu::cold]] tl::unexpected<Error> refuse_os(const Path& field, int os_error, std::string message) {
    return fail(Error{
        .code = Errc::InvalidArgument, .message = std::move(message), .field = field.text(), .os_error = os_error});
}

/// Whether `fd` is a dma-buf.
///
/// The kernel's fdinfo of a dma-buf names its exporter, and no other file's does. It asks nobody, as above; fstatfs, which would
/// ask the file system of a FUSE file, is called for what passes only.
bool is_dmabuf(int fd) {
    std::ifstream fdinfo("/proc/self/fdinfo/" + std::to_string(fd));
    bool names_exporter = false;
    for (std::string line; !names_exporter && std::getline(fdinfo, line);) {
        names_exporter = line.starts_with("exp_name:");
    }
    struct statfs system{};
    return names_exporter && ::fstatfs(fd, &system) == 0 && system.f_type == kDmabufMagic;
}

[[gnu::cold]] tl::unexpected<Error> without_seals(int fd, int os_error, const Path& field) {
    if (os_error == EINVAL) {
        return refuse_os(field, os_error, "the descriptor is not a memfd but " + kind_without_seals(fd));
    }
    if (os_error == EBADF) {
        return refuse_os(field, os_error,
                         "the descriptor is closed or was opened with O_PATH: it gives no access to memory");
    }
    return refuse_os(field, os_error, std::string("reading the seals: ") + std::strerror(os_error));
}

[[gnu::cold]] tl::unexpected<Error> never_sealed(const Path& field) {
    return refuse(field.text(),
                  "the descriptor can't have seals: a file in tmpfs, or a memfd made without MFD_ALLOW_SEALING");
}

[[gnu::cold]] tl::unexpected<Error> wrong_size(const Path& field, const char* what, std::uint64_t size,
                                               std::uint64_t said) {
    return refuse(field.with_tail(".size").text(), std::string("the ") + what + " has " + std::to_string(size) +
                                                       " bytes, the message says " + std::to_string(said));
}

/// Refuses a descriptor that was opened for writing only: nobody could map it to read.
Result<void> check_readable(int fd, const Path& field) {
    if ((::fcntl(fd, F_GETFL) & O_ACCMODE) == O_WRONLY) {
        return refuse(field.text(), "the descriptor was opened for writing only, so nobody could map it to read");
    }
    return {};
}

Result<FileIdentity> check_dmabuf(int fd, const Segment& segment, const Path& field) {
    if (!is_dmabuf(fd)) {
        return ::fcntl(fd, F_GET_SEALS) >= 0
                   ? refuse(field.text(), "the descriptor is not a dma-buf but a memfd or a file in tmpfs")
                   : refuse(field.text(), "the descriptor is not a dma-buf but " + kind_without_seals(fd));
    }
    if (auto readable = check_readable(fd, field); !readable) {
        return fail(std::move(readable.error()));
    }
    struct stat status{};
    const off_t size = ::lseek(fd, 0, SEEK_END);  // it says nothing in fstat, and its size never changes
    if (size < 0 || ::fstat(fd, &status) != 0) {
        const int error = errno;
        return refuse_os(field, error, std::string("asking the dma-buf for its size: ") + std::strerror(error));
    }
    if (static_cast<std::uint64_t>(size) != segment.size) {
        return wrong_size(field, "dma-buf", static_cast<std::uint64_t>(size), segment.size);
    }
    return FileIdentity{status.st_dev, status.st_ino};
}

}  // namespace

Result<FileIdentity> check_segment(int fd, const Segment& segment, const Path& field) {
    if (segment.size == 0) {
        return refuse(field.with_tail(".size").text(), "a segment of 0 bytes: empty buffers need no segment");
    }
    SealRule rule = kReusable;
    switch (segment.memory) {
        case Memory::Reusable:
            break;
        case Memory::Immutable:
            rule = kImmutable;
            break;
        case Memory::Dmabuf:
            return check_dmabuf(fd, segment, field);
        case Memory::GpuLegacy:
        case Memory::GpuVmm:
        case Memory::GpuPool:
            return fail_field(
                Errc::Unsupported, field.with_tail(".memory").text(),
                "memory of kind " + std::to_string(static_cast<int>(segment.memory)) + " is not built yet");
        default:
            return refuse(field.with_tail(".memory").text(),
                          "memory of kind " + std::to_string(static_cast<int>(segment.memory)) + " is not known");
    }

    // Seals first: what is read after them can't change any more.
    const int seals = ::fcntl(fd, F_GET_SEALS);
    if (seals < 0) {
        return without_seals(fd, errno, field);
    }
    if (seals == F_SEAL_SEAL) {
        return never_sealed(field);
    }
    if ((seals & ~rule.harmless) != rule.needed) {
        return refuse(field.text(), misfit(seals, rule));
    }
    if (auto readable = check_readable(fd, field); !readable) {
        return fail(std::move(readable.error()));
    }

    struct stat status{};
    if (::fstat(fd, &status) != 0) {
        const int error = errno;
        return refuse_os(field, error, std::string("fstat of the memfd: ") + std::strerror(error));
    }
    if (!S_ISREG(status.st_mode)) {
        return refuse(field.text(), "the descriptor is not a memfd: it is no regular file");
    }
    const auto size = static_cast<std::uint64_t>(status.st_size);
    if (size != segment.size) {
        return wrong_size(field, "memfd", size, segment.size);
    }
    // A sparse memfd would make its readers pay for the pages, or die. The unit of st_blocks is 512, whatever the file.
    constexpr std::uint64_t kBlock = 512;
    const auto blocks = static_cast<std::uint64_t>(status.st_blocks);
    if (blocks < size / kBlock + (size % kBlock != 0 ? 1 : 0)) {
        return refuse(field.text(), "the memfd is sparse: " + std::to_string(blocks * kBlock) + " of its " +
                                        std::to_string(size) + " bytes are reserved (fallocate does that)");
    }
    return FileIdentity{status.st_dev, status.st_ino};
}

Result<FoundSegment> find_segment(int fd, const Path& field) {
    FoundSegment found;
    const int seals = ::fcntl(fd, F_GET_SEALS);
    if (seals < 0) {
        const int error = errno;
        if (error != EINVAL || !is_dmabuf(fd)) {
            return without_seals(fd, error, field);
        }
        found.memory = Memory::Dmabuf;
        found.size = static_cast<std::uint64_t>(std::max<off_t>(::lseek(fd, 0, SEEK_END), 0));
    } else {
        if (seals == F_SEAL_SEAL) {
            return never_sealed(field);
        }
        if ((seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE)) == 0) {
            return refuse(field.text(), "the memfd has " + seal_names(seals) +
                                            ", so anybody could write to it: " + seal_names(kReusable.needed) +
                                            " are needed for memory that is used again, " +
                                            seal_names(kImmutable.needed) + " for memory that never changes");
        }
        struct stat status{};
        if (::fstat(fd, &status) != 0) {
            const int error = errno;
            return refuse_os(field, error, std::string("fstat of the memfd: ") + std::strerror(error));
        }
        found.memory = (seals & F_SEAL_WRITE) != 0 ? Memory::Immutable : Memory::Reusable;
        found.size = static_cast<std::uint64_t>(status.st_size);
    }
    if (found.size == 0) {
        return refuse(field.text(), "the descriptor has 0 bytes: empty buffers need no memory");
    }
    auto file = check_segment(fd, {.memory = found.memory, .size = found.size}, field);
    if (!file) {
        return fail(std::move(file.error()));
    }
    found.file = *file;
    return found;
}

Result<void> check_distinct(const std::vector<FileIdentity>& files, std::string_view field_prefix) {
    std::vector<std::pair<FileIdentity, std::size_t>> sorted;
    sorted.reserve(files.size());
    for (std::size_t i = 0; i < files.size(); ++i) {
        sorted.emplace_back(files[i], i);
    }
    std::sort(sorted.begin(), sorted.end());
    const auto same = std::adjacent_find(sorted.begin(), sorted.end(),
                                         [](const auto& a, const auto& b) { return a.first == b.first; });
    if (same == sorted.end()) {
        return {};
    }
    return refuse(std::string(field_prefix) + ".segments[" + std::to_string(std::next(same)->second) + "]",
                  "the memfd is that of segment " + std::to_string(same->second) +
                      " as well: several buffers may lie in one segment, but it is sent once");
}

Result<void> check_placements(const std::vector<Segment>& segments, const std::vector<Placement>& placements,
                              const std::vector<BufferExtent>& buffers, std::string_view field_prefix) {
    const std::string prefix(field_prefix);
    const auto placement_path = [&](std::size_t index) {
        return prefix + ".placements[" + std::to_string(index) + "]";
    };

    if (placements.size() != buffers.size()) {
        return refuse(prefix + ".placements", std::to_string(placements.size()) + " placements for " +
                                                  std::to_string(buffers.size()) + " buffers");
    }

    struct Range {
        std::uint32_t segment;
        std::uint64_t begin;
        std::uint64_t end;
        std::size_t index;
    };
    std::vector<Range> ranges;
    ranges.reserve(buffers.size());
    for (std::size_t i = 0; i < buffers.size(); ++i) {
        const Placement& placement = placements[i];
        const BufferExtent& buffer = buffers[i];
        if (buffer.byte_size == 0) {
            continue;
        }
        if (placement.segment >= segments.size()) {
            return refuse(placement_path(i) + ".segment",
                          "segment " + std::to_string(placement.segment) + " of " + std::to_string(segments.size()));
        }
        const std::uint64_t size = segments[placement.segment].size;
        if (!range_fits(placement.offset, buffer.byte_size, size)) {
            return refuse(placement_path(i) + ".offset", "a buffer of " + std::to_string(buffer.byte_size) +
                                                             " bytes at offset " + std::to_string(placement.offset) +
                                                             " does not fit its segment of " + std::to_string(size));
        }
        const std::uint64_t alignment = std::max<std::uint64_t>(buffer.alignment, 1);
        if (placement.offset % alignment != 0) {
            return refuse(placement_path(i) + ".offset", "offset " + std::to_string(placement.offset) +
                                                             " is no multiple of the buffer's alignment " +
                                                             std::to_string(alignment));
        }
        ranges.push_back({placement.segment, placement.offset, placement.offset + buffer.byte_size, i});
    }

    // Sorted, a range that overlaps any other overlaps its successor.
    std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) {
        return a.segment != b.segment ? a.segment < b.segment : a.begin < b.begin;
    });
    std::size_t next_segment = 0;  // the first that no range has used so far
    for (std::size_t i = 0; i < ranges.size(); ++i) {
        const Range& range = ranges[i];
        if (range.segment > next_segment) {
            break;
        }
        next_segment = range.segment + std::size_t{1};
        if (i + 1 < ranges.size() && ranges[i + 1].segment == range.segment && ranges[i + 1].begin < range.end) {
            const Range& other = ranges[i + 1];
            const auto [first, second] = std::minmax(range.index, other.index);
            return refuse(placement_path(second),
                          "overlaps placement " + std::to_string(first) + " in segment " +
                              std::to_string(range.segment) + ": bytes from " + std::to_string(other.begin) + " to " +
                              std::to_string(std::min(range.end, other.end)) + " belong to both");
        }
    }
    if (next_segment < segments.size()) {
        return refuse(prefix + ".segments[" + std::to_string(next_segment) + "]", "no buffer lies in this segment");
    }
    return {};
}

}  // namespace hurray::wire
