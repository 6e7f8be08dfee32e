#include "daemon/publication_check.hpp"

#include <cstddef>

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

}  // namespace hurrayd
