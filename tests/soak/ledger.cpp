#include "tests/soak/ledger.hpp"

#include <cerrno>
#include <chrono>
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

Ledger Ledger::create(std::size_t producers, std::size_t records) {
    static_assert(sizeof(Head) <= kHeadBytes);
    const std::size_t size = kHeadBytes + producers * (kLine + records * sizeof(Record));
    UniqueFd fd(::memfd_create("soak-ledger", MFD_CLOEXEC));
    if (!fd || ::ftruncate(fd.get(), static_cast<off_t>(size)) != 0) {
        throw_errno("memory for the ledger");
    }
    Ledger ledger(std::move(fd), size);
    new (&ledger.head()) Head{producers, records, {}};
    for (std::size_t i = 0; i < producers; ++i) {
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

std::atomic<std::size_t>& Ledger::count(std::size_t producer) const noexcept {
    return *reinterpret_cast<std::atomic<std::size_t>*>(memory_.get() + kHeadBytes + producer * kLine);
}

Record* Ledger::page(std::size_t producer) const noexcept {
    std::byte* const pages = memory_.get() + kHeadBytes + head().producers * kLine;
    return reinterpret_cast<Record*>(pages) + producer * head().records;
}

void Ledger::append(std::size_t producer, const Record& record) {
    const std::size_t index = size(producer);
    HURRAY_CHECK(index < head().records);
    new (page(producer) + index) Record(record);
    count(producer).store(index + 1);
}

const Record& Ledger::at(std::size_t producer, std::size_t index) const noexcept { return page(producer)[index]; }

const Record* Ledger::find(std::size_t producer, const CapsuleId& capsule) const {
    const auto gives_up = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    std::size_t looked_at = 0;
    do {
        const std::size_t written = size(producer);
        for (std::size_t i = written; i-- > looked_at;) {  // what is attached is seldom old
            if (at(producer, i).capsule == capsule) {
                return &at(producer, i);
            }
        }
        looked_at = written;
        std::this_thread::yield();
    } while (std::chrono::steady_clock::now() < gives_up);
    return nullptr;
}

std::uint32_t Ledger::note_taken(const Record& record) noexcept {
    return std::atomic_ref(const_cast<Record&>(record).taken)++;  // NOLINT(cppcoreguidelines-pro-type-const-cast)
}

}  // namespace hurray::soak
