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

std::vector<SessionNumber> SegmentTable::drop(SegmentNumber number, bool is_one_of_many) {
    const auto found = segments_.find(number.value);
    HURRAY_CHECK(found != segments_.end());
    if (--found->second.uses != 0) {
        return {};
    }
    std::vector<SessionNumber> holders = std::move(found->second.holders);
    closer_.close_memory(std::move(found->second.fd), found->second.bytes, is_one_of_many);
    segments_.erase(found);
    return holders;
}

void SegmentTable::sent_to(SegmentNumber number, SessionNumber session) {
    const auto found = segments_.find(number.value);
    HURRAY_CHECK(found != segments_.end());
    found->second.holders.push_back(session);
}

void SegmentTable::forgotten_by(SegmentNumber number, SessionNumber session) {
    if (const auto found = segments_.find(number.value); found != segments_.end()) {
        std::erase(found->second.holders, session);
    }
}

}  // namespace hurrayd
