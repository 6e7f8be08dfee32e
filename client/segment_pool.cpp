#include "client/segment_pool.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "client/fork_guard.hpp"
#include "libhurray/base/check.hpp"

namespace hurray::client {

namespace {

/// What a block in a segment of its own may leave unused of it: less than one part in so many of what was asked for.
constexpr std::uint64_t kFit = 8;

/// A whole number from the environment, up to `most`. Not for a program that runs with more rights than its caller.
Result<void> read_number(const char* name, std::uint64_t most, std::uint64_t& into) {
    const char* const text = ::secure_getenv(name);
    if (text == nullptr || *text == '\0') {
        return {};
    }
    const char* const end = text + std::strlen(text);
    std::uint64_t number = 0;
    const auto [read, failed] = std::from_chars(text, end, number);
    if (failed != std::errc{} || read != end || number > most) {
        return fail_field(Errc::InvalidArgument, name,
                          "is \"" + std::string(text) + "\", allowed: 0 to " + std::to_string(most));
    }
    into = number;
    return {};
}

}  // namespace

Result<PoolLimits> PoolLimits::from_environment() {
    constexpr std::uint64_t kMostSeconds = 1'000'000'000;
    PoolLimits limits;
    if (auto read = read_number("HURRAY_POOL_BYTES", INT64_MAX, limits.bytes); !read) {
        return fail(std::move(read.error()));
    }
    auto seconds = static_cast<std::uint64_t>(limits.age / std::chrono::seconds(1));
    if (auto read = read_number("HURRAY_POOL_SECONDS", kMostSeconds, seconds); !read) {
        return fail(std::move(read.error()));
    }
    limits.age = std::chrono::seconds(seconds);
    return limits;
}

// ---- Block ----------------------------------------------------------------------------------------------------------

Block::Block(std::shared_ptr<SegmentPool> pool, std::shared_ptr<ProducerSegment> segment, std::uint64_t offset,
             std::uint64_t length, std::uint64_t dirty) noexcept
    : pool_(std::move(pool)), segment_(std::move(segment)), offset_(offset), length_(length), dirty_(dirty) {}

Block::~Block() {
    if (pool_->in_child()) {
        return;  // the parent's; this process lets go of its own mapping alone
    }
    pool_->give_back(*this);
    segment_.reset();
    if (!is_quiet_.load(std::memory_order_relaxed)) {
        pool_->sweep();
    }
}

// ---- Taking ---------------------------------------------------------------------------------------------------------

SegmentPool::SegmentPool(const PoolLimits& limits) noexcept : limits_(limits), generation_(fork_generation()) {}

bool SegmentPool::in_child() const noexcept { return generation_ != fork_generation(); }

void SegmentPool::set_books(std::weak_ptr<SegmentBooks> books) {
    const Lock lock(mutex_);
    books_ = std::move(books);
}

Result<std::shared_ptr<Block>> SegmentPool::take(std::uint64_t length, const AccessRule& access) {
    HURRAY_DCHECK(length > 0 && length % kPage == 0);
    std::uint64_t size = length;
    {
        Lock lock(mutex_);
        auto block = take_idle(lock, length, access);
        trim(lock);
        if (block != nullptr) {
            ++totals_.reused;
            lock.unlock();
            sweep();
            return block;
        }
        if (length <= kMostArenaBytes) {
            size = next_arena_size(lock, access);
        }
    }
    sweep();
    auto made = make(size, access, wire::Memory::Reusable);
    if (!made && size > kLeastArena && length <= kMostArenaBytes && made.error().code == Errc::OverQuota) {
        made = make(kLeastArena, access, wire::Memory::Reusable);  // what is left of the quota may do for this one
    }
    if (!made) {
        return fail(std::move(made.error()));
    }
    return first_block(*made, length);
}

Result<std::shared_ptr<Block>> SegmentPool::take_immutable(std::uint64_t length, const AccessRule& access) {
    HURRAY_DCHECK(length > 0 && length % kPage == 0);
    sweep();
    auto made = make(length, access, wire::Memory::Immutable);
    if (!made) {
        return fail(std::move(made.error()));
    }
    return first_block(*made, length);
}

std::shared_ptr<Block> SegmentPool::adopt(UniqueFd fd, const wire::FoundSegment& found) {
    Lock lock(mutex_);
    const auto [entry, is_fresh] = foreign_.try_emplace(found.file);
    try {
        if (is_fresh) {
            entry->second = std::make_shared<ProducerSegment>();
            ProducerSegment& segment = *entry->second;
            segment.kind = found.memory;
            segment.foreign = std::move(fd);
            segment.found = found;
            segment.number = ++last_number_;
        }
        auto block = std::make_shared<Block>(shared_from_this(), entry->second, 0, found.size, found.size);
        ++entry->second->blocks;
        return block;
    } catch (const std::bad_alloc&) {
        if (is_fresh) {
            foreign_.erase(entry);
        }
        throw;
    }
}

Result<std::shared_ptr<Block>> SegmentPool::first_block(const Segment& segment, std::uint64_t length) {
    try {
        Lock lock(mutex_);
        return take_new(lock, segment, length);
    } catch (const std::bad_alloc&) {
        if (const auto books = books_.lock()) {
            books->unreserve(segment->reservation);
        }
        throw;
    }
}

/// The first block of a new segment. Changes nothing if it throws.
std::shared_ptr<Block> SegmentPool::take_new(Lock& held, const Segment& segment, std::uint64_t length) {
    std::shared_ptr<Block> block;
    if (length > kMostArenaBytes || segment->kind == wire::Memory::Immutable) {
        block = std::make_shared<Block>(shared_from_this(), segment, 0, segment->memory->size(), 0);
        segment->dirty_end = length;
    } else {
        segment->pages.emplace(static_cast<std::uint32_t>(segment->memory->size() / kPage));
        arenas_.reserve(arenas_.size() + 1);
        block = take_from(held, segment, length);
        arenas_.push_back(segment);
        ++totals_.arenas;
        totals_.arena_bytes += segment->memory->size();
    }
    ++totals_.made;
    ++totals_.segments;
    totals_.bytes += segment->memory->size();
    return block;
}

/// A block of what is there; null: nothing fits.
std::shared_ptr<Block> SegmentPool::take_idle(Lock& held, std::uint64_t length, const AccessRule& access) {
    if (is_closed_) {
        return nullptr;
    }
    if (length <= kMostArenaBytes) {
        for (const Segment& arena : arenas_) {
            if (arena->access != access) {
                continue;
            }
            if (auto block = take_from(held, arena, length)) {
                return block;
            }
        }
        return nullptr;
    }
    const auto fit = idle_.lower_bound({access, length});
    if (fit == idle_.end() || fit->first.first != access || fit->first.second - length >= length / kFit) {
        return nullptr;
    }
    const auto latest = std::prev(idle_.upper_bound(fit->first));
    Segment segment = latest->second;
    auto block = std::make_shared<Block>(shared_from_this(), segment, 0, segment->memory->size(), segment->dirty_end);
    segment->dirty_end = length;
    end_idle(held, *segment);
    idle_.erase(latest);
    return block;
}

std::shared_ptr<Block> SegmentPool::take_from(Lock& held, const Segment& arena, std::uint64_t length) {
    PageMap& pages = *arena->pages;
    const auto count = static_cast<std::uint32_t>(length / kPage);
    const auto first = pages.take(count);
    if (!first) {
        return nullptr;
    }
    const std::uint64_t offset = *first * kPage;
    const std::uint64_t dirty = arena->dirty_end > offset ? std::min(arena->dirty_end - offset, length) : 0;
    std::shared_ptr<Block> block;
    try {
        block = std::make_shared<Block>(shared_from_this(), arena, offset, length, dirty);
    } catch (const std::bad_alloc&) {
        pages.give_back(*first, count);
        throw;
    }
    arena->dirty_end = std::max(arena->dirty_end, offset + length);
    totals_.arena_live_bytes += length;
    if (arena->is_idle) {
        end_idle(held, *arena);
    }
    return block;
}

std::uint64_t SegmentPool::next_arena_size([[maybe_unused]] Lock& held, const AccessRule& access) const noexcept {
    std::uint64_t bytes = 0;
    for (const Segment& arena : arenas_) {
        bytes += arena->access == access ? arena->memory->size() : 0;
    }
    return std::clamp(std::bit_ceil(bytes), kLeastArena, kLargestArena);
}

/// A new segment; in exchange for everything that waits, if it must be.
Result<SegmentPool::Segment> SegmentPool::make(std::uint64_t size, const AccessRule& access, wire::Memory kind) {
    std::shared_ptr<SegmentBooks> books;
    {
        const Lock lock(mutex_);
        books = books_.lock();
    }
    if (books == nullptr) {
        return fail(Errc::Closed, "this client was destroyed");
    }
    auto made = reserve_and_make(*books, size, access, kind);
    if (!made) {
        const Errc why = made.error().code;
        const bool for_want_of_room = why == Errc::OverQuota || why == Errc::NoSpace || why == Errc::Limit;
        if (for_want_of_room && drop_idle()) {
            made = reserve_and_make(*books, size, access, kind);
        }
    }
    return made;
}

Result<SegmentPool::Segment> SegmentPool::reserve_and_make(SegmentBooks& books, std::uint64_t size,
                                                           const AccessRule& access, wire::Memory kind) {
    if (auto possible = WritableSegment::check_size(size); !possible) {
        return fail(std::move(possible.error()));
    }
    auto segment = std::make_shared<ProducerSegment>();
    segment->kind = kind;
    segment->access = access;
    {
        const Lock lock(mutex_);
        segment->number = ++last_number_;
    }
    segment->reservation = segment->number;
    const auto reserved = books.reserve(segment->reservation, size);
    if (!reserved) {
        return fail(reserved.error());
    }
    segment->reserved_in = *reserved;
    const auto make_memory = [&]() -> Result<void> {
        auto memory =
            WritableSegment::create(size, kind == wire::Memory::Immutable ? Purpose::WrittenOnce : Purpose::Reuse);
        if (!memory) {
            return fail(std::move(memory.error()));
        }
        segment->memory = std::move(*memory);
        return {};
    };
    try {
        if (auto made = make_memory(); !made) {
            books.unreserve(segment->reservation);
            return fail(std::move(made.error()));
        }
    } catch (const std::bad_alloc&) {
        books.unreserve(segment->reservation);
        throw;
    }
    return segment;
}

// ---- Giving back ----------------------------------------------------------------------------------------------------

void SegmentPool::give_back(Block& block) noexcept {
    Lock lock(mutex_);
    ProducerSegment& segment = *block.segment_;
    if (segment.is_foreign()) {
        if (--segment.blocks == 0) {
            foreign_.erase(segment.found.file);
            doom(lock, block.segment_);
        }
        return;
    }
    const bool is_spoiled = block.is_spoiled_.load(std::memory_order_relaxed);
    // What the daemon was never told of waits for nobody: its reservation would show it as being written.
    bool is_of_use = !is_closed_ && segment.known_in != 0 && segment.kind == wire::Memory::Reusable;
    if (segment.pages) {
        const auto count = static_cast<std::uint32_t>(block.length_ / kPage);
        totals_.arena_live_bytes -= block.length_;
        if (is_spoiled) {
            segment.pages->retire(count);
            totals_.arena_retired_bytes += block.length_;
        } else {
            segment.pages->give_back(static_cast<std::uint32_t>(block.offset_ / kPage), count);
        }
        if (segment.pages->live() != 0) {
            return;
        }
        is_of_use = is_of_use && segment.pages->retired() == 0;
        if (is_of_use) {
            begin_idle(lock, segment);
        } else {
            std::erase(arenas_, block.segment_);
        }
    } else {
        is_of_use = is_of_use && !is_spoiled;
        if (is_of_use) {
            try {
                idle_.emplace(std::pair(segment.access, segment.memory->size()), block.segment_);
                begin_idle(lock, segment);
            } catch (const std::bad_alloc&) {
                is_of_use = false;
            }
        }
    }
    if (!is_of_use) {
        doom(lock, block.segment_);
    }
    trim(lock);
}

void SegmentPool::begin_idle([[maybe_unused]] Lock& held, ProducerSegment& segment) noexcept {
    segment.is_idle = true;
    segment.idle_since = now_();
    next_expiry_ = std::min(next_expiry_, segment.idle_since + limits_.age);
    ++totals_.idle_segments;
    totals_.idle_bytes += segment.memory->size();
}

void SegmentPool::end_idle([[maybe_unused]] Lock& held, ProducerSegment& segment) noexcept {
    segment.is_idle = false;
    --totals_.idle_segments;
    totals_.idle_bytes -= segment.memory->size();
}

/// It is on no list any more.
void SegmentPool::doom([[maybe_unused]] Lock& held, const Segment& segment) noexcept {
    if (!segment->is_foreign()) {
        --totals_.segments;
        totals_.bytes -= segment->memory->size();
    }
    if (segment->pages) {
        --totals_.arenas;
        totals_.arena_bytes -= segment->memory->size();
        totals_.arena_retired_bytes -= segment->pages->retired() * kPage;
    }
    try {
        doomed_.push_back(segment);
    } catch (const std::bad_alloc&) {
        // Unmapped by its last owner; the daemon keeps it for as long as this session lives.
    }
}

/// Lets go what waits too long or is too much, longest first.
void SegmentPool::trim(Lock& held) noexcept {
    const auto now = now_();
    const auto is_too_much = [&] {
        return totals_.idle_bytes > limits_.bytes || totals_.idle_segments > limits_.segments;
    };
    while (is_too_much() || now >= next_expiry_) {
        auto oldest = std::min_element(idle_.begin(), idle_.end(), [](const auto& a, const auto& b) {
            return a.second->idle_since < b.second->idle_since;
        });
        auto oldest_arena = arenas_.end();
        for (auto arena = arenas_.begin(); arena != arenas_.end(); ++arena) {
            if ((*arena)->is_idle &&
                (oldest_arena == arenas_.end() || (*arena)->idle_since < (*oldest_arena)->idle_since)) {
                oldest_arena = arena;
            }
        }
        const bool is_arena = oldest_arena != arenas_.end() &&
                              (oldest == idle_.end() || (*oldest_arena)->idle_since < oldest->second->idle_since);
        if (!is_arena && oldest == idle_.end()) {
            next_expiry_ = Clock::time_point::max();
            return;
        }
        const Segment segment = is_arena ? *oldest_arena : oldest->second;
        next_expiry_ = segment->idle_since + limits_.age;
        if (!is_too_much() && now < next_expiry_) {
            return;
        }
        if (is_arena) {
            arenas_.erase(oldest_arena);
        } else {
            idle_.erase(oldest);
        }
        end_idle(held, *segment);
        doom(held, segment);
    }
}

/// Whether there was something that waited.
bool SegmentPool::drop_idle() noexcept {
    {
        Lock lock(mutex_);
        if (totals_.idle_segments == 0) {
            return false;
        }
        for (const auto& [key, segment] : idle_) {
            end_idle(lock, *segment);
            doom(lock, segment);
        }
        idle_.clear();
        std::erase_if(arenas_, [&](const Segment& arena) {
            if (!arena->is_idle) {
                return false;
            }
            end_idle(lock, *arena);
            doom(lock, arena);
            return true;
        });
    }
    sweep();
    return true;
}

void SegmentPool::close() noexcept {
    {
        const Lock lock(mutex_);
        is_closed_ = true;
    }
    [[maybe_unused]] const bool had_some = drop_idle();
}

bool SegmentPool::expire() noexcept {
    bool has_some = false;
    {
        Lock lock(mutex_);
        trim(lock);
        has_some = totals_.segments != 0;
    }
    sweep();
    return has_some;
}

bool SegmentPool::needs_sweep() {
    const Lock lock(mutex_);
    return !doomed_.empty();
}

void SegmentPool::sweep() noexcept {
    std::vector<Segment> gone;
    std::shared_ptr<SegmentBooks> books;
    {
        const Lock lock(mutex_);
        if (doomed_.empty()) {
            return;
        }
        gone.swap(doomed_);
        books = books_.lock();
    }
    if (books == nullptr) {
        return;
    }
    try {
        std::vector<std::uint64_t> known;
        for (const Segment& segment : gone) {
            if (segment->known_in == 0 && segment->reservation != 0) {
                books->unreserve(segment->reservation);
            }
            known.push_back(segment->number);  // known or not: a publish that brought it may be without its answer
        }
        books->forget(std::move(known));
    } catch (const std::bad_alloc&) {
        // The daemon keeps them for as long as this session lives.
    }
}

SegmentPool::Totals SegmentPool::totals() {
    const Lock lock(mutex_);
    return totals_;
}

}  // namespace hurray::client
