#include "daemon/segments.hpp"

#include <utility>

#include "libhurray/base/check.hpp"

namespace hurrayd {

SegmentNumber SegmentTable::add(hurray::UniqueFd fd, std::uint64_t bytes) {
    const SegmentNumber number{next_++};
    Segment& segment = segments_.try_emplace(number.value).first->second;
    segment.fd = std::move(fd);
    segment.bytes = bytes;
    return number;
}

int SegmentTable::fd(SegmentNumber number) const {
    const auto found = segments_.find(number.value);
    HURRAY_CHECK(found != segments_.end());
    return found->second.fd.get();
}

void SegmentTable::hold(SegmentNumber number) {
    const auto found = segments_.find(number.value);
    HURRAY_CHECK(found != segments_.end());
    ++found->second.uses;
}

void SegmentTable::drop(SegmentNumber number) {
    const auto found = segments_.find(number.value);
    HURRAY_CHECK(found != segments_.end());
    if (--found->second.uses == 0) {
        closer_.close_memory(std::move(found->second.fd), found->second.bytes);
        segments_.erase(found);
    }
}

}  // namespace hurrayd
