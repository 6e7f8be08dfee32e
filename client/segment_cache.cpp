#include "client/segment_cache.hpp"

#include <algorithm>
#include <iterator>
#include <new>
#include <string>
#include <utility>

#include "client/connection.hpp"
#include "proto/wire/segment_check.hpp"

namespace hurray::client {

namespace {

Error descriptor_lost() {
    Error error{Errc::Limit,
                "this process has too few descriptors free for what hurrayd sent; the limit is RLIMIT_NOFILE"};
    error.limit_name = "RLIMIT_NOFILE";
    return error;
}

}  // namespace

Result<std::shared_ptr<const Mapping>> SharedSegment::map(Populate populate) {
    const std::lock_guard lock(mutex_);
    if (mapping_ != nullptr) {
        if (populate == Populate::Yes && !std::exchange(is_populated_, true)) {
            mapping_->populate();
        }
        return mapping_;
    }
    if (auto checked = wire::check_segment(fd_.get(), said_, {"attach.segments"}); !checked) {
        return fail(std::move(checked.error()));
    }
    auto mapping = Mapping::open_read_only(fd_.get(), said_.size, populate);
    if (!mapping) {
        return fail(std::move(mapping.error()));
    }
    fd_.reset();
    mapping_ = std::move(*mapping);
    is_populated_ = populate == Populate::Yes;
    is_mapped_ = true;
    return mapping_;
}

SharedSegment& SegmentCache::Use::segment() const noexcept { return entry_->segment; }

std::shared_ptr<SegmentCache::Entry> SegmentCache::find(const Held& /*held*/, std::uint64_t number) const {
    if (const auto found = live_.find(number); found != live_.end()) {
        return found->second;
    }
    const auto [first, last] = dropping_.equal_range(number);
    const auto kept = std::find_if(first, last, [](const auto& dropped) { return dropped.second != nullptr; });
    return kept != last ? kept->second : nullptr;
}

Result<std::vector<SegmentCache::Use>> SegmentCache::take(const wire::AttachReply& grant, std::vector<UniqueFd>& fds,
                                                          bool fds_missing) {
    std::vector<Use> uses;
    uses.reserve(grant.segments.size());
    std::optional<Error> fault;
    {
        const Held held(mutex_);
        auto next_fd = fds.begin();
        for (const wire::Segment& said : grant.segments) {
            std::shared_ptr<Entry> entry = find(held, said.number);
            if (said.carries_fd && fds_missing) {
                if (entry == nullptr || !entry->is_live) {
                    miss(held, said.number);
                }
                fault = descriptor_lost();
                continue;
            }
            if (said.carries_fd) {
                // One that is here already came again: hurrayd remembers only so many. The descriptor is of no use then.
                UniqueFd fd = std::move(*next_fd++);
                if (entry == nullptr) {
                    entry = std::make_shared<Entry>(said, std::move(fd));
                }
                if (live_.try_emplace(said.number, entry).second) {
                    entry->is_live = true;
                }
            } else if (entry == nullptr) {
                if (dropping_.contains(said.number)) {
                    fault = descriptor_lost();
                } else {
                    fault = Error{Errc::Protocol, "what hurrayd granted is not sound: segment number " +
                                                      std::to_string(said.number) + " never came"};
                    miss(held, said.number);  // so that the next grant brings it, whoever is wrong
                }
                continue;
            }
            if (said.size != entry->segment.size() || said.memory != entry->segment.memory()) {
                fault = Error{Errc::Protocol, "what hurrayd granted is not sound: segment number " +
                                                  std::to_string(said.number) + " has changed its size or kind"};
                continue;
            }
            leave_idle(held, *entry);
            ++entry->uses;
            uses.emplace_back(*this, std::move(entry));
        }
    }
    if (fault) {
        return fail(std::move(*fault));  // the uses end here, without the lock
    }
    return uses;
}

/// hurrayd takes it for sent, and it is not here.
void SegmentCache::miss(const Held& /*held*/, std::uint64_t number) {
    untold_.reserve(untold_.size() + 1);
    dropping_.emplace(number, nullptr);
    untold_.push_back(number);
    has_untold_ = true;
}

void SegmentCache::leave_idle(const Held& /*held*/, Entry& entry) noexcept {
    if (entry.idle) {
        idle_.erase(*entry.idle);
        entry.idle.reset();
        idle_bytes_ -= entry.segment.size();
    }
}

void SegmentCache::release(std::shared_ptr<Entry> entry) noexcept {
    try {
        const Held held(mutex_);
        if (--entry->uses != 0 || !entry->is_live) {
            return;
        }
        if (!entry->segment.is_mapped()) {  // it holds a descriptor, and nobody has found it of use
            drop(held, *entry);
            return;
        }
        entry->idle = idle_.insert(idle_.end(), entry.get());
        idle_bytes_ += entry->segment.size();
        while (idle_.size() > limits_.segments || idle_bytes_ > limits_.bytes) {
            drop(held, *idle_.front());
        }
    } catch (const std::bad_alloc&) {
        // It is kept, in use as it were.
    }
}

bool SegmentCache::drop_idle() {
    const Held held(mutex_);
    const bool has_some = !idle_.empty();
    while (!idle_.empty()) {
        drop(held, *idle_.front());
    }
    return has_some;
}

/// Moves it from the living to those that hurrayd is to be told of.
void SegmentCache::drop(const Held& held, Entry& entry) {
    const std::uint64_t number = entry.segment.number();
    const auto found = live_.find(number);
    untold_.reserve(untold_.size() + 1);
    dropping_.emplace(number, found->second);
    untold_.push_back(number);
    has_untold_ = true;
    leave_idle(held, entry);
    entry.is_live = false;
    live_.erase(found);
}

void SegmentCache::settle(Connection& connection) noexcept {
    if (!has_untold_) {
        return;
    }
    try {
        std::vector<std::uint64_t> numbers;
        {
            const Held held(mutex_);
            has_untold_ = false;
            numbers.swap(untold_);
        }
        for (std::size_t first = 0; first < numbers.size(); first += wire::kMaxSegmentNumbers) {
            const std::size_t last = std::min(numbers.size(), first + wire::kMaxSegmentNumbers);
            std::vector<std::uint64_t> told(numbers.begin() + static_cast<std::ptrdiff_t>(first),
                                            numbers.begin() + static_cast<std::ptrdiff_t>(last));
            connection.post(wire::Drop{told}, [this, told] { answered(told); });
        }
    } catch (const std::bad_alloc&) {
        // They stay mapped: whatever grant names them still finds them.
    }
}

void SegmentCache::answered(const std::vector<std::uint64_t>& numbers) {
    std::vector<std::shared_ptr<Entry>> unmapped;  // without the lock
    unmapped.reserve(numbers.size());
    const Held held(mutex_);
    for (const std::uint64_t number : numbers) {
        // Answers come in the order of what was told, and what never came was told before what came after it.
        auto [found, last] = dropping_.equal_range(number);
        if (found == last) {
            continue;
        }
        if (const auto never_came = std::find_if(found, last, [](const auto& it) { return it.second == nullptr; });
            never_came != last) {
            found = never_came;
        }
        unmapped.push_back(std::move(found->second));
        dropping_.erase(found);
    }
}

std::vector<std::shared_ptr<void>> SegmentCache::gone(const std::vector<std::uint64_t>& numbers) {
    std::vector<std::shared_ptr<void>> kept;
    kept.reserve(numbers.size());
    const Held held(mutex_);
    for (const std::uint64_t number : numbers) {
        if (const auto found = live_.find(number); found != live_.end()) {
            leave_idle(held, *found->second);
            found->second->is_live = false;
            kept.push_back(std::move(found->second));
            live_.erase(found);
        }
        // A drop of it that was never sent, for want of memory, has no answer. One that was finds nothing then.
        const auto [first, last] = dropping_.equal_range(number);
        std::transform(first, last, std::back_inserter(kept), [](auto& dropped) { return std::move(dropped.second); });
        dropping_.erase(first, last);
    }
    return kept;
}

std::vector<std::shared_ptr<void>> SegmentCache::clear() {
    std::vector<std::shared_ptr<void>> kept;
    const Held held(mutex_);
    kept.reserve(live_.size() + dropping_.size());
    for (auto& [number, entry] : live_) {
        leave_idle(held, *entry);
        entry->is_live = false;
        kept.push_back(std::move(entry));
    }
    for (auto& [number, entry] : dropping_) {
        kept.push_back(std::move(entry));
    }
    live_.clear();
    dropping_.clear();
    untold_.clear();
    has_untold_ = false;
    return kept;
}

SegmentCache::Kept SegmentCache::kept() const {
    const Held held(mutex_);
    Kept sum;
    for (const auto& [number, entry] : live_) {
        if (entry->segment.is_mapped()) {
            ++sum.segments;
            sum.bytes += entry->segment.size();
        }
    }
    sum.idle_segments = idle_.size();
    sum.idle_bytes = idle_bytes_;
    return sum;
}

}  // namespace hurray::client
