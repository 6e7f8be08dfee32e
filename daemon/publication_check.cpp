#include "daemon/publication_check.hpp"

#include <cstddef>
#include <string>

#include <sys/stat.h>

#include "daemon/descriptor_check.hpp"

namespace hurrayd {

namespace wire = hurray::wire;

hurray::Result<CheckedPublish> check_publish(const wire::Publish& publish, std::span<const int> fds) {
    const auto buffers = check_descriptor(publish.descriptor, "publish.descriptor");
    if (!buffers) {
        return tl::unexpected(buffers.error());
    }
    if (const auto placed = wire::check_placements(publish.segments, publish.placements, *buffers, "publish");
        !placed) {
        return tl::unexpected(placed.error());
    }
    CheckedPublish checked;
    checked.files.resize(publish.segments.size());
    for (std::size_t i = 0, next_fd = 0; i < publish.segments.size(); ++i) {
        if (!publish.segments[i].carries_fd) {
            continue;
        }
        const auto file = wire::check_segment(fds[next_fd++], publish.segments[i], {"publish.segments", i});
        if (!file) {
            return tl::unexpected(file.error());
        }
        checked.files[i] = *file;
    }
    for (const wire::BufferExtent& buffer : *buffers) {
        checked.buffer_bytes += buffer.byte_size;  // each fits its segment, and they don't overlap: nothing wraps
    }
    return checked;
}

hurray::Result<void> check_makers(const wire::Publish& publish, std::span<const int> fds, std::uint32_t uid) {
    if (uid == 0) {
        return {};
    }
    for (std::size_t i = 0, next_fd = 0; i < publish.segments.size(); ++i) {
        if (!publish.segments[i].carries_fd) {
            continue;
        }
        const int fd = fds[next_fd++];
        struct stat status{};
        if (publish.segments[i].memory == wire::Memory::Dmabuf || (::fstat(fd, &status) == 0 && status.st_uid == uid)) {
            continue;
        }
        return hurray::fail_field(hurray::Errc::NotPermitted, "publish.segments[" + std::to_string(i) + "]",
                                  "the memory was made by user " + std::to_string(status.st_uid) +
                                      ", and you are user " + std::to_string(uid) +
                                      ": only root publishes what others have made");
    }
    return {};
}

}  // namespace hurrayd
