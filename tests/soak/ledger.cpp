#include "tests/soak/ledger.hpp"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <new>
#include <system_error>
#include <thread>

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libhurray/base/check.hpp"

namespace hurray::soak {
namespace {

constexpr std::size_t kHeadBytes = 4096;
constexpr std::size_t kLine = 64;  // each producer's count has a cache line of its own

constexpr unsigned kIndexBits = 32;  // of a stamp that tells where its record is

Record& writable(const Record& record) {
    return const_cast<Record&>(record);  // NOLINT(cppcoreguidelines-pro-type-const-cast)
}

[[noreturn]] void throw_errno(const char* what) { throw std::system_error(errno, std::generic_category(), what); }

}  // namespace

void Ledger::Unmap::operator()(std::byte* memory) const noexcept { ::munmap(memory, size); }

Ledger::Ledger(UniqueFd fd, std::size_t size) : fd_(std::move(fd)) {
    void* const memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0);
    if (memory == MAP_FAILED) {
        throw_errno("mmap of the ledger");
    }
    memory_ = {static_cast<std::byte*>(memory), Unmap{size}};
}

Ledger Ledger::create(std::size_t producers, std::size_t leavers, std::size_t records) {
    static_assert(sizeof(Head) <= kHeadBytes);
    const std::size_t size = kHeadBytes + (producers + leavers) * (kLine + records * sizeof(Record));
    UniqueFd fd(::memfd_create("soak-ledger", MFD_CLOEXEC));
    if (!fd || ::ftruncate(fd.get(), static_cast<off_t>(size)) != 0) {
        throw_errno("memory for the ledger");
    }
    Ledger ledger(std::move(fd), size);
    new (&ledger.head()) Head{producers, leavers, records, {}, {}};
    for (std::size_t i = 0; i < ledger.pages(); ++i) {
        new (&ledger.count(i)) std::atomic<std::size_t>(0);
    }
    return ledger;
}

Ledger Ledger::open(int fd) {
    struct stat state{};
    if (::fstat(fd, &state) != 0) {
        throw_errno("the ledger's descriptor");
    }
    return {UniqueFd(fd), static_cast<std::size_t>(state.st_size)};
}

std::atomic<std::size_t>& Ledger::count(std::size_t page) const noexcept {
    return *reinterpret_cast<std::atomic<std::size_t>*>(memory_.get() + kHeadBytes + page * kLine);
}

Record* Ledger::first_of(std::size_t page) const noexcept {
    std::byte* const first = memory_.get() + kHeadBytes + pages() * kLine;
    return reinterpret_cast<Record*>(first) + page * head().records;
}

void Ledger::append(std::size_t page, const Record& record) {
    const std::size_t index = size(page);
    HURRAY_CHECK(index < head().records);
    new (first_of(page) + index) Record(record);
    count(page).store(index + 1);
}

const Record& Ledger::at(std::size_t page, std::size_t index) const noexcept { return first_of(page)[index]; }

const Record* Ledger::find(std::size_t page, const CapsuleId& capsule) const {
    const auto gives_up = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    std::size_t looked_at = 0;
    do {
        const std::size_t written = size(page);
        for (std::size_t i = written; i-- > looked_at;) {  // what is attached is seldom old
            if (at(page, i).capsule == capsule) {
                return &at(page, i);
            }
        }
        looked_at = written;
        std::this_thread::yield();
    } while (std::chrono::steady_clock::now() < gives_up);
    return nullptr;
}

std::uint64_t Ledger::next_stamp(std::size_t page, std::uint64_t noise) const noexcept {
    return (noise << kIndexBits) | size(page);
}

const Record* Ledger::find_stamped(std::size_t page, std::span<const std::byte> bytes) const noexcept {
    std::uint64_t stamp = 0;
    if (bytes.size() < sizeof stamp) {
        return nullptr;
    }
    std::memcpy(&stamp, bytes.data(), sizeof stamp);
    const std::size_t index = stamp & ((std::uint64_t{1} << kIndexBits) - 1);
    return index < size(page) && at(page, index).stamp == stamp ? &at(page, index) : nullptr;
}

std::uint32_t Ledger::times_taken(const Record& record) noexcept {
    return std::atomic_ref(writable(record).taken).load();
}

Fate Ledger::fate_of(const Record& record) noexcept { return std::atomic_ref(writable(record).fate).load(); }

void Ledger::set_fate(const Record& record, Fate fate) noexcept { std::atomic_ref(writable(record).fate).store(fate); }

void Ledger::note_kept(const Record& record, const CapsuleId& capsule) noexcept {
    writable(record).capsule = capsule;
    set_fate(record, Fate::Kept);
}

std::uint32_t Ledger::note_taken(const Record& record) noexcept { return std::atomic_ref(writable(record).taken)++; }

}  // namespace hurray::soak
